//! The names: MPI 4.0's operations that wait for other processes, in the spellings by which programs reach them in MPICH and Open MPI.

use crate::entry::{Begins::*, Entry};

/// A function of this name, which goes through [`crate::call`].
macro_rules! name {
    ($begins:expr, $($part:expr),+) => {
        const _: () = {
            static ENTRY: Entry = Entry::new(concat!($($part,)+ "\0"), $begins);
            #[unsafe(export_name = concat!($($part),+))]
            extern "C" fn entry() -> ! {
                // SAFETY: a jump with all argument registers as they came; the function has no frame of its own.
                unsafe { core::arch::asm!("lea rax, [rip + {}]", "jmp hearth_mpi_call", sym ENTRY, options(noreturn, nostack)) }
            }
        };
    };
}

/// An operation, as C spells it behind `MPI_`, in lower case and in upper case.
macro_rules! operations {
    ($($begins:expr => $($name:literal $lower:literal $upper:literal,)+;)+) => {$($(
        name!($begins, "MPI_", $name);
        name!($begins, "MPI_", $name, "_c");
        name!($begins, "mpi_", $lower, "_");
        name!($begins, "mpi_", $lower, "__");
        name!($begins, "mpi_", $lower);
        name!($begins, "MPI_", $upper);
        name!($begins, "mpi_", $lower, "_f08_");
        name!($begins, "mpi_", $lower, "_f08_large_");
        name!($begins, "mpi_", $lower, "_f08ts_");
        name!($begins, "mpi_", $lower, "_f08ts_large_");
    )+)+};
}

operations! {
    Call =>
        "Send" "send" "SEND",
        "Bsend" "bsend" "BSEND",
        "Ssend" "ssend" "SSEND",
        "Rsend" "rsend" "RSEND",
        "Recv" "recv" "RECV",
        "Mrecv" "mrecv" "MRECV",
        "Sendrecv" "sendrecv" "SENDRECV",
        "Sendrecv_replace" "sendrecv_replace" "SENDRECV_REPLACE",
        "Probe" "probe" "PROBE",
        "Mprobe" "mprobe" "MPROBE",
        "Wait" "wait" "WAIT",
        "Waitall" "waitall" "WAITALL",
        "Waitany" "waitany" "WAITANY",
        "Waitsome" "waitsome" "WAITSOME",
        "Barrier" "barrier" "BARRIER",
        "Bcast" "bcast" "BCAST",
        "Gather" "gather" "GATHER",
        "Gatherv" "gatherv" "GATHERV",
        "Scatter" "scatter" "SCATTER",
        "Scatterv" "scatterv" "SCATTERV",
        "Allgather" "allgather" "ALLGATHER",
        "Allgatherv" "allgatherv" "ALLGATHERV",
        "Alltoall" "alltoall" "ALLTOALL",
        "Alltoallv" "alltoallv" "ALLTOALLV",
        "Alltoallw" "alltoallw" "ALLTOALLW",
        "Reduce" "reduce" "REDUCE",
        "Allreduce" "allreduce" "ALLREDUCE",
        "Reduce_scatter" "reduce_scatter" "REDUCE_SCATTER",
        "Reduce_scatter_block" "reduce_scatter_block" "REDUCE_SCATTER_BLOCK",
        "Scan" "scan" "SCAN",
        "Exscan" "exscan" "EXSCAN",
        "Neighbor_allgather" "neighbor_allgather" "NEIGHBOR_ALLGATHER",
        "Neighbor_allgatherv" "neighbor_allgatherv" "NEIGHBOR_ALLGATHERV",
        "Neighbor_alltoall" "neighbor_alltoall" "NEIGHBOR_ALLTOALL",
        "Neighbor_alltoallv" "neighbor_alltoallv" "NEIGHBOR_ALLTOALLV",
        "Neighbor_alltoallw" "neighbor_alltoallw" "NEIGHBOR_ALLTOALLW",
        "Win_fence" "win_fence" "WIN_FENCE",
        "Win_start" "win_start" "WIN_START",
        "Win_complete" "win_complete" "WIN_COMPLETE",
        "Win_wait" "win_wait" "WIN_WAIT",
        "Win_lock" "win_lock" "WIN_LOCK",
        "Win_lock_all" "win_lock_all" "WIN_LOCK_ALL",
        "Win_unlock" "win_unlock" "WIN_UNLOCK",
        "Win_unlock_all" "win_unlock_all" "WIN_UNLOCK_ALL",
        "Win_flush" "win_flush" "WIN_FLUSH",
        "Win_flush_all" "win_flush_all" "WIN_FLUSH_ALL",
        "Win_flush_local" "win_flush_local" "WIN_FLUSH_LOCAL",
        "Win_flush_local_all" "win_flush_local_all" "WIN_FLUSH_LOCAL_ALL",
        "Comm_dup" "comm_dup" "COMM_DUP",
        "Comm_split" "comm_split" "COMM_SPLIT",
        "Comm_create" "comm_create" "COMM_CREATE",
    ;
    Completion(1) =>
        "Test" "test" "TEST",
    ;
    Completion(2) =>
        "Testall" "testall" "TESTALL",
        "Testsome" "testsome" "TESTSOME",
    ;
    Completion(3) =>
        "Testany" "testany" "TESTANY",
    ;
}
