// SPDX-License-Identifier: MIT OR Apache-2.0
// Conjugate gradients for the one-dimensional Poisson equation, cut among the ranks: a whole solver in one kernel, which exchanges
// halos and adds up by MPI calls as a program of hosts would.
#include "ggas/gmpi.cuh"

/* `Cg` in src/main.rs. Vectors of this rank's points; p has one point more at either end, the neighbours'. */
struct cg {
	uint64_t buf;		/* gmpi_buf_t */
	uint64_t x, r, p, q;	/* double[points], p: double[points + 2]; r is the right-hand side at the start, x is 0 */
	uint64_t sums;		/* double[2] */
	uint64_t requests;	/* MPI_Request[4] */
	uint64_t outcome;	/* uint64_t: iterations, and from bit 32 on the error class that ended it */
	double tolerance;	/* of the squared residual */
	uint32_t points;
	uint32_t iterations;	/* at most */
};

namespace gmpi_cg
{

struct solver {
	gmpi_buf_t *buf;
	double *x, *r, *p, *q, *sums;
	MPI_Request *requests;
	uint32_t points;
};

/* The sum over all ranks of a * b, for all threads. */
GGAS_FN int dot(const solver &s, const double *a, const double *b, double *sum)
{
	GGAS_SHARED_ARRAY(double, parts, 1024);
	double part = 0;
	for (uint32_t i = ggas_thread(); i < s.points; i += ggas_threads())
		part += a[i] * b[i];
	parts[ggas_thread()] = part;
	ggas_syncthreads();
	if (ggas_thread() == 0) {
		double all = 0;
		for (uint32_t i = 0; i < ggas_threads(); i++)
			all += parts[i];
		s.sums[0] = all;
	}
	if (int error = GMPI_Allreduce(s.buf, s.sums, s.sums + 1, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD))
		return error;
	*sum = s.sums[1];
	ggas_syncthreads();
	return MPI_SUCCESS;
}

/* Points next to ours; beyond the ends there is nobody, and 0. */
GGAS_FN int halo(const solver &s)
{
	int rank = static_cast<int>(s.buf->rank), size = static_cast<int>(s.buf->size);
	int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
	double *p = s.p;
	int error = GMPI_Irecv(s.buf, p, 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, s.requests);
	error |= GMPI_Irecv(s.buf, p + s.points + 1, 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, s.requests + 1);
	error |= GMPI_Isend(s.buf, p + 1, 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, s.requests + 2);
	error |= GMPI_Isend(s.buf, p + s.points, 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, s.requests + 3);
	return error ? error : GMPI_Waitall(s.buf, 4, s.requests, MPI_STATUSES_IGNORE);
}

GGAS_FN int iterate(const solver &s, double *rr)
{
	if (int error = halo(s))
		return error;
	for (uint32_t i = ggas_thread(); i < s.points; i += ggas_threads())
		s.q[i] = 2 * s.p[i + 1] - s.p[i] - s.p[i + 2];
	double pq, next;
	if (int error = dot(s, s.p + 1, s.q, &pq))
		return error;
	double alpha = *rr / pq;
	for (uint32_t i = ggas_thread(); i < s.points; i += ggas_threads()) {
		s.x[i] += alpha * s.p[i + 1];
		s.r[i] -= alpha * s.q[i];
	}
	if (int error = dot(s, s.r, s.r, &next))
		return error;
	double beta = next / *rr;
	for (uint32_t i = ggas_thread(); i < s.points; i += ggas_threads())
		s.p[i + 1] = s.r[i] + beta * s.p[i + 1];
	*rr = next;
	return MPI_SUCCESS;
}

} // namespace gmpi_cg

/* By one block: a grid of several would meet (blocks.cuh) where this one has its barriers. */
GGAS_KERNEL(gmpi_cg_solve, cg)
{
	gmpi_cg::solver s = { reinterpret_cast<gmpi_buf_t *>(args.buf), reinterpret_cast<double *>(args.x),
			      reinterpret_cast<double *>(args.r), reinterpret_cast<double *>(args.p),
			      reinterpret_cast<double *>(args.q), reinterpret_cast<double *>(args.sums),
			      reinterpret_cast<MPI_Request *>(args.requests), args.points };
	double rr = 0;
	uint32_t done = 0;
	for (uint32_t i = ggas_thread(); i < s.points; i += ggas_threads())
		s.p[i + 1] = s.r[i];
	int error = gmpi_cg::dot(s, s.r, s.r, &rr);
	for (; !error && done < args.iterations && rr > args.tolerance; done++)
		error = gmpi_cg::iterate(s, &rr);
	if (ggas_thread() == 0)
		*reinterpret_cast<uint64_t *>(args.outcome) = done | static_cast<uint64_t>(error) << 32;
}
