/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What standard error says where a code leaves open what is wrong: by the program itself, without gaspi_run.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "GASPI_GPU.h"
#include "GASPI_Threads.h"

/* Standard error goes to a file until `heard` gives what the file has. */
static int file, usual;

static void listen_to_errors(void)
{
	char name[] = "/tmp/gaspi-said-XXXXXX";

	CHECK((file = mkstemp(name)) >= 0);
	unlink(name);
	CHECK((usual = dup(2)) >= 0 && dup2(file, 2) == 2);
}

static const char *heard(void)
{
	static char text[4096];
	ssize_t length;

	CHECK(dup2(usual, 2) == 2);
	length = pread(file, text, sizeof(text) - 1, 0);
	CHECK(length >= 0);
	text[length] = 0;
	close(file);
	close(usual);
	return text;
}

/* A call gives a code, and one line says what is wrong. */
#define SAYS(what, code, call)                                                                 \
	do {                                                                                   \
		const char *said_;                                                             \
		gaspi_return_t gave_;                                                          \
		listen_to_errors();                                                            \
		gave_ = (call);                                                                \
		said_ = heard();                                                               \
		if (gave_ != (code) || strncmp(said_, "gaspi: rank 0: ", 15) || !strstr(said_, what) || \
		    strchr(said_, '\n') != said_ + strlen(said_) - 1) {                        \
			fprintf(stderr, "%s:%d: %s gives %d and says `%s`, not %s\n", __FILE__, \
				__LINE__, #call, (int)gave_, said_, what);                     \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

static void set(const char *name, const char *value)
{
	CHECK(!setenv(name, value, 1));
}

/* A rank that comes and dies while another one is missing. */
static void lost(void)
{
	pid_t child;

	set("GGAS_SIZE", "3");
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		set("GGAS_RANK", "1");
		alarm(1);
		gaspi_proc_init(MINUTE);
		_exit(0);
	}
	SAYS("rank 1 ", GASPI_ERR_SN, gaspi_proc_init(MINUTE));
	waitpid(child, NULL, 0);
	set("GGAS_SIZE", "1");
}

static void configuration(void)
{
	gaspi_config_t config;

	OK(gaspi_config_get(&config));
	config.queue_num = 17;
	SAYS("gaspi_config_set: queue_num 17: use 1 to 16", GASPI_ERR_CONFIG, gaspi_config_set(config));
	config.queue_num = 8;
	config.dev_config.params.ib.mtu = 5000;
	SAYS("mtu 5000: use one of [0, 1024, 2048, 4096]", GASPI_ERR_CONFIG, gaspi_config_set(config));
}

static void arguments(void)
{
	gaspi_queue_id_t queue;
	gaspi_segment_id_t ids[2];
	gaspi_statistic_counter_t none = 19;
	unsigned long value;
	int one = 1, all, thread;

	for (queue = 0; queue < 15;)
		OK(gaspi_queue_create(&queue, MINUTE));
	SAYS("gaspi_queue_create: there are 16 queues", GASPI_ERROR, gaspi_queue_create(&queue, MINUTE));
	SAYS("gaspi_segment_list: num 2: this process has 0", GASPI_ERROR, gaspi_segment_list(2, ids));
	SAYS("gaspi_statistic_counter_get: counter 19: use 0 to 18", GASPI_ERROR,
	     gaspi_statistic_counter_get(none, 0, &value));
	SAYS("gaspi_statistic_counter_reset: counter 19", GASPI_ERROR, gaspi_statistic_counter_reset(none));
	SAYS("gaspi_allreduce: operation 7: use 0 to 2", GASPI_ERROR,
	     gaspi_allreduce(&one, &all, 1, (gaspi_operation_t)7, GASPI_TYPE_INT, GASPI_GROUP_ALL, MINUTE));
	SAYS("socket 16: use 0 to 15", GASPI_ERROR, gaspi_set_socket_affinity(16));
	SAYS("call gaspi_threads_init", GASPI_ERROR, gaspi_threads_get_tid(&thread));
	CHECK(strstr(gaspi_error_str(gaspi_proc_kill(0, MINUTE)), "cannot kill itself"));
}

static void gpus(void)
{
	gaspi_gpu_num count;
	void *context;

	SAYS("GASPI_MEM_GPU: call gaspi_gpu_init", GASPI_ERROR, gaspi_segment_alloc(0, 64, GASPI_MEM_GPU));
	SAYS("no allocation policy 8", GASPI_ERROR, gaspi_segment_alloc(0, 64, (gaspi_alloc_t)8));
	SAYS("gaspi_number_of_GPUs: call gaspi_gpu_init", GASPI_ERROR, gaspi_number_of_GPUs(&count));
	SAYS("gaspi_gpu_context: call gaspi_gpu_init", GASPI_ERROR, gaspi_gpu_context(1, &context, MINUTE));
}

/* The start has the process stay on the node of its rank, wherever it was before. */
static void start_on_node(void)
{
	cpu_set_t node, one, now;
	int core = 0;

	if (gaspi_set_socket_affinity(0) != GASPI_SUCCESS) {
		OK(gaspi_proc_init(MINUTE));
		return;
	}
	CHECK(!sched_getaffinity(0, sizeof(node), &node));
	while (!CPU_ISSET(core, &node))
		core++;
	CPU_ZERO(&one);
	CPU_SET(core, &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
	set("GASPI_SET_NUMA_SOCKET", "1");
	OK(gaspi_proc_init(MINUTE));
	CHECK(!sched_getaffinity(0, sizeof(now), &now));
	CHECK(CPU_EQUAL(&now, &node));
}

int main(void)
{
	char job[64];

	snprintf(job, sizeof(job), "gaspi-said-%ld", (long)getpid());
	set("GGAS_RANK", "0");
	SAYS("GGAS_SIZE is not", GASPI_ERR_ENV, gaspi_proc_init(MINUTE));
	set("GGAS_SIZE", "1");
	set("GGAS_JOB", job);
	configuration();
	set("GGAS_DEVICE", "blah");
	SAYS("GGAS_DEVICE=blah: use sim, hw or nvlink", GASPI_ERR_DEVICE, gaspi_proc_init(MINUTE));
	CHECK(!strstr(gaspi_error_str(GASPI_ERR_DEVICE), "state vector"));
	set("GGAS_DEVICE", "sim");
	lost();
	start_on_node();
	CHECK(strstr(gaspi_error_str(GASPI_ERR_DEVICE), "state vector"));
	arguments();
	gpus();
	OK(gaspi_proc_term(MINUTE));
	SAYS("cannot begin again", GASPI_ERROR, gaspi_proc_init(MINUTE));
	return 0;
}
