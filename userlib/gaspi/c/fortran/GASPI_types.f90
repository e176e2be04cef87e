! SPDX-License-Identifier: MIT OR Apache-2.0
!
! Kinds, constants and the configuration of GASPI_types.h. Fortran has no unsigned numbers: ids from 128 on and values with the
! highest bit are negative. A time limit is 32 bits, of which GASPI_BLOCK is all.
module GASPI_types
  use, intrinsic :: iso_c_binding
  implicit none

  integer, parameter :: gaspi_return_t = c_int
  integer, parameter :: gaspi_timeout_t = c_int
  integer, parameter :: gaspi_rank_t = c_short
  integer, parameter :: gaspi_group_t = c_signed_char
  integer, parameter :: gaspi_segment_id_t = c_signed_char
  integer, parameter :: gaspi_queue_id_t = c_signed_char
  integer, parameter :: gaspi_number_t = c_int
  integer, parameter :: gaspi_size_t = c_long
  integer, parameter :: gaspi_offset_t = c_long
  integer, parameter :: gaspi_notification_id_t = c_int
  integer, parameter :: gaspi_notification_t = c_int
  integer, parameter :: gaspi_atomic_value_t = c_long
  integer, parameter :: gaspi_cycles_t = c_long
  integer, parameter :: gaspi_time_t = c_float
  integer, parameter :: gaspi_alloc_t = c_long
  integer, parameter :: gaspi_memory_description_t = c_int
  integer, parameter :: gaspi_statistic_counter_t = c_int
  integer, parameter :: gaspi_state_t = c_signed_char
  integer, parameter :: gaspi_operation_t = c_int
  integer, parameter :: gaspi_datatype_t = c_int
  integer, parameter :: gaspi_network_t = c_int
  integer, parameter :: gaspi_statistic_argument_t = c_int
  integer, parameter :: gaspi_topology_t = c_int

  integer(gaspi_group_t), parameter :: GASPI_GROUP_ALL = 0
  integer(gaspi_timeout_t), parameter :: GASPI_BLOCK = -1
  integer(gaspi_timeout_t), parameter :: GASPI_TEST = 0

  integer(gaspi_return_t), parameter :: GASPI_ERROR = -1
  integer(gaspi_return_t), parameter :: GASPI_SUCCESS = 0
  integer(gaspi_return_t), parameter :: GASPI_TIMEOUT = 1
  integer(gaspi_return_t), parameter :: GASPI_ERR_EMFILE = 2
  integer(gaspi_return_t), parameter :: GASPI_ERR_ENV = 3
  integer(gaspi_return_t), parameter :: GASPI_ERR_SN_PORT = 4
  integer(gaspi_return_t), parameter :: GASPI_ERR_CONFIG = 5
  integer(gaspi_return_t), parameter :: GASPI_ERR_NOINIT = 6
  integer(gaspi_return_t), parameter :: GASPI_ERR_INITED = 7
  integer(gaspi_return_t), parameter :: GASPI_ERR_NULLPTR = 8
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_SEGSIZE = 9
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_SEG = 10
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_GROUP = 11
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_RANK = 12
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_QUEUE = 13
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_LOC_OFF = 14
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_REM_OFF = 15
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_COMMSIZE = 16
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_NOTIF_VAL = 17
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_NOTIF_ID = 18
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_NUM = 19
  integer(gaspi_return_t), parameter :: GASPI_ERR_INV_SIZE = 20
  integer(gaspi_return_t), parameter :: GASPI_ERR_MANY_SEG = 21
  integer(gaspi_return_t), parameter :: GASPI_ERR_MANY_GRP = 22
  integer(gaspi_return_t), parameter :: GASPI_QUEUE_FULL = 23
  integer(gaspi_return_t), parameter :: GASPI_ERR_UNALIGN_OFF = 24
  integer(gaspi_return_t), parameter :: GASPI_ERR_ACTIVE_COLL = 25
  integer(gaspi_return_t), parameter :: GASPI_ERR_DEVICE = 26
  integer(gaspi_return_t), parameter :: GASPI_ERR_SN = 27
  integer(gaspi_return_t), parameter :: GASPI_ERR_MEMALLOC = 28

  integer(gaspi_operation_t), parameter :: GASPI_OP_MIN = 0
  integer(gaspi_operation_t), parameter :: GASPI_OP_MAX = 1
  integer(gaspi_operation_t), parameter :: GASPI_OP_SUM = 2

  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_INT = 0
  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_UINT = 1
  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_FLOAT = 2
  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_DOUBLE = 3
  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_LONG = 4
  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_ULONG = 5
  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_INT8 = 6
  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_UINT8 = 7
  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_INT16 = 8
  integer(gaspi_datatype_t), parameter :: GASPI_TYPE_UINT16 = 9

  integer(gaspi_network_t), parameter :: GASPI_IB = 0
  integer(gaspi_network_t), parameter :: GASPI_ROCE = 1
  integer(gaspi_network_t), parameter :: GASPI_ETHERNET = 2
  integer(gaspi_network_t), parameter :: GASPI_GEMINI = 3
  integer(gaspi_network_t), parameter :: GASPI_ARIES = 4
  integer(gaspi_network_t), parameter :: GASPI_OFI = 5

  integer(gaspi_statistic_argument_t), parameter :: GASPI_STATISTIC_ARGUMENT_NONE = 0
  integer(gaspi_statistic_argument_t), parameter :: GASPI_STATISTIC_ARGUMENT_RANK = 1

  integer(gaspi_topology_t), parameter :: GASPI_TOPOLOGY_NONE = 0
  integer(gaspi_topology_t), parameter :: GASPI_TOPOLOGY_STATIC = 1
  integer(gaspi_topology_t), parameter :: GASPI_TOPOLOGY_DYNAMIC = 2

  integer(gaspi_alloc_t), parameter :: GASPI_MEM_UNINITIALIZED = 0
  integer(gaspi_alloc_t), parameter :: GASPI_MEM_INITIALIZED = 1
  integer(gaspi_alloc_t), parameter :: GASPI_MEM_GPU = 2
  integer(gaspi_alloc_t), parameter :: GASPI_ALLOC_DEFAULT = 0

  integer(gaspi_state_t), parameter :: GASPI_STATE_HEALTHY = 0
  integer(gaspi_state_t), parameter :: GASPI_STATE_CORRUPT = 1

  type, bind(C) :: gaspi_ib_params
    integer(c_int) :: netdev_id
    integer(c_int) :: mtu
    integer(c_int) :: port_check
  end type gaspi_ib_params

  type, bind(C) :: gaspi_tcp_params
    integer(c_int) :: port
  end type gaspi_tcp_params

  type, bind(C) :: gaspi_ofi_params
    integer(c_int) :: use_shm
    integer(c_int) :: provider_info
    integer(c_int) :: progress_auto
  end type gaspi_ofi_params

  type, bind(C) :: gaspi_dev_params
    type(gaspi_ib_params) :: ib
    type(gaspi_tcp_params) :: tcp
    type(gaspi_ofi_params) :: ofi
  end type gaspi_dev_params

  type, bind(C) :: gaspi_dev_config_t
    integer(gaspi_network_t) :: network_type
    type(gaspi_dev_params) :: params
  end type gaspi_dev_config_t

  type, bind(C) :: gaspi_config_t
    integer(c_int) :: logger
    integer(c_int) :: sn_port
    integer(c_int) :: net_info
    integer(c_int) :: user_net
    integer(c_int) :: sn_persistent
    integer(c_long) :: sn_timeout
    type(gaspi_dev_config_t) :: dev_config
    integer(gaspi_network_t) :: network
    integer(c_int) :: queue_size_max
    integer(c_int) :: queue_num
    integer(gaspi_number_t) :: group_max
    integer(gaspi_number_t) :: segment_max
    integer(gaspi_size_t) :: transfer_size_max
    integer(gaspi_number_t) :: notification_num
    integer(gaspi_number_t) :: passive_queue_size_max
    integer(gaspi_number_t) :: passive_transfer_size_max
    integer(gaspi_size_t) :: allreduce_buf_size
    integer(gaspi_number_t) :: allreduce_elem_max
    integer(gaspi_number_t) :: rw_list_elem_max
    integer(gaspi_topology_t) :: build_infrastructure
    type(c_ptr) :: user_defined
  end type gaspi_config_t
end module GASPI_types
