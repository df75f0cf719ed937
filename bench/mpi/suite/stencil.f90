! Sound waves in a medium of changing speed: a stencil in time and space (leapfrog, seven points), whose halos travel while
! the inner points are computed; each rank has a slab.
!
! Origin: the structure of BT, LU and SP of the NAS Parallel Benchmarks (paper 004, Unimem), solvers on a grid with several
! arrays of its size, of which some are used in each step and others seldom; the arrays are those of reverse time migration.
!
! Hot: the waves now and before (40 % of the bytes), both read and one written in each step. Warm: speed (20 %), read in
! each step. Cold: image (20 %), to which every eighth step is added, and saved (20 %), a copy of every 16th.
!
! Phases of a step: one, from where halos have come, and one every eighth step, from a sum on.
program stencil
   use ranked
   implicit none
   integer, parameter :: often = 8, seldom = 16
   real(real64), allocatable :: now(:, :, :), before(:, :, :), speed(:, :, :), image(:, :, :), saved(:, :, :)
   real(real64) :: work, bytes, start, is, seen
   integer :: n, i, j, k, step, steps
   character(160) :: line

   call ranks_start(32.0_real64, work, bytes)
   n = int((bytes/40)**(1/3.0_real64)) - 2
   steps = 2*times(12.0_real64, work)
   allocate (now(0:n + 1, 0:n + 1, 0:n + 1))
   allocate (before(0:n + 1, 0:n + 1, 0:n + 1))
   allocate (speed(0:n + 1, 0:n + 1, 0:n + 1))
   allocate (image(0:n + 1, 0:n + 1, 0:n + 1))
   allocate (saved(0:n + 1, 0:n + 1, 0:n + 1))
   now = 0
   do k = 1, n
      do j = 1, n
         do i = 1, n
            ! Layers; stable below 1/3.
            speed(i, j, k) = 0.1_real64 + 0.15_real64*mod(rank*n + k + j/4, 16)/16
            now(i, j, k) = exp(-((i - n/2)**2 + (j - n/2)**2 + (rank*n + k - n*ranks/2)**2)/16.0_real64)
         end do
      end do
   end do
   before = now
   saved = now
   image = 0

   seen = 0
   start = energy(now, before)
   call ranks_begin(rank)
   do step = 2, steps, 2
      call advance(now, before)
      call advance(before, now)
      if (mod(step, often) == 0) then
         image = image + now*now
         seen = seen + ranks_sum(sum(now(n/2, :, :)**2))
      end if
      if (mod(step, seldom) == 0) saved = now
   end do
   call ranks_end
   ! Leapfrog keeps this energy but for rounding, whatever the speed.
   is = energy(now, before)
   write (line, '(i0,a,i0,a,i0,a,es15.8,a,es15.8)') n, ' x ', n, ' x ', n*ranks, ', energy ', is, ', seen ', seen
   call ranks_finish(abs(is/start - 1) < 1e-11_real64 .and. maxval(abs(saved)) <= 1.5_real64, trim(line))

contains

   ! Where the wave was before, it is after.
   subroutine advance(u, to)
      real(real64), intent(inout), contiguous, asynchronous :: u(0:, 0:, 0:)
      real(real64), intent(inout), contiguous :: to(0:, 0:, 0:)
      integer :: request(4)
      call begin_exchange(u, request)
      call points(u, to, 2, n - 1)
      call MPI_Waitall(4, request, MPI_STATUSES_IGNORE, err)
      call points(u, to, 1, 1)
      call points(u, to, n, n)
   end subroutine

   subroutine begin_exchange(u, request)
      real(real64), intent(inout), contiguous, asynchronous :: u(0:, 0:, 0:)
      integer, intent(out) :: request(4)
      integer :: below, above, plane
      below = merge(rank - 1, MPI_PROC_NULL, rank > 0)
      above = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
      plane = (n + 2)**2
      call MPI_Irecv(u(:, :, 0), plane, MPI_DOUBLE_PRECISION, below, 0, MPI_COMM_WORLD, request(1), err)
      call MPI_Irecv(u(:, :, n + 1), plane, MPI_DOUBLE_PRECISION, above, 1, MPI_COMM_WORLD, request(2), err)
      call MPI_Isend(u(:, :, n), plane, MPI_DOUBLE_PRECISION, above, 0, MPI_COMM_WORLD, request(3), err)
      call MPI_Isend(u(:, :, 1), plane, MPI_DOUBLE_PRECISION, below, 1, MPI_COMM_WORLD, request(4), err)
   end subroutine

   subroutine points(u, to, from_plane, to_plane)
      real(real64), intent(in), contiguous :: u(0:, 0:, 0:)
      real(real64), intent(inout), contiguous :: to(0:, 0:, 0:)
      integer, intent(in) :: from_plane, to_plane
      integer :: i, j, k
      do k = from_plane, to_plane
         do j = 1, n
            do i = 1, n
               to(i, j, k) = 2*u(i, j, k) - to(i, j, k) + speed(i, j, k)*laplacian(u, i, j, k)
            end do
         end do
      end do
   end subroutine

   pure real(real64) function laplacian(u, i, j, k)
      real(real64), intent(in), contiguous :: u(0:, 0:, 0:)
      integer, intent(in) :: i, j, k
      laplacian = u(i - 1, j, k) + u(i + 1, j, k) + u(i, j - 1, k) + u(i, j + 1, k) + u(i, j, k - 1) + u(i, j, k + 1) &
                  - 6*u(i, j, k)
   end function

   ! Of the motion from v to u, and of how both are bent.
   real(real64) function energy(u, v)
      real(real64), intent(inout), contiguous, asynchronous :: u(0:, 0:, 0:)
      real(real64), intent(in), contiguous :: v(0:, 0:, 0:)
      real(real64) :: mine
      integer :: i, j, k, request(4)
      call begin_exchange(u, request)
      call MPI_Waitall(4, request, MPI_STATUSES_IGNORE, err)
      mine = 0
      do k = 1, n
         do j = 1, n
            do i = 1, n
               mine = mine + (u(i, j, k) - v(i, j, k))**2/speed(i, j, k) - v(i, j, k)*laplacian(u, i, j, k)
            end do
         end do
      end do
      energy = ranks_sum(mine)
   end function
end program
