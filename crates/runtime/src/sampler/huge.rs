//! Huge pages stay huge.
//!
//! To arm a page of a huge one splits that, and the kernel puts it together again after minutes, if ever; a program that
//! works all over a large memory would be slower by then. So the sampler writes down what it splits, and has it collapsed
//! when nothing in it is armed any more. The same goes for memory that was not touched yet where the kernel gives huge
//! pages: who touches it while a page of it is armed gets small ones. Only what is present as a whole, and no other process's too, is
//! collapsed, so that the program has no more memory than without. It costs the sampler's own time, which its budget knows. The kernel tells
//! which pages are huge from Linux 6.7 on (PAGEMAP_SCAN), and collapses them when asked from 6.1 on; an older one's stay
//! split.

use super::armed;
use crate::sys;

const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;
/// Huge pages that may be split at a time: one of so many that the program has, in any case a few, and never more.
const ONE_OF: usize = 8;
const A_FEW: usize = 4;
const MOST: usize = armed::MAX;
/// A page is armed for the first time in one that was split at most so long ago (ns): else one could stay split for ever.
const OPEN_NS: u64 = 300_000_000;
/// What cannot be put together yet is tried again for so long (ns).
const PATIENCE_NS: u64 = 3_000_000_000;
/// Bits of an entry of /proc/PID/pagemap: the page is present, and mapped once only (the kernel's page of zeros is not).
const OWN: u64 = 1 << 63 | 1 << 56;
/// Huge pages put together in one go: each takes some 200 us, in which the kernel makes those wait who need that memory.
const AT_ONCE: usize = 4;

/// `PAGEMAP_SCAN` of `linux/fs.h`: _IOWR('f', 16, struct pm_scan_arg), and its categories.
const PAGEMAP_SCAN: usize = 0xc060_6610;
const PRESENT: u64 = 1 << 3;
const IS_HUGE: u64 = 1 << 6;

#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    wanted: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// The huge pages that are split.
pub struct Huge {
    /// Where the kernel tells which pages are huge; `None`: it does not.
    pagemap: Option<usize>,
    /// The kernel gives huge pages to everybody, and not only who asks for them.
    unasked: bool,
    /// Their addresses (0: unused), and when they were split.
    split: [(usize, u64); MOST],
}

/// What arming a page splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splits {
    /// No huge page, or one that is split already.
    Nothing,
    /// A huge page, to be written down in this place.
    At(usize),
}

impl Huge {
    /// For the sampler's thread, which gets a table of open files of its own by this: the program may expect a certain number when it
    /// opens a file, and closes files that it does not know.
    pub fn new() -> Huge {
        let (all, unshare) = (u32::MAX as usize, libc::CLOSE_RANGE_UNSHARE as usize);
        let (cwd, path, flags) = (libc::AT_FDCWD as usize, c"/proc/self/pagemap", libc::O_RDONLY | libc::O_CLOEXEC);
        // SAFETY: from here on this thread's files are its own, and none are open; a NUL-terminated path.
        let fd = unsafe {
            match sys::call3(libc::SYS_close_range, 0, all, unshare) {
                0 => sys::call(libc::SYS_openat, [cwd, path.as_ptr() as usize, flags as usize, 0, 0, 0]),
                refused => refused,
            }
        };
        let mut buffer = [0; 64];
        let offers = sys::read_file(c"/sys/kernel/mm/transparent_hugepage/enabled", &mut buffer).unwrap_or(b"");
        let unasked = offers.starts_with(b"[always]");
        let mut huge = Huge { pagemap: usize::try_from(fd).ok(), unasked, split: [(0, 0); MOST] };
        let own = &raw const huge as usize & !(PAGE - 1);
        if huge.pages(own, PAGE, PRESENT).is_none() {
            huge.pagemap = None;
        }
        huge
    }

    /// How many pages of a range have a category; `None` if the kernel does not say.
    fn pages(&self, start: usize, len: usize, category: u64) -> Option<usize> {
        let fd = self.pagemap?;
        let mut found = [Region::default(); 2];
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start: start as u64,
            end: (start + len) as u64,
            vec: found.as_mut_ptr() as u64,
            vec_len: found.len() as u64,
            mask: category,
            wanted: category,
            ..ScanArguments::default()
        };
        // SAFETY: the structure of this request and room for two regions.
        let count = unsafe { sys::call3(libc::SYS_ioctl, fd, PAGEMAP_SCAN, &raw mut arguments as usize) };
        let found = found.get(..usize::try_from(count).ok()?)?;
        Some(found.iter().map(|r| r.end.saturating_sub(r.start) as usize / PAGE).sum())
    }

    /// Whether a page is one that arming would split, or lies where the kernel would give one to who touches it now.
    fn would_be(&self, page: usize) -> bool {
        let block = page & !(HUGE - 1);
        let some = |start: usize, len: usize, what: u64| self.pages(start, len, what).is_some_and(|n| n > 0);
        let beside = || some(block.wrapping_sub(PAGE), PAGE, IS_HUGE) || some(block.wrapping_add(HUGE), PAGE, IS_HUGE);
        some(page, PAGE, IS_HUGE) || self.pages(block, HUGE, PRESENT) == Some(0) && (self.unasked || beside())
    }

    /// What arming a page would split, for the first time or again; `None` if that is not to be, as enough is split, of `live` bytes in
    /// all, or this page's has been for long enough.
    pub fn splits(&self, page: usize, again: bool, live: usize) -> Option<Splits> {
        let block = page & !(HUGE - 1);
        if let Some((_, since)) = self.split.iter().find(|s| s.0 == block) {
            let open = again || sys::now_in_handler().saturating_sub(*since) < OPEN_NS;
            return open.then_some(Splits::Nothing);
        }
        if !self.would_be(page) {
            return Some(Splits::Nothing);
        }
        let most = (live / HUGE / ONE_OF).clamp(A_FEW, MOST);
        let used = self.split.iter().filter(|s| s.0 != 0).count();
        self.split.iter().position(|s| s.0 == 0).filter(|_| used < most).map(Splits::At)
    }

    /// A page is armed.
    pub fn armed(&mut self, page: usize, splits: Splits) {
        if let Splits::At(place) = splits {
            if let Some(split) = self.split.get_mut(place) {
                *split = (page & !(HUGE - 1), sys::now_in_handler());
            }
        }
    }

    /// All pages of a huge one are there, written, and this process's alone: to collapse others would take memory, for what was given
    /// back, never written to, or is shared with a forked child.
    fn is_whole(&self, block: usize) -> bool {
        let Some(fd) = self.pagemap else { return false };
        let mut entries = [0u64; HUGE / PAGE];
        let (into, len) = (entries.as_mut_ptr() as usize, size_of_val(&entries));
        // SAFETY: reads into a local.
        let read = unsafe { sys::call(libc::SYS_pread64, [fd, into, len, block / PAGE * 8, 0, 0]) };
        read == len as isize && entries.iter().all(|e| e & OWN == OWN)
    }

    /// Puts some of what is split together again, where no page is armed nor to be armed again (`wanted` tells, of a first address and a
    /// length). Whether there may be more.
    pub fn mend(&mut self, wanted: impl Fn(usize, usize) -> bool) -> bool {
        let mut mended = 0;
        for place in 0..MOST {
            let (block, since) = self.split.get(place).copied().unwrap_or((0, 0));
            if block == 0 || armed::any_in(block, HUGE) || wanted(block, HUGE) {
                continue;
            }
            if mended == AT_ONCE {
                return true;
            }
            const MADV_COLLAPSE: usize = 25;
            let whole = self.is_whole(block);
            // SAFETY: changes no contents, wherever the memory belongs.
            let done = whole && unsafe { sys::call3(libc::SYS_madvise, block, HUGE, MADV_COLLAPSE) } == 0;
            mended += usize::from(whole);
            if done || sys::now_in_handler().saturating_sub(since) > PATIENCE_NS {
                if let Some(split) = self.split.get_mut(place) {
                    *split = (0, 0);
                }
            }
        }
        false
    }
}
