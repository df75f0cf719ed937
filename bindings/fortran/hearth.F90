! hearth.F90 - hearth.h for Fortran 2008: pointer arrays whose memory is where the code says.
!
!     use hearth                     gfortran hearth.F90 app.f90 $(pkg-config --libs hearth)
!
!     real(real64), pointer, contiguous :: table(:, :)
!     call hearth_allocate(table, n, m, traits=[hearth_trait(HEARTH_PREFER_SPACE, HEARTH_LOW_LATENCY)])
!     ...
!     call hearth_deallocate(table)
!
! hearth.h is the specification: what a trait means, and what each error is for, stands there. Sizes are bytes. `stat` becomes
! HEARTH_OK or one of HEARTH_E_...; without it, an error stops the program with its text, as with ALLOCATE. Strategies are C's.

! All but the arrays: it is used through the module hearth.
module hearth_base
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_int, c_int64_t, c_loc, c_null_char, c_ptr, &
    c_size_t
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  implicit none
  private

  ! Errors.
  integer, parameter, public :: HEARTH_OK = 0, HEARTH_E_SIZE = 1, HEARTH_E_TRAIT = 2, HEARTH_E_CONFLICT = 3, HEARTH_E_ROOM = 4, &
    HEARTH_E_TIER = 5, HEARTH_E_FOREIGN = 6, HEARTH_E_HANDLE = 7, HEARTH_E_PLATFORM = 8, HEARTH_E_KERNEL = 9, &
    HEARTH_E_STRATEGY = 10, HEARTH_E_SMALL = 11, HEARTH_E_ARGUMENT = 12

  ! Spaces; HEARTH_TIER_0 + i is the tier of index i, from 0, in hearth_tiers.
  integer(c_int), parameter, public :: HEARTH_HIGH_BANDWIDTH = 1, HEARTH_LOW_LATENCY = 2, HEARTH_LARGE_CAPACITY = 3, &
    HEARTH_TIER_0 = 16
  integer, parameter, public :: HEARTH_MAX_TIERS = 8

  ! Keys of traits, and their values.
  integer(c_int), parameter, public :: HEARTH_REQUIRE_SPACE = 1, HEARTH_PREFER_SPACE = 2, HEARTH_ACCESS_MODE = 3, &
    HEARTH_ACCESS_FREQUENCY = 4, HEARTH_ACCESS_ORIGIN = 5, HEARTH_ACCESS_PATTERN = 6, HEARTH_ACCESS_STRIDE = 7, &
    HEARTH_IMPORTANCE = 8, HEARTH_ALIGNMENT = 9, HEARTH_PARTITION = 10, HEARTH_WEIGHT = 11, HEARTH_REST_SPACE = 12
  integer(c_int), parameter, public :: HEARTH_READ_ONLY = 1, HEARTH_WRITE_ONLY = 2, HEARTH_READ_WRITE = 3
  integer(c_int), parameter, public :: HEARTH_ONE_THREAD = 1, HEARTH_MANY_THREADS = 2
  integer(c_int), parameter, public :: HEARTH_LINEAR = 1, HEARTH_STRIDED = 2, HEARTH_RANDOM = 3
  integer(c_int), parameter, public :: HEARTH_WHOLE = 1, HEARTH_SPLIT = 2, HEARTH_INTERLEAVE = 3

  ! A key and its value.
  type, bind(c), public :: hearth_trait
    integer(c_int) :: key
    integer(c_int64_t) :: value
  end type

  ! A tier of this machine. 0: none, or not known.
  type, public :: hearth_tier
    character(31) :: name                                    ! as `hearth platform` prints it: dram, hbm, cxl, ...
    integer(int64) :: capacity, free                         ! bytes
    real(c_double) :: latency                                ! nanoseconds
    real(c_double) :: read_bandwidth, write_bandwidth        ! bytes a second
    integer(int64) :: nodes(2)                               ! NUMA nodes 0 to 127, a bit each
  end type

  ! Bytes, in whole pages, by where they are.
  type, bind(c), public :: hearth_where
    integer(c_int64_t) :: in_tier(0:HEARTH_MAX_TIERS - 1)    ! by index of hearth_tiers
    integer(c_int64_t) :: elsewhere                          ! in nodes that are of no tier
    integer(c_int64_t) :: absent                             ! not touched yet, swapped out, or not mapped
  end type

  ! hearth_tier of hearth.h.
  type, bind(c) :: raw_tier
    character(kind=c_char) :: name(32)
    integer(c_int64_t) :: capacity, free
    real(c_double) :: latency, read_bandwidth, write_bandwidth
    integer(c_int64_t) :: nodes(2)
  end type

  public :: hearth_error_text, hearth_tiers, hearth_tier_of_space, hearth_alloc, hearth_free, hearth_usable_size, hearth_name, &
    hearth_declare, hearth_commit, hearth_withdraw, hearth_update, hearth_migrate, hearth_residency, hearth_phase, &
    hearth_phase_uses, hearth_loop_begin, hearth_loop_end
  ! For the modules of arrays.
  public :: hearth_bytes, hearth_finish

  interface
    ! Index, from 0, of the tier that a space is on this machine; negative: minus one of HEARTH_E_...
    integer(c_int) function hearth_tier_of_space(space) bind(c, name='hearth_tier_of_space')
      import :: c_int
      integer(c_int), value :: space
    end function

    ! Bytes that may be used of an object; 0: it is none of Hearth's.
    integer(c_size_t) function hearth_usable_size(object) bind(c, name='hearth_usable_size')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: object
    end function

    type(c_ptr) function c_error_text(code) bind(c, name='hearth_error_text')
      import :: c_int, c_ptr
      integer(c_int), value :: code
    end function

    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function

    integer(c_int) function c_tiers(tiers, room, count) bind(c, name='hearth_tiers')
      import :: c_int, c_size_t, raw_tier
      type(raw_tier), intent(out) :: tiers(*)
      integer(c_size_t), value :: room
      integer(c_size_t), intent(out) :: count
    end function

    type(c_ptr) function c_alloc(bytes, code, count, traits) bind(c, name='hearth_alloc')
      import :: c_int, c_ptr, c_size_t, hearth_trait
      integer(c_size_t), value :: bytes, count
      integer(c_int), intent(out) :: code
      type(hearth_trait), intent(in) :: traits(*)
    end function

    integer(c_int) function c_free(object) bind(c, name='hearth_free')
      import :: c_int, c_ptr
      type(c_ptr), value :: object
    end function

    integer(c_int) function c_name(object, name) bind(c, name='hearth_name')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: object
      character(kind=c_char), intent(in) :: name(*)
    end function

    integer(c_int64_t) function c_declare(where, bytes, code, count, traits) bind(c, name='hearth_declare')
      import :: c_int, c_int64_t, c_ptr, c_size_t, hearth_trait
      type(c_ptr), value :: where
      integer(c_size_t), value :: bytes, count
      integer(c_int), intent(out) :: code
      type(hearth_trait), intent(in) :: traits(*)
    end function

    integer(c_int) function c_commit(declarations, count) bind(c, name='hearth_commit')
      import :: c_int, c_int64_t, c_size_t
      integer(c_int64_t), intent(in) :: declarations(*)
      integer(c_size_t), value :: count
    end function

    integer(c_int) function c_withdraw(declaration) bind(c, name='hearth_withdraw')
      import :: c_int, c_int64_t
      integer(c_int64_t), value :: declaration
    end function

    integer(c_int) function c_update(object, count, traits) bind(c, name='hearth_update')
      import :: c_int, c_ptr, c_size_t, hearth_trait
      type(c_ptr), value :: object
      integer(c_size_t), value :: count
      type(hearth_trait), intent(in) :: traits(*)
    end function

    integer(c_int) function c_migrate(moved) bind(c, name='hearth_migrate')
      import :: c_int, c_size_t
      integer(c_size_t), intent(out) :: moved
    end function

    integer(c_int) function c_residency(start, bytes, where) bind(c, name='hearth_residency')
      import :: c_int, c_ptr, c_size_t, hearth_where
      type(c_ptr), value :: start
      integer(c_size_t), value :: bytes
      type(hearth_where), intent(inout) :: where
    end function

    integer(c_int) function c_phase(name) bind(c, name='hearth_phase')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
    end function

    integer(c_int) function c_phase_uses(name, object) bind(c, name='hearth_phase_uses')
      import :: c_char, c_int, c_ptr
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: object
    end function

    integer(c_int) function c_loop_begin(name) bind(c, name='hearth_loop_begin')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
    end function

    integer(c_int) function c_loop_end() bind(c, name='hearth_loop_end')
      import :: c_int
    end function
  end interface

contains

  ! What an error is and how to mend it: one English sentence.
  function hearth_error_text(code) result(text)
    integer, intent(in) :: code
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    type(c_ptr) :: sentence
    integer :: i
    sentence = c_error_text(int(code, c_int))
    call c_f_pointer(sentence, letters, [c_strlen(sentence)])
    allocate (character(size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

  ! The tiers of this machine, fastest first, from index 0 on as in HEARTH_TIER_0 + i.
  subroutine hearth_tiers(tiers, stat)
    type(hearth_tier), allocatable, intent(out) :: tiers(:)
    integer, intent(out), optional :: stat
    type(raw_tier) :: raw(0:HEARTH_MAX_TIERS - 1)
    integer(c_size_t) :: count
    integer(c_int) :: code
    integer :: i, letter
    count = 0
    code = c_tiers(raw, size(raw, kind=c_size_t), count)
    allocate (tiers(0:int(count) - 1))
    do i = 0, int(count) - 1
      tiers(i)%name = ''
      do letter = 1, len(tiers(i)%name)
        if (raw(i)%name(letter) == c_null_char) exit
        tiers(i)%name(letter:letter) = raw(i)%name(letter)
      end do
      tiers(i)%capacity = raw(i)%capacity
      tiers(i)%free = raw(i)%free
      tiers(i)%latency = raw(i)%latency
      tiers(i)%read_bandwidth = raw(i)%read_bandwidth
      tiers(i)%write_bandwidth = raw(i)%write_bandwidth
      tiers(i)%nodes = raw(i)%nodes
    end do
    call hearth_finish('hearth_tiers', code, stat)
  end subroutine

  ! Memory for what hearth_allocate does not know (derived types, other kinds, higher ranks), by c_f_pointer. An error: c_null_ptr.
  subroutine hearth_alloc(object, bytes, traits, stat)
    type(c_ptr), intent(out) :: object
    integer(int64), intent(in) :: bytes
    type(hearth_trait), intent(in), optional :: traits(:)
    integer, intent(out), optional :: stat
    type(hearth_trait) :: none(0)
    integer(c_int) :: code
    if (present(traits)) then
      object = c_alloc(bytes, code, size(traits, kind=c_size_t), traits)
    else
      object = c_alloc(bytes, code, 0_c_size_t, none)
    end if
    call hearth_finish('hearth_alloc', code, stat)
  end subroutine

  ! Ends an object of hearth_alloc or hearth_commit. c_null_ptr is no error.
  subroutine hearth_free(object, stat)
    type(c_ptr), intent(in) :: object
    integer, intent(out), optional :: stat
    call hearth_finish('hearth_free', c_free(object), stat)
  end subroutine

  ! Names the object that begins at c_loc(array). Blanks at the end of the name do not count.
  subroutine hearth_name(object, name, stat)
    type(c_ptr), intent(in) :: object
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    call hearth_finish('hearth_name', c_name(object, trim(name)//c_null_char), stat)
  end subroutine

  ! Says that `where` is to be the address of so many bytes, once `declaration` is committed; c_null_ptr until then. 0 on an error.
  ! Hearth keeps the address of `where`: it must be a TARGET that lives until then.
  subroutine hearth_declare(where, bytes, declaration, traits, stat)
    type(c_ptr), intent(inout), target :: where
    integer(int64), intent(in) :: bytes
    integer(int64), intent(out) :: declaration
    type(hearth_trait), intent(in), optional :: traits(:)
    integer, intent(out), optional :: stat
    type(hearth_trait) :: none(0)
    integer(c_int) :: code
    if (present(traits)) then
      declaration = c_declare(c_loc(where), bytes, code, size(traits, kind=c_size_t), traits)
    else
      declaration = c_declare(c_loc(where), bytes, code, 0_c_size_t, none)
    end if
    call hearth_finish('hearth_declare', code, stat)
  end subroutine

  ! Decides over all of these declarations and allocates them, or none.
  subroutine hearth_commit(declarations, stat)
    integer(int64), intent(in) :: declarations(:)
    integer, intent(out), optional :: stat
    call hearth_finish('hearth_commit', c_commit(declarations, size(declarations, kind=c_size_t)), stat)
  end subroutine

  ! Ends a declaration that was not committed.
  subroutine hearth_withdraw(declaration, stat)
    integer(int64), intent(in) :: declaration
    integer, intent(out), optional :: stat
    call hearth_finish('hearth_withdraw', c_withdraw(declaration), stat)
  end subroutine

  ! Replaces the traits of the object that begins at c_loc(array), for the next hearth_migrate.
  subroutine hearth_update(object, traits, stat)
    type(c_ptr), intent(in) :: object
    type(hearth_trait), intent(in) :: traits(:)
    integer, intent(out), optional :: stat
    call hearth_finish('hearth_update', c_update(object, size(traits, kind=c_size_t), traits), stat)
  end subroutine

  ! Moves what was updated. `moved`: bytes, also if some object could not be moved and `stat` says so.
  subroutine hearth_migrate(moved, stat)
    integer(int64), intent(out), optional :: moved
    integer, intent(out), optional :: stat
    integer(c_size_t) :: bytes
    integer(c_int) :: code
    code = c_migrate(bytes)
    if (present(moved)) moved = bytes
    call hearth_finish('hearth_migrate', code, stat)
  end subroutine

  ! Where the pages are of the memory that begins at c_loc(array). `bytes`: of any memory; without, all of an object of Hearth's.
  subroutine hearth_residency(start, where, bytes, stat)
    type(c_ptr), intent(in) :: start
    type(hearth_where), intent(out) :: where
    integer(int64), intent(in), optional :: bytes
    integer, intent(out), optional :: stat
    integer(c_int) :: code
    where = hearth_where(0, 0, 0)
    if (present(bytes)) then
      code = c_residency(start, bytes, where)
    else if (hearth_usable_size(start) > 0) then
      code = c_residency(start, hearth_usable_size(start), where)
    else
      code = HEARTH_E_FOREIGN
    end if
    call hearth_finish('hearth_residency', code, stat)
  end subroutine

  ! A phase begins. Blanks at the end of the name do not count, as in hearth_loop_begin.
  subroutine hearth_phase(name, stat)
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    call hearth_finish('hearth_phase', c_phase(trim(name)//c_null_char), stat)
  end subroutine

  ! The phase of this name uses the array that c_loc(array) lies in, which is Fortran's own: allocatable, or a variable.
  subroutine hearth_phase_uses(name, object, stat)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: object
    integer, intent(out), optional :: stat
    call hearth_finish('hearth_phase_uses', c_phase_uses(trim(name)//c_null_char, object), stat)
  end subroutine

  ! The loop that a run is spent in begins.
  subroutine hearth_loop_begin(name, stat)
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    call hearth_finish('hearth_loop_begin', c_loop_begin(trim(name)//c_null_char), stat)
  end subroutine

  ! It is over.
  subroutine hearth_loop_end(stat)
    integer, intent(out), optional :: stat
    call hearth_finish('hearth_loop_end', c_loop_end(), stat)
  end subroutine

  ! Bytes of an array of this shape. -1, which hearth_alloc refuses with HEARTH_E_SIZE: an extent below 1, or too many.
  pure integer(int64) function hearth_bytes(extents, bits_of_element)
    integer(int64), intent(in) :: extents(:)
    integer, intent(in) :: bits_of_element
    integer :: i
    hearth_bytes = bits_of_element/8
    do i = 1, size(extents)
      if (extents(i) < 1) then
        hearth_bytes = -1
      else if (hearth_bytes > huge(hearth_bytes)/extents(i)) then
        hearth_bytes = -1
      end if
      if (hearth_bytes < 0) return
      hearth_bytes = hearth_bytes*extents(i)
    end do
  end function

  ! Hands an error over or, where nobody asks for it, stops. (Fortran 2008 stops with constant texts only.)
  subroutine hearth_finish(procedure_name, code, stat)
    character(*), intent(in) :: procedure_name
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: stat
    if (present(stat)) then
      stat = code
    else if (code /= HEARTH_OK) then
      write (error_unit, '(4a)') procedure_name, ': ', hearth_error_text(int(code))
      error stop
    end if
  end subroutine
end module

#define ELEMENTS real(real32)
#define ARRAYS hearth_real32
#include "hearth_arrays.inc"
#undef ELEMENTS
#undef ARRAYS

#define ELEMENTS real(real64)
#define ARRAYS hearth_real64
#include "hearth_arrays.inc"
#undef ELEMENTS
#undef ARRAYS

#define ELEMENTS integer(int32)
#define ARRAYS hearth_int32
#include "hearth_arrays.inc"
#undef ELEMENTS
#undef ARRAYS

#define ELEMENTS integer(int64)
#define ARRAYS hearth_int64
#include "hearth_arrays.inc"
#undef ELEMENTS
#undef ARRAYS

#define ELEMENTS complex(real64)
#define ARRAYS hearth_complex64
#include "hearth_arrays.inc"
#undef ELEMENTS
#undef ARRAYS

! What programs use.
module hearth
  use hearth_base
  use hearth_real32
  use hearth_real64
  use hearth_int32
  use hearth_int64
  use hearth_complex64
  implicit none
  private :: hearth_bytes, hearth_finish
end module
