/* What two ends of a queue pair do to each other, round by round. Each knows all of it beforehand, of both, from their
 * seeds alone, so that each checks every byte that the other one sends, writes, reads or swaps. The same plan in Rust is
 * fpga-sim/hca/judge/src/plan.rs. */
#ifndef RXE_PLAN_H
#define RXE_PLAN_H

#include <stdint.h>
#include <string.h>

enum { OPS = 64, LONGEST = 4096, SLOT = LONGEST + 64, WORDS = 16 };
/* Regions of an end: what the other one writes to, reads from, swaps. */
enum { LANDING = 0, READABLE = LANDING + OPS * SLOT, COUNTERS = READABLE + OPS * SLOT, SHARED = COUNTERS + WORDS * 8 };
/* The round whose bytes are those of the readable region. */
static const uint32_t NEVER = 0x7fffffff;

enum kind { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, SWAP, ADD };

struct op {
	enum kind kind;
	uint32_t length;
	uint32_t imm;
	/* Bytes into the other end's readable region. */
	uint32_t from;
	unsigned int word;
	uint64_t add;
	/* The swap compares with what is there, or with something else. */
	int matches;
};

static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

static inline uint64_t key(uint64_t seed, uint32_t round, uint32_t i)
{
	return mix(mix(seed) ^ ((uint64_t)round << 32 | i));
}

/* Most lengths are near multiples of a packet's 1024 bytes, where packets begin and end, or small. */
static inline uint32_t length_of(uint64_t h)
{
	uint32_t near = 1024 * (1 + (h >> 8) % 4) - 2 + (h >> 16) % 5;

	switch (h % 4) {
	case 0:
		return (h >> 8) % 33;
	case 1:
		return near > LONGEST ? LONGEST : near;
	default:
		return (h >> 8) % (LONGEST + 1);
	}
}

static inline struct op op_of(uint64_t seed, uint32_t round, uint32_t i)
{
	static const enum kind kinds[16] = { SEND, SEND, SEND, SEND, SEND_IMM, WRITE, WRITE, WRITE,
					     WRITE_IMM, WRITE_IMM, READ, READ, READ, SWAP, SWAP, ADD };
	uint64_t k = key(seed, round, i), a = mix(k), b = mix(a), c = mix(b);
	struct op op = { .kind = kinds[a % 16], .length = length_of(b), .imm = (uint32_t)c };

	op.from = (uint32_t)(mix(c) % (OPS * SLOT - LONGEST + 1));
	op.word = (unsigned int)(b % WORDS);
	op.add = c;
	op.matches = (c >> 32) % 4 != 0;
	/* Reads and writes of nothing are too much for rdma_rxe of 6.12 when answers are lost. */
	if (op.kind != SEND && op.kind != SEND_IMM && op.length == 0)
		op.length = 1;
	if (op.kind == SWAP || op.kind == ADD)
		op.length = 8;
	return op;
}

static inline int is_arrival(enum kind kind)
{
	return kind == SEND || kind == SEND_IMM || kind == WRITE_IMM;
}

/* Bytes of a message; `n` from byte `from`. */
static inline void bytes_of(uint64_t seed, uint32_t round, uint32_t i, uint32_t from, unsigned char *to, uint32_t n)
{
	uint64_t k = key(seed, round, i) ^ 0x5555555555555555, word = 0;

	for (uint32_t at = from; at < from + n; at++) {
		if (at == from || at % 8 == 0)
			word = mix(k + at / 8);
		to[at - from] = (unsigned char)(word >> at % 8 * 8);
	}
}

/* What a swap or an addition makes of the words; `was`: what it answers. */
static inline void apply(const struct op *op, uint64_t words[WORDS], uint64_t *compare, uint64_t *was)
{
	uint64_t *word = &words[op->word];

	*was = *word;
	*compare = op->matches ? *word : ~*word;
	if (op->kind == ADD)
		*word += op->add;
	else if (op->matches)
		*word = op->add;
}

#endif
