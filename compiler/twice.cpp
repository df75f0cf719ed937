// A second pass, at the end: of each function that says paths there is one more, which says none.
//
// Where no Hearth is, nobody reads paths, and saying them is most of what the first pass costs (sites.cpp). So the function forgets them, and a copy of it says them and calls other copies. A
// function that is called from another file or through a pointer asks, by two instructions, whether Hearth's runtime is in the process, and goes to its copy if it is: the
// loader has looked up an address for it before any code of the program has run. It asks at its beginning, or in those of its branches that say a path if nothing has happened by then:
// the copy begins anew. What is inlined has been inlined by now, in the same way for both.
//
// A function that cannot be copied, as it takes a list of arguments or a structure on the stack or its labels are kept elsewhere, says paths in any case.

#include "sites.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>
#include <llvm/Transforms/Utils/ValueMapper.h>

using namespace llvm;

namespace {

// Its address is null where no Hearth is: the runtime exports it.
constexpr const char *HERE = "__hearth_here";

// Variables of the file that hold a label of a function, and are used by nothing else. False: there are others.
bool find_tables(const Constant &label, const Function &f, SmallVector<GlobalVariable *> &tables) {
  return all_of(label.users(), [&](const User *user) {
    if (auto *i = dyn_cast<Instruction>(user))
      return i->getFunction() == &f;
    auto *table = dyn_cast<GlobalVariable>(user);
    if (!table)
      return isa<Constant>(user) && !isa<GlobalValue>(user) && find_tables(*cast<Constant>(user), f, tables);
    if (is_contained(tables, table))
      return true;
    tables.push_back(const_cast<GlobalVariable *>(table));
    return table->hasLocalLinkage() && find_tables(*table, f, tables);
  });
}

// A copy of a function, if there can be one.
Function *copied(Function &f) {
  // LLVM 19 does not hand on what is passed by its bytes on the stack: the caller's frame is overwritten.
  auto is_on_stack = [](const Argument &a) { return a.hasPassPointeeByValueCopyAttr(); };
  if (f.isVarArg() || f.isPresplitCoroutine() || any_of(f.args(), is_on_stack))
    return nullptr;
  Module &module = *f.getParent();
  // Tables of labels are copied, too.
  SmallVector<GlobalVariable *> tables;
  for (BasicBlock &block : f)
    if (BlockAddress *label = BlockAddress::lookup(&block))
      if (!find_tables(*label, f, tables))
        return nullptr;
  ValueToValueMapTy map;
  for (GlobalVariable *table : tables) {
    auto *other = new GlobalVariable(module, table->getValueType(), table->isConstant(), table->getLinkage(), nullptr, table->getName() + ".hearth");
    other->copyAttributesFrom(table);
    map[table] = other;
  }
  Function *copy = CloneFunction(&f, map);
  for (GlobalVariable *table : tables)
    cast<GlobalVariable>(map[table])->setInitializer(MapValue(table->getInitializer(), map));
  copy->setName(f.getName() + ".hearth");
  // All copies lie beside each other, and the rest of the program as closely together as it would without them.
  if (!f.hasSection())
    copy->setSectionPrefix("unlikely");
  if (f.hasLocalLinkage())
    return copy;
  copy->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  copy->setVisibility(GlobalValue::DefaultVisibility);
  if (f.hasLinkOnceODRLinkage() || f.hasWeakODRLinkage()) {
    // Of functions that every file has, one copy is kept.
    copy->setLinkage(GlobalValue::LinkOnceODRLinkage);
    copy->setVisibility(GlobalValue::HiddenVisibility);
    copy->setComdat(module.getOrInsertComdat(copy->getName()));
  } else {
    copy->setLinkage(GlobalValue::InternalLinkage);
    copy->setComdat(nullptr);
  }
  return copy;
}

// Whoever calls this function means this body, and no other one that the linker or the loader may put in its place.
bool is_this_body(const Function &f) { return !f.isInterposable() && (f.isDSOLocal() || f.hasLinkOnceLinkage()); }

// Where something is said of a path, or a function is called that is called by its copy.
using Blocks = SmallPtrSet<const BasicBlock *, 16>;

// Takes out of a function what it says of paths: gives where that was.
Blocks forget(Function &f, const GlobalVariable *path) {
  Blocks said;
  SmallVector<Instruction *> places;
  for (Instruction &i : instructions(f))
    if (is_path(i, path))
      places.push_back(&i);
  SmallPtrSet<Instruction *, 16> known(places.begin(), places.end()), done;
  for (size_t n = 0; n < places.size(); n++)
    for (User *user : places[n]->users()) {
      auto *i = cast<Instruction>(user);
      auto *store = dyn_cast<StoreInst>(i);
      if (isa<GetElementPtrInst, PHINode, SelectInst>(i)) {
        if (known.insert(i).second)
          places.push_back(i);
      } else if (isa<LoadInst>(i) || isa<MemSetInst>(i) || (store && store->getValueOperand() != places[n])) {
        done.insert(i);
      }
    }
  for (Instruction *i : done) {
    said.insert(i->getParent());
    if (!i->use_empty())
      i->replaceAllUsesWith(Constant::getNullValue(i->getType()));
    i->eraseFromParent();
  }
  SmallVector<WeakTrackingVH> rest(places.begin(), places.end());
  RecursivelyDeleteTriviallyDeadInstructionsPermissive(rest);
  return said;
}

// Whether a block may be gone through once more from the beginning of its function.
bool changes_nothing(const BasicBlock &block) {
  return none_of(block, [](const Instruction &i) { return i.mayHaveSideEffects() && !i.isLifetimeStartOrEnd() && !i.isDebugOrPseudoInst(); });
}

// Blocks at whose beginning a function asks, each as late as it can be. No loop comes before it, which would be gone through twice.
void find_switches(BasicBlock &block, const Blocks &said, const DominatorTree &dominators, const LoopInfo &loops, SmallVectorImpl<BasicBlock *> &found) {
  SmallSetVector<BasicBlock *, 4> branches;
  bool here = said.contains(&block) || loops.getLoopFor(&block) || !changes_nothing(block);
  for (const BasicBlock *sayer : said)
    if (!here && dominators.isReachableFromEntry(sayer) && dominators.dominates(&block, sayer)) {
      auto leads_there = [&](BasicBlock *next) { return next->getSinglePredecessor() == &block && dominators.dominates(next, sayer); };
      auto branch = find_if(successors(&block), leads_there);
      here = branch == succ_end(&block);
      if (!here)
        branches.insert(*branch);
    }
  if (here)
    return found.push_back(&block);
  for (BasicBlock *branch : branches)
    find_switches(*branch, said, dominators, loops, found);
}

// At the beginning of a block: if the runtime is there, the function's work is for the copy.
void add_switch(Function &f, BasicBlock &block, Function &copy) {
  Module &module = *f.getParent();
  GlobalVariable *here = module.getNamedGlobal(HERE);
  if (!here)
    // By way of the table of addresses that the loader fills in, in an executable that is not PIE, too.
    here = new GlobalVariable(module, Type::getInt8Ty(module.getContext()), true, GlobalValue::ExternalWeakLinkage, nullptr, HERE);
  BasicBlock *body = block.splitBasicBlock(block.getFirstNonPHIOrDbgOrAlloca(), "hearth.alone");
  BasicBlock *other = BasicBlock::Create(f.getContext(), "hearth.saying", &f);
  block.getTerminator()->eraseFromParent();
  IRBuilder<> b(&block);
  if (DISubprogram *where = f.getSubprogram())
    b.SetCurrentDebugLocation(DILocation::get(f.getContext(), 0, 0, where));
  b.CreateCondBr(b.CreateIsNull(here), body, other, MDBuilder(f.getContext()).createLikelyBranchWeights());
  b.SetInsertPoint(other);
  SmallVector<Value *> arguments;
  for (Argument &argument : f.args())
    arguments.push_back(&argument);
  CallInst *call = b.CreateCall(&copy, arguments);
  call->setCallingConv(f.getCallingConv());
  call->setAttributes(f.getAttributes().removeFnAttributes(f.getContext()));
  // By a link-time optimiser.
  call->addFnAttr(Attribute::NoInline);
  call->setTailCallKind(CallInst::TCK_MustTail);
  if (f.getReturnType()->isVoidTy())
    b.CreateRetVoid();
  else
    b.CreateRet(call);
}

} // namespace

PreservedAnalyses HearthTwice::run(Module &module, ModuleAnalysisManager &analyses) {
  GlobalVariable *path = module.getNamedGlobal(PATH);
  if (!path || module.getNamedGlobal(HERE))
    return PreservedAnalyses::all();
  SmallVector<std::pair<Function *, Function *>> both;
  SmallVector<Function *> all;
  for (Function &f : module)
    if (any_of(instructions(f), [&](const Instruction &i) { return is_path(i, path); }))
      all.push_back(&f);
  DenseMap<const Function *, Function *> copies;
  for (Function *f : all)
    if (Function *copy = copied(*f)) {
      both.push_back({f, copy});
      copies[f] = copy;
    }
  for (auto [f, copy] : both)
    for (Instruction &i : instructions(*copy))
      if (auto *call = dyn_cast<CallBase>(&i))
        if (Function *callee = call->getCalledFunction(); callee && is_this_body(*callee))
          if (Function *other = copies.lookup(callee))
            call->setCalledFunction(other);
  auto stays = [&](const Use &use) {
    auto *call = dyn_cast<CallBase>(use.getUser());
    return call && call->isCallee(&use) && copies.contains(call->getFunction());
  };
  auto &functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
  for (auto [f, copy] : both) {
    Blocks said = forget(*f, path);
    if (!f->hasLocalLinkage() || !all_of(f->uses(), stays)) {
      for (Instruction &i : instructions(*f))
        if (auto *call = dyn_cast<CallBase>(&i))
          if (Function *callee = call->getCalledFunction(); callee && copies.contains(callee))
            said.insert(i.getParent());
      DominatorTree dominators(*f);
      SmallVector<BasicBlock *> asks;
      find_switches(f->getEntryBlock(), said, dominators, LoopInfo(dominators), asks);
      for (BasicBlock *block : asks)
        add_switch(*f, *block, *copy);
    }
    functions.invalidate(*f, PreservedAnalyses::none());
    if (!f->hasOptNone()) {
      // What is left of the paths: values that nobody uses, and blocks in which nothing happens.
      FunctionPassManager tidy;
      tidy.addPass(ADCEPass());
      tidy.addPass(SimplifyCFGPass());
      functions.invalidate(*f, tidy.run(*f, functions));
    }
  }
  return PreservedAnalyses::none();
}
