//! Whether ranks were started by another MPI's launcher than that of the MPI that they use: then each is a job of its own, and nothing else says so.

use crate::entry::{function, variable};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What launchers tell a process: how many ranks there are, which it is, and whose launcher it is. Slurm and Flux speak the same languages as MPICH's.
const LAUNCHERS: [(&str, &str, &str); 2] = [
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"),
    ("PMI_SIZE", "PMI_RANK", "MPICH's mpirun (or Slurm's, or Flux's)"),
];
/// `MPI_COMM_WORLD` of MPICH and all that have its binary interface.
const MPICH_WORLD: usize = 0x4400_0000;
/// `MPI_MAX_LIBRARY_VERSION_STRING` is 8192 at most.
const LONGEST: usize = 8192;

/// At the process's first operation says so, if that is how it is.
pub fn look_once(caller: usize) {
    static LOOKED: AtomicBool = AtomicBool::new(false);
    if !LOOKED.load(Relaxed) && !LOOKED.swap(true, Relaxed) {
        look(caller);
    }
}

#[cold]
fn look(caller: usize) {
    let number = |name: &str| std::env::var(name).ok()?.parse::<c_int>().ok();
    let started = LAUNCHERS.iter().find_map(|&(size, rank, whose)| Some((number(size)?, number(rank)?, whose)));
    // One of them says it for all.
    let Some((ranks, 0, whose)) = started.filter(|(ranks, ..)| *ranks > 1) else { return };
    if size_of_world(caller) == Some(1) {
        let mpi = version(caller);
        eprintln!(
            "hearth: {whose} has started {ranks} ranks, but the program's MPI ({mpi}) knows of one, so that each is a job of its own; start it by that MPI's mpirun"
        );
    }
}

/// How many ranks MPI knows of; `None` if it was begun in another way than by `MPI_Init`.
fn size_of_world(caller: usize) -> Option<c_int> {
    let find = |name: &CStr| Some(function(name, caller)).filter(|f| !f.is_null());
    let (mut begun, mut size): (c_int, c_int) = (0, 0);
    // SAFETY: MPI's functions of these names have these types, whichever MPI it is; a communicator is a whole number or an address.
    unsafe {
        let initialized = transmute::<*mut c_void, extern "C" fn(*mut c_int) -> c_int>(find(c"PMPI_Initialized")?);
        let comm_size = transmute::<*mut c_void, extern "C" fn(usize, *mut c_int) -> c_int>(find(c"PMPI_Comm_size")?);
        let world = variable(c"ompi_mpi_comm_world", caller);
        let world = if world.is_null() { MPICH_WORLD } else { world as usize };
        (initialized(&mut begun) == 0 && begun != 0 && comm_size(world, &mut size) == 0).then_some(size)
    }
}

/// The first line of what MPI says of itself.
fn version(caller: usize) -> String {
    let found = function(c"PMPI_Get_library_version", caller);
    let mut text = [0u8; LONGEST];
    let mut length: c_int = 0;
    if !found.is_null() {
        // SAFETY: as above; there is room for the longest text.
        unsafe {
            let version = transmute::<*mut c_void, extern "C" fn(*mut c_char, *mut c_int) -> c_int>(found);
            version(text.as_mut_ptr().cast(), &mut length);
        }
    }
    let text = String::from_utf8_lossy(&text[..usize::try_from(length).unwrap_or(0).min(LONGEST)]);
    let line = text.lines().next().unwrap_or_default().split(',').next().unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches(char::from(0)).to_string()
}
