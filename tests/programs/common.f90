! Static data of other kinds: a COMMON block of 12 MB, as old Fortran programs keep their fields in, and a variable of 8 MiB in
! a shared library. Both are written and summed up; then the program rests, for a reading of where their pages are.
program common_block
  use iso_c_binding, only: c_long, c_int
  implicit none
  double precision :: field
  common /grid/ field(1500000)
  interface
    function fill_library_table() bind(c)
      import c_long
      integer(c_long) :: fill_library_table
    end function
    function usleep(us) bind(c)
      import c_int
      integer(c_int), value :: us
      integer(c_int) :: usleep
    end function
  end interface
  integer :: i
  do i = 1, 1500000
    field(i) = mod(i, 11)
  end do
  print '(a, f12.1, i8)', 'common: ', sum(field), fill_library_table()
  i = usleep(1500000)
end program
