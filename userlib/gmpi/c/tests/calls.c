/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of gmpi.h, on any number of ranks: what they do, and what they give for what cannot be. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define WANT(wanted, call) want((wanted), (call), #call, __LINE__)

static void want(int wanted, int got, const char *what, int line)
{
	if (wanted == got)
		return;
	fprintf(stderr, "line %d: %s is %d, not %d: %s\n", line, what, got, wanted, gmpi_error_text(got));
	failures++;
}

static void says(const char *text, int error, int line)
{
	if (strstr(gmpi_error_text(error), text))
		return;
	fprintf(stderr, "line %d: no `%s` in `%s`\n", line, text, gmpi_error_text(error));
	failures++;
}

static void without_gmpi(void)
{
	gmpi_config_t config;
	gmpi_t *gmpi = NULL;
	uint64_t comm = 0;
	int number = 77;
	char text[8];

	_Static_assert(sizeof(config) == 32, "programs and the library agree");
	WANT(GMPI_ERR_ARG, gmpi_config_init(NULL));
	WANT(GMPI_SUCCESS, gmpi_config_init(&config));
	WANT(1, (int)config.ports);
	WANT(GMPI_POLL_SLEEP, (int)config.polling);
	WANT(30000, (int)config.timeout_ms);
	WANT(GMPI_ERR_ARG, gmpi_join(&config, NULL));
	config.ports = 0;
	WANT(GMPI_ERR_ARG, gmpi_join(&config, &gmpi));
	says("1 to 1024", GMPI_ERR_ARG, __LINE__);
	gmpi_config_init(&config);
	config.placement = 4;
	WANT(GMPI_ERR_ARG, gmpi_join(&config, &gmpi));
	says("placement 4", GMPI_ERR_ARG, __LINE__);
	/* No such handle. */
	for (int i = 0; i < 2; i++) {
		gmpi_t *none = i ? (gmpi_t *)&config : NULL;

		WANT(GMPI_ERR_ARG, gmpi_gpu(none, &number));
		WANT(GMPI_ERR_ARG, gmpi_check(none));
		WANT(GMPI_ERR_ARG, gmpi_close(&none));
		WANT(GMPI_ERR_ARG, gmpi_comm_dup(none, GMPI_COMM_WORLD, &comm));
		WANT(GMPI_ERR_ARG, gmpi_carrier(none, text, sizeof(text)));
		WANT(1, gmpi_address(none) == NULL);
	}
	says("gmpi_join", GMPI_ERR_ARG, __LINE__);
	WANT(77, number);
	WANT(GMPI_ERR_ARG, gmpi_close(NULL));
	/* Texts of classes that this thread has not got. */
	says("no error", GMPI_SUCCESS, __LINE__);
	says("time", GMPI_ERR_TIMEOUT, __LINE__);
	says("class", -5, __LINE__);
}

static void memory(gmpi_t *gmpi, uint64_t *words)
{
	static uint64_t mine[16];
	uint64_t win = 0, value = 5;
	void *more = NULL;

	WANT(GMPI_SUCCESS, gmpi_write(gmpi, words + 2, &value, sizeof(value)));
	value = 0;
	WANT(GMPI_SUCCESS, gmpi_read(gmpi, &value, words + 2, sizeof(value)));
	WANT(5, (int)value);
	WANT(GMPI_ERR_BUFFER, gmpi_read(gmpi, &value, mine, sizeof(value)));
	WANT(GMPI_ERR_BUFFER, gmpi_read(gmpi, &value, words + 127, 16));
	says("gmpi_attach", GMPI_ERR_BUFFER, __LINE__);
	/* The reason alone: what the class means otherwise would contradict it. */
	if (strstr(gmpi_error_text(GMPI_ERR_BUFFER), "attach it before the kernel"))
		says("no word of another cause", GMPI_ERR_BUFFER, __LINE__);
	WANT(GMPI_ERR_ARG, gmpi_read(gmpi, NULL, words, sizeof(value)));
	WANT(GMPI_SUCCESS, gmpi_read(gmpi, NULL, words, 0));
	WANT(GMPI_ERR_ARG, gmpi_attach(gmpi, NULL, 8));
	WANT(GMPI_ERR_ARG, gmpi_attach(gmpi, (char *)mine + 1, 8));
	WANT(GMPI_ERR_ARG, gmpi_attach(gmpi, mine, 0));
	WANT(GMPI_ERR_BUFFER, gmpi_win_create(gmpi, mine, GMPI_COMM_WORLD, &win));
	WANT(GMPI_SUCCESS, gmpi_attach(gmpi, mine, sizeof(mine)));
	WANT(GMPI_ERR_BUFFER, gmpi_attach(gmpi, mine, sizeof(mine)));
	WANT(GMPI_SUCCESS, gmpi_write(gmpi, mine + 1, &value, sizeof(value)));
	WANT(5, (int)mine[1]);
	WANT(GMPI_SUCCESS, gmpi_alloc(gmpi, 0, &more));
	WANT(GMPI_ERR_ARG, gmpi_alloc(gmpi, 8, NULL));
}

/* Runs a kernel, and gives what its call came to. */
static int call(gmpi_t *gmpi, uint64_t *words, uint64_t what, uint64_t handle)
{
	struct calls_args args = { (uintptr_t)gmpi_address(gmpi), (uintptr_t)words, handle, what };
	uint64_t error = 0;

	WANT(GMPI_SUCCESS, calls_run(gmpi, &args, 1, 32));
	WANT(GMPI_SUCCESS, gmpi_read(gmpi, &error, words + 1, sizeof(error)));
	return (int)error;
}

/* A sum of 4 bytes of each rank, where they lay. */
static void in_place(gmpi_t *gmpi, uint64_t *words)
{
	int32_t value, sum = 0;
	int rank = -1, size = 0;

	WANT(GMPI_SUCCESS, gmpi_comm_rank(gmpi, GMPI_COMM_WORLD, &rank));
	WANT(GMPI_SUCCESS, gmpi_comm_size(gmpi, GMPI_COMM_WORLD, &size));
	value = 1 + rank;
	WANT(GMPI_SUCCESS, gmpi_write(gmpi, words + 2, &value, sizeof(value)));
	WANT(GMPI_SUCCESS, call(gmpi, words, CALLS_IN_PLACE, GMPI_COMM_WORLD));
	WANT(GMPI_SUCCESS, gmpi_read(gmpi, &sum, words + 2, sizeof(sum)));
	WANT(size * (size + 1) / 2, sum);
}

/* A value around the ring of a communicator. */
static void around(gmpi_t *gmpi, uint64_t *words, uint64_t comm)
{
	uint64_t value, came = 0;
	int rank = -1, size = -1;

	WANT(GMPI_SUCCESS, gmpi_comm_rank(gmpi, comm, &rank));
	WANT(GMPI_SUCCESS, gmpi_comm_size(gmpi, comm, &size));
	value = 100 + (uint64_t)rank;
	WANT(GMPI_SUCCESS, gmpi_write(gmpi, words + 2, &value, sizeof(value)));
	WANT(GMPI_SUCCESS, call(gmpi, words, CALLS_SEND_NEXT, comm));
	WANT(GMPI_SUCCESS, gmpi_read(gmpi, &came, words + 3, sizeof(came)));
	WANT(100 + (rank + size - 1) % size, (int)came);
}

static void communicators(gmpi_t *gmpi, uint64_t *words)
{
	uint64_t copy = 0, reversed = 0, none = 9, direct = 0, freed;
	int rank, size, place;

	WANT(GMPI_SUCCESS, gmpi_comm_rank(gmpi, GMPI_COMM_WORLD, &rank));
	WANT(GMPI_SUCCESS, gmpi_comm_size(gmpi, GMPI_COMM_WORLD, &size));
	around(gmpi, words, GMPI_COMM_WORLD);
	WANT(GMPI_SUCCESS, gmpi_comm_dup(gmpi, GMPI_COMM_WORLD, &copy));
	around(gmpi, words, copy);
	WANT(GMPI_SUCCESS, gmpi_comm_split(gmpi, copy, 3, -rank, &reversed));
	WANT(GMPI_SUCCESS, gmpi_comm_rank(gmpi, reversed, &place));
	WANT(size - 1 - rank, place);
	around(gmpi, words, reversed);
	WANT(GMPI_SUCCESS, gmpi_comm_split(gmpi, copy, GMPI_UNDEFINED, 0, &none));
	WANT(0, (int)none);
	WANT(GMPI_ERR_ARG, gmpi_comm_split(gmpi, copy, -1, 0, &none));
	WANT(GMPI_ERR_ARG, gmpi_comm_split(gmpi, copy, 0, 0, NULL));
	WANT(GMPI_SUCCESS, gmpi_comm_direct(gmpi, copy, 2, 1024, &direct));
	around(gmpi, words, direct);
	WANT(GMPI_ERR_ARG, gmpi_comm_direct(gmpi, copy, 3, 0, &none));
	if (size > 1)
		WANT(GMPI_ERR_WIN, gmpi_comm_direct(gmpi, reversed, 0, 0, &none));
	WANT(GMPI_SUCCESS, gmpi_comm_free(gmpi, &direct));
	freed = copy;
	WANT(GMPI_SUCCESS, gmpi_comm_free(gmpi, &copy));
	WANT(0, (int)copy);
	WANT(GMPI_ERR_COMM, gmpi_comm_free(gmpi, &freed));
	WANT(GMPI_ERR_COMM, gmpi_comm_dup(gmpi, freed, &none));
	WANT(GMPI_ERR_COMM, gmpi_comm_rank(gmpi, freed, &place));
	WANT(GMPI_ERR_COMM, call(gmpi, words, CALLS_BARRIER, freed));
	WANT(GMPI_SUCCESS, gmpi_comm_free(gmpi, &reversed));
	freed = GMPI_COMM_WORLD;
	WANT(GMPI_ERR_COMM, gmpi_comm_free(gmpi, &freed));
	WANT(1, strstr(gmpi_error_text(GMPI_ERR_COMM), "GMPI_COMM_WORLD and GMPI_COMM_SELF cannot be freed") != NULL);
}

static void windows(gmpi_t *gmpi, uint64_t *words)
{
	uint64_t win = 0, freed, value, came = 0;
	int rank, size;

	WANT(GMPI_SUCCESS, gmpi_comm_rank(gmpi, GMPI_COMM_WORLD, &rank));
	WANT(GMPI_SUCCESS, gmpi_comm_size(gmpi, GMPI_COMM_WORLD, &size));
	value = 50 + (uint64_t)rank;
	WANT(GMPI_SUCCESS, gmpi_write(gmpi, words + 2, &value, sizeof(value)));
	WANT(GMPI_SUCCESS, gmpi_win_create(gmpi, words, GMPI_COMM_WORLD, &win));
	WANT(GMPI_SUCCESS, call(gmpi, words, CALLS_PUT, win));
	WANT(GMPI_SUCCESS, gmpi_read(gmpi, &came, words + 3, sizeof(came)));
	WANT(50 + (rank + size - 1) % size, (int)came);
	freed = win;
	WANT(GMPI_SUCCESS, gmpi_win_free(gmpi, &win));
	WANT(0, (int)win);
	WANT(GMPI_ERR_WIN, gmpi_win_free(gmpi, &freed));
}

static void kernels(gmpi_t *gmpi, uint64_t *words)
{
	struct calls_args args = { (uintptr_t)gmpi_address(gmpi), (uintptr_t)words, GMPI_COMM_SELF, CALLS_NOTHING };

	WANT(GMPI_ERR_ARG, calls_run(gmpi, &args, 0, 32));
	WANT(GMPI_ERR_ARG, calls_run(gmpi, &args, 1, 2000));
	says("calls", GMPI_ERR_ARG, __LINE__);
	WANT(GMPI_ERR_ARG, gmpi_run_on_cpu(gmpi, "none", NULL, &args, sizeof(args), 1, 1, 1000));
	WANT(GMPI_SUCCESS, gmpi_check(gmpi));
	/* A request that nobody waits for. */
	WANT(GMPI_SUCCESS, call(gmpi, words, CALLS_OPEN, 0));
	WANT(GMPI_ERR_PENDING, gmpi_check(gmpi));
	says("wait for each request", GMPI_ERR_PENDING, __LINE__);
	WANT(GMPI_SUCCESS, gmpi_check(gmpi));
}

int main(void)
{
	gmpi_config_t config;
	gmpi_t *gmpi, *closed;
	void *words;
	char name[4] = "xxx";
	int gpu = 7;

	without_gmpi();
	gmpi_config_init(&config);
	config.placement = GMPI_PLACE_TAGGED;
	config.ports = 2;
	if (gmpi_join(&config, &gmpi)) {
		fprintf(stderr, "joining: %s\n", gmpi_error_text(GMPI_ERR_OTHER));
		return 1;
	}
	WANT(GMPI_SUCCESS, gmpi_gpu(gmpi, &gpu));
	WANT(-1, gpu);
	WANT(GMPI_SUCCESS, gmpi_carrier(gmpi, name, sizeof(name)));
	WANT(0, strcmp(name, "own"));
	WANT(GMPI_ERR_ARG, gmpi_carrier(gmpi, name, 0));
	WANT(GMPI_SUCCESS, gmpi_alloc(gmpi, 128 * sizeof(uint64_t), &words));
	memory(gmpi, words);
	communicators(gmpi, words);
	windows(gmpi, words);
	kernels(gmpi, words);
	WANT(GMPI_SUCCESS, call(gmpi, words, CALLS_BARRIER, GMPI_COMM_WORLD));
	in_place(gmpi, words);
	closed = gmpi;
	WANT(GMPI_SUCCESS, gmpi_close(&gmpi));
	WANT(1, gmpi == NULL);
	WANT(GMPI_ERR_ARG, gmpi_check(closed));
	WANT(GMPI_ERR_ARG, gmpi_close(&closed));
	printf("%d failures\n", failures);
	return failures != 0;
}
