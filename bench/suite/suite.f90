! What the Fortran programs of the suite share: their arguments, reproducible "random" numbers, and their last line.
! The same usage as in suite.h: PROGRAM [work [MiB]].
module suite
   use iso_fortran_env, only: error_unit, int64, real64
   implicit none
   integer, parameter :: blocks = 64  ! sums are taken in so many parts, so that they do not depend on the threads

   interface  ! suite.h: what is measured in the lab begins and ends
      subroutine suite_begin() bind(c, name='suite_region_begins')
      end subroutine
      subroutine suite_end() bind(c, name='suite_region_ends')
      end subroutine
   end interface

contains

   ! Work (default 1) and bytes; ends the program with a sentence when an argument makes no sense.
   subroutine read_arguments(default_mib, work, bytes)
      real(real64), intent(in) :: default_mib
      real(real64), intent(out) :: work, bytes
      if (command_argument_count() > 2) call refuse('too many arguments')
      work = number(1, 'work', 1.0_real64, 1e-3_real64, 1e6_real64)
      bytes = number(2, 'MiB', default_mib, 8.0_real64, 131072.0_real64)*1048576
   end subroutine

   real(real64) function number(position, what, default, low, high)
      integer, intent(in) :: position
      character(*), intent(in) :: what
      real(real64), intent(in) :: default, low, high
      character(64) :: text
      character(128) :: sentence
      integer :: status
      number = default
      if (command_argument_count() < position) return
      call get_command_argument(position, text)
      read (text, *, iostat=status) number
      if (status == 0 .and. verify(trim(text), '0123456789.eE+-') == 0 .and. number >= low .and. number <= high) return
      write (sentence, '(4a,g0.4,a,g0.4)') what, " is '", trim(text), "', but must be a number from ", low, ' to ', high
      call refuse(trim(sentence))
   end function

   subroutine refuse(sentence)
      character(*), intent(in) :: sentence
      write (error_unit, '(4a)') name(), ': ', sentence, '; usage: PROGRAM [work [MiB]]'
      stop 2, quiet=.true.
   end subroutine

   ! `base` steps at work 1; never less than one.
   integer function times(base, work)
      real(real64), intent(in) :: base, work
      times = max(1, nint(base*work))
   end function

   ! The next of a row of numbers in [0, 1): Lehmer's generator with the multiplier 48271 (Park, Miller 1993).
   real(real64) function unit_number(state)
      integer(int64), intent(inout) :: state
      state = mod(48271_int64*state, 2147483647_int64)
      unit_number = real(state, real64)/2147483647.0_real64
   end function

   ! The sum of a*b, the same for any number of threads.
   real(real64) function dot(a, b)
      real(real64), intent(in) :: a(:), b(:)
      real(real64) :: part(blocks), s
      integer(int64) :: n
      integer :: block, i
      n = size(a, kind=int64)
      !$omp parallel do schedule(static) private(i, s)
      do block = 1, blocks
         s = 0
         do i = int((block - 1)*n/blocks) + 1, int(block*n/blocks)
            s = s + a(i)*b(i)
         end do
         part(block) = s
      end do
      dot = sum(part)
   end function

   function name()
      character(:), allocatable :: name
      character(4096) :: path
      call get_command_argument(0, path)
      name = trim(path(index(path, '/', back=.true.) + 1:))
   end function

   ! Prints the one line and ends the program.
   subroutine finish(right, said)
      logical, intent(in) :: right
      character(*), intent(in) :: said
      character(:), allocatable :: verdict
      verdict = ' WRONG: '
      if (right) verdict = ' OK: '
      print '(3a)', name(), verdict, said
      if (.not. right) stop 1, quiet=.true.
   end subroutine
end module
