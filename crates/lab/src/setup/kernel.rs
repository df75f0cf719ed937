//! The guest's kernel, unpacked.
//!
//! A distribution's kernel unpacks itself when it is started, which takes an emulated processor more than a second of each run. QEMU also starts the program
//! that is packed in it, by its note for Xen's PVH, from which a loader knows where to begin in 32-bit mode.

use crate::Error;
use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;

/// Places in the file (the kernel's Documentation/arch/x86/boot.rst): the number of sectors of the setup, the protocol's name, and where the program
/// lies from the end of the setup on, and how long it is.
const SETUP_SECTORS: usize = 0x1f1;
const NAME: usize = 0x202;
const PAYLOAD: usize = 0x248;
const SECTOR: usize = 512;
/// Four bytes behind it say how long it is when it is unpacked.
const SIZE: usize = 4;
/// A note of Xen's that says where to begin (XEN_ELFNOTE_PHYS32_ENTRY, xen/include/public/elfnote.h).
const ENTRY: (&[u8], u32) = (b"Xen", 18);
/// More than any kernel.
const MOST: usize = 1 << 30;

/// The program in a kernel's file (a bzImage), as an ELF file.
///
/// # Errors
/// If it is packed otherwise than by zstd, or cannot be started by QEMU.
pub fn unpacked(file: &[u8]) -> Result<Vec<u8>, Error> {
    let bad = |why: &str| Error(format!("the kernel of the package cannot be unpacked: {why}"));
    let word = |at: usize| {
        let bytes = file.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let packed = || {
        let setup = match *file.get(SETUP_SECTORS)? {
            0 => 4,
            sectors => usize::from(sectors),
        };
        let start = (setup + 1) * SECTOR + word(PAYLOAD)?;
        file.get(start..start.checked_add(word(PAYLOAD + 4)?)?).filter(|p| p.len() > SIZE)
    };
    if file.get(NAME..NAME + 4) != Some(b"HdrS") {
        return Err(bad("it is no kernel for x86"));
    }
    let packed = packed().ok_or_else(|| bad("it is cut off"))?;
    let (frame, size) = packed.split_at(packed.len() - SIZE);
    let size = u32::from_le_bytes(size.try_into().expect("four bytes")) as usize;
    let decoder = StreamingDecoder::new(frame).map_err(|e| bad(&e.to_string()))?;
    let mut program = Vec::with_capacity(size.min(MOST));
    decoder.take(MOST as u64).read_to_end(&mut program).map_err(|e| bad(&e.to_string()))?;
    if program.len() != size {
        return Err(bad(&format!("it has {} bytes and not {size}", program.len())));
    }
    match can_be_started(&program) {
        Ok(true) => Ok(program),
        Ok(false) => Err(bad("it has no entry for PVH (CONFIG_PVH)")),
        Err(e) => Err(bad(&e.to_string())),
    }
}

/// Whether there is the note.
fn can_be_started(program: &[u8]) -> object::Result<bool> {
    let header = FileHeader64::<LittleEndian>::parse(program)?;
    let endian = LittleEndian;
    for segment in header.program_headers(endian, program)? {
        let Some(mut notes) = segment.notes(endian, program)? else { continue };
        while let Some(note) = notes.next()? {
            if (note.name(), note.n_type(endian)) == ENTRY {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_kernel_or_cut_off_is_said_to_be_so() {
        let why = |file: &[u8]| unpacked(file).unwrap_err().to_string();
        assert!(why(b"MZ").contains("no kernel for x86"), "{}", why(b"MZ"));
        let mut file = vec![0; 1024];
        file[NAME..NAME + 4].copy_from_slice(b"HdrS");
        file[SETUP_SECTORS] = 1;
        file[PAYLOAD + 4] = 40;
        assert!(why(&file).contains("cut off"), "{}", why(&file));
        file.resize(2048, 7);
        assert!(why(&file).starts_with("the kernel of the package cannot be unpacked: "), "{}", why(&file));
    }
}
