// The passes of the plugin (sites.cpp, weightless.cpp, twice.cpp), and what all know.
#ifndef HEARTH_SITES_H
#define HEARTH_SITES_H

#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PassManager.h>

// The thread-local variable that the call path is written into.
constexpr const char *PATH = "__hearth_path";

// Where a function reaches it.
inline bool is_path(const llvm::Instruction &i, const llvm::GlobalVariable *path) {
  auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  return call && call->getIntrinsicID() == llvm::Intrinsic::threadlocal_address && call->getArgOperand(0) == path;
}

// Makes a program say where in its source it allocates.
struct HearthSites : llvm::PassInfoMixin<HearthSites> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &analyses);
  static bool isRequired() { return true; }
};

// Keeps that from changing what is inlined.
struct HearthWeightless : llvm::PassInfoMixin<HearthWeightless> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

// Makes it say nothing where no Hearth is.
struct HearthTwice : llvm::PassInfoMixin<HearthTwice> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &analyses);
  static bool isRequired() { return true; }
};

#endif
