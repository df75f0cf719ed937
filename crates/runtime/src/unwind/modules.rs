//! The modules (executable, shared libraries, vDSO) that return addresses lie in, learned one by one as their addresses
//! turn up, in an append-only table without locks.
//!
//! Who covers an address is answered by `_dl_find_object` (glibc 2.35 and later), which takes no lock and may be called
//! from a signal handler; before that by `dl_iterate_phdr`. No lock of ours exists, so the loader's own, which
//! `dl_iterate_phdr` takes, cannot deadlock with it. Each time something new is learned about a module it is compared
//! with what the loader says now: a module that was replaced at the same addresses is noticed even if nobody told us.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use libc::{Elf64_Ehdr, Elf64_Phdr};
use wire::event::{MAX_BUILD_ID, MAX_PATH};
use wire::identity::ANNOTATED;

/// Modules a process may use over its life time; the code of modules beyond counts as code outside modules.
const MAX_MODULES: usize = 4096;

/// How long the table is, for whoever maps it.
pub(super) const BYTES: usize = MAX_MODULES * size_of::<Module>();

const EMPTY: u32 = 0;
const FILLING: u32 = 1;
const LIVE: u32 = 2;
const UNLOADED: u32 = 3;

/// A row of the table. Plain fields are written before `state` says [`LIVE`] and never again.
#[repr(C)]
pub(super) struct Module {
    state: AtomicU32,
    /// Hash of the identity, the same in every run: `wire::identity::module_key`.
    pub key: u64,
    pub image: Image,
    /// An address of its code. Of a module with gaps between its segments (as lld links) the loader tells another end for
    /// addresses in others.
    code: usize,
    build_id_len: usize,
    build_id: [u8; MAX_BUILD_ID],
    path_len: usize,
    path: [u8; MAX_PATH],
    annotated: bool,
}

/// Where the loader put a module and its unwind information. Addresses of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Image {
    pub start: usize,
    pub end: usize,
    /// What was added to the addresses in the file.
    pub bias: usize,
    /// `.eh_frame_hdr`; empty if the module has none.
    pub unwind_index: (usize, usize),
    /// End of the segment that `.eh_frame_hdr` is in, and with it `.eh_frame`.
    pub unwind_end: usize,
}

/// What a module is, for those who publish it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModuleInfo<'a> {
    /// GNU build id, empty if it has none.
    pub build_id: &'a [u8],
    /// Path as the loader knows it, absolute; of the executable, the target of `/proc/self/exe`.
    pub path: &'a [u8],
    /// It tells where in its source it allocates ([`crate::annotated`]).
    pub annotated: bool,
}

/// What the loader says about the module at an address.
struct Loaded {
    image: Image,
    name: *const c_char,
    /// Inside the module's notes; `(address, length)`.
    build_id: (usize, usize),
    annotated: bool,
}

/// `struct dl_find_object` of glibc's `dlfcn.h` on x86-64.
#[repr(C)]
struct DlFindObject {
    flags: u64,
    map_start: *const u8,
    map_end: *const u8,
    link_map: *const LinkMap,
    eh_frame: *const u8,
    reserved: [u64; 7],
}

/// The public part of `struct link_map` of `link.h`.
#[repr(C)]
struct LinkMap {
    addr: usize,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut DlFindObject) -> c_int;

pub(super) struct Modules {
    rows: *mut Module,
    used: AtomicU32,
    /// `_dl_find_object`, null if the C library has none.
    pub find_object: AtomicPtr<c_void>,
}

// SAFETY: rows are written by the one who took them from `EMPTY`, before others may look.
unsafe impl Sync for Modules {}
// SAFETY: as above; the memory is never unmapped.
unsafe impl Send for Modules {}

impl Modules {
    /// # Safety
    /// `memory` is [`BYTES`] of zeroed memory, page-aligned, for this table alone and for ever.
    pub unsafe fn new(memory: *mut u8) -> Modules {
        // SAFETY: a constant name.
        let find_object = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
        Modules { rows: memory.cast(), used: AtomicU32::new(0), find_object: AtomicPtr::new(find_object) }
    }

    fn row(&self, index: usize) -> Option<&Module> {
        if index >= self.used() {
            return None;
        }
        // SAFETY: inside the table; all-zero is a valid row. The state is looked at first, plain fields only if it is
        // beyond `FILLING`, after which they do not change.
        let row = unsafe { &*self.rows.add(index) };
        (row.state.load(Ordering::Acquire) > FILLING).then_some(row)
    }

    fn used(&self) -> usize {
        (self.used.load(Ordering::Acquire) as usize).min(MAX_MODULES)
    }

    /// Index and module at an address, from the table alone.
    pub fn known(&self, address: usize) -> Option<(u16, &Module)> {
        (0..self.used()).rev().find_map(|i| {
            let m = self.row(i)?;
            let hit = (m.image.start..m.image.end).contains(&address) && m.state.load(Ordering::Relaxed) == LIVE;
            hit.then_some((i as u16, m))
        })
    }

    pub fn info(&self, index: u16) -> Option<ModuleInfo<'_>> {
        let m = self.row(usize::from(index))?;
        Some(ModuleInfo { build_id: m.build_id()?, path: m.path.get(..m.path_len)?, annotated: m.annotated })
    }

    /// Whether any loaded module covers this address.
    pub fn is_code(&self, address: usize) -> bool {
        self.loaded(address).is_some()
    }

    /// The module at an address as it is now, entered in the table if it is new. `replaced` is called if another module
    /// was known at its place. `None` if no module covers the address (code generated at run time), or if
    /// [`MAX_MODULES`] others came before.
    #[inline(never)]
    pub fn at(&self, address: usize, replaced: impl Fn()) -> Option<&Module> {
        let now = self.loaded(address)?;
        let mut free_again = None;
        for i in 0..self.used() {
            let Some(m) = self.row(i) else { continue };
            let same = m.image == now.image && m.build_id() == Some(now.build_id());
            match m.state.load(Ordering::Acquire) {
                LIVE if same => return Some(m),
                LIVE if m.image.start < now.image.end && now.image.start < m.image.end => {
                    m.state.store(UNLOADED, Ordering::Release);
                    replaced();
                }
                UNLOADED if same && m.has_path_of(&now) => free_again = Some(m),
                _ => {}
            }
        }
        if let Some(m) = free_again {
            m.state.store(LIVE, Ordering::Release);
            return Some(m);
        }
        self.add(&now, address)
    }

    /// Mark what is no longer loaded; whether there was any.
    pub fn drop_unloaded(&self) -> bool {
        let mut any = false;
        for m in (0..self.used()).filter_map(|i| self.row(i)) {
            if m.state.load(Ordering::Acquire) == LIVE {
                let same =
                    self.loaded(m.code).is_some_and(|l| l.image == m.image && m.build_id() == Some(l.build_id()));
                if !same {
                    m.state.store(UNLOADED, Ordering::Release);
                    any = true;
                }
            }
        }
        any
    }

    fn add(&self, loaded: &Loaded, code: usize) -> Option<&Module> {
        let index = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| ((n as usize) < MAX_MODULES).then_some(n + 1))
            .ok()? as usize;
        // SAFETY: inside the table, and the index was given to this call alone; others see `EMPTY` or `FILLING` and look
        // away until the state changes.
        let row = unsafe { &mut *self.rows.add(index) };
        debug_assert_eq!(*row.state.get_mut(), EMPTY);
        *row.state.get_mut() = FILLING;
        row.image = loaded.image;
        row.code = code;
        row.build_id_len = copy(&mut row.build_id, loaded.build_id());
        row.path_len = loaded.copy_path(&mut row.path);
        row.annotated = loaded.annotated;
        row.key = wire::identity::module_key(row.build_id()?, row.path.get(..row.path_len)?);
        row.state.store(LIVE, Ordering::Release);
        Some(row)
    }

    fn loaded(&self, address: usize) -> Option<Loaded> {
        let find = self.find_object.load(Ordering::Relaxed);
        if find.is_null() {
            return loaded_by_iteration(address);
        }
        // SAFETY: this is what `_dl_find_object` is (glibc's `dlfcn.h`).
        let find: FindObject = unsafe { core::mem::transmute::<*mut c_void, FindObject>(find) };
        let mut found = DlFindObject {
            flags: 0,
            map_start: core::ptr::null(),
            map_end: core::ptr::null(),
            link_map: core::ptr::null(),
            eh_frame: core::ptr::null(),
            reserved: [0; 7],
        };
        // SAFETY: any address may be asked for; the result structure is large enough.
        if unsafe { find(address as *const c_void, &mut found) } != 0 || found.link_map.is_null() {
            return None;
        }
        // SAFETY: the link map of a module that is loaded, as a frame of it is on the stack.
        let (bias, name) = unsafe { ((*found.link_map).addr, (*found.link_map).name) };
        let (start, end) = (found.map_start as usize, found.map_end as usize);
        // SAFETY: the first mapping of the module, of at least one page.
        let header = unsafe { &*found.map_start.cast::<Elf64_Ehdr>() };
        let phdrs = usize::from(header.e_phnum) * size_of::<Elf64_Phdr>();
        let offset = header.e_phoff as usize;
        let in_first_page = offset.checked_add(phdrs).is_some_and(|e| e <= 4096.min(end - start));
        if !header.e_ident.starts_with(b"\x7fELF")
            || usize::from(header.e_phentsize) != size_of::<Elf64_Phdr>()
            || !in_first_page
            || offset % 8 != 0
        {
            // The ELF header is elsewhere: only the loader knows.
            return loaded_by_iteration(address);
        }
        // SAFETY: checked to lie in the first page of the module, which holds its headers.
        let phdrs = unsafe {
            core::slice::from_raw_parts(found.map_start.add(offset).cast::<Elf64_Phdr>(), usize::from(header.e_phnum))
        };
        Some(Loaded::new(start, end, bias, name, phdrs))
    }
}

/// Where the module that an address is in begins and ends; empty if it is in none.
pub(super) fn range_of(address: usize) -> core::ops::Range<usize> {
    loaded_by_iteration(address).map_or(0..0, |l| l.image.start..l.image.end)
}

impl Module {
    fn build_id(&self) -> Option<&[u8]> {
        self.build_id.get(..self.build_id_len)
    }

    fn has_path_of(&self, loaded: &Loaded) -> bool {
        let mut path = [0; MAX_PATH];
        let n = loaded.copy_path(&mut path);
        n == self.path_len && path.get(..n) == self.path.get(..n)
    }
}

impl Loaded {
    fn new(start: usize, end: usize, bias: usize, name: *const c_char, phdrs: &[Elf64_Phdr]) -> Loaded {
        let mut unwind_index = (0, 0);
        let mut unwind_end = 0;
        let mut build_id = (0, 0);
        let mut annotated = false;
        for p in phdrs {
            let at = bias.wrapping_add(p.p_vaddr as usize);
            match p.p_type {
                libc::PT_GNU_EH_FRAME => unwind_index = (at, p.p_memsz as usize),
                libc::PT_NOTE => {
                    if build_id.1 == 0 {
                        build_id = build_id_in(at, p.p_memsz as usize).unwrap_or_default();
                    }
                    annotated |= note_in(at, p.p_memsz as usize, ANNOTATED).is_some();
                }
                _ => {}
            }
        }
        for p in phdrs.iter().filter(|p| p.p_type == libc::PT_LOAD) {
            let at = bias.wrapping_add(p.p_vaddr as usize);
            // Bytes from the file only: nothing is promised about the rest.
            let segment = at..at.wrapping_add(p.p_filesz as usize);
            if segment.contains(&unwind_index.0) {
                unwind_end = segment.end;
            }
        }
        if unwind_end == 0 || unwind_index.0.wrapping_add(unwind_index.1) > unwind_end {
            unwind_index = (0, 0);
        }
        Loaded { image: Image { start, end, bias, unwind_index, unwind_end }, name, build_id, annotated }
    }

    fn build_id(&self) -> &[u8] {
        if self.build_id.1 == 0 {
            return &[];
        }
        // SAFETY: found inside a loaded note segment of this module.
        unsafe { core::slice::from_raw_parts(self.build_id.0 as *const u8, self.build_id.1) }
    }

    /// Number of bytes put; a path that does not fit is cut.
    fn copy_path(&self, out: &mut [u8; MAX_PATH]) -> usize {
        // SAFETY: the loader's C string; `readlink` writes into the buffer.
        unsafe {
            if !self.name.is_null() && *self.name != 0 {
                return copy_absolute(out, CStr::from_ptr(self.name).to_bytes());
            }
            let exe = c"/proc/self/exe".as_ptr();
            let n = libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, exe, out.as_mut_ptr(), out.len());
            usize::try_from(n).unwrap_or(0)
        }
    }
}

/// Puts a path of the loader's, which begins as the program gave it to `dlopen`: one of the present folder would be lost
/// on whoever reads it elsewhere. What has no folder at all is no file (`linux-vdso.so.1`).
fn copy_absolute(out: &mut [u8; MAX_PATH], path: &[u8]) -> usize {
    if path.starts_with(b"/") || !path.contains(&b'/') {
        return copy(out, path);
    }
    // SAFETY: writes into the buffer, no more than it has room for.
    let n = unsafe { libc::syscall(libc::SYS_getcwd, out.as_mut_ptr(), out.len()) };
    // It counts the zero at the end, and a folder outside of the root has no path.
    let mut put = usize::try_from(n).unwrap_or(0).saturating_sub(1);
    if put == 0 || !out.starts_with(b"/") {
        return copy(out, path);
    }
    let slash: &[u8] = if put == 1 { b"" } else { b"/" };
    for part in [slash, path.strip_prefix(b"./").unwrap_or(path)] {
        put += copy(out.get_mut(put..).unwrap_or(&mut []), part);
    }
    put
}

fn copy(out: &mut [u8], bytes: &[u8]) -> usize {
    let n = bytes.len().min(out.len());
    for (o, b) in out.iter_mut().zip(bytes) {
        *o = *b;
    }
    n
}

/// The build id among the ELF notes at `start`: name "GNU", type `NT_GNU_BUILD_ID` (3).
fn build_id_in(start: usize, len: usize) -> Option<(usize, usize)> {
    note_in(start, len, (b"GNU\0", 3)).filter(|id| id.1 <= MAX_BUILD_ID)
}

/// Where the content of a note of this name and type lies, and its length.
fn note_in(start: usize, len: usize, (name, kind): (&[u8], u32)) -> Option<(usize, usize)> {
    let mut at = 0usize;
    while at.checked_add(12)? <= len {
        // SAFETY: inside a loaded note segment, as just checked; notes are 4-byte aligned, read as if they were not.
        let word = |i: usize| unsafe { ((start + at + i) as *const u32).read_unaligned() };
        let (name_len, desc_len) = (word(0) as usize, word(4) as usize);
        let desc = at.checked_add(12)?.checked_add(name_len.checked_next_multiple_of(4)?)?;
        let next = desc.checked_add(desc_len.checked_next_multiple_of(4)?)?;
        if next > len {
            return None;
        }
        // SAFETY: the name lies before `next`.
        let named = || unsafe { core::slice::from_raw_parts((start + at + 12) as *const u8, name_len) };
        if word(8) == kind && named() == name {
            return Some((start + desc, desc_len));
        }
        at = next;
    }
    None
}

fn loaded_by_iteration(address: usize) -> Option<Loaded> {
    struct Search {
        address: usize,
        found: Option<Loaded>,
    }
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
        // SAFETY: what `dl_iterate_phdr` promises its callback, and the pointer given to it below.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: as above.
        let phdrs = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let bias = info.dlpi_addr as usize;
        let (mut start, mut end) = (usize::MAX, 0);
        for p in phdrs.iter().filter(|p| p.p_type == libc::PT_LOAD) {
            let low = bias.wrapping_add(p.p_vaddr as usize);
            start = start.min(low & !4095);
            end = end.max(low.wrapping_add(p.p_memsz as usize));
        }
        if !(start..end).contains(&search.address) {
            return 0;
        }
        search.found = Some(Loaded::new(start, end, bias, info.dlpi_name, phdrs));
        1
    }
    let mut search = Search { address, found: None };
    // SAFETY: the callback gets the search structure, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::super::map_zeroed;
    use super::*;

    fn modules() -> Modules {
        // SAFETY: fresh, zeroed, page-aligned, never unmapped.
        unsafe { Modules::new(map_zeroed(BYTES).unwrap()) }
    }

    fn anchor() {}

    #[test]
    fn knows_the_executable_and_the_c_library() {
        let m = modules();
        for (address, name) in
            [(anchor as *const () as usize, "hearth"), (libc::qsort as *const () as usize, "libc.so")]
        {
            assert!(m.known(address).is_none());
            let module = m.at(address, || panic!("nothing was replaced")).unwrap();
            assert!(module.image.unwind_index.1 > 0);
            let (index, again) = m.known(address).unwrap();
            assert_eq!(again.image, module.image);
            let info = m.info(index).unwrap();
            assert!(String::from_utf8_lossy(info.path).contains(name), "{info:?}");
            assert_eq!(module.key, wire::identity::module_key(info.build_id, info.path));
        }
        assert_eq!(m.used(), 2);
        assert!(!m.drop_unloaded());
        assert!(m.at(&raw const m as usize, || ()).is_none());
        assert!(m.info(2).is_none());
    }

    #[test]
    fn relative_paths_of_the_loader_become_absolute() {
        let absolute = |path: &str| {
            let mut out = [0; MAX_PATH];
            let n = copy_absolute(&mut out, path.as_bytes());
            String::from_utf8(out[..n].to_vec()).unwrap()
        };
        let folder = std::env::current_dir().unwrap().display().to_string();
        assert_eq!(absolute("./ext.so"), format!("{folder}/ext.so"));
        assert_eq!(absolute("../lib/ext.so"), format!("{folder}/../lib/ext.so"));
        assert_eq!(["/lib/ext.so", "linux-vdso.so.1"].map(absolute), ["/lib/ext.so", "linux-vdso.so.1"]);
        assert_eq!(absolute(&format!("./{}", "long/".repeat(MAX_PATH))).len(), MAX_PATH);
    }

    #[test]
    fn both_ways_of_finding_a_module_agree() {
        let m = modules();
        for address in [anchor as *const (), libc::qsort as *const (), libc::dlsym as *const ()].map(|p| p as usize) {
            let (a, b) = (m.loaded(address).unwrap(), loaded_by_iteration(address).unwrap());
            assert_eq!((a.image.bias, a.image.unwind_index), (b.image.bias, b.image.unwind_index));
            assert_eq!(a.build_id(), b.build_id());
        }
    }

    #[test]
    fn finds_the_build_id_behind_other_notes() {
        let note = |name: &[u8; 4], kind: u32, desc: &[u8]| {
            let mut n = [4u32.to_le_bytes(), (desc.len() as u32).to_le_bytes(), kind.to_le_bytes(), *name].concat();
            n.extend_from_slice(desc);
            n
        };
        let notes = [note(b"GNU\0", 1, &[9; 16]), note(b"GNU\0", 3, &[7; 20])].concat();
        let start = notes.as_ptr() as usize;
        assert_eq!(build_id_in(start, notes.len()), Some((start + 32 + 16, 20)));
        assert_eq!(build_id_in(start, notes.len() - 1), None);
        assert_eq!(build_id_in(start, 32), None);
    }
}
