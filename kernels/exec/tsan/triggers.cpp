// SPDX-License-Identifier: MIT OR Apache-2.0
// Triggered operations under ThreadSanitizer: a loopback unit in C++, as that does not see the order that Rust's atomics
// make.
#include "triggers.h"

#include <sched.h>
#include <stdio.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "selftest_tn.cu"
#include "threads.h"

namespace
{
constexpr uint32_t blocks = 3, threads = 2 * GGAS_WARP_SIZE, all = blocks * threads;

template <class T> uint64_t address(T *object)
{
	return reinterpret_cast<uint64_t>(object);
}

struct operation {
	uint32_t threshold, count, bytes;
	uint64_t *from, *to;
};

// A table of operations, one put each, with the tag as its index.
class unit {
public:
	unit(std::vector<operation> operations, bool slots) : operations_(std::move(operations))
	{
		words_.resize(operations_.size());
		tn.words = address(words_.data());
		tn.status = address(status_);
		tn.operations = static_cast<uint32_t>(words_.size());
		tn.timeout_ns = 60'000'000'000;
		if (slots) {
			tn.slots = address(slots_);
			tn.slot_mask = 7;
			tn.slot_consumed = address(&consumed_);
		} else {
			tn.page = address(page_);
			mmio_ranges({ { tn.page, sizeof(page_), [this](uint64_t at, uint64_t value) { store(at, value); } } });
		}
		thread_ = std::thread([this] { work(); });
	}
	~unit()
	{
		stop_ = true;
		thread_.join();
		mmio_ranges({});
	}
	ggas_tn tn = {};

private:
	// Runs in the storing thread. Learns no order from it: only the kernel's own fence may give one.
	void store(uint64_t at, uint64_t value)
	{
		unseen quiet;
		std::lock_guard lock(mutex_);
		if (at == EXTOLL_TRIGGER_WHERE)
			where_ = value;
		else if (at == EXTOLL_TRIGGER_FIRE || at == EXTOLL_TRIGGER_FIRE_FIELDS)
			fifo_.push_back({ { value, at == EXTOLL_TRIGGER_FIRE ? 0 : where_, at } });
	}

	bool next(extoll_desc *trigger)
	{
		if (tn.slots) {
			ggas_slot &slot = slots_[consumed_ & tn.slot_mask];
			ggas_u128 tail = ggas_load_acquire(reinterpret_cast<ggas_u128 *>(&slot.word[2]));
			if (tail.hi != consumed_ + 1)
				return false;
			ggas_u128 head = ggas_load_relaxed(reinterpret_cast<ggas_u128 *>(&slot.word[0]));
			*trigger = { { head.lo, head.hi, tail.lo } };
			ggas_store_release(&consumed_, consumed_ + 1);
			return true;
		}
		{
			unseen quiet;
			std::lock_guard lock(mutex_);
			if (fifo_.empty())
				return false;
			*trigger = fifo_.front();
			fifo_.pop_front();
		}
		// Pairs with the fence before a tag.
		ggas_fence_system();
		return true;
	}

	void work()
	{
		while (!stop_) {
			extoll_desc trigger;
			if (!next(&trigger)) {
				sched_yield();
				continue;
			}
			operation &put = operations_[trigger.word[0]];
			if (++put.count != put.threshold)
				continue;
			uint64_t more = EXTOLL_GET(trigger.word[1], EXTOLL_TRIGGER_LOCAL);
			memcpy(put.to + more / 8, put.from + more / 8, put.bytes);
			ggas_store_release(&words_[trigger.word[0]], 1u);
		}
	}

	std::vector<operation> operations_;
	std::vector<uint64_t> words_;
	uint64_t status_[EXTOLL_TRIGGER_STATUS_WORDS] = {};
	ggas_slot slots_[8] = {};
	uint64_t consumed_ = 0;
	uint64_t page_[EXTOLL_RF_TRIGGER_STRIDE / 8];
	std::mutex mutex_;
	std::deque<extoll_desc> fifo_;
	uint64_t where_ = 0;
	std::atomic<bool> stop_ = false;
	std::thread thread_;
};

// The puts of a form: words `first` to `first + words` when `threshold` triggers came.
template <class Put> void puts_of(uint32_t form, Put put)
{
	switch (form) {
	case SELFTEST_TN_ITEMS:
		for (uint32_t i = 0; i < all; i++)
			put(i, 1u, 1u);
		break;
	case SELFTEST_TN_FIELDS:
		for (uint32_t i = 0; i < all; i++)
			put(0u, 1u, 1u);
		break;
	case SELFTEST_TN_PAIRS:
		for (uint32_t i = 0; i < all; i += 2)
			put(i, 2u, 2u);
		break;
	case SELFTEST_TN_WARPS:
		for (uint32_t i = 0; i < all; i += GGAS_WARP_SIZE)
			put(i, uint32_t(GGAS_WARP_SIZE), 1u);
		break;
	case SELFTEST_TN_GROUPS:
		for (uint32_t i = 0; i < all; i += threads)
			put(i, threads, 1u);
		break;
	default:
		put(0u, all, form == SELFTEST_TN_BY_ITEMS ? all : blocks);
	}
}

bool run_form(ggas_tn *tn, uint32_t form, std::vector<uint64_t> &data, const uint64_t *arrived)
{
	uint64_t status = 0, wrong = 0;
	selftest_tn args = { address(tn), address(&status), address(&wrong), address(data.data()), 0, 0, 1, form, 7, 0, 0 };
	run({ { ggas_host_ggas_selftest_tn, &args, blocks, threads } });
	for (uint32_t i = 0; i < all; i++)
		wrong += arrived[i] != tn_checks::value(i, 7);
	if (status || wrong)
		fprintf(stderr, "WRONG: status %llu, %llu words differ\n", static_cast<unsigned long long>(status),
			static_cast<unsigned long long>(wrong));
	return !status && !wrong;
}

struct race_trigger_args {
	uint64_t tn, data;
	uint32_t planted, reserved;
};
} // namespace

// Each thread writes a word; thread 0 triggers what sends them. The bug: a plain store of the tag, without a release.
GGAS_KERNEL(race_trigger, race_trigger_args)
{
	ggas_tn *tn = reinterpret_cast<ggas_tn *>(args.tn);
	reinterpret_cast<uint64_t *>(args.data)[ggas_thread()] = ggas_thread();
	ggas_syncthreads();
	if (ggas_thread() != 0)
		return;
	if (args.planted)
		ggas_store_mmio(reinterpret_cast<uint64_t *>(tn->page), 0);
	else
		ggas_tn_trigger_thread(tn, 0);
	ggas_tn_wait_thread(tn, 0);
}

bool triggers_of_unit(uint32_t form, bool slots)
{
	std::vector<uint64_t> data(all), arrived(all);
	std::vector<operation> operations;
	puts_of(form, [&](uint32_t first, uint32_t words, uint32_t threshold) {
		operations.push_back({ threshold, 0, 8 * words, &data[first], &arrived[first] });
	});
	unit loopback(std::move(operations), slots);
	return run_form(&loopback.tn, form, data, arrived.data());
}

bool triggers_of_poster(uint32_t form, bool alike)
{
	std::vector<uint64_t> data(all), part(all), status(EXTOLL_TRIGGER_STATUS_WORDS);
	std::vector<ggas_tn_entry> entries;
	puts_of(form, [&](uint32_t first, uint32_t words, uint32_t threshold) {
		ggas_tn_entry entry = {};
		ggas_impl::tn_operation put;
		entry.count = ggas_impl::tn_registration(0, 0, threshold);
		put.local = address(&data[first]);
		put.offset = 8 * first;
		put.bytes = 8 * words;
		put.what = GGAS_TN_PUT | GGAS_TN_FIELDS;
		put.word = static_cast<uint32_t>(entries.size());
		put.write(&entry, entry.count);
		entries.push_back(entry);
	});
	std::vector<uint64_t> words(entries.size());
	ggas_tn tn = {};
	tn.entries = address(entries.data());
	tn.words = address(words.data());
	tn.status = address(status.data());
	tn.operations = tn.tags = static_cast<uint32_t>(entries.size());
	tn.likely = alike ? ggas_impl::tn_registration(0, 0, 1) : GGAS_TN_UNALIKE;
	tn.timeout_ns = 60'000'000'000;
	tn.window = { address(part.data()), address(part.data()), 0, 8 * all, 0, 1, 0, tn.timeout_ns };
	return run_form(&tn, form, data, part.data());
}

bool trigger_race(bool planted)
{
	std::vector<uint64_t> data(threads), arrived(threads);
	unit loopback({ { 1, 0, 8 * threads, data.data(), arrived.data() } }, false);
	race_trigger_args args = { address(&loopback.tn), address(data.data()), planted, 0 };
	run({ { ggas_host_race_trigger, &args, 1, threads } });
	bool good = true;
	for (uint32_t i = 0; i < threads; i++)
		good &= arrived[i] == i;
	return good;
}
