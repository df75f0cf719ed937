! Two phases by marks, whose names are put together as Fortran does.
program marked
  use iso_c_binding
  implicit none
  interface
    integer(c_int) function hearth_phase(name) bind(c)
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
  end interface
  real(8), allocatable :: a(:), b(:)
  integer :: turn, i
  allocate(a(1000000), b(2000000))
  a = 0; b = 0
  do turn = 1, 10
    i = hearth_phase("first"//c_null_char)
    call step(a)
    i = hearth_phase("second"//c_null_char)
    call step(b)
  end do
  print *, a(3) + b(4)
contains
  subroutine step(x)
    real(8), intent(inout) :: x(:)
    integer :: k
    do k = 1, size(x)
      x(k) = x(k) + k
    end do
  end subroutine
end program
