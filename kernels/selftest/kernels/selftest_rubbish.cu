// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts what nobody should post.
#include "ggas/rma.cuh"

#include "selftest.h"

namespace rubbish
{

struct words {
	uint64_t state;

	GGAS_FN uint64_t next()
	{
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		return state;
	}
};

/* Any three words, or a valid frame around random fields, to nodes that exist. Its notifications are thrown away. */
GGAS_FN int descriptors(const selftest_rubbish &args, ggas_port *port)
{
	words random = { args.seed };
	for (uint32_t i = 0; i < args.count; i++) {
		extoll_desc desc = { { random.next(), random.next(), random.next() } };
		if (i % 2 == 0)
			desc.word[0] = (desc.word[0] & ~uint64_t(0xffffff03)) | EXTOLL_DESC_QUADWORDS |
				       (random.next() & 0xff) << EXTOLL_DESC_VPID_SHIFT |
				       static_cast<uint64_t>(i / 2 % 2) << EXTOLL_DESC_NODE_SHIFT;
		if (int error = gpu_rma2_post(port, desc))
			return error;
		extoll_noti noti;
		while (gpu_rma2_noti_probe(port, &noti))
			gpu_rma2_noti_free(port);
	}
	return gpu_rma2_drain(port);
}

/* Some words of a line, in any order, and no more: the kernel ends in the middle. */
GGAS_FN int part_of_a_line(const selftest_rubbish &args, ggas_port *port)
{
	auto *page = reinterpret_cast<uint64_t *>(port->req_pages +
						  (static_cast<uint64_t>(port->option) << EXTOLL_PAGE_OPTION_SHIFT));
	words random = { args.seed };
	for (uint32_t word = 0; word < 3; word++)
		if (args.part >> word & 1)
			ggas_store_mmio(page + word, random.next());
	return GGAS_OK;
}

} // namespace rubbish

// By one thread.
GGAS_KERNEL(ggas_selftest_rubbish, selftest_rubbish)
{
	auto *port = reinterpret_cast<ggas_port *>(args.port);
	int error = args.part ? rubbish::part_of_a_line(args, port) : rubbish::descriptors(args, port);
	*reinterpret_cast<uint64_t *>(args.status) = static_cast<uint64_t>(error);
}
