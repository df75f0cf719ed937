// The LLVM pass behind hearth-cc, hearth-c++ and hearth-fc: it makes a program say where in its source it allocates.
//
// A position is a call in the source: file, line, column, function and what is called, of which a number of 32 bits is made that is the same in every build. Before a
// call that may allocate, the program writes the call path that leads to it (the last positions, the innermost lowest) into a thread-local variable, and
// clears it afterwards:
//
//     __hearth_path = path on entry << 32 | position;  p = malloc(n);  __hearth_path = 0;
//
// A function with such calls takes the path over when it is entered. So the call path is carried, where paper 003 (section 3.1) clones functions: nothing grows
// but by a few instructions a call, files are compiled one by one, and a path goes through files that were compiled apart. What was inlined carries
// constants. Hearth's runtime reads the variable in malloc and needs no walk of the stack; without Hearth nobody reads it.
//
// Functions of system headers, and wrappers that the user names, pass on the path that they were called with: std::vector's memory is of the
// line that declares the vector.
//
// The section hearth_sites has a line of text for each position (see record()).

#include "counts.h"

#include <cstdlib>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringSet.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/DebugInfoMetadata.h>
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

constexpr const char *PATH = "__hearth_path";
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

  // A function that passes on the path it was called with.
  bool is_transparent(const Function &f) const {
    return is_wrapper(f) || is_of_system(f);
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
    return file.starts_with("/usr/include/") || file.starts_with("/usr/lib/") || file.starts_with("/usr/local/include/") ||
           file.contains("/include/c++/") || file.contains("/lib/gcc/") || file.contains("/lib/clang/");
  }

  // A call into another file that may allocate: of what is named, or gives a pointer or an object, and sounds as if it were made there.
  bool may_allocate(const CallBase &call) {
    const Function *callee = call.getCalledFunction();
    if (callee) {
      if (callee->isIntrinsic())
        return false;
      if (allocates(callee->getName()) || communicates(callee->getName()) || is_wrapper(*callee))
        return true;
      // What of std::string is not in headers: all of it but its end.
      if (callee->getName().starts_with("_ZNSt7__cxx1112basic_string") && !callee->getName().contains("D1Ev") && !callee->getName().contains("D2Ev") &&
          !callee->getName().contains("_M_dispose") && !callee->getName().contains("_M_destroy"))
        return true;
      LibFunc known;
      if (is_of_runtime(callee->getName()) || analyses.getResult<TargetLibraryAnalysis>(*const_cast<Function *>(call.getFunction())).getLibFunc(*callee, known))
        return false;
      ItaniumPartialDemangler name;
      StringRef mangled = callee->getName();
      if (mangled.starts_with("_ZN") && (mangled.contains("C1E") || mangled.contains("C2E")) && !name.partialDemangle(mangled.str().c_str()) &&
          name.isCtorOrDtor())
        return !mangled.starts_with("_ZNSaI"); // std::allocator has nothing of its own
    } else if (call.isInlineAsm()) {
      return false;
    }
    if (call.onlyReadsMemory())
      return false;
    if (callee && !sounds_like_making(callee->getName()))
      return false;
    // A reference is to what is there already.
    if (call.getType()->isPointerTy())
      return !call.hasRetAttr(Attribute::Dereferenceable);
    return call.hasStructRetAttr();
  }

  // How deep what this call leads to is, 0: it does not allocate as far as one can see.
  unsigned depth_of(const CallBase &call) {
    const Function *callee = call.getCalledFunction();
    if (!callee || callee->isDeclaration() || allocates(callee->getName()))
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
      path = new GlobalVariable(module, type, false, GlobalValue::WeakAnyLinkage, ConstantInt::get(type, 0), PATH, nullptr,
                                GlobalValue::InitialExecTLSModel);
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

  void annotate(const Said &said) {
    Function &f = *said.function;
    GlobalVariable *variable = path_variable();
    Type *wide = variable->getValueType();
    BasicBlock::iterator start = f.getEntryBlock().getFirstNonPHIOrDbgOrAlloca();
    IRBuilder<> b(&f.getEntryBlock(), start);
    b.SetCurrentDebugLocation(DebugLoc());
    if (DISubprogram *where = f.getSubprogram())
      b.SetCurrentDebugLocation(DILocation::get(f.getContext(), 0, 0, where));
    Value *entered = b.CreateAlignedLoad(wide, b.CreateThreadLocalAddress(variable), Align(16), "hearth.entered");
    b.CreateAlignedStore(b.getInt64(0), b.CreateThreadLocalAddress(variable), Align(16));

    for (auto [call, position] : said.calls) {
      b.SetInsertPoint(call);
      Value *now = entered;
      if (position != 0) {
        now = b.CreateOr(b.CreateShl(entered, 32), ConstantInt::get(wide, position));
        // A fourth position is there, and nobody reads it.
        if (wishes.layers < MOST_LAYERS)
          now = b.CreateAnd(now, ConstantInt::get(wide, APInt::getLowBitsSet(128, 32 * wishes.layers)));
      }
      const Function *callee = call->getCalledFunction();
      // The compiler believes that malloc does not read variables, and would leave such a write out.
      bool must_stay = !callee || callee->isDeclaration();
      b.CreateAlignedStore(now, b.CreateThreadLocalAddress(variable), Align(16), must_stay);
      // One that surely takes the path over leaves nothing to clear.
      bool surely = callee && !callee->isDeclaration() && can_be_changed(*callee) &&
                    (callee->hasLocalLinkage() || (callee->hasExternalLinkage() && callee->isDSOLocal()));
      if (!surely)
        clear_after(*call, variable, must_stay);
    }
    if (!said.table.empty())
      // Of functions that every file has, one is kept, and so is its table.
      add_text(SECTION, "hearth.sites." + f.getName(), said.table, f.getComdat());
  }

  void clear_after(CallBase &call, GlobalVariable *variable, bool must_stay) {
    auto clear = [&](BasicBlock *block, BasicBlock::iterator at) {
      IRBuilder<> b(block, at);
      b.SetCurrentDebugLocation(call.getDebugLoc());
      b.CreateAlignedStore(b.getInt64(0), b.CreateThreadLocalAddress(variable), Align(16), must_stay);
    };
    if (call.isMustTailCall())
      return;
    if (auto *invoke = dyn_cast<InvokeInst>(&call)) {
      BasicBlock *normal = invoke->getNormalDest();
      if (!normal->getSinglePredecessor())
        normal = SplitEdge(invoke->getParent(), normal);
      clear(normal, normal->getFirstInsertionPt());
      BasicBlock *unwind = invoke->getUnwindDest();
      if (unwind->getFirstInsertionPt() != unwind->end())
        clear(unwind, unwind->getFirstInsertionPt());
    } else if (!call.isTerminator()) {
      clear(call.getParent(), std::next(call.getIterator()));
    }
  }

  // The position of a call, which is entered in the table.
  uint32_t enter(Function &f, CallBase &call, std::map<std::string, unsigned> &same, std::string &table) {
    StringRef function = f.getName(), file = module.getSourceFileName();
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
    const Function *callee = call.getCalledFunction();
    raw_string_ostream(key) << file << '\t' << function << '\t' << line << '\t' << column << '\t' << (callee ? callee->getName() : "");
    // A macro may stand for several calls. Those of one function are counted by themselves: the compiler leaves some others out where it optimises.
    unsigned nth = same[key]++;
    char kind = !callee ? 'c' : allocates(callee->getName()) || is_wrapper(*callee) ? 'a' : communicates(callee->getName()) ? 'p' : 'c';
    // The lowest bit says what begins a phase: the runtime asks for it, as a path may have been said for a call that only led to an operation of MPI.
    uint32_t number = number_of(nth == 0 ? key : key + '\t' + std::to_string(nth)) | (kind == 'p');
    table += record(number, kind, file, line, column, function, callee ? callee->getName() : "");
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

struct HearthSites : PassInfoMixin<HearthSites> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &analyses) {
    // Hearth's runtime is for this processor. Or it was done already, before the link step of LTO.
    if (!StringRef(module.getTargetTriple()).starts_with("x86_64") || module.getNamedGlobal(PATH))
      return PreservedAnalyses::all();
    auto &functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
    return Annotation(module, functions).run() ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

} // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "hearth-sites", LLVM_VERSION_STRING, [](PassBuilder &builder) {
            // Before anything is inlined: positions are the source's, whatever the optimisation.
            builder.registerPipelineStartEPCallback([](ModulePassManager &passes, OptimizationLevel) { passes.addPass(HearthSites()); });
          }};
}
