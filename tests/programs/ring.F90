! The same as ring.c in Fortran, by MPI's module of Fortran 90 or, with F08, by that of Fortran 2008.
program ring
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
#ifdef F08
  type(MPI_Request) :: request(2)
  type(MPI_Status) :: status(2)
#else
  integer :: request(2), status(MPI_STATUS_SIZE, 2)
#endif
  integer, parameter :: length = 2**20
  integer :: rank, ranks, turn, turns, err
  logical :: done, right, all_right
  character(len=8) :: argument
  double precision, allocatable :: a(:), b(:)
  double precision :: total, all, in, out, mine, back

  turns = 10
  if (command_argument_count() > 0) then
    call get_command_argument(1, argument)
    read (argument, *) turns
  end if
  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
  allocate (a(length), b(length))
  a = 0
  b = 0
  right = .true.
  do turn = 1, turns
    a = a + 1
    total = sum(a)
    call MPI_Allreduce(total, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, err)
    right = right .and. all == ranks * total
    b = b + 1
    out = sum(b) + rank
    call MPI_Irecv(in, 1, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 7, MPI_COMM_WORLD, request(1), err)
    call MPI_Isend(out, 1, MPI_DOUBLE_PRECISION, mod(rank + ranks - 1, ranks), 7, MPI_COMM_WORLD, request(2), err)
    call MPI_Waitall(2, request, status, err)
    right = right .and. in == out - rank + mod(rank + 1, ranks)
  end do
  done = .false.
  call MPI_Ibarrier(MPI_COMM_WORLD, request(1), err)
  do while (.not. done)
    call MPI_Test(request(1), done, MPI_STATUS_IGNORE, err)
  end do
  mine = rank
  call MPI_Sendrecv(mine, 1, MPI_DOUBLE_PRECISION, rank, 3, &
                    back, 1, MPI_DOUBLE_PRECISION, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, err)
  right = right .and. back == mine
  call MPI_Reduce(right, all_right, 1, MPI_LOGICAL, MPI_LAND, 0, MPI_COMM_WORLD, err)
  if (rank == 0) print '(i0, a, a)', ranks, ' ranks: ', merge('right', 'wrong', all_right)
  call MPI_Finalize(err)
  if (.not. right) error stop
end program
