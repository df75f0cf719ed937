//! How a call stack becomes a site id: a number that is the same in every
//! run of the same binaries: each return address is replaced by a *token* made of its module's identity and its
//! offset in the module (paper 000, section VI), and the site id is a hash of the whole chain of tokens.
//!
//! A plan made for another build is used by giving return addresses of the new build the tokens of the old one
//! ([`crate::image`]): then the ids agree again and the runtime does nothing else differently.

/// A module's identity: hash of its GNU build id or, without one, of its file name.
pub fn module_key(build_id: &[u8], path: &[u8]) -> u64 {
    if build_id.is_empty() {
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        hash_bytes(0x6e61_6d65, name)
    } else {
        hash_bytes(0x6275_696c, build_id)
    }
}

/// The token of a return address: module key and offset from the module's load bias.
pub const fn token(module_key: u64, offset: u64) -> u64 {
    mix(module_key ^ mix(offset.wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

/// Hash of no frames; the start of a chain.
pub const EMPTY_SITE: u64 = 0x4865_6172_7468_2131;

/// The site hash after one more frame (frames come innermost first). One multiply: this is the hot path.
#[inline(always)]
pub const fn chain(site: u64, token: u64) -> u64 {
    (site.rotate_left(23) ^ token).wrapping_mul(0x9fb2_1c65_1e98_df25)
}

/// The site id of a chain hash: never 0, which means "no site".
#[inline(always)]
pub const fn site_id(chain: u64) -> u64 {
    let id = mix(chain);
    if id == 0 { 1 } else { id }
}

/// The site id of a static variable: by the names of its module's file and itself, and its number among variables of
/// that name there, so that it survives a rebuild. An empty name: what is left of the module's data.
pub fn static_id(path: &[u8], name: &[u8], nth: u64) -> u64 {
    let module = module_key(b"", path);
    site_id(chain(chain(EMPTY_SITE ^ module, hash_bytes(0x7374_6174, name)), nth))
}

/// The site id of what a program has given a name to in its code: an object, or a moment of its run.
pub fn name_id(name: &[u8]) -> u64 {
    site_id(chain(EMPTY_SITE, hash_bytes(0x746f_6c64, name)))
}

/// The token of a frame of Python's: a line of a function, wherever its file lies and whatever interpreter runs it.
pub fn python_token(file: &[u8], function: &[u8], line: u64) -> u64 {
    let mut parts = file.rsplit(|&b| b == b'/');
    let name = parts.next().unwrap_or(file);
    // Every package has files of these names.
    let package = if name == b"__init__.py" || name == b"__main__.py" { parts.next() } else { None };
    let file = mix(hash_bytes(0x7079_7468, name) ^ package.map_or(0, |p| hash_bytes(0x7061_636b, p)));
    let token = mix(chain(chain(file, hash_bytes(0x6675_6e63, function)), line));
    if token == 0 { 1 } else { token }
}

/// The token of a position in the source that an annotated program tells of (`compiler/`): its number is the same in every build.
pub const fn position_token(position: u32) -> u64 {
    mix(0x736f_7572_6365 ^ mix(position as u64))
}

/// The site id of a call path in an annotated program: positions, innermost first.
#[inline(always)]
pub fn path_id(positions: impl IntoIterator<Item = u32>) -> u64 {
    site_id(positions.into_iter().fold(EMPTY_SITE, |all, position| chain(all, position_token(position))))
}

/// A number for a text.
pub fn text_id(text: &[u8]) -> u64 {
    hash_bytes(0x7465_7874, text).max(1)
}

/// Before the file and the name of a Python function where a module's path is looked for: `python:FILE:FUNCTION`. The offset of a frame in
/// it is its line.
pub const PYTHON: &str = "python:";

/// Before the path of an annotated module where a module's path is looked for: the offset of a frame in it is the number of a position in its source.
pub const SOURCE: &str = "source:";
/// Name of the ELF note by which such a module is known, and its type.
pub const ANNOTATED: (&[u8], u32) = (b"Hearth\0", 1);

/// Before a name where a module's path is looked for: a frame in such a module is a name and no place in a file.
pub const NAMED: &str = "name:";
/// Longest name, in bytes.
pub const LONGEST_NAME: usize = 200;

/// Large objects of a stack that are told apart from its first one; all further ones count as of the first one's site.
pub const APART: u8 = 15;

/// The site id of objects of a stack that are told apart from the others of it: `number` is 1 for those that came to life while one
/// was alive, and so on.
pub const fn apart_id(stack: u64, number: u8) -> u64 {
    site_id(chain(chain(EMPTY_SITE, stack), number as u64))
}

/// SplitMix64's finaliser (Steele, Lea and Flood 2014): every bit of the input moves every bit of the output.
#[inline(always)]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut h = mix(seed ^ bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        h = mix(h ^ u64::from_le_bytes(word));
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_depth_matter() {
        let (a, b) = (token(1, 0x10), token(1, 0x20));
        let two = |x, y| site_id(chain(chain(EMPTY_SITE, x), y));
        assert_ne!(two(a, b), two(b, a));
        assert_ne!(two(a, b), site_id(chain(EMPTY_SITE, a)));
        assert_ne!(token(1, 2), token(2, 1));
    }

    #[test]
    fn a_line_of_python_is_the_same_wherever_its_file_lies() {
        let here = python_token(b"/home/a/train.py", b"load", 41);
        assert_eq!(here, python_token(b"train.py", b"load", 41));
        assert_ne!(here, python_token(b"train.py", b"load", 42));
        assert_ne!(here, python_token(b"train.py", b"save", 41));
        assert_ne!(here, python_token(b"test.py", b"load", 41));
        let package = |file: &[u8]| python_token(file, b"<module>", 1);
        assert_eq!(package(b"/a/numpy/__init__.py"), package(b"/b/numpy/__init__.py"));
        assert_ne!(package(b"/a/numpy/__init__.py"), package(b"/a/pandas/__init__.py"));
    }

    #[test]
    fn a_module_without_build_id_is_known_by_its_file_name() {
        assert_eq!(module_key(b"", b"/usr/bin/a"), module_key(b"", b"/opt/a"));
        assert_ne!(module_key(b"", b"/usr/bin/a"), module_key(b"", b"/usr/bin/b"));
        assert_eq!(module_key(b"\x01\x02", b"a"), module_key(b"\x01\x02", b"b"));
    }
}
