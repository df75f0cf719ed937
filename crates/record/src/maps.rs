//! What lies where in a process, from /proc/PID/maps: which modules are loaded, and what kind of memory is not an object.

use crate::misses::Place;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

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
    name: &'a str,
}

/// The layout of a process at one moment.
#[derive(Debug, Default)]
pub struct Layout {
    modules: Vec<Loaded>,
    regions: Vec<(Range<u64>, Place)>,
}

/// Reads layouts; remembers what it learned of files.
#[derive(Debug, Default)]
pub struct Layouts {
    runtime: PathBuf,
    lowest: HashMap<String, Option<u64>>,
}

impl Layouts {
    /// Layouts in which the runtime is no module of the program.
    pub fn without(runtime: &Path) -> Layouts {
        Layouts { runtime: runtime.to_path_buf(), ..Layouts::default() }
    }

    /// The layout of a process; none if it is gone or may not be looked at.
    pub fn of(&mut self, pid: i32) -> Option<Layout> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        Some(Layout::parse(&text, |path| match self.lowest.get(path) {
            _ if self.runtime.as_os_str() == path => None,
            Some(known) => *known,
            None => *self.lowest.entry(path.to_string()).or_insert(crate::statics::lowest_address(path.as_ref())),
        }))
    }
}

impl Layout {
    /// The loaded modules.
    pub fn modules(&self) -> &[Loaded] {
        &self.modules
    }

    /// What kind of memory lies where.
    pub fn regions(&self) -> Vec<(Range<u64>, Place)> {
        self.regions.clone()
    }

    /// `lowest`: the address in the file at which a module begins, none if it is no module.
    fn parse(text: &str, mut lowest: impl FnMut(&str) -> Option<u64>) -> Layout {
        let lines: Vec<Line<'_>> = text.lines().filter_map(line).collect();
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
            if l.name.starts_with('/') && l.offset == 0 && !l.name.ends_with(" (deleted)") {
                if let Some(bias) = lowest(l.name).map(|lowest| l.range.start.wrapping_sub(lowest)) {
                    let loaded = Loaded { path: l.name.into(), bias };
                    if !layout.modules.contains(&loaded) {
                        layout.modules.push(loaded);
                    }
                }
            }
        }
        layout
    }
}

/// `7f00-7f10 rw-p 00001000 08:01 1234   /path`, proc_pid_maps(5).
fn line(text: &str) -> Option<Line<'_>> {
    let mut words = text.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let name = words.nth(2).unwrap_or("").trim_start();
    let number = |n| u64::from_str_radix(n, 16).ok();
    Some(Line { range: number(start)?..number(end)?, access, offset, name })
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

    #[test]
    fn memory_that_is_no_object_has_its_kind() {
        let layout = Layout::parse(MAPS, |_| Some(0));
        let at = |addr: u64| layout.regions().into_iter().find(|(r, _)| r.contains(&addr)).map(|r| r.1);
        let seen = [0x5555_5555_4000, 0x5555_5555_8000, 0x5555_55a0_1000, 0x7f40_0000_1000].map(at);
        assert_eq!(seen, [Place::File, Place::Data, Place::Heap, Place::Heap].map(Some));
        let seen = [0x7f50_0000_2000, 0x7f60_0012_4000, 0x7ffd_0000_1000, 0x1000].map(at);
        assert_eq!(seen, [Some(Place::Stack), Some(Place::Anonymous), Some(Place::Stack), None]);
    }

    #[test]
    fn modules_have_their_bias() {
        let layout = Layout::parse(MAPS, |path| (path != "/usr/lib/with space.so").then_some(0x1000));
        assert_eq!(layout.modules(), [Loaded { path: "/usr/bin/app".into(), bias: 0x5555_5555_3000 }]);
    }
}
