! What the Fortran programs share beside the suite's module (../../suite/suite.f90): their ranks.
! The same usage as in ranks.h: mpirun -np RANKS PROGRAM [work [MiB]], with the MiB of each rank.
module ranked
   use iso_c_binding, only: c_int
   use suite
   use mpi
   implicit none
   integer :: rank, ranks, err

   interface  ! ranks.h: what is measured begins and ends
      subroutine ranks_begin(this_rank) bind(c, name='ranks_region_begins')
         import :: c_int
         integer(c_int), value :: this_rank
      end subroutine
      subroutine ranks_end() bind(c, name='ranks_region_ends')
      end subroutine
   end interface

contains

   subroutine ranks_start(default_mib, work, bytes)
      real(real64), intent(in) :: default_mib
      real(real64), intent(out) :: work, bytes
      call read_arguments(default_mib, work, bytes)
      call MPI_Init(err)
      call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
      call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
   end subroutine

   real(real64) function ranks_sum(mine)
      real(real64), intent(in) :: mine
      call MPI_Allreduce(mine, ranks_sum, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, err)
   end function

   ! The end of all ranks, of which the first one prints the line.
   subroutine ranks_finish(right, said)
      logical, intent(in) :: right
      character(*), intent(in) :: said
      call MPI_Finalize(err)
      if (rank == 0) call finish(right, said)
      if (.not. right) stop 1, quiet=.true.
   end subroutine
end module
