! Temporaries that are allocated and freed in a loop, by ALLOCATE and by assignment.
program columns
  implicit none
  real(8), allocatable :: a(:), b(:)
  real(8) :: total
  integer :: turn
  total = 0
  do turn = 1, 3000000
    allocate(a(8 + mod(turn, 8)))
    a = turn
    b = a
    total = total + b(3)
    deallocate(a)
  end do
  print '(es12.5)', total
end program
