// SPDX-License-Identifier: MIT OR Apache-2.0
// One port has numbers squared by another, here or on another node: a put there, a put back, and no host in between.
#include "ggas/rma.cuh"

/* `Square` in src/main.rs. Numbers of fixed width, no hidden padding. */
struct square {
	uint64_t port;		/* struct ggas_port of this side */
	uint64_t numbers;	/* uint64_t[count] */
	uint64_t numbers_nla;	/* the same memory, as the card calls it */
	uint64_t peer_nla;	/* the peer's numbers */
	uint64_t status;	/* uint64_t: GGAS_OK, or what failed */
	uint32_t peer_node, peer_vpid;
	uint32_t count, reserved;
};

namespace own_square
{

/* One thread posts, after what all threads of the block wrote. Only the receiver is notified. */
GGAS_FN int send(const square &args)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	gpu_rma2_peer peer = { args.peer_node, args.peer_vpid };

	return gpu_rma2_put<ggas_scope::block>(port, peer, args.numbers_nla, args.peer_nla, args.count * sizeof(uint64_t),
					       EXTOLL_SPEC_COMPLETER);
}

/* Thread 0 waits, at most as long as the port allows; then all threads see the data, or all the error. */
GGAS_FN int receive(const square &args)
{
	extoll_noti noti;
	int error = GGAS_OK;

	if (ggas_thread() == 0)
		error = gpu_rma2_noti_take(reinterpret_cast<ggas_port *>(args.port), &noti);
	return ggas_block_status(error);
}

GGAS_FN void report(const square &args, int error)
{
	if (ggas_thread() == 0)
		ggas_store_release(reinterpret_cast<uint64_t *>(args.status), static_cast<uint64_t>(error));
}

} // namespace own_square

/* Sends the numbers, and has them back squared. */
GGAS_KERNEL(own_square_ask, square)
{
	int error = own_square::send(args);

	if (!error)
		error = own_square::receive(args);
	own_square::report(args, error);
}

/* Squares what arrives, and sends it back. */
GGAS_KERNEL(own_square_answer, square)
{
	auto *numbers = reinterpret_cast<uint64_t *>(args.numbers);
	int error = own_square::receive(args);

	if (!error) {
		for (uint32_t i = ggas_thread(); i < args.count; i += ggas_threads())
			numbers[i] *= numbers[i];
		error = own_square::send(args);
	}
	own_square::report(args, error);
}
