//! From the address of an instruction to the file that it lies in, while the process lives: `/proc/PID/maps` and the
//! program headers of what is mapped there.
//!
//! Files are mapped while a program runs (plug-ins), so an address that is not known makes the map be read again, once
//! for each time that the addresses are looked up.

use crate::follow::RawFrame;
use model::Module;
use object::{Object, ObjectSegment};
use std::collections::HashMap;
use std::path::Path;

/// The code of one process.
#[derive(Debug)]
pub struct Code {
    pid: u32,
    spans: Vec<Span>,
    files: HashMap<String, Option<File>>,
}

/// Executable memory that shows a part of a file.
#[derive(Debug)]
struct Span {
    start: u64,
    end: u64,
    /// Offset in the file of the first byte.
    offset: u64,
    path: String,
}

/// What has to be known of a file: its name, and of each segment the offset, length and address.
#[derive(Debug)]
struct File {
    module: Module,
    segments: Vec<(u64, u64, u64)>,
}

impl Code {
    /// The code of a process as it is mapped now; empty if it is gone.
    pub fn of(pid: u32) -> Code {
        let mut code = Code { pid, spans: Vec::new(), files: HashMap::new() };
        code.read();
        code
    }

    fn read(&mut self) {
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)) else { return };
        let spans = spans(&maps);
        // A process that has ended has no memory, but had some.
        if !spans.is_empty() {
            self.spans = spans;
        }
    }

    /// Where the code at these addresses lies, in their order. As in a call stack, an offset is that of the byte behind:
    /// one more than the instruction's, so that the same table of symbols serves both. Code in no file (made at run time,
    /// or of a file that is gone) is all in one place, the offset 0 of no module.
    pub fn frames(&mut self, addresses: &[u64]) -> Vec<RawFrame> {
        if addresses.iter().any(|&a| self.span(a).is_none()) {
            self.read();
        }
        addresses.iter().map(|&a| self.frame(a).unwrap_or(RawFrame { module: None, offset: 0 })).collect()
    }

    fn span(&self, address: u64) -> Option<&Span> {
        let at = self.spans.partition_point(|s| s.start <= address).checked_sub(1)?;
        self.spans.get(at).filter(|s| address < s.end)
    }

    fn frame(&mut self, address: u64) -> Option<RawFrame> {
        let span = self.span(address)?;
        let (path, in_file) = (span.path.clone(), address - span.start + span.offset);
        let file = self.files.entry(path).or_insert_with_key(|path| File::read(Path::new(path))).as_ref()?;
        let (offset, _, vaddr) =
            file.segments.iter().find(|(offset, length, _)| (*offset..offset + length).contains(&in_file))?;
        Some(RawFrame { module: Some(file.module.clone()), offset: in_file - offset + vaddr + 1 })
    }
}

impl File {
    fn read(path: &Path) -> Option<File> {
        let file = crate::symbols::regular(path).ok()?;
        // SAFETY: a read-only private mapping of a file that is not expected to shrink while it is looked at.
        let map = unsafe { memmap2::Mmap::map(&file) }.ok()?;
        let elf = object::File::parse(&*map).ok()?;
        let id = elf.build_id().ok().flatten().unwrap_or_default();
        let build_id = id.iter().map(|b| format!("{b:02x}")).collect();
        let segments = elf.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
        Some(File { module: Module { path: path.to_str()?.to_string(), build_id }, segments })
    }
}

/// Executable mappings of files, by address.
fn spans(maps: &str) -> Vec<Span> {
    let span = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let offset = words.next()?;
        let path = words.nth(2)?.trim_start();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let span = Span { start: hex(start)?, end: hex(end)?, offset: hex(offset)?, path: path.to_string() };
        (rights.contains('x') && path.starts_with('/')).then_some(span)
    };
    maps.lines().filter_map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::symbolize;

    #[inline(never)]
    fn a_function_to_be_found() -> u64 {
        std::hint::black_box(42)
    }

    #[test]
    fn an_address_of_this_test_is_found_by_name() {
        let mut code = Code::of(std::process::id());
        let frames = code.frames(&[a_function_to_be_found as *const () as u64, 16]);
        assert_eq!(frames[1], RawFrame { module: None, offset: 0 });
        let lines = symbolize(frames[0].module.as_ref().unwrap(), &[frames[0].offset]).unwrap();
        assert!(lines[0].iter().any(|l| l.function.contains("a_function_to_be_found")), "{lines:?}");
        assert_eq!(a_function_to_be_found(), 42);
    }

    #[test]
    fn what_is_mapped_later_is_found_and_the_dead_are_remembered() {
        let mut code = Code { pid: std::process::id(), spans: Vec::new(), files: HashMap::new() };
        let here = a_function_to_be_found as *const () as u64;
        assert!(code.frames(&[here])[0].module.is_some());
        code.pid = 0;
        assert!(code.frames(&[here, 16])[0].module.is_some());
    }

    #[test]
    fn only_executable_files_are_code() {
        let maps = "\
55d0-55e0 r--p 00000000 fe:01 123   /bin/a b\n\
55e0-55f0 r-xp 00001000 fe:01 123   /bin/a b\n\
7f00-7f10 r-xp 00000000 00:00 0     [vdso]\n\
7f10-7f20 rwxp 00000000 00:00 0\n";
        let found = spans(maps);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].start, found[0].end, found[0].offset, &*found[0].path),
            (0x55e0, 0x55f0, 0x1000, "/bin/a b")
        );
    }
}
