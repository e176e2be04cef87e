// SPDX-License-Identifier: MIT OR Apache-2.0
#include "messages.h"

#include <array>

#include "ggas/gmpi.cuh"
#include "nodes.h"
#include "threads.h"

namespace
{

constexpr uint32_t members = 2, slots = 2, slot_bytes = GMPI_DIRECT_SLOT_LEAST;
/* Lines of a short message: of this slot, up to half of its bytes. */
constexpr uint32_t short_room = slot_bytes;
static_assert(slot_bytes / 2 <= GMPI_DIRECT_SHORT);
constexpr uint64_t comm = 3, sums_most = 7, longest = 5000, placed = GMPI_DIRECT_PLACED + 100;
/* Room in the window for a placed message at an odd address; parts of a window are whole lines. */
constexpr uint64_t place_room = (placed + 2 + sizeof(ggas_u128) - 1) / sizeof(ggas_u128) * sizeof(ggas_u128);

struct message_args {
	uint64_t buf, from, to, requests, sizes, count, wrong, one_place, sums, told;
};

GGAS_FN uint8_t byte_of(uint32_t rank, uint64_t round, uint64_t i) { return static_cast<uint8_t>(rank * 101 + round * 31 + i * 7); }

GGAS_FN int exchange(const message_args &args, gmpi_buf_t *buf, uint64_t round)
{
	auto *requests = reinterpret_cast<MPI_Request *>(args.requests);
	int bytes = static_cast<int>(reinterpret_cast<const uint64_t *>(args.sizes)[round]), peer = 1 - static_cast<int>(buf->rank);
	int tag = static_cast<int>(round);
	MPI_Request *second = requests + (args.one_place ? 0 : 1);
	/* At odd addresses, too. */
	auto *to = reinterpret_cast<uint8_t *>(args.to) + round % 3;
	int error = GMPI_Irecv(buf, to, bytes, MPI_BYTE, peer, round % 2 ? MPI_ANY_TAG : tag, comm, &requests[0]);
	error = error ? error : GMPI_Isend(buf, reinterpret_cast<void *>(args.from), bytes, MPI_BYTE, peer, tag, comm, second);
	if (error)
		return error;
	return args.one_place ? GMPI_Wait(buf, requests, MPI_STATUS_IGNORE) : GMPI_Waitall(buf, 2, requests, MPI_STATUSES_IGNORE);
}

/* The same by calls that wait, of all threads; behind each short one a word by one of them alone. */
GGAS_FN int exchange_now(const message_args &args, gmpi_buf_t *buf, uint64_t round)
{
	constexpr ggas_scope alone = ggas_scope::thread;
	int bytes = static_cast<int>(reinterpret_cast<const uint64_t *>(args.sizes)[round]), peer = 1 - static_cast<int>(buf->rank);
	int tag = static_cast<int>(round);
	auto *from = reinterpret_cast<const uint8_t *>(args.from);
	auto *to = reinterpret_cast<uint8_t *>(args.to) + (round & 1);
	if (bytes > static_cast<int>(slot_bytes / 2))
		return GMPI_Sendrecv(buf, from, bytes, MPI_BYTE, peer, tag, to, bytes, MPI_BYTE, peer, tag, comm, MPI_STATUS_IGNORE);
	bool is_last = ggas_thread() + 1 == ggas_threads();
	uint64_t word = round + buf->rank;
	int error = GMPI_Send(buf, from, bytes, MPI_BYTE, peer, tag, comm);
	if (is_last && !error)
		error = GMPI_Send<alone>(buf, &word, 1, MPI_UNSIGNED_LONG, peer, tag, comm);
	int failed = GMPI_Recv(buf, to, bytes, MPI_BYTE, peer, tag, comm, MPI_STATUS_IGNORE);
	if (is_last && !failed)
		failed = GMPI_Recv<alone>(buf, &word, 1, MPI_UNSIGNED_LONG, peer, tag, comm, MPI_STATUS_IGNORE);
	return error ? error : failed ? failed : is_last && word != round + static_cast<uint64_t>(peer);
}

/* A sum of one number or several, and words that only barriers order. */
GGAS_FN int meet(const message_args &args, gmpi_buf_t *buf, uint64_t round)
{
	auto *sums = reinterpret_cast<uint64_t *>(args.sums), *told = reinterpret_cast<uint64_t *>(args.told);
	uint64_t count = 1 + round % sums_most;
	for (uint64_t i = ggas_thread(); i < count; i += ggas_threads())
		sums[i] = round + i + buf->rank;
	int error = GMPI_Allreduce(buf, sums, sums + sums_most, static_cast<int>(count), MPI_UNSIGNED_LONG, MPI_SUM, comm);
	for (uint64_t i = ggas_thread(); i < count && !error; i += ggas_threads())
		error = sums[sums_most + i] != 2 * (round + i) + 1;
	if (ggas_thread() == 0)
		told[buf->rank] = round;
	error = error ? error : GMPI_Barrier(buf, comm);
	if (ggas_thread() == 0 && !error)
		error = told[1 - buf->rank] != round;
	return error ? error : GMPI_Barrier(buf, comm);
}

} // namespace

GGAS_KERNEL(tsan_messages, message_args)
{
	auto *buf = reinterpret_cast<gmpi_buf_t *>(args.buf);
	auto *from = reinterpret_cast<uint8_t *>(args.from);
	auto *to = reinterpret_cast<const uint8_t *>(args.to);
	uint64_t wrong = 0;
	for (uint64_t round = 0; round < args.count; round++) {
		uint64_t bytes = reinterpret_cast<const uint64_t *>(args.sizes)[round];
		for (uint64_t i = ggas_thread(); i < bytes; i += ggas_threads())
			from[i] = byte_of(buf->rank, round, i);
		wrong += exchange(args, buf, round) != MPI_SUCCESS;
		for (uint64_t i = ggas_thread(); i < bytes; i += ggas_threads())
			wrong += to[round % 3 + i] != byte_of(1 - buf->rank, round, i);
		ggas_syncthreads();
		wrong += exchange_now(args, buf, round) != MPI_SUCCESS;
		for (uint64_t i = ggas_thread(); i < bytes; i += ggas_threads())
			wrong += to[(round & 1) + i] != byte_of(1 - buf->rank, round, i);
		ggas_syncthreads();
		wrong += meet(args, buf, round) != MPI_SUCCESS;
		/* All have looked before the next one comes. */
		ggas_syncthreads();
	}
	ggas_atomic_add(reinterpret_cast<uint64_t *>(args.wrong), wrong, ggas_order::relaxed);
}

namespace
{

struct end {
	ggas_window window = {};
	gmpi_port port = {};
	gmpi_buf buf = {};
	std::array<gmpi_channel, members> channels = {};
	std::array<uint32_t, members> gone = {};
	uint64_t collectives = 0;
	std::array<uint64_t, 2 * sums_most> sums = {};
	std::vector<uint8_t> from = std::vector<uint8_t>(placed), to = std::vector<uint8_t>(longest + 2);
	std::array<uint64_t, 2> requests = {};
	uint64_t wrong = 0;
	message_args args = {};
};

/* Blocks of so many threads: a leader alone, or with others that copy. `in_window`: messages may go to their place. */
bool between(bool one_place, uint32_t block, const std::vector<uint64_t> &sizes, bool in_window = false)
{
	uint64_t mailbox = ggas_impl::direct_front + slots * (GMPI_DIRECT_HEAD + short_room + slot_bytes), boards = members * mailbox;
	uint64_t front = boards + members * 2 * GMPI_DIRECT_BOARD, stride = front + (in_window ? place_room : 0);
	std::vector<ggas_u128> memory(members * stride / sizeof(ggas_u128));
	std::array<end, members> ends;
	std::array<uint64_t, members> told = {};
	std::vector<launch> launches;
	for (uint32_t rank = 0; rank < members; rank++) {
		end &own = ends[rank];
		own.window = window_of(memory, stride, rank, members);
		const ggas_window &window = own.window;
		gmpi_direct direct = { comm, address(own.channels), address(own.collectives), boards, window.base, window.local, window.stride,
				       rank, members, slots, slot_bytes, 0, window.size, 60'000'000'000, address(own.gone) };
		own.buf = { address(own.port), 0, 60'000'000'000, 1, 0, rank, members, 0, 0, direct, {} };
		uint64_t to = in_window ? own.window.local + front : reinterpret_cast<uint64_t>(own.to.data());
		own.args = { address(own.buf), reinterpret_cast<uint64_t>(own.from.data()), to, address(own.requests),
			     reinterpret_cast<uint64_t>(sizes.data()), sizes.size(), address(own.wrong), one_place,
			     address(own.sums), address(told) };
		launches.push_back({ ggas_host_tsan_messages, &own.args, 1, block });
	}
	run(launches);
	bool good = true;
	for (end &own : ends) {
		good &= expect(own.wrong == 0, "calls or bytes", own.wrong) && expect(own.port.sent == 0, "calls of the daemon", own.port.sent);
		for (const gmpi_channel &channel : own.channels)
			good &= expect(channel.sends.posted == channel.sends.done, "sends that are open", channel.sends.posted) &&
				expect(channel.receives.posted == channel.receives.done, "receives that are open",
				       channel.receives.posted);
	}
	return good;
}

} // namespace

bool direct_messages()
{
	std::vector<uint64_t> lengths = { 0, 1, 13, 255, 512, 513, 1024, 1025, longest };
	std::vector<uint64_t> long_ones(12, placed);
	return between(false, 4, lengths) && between(false, 34, lengths) && between(false, 34, long_ones, true);
}
bool direct_places() { return between(true, 4, { 0, 1, 513, longest }); }
