// What a module's functions ask of memory (counts.cpp).
#ifndef HEARTH_COUNTS_H
#define HEARTH_COUNTS_H

#include <llvm/ADT/ArrayRef.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>
#include <string>

namespace counts {

// Attribute of a call: the positions that it pushes on the call path, none if its function passes on the path, 0 where the path ends.
constexpr const char *POSITIONS = "hearth.positions";

void set_positions(llvm::CallBase &call, llvm::ArrayRef<uint32_t> all);

// The text of the section hearth_counts for this module, which is left as it is.
std::string of(const llvm::Module &module);

} // namespace counts

#endif
