// SPDX-License-Identifier: MIT OR Apache-2.0
#include "nic.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

namespace
{
constexpr uint64_t page_bytes = uint64_t(32) << EXTOLL_PAGE_OPTION_SHIFT;

uint64_t address(const void *p)
{
	return reinterpret_cast<uint64_t>(p);
}
} // namespace

nic::nic(const nic_config &config) : config_(config), held_(config.nodes)
{
	std::vector<mmio_range> ranges;
	for (uint32_t node = 0; node < config.nodes; node++) {
		auto port = std::make_unique<unit>();
		port->queue.resize(config.queue_entries);
		port->slots.resize(config.slots);
		ggas_port &k = port->kernel;
		k.queue = address(port->queue.data());
		k.rp_register = address(&port->rp);
		k.queue_entries = config.queue_entries;
		k.timeout_ns = config.timeout_ns;
		k.node = node;
		k.vpid = 1;
		k.option = EXTOLL_OPTION_DEFAULT;
		k.rp_lazy = config.queue_entries / 8;
		k.slots = config.slots ? address(port->slots.data()) : 0;
		k.slot_consumed = address(&port->consumed);
		k.slot_mask = config.slots - 1;
		k.wcb_state = address(&port->wcb);
		k.lines = EXTOLL_WCB_ENTRIES - 1;
		// Never touched: only its addresses count.
		port->pages.reset(new char[page_bytes]);
		k.req_pages = address(port->pages.get());
		ranges.push_back({ k.req_pages, page_bytes, [this, unit = port.get()](uint64_t offset, uint64_t value) {
					  page_store(*unit, offset, value);
				  } });
		ports_.push_back(std::move(port));
	}
	mmio_ranges(std::move(ranges));
	thread_ = std::thread([this] { work(); });
}

nic::~nic()
{
	stop_ = true;
	thread_.join();
	mmio_ranges({});
}

void nic::work()
{
	while (!stop_) {
		bool busy = false;
		for (uint32_t node = 0; node < config_.nodes; node++)
			busy |= step(node);
		if (!busy)
			sched_yield();
	}
}

bool nic::step(uint32_t node)
{
	std::unique_ptr<extoll_desc> &held = held_[node];
	if (!held) {
		extoll_desc desc;
		if (!next(*ports_[node], &desc))
			return false;
		held = std::make_unique<extoll_desc>(desc);
	}
	if (!execute(node, *held))
		return false;
	held.reset();
	return true;
}

bool nic::next(unit &from, extoll_desc *desc)
{
	if (config_.slots) {
		uint64_t index = from.consumed;
		ggas_slot &slot = from.slots[index & from.kernel.slot_mask];
		ggas_u128 tail = ggas_load_acquire(reinterpret_cast<ggas_u128 *>(&slot.word[2]));
		if (tail.hi != index + 1)
			return false;
		ggas_u128 head = ggas_load_relaxed(reinterpret_cast<ggas_u128 *>(&slot.word[0]));
		*desc = { { head.lo, head.hi, tail.lo } };
		ggas_store_release(&from.consumed, index + 1);
		return true;
	}
	{
		unseen quiet;
		std::lock_guard lock(from.mutex);
		if (from.accepted.empty())
			return false;
		*desc = from.accepted.front();
		from.accepted.pop_front();
	}
	// Pairs with the fence before the words of a descriptor.
	ggas_fence_system();
	return true;
}

// Runs in the storing thread. Learns no order from it: only the kernel's own fence may give one.
void nic::page_store(unit &port, uint64_t offset, uint64_t value)
{
	unseen quiet;
	std::lock_guard lock(port.mutex);
	uint32_t word = static_cast<uint32_t>(offset & 0xfff) / 8;
	if (word > 2 || offset >> EXTOLL_PAGE_OPTION_SHIFT != EXTOLL_OPTION_DEFAULT) {
		fprintf(stderr, "store to offset %#llx of a requester page\n", static_cast<unsigned long long>(offset));
		abort();
	}
	port.words[word] = value;
	port.there |= 1u << word;
	if (port.there != 7)
		return;
	port.there = 0;
	uint64_t state = ggas_load_relaxed(&port.wcb);
	if (extoll_wcb_retry(state) || port.accepted.size() >= config_.card_depth) {
		rejected_++;
		state |= EXTOLL_PUT(1, EXTOLL_WCB_RETRY);
		state += EXTOLL_PUT(1, EXTOLL_WCB_REJECTED);
	} else {
		port.accepted.push_back({ { port.words[0], port.words[1], port.words[2] } });
		uint64_t committed = extoll_wcb_committed(state) + 1;
		state = (state & ~EXTOLL_PUT(~0ull, EXTOLL_WCB_COMMITTED)) | EXTOLL_PUT(committed, EXTOLL_WCB_COMMITTED);
	}
	ggas_store_relaxed(&port.wcb, state);
}

bool nic::room(const unit &port, uint32_t entries) const
{
	uint32_t rp = static_cast<uint32_t>(ggas_load_relaxed(&port.rp));
	uint32_t used = (port.wp + config_.queue_entries - rp) % config_.queue_entries;
	return used + entries < config_.queue_entries;
}

// False while a queue is full: tried again later.
bool nic::execute(uint32_t node, const extoll_desc &desc)
{
	uint32_t spec = static_cast<uint32_t>(EXTOLL_GET(desc.word[0], EXTOLL_DESC_SPEC));
	uint32_t command = static_cast<uint32_t>(EXTOLL_GET(desc.word[0], EXTOLL_DESC_COMMAND));
	unit &origin = *ports_[node];
	unit &target = *ports_[EXTOLL_GET(desc.word[0], EXTOLL_DESC_NODE)];
	if (!room(origin, 3) || !room(target, 3))
		return false;
	uint64_t size = EXTOLL_GET(desc.word[0], EXTOLL_DESC_SIZE) + 1, word0 = 0;
	switch (command) {
	case EXTOLL_CMD_BT_PUT:
	case EXTOLL_CMD_QW_PUT:
		memcpy(reinterpret_cast<void *>(desc.word[2]), reinterpret_cast<const void *>(desc.word[1]), size);
		word0 = desc.word[2];
		break;
	case EXTOLL_CMD_BT_GET:
	case EXTOLL_CMD_QW_GET:
		memcpy(reinterpret_cast<void *>(desc.word[2]), reinterpret_cast<const void *>(desc.word[1]), size);
		answer(node, desc, command + EXTOLL_CMD_GET_BT_RSP, desc.word[2]);
		return true;
	case EXTOLL_CMD_LOCK_REQ:
		answer(node, desc, EXTOLL_CMD_LOCK_RSP, 0);
		return true;
	case EXTOLL_CMD_IMMEDIATE_PUT:
		// Whole words are flags, behind what came before.
		size = EXTOLL_GET(desc.word[0], EXTOLL_DESC_COUNT) + 1;
		if (size == sizeof(uint64_t) && desc.word[1] % size == 0)
			ggas_store_release(reinterpret_cast<uint64_t *>(desc.word[1]), desc.word[2]);
		else
			memcpy(reinterpret_cast<void *>(desc.word[1]), &desc.word[2], size);
		word0 = desc.word[1];
		break;
	case EXTOLL_CMD_NOTIFICATION_PUT:
		word0 = desc.word[1];
		break;
	default:
		fprintf(stderr, "the loopback NIC knows no command %u\n", command);
		abort();
	}
	uint32_t other = target.kernel.node;
	if (spec & EXTOLL_SPEC_REQUESTER)
		notify(origin, EXTOLL_NOTI_KIND_REQUESTER, other, desc, word0);
	if (spec & EXTOLL_SPEC_COMPLETER)
		notify(target, EXTOLL_NOTI_KIND_COMPLETER, node, desc, word0);
	return true;
}

// Notifications of what is answered. Nobody looks at their addresses here, or at what a lock did.
void nic::answer(uint32_t node, const extoll_desc &desc, uint32_t command, uint64_t word0)
{
	uint32_t spec = static_cast<uint32_t>(EXTOLL_GET(desc.word[0], EXTOLL_DESC_SPEC));
	unit &origin = *ports_[node];
	unit &target = *ports_[EXTOLL_GET(desc.word[0], EXTOLL_DESC_NODE)];
	if (spec & EXTOLL_SPEC_REQUESTER)
		notify(origin, EXTOLL_NOTI_KIND_REQUESTER, target.kernel.node, desc, word0);
	if (spec & EXTOLL_SPEC_RESPONDER)
		notify(target, EXTOLL_NOTI_KIND_RESPONDER, node, desc, word0);
	if (spec & EXTOLL_SPEC_COMPLETER)
		notify(origin, EXTOLL_NOTI_KIND_COMPLETER, target.kernel.node, desc, word0, command);
}

void nic::notify(unit &port, uint32_t kind, uint32_t node, const extoll_desc &desc, uint64_t word0)
{
	notify(port, kind, node, desc, word0, static_cast<uint32_t>(EXTOLL_GET(desc.word[0], EXTOLL_DESC_COMMAND)));
}

void nic::notify(unit &port, uint32_t kind, uint32_t node, const extoll_desc &desc, uint64_t word0, uint32_t command)
{
	uint32_t field = static_cast<uint32_t>(EXTOLL_GET(desc.word[0], EXTOLL_DESC_SIZE));
	uint64_t word1 = extoll_noti_word1(kind, command, node, 1, EXTOLL_NOTI_MODE_TE, 0, field);
	ggas_store_release(&port.queue[port.wp], ggas_u128{ word0, word1 });
	port.wp = (port.wp + 1) % config_.queue_entries;
}
