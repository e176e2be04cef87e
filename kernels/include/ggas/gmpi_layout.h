/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * GMPI: what kernels, the daemon and the shims of MPI libraries share. C, C++ and CUDA compile this file alike; Rust sees
 * it through bindgen (extoll_abi::layout).
 *
 * A kernel writes an *attribute* of up to 32 elements of 8 bytes: which function, then its arguments (GMPI paper, III B).
 * Each attribute is answered, in order, so two running numbers say how full both rings of a port are.
 */
#ifndef GGAS_GMPI_LAYOUT_H
#define GGAS_GMPI_LAYOUT_H

#include <stdint.h>

#define GMPI_ELEMENTS	32	/* of an attribute, and of an answer */

/* Element 0 of an attribute: the function. Beside it the arguments that follow, in MPI's order. */
#define GMPI_CALL_ISEND		1	/* buffer, count, type, rank, tag, communicator, place of the request */
#define GMPI_CALL_IRECV		2
#define GMPI_CALL_SEND_INIT	3
#define GMPI_CALL_RECV_INIT	4
#define GMPI_CALL_SEND		5	/* buffer, count, type, rank, tag, communicator */
#define GMPI_CALL_RECV		6
#define GMPI_CALL_WAIT		7	/* request */
#define GMPI_CALL_TEST		8
#define GMPI_CALL_START		9
#define GMPI_CALL_REQUEST_FREE	10
#define GMPI_CALL_WAITALL	11	/* how many requests, at most GMPI_REQUESTS; they */
#define GMPI_CALL_STARTALL	12
#define GMPI_CALL_PROBE		13	/* rank, tag, communicator */
#define GMPI_CALL_IPROBE	14
#define GMPI_CALL_BARRIER	15	/* communicator */
#define GMPI_CALL_BCAST		16	/* buffer, count, type, root, communicator */
#define GMPI_CALL_REDUCE	17	/* from, to, count, type, operation, root, communicator */
#define GMPI_CALL_ALLREDUCE	18	/* from, to, count, type, operation, communicator */
#define GMPI_CALL_ALLGATHER	19	/* from, count, type, to, count, type, communicator */
#define GMPI_CALL_ALLTOALL	20
#define GMPI_CALL_PUT		21	/* buffer, count, type, rank, displacement, count, type, window */
#define GMPI_CALL_GET		22
#define GMPI_CALL_WIN_FLUSH	23	/* rank, or GMPI_ALL_RANKS; window */
#define GMPI_CALL_WIN_FENCE	24	/* assertion, window */
#define GMPI_CALL_COMM_PLACE	25	/* communicator; answered with rank and size in place of a status */
#define GMPI_CALL_ECHO		26	/* how many elements follow, at most 30; they: read and answered, for measurements */
#define GMPI_CALL_SENDRECV	27	/* buffer, count, type, rank, tag; the same of what is received; communicator */
#define GMPI_CALL_TESTALL	28	/* as WAITALL */
#define GMPI_CALL_WAITANY	29
#define GMPI_CALL_TESTANY	30
#define GMPI_CALL_WAITSOME	31
#define GMPI_CALL_TESTSOME	32
#define GMPI_CALL_GET_STATUS	33	/* as TESTALL, and all requests stay what they are */
#define GMPI_CALL_IBARRIER	34	/* the arguments of the call that waits; the place of the request */
#define GMPI_CALL_IBCAST	35
#define GMPI_CALL_IREDUCE	36
#define GMPI_CALL_IALLREDUCE	37
#define GMPI_CALL_IALLGATHER	38
#define GMPI_CALL_IALLTOALL	39
#define GMPI_CALL_GATHER	40	/* from, count, to, count, both types (the one of `to` from bit 32 on), root, communicator */
#define GMPI_CALL_SCATTER	41
#define GMPI_CALL_IGATHER	42	/* the same; the place of the request */
#define GMPI_CALL_ISCATTER	43
#define GMPI_CALLS		44

/* Element 0 above the function. */
#define GMPI_CALL_BITS		16
#define GMPI_CALL_QUIET_SHIFT	16	/* of calls on several requests: their statuses are not wanted */
#define GMPI_CALL_BYTES_SHIFT	32	/* of SEND, ISEND, SENDRECV, ALLREDUCE: how many bytes of what is sent follow the arguments: all, or none; of
					 * messages whose types have GMPI_TYPE_SHAPED: of the shapes that follow */
#define GMPI_CALL_BYTES_BITS	8

#define GMPI_REQUESTS		15	/* most requests that one attribute names: their statuses fill the answer */
#define GMPI_ALL_RANKS		0xffffffff

/* Element 0 of an answer. Behind it two elements for each status: source (32 bits) and tag; bytes, and from bit 56 on the error. */
#define GMPI_ANSWER_ERROR_BITS		8
#define GMPI_ANSWER_STATUSES_SHIFT	8
#define GMPI_ANSWER_STATUSES_BITS	8
#define GMPI_ANSWER_FLAG_SHIFT		16	/* of TEST and IPROBE; of calls on several requests: none is under way any more */
#define GMPI_ANSWER_OVER_SHIFT		32	/* of WAITANY and what is like it: bit i: request i was completed */
#define GMPI_STATUS_BYTES_BITS		56

/* Behind the statuses messages that the caller stores: for each an element that says where, and from bit 56 on how many bytes; then they. */
#define GMPI_ANSWER_MESSAGES_SHIFT	24
#define GMPI_ANSWER_MESSAGES_BITS	5
#define GMPI_MESSAGE_BYTES_SHIFT	56
#define GMPI_ANSWER_MESSAGE		224	/* longest such message: it fits beside one status */

/* How a ring shows that an entry is there. */
#define GMPI_FORM_COUNTED	0	/* 32 elements; a counter, stored behind them with release */
#define GMPI_FORM_TAGGED	1	/* 32 pairs of an element and its entry's running number plus one, each stored as 16 bytes */

/* Handles of kernels. Those of communicators and windows come from the host: a number from bit 0, a generation from bit 32 on. */
#define GMPI_COMM_WORLD		1
#define GMPI_COMM_SELF		2
#define GMPI_HANDLE_GENERATION_SHIFT	32

/* A request: running number of the attribute that made it, plus one; its port; whether it is persistent. 0: no request. */
#define GMPI_REQUEST_PORT_SHIFT	48
#define GMPI_REQUEST_PERSISTENT_SHIFT	63

/* A request of a direct communicator, which the daemon does not know: its number among the block's sends or receives of a member, plus one;
 * the member; the port; whether it waits for another one, too; whether it receives. */
#define GMPI_REQUEST_PEER_SHIFT	32
#define GMPI_REQUEST_AFTER_SHIFT	60	/* it took the place of one that was not over; of the daemon's: of a direct one */
#define GMPI_REQUEST_RECEIVES_SHIFT	61
#define GMPI_REQUEST_DIRECT_SHIFT	62

#define GMPI_DIRECT_OPS		32	/* sends or receives of a block to or from one member that are not over */
#define GMPI_DIRECT_LINE	16	/* bytes that are stored as one */
#define GMPI_DIRECT_HEAD	64	/* bytes at the begin of a mailbox, and of each slot's lines */
#define GMPI_DIRECT_PLACE	32	/* bytes that say where a message goes; a mailbox has GMPI_DIRECT_OPS behind its head */
#define GMPI_DIRECT_PLACED	8193	/* bytes of the shortest message that is written to its place: longer than GMPI_DIRECT_SHORT */
#define GMPI_DIRECT_SLOT_LEAST	1024	/* fewest bytes of a slot */
#define GMPI_DIRECT_BOARD	512	/* bytes of a board for collectives: two for each port and member behind the mailboxes */
#define GMPI_DIRECT_SHORT	8192	/* bytes of the longest short message; half a slot if that is less */

#define GMPI_ANY_SOURCE		-1
#define GMPI_ANY_TAG		-1
#define GMPI_PROC_NULL		-2
#define GMPI_UNDEFINED		-32766	/* an index where no request is under way; a color of nobody's */
#define GMPI_TAG_MAX		0x7fffffff
#define GMPI_IN_PLACE_ADDRESS	1	/* in place of the address of what is sent */

/* Types: the size in bytes, and from bit 8 on a number. */
#define GMPI_BYTE		0x001
#define GMPI_CHAR		0x101
#define GMPI_SIGNED_CHAR	0x201
#define GMPI_UNSIGNED_CHAR	0x301
#define GMPI_SHORT		0x402
#define GMPI_UNSIGNED_SHORT	0x502
#define GMPI_INT		0x604
#define GMPI_UNSIGNED		0x704
#define GMPI_LONG		0x808
#define GMPI_UNSIGNED_LONG	0x908
#define GMPI_LONG_LONG		0xa08
#define GMPI_UNSIGNED_LONG_LONG	0xb08
#define GMPI_FLOAT		0xc04
#define GMPI_DOUBLE		0xd08
#define GMPI_TYPE_SIZE_MASK	0xff
#define GMPI_DATATYPE_NULL	0
#define GMPI_TYPE_SHAPED	0x10000	/* in an attribute: elements do not lie together; a struct gmpi_shape follows the arguments */
#define GMPI_ORDER_C		56	/* of arrays: the last dimension lies together */
#define GMPI_ORDER_FORTRAN	57	/* the first one does */
/* Other names of these. An address difference is a uint64_t in kernels. */
#define GMPI_INT8_T		GMPI_SIGNED_CHAR
#define GMPI_INT16_T		GMPI_SHORT
#define GMPI_INT32_T		GMPI_INT
#define GMPI_INT64_T		GMPI_LONG
#define GMPI_UINT8_T		GMPI_UNSIGNED_CHAR
#define GMPI_UINT16_T		GMPI_UNSIGNED_SHORT
#define GMPI_UINT32_T		GMPI_UNSIGNED
#define GMPI_UINT64_T		GMPI_UNSIGNED_LONG
#define GMPI_LONG_LONG_INT	GMPI_LONG_LONG
#define GMPI_C_BOOL		GMPI_UNSIGNED_CHAR
#define GMPI_AINT		GMPI_UNSIGNED_LONG

#define GMPI_MAX		1
#define GMPI_MIN		2
#define GMPI_SUM		3
#define GMPI_PROD		4
#define GMPI_LAND		5
#define GMPI_BAND		6
#define GMPI_LOR		7
#define GMPI_BOR		8
#define GMPI_LXOR		9
#define GMPI_BXOR		10

/* Error classes. From GMPI_ERR_TIMEOUT on they are no MPI's. */
#define GMPI_SUCCESS		0
#define GMPI_ERR_BUFFER		1	/* bytes that the host has not attached; no pointer */
#define GMPI_ERR_COUNT		2
#define GMPI_ERR_TYPE		3
#define GMPI_ERR_TAG		4
#define GMPI_ERR_COMM		5	/* none, or one that was freed */
#define GMPI_ERR_RANK		6
#define GMPI_ERR_REQUEST	7
#define GMPI_ERR_ROOT		8
#define GMPI_ERR_OP		10
#define GMPI_ERR_ARG		13
#define GMPI_ERR_UNKNOWN	14
#define GMPI_ERR_TRUNCATE	15	/* the message is longer than the buffer: its first bytes are there, but by MPICH, which may drop it */
#define GMPI_ERR_OTHER		16
#define GMPI_ERR_INTERN		17
#define GMPI_ERR_IN_STATUS	18
#define GMPI_ERR_PENDING	19
#define GMPI_ERR_NO_MEM		34	/* too much is under way: receive at the other process, or wait for requests; nothing was sent */
#define GMPI_ERR_WIN		45
#define GMPI_ERR_DISP		52
#define GMPI_ERR_TIMEOUT	100	/* a call that waits was not over in time; its requests are still open */
#define GMPI_ERR_PORT		101	/* this block has no port: the host opened fewer */
#define GMPI_ERR_DAEMON		102	/* the daemon did not answer: it is gone, or stopped */
#define GMPI_ERR_CALL		103	/* no such function, or one that the carrier does not have */
#define GMPI_ERR_PROC_FAILED	104	/* the other process is gone */

/* One block's way to the daemon, in kernel memory. The first part is constant after set-up; the second belongs to kernels. */
struct gmpi_port {
	uint64_t requests;	/* ring of attributes */
	uint64_t request_tail;	/* uint64_t: attributes written so far (GMPI_FORM_COUNTED) */
	uint64_t answers;	/* ring of answers */
	uint64_t answer_tail;	/* uint64_t: answers written so far (GMPI_FORM_COUNTED) */
	uint32_t mask;		/* entries of either ring - 1; a power of two */
	uint32_t form;		/* GMPI_FORM_* */

	uint32_t error;		/* first error of a call that did not wait for its answer, until GMPI_Synchronize tells it */
	uint32_t broken;	/* the daemon did not answer: nothing more is written */
	uint64_t sent;		/* attributes written */
	uint64_t taken;		/* answers read */
	uint64_t reserved;
};

/* Where the bytes of a message lie: rows of blocks, each of `block` bytes that lie together. */
struct gmpi_shape {
	uint64_t block;
	uint32_t count;		/* blocks of a row */
	uint32_t rows;
	int64_t stride;		/* bytes from a block to the next one */
	int64_t pitch;		/* bytes from a row to the next one */
};

/* A send or a receive of a direct communicator. */
struct gmpi_direct_op {
	uint64_t address;
	uint32_t bytes;
	uint32_t shaped;	/* they lie as the shape beside it says, and not together */
	uint64_t got;		/* of a receive: bytes that came */
	uint64_t before;	/* a request that was not over when this one took its place */
	int32_t tag;
	uint32_t error;
	uint32_t number;	/* low half of the request's handle */
	uint32_t told;		/* bit 0: of a receive, what it came to was told; above: which of the daemon's has its place */
};

/* The sends, or the receives: how many were begun and are over, and how many bytes of the next one are through. */
struct gmpi_direct_end {
	uint64_t posted;
	uint64_t done;
	uint64_t at;
};

/* What one block exchanges with one member of a direct communicator, in kernel memory. */
struct gmpi_channel {
	uint64_t sent;		/* slots filled there */
	uint64_t taken;		/* slots emptied here */
	uint64_t emptied;	/* slots emptied there, as far as it is known here */
	uint64_t told;		/* slots emptied here, as far as it was told there */
	uint64_t mine;		/* the mailbox here, and that there; 0 until they were looked up */
	uint64_t theirs;
	uint64_t room;		/* the first receive for which no place is known to be free */
	struct gmpi_direct_end sends;
	struct gmpi_direct_end receives;
	struct gmpi_direct_op send[GMPI_DIRECT_OPS];
	struct gmpi_direct_op receive[GMPI_DIRECT_OPS];
	struct gmpi_direct_op kept[GMPI_DIRECT_OPS];	/* receives that are over and not told, whose places later ones needed */
	uint64_t bytes;		/* of all sends there, for traces; not beside what each message loads: adding drives it out of the cache */
	uint64_t to_each;	/* of collectives, to each other member; in the channel of a member with itself */
	struct gmpi_shape send_shape[GMPI_DIRECT_OPS];
	struct gmpi_shape receive_shape[GMPI_DIRECT_OPS];
};

/* A communicator whose members' kernels store into each other's mailboxes in a window (impl/gmpi_direct.h). Constant after set-up. What every
 * message wants comes first: a kernel that has swept the cache pays for each line that it looks up. */
struct gmpi_direct {
	uint64_t comm;		/* its handle; 0: there is none */
	uint64_t channels;	/* struct gmpi_channel, by port and rank */
	uint64_t collectives;	/* uint64_t by port: collectives that are over */
	uint64_t boards;	/* offset of the boards for collectives in each part */
	uint64_t base;		/* of the window, as struct ggas_window has them: member i is rank i */
	uint64_t local;
	uint64_t stride;
	uint32_t rank;
	uint32_t size;
	uint32_t slots;		/* of a mailbox, a power of two */
	uint32_t slot_bytes;
	uint64_t offset;	/* of the mailboxes in each part */
	uint64_t bytes;		/* of the window's parts */
	uint64_t timeout_ns;	/* bound of every wait for another member */
	uint64_t gone;		/* uint32_t by rank: not 0 once the daemon knows that this member is dead */
};

#define GMPI_RANGES	32	/* most memories whose short messages kernels read */

/* Attached memory. */
struct gmpi_range {
	uint64_t start;
	uint64_t bytes;
};

/* What kernels of one process get (gmpi_buf_t of the paper). Constant after set-up, but for ranges that are added. */
struct gmpi_buf {
	uint64_t ports;		/* struct gmpi_port by block */
	uint64_t report;	/* struct ggas_report in host memory, or 0 */
	uint64_t timeout_ns;	/* bound of every wait for the daemon */
	uint32_t port_count;
	uint32_t single;	/* one context for the grid, as in the paper: block 0 calls, the others return at once */
	uint32_t rank;		/* in GMPI_COMM_WORLD */
	uint32_t size;
	uint32_t ranges;	/* how many there are in `range` */
	uint32_t reserved;
	struct gmpi_direct direct;
	struct gmpi_range range[GMPI_RANGES];
};

#endif /* GGAS_GMPI_LAYOUT_H */
