/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests of VELO share. */
#ifndef VELO_H
#define VELO_H

#include "job.h"
#include "velo2.h"

/* The call gives exactly this result. */
#define VGIVES(result, call)                                                                                   \
	do {                                                                                                   \
		velo2_ret_t given_ = (call);                                                                   \
		if (given_ != (result)) {                                                                      \
			char text_[400];                                                                       \
			velo2_serror(given_, text_, (int)sizeof text_);                                        \
			fprintf(stderr, "%s:%d: %s gave %d (%s), not %d\n", __FILE__, __LINE__, #call,         \
				(int)given_, text_, (int)(result));                                            \
			exit(1);                                                                               \
		}                                                                                              \
	} while (0)

#define VOK(call) VGIVES(VELO2_RET_SUCCESS, call)

static inline uint32_t address_of(velo2_port_t *port)
{
	return VELO2_ADDR_PACK(velo2_get_nodeid(port), velo2_get_vpid(port));
}

static inline velo2_connection_t connect_velo(velo2_port_t *port, uint32_t address)
{
	velo2_connection_t connection;
	uint16_t node, vpid;

	VELO2_ADDR_UNPACK(address, node, vpid);
	VOK(velo2_connect(port, &connection, node, vpid));
	CHECK(connection.dest.raw == address && connection.state_map);
	return connection;
}

/* Message `number`: its length is the number's part of 121, and all of it depends on the number. */
static inline unsigned int message(uint8_t *bytes, uint32_t number)
{
	unsigned int length = number % (VELO2_MAX_BYTES + 1);

	fill(bytes, length, number * 7919u + 1);
	return length;
}

static inline velo2_ret_t send_number(velo2_connection_t *connection, uint32_t number)
{
	uint8_t bytes[VELO2_MAX_BYTES];
	unsigned int length = message(bytes, number);

	return velo2_send(connection, bytes, length, (uint8_t)(number >> 3), (uint8_t)(number & 3));
}

/* The same, again while there is no room: a process that holds it up may be stopped for longer than a send waits. */
static inline void send_surely(velo2_connection_t *connection, uint32_t number)
{
	double start = seconds();
	velo2_ret_t result;

	while ((result = send_number(connection, number)) == VELO2_RET_TRY_AGAIN)
		CHECK(seconds() - start < PATIENCE);
	VOK(result);
}

/* The next message is that of `number`, from `from`; waits for it. */
static inline void take_number(velo2_port_t *port, uint32_t number, uint32_t from)
{
	uint8_t found[VELO2_MAX_BYTES + 8], wanted[VELO2_MAX_BYTES], tag = 0, mtt = 9;
	uint32_t length = 999, source = 0;
	unsigned int size = message(wanted, number);

	memset(found, 0xee, sizeof found);
	VOK(velo2_recv(port, found, VELO2_MAX_BYTES, &length, &source, &tag, &mtt));
	if (length != size || source != from || tag != (uint8_t)(number >> 3) || mtt != (number & 3) ||
	    memcmp(found, wanted, size) != 0 || found[size] != 0xee) {
		fprintf(stderr, "message %u: %u bytes from %#x, tag %u, type %u\n", number, length, source, tag, mtt);
		exit(1);
	}
}

static inline void no_message(velo2_port_t *port)
{
	uint8_t bytes[VELO2_MAX_BYTES];
	int round;

	for (round = 0; round < 200; round++)
		VGIVES(VELO2_RET_NO_MSG, velo2_probe_recv(port, bytes, sizeof bytes, NULL, NULL, NULL, NULL));
}

#endif /* VELO_H */
