//! `libhearth_mpi.so`: where the phases of an MPI program begin, told to the runtime without a line of the program's.
//!
//! Preloaded, it has the names by which C, Fortran and Fortran 2008 call MPI's operations that communicate or synchronise. Each call goes on to
//! the next library that has the name, with all of its arguments as they came, so one library serves every MPI: nothing here knows how large a
//! communicator is or what a constant of it means. Other tools behind the profiling interface are passed through too, wherever they stand.
//!
//! Phases are those of Unimem (SC 2017, section 2.1): a blocking operation, or one that completes another, begins one; what only starts an
//! operation (`MPI_Isend`) belongs to the phase that follows. Unimem has the operation and the computation behind it as two phases; here they
//! are one, so that what moves for the computation moves while the operation waits for others.

mod call;
mod entry;
mod launcher;
mod names;
