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
        "Comm_dup_with_info" "comm_dup_with_info" "COMM_DUP_WITH_INFO",
        "Comm_split_type" "comm_split_type" "COMM_SPLIT_TYPE",
        "Comm_create_group" "comm_create_group" "COMM_CREATE_GROUP",
        "Comm_create_from_group" "comm_create_from_group" "COMM_CREATE_FROM_GROUP",
        "Comm_disconnect" "comm_disconnect" "COMM_DISCONNECT",
        "Comm_accept" "comm_accept" "COMM_ACCEPT",
        "Comm_connect" "comm_connect" "COMM_CONNECT",
        "Comm_spawn" "comm_spawn" "COMM_SPAWN",
        "Comm_spawn_multiple" "comm_spawn_multiple" "COMM_SPAWN_MULTIPLE",
        "Intercomm_create" "intercomm_create" "INTERCOMM_CREATE",
        "Intercomm_create_from_groups" "intercomm_create_from_groups" "INTERCOMM_CREATE_FROM_GROUPS",
        "Intercomm_merge" "intercomm_merge" "INTERCOMM_MERGE",
        "Cart_create" "cart_create" "CART_CREATE",
        "Cart_sub" "cart_sub" "CART_SUB",
        "Graph_create" "graph_create" "GRAPH_CREATE",
        "Dist_graph_create" "dist_graph_create" "DIST_GRAPH_CREATE",
        "Dist_graph_create_adjacent" "dist_graph_create_adjacent" "DIST_GRAPH_CREATE_ADJACENT",
        "Win_create" "win_create" "WIN_CREATE",
        "Win_create_dynamic" "win_create_dynamic" "WIN_CREATE_DYNAMIC",
        "Win_allocate" "win_allocate" "WIN_ALLOCATE",
        "Win_allocate_shared" "win_allocate_shared" "WIN_ALLOCATE_SHARED",
        "Win_free" "win_free" "WIN_FREE",
    ;
    Completion(1) =>
        "Test" "test" "TEST",
        "Win_test" "win_test" "WIN_TEST",
    ;
    Completion(2) =>
        "Testall" "testall" "TESTALL",
        "Testsome" "testsome" "TESTSOME",
    ;
    Completion(3) =>
        "Testany" "testany" "TESTANY",
    ;
}
