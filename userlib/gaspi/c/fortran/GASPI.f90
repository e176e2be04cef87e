! SPDX-License-Identifier: MIT OR Apache-2.0
!
! The calls of GASPI.h, from which `cargo xtask facts` writes this: do not edit.
! Lists and vectors are addresses (c_loc); what a call only reads is passed by value.
module GASPI
  use, intrinsic :: iso_c_binding
  use GASPI_types
  implicit none
  interface
    function gaspi_proc_init(timeout_ms) result(res) bind(C, name="gaspi_proc_init")
      import :: gaspi_return_t, gaspi_timeout_t
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_proc_init

    function gaspi_proc_term(timeout_ms) result(res) bind(C, name="gaspi_proc_term")
      import :: gaspi_return_t, gaspi_timeout_t
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_proc_term

    function gaspi_proc_rank(rank) result(res) bind(C, name="gaspi_proc_rank")
      import :: gaspi_rank_t, gaspi_return_t
      integer(gaspi_rank_t), intent(out) :: rank
      integer(gaspi_return_t) :: res
    end function gaspi_proc_rank

    function gaspi_proc_num(proc_num) result(res) bind(C, name="gaspi_proc_num")
      import :: gaspi_rank_t, gaspi_return_t
      integer(gaspi_rank_t), intent(out) :: proc_num
      integer(gaspi_return_t) :: res
    end function gaspi_proc_num

    function gaspi_proc_kill(rank, timeout_ms) result(res) bind(C, name="gaspi_proc_kill")
      import :: gaspi_rank_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_proc_kill

    function gaspi_version(version) result(res) bind(C, name="gaspi_version")
      import :: c_float, gaspi_return_t
      real(c_float), intent(out) :: version
      integer(gaspi_return_t) :: res
    end function gaspi_version

    function gaspi_config_get(config) result(res) bind(C, name="gaspi_config_get")
      import :: gaspi_config_t, gaspi_return_t
      type(gaspi_config_t), intent(out) :: config
      integer(gaspi_return_t) :: res
    end function gaspi_config_get

    function gaspi_config_set(new_config) result(res) bind(C, name="gaspi_config_set")
      import :: gaspi_config_t, gaspi_return_t
      type(gaspi_config_t), value :: new_config
      integer(gaspi_return_t) :: res
    end function gaspi_config_set

    function gaspi_network_type(network_type) result(res) bind(C, name="gaspi_network_type")
      import :: gaspi_network_t, gaspi_return_t
      integer(gaspi_network_t), intent(out) :: network_type
      integer(gaspi_return_t) :: res
    end function gaspi_network_type

    function gaspi_build_infrastructure(build) result(res) bind(C, name="gaspi_build_infrastructure")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: build
      integer(gaspi_return_t) :: res
    end function gaspi_build_infrastructure

    function gaspi_group_create(group) result(res) bind(C, name="gaspi_group_create")
      import :: gaspi_group_t, gaspi_return_t
      integer(gaspi_group_t), intent(out) :: group
      integer(gaspi_return_t) :: res
    end function gaspi_group_create

    function gaspi_group_delete(group) result(res) bind(C, name="gaspi_group_delete")
      import :: gaspi_group_t, gaspi_return_t
      integer(gaspi_group_t), value :: group
      integer(gaspi_return_t) :: res
    end function gaspi_group_delete

    function gaspi_group_add(group, rank) result(res) bind(C, name="gaspi_group_add")
      import :: gaspi_group_t, gaspi_rank_t, gaspi_return_t
      integer(gaspi_group_t), value :: group
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_return_t) :: res
    end function gaspi_group_add

    function gaspi_group_commit(group, timeout_ms) result(res) bind(C, name="gaspi_group_commit")
      import :: gaspi_group_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_group_t), value :: group
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_group_commit

    function gaspi_group_num(group_num) result(res) bind(C, name="gaspi_group_num")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: group_num
      integer(gaspi_return_t) :: res
    end function gaspi_group_num

    function gaspi_group_size(group, group_size) result(res) bind(C, name="gaspi_group_size")
      import :: gaspi_group_t, gaspi_number_t, gaspi_return_t
      integer(gaspi_group_t), value :: group
      integer(gaspi_number_t), intent(out) :: group_size
      integer(gaspi_return_t) :: res
    end function gaspi_group_size

    function gaspi_group_ranks(group, group_ranks) result(res) bind(C, name="gaspi_group_ranks")
      import :: c_ptr, gaspi_group_t, gaspi_return_t
      integer(gaspi_group_t), value :: group
      type(c_ptr), value :: group_ranks
      integer(gaspi_return_t) :: res
    end function gaspi_group_ranks

    function gaspi_group_max(group_max) result(res) bind(C, name="gaspi_group_max")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: group_max
      integer(gaspi_return_t) :: res
    end function gaspi_group_max

    function gaspi_segment_alloc(segment_id, size, alloc_policy) result(res) bind(C, name="gaspi_segment_alloc")
      import :: gaspi_alloc_t, gaspi_return_t, gaspi_segment_id_t, gaspi_size_t
      integer(gaspi_segment_id_t), value :: segment_id
      integer(gaspi_size_t), value :: size
      integer(gaspi_alloc_t), value :: alloc_policy
      integer(gaspi_return_t) :: res
    end function gaspi_segment_alloc

    function gaspi_segment_register(segment_id, rank, timeout_ms) result(res) bind(C, name="gaspi_segment_register")
      import :: gaspi_rank_t, gaspi_return_t, gaspi_segment_id_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_segment_register

    function gaspi_segment_create(segment_id, size, group, timeout_ms, alloc_policy) result(res) bind(C, &
      name="gaspi_segment_create")
      import :: gaspi_alloc_t, gaspi_group_t, gaspi_return_t, gaspi_segment_id_t, gaspi_size_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id
      integer(gaspi_size_t), value :: size
      integer(gaspi_group_t), value :: group
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_alloc_t), value :: alloc_policy
      integer(gaspi_return_t) :: res
    end function gaspi_segment_create

    function gaspi_segment_bind(segment_id, pointer, size, memory_description) result(res) bind(C, name="gaspi_segment_bind")
      import :: c_ptr, gaspi_memory_description_t, gaspi_return_t, gaspi_segment_id_t, gaspi_size_t
      integer(gaspi_segment_id_t), value :: segment_id
      type(c_ptr), value :: pointer
      integer(gaspi_size_t), value :: size
      integer(gaspi_memory_description_t), value :: memory_description
      integer(gaspi_return_t) :: res
    end function gaspi_segment_bind

    function gaspi_segment_use(segment_id, pointer, size, group, timeout_ms, memory_description) result(res) bind(C, &
      name="gaspi_segment_use")
      import :: c_ptr, gaspi_group_t, gaspi_memory_description_t, gaspi_return_t, gaspi_segment_id_t, gaspi_size_t, &
      gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id
      type(c_ptr), value :: pointer
      integer(gaspi_size_t), value :: size
      integer(gaspi_group_t), value :: group
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_memory_description_t), value :: memory_description
      integer(gaspi_return_t) :: res
    end function gaspi_segment_use

    function gaspi_segment_delete(segment_id) result(res) bind(C, name="gaspi_segment_delete")
      import :: gaspi_return_t, gaspi_segment_id_t
      integer(gaspi_segment_id_t), value :: segment_id
      integer(gaspi_return_t) :: res
    end function gaspi_segment_delete

    function gaspi_segment_ptr(segment_id, pointer) result(res) bind(C, name="gaspi_segment_ptr")
      import :: c_ptr, gaspi_return_t, gaspi_segment_id_t
      integer(gaspi_segment_id_t), value :: segment_id
      type(c_ptr), intent(out) :: pointer
      integer(gaspi_return_t) :: res
    end function gaspi_segment_ptr

    function gaspi_segment_num(segment_num) result(res) bind(C, name="gaspi_segment_num")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: segment_num
      integer(gaspi_return_t) :: res
    end function gaspi_segment_num

    function gaspi_segment_list(num, segment_id_list) result(res) bind(C, name="gaspi_segment_list")
      import :: c_ptr, gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), value :: num
      type(c_ptr), value :: segment_id_list
      integer(gaspi_return_t) :: res
    end function gaspi_segment_list

    function gaspi_segment_max(segment_max) result(res) bind(C, name="gaspi_segment_max")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: segment_max
      integer(gaspi_return_t) :: res
    end function gaspi_segment_max

    function gaspi_write(segment_id_local, offset_local, rank, segment_id_remote, offset_remote, size, queue, &
      timeout_ms) result(res) bind(C, name="gaspi_write")
      import :: gaspi_offset_t, gaspi_queue_id_t, gaspi_rank_t, gaspi_return_t, gaspi_segment_id_t, gaspi_size_t, &
      gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id_local
      integer(gaspi_offset_t), value :: offset_local
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_segment_id_t), value :: segment_id_remote
      integer(gaspi_offset_t), value :: offset_remote
      integer(gaspi_size_t), value :: size
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_write

    function gaspi_read(segment_id_local, offset_local, rank, segment_id_remote, offset_remote, size, queue, &
      timeout_ms) result(res) bind(C, name="gaspi_read")
      import :: gaspi_offset_t, gaspi_queue_id_t, gaspi_rank_t, gaspi_return_t, gaspi_segment_id_t, gaspi_size_t, &
      gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id_local
      integer(gaspi_offset_t), value :: offset_local
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_segment_id_t), value :: segment_id_remote
      integer(gaspi_offset_t), value :: offset_remote
      integer(gaspi_size_t), value :: size
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_read

    function gaspi_write_list(num, segment_id_local, offset_local, rank, segment_id_remote, offset_remote, size, queue, &
      timeout_ms) result(res) bind(C, name="gaspi_write_list")
      import :: c_ptr, gaspi_number_t, gaspi_queue_id_t, gaspi_rank_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_number_t), value :: num
      type(c_ptr), value :: segment_id_local
      type(c_ptr), value :: offset_local
      integer(gaspi_rank_t), value :: rank
      type(c_ptr), value :: segment_id_remote
      type(c_ptr), value :: offset_remote
      type(c_ptr), value :: size
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_write_list

    function gaspi_read_list(num, segment_id_local, offset_local, rank, segment_id_remote, offset_remote, size, queue, &
      timeout_ms) result(res) bind(C, name="gaspi_read_list")
      import :: c_ptr, gaspi_number_t, gaspi_queue_id_t, gaspi_rank_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_number_t), value :: num
      type(c_ptr), value :: segment_id_local
      type(c_ptr), value :: offset_local
      integer(gaspi_rank_t), value :: rank
      type(c_ptr), value :: segment_id_remote
      type(c_ptr), value :: offset_remote
      type(c_ptr), value :: size
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_read_list

    function gaspi_notify(segment_id_remote, rank, notification_id, notification_value, queue, &
      timeout_ms) result(res) bind(C, name="gaspi_notify")
      import :: gaspi_notification_id_t, gaspi_notification_t, gaspi_queue_id_t, gaspi_rank_t, gaspi_return_t, &
      gaspi_segment_id_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id_remote
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_notification_id_t), value :: notification_id
      integer(gaspi_notification_t), value :: notification_value
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_notify

    function gaspi_write_notify(segment_id_local, offset_local, rank, segment_id_remote, offset_remote, size, &
      notification_id, notification_value, queue, timeout_ms) result(res) bind(C, name="gaspi_write_notify")
      import :: gaspi_notification_id_t, gaspi_notification_t, gaspi_offset_t, gaspi_queue_id_t, gaspi_rank_t, &
      gaspi_return_t, gaspi_segment_id_t, gaspi_size_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id_local
      integer(gaspi_offset_t), value :: offset_local
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_segment_id_t), value :: segment_id_remote
      integer(gaspi_offset_t), value :: offset_remote
      integer(gaspi_size_t), value :: size
      integer(gaspi_notification_id_t), value :: notification_id
      integer(gaspi_notification_t), value :: notification_value
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_write_notify

    function gaspi_write_list_notify(num, segment_id_local, offset_local, rank, segment_id_remote, offset_remote, size, &
      segment_id_notification, notification_id, notification_value, queue, timeout_ms) result(res) bind(C, &
      name="gaspi_write_list_notify")
      import :: c_ptr, gaspi_notification_id_t, gaspi_notification_t, gaspi_number_t, gaspi_queue_id_t, gaspi_rank_t, &
      gaspi_return_t, gaspi_segment_id_t, gaspi_timeout_t
      integer(gaspi_number_t), value :: num
      type(c_ptr), value :: segment_id_local
      type(c_ptr), value :: offset_local
      integer(gaspi_rank_t), value :: rank
      type(c_ptr), value :: segment_id_remote
      type(c_ptr), value :: offset_remote
      type(c_ptr), value :: size
      integer(gaspi_segment_id_t), value :: segment_id_notification
      integer(gaspi_notification_id_t), value :: notification_id
      integer(gaspi_notification_t), value :: notification_value
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_write_list_notify

    function gaspi_read_notify(segment_id_local, offset_local, rank, segment_id_remote, offset_remote, size, notification_id, &
      queue, timeout_ms) result(res) bind(C, name="gaspi_read_notify")
      import :: gaspi_notification_id_t, gaspi_offset_t, gaspi_queue_id_t, gaspi_rank_t, gaspi_return_t, gaspi_segment_id_t, &
      gaspi_size_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id_local
      integer(gaspi_offset_t), value :: offset_local
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_segment_id_t), value :: segment_id_remote
      integer(gaspi_offset_t), value :: offset_remote
      integer(gaspi_size_t), value :: size
      integer(gaspi_notification_id_t), value :: notification_id
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_read_notify

    function gaspi_read_list_notify(num, segment_id_local, offset_local, rank, segment_id_remote, offset_remote, size, &
      segment_id_notification, notification_id, queue, timeout_ms) result(res) bind(C, name="gaspi_read_list_notify")
      import :: c_ptr, gaspi_notification_id_t, gaspi_number_t, gaspi_queue_id_t, gaspi_rank_t, gaspi_return_t, &
      gaspi_segment_id_t, gaspi_timeout_t
      integer(gaspi_number_t), value :: num
      type(c_ptr), value :: segment_id_local
      type(c_ptr), value :: offset_local
      integer(gaspi_rank_t), value :: rank
      type(c_ptr), value :: segment_id_remote
      type(c_ptr), value :: offset_remote
      type(c_ptr), value :: size
      integer(gaspi_segment_id_t), value :: segment_id_notification
      integer(gaspi_notification_id_t), value :: notification_id
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_read_list_notify

    function gaspi_notify_waitsome(segment_id_local, notification_begin, num, first_id, timeout_ms) result(res) bind(C, &
      name="gaspi_notify_waitsome")
      import :: gaspi_notification_id_t, gaspi_number_t, gaspi_return_t, gaspi_segment_id_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id_local
      integer(gaspi_notification_id_t), value :: notification_begin
      integer(gaspi_number_t), value :: num
      integer(gaspi_notification_id_t), intent(out) :: first_id
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_notify_waitsome

    function gaspi_notify_reset(segment_id_local, notification_id, old_notification_val) result(res) bind(C, &
      name="gaspi_notify_reset")
      import :: gaspi_notification_id_t, gaspi_notification_t, gaspi_return_t, gaspi_segment_id_t
      integer(gaspi_segment_id_t), value :: segment_id_local
      integer(gaspi_notification_id_t), value :: notification_id
      integer(gaspi_notification_t), intent(out) :: old_notification_val
      integer(gaspi_return_t) :: res
    end function gaspi_notify_reset

    function gaspi_wait(queue, timeout_ms) result(res) bind(C, name="gaspi_wait")
      import :: gaspi_queue_id_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_wait

    function gaspi_queue_create(queue, timeout_ms) result(res) bind(C, name="gaspi_queue_create")
      import :: gaspi_queue_id_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_queue_id_t), intent(out) :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_queue_create

    function gaspi_queue_delete(queue) result(res) bind(C, name="gaspi_queue_delete")
      import :: gaspi_queue_id_t, gaspi_return_t
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_return_t) :: res
    end function gaspi_queue_delete

    function gaspi_queue_size(queue, queue_size) result(res) bind(C, name="gaspi_queue_size")
      import :: gaspi_number_t, gaspi_queue_id_t, gaspi_return_t
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_number_t), intent(out) :: queue_size
      integer(gaspi_return_t) :: res
    end function gaspi_queue_size

    function gaspi_queue_num(queue_num) result(res) bind(C, name="gaspi_queue_num")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: queue_num
      integer(gaspi_return_t) :: res
    end function gaspi_queue_num

    function gaspi_queue_size_max(queue_size_max) result(res) bind(C, name="gaspi_queue_size_max")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: queue_size_max
      integer(gaspi_return_t) :: res
    end function gaspi_queue_size_max

    function gaspi_queue_max(queue_max) result(res) bind(C, name="gaspi_queue_max")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: queue_max
      integer(gaspi_return_t) :: res
    end function gaspi_queue_max

    function gaspi_queue_purge(queue, timeout_ms) result(res) bind(C, name="gaspi_queue_purge")
      import :: gaspi_queue_id_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_queue_id_t), value :: queue
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_queue_purge

    function gaspi_transfer_size_min(transfer_size_min) result(res) bind(C, name="gaspi_transfer_size_min")
      import :: gaspi_return_t, gaspi_size_t
      integer(gaspi_size_t), intent(out) :: transfer_size_min
      integer(gaspi_return_t) :: res
    end function gaspi_transfer_size_min

    function gaspi_transfer_size_max(transfer_size_max) result(res) bind(C, name="gaspi_transfer_size_max")
      import :: gaspi_return_t, gaspi_size_t
      integer(gaspi_size_t), intent(out) :: transfer_size_max
      integer(gaspi_return_t) :: res
    end function gaspi_transfer_size_max

    function gaspi_notification_num(notification_num) result(res) bind(C, name="gaspi_notification_num")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: notification_num
      integer(gaspi_return_t) :: res
    end function gaspi_notification_num

    function gaspi_passive_send(segment_id_local, offset_local, rank, size, timeout_ms) result(res) bind(C, &
      name="gaspi_passive_send")
      import :: gaspi_offset_t, gaspi_rank_t, gaspi_return_t, gaspi_segment_id_t, gaspi_size_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id_local
      integer(gaspi_offset_t), value :: offset_local
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_size_t), value :: size
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_passive_send

    function gaspi_passive_receive(segment_id_local, offset_local, rem_rank, size, timeout_ms) result(res) bind(C, &
      name="gaspi_passive_receive")
      import :: gaspi_offset_t, gaspi_rank_t, gaspi_return_t, gaspi_segment_id_t, gaspi_size_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id_local
      integer(gaspi_offset_t), value :: offset_local
      integer(gaspi_rank_t), intent(out) :: rem_rank
      integer(gaspi_size_t), value :: size
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_passive_receive

    function gaspi_passive_transfer_size_min(passive_transfer_size_min) result(res) bind(C, &
      name="gaspi_passive_transfer_size_min")
      import :: gaspi_return_t, gaspi_size_t
      integer(gaspi_size_t), intent(out) :: passive_transfer_size_min
      integer(gaspi_return_t) :: res
    end function gaspi_passive_transfer_size_min

    function gaspi_passive_transfer_size_max(passive_transfer_size_max) result(res) bind(C, &
      name="gaspi_passive_transfer_size_max")
      import :: gaspi_return_t, gaspi_size_t
      integer(gaspi_size_t), intent(out) :: passive_transfer_size_max
      integer(gaspi_return_t) :: res
    end function gaspi_passive_transfer_size_max

    function gaspi_atomic_fetch_add(segment_id, offset, rank, val_add, val_old, timeout_ms) result(res) bind(C, &
      name="gaspi_atomic_fetch_add")
      import :: gaspi_atomic_value_t, gaspi_offset_t, gaspi_rank_t, gaspi_return_t, gaspi_segment_id_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id
      integer(gaspi_offset_t), value :: offset
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_atomic_value_t), value :: val_add
      integer(gaspi_atomic_value_t), intent(out) :: val_old
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_atomic_fetch_add

    function gaspi_atomic_compare_swap(segment_id, offset, rank, comparator, val_new, val_old, &
      timeout_ms) result(res) bind(C, name="gaspi_atomic_compare_swap")
      import :: gaspi_atomic_value_t, gaspi_offset_t, gaspi_rank_t, gaspi_return_t, gaspi_segment_id_t, gaspi_timeout_t
      integer(gaspi_segment_id_t), value :: segment_id
      integer(gaspi_offset_t), value :: offset
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_atomic_value_t), value :: comparator
      integer(gaspi_atomic_value_t), value :: val_new
      integer(gaspi_atomic_value_t), intent(out) :: val_old
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_atomic_compare_swap

    function gaspi_atomic_max(max_value) result(res) bind(C, name="gaspi_atomic_max")
      import :: gaspi_atomic_value_t, gaspi_return_t
      integer(gaspi_atomic_value_t), intent(out) :: max_value
      integer(gaspi_return_t) :: res
    end function gaspi_atomic_max

    function gaspi_barrier(group, timeout_ms) result(res) bind(C, name="gaspi_barrier")
      import :: gaspi_group_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_group_t), value :: group
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_barrier

    function gaspi_allreduce(buffer_send, buffer_receive, num, operation, datatype, group, timeout_ms) result(res) bind(C, &
      name="gaspi_allreduce")
      import :: c_ptr, gaspi_datatype_t, gaspi_group_t, gaspi_number_t, gaspi_operation_t, gaspi_return_t, gaspi_timeout_t
      type(c_ptr), value :: buffer_send
      type(c_ptr), value :: buffer_receive
      integer(gaspi_number_t), value :: num
      integer(gaspi_operation_t), value :: operation
      integer(gaspi_datatype_t), value :: datatype
      integer(gaspi_group_t), value :: group
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_allreduce

    function gaspi_allreduce_user(buffer_send, buffer_receive, num, element_size, reduce_operation, reduce_state, group, &
      timeout_ms) result(res) bind(C, name="gaspi_allreduce_user")
      import :: c_funptr, c_ptr, gaspi_group_t, gaspi_number_t, gaspi_return_t, gaspi_size_t, gaspi_timeout_t
      type(c_ptr), value :: buffer_send
      type(c_ptr), value :: buffer_receive
      integer(gaspi_number_t), value :: num
      integer(gaspi_size_t), value :: element_size
      type(c_funptr), value :: reduce_operation
      type(c_ptr), value :: reduce_state
      integer(gaspi_group_t), value :: group
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_allreduce_user

    function gaspi_allreduce_elem_max(elem_max) result(res) bind(C, name="gaspi_allreduce_elem_max")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: elem_max
      integer(gaspi_return_t) :: res
    end function gaspi_allreduce_elem_max

    function gaspi_allreduce_buf_size(buf_size) result(res) bind(C, name="gaspi_allreduce_buf_size")
      import :: gaspi_return_t, gaspi_size_t
      integer(gaspi_size_t), intent(out) :: buf_size
      integer(gaspi_return_t) :: res
    end function gaspi_allreduce_buf_size

    function gaspi_state_vec_get(state_vector) result(res) bind(C, name="gaspi_state_vec_get")
      import :: c_ptr, gaspi_return_t
      type(c_ptr), value :: state_vector
      integer(gaspi_return_t) :: res
    end function gaspi_state_vec_get

    function gaspi_connect(rank, timeout_ms) result(res) bind(C, name="gaspi_connect")
      import :: gaspi_rank_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_connect

    function gaspi_disconnect(rank, timeout_ms) result(res) bind(C, name="gaspi_disconnect")
      import :: gaspi_rank_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_disconnect

    function gaspi_time_get(wtime) result(res) bind(C, name="gaspi_time_get")
      import :: gaspi_return_t, gaspi_time_t
      real(gaspi_time_t), intent(out) :: wtime
      integer(gaspi_return_t) :: res
    end function gaspi_time_get

    function gaspi_time_ticks(ticks) result(res) bind(C, name="gaspi_time_ticks")
      import :: gaspi_cycles_t, gaspi_return_t
      integer(gaspi_cycles_t), intent(out) :: ticks
      integer(gaspi_return_t) :: res
    end function gaspi_time_ticks

    function gaspi_print_error(error_code, error_message) result(res) bind(C, name="gaspi_print_error")
      import :: c_ptr, gaspi_return_t
      integer(gaspi_return_t), value :: error_code
      type(c_ptr), intent(out) :: error_message
      integer(gaspi_return_t) :: res
    end function gaspi_print_error

    function gaspi_statistic_verbosity_level(verbosity_level) result(res) bind(C, name="gaspi_statistic_verbosity_level")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), value :: verbosity_level
      integer(gaspi_return_t) :: res
    end function gaspi_statistic_verbosity_level

    function gaspi_statistic_counter_max(counter_max) result(res) bind(C, name="gaspi_statistic_counter_max")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: counter_max
      integer(gaspi_return_t) :: res
    end function gaspi_statistic_counter_max

    function gaspi_statistic_counter_info(counter, counter_argument, counter_name, counter_description, &
      verbosity_level) result(res) bind(C, name="gaspi_statistic_counter_info")
      import :: c_ptr, gaspi_number_t, gaspi_return_t, gaspi_statistic_argument_t, gaspi_statistic_counter_t
      integer(gaspi_statistic_counter_t), value :: counter
      integer(gaspi_statistic_argument_t), intent(out) :: counter_argument
      type(c_ptr), intent(out) :: counter_name
      type(c_ptr), intent(out) :: counter_description
      integer(gaspi_number_t), intent(out) :: verbosity_level
      integer(gaspi_return_t) :: res
    end function gaspi_statistic_counter_info

    function gaspi_statistic_counter_get(counter, argument, value) result(res) bind(C, name="gaspi_statistic_counter_get")
      import :: c_long, gaspi_number_t, gaspi_return_t, gaspi_statistic_counter_t
      integer(gaspi_statistic_counter_t), value :: counter
      integer(gaspi_number_t), value :: argument
      integer(c_long), intent(out) :: value
      integer(gaspi_return_t) :: res
    end function gaspi_statistic_counter_get

    function gaspi_statistic_counter_reset(counter) result(res) bind(C, name="gaspi_statistic_counter_reset")
      import :: gaspi_return_t, gaspi_statistic_counter_t
      integer(gaspi_statistic_counter_t), value :: counter
      integer(gaspi_return_t) :: res
    end function gaspi_statistic_counter_reset
  end interface
end module GASPI
