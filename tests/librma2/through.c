/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * librma2 that comes in through another library, behind the C library in the process's search order: calls that take
 * memory away, and those for physical buffers, come to it all the same. With -DTHROUGH this is that library, with -DLATE
 * one that is loaded later and does not know librma2, with -DCLAIMS one with a `free` of its own, which is left alone. The
 * program knows librma2 neither:
 *
 * through LATE			linked with libthrough, or with libclaims and it
 * through LATE THROUGH [lazy]	loads it by dlopen
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"
#include "pmap.h"
#include "rma2_rc.h"

#ifdef __cplusplus
#define EXTERN extern "C"
#else
#define EXTERN extern
#endif

/* What each of the three does by calls of its own. */
struct calls {
	int (*munmap)(void *, size_t);
	void *(*map_at)(void *, size_t);
	void (*free)(void *);
	int (*open)(const char *);
	int (*close)(int);
	int (*set_size)(int, size_t);
};

/* Pointers in tables, as in objects of C++ and in libraries that take an allocator. */
struct table {
	void (*free)(void *);
	int (*munmap)(void *, size_t);
};
static const struct table constant = { free, munmap };
static struct table variable = { free, munmap };

static int my_munmap(void *start, size_t length)
{
	return munmap(start, length);
}

/* In the place of what is there. */
static void *my_map_at(void *start, size_t length)
{
	return mmap(start, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (start ? MAP_FIXED : 0), -1, 0);
}

static void my_free(void *block)
{
	free(block);
}

/* Flags that are not constant: a compiler that checks them (_FORTIFY_SOURCE) calls another function. */
static int my_open(const char *path)
{
	volatile int flags = O_RDWR;

	return open(path, flags);
}

static int my_close(int file)
{
	return close(file);
}

static int my_set_size(int file, size_t size)
{
	return ioctl(file, PMAP_IOCTL_SET_SIZE, size);
}

static void my_free_by_constant(void *block)
{
	constant.free(block);
}

static int my_munmap_by_constant(void *start, size_t length)
{
	return constant.munmap(start, length);
}

static void my_free_by_variable(void *block)
{
	variable.free(block);
}

static int my_munmap_by_variable(void *start, size_t length)
{
	return variable.munmap(start, length);
}

#define WAYS 3

/* By calls, and by the two tables. */
static inline void set(struct calls ways[WAYS])
{
	struct calls plain = { my_munmap, my_map_at, my_free, my_open, my_close, my_set_size };

	ways[0] = plain;
	ways[1] = plain;
	ways[1].free = my_free_by_constant;
	ways[1].munmap = my_munmap_by_constant;
	ways[2] = plain;
	ways[2].free = my_free_by_variable;
	ways[2].munmap = my_munmap_by_variable;
}

struct through {
	void (*set)(struct calls ways[WAYS]);
	RMA2_ERROR (*open)(RMA2_Port *);
	RMA2_ERROR (*close)(RMA2_Port);
	RMA2_ERROR (*add)(RMA2_Port, void *, size_t, RMA2_Region **);
	RMA2_ERROR (*drop)(RMA2_Port, RMA2_Region *);
	RMA2_ERROR (*add_cached)(RMA2_Port, void *, size_t, RMA2_Region **);
	RMA2_ERROR (*drop_cached)(RMA2_Port, RMA2_Region *);
	RMA2_ERROR (*statistics)(rma2_rc_statistics *);
	/* The region's memory is there no more. */
	int (*gone)(RMA2_Port, RMA2_Region *);
};

#if defined(THROUGH)

static int gone(RMA2_Port port, RMA2_Region *region)
{
	RMA2_Handle self = connect_to(port, port);
	RMA2_ERROR result = rma2_post_put_bt(port, self, region, 0, 8, 0, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT);

	OK(rma2_disconnect(port, self));
	return result == RMA2_ERR_MAP;
}

EXTERN struct through through(void);

struct through through(void)
{
	struct through all = { set,	      rma2_open,	rma2_close,		rma2_register,
			       rma2_unregister, rma2_rc_register, rma2_rc_unregister, rma2_rc_get_statistics,
			       gone };

	return all;
}

#elif defined(LATE)

EXTERN void late(struct calls ways[WAYS]);

void late(struct calls ways[WAYS])
{
	set(ways);
}

#elif defined(CLAIMS)

EXTERN void __libc_free(void *);

int claims;

void free(void *block)
{
	claims++;
	__libc_free(block);
}

#else

EXTERN __attribute__((weak)) struct through through(void);
EXTERN __attribute__((weak)) int claims;

static struct through rma2;
static RMA2_Port port;

static void is_gone(RMA2_Region *region)
{
	CHECK(rma2.gone(port, region) && rma2.drop(port, region) == RMA2_SUCCESS);
}

/* A buffer of the model, before anything else is asked of the library. */
static void buffers(const struct calls *by)
{
	uint64_t address = 0;
	int file = by->open(PMAP_DEVICE);

	CHECK(file >= 0 && by->set_size(file, 4 * PAGE) == 0);
	CHECK(ioctl(file, PMAP_IOCTL_GET_PADDR, &address) == 0 && address % PAGE == 0 && address);
	CHECK(by->close(file) == 0);
	file = by->open("/dev/null");
	CHECK(file >= 0 && by->set_size(file, PAGE) == -1 && errno == ENOTTY && by->close(file) == 0);
}

static void memory(const struct calls *by)
{
	RMA2_Region *region = NULL;
	size_t size;
	void *block;

	block = my_map_at(NULL, 4 * PAGE);
	CHECK(block != MAP_FAILED && rma2.add(port, block, 4 * PAGE, &region) == RMA2_SUCCESS);
	CHECK(!rma2.gone(port, region) && by->munmap(block, 4 * PAGE) == 0);
	is_gone(region);
	block = by->map_at(NULL, PAGE);
	CHECK(block != MAP_FAILED && rma2.add(port, block, PAGE, &region) == RMA2_SUCCESS);
	CHECK(by->map_at(block, PAGE) == block);
	is_gone(region);
	CHECK(by->munmap(block, PAGE) == 0);
	for (size = 100; size < 64 << 20; size *= 80) {
		void *volatile allocated = malloc(size);

		CHECK(allocated && rma2.add(port, allocated, size, &region) == RMA2_SUCCESS);
		by->free(allocated);
		is_gone(region);
	}
}

static rma2_rc_statistics counts(void)
{
	rma2_rc_statistics now;

	CHECK(rma2.statistics(&now) == RMA2_SUCCESS);
	return now;
}

/* A region of the cache that nobody uses. */
static void idle(void *block)
{
	RMA2_Region *region = NULL;

	CHECK(rma2.add_cached(port, block, PAGE, &region) == RMA2_SUCCESS);
	CHECK(rma2.drop_cached(port, region) == RMA2_SUCCESS);
}

/* Regions are kept while nobody uses them, since their memory is seen to go away. */
static void cache(const struct calls *by)
{
	void *block = my_map_at(NULL, PAGE);
	rma2_rc_statistics before = counts();

	CHECK(block != MAP_FAILED);
	idle(block);
	idle(block);
	CHECK(counts().hits == before.hits + 1 && counts().misses == before.misses + 1);
	CHECK(by->map_at(block, PAGE) == block);
	idle(block);
	CHECK(counts().hits == before.hits + 1 && counts().misses == before.misses + 2);
	CHECK(by->munmap(block, PAGE) == 0);
}

/* What a library does that was loaded meanwhile is not seen at first, so what was idle then is not kept. */
static void later(const char *path)
{
	void *block = my_map_at(NULL, PAGE), *library;
	rma2_rc_statistics before;
	struct calls ways[WAYS];
	void (*late)(struct calls *);
	int i;

	CHECK(block != MAP_FAILED);
	idle(block);
	idle(block);
	before = counts();
	library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	CHECK(library);
	*(void **)&late = dlsym(library, "late");
	CHECK(late);
	late(ways);
	CHECK(ways[0].map_at(block, PAGE) == block);
	idle(block);
	CHECK(counts().hits == before.hits && counts().misses == before.misses + 1);
	for (i = 0; i < WAYS; i++) {
		memory(&ways[i]);
		cache(&ways[i]);
		buffers(&ways[i]);
	}
	/* One that is there again is looked through again. */
	CHECK(dlclose(library) == 0);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	*(void **)&late = dlsym(library, "late");
	late(ways);
	idle(block);
	memory(&ways[1]);
	cache(&ways[0]);
	CHECK(ways[0].munmap(block, PAGE) == 0);
}

/* Blocks go to whom they are from. That they go is not seen, so nothing idle is kept; what else is seen still is. */
static void beside_another(const struct calls *by)
{
	void *block = malloc(1 << 20), *pages = my_map_at(NULL, PAGE);
	RMA2_Region *region = NULL;
	int before = claims;

	by->free(block);
	CHECK(claims > before && pages != MAP_FAILED);
	idle(pages);
	CHECK(counts().regions == 0);
	CHECK(rma2.add(port, pages, PAGE, &region) == RMA2_SUCCESS && by->munmap(pages, PAGE) == 0);
	is_gone(region);
}

int main(int argc, char **argv)
{
	struct calls own[WAYS], its[WAYS];
	struct through (*get)(void) = through;
	int i;

	CHECK(argc > 1);
	if (argc > 2) {
		void *library = dlopen(argv[2], (argc > 3 ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);

		if (!library)
			fprintf(stderr, "%s\n", dlerror());
		CHECK(library);
		*(void **)&get = dlsym(library, "through");
	}
	CHECK(get);
	rma2 = get();
	set(own);
	rma2.set(its);
	for (i = 0; i < WAYS; i++) {
		buffers(&own[i]);
		buffers(&its[i]);
	}
	CHECK(rma2.open(&port) == RMA2_SUCCESS);
	for (i = 0; i < WAYS && &claims; i++) {
		beside_another(&own[i]);
		beside_another(&its[i]);
	}
	if (&claims)
		return rma2.close(port) != RMA2_SUCCESS;
	for (i = 0; i < WAYS; i++) {
		memory(&own[i]);
		memory(&its[i]);
		cache(&own[i]);
		cache(&its[i]);
	}
	later(argv[1]);
	CHECK(rma2.close(port) == RMA2_SUCCESS);
	return 0;
}

#endif
