! SPDX-License-Identifier: MIT OR Apache-2.0
!
! The calls of GASPI_Ext.h, from which `cargo xtask facts` writes this: do not edit.
! Texts end with c_null_char; formats take no arguments.
module GASPI_Ext
  use, intrinsic :: iso_c_binding
  use GASPI_types
  implicit none
  interface
    function gaspi_initialized(initialized) result(res) bind(C, name="gaspi_initialized")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: initialized
      integer(gaspi_return_t) :: res
    end function gaspi_initialized

    function gaspi_proc_local_rank(local_rank) result(res) bind(C, name="gaspi_proc_local_rank")
      import :: gaspi_rank_t, gaspi_return_t
      integer(gaspi_rank_t), intent(out) :: local_rank
      integer(gaspi_return_t) :: res
    end function gaspi_proc_local_rank

    function gaspi_proc_local_num(local_num) result(res) bind(C, name="gaspi_proc_local_num")
      import :: gaspi_rank_t, gaspi_return_t
      integer(gaspi_rank_t), intent(out) :: local_num
      integer(gaspi_return_t) :: res
    end function gaspi_proc_local_num

    function gaspi_proc_ping(rank, timeout_ms) result(res) bind(C, name="gaspi_proc_ping")
      import :: gaspi_rank_t, gaspi_return_t, gaspi_timeout_t
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_timeout_t), value :: timeout_ms
      integer(gaspi_return_t) :: res
    end function gaspi_proc_ping

    function gaspi_segment_size(segment_id, rank, size) result(res) bind(C, name="gaspi_segment_size")
      import :: gaspi_rank_t, gaspi_return_t, gaspi_segment_id_t, gaspi_size_t
      integer(gaspi_segment_id_t), value :: segment_id
      integer(gaspi_rank_t), value :: rank
      integer(gaspi_size_t), intent(out) :: size
      integer(gaspi_return_t) :: res
    end function gaspi_segment_size

    function gaspi_segment_avail_local(segment_id) result(res) bind(C, name="gaspi_segment_avail_local")
      import :: gaspi_return_t, gaspi_segment_id_t
      integer(gaspi_segment_id_t), intent(out) :: segment_id
      integer(gaspi_return_t) :: res
    end function gaspi_segment_avail_local

    function gaspi_rw_list_elem_max(elem_max) result(res) bind(C, name="gaspi_rw_list_elem_max")
      import :: gaspi_number_t, gaspi_return_t
      integer(gaspi_number_t), intent(out) :: elem_max
      integer(gaspi_return_t) :: res
    end function gaspi_rw_list_elem_max

    function gaspi_cpu_frequency(cpu_mhz) result(res) bind(C, name="gaspi_cpu_frequency")
      import :: c_float, gaspi_return_t
      real(c_float), intent(out) :: cpu_mhz
      integer(gaspi_return_t) :: res
    end function gaspi_cpu_frequency

    function gaspi_statistic_counter_get_f(counter, argument, value) result(res) bind(C, name="gaspi_statistic_counter_get_f")
      import :: c_float, gaspi_number_t, gaspi_return_t, gaspi_statistic_counter_t
      integer(gaspi_statistic_counter_t), value :: counter
      integer(gaspi_number_t), value :: argument
      real(c_float), intent(out) :: value
      integer(gaspi_return_t) :: res
    end function gaspi_statistic_counter_get_f

    function gaspi_statistic_print_counters() result(res) bind(C, name="gaspi_statistic_print_counters")
      import :: gaspi_return_t
      integer(gaspi_return_t) :: res
    end function gaspi_statistic_print_counters

    function gaspi_notifications_space_size() result(res) bind(C, name="gaspi_notifications_space_size")
      import :: gaspi_size_t
      integer(gaspi_size_t) :: res
    end function gaspi_notifications_space_size

    subroutine gaspi_printf(fmt) bind(C, name="gaspi_printf")
      import :: c_char
      character(kind=c_char), intent(in) :: fmt(*)
    end subroutine gaspi_printf

    subroutine gaspi_printf_to(rank, fmt) bind(C, name="gaspi_printf_to")
      import :: c_char, gaspi_rank_t
      integer(gaspi_rank_t), value :: rank
      character(kind=c_char), intent(in) :: fmt(*)
    end subroutine gaspi_printf_to

    function gaspi_error_str(error_code) result(res) bind(C, name="gaspi_error_str")
      import :: c_ptr, gaspi_return_t
      integer(gaspi_return_t), value :: error_code
      type(c_ptr) :: res
    end function gaspi_error_str

    subroutine gaspi_delay() bind(C, name="gaspi_delay")
    end subroutine gaspi_delay

    function gaspi_numa_socket(socket) result(res) bind(C, name="gaspi_numa_socket")
      import :: c_signed_char, gaspi_return_t
      integer(c_signed_char), intent(out) :: socket
      integer(gaspi_return_t) :: res
    end function gaspi_numa_socket

    function gaspi_set_socket_affinity(socket) result(res) bind(C, name="gaspi_set_socket_affinity")
      import :: c_signed_char, gaspi_return_t
      integer(c_signed_char), value :: socket
      integer(gaspi_return_t) :: res
    end function gaspi_set_socket_affinity

    subroutine gaspi_print_affinity_mask() bind(C, name="gaspi_print_affinity_mask")
    end subroutine gaspi_print_affinity_mask
  end interface
end module GASPI_Ext
