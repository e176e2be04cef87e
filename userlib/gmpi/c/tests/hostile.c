/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that calls gmpi.h and gmpi.cuh as no program should: what comes back are errors, nobody waits for ever, and what is called
 * properly behind it still works. By any carrier.
 */
#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures, rank, size;
static gmpi_t *gmpi;
static uint64_t *words;

#define WANT(wanted, call) want((wanted), (call), #call, __LINE__)

static void want(int wanted, int got, const char *what, int line)
{
	if (wanted == got)
		return;
	fprintf(stderr, "rank %d, line %d: %s is %d, not %d: %s\n", rank, line, what, got, wanted, gmpi_error_text(got));
	failures++;
}

/* Runs a kernel; what the launch came to. */
static int run_for(uint64_t what, uint64_t handle, unsigned blocks, unsigned timeout_ms)
{
	struct hostile_args args = { (uintptr_t)gmpi_address(gmpi), (uintptr_t)words, handle, what };
	uint64_t none[2] = { 0, 0 };

	WANT(GMPI_SUCCESS, gmpi_write(gmpi, words, none, sizeof(none)));
	return hostile_run(gmpi, &args, blocks, 32, timeout_ms);
}

/* The same of one that ends, and finds all as it should be. */
static void run(uint64_t what, uint64_t handle)
{
	uint64_t found[2] = { 0, 0 };

	WANT(GMPI_SUCCESS, run_for(what, handle, 1, 120000));
	WANT(GMPI_SUCCESS, gmpi_read(gmpi, found, words, sizeof(found)));
	if (!found[HOSTILE_LINE])
		return;
	fprintf(stderr, "rank %d: hostile.cu:%d gave %d\n", rank, (int)found[HOSTILE_LINE], (int)found[HOSTILE_GOT]);
	failures++;
}

/* All are still there, and work. */
static void works(void)
{
	run(HOSTILE_BARRIER, GMPI_COMM_WORLD);
}

static void wrong_configurations(void)
{
	static const struct {
		size_t at;
		uint32_t value;
	} wrong[] = {
		{ offsetof(gmpi_config_t, ports), 0 }, { offsetof(gmpi_config_t, ports), 1025 }, { offsetof(gmpi_config_t, ports), ~0u },
		{ offsetof(gmpi_config_t, entries), 0 }, { offsetof(gmpi_config_t, entries), 3 }, { offsetof(gmpi_config_t, entries), 8192 },
		{ offsetof(gmpi_config_t, placement), ~0u }, { offsetof(gmpi_config_t, polling), 3 },
	};
	gmpi_config_t config;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		gmpi_config_init(&config);
		memcpy((char *)&config + wrong[i].at, &wrong[i].value, sizeof(wrong[i].value));
		WANT(GMPI_ERR_ARG, gmpi_join(&config, &gmpi));
	}
}

static void wrong_memory(void)
{
	static uint64_t mine[4];
	size_t sizes[] = { SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2, (SIZE_MAX >> 1) - 7, (size_t)1 << 50 };
	void *more = mine;
	char name[64];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		WANT(GMPI_ERR_NO_MEM, gmpi_alloc(gmpi, sizes[i], &more));
		WANT(1, more == mine);
		WANT(GMPI_ERR_BUFFER, gmpi_write(gmpi, words, mine, sizes[i]));
		WANT(GMPI_ERR_BUFFER, gmpi_read(gmpi, mine, words, sizes[i]));
		WANT(GMPI_SUCCESS, gmpi_carrier(gmpi, name, i ? sizeof(name) : SIZE_MAX));
	}
	WANT(GMPI_ERR_NO_MEM, gmpi_attach(gmpi, mine, SIZE_MAX - 7));
	WANT(GMPI_ERR_BUFFER, gmpi_attach(gmpi, words, 8));
	WANT(GMPI_ERR_BUFFER, gmpi_attach(gmpi, words + 8, 8));
	WANT(GMPI_ERR_ARG, gmpi_carrier(gmpi, NULL, 10));
}

static void wrong_kernels(void)
{
	struct hostile_args args = { 0, 0, 0, 0 };
	void (*none)(const void *args) = (void (*)(const void *args))0;

	WANT(GMPI_ERR_ARG, hostile_run(gmpi, &args, 0, 32, 1000));
	WANT(GMPI_ERR_ARG, hostile_run(gmpi, &args, 1, 0, 1000));
	WANT(GMPI_ERR_ARG, hostile_run(gmpi, &args, 1, ~0u, 1000));
	WANT(GMPI_ERR_ARG, gmpi_run_on_cpu(gmpi, NULL, none, &args, sizeof(args), 1, 1, 1000));
	/* A kernel that is not called. */
	none = (void (*)(const void *))(uintptr_t)wrong_kernels;
	WANT(GMPI_ERR_ARG, gmpi_run_on_cpu(gmpi, NULL, none, NULL, 8, 1, 1, 1000));
	WANT(GMPI_ERR_ARG, gmpi_run_on_cpu(gmpi, NULL, none, &args, SIZE_MAX, 1, 1, 1000));
	WANT(GMPI_ERR_ARG, gmpi_run_on_cpu(gmpi, NULL, none, &args, SIZE_MAX / 2, 1, 1, 1000));
}

static void wrong_handles(void)
{
	uint64_t garbage[] = { 0, 3, 77, (uint64_t)1 << 32 | 1, ~(uint64_t)0, (uint64_t)GMPI_COMM_WORLD << 32 };
	uint64_t handle, made = 5;
	int number = 5;

	for (size_t i = 0; i < sizeof(garbage) / sizeof(*garbage); i++) {
		handle = garbage[i];
		WANT(GMPI_ERR_COMM, gmpi_comm_rank(gmpi, handle, &number));
		WANT(GMPI_ERR_COMM, gmpi_comm_dup(gmpi, handle, &made));
		WANT(GMPI_ERR_COMM, gmpi_comm_split(gmpi, handle, GMPI_UNDEFINED, 0, &made));
		WANT(GMPI_ERR_COMM, gmpi_comm_free(gmpi, &handle));
		WANT(GMPI_ERR_COMM, gmpi_win_create(gmpi, words, handle, &made));
		WANT(GMPI_ERR_WIN, gmpi_win_free(gmpi, &handle));
		WANT(1, handle == garbage[i] && made == 5 && number == 5);
		run(HOSTILE_NO_COMM, handle);
		run(HOSTILE_NO_WINDOW, handle);
	}
	WANT(GMPI_ERR_ARG, gmpi_comm_free(gmpi, NULL));
	WANT(GMPI_ERR_ARG, gmpi_win_free(gmpi, NULL));
	WANT(GMPI_ERR_ARG, gmpi_win_create(gmpi, words, GMPI_COMM_WORLD, NULL));
	WANT(GMPI_ERR_BUFFER, gmpi_win_create(gmpi, words + 1, GMPI_COMM_WORLD, &made));
}

static void windows(void)
{
	uint64_t comm = 0, win = 0, old;

	WANT(GMPI_SUCCESS, gmpi_comm_split(gmpi, GMPI_COMM_WORLD, 0x7fffffff, -0x7fffffff - 1, &comm));
	WANT(GMPI_SUCCESS, gmpi_win_create(gmpi, words, comm, &win));
	run(HOSTILE_WINDOW, win);
	/* A window lives on without what it was made of. */
	old = comm;
	WANT(GMPI_SUCCESS, gmpi_comm_free(gmpi, &comm));
	run(HOSTILE_NO_COMM, old);
	run(HOSTILE_WINDOW, win);
	works();
	old = win;
	WANT(GMPI_SUCCESS, gmpi_win_free(gmpi, &win));
	run(HOSTILE_NO_WINDOW, old);
	WANT(GMPI_ERR_WIN, gmpi_win_free(gmpi, &old));
	/* The next one may have its place, and is another. */
	WANT(GMPI_SUCCESS, gmpi_win_create(gmpi, words, GMPI_COMM_WORLD, &win));
	WANT(1, win != old);
	run(HOSTILE_NO_WINDOW, old);
	WANT(GMPI_SUCCESS, gmpi_win_free(gmpi, &win));
}

/* Kernels that end without waiting for what they began, or are ended. */
static void kernels_that_leave(void)
{
	/* Most of it the daemon has not seen as the kernel ends. */
	run(HOSTILE_LEAVES, 0);
	WANT(GMPI_ERR_PENDING, gmpi_check(gmpi));
	WANT(1, strstr(gmpi_error_text(GMPI_ERR_PENDING), "201 open requests") != NULL);
	WANT(GMPI_SUCCESS, gmpi_check(gmpi));
	works();
	WANT(GMPI_ERR_TIMEOUT, run_for(HOSTILE_PAUSES, 0, 1, 300));
	WANT(GMPI_ERR_PENDING, gmpi_check(gmpi));
	works();
	/* Its receive does not take what comes for the next one. */
	WANT(GMPI_ERR_TIMEOUT, run_for(HOSTILE_WAITS, 0, 1, 300));
	WANT(GMPI_ERR_PENDING, gmpi_check(gmpi));
	run(HOSTILE_SENDS, 0);
	works();
	WANT(GMPI_SUCCESS, gmpi_check(gmpi));
}

/* Handles of requests that go from kernel to kernel, among which some of the made-up ones may be. */
static void handles_of_direct_ones(void)
{
	uint64_t direct = 0, old;

	/* Only in jobs of our own. */
	if (gmpi_comm_direct(gmpi, GMPI_COMM_WORLD, 2, 1024, &direct))
		return;
	run(HOSTILE_DIRECT, direct);
	run(HOSTILE_HANDLES, 0);
	WANT(GMPI_SUCCESS, gmpi_check(gmpi));
	old = direct;
	WANT(GMPI_SUCCESS, gmpi_comm_free(gmpi, &direct));
	run(HOSTILE_NO_COMM, old);
	run(HOSTILE_HANDLES, 0);
}

int main(int argc, char **argv)
{
	gmpi_config_t config;

	(void)argv;
	wrong_configurations();
	gmpi_config_init(&config);
	config.ports = 2;
	config.timeout_ms = 20000;
	config.reserved = 7;
	if (gmpi_join(&config, &gmpi)) {
		fprintf(stderr, "joining: %s\n", gmpi_error_text(GMPI_ERR_OTHER));
		return 1;
	}
	WANT(GMPI_SUCCESS, gmpi_comm_rank(gmpi, GMPI_COMM_WORLD, &rank));
	WANT(GMPI_SUCCESS, gmpi_comm_size(gmpi, GMPI_COMM_WORLD, &size));
	WANT(GMPI_SUCCESS, gmpi_alloc(gmpi, HOSTILE_WORDS * sizeof(uint64_t), (void **)&words));
	wrong_memory();
	wrong_kernels();
	works();
	wrong_handles();
	run(HOSTILE_COUNTS, GMPI_COMM_SELF);
	run(HOSTILE_COUNTS, GMPI_COMM_WORLD);
	run(HOSTILE_TYPES, 0);
	run(HOSTILE_HANDLES, 0);
	WANT(GMPI_SUCCESS, gmpi_check(gmpi));
	works();
	windows();
	works();
	handles_of_direct_ones();
	works();
	kernels_that_leave();
	if (argc > 1) {
		/* Nothing stops it: what it may touch stays until the process ends. */
		WANT(GMPI_ERR_TIMEOUT, run_for(HOSTILE_SPINS, 0, 1, 300));
		works();
	}
	/* Blocks that have no port: that is told from then on. */
	WANT(GMPI_SUCCESS, run_for(HOSTILE_BARRIER, GMPI_COMM_SELF, 3, 10000));
	WANT(GMPI_ERR_PORT, gmpi_check(gmpi));
	/* The end comes with a call under way. */
	WANT(GMPI_ERR_TIMEOUT, run_for(HOSTILE_WAITS, 0, 1, 300));
	WANT(GMPI_ERR_PORT, gmpi_close(&gmpi));
	WANT(1, gmpi == NULL);
	printf("%d failures\n", failures);
	return failures != 0;
}
