/* One end of a queue pair on libibverbs, with every byte checked: rxe-verbs [-s SEED] [-r ROUNDS] [-p PORT] self|listen|ADDRESS
 *
 * self: both ends are this program, in two processes on one device. Else the other end is at the other end of a TCP
 * connection, over which both tell their queue pairs and wait for each other between rounds. */
#include "line.h"
#include "plan.h"

#include <infiniband/verbs.h>
#include <sys/wait.h>

/* Behind what the other end reaches: what messages are sent from, and where they, data that was read and answers come. */
enum { OUT = SHARED, IN = OUT + OPS * SLOT, RESULTS = IN + OPS * SLOT, ALL = RESULTS + OPS * SLOT };

struct end {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *shared, *own;
	struct ibv_qp *qp;
	unsigned char *memory;
	int gid_index;
	int line;
};

/* The first of the port's addresses that is an IPv4 one: its packets are RoCEv2. */
static int ipv4_gid(struct ibv_context *device, char text[33])
{
	static const unsigned char mapped[12] = { [10] = 0xff, 0xff };
	struct ibv_gid_entry entry;

	for (int i = 0; i < 16; i++) {
		if (ibv_query_gid_ex(device, 1, i, &entry, 0) || entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(entry.gid.raw, mapped, sizeof(mapped)))
			continue;
		for (int k = 0; k < 16; k++)
			sprintf(text + 2 * k, "%02x", entry.gid.raw[k]);
		return i;
	}
	CHECK(!"the device has no IPv4 address");
	return -1;
}

static void open_end(struct end *end, struct hello *hello)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	CHECK(all && all[0]);
	end->device = ibv_open_device(all[0]);
	CHECK(end->device);
	ibv_free_device_list(all);
	end->gid_index = ipv4_gid(end->device, hello->gid);
	end->pd = ibv_alloc_pd(end->device);
	CHECK(end->pd);
	end->cq = ibv_create_cq(end->device, 4 * OPS, NULL, NULL, 0);
	CHECK(end->cq);
	CHECK(!posix_memalign((void **)&end->memory, 4096, ALL));
	memset(end->memory, 0, ALL);
	/* Of what lies behind it the other end has no key. */
	end->shared = ibv_reg_mr(end->pd, end->memory, SHARED,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(end->shared);
	end->own = ibv_reg_mr(end->pd, end->memory, ALL, IBV_ACCESS_LOCAL_WRITE);
	CHECK(end->own);
	struct ibv_qp_init_attr attr = { .send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC };
	attr.cap = (struct ibv_qp_cap){ .max_send_wr = OPS, .max_recv_wr = OPS, .max_send_sge = 1, .max_recv_sge = 1 };
	end->qp = ibv_create_qp(end->pd, &attr);
	CHECK(end->qp);
	hello->qpn = end->qp->qp_num;
	hello->psn = mix(hello->seed) & 0xffffff;
	hello->rkey = end->shared->rkey;
	hello->address = (uintptr_t)end->memory;
}

static void connect_end(struct end *end, const struct hello *mine, const struct hello *theirs)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_port_attr port;

	CHECK(!ibv_query_port(end->device, 1, &port));
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	CHECK(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu };
	attr.dest_qp_num = theirs->qpn;
	attr.rq_psn = theirs->psn;
	attr.max_dest_rd_atomic = 16;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.hop_limit = 64;
	attr.ah_attr.grh.sgid_index = end->gid_index;
	for (int k = 0; k < 16; k++)
		sscanf(theirs->gid + 2 * k, "%2hhx", &attr.ah_attr.grh.dgid.raw[k]);
	CHECK(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = mine->psn, .max_rd_atomic = 16 };
	/* 4.096 us * 2^14 = 67 ms until a packet is sent again. */
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	CHECK(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC));
}

static void receive(struct end *end, uint32_t i)
{
	struct ibv_sge sge = { (uintptr_t)end->memory + IN + i * SLOT, SLOT, end->own->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(end->qp, &wr, &bad));
}

/* Posts a command; `words`: what the other end's counters hold then. Returns what an atomic command answers. */
static uint64_t post(struct end *end, const struct hello *mine, const struct hello *theirs, uint32_t round, uint32_t i,
		     uint64_t words[WORDS])
{
	static const enum ibv_wr_opcode codes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
						    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct op op = op_of(mine->seed, round, i);
	int comes = op.kind == READ || op.kind == SWAP || op.kind == ADD;
	struct ibv_sge sge = { (uintptr_t)end->memory + (comes ? RESULTS : OUT) + i * SLOT, op.length, end->own->lkey };
	struct ibv_send_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = codes[op.kind] }, *bad;
	uint64_t was = 0, compare = 0;

	wr.send_flags = IBV_SEND_SIGNALED;
	wr.imm_data = htonl(op.imm);
	if (op.kind == SWAP || op.kind == ADD) {
		apply(&op, words, &compare, &was);
		wr.wr.atomic.remote_addr = theirs->address + COUNTERS + op.word * 8;
		wr.wr.atomic.rkey = theirs->rkey;
		wr.wr.atomic.compare_add = op.kind == ADD ? op.add : compare;
		wr.wr.atomic.swap = op.add;
	} else {
		wr.wr.rdma.remote_addr = theirs->address + (op.kind == READ ? READABLE + op.from : LANDING + i * SLOT);
		wr.wr.rdma.rkey = theirs->rkey;
	}
	CHECK(!ibv_post_send(end->qp, &wr, &bad));
	return was;
}

/* Takes a completion; `arrivals`: those that came before it in this round. Whether it is one of those. */
static int completed(const struct ibv_wc *wc, uint64_t seed, uint32_t round, uint32_t *posted)
{
	struct op op;

	if (wc->status != IBV_WC_SUCCESS) {
		printf("FAIL completion %s, command %" PRIu64 " of round %u\n", ibv_wc_status_str(wc->status), wc->wr_id,
		       round);
		exit(1);
	}
	if (!(wc->opcode & IBV_WC_RECV))
		return 0;
	/* Of the other end's commands the next one that shows here. */
	do
		op = op_of(seed, round, (*posted)++);
	while (!is_arrival(op.kind));
	CHECK(wc->opcode == (op.kind == WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
	CHECK(wc->byte_len == op.length);
	CHECK(!!(wc->wc_flags & IBV_WC_WITH_IMM) == (op.kind != SEND));
	CHECK(op.kind == SEND || ntohl(wc->imm_data) == op.imm);
	return 1;
}

/* The slot holds `want` and behind it nothing. */
static void check_slot(const unsigned char *slot, const unsigned char *want, uint32_t length, const char *what, uint32_t i)
{
	for (uint32_t at = 0; at < SLOT; at++) {
		unsigned char byte = at < length ? want[at] : 0;

		if (slot[at] != byte) {
			printf("FAIL %s %u: byte %u of %u is %02x, not %02x\n", what, i, at, length, slot[at], byte);
			exit(1);
		}
	}
}

/* Every byte that this round has brought, and those beside them. */
static void check_round(struct end *end, const struct hello *mine, const struct hello *theirs, uint32_t round,
			const uint64_t answers[OPS], uint64_t words[WORDS])
{
	static unsigned char want[OPS * SLOT];
	uint32_t next = 0;

	for (uint32_t i = 0; i < OPS; i++) {
		struct op op = op_of(theirs->seed, round, i);
		int writes = op.kind == WRITE || op.kind == WRITE_IMM;
		uint64_t compare, was;

		if (op.kind == SWAP || op.kind == ADD)
			apply(&op, words, &compare, &was);
		bytes_of(theirs->seed, round, i, 0, want, op.length);
		check_slot(end->memory + LANDING + i * SLOT, want, writes ? op.length : 0, "write", i);
		if (is_arrival(op.kind))
			check_slot(end->memory + IN + next++ * SLOT, want, op.kind == WRITE_IMM ? 0 : op.length, "message", i);
	}
	for (; next < OPS; next++)
		check_slot(end->memory + IN + next * SLOT, want, 0, "no message", next);
	CHECK(!memcmp(end->memory + COUNTERS, words, WORDS * 8));
	for (uint32_t i = 0; i < OPS; i++) {
		struct op op = op_of(mine->seed, round, i);
		int atomic = op.kind == SWAP || op.kind == ADD;

		if (op.kind == READ)
			bytes_of(theirs->seed, NEVER, 0, op.from, want, op.length);
		else if (atomic)
			memcpy(want, &answers[i], 8);
		check_slot(end->memory + RESULTS + i * SLOT, want, op.kind == READ || atomic ? op.length : 0, "answer", i);
	}
	bytes_of(mine->seed, NEVER, 0, 0, want, OPS * SLOT);
	CHECK(!memcmp(end->memory + READABLE, want, OPS * SLOT));
}

/* Empty places for what comes, and the bytes that go. */
static void prepare(struct end *end, const struct hello *mine, uint32_t round)
{
	memset(end->memory + LANDING, 0, OPS * SLOT);
	memset(end->memory + IN, 0, OPS * SLOT);
	memset(end->memory + RESULTS, 0, OPS * SLOT);
	for (uint32_t i = 0; i < OPS; i++)
		bytes_of(mine->seed, round, i, 0, end->memory + OUT + i * SLOT, op_of(mine->seed, round, i).length);
}

static uint32_t arrivals(uint64_t seed, uint32_t round)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < OPS; i++)
		n += is_arrival(op_of(seed, round, i).kind);
	return n;
}

static void play(struct end *end, const struct hello *mine, const struct hello *theirs)
{
	/* Counters of both ends, which only the other one changes. */
	uint64_t here[WORDS] = { 0 }, there[WORDS] = { 0 }, answers[OPS];
	struct ibv_wc wc;

	bytes_of(mine->seed, NEVER, 0, 0, end->memory + READABLE, OPS * SLOT);
	for (uint32_t round = 0; round < mine->rounds; round++) {
		uint32_t left = OPS + arrivals(theirs->seed, round), posted = 0;
		uint64_t since;

		prepare(end, mine, round);
		/* As many as are used up. */
		for (uint32_t i = 0; i < arrivals(theirs->seed, round); i++)
			receive(end, i);
		together(end->line, 2 * round);
		for (uint32_t i = 0; i < OPS; i++)
			answers[i] = post(end, mine, theirs, round, i, there);
		for (since = now_ns(); left > 0;) {
			int n = ibv_poll_cq(end->cq, 1, &wc);

			CHECK(n >= 0);
			if (n == 0) {
				CHECK(now_ns() - since < PATIENCE * 1000000000ull);
				usleep(100);
				continue;
			}
			completed(&wc, theirs->seed, round, &posted);
			left--;
			since = now_ns();
		}
		together(end->line, 2 * round + 1);
		CHECK(ibv_poll_cq(end->cq, 1, &wc) == 0);
		check_round(end, mine, theirs, round, answers, here);
	}
	together(end->line, 2 * mine->rounds);
}

static void be(int line, uint64_t seed, uint32_t rounds)
{
	struct hello mine = { .seed = seed, .rounds = rounds }, theirs;
	struct end end = { .line = line };
	uint64_t begin;

	open_end(&end, &mine);
	exchange(line, &mine, &theirs);
	connect_end(&end, &mine, &theirs);
	begin = now_ns();
	play(&end, &mine, &theirs);
	printf("verbs: %u commands each way, every byte checked, %.1f s\n", rounds * OPS, (now_ns() - begin) / 1e9);
	CHECK(!ibv_destroy_qp(end.qp) && !ibv_dereg_mr(end.own) && !ibv_dereg_mr(end.shared));
	CHECK(!ibv_destroy_cq(end.cq) && !ibv_dealloc_pd(end.pd) && !ibv_close_device(end.device));
}

static int with_self(uint64_t seed, uint32_t rounds)
{
	int lines[2], status;
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, lines));
	child = fork();
	CHECK(child >= 0);
	close(lines[child == 0]);
	be(lines[child != 0], seed + (child == 0), rounds);
	if (child == 0)
		return 0;
	CHECK(waitpid(child, &status, 0) == child);
	return status != 0;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1;
	uint32_t rounds = 4;
	uint16_t port = 18516;
	int option;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt(argc, argv, "s:r:p:")) != -1) {
		if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (option == 'r')
			rounds = atoi(optarg);
		else if (option == 'p')
			port = atoi(optarg);
	}
	if (optind != argc - 1) {
		fprintf(stderr, "usage: %s [-s SEED] [-r ROUNDS] [-p PORT] self|listen|ADDRESS\n", argv[0]);
		return 2;
	}
	if (!strcmp(argv[optind], "self"))
		return with_self(seed, rounds);
	be(line_to(argv[optind], port), seed, rounds);
	return 0;
}
