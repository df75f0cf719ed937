! Allocatable arrays of a module, of an argument and of the program, and a pointer.
module grid
  real(8), allocatable :: x(:), y(:,:)
contains
  subroutine setup(n)
    integer, intent(in) :: n
    allocate(x(n))
    allocate(y(n, 2))
  end subroutine
  subroutine make(a, n)
    real(8), allocatable, intent(out) :: a(:)
    integer, intent(in) :: n
    allocate(a(n))
    a = 1
  end subroutine
end module

program annotated
  use grid
  real(8), allocatable :: p(:), q(:)
  real(8), pointer :: r(:)
  call setup(1000000)
  call make(p, 500000)
  call make(q, 500001)
  allocate(r(40000))
  x = 1
  y = 2
  r = 3
  print '(5f12.1)', sum(x), sum(y), sum(p), sum(q), sum(r)
end program
