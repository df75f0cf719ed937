! The same idea as counted.c with allocatable arrays and procedures that are given them: counted [N [TURNS]].
program counted
   implicit none
   real(8), allocatable :: field(:, :), edge(:)
   integer, allocatable :: order(:)
   integer :: n, turns, t
   real(8) :: total
   n = argument(1, 1000)
   turns = argument(2, 10)
   allocate (field(n, n), edge(n*n), order(n*n))
   field = 1
   edge = 2
   do t = 1, n*n
      order(t) = 1 + int(mod(t*7919_8, int(n, 8)*n))
   end do
   total = 0
   do t = 1, turns
      total = total + columns(field) + gathered(edge, order)
   end do
   print '(g0)', total

contains

   integer function argument(position, default)
      integer, intent(in) :: position, default
      character(32) :: text
      argument = default
      if (command_argument_count() < position) return
      call get_command_argument(position, text)
      read (text, *) argument
   end function

   real(8) function columns(a)
      real(8), intent(in) :: a(:, :)
      integer :: i, j
      columns = 0
      do j = 1, size(a, 2)
         do i = 1, size(a, 1)
            columns = columns + a(i, j)
         end do
      end do
   end function

   real(8) function gathered(a, from)
      real(8), intent(in) :: a(:)
      integer, intent(in) :: from(:)
      integer :: i
      gathered = 0
      do i = 1, size(from)
         gathered = gathered + a(from(i))
      end do
   end function
end program
