/* How two ends talk about what they do: lines over a stream, by which both tell their queue pairs and wait for each other. */
#ifndef RXE_LINE_H
#define RXE_LINE_H

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                                          \
	do {                                                                                                 \
		if (!(what)) {                                                                               \
			printf("FAIL %s:%d: %s (errno %d %s)\n", __FILE__, __LINE__, #what, errno,           \
			       strerror(errno));                                                             \
			exit(1);                                                                             \
		}                                                                                            \
	} while (0)

/* Seconds without any news after which an end gives up. */
enum { PATIENCE = 60 };

/* What an end tells of itself. */
struct hello {
	char gid[33];
	uint32_t qpn, psn, rkey;
	uint64_t address, seed;
	uint32_t rounds;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void say(int line, const void *text, size_t n)
{
	CHECK(write(line, text, n) == (ssize_t)n);
}

static void hear(int line, char *text, size_t n)
{
	for (size_t at = 0; at < n; at++) {
		CHECK(read(line, text + at, 1) == 1);
		if (text[at] == '\n') {
			text[at] = 0;
			return;
		}
	}
	CHECK(!"the other end says more than it may");
}

static void exchange(int line, const struct hello *mine, struct hello *theirs)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "verbs %s %06x %06x %08x %016" PRIx64 " %016" PRIx64 " %u\n", mine->gid,
			 mine->qpn, mine->psn, mine->rkey, mine->address, mine->seed, mine->rounds);

	say(line, text, n);
	hear(line, text, sizeof(text));
	CHECK(sscanf(text, "verbs %32s %x %x %x %" SCNx64 " %" SCNx64 " %u", theirs->gid, &theirs->qpn, &theirs->psn,
		     &theirs->rkey, &theirs->address, &theirs->seed, &theirs->rounds) == 7);
	CHECK(mine->rounds == theirs->rounds);
}

/* Both ends have come so far. */
static void together(int line, uint32_t round)
{
	char mine[32], text[32];
	int n = snprintf(mine, sizeof(mine), "round %u\n", round);

	say(line, mine, n);
	hear(line, text, sizeof(text));
	mine[n - 1] = 0;
	CHECK(!strcmp(text, mine));
}

static int accepted(uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), line;

	CHECK(!setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	CHECK(!bind(listener, (struct sockaddr *)&at, sizeof(at)) && !listen(listener, 1));
	line = accept(listener, NULL, NULL);
	CHECK(line >= 0);
	close(listener);
	return line;
}

/* The other end may not listen yet. */
static int connected(const char *address, uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	uint64_t begin = now_ns();

	CHECK(inet_pton(AF_INET, address, &at.sin_addr) == 1);
	for (;;) {
		int line = socket(AF_INET, SOCK_STREAM, 0);

		if (!connect(line, (struct sockaddr *)&at, sizeof(at)))
			return line;
		CHECK(now_ns() - begin < PATIENCE * 1000000000ull);
		close(line);
		usleep(100000);
	}
}

/* The connection to ADDRESS, or the first that comes where it is `listen`; nobody waits for ever on it. */
static int line_to(const char *address, uint16_t port)
{
	struct timeval patience = { .tv_sec = PATIENCE };
	int one = 1, line = strcmp(address, "listen") ? connected(address, port) : accepted(port);

	CHECK(!setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	CHECK(!setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
	return line;
}

#endif
