/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What programs rely on of streams and threads, with pointers of devices and with the library before them at all. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ggas_hpe.h"

/* A record is longer than a pinned buffer. */
enum { RECORD = 5 * 1024 * 1024 + 3, WRITERS = 3, RECORDS = 3 };

static char name[] = "/tmp/ggas-hpe-XXXXXX";
static unsigned char data[RECORD], back[RECORD];

/* Pointers of nobody: errno and dlerror are the program's. */
static void strangers(void)
{
	int file = open(name, O_RDONLY);
	FILE *stream = fdopen(file, "rb");
	void *volatile nowhere = (void *)8;

	CHECK(stream);
	dlerror();
	errno = 0;
	CHECK(read(file, nowhere, 10) == -1 && errno == EFAULT);
	errno = 0;
	CHECK(fread(back, 1, 10, stream) == 10 && errno == 0 && !dlerror());
	fclose(stream);
}

/* What failed is told by the stream, too: programs that ask only for its end or its error would go on for ever. */
static void indicators(unsigned char *device)
{
	FILE *file = fopen(name, "r+b");
	volatile size_t size = (size_t)1 << 33, count = ((size_t)1 << 31) + 1;

	CHECK(file);
	errno = 0;
	CHECK(fread(device + RECORD - 5, 1, 10, file) == 0 && errno == EFAULT && ferror(file) && !feof(file));
	clearerr(file);
	CHECK(fgetc(file) == data[0] && !ferror(file));
	/* As many bytes as no object has. */
	errno = 0;
	CHECK(fread(device, size, count, file) == 0 && errno == EFAULT && ferror(file));
	clearerr(file);
	errno = 0;
	CHECK(fwrite(device, size, count, file) == 0 && errno == EFAULT && ferror(file));
	clearerr(file);
	CHECK(fwrite(device + RECORD - 5, 1, 10, file) == 0 && ferror(file));
	clearerr(file);
	CHECK(fread(device, 0, 10, file) == 0 && fread(device, 10, 0, file) == 0 && !ferror(file));
	/* Nothing was read or written. */
	CHECK(fgetc(file) == data[1]);
	fclose(file);
}

static void unlocked(unsigned char *device)
{
	FILE *file = fopen(name, "r+b");

	CHECK(file && !ggas_hpe_copy(device, back, RECORD));
	CHECK(fread_unlocked(device, 1, RECORD, file) == RECORD);
	CHECK(!ggas_hpe_copy(back, device, RECORD) && !memcmp(back, data, RECORD));
	rewind(file);
	CHECK(fwrite_unlocked(device, 1, RECORD, file) == RECORD && fclose(file) == 0);
}

static FILE *records;

static void *writes(void *device)
{
	for (int i = 0; i < RECORDS; i++)
		CHECK(fwrite(device, RECORD, 1, records) == 1);
	return NULL;
}

/* A stream is one thread's during a call: records of several do not mix. */
static void whole_records(void)
{
	pthread_t threads[WRITERS];

	records = tmpfile();
	CHECK(records);
	for (int i = 0; i < WRITERS; i++) {
		unsigned char *device = ggas_hpe_alloc(0, RECORD);

		memset(back, i + 1, RECORD);
		CHECK(device && !ggas_hpe_copy(device, back, RECORD));
		CHECK(!pthread_create(&threads[i], NULL, writes, device));
	}
	for (int i = 0; i < WRITERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	rewind(records);
	for (int i = 0; i < WRITERS * RECORDS; i++) {
		CHECK(fread(back, RECORD, 1, records) == 1);
		CHECK(back[0] >= 1 && back[0] <= WRITERS && !memcmp(back, back + 1, RECORD - 1));
	}
	fclose(records);
}

static void *reads_a_pipe(void *ends)
{
	char byte;

	return (void *)(read(*(int *)ends, &byte, 1) + 1);
}

static void *reads_a_stream(void *stream)
{
	char byte;

	return (void *)(fread(&byte, 1, 1, stream) + 1);
}

/* Threads that wait in a call may be cancelled, as with the C library's own. */
static void cancelled(void)
{
	int ends[2];
	FILE *stream;
	pthread_t thread;
	void *result;

	CHECK(!pipe(ends) && (stream = fdopen(ends[0], "rb")));
	CHECK(!pthread_create(&thread, NULL, reads_a_pipe, ends) && !pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	CHECK(!pthread_create(&thread, NULL, reads_a_stream, stream) && !pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
}

static atomic_int stop;

static void *takes_buffers(void *unused)
{
	size_t bytes;

	while (!atomic_load(&stop)) {
		void *buffers = ggas_hpe_take_pinned(&bytes);

		CHECK(buffers && !ggas_hpe_return_pinned(buffers));
	}
	return unused;
}

/* Children are told, and wait for no lock that a thread of their parent had. */
static void children(unsigned char *device)
{
	int status, file = open(name, O_RDONLY);
	pthread_t thread;
	size_t bytes;

	CHECK(!pthread_create(&thread, NULL, takes_buffers, NULL));
	for (int i = 0; i < 200; i++) {
		if (fork() == 0) {
			alarm(60);
			CHECK(ggas_hpe_is_device(device) && !ggas_hpe_holds(device, 1));
			errno = 0;
			CHECK(read(file, device, 1) == -1 && errno == ECHILD);
			errno = 0;
			CHECK(!ggas_hpe_take_pinned(&bytes) && errno == ECHILD);
			errno = 0;
			CHECK(ggas_hpe_return_pinned(device) == -1 && errno == ECHILD);
			errno = 0;
			CHECK(!ggas_hpe_device_address(device) && errno == ECHILD);
			_exit(0);
		}
		CHECK(wait(&status) > 0 && status == 0);
	}
	atomic_store(&stop, 1);
	CHECK(!pthread_join(thread, NULL));
	close(file);
}

int main(void)
{
	int file = mkstemp(name);
	unsigned char *device;

	for (size_t i = 0; i < RECORD; i++)
		data[i] = (unsigned char)(i * 31 + (i >> 8));
	CHECK(file >= 0 && write(file, data, RECORD) == RECORD && close(file) == 0);
	strangers();
	device = ggas_hpe_alloc(0, RECORD);
	CHECK(device);
	strangers();
	indicators(device);
	unlocked(device);
	whole_records();
	cancelled();
	children(device);
	puts("all well");
	return unlink(name);
}
