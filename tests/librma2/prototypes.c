/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every function of spec 10.2 has exactly this type, and is there: the twelve too that the old library only declared. */
#include "common.h"

static int functions;

#define IS(result, name, ...)                       \
	do {                                        \
		result (*function)(__VA_ARGS__) = name; \
		CHECK(function != NULL);            \
		functions++;                        \
	} while (0)

static void old(void)
{
	IS(RMA2_ERROR, rma2_open, RMA2_Port *);
	IS(RMA2_ERROR, rma2_close, RMA2_Port);
	IS(RMA2_ERROR, rma2_connect, RMA2_Port, RMA2_Nodeid, RMA2_VPID, RMA2_Connection_Options, RMA2_Handle *);
	IS(RMA2_ERROR, rma2_disconnect, RMA2_Port, RMA2_Handle);
	IS(RMA2_Nodeid, rma2_handle_get_node, RMA2_Handle);
	IS(RMA2_VPID, rma2_handle_get_vpid, RMA2_Handle);
	IS(RMA2_ERROR, rma2_post_put_bt, RMA2_Port, RMA2_Handle, RMA2_Region *, uint32_t, uint32_t, RMA2_NLA,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_put_bt_direct, RMA2_Port, RMA2_Handle, RMA2_NLA, uint32_t, RMA2_NLA,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_put_qw, RMA2_Port, RMA2_Handle, RMA2_Region *, uint32_t, uint32_t, RMA2_NLA,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_put_qw_direct, RMA2_Port, RMA2_Handle, RMA2_NLA, uint32_t, RMA2_NLA,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_get_bt, RMA2_Port, RMA2_Handle, RMA2_Region *, uint32_t, uint32_t, RMA2_NLA,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_get_bt_direct, RMA2_Port, RMA2_Handle, RMA2_NLA, uint32_t, RMA2_NLA,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_get_qw, RMA2_Port, RMA2_Handle, RMA2_Region *, uint32_t, uint32_t, RMA2_NLA,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_get_qw_direct, RMA2_Port, RMA2_Handle, RMA2_NLA, uint32_t, RMA2_NLA,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_lock, RMA2_Port, RMA2_Handle, uint32_t, uint32_t, int32_t, int32_t,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_notification, RMA2_Port, RMA2_Handle, RMA2_Class, uint64_t,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_immediate_put, RMA2_Port, RMA2_Handle, uint32_t, uint64_t, RMA2_NLA,
	   RMA2_Notification_Spec, RMA2_Command_Modifier);
	IS(RMA2_ERROR, rma2_post_descriptor, RMA2_Port, RMA2_Handle, RMA2_Descriptor *);
	IS(RMA2_ERROR, rma2_desc_alloc, RMA2_Port, RMA2_Descriptor **);
	IS(RMA2_ERROR, rma2_desc_free, RMA2_Port, RMA2_Descriptor *);
	IS(RMA2_ERROR, rma2_desc_query_free, RMA2_Port, int *);
	IS(RMA2_ERROR, rma2_desc_set_put_get, RMA2_Descriptor *, RMA2_Handle, RMA2_Command, uint32_t,
	   RMA2_Notification_Spec, RMA2_Command_Modifier, uint64_t, uint64_t);
	IS(RMA2_ERROR, rma2_desc_set_immediate_put, RMA2_Descriptor *, RMA2_Handle, RMA2_Notification_Spec,
	   RMA2_Command_Modifier, uint32_t, uint64_t, uint64_t);
	IS(RMA2_ERROR, rma2_desc_set_noti_put, RMA2_Descriptor *, RMA2_Handle, RMA2_Notification_Spec,
	   RMA2_Command_Modifier, RMA2_Class, uint64_t);
	IS(RMA2_ERROR, rma2_desc_set_lock, RMA2_Descriptor *, RMA2_Handle, RMA2_Notification_Spec,
	   RMA2_Command_Modifier, uint8_t, uint32_t, uint32_t, uint32_t);
	IS(RMA2_ERROR, rma2_noti_probe, RMA2_Port, RMA2_Notification **);
	IS(RMA2_ERROR, rma2_noti_get_block, RMA2_Port, RMA2_Notification **);
	IS(RMA2_ERROR, rma2_noti_match, RMA2_Port, RMA2_Command, RMA2_Nodeid, RMA2_VPID,
	   RMA2_Notification_Spec, RMA2_NLA, int, RMA2_Notification **);
	IS(RMA2_ERROR, rma2_noti_match_block, RMA2_Port, RMA2_Command, RMA2_Nodeid, RMA2_VPID,
	   RMA2_Notification_Spec, RMA2_NLA, int, RMA2_Notification **);
	IS(RMA2_ERROR, rma2_noti_noti_match, RMA2_Port, RMA2_Class, RMA2_Nodeid, RMA2_VPID,
	   RMA2_Notification **);
	IS(RMA2_ERROR, rma2_noti_noti_match_block, RMA2_Port, RMA2_Class, RMA2_Nodeid, RMA2_VPID,
	   RMA2_Notification **);
	IS(RMA2_ERROR, rma2_noti_lock_match, RMA2_Port, uint32_t, RMA2_Nodeid, RMA2_VPID, RMA2_Notification **);
	IS(RMA2_ERROR, rma2_noti_lock_match_block, RMA2_Port, uint32_t, RMA2_Nodeid, RMA2_VPID,
	   RMA2_Notification **);
	IS(RMA2_ERROR, rma2_noti_dup, RMA2_Notification *, RMA2_Notification *);
	IS(void, rma2_noti_dump, RMA2_Notification *);
	IS(void, rma2_noti_fdump, RMA2_Notification *, FILE *);
	IS(void, rma2_noti_sdump, RMA2_Notification *, char *, int);
	IS(RMA2_Command, rma2_noti_get_cmd, RMA2_Notification *);
	IS(RMA2_Notification_Spec, rma2_noti_get_notification_type, RMA2_Notification *);
	IS(RMA2_Notification_Modifier, rma2_noti_get_mode, RMA2_Notification *);
	IS(uint8_t, rma2_noti_get_error, RMA2_Notification *);
	IS(RMA2_Nodeid, rma2_noti_get_remote_nodeid, RMA2_Notification *);
	IS(RMA2_VPID, rma2_noti_get_remote_vpid, RMA2_Notification *);
	IS(uint64_t, rma2_noti_get_local_address, RMA2_Notification *);
	IS(uint32_t, rma2_noti_get_size, RMA2_Notification *);
	IS(uint32_t, rma2_noti_get_total_size, RMA2_NLA, RMA2_Notification *);
	IS(uint32_t, rma2_noti_get_lock_value, RMA2_Notification *);
	IS(uint32_t, rma2_noti_get_lock_number, RMA2_Notification *);
	IS(uint8_t, rma2_noti_get_lock_result, RMA2_Notification *);
	IS(uint64_t, rma2_noti_get_notiput_payload, RMA2_Notification *);
	IS(uint8_t, rma2_noti_get_notiput_class, RMA2_Notification *);
	IS(RMA2_ERROR, rma2_noti_free, RMA2_Port, RMA2_Notification *);
	IS(RMA2_ERROR, rma2_register, RMA2_Port, void *, size_t, RMA2_Region **);
	IS(RMA2_ERROR, rma2_register_cached, RMA2_Port, void *, size_t, RMA2_Region **);
	IS(RMA2_ERROR, rma2_register_nomalloc, RMA2_Port, void *, size_t, RMA2_Region *);
	IS(RMA2_ERROR, rma2_unregister, RMA2_Port, RMA2_Region *);
	IS(RMA2_ERROR, rma2_unregister_nofree, RMA2_Port, RMA2_Region *);
	IS(RMA2_ERROR, rma2_unregister_cached, RMA2_Port, RMA2_Region *);
	IS(RMA2_ERROR, rma2_get_nla, RMA2_Region *, size_t, RMA2_NLA *);
	IS(RMA2_ERROR, rma2_get_va, RMA2_Region *, size_t, void **);
	IS(RMA2_ERROR, rma2_get_size, RMA2_Region *, size_t *);
	IS(RMA2_ERROR, rma2_get_page_count, RMA2_Region *, size_t *);
	IS(int, rma2_get_region_contained, RMA2_Region *, void *, size_t);
	IS(int, rma2_get_region_overlap, RMA2_Region *, void *, size_t);
	IS(int, rma2_get_region_equal, RMA2_Region *, void *, size_t);
	IS(void, rma2_serror, RMA2_ERROR, char *, int);
	IS(void, rma2_perror, RMA2_ERROR, char *);
	IS(RMA2_Nodeid, rma2_get_nodeid, RMA2_Port);
	IS(RMA2_VPID, rma2_get_vpid, RMA2_Port);
	IS(RMA2_Nodeid, rma2_get_node_num, RMA2_Port);
	IS(RMA2_VPID, rma2_get_proc_num, RMA2_Port);
	IS(uint32_t, rma2_get_queue_size, RMA2_Port);
	IS(RMA2_ERROR, rma2_set_queue_size, RMA2_Port, uint32_t);
	IS(uint32_t, rma2_get_queue_segment_size, RMA2_Port);
	IS(RMA2_ERROR, rma2_set_queue_segment_size, RMA2_Port, uint32_t);
	IS(void, rma2_replay_buffer_drain, RMA2_Port);
	IS(void, rma2_set_replay_mode, RMA2_Port, RMA2_Replay_Buffer_Mode);
	IS(RMA2_Replay_Buffer_Mode, rma2_get_replay_buffer_mode, RMA2_Port);
}

static void never_there(void)
{
	IS(RMA2_ERROR, rma2_desc_set_notification_value, RMA2_Descriptor *, RMA2_Class, uint64_t);
	IS(RMA2_ERROR, rma2_register_adhoc, RMA2_Port, void *, RMA2_Region **);
	IS(RMA2_ERROR, rma2_unregister_adhoc, RMA2_Port, RMA2_Region *);
	IS(RMA2_ERROR, rma2_request_interrupt, RMA2_Port, RMA2_Handle);
	IS(uint32_t, rma2_get_interrupt, RMA2_Port, RMA2_Handle);
	IS(RMA2_ERROR, rma2_request_rra, RMA2_Port, RMA2_Handle);
	IS(uint32_t, rma2_get_rra, RMA2_Port, RMA2_Handle);
	IS(RMA2_ERROR, rma2_request_physical_access, RMA2_Port, RMA2_Handle);
	IS(uint32_t, rma2_get_physical_access, RMA2_Port, RMA2_Handle);
	IS(RMA2_ERROR, rma2_request_tcs, RMA2_Port, RMA2_Handle, uint32_t, uint32_t);
	IS(RMA2_ERROR, rma2_get_tcs, RMA2_Port, RMA2_Handle, uint32_t *, uint32_t *);
	IS(RMA2_ERROR, rma2_set_protectionid, RMA2_Port, uint16_t);
}

int main(void)
{
	old();
	CHECK(functions == 78);
	never_there();
	CHECK(functions == 78 + 12);
	return 0;
}
