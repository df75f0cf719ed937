! An implicit solver whose arrays are all static: COMMON blocks, no allocation at all.
!
! Origin: BT and SP of the NAS Parallel Benchmarks (paper 004, Unimem, Table 3), Fortran 77 with its fields in COMMON,
! and their steps: right-hand side, solve along x, along y, along z (alternating directions), add. Own equation: heat
! with conductivities kx, ky, kz and a source, one field instead of five.
!
! Eight fields of the same size. Hot: rhs, written and read in five passes of a step. Warm: u (three times a step);
! kx, ky and kz (twice a step), forcing (once). Cold: start, which is read again at the end alone, and history,
! written now and then. The fields are static, so their room is that of 256 MiB, of which only what MiB asks for is
! touched.
module fields
   use iso_fortran_env, only: real64
   implicit none
   integer, parameter :: most = 4194304  ! elements of a field
   real(real64) :: u(most), rhs(most), forcing(most), kx(most), ky(most), kz(most), start(most), history(most)
   common /state/ u, rhs, forcing
   common /conductivity/ kx, ky, kz
   common /records/ start, history
end module

program statics
   use suite
   use fields
   implicit none
   real(real64), parameter :: source = 2, conductivity(3) = [4.0_real64, 2.0_real64, 1.0_real64], pi = acos(-1.0_real64)
   integer, parameter :: record_every = 4
   real(real64) :: work, bytes, lambda, amplitude, error
   integer :: n, steps, step
   character(160) :: line

   call read_arguments(80.0_real64, work, bytes)
   n = int((bytes/64)**(1/3.0_real64))
   if (real(n, real64)**3 > most) call refuse('the arrays are static: MiB must be at most 256')
   steps = times(6.0_real64, work)

   call begin(n, u, rhs, forcing, kx, ky, kz, start, history)
   call suite_begin
   do step = 1, steps
      call right_hand_side(n, u, rhs, forcing, kx, ky, kz)
      call solve_x(n, rhs, kx)
      call solve_y(n, rhs, ky)
      call solve_z(n, rhs, kz)
      call add(n, u, rhs)
      if (mod(step, record_every) == 0) history(1:n**3) = u(1:n**3)
   end do
   call suite_end

   ! The start is an eigenfunction of all three directions, so only its amplitude changes, in a way that can be told.
   lambda = 2 - 2*cos(pi/(n + 1))
   amplitude = 1
   do step = 1, steps
      amplitude = amplitude + (source - sum(conductivity)*lambda*amplitude)/product(1 + conductivity*lambda)
   end do
   error = maxval(abs(u(1:n**3) - amplitude*start(1:n**3)))/amplitude
   write (line, '(a,i0,a,i0,a,es16.9,a,es8.1)') 'n ', n, ', ', steps, ' steps, amplitude ', amplitude, ', error ', error
   call finish(error < 1e-10_real64, trim(line))

contains

   subroutine begin(n, u, rhs, forcing, kx, ky, kz, start, history)
      integer, intent(in) :: n
      real(real64), intent(out), dimension(n, n, n) :: u, rhs, forcing, kx, ky, kz, start, history
      real(real64) :: s(n)
      integer :: i, j, k
      do i = 1, n
         s(i) = sin(pi*i/(n + 1))
      end do
      !$omp parallel do schedule(static)
      do k = 1, n
         do j = 1, n
            u(:, j, k) = s*(s(j)*s(k))
            start(:, j, k) = u(:, j, k)
            forcing(:, j, k) = source*u(:, j, k)
         end do
         rhs(:, :, k) = 0
         history(:, :, k) = 0
         kx(:, :, k) = conductivity(1)
         ky(:, :, k) = conductivity(2)
         kz(:, :, k) = conductivity(3)
      end do
   end subroutine

   ! Source and the flow from the six neighbours; outside all is zero.
   subroutine right_hand_side(n, u, rhs, forcing, kx, ky, kz)
      integer, intent(in) :: n
      real(real64), intent(in), dimension(n, n, n) :: u, forcing, kx, ky, kz
      real(real64), intent(out) :: rhs(n, n, n)
      real(real64) :: before(n), behind(n)
      integer :: i, j, k
      !$omp parallel do schedule(static) private(i, j, before, behind)
      do k = 1, n
         do j = 1, n
            rhs(:, j, k) = forcing(:, j, k)
            rhs(1, j, k) = rhs(1, j, k) + kx(1, j, k)*(u(2, j, k) - 2*u(1, j, k))
            do i = 2, n - 1
               rhs(i, j, k) = rhs(i, j, k) + kx(i, j, k)*(u(i - 1, j, k) + u(i + 1, j, k) - 2*u(i, j, k))
            end do
            rhs(n, j, k) = rhs(n, j, k) + kx(n, j, k)*(u(n - 1, j, k) - 2*u(n, j, k))
            before = 0
            behind = 0
            if (j > 1) before = u(:, j - 1, k)
            if (j < n) behind = u(:, j + 1, k)
            rhs(:, j, k) = rhs(:, j, k) + ky(:, j, k)*(before + behind - 2*u(:, j, k))
            before = 0
            behind = 0
            if (k > 1) before = u(:, j, k - 1)
            if (k < n) behind = u(:, j, k + 1)
            rhs(:, j, k) = rhs(:, j, k) + kz(:, j, k)*(before + behind - 2*u(:, j, k))
         end do
      end do
   end subroutine

   ! Thomas' algorithm along x for (1 + 2 kx) v(i) - kx (v(i-1) + v(i+1)) = rhs(i), in place.
   subroutine solve_x(n, rhs, kx)
      integer, intent(in) :: n
      real(real64), intent(inout) :: rhs(n, n, n)
      real(real64), intent(in) :: kx(n, n, n)
      real(real64) :: upper(n), pivot
      integer :: i, j, k
      !$omp parallel do schedule(static) private(i, j, upper, pivot)
      do k = 1, n
         do j = 1, n
            pivot = 1/(1 + 2*kx(1, j, k))
            upper(1) = kx(1, j, k)*pivot
            rhs(1, j, k) = rhs(1, j, k)*pivot
            do i = 2, n
               pivot = 1/(1 + kx(i, j, k)*(2 - upper(i - 1)))
               upper(i) = kx(i, j, k)*pivot
               rhs(i, j, k) = (rhs(i, j, k) + kx(i, j, k)*rhs(i - 1, j, k))*pivot
            end do
            do i = n - 1, 1, -1
               rhs(i, j, k) = rhs(i, j, k) + upper(i)*rhs(i + 1, j, k)
            end do
         end do
      end do
   end subroutine

   ! The same along y, a row of x at a time.
   subroutine solve_y(n, rhs, ky)
      integer, intent(in) :: n
      real(real64), intent(inout) :: rhs(n, n, n)
      real(real64), intent(in) :: ky(n, n, n)
      real(real64), allocatable :: upper(:, :)
      integer :: k
      !$omp parallel private(upper)
      allocate (upper(n, n))
      !$omp do schedule(static)
      do k = 1, n
         call solve_plane(n, n, rhs(1, 1, k), ky(1, 1, k), upper)
      end do
      !$omp end parallel
   end subroutine

   ! The same along z.
   subroutine solve_z(n, rhs, kz)
      integer, intent(in) :: n
      real(real64), intent(inout) :: rhs(n, n, n)
      real(real64), intent(in) :: kz(n, n, n)
      real(real64), allocatable :: upper(:, :)
      integer :: j
      !$omp parallel private(upper)
      allocate (upper(n, n))
      !$omp do schedule(static)
      do j = 1, n
         call solve_plane(n, n*n, rhs(1, j, 1), kz(1, j, 1), upper)
      end do
      !$omp end parallel
   end subroutine

   ! Rows of n elements whose beginnings lie `stride` elements apart.
   subroutine solve_plane(n, stride, v, c, upper)
      integer, intent(in) :: n, stride
      real(real64), intent(inout) :: v(stride, n)
      real(real64), intent(in) :: c(stride, n)
      real(real64), intent(out) :: upper(n, n)
      real(real64) :: pivot
      integer :: i, j
      do i = 1, n
         pivot = 1/(1 + 2*c(i, 1))
         upper(i, 1) = c(i, 1)*pivot
         v(i, 1) = v(i, 1)*pivot
      end do
      do j = 2, n
         !$omp simd private(pivot)
         do i = 1, n
            pivot = 1/(1 + c(i, j)*(2 - upper(i, j - 1)))
            upper(i, j) = c(i, j)*pivot
            v(i, j) = (v(i, j) + c(i, j)*v(i, j - 1))*pivot
         end do
      end do
      do j = n - 1, 1, -1
         !$omp simd
         do i = 1, n
            v(i, j) = v(i, j) + upper(i, j)*v(i, j + 1)
         end do
      end do
   end subroutine

   subroutine add(n, u, rhs)
      integer, intent(in) :: n
      real(real64), intent(inout) :: u(n*n, n)
      real(real64), intent(in) :: rhs(n*n, n)
      integer :: k
      !$omp parallel do schedule(static)
      do k = 1, n
         u(:, k) = u(:, k) + rhs(:, k)
      end do
   end subroutine
end program
