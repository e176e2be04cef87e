/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * across: this guest's side of fpga-sim/vm/examples/across.rs. Programs of the host come one after the other, on another
 * node of the network that the card is in. The first one leaves, the second one is killed while this guest puts, and the
 * last one puts while the guest goes. They read what this one prints in the guest's log.
 */

#include "port.h"

#define LONGEST (1u << 20)
#define AREA (LONGEST + 2 * PAGE)
#define PIECE (64u << 10)	/* of what is put without end */
#define QUIET_MS 5000u		/* a get that is not answered by then went to one who died over it */

/* Classes of notifications: those of visitors, then ours. */
enum class { HELLO = 1, GO, LEAVES, STREAMS, STAYS, DONE };

/* Bytes, and where they begin at the one who posts and on the other side; as in across.rs. */
static const struct { uint32_t size, from, to; } cases[] = {
	{ 8, 0, 0 }, { 1, 3, 5 }, { 64, 61, 7 }, { 497, 1, 4095 }, { 4096, 0, 0 }, { 4097, 4090, 3 }, { 65536, 64, 128 },
	{ 100003, 13, 4001 }, { LONGEST, 0, 0 }, { LONGEST, 4093, 11 },
};

static struct port port;
static unsigned char *in, *out;
static uint64_t in_nla, out_nla, visitor_nla;
static uint32_t node, vpid;	/* of who is there */

static unsigned char byte(uint32_t i, uint32_t seed)
{
	return (unsigned char)(seed * 31 + i * 7 + i / 251);
}

static void fill(unsigned char *at, uint32_t size, uint32_t seed)
{
	for (uint32_t i = 0; i < size; i++)
		at[i] = byte(i, seed);
}

static void verify(const unsigned char *at, uint32_t size, uint32_t seed)
{
	for (uint32_t i = 0; i < size; i++)
		CHECK(at[i] == byte(i, seed));
}

/* The next notification: of this unit and command, from who is there, without an error. */
static struct extoll_noti hear(uint32_t kind, uint32_t command)
{
	struct extoll_noti noti = take(&port, PATIENCE_MS);

	CHECK(noti.word1 != 0);
	CHECK(extoll_noti_kind(noti.word1) == kind && extoll_noti_command(noti.word1) == command);
	CHECK(extoll_noti_node(noti.word1) == node && extoll_noti_vpid(noti.word1) == vpid);
	CHECK(extoll_noti_error(noti.word1) == 0);
	return noti;
}

static uint32_t told(void)
{
	return extoll_noti_class(hear(EXTOLL_NOTI_KIND_COMPLETER, EXTOLL_CMD_NOTIFICATION_PUT).word1);
}

static void tell(uint32_t class_, uint64_t payload)
{
	post(&port, EXTOLL_OPTION_TE, extoll_desc_notification_put(node, vpid, EXTOLL_SPEC_COMPLETER, 0, class_, payload));
}

static void put(uint32_t spec, uint32_t from, uint32_t to, uint32_t size)
{
	post(&port, EXTOLL_OPTION_TE,
	     extoll_desc_put(0, node, vpid, spec, 0, out_nla + from, visitor_nla + to, size));
}

static void get(uint32_t spec, uint32_t from, uint32_t to, uint32_t size)
{
	post(&port, EXTOLL_OPTION_TE,
	     extoll_desc_get(0, node, vpid, spec, 0, visitor_nla + from, out_nla + to, size));
}

/* Who comes says hello, and learns nothing by it: it has read where we are. */
static void meet(void)
{
	struct extoll_noti noti = take(&port, PATIENCE_MS);

	CHECK(noti.word1 != 0 && extoll_noti_error(noti.word1) == 0);
	CHECK(extoll_noti_command(noti.word1) == EXTOLL_CMD_NOTIFICATION_PUT && extoll_noti_class(noti.word1) == HELLO);
	node = extoll_noti_node(noti.word1);
	vpid = extoll_noti_vpid(noti.word1);
	CHECK(node != port.open.node);
	visitor_nla = noti.word0;
}

/* It puts to us and we to it, it gets what we put and we get what it has. */
static void both_ways(void)
{
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t size = cases[i].size, from = cases[i].from, to = cases[i].to;
		unsigned char last = byte(to + size, 90 + i);

		memset(in, 0, AREA);
		in[to + size] = last;
		fill(out + from, size, 40 + i);
		tell(DONE, i);
		hear(EXTOLL_NOTI_KIND_COMPLETER, EXTOLL_CMD_BT_PUT);
		verify(in + to, size, i);
		CHECK((to == 0 || in[to - 1] == 0) && in[to + size] == last);
		put(EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER, from, to, size);
		hear(EXTOLL_NOTI_KIND_REQUESTER, EXTOLL_CMD_BT_PUT);
		hear(EXTOLL_NOTI_KIND_RESPONDER, EXTOLL_CMD_BT_GET);
		CHECK(told() == GO);
		memset(out, 0, AREA);
		get(EXTOLL_SPEC_RESPONDER | EXTOLL_SPEC_COMPLETER, to, from, size);
		hear(EXTOLL_NOTI_KIND_COMPLETER, EXTOLL_CMD_GET_BT_RSP);
		verify(out + from, size, 80 + i);
		CHECK((from == 0 || out[from - 1] == 0) && out[from + size] == 0);
	}
	tell(DONE, sizeof(cases) / sizeof(cases[0]));
}

/*
 * Puts to who was there, and a get behind each, until a get says that nobody is: the responder's error bit (spec 3.1, 5).
 * Puts give their requester notification all the same: a put to nobody changes nothing, and only counters have it.
 * At most one get has no answer, which is the one that its target died over.
 */
static void until_nobody(void)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	uint32_t puts = 0, unanswered = 0;

	for (;;) {
		struct extoll_noti noti;

		CHECK(now_ns() < end);
		put(EXTOLL_SPEC_REQUESTER, 0, 0, PIECE);
		hear(EXTOLL_NOTI_KIND_REQUESTER, EXTOLL_CMD_BT_PUT);
		if (++puts == 10)
			printf("across: puts\n");
		get(EXTOLL_SPEC_COMPLETER, 0, 0, 8);
		noti = take(&port, QUIET_MS);
		if (!noti.word1) {
			CHECK(++unanswered == 1);
			continue;
		}
		CHECK(extoll_noti_kind(noti.word1) == EXTOLL_NOTI_KIND_COMPLETER);
		CHECK(extoll_noti_command(noti.word1) == EXTOLL_CMD_GET_BT_RSP && extoll_noti_node(noti.word1) == node);
		if (extoll_noti_error(noti.word1)) {
			CHECK(extoll_noti_error(noti.word1) == EXTOLL_NOTI_ERROR_RESPONDER);
			break;
		}
	}
	printf("across: nobody after %u puts, %u gets without an answer\n", puts, unanswered);
	put(EXTOLL_SPEC_ALL, 0, 0, 8);
	hear(EXTOLL_NOTI_KIND_REQUESTER, EXTOLL_CMD_BT_PUT);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	port_open(&port);
	in = memory(AREA);
	out = memory(AREA);
	CHECK(region(&port, in, AREA, &in_nla) == 0 && region(&port, out, AREA, &out_nla) == 0);
	printf("across: at %u %u %llu %llu end\n", port.open.node, port.open.vpid, (unsigned long long)in_nla,
	       (unsigned long long)out_nla);
	for (int visitor = 1;; visitor++) {
		uint32_t then;

		printf("across: waits for %d\n", visitor);
		meet();
		both_ways();
		then = told();
		if (then == STAYS)
			break;
		CHECK(then == LEAVES || then == STREAMS);
		until_nobody();
	}
	/* The last one puts from now on, while the port closes and the machine is switched off. */
	for (int i = 0; i < 20; i++)
		hear(EXTOLL_NOTI_KIND_COMPLETER, EXTOLL_CMD_BT_PUT);
	printf("PASS across\n");
	return 0;
}
