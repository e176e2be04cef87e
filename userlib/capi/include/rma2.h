/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * librma2: remote memory access over EXTOLL, on the card or on its software model.
 *
 * Signatures, values and layouts are those of the interface specification ("spec" below), section 10. What this
 * library does beyond it stands beside the declarations and in the user's page of the library.
 *
 * Every call checks its handles: a null pointer, a handle of another port or one that was closed gives
 * RMA2_ERR_INV_PORT or RMA2_ERR_INV_HANDLE, not a crash. Any thread may post on a port while others consume its
 * notifications. No wait is endless: see EXTOLL_POST_TIMEOUT and EXTOLL_WAIT_TIMEOUT.
 */
#ifndef RMA2_H
#define RMA2_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rma2_region.h"
#include "rma2_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Ports and connections.
 */

/*
 * Opens a port on the lowest free VPID: a queue of 256 KiB in segments of 64 KiB. Why that fails is one line on standard
 * error, once for each reason, unless GGAS_QUIET=1.
 */
RMA2_ERROR rma2_open(RMA2_Port *port);
/* Drains, unregisters, frees the VPID. Threads that wait on the port return RMA2_ERR_INV_PORT. */
RMA2_ERROR rma2_close(RMA2_Port port);
/* Local only: the peer need not exist yet. options above 31 or a VPID above 255: RMA2_ERR_INV_VALUE. */
RMA2_ERROR rma2_connect(RMA2_Port hport, RMA2_Nodeid dest_node, RMA2_VPID dest_vpid,
			RMA2_Connection_Options options, RMA2_Handle *handle);
RMA2_ERROR rma2_disconnect(RMA2_Port port, RMA2_Handle handle);
RMA2_Nodeid rma2_handle_get_node(RMA2_Handle handle);
RMA2_VPID rma2_handle_get_vpid(RMA2_Handle handle);

/* Turn a feature of a connection on; the queries give RMA2_SUCCESS when it is on. */
RMA2_ERROR rma2_request_interrupt(RMA2_Port port, RMA2_Handle handle);
uint32_t rma2_get_interrupt(RMA2_Port port, RMA2_Handle handle);
RMA2_ERROR rma2_request_rra(RMA2_Port port, RMA2_Handle handle);
uint32_t rma2_get_rra(RMA2_Port port, RMA2_Handle handle);
RMA2_ERROR rma2_request_physical_access(RMA2_Port port, RMA2_Handle handle);
uint32_t rma2_get_physical_access(RMA2_Port port, RMA2_Handle handle);
/* Traffic classes 0 to 3. The response class is kept and returned; the card derives it from the request's. */
RMA2_ERROR rma2_request_tcs(RMA2_Port port, RMA2_Handle handle, uint32_t request_tc, uint32_t response_tc);
RMA2_ERROR rma2_get_tcs(RMA2_Port port, RMA2_Handle handle, uint32_t *request_tc, uint32_t *response_tc);
/* Protection id of the port: packets with another one are dropped and counted. 0 when opened. */
RMA2_ERROR rma2_set_protectionid(RMA2_Port port, uint16_t id);

RMA2_Nodeid rma2_get_nodeid(RMA2_Port port);
RMA2_VPID rma2_get_vpid(RMA2_Port port);
/* Nodes of the job, and VPIDs of a node. */
RMA2_Nodeid rma2_get_node_num(RMA2_Port port);
RMA2_VPID rma2_get_proc_num(RMA2_Port port);

/* Bytes. The segment size is used when the queue is next set; setting the queue discards what it holds. */
uint32_t rma2_get_queue_size(RMA2_Port port);
RMA2_ERROR rma2_set_queue_size(RMA2_Port port, uint32_t bytes);
uint32_t rma2_get_queue_segment_size(RMA2_Port port);
RMA2_ERROR rma2_set_queue_segment_size(RMA2_Port port, uint32_t size);

/* Waits, bounded, until the card has taken everything that was posted. */
void rma2_replay_buffer_drain(RMA2_Port port);
void rma2_set_replay_mode(RMA2_Port port, RMA2_Replay_Buffer_Mode mode);
RMA2_Replay_Buffer_Mode rma2_get_replay_buffer_mode(RMA2_Port port);

/*
 * Commands. size is 1 to 8,388,608 bytes; quadword commands need multiples of 8 everywhere. A post returns when
 * the card has taken the descriptor, waiting up to EXTOLL_POST_TIMEOUT for room.
 */

/* The region is the local side, of puts and of gets; dest_address is the remote one. */
RMA2_ERROR rma2_post_put_bt(RMA2_Port port, RMA2_Handle handle, RMA2_Region *src_region, uint32_t src_offset,
			    uint32_t size, RMA2_NLA dest_address, RMA2_Notification_Spec spec,
			    RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_put_qw(RMA2_Port port, RMA2_Handle handle, RMA2_Region *src_region, uint32_t src_offset,
			    uint32_t size, RMA2_NLA dest_address, RMA2_Notification_Spec spec,
			    RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_get_bt(RMA2_Port port, RMA2_Handle handle, RMA2_Region *src_region, uint32_t src_offset,
			    uint32_t size, RMA2_NLA dest_address, RMA2_Notification_Spec spec,
			    RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_get_qw(RMA2_Port port, RMA2_Handle handle, RMA2_Region *src_region, uint32_t src_offset,
			    uint32_t size, RMA2_NLA dest_address, RMA2_Notification_Spec spec,
			    RMA2_Command_Modifier modifier);
/* src is the local address, of puts and of gets. */
RMA2_ERROR rma2_post_put_bt_direct(RMA2_Port port, RMA2_Handle handle, RMA2_NLA src, uint32_t size,
				   RMA2_NLA dest_address, RMA2_Notification_Spec spec,
				   RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_put_qw_direct(RMA2_Port port, RMA2_Handle handle, RMA2_NLA src, uint32_t size,
				   RMA2_NLA dest_address, RMA2_Notification_Spec spec,
				   RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_get_bt_direct(RMA2_Port port, RMA2_Handle handle, RMA2_NLA src, uint32_t size,
				   RMA2_NLA dest_address, RMA2_Notification_Spec spec,
				   RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_get_qw_direct(RMA2_Port port, RMA2_Handle handle, RMA2_NLA src, uint32_t size,
				   RMA2_NLA dest_address, RMA2_Notification_Spec spec,
				   RMA2_Command_Modifier modifier);
/* if (lock <= cmp_value) lock += add_value, atomically; target 0: at the completer, 1: at the responder (spec 5). */
RMA2_ERROR rma2_post_lock(RMA2_Port port, RMA2_Handle handle, uint32_t target, uint32_t lock_number,
			  int32_t cmp_value, int32_t add_value, RMA2_Notification_Spec spec,
			  RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_notification(RMA2_Port port, RMA2_Handle handle, RMA2_Class mclass, uint64_t value,
				  RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
/* Writes the low count (1 to 8) bytes of value. */
RMA2_ERROR rma2_post_immediate_put(RMA2_Port port, RMA2_Handle handle, uint32_t count, uint64_t value,
				   RMA2_NLA dest_address, RMA2_Notification_Spec spec,
				   RMA2_Command_Modifier modifier);
/* Posts the descriptor's words with the options of handle. */
RMA2_ERROR rma2_post_descriptor(RMA2_Port port, RMA2_Handle handle, RMA2_Descriptor *desc);

/* Descriptors: a port's pool has 32 at first and grows by as many. A program's own RMA2_Descriptor serves too. */
RMA2_ERROR rma2_desc_alloc(RMA2_Port port, RMA2_Descriptor **desc);
RMA2_ERROR rma2_desc_free(RMA2_Port port, RMA2_Descriptor *desc);
RMA2_ERROR rma2_desc_query_free(RMA2_Port port, int *num);
/* Any command code below 16 is accepted: the card reports those that it does not know. */
RMA2_ERROR rma2_desc_set_put_get(RMA2_Descriptor *desc, RMA2_Handle handle, RMA2_Command command, uint32_t count,
				 RMA2_Notification_Spec noti, RMA2_Command_Modifier modifier,
				 uint64_t read_address, uint64_t write_address);
RMA2_ERROR rma2_desc_set_immediate_put(RMA2_Descriptor *desc, RMA2_Handle handle, RMA2_Notification_Spec noti,
				       RMA2_Command_Modifier modifier, uint32_t count, uint64_t write_address,
				       uint64_t value);
RMA2_ERROR rma2_desc_set_noti_put(RMA2_Descriptor *desc, RMA2_Handle handle, RMA2_Notification_Spec noti,
				  RMA2_Command_Modifier modifier, RMA2_Class mclass, uint64_t value);
RMA2_ERROR rma2_desc_set_lock(RMA2_Descriptor *desc, RMA2_Handle handle, RMA2_Notification_Spec noti,
			      RMA2_Command_Modifier modifier, uint8_t type, uint32_t lock_number,
			      uint32_t compare, uint32_t add_value);
/* Class and payload of a notification put that the descriptor holds. */
RMA2_ERROR rma2_desc_set_notification_value(RMA2_Descriptor *desc, RMA2_Class mclass, uint64_t value);

/*
 * Notifications. A notification stays where it is, and in force, until rma2_noti_free: probing again gives the
 * same one. They may be freed in any order; the card gets their room back in the order of the queue.
 */

RMA2_ERROR rma2_noti_probe(RMA2_Port port, RMA2_Notification **notification);
/* Spins briefly, then sleeps until the card writes one; RMA2_ERR_POLL_EXCEEDED after EXTOLL_WAIT_TIMEOUT. */
RMA2_ERROR rma2_noti_get_block(RMA2_Port port, RMA2_Notification **notification);
/*
 * The oldest notification that agrees, wherever in the queue: RMA2_NO_NOTI when the queue is empty,
 * RMA2_ERR_NO_MATCH when nothing in it agrees. cmd is a command, RMA2_PUTS, RMA2_GETS or RMA2_ANY; nodeid and vpid
 * are the other side's, or RMA2_NODEID_ANY and RMA2_VPID_ANY. type is one of requester, responder and completer,
 * compared for equality. nla is RMA2_ANY_NLA, or the address of the notification: where the transfer's last fragment
 * begins (spec 3.1), which up to 496 bytes is where the transfer does. Flags:
 *
 * RMA2_DEFAULT_FLAG		look once
 * RMA2_BLOCK_FLAG		wait for it: the same as rma2_noti_match_block
 * RMA2_MATCH_LAST_NLA_FLAG	nla is the address of the last byte, whatever the transfer's size
 *
 * rma2_noti_match_block sleeps until one agrees; RMA2_ERR_POLL_EXCEEDED after EXTOLL_WAIT_TIMEOUT,
 * RMA2_ERR_NO_ROUTE when the process of nodeid and vpid has died or left, RMA2_ERR_INV_PORT when the port closes.
 */
RMA2_ERROR rma2_noti_match(RMA2_Port port, RMA2_Command cmd, RMA2_Nodeid nodeid, RMA2_VPID vpid,
			   RMA2_Notification_Spec type, RMA2_NLA nla, int flags,
			   RMA2_Notification **notification);
RMA2_ERROR rma2_noti_match_block(RMA2_Port port, RMA2_Command cmd, RMA2_Nodeid nodeid, RMA2_VPID vpid,
				 RMA2_Notification_Spec type, RMA2_NLA nla, int flags,
				 RMA2_Notification **notification);
RMA2_ERROR rma2_noti_noti_match(RMA2_Port port, RMA2_Class mclass, RMA2_Nodeid nodeid, RMA2_VPID vpid,
				RMA2_Notification **notification);
RMA2_ERROR rma2_noti_noti_match_block(RMA2_Port port, RMA2_Class mclass, RMA2_Nodeid nodeid, RMA2_VPID vpid,
				      RMA2_Notification **notification);
RMA2_ERROR rma2_noti_lock_match(RMA2_Port port, uint32_t lockid, RMA2_Nodeid nodeid, RMA2_VPID vpid,
				RMA2_Notification **notification);
RMA2_ERROR rma2_noti_lock_match_block(RMA2_Port port, uint32_t lockid, RMA2_Nodeid nodeid, RMA2_VPID vpid,
				      RMA2_Notification **notification);
/* RMA2_ERR_INV_VALUE for anything but a notification of this port that was not freed yet. */
RMA2_ERROR rma2_noti_free(RMA2_Port port, RMA2_Notification *notification);
RMA2_ERROR rma2_noti_dup(RMA2_Notification *input, RMA2_Notification *output);

void rma2_noti_dump(RMA2_Notification *notification);
void rma2_noti_fdump(RMA2_Notification *notification, FILE *file);
/* Appends to the text in pstring, which has room for size bytes. */
void rma2_noti_sdump(RMA2_Notification *notification, char *pstring, int size);

RMA2_Command rma2_noti_get_cmd(RMA2_Notification *notification);
RMA2_Notification_Spec rma2_noti_get_notification_type(RMA2_Notification *notification);
RMA2_Notification_Modifier rma2_noti_get_mode(RMA2_Notification *notification);
uint8_t rma2_noti_get_error(RMA2_Notification *notification);
RMA2_Nodeid rma2_noti_get_remote_nodeid(RMA2_Notification *notification);
RMA2_VPID rma2_noti_get_remote_vpid(RMA2_Notification *notification);
uint64_t rma2_noti_get_local_address(RMA2_Notification *notification);
/* Bytes of the last fragment, and of the whole transfer that began at start_nla. */
uint32_t rma2_noti_get_size(RMA2_Notification *notification);
uint32_t rma2_noti_get_total_size(RMA2_NLA start_nla, RMA2_Notification *notification);
uint32_t rma2_noti_get_lock_value(RMA2_Notification *notification);
uint32_t rma2_noti_get_lock_number(RMA2_Notification *notification);
uint8_t rma2_noti_get_lock_result(RMA2_Notification *notification);
uint64_t rma2_noti_get_notiput_payload(RMA2_Notification *notification);
uint8_t rma2_noti_get_notiput_class(RMA2_Notification *notification);

/*
 * Memory. It must be mapped when it is registered, at any alignment; whole pages become reachable. Memory that is
 * only readable serves as a source. Memory that is unmapped or freed while registered is taken from the card
 * first: commands on it fail from then on, and it is still to be unregistered.
 */

/* On failure *region is left as it was. */
RMA2_ERROR rma2_register(RMA2_Port port, void *address, size_t size, RMA2_Region **region);
/* From librma2rc, if that is linked before librma2; else as rma2_register. */
RMA2_ERROR rma2_register_cached(RMA2_Port port, void *address, size_t size, RMA2_Region **region);
/* The region is the caller's memory, to be given to rma2_unregister_nofree. */
RMA2_ERROR rma2_register_nomalloc(RMA2_Port port, void *address, size_t size, RMA2_Region *region);
RMA2_ERROR rma2_unregister(RMA2_Port port, RMA2_Region *region);
/* Leaves the structure to the program, whoever allocated it. */
RMA2_ERROR rma2_unregister_nofree(RMA2_Port port, RMA2_Region *region);
RMA2_ERROR rma2_unregister_cached(RMA2_Port port, RMA2_Region *region);
/* The page of address, for local use; it may overlap registered regions. */
RMA2_ERROR rma2_register_adhoc(RMA2_Port port, void *address, RMA2_Region **region);
RMA2_ERROR rma2_unregister_adhoc(RMA2_Port port, RMA2_Region *region);

RMA2_ERROR rma2_get_nla(RMA2_Region *region, size_t offset, RMA2_NLA *nla);
RMA2_ERROR rma2_get_va(RMA2_Region *region, size_t offset, void **va);
/* Whole pages. */
RMA2_ERROR rma2_get_size(RMA2_Region *region, size_t *size);
RMA2_ERROR rma2_get_page_count(RMA2_Region *region, size_t *count);
/* 1 or 0: whether the region's pages contain, overlap, or are exactly those of size bytes at start. */
int rma2_get_region_contained(RMA2_Region *region, void *start, size_t size);
int rma2_get_region_overlap(RMA2_Region *region, void *start, size_t size);
int rma2_get_region_equal(RMA2_Region *region, void *start, size_t size);

/* What a result means; behind it the reason of this thread's last failure, where there is more to say. */
void rma2_serror(RMA2_ERROR error, char *buf, int buflen);
void rma2_perror(RMA2_ERROR error, char *header);

#ifdef __cplusplus
}
#endif

#endif /* RMA2_H */
