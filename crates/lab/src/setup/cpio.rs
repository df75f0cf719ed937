//! Writes the archive that the guest's kernel unpacks as its first file system: cpio in the "newc" form, as the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst` describes it.

/// What an entry is; the numbers are the file types of `stat`.
#[derive(Clone, Copy)]
pub enum Entry<'a> {
    /// A folder.
    Folder,
    /// An executable file.
    Program(&'a [u8]),
    /// Any other file.
    File(&'a [u8]),
    /// A character device of this major and minor number.
    Device(u32, u32),
}

/// An archive in the making.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds an entry; folders come before what is in them. `name` has no leading slash.
    pub fn add(&mut self, name: &str, entry: Entry) {
        let (mode, data, major, minor): (u32, &[u8], u32, u32) = match entry {
            Entry::Folder => (0o040_755, &[], 0, 0),
            Entry::Program(data) => (0o100_755, data, 0, 0),
            Entry::File(data) => (0o100_644, data, 0, 0),
            Entry::Device(major, minor) => (0o020_600, &[], major, minor),
        };
        self.entries += 1;
        self.write(name, [self.entries, mode, 0, 0, 1, 0, data.len() as u32, 0, 0, major, minor], data);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.write("TRAILER!!!", [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], &[]);
        self.bytes
    }

    /// A header: inode, mode, user, group, links, time, size, the device it lies on, the device it is. Name and data
    /// follow, each padded to four bytes.
    fn write(&mut self, name: &str, fields: [u32; 11], data: &[u8]) {
        self.bytes.extend(b"070701");
        for field in fields.into_iter().chain([name.len() as u32 + 1, 0]) {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout, field by field; whether the kernel takes it is seen by every start of the guest.
    #[test]
    fn headers_names_and_data_are_where_the_form_wants_them() {
        let mut archive = Archive::default();
        archive.add("bin", Entry::Folder);
        archive.add("bin/sh", Entry::Program(b"hello"));
        archive.add("dev/console", Entry::Device(5, 1));
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let mut at = 0;
        let mut seen = Vec::new();
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |i: usize| {
                let hex = std::str::from_utf8(&bytes[at + 6 + 8 * i..at + 14 + 8 * i]).unwrap();
                u32::from_str_radix(hex, 16).unwrap() as usize
            };
            let name_end = at + 110 + field(11);
            let name = std::str::from_utf8(&bytes[at + 110..name_end - 1]).unwrap().to_string();
            assert_eq!(bytes[name_end - 1], 0);
            let data_at = name_end.next_multiple_of(4);
            let data = bytes[data_at..data_at + field(6)].to_vec();
            let next = (data_at + field(6)).next_multiple_of(4);
            seen.push((name.clone(), field(1), (field(9), field(10)), data));
            if name == "TRAILER!!!" {
                assert_eq!(next, bytes.len());
                break;
            }
            at = next;
        }
        assert_eq!(seen.len(), 4);
        assert_eq!(seen[0], ("bin".into(), 0o040_755, (0, 0), vec![]));
        assert_eq!(seen[1], ("bin/sh".into(), 0o100_755, (0, 0), b"hello".to_vec()));
        assert_eq!(seen[2], ("dev/console".into(), 0o020_600, (5, 1), vec![]));
    }
}
