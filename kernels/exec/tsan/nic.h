// SPDX-License-Identifier: MIT OR Apache-2.0
// A loopback NIC for ThreadSanitizer, which does not see the order that Rust's
// atomics make: all commands between ports of this process, from slot rings and
// from requester pages. NLAs are plain addresses; locks always give 0.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ggas/rma.cuh"
#include "threads.h"

struct nic_config {
	uint32_t nodes = 2;
	uint32_t slots = 64;	     // 0: card path
	uint32_t queue_entries = 64;
	uint32_t card_depth = 2;     // card path: descriptors that the NIC holds before it rejects
	uint64_t timeout_ns = 60'000'000'000;
};

class nic {
public:
	explicit nic(const nic_config &config);
	~nic();
	ggas_port *port(uint32_t node) { return &ports_[node]->kernel; }
	uint64_t rejected() const { return rejected_; }

private:
	// Everything of a VPID. Kernels see `kernel` and what its addresses name.
	struct unit {
		ggas_port kernel = {};
		std::vector<ggas_u128> queue;
		std::vector<ggas_slot> slots;
		uint64_t consumed = 0, rp = 0, wcb = 0;
		uint32_t wp = 0;
		std::unique_ptr<char[]> pages;
		// The write-combining buffer, and what it let through.
		std::mutex mutex;
		uint64_t words[3] = {};
		uint32_t there = 0;
		std::deque<extoll_desc> accepted;
	};

	void work();
	bool step(uint32_t node);
	bool next(unit &from, extoll_desc *desc);
	bool execute(uint32_t node, const extoll_desc &desc);
	bool room(const unit &port, uint32_t entries) const;
	void answer(uint32_t node, const extoll_desc &desc, uint32_t command, uint64_t word0);
	void notify(unit &port, uint32_t kind, uint32_t node, const extoll_desc &desc, uint64_t word0);
	void notify(unit &port, uint32_t kind, uint32_t node, const extoll_desc &desc, uint64_t word0, uint32_t command);
	void page_store(unit &port, uint64_t offset, uint64_t value);

	nic_config config_;
	std::vector<std::unique_ptr<unit>> ports_;
	std::vector<std::unique_ptr<extoll_desc>> held_;
	std::atomic<bool> stop_ = false;
	std::atomic<uint64_t> rejected_ = 0;
	std::thread thread_;
};
