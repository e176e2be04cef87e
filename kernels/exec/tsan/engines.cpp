// SPDX-License-Identifier: MIT OR Apache-2.0
// Does what userlib/device/src/engine does, whose atomics ThreadSanitizer does not see.
#include "engines.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "threads.h"

#include "engine.cu"

namespace
{

constexpr uint64_t patience_ns = 60'000'000'000;
constexpr uint32_t queue_entries = 16, slots = 8;

template <class T> uint64_t address(T *object)
{
	return reinterpret_cast<uint64_t>(object);
}

bool wrong(const char *what, uint64_t value)
{
	fprintf(stderr, "WRONG: %s (%llu)\n", what, static_cast<unsigned long long>(value));
	return false;
}

// Waits until `done`, and says what did not come otherwise.
bool until(const char *what, const std::function<bool()> &done)
{
	for (uint64_t begun = ggas_time_ns(); !done(); sched_yield())
		if (ggas_time_ns() - begun > patience_ns)
			return wrong(what, 0);
	return true;
}

// Memory of whole pages, zeroed.
struct pages {
	explicit pages(uint64_t size) : bytes((size + 4095) & ~4095ull), at(static_cast<char *>(aligned_alloc(4096, bytes)))
	{
		memset(at, 0, bytes);
	}
	~pages() { free(at); }
	pages(const pages &) = delete;
	template <class T> T *as() const { return reinterpret_cast<T *>(at); }
	const uint64_t bytes;
	char *const at;
};

// Nodes whose engines run, and their host.
class network {
public:
	network(uint32_t nodes, uint32_t helpers) : helpers_(helpers), epochs_(nodes)
	{
		engine_args args = {};
		args.run = 1;
		args.queue_ns = args.grace_ns = patience_ns;
		args.nodes = nodes;
		args.requesters = 1;
		args.helpers = helpers;
		for (uint32_t i = 0; i < nodes; i++) {
			states_.push_back(std::make_unique<pages>(sizeof(engine_node)));
			rings_.push_back(std::make_unique<pages>(sizeof(engine_line) * ENGINE_CLASSES * nodes *
								 ENGINE_LINES));
			tables_.push_back(std::make_unique<pages>(4096));
			args.state[i] = address(states_[i]->at);
			args.rings[i] = address(rings_[i]->at);
			state(i)->tables[0][0] = address(tables_[i]->at);
		}
		args_.assign(nodes, args);
		for (uint32_t i = 0; i < nodes; i++)
			args_[i].node = i;
	}
	~network() { end(); }

	engine_node *state(uint32_t node) { return states_[node]->as<engine_node>(); }

	// Registers memory at an NLA, before the engines begin.
	void map(uint32_t node, uint32_t vpid, uint64_t nla, const pages &memory)
	{
		for (uint64_t at = 0; at < memory.bytes; at += 4096)
			tables_[node]->as<uint64_t>()[(nla + at) / 4096] =
				extoll_gate(vpid, EXTOLL_GATE_READ_WRITE, address(memory.at + at), EXTOLL_PAGE_4K);
	}

	void begin()
	{
		uint32_t warps = serving() + 2 * helpers_;
		for (const engine_args &args : args_)
			launches_.push_back({ ggas_host_ggas_engine, &args, 1, 32 * warps });
		running_ = std::thread([this] { run(launches_); });
	}

	void end()
	{
		for (uint32_t i = 0; running_.joinable() && i < args_.size(); i++)
			ggas_store_release(&state(i)->stop, static_cast<uint64_t>(ENGINE_STOP_NOW));
		if (running_.joinable())
			running_.join();
	}

	uint64_t announce(uint32_t node)
	{
		std::lock_guard lock(mutex_);
		ggas_store_release(&state(node)->epoch, ++epochs_[node]);
		return epochs_[node];
	}

	// Has an engine take notice so many times.
	bool flush(uint32_t node, uint32_t times)
	{
		for (bool good = true; times > 0; times--) {
			uint64_t epoch = announce(node);
			good = until("an engine to take notice", [&] {
				for (uint32_t warp = 0; warp < serving(); warp++)
					if (ggas_load_acquire(&state(node)->ack[warp]) < epoch)
						return false;
				return true;
			});
			if (!good)
				return false;
		}
		return true;
	}

private:
	uint32_t serving() const { return 1 + ENGINE_CLASSES * static_cast<uint32_t>(args_.size()); }

	uint32_t helpers_;
	std::vector<uint64_t> epochs_;
	std::mutex mutex_;
	std::vector<std::unique_ptr<pages>> states_, rings_, tables_;
	std::vector<engine_args> args_;
	std::vector<launch> launches_;
	std::thread running_;
};

// A port with a slot ring. One thread posts; another one consumes.
class port {
public:
	port(network &network, uint32_t node, uint32_t vpid) : network_(network), node_(node), vpid_(vpid)
	{
		describe();
	}

	bool open() { return set(ENGINE_PORT_OPEN, 1); }

	bool post(const extoll_desc &desc)
	{
		auto *slot = reinterpret_cast<ggas_u128 *>(&slots_[posted_ % slots]);
		bool room = until("room for a descriptor",
				  [&] { return posted_ - ggas_load_acquire(&consumed_) < slots; });
		ggas_store_relaxed(slot, ggas_u128{ desc.word[0], desc.word[1] });
		ggas_store_release(slot + 1, ggas_u128{ desc.word[2], ++posted_ });
		return room;
	}

	// The next notification.
	bool take(ggas_u128 *notification)
	{
		ggas_u128 *entry = &queue_[read_];
		bool there = until("a notification", [&] { return (*notification = ggas_load_acquire(entry)).hi != 0; });
		ggas_store_relaxed(entry, ggas_u128{ 0, 0 });
		read_ = (read_ + 1) % queue_entries;
		ggas_store_release(&rp_, static_cast<uint64_t>(read_));
		return there;
	}
	bool expect(uint32_t kind, uint64_t word0)
	{
		ggas_u128 got;
		return take(&got) && (extoll_noti_kind(got.hi) == kind || wrong("kind", extoll_noti_kind(got.hi))) &&
		       (extoll_noti_error(got.hi) == 0 || wrong("error", extoll_noti_error(got.hi))) &&
		       (got.lo == word0 || wrong("word 0", got.lo));
	}

	// All that was in the queue is lost.
	bool close_and_open()
	{
		if (!set(ENGINE_PORT_CLOSED, ENGINE_LOOKS_CLOSED))
			return false;
		memset(static_cast<void *>(queue_.data()), 0, queue_.size() * sizeof(queue_[0]));
		rp_ = read_ = 0;
		describe();
		return open();
	}

private:
	engine_port *state() { return &network_.state(node_)->port[vpid_]; }

	bool set(uint32_t open, uint32_t looks)
	{
		ggas_store_release(&state()->open, open);
		return network_.flush(node_, looks);
	}

	void describe()
	{
		ggas_store_relaxed(&state()->queue, address(queue_.data()));
		ggas_store_relaxed(&state()->rp_register, address(&rp_));
		ggas_store_relaxed(&state()->slots, address(slots_.data()));
		ggas_store_relaxed(&state()->slot_consumed, address(&consumed_));
		ggas_store_relaxed(&state()->queue_entries, queue_entries);
		ggas_store_relaxed(&state()->slot_mask, slots - 1);
		ggas_store_relaxed(&state()->wp, 0u);
	}

	network &network_;
	uint32_t node_, vpid_, read_ = 0;
	std::vector<ggas_u128> queue_ = std::vector<ggas_u128>(queue_entries);
	std::vector<ggas_slot> slots_ = std::vector<ggas_slot>(slots);
	uint64_t rp_ = 0, consumed_ = 0, posted_ = 0;
};

// A warp that takes notice of a port which is not its own.
struct bystander_args {
	uint64_t engine, shared;
};
void bystander(const void *bytes)
{
	const auto &args = *static_cast<const bystander_args *>(bytes);
	if (ggas_warp() == 0)
		return;
	engine::warp w(*reinterpret_cast<const engine_args *>(args.engine),
		       reinterpret_cast<engine::shared *>(args.shared));
	w.load_epoch();
	if (w.epoch_changed() && w.enter_epoch())
		w.acknowledge();
}

bool is(const pages &memory, uint32_t offset, const pages &other, uint32_t from, uint32_t bytes)
{
	return memcmp(memory.at + offset, other.at + from, bytes) == 0 || wrong("bytes that differ", bytes);
}

} // namespace

bool engine_bystander()
{
	auto node = std::make_unique<engine_node>();
	auto shared = std::make_unique<engine::shared>();
	engine_args engine = {};
	engine.state[0] = address(node.get());
	engine.nodes = engine.requesters = 1;
	bystander_args args = { address(&engine), address(shared.get()) };
	node->epoch++;
	node->port[0].open = ENGINE_PORT_CLOSED;
	shared->queues[0].open = ENGINE_PORT_OPEN;
	run({ { bystander, &args, 1, 2 * GGAS_WARP_SIZE } });
	// Whoever reads it in one moment and writes it in another may write what was said long ago.
	return (node->ack[1] == node->epoch || wrong("acknowledgement", node->ack[1])) &&
	       (shared->queues[0].open == ENGINE_PORT_OPEN || wrong("a port that is not its own", 0));
}

bool engine_pair()
{
	constexpr uint32_t spec = EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER, page = 4096;
	constexpr uint32_t sizes[] = { 8, 99, 1000, page };
	network both(2, 1);
	pages from(page), back(page), to(9 * page);
	for (uint32_t i = 0; i < page; i++)
		from.at[i] = static_cast<char>(i * 7 + i / 256);
	both.map(0, 0, 0, from);
	both.map(0, 0, page, back);
	both.map(1, 0, 0, to);
	port origin(both, 0, 0), target(both, 1, 0);
	both.begin();
	bool good = origin.open() && target.open();
	// Each twice: the first one translates, and goes the long way. The order of what one host read before a later put of
	// another one is that of packets, which no atomics say: each goes to a place of its own.
	for (uint32_t i = 0; i < 8 && good; i++) {
		uint32_t size = sizes[i / 2], last = (size - 1) / EXTOLL_FRAGMENT * EXTOLL_FRAGMENT;
		uint32_t at = i * page + (size == 99 ? 3 : 0);
		good = origin.post(extoll_desc_put(0, 1, 0, spec, 0, 0, at, size)) &&
		       origin.expect(EXTOLL_NOTI_KIND_REQUESTER, last) &&
		       target.expect(EXTOLL_NOTI_KIND_COMPLETER, at + last) && is(to, at, from, 0, size);
	}
	good = good && origin.post(extoll_desc_get(0, 1, 0, EXTOLL_SPEC_COMPLETER, 0, 40, page + 80, 200)) &&
	       origin.expect(EXTOLL_NOTI_KIND_COMPLETER, page + 80) && is(back, 80, to, 40, 200);
	good = good && origin.post(extoll_desc_lock(1, 0, EXTOLL_SPEC_COMPLETER, 0, 0, 3, 5, 2)) &&
	       origin.expect(EXTOLL_NOTI_KIND_COMPLETER, extoll_noti_lock_word0(3, 1, 2));
	both.end();
	return good;
}

bool engine_changes()
{
	constexpr uint32_t posts = 100;
	network one(1, 0);
	port origin(one, 0, 0), target(one, 0, 1), other(one, 0, 2);
	one.begin();
	bool good = origin.open() && target.open() && other.open();
	std::atomic<uint64_t> taken = 0;
	std::atomic<bool> over = !good, posted = true, opened = true;
	std::thread poster([&] {
		for (uint64_t i = 0; i < posts && posted && !over; i++)
			for (uint32_t to = 1; to < 3; to++)
				posted = posted && origin.post(extoll_desc_notification_put(0, to, EXTOLL_SPEC_COMPLETER, 0, 1, i));
	});
	// Once for each notification, while its consumer goes on: engines that hear something at every look do nothing else.
	auto beside = [&](const std::function<bool()> &act) {
		return std::thread([&, act] {
			for (uint64_t seen = 0; !over; sched_yield())
				if (taken != seen) {
					seen = taken;
					opened = opened && act();
				}
		});
	};
	std::thread losses = beside([&] { return one.announce(0) != 0; });
	std::thread opener = beside([&] { return other.close_and_open(); });
	for (uint64_t i = 0; i < posts && good; i++) {
		good = target.expect(EXTOLL_NOTI_KIND_COMPLETER, i);
		taken++;
	}
	over = true;
	for (std::thread *thread : { &poster, &losses, &opener })
		thread->join();
	one.end();
	return good && posted && opened;
}
