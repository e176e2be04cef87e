/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Boundaries of gmpi-himeno: what the blocks of a node exchange with its neighbours, and where it lies. */
#ifndef GGAS_BENCH_GMPI_HIMENO_CUH
#define GGAS_BENCH_GMPI_HIMENO_CUH

#include "bench_himeno_sides.cuh"
#include "ggas/gmpi.cuh"

namespace bench_gmpi_himenos
{

using bench_himenos::pointer;

/* A boundary that this node exchanges, and what the calling block has of it. Of each field its own places. */
struct message {
	const bench_himeno_side *side;
	float *out[2], *in[2];	/* by calls: `count` of `type`; packed, and by puts: the boundary's first float, there and as it came */
	MPI_Datatype type;
	int count;
	uint32_t node;
	uint64_t begin, end;	/* floats of it */
	bool packed;		/* by kernels, around calls or puts */
};

/* The calling block's part of a box of points as it lies in the fields: whole slices of it. */
GGAS_FN void take_slices(const bench_gmpi_himeno &args, const bench_himeno_side &side, message *m)
{
	const bench_himeno &grid = args.grid;
	bool planes = side.extent[2] > 1;
	uint64_t slices = planes ? side.extent[2] : side.extent[1], apart = planes ? bench_himenos::plane_floats(grid) : grid.pitch;
	uint64_t piece = ggas_block(), pieces = args.pieces;
	uint64_t first = piece >= pieces ? slices : slices * piece / pieces, end = piece >= pieces ? slices : slices * (piece + 1) / pieces;
	int count = static_cast<int>(end - first), rows = planes ? static_cast<int>(side.extent[1]) : count;
	for (uint32_t i = 0; i < 2; i++) {
		float *field = bench_himenos::field(grid, i) + first * apart;
		m->out[i] = field + side.from;
		m->in[i] = field + side.beyond;
	}
	m->type = MPI_FLOAT;
	m->count = 0;
	if (!count)
		return;
	int sizes[3] = { count, static_cast<int>(grid.rows), static_cast<int>(grid.pitch) }, starts[3] = {};
	int parts[3] = { count, rows, static_cast<int>(side.extent[0]) };
	int from = planes ? 0 : 1;
	int error = GMPI_Type_create_subarray(3 - from, sizes + from, parts + from, starts + from, MPI_ORDER_C, MPI_FLOAT, &m->type);
	error = error ? error : GMPI_Type_commit(&m->type);
	/* A box that is no type is told by the first call. */
	m->count = error ? -1 : 1;
}

/* By direct calls all goes from field to field, by puts what lies together. The daemon's calls take attached memory. */
GGAS_FN message message_of(const bench_gmpi_himeno &args, uint32_t number)
{
	const bench_himeno &grid = args.grid;
	const bench_himeno_side &side = bench_himenos::side_of(grid, number);
	const ggas_window &window = *pointer<const ggas_window>(grid.window);
	bool whole = args.way == BENCH_GMPI_DAEMON, direct = args.way == BENCH_GMPI_DIRECT;
	uint64_t floats = bench_himenos::floats_of(side), piece = ggas_block(), pieces = args.pieces;
	/* Pieces begin at multiples of 128 bytes. */
	auto cut = [=](uint64_t piece) { return piece >= pieces ? floats : floats * piece / pieces / 32 * 32; };
	message m = {};
	m.side = &side;
	m.node = side.node;
	m.begin = whole ? 0 : cut(piece);
	m.end = whole ? floats : cut(piece + 1);
	m.type = MPI_FLOAT;
	m.count = static_cast<int>(m.end - m.begin);
	m.packed = whole || (side.packed && !direct);
	uint64_t at = pointer<const uint64_t>(args.place)[number];
	for (uint32_t i = 0; i < 2; i++) {
		float *field = bench_himenos::field(grid, i);
		if (args.way == BENCH_GMPI_PUT) {
			m.out[i] = m.packed ? ggas_pointer_of_node<float>(&window, side.node, side.arrives_there[i]) :
					      ggas_pointer_of_node<float>(&window, side.node, grid.field[i]) + side.to;
			m.in[i] = pointer<float>(window.local + side.arrives[i]);
		} else {
			m.out[i] = whole ? pointer<float>(args.message + at) : field + side.from + m.begin;
			m.in[i] = whole ? pointer<float>(args.message + args.message_bytes + at) : field + side.beyond + m.begin;
		}
	}
	if (side.packed && direct)
		take_slices(args, side, &m);
	return m;
}

/* The boundaries of the calling block, looked up once: it takes longer than to send one. */
class messages {
public:
	GGAS_FN explicit messages(const bench_gmpi_himeno &args) : count_(args.grid.sides), kept_(room())
	{
		for (uint32_t i = ggas_thread(); i < count_; i += ggas_threads())
			kept_[i] = message_of(args, i);
		ggas_syncthreads();
	}
	GGAS_FN uint32_t count() const { return count_; }
	GGAS_FN const message &operator[](uint32_t i) const { return kept_[i]; }

private:
	/* A part in the midst of others has 6 faces and 12 edges. */
	static constexpr uint32_t most = 18;
	GGAS_FN static message *room()
	{
		GGAS_SHARED_ARRAY(message, kept, most);
		return kept;
	}

	uint32_t count_;
	message *kept_;
};

} /* namespace bench_gmpi_himenos */

#endif /* GGAS_BENCH_GMPI_HIMENO_CUH */
