! Everything in the Fortran module hearth, checked: on a machine with one tier, where all spaces are that one, and on one with more.
! Says what it finds, and at last `all as expected`; else what was not, and exits with 1.
!
! Run as `api stop` it makes an error that it does not ask for, and is stopped by it.
module checks
  use hearth
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_intptr_t, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  implicit none
  integer :: wrong = 0
  integer(int64), parameter :: MIB = 2_int64**20
  ! More than a tier's address range has.
  integer(int64), parameter :: TOO_MUCH = 2_int64**45
  type(hearth_tier), allocatable :: tiers(:)

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    print '(2a)', 'not so: ', what
    wrong = wrong + 1
  end subroutine

  logical function aligned(object, bytes)
    type(c_ptr), intent(in) :: object
    integer(int64), intent(in) :: bytes
    aligned = modulo(transfer(object, 0_c_intptr_t), bytes) == 0
  end function

  logical function all_in(object, tier)
    type(c_ptr), intent(in) :: object
    integer, intent(in) :: tier
    type(hearth_where) :: where
    call hearth_residency(object, where)
    all_in = where%in_tier(tier) == hearth_usable_size(object) .and. where%absent == 0 .and. where%elsewhere == 0
  end function

  type(hearth_trait) function prefer(tier)
    integer, intent(in) :: tier
    prefer = hearth_trait(HEARTH_PREFER_SPACE, HEARTH_TIER_0 + tier)
  end function

  subroutine check_tiers()
    integer :: i
    type(hearth_tier), allocatable :: again(:)
    call hearth_tiers(again, i)
    call expect(i == HEARTH_OK .and. size(again) == size(tiers) .and. lbound(again, 1) == 0, 'tiers count from 0')
    print '(i0, a, *(1x, a))', size(tiers), ' tier(s):', (trim(tiers(i)%name), i=0, ubound(tiers, 1))
    call expect(size(tiers) >= 1 .and. tiers(0)%nodes(1) /= 0, 'there is a tier, and it has nodes')
    do i = 0, ubound(tiers, 1)
      call expect(hearth_tier_of_space(HEARTH_TIER_0 + i) == i .and. tiers(i)%name /= '', 'a tier is its own space')
    end do
    do i = HEARTH_HIGH_BANDWIDTH, HEARTH_LARGE_CAPACITY
      call expect(hearth_tier_of_space(i) >= 0, 'every space is a tier')
    end do
    call expect(hearth_tier_of_space(HEARTH_TIER_0 + HEARTH_MAX_TIERS) == -HEARTH_E_TIER, 'a tier that is not there')
    call expect(hearth_error_text(HEARTH_OK) == 'no error', 'the text of no error')
    do i = HEARTH_E_SIZE, HEARTH_E_ARGUMENT
      call expect(len(hearth_error_text(i)) > 10 .and. hearth_error_text(i) /= hearth_error_text(-1), 'every error has a text')
    end do
  end subroutine

  subroutine check_types_and_ranks()
    real(real32), pointer :: r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :)
    real(real64), pointer, contiguous :: d1(:), d2(:, :), d3(:, :, :), d4(:, :, :, :)
    integer(int32), pointer :: i1(:), i2(:, :), i3(:, :, :), i4(:, :, :, :)
    integer(int64), pointer :: l1(:), l2(:, :), l3(:, :, :), l4(:, :, :, :)
    complex(real64), pointer :: c1(:), c2(:, :), c3(:, :, :), c4(:, :, :, :)
    type(hearth_trait) :: all(11)
    integer :: stat(20), tier
    integer(int64), parameter :: wide = 3

    all = [hearth_trait(HEARTH_PREFER_SPACE, HEARTH_LOW_LATENCY), hearth_trait(HEARTH_ACCESS_MODE, HEARTH_READ_WRITE), &
           hearth_trait(HEARTH_ACCESS_FREQUENCY, 5000000000_int64), hearth_trait(HEARTH_ACCESS_ORIGIN, HEARTH_MANY_THREADS), &
           hearth_trait(HEARTH_ACCESS_PATTERN, HEARTH_STRIDED), hearth_trait(HEARTH_ACCESS_STRIDE, 64), &
           hearth_trait(HEARTH_IMPORTANCE, 7), hearth_trait(HEARTH_ALIGNMENT, 2097152), &
           hearth_trait(HEARTH_PARTITION, HEARTH_SPLIT), hearth_trait(HEARTH_WEIGHT, 99), &
           hearth_trait(HEARTH_REST_SPACE, HEARTH_LOW_LATENCY)]
    tier = hearth_tier_of_space(HEARTH_LOW_LATENCY)
    call hearth_allocate(r1, 1000, stat=stat(1))
    call hearth_allocate(r2, 100, 20, all, stat(2))
    call hearth_allocate(r3, 5_int64, 6_int64, 7_int64)
    call hearth_allocate(r4, 2, 3, 4, 5)
    call hearth_allocate(d1, 1)
    call hearth_allocate(d2, 1024, 512, all)
    call hearth_allocate(d3, 2, 3, 4, traits=all(1:3))
    call hearth_allocate(d4, wide, wide, wide, wide)
    call hearth_allocate(i1, 7_int64)
    call hearth_allocate(i2, 7, 8)
    call hearth_allocate(i3, 7, 8, 9)
    call hearth_allocate(i4, 7, 8, 9, 10)
    call hearth_allocate(l1, 7)
    call hearth_allocate(l2, wide, wide)
    call hearth_allocate(l3, 7, 8, 9)
    call hearth_allocate(l4, 7, 8, 9, 10)
    call hearth_allocate(c1, 7)
    call hearth_allocate(c2, 7, 8)
    call hearth_allocate(c3, wide, wide, wide)
    call hearth_allocate(c4, 7, 8, 9, 10)
    call expect(all_zero(stat(1:2)), 'arrays are allocated')

    r1 = 1; r2 = 2; r3 = 3; r4 = 4
    d1 = 5; d2 = 6; d3 = 7; d4 = 8
    i1 = 9; i2 = 10; i3 = 11; i4 = 12
    l1 = 13; l2 = 14; l3 = 15; l4 = 16
    c1 = (17, 1); c2 = 18; c3 = 19; c4 = 20
    call expect(sum(r1) == 1000 .and. sum(r2) == 4000 .and. sum(r3) == 630 .and. sum(r4) == 480, 'arrays of real32')
    call expect(sum(d1) == 5 .and. sum(d2) == 6*1024*512 .and. sum(d3) == 168 .and. sum(d4) == 648, 'arrays of real64')
    call expect(sum(i1) == 63 .and. sum(i2) == 560 .and. sum(i3) == 5544 .and. sum(i4) == 60480, 'arrays of int32')
    call expect(sum(l1) == 91 .and. sum(l2) == 126 .and. sum(l3) == 7560 .and. sum(l4) == 80640, 'arrays of int64')
    call expect(sum(c1) == (119, 7) .and. sum(c2) == 1008 .and. sum(c3) == 513 .and. sum(c4) == 100800, 'arrays of complex')
    call expect(all_zero(lbound(d4) - 1) .and. all_zero(shape(r4) - [2, 3, 4, 5]), 'extents, counted from 1')
    call expect(aligned(c_loc(d2), 2*MIB) .and. aligned(c_loc(r2), 2*MIB), 'alignment')
    call expect(all_in(c_loc(d2), tier), 'an array lies in the preferred space')

    call hearth_deallocate(r1, stat(1)); call hearth_deallocate(r2, stat(2))
    call hearth_deallocate(r3, stat(3)); call hearth_deallocate(r4, stat(4))
    call hearth_deallocate(d1, stat(5)); call hearth_deallocate(d2, stat(6))
    call hearth_deallocate(d3, stat(7)); call hearth_deallocate(d4, stat(8))
    call hearth_deallocate(i1, stat(9)); call hearth_deallocate(i2, stat(10))
    call hearth_deallocate(i3, stat(11)); call hearth_deallocate(i4, stat(12))
    call hearth_deallocate(l1, stat(13)); call hearth_deallocate(l2, stat(14))
    call hearth_deallocate(l3, stat(15)); call hearth_deallocate(l4, stat(16))
    call hearth_deallocate(c1, stat(17)); call hearth_deallocate(c2, stat(18))
    call hearth_deallocate(c3, stat(19)); call hearth_deallocate(c4)
    call expect(all_zero(stat(1:19)) .and. .not. (associated(r1) .or. associated(d2) .or. associated(i3) .or. associated(c4)), &
                'arrays are deallocated')
    call hearth_deallocate(r1)
    print '(a)', 'arrays: 5 types, 4 ranks'
  end subroutine

  logical function all_zero(numbers)
    integer, intent(in) :: numbers(:)
    all_zero = all(numbers == 0)
  end function

  subroutine check_errors()
    real(real64), pointer :: a(:), b(:, :, :), c(:, :, :, :)
    real(real64), target :: foreign(10)
    integer :: stat, exit_code
    character(500) :: path
    call hearth_allocate(a, -1, stat=stat)
    call expect(stat == HEARTH_E_SIZE .and. .not. associated(a), 'a negative extent is refused')
    call hearth_allocate(a, 0, stat=stat)
    call expect(stat == HEARTH_E_SIZE, 'an extent of 0 is refused')
    call hearth_allocate(c, -2, -2, 5, 5, stat=stat)
    call expect(stat == HEARTH_E_SIZE .and. .not. associated(c), 'two negative extents are refused')
    call hearth_allocate(b, 2**30, 2**30, 2**30, stat=stat)
    call expect(stat == HEARTH_E_SIZE .and. .not. associated(b), 'too many bytes to count are refused')
    call hearth_allocate(b, 2_int64**62, 4_int64, 1_int64, stat=stat)
    call expect(stat == HEARTH_E_SIZE, 'bytes that overflow to 0 are refused')
    call hearth_allocate(a, 2_int64**60, stat=stat)
    call expect(stat == HEARTH_E_SIZE, 'one element too many to count is refused')
    call hearth_allocate(a, TOO_MUCH/8, stat=stat)
    call expect(stat == HEARTH_E_ROOM .and. .not. associated(a), 'more than there is is refused')
    call hearth_allocate(a, 10, [hearth_trait(99, 1)], stat)
    call expect(stat == HEARTH_E_TRAIT, 'a trait that does not exist is refused')
    call hearth_allocate(a, 10, [hearth_trait(HEARTH_PREFER_SPACE, 1), hearth_trait(HEARTH_REQUIRE_SPACE, 1)], stat)
    call expect(stat == HEARTH_E_CONFLICT, 'traits that contradict each other are refused')
    call hearth_allocate(a, 10, [prefer(HEARTH_MAX_TIERS)], stat)
    call expect(stat == HEARTH_E_TIER, 'a tier that is not there is refused')
    a => foreign
    call hearth_deallocate(a, stat)
    call expect(stat == HEARTH_E_FOREIGN .and. associated(a), 'an array of others is refused')
    call hearth_update(c_loc(foreign), [prefer(0)], stat)
    call expect(stat == HEARTH_E_FOREIGN, 'an array of others is not updated')
    call hearth_name(c_loc(foreign), 'foreign', stat)
    call expect(stat == HEARTH_E_FOREIGN, 'an array of others is not named')
    call hearth_free(c_loc(foreign), stat)
    call expect(stat == HEARTH_E_FOREIGN .and. hearth_usable_size(c_loc(foreign)) == 0, 'an array of others is not freed')
    call hearth_phase('', stat)
    call expect(stat == HEARTH_E_ARGUMENT, 'a phase has a name')
    call hearth_loop_begin(repeat('x', 201), stat)
    call expect(stat == HEARTH_E_ARGUMENT, 'a long name is refused')

    exit_code = 0
    call get_command_argument(0, path)
    call execute_command_line("'"//trim(path)//"' stop > /dev/null 2>&1", exitstat=exit_code)
    call expect(exit_code == 1, 'an error that nobody asks for stops the program')
    print '(2a)', 'errors: ', hearth_error_text(HEARTH_E_SIZE)
  end subroutine

  subroutine check_placement()
    integer(int64), pointer :: a(:), small(:)
    integer(int32), allocatable, target :: others(:)
    type(hearth_where) :: where
    integer(int64) :: moved, bytes
    integer :: tier, last, stat
    last = ubound(tiers, 1)
    do tier = 0, last
      call hearth_allocate(a, 4*MIB/8, [hearth_trait(HEARTH_REQUIRE_SPACE, HEARTH_TIER_0 + tier)])
      call hearth_residency(c_loc(a), where)
      print '(3a, i0, a)', 'required in ', trim(tiers(tier)%name), ': ', where%in_tier(tier)/1024, ' KiB are there'
      call expect(where%in_tier(tier) == 4*MIB, 'what is required is there')
      call hearth_deallocate(a)
    end do

    call hearth_allocate(a, 8*MIB/8, [prefer(0), hearth_trait(HEARTH_PARTITION, HEARTH_INTERLEAVE), &
                                      hearth_trait(HEARTH_WEIGHT, 25), hearth_trait(HEARTH_REST_SPACE, HEARTH_TIER_0 + last)])
    a = 1
    call hearth_residency(c_loc(a), where, 8*MIB)
    call expect(where%in_tier(0) == merge(8*MIB, 2*MIB, last == 0) .and. sum(where%in_tier) == 8*MIB, 'a quarter by turns')
    call hearth_deallocate(a)

    call hearth_allocate(a, 4*MIB/8, [prefer(0)])
    a = 7
    call hearth_name(c_loc(a), 'wanderer')
    call hearth_update(c_loc(a), [prefer(last)])
    call hearth_migrate(moved)
    call expect(all_in(c_loc(a), last) .and. all(a == 7), 'it has moved, and its content with it')
    call expect(moved == merge(4*MIB, 0_int64, last > 0), 'so many bytes were moved')
    print '(a, i0, a)', 'migrated: ', moved/1024, ' KiB'
    call hearth_migrate(moved, stat)
    call expect(moved == 0 .and. stat == HEARTH_OK, 'there is no more to move')
    call hearth_migrate()

    call hearth_allocate(small, 10)
    call hearth_update(c_loc(small), [prefer(0)], stat)
    call expect(stat == HEARTH_E_SMALL, 'a small object stays')
    call hearth_deallocate(small)
    call hearth_deallocate(a)

    allocate (others(100000), source=1)
    bytes = storage_size(others)/8*size(others)
    call hearth_residency(c_loc(others), where, bytes)
    call expect(where%absent == 0 .and. sum(where%in_tier) >= bytes, 'where memory of others is')
    call hearth_residency(c_loc(others), where, stat=stat)
    call expect(stat == HEARTH_E_FOREIGN, 'how large memory of others is, is not known')
    call hearth_residency(c_null_ptr, where, 1_int64, stat)
    call expect(stat == HEARTH_E_ARGUMENT, 'nothing is nowhere')
    call hearth_residency(c_loc(others), where, -1_int64, stat)
    call expect(stat == HEARTH_E_SIZE, 'a negative size is refused')
  end subroutine

  subroutine check_declarations()
    type(c_ptr), target :: hot, cold, huge_one
    integer(int64), target :: declared(3)
    integer :: stat
    real(real64), pointer :: a(:)
    hot = c_loc(declared)
    call hearth_declare(hot, 8*100000_int64, declared(1), &
                        [hearth_trait(HEARTH_PREFER_SPACE, HEARTH_HIGH_BANDWIDTH), hearth_trait(HEARTH_IMPORTANCE, 2)])
    call hearth_declare(cold, 5000_int64, declared(2))
    call hearth_declare(huge_one, TOO_MUCH, declared(3), stat=stat)
    call expect(stat == HEARTH_OK .and. .not. c_associated(hot), 'nothing is allocated yet')
    call hearth_commit(declared, stat)
    call expect(stat == HEARTH_E_ROOM .and. .not. (c_associated(hot) .or. c_associated(cold)), 'all or nothing')
    call hearth_commit(declared(1:2))
    call expect(c_associated(hot) .and. c_associated(cold) .and. hearth_usable_size(cold) >= 5000, 'both are committed')
    call c_f_pointer(hot, a, [100000])
    a = 3
    call expect(sum(a) == 300000 .and. all_in(hot, int(hearth_tier_of_space(HEARTH_HIGH_BANDWIDTH))), 'it lies where it is wanted')
    call hearth_commit(declared(1:1), stat)
    call expect(stat == HEARTH_E_HANDLE, 'twice is refused')
    call hearth_withdraw(declared(3))
    call hearth_withdraw(declared(3), stat)
    call expect(stat == HEARTH_E_HANDLE, 'withdrawn once')
    call hearth_declare(cold, 0_int64, declared(1), stat=stat)
    call expect(stat == HEARTH_E_SIZE .and. declared(1) == 0, 'a declaration of nothing is refused')
    ! What was committed ends as an array, too.
    call hearth_deallocate(a)
    call hearth_free(cold)
    call hearth_free(c_null_ptr)
    call hearth_alloc(hot, 100_int64, [hearth_trait(HEARTH_ALIGNMENT, 256)])
    call expect(aligned(hot, 256_int64), 'memory of any kind is aligned')
    call hearth_free(hot, stat)
    call expect(stat == HEARTH_OK, 'and freed')
    call hearth_alloc(hot, -1_int64, stat=stat)
    call expect(stat == HEARTH_E_SIZE .and. .not. c_associated(hot), 'and not of a negative size')
    print '(a)', 'declarations: committed, refused as a whole, withdrawn'
  end subroutine

  subroutine check_phases()
    character(20) :: name = 'padded'
    integer, target :: used(10)
    integer :: stat
    call hearth_phase(name)
    call hearth_loop_begin('the loop')
    call hearth_phase('inside', stat)
    call expect(stat == HEARTH_OK, 'a phase')
    call hearth_phase_uses(name, c_loc(used), stat)
    call expect(stat == HEARTH_OK, 'what a phase uses')
    call hearth_phase_uses(name, c_null_ptr, stat)
    call expect(stat == HEARTH_E_ARGUMENT, 'a phase does not use nothing')
    call hearth_loop_end(stat)
    call expect(stat == HEARTH_OK, 'the end of the loop')
    call hearth_loop_begin('another')
    call hearth_loop_end()
  end subroutine
end module

program api
  use checks
  implicit none
  character(10) :: argument
  real(real64), pointer :: refused(:)
  call get_command_argument(1, argument)
  if (argument == 'stop') then
    call hearth_allocate(refused, -1)
    stop
  end if
  call hearth_tiers(tiers)
  call check_tiers()
  call check_types_and_ranks()
  call check_errors()
  call check_placement()
  call check_declarations()
  call check_phases()
  if (wrong > 0) then
    print '(i0, a)', wrong, ' of the checks failed'
    stop 1
  end if
  print '(a)', 'all as expected'
end program
