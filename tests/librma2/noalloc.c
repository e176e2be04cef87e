/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Posting and probing allocate nothing: every allocation of the thread is counted. On the model the thread is also the
 * card, which keeps a note of its own for payloads that it does not carry in the packet: commands of up to 64 bytes.
 */
#include <execinfo.h>
#include <unistd.h>

#include "common.h"

#ifdef __cplusplus
extern "C" {
#endif
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t number, size_t size);
extern void *__libc_realloc(void *block, size_t size);
#ifdef __cplusplus
}
#endif

static volatile long allocations;
/* Volatile: compilers know that malloc looks at no variable. */
static __thread volatile int counting;

#define DEPTH 32
static void *way[DEPTH];
static int depth;

#ifdef __cplusplus
extern "C" {
#define NO_THROW noexcept
#else
#define NO_THROW
#endif
/* The first one's way is kept, to be shown. */
static void count(void)
{
	if (!counting)
		return;
	counting = 0;
	if (!allocations++)
		depth = backtrace(way, DEPTH);
	counting = 1;
}

void *malloc(size_t size) NO_THROW
{
	count();
	return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) NO_THROW
{
	count();
	return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size) NO_THROW
{
	count();
	return __libc_realloc(block, size);
}
#ifdef __cplusplus
}
#endif

#define ROUNDS 2000

static RMA2_Port a, b;
static RMA2_Handle handle;
static RMA2_Region *local, *remote;
static RMA2_NLA from, to;

static void wait_and_free(RMA2_Port port)
{
	RMA2_Notification *n = NULL;

	while (rma2_noti_probe(port, &n) == RMA2_NO_NOTI)
		;
	OK(rma2_noti_free(port, n));
}

static void round_of_all(RMA2_Descriptor *d)
{
	RMA2_Notification *n = NULL;
	RMA2_NLA nla = 0;

	OK(rma2_post_put_bt(a, handle, local, 0, 8, to, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	wait_and_free(b);
	OK(rma2_post_put_bt_direct(a, handle, from, 61, to, RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT));
	wait_and_free(a);
	OK(rma2_post_get_qw(a, handle, local, 0, 64, to, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	wait_and_free(a);
	OK(rma2_post_immediate_put(a, handle, 8, 1, to, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_noti_get_block(b, &n));
	OK(rma2_noti_free(b, n));
	OK(rma2_post_notification(a, handle, 1, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_noti_noti_match_block(b, 1, RMA2_NODEID_ANY, RMA2_VPID_ANY, &n));
	OK(rma2_noti_free(b, n));
	OK(rma2_post_lock(a, handle, 0, 1, 1, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	wait_and_free(a);
	OK(rma2_post_descriptor(a, handle, d));
	wait_and_free(b);
	OK(rma2_get_nla(local, 0, &nla));
}

int main(void)
{
	uint8_t *here = (uint8_t *)allocate(PAGE), *there = (uint8_t *)allocate(PAGE);
	RMA2_Descriptor *d = NULL;
	RMA2_Notification *none = NULL;
	void *volatile block;
	long before;
	int i;

	a = open_port();
	b = open_port();
	handle = connect_to(a, b);
	OK(rma2_register(a, here, PAGE, &local));
	OK(rma2_register(b, there, PAGE, &remote));
	from = nla_of(local, 0);
	to = nla_of(remote, 0);
	OK(rma2_desc_alloc(a, &d));
	OK(rma2_desc_set_noti_put(d, handle, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT, 3, 4));
	for (i = 0; i < 10; i++)
		round_of_all(d);
	depth = backtrace(way, DEPTH);	/* its own first call allocates */
	counting = 1;
	before = allocations;
	/* Perhaps the first of all calls that fail. */
	CHECK(rma2_noti_probe(b, &none) == RMA2_NO_NOTI);
	for (i = 0; i < ROUNDS; i++)
		round_of_all(d);
	before = allocations - before;
	counting = 0;
	printf("%d rounds of posts and probes: %ld allocations\n", ROUNDS, before);
	if (before)
		backtrace_symbols_fd(way, depth, STDOUT_FILENO);
	CHECK(before == 0);
	/* The counter counts. */
	counting = 1;
	before = allocations;
	block = malloc((size_t)i);
	counting = 0;
	free(block);
	CHECK(allocations == before + 1);
	OK(rma2_close(a));
	OK(rma2_close(b));
	return 0;
}
