! SPDX-License-Identifier: MIT OR Apache-2.0
!
! The modules for Fortran: each kind of argument once, between two ranks.
module checks
  use GASPI_types
  implicit none
contains
  subroutine ok(got, what)
    integer(gaspi_return_t), intent(in) :: got
    character(*), intent(in) :: what
    if (got /= GASPI_SUCCESS) then
      print *, what, ' gave ', got
      error stop 1
    end if
  end subroutine ok

  subroutine check(so, what)
    logical, intent(in) :: so
    character(*), intent(in) :: what
    if (.not. so) then
      print *, 'not so: ', what
      error stop 1
    end if
  end subroutine check

  ! A reduction of the program: the larger of two, by magnitude.
  function larger(one, two, res, state, num, element_size, timeout_ms) result(code) bind(C)
    use, intrinsic :: iso_c_binding
    type(c_ptr), value :: one, two, res, state
    integer(gaspi_number_t), value :: num
    integer(gaspi_size_t), value :: element_size
    integer(c_long), value :: timeout_ms
    integer(gaspi_return_t) :: code
    real(c_double), pointer :: a(:), b(:), c(:)
    call c_f_pointer(one, a, [num])
    call c_f_pointer(two, b, [num])
    call c_f_pointer(res, c, [num])
    c = merge(a, b, abs(a) >= abs(b))
    code = GASPI_SUCCESS
    if (element_size /= 8 .or. timeout_ms == 0 .or. c_associated(state)) code = GASPI_ERROR
  end function larger
end module checks

program fortran
  use, intrinsic :: iso_c_binding
  use GASPI
  use GASPI_Ext
  use checks
  implicit none
  integer(gaspi_timeout_t), parameter :: MINUTE = 60000
  integer(gaspi_segment_id_t), parameter :: SEGMENT = 3
  integer(gaspi_size_t), parameter :: BYTES = 4096
  type(gaspi_config_t) :: config
  integer(gaspi_rank_t) :: me, ranks, other, sender
  integer(gaspi_number_t) :: number
  integer(gaspi_notification_id_t) :: first
  integer(gaspi_notification_t) :: old
  integer(gaspi_atomic_value_t) :: before
  integer(gaspi_group_t) :: group
  integer(gaspi_queue_id_t) :: queue
  integer(gaspi_offset_t), target :: from(2), to(2)
  integer(gaspi_size_t), target :: lengths(2)
  integer(gaspi_segment_id_t), target :: segments(2)
  integer(gaspi_state_t), target :: states(8)
  integer(gaspi_cycles_t) :: ticks
  real(gaspi_time_t) :: time
  real(c_float) :: version
  real(c_double), target :: mine(3), all(3)
  real(c_double), pointer :: memory(:)
  type(c_ptr) :: address
  integer :: i

  call check(c_sizeof(config) == 144, 'the configuration has 144 bytes')
  call ok(gaspi_config_get(config), 'config_get')
  call check(config%queue_num == 8 .and. config%sn_timeout == 30000, 'defaults')
  call check(config%rw_list_elem_max == 255 .and. config%build_infrastructure == GASPI_TOPOLOGY_STATIC, 'more defaults')
  config%queue_num = 4
  call ok(gaspi_config_set(config), 'config_set')
  call check(gaspi_proc_rank(me) == GASPI_ERR_NOINIT, 'before the start')
  call ok(gaspi_proc_init(GASPI_BLOCK), 'proc_init')
  call ok(gaspi_proc_rank(me), 'proc_rank')
  call ok(gaspi_proc_num(ranks), 'proc_num')
  call check(ranks == 2, 'two ranks')
  other = 1_gaspi_rank_t - me
  call ok(gaspi_queue_num(number), 'queue_num')
  call check(number == 4, 'what was configured')
  call ok(gaspi_rw_list_elem_max(number), 'rw_list_elem_max')
  call check(number == 255, 'elements of a list')
  call ok(gaspi_version(version), 'version')
  call ok(gaspi_time_get(time), 'time_get')
  call ok(gaspi_time_ticks(ticks), 'time_ticks')
  call check(version > 0 .and. time > 0 .and. ticks /= 0, 'version and time')

  call ok(gaspi_segment_create(SEGMENT, BYTES, GASPI_GROUP_ALL, GASPI_BLOCK, GASPI_MEM_INITIALIZED), 'segment_create')
  call ok(gaspi_segment_ptr(SEGMENT, address), 'segment_ptr')
  call c_f_pointer(address, memory, [BYTES / 8])
  memory(1:100) = [(me * 1000.0_c_double + i, i = 1, 100)]
  call ok(gaspi_write_notify(SEGMENT, 0_gaspi_offset_t, other, SEGMENT, 1024_gaspi_offset_t, 800_gaspi_size_t, &
      7_gaspi_notification_id_t, 9_gaspi_notification_t, 1_gaspi_queue_id_t, GASPI_BLOCK), 'write_notify')
  call ok(gaspi_notify_waitsome(SEGMENT, 7, 8, first, GASPI_BLOCK), 'notify_waitsome')
  call ok(gaspi_notify_reset(SEGMENT, first, old), 'notify_reset')
  call check(first == 7 .and. old == 9, 'the notification')
  call check(all_are(memory(129:228), other * 1000.0_c_double), 'what was written')
  call ok(gaspi_wait(1_gaspi_queue_id_t, GASPI_BLOCK), 'wait')
  call check(gaspi_notify_waitsome(SEGMENT, 7, 8, first, GASPI_TEST) == GASPI_TIMEOUT, 'nothing more')
  call check(gaspi_notify(SEGMENT, other, 1, 0, 1_gaspi_queue_id_t, GASPI_BLOCK) == GASPI_ERR_INV_NOTIF_VAL, 'no value')

  segments = SEGMENT
  from = [0_gaspi_offset_t, 80_gaspi_offset_t]
  to = [2048_gaspi_offset_t, 3072_gaspi_offset_t]
  lengths = [8_gaspi_size_t, 16_gaspi_size_t]
  call ok(gaspi_write_list_notify(2, c_loc(segments), c_loc(from), other, c_loc(segments), c_loc(to), c_loc(lengths), &
      SEGMENT, 2, 1, 0_gaspi_queue_id_t, MINUTE), 'write_list_notify')
  call ok(gaspi_notify_waitsome(SEGMENT, 2, 1, first, MINUTE), 'of a list')
  call check(nint(memory(257)) == other * 1000 + 1 .and. nint(memory(386)) == other * 1000 + 12, 'the list')
  call ok(gaspi_wait(0_gaspi_queue_id_t, MINUTE), 'wait')
  call ok(gaspi_queue_create(queue, MINUTE), 'queue_create')
  call check(queue == 4, 'a queue')
  call ok(gaspi_queue_delete(queue), 'queue_delete')

  mine = [me + 1.0_c_double, -5.0_c_double * me, 2.0_c_double]
  call ok(gaspi_allreduce(c_loc(mine), c_loc(all), 3, GASPI_OP_SUM, GASPI_TYPE_DOUBLE, GASPI_GROUP_ALL, GASPI_BLOCK), &
      'allreduce')
  call check(nint(all(1)) == 3 .and. nint(all(2)) == -5 .and. nint(all(3)) == 4, 'a sum')
  call ok(gaspi_allreduce_user(c_loc(mine), c_loc(all), 3, 8_gaspi_size_t, c_funloc(larger), c_null_ptr, GASPI_GROUP_ALL, &
      MINUTE), 'allreduce_user')
  call check(nint(all(1)) == 2 .and. nint(all(2)) == -5 .and. nint(all(3)) == 2, 'the larger')
  call ok(gaspi_atomic_fetch_add(SEGMENT, 4088_gaspi_offset_t, 0_gaspi_rank_t, 5_gaspi_atomic_value_t, before, MINUTE), &
      'atomic_fetch_add')
  call check(before == 0 .or. before == 5, 'the word')
  call ok(gaspi_group_create(group), 'group_create')
  call ok(gaspi_group_add(group, me), 'group_add')
  call ok(gaspi_group_commit(group, MINUTE), 'group_commit')
  call ok(gaspi_barrier(group, GASPI_BLOCK), 'alone')
  call ok(gaspi_barrier(GASPI_GROUP_ALL, GASPI_BLOCK), 'barrier')

  if (me == 0) then
    call ok(gaspi_passive_send(SEGMENT, 0_gaspi_offset_t, other, 800_gaspi_size_t, MINUTE), 'passive_send')
  else
    call ok(gaspi_passive_receive(SEGMENT, 2048_gaspi_offset_t, sender, 800_gaspi_size_t, MINUTE), 'passive_receive')
    call check(sender == 0 .and. all_are(memory(257:356), 0.0_c_double), 'the message')
  end if
  states = 7
  call ok(gaspi_state_vec_get(c_loc(states)), 'state_vec_get')
  call check(all_zero(states(1:2)) .and. states(3) == 7, 'healthy')
  call ok(gaspi_proc_ping(other, MINUTE), 'proc_ping')
  call check(c_associated(gaspi_error_str(GASPI_ERR_INV_RANK)), 'a text')
  call gaspi_printf('hello' // c_null_char)
  call ok(gaspi_barrier(GASPI_GROUP_ALL, GASPI_BLOCK), 'barrier')
  call ok(gaspi_segment_delete(SEGMENT), 'segment_delete')
  call ok(gaspi_proc_term(GASPI_BLOCK), 'proc_term')

contains
  logical function all_are(values, base)
    real(c_double), intent(in) :: values(:), base
    integer :: at
    all_are = .true.
    do at = 1, size(values)
      all_are = all_are .and. nint(values(at) - base) == at
    end do
  end function all_are

  logical function all_zero(values)
    integer(gaspi_state_t), intent(in) :: values(:)
    all_zero = count(values /= 0) == 0
  end function all_zero
end program fortran
