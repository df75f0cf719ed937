! The smallest eigenvalue of a sparse, symmetric, positive definite matrix, by the inverse power method and conjugate
! gradients; rows are divided among the ranks.
!
! Origin: CG of the NAS Parallel Benchmarks (paper 004, Unimem, Fig. 1 and Table 3: its objects colidx, a, w, z, p, q, r,
! rowstr, x, which are 42 % of the memory). As there the matrix is made as lists of its elements (arow, acol, aelt), which stay
! when it has been put into rows, and columns lie anywhere. Own matrix, as in the suite's cg: a ring, numbered at random.
!
! Hot: whole (the direction p of all ranks, gathered at random; 2 % of the bytes for two ranks). Warm: the matrix in rows
! (41 %), read once in each iteration; z, r, p, q. Cold: the lists (51 %), only for the set-up.
!
! Phases of an iteration: the product, from where p is gathered; two, each from a sum on.
program cg
   use ranked
   implicit none
   integer, parameter :: offsets = 12, per_row = 2*offsets + 1, iterations = 12
   real(real64), parameter :: shift = 0.5_real64
   real(real64), allocatable :: a(:), x(:), z(:), r(:), p(:), q(:), whole(:), aelt(:)
   integer, allocatable :: colidx(:), rowstr(:), arow(:), acol(:), order(:), place(:)
   real(real64) :: work, bytes, weight(offsets), residual, believed, eigenvalue, worst
   integer :: n, rows, first, i, k, step, steps, offset(offsets)
   integer(int64) :: state
   logical :: right
   character(160) :: line

   call ranks_start(32.0_real64, work, bytes)
   steps = times(2.0_real64, work)
   rows = int(bytes/(per_row*28 + 4 + 5*8 + 8*ranks))
   n = rows*ranks
   first = rows*rank
   allocate (arow(per_row*rows), acol(per_row*rows), aelt(per_row*rows))
   allocate (rowstr(rows + 1), colidx(per_row*rows), a(per_row*rows))
   allocate (x(rows), z(rows), r(rows), p(rows), q(rows), whole(n))
   allocate (order(n), place(n))

   state = 20240607
   do k = 1, offsets
      offset(k) = 1 + k*(n/(2*offsets + 1)) + int(unit_number(state)*(n/(4*offsets)))
      weight(k) = 0.5_real64 + unit_number(state)
   end do
   call shuffle
   call list
   deallocate (order, place)
   call sort_into_rows

   x = 1/sqrt(real(n, real64))
   right = .true.
   worst = 0
   call ranks_begin(rank)
   do step = 1, steps
      call solve(believed)
      ! The residual that the recurrence believes must be the true one, and much smaller than x, whose norm is 1.
      call multiply(z, q)
      q = x - q
      residual = sqrt(ranks_sum(sum(q*q)))
      right = right .and. abs(residual - believed) < 1e-10_real64 .and. residual < 0.9_real64**iterations
      worst = max(worst, residual)
      eigenvalue = 1/ranks_sum(sum(x*z))
      x = z/sqrt(ranks_sum(sum(z*z)))
   end do
   call ranks_end
   ! x A x is never below the smallest eigenvalue, which is above shift/4 as all scalings are above 1/2.
   right = right .and. eigenvalue > shift/4
   write (line, '(a,i0,a,i0,a,es10.3,a,f11.8)') 'n ', n, ', ', steps*iterations, ' iterations, residual ', worst, &
      ', eigenvalue ', eigenvalue
   call ranks_finish(right, trim(line))

contains

   ! A z = x from z = 0; gives the norm of the residual.
   subroutine solve(norm)
      real(real64), intent(out) :: norm
      real(real64) :: rr, before, alpha
      integer :: iteration
      z = 0
      r = x
      p = r
      rr = ranks_sum(sum(r*r))
      do iteration = 1, iterations
         call multiply(p, q)
         alpha = rr/ranks_sum(sum(p*q))
         z = z + alpha*p
         r = r - alpha*q
         before = rr
         rr = ranks_sum(sum(r*r))
         p = r + rr/before*p
      end do
      norm = sqrt(rr)
   end subroutine

   subroutine multiply(v, w)
      real(real64), intent(in) :: v(:)
      real(real64), intent(out) :: w(:)
      real(real64) :: s
      integer :: i, j
      call MPI_Allgather(v, rows, MPI_DOUBLE_PRECISION, whole, rows, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, err)
      do i = 1, rows
         s = 0
         do j = rowstr(i), rowstr(i + 1) - 1
            s = s + a(j)*whole(colidx(j))
         end do
         w(i) = s
      end do
   end subroutine

   ! A random numbering: place(number of a node) is its place on the ring, order the inverse (Fisher and Yates).
   subroutine shuffle
      integer :: i, j, t
      place = [(i, i=1, n)]
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

   ! The elements of this rank's rows, edge by edge: node i is joined with the nodes o_k before and after it on the ring.
   subroutine list
      integer :: i, k, way, at
      at = 0
      do i = 1, rows
         at = at + 1
         call add(at, i, first + i, 2*sum(weight) + shift)
      end do
      do k = 1, offsets
         do way = -1, 1, 2
            do i = 1, rows
               at = at + 1
               call add(at, i, order(1 + modulo(place(first + i) + way*offset(k) - 1, n)), -weight(k))
            end do
         end do
      end do
   end subroutine

   subroutine add(at, row, column, value)
      integer, intent(in) :: at, row, column
      real(real64), intent(in) :: value
      arow(at) = row
      acol(at) = column
      aelt(at) = value*scaling(first + row)*scaling(column)
   end subroutine

   real(real64) function scaling(i)
      integer, intent(in) :: i
      scaling = 0.5_real64 + real(mod(48271_int64*i, 2147483647_int64), real64)/2147483647.0_real64
   end function

   subroutine sort_into_rows
      integer :: at, to
      integer, allocatable :: filled(:)
      allocate (filled(rows))
      filled = 0
      rowstr = [(1 + (i - 1)*per_row, i=1, rows + 1)]
      do at = 1, per_row*rows
         to = rowstr(arow(at)) + filled(arow(at))
         filled(arow(at)) = filled(arow(at)) + 1
         colidx(to) = acol(at)
         a(to) = aelt(at)
      end do
   end subroutine
end program
