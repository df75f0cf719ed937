! A sweep of deterministic neutron transport: the time-dependent linear Boltzmann equation by discrete ordinates,
! diamond differences in space and time, scattering between groups by iteration, vacuum around.
!
! Origin: SNAP, the proxy of PARTISN (papers 001 and 003, Table 2). Own code with SNAP's arrays: the angular flux at
! the begin and at the end of the time step (ptr_in, ptr_out), the inverted denominators (dinv), scalar flux, total
! source; as there ptr_out is written only by the last iteration of a time step, after which the two change places.
!
! Hot: dinv (6 % of the bytes), read for each octant of each sweep, and flux and source (1 %), though small enough to
! be cached for a while. Warm: the one of the two angular fluxes that is ptr_in, read once in each sweep. Cold: the
! other one, written once a time step. Each has 46 % of the bytes, and they change roles.
program boltzmann
   use suite
   implicit none
   integer, parameter :: nang = 8, noct = 8, ng = 8, inners = 3
   real(real64), parameter :: vdelt = 1.0_real64  ! 2 / (speed x time step)
   real(real64), allocatable, target :: ptr_1(:, :, :, :, :, :), ptr_2(:, :, :, :, :, :)
   real(real64), pointer, contiguous :: ptr_in(:, :, :, :, :, :), ptr_out(:, :, :, :, :, :), swap(:, :, :, :, :, :)
   real(real64), allocatable :: dinv(:, :, :, :, :), flux(:, :, :, :), qtot(:, :, :, :)
   real(real64), allocatable :: external(:, :, :), sigt(:, :, :)
   real(real64) :: work, bytes, mu(nang), eta(nang), xi(nang), ci(nang), cj(nang), ck(nang), weight
   real(real64) :: sigs(ng, ng), width, unbalanced, skew, lost(ng), kept(ng)
   integer :: n, steps, step, inner, i, j, k, g, h, a
   logical :: last
   character(160) :: line

   call read_arguments(100.0_real64, work, bytes)
   steps = times(2.0_real64, work)
   n = int((bytes/(8.0_real64*(2*nang*noct*ng + nang*ng + 2*ng + 2)))**(1/3.0_real64))
   allocate (ptr_1(nang, n, n, n, noct, ng), ptr_2(nang, n, n, n, noct, ng))
   allocate (dinv(nang, n, n, n, ng), flux(n, n, n, ng), qtot(n, n, n, ng), external(n, n, n), sigt(n, n, n))

   ! Directions spread over an octant, all of one weight; the eight octants together weigh one.
   width = 0.4_real64  ! a fraction of a free path, whatever the number of cells
   weight = 1.0_real64/(nang*noct)
   do a = 1, nang
      xi(a) = (a - 0.5_real64)/nang
      mu(a) = sqrt(1 - xi(a)**2)*cos((mod(a*5, nang) + 0.5_real64)/nang*acos(0.0_real64))
      eta(a) = sqrt(1 - xi(a)**2 - mu(a)**2)
   end do
   ci = 2/width*mu
   cj = 2/width*eta
   ck = 2/width*xi
   ! A group scatters into itself and into lower ones, and absorbs a third.
   do g = 1, ng
      do h = 1, ng
         sigs(h, g) = merge(2/3.0_real64/(ng - g + 1), 0.0_real64, h >= g)
      end do
   end do
   ! A dense shell, and a source in the middle.
   do k = 1, n
      do j = 1, n
         do i = 1, n
            sigt(i, j, k) = merge(2.0_real64, 1.0_real64, 2*max(m(i), m(j), m(k)) > n)
            external(i, j, k) = merge(1.0_real64, 0.0_real64, m(i) + m(j) + m(k) < n)
         end do
      end do
   end do
   !$omp parallel do schedule(static)
   do g = 1, ng
      ptr_1(:, :, :, :, :, g) = 0
      ptr_2(:, :, :, :, :, g) = 0
      flux(:, :, :, g) = 0
      do a = 1, nang
         dinv(a, :, :, :, g) = 1/(sigt*cross(g) + vdelt + 2/width*(mu(a) + eta(a) + xi(a)))
      end do
   end do

   ptr_in => ptr_1
   ptr_out => ptr_2
   unbalanced = 0
   call suite_begin
   do step = 1, steps
      do inner = 1, inners
         last = inner == inners
         call sources
         !$omp parallel do schedule(static, 1)
         do g = 1, ng
            call sweep(g, last, lost(g), kept(g))
         end do
         if (last) then
            do g = 1, ng
               unbalanced = max(unbalanced, abs(balance(g)))
            end do
         end if
      end do
      swap => ptr_in
      ptr_in => ptr_out
      ptr_out => swap
   end do
   call suite_end

   ! Diamond differences lose no particle: what came from sources was absorbed or scattered, leaked, or is still there.
   ! Before a front the differences may dip below zero, but only a little.
   ! And the problem is its own mirror image along each axis, which the eight octants must keep.
   skew = maxval(abs(flux - flux(n:1:-1, :, :, :))) + maxval(abs(flux - flux(:, n:1:-1, :, :))) &
          + maxval(abs(flux - flux(:, :, n:1:-1, :)))
   write (line, '(a,i0,a,i0,a,es8.1,a,es8.1,a,es16.9)') 'n ', n, ', ', steps, ' time steps, unbalanced ', unbalanced, &
      ', skew ', skew, ', mean flux ', sum(flux)/size(flux)
   call finish(unbalanced < 1e-11_real64 .and. skew < 1e-12_real64 .and. minval(flux) > -0.02_real64*maxval(flux), &
               trim(line))

contains

   ! How far from the middle, in half cells.
   pure integer function m(i)
      integer, intent(in) :: i
      m = abs(2*i - n - 1)
   end function

   ! Total cross section of a group in units of the material's.
   pure real(real64) function cross(g)
      integer, intent(in) :: g
      cross = 0.5_real64 + 0.1_real64*g
   end function

   subroutine sources
      integer :: g, h
      !$omp parallel do schedule(static) private(h)
      do g = 1, ng
         qtot(:, :, :, g) = external
         do h = 1, g
            qtot(:, :, :, g) = qtot(:, :, :, g) + sigs(g, h)*cross(h)*sigt*flux(:, :, :, h)
         end do
      end do
   end subroutine

   ! The flux of one cell, psi, and what leaves it, in place of what entered.
   pure subroutine cell(source, at_begin, inverse, psii, psij, psik, psi)
      real(real64), intent(in) :: source, at_begin(nang), inverse(nang)
      real(real64), intent(inout) :: psii(nang), psij(nang), psik(nang)
      real(real64), intent(out) :: psi(nang)
      integer :: a
      !$omp simd
      do a = 1, nang
         psi(a) = (source + vdelt*at_begin(a) + ci(a)*psii(a) + cj(a)*psij(a) + ck(a)*psik(a))*inverse(a)
         psii(a) = 2*psi(a) - psii(a)
         psij(a) = 2*psi(a) - psij(a)
         psik(a) = 2*psi(a) - psik(a)
      end do
   end subroutine

   ! All octants of one group. `lost` leaks out, `kept` is the gain in time; both only in the last iteration.
   subroutine sweep(g, last, lost, kept)
      integer, intent(in) :: g
      logical, intent(in) :: last
      real(real64), intent(out) :: lost, kept
      real(real64), allocatable :: psij(:, :), psik(:, :, :)
      real(real64) :: psii(nang), psi(nang), gain(nang)
      integer :: octant, i, j, k, a, from(3), to(3), by(3)
      allocate (psij(nang, n), psik(nang, n, n))
      flux(:, :, :, g) = 0
      lost = 0
      gain = 0
      do octant = 1, noct
         do a = 1, 3
            by(a) = merge(1, -1, btest(octant - 1, a - 1))
         end do
         from = merge(1, n, by > 0)
         to = n + 1 - from
         psik = 0
         do k = from(3), to(3), by(3)
            psij = 0
            do j = from(2), to(2), by(2)
               psii = 0
               do i = from(1), to(1), by(1)
                  call cell(qtot(i, j, k, g), ptr_in(:, i, j, k, octant, g), dinv(:, i, j, k, g), psii, psij(:, i), &
                            psik(:, i, j), psi)
                  flux(i, j, k, g) = flux(i, j, k, g) + weight*sum(psi)
                  if (last) then
                     gain = gain + psi - ptr_in(:, i, j, k, octant, g)
                     ptr_out(:, i, j, k, octant, g) = 2*psi - ptr_in(:, i, j, k, octant, g)
                  end if
               end do
               lost = lost + weight*sum(mu*psii)/width
            end do
            do i = 1, n
               lost = lost + weight*sum(eta*psij(:, i))/width
            end do
         end do
         do j = 1, n
            do i = 1, n
               lost = lost + weight*sum(xi*psik(:, i, j))/width
            end do
         end do
      end do
      kept = weight*vdelt*sum(gain)
   end subroutine

   ! What the sources gave less what was removed, leaked and kept, relative to what they gave.
   real(real64) function balance(g)
      integer, intent(in) :: g
      real(real64) :: given
      given = sum(qtot(:, :, :, g))
      balance = (given - cross(g)*sum(sigt*flux(:, :, :, g)) - lost(g) - kept(g))/given
   end function
end program
