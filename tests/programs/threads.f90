! Fortran with OpenMP and allocatable arrays: a heat equation, a matrix product and arrays that come and go.
! Same output whatever the allocator; ends with 1 if a check fails.
module fields
  implicit none
  integer, parameter :: dp = kind(1.0d0)

  type :: cell
    integer :: number
    real(dp), allocatable :: values(:)
    character(len=:), allocatable :: label
  end type cell

contains

  subroutine heat(n, steps, total)
    integer, intent(in) :: n, steps
    real(dp), intent(out) :: total
    real(dp), allocatable :: now(:, :), then(:, :)
    integer :: i, j, step
    allocate (now(n, n), then(n, n))
    now = 0
    now(:, 1) = 100
    now(1, :) = 50
    then = now
    do step = 1, steps
      !$omp parallel do private(i)
      do j = 2, n - 1
        do i = 2, n - 1
          then(i, j) = now(i, j) + 0.2_dp*(now(i - 1, j) + now(i + 1, j) + now(i, j - 1) + now(i, j + 1) - 4*now(i, j))
        end do
      end do
      !$omp end parallel do
      ! Swaps the arrays without copying; the descriptors change owners.
      call swap(now, then)
    end do
    total = sum(now)
    deallocate (now, then)
  end subroutine heat

  subroutine swap(a, b)
    real(dp), allocatable, intent(inout) :: a(:, :), b(:, :)
    real(dp), allocatable :: c(:, :)
    call move_alloc(a, c)
    call move_alloc(b, a)
    call move_alloc(c, b)
  end subroutine swap

  subroutine product(n, trace)
    integer, intent(in) :: n
    real(dp), intent(out) :: trace
    real(dp), allocatable :: a(:, :), b(:, :), c(:, :)
    integer :: i, j
    allocate (a(n, n), b(n, n), source=0.0_dp)
    do j = 1, n
      do i = 1, n
        a(i, j) = mod(i*7 + j*3, 11)
        b(i, j) = mod(i*5 + j*2, 13)
      end do
    end do
    c = matmul(a, transpose(b))
    trace = 0
    do i = 1, n
      trace = trace + c(i, i)
    end do
  end subroutine product

  subroutine come_and_go(rounds, check)
    integer, intent(in) :: rounds
    integer(8), intent(out) :: check
    integer :: r
    type(cell), allocatable :: cells(:)
    integer(8) :: part
    check = 0
    !$omp parallel do private(cells, part) reduction(+:check) schedule(dynamic)
    do r = 1, rounds
      allocate (cells(1 + mod(r, 20)))
      call fill(cells, r, part)
      check = check + part
      deallocate (cells)
    end do
    !$omp end parallel do
  end subroutine come_and_go

  subroutine fill(cells, r, part)
    type(cell), intent(inout) :: cells(:)
    integer, intent(in) :: r
    integer(8), intent(out) :: part
    real(dp), allocatable :: scratch(:)
    integer :: k
    part = 0
    do k = 1, size(cells)
      cells(k)%number = k
      allocate (cells(k)%values(100*k + mod(r*37, 5000)))
      cells(k)%values = r
      cells(k)%label = repeat('x', 10*k)
      ! Grows by reallocation on assignment.
      scratch = [cells(k)%values, cells(k)%values]
      part = part + int(sum(scratch), 8) + len(cells(k)%label)
    end do
  end subroutine fill

end module fields

program threads
  use fields
  implicit none
  real(dp) :: total, trace
  integer(8) :: check
  integer :: status, lowest
  real(dp), allocatable :: huge_one(:)
  call heat(1000, 60, total)
  call product(400, trace)
  call come_and_go(2000, check)
  ! The sum of a parallel loop without reduction is the same for any number of threads.
  print '(a,es22.14)', 'heat    ', total
  print '(a,f20.1)', 'product ', trace
  print '(a,i20)', 'check   ', check
  ! An impossible size is reported, not fatal.
  lowest = 0
  allocate (huge_one(2_8**58), stat=status)
  if (status == lowest) then
    print '(a)', 'an impossible array was allocated'
    stop 1
  end if
  if (total <= 0 .or. trace <= 0 .or. check <= 0) stop 1
end program threads
