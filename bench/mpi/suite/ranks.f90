! What the Fortran programs share beside the suite's module (../../suite/suite.f90): their ranks.
! The same usage as in ranks.h: mpirun -np RANKS PROGRAM [work [MiB]], with the MiB of each rank.
module ranked
   use suite
   use mpi
   implicit none
   integer :: rank, ranks, err

contains

   subroutine ranks_start(default_mib, work, bytes)
      real(real64), intent(in) :: default_mib
      real(real64), intent(out) :: work, bytes
      call read_arguments(default_mib, work, bytes)
      call MPI_Init(err)
      call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
      call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
   end subroutine

   ! One rank marks what is measured.
   subroutine ranks_begin
      call MPI_Barrier(MPI_COMM_WORLD, err)
      if (rank == 0) call suite_begin
   end subroutine

   subroutine ranks_end
      call MPI_Barrier(MPI_COMM_WORLD, err)
      if (rank == 0) call suite_end
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
