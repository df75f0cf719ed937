//! What lies where in a process, from /proc/PID/maps: which modules are loaded, and what kind of memory is not an object.

use crate::files::{Files, Mapped, Told};
use crate::misses::Place;
use crate::owner::Owner;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// glibc gives each heap of its further arenas a region of this size and alignment (HEAP_MAX_SIZE in malloc/arena.c).
const ARENA: u64 = 64 << 20;
/// Larger ones with a guard page below are hardly stacks.
const LARGEST_STACK: u64 = 1 << 30;

/// A module in the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loaded {
    /// Path of its file.
    pub path: PathBuf,
    /// What was added to the addresses in the file.
    pub bias: u64,
}

/// A line of the file.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    range: Range<u64>,
    access: &'a str,
    offset: u64,
    /// Device and inode.
    place: &'a str,
    name: &'a str,
}

impl Line<'_> {
    /// The file, if it is its beginning that is mapped.
    fn file(&self) -> Option<Mapped> {
        let is = self.name.starts_with('/') && self.offset == 0 && !self.name.ends_with(" (deleted)");
        is.then(|| (self.name.into(), self.place.to_string()))
    }
}

/// The layout of a process at one moment.
#[derive(Debug, Default)]
pub struct Layout {
    modules: Vec<(Loaded, Arc<Told>)>,
    regions: Vec<(Range<u64>, Place)>,
}

/// Reads layouts; remembers what it learned of files.
#[derive(Debug)]
pub struct Layouts {
    runtime: PathBuf,
    files: Files,
}

impl Layouts {
    /// Where the runtime lies.
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// Layouts in which the runtime is no module of the program. `variables`: those of modules are wanted, too.
    pub fn new(runtime: &Path, variables: bool) -> Layouts {
        Layouts { runtime: runtime.to_path_buf(), files: Files::new(variables) }
    }

    /// The layout of a process of this owner's; none if it is gone or may not be looked at.
    pub fn of(&mut self, pid: i32, owner: Owner) -> Option<Layout> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let lines: Vec<Line<'_>> = text.lines().filter_map(line).collect();
        let modules = lines.iter().filter_map(Line::file).filter(|(path, _)| *path != self.runtime);
        self.files.read(owner, modules);
        Some(Layout::of(&lines, |file| (file.0 != self.runtime).then(|| self.files.get(owner, file)).flatten()))
    }

    /// The owner's files take so long that they are not read for now.
    pub fn is_slow(&self, owner: Owner) -> bool {
        self.files.is_slow(owner)
    }
}

impl Layout {
    /// The loaded modules, and what their files say.
    pub fn modules(&self) -> &[(Loaded, Arc<Told>)] {
        &self.modules
    }

    /// What kind of memory lies where, in the order of addresses.
    pub fn regions(&self) -> &[(Range<u64>, Place)] {
        &self.regions
    }

    /// `told`: what a file says, none if it is no module.
    fn of(lines: &[Line<'_>], told: impl Fn(&Mapped) -> Option<Arc<Told>>) -> Layout {
        let mut layout = Layout::default();
        for (i, l) in lines.iter().enumerate() {
            let before = i.checked_sub(1).map(|i| &lines[i]).filter(|b| b.range.end == l.range.start);
            let guarded = before.is_some_and(|b| b.access.starts_with("---") && b.name.is_empty());
            let place = match l.name {
                "[heap]" => Place::Heap,
                "[stack]" => Place::Stack,
                "" if l.range.start % ARENA == 0 && l.range.end - l.range.start <= ARENA => Place::Heap,
                "" if guarded && l.access.starts_with("rw") && l.range.end - l.range.start <= LARGEST_STACK => {
                    Place::Stack
                }
                // The end of a module's zeroed data, which follows the part that is in the file.
                "" if before.is_some_and(|b| b.name.starts_with('/') && b.access.starts_with("rw")) => Place::Data,
                "" => Place::Anonymous,
                name if name.starts_with("[anon") => Place::Anonymous,
                _ if l.access.starts_with("rw-p") => Place::Data,
                _ => Place::File,
            };
            layout.regions.push((l.range.clone(), place));
            let told = l.file().and_then(|file| Some((told(&file)?, file.0)));
            if let Some((told, path)) = told {
                let loaded = Loaded { path, bias: l.range.start.wrapping_sub(told.lowest) };
                if layout.modules.iter().all(|(l, _)| *l != loaded) {
                    layout.modules.push((loaded, told));
                }
            }
        }
        layout
    }
}

/// `7f00-7f10 rw-p 00001000 08:01 1234   /path`, proc_pid_maps(5).
fn line(text: &str) -> Option<Line<'_>> {
    let mut words = text.splitn(4, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let rest = words.next()?;
    let (place, name) = rest.match_indices(' ').nth(1).map_or((rest, ""), |(at, _)| rest.split_at(at));
    let number = |n| u64::from_str_radix(n, 16).ok();
    Some(Line { range: number(start)?..number(end)?, access, offset, place, name: name.trim_start() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
555555554000-555555555000 r--p 00000000 fe:00 1001                       /usr/bin/app
555555555000-555555557000 rw-p 00001000 fe:00 1001                       /usr/bin/app
555555557000-555555660000 rw-p 00000000 00:00 0
555555a00000-555555a21000 rw-p 00000000 00:00 0                          [heap]
7f4000000000-7f4000021000 rw-p 00000000 00:00 0
7f4000021000-7f4004000000 ---p 00000000 00:00 0
7f5000000000-7f5000001000 ---p 00000000 00:00 0
7f5000001000-7f5000801000 rw-p 00000000 00:00 0
7f6000123000-7f6000223000 rw-p 00000000 00:00 0
7f7000000000-7f7000010000 r--p 00000000 fe:00 1002                       /usr/lib/with space.so
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
";

    fn layout(lowest: impl Fn(&Path) -> Option<u64>) -> Layout {
        let lines: Vec<Line<'_>> = MAPS.lines().filter_map(line).collect();
        Layout::of(&lines, |(path, _)| {
            let module = model::Module { path: path.display().to_string(), build_id: String::new() };
            lowest(path).map(|lowest| Arc::new(Told { lowest, module, variables: Vec::new() }))
        })
    }

    #[test]
    fn memory_that_is_no_object_has_its_kind() {
        let layout = layout(|_| Some(0));
        let at = |addr: u64| layout.regions().iter().find(|(r, _)| r.contains(&addr)).map(|r| r.1);
        let seen = [0x5555_5555_4000, 0x5555_5555_8000, 0x5555_55a0_1000, 0x7f40_0000_1000].map(at);
        assert_eq!(seen, [Place::File, Place::Data, Place::Heap, Place::Heap].map(Some));
        let seen = [0x7f50_0000_2000, 0x7f60_0012_4000, 0x7ffd_0000_1000, 0x1000].map(at);
        assert_eq!(seen, [Some(Place::Stack), Some(Place::Anonymous), Some(Place::Stack), None]);
    }

    #[test]
    fn modules_have_their_bias() {
        let layout = layout(|path| (path != Path::new("/usr/lib/with space.so")).then_some(0x1000));
        let modules: Vec<&Loaded> = layout.modules().iter().map(|(l, _)| l).collect();
        assert_eq!(modules, [&Loaded { path: "/usr/bin/app".into(), bias: 0x5555_5555_3000 }]);
    }

    #[test]
    fn files_have_a_path_and_a_place() {
        let lines: Vec<Line<'_>> = MAPS.lines().filter_map(line).collect();
        let files: Vec<Mapped> = lines.iter().filter_map(Line::file).collect();
        let file = |path: &str, place: &str| (PathBuf::from(path), place.to_string());
        assert_eq!(files, [file("/usr/bin/app", "fe:00 1001"), file("/usr/lib/with space.so", "fe:00 1002")]);
        assert_eq!((lines[2].place, lines[2].name), ("00:00 0", ""));
    }
}
