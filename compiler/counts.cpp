// What a file's functions ask of memory, as formulas: how often each loads and stores of which object, without running the program.
//
// The module as the compiler was given it is copied. In the copy OpenMP's regions become plain calls, functions are put into their callers, and
// memory into registers, so that loops and what they run over can be seen whole; scalar evolution then says how often each loop turns. What is found of
// each function that is left is written as text (hearth_counts, docs/compilers.md): its calls with what they are given, its accesses,
// what it writes to memory that may be asked for later, and what it gives back. `hearth plan --static` reads it, goes through the calls from main on and
// reckons with the numbers that the command line gives (crates/counts).
//
// A formula is a text of words, each operator before what it is for. Counts are as if all threads of a region were one.

#include "counts.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/ADT/SCCIterator.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringSet.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/CallGraph.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/SaveAndRestore.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <cmath>
#include <optional>
#include <set>

using namespace llvm;

namespace {

// Functions are not made larger than this many instructions by what they call.
constexpr unsigned LARGEST = 4000;
// A formula longer than this is one that nobody knows the value of.
constexpr size_t LONGEST = 600;
constexpr unsigned DEEPEST = 24;
// Nor is more gone into for one than any has that is short enough: where pointers go round in a loop, each may be several others, which may be it.
constexpr unsigned MOST_ASKED = 1000;
// Tables of more pointers are not told.
constexpr unsigned MOST_POINTERS = 1000;
// A pointer that may be more than so many values is not followed.
constexpr unsigned MOST_WAYS = 8;
constexpr double LINE = 64;
// Stands for all calls where it is not known which was the last one.
constexpr int ANY = -2;
// The name of what inline assembly is, as of a function elsewhere.
constexpr StringRef ASSEMBLY = ".asm";

std::string number(double v) {
  std::string text;
  raw_string_ostream out(text);
  if (v == std::floor(v) && std::fabs(v) < 1e15)
    out << int64_t(v);
  else
    out << format("%.9g", v);
  return text;
}

std::string binary(StringRef op, const std::string &a, const std::string &b) {
  return (op + " " + a + " " + b).str();
}

std::string times(const std::string &a, const std::string &b) {
  return a == "1" ? b : b == "1" ? a : binary("*", a, b);
}

// Blanks part the words of formulas, and tabs and lines the records; quotes would end the assembler's text.
std::string word(StringRef name) {
  std::string text = name.str();
  for (char &c : text)
    if (c <= ' ' || c == '"' || c == '\\')
      c = '_';
  return text;
}

// ---- The copy is made simple ----

// What stands at the beginning and the end of a parallel region, as a call of nothing that is there: a phase that begins in one does not begin for all threads at once.
constexpr StringRef FORKS = ".fork", JOINS = ".join";

// A call of a function of this name that is nowhere, and touches nothing that the program has.
void note(IRBuilder<> &b, StringRef name) {
  FunctionCallee nowhere = b.GetInsertBlock()->getModule()->getOrInsertFunction(name, FunctionType::get(b.getVoidTy(), false));
  auto *f = cast<Function>(nowhere.getCallee());
  f->setMemoryEffects(MemoryEffects::inaccessibleMemOnly());
  f->setDoesNotThrow();
  f->addFnAttr(Attribute::WillReturn);
  b.CreateCall(nowhere);
}

// A function that is called somewhere else, nobody can say when and with what.
void call_elsewhere(IRBuilder<> &b, Value *function) {
  b.CreateCall(b.GetInsertBlock()->getModule()->getOrInsertFunction(".elsewhere", FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false)), {function});
}

// Memory for a task, which the runtime would have allocated: what it has of its own, and behind it what it shares, whose address it begins with.
Value *room_for_task(CallInst *alloc) {
  auto *own = dyn_cast<ConstantInt>(alloc->getArgOperand(3)), *shared = dyn_cast<ConstantInt>(alloc->getArgOperand(4));
  if (!own || !shared)
    return nullptr;
  IRBuilder<> entry(&*alloc->getFunction()->getEntryBlock().getFirstInsertionPt());
  AllocaInst *room = entry.CreateAlloca(ArrayType::get(entry.getInt8Ty(), own->getZExtValue() + shared->getZExtValue()));
  room->setAlignment(Align(16));
  IRBuilder<> b(alloc);
  b.CreateStore(b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), room, own->getZExtValue()), room);
  return room;
}

// Region bodies are called by their parent, with all of the iterations; tasks by who makes them.
void unroll_openmp(Module &m) {
  SmallVector<CallInst *> calls;
  DenseMap<const Value *, Function *> tasks;
  for (Function &f : m)
    for (Instruction &i : instructions(f))
      if (auto *call = dyn_cast<CallInst>(&i); call && called(*call) && called(*call)->getName().starts_with("__kmpc_"))
        calls.push_back(call);
  for (CallInst *call : calls) {
    StringRef name = called(*call)->getName();
    IRBuilder<> b(call);
    Type *type = call->getType();
    if (name == "__kmpc_fork_call" || name == "__kmpc_fork_call_if" || name == "__kmpc_fork_teams") {
      unsigned first = name == "__kmpc_fork_call_if" ? 4 : 3;
      auto *body = dyn_cast<Function>(call->getArgOperand(2)->stripPointerCasts());
      if (body && body->arg_size() == call->arg_size() - first + 2) {
        IRBuilder<> entry(&*call->getFunction()->getEntryBlock().getFirstInsertionPt());
        Value *thread = entry.CreateAlloca(b.getInt32Ty());
        b.CreateStore(b.getInt32(0), thread);
        SmallVector<Value *> given = {thread, thread};
        for (unsigned i = first; i < call->arg_size(); i++)
          given.push_back(call->getArgOperand(i));
        note(b, FORKS);
        CallInst *direct = b.CreateCall(body, given);
        direct->setDebugLoc(call->getDebugLoc());
        note(b, JOINS);
      } else {
        call_elsewhere(b, call->getArgOperand(2));
      }
    } else if (name == "__kmpc_omp_task_alloc" || name == "__kmpc_omp_target_task_alloc") {
      // (loc, thread, flags, bytes, bytes of what it shares, body)
      auto *body = dyn_cast<Function>(call->getArgOperand(5)->stripPointerCasts());
      Value *room = body && body->arg_size() == 2 ? room_for_task(call) : nullptr;
      if (room) {
        tasks[room] = body;
        call->replaceAllUsesWith(room);
      } else {
        call_elsewhere(b, call->getArgOperand(5));
      }
    } else if (name == "__kmpc_omp_task" || name == "__kmpc_omp_task_with_deps" || name.starts_with("__kmpc_taskloop")) {
      // Of a loop the task holds the bounds of all that is to do.
      if (Function *body = tasks.lookup(call->getArgOperand(2))) {
        CallInst *direct = b.CreateCall(body, {b.getInt32(0), call->getArgOperand(2)});
        direct->setDebugLoc(call->getDebugLoc());
      }
    } else if (name.starts_with("__kmpc_dispatch_init")) {
      // (loc, thread, schedule, lower, upper, stride, chunk): the one turn of all that is to do is given by the next call.
      for (CallInst *next : calls) {
        if (next->getFunction() != call->getFunction() || !called(*next) || !called(*next)->getName().starts_with("__kmpc_dispatch_next"))
          continue;
        IRBuilder<> entry(&*call->getFunction()->getEntryBlock().getFirstInsertionPt());
        Value *more = entry.CreateAlloca(b.getInt32Ty());
        b.CreateStore(b.getInt32(1), more);
        b.CreateStore(call->getArgOperand(3), next->getArgOperand(3));
        b.CreateStore(call->getArgOperand(4), next->getArgOperand(4));
        b.CreateStore(call->getArgOperand(5), next->getArgOperand(5));
        IRBuilder<> at(next);
        Value *now = at.CreateLoad(at.getInt32Ty(), more);
        at.CreateStore(at.getInt32(0), more);
        next->replaceAllUsesWith(now);
        break;
      }
    } else if (name.starts_with("__kmpc_reduce") || name == "__kmpc_single" || name.starts_with("__kmpc_master") || name.starts_with("__kmpc_masked")) {
      // This thread is the one.
      call->replaceAllUsesWith(ConstantInt::get(type, 1));
    }
  }
  for (CallInst *call : calls) {
    if (!call->getType()->isVoidTy())
      call->replaceAllUsesWith(Constant::getNullValue(call->getType()));
    call->eraseFromParent();
  }
}

// LLVM's analyses, as its passes want them.
struct Analyses {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager parts;
  ModuleAnalysisManager modules;
  PassBuilder builder;

  Analyses() {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(parts);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, parts, modules);
  }
};

void simplify(Function &f, bool whole) {
  Analyses analyses;
  FunctionPassManager passes;
  const char *steps = whole ? "sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-simplify,lcssa,loop-mssa(loop-rotate,licm),sroa,instcombine<no-verify-fixpoint>,"
                              "gvn,loop-simplify,lcssa,loop(indvars),loop-mssa(licm),instcombine<no-verify-fixpoint>,simplifycfg,loop-simplify,lcssa"
                            : "sroa,early-cse,simplifycfg";
  if (Error e = analyses.builder.parsePassPipeline(passes, steps))
    report_fatal_error(std::move(e));
  passes.run(f, analyses.functions);
}

// Positions that lead from a function to a call in it (counts.h); those of a call that was put elsewhere with the function go on with that one's. They are
// kept in an attribute: it stays when a call is made one that may throw.
SmallVector<uint32_t> positions_of(const CallBase &call) {
  Attribute given = call.getFnAttr(counts::POSITIONS);
  if (!given.isValid())
    return {0};
  SmallVector<uint32_t> all;
  SmallVector<StringRef> words;
  given.getValueAsString().split(words, ',', -1, false);
  for (StringRef w : words) {
    uint32_t p = 0;
    w.getAsInteger(10, p);
    all.push_back(p);
  }
  return all;
}

// Puts the functions that a function calls by name into it; whether there was one. What stays a call does so for good.
bool put_in(Function &f, const SmallPtrSetImpl<Function *> &recursive) {
  constexpr const char *STAYS = "hearth.stays";
  SmallVector<CallBase *> calls;
  for (Instruction &i : instructions(f))
    if (auto *call = dyn_cast<CallBase>(&i); call && !call->hasFnAttr(STAYS))
      calls.push_back(call);
  bool any = false;
  for (CallBase *call : calls) {
    Function *callee = called(*call);
    if (!callee)
      continue;
    SmallVector<uint32_t> outer = positions_of(*call);
    InlineFunctionInfo info;
    if (callee->isDeclaration() || callee->isInterposable() || callee == &f || recursive.contains(callee) ||
        f.getInstructionCount() + callee->getInstructionCount() > LARGEST || !InlineFunction(*call, info).isSuccess()) {
      call->addFnAttr(Attribute::get(call->getContext(), STAYS));
      continue;
    }
    any = true;
    for (CallBase *inner : info.InlinedCallSites) {
      SmallVector<uint32_t> path = positions_of(*inner);
      if (path.empty() || path.back() != 0)
        path.append(outer);
      counts::set_positions(*inner, path);
    }
  }
  return any;
}

void flatten(Module &m) {
  for (Function &f : m) {
    f.removeFnAttr(Attribute::OptimizeNone);
    f.removeFnAttr(Attribute::NoInline);
    f.removeFnAttr(Attribute::OptimizeForSize);
    f.removeFnAttr(Attribute::MinSize);
    if (!f.isDeclaration())
      simplify(f, false);
  }
  CallGraph graph(m);
  SmallVector<Function *> order;
  SmallPtrSet<Function *, 16> recursive;
  for (auto part = scc_begin(&graph); !part.isAtEnd(); ++part)
    for (CallGraphNode *node : *part)
      if (Function *f = node->getFunction(); f && !f->isDeclaration()) {
        order.push_back(f);
        if (part.hasCycle())
          recursive.insert(f);
      }
  for (Function *f : order) {
    put_in(*f, recursive);
    simplify(*f, true);
    // What was given as a pointer, and is called by what was put in, is known by now.
    if (put_in(*f, recursive))
      simplify(*f, true);
  }
}

// ---- What is said of a function ----

// What other files do not see has its file's name with it.
std::string name_of(const GlobalValue &g) {
  if (!g.hasLocalLinkage())
    return word(g.getName());
  StringRef file = g.getParent()->getSourceFileName();
  // Flang's modules are all called the same.
  for (const Function &f : *g.getParent())
    if (const DISubprogram *where = f.getSubprogram(); where && file == "FIRModule")
      file = where->getFilename();
  return word((sys::path::filename(file) + "/" + g.getName()).str());
}

class Summary {
  Function &f;
  raw_ostream &out;
  const DataLayout &layout;
  LoopInfo &loops;
  ScalarEvolution &evolution;
  BlockFrequencyInfo &frequencies;
  DominatorTree &dominators;
  DenseMap<const Value *, unsigned> calls, locals;
  DenseMap<const Loop *, unsigned> loop_numbers;
  DenseMap<const BasicBlock *, std::string> known_counts;
  DenseMap<const Loop *, std::string> known_turns;
  SmallPtrSet<const Loop *, 4> asked_turns;
  // What was gone into for the formula that is being made.
  unsigned asked = 0;
  // Calls, of which each may be a moment at which a phase begins; those that are the last ones when a block begins. -1: the function's beginning. Or ANY.
  DenseMap<const BasicBlock *, std::set<int>> before;

  // A loop that is put down turn by turn (by_turns), and the numbers of what its turns hand on. `lost`: a turn does not follow from the one before.
  struct Turning {
    const Loop *loop;
    SetVector<const PHINode *> state;
    bool lost = false;
    // A condition of a turn is data, as in searches. Then either way may be taken.
    bool in_condition = false, guessed = false;
  };
  Turning *turning = nullptr;
  // Where what is put down is asked for: a loop that this is not part of is over.
  const BasicBlock *where = nullptr;

  // Formulas are long and come again and again: each is written once (X) and spoken of by its number.
  StringMap<unsigned> written;

  std::string once(const std::string &text) {
    if (text.size() <= 8)
      return text;
    auto [at, is_new] = written.try_emplace(text, written.size());
    if (is_new)
      out << "X\t" << at->second << '\t' << text << '\n';
    return "#" + std::to_string(at->second);
  }

  // ---- Values ----

  std::string unknown(const Value *v, const std::string &otherwise) {
    if (turning && turning->in_condition) {
      turning->guessed = true;
      return "u  0";
    }
    if (turning)
      turning->lost = true;
    std::string at = f.getName().str();
    if (auto *i = dyn_cast<Instruction>(v))
      at = place(*i);
    return "u " + word(at) + " " + otherwise;
  }

  // File and line, as users write them after --with.
  std::string place(const Instruction &i) {
    const DILocation *at = i.getDebugLoc();
    if (!at || at->getLine() == 0)
      for (const Instruction &other : *i.getParent())
        if (const DILocation *there = other.getDebugLoc(); there && there->getLine() != 0) {
          at = there;
          break;
        }
    return at ? place(*at) : f.getName().str();
  }

  static std::string place(const DILocation &at) {
    return (sys::path::filename(at.getFilename()) + ":" + Twine(at.getLine())).str();
  }

  // A loop is where it was written, wherever what ends it was inlined from.
  std::string place(const Loop &l) {
    if (const MDNode *about = l.getLoopID())
      for (const MDOperand &part : about->operands())
        if (auto *begins = dyn_cast<DILocation>(part); begins && begins->getLine() != 0)
          return place(*begins);
    return place(*l.getHeader()->getTerminator());
  }

  std::string global(const GlobalValue *g) {
    return "g" + name_of(*g);
  }

  bool varies(const Value *v) {
    auto *i = dyn_cast<Instruction>(v);
    if (!i)
      return false;
    Loop *l = loops.getLoopFor(i->getParent());
    return l && !l->isLoopInvariant(v);
  }

  // Whether a formula leads too far, that begins with depth 0.
  bool too_far(unsigned depth) {
    if (depth == 0)
      asked = 0;
    return depth > DEEPEST || ++asked > MOST_ASKED;
  }

  // The value; in a loop where it changes by a step, that of its middle turn.
  std::string value(const Value *v, unsigned depth = 0) {
    if (too_far(depth))
      return unknown(v, "0");
    std::string text = formula(v, depth + 1);
    return text.size() > LONGEST ? unknown(v, "0") : text;
  }

  std::string formula(const Value *v, unsigned depth) {
    SaveAndRestore<const BasicBlock *> here(where);
    if (auto *i = dyn_cast<Instruction>(v)) {
      where = i->getParent();
      if (turning)
        return in_turn(*i, depth);
      if (auto *phi = dyn_cast<PHINode>(i))
        if (std::string text = left_with(*phi, depth); !text.empty())
          return text;
    }
    if (auto *c = dyn_cast<ConstantInt>(v))
      return c->getBitWidth() <= 64 ? number(c->getBitWidth() == 1 ? double(c->getZExtValue()) : double(c->getSExtValue())) : "0";
    if (auto *c = dyn_cast<ConstantFP>(v)) {
      APFloat d = c->getValueAPF();
      bool lost;
      d.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      return number(d.convertToDouble());
    }
    if (isa<ConstantPointerNull>(v) || isa<UndefValue>(v))
      return "0";
    if (auto *g = dyn_cast<GlobalValue>(v))
      return global(g);
    if (auto *a = dyn_cast<Argument>(v))
      return "p" + std::to_string(a->getArgNo());
    if (auto *a = dyn_cast<AllocaInst>(v)) {
      unsigned &n = locals.try_emplace(a, locals.size()).first->second;
      return "l" + std::to_string(n);
    }
    // Vectors, labels.
    if (isa<Constant>(v) && !isa<ConstantExpr>(v))
      return unknown(v, "0");
    if (evolution.isSCEVable(v->getType())) {
      const SCEV *s = evolution.getSCEV(const_cast<Value *>(v));
      if (!isa<SCEVUnknown>(s) && !isa<SCEVCouldNotCompute>(s))
        return reckoned(s, depth);
    }
    return leaf(v, depth);
  }

  // What scalar evolution takes as it is.
  std::string leaf(const Value *v, unsigned depth) {
    if (isa<Constant>(v) || isa<Argument>(v) || isa<AllocaInst>(v)) {
      if (auto *e = dyn_cast<ConstantExpr>(v))
        return value(e->getOperand(0), depth);
      return formula(v, depth);
    }
    if (auto *call = dyn_cast<CallBase>(v))
      return result(*call, depth);
    auto *i = dyn_cast<Instruction>(v);
    if (!i)
      return unknown(v, "0");
    auto both = [&](StringRef op) { return binary(op, value(i->getOperand(0), depth), value(i->getOperand(1), depth)); };
    auto one = [&](StringRef op) { return (op + " " + value(i->getOperand(0), depth)).str(); };
    switch (i->getOpcode()) {
    case Instruction::Load:
      return "@ " + address(i->getOperand(0), depth);
    case Instruction::Add:
    case Instruction::FAdd:
      return both("+");
    case Instruction::Sub:
    case Instruction::FSub:
      return both("-");
    case Instruction::Mul:
    case Instruction::FMul:
      return both("*");
    case Instruction::FDiv:
      return both("/");
    case Instruction::SDiv:
    case Instruction::UDiv:
      return both("div");
    case Instruction::SRem:
    case Instruction::URem:
      return both("%");
    case Instruction::Shl:
      return both("shl");
    case Instruction::LShr:
    case Instruction::AShr:
      return both("shr");
    case Instruction::And:
      return both("and");
    case Instruction::FNeg:
      return "- 0 " + value(i->getOperand(0), depth);
    case Instruction::FPToSI:
    case Instruction::FPToUI:
      return one("trunc");
    case Instruction::SIToFP:
    case Instruction::UIToFP:
    case Instruction::FPExt:
    case Instruction::FPTrunc:
    case Instruction::ZExt:
    case Instruction::SExt:
    case Instruction::Trunc:
    case Instruction::Freeze:
    case Instruction::PtrToInt:
    case Instruction::IntToPtr:
    case Instruction::AddrSpaceCast:
    case Instruction::BitCast:
    case Instruction::ExtractValue:
      return value(i->getOperand(0), depth);
    case Instruction::GetElementPtr:
      return address(i, depth);
    case Instruction::ICmp:
    case Instruction::FCmp:
      return comparison(*cast<CmpInst>(i), depth);
    case Instruction::Select:
      return chosen(i->getOperand(0), i->getOperand(1), i->getOperand(2), depth);
    case Instruction::PHI:
      return joined(*cast<PHINode>(i), depth);
    default:
      return unknown(v, "0");
    }
  }

  // One of two values. Of pointers that a loop chooses among anew it is both.
  std::string chosen(const Value *by, const Value *yes, const Value *no, unsigned depth) {
    if (!yes->getType()->isPointerTy() || !varies(by))
      return "? " + condition(by, depth) + " " + value(yes, depth) + " " + value(no, depth);
    std::string a = value(yes, depth), b = value(no, depth);
    return a == b ? a : "x any 2 " + std::min(a, b) + " " + std::max(a, b);
  }

  // What decides between two values.
  std::string condition(const Value *v, unsigned depth) {
    if (!turning)
      return value(v, depth);
    SaveAndRestore<bool> here(turning->in_condition, true);
    return value(v, depth);
  }

  std::string comparison(const CmpInst &c, unsigned depth) {
    std::string a = value(c.getOperand(0), depth), b = value(c.getOperand(1), depth);
    switch (c.getPredicate()) {
    case CmpInst::ICMP_EQ:
    case CmpInst::FCMP_OEQ:
    case CmpInst::FCMP_UEQ:
      return binary("==", a, b);
    case CmpInst::ICMP_NE:
    case CmpInst::FCMP_ONE:
    case CmpInst::FCMP_UNE:
      return binary("!=", a, b);
    case CmpInst::ICMP_SLT:
    case CmpInst::ICMP_ULT:
    case CmpInst::FCMP_OLT:
    case CmpInst::FCMP_ULT:
      return binary("<", a, b);
    case CmpInst::ICMP_SLE:
    case CmpInst::ICMP_ULE:
    case CmpInst::FCMP_OLE:
    case CmpInst::FCMP_ULE:
      return binary("<=", a, b);
    case CmpInst::ICMP_SGT:
    case CmpInst::ICMP_UGT:
    case CmpInst::FCMP_OGT:
    case CmpInst::FCMP_UGT:
      return binary("<", b, a);
    case CmpInst::ICMP_SGE:
    case CmpInst::ICMP_UGE:
    case CmpInst::FCMP_OGE:
    case CmpInst::FCMP_UGE:
      return binary("<=", b, a);
    default:
      return unknown(&c, "0");
    }
  }

  // Where two ways meet: of an `if` whose condition can be told one of both values, of a loop and else all that it may be.
  std::string joined(const PHINode &phi, unsigned depth) {
    if (phi.getNumIncomingValues() == 2 && !loops.isLoopHeader(phi.getParent())) {
      BasicBlock *parting = dominators.findNearestCommonDominator(phi.getIncomingBlock(0), phi.getIncomingBlock(1));
      auto *branch = parting ? dyn_cast<BranchInst>(parting->getTerminator()) : nullptr;
      if (branch && branch->isConditional() && branch->getSuccessor(0) != branch->getSuccessor(1)) {
        auto by = [&](unsigned way, unsigned incoming) {
          BasicBlockEdge edge(parting, branch->getSuccessor(way));
          BasicBlock *from = phi.getIncomingBlock(incoming);
          return from == parting ? branch->getSuccessor(way) == phi.getParent() : dominators.dominates(edge, from);
        };
        for (unsigned first : {0u, 1u})
          if (by(0, first) && by(1, 1 - first))
            return chosen(branch->getCondition(), phi.getIncomingValue(first), phi.getIncomingValue(1 - first), depth);
      }
    }
    if (!phi.getType()->isPointerTy())
      return unknown(&phi, "0");
    SetVector<const Value *> all;
    SmallPtrSet<const Value *, 8> seen;
    bool chased = false;
    collect(&phi, all, seen, chased);
    if (all.size() > MOST_WAYS)
      return unknown(&phi, "0");
    std::vector<std::string> texts;
    for (const Value *v : all)
      texts.push_back(walks(v) ? address(v, depth) : value(v, depth));
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    std::string text = chased ? "x chain" : "x";
    if (texts.size() != 1)
      text += " any " + std::to_string(texts.size());
    for (const std::string &t : texts)
      text += " " + t;
    return text;
  }

  bool walks(const Value *v) { return isa<GetElementPtrInst>(v) && varies(v); }

  // All that a pointer may be that is passed round a loop. `chased`: and all that it leads to, as the loop follows it (p = p->next).
  void collect(const Value *v, SetVector<const Value *> &all, SmallPtrSet<const Value *, 8> &seen, bool &chased) {
    if (!seen.insert(v).second || all.size() > MOST_WAYS)
      return;
    if (auto *phi = dyn_cast<PHINode>(v)) {
      for (const Value *in : phi->incoming_values())
        collect(in, all, seen, chased);
    } else if (auto *select = dyn_cast<SelectInst>(v)) {
      collect(select->getTrueValue(), all, seen, chased);
      collect(select->getFalseValue(), all, seen, chased);
    } else if (auto *gep = dyn_cast<GetElementPtrInst>(v)) {
      const Value *base = gep->getPointerOperand();
      if (isa<PHINode>(base))
        collect(base, all, seen, chased);
      else
        all.insert(v);
    } else if (auto *load = dyn_cast<LoadInst>(v)) {
      if (seen.contains(base_of(load->getPointerOperand())))
        chased = true;
      else
        all.insert(v);
    } else if (!isa<ConstantPointerNull>(v) && !isa<UndefValue>(v)) {
      all.insert(v);
    }
  }

  static const Value *base_of(const Value *p) {
    while (true) {
      if (auto *gep = dyn_cast<GEPOperator>(p))
        p = gep->getPointerOperand();
      else if (auto *e = dyn_cast<ConstantExpr>(p); e && e->isCast())
        p = e->getOperand(0);
      else
        return p;
    }
  }

  // An address: what it points into, with the distance from its beginning where that is the same in each turn.
  std::string address(const Value *p, unsigned depth) {
    if (too_far(depth))
      return unknown(p, "0");
    APInt offset(layout.getIndexTypeSizeInBits(p->getType()), 0);
    const Value *base = p->stripAndAccumulateConstantOffsets(layout, offset, true);
    std::string text;
    if (auto *gep = dyn_cast<GEPOperator>(base)) {
      if (varies(base) || gep->getNumIndices() == 0)
        text = "x " + value(base_of(base), depth + 1);
      else {
        SaveAndRestore<const BasicBlock *> here(where);
        if (auto *i = dyn_cast<Instruction>(base))
          where = i->getParent();
        const SCEV *s = evolution.getSCEV(const_cast<Value *>(base));
        text = isa<SCEVUnknown>(s) ? "x " + value(base_of(base), depth + 1) : reckoned(s, depth + 1);
      }
    } else if (isa<PHINode>(base) && varies(base)) {
      auto *phi = cast<PHINode>(const_cast<Value *>(base));
      text = joined(*phi, depth + 1);
    } else {
      text = value(base, depth + 1);
    }
    return offset == 0 ? text : binary("+", text, number(double(offset.getSExtValue())));
  }

  std::string result(const CallBase &call, unsigned depth) {
    if (auto *intrinsic = dyn_cast<IntrinsicInst>(&call)) {
      auto arg = [&](unsigned n) { return value(call.getArgOperand(n), depth); };
      switch (intrinsic->getIntrinsicID()) {
      case Intrinsic::sqrt:
        return "sqrt " + arg(0);
      case Intrinsic::floor:
        return "floor " + arg(0);
      case Intrinsic::ceil:
        return "ceil " + arg(0);
      case Intrinsic::round:
      case Intrinsic::rint:
      case Intrinsic::nearbyint:
      case Intrinsic::llround:
      case Intrinsic::lround:
        return "round " + arg(0);
      case Intrinsic::fabs:
      case Intrinsic::abs:
        return "abs " + arg(0);
      case Intrinsic::pow:
        return "pow " + arg(0) + " " + arg(1);
      case Intrinsic::smax:
      case Intrinsic::umax:
      case Intrinsic::maxnum:
        return "max " + arg(0) + " " + arg(1);
      case Intrinsic::smin:
      case Intrinsic::umin:
      case Intrinsic::minnum:
        return "min " + arg(0) + " " + arg(1);
      case Intrinsic::fmuladd:
      case Intrinsic::fma:
        return "+ * " + arg(0) + " " + arg(1) + " " + arg(2);
      default:
        return unknown(&call, "0");
      }
    }
    auto found = calls.find(&call);
    return found == calls.end() ? unknown(&call, "0") : "r" + std::to_string(found->second);
  }

  bool is_over(const Loop *l) { return where && !l->contains(where); }

  // A formula of scalar evolution.
  std::string reckoned(const SCEV *s, unsigned depth) {
    if (too_far(depth))
      return "u " + word(f.getName()) + " 0";
    auto list = [&](StringRef op, const SCEVNAryExpr *e) {
      std::string text = reckoned(e->getOperand(e->getNumOperands() - 1), depth + 1);
      for (int i = int(e->getNumOperands()) - 2; i >= 0; i--)
        text = binary(op, reckoned(e->getOperand(i), depth + 1), text);
      return text;
    };
    switch (s->getSCEVType()) {
    case scConstant:
      return number(double(cast<SCEVConstant>(s)->getAPInt().getSExtValue()));
    case scTruncate:
    case scZeroExtend:
    case scSignExtend:
    case scPtrToInt:
      return reckoned(cast<SCEVCastExpr>(s)->getOperand(), depth + 1);
    case scAddExpr:
      return list("+", cast<SCEVNAryExpr>(s));
    case scMulExpr:
      return list("*", cast<SCEVNAryExpr>(s));
    case scUMaxExpr:
    case scSMaxExpr:
      return list("max", cast<SCEVNAryExpr>(s));
    case scUMinExpr:
    case scSMinExpr:
    case scSequentialUMinExpr:
      return list("min", cast<SCEVNAryExpr>(s));
    case scUDivExpr:
      return binary("div", reckoned(cast<SCEVUDivExpr>(s)->getLHS(), depth + 1), reckoned(cast<SCEVUDivExpr>(s)->getRHS(), depth + 1));
    case scAddRecExpr: {
      auto *r = cast<SCEVAddRecExpr>(s);
      std::string start = reckoned(r->getStart(), depth + 1);
      if (!r->isAffine())
        return s->getType()->isPointerTy() ? "x " + start : start;
      // The middle one of its turns; of a loop that is over the last one.
      std::string back = "+ " + turns(r->getLoop()) + " -1";
      return binary("+", start, binary("*", reckoned(r->getStepRecurrence(evolution), depth + 1), is_over(r->getLoop()) ? back : "/ " + back + " 2"));
    }
    case scUnknown: {
      const Value *v = cast<SCEVUnknown>(s)->getValue();
      auto *i = dyn_cast<Instruction>(v);
      if (const Loop *l = i ? loops.getLoopFor(i->getParent()) : nullptr; l && is_over(l))
        for (const User *u : i->users())
          if (auto *phi = dyn_cast<PHINode>(u); phi && !l->contains(phi) && phi->hasConstantValue() == v)
            return value(phi, depth + 1);
      return leaf(v, depth + 1);
    }
    default:
      return "u " + word(f.getName()) + " 0";
    }
  }

  // ---- How often ----

  // ---- Loops that end on what they compute ----

  // A value of the loop that is put down turn by turn.
  std::string in_turn(const Instruction &i, unsigned depth) {
    Turning *now = turning;
    if (!now->loop->contains(&i)) {
      turning = nullptr;
      std::string text = value(&i, depth + 1);
      turning = now;
      if (now->in_condition && StringRef(text).contains("u "))
        return unknown(&i, "0");
      return text;
    }
    auto *phi = dyn_cast<PHINode>(&i);
    if (phi && phi->getParent() == now->loop->getHeader() && !phi->getType()->isPointerTy()) {
      now->state.insert(phi);
      return "s" + std::to_string(std::distance(now->state.begin(), llvm::find(now->state, phi)));
    }
    // What is read, or made by a loop within, is data.
    if (i.mayReadOrWriteMemory() || i.getType()->isPointerTy() || loops.getLoopFor(i.getParent()) != now->loop)
      return unknown(&i, "0");
    return leaf(&i, depth);
  }

  // What a loop comes to that ends on what it computes (`while (n * 2 < limit) n *= 2`): what its turns hand on from one to the next, each by its start and
  // by what a turn makes of it, and of each of its ends whether it is taken and what is left then. `left`: that value; none: the number of its turns. Empty: it rests on
  // something else as well.
  std::string by_turns(const Loop *l, const PHINode *left, const std::string &otherwise, unsigned depth) {
    const BasicBlock *latch = l->getLoopLatch(), *from = l->getLoopPreheader();
    SmallVector<BasicBlock *> ends;
    l->getExitingBlocks(ends);
    if (turning || !latch || !from || ends.empty() || !all_of(ends, [&](BasicBlock *b) { return dominators.dominates(b, latch) && loops.getLoopFor(b) == l; }))
      return "";
    llvm::sort(ends, [&](BasicBlock *a, BasicBlock *b) { return dominators.properlyDominates(a, b); });
    Turning now{l, {}};
    turning = &now;
    std::string of_ends, starts, nexts;
    for (BasicBlock *b : ends) {
      auto *branch = dyn_cast<BranchInst>(b->getTerminator());
      unsigned out = branch && branch->isConditional() && l->contains(branch->getSuccessor(0)) ? 1 : 0;
      if (!branch || !branch->isConditional() || (left && branch->getSuccessor(out) != left->getParent())) {
        now.lost = true;
        break;
      }
      std::string condition = value(branch->getCondition(), depth + 1);
      of_ends += " " + (out == 0 ? condition : "== 0 " + condition) + " " + (left ? value(left->getIncomingValueForBlock(b), depth + 1) : "t");
    }
    // What one hands on may ask for another.
    for (unsigned n = 0; n < now.state.size() && n < MOST_WAYS && !now.lost; n++)
      nexts += " " + value(now.state[n]->getIncomingValueForBlock(latch), depth + 1);
    turning = nullptr;
    if (now.lost || now.state.empty() || now.state.size() > MOST_WAYS)
      return "";
    for (const PHINode *phi : now.state)
      starts += " " + value(phi->getIncomingValueForBlock(from), depth + 1);
    std::string text = "turn " + std::to_string(now.state.size()) + " " + std::to_string(ends.size()) + starts + nexts + of_ends + " " + otherwise;
    // Of a search that halves what is left it is the same which half that is; of others it is a guess.
    if (now.guessed)
      text = "u " + word(place(*l)) + " " + text;
    return text.size() > LONGEST ? "" : text;
  }

  // What a loop has left behind, where that is for its turns to say; else empty.
  std::string left_with(const PHINode &phi, unsigned depth) {
    const Loop *l = loops.getLoopFor(phi.getIncomingBlock(0));
    if (phi.getType()->isPointerTy() || !l || l->contains(phi.getParent()) || !all_of(phi.blocks(), [&](const BasicBlock *b) { return loops.getLoopFor(b) == l; }))
      return "";
    if (evolution.isSCEVable(phi.getType())) {
      const SCEV *s = evolution.getSCEVAtScope(const_cast<PHINode *>(&phi), loops.getLoopFor(phi.getParent()));
      if (evolution.isLoopInvariant(s, l))
        return "";
    }
    return by_turns(l, &phi, unknown(&phi, "0"), depth);
  }

  // How often a loop turns each time that it is come to.
  std::string turns(const Loop *l) {
    if (auto found = known_turns.find(l); found != known_turns.end())
      return found->second;
    if (!asked_turns.insert(l).second)
      return "u " + word(place(*l)) + " 100";
    SaveAndRestore<const BasicBlock *> here(where, l->getLoopPreheader() ? l->getLoopPreheader() : l->getHeader());
    const SCEV *more = evolution.getBackedgeTakenCount(l);
    std::string text;
    if (isa<SCEVCouldNotCompute>(more)) {
      more = evolution.getSymbolicMaxBackedgeTakenCount(l);
      asked = 0;
      text = up_to(l);
      if (text.empty())
        text = by_turns(l, nullptr, "u " + word(place(*l)) + " " + guess(l), 0);
      // What its type has room for tells nothing.
      if (auto *most = dyn_cast<SCEVConstant>(more); most && most->getAPInt().getActiveBits() > 40)
        more = evolution.getCouldNotCompute();
    }
    if (text.empty() && !isa<SCEVCouldNotCompute>(more) && !is_data(more, l->getParentLoop())) {
      text = reckoned(more, 0);
      // Loops are turned round (rotated): who comes in has one turn already.
      text = text.size() > LONGEST ? "" : one_more(text);
    }
    if (text.empty() || text.rfind("+ u ", 0) == 0)
      text = "u " + word(place(*l)) + " " + guess(l);
    known_turns[l] = text;
    asked_turns.erase(l);
    return text;
  }

  // Of a loop that counts up to what is read anew in each turn, always from the same place, as a variable that a call might have changed: as often as by what lies there. Else empty.
  std::string up_to(const Loop *l) {
    const BasicBlock *end = l->getExitingBlock();
    auto *branch = end ? dyn_cast<BranchInst>(end->getTerminator()) : nullptr;
    auto *compared = branch && branch->isConditional() ? dyn_cast<ICmpInst>(branch->getCondition()) : nullptr;
    if (!compared || compared->getOperand(0)->getType()->isPointerTy())
      return "";
    for (unsigned n : {0u, 1u}) {
      auto *counts = dyn_cast<SCEVAddRecExpr>(evolution.getSCEV(compared->getOperand(n)));
      const Value *bound = compared->getOperand(1 - n);
      while (auto *cast = dyn_cast<CastInst>(bound))
        bound = cast->getOperand(0);
      auto *read = dyn_cast<LoadInst>(bound);
      if (!counts || counts->getLoop() != l || !counts->isAffine() || !read || !l->contains(read) || !l->isLoopInvariant(read->getPointerOperand()))
        continue;
      return "max 1 + / - " + leaf(read, 1) + " " + reckoned(counts->getStart(), 1) + " " + reckoned(counts->getStepRecurrence(evolution), 1) + " 1";
    }
    return "";
  }

  // It is loaded, or made of what is, anew in each turn of the loop around.
  bool is_data(const SCEV *s, const Loop *around) {
    return around && SCEVExprContains(s, [&](const SCEV *part) {
      auto *u = dyn_cast<SCEVUnknown>(part);
      return u && isa<Instruction>(u->getValue()) && !around->isLoopInvariant(u->getValue());
    });
  }

  // A loop that goes back so often turns once more, and at least once.
  static std::string one_more(const std::string &text) {
    if (text.rfind("+ -1 ", 0) == 0)
      return "max 1 " + text.substr(5);
    return "max 1 + " + text + " 1";
  }

  // Of a loop whose ends are data: all rows together walk through the array once that the innermost of its lines walks through. Else ten.
  std::string guess(const Loop *l) {
    const Loop *parent = l->getParentLoop();
    if (!parent)
      return "10";
    for (BasicBlock *b : l->blocks()) {
      if (loops.getLoopFor(b) != l)
        continue;
      for (Instruction &i : *b) {
        const Value *p = getLoadStorePointerOperand(&i);
        if (!p)
          continue;
        std::optional<double> bytes = in_bytes(step(evolution.getSCEV(const_cast<Value *>(p)), l));
        if (!bytes || *bytes == 0 || isa<AllocaInst>(base_of(p)))
          continue;
        // As long as nobody knows how often those around it turn either, all of them together; one whose formula is long is one of which little is known.
        std::string all = "1";
        for (const Loop *around = parent; around; around = around->getParentLoop()) {
          std::string one = turns(around);
          if (all.size() + one.size() < LONGEST / 2)
            all = times(all, one);
          if (!StringRef(one).starts_with("u ") && !StringRef(one).contains(" u "))
            break;
        }
        return "share " + value(base_of(p)) + " " + number(*bytes) + " " + all;
      }
    }
    return "10";
  }

  double share(const BasicBlock *of, const BasicBlock *in) {
    double all = double(frequencies.getBlockFreq(in).getFrequency());
    return all == 0 ? 0 : double(frequencies.getBlockFreq(of).getFrequency()) / all;
  }

  // How often a block runs for each call of the function.
  std::string count(const BasicBlock *b) {
    if (auto found = known_counts.find(b); found != known_counts.end())
      return found->second;
    const Loop *l = loops.getLoopFor(b);
    std::string text;
    if (!l) {
      double p = std::min(1.0, share(b, &f.getEntryBlock()));
      text = number(p);
    } else {
      text = times(arrivals(l), turns(l));
      double p = std::min(1.0, share(b, l->getHeader()));
      if (p < 0.999)
        text = times(number(p), text);
    }
    known_counts[b] = text;
    return text;
  }

  // How often a loop is come to. The question whether it turns at all is taken for answered.
  std::string arrivals(const Loop *l) {
    const BasicBlock *from = l->getLoopPreheader();
    if (BranchInst *guard = l->getLoopGuardBranch())
      from = guard->getParent();
    return from ? count(from) : "1";
  }

  // ---- Accesses ----

  struct Access {
    Instruction *at;
    const Value *pointer;
    const SCEV *address;
    bool store;
    std::string count, lines;
    bool walks;
  };

  // A sum of what is the same in all turns of all loops, and of steps: by how much it changes in each of so many turns.
  struct Walk {
    std::string start;
    std::vector<std::pair<std::string, std::string>> steps;
  };

  // Takes an expression, so often, as such a sum.
  bool linear(const SCEV *s, const Loop *outermost, const std::string &factor, Walk &walk, unsigned depth = 0) {
    if (depth > DEEPEST || factor.size() > LONGEST)
      return false;
    if (!outermost || evolution.isLoopInvariant(s, outermost) || is_reread(s, outermost)) {
      std::string text = reckoned(s, 0);
      if (text != "0")
        walk.start = binary("+", walk.start, times(factor, text));
      return walk.start.size() <= LONGEST;
    }
    switch (s->getSCEVType()) {
    case scTruncate:
    case scZeroExtend:
    case scSignExtend:
    case scPtrToInt:
      return linear(cast<SCEVCastExpr>(s)->getOperand(), outermost, factor, walk, depth + 1);
    case scAddExpr:
      return all_of(s->operands(), [&](const SCEV *o) { return linear(o, outermost, factor, walk, depth + 1); });
    case scMulExpr: {
      const SCEV *varying = nullptr;
      std::string by = factor;
      for (const SCEV *o : s->operands()) {
        if (evolution.isLoopInvariant(o, outermost))
          by = times(by, reckoned(o, 0));
        else if (varying)
          return false;
        else
          varying = o;
      }
      return linear(varying, outermost, by, walk, depth + 1);
    }
    case scAddRecExpr: {
      auto *r = cast<SCEVAddRecExpr>(s);
      if (!r->isAffine() || !evolution.isLoopInvariant(r->getStepRecurrence(evolution), outermost))
        return false;
      std::string by = times(factor, reckoned(r->getStepRecurrence(evolution), 0));
      walk.steps.emplace_back(by, turns(r->getLoop()));
      return by.size() <= LONGEST && linear(r->getStart(), outermost, factor, walk, depth + 1);
    }
    default:
      return false;
    }
  }

  // Where in its object an access is, over all turns: its first address, and for each loop by how much it changes and how often, a tab before each. Empty: anywhere.
  std::string part(const Access &a) {
    auto *base = dyn_cast<SCEVUnknown>(evolution.getPointerBase(a.address));
    const Loop *outermost = loops.getLoopFor(a.at->getParent());
    if (outermost)
      outermost = outermost->getOutermostLoop();
    if (!base || (outermost && !outermost->isLoopInvariant(base->getValue()) && !is_reread(base, outermost)))
      return "";
    const SCEV *away = evolution.getMinusSCEV(a.address, base);
    Walk walk{address(base->getValue(), 0), {}};
    if (isa<SCEVCouldNotCompute>(away) || !linear(away, outermost, "1", walk))
      return "";
    std::vector<std::string> all = {once(walk.start)};
    for (const auto &[by, turns] : walk.steps) {
      all.push_back(once(by));
      all.push_back(once(turns));
    }
    std::string text;
    for (const std::string &one : all)
      text += "\t" + one;
    return text;
  }

  // Steps of all loops that an address follows.
  void steps(const SCEV *s, SmallVectorImpl<const SCEV *> &all) {
    while (auto *r = dyn_cast<SCEVAddRecExpr>(s)) {
      all.push_back(r->getStepRecurrence(evolution));
      s = r->getStart();
    }
  }

  // Two addresses of one loop of which the second finds what the first has brought: the same line, or that of the last turn of a loop around.
  bool finds(const Access &a, const Access &b) {
    if (a.address == b.address)
      return true;
    const SCEV *apart = evolution.getMinusSCEV(a.address, b.address);
    if (auto *c = dyn_cast<SCEVConstant>(apart))
      return std::fabs(double(c->getAPInt().getSExtValue())) < LINE;
    if (isa<SCEVCouldNotCompute>(apart))
      return false;
    SmallVector<const SCEV *> all;
    steps(a.address, all);
    for (const SCEV *step : all)
      if (apart == step || apart == evolution.getNegativeSCEV(step))
        return true;
    return false;
  }

  // By how much an expression changes from turn to turn of a loop, through the widening of an index that is not known to stay in its type: a number, or
  // a formula of what is the same in all turns; empty: not by the same amount each time.
  std::string step(const SCEV *s, const Loop *l) {
    if (evolution.isLoopInvariant(s, l))
      return "0";
    switch (s->getSCEVType()) {
    case scTruncate:
    case scZeroExtend:
    case scSignExtend:
    case scPtrToInt:
      return step(cast<SCEVCastExpr>(s)->getOperand(), l);
    case scAddExpr: {
      std::string sum = "0";
      for (const SCEV *o : s->operands()) {
        std::string one = step(o, l);
        if (one.empty())
          return "";
        if (one != "0")
          sum = sum == "0" ? one : binary("+", sum, one);
      }
      return sum;
    }
    case scMulExpr: {
      std::string product = "1";
      unsigned varying = 0;
      for (const SCEV *o : s->operands()) {
        bool same = evolution.isLoopInvariant(o, l);
        std::string one = same ? reckoned(o, 0) : step(o, l);
        if (one.empty() || (!same && ++varying > 1))
          return "";
        product = times(product, one);
      }
      return product;
    }
    case scAddRecExpr: {
      auto *r = cast<SCEVAddRecExpr>(s);
      // What changes with a loop within changes with this one as its start does.
      if (r->getLoop() != l)
        return step(r->getStart(), l);
      return r->isAffine() ? reckoned(r->getStepRecurrence(evolution), 0) : "";
    }
    default:
      return is_reread(s, l) ? "0" : "";
    }
  }

  // What each turn reads again from one place, which the loop does not write: where a pointer in a variable is that the loop's stores might change, as far as a compiler
  // knows.
  bool is_reread(const SCEV *s, const Loop *l) {
    auto *v = dyn_cast<SCEVUnknown>(s);
    auto *read = v ? dyn_cast<LoadInst>(v->getValue()) : nullptr;
    if (!read || !l->isLoopInvariant(read->getPointerOperand()))
      return false;
    for (const BasicBlock *b : l->blocks())
      for (const Instruction &i : *b)
        if (auto *store = dyn_cast<StoreInst>(&i); store && store->getPointerOperand() == read->getPointerOperand())
          return false;
    return true;
  }

  // The same in bytes, if it is a number.
  static std::optional<double> in_bytes(const std::string &step) {
    double bytes;
    if (step.empty() || StringRef(step).getAsDouble(bytes))
      return std::nullopt;
    return std::fabs(bytes);
  }

  // Lines that an access asks for, where nothing is kept but what the loop around it asks for again and again; and whether it walks.
  void lines(Access &a) {
    const Loop *l = loops.getLoopFor(a.at->getParent());
    a.walks = true;
    a.lines = a.count;
    std::string factor = a.count;
    while (l) {
      if (evolution.isLoopInvariant(a.address, l)) {
        // Asked for once for all turns.
        factor = arrivals(l);
        l = l->getParentLoop();
        continue;
      }
      std::string by = step(a.address, l);
      a.walks = !by.empty();
      std::string one = "1";
      if (auto bytes = in_bytes(by); bytes && *bytes < LINE)
        one = number(*bytes / LINE);
      else if (!bytes && !by.empty())
        one = "min 1 / abs " + by + " " + number(LINE);
      a.lines = times(one, factor);
      if (a.walks)
        comes_again(a, l, one, in_bytes(by).value_or(LINE) >= LINE);
      return;
    }
    a.lines = factor;
  }

  // A walk through a loop, `one` line in each turn, that loops around it make again: over the same lines, or over the next words of each. If what a turn of the one around
  // asks for has room in the cache (`c`), they are still there.
  void comes_again(Access &a, const Loop *l, const std::string &one, bool lines_apart) {
    std::string walked = times(one, turns(l));
    for (const Loop *around = l->getParentLoop(); around; around = around->getParentLoop()) {
      std::string by = step(a.address, around);
      if (by.empty() || walked.size() > LONGEST)
        return;
      std::optional<double> bytes = in_bytes(by);
      std::string room = times(number(LINE * objects_of(around)), walked);
      if (bytes && *bytes == 0) {
        a.lines = "/ " + a.lines + " ? < " + room + " c max 1 " + turns(around) + " 1";
      } else if (bytes && *bytes < LINE && lines_apart) {
        a.lines = "/ " + a.lines + " ? < " + room + " c " + number(LINE / *bytes) + " 1";
        walked = times(number(*bytes / LINE), times(turns(around), walked));
      } else {
        walked = times(turns(around), walked);
      }
    }
  }

  // How many objects accesses in a loop are to, as far as their addresses tell.
  double objects_of(const Loop *l) {
    std::set<const Value *> all;
    for (BasicBlock *b : l->blocks())
      for (Instruction &i : *b)
        if (const Value *p = getLoadStorePointerOperand(&i); p && !isa<AllocaInst>(base_of(p)))
          all.insert(base_of(p));
    return std::max<double>(1, all.size());
  }

  // The loops around it, the outermost first: numbers of them.
  std::string nest(const BasicBlock *b) {
    std::string text;
    for (const Loop *l = loops.getLoopFor(b); l; l = l->getParentLoop())
      text = std::to_string(loop_numbers[l]) + (text.empty() ? "" : "," + text);
    return text;
  }

  // Those of the access that was written last: where a function calls many others they are long, and hardly ever change from one to the next.
  std::string latest;

  std::string moments(const Instruction &i) {
    std::set<int> now = before[i.getParent()];
    for (const Instruction &other : *i.getParent()) {
      if (&other == &i)
        break;
      pass(other, now);
    }
    std::string text;
    for (int n : now)
      text += (text.empty() ? "" : ",") + std::to_string(n);
    return text;
  }

  // Control comes there from a function that did not come to its end, in whichever phase: by an exception, or by longjmp.
  static bool from_anywhere(const Instruction &i) {
    auto *call = dyn_cast<CallBase>(&i);
    return isa<LandingPadInst>(i) || (call && call->hasFnAttr(Attribute::ReturnsTwice));
  }

  // The moments behind an instruction, if it makes new ones.
  void pass(const Instruction &i, std::set<int> &now) {
    if (auto found = calls.find(&i); found != calls.end())
      now = {int(found->second)};
    if (from_anywhere(i))
      now = {ANY};
  }

  void find_moments() {
    before[&f.getEntryBlock()] = {-1};
    for (bool changed = true; changed;) {
      changed = false;
      for (BasicBlock *b : ReversePostOrderTraversal<Function *>(&f)) {
        std::set<int> now = before[b];
        for (const Instruction &i : *b)
          pass(i, now);
        for (BasicBlock *next : successors(b)) {
          size_t had = before[next].size();
          before[next].insert(now.begin(), now.end());
          changed |= before[next].size() != had;
        }
      }
    }
  }

  void accesses() {
    std::vector<Access> all;
    for (Instruction &i : instructions(f)) {
      if (const Value *p = getLoadStorePointerOperand(&i)) {
        if (isa<AllocaInst>(base_of(p)))
          continue;
        all.push_back({&i, p, evolution.getSCEV(const_cast<Value *>(p)), isa<StoreInst>(i), count(i.getParent()), "", true});
      } else if (isa<AtomicRMWInst>(i) || isa<AtomicCmpXchgInst>(i)) {
        const Value *at = i.getOperand(0);
        all.push_back({&i, at, evolution.getSCEV(const_cast<Value *>(at)), true, count(i.getParent()), "", true});
      } else if (auto *whole = dyn_cast<MemIntrinsic>(&i)) {
        std::string n = times(count(i.getParent()), "/ " + value(whole->getLength()) + " 8");
        std::string in_lines = times(count(i.getParent()), "/ " + value(whole->getLength()) + " 64");
        access("s", n, in_lines, true, whole->getRawDest(), i);
        if (auto *copy = dyn_cast<MemTransferInst>(whole))
          access("l", n, in_lines, true, copy->getRawSource(), i);
      }
    }
    std::vector<const Access *> brought;
    for (Access &a : all) {
      const Loop *l = loops.getLoopFor(a.at->getParent());
      where = a.at->getParent();
      lines(a);
      bool there = any_of(brought, [&](const Access *b) {
        return loops.getLoopFor(b->at->getParent()) == l && base_of(b->pointer) == base_of(a.pointer) && finds(*b, a);
      });
      if (there)
        a.lines = "0";
      else
        brought.push_back(&a);
      access(a.store ? "s" : "l", a.count, a.lines, a.walks, a.pointer, *a.at, there ? "" : part(a));
    }
  }

  void access(StringRef kind, const std::string &n, const std::string &in_lines, bool walks, const Value *p, const Instruction &at, const std::string &part = "") {
    std::string often = once(n), lines_of = once(in_lines), base = once(address(base_of(p), 0)), now = moments(at);
    out << "M\t" << kind << '\t' << often << '\t' << lines_of << '\t' << (walks ? "walks" : "jumps") << '\t' << base << '\t' << (now == latest ? "=" : now) << part << '\n';
    latest = now;
  }

  // What a function elsewhere is given by address, and may write numbers to: places among its arguments, with commas.
  static std::string may_write(const CallBase &call) {
    std::string all;
    if (call.onlyReadsMemory())
      return all;
    for (unsigned n = 0; n < call.arg_size(); n++) {
      const Value *a = call.getArgOperand(n);
      auto *g = dyn_cast<GlobalVariable>(base_of(a));
      if (a->getType()->isPointerTy() && !isa<ConstantPointerNull>(a) && !(g && g->isConstant()) && !call.onlyReadsMemory(n))
        all += (all.empty() ? "" : ",") + std::to_string(n);
    }
    return all;
  }

  // The name of what a call leaves that nobody knows, if it is one of a function that may be elsewhere.
  void unknown_of(const CallBase &call) {
    auto *known = dyn_cast<Function>(call.getCalledOperand()->stripPointerCasts());
    if (known && !known->isDeclaration())
      return;
    std::string written = may_write(call);
    if (!written.empty() || (!call.use_empty() && (call.getType()->isIntegerTy() || call.getType()->isFloatingPointTy())))
      out << "P\t" << calls[&call] << '\t' << word(place(call)) << '\t' << written << '\n';
  }

  // Assembly that may do something to memory; an empty one only keeps the compiler from moving things.
  static bool touches(const CallBase &assembly) {
    auto *text = cast<InlineAsm>(assembly.getCalledOperand());
    return !StringRef(text->getAsmString()).trim().empty() &&
           (assembly.mayReadOrWriteMemory() || any_of(assembly.args(), [](const Use &a) { return a->getType()->isPointerTy(); }));
  }

  // What is written where it may be asked for as a pointer, a size or a count.
  void writes() {
    for (Instruction &i : instructions(f)) {
      if (auto *copy = dyn_cast<MemTransferInst>(&i)) {
        std::string to = once(address(copy->getRawDest(), 0)), from = once(address(copy->getRawSource(), 0));
        out << "Y\t" << to << '\t' << from << '\n';
      }
      auto *store = dyn_cast<StoreInst>(&i);
      if (!store)
        continue;
      const Value *v = store->getValueOperand(), *p = store->getPointerOperand();
      bool pointer = v->getType()->isPointerTy();
      if (!pointer && (varies(p) || !(v->getType()->isIntegerTy() || v->getType()->isFloatingPointTy())))
        continue;
      // A number that changes as a loop turns is no size of anything.
      if (!pointer && varies(v))
        continue;
      std::string at = once(address(p, 0)), what = once(value(v));
      out << "W\t" << at << '\t' << what << '\n';
    }
  }

public:
  Summary(Function &f, raw_ostream &out, FunctionAnalysisManager &analyses)
      : f(f), out(out), layout(f.getParent()->getDataLayout()), loops(analyses.getResult<LoopAnalysis>(f)),
        evolution(analyses.getResult<ScalarEvolutionAnalysis>(f)), frequencies(analyses.getResult<BlockFrequencyAnalysis>(f)),
        dominators(analyses.getResult<DominatorTreeAnalysis>(f)) {}

  void write() {
    SmallVector<CallBase *> all;
    for (Instruction &i : instructions(f))
      if (auto *call = dyn_cast<CallBase>(&i); call && !isa<IntrinsicInst>(call) && (!call->isInlineAsm() || touches(*call))) {
        calls[call] = all.size();
        all.push_back(call);
      }
    find_moments();
    out << "F\t" << name_of(f) << '\n';
    for (const Loop *l : loops.getLoopsInPreorder()) {
      loop_numbers[l] = loop_numbers.size();
      std::string text = once(turns(l));
      out << "N\t" << loop_numbers[l] << '\t' << text << '\n';
    }
    for (CallBase *call : all) {
      const Value *callee = call->getCalledOperand()->stripPointerCasts();
      auto *known = dyn_cast<Function>(callee);
      bool named = known || call->isInlineAsm();
      std::string often = once(count(call->getParent())), through = named ? "" : once(value(callee));
      std::vector<std::string> given;
      for (const Use &a : call->args())
        if (given.size() < 16)
          given.push_back(once(a->getType()->isPointerTy() ? address(a, 0) : value(a)));
      out << "C\t" << calls[call] << '\t' << often << '\t' << (known ? name_of(*known) : named ? ASSEMBLY.str() : "? " + through) << '\t';
      bool first = true;
      for (uint32_t p : positions_of(*call)) {
        out << (first ? "" : ",") << p;
        first = false;
      }
      out << '\t' << moments(*call) << '\t' << nest(call->getParent());
      for (const std::string &g : given)
        out << '\t' << g;
      out << '\n';
      unknown_of(*call);
    }
    accesses();
    writes();
    std::set<std::string> given_back;
    std::set<int> last;
    for (BasicBlock &b : f)
      if (auto *back = dyn_cast<ReturnInst>(b.getTerminator())) {
        if (const Value *v = back->getReturnValue())
          given_back.insert(v->getType()->isPointerTy() ? address(v, 0) : value(v));
        std::string at = moments(*back);
        SmallVector<StringRef> words;
        StringRef(at).split(words, ',', -1, false);
        for (StringRef w : words) {
          int n;
          if (!w.getAsInteger(10, n))
            last.insert(n);
        }
      }
    for (const std::string &v : given_back) {
      std::string text = once(v);
      out << "V\t" << text << '\n';
    }
    out << "E\t";
    bool first = true;
    for (int n : last) {
      out << (first ? "" : ",") << n;
      first = false;
    }
    out << '\n';
  }
};

// Pointers in what a variable holds at the start: tables of functions, those of classes among them.
void pointers(const Constant *c, uint64_t offset, const DataLayout &layout, unsigned &left, function_ref<void(uint64_t, GlobalValue &, int64_t)> found) {
  if (left == 0 || c->isZeroValue())
    return;
  if (c->getType()->isPointerTy()) {
    APInt distance(layout.getIndexTypeSizeInBits(c->getType()), 0);
    const Value *base = c->stripAndAccumulateConstantOffsets(layout, distance, true);
    if (auto *target = dyn_cast<GlobalValue>(base)) {
      left--;
      found(offset, *const_cast<GlobalValue *>(target), distance.getSExtValue());
    }
  } else if (auto *type = dyn_cast<StructType>(c->getType())) {
    const StructLayout *fields = layout.getStructLayout(type);
    for (unsigned i = 0; i < type->getNumElements(); i++)
      if (const Constant *field = c->getAggregateElement(i))
        pointers(field, offset + fields->getElementOffset(i), layout, left, found);
  } else if (auto *all = dyn_cast<ConstantArray>(c)) {
    uint64_t each = layout.getTypeAllocSize(all->getType()->getElementType());
    for (unsigned i = 0; i < all->getNumOperands() && left != 0; i++)
      pointers(all->getOperand(i), offset + i * each, layout, left, found);
  }
}

// What variables hold at the start, and how large they are.
// Only of those that a text speaks of.
void variables(Module &m, StringRef text, raw_ostream &out) {
  StringSet<> spoken_of;
  SmallVector<StringRef> words;
  text.split(words, ' ', -1, false);
  for (StringRef w : words) {
    SmallVector<StringRef> parts;
    w.split(parts, '\t', -1, false);
    for (StringRef part : parts)
      if (part = part.split('\n').first; part.consume_front("g"))
        spoken_of.insert(part);
  }
  // And of those that they point to.
  std::vector<GlobalVariable *> open;
  auto speak_of = [&](GlobalVariable &g) {
    if (!g.isDeclaration() && g.getValueType()->isSized() && !g.getName().starts_with("llvm.") && !g.getName().starts_with("hearth."))
      open.push_back(&g);
  };
  for (GlobalVariable &g : m.globals())
    if (spoken_of.contains(name_of(g)))
      speak_of(g);
  while (!open.empty()) {
    GlobalVariable &g = *open.back();
    open.pop_back();
    std::string name = name_of(g);
    out << "G\t" << name << '\t' << m.getDataLayout().getTypeAllocSize(g.getValueType()).getFixedValue() << '\n';
    if (!g.hasInitializer())
      continue;
    // A mark's name.
    if (auto *text = dyn_cast<ConstantDataSequential>(g.getInitializer()); text && text->isCString() && text->getAsCString().size() < 256)
      out << "T\t" << name << '\t' << word(text->getAsCString()) << '\n';
    auto scalar = [&](const Constant *c, uint64_t offset) {
      if (auto *i = dyn_cast<ConstantInt>(c); i && i->getBitWidth() <= 64)
        out << "K\t" << name << '\t' << offset << '\t' << i->getSExtValue() << '\n';
      else if (auto *d = dyn_cast<ConstantFP>(c); d && d->getType()->isDoubleTy())
        out << "K\t" << name << '\t' << offset << '\t' << number(d->getValueAPF().convertToDouble()) << '\n';
    };
    const Constant *start = g.getInitializer();
    scalar(start, 0);
    // Structures of a few fields.
    if (auto *type = dyn_cast<StructType>(start->getType()); type && type->getNumElements() <= 32) {
      const StructLayout *fields = m.getDataLayout().getStructLayout(type);
      for (unsigned i = 0; i < type->getNumElements(); i++)
        if (const Constant *c = start->getAggregateElement(i); c && !start->isZeroValue())
          scalar(c, fields->getElementOffset(i));
    }
    // All or none: who finds some takes them for all.
    unsigned left = MOST_POINTERS;
    std::string all;
    std::vector<GlobalVariable *> next;
    pointers(start, 0, m.getDataLayout(), left, [&](uint64_t offset, GlobalValue &target, int64_t distance) {
      raw_string_ostream(all) << "A\t" << name << '\t' << offset << '\t' << name_of(target) << '\t' << distance << '\n';
      if (auto *v = dyn_cast<GlobalVariable>(&target))
        next.push_back(v);
    });
    if (left == 0)
      continue;
    out << all;
    for (GlobalVariable *v : next)
      if (spoken_of.insert(name_of(*v)).second)
        speak_of(*v);
  }
}

} // namespace

void counts::set_positions(CallBase &call, ArrayRef<uint32_t> all) {
  std::string text;
  for (uint32_t p : all)
    text += (text.empty() ? "" : ",") + std::to_string(p);
  call.removeFnAttr(POSITIONS);
  call.addFnAttr(Attribute::get(call.getContext(), POSITIONS, text));
}

std::string counts::of(const Module &original) {
  std::unique_ptr<Module> copy = CloneModule(original);
  Module &m = *copy;
  unroll_openmp(m);
  flatten(m);
  std::string text;
  raw_string_ostream out(text);
  Analyses analyses;
  for (Function &f : m) {
    if (f.isDeclaration())
      continue;
    // What was put into all of its callers is not asked for by itself.
    if (f.isDiscardableIfUnused() && f.use_empty())
      continue;
    Summary(f, out, analyses.functions).write();
  }
  std::string start;
  raw_string_ostream of_variables(start);
  variables(m, text, of_variables);
  return start + text;
}
