! Temporaries that are allocated and freed in a loop, by ALLOCATE and by assignment. columns [TURNS]
program columns
  implicit none
  real(8), allocatable :: a(:), b(:)
  real(8) :: total
  integer :: turn, turns
  character(20) :: text
  total = 0
  turns = 3000000
  if (command_argument_count() > 0) then
    call get_command_argument(1, text)
    read (text, *) turns
  end if
  do turn = 1, turns
    allocate(a(8 + mod(turn, 8)))
    a = turn
    b = a
    total = total + b(3)
    deallocate(a)
  end do
  print '(es12.5)', total
end program
