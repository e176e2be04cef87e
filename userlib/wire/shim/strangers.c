// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * libfabric takes the connection of whoever reaches its port, and waits for what the other side wants of it without an end, also of many that have
 * said garbage. So that strangers do not use up the descriptors of the process, few connections are kept to which libfabric has not answered: the oldest is shut
 * down for the next one. libfabric hears that the other side has ended it, and closes it.
 */
#define _GNU_SOURCE
#include "libfabric.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Of a listener; of all of them. */
#define MOST 128
#define MOST_OF_ALL 512
/* A process with few descriptors keeps one of so many. It has two listeners. */
#define SHARE 8

struct unanswered {
	int listener, fd;
	ino_t inode; /* numbers of descriptors are used again */
};

static struct {
	pthread_mutex_t lock;
	struct unanswered all[MOST_OF_ALL]; /* oldest first */
	size_t count;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Whoever keeps to its protocol has its answer with the next poll. */
static bool is_unanswered(const struct unanswered *of)
{
	struct stat status;
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return !fstat(of->fd, &status) && status.st_ino == of->inode &&
	       !getsockopt(of->fd, IPPROTO_TCP, TCP_INFO, &info, &len) && !info.tcpi_bytes_sent;
}

static void forget(size_t at)
{
	kept.count--;
	memmove(&kept.all[at], &kept.all[at + 1], (kept.count - at) * sizeof(*kept.all));
}

static size_t most(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / SHARE > MOST)
		return MOST;
	return limit.rlim_cur < SHARE ? 1 : limit.rlim_cur / SHARE;
}

/* Makes room for one more of a listener; false: there is none. */
static bool make_room(int listener)
{
	size_t own = 0, oldest = 0;

	for (size_t at = kept.count; at-- > 0;) {
		if (!is_unanswered(&kept.all[at])) {
			forget(at);
			oldest -= oldest > at;
		} else if (kept.all[at].listener == listener) {
			own++;
			oldest = at;
		}
	}
	if (own < most() && kept.count < MOST_OF_ALL)
		return true;
	if (!own)
		return false;
	/* Of a listener of its own: who accepts is the one who closes, so this is still the connection that was looked at. */
	shutdown(kept.all[oldest].fd, SHUT_RDWR);
	forget(oldest);
	return true;
}

int ggas_accept_few(int listener, struct sockaddr *address, socklen_t *len)
{
	const int fd = accept4(listener, address, len, SOCK_CLOEXEC);
	const int error = errno;
	struct stat status;

	if (fd < 0 || fstat(fd, &status)) {
		errno = error;
		return fd;
	}
	pthread_mutex_lock(&kept.lock);
	if (make_room(listener))
		kept.all[kept.count++] = (struct unanswered){ listener, fd, status.st_ino };
	else
		shutdown(fd, SHUT_RDWR);
	pthread_mutex_unlock(&kept.lock);
	errno = error;
	return fd;
}
