/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Null, foreign and stale handles, sizes and alignments that make no command: a result, never a crash. */
#include "common.h"

static RMA2_Port port, other;
static RMA2_Handle handle, of_other;
static RMA2_Region *region, *others_region;
static uint8_t *memory;
static uint64_t elsewhere[64];

#define SPEC RMA2_COMPLETER_NOTIFICATION
#define CMD RMA2_CMD_DEFAULT

/* The text of a result, for the call that gave it last. */
#define SAYS(result, words)                                                                    \
	do {                                                                                   \
		char text_[400];                                                               \
		rma2_serror(result, text_, (int)sizeof text_);                                 \
		if (!strstr(text_, words)) {                                                   \
			fprintf(stderr, "%s:%d: no %s in %s\n", __FILE__, __LINE__, words, text_); \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

static void ports(void)
{
	RMA2_Port closed = open_port(), wrong[5];
	RMA2_Handle stale = connect_to(closed, closed);
	char text[400];
	size_t i;

	OK(rma2_close(closed));
	GIVES(RMA2_ERR_INV_VALUE, rma2_open(NULL));
	SAYS(RMA2_ERR_INV_VALUE, "the place for the port is NULL");
	GIVES(RMA2_ERR_INV_PORT, rma2_close(NULL));
	SAYS(RMA2_ERR_INV_PORT, "the port is NULL");
	CHECK(rma2_get_nodeid(NULL) == 0);
	GIVES(RMA2_ERR_INV_PORT, rma2_close(closed));
	rma2_serror(RMA2_ERR_INV_PORT, text, (int)sizeof text);
	CHECK(!strstr(text, "NULL"));
	wrong[0] = NULL;
	wrong[1] = closed;
	wrong[2] = (RMA2_Port)(void *)elsewhere;
	wrong[3] = (RMA2_Port)(void *)((uint8_t *)port + 8);
	wrong[4] = (RMA2_Port)(void *)handle;
	for (i = 0; i < 5; i++) {
		RMA2_Port p = wrong[i];
		RMA2_Notification *n = NULL;
		RMA2_Handle h = NULL;
		RMA2_Region *r = NULL, by_value;
		RMA2_Descriptor *d = NULL;
		int number = 0;

		GIVES(RMA2_ERR_INV_PORT, rma2_close(p));
		GIVES(RMA2_ERR_INV_PORT, rma2_connect(p, 0, 0, RMA2_CONN_DEFAULT, &h));
		GIVES(RMA2_ERR_INV_PORT, rma2_disconnect(p, stale));
		GIVES(RMA2_ERR_INV_PORT, rma2_post_notification(p, stale, 1, 1, SPEC, CMD));
		GIVES(RMA2_ERR_INV_PORT, rma2_post_put_bt(p, handle, region, 0, 8, 0, SPEC, CMD));
		GIVES(RMA2_ERR_INV_PORT, rma2_noti_probe(p, &n));
		GIVES(RMA2_ERR_INV_PORT, rma2_noti_get_block(p, &n));
		GIVES(RMA2_ERR_INV_PORT, rma2_noti_free(p, n));
		GIVES(RMA2_ERR_INV_PORT, rma2_noti_lock_match(p, 1, 0, 0, &n));
		GIVES(RMA2_ERR_INV_PORT, rma2_register(p, memory, PAGE, &r));
		GIVES(RMA2_ERR_INV_PORT, rma2_register_cached(p, memory, PAGE, &r));
		GIVES(RMA2_ERR_INV_PORT, rma2_register_nomalloc(p, memory, PAGE, &by_value));
		GIVES(RMA2_ERR_INV_PORT, rma2_unregister(p, region));
		GIVES(RMA2_ERR_INV_PORT, rma2_desc_alloc(p, &d));
		GIVES(RMA2_ERR_INV_PORT, rma2_desc_query_free(p, &number));
		GIVES(RMA2_ERR_INV_PORT, rma2_set_queue_size(p, PAGE));
		GIVES(RMA2_ERR_INV_PORT, rma2_request_interrupt(p, handle));
		GIVES(RMA2_ERR_INV_PORT, rma2_set_protectionid(p, 1));
		CHECK((int)rma2_get_rra(p, handle) == RMA2_ERR_INV_PORT);
		CHECK(rma2_get_nodeid(p) == 0 && rma2_get_vpid(p) == 0 && rma2_get_queue_size(p) == 0);
		rma2_replay_buffer_drain(p);
		rma2_set_replay_mode(p, RMA2_REPLAY_ALL);
		CHECK(!n && !h && !r && !d);
	}
}

static void handles(void)
{
	RMA2_Handle stale = connect_to(port, port), wrong[5];
	RMA2_Descriptor d;
	size_t i;

	OK(rma2_disconnect(port, stale));
	memset(&d, 0, sizeof d);
	wrong[0] = NULL;
	wrong[1] = stale;
	wrong[2] = of_other;
	wrong[3] = (RMA2_Handle)(void *)elsewhere;
	wrong[4] = (RMA2_Handle)(void *)((uint8_t *)handle + 16);
	for (i = 0; i < 5; i++) {
		GIVES(RMA2_ERR_INV_HANDLE, rma2_disconnect(port, wrong[i]));
		GIVES(RMA2_ERR_INV_HANDLE, rma2_post_notification(port, wrong[i], 1, 1, SPEC, CMD));
		GIVES(RMA2_ERR_INV_HANDLE, rma2_post_put_qw_direct(port, wrong[i], 0, 8, 0, SPEC, CMD));
		GIVES(RMA2_ERR_INV_HANDLE, rma2_post_descriptor(port, wrong[i], &d));
		GIVES(RMA2_ERR_INV_HANDLE, rma2_request_rra(port, wrong[i]));
		if (wrong[i] != of_other) {
			CHECK(rma2_handle_get_node(wrong[i]) == 0 && rma2_handle_get_vpid(wrong[i]) == 0);
			GIVES(RMA2_ERR_INV_HANDLE, rma2_desc_set_noti_put(&d, wrong[i], SPEC, CMD, 1, 1));
		}
	}
}

static void regions(void)
{
	RMA2_Region *stale = NULL, made_up, *wrong[6];
	RMA2_NLA nla = 0;
	size_t i;

	OK(rma2_register(port, memory, PAGE, &stale));
	OK(rma2_unregister(port, stale));
	made_up = *region;
	made_up.nla += 0x100000;
	wrong[0] = NULL;
	wrong[1] = (RMA2_Region *)(void *)elsewhere;
	wrong[2] = (RMA2_Region *)8;
	wrong[3] = &made_up;
	wrong[4] = (RMA2_Region *)(void *)((uint8_t *)region + 4);
	wrong[5] = (RMA2_Region *)(void *)port;
	for (i = 0; i < 6; i++) {
		GIVES(RMA2_ERR_INV_VALUE, rma2_post_put_bt(port, handle, wrong[i], 0, 8, 0, SPEC, CMD));
		GIVES(RMA2_ERR_INV_VALUE, rma2_post_get_qw(port, handle, wrong[i], 0, 8, 0, SPEC, CMD));
		GIVES(RMA2_ERR_INV_VALUE, rma2_unregister(port, wrong[i]));
		GIVES(RMA2_ERR_INV_VALUE, rma2_get_nla(wrong[i], 0, &nla));
		CHECK(!rma2_get_region_contained(wrong[i], memory, 1));
	}
#if !SANITIZED
	GIVES(RMA2_ERR_INV_VALUE, rma2_unregister(port, stale));
	GIVES(RMA2_ERR_INV_VALUE, rma2_post_put_bt(port, handle, stale, 0, 8, 0, SPEC, CMD));
#endif
	GIVES(RMA2_ERR_INV_VALUE, rma2_post_put_bt(port, handle, others_region, 0, 8, 0, SPEC, CMD));
	GIVES(RMA2_ERR_INV_VALUE, rma2_unregister(port, others_region));
	GIVES(RMA2_ERR_INV_VALUE, rma2_get_nla(region, 0, NULL));
	SAYS(RMA2_ERR_INV_VALUE, "the place for the result is NULL");
	GIVES(RMA2_ERR_INV_VALUE, rma2_get_nla(NULL, 0, &nla));
	SAYS(RMA2_ERR_INV_VALUE, "the region is NULL");
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_dup(NULL, NULL));
	SAYS(RMA2_ERR_INV_VALUE, "the notification is NULL");
	GIVES(RMA2_ERR_INV_VALUE, rma2_get_nla(region, 100 * PAGE, &nla));
	OK(rma2_get_nla(region, 2 * PAGE, &nla));
}

static void commands(void)
{
	RMA2_NLA to = nla_of(region, 0);
	RMA2_Descriptor d;

	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_put_bt(port, handle, region, 0, 0, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_get_bt(port, handle, region, 0, 0, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_put_bt_direct(port, handle, to, 0, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_put_bt_direct(port, handle, to, MAX_TRANSFER + 1, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_put_qw_direct(port, handle, to, UINT32_MAX - 7, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_put_bt(port, handle, region, PAGE, PAGE + 1, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_put_bt(port, handle, region, UINT32_MAX, 8, to, SPEC, CMD));
	/* Quadwords. */
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_put_qw(port, handle, region, 0, 12, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_put_qw(port, handle, region, 4, 8, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_get_qw_direct(port, handle, to, 8, to + 1, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_immediate_put(port, handle, 0, 1, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_immediate_put(port, handle, 9, 1, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_immediate_put(port, handle, 264, 1, to, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_lock(port, handle, 2, 1, 1, 1, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_lock(port, handle, 0, 1u << 24, 1, 1, SPEC, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_notification(port, handle, 1, 1, (RMA2_Notification_Spec)8, CMD));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_post_notification(port, handle, 1, 1, SPEC, (RMA2_Command_Modifier)16));
	GIVES(RMA2_ERR_INV_VALUE, rma2_post_descriptor(port, handle, NULL));
	GIVES(RMA2_ERR_INV_VALUE, rma2_desc_set_noti_put(NULL, handle, SPEC, CMD, 1, 1));
	GIVES(RMA2_ERR_WRONG_ARG, rma2_desc_set_immediate_put(&d, handle, SPEC, CMD, 9, to, 1));
	no_more(port);
}

static void notifications(void)
{
	RMA2_Notification *n = NULL;
	char text[16] = "";

	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_probe(port, NULL));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_get_block(port, NULL));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_noti_match(port, 1, 0, 256, &n));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_dup(NULL, NULL));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_free(port, (RMA2_Notification *)(void *)elsewhere));
	GIVES(RMA2_ERR_INV_VALUE, rma2_noti_free(port, port->queue.queue));
	CHECK(rma2_noti_get_error(NULL) == 0 && rma2_noti_get_size(NULL) <= 1);
	rma2_noti_sdump(NULL, text, (int)sizeof text);
	rma2_noti_sdump(NULL, NULL, 5);
	rma2_noti_fdump(NULL, NULL);
	rma2_serror(RMA2_ERR_INV_PORT, text, (int)sizeof text);
	CHECK(strlen(text) > 5);
	rma2_serror(RMA2_ERR_INV_PORT, NULL, 5);
	rma2_serror((RMA2_ERROR)12345, text, 1);
	CHECK(text[0] == 0);
	rma2_perror(RMA2_ERR_INV_PORT, NULL);
}

int main(void)
{
	port = open_port();
	other = open_port();
	handle = connect_to(port, port);
	of_other = connect_to(other, port);
	memory = (uint8_t *)allocate(2 * PAGE);
	OK(rma2_register(port, memory, 2 * PAGE, &region));
	OK(rma2_register(other, memory, 2 * PAGE, &others_region));
	ports();
	handles();
	regions();
	commands();
	notifications();
	OK(rma2_close(port));
	OK(rma2_close(other));
	free(memory);
	return 0;
}
