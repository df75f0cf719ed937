// A pass between the other two: functions are put into their callers as they would be if they said no paths.
//
// The compiler weighs a function before it puts it into a caller, and each access of the path would weigh five points (InlineConstants::InstrCost). A call in it may carry a bonus for the
// whole function (call-threshold-bonus), also an intrinsic one, and what gives the path's address is such. It is set each time that a function has been simplified, before it is weighed: what
// has been put into the function by then has brought bonuses of its own.

#include "sites.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

using namespace llvm;

PreservedAnalyses HearthWeightless::run(Function &f, FunctionAnalysisManager &) {
  const GlobalVariable *path = f.getParent()->getNamedGlobal(PATH);
  if (!path)
    return PreservedAnalyses::all();
  CallBase *first = nullptr;
  unsigned accesses = 0;
  for (Instruction &i : instructions(f)) {
    if (is_path(i, path)) {
      auto &address = cast<CallBase>(i);
      address.removeFnAttr("call-threshold-bonus");
      first = first ? first : &address;
    }
    const Value *at = getLoadStorePointerOperand(&i);
    auto *address = at ? dyn_cast<Instruction>(at->stripInBoundsConstantOffsets()) : nullptr;
    accesses += address && is_path(*address, path);
  }
  if (first)
    first->addFnAttr(Attribute::get(f.getContext(), "call-threshold-bonus", std::to_string(5 * accesses)));
  return PreservedAnalyses::all();
}
