//! Functions that are in no program's text, and that tell how large things are: allocators, what reads numbers from the command line, and what reckons with them.

/// What such a function does. Numbers are places of what it is given, from 0.
#[derive(Clone, Copy)]
pub enum Known {
    /// Allocates so many bytes: the product of these.
    Allocates(&'static [usize]),
    /// Allocates, and writes the address there; its size.
    AllocatesInto(usize, usize),
    /// Frees.
    Frees(usize),
    /// Frees what a descriptor of Flang's has.
    FreesDescriptor,
    /// Allocates for a descriptor of Flang's.
    Descriptor,
    /// Sets the bounds of a descriptor.
    Bounds,
    /// Gives the number that a text holds.
    Number,
    /// Copies an argument of the program to a text of Fortran's.
    Argument,
    /// Gives the text of a variable of the environment.
    Environment,
    /// Gives how many arguments the program has.
    ArgumentCount,
    /// Begins to read from a text of Fortran's.
    Input,
    /// Reads a number from it.
    Read,
    /// Calls a function with an argument, in another thread or not.
    Calls(usize, usize),
    /// Copies one array of Fortran's to another, by descriptors.
    Copies(usize, usize),
    /// Gives a number that is made of the ones that it is given.
    Reckons(fn(&[f64]) -> Option<f64>),
    /// A parallel region begins.
    Forks,
    /// It is over.
    Joins,
    /// A phase begins, known by its call path.
    Mark,
    /// A phase begins, known by the name that it is given first.
    NamedMark,
}

/// What a function of this name does, if that is known here.
pub fn known(name: &str) -> Option<Known> {
    use Known::{
        Allocates, AllocatesInto, Argument, ArgumentCount, Bounds, Calls, Copies, Descriptor, Environment, Frees,
        FreesDescriptor, Input, Number, Read,
    };
    Some(match name {
        "malloc" | "valloc" | "pvalloc" | "_Znwm" | "_Znam" => Allocates(&[0]),
        _ if name.starts_with("_Znwm") || name.starts_with("_Znam") => Allocates(&[0]),
        "calloc" => Allocates(&[0, 1]),
        "realloc" | "aligned_alloc" | "memalign" | "mmap" | "mmap64" => Allocates(&[1]),
        "mremap" => Allocates(&[2]),
        "reallocarray" => Allocates(&[1, 2]),
        "strdup" | "strndup" | "__strdup" | "__strndup" => Allocates(&[9]),
        "posix_memalign" => AllocatesInto(0, 2),
        "free" | "munmap" => Frees(0),
        _ if name.starts_with("_ZdlPv") || name.starts_with("_ZdaPv") => Frees(0),
        "_FortranAAllocatableDeallocate" | "_FortranAPointerDeallocate" => FreesDescriptor,
        "_FortranAAllocatableAllocate"
        | "_FortranAPointerAllocate"
        | "_FortranAAllocatableAllocateSource"
        | "_FortranAPointerAllocateSource" => Descriptor,
        "_FortranAAllocatableSetBounds" | "_FortranAPointerSetBounds" => Bounds,
        "_FortranAAssign" => Copies(0, 1),
        "strtod" | "strtof" | "strtold" | "strtol" | "strtoul" | "strtoll" | "strtoull" | "atof" | "atoi" | "atol"
        | "atoll" | "__isoc23_strtol" | "__isoc23_strtoul" | "__isoc23_strtoll" | "__isoc23_strtoull" => Number,
        "_FortranAGetCommandArgument" => Argument,
        "getenv" | "secure_getenv" => Environment,
        "_FortranAArgumentCount" => ArgumentCount,
        "_FortranAioBeginInternalListInput" | "_FortranAioBeginInternalFormattedInput" => Input,
        "_FortranAioInputReal64" | "_FortranAioInputReal32" | "_FortranAioInputInteger" => Read,
        "pthread_create" => Calls(2, 3),
        ".fork" => Known::Forks,
        ".join" => Known::Joins,
        "hearth_phase" => Known::NamedMark,
        _ if begins_phase(name) => Known::Mark,
        _ => Known::Reckons(match name {
            "sqrt" | "sqrtf" => |n| Some(n.first()?.sqrt()),
            "cbrt" | "cbrtf" => |n| Some(n.first()?.cbrt()),
            "floor" | "floorf" => |n| Some(n.first()?.floor()),
            "ceil" | "ceilf" => |n| Some(n.first()?.ceil()),
            "round" | "lround" | "llround" | "nearbyint" | "rint" | "lrint" => |n| Some(n.first()?.round()),
            "fabs" | "labs" | "abs" | "llabs" => |n| Some(n.first()?.abs()),
            "exp" => |n| Some(n.first()?.exp()),
            "log" => |n| Some(n.first()?.ln()),
            "log2" => |n| Some(n.first()?.log2()),
            "log10" => |n| Some(n.first()?.log10()),
            "pow" => |n| Some(n.first()?.powf(*n.get(1)?)),
            "fmax" => |n| Some(n.first()?.max(*n.get(1)?)),
            "fmin" => |n| Some(n.first()?.min(*n.get(1)?)),
            _ => return None,
        }),
    })
}

/// A function of this name that is elsewhere leaves the numbers as they are that it is given by address as its argument `n`. (An operation of MPI gets the same
/// arguments in C and Fortran.)
pub fn leaves(name: &str, n: usize) -> bool {
    // Descriptors of Flang's tell where an array is, which they still do when it has been read.
    if let Some(what) = name.strip_prefix("_FortranA") {
        return !what.contains("Input") || what.contains("Descriptor");
    }
    let name = name.to_ascii_lowercase();
    let Some(operation) = name.strip_prefix("pmpi_").or_else(|| name.strip_prefix("mpi_")) else { return false };
    let is = |names: &[&str]| names.iter().any(|name| operation.starts_with(name));
    // What is broadcast is what the one process has that is not given it.
    is(&["init", "barrier", "bcast", "send", "isend", "bsend", "ssend", "rsend", "wait", "test"]) && !is(&["sendrecv"])
        || n == 0 && !is(&["recv", "irecv", "mrecv", "comm_", "get_"])
}

/// An operation of MPI that waits for other processes, in one of its spellings: those of `crates/mpi/src/names.rs`. A test is one, as it may complete something.
fn begins_phase(name: &str) -> bool {
    let Some(rest) = name.get(..4).filter(|p| p.eq_ignore_ascii_case("mpi_")).and(name.get(4..)) else { return false };
    let mut operation = rest.to_ascii_lowercase();
    for end in ["_", "_", "_f08ts", "_f08", "_large", "_c"] {
        operation = operation.strip_suffix(end).unwrap_or(&operation).to_string();
    }
    let prefixes = [
        "wait",
        "test",
        "gather",
        "scatter",
        "allgather",
        "alltoall",
        "reduce",
        "neighbor_all",
        "win_lock",
        "win_unlock",
        "win_flush",
        "sendrecv",
    ];
    let names = [
        "send",
        "bsend",
        "ssend",
        "rsend",
        "recv",
        "mrecv",
        "probe",
        "mprobe",
        "barrier",
        "bcast",
        "allreduce",
        "scan",
        "exscan",
        "win_fence",
        "win_start",
        "win_complete",
        "win_wait",
        "comm_dup",
        "comm_split",
        "comm_create",
    ];
    names.contains(&operation.as_str())
        || prefixes.iter().any(|p| operation.starts_with(p))
            && !operation.ends_with("_init")
            && operation != "reduce_local"
}

/// An operation of MPI that may end what another one has begun, and so touch what that was given.
pub fn completes(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["mpi_wait", "mpi_test", "mpi_win_"].iter().any(|p| name.starts_with(p))
}

/// The number at the beginning of a text, as C and Fortran read it.
pub fn parsed(text: &str) -> Option<f64> {
    let text = text.trim_start();
    (1..=text.len()).rev().filter_map(|n| text.get(..n)).find_map(|t| t.parse().ok()).filter(|n: &f64| n.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read_as_programs_do() {
        assert_eq!(parsed("64"), Some(64.0));
        assert_eq!(parsed(" 0.5MiB"), Some(0.5));
        assert_eq!(parsed("1e3"), Some(1000.0));
        for (name, begins) in [
            ("MPI_Allreduce", true),
            ("mpi_waitall_", true),
            ("mpi_sendrecv_f08_", true),
            ("MPI_Isend", false),
            ("MPI_Comm_rank", false),
            ("MPI_Allreduce_init", false),
            ("mpix", false),
        ] {
            assert_eq!(begins_phase(name), begins, "{name}");
        }
        assert_eq!((parsed(""), parsed("x1"), parsed("inf")), (None, None, None));
        for (name, n, left) in [
            ("MPI_Bcast", 0, true),
            ("mpi_recv_", 0, false),
            ("MPI_Sendrecv", 0, true),
            ("MPI_Sendrecv", 5, false),
            ("MPI_Allreduce", 1, false),
            ("MPI_Comm_rank", 1, false),
            ("_FortranAioInputInteger", 1, false),
            ("_FortranAioInputDescriptor", 1, true),
            ("_FortranASumReal8", 0, true),
            ("read", 1, false),
        ] {
            assert_eq!(leaves(name, n), left, "{name} {n}");
        }
    }
}
