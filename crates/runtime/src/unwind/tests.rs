//! Walks compared, frame by frame, with glibc's `backtrace()` and with the exact walk that keeps nothing.

use super::*;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

unsafe extern "C" {
    fn backtrace(buffer: *mut *mut c_void, size: c_int) -> c_int;
    fn getcontext(context: *mut libc::ucontext_t) -> c_int;
    fn makecontext(context: *mut libc::ucontext_t, start: extern "C" fn(), argc: c_int, ...);
    fn swapcontext(from: *mut libc::ucontext_t, to: *const libc::ucontext_t) -> c_int;
}

/// Walks of one test, compared as they are made.
struct Judge {
    unwinder: &'static Unwinder,
    stack: RefCell<ThreadStack>,
    memo: RefCell<Box<Memo>>,
    walks: Cell<usize>,
    deepest: Cell<usize>,
    /// Sum over the chains: the same for the same stacks.
    digest: Cell<u64>,
}

impl Judge {
    fn new(unwinder: &'static Unwinder) -> Judge {
        Judge {
            unwinder,
            stack: RefCell::new(ThreadStack::new()),
            // SAFETY: all zeroes is a memo.
            memo: RefCell::new(Box::new(unsafe { std::mem::zeroed() })),
            walks: Cell::new(0),
            deepest: Cell::new(0),
            digest: Cell::new(0),
        }
    }

    /// Walk here, by all three ways, and compare.
    #[inline(never)]
    fn judge(&self) {
        let mut theirs = [std::ptr::null_mut::<c_void>(); MAX_FRAMES + 1];
        // SAFETY: the buffer has that many elements.
        let n = unsafe { backtrace(theirs.as_mut_ptr(), theirs.len() as c_int) } as usize;
        let (mut ours, mut exactly) = (Frames::new(), Frames::new());
        let start = Start::here();
        let mut stack = self.stack.borrow_mut();
        let walk = self.unwinder.walk_here(&mut stack, |pc| ours.push(pc));
        let out = Collector::new(&(0..0), |met| {
            exactly.push(met.return_address);
            true
        });
        let exact = exact::walk(self.unwinder, &start, 0, &mut stack, out);
        // What is remembered of this place, and what is from now on.
        let mut remembered = [walk; 2];
        for again in &mut remembered {
            *again = self.unwinder.walk_or_remember(&mut stack, &mut self.memo.borrow_mut());
        }
        drop(stack);
        let expected: Vec<usize> = theirs[1..n].iter().map(|&p| p as usize).collect();
        assert_eq!(ours.get(), expected, "{}", self.describe(ours.get(), &expected));
        assert_eq!(exactly.get(), expected, "{}", self.describe(exactly.get(), &expected));
        assert_eq!(walk, exact);
        assert_eq!(remembered, [walk; 2]);
        assert_eq!((walk.depth as usize, walk.truncated), (expected.len(), n == theirs.len()));
        assert_eq!(walk.chain, self.chain_of(ours.get()));
        self.walks.set(self.walks.get() + 1);
        self.deepest.set(self.deepest.get().max(expected.len()));
        self.digest.set(self.digest.get().wrapping_add(walk.chain));
    }

    /// The chain hash as anyone could compute it from the published frames and modules.
    fn chain_of(&self, frames: &[usize]) -> u64 {
        frames.iter().fold(identity::EMPTY_SITE, |chain, &pc| {
            let (index, offset) = self.unwinder.frame_of(pc);
            let m = self.unwinder.module(index).expect("a module");
            identity::chain(chain, identity::token(identity::module_key(m.build_id, m.path), offset))
        })
    }

    fn describe(&self, ours: &[usize], theirs: &[usize]) -> String {
        let name = |&pc: &usize| {
            let (index, offset) = self.unwinder.frame_of(pc);
            let path = self.unwinder.module(index).map_or("?".into(), |m| String::from_utf8_lossy(m.path).into_owned());
            format!("{pc:#x} {path}+{offset:#x}")
        };
        format!(
            "{:#?}\nagainst {:#?}",
            ours.iter().map(name).collect::<Vec<_>>(),
            theirs.iter().map(name).collect::<Vec<_>>()
        )
    }
}

/// Frames kept without allocating: some walks are made in signal handlers.
struct Frames([usize; MAX_FRAMES], usize);

impl Frames {
    fn new() -> Frames {
        Frames([0; MAX_FRAMES], 0)
    }
    fn push(&mut self, pc: usize) {
        self.0[self.1] = pc;
        self.1 += 1;
    }
    fn get(&self) -> &[usize] {
        &self.0[..self.1]
    }
}

fn new_unwinder() -> &'static Unwinder {
    Box::leak(Box::new(Unwinder::new(0..0).unwrap()))
}

/// `tests.c`, built with other options each.
const BUILDS: [&[&str]; 5] = [
    &["-O2", "-fomit-frame-pointer"],
    &["-O2", "-fno-omit-frame-pointer"],
    &["-Os", "-fomit-frame-pointer", "-mno-accumulate-outgoing-args"],
    &["-O0"],
    &["-O3", "-fomit-frame-pointer", "-mavx", "-fcf-protection=full", "-fstack-clash-protection"],
];

type Visit = extern "C" fn(*const Judge);
type Run = unsafe extern "C" fn(c_uint, c_int, Visit, *const Judge) -> c_int;

extern "C" fn visit(judge: *const Judge) {
    // SAFETY: `run` was given a judge that outlives it.
    unsafe { (*judge).judge() }
}

/// Beside the test's executable, where builds belong.
fn build(name: &str, options: &[&str]) -> PathBuf {
    let dir = std::env::current_exe().unwrap().with_file_name("unwind-test-libraries");
    std::fs::create_dir_all(&dir).unwrap();
    let (out, new) = (dir.join(format!("{name}.so")), dir.join(format!("{name}.{}", std::process::id())));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/unwind/tests.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&new).arg(source).args(options);
    assert!(cc.status().expect("these tests need a C compiler, cc").success(), "{cc:?}");
    // Another run of the tests may have the old one open.
    std::fs::rename(&new, &out).unwrap();
    out
}

/// A library opened from `path`; returns the handle and its `run`.
fn open(path: &Path) -> (*mut c_void, Run) {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: our own library, whose `run` has that type.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null());
        let run = libc::dlsym(handle, c"run".as_ptr());
        assert!(!run.is_null());
        (handle, std::mem::transmute::<*mut c_void, Run>(run))
    }
}

static LIBRARIES: LazyLock<Vec<Run>> = LazyLock::new(|| {
    BUILDS.iter().enumerate().map(|(i, options)| open(&build(&format!("tree{i}"), options)).1).collect()
});

fn run_trees(judge: &Judge, seeds: std::ops::Range<u32>) {
    for seed in seeds {
        for run in LIBRARIES.iter() {
            // SAFETY: the judge outlives the call.
            unsafe { run(seed, 3 + (seed % 40) as c_int, visit, judge) };
        }
    }
}

#[test]
fn thousands_of_call_trees_agree_with_glibc() {
    let unwinder = new_unwinder();
    // Not a constant number of rounds: an unrolled loop would call from two places.
    let mut digests = vec![0; std::hint::black_box(2)];
    for digest in &mut digests {
        let judge = Judge::new(unwinder);
        run_trees(&judge, 0..400);
        assert!(judge.walks.get() > 5000 && judge.deepest.get() > 80, "{} {}", judge.walks.get(), judge.deepest.get());
        *digest = judge.digest.get();
    }
    assert_eq!(digests[0], digests[1], "the same stacks have the same chains");
}

#[test]
fn older_c_libraries_without_dl_find_object_are_served_too() {
    let unwinder = new_unwinder();
    unwinder.modules.find_object.store(std::ptr::null_mut(), Ordering::Relaxed);
    let judge = Judge::new(unwinder);
    run_trees(&judge, 0..50);
    assert!(judge.walks.get() > 500);
}

#[test]
fn deep_recursion_is_cut_and_says_so() {
    let judge = Judge::new(new_unwinder());
    for run in LIBRARIES.iter() {
        // SAFETY: the judge outlives the call.
        unsafe { run(1, 400, visit, &judge) };
    }
    assert_eq!(judge.deepest.get(), MAX_FRAMES);
}

#[test]
fn threads_share_what_they_learn() {
    let unwinder = new_unwinder();
    let digests: Vec<_> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                s.spawn(move || {
                    let judge = Judge::new(unwinder);
                    run_trees(&judge, 0..100);
                    judge.walks.get()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(digests.iter().all(|&d| d == digests[0] && d > 1000), "{digests:?}");
}

#[test]
fn a_library_replaced_at_the_same_place_is_noticed() {
    let unwinder = new_unwinder();
    let judge = Judge::new(unwinder);
    let paths = ["16", "48", "112"].map(|pad| {
        let padding = format!("-DPADDING=\"{pad}\"");
        build(&format!("padded{pad}"), &["-O2", "-fomit-frame-pointer", "-Wl,--build-id", &padding])
    });
    let mut places = std::collections::HashSet::new();
    for round in 0..60 {
        let (handle, run) = open(&paths[round % paths.len()]);
        places.insert(run as usize & !0xfff);
        for seed in 0..20 {
            // SAFETY: the judge outlives the call.
            unsafe { run(seed, 20, visit, &judge) };
        }
        // SAFETY: nothing of the library is in use.
        assert_eq!(unsafe { libc::dlclose(handle) }, 0);
        unwinder.invalidate();
    }
    assert!(places.len() < 60, "addresses were used again, or this tests nothing");
    assert!(judge.walks.get() > 1000);
}

thread_local! {
    static IN_SIGNAL: Cell<*const Judge> = const { Cell::new(std::ptr::null()) };
}

extern "C" fn on_signal(_: c_int) {
    let judge = IN_SIGNAL.with(Cell::get);
    if !judge.is_null() {
        visit(judge);
    }
}

fn install(signal: c_int, flags: c_int) {
    // SAFETY: a handler that only walks the stack.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(c_int) as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

extern "C" fn raise_signal(judge: *const Judge) {
    IN_SIGNAL.with(|s| s.set(judge));
    // SAFETY: both have handlers.
    unsafe {
        libc::raise(libc::SIGUSR1);
        libc::raise(libc::SIGUSR2);
    }
    IN_SIGNAL.with(|s| s.set(std::ptr::null()));
}

fn use_alternate_stack() {
    let memory = Box::leak(vec![0u8; 1 << 17].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: leaked memory.
    assert_eq!(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }, 0);
}

#[test]
fn walks_through_signal_frames_on_either_stack() {
    install(libc::SIGUSR1, 0);
    install(libc::SIGUSR2, libc::SA_ONSTACK);
    use_alternate_stack();
    let judge = Judge::new(new_unwinder());
    for seed in 0..50 {
        for run in LIBRARIES.iter() {
            // SAFETY: the judge outlives the call.
            unsafe { run(seed, 15, raise_signal, &judge) };
        }
    }
    assert!(judge.walks.get() > 500, "{}", judge.walks.get());
}

extern "C" fn nothing(_: *const Judge) {
    std::hint::black_box(());
}

#[test]
fn walks_from_wherever_a_thread_was_interrupted() {
    install(libc::SIGURG, 0);
    let libraries = &BUILDS.map(|options| {
        let name = format!("interruptible{}", options.concat());
        open(&build(&name, &[options, &["-DINTERRUPTIBLE"]].concat())).1
    });
    let unwinder = new_unwinder();
    let (stop, walks) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|s| {
        let thread = std::sync::mpsc::channel();
        let (stop, walks) = (&stop, &walks);
        let worker = s.spawn(move || {
            let judge = Judge::new(unwinder);
            // SAFETY: asks who we are.
            thread.0.send(unsafe { libc::pthread_self() }).unwrap();
            IN_SIGNAL.with(|s| s.set(&judge));
            while !stop.load(Ordering::Relaxed) {
                for run in libraries {
                    // SAFETY: the judge outlives the call.
                    unsafe { run(7, 30, nothing, &judge) };
                }
                walks.store(judge.walks.get(), Ordering::Relaxed);
            }
            IN_SIGNAL.with(|s| s.set(std::ptr::null()));
        });
        let id = thread.1.recv().unwrap();
        while walks.load(Ordering::Relaxed) < 2000 && !worker.is_finished() {
            // SAFETY: the thread lives until told to stop.
            unsafe { libc::pthread_kill(id, libc::SIGURG) };
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(walks.load(Ordering::Relaxed) >= 2000);
}

struct Coroutine {
    main: libc::ucontext_t,
    own: libc::ucontext_t,
    judge: *const Judge,
}

thread_local! {
    static COROUTINE: Cell<*mut Coroutine> = const { Cell::new(std::ptr::null_mut()) };
}

extern "C" fn coroutine() {
    let c = COROUTINE.with(Cell::get);
    for seed in 0.. {
        // SAFETY: set by the test below, which outlives the coroutine.
        unsafe {
            LIBRARIES[seed % BUILDS.len()](seed as u32, 12, visit, (*c).judge);
            swapcontext(&raw mut (*c).own, &raw const (*c).main);
        }
    }
}

#[test]
fn follows_a_program_onto_its_coroutines_stacks() {
    let judge = Judge::new(new_unwinder());
    // SAFETY: plain data, filled below.
    let mut coroutines: [Coroutine; 12] = std::array::from_fn(|_| unsafe { std::mem::zeroed() });
    for c in &mut coroutines {
        let stack = Box::leak(vec![0u8; 1 << 18].into_boxed_slice());
        c.judge = &judge;
        // SAFETY: a context of our own with a stack of its own, not moved from here on, as it points into itself.
        unsafe {
            assert_eq!(getcontext(&raw mut c.own), 0);
            c.own.uc_stack.ss_sp = stack.as_mut_ptr().cast();
            c.own.uc_stack.ss_size = stack.len();
            makecontext(&raw mut c.own, coroutine, 0);
        }
    }
    for _ in 0..30 {
        for c in &mut coroutines {
            COROUTINE.with(|x| x.set(c));
            // SAFETY: made above.
            unsafe { swapcontext(&raw mut c.main, &raw const c.own) };
            judge.judge();
        }
    }
    assert!(judge.walks.get() > 1000, "{}", judge.walks.get());
}

#[test]
fn own_code_is_left_out() {
    let own = Unwinder::own_code();
    assert!(own.contains(&(visit as Visit as *const () as usize)));
    let unwinder = Box::leak(Box::new(Unwinder::new(own.clone()).unwrap()));
    let mut frames = Frames::new();
    let walk = unwinder.walk_here(&mut ThreadStack::new(), |pc| frames.push(pc));
    assert!(!frames.get().is_empty() && !own.contains(&frames.get()[0]), "{frames:x?}", frames = frames.get());
    let expected = frames.get().iter().fold(identity::EMPTY_SITE, |c, &pc| identity::chain(c, unwinder.token_of(pc)));
    assert_eq!((walk.chain, walk.truncated), (expected, false));
}

/// Code written at run time, of no module: calls its first argument with its second, with or without a frame pointer.
fn generated(code: &[u8]) -> extern "C" fn(Visit, *const Judge) {
    // SAFETY: a fresh page.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page =
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        std::ptr::copy_nonoverlapping(code.as_ptr(), page.cast(), code.len());
        std::mem::transmute::<*mut c_void, extern "C" fn(Visit, *const Judge)>(page)
    }
}

thread_local! {
    static SEEN: RefCell<Vec<(Walk, Vec<usize>)>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn remember(judge: *const Judge) {
    let mut frames = Frames::new();
    // SAFETY: the test's judge.
    let judge = unsafe { &*judge };
    let walk = judge.unwinder.walk_here(&mut judge.stack.borrow_mut(), |pc| frames.push(pc));
    SEEN.with(|s| s.borrow_mut().push((walk, frames.get().to_vec())));
}

#[test]
fn generated_code_is_walked_by_frame_pointer_or_ends_the_walk() {
    let judge = Judge::new(new_unwinder());
    // push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret
    let with = generated(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3]);
    // push rbp; xor ebp, ebp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret
    let without = generated(&[0x55, 0x31, 0xed, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3]);
    with(remember, &judge);
    remember(&judge);
    without(remember, &judge);
    SEEN.with(|s| {
        let seen = s.borrow();
        let (through, direct, cut) = (&seen[0], &seen[1], &seen[2]);
        assert!(!through.0.truncated && !direct.0.truncated && cut.0.truncated);
        assert_eq!(through.1[2..], direct.1[1..]);
        assert_eq!((cut.0.depth, cut.1[0]), (1, without as *const () as usize + 11));
        assert_eq!(judge.unwinder.frame_of(through.1[0]), (NO_MODULE, 0));
    });
}

/// 20 frames, as `reference` measurements are quoted; run with `cargo test --release -p hearth-runtime -- --ignored
/// --nocapture cost`.
#[test]
#[ignore = "prints a measurement"]
fn cost_of_a_walk_against_backtrace() {
    /// Nanoseconds a call, the best of many short rounds: other programs may be running.
    fn best(rounds: u32, calls: u32, mut call: impl FnMut()) -> f64 {
        let round = |_| {
            let t = std::time::Instant::now();
            for _ in 0..calls {
                call();
            }
            t.elapsed().as_nanos() as f64 / f64::from(calls)
        };
        (0..rounds).map(round).fold(f64::INFINITY, f64::min)
    }
    #[inline(never)]
    fn time(judge: &Judge) {
        let mut stack = judge.stack.borrow_mut();
        let mut theirs = [std::ptr::null_mut::<c_void>(); 64];
        let mut frames = 0;
        let ours = best(1000, 1000, || {
            frames = judge.unwinder.walk_here(&mut stack, |pc| _ = std::hint::black_box(pc)).depth;
        });
        let learning = best(100, 100, || {
            let out = Collector::new(&(0..0), |met| std::hint::black_box(met).return_address != 0);
            exact::walk(judge.unwinder, &Start::here(), 0, &mut stack, out);
        });
        // SAFETY: the buffer has that many elements.
        let glibc = best(100, 100, || unsafe { _ = backtrace(theirs.as_mut_ptr(), 64) });
        println!("{frames} frames: {ours:.1} ns; without the cache {learning:.0} ns; backtrace() {glibc:.0} ns");
    }
    extern "C" fn at_leaf(judge: *const Judge) {
        // SAFETY: the test's judge.
        unsafe { time(&*judge) };
    }
    type Chain = unsafe extern "C" fn(c_int, Visit, *const Judge) -> c_int;
    let judge = Judge::new(new_unwinder());
    for build_with in [BUILDS[0], BUILDS[1]] {
        let (handle, _) = open(&build("chain", build_with));
        println!("{build_with:?}");
        for length in [2, 8, 20, 32] {
            // SAFETY: the library's function has that type; the judge outlives the call.
            unsafe {
                let chain = libc::dlsym(handle, c"run_chain".as_ptr());
                std::mem::transmute::<*mut c_void, Chain>(chain)(length, at_leaf, &judge);
            }
        }
        // SAFETY: nothing of the library is in use.
        unsafe { libc::dlclose(handle) };
        judge.unwinder.invalidate();
    }
}
