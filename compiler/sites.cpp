// The LLVM pass behind hearth-cc, hearth-c++ and hearth-fc: it makes a program say where in its source it allocates.
//
// A position is a call in the source: file, line, column, function and what is called, of which a number of 32 bits is made that is the same in every build. Before a
// call that may allocate, the program writes the call path that leads to it (the last positions, the innermost lowest) into a thread-local variable, and
// clears it afterwards:
//
//     __hearth_path = {position, path on entry[0], [1]};  p = malloc(n);  __hearth_path[0] = 0;
//
// A function with such calls takes the path over when it is entered. So the call path is carried, where paper 003 (section 3.1) clones functions: nothing grows
// but by a few instructions a call, files are compiled one by one, and a path goes through files that were compiled apart. What was inlined carries
// constants. Hearth's runtime reads the variable in malloc and needs no walk of the stack; without Hearth nobody reads it, and in the end nobody writes it (twice.cpp).
//
// As few instructions as will do: a call is given no more positions than what it leads to can still use (wanted()), a function reads what it was given where it first needs it, if
// at all (take_over_late()), and the path is cleared, by its lowest word, only where somebody may allocate before the next path is said (is_left_alone()). A function of
// which all callers are known to say a path leaves that to them (find_leavers()).
//
// Functions of system headers, and wrappers that the user names, pass on the path that they were called with: std::vector's memory is of the
// line that declares the vector.
//
// The section hearth_sites has a line of text for each position (see record()).

#include "counts.h"
#include "sites.h"

#include <array>
#include <cstdlib>
#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringSet.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/Path.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>
#include <map>

using namespace llvm;

namespace {

constexpr const char *SECTION = "hearth_sites";
constexpr const char *COUNTS = "hearth_counts";
// Positions that the runtime reads.
constexpr unsigned MOST_LAYERS = 3;

// What allocates, wherever it is defined.
bool allocates(StringRef name) {
  static const StringSet<> names = {
      "malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "posix_memalign", "valloc", "pvalloc", "strdup", "strndup",
      "__strdup", "__strndup", "mmap", "mmap64", "mremap", "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t",
      "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t",
      // Flang's run-time library: ALLOCATE, and assignments to what is allocatable.
      "_FortranAAllocatableAllocate", "_FortranAAllocatableAllocateSource", "_FortranAPointerAllocate", "_FortranAPointerAllocateSource",
      "_FortranAAssign"};
  return names.contains(name);
}

// What may wait for other processes, and so begins a phase under --phases (docs/mpi.md); who says it too often does no harm.
bool communicates(StringRef name) {
  return name.starts_with("MPI_") || name.starts_with("mpi_");
}

// Whether a function whose body is elsewhere may make what it gives, to go by its name: of interpreters and the like every second call gives a pointer, and
// most only look something up.
bool sounds_like_making(StringRef name) {
  static const char *const verbs[] = {"alloc", "new",  "create", "make", "build", "dup",  "clone",  "copy", "grow",  "resize", "reserve", "extend", "append",
                                      "init",  "open", "load",   "read", "parse", "concat", "join", "split", "vector", "matrix",  "array",  "buf"};
  std::string lower = name.lower();
  return any_of(verbs, [&](const char *verb) { return lower.find(verb) != std::string::npos; });
}

// Functions of run-time libraries that give pointers, and come with every second line.
bool is_of_runtime(StringRef name) {
  return name.starts_with("__cxa_") || name.starts_with("__clang_") || name.starts_with("__ctype_") || name.starts_with("_FortranAio") ||
         name.starts_with("__kmpc_") || name == "__errno_location" || name == "__dynamic_cast" || name == "__tls_get_addr";
}

// Of the standard library's strings and allocators, what never allocates; without optimisation even the smallest of these are calls.
bool makes_nothing(StringRef name) {
  if (!name.consume_front("_ZNK") && !name.consume_front("_ZN"))
    return false;
  auto has = [&](ArrayRef<StringRef> parts) { return any_of(parts, [&](StringRef part) { return name.contains(part); }); };
  if (name.consume_front("St7__cxx1112basic_stringI"))
    return has({"D1Ev", "D2Ev", "_M_dispose", "_M_destroy", "_M_data", "_M_local_data", "_M_is_local", "_M_length", "_M_set_length", "_M_capacity", "_M_get_allocator",
                "4sizeEv", "6lengthEv", "4dataEv", "5c_strEv", "5emptyEv"});
  return name.starts_with("SaI") && has({"C1E", "C2E", "D1E", "D2E"});
}

// A constructor that moves (`C1EOS_`, of a class that is a template `C1EOS4_`): it takes what another object has.
bool moves(StringRef name) {
  for (StringRef kind : {"C1EOS", "C2EOS"})
    if (size_t at = name.rfind(kind); at != StringRef::npos && name.back() == '_')
      return all_of(name.drop_front(at + kind.size()).drop_back(), isAlnum);
  return false;
}

// What the user has said by way of the wrapper compilers.
struct Wishes {
  unsigned layers = MOST_LAYERS;
  StringSet<> wrappers;

  Wishes() {
    if (const char *text = std::getenv("HEARTH_LAYERS"))
      if (unsigned n; !StringRef(text).getAsInteger(10, n) && n >= 1 && n <= MOST_LAYERS)
        layers = n;
    if (const char *text = std::getenv("HEARTH_WRAPPERS")) {
      SmallVector<StringRef> all;
      StringRef(text).split(all, ',', -1, false);
      for (StringRef name : all)
        wrappers.insert(name);
    }
  }
};

// FNV-1a (Fowler, Noll, Vo) with 64 bits, folded: collisions are those of 31 bits, and said by whoever reads the table. Never 0.
uint32_t number_of(StringRef text) {
  uint64_t h = 0xcbf29ce484222325;
  for (unsigned char c : text)
    h = (h ^ c) * 0x100000001b3;
  uint32_t n = uint32_t(h ^ h >> 32) & ~1u;
  return n ? n : 2;
}

class Annotation {
  Module &module;
  FunctionAnalysisManager &analyses;
  const Wishes wishes;
  GlobalVariable *path = nullptr;
  // How many layers of calls above its callers are of use to a function: 1 if it allocates itself.
  DenseMap<const Function *, unsigned> depth;
  // Of those that a function was called with, positions that it needs.
  DenseMap<const Function *, unsigned> needed;
  // Functions that may leave a path behind, which their callers clear.
  SmallPtrSet<const Function *, 16> leaves;
  // Functions that may leave the path behind that they were called with, but none that they have said.
  SmallPtrSet<const Function *, 16> leaves_given;
  // Functions that never allocate.
  SmallPtrSet<const Function *, 16> quiet;
  // Functions whose callers' paths are read by what these call.
  SmallPtrSet<const Function *, 16> relays;
  // Of the function at hand, before anything is written into it.
  DominatorTree *dominators = nullptr;

  // A function that passes on the path it was called with.
  bool is_transparent(const Function &f) const {
    return is_wrapper(f) || is_of_system(f) || leads_to_region(f);
  }

  // With -g, clang puts the body of a parallel region into a function of its own, with this in its name, that the region's calls.
  static bool leads_to_region(const Function &f) {
    auto is_body = [](const Instruction &i) {
      auto *call = dyn_cast<CallBase>(&i);
      const Function *callee = call ? called(*call) : nullptr;
      return callee && callee->getName().contains(".omp_outlined_debug__");
    };
    return f.getName().contains(".omp_outlined") && !f.getName().contains("_debug__") && any_of(instructions(f), is_body);
  }

  // As a function is called in positions. Regions are numbered among all functions that the compiler has made, which are others with -g: it is their lines that tell them apart.
  static StringRef name_of(const Function &f) {
    static const StringRef region = ".omp_outlined";
    size_t at = f.getName().find(region);
    return at == StringRef::npos ? f.getName() : f.getName().take_front(at + region.size());
  }

  // By the user's word, on the command line or in the source: __attribute__((malloc)) or ((alloc_size)).
  bool is_wrapper(const Function &f) const {
    return wishes.wrappers.contains(f.getName()) || f.hasFnAttribute(Attribute::AllocSize) || f.hasRetAttribute(Attribute::NoAlias);
  }

  static bool is_of_system(const Function &f) {
    const DISubprogram *where = f.getSubprogram();
    if (!where)
      return false;
    StringRef file = where->getFilename();
    if (file.starts_with("/usr/include/") || file.starts_with("/usr/local/include/") || file.contains("/include/c++/"))
      return true;
    // Those of compilers and libraries, and no program that was built in a folder of such a name.
    return file.contains("/include/") && (file.starts_with("/usr/lib/") || file.contains("/lib/gcc/") || file.contains("/lib/clang/"));
  }

  // A call into another file that may allocate: of what is named, or gives a pointer or an object, and sounds as if it were made there.
  bool may_allocate(const CallBase &call) {
    const Function *callee = called(call);
    if (callee) {
      if (callee->isIntrinsic())
        return false;
      if (allocates(callee->getName()) || communicates(callee->getName()) || is_wrapper(*callee))
        return true;
      if (moves(callee->getName()))
        return false;
      // What of std::string is not in headers.
      if (callee->getName().starts_with("_ZNSt7__cxx1112basic_string"))
        return !makes_nothing(callee->getName());
      LibFunc known;
      if (is_of_runtime(callee->getName()) || analyses.getResult<TargetLibraryAnalysis>(*const_cast<Function *>(call.getFunction())).getLibFunc(*callee, known))
        return false;
      ItaniumPartialDemangler name;
      StringRef mangled = callee->getName();
      if (mangled.starts_with("_ZN") && (mangled.contains("C1E") || mangled.contains("C2E")) && !name.partialDemangle(mangled.str().c_str()) &&
          name.isCtorOrDtor())
        return !makes_nothing(mangled);
    } else if (call.isInlineAsm()) {
      return false;
    }
    if (call.onlyReadsMemory())
      return false;
    if (callee && !sounds_like_making(callee->getName()))
      return false;
    // A reference is to what is there already, and who is called through a pointer and gives what nobody wants has made nothing (an allocator of many uses that frees).
    if (call.getType()->isPointerTy())
      return !call.hasRetAttr(Attribute::Dereferenceable) && (callee || !call.use_empty());
    return call.hasStructRetAttr();
  }

  // Whether other files compile a function: of some, clang makes a body here as well where it optimises (C's inline functions, templates that a library has), and positions are
  // to be the same without.
  static bool is_elsewhere(const Function &f) { return f.isDeclaration() || f.hasAvailableExternallyLinkage(); }

  // How deep what this call leads to is, 0: it does not allocate as far as one can see.
  unsigned depth_of(const CallBase &call) {
    const Function *callee = called(call);
    if (!callee || is_elsewhere(*callee) || allocates(callee->getName()))
      return may_allocate(call) ? 1 : 0;
    unsigned below = depth.lookup(callee);
    return below == 0 ? 0 : below + (is_transparent(*callee) ? 0 : 1);
  }

  void find_depths() {
    for (bool changed = true; changed;) {
      changed = false;
      for (Function &f : module) {
        if (f.isDeclaration() || !can_be_changed(f))
          continue;
        unsigned &own = depth[&f];
        for (Instruction &i : instructions(f)) {
          auto *call = dyn_cast<CallBase>(&i);
          unsigned d = call ? depth_of(*call) : 0;
          if (d != 0 && d <= wishes.layers && (own == 0 || d < own)) {
            own = d;
            changed = true;
          }
        }
      }
    }
  }

  // Writing memory is not what every function may do.
  static bool can_be_changed(const Function &f) {
    return !f.hasFnAttribute(Attribute::Naked) && !f.onlyReadsMemory() && !f.onlyAccessesArgMemory() && !f.onlyAccessesInaccessibleMemory();
  }

  GlobalVariable *path_variable() {
    if (!path) {
      Type *type = Type::getInt128Ty(module.getContext());
      // A library asks the C library where it is: at a fixed place there is room for about a hundred libraries that are loaded later.
      path = new GlobalVariable(module, type, false, GlobalValue::WeakAnyLinkage, ConstantInt::get(type, 0), PATH, nullptr,
                                GlobalValue::GeneralDynamicTLSModel);
      path->setAlignment(Align(16));
      // A program's own is the one that counts; then it lies at a constant distance from the thread pointer.
      path->setDSOLocal(module.getPICLevel() == PICLevel::NotPIC || module.getPIELevel() != PIELevel::Default);
      // Else each file would take its own room in the memory of every thread.
      path->setComdat(module.getOrInsertComdat(PATH));
    }
    return path;
  }

  // The text of a position: number, `a` for an allocation, `p` for what begins a phase or `c` for a call, file, line, column, function, what is called (empty: it is called through a
  // pointer); between them tabs, at the end a zero byte.
  static std::string record(uint32_t number, char kind, StringRef file, unsigned line, unsigned column, StringRef function, StringRef callee) {
    std::string text;
    raw_string_ostream(text) << format_hex_no_prefix(number, 8) << '\t' << kind << '\t' << file << '\t' << line << '\t' << column
                             << '\t' << function << '\t' << callee << '\0';
    return text;
  }

  // The calls of a function that the path has to be said before, and the position of each: 0 if the function passes on the path.
  struct Said {
    Function *function;
    SmallVector<std::pair<CallBase *, uint32_t>> calls;
    std::string table;
    // Calls for which the path is there already.
    SmallPtrSet<const CallBase *, 4> passed_on = {};
  };

  Said find_calls(Function &f) {
    Said said{&f, {}, {}};
    std::map<std::string, unsigned> same;
    bool passes_on = is_transparent(f);
    for (Instruction &i : instructions(f))
      if (auto *call = dyn_cast<CallBase>(&i))
        if (unsigned d = depth_of(*call); d != 0 && d <= wishes.layers)
          said.calls.push_back({call, passes_on ? 0 : enter(f, *call, same, said.table)});
    return said;
  }

  // A function that is called with the path wherever it is called, as all calls are in this file and lead to allocations: who called it clears the path.
  void find_leavers(const std::vector<Said> &all) {
    DenseMap<const Function *, unsigned> called;
    for (const Said &said : all)
      for (auto [call, position] : said.calls)
        if (const Function *callee = call->getCalledFunction(); callee && !call->isMustTailCall())
          called[callee]++;
    for (const Said &said : all)
      if (Function &f = *said.function; f.hasLocalLinkage() && can_be_changed(f) && f.getNumUses() == called.lookup(&f))
        leaves.insert(&f);
    // Who calls it through a pointer, or from another file, does not know whether the path is taken over, and clears it.
    auto is_called = [](const Use &use) {
      auto *call = dyn_cast<CallBase>(use.getUser());
      return isa<GlobalAlias>(use.getUser()) || (call && call->isCallee(&use));
    };
    for (const Said &said : all)
      if (Function &f = *said.function; !is_of_this_file(f) || none_of(f.uses(), is_called))
        leaves_given.insert(&f);
  }

  // Whether calls of a function are of this body, and no other file's.
  static bool is_of_this_file(const Function &f) { return f.hasLocalLinkage() || (f.hasExternalLinkage() && f.isDSOLocal()); }

  // A call of just this body, which takes the path over.
  static bool takes_over(const CallBase &call) {
    const Function *callee = called(call);
    return callee && !is_elsewhere(*callee) && can_be_changed(*callee) && is_of_this_file(*callee);
  }

  // How many positions a call has to be given: the runtime reads all, and so may another file; a body that is known may ask for fewer, as it leads to allocations
  // by calls of its own.
  unsigned wanted(const CallBase &call) const {
    return takes_over(call) ? needed.lookup(called(call)) : wishes.layers;
  }

  // How many positions of the path that it was called with a function needs for its calls.
  void find_needs(const std::vector<Said> &all) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Said &said : all)
        for (auto [call, position] : said.calls) {
          unsigned n = wanted(*call), own = position != 0;
          n = n > own && !is_first(*said.function) ? n - own : 0;
          if (unsigned &had = needed[said.function]; n > had) {
            had = n;
            changed = true;
          }
        }
    }
  }

  // Nothing of a path leads to it.
  static bool is_first(const Function &f) { return f.getName() == "main" && f.use_empty(); }

  // Calls that never allocate, so that it does not matter which path is said meanwhile.
  bool is_quiet(const CallBase &call) {
    const Function *callee = called(call);
    if (!callee)
      return false;
    static const StringSet<> names = {"free", "cfree", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", "__cxa_begin_catch"};
    return callee->isIntrinsic() || names.contains(callee->getName()) || call.onlyReadsMemory() || quiet.contains(callee) ||
           makes_nothing(callee->getName());
  }

  // Functions of this file in which nothing but such calls is made: until they are inlined, C++ is full of them.
  void find_quiet() {
    for (Function &f : module)
      if (!f.isDeclaration() && !f.isInterposable())
        quiet.insert(&f);
    auto is_loud = [&](const Instruction &i) {
      auto *call = dyn_cast<CallBase>(&i);
      return call && !is_quiet(*call);
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (Function &f : module)
        if (quiet.contains(&f) && any_of(instructions(f), is_loud))
          changed = quiet.erase(&f);
    }
  }

  // Whether a path that is there at this point is written anew, or is for the caller to clear, before anybody may read it who is not meant.
  bool is_left_alone(const Function &f, BasicBlock *from, BasicBlock::iterator start, const SmallPtrSetImpl<const Instruction *> &said, bool given = false) {
    constexpr unsigned FARTHEST = 64;
    SmallPtrSet<BasicBlock *, 8> seen;
    SmallVector<std::pair<BasicBlock *, BasicBlock::iterator>> open = {{from, start}};
    while (!open.empty()) {
      auto [block, at] = open.pop_back_val();
      bool written = false;
      for (; at != block->end() && !written; ++at) {
        written = said.contains(&*at);
        if (auto *call = dyn_cast<CallBase>(&*at); call && !written && !is_quiet(*call))
          return false;
        if ((isa<ReturnInst>(*at) && !leaves.contains(&f) && !(given && leaves_given.contains(&f))) || isa<ResumeInst>(*at))
          return false;
      }
      if (!written)
        for (BasicBlock *next : successors(block))
          if (seen.insert(next).second)
            open.push_back({next, next->begin()});
      if (seen.size() > FARTHEST)
        return false;
    }
    return true;
  }

  // The path's words, the innermost position first.
  Value *at_word(IRBuilder<> &b, unsigned n) {
    Value *p = b.CreateThreadLocalAddress(path_variable());
    return n == 0 ? p : b.CreateConstInBoundsGEP1_32(b.getInt32Ty(), p, n);
  }

  // What a function was called with, the innermost position first, as far as it needs it: for the rest 0.
  using Entered = std::array<Value *, MOST_LAYERS>;

  Entered take_over(IRBuilder<> &b, unsigned need) {
    Entered words;
    for (unsigned n = 0; n < MOST_LAYERS; n++)
      words[n] = n < need ? b.CreateAlignedLoad(b.getInt32Ty(), at_word(b, n), Align(4), "hearth.entered") : (Value *)b.getInt32(0);
    return words;
  }

  // Whether the path is still there that the function was called with: nothing has been called since that may write it.
  bool is_untouched(const CallBase &call, const SmallPtrSetImpl<const Instruction *> &said) {
    SmallPtrSet<const BasicBlock *, 8> seen;
    SmallVector<std::pair<const BasicBlock *, BasicBlock::const_iterator>> open = {{call.getParent(), call.getIterator()}};
    while (!open.empty()) {
      auto [block, end] = open.pop_back_val();
      for (auto at = block->begin(); at != end; ++at)
        if (auto *other = dyn_cast<CallBase>(&*at); other && (said.contains(other) || !is_quiet(*other)))
          return false;
      for (const BasicBlock *before : predecessors(block))
        if (seen.insert(before).second)
          open.push_back({before, before->end()});
    }
    return true;
  }

  // The same in each branch by itself, where nothing has been said before: ways that do not allocate pay nothing for it, and need no register.
  void take_over_late(BasicBlock &block, IRBuilder<> &b, ArrayRef<CallBase *> users, unsigned need, const SmallPtrSetImpl<const Instruction *> &said,
                      DenseMap<const CallBase *, Entered> &entered) {
    MapVector<BasicBlock *, SmallVector<CallBase *>> branches;
    bool here = any_of(block, [&](const Instruction &i) { return said.contains(&i); });
    for (CallBase *user : users) {
      auto within = [&](BasicBlock *next) { return next->getSinglePredecessor() == &block && dominators->dominates(next, user->getParent()); };
      auto branch = find_if(successors(&block), within);
      if (here || branch == succ_end(&block)) {
        here = true;
        break;
      }
      branches[*branch].push_back(user);
    }
    if (here) {
      Entered taken = take_over(b, need);
      for (CallBase *user : users)
        entered[user] = taken;
      return;
    }
    for (auto &[branch, its] : branches) {
      if (branch->getFirstInsertionPt() == branch->end())
        continue;
      IRBuilder<> in(branch, branch->getFirstInsertionPt());
      in.SetCurrentDebugLocation(b.getCurrentDebugLocation());
      take_over_late(*branch, in, its, need, said, entered);
    }
  }

  // Functions that pass on the path as it is, and where to; what is left of them in their callers are just such calls.
  void find_relays(std::vector<Said> &all) {
    for (Said &said : all) {
      SmallPtrSet<const Instruction *, 16> calls;
      for (auto [call, position] : said.calls)
        calls.insert(call);
      BasicBlock &entry = said.function->getEntryBlock();
      if (said.calls.empty() || !is_left_alone(*said.function, &entry, entry.getFirstNonPHIOrDbgOrAlloca(), calls, true))
        continue;
      for (auto [call, position] : said.calls)
        if (position == 0 && is_untouched(*call, calls))
          said.passed_on.insert(call);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const Said &said : all)
        if (!relays.contains(said.function) && any_of(said.passed_on, [&](const CallBase *call) { return is_read_unseen(*call); }))
          changed = relays.insert(said.function).second;
    }
  }

  // Whether the path is read by what the compiler does not know to read it. A body that it has, if only to inline it, it sees.
  bool is_read_unseen(const CallBase &call) const {
    const Function *callee = called(call);
    return !callee || callee->isDeclaration() || relays.contains(callee);
  }

  void annotate(const Said &said) {
    Function &f = *said.function;
    path_variable();
    DominatorTree tree(f);
    dominators = &tree;
    BasicBlock &entry = f.getEntryBlock();
    BasicBlock::iterator start = entry.getFirstNonPHIOrDbgOrAlloca();
    IRBuilder<> b(&entry, start);
    b.SetCurrentDebugLocation(DebugLoc());
    if (DISubprogram *where = f.getSubprogram())
      b.SetCurrentDebugLocation(DILocation::get(f.getContext(), 0, 0, where));
    SmallPtrSet<const Instruction *, 16> calls;
    for (auto [call, position] : said.calls)
      calls.insert(call);
    // Blocks in which the path is cleared, from where on. A call that takes it over leaves nothing to clear, but for those that say that they do.
    SmallVector<std::pair<CallBase *, BasicBlock *>> to_clear;
    for (auto [call, position] : said.calls) {
      if (call->isMustTailCall())
        continue;
      bool given = said.passed_on.contains(call);
      if (takes_over(*call) && !leaves.contains(called(*call))) {
        // It has cleared the path, unless it was left by an exception.
        if (auto *invoke = dyn_cast<InvokeInst>(call); invoke && !is_left_alone(f, invoke->getUnwindDest(), invoke->getUnwindDest()->begin(), calls, given))
          to_clear.push_back({call, invoke->getUnwindDest()});
        continue;
      }
      if (!call->isTerminator()) {
        if (!is_left_alone(f, call->getParent(), std::next(call->getIterator()), calls, given))
          to_clear.push_back({call, call->getParent()});
      } else if (auto *invoke = dyn_cast<InvokeInst>(call)) {
        for (BasicBlock *next : {invoke->getNormalDest(), invoke->getUnwindDest()})
          if (!is_left_alone(f, next, next->begin(), calls, given))
            to_clear.push_back({call, next});
      }
    }
    bool clears = !is_left_alone(f, &entry, start, calls, true);

    unsigned need = needed.lookup(&f);
    const Entered none = {b.getInt32(0), b.getInt32(0), b.getInt32(0)};
    DenseMap<const CallBase *, Entered> entered;
    if (clears || need == 0) {
      Entered here = take_over(b, need);
      for (auto [call, position] : said.calls)
        entered[call] = here;
      if (clears)
        clear(b);
    } else {
      SmallVector<CallBase *> users;
      for (auto [call, position] : said.calls)
        if (wanted(*call) > (position != 0) && !said.passed_on.contains(call))
          users.push_back(call);
        else
          entered[call] = none;
      if (!users.empty())
        take_over_late(entry, b, users, need, calls, entered);
    }

    for (auto [call, position] : said.calls) {
      if (said.passed_on.contains(call))
        continue;
      b.SetInsertPoint(call);
      // The compiler believes that malloc does not read variables, and would leave such a write out.
      bool must_stay = is_read_unseen(*call);
      // Word by word, as it is read: the processor hands on what it still has to store only to who asks for no more than one store has written.
      Entered words = entered[call];
      if (position != 0)
        words = {b.getInt32(position), words[0], words[1]};
      unsigned wants = wanted(*call);
      // Where fewer positions are kept than there is room for, the path has to end.
      bool takes_it_over = takes_over(*call) && !relays.contains(called(*call));
      unsigned written = takes_it_over || wants == MOST_LAYERS ? wants : wants + 1;
      for (unsigned n = 0; n < written; n++)
        b.CreateAlignedStore(n < wants ? words[n] : b.getInt32(0), at_word(b, n), Align(4), must_stay);
    }
    for (auto [call, block] : to_clear)
      clear_after(*call, block);
    if (!said.table.empty())
      // Of functions that every file has, one is kept, and so is its table.
      add_text(SECTION, "hearth.sites." + f.getName(), said.table, f.getComdat());
  }

  // Nothing is said from here on. The compiler may leave it out where the next write comes before any reader.
  void clear(IRBuilder<> &b) { b.CreateAlignedStore(b.getInt32(0), at_word(b, 0), Align(16)); }

  // Of an invoke: in the block that it goes on with, or that it unwinds to.
  void clear_after(CallBase &call, BasicBlock *block) {
    BasicBlock::iterator at = std::next(call.getIterator());
    if (auto *invoke = dyn_cast<InvokeInst>(&call)) {
      if (block == invoke->getNormalDest() && !block->getSinglePredecessor())
        block = SplitEdge(invoke->getParent(), block);
      at = block->getFirstInsertionPt();
      if (at == block->end())
        return;
    }
    IRBuilder<> b(block, at);
    b.SetCurrentDebugLocation(call.getDebugLoc());
    clear(b);
  }

  // The position of a call, which is entered in the table.
  uint32_t enter(Function &f, CallBase &call, std::map<std::string, unsigned> &same, std::string &table) {
    StringRef function = name_of(f), file = module.getSourceFileName();
    unsigned line = 0, column = 0;
    if (const DILocation *at = call.getDebugLoc()) {
      line = at->getLine();
      column = at->getColumn();
      if (const DISubprogram *scope = at->getScope()->getSubprogram())
        file = scope->getFilename();
    }
    // Folders differ between builds of one source.
    file = sys::path::filename(file);
    std::string key;
    const Function *callee = called(call);
    StringRef to = callee ? name_of(*callee) : "";
    raw_string_ostream(key) << file << '\t' << function << '\t' << line << '\t' << column << '\t' << to;
    // A macro may stand for several calls. Those of one function are counted by themselves: the compiler leaves some others out where it optimises.
    unsigned nth = same[key]++;
    char kind = !callee ? 'c' : allocates(callee->getName()) || is_wrapper(*callee) ? 'a' : communicates(callee->getName()) ? 'p' : 'c';
    // The lowest bit says what begins a phase: the runtime asks for it, as a path may have been said for a call that only led to an operation of MPI.
    uint32_t number = number_of(nth == 0 ? key : key + '\t' + std::to_string(nth)) | (kind == 'p');
    table += record(number, kind, file, line, column, function, to);
    return number;
  }

  // By this ELF note the runtime knows a module that has positions: name "Hearth", type 1.
  void add_note() {
    LLVMContext &context = module.getContext();
    auto word = [&](uint32_t n) { return ConstantInt::get(Type::getInt32Ty(context), n); };
    Constant *name = ConstantDataArray::getString(context, StringRef("Hearth\0\0", 8), false);
    Constant *note = ConstantStruct::getAnon({word(7), word(0), word(1), name});
    auto *v = new GlobalVariable(module, note->getType(), true, GlobalValue::WeakODRLinkage, note, "__hearth_note");
    v->setVisibility(GlobalValue::HiddenVisibility);
    v->setSection(".note.hearth");
    v->setAlignment(Align(4));
    v->setComdat(module.getOrInsertComdat("__hearth_note"));
    appendToUsed(module, {v});
  }

  // Text that nothing in the program refers to, in a section of its own.
  void add_text(StringRef section, const Twine &name, StringRef words, Comdat *with) {
    Constant *text = ConstantDataArray::getString(module.getContext(), words, false);
    auto *v = new GlobalVariable(module, text->getType(), true, GlobalValue::PrivateLinkage, text, name);
    v->setSection(section);
    v->setAlignment(Align(1));
    v->setComdat(with);
    appendToUsed(module, {v});
  }

public:
  Annotation(Module &module, FunctionAnalysisManager &analyses) : module(module), analyses(analyses) {}

  bool run() {
    find_depths();
    std::vector<Said> all;
    for (Function &f : module)
      if (!f.isDeclaration() && can_be_changed(f))
        if (Said said = find_calls(f); !said.calls.empty())
          all.push_back(std::move(said));
    add_counts(all);
    find_quiet();
    find_needs(all);
    find_leavers(all);
    find_relays(all);
    for (const Said &said : all)
      annotate(said);
    if (path)
      add_note();
    return true;
  }

  // What the file's functions ask of memory, for `hearth plan --static`.
  void add_counts(const std::vector<Said> &all) {
    for (const Said &said : all)
      for (auto [call, position] : said.calls)
        counts::set_positions(*call, position == 0 ? ArrayRef<uint32_t>() : ArrayRef<uint32_t>(position));
    std::string text = counts::of(module);
    for (const Said &said : all)
      for (auto [call, position] : said.calls)
        call->removeFnAttr(counts::POSITIONS);
    if (wishes.layers != MOST_LAYERS)
      text = "L\t" + std::to_string(wishes.layers) + "\n" + text;
    if (!text.empty())
      add_text(COUNTS, "hearth.counts", text, nullptr);
  }
};

} // namespace

PreservedAnalyses HearthSites::run(Module &module, ModuleAnalysisManager &analyses) {
  if (!StringRef(module.getTargetTriple()).starts_with("x86_64")) {
    errs() << "hearth-cc: " << module.getSourceFileName() << " is compiled for " << module.getTargetTriple() << " and not annotated; Hearth is for x86_64\n";
    return PreservedAnalyses::all();
  }
  // It was done already, before the link step of LTO.
  if (module.getNamedGlobal(PATH))
    return PreservedAnalyses::all();
  auto &functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
  return Annotation(module, functions).run() ? PreservedAnalyses::none() : PreservedAnalyses::all();
}

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "hearth-sites", LLVM_VERSION_STRING, [](PassBuilder &builder) {
            // Before anything is inlined: positions are the source's, whatever the optimisation.
            builder.registerPipelineStartEPCallback([](ModulePassManager &passes, OptimizationLevel) { passes.addPass(HearthSites()); });
            builder.registerScalarOptimizerLateEPCallback([](FunctionPassManager &passes, OptimizationLevel) { passes.addPass(HearthWeightless()); });
            builder.registerOptimizerLastEPCallback([](ModulePassManager &passes, OptimizationLevel) { passes.addPass(HearthTwice()); });
          }};
}
