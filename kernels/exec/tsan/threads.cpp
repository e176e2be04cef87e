// SPDX-License-Identifier: MIT OR Apache-2.0
#include "threads.h"

#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

extern "C" {
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
}

unseen::unseen()
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
	AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}
unseen::~unseen()
{
	AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

__thread ggas_exec_thread *ggas_exec_self;

namespace
{

constexpr uint32_t warp_size = 32;

// Threads meet, and one bit of each is or-ed.
class barrier {
public:
	explicit barrier(uint32_t threads) : threads_(threads) {}
	bool meet(bool bit)
	{
		std::unique_lock lock(mutex_);
		any_ |= bit;
		uint64_t round = round_;
		if (++arrived_ == threads_) {
			arrived_ = 0;
			result_ = any_;
			any_ = false;
			round_++;
			changed_.notify_all();
		} else {
			changed_.wait(lock, [&] { return round_ != round; });
		}
		return result_;
	}

private:
	std::mutex mutex_;
	std::condition_variable changed_;
	uint32_t threads_, arrived_ = 0;
	uint64_t round_ = 0;
	bool any_ = false, result_ = false;
};

// Lanes named by the same mask meet and exchange a value each.
class warp {
public:
	explicit warp(uint32_t lanes) : present_(lanes == warp_size ? ~0u : (1u << lanes) - 1) {}
	uint64_t exchange(uint32_t op, uint32_t mask, uint32_t lane, uint64_t value, uint32_t argument)
	{
		std::unique_lock lock(mutex_);
		std::shared_ptr<meeting> &slot = meetings_[{ op, mask }];
		if (!slot)
			slot = std::make_shared<meeting>();
		std::shared_ptr<meeting> mine = slot;
		mine->value[lane] = value;
		mine->arrived |= 1u << lane;
		if (mine->arrived == (mask & present_)) {
			meetings_.erase({ op, mask });
			mine->done = true;
			changed_.notify_all();
		} else {
			changed_.wait(lock, [&] { return mine->done; });
		}
		if (op == GGAS_WARP_SHUFFLE)
			return mine->arrived >> argument & 1 ? mine->value[argument] : value;
		uint64_t ballot = 0;
		for (uint32_t l = 0; l < warp_size; l++)
			ballot |= static_cast<uint64_t>(mine->value[l] != 0) << l;
		return op == GGAS_WARP_BALLOT ? ballot : 0;
	}

private:
	struct meeting {
		uint64_t value[warp_size] = {};
		uint32_t arrived = 0;
		bool done = false;
	};
	std::mutex mutex_;
	std::condition_variable changed_;
	uint32_t present_;
	std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<meeting>> meetings_;
};

struct block {
	explicit block(uint32_t threads) : everyone(threads)
	{
		for (uint32_t first = 0; first < threads; first += warp_size) {
			uint32_t lanes = std::min(threads - first, warp_size);
			warps.push_back(std::make_unique<warp>(lanes));
			warp_barriers.emplace_back();
		}
	}
	~block()
	{
		for (auto &[key, memory] : shared)
			free(memory);
	}
	barrier everyone;
	std::vector<std::unique_ptr<warp>> warps;
	// __syncwarp orders memory between the lanes of its mask.
	std::vector<std::map<uint32_t, std::unique_ptr<barrier>>> warp_barriers;
	std::mutex mutex;
	std::map<const void *, void *> shared;
};

block *block_of(ggas_exec_thread *self)
{
	return static_cast<block *>(self->runtime);
}

std::vector<mmio_range> &ranges()
{
	static std::vector<mmio_range> all;
	return all;
}

} // namespace

void mmio_ranges(std::vector<mmio_range> all)
{
	ranges() = std::move(all);
}

void run(const std::vector<launch> &launches)
{
	std::vector<std::unique_ptr<block>> blocks;
	std::vector<std::thread> threads;
	for (const launch &l : launches)
		for (uint32_t b = 0; b < l.grid; b++) {
			blocks.push_back(std::make_unique<block>(l.block));
			for (uint32_t t = 0; t < l.block; t++)
				threads.emplace_back([&l, b, t, owner = blocks.back().get()] {
					ggas_exec_thread self = {};
					self.thread = t;
					self.threads = l.block;
					self.block = b;
					self.blocks = l.grid;
					self.runtime = owner;
					ggas_exec_self = &self;
					l.kernel(l.args);
				});
		}
	for (std::thread &thread : threads)
		thread.join();
}

extern "C" {

void ggas_exec_pause(ggas_exec_thread *, uint32_t)
{
	sched_yield();
}

uint32_t ggas_exec_syncthreads(ggas_exec_thread *self, uint32_t predicate, const char *, uint32_t)
{
	return block_of(self)->everyone.meet(predicate != 0);
}

uint64_t ggas_exec_warp(ggas_exec_thread *self, uint32_t op, uint32_t mask, uint64_t value, uint32_t argument)
{
	uint32_t number = self->thread / warp_size, lane = self->thread % warp_size;
	warp &mine = *block_of(self)->warps[number];
	if (op == GGAS_WARP_SYNC)
		return mine.exchange(op, mask, lane, value, argument);
	unseen quiet;
	return mine.exchange(op, mask, lane, value, argument);
}

void ggas_exec_mmio(ggas_exec_thread *, uint64_t address, uint64_t value, uint32_t bytes)
{
	for (const mmio_range &range : ranges())
		if (address - range.start < range.bytes)
			return range.store(address - range.start, value);
	if (bytes == 4)
		__atomic_store_n(reinterpret_cast<uint32_t *>(address), static_cast<uint32_t>(value), __ATOMIC_RELAXED);
	else
		__atomic_store_n(reinterpret_cast<uint64_t *>(address), value, __ATOMIC_RELAXED);
}

// Nothing is trapped here: nobody asks.
uint64_t ggas_exec_traps[2] = { ~0ull, 0 };
uint32_t ggas_exec_access(ggas_exec_thread *, uint32_t, uint64_t, void *, uint32_t) { return 0; }

// Time is real here: nobody asks.
uint64_t ggas_exec_time(ggas_exec_thread *) { return 0; }

// All blocks run at once.
void ggas_exec_settle(ggas_exec_thread *) {}
uint32_t ggas_exec_unstarted(ggas_exec_thread *) { return 0; }

void *ggas_exec_shared(ggas_exec_thread *self, const void *key, size_t size, size_t align)
{
	unseen quiet;
	block *mine = block_of(self);
	std::lock_guard lock(mine->mutex);
	void *&memory = mine->shared[key];
	if (!memory)
		memory = aligned_alloc(std::max<size_t>(align, 16), (size + 15) / 16 * 16);
	return memory;
}

} // extern "C"
