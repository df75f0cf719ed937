//! The plan as it guides this process: which tier a site goes to, whether the tier has room, where its memory
//! comes from.

use crate::seats::Seat;
use crate::sums::Sums;
use crate::{heap, kept, process, range, sandbox, sys};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use wire::image::{Image, Source, Target};
use wire::process::MAX_TIERS;

static IMAGE: AtomicPtr<Image<'static>> = AtomicPtr::new(core::ptr::null_mut());
static FILES: [AtomicI32; MAX_TIERS] = [const { AtomicI32::new(-1) }; MAX_TIERS];
/// Inode of each file: a descriptor number may have been closed, and given to another file, behind our back.
static INODES: [AtomicU64; MAX_TIERS] = [const { AtomicU64::new(0) }; MAX_TIERS];
/// Bytes of live objects.
static LIVE: Sums = Sums::zero();
/// In its place: from now on `map_file` refuses. No file has it: inodes of user files are larger.
const FORGOTTEN: u64 = 1;
/// Resident bytes of a tier at the last reading, and what was allocated in it since.
static RESIDENT: [AtomicUsize; MAX_TIERS] = [const { AtomicUsize::new(0) }; MAX_TIERS];
static SINCE: Sums = Sums::zero();
/// Bytes of split objects that lie in this tier and have their addresses in another one's part of the range.
static GUESTS: [AtomicUsize; MAX_TIERS] = [const { AtomicUsize::new(0) }; MAX_TIERS];
/// Bytes of moved objects that lie in another tier than this one, which their addresses are of.
static AWAY: [AtomicUsize; MAX_TIERS] = [const { AtomicUsize::new(0) }; MAX_TIERS];
static NEXT_READING: [AtomicU64; MAX_TIERS] = [const { AtomicU64::new(0) }; MAX_TIERS];
static READING: AtomicU32 = AtomicU32::new(0);

/// Takes a checked image that lives as long as the process.
pub fn install(image: &'static mut Image<'static>) {
    IMAGE.store(image, Release);
}

/// The plan, if one guides this run.
pub fn image() -> Option<&'static Image<'static>> {
    // SAFETY: null or what `install` stored.
    unsafe { IMAGE.load(Acquire).as_ref() }
}

/// The plan, if it knows only the innermost frames of some stacks.
#[inline]
pub fn with_ends() -> Option<&'static Image<'static>> {
    image().filter(|image| image.longest().is_some())
}

/// Tiers in use: those of the plan, or one.
pub fn tiers() -> usize {
    image().map_or(1, Image::tiers)
}

/// Where a site is planned to go; where the plan does not tell it apart, as all of its stack.
pub fn target_of(site: u64, stack: u64) -> Target {
    let known = |i: &Image<'_>| i.target_of(site).or_else(|| i.target_of(stack));
    let target = |i: &Image<'_>| known(i).unwrap_or(Target::whole(i.default_tier()));
    image().map_or(Target::whole(0), target)
}

/// Tiers to try for an object planned for `tier`, in order: that one, the slower ones, then the faster ones.
pub fn order(tier: usize) -> impl Iterator<Item = usize> {
    (tier..tiers()).chain((0..tier).rev())
}

/// Counts bytes into a tier. `by`: the calling thread's seat, if it is at hand.
pub fn count_in(by: Option<Seat>, tier: usize, bytes: usize) {
    if let Some(live) = LIVE.add(by, tier, bytes as isize) {
        kept::rises(tier, live);
    }
    // Without a plan there are no budgets to ask of.
    if image().is_some() {
        _ = SINCE.add(by, tier, bytes as isize);
    }
}

/// Counts bytes out of a tier.
pub fn count_out(by: Option<Seat>, tier: usize, bytes: usize) {
    _ = LIVE.add(by, tier, -(bytes as isize));
}

/// Counts bytes of a split object that has its address in another tier's part of the range.
pub fn guest_in(tier: usize, bytes: usize) {
    count_in(None, tier, bytes);
    GUESTS.get(tier).into_iter().for_each(|guests| _ = guests.fetch_add(bytes, Relaxed));
}

/// The same when it is no more.
pub fn guest_out(tier: usize, bytes: usize) {
    count_out(None, tier, bytes);
    GUESTS.get(tier).into_iter().for_each(|guests| _ = guests.fetch_sub(bytes, Relaxed));
}

/// So many bytes with addresses of this tier lie in another one.
pub fn leaves(tier: usize, bytes: usize) {
    AWAY.get(tier).into_iter().for_each(|away| _ = away.fetch_add(bytes, Relaxed));
}

/// They do so no more.
pub fn comes_home(tier: usize, bytes: usize) {
    AWAY.get(tier).into_iter().for_each(|away| _ = away.fetch_sub(bytes, Relaxed));
}

/// Bytes of all live objects.
pub fn live() -> usize {
    (0..tiers()).map(live_in).fold(0, usize::saturating_add)
}

/// Bytes of the live objects of a tier.
pub fn live_in(tier: usize) -> usize {
    LIVE.get(tier)
}

/// Whether a tier's budget has room for so many more bytes. The budget is of resident memory: as long as all live
/// objects together fit it there is nothing to ask; beyond, the kernel is asked how much of the tier is resident.
pub fn has_room(tier: usize, bytes: usize) -> bool {
    let Some(budget) = image().and_then(|i| i.tier(tier)).and_then(|t| t.budget) else { return true };
    let budget = budget as usize;
    let Some(left) = budget.checked_sub(bytes) else { return false };
    if LIVE.at_most(tier, left) {
        return true;
    }
    let read = residency_is_read(tier, sys::now());
    let fits = || left.checked_sub(was_resident(tier)).is_some_and(|left| SINCE.at_most(tier, left));
    if fits() {
        return true;
    }
    if !read {
        return false;
    }
    // What was freed may be resident still. The reading that shows how much is left comes soon after the other, but seldom: it has less to give back each time.
    let lacking = was_resident(tier).saturating_add(SINCE.get(tier)).saturating_sub(left);
    kept::make_room(tier, lacking) && residency_is_read(tier, u64::MAX) && fits()
}

/// Bytes of a tier that were resident at the last reading.
fn was_resident(tier: usize) -> usize {
    // Of guests nobody asks: they count whole.
    let guests = GUESTS.get(tier).map_or(0, |guests| guests.load(Relaxed));
    let away = AWAY.get(tier).map_or(0, |away| away.load(Relaxed));
    let resident = RESIDENT.get(tier).map_or(0, |resident| resident.load(Relaxed));
    resident.saturating_sub(away).saturating_add(guests)
}

/// Asks the kernel how much of a tier's memory is resident, at most a twentieth of the time. `now`: when that is (`u64::MAX`: the time does not matter).
fn residency_is_read(tier: usize, now: u64) -> bool {
    let (Some(next), Some(resident)) = (NEXT_READING.get(tier), RESIDENT.get(tier)) else { return false };
    if now < next.load(Relaxed) || READING.swap(1, Acquire) != 0 {
        return false;
    }
    let start = sys::now();
    SINCE.clear(tier);
    let base = range::base() + tier * range::tier_span();
    let (mut pages, end) = (0, heap::used(tier));
    let mut present = [0u8; 4096];
    let mut at = 0;
    while at < end {
        let len = (end - at).min(present.len() * heap::PAGE);
        // SAFETY: mincore writes one byte for each page of the managed range asked about.
        let failed = unsafe { sys::call3(libc::SYS_mincore, base + at, len, present.as_mut_ptr() as usize) };
        if failed == 0 {
            pages += present.iter().take(len.div_ceil(heap::PAGE)).filter(|&&b| b & 1 != 0).count();
        }
        at += len;
    }
    resident.store(pages * heap::PAGE, Relaxed);
    let done = sys::now();
    next.store(done + (done - start) * 20 + 1_000_000, Relaxed);
    READING.store(0, Release);
    true
}

/// In a forked child: whoever was reading does not exist here.
pub fn forget_parent() {
    READING.store(0, Release);
}

/// Whether a tier is made of mapped files.
pub fn is_file(tier: usize) -> bool {
    FILES.get(tier).is_some_and(|f| f.load(Relaxed) >= 0)
}

/// The file tiers' memory in use: start and length of each.
pub fn files() -> impl Iterator<Item = (usize, usize)> {
    (0..tiers()).filter(|&t| is_file(t)).map(|t| (range::base() + t * range::tier_span(), heap::used(t)))
}

/// In a forked child, when its memory no longer is the files': tiers of files become plain memory.
pub fn forget_files() {
    for (slot, kept) in FILES.iter().zip(&INODES) {
        if slot.load(Relaxed) >= 0 {
            kept.store(FORGOTTEN, Relaxed);
        }
    }
}

/// Whether a tier's memory is a matter of binding alone: then parts of an object may lie in it wherever the object is.
pub fn can_be_bound(tier: usize) -> bool {
    matches!(image().and_then(|i| i.tier(tier)).map(|t| t.source), Some(Source::Nodes(_)))
}

/// Whether a node is one of a tier's.
pub fn is_on(tier: usize, node: u32) -> bool {
    match image().and_then(|i| i.tier(tier)).map(|t| t.source) {
        Some(Source::Nodes(mask)) => 1u128.checked_shl(node).is_some_and(|bit| mask & bit != 0),
        _ => false,
    }
}

/// Makes `size` bytes at `addr` (`offset` within the tier's part of the range) usable and binds them to the tier's
/// memory. `false` if the memory is not to be had.
pub fn back(tier: usize, offset: usize, addr: usize, size: usize) -> bool {
    let open = || {
        // SAFETY: the range is the runtime's and nothing lies there yet.
        let opened = unsafe { sys::protect(addr, size, libc::PROT_READ | libc::PROT_WRITE) };
        sys::dump(addr, size, true);
        opened
    };
    match image().and_then(|i| i.tier(tier)).map(|t| t.source) {
        Some(Source::Directory(path)) => map_file(tier, path, offset, addr, size),
        // SAFETY: as above.
        Some(Source::Nodes(mask)) => open() && unsafe { bind(addr, size, mask, 0) },
        Some(Source::Plain) | None => open(),
    }
}

/// Binds memory of the program's own, where it is and where it will be, to a tier. `false`: a tier of files cannot have it.
///
/// # Safety
/// The memory must be private to the process.
pub unsafe fn bind_foreign(tier: usize, addr: usize, size: usize) -> bool {
    const MPOL_MF_MOVE: usize = 2;
    // SAFETY: the caller's.
    unsafe { bind_to(tier, addr, size, MPOL_MF_MOVE) }
}

/// The same for pages that come to be present from now on.
///
/// # Safety
/// The memory must be private to the process.
pub unsafe fn bind_new(tier: usize, addr: usize, size: usize) -> bool {
    // SAFETY: the caller's.
    unsafe { bind_to(tier, addr, size, 0) }
}

unsafe fn bind_to(tier: usize, addr: usize, size: usize, flags: usize) -> bool {
    match image().and_then(|i| i.tier(tier)).map(|t| t.source) {
        Some(Source::Directory(_)) => false,
        // SAFETY: a policy for pages of the program, which changes no content.
        Some(Source::Nodes(mask)) => unsafe { bind(addr, size, mask, flags) },
        Some(Source::Plain) | None => true,
    }
}

/// Gives whole pages of memory that nobody uses any more back to the kernel, and what will lie there to a tier.
///
/// # Safety
/// They must be the runtime's, and hold nothing.
pub unsafe fn give_back(tier: usize, addr: usize, len: usize) {
    if !sandbox::silent() {
        // SAFETY: the caller's.
        unsafe {
            sys::call3(libc::SYS_madvise, addr, len, libc::MADV_DONTNEED as usize);
            bind_foreign(tier, addr, len);
        }
    }
}

/// Prefers the nodes, without insisting: where a node is full the kernel takes memory elsewhere rather than kill the
/// program. Several nodes need MPOL_PREFERRED_MANY (Linux 5.15); before, the first is preferred.
unsafe fn bind(addr: usize, size: usize, mask: u128, flags: usize) -> bool {
    const MPOL_PREFERRED: usize = 1;
    const MPOL_PREFERRED_MANY: usize = 5;
    let words = [mask as u64, (mask >> 64) as u64];
    let first = 1u128 << mask.trailing_zeros().min(127);
    let one = [first as u64, (first >> 64) as u64];
    let mbind = |mode: usize, nodes: &[u64; 2]| {
        // SAFETY: a policy for pages of the caller's; the mask has 128 bits (the kernel wants one more).
        unsafe { sys::call(libc::SYS_mbind, [addr, size, mode, nodes.as_ptr() as usize, 129, flags]) == 0 }
    };
    let bound = (mask.count_ones() > 1 && mbind(MPOL_PREFERRED_MANY, &words)) || mbind(MPOL_PREFERRED, &one);
    if !bound {
        process::say(
            b"a tier's memory could not be bound to its NUMA nodes (mbind failed); its pages go where the kernel likes",
        );
    }
    true
}

/// Inode of an open file; 0 if it is not open.
fn inode(fd: i32) -> u64 {
    // SAFETY: plain data; fstat fills it.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        let done = sys::call3(libc::SYS_fstat, fd as usize, &raw mut stat as usize, 0) == 0;
        if done { stat.st_ino ^ stat.st_dev << 48 } else { 0 }
    }
}

/// Maps a part of the tier's file, its blocks allocated first: a full file system is an answer here, and would be a
/// SIGBUS in the program later. The file has no name and ends with the process.
fn map_file(tier: usize, path: &[u8], offset: usize, addr: usize, size: usize) -> bool {
    let Some(slot) = FILES.get(tier) else { return false };
    let mut fd = slot.load(Acquire);
    if fd < 0 {
        let mut name = [0u8; 4096];
        let Some(room) = name.get_mut(..path.len()).filter(|_| path.len() < 4096) else { return false };
        room.copy_from_slice(path);
        let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
        let args = [libc::AT_FDCWD as usize, name.as_ptr() as usize, flags as usize, 0o600, 0, 0];
        // SAFETY: a NUL-terminated path.
        let opened = unsafe { sys::call(libc::SYS_openat, args) };
        if opened < 0 {
            process::say(b"a file tier's directory does not allow temporary files; its objects go to the next tier");
            return false;
        }
        // Out of the way of programs that count on low descriptor numbers or close them all up to some number.
        // SAFETY: plain descriptor calls.
        fd = unsafe {
            let high = sys::call3(libc::SYS_fcntl, opened as usize, libc::F_DUPFD_CLOEXEC as usize, 900);
            if high >= 0 {
                sys::call3(libc::SYS_close, opened as usize, 0, 0);
                high as i32
            } else {
                opened as i32
            }
        };
        match slot.compare_exchange(-1, fd, AcqRel, Acquire) {
            Ok(_) => INODES.get(tier).into_iter().for_each(|kept| kept.store(inode(fd), Release)),
            Err(other) => {
                // SAFETY: our own descriptor, which lost the race.
                unsafe { sys::call3(libc::SYS_close, fd as usize, 0, 0) };
                fd = other;
            }
        }
    }
    let kept = INODES.get(tier).map(|k| k.load(Acquire));
    if kept == Some(FORGOTTEN) {
        process::say(b"a forked child has no file tier; its further objects go to the next tier");
        return false;
    }
    if kept != Some(inode(fd)) {
        process::say(b"the program closed the descriptor of a file tier; further objects go to the next tier");
        return false;
    }
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_SHARED | libc::MAP_FIXED) as usize;
    // SAFETY: extends the tier's own file and maps it over a part of the range where nothing lies yet.
    unsafe {
        sys::call(libc::SYS_fallocate, [fd as usize, 0, offset, size, 0, 0]) == 0
            && sys::call(libc::SYS_mmap, [addr, size, rw, flags, fd as usize, offset]) == addr as isize
    }
}
