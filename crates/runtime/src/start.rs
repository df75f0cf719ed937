//! The beginning and the end of the runtime in a process.
//!
//! Before the constructor runs, and in every process without a session, the library only passes allocations on.

use crate::{
    allowance, foreign, fork, interpose, mapping, next, phases, plan, process, python, regions, sampler, small, stack,
    statics, sys,
};
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicPtr, Ordering::*};
use wire::image::Image;
use wire::session::{CONFIG, Config, ENV, FAILED, JOB, LOADED, MOST_PASSED_OVER, PASSED_OVER, PLAN, flags};

static DIR: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// The session's directory, if the process is part of one.
pub fn session_dir() -> Option<&'static CStr> {
    let dir = DIR.load(Acquire);
    // SAFETY: null, or our own NUL-terminated copy, kept for ever.
    (!dir.is_null()).then(|| unsafe { CStr::from_ptr(dir) })
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;

extern "C" fn start() {
    next::free(next::malloc(1)); // makes sure that the range is reserved
    let Some(copy) = variable(ENV).and_then(|dir| keep(dir.to_bytes())) else { return };
    DIR.store(copy, Release);
    let Some(config) = read_config() else {
        DIR.store(core::ptr::null_mut(), Release);
        return;
    };
    process::set_epoch(config.epoch_ns);
    sys::set_home(config.home);
    if config.flags & flags::STANDING != 0 {
        process::clean_up_alone();
        let digits = variable(JOB).and_then(|job| job.to_str().ok());
        process::set_job(digits.and_then(|job| job.parse().ok()).unwrap_or(0));
    }
    say_loaded();
    if let Some(why) = foreign::reason() {
        return pass_over(why);
    }
    if let Some(what) = foreign::blind_spot() {
        pass_over(what);
    }
    if config.flags & flags::PLAN != 0 && !read_plan() {
        return;
    }
    if !process::prepare() || !stack::prepare() {
        return;
    }
    fork::prepare();
    if config.flags & flags::LAB != 0 {
        process::introduce();
    }
    if config.flags & (flags::EVENTS | flags::PLAN) != 0 {
        if config.flags & flags::SAMPLER != 0 {
            sampler::prepare(&config);
        }
        if config.threshold < 4096 {
            small::enable();
            if config.flags & flags::SMALL_IF_CHEAP != 0 {
                allowance::limit();
            }
        }
        // Before anything is counted.
        phases::prepare();
        python::prepare(pass_over);
        let threshold = (config.threshold as usize).max(if small::enabled() { 1 } else { 4096 });
        interpose::manage_from(threshold);
        mapping::manage_from(threshold.max(4096));
        statics::prepare();
        regions::enable();
    }
}

/// What the environment says, before the program can change it.
fn variable(name: &str) -> Option<&'static CStr> {
    let mut terminated = [0u8; 32];
    terminated.get_mut(..name.len()).filter(|_| name.len() < 32)?.copy_from_slice(name.as_bytes());
    // SAFETY: a NUL-terminated name; the environment is not being changed while constructors run.
    let value = unsafe { libc::getenv(terminated.as_ptr().cast()) };
    // SAFETY: getenv's result is NUL-terminated.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

extern "C" fn finish() {
    sampler::stop();
    process::finish();
}

/// A copy that outlives the environment (programs overwrite theirs).
fn keep(bytes: &[u8]) -> Option<*mut c_char> {
    let at = crate::range::pool(bytes.len() + 1, 1);
    if at.is_null() {
        return None;
    }
    // SAFETY: the pool's object has room for the bytes and is zeroed.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
    Some(at.cast())
}

fn path<'a>(buffer: &'a mut [u8; 512], file: &str) -> Option<&'a CStr> {
    let dir = session_dir()?.to_bytes();
    let end = dir.len() + 1 + file.len();
    buffer.get_mut(..dir.len())?.copy_from_slice(dir);
    *buffer.get_mut(dir.len())? = b'/';
    buffer.get_mut(dir.len() + 1..end)?.copy_from_slice(file.as_bytes());
    CStr::from_bytes_with_nul(buffer.get(..=end)?).ok()
}

/// Tells the launcher that the runtime was loaded into a process at all.
fn say_loaded() {
    append(LOADED, &[]);
}

/// Tells the launcher or the daemon, in one line, why this process is left alone.
pub fn pass_over(why: &str) {
    append(PASSED_OVER, why.as_bytes());
}

/// Adds to a file of the session, and makes it if need be.
fn append(file: &str, bytes: &[u8]) {
    let mut name = [0u8; 512];
    let Some(name) = path(&mut name, file) else { return };
    let flags = (libc::O_CREAT | libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOFOLLOW) as usize;
    // SAFETY: a NUL-terminated path; the descriptor is closed again.
    unsafe {
        let fd = sys::call(libc::SYS_openat, [libc::AT_FDCWD as usize, name.as_ptr() as usize, flags, 0o600, 0, 0]);
        if fd >= 0 {
            // A daemon may be away for long.
            let end = || sys::call3(libc::SYS_lseek, fd as usize, 0, libc::SEEK_END as usize);
            if !process::stands() || end() < MOST_PASSED_OVER as isize {
                sys::call3(libc::SYS_write, fd as usize, bytes.as_ptr() as usize, bytes.len());
            }
            sys::call3(libc::SYS_close, fd as usize, 0, 0);
        }
    }
}

/// Tells the launcher that a process could not make its file (the session's file system is full, or out of reach).
pub fn say_failed() {
    let (mut from, mut to) = ([0u8; 512], [0u8; 512]);
    if let (Some(from), Some(to)) = (path(&mut from, LOADED), path(&mut to, FAILED)) {
        // SAFETY: NUL-terminated paths.
        unsafe { sys::call3(libc::SYS_rename, from.as_ptr() as usize, to.as_ptr() as usize, 0) };
    }
}

fn read_config() -> Option<Config> {
    let mut name = [0u8; 512];
    let mut bytes = [0u8; size_of::<Config>() + 1];
    Config::from_bytes(sys::read_file(path(&mut name, CONFIG)?, &mut bytes)?)
}

/// Maps the plan image and checks it once.
fn read_plan() -> bool {
    let mut name = [0u8; 512];
    let Some(name) = path(&mut name, PLAN) else { return false };
    // SAFETY: opens, sizes and maps a file read-only; the mapping is kept for ever.
    let words: &'static [u64] = unsafe {
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
        let fd = sys::call(libc::SYS_openat, [libc::AT_FDCWD as usize, name.as_ptr() as usize, flags, 0, 0, 0]);
        if fd < 0 {
            return false;
        }
        let fd = fd as usize;
        let len = sys::call3(libc::SYS_lseek, fd, 0, libc::SEEK_END as usize);
        let at = match len {
            8.. => {
                let (prot, private) = (libc::PROT_READ as usize, libc::MAP_PRIVATE as usize);
                sys::call(libc::SYS_mmap, [0, len as usize, prot, private, fd, 0])
            }
            _ => -1,
        };
        sys::call3(libc::SYS_close, fd, 0, 0);
        if (-4095..0).contains(&at) {
            return false;
        }
        core::slice::from_raw_parts(at as *const u64, len as usize / 8)
    };
    let Some(image) = Image::new(words) else { return false };
    let room = crate::range::pool(size_of::<Image>(), align_of::<Image>()).cast::<Image<'static>>();
    if room.is_null() {
        return false;
    }
    // SAFETY: fresh, aligned room of the pool.
    plan::install(unsafe {
        room.write(image);
        &mut *room
    });
    true
}
