/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Places for results at odd addresses, as in packed structures and messages: they are written and read as any other.
 * Nothing beside them is.
 */
#include "common.h"

#define NONE RMA2_NO_NOTIFICATION
#define CMD RMA2_CMD_DEFAULT
#define GUARD 0xa5

static uint8_t bytes[1 + 128 + 1] __attribute__((aligned(8)));
static RMA2_Port port;
static RMA2_Handle self;

/* An odd address with room for size bytes, between guards. */
static void *odd(size_t size)
{
	CHECK(size <= 128);
	memset(bytes, GUARD, sizeof bytes);
	return bytes + 1;
}

/* What was written there; nothing else was. */
static void took(void *value, size_t size)
{
	size_t i;

	memcpy(value, bytes + 1, size);
	CHECK(bytes[0] == GUARD);
	for (i = 1 + size; i < sizeof bytes; i++)
		CHECK(bytes[i] == GUARD);
}

#define TAKE(value) took(&(value), sizeof(value))

static void handles(void)
{
	uint32_t request = 9, response = 9;

	OK(rma2_open((RMA2_Port *)odd(sizeof port)));
	TAKE(port);
	OK(rma2_connect(port, rma2_get_nodeid(port), rma2_get_vpid(port), RMA2_CONN_DEFAULT,
			(RMA2_Handle *)odd(sizeof self)));
	TAKE(self);
	OK(rma2_request_tcs(port, self, 2, 1));
	OK(rma2_get_tcs(port, self, (uint32_t *)odd(sizeof request), &response));
	TAKE(request);
	CHECK(request == 2 && response == 1);
	OK(rma2_get_tcs(port, self, &request, (uint32_t *)odd(sizeof response)));
	TAKE(response);
	CHECK(request == 2 && response == 1);
}

static void regions(uint8_t *memory)
{
	RMA2_Region *region = NULL, *place, inside;
	RMA2_NLA nla = 0;
	size_t size = 0, count = 0;
	void *va = NULL;

	OK(rma2_register(port, memory + 10, PAGE, (RMA2_Region **)odd(sizeof region)));
	TAKE(region);
	OK(rma2_get_nla(region, 7, (RMA2_NLA *)odd(sizeof nla)));
	TAKE(nla);
	OK(rma2_get_va(region, 7, (void **)odd(sizeof va)));
	TAKE(va);
	OK(rma2_get_size(region, (size_t *)odd(sizeof size)));
	TAKE(size);
	OK(rma2_get_page_count(region, (size_t *)odd(sizeof count)));
	TAKE(count);
	CHECK(nla % PAGE == 17 && va == memory + 17 && size == 2 * PAGE && count == 2);
	OK(rma2_unregister(port, region));

	/* The structure itself, and a copy of it that lies elsewhere. */
	place = (RMA2_Region *)odd(sizeof inside);
	OK(rma2_register_nomalloc(port, memory, PAGE, place));
	TAKE(inside);
	CHECK(inside.start == memory && inside.size == PAGE && inside.endpoint == port);
	fill(memory, 64, 3);
	OK(rma2_post_put_bt(port, self, place, 0, 64, inside.nla + 64, RMA2_COMPLETER_NOTIFICATION, CMD));
	next_of(port, RMA2_COMPLETER_NOTIFICATION);
	CHECK(memcmp(memory, memory + 64, 64) == 0);
	CHECK(rma2_get_region_equal(place, memory, PAGE) && rma2_get_region_equal(&inside, memory, PAGE));
	OK(rma2_unregister_nofree(port, place));
	TAKE(inside);
	CHECK(!inside.start);

	OK(rma2_register_nomalloc(port, memory, PAGE, &inside));
	memcpy(odd(sizeof inside), &inside, sizeof inside);
	CHECK(nla_of(place, 5) == inside.nla + 5);
	OK(rma2_unregister_nofree(port, &inside));
}

static void descriptors(void)
{
	RMA2_Descriptor d, *pooled = NULL, *place;
	RMA2_Notification n;
	int number = 0;

	OK(rma2_desc_alloc(port, (RMA2_Descriptor **)odd(sizeof pooled)));
	TAKE(pooled);
	OK(rma2_desc_query_free(port, (int *)odd(sizeof number)));
	TAKE(number);
	CHECK(number == 31);
	OK(rma2_desc_free(port, pooled));

	place = (RMA2_Descriptor *)odd(sizeof d);
	memset(place, 0, sizeof d);
	OK(rma2_desc_set_noti_put(place, self, RMA2_COMPLETER_NOTIFICATION, CMD, 4, 44));
	OK(rma2_desc_set_notification_value(place, 5, 55));
	TAKE(d);
	CHECK(d.handle == self);
	OK(rma2_post_descriptor(port, self, place));
	n = next_of(port, RMA2_COMPLETER_NOTIFICATION);
	CHECK(rma2_noti_get_notiput_class(&n) == 5 && rma2_noti_get_notiput_payload(&n) == 55);
}

static void notifications(void)
{
	RMA2_Notification *n = NULL, *again = NULL, copy;
	RMA2_Notification **place = (RMA2_Notification **)odd(sizeof n);

	OK(rma2_post_notification(port, self, 6, 66, RMA2_COMPLETER_NOTIFICATION, CMD));
	OK(rma2_noti_get_block(port, place));
	TAKE(n);
	odd(sizeof n);
	OK(rma2_noti_probe(port, place));
	TAKE(again);
	CHECK(n && again == n);
	odd(sizeof n);
	OK(rma2_noti_noti_match(port, 6, RMA2_NODEID_ANY, RMA2_VPID_ANY, place));
	TAKE(again);
	CHECK(again == n);
	odd(sizeof n);
	OK(rma2_noti_match(port, RMA2_NOTIFICATION_PUT, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_COMPLETER_NOTIFICATION,
			   RMA2_ANY_NLA, RMA2_DEFAULT_FLAG, place));
	TAKE(again);
	CHECK(again == n);
	OK(rma2_noti_dup(n, (RMA2_Notification *)odd(sizeof copy)));
	TAKE(copy);
	CHECK(rma2_noti_get_notiput_payload((RMA2_Notification *)(void *)(bytes + 1)) == 66);
	CHECK(memcmp(&copy, n, sizeof copy) == 0);
	OK(rma2_noti_free(port, n));
	no_more(port);
}

int main(void)
{
	uint8_t *memory = (uint8_t *)allocate(2 * PAGE);

	handles();
	regions(memory);
	descriptors();
	notifications();
	OK(rma2_close(port));
	free(memory);
	return 0;
}
