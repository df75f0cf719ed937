! Conjugate gradients for a sparse, symmetric, positive definite matrix in compressed rows.
!
! Origin: CG of the NAS Parallel Benchmarks (paper 004, Unimem, Sec. 4 and Fig. 1: its objects colidx, a, w, z, p, q,
! r) and the solver phase of HPCG and MiniFE (paper 000, ecoHMEM, Sec. VIII). As in NPB the columns of a row lie
! anywhere, so that p is gathered at random. Own matrix: node i is joined with the nodes o_k before and after it on a
! ring, k = 1..12, and the nodes are numbered at random; so it is symmetric without a sort.
!
! Hot: p (2 % of the bytes), gathered 25 times for each element in every iteration; then x, r and q. Cold per byte:
! the matrix's values and columns (83 %), read once in each iteration, but they make most of the traffic. Only for the
! set-up: the random numbering and its inverse.
program cg
   use suite
   implicit none
   integer, parameter :: offsets = 12, per_row = 2*offsets + 1
   real(real64), parameter :: shift = 0.5_real64
   real(real64), allocatable :: a(:), x(:), r(:), p(:), q(:), b(:), scaling(:)
   integer, allocatable :: colidx(:), rowstr(:), order(:), place(:)
   real(real64) :: work, bytes, rr, rr_before, rr_start, alpha, pq, skew, weight(offsets)
   real(real64) :: true_residual, recursive_residual, error
   integer :: n, i, k, iteration, iterations, steps, offset(offsets)
   integer(int64) :: state
   character(160) :: line

   call read_arguments(128.0_real64, work, bytes)
   iterations = times(8.0_real64, work)
   n = int(bytes/(per_row*12 + 4 + 6*8 + 8))
   allocate (rowstr(n + 1), colidx(per_row*n), a(per_row*n))
   allocate (x(n), r(n), p(n), q(n), b(n), scaling(n), order(n), place(n))

   state = 20240607
   do k = 1, offsets
      offset(k) = 1 + k*(n/(2*offsets + 1)) + int(unit_number(state)*(n/(4*offsets)))
      weight(k) = 0.5_real64 + unit_number(state)
   end do
   call shuffle
   do i = 1, n
      scaling(i) = 0.5_real64 + unit_number(state)
   end do
   call fill
   deallocate (order, place)

   ! b = A x for x = 1, so the solution is known.
   x = 1
   call multiply(x, b)
   x = 0
   r = b
   p = r
   rr = dot(r, r)
   rr_start = rr
   skew = 0
   steps = 0
   call suite_begin
   do iteration = 1, iterations
      call multiply(p, q)
      pq = dot(p, q)
      alpha = rr/pq
      skew = max(skew, abs(1 - dot(r, q)/pq))
      !$omp parallel do schedule(static)
      do i = 1, n
         x(i) = x(i) + alpha*p(i)
         r(i) = r(i) - alpha*q(i)
      end do
      rr_before = rr
      rr = dot(r, r)
      steps = steps + 1
      if (rr <= 1e-24_real64*rr_start) then  ! solved to rounding: more steps would only divide noise
         if (iteration == iterations) exit
         x = 0
         r = b
         p = r
         rr = rr_start
         steps = 0
         cycle
      end if
      !$omp parallel do schedule(static)
      do i = 1, n
         p(i) = r(i) + rr/rr_before*p(i)
      end do
   end do
   call suite_end

   ! Directions are conjugate: p A p = r A p, as p is r and a part of the last p.
   ! The residual that the recurrence believes must be the true one, and the error, which CG never
   ! lets grow, must have gone down from 1.
   call multiply(x, q)
   q = b - q
   true_residual = sqrt(dot(q, q)/rr_start)
   recursive_residual = sqrt(rr/rr_start)
   x = x - 1
   error = sqrt(dot(x, x)/n)
   write (line, '(a,i0,a,i0,a,es11.4,a,es11.4)') 'n ', n, ', ', iterations, ' iterations, residual ', &
      true_residual, ', error ', error
   call finish(abs(true_residual - recursive_residual) < 1e-10_real64 .and. error < 1 .and. skew < 1e-8_real64 .and. &
               true_residual < max(0.9_real64**steps, 1e-10_real64), trim(line))

contains

   ! A random numbering: place(number of a node) is its place on the ring, order the inverse (Fisher and Yates).
   subroutine shuffle
      integer :: i, j, t
      do i = 1, n
         place(i) = i
      end do
      do i = n, 2, -1
         j = 1 + int(unit_number(state)*i)
         t = place(i)
         place(i) = place(j)
         place(j) = t
      end do
      do i = 1, n
         order(place(i)) = i
      end do
   end subroutine

   subroutine fill
      integer :: i, k, at, column
      !$omp parallel do schedule(static) private(k, at, column)
      do i = 1, n
         at = (i - 1)*per_row + 1
         rowstr(i) = at
         colidx(at) = i
         a(at) = (2*sum(weight) + shift)*scaling(i)**2
         do k = 1, offsets
            column = place(i) + offset(k)
            if (column > n) column = column - n
            column = order(column)
            colidx(at + 2*k - 1) = column
            a(at + 2*k - 1) = -weight(k)*scaling(i)*scaling(column)
            column = place(i) - offset(k)
            if (column < 1) column = column + n
            column = order(column)
            colidx(at + 2*k) = column
            a(at + 2*k) = -weight(k)*scaling(i)*scaling(column)
         end do
      end do
      rowstr(n + 1) = n*per_row + 1
   end subroutine

   subroutine multiply(v, w)
      real(real64), intent(in) :: v(:)
      real(real64), intent(out) :: w(:)
      real(real64) :: s
      integer :: i, j
      !$omp parallel do schedule(static) private(j, s)
      do i = 1, n
         s = 0
         do j = rowstr(i), rowstr(i + 1) - 1
            s = s + a(j)*v(colidx(j))
         end do
         w(i) = s
      end do
   end subroutine
end program
