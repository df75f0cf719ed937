// What a module's functions ask of memory (counts.cpp).
#ifndef HEARTH_COUNTS_H
#define HEARTH_COUNTS_H

#include <llvm/ADT/ArrayRef.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>
#include <string>

// The function that a call calls, by whichever of its names: a constructor has two.
inline llvm::Function *called(const llvm::CallBase &call) {
  auto *f = llvm::dyn_cast<llvm::Function>(call.getCalledOperand()->stripPointerCastsAndAliases());
  return f && f->getFunctionType() == call.getFunctionType() ? f : nullptr;
}

namespace counts {

// Attribute of a call: the positions that it pushes on the call path, none if its function passes on the path, 0 where the path ends.
constexpr const char *POSITIONS = "hearth.positions";

void set_positions(llvm::CallBase &call, llvm::ArrayRef<uint32_t> all);

// The text of the section hearth_counts for this module, which is left as it is.
std::string of(const llvm::Module &module);

} // namespace counts

#endif
