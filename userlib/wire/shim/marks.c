// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Programs that a process starts inherit descriptors without FD_CLOEXEC, and would keep ports and connections open after its
 * death. Libraries open their sockets so, most of them inside of later calls. What a library calls of the C library stands in
 * a table of its own, which the loader has filled: calls that make descriptors are replaced there by ones that mark them as
 * they are made, so no other thread's fork comes between.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int marked_socket(int domain, int type, int protocol)
{
	return socket(domain, type | SOCK_CLOEXEC, protocol);
}

static int marked_socketpair(int domain, int type, int protocol, int pair[2])
{
	return socketpair(domain, type | SOCK_CLOEXEC, protocol, pair);
}

static int marked_accept(int listener, struct sockaddr *address, socklen_t *len)
{
	return accept4(listener, address, len, SOCK_CLOEXEC);
}

static int marked_epoll_create(int size)
{
	(void)size;
	return epoll_create1(EPOLL_CLOEXEC);
}

static int marked_eventfd(unsigned int count, int flags)
{
	return eventfd(count, flags | EFD_CLOEXEC);
}

/* What stands in place of a function of the C library; NULL: itself. */
static const void *marked(const char *name)
{
	if (!strcmp(name, "socket"))
		return (const void *)marked_socket;
	if (!strcmp(name, "socketpair"))
		return (const void *)marked_socketpair;
	if (!strcmp(name, "accept"))
		return (const void *)marked_accept;
	if (!strcmp(name, "epoll_create"))
		return (const void *)marked_epoll_create;
	if (!strcmp(name, "eventfd"))
		return (const void *)marked_eventfd;
	return NULL;
}

/* Part of a library that the loader has made read-only. */
struct closed {
	ElfW(Addr) base, start, end;
};

static int find_closed(struct dl_phdr_info *info, size_t size, void *to)
{
	struct closed *closed = to;

	(void)size;
	if (info->dlpi_addr != closed->base)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_GNU_RELRO)
			continue;
		closed->start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		closed->end = closed->start + info->dlpi_phdr[i].p_memsz;
	}
	return 1;
}

static void replace(const struct closed *closed, ElfW(Addr) at, const void *function)
{
	const ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE);
	void *start = (void *)(at & ~(page - 1));
	const bool is_closed = at >= closed->start && at < closed->end;

	if (is_closed && mprotect(start, page, PROT_READ | PROT_WRITE))
		return; /* the descriptors stay as the library makes them */
	__atomic_store_n((const void **)at, function, __ATOMIC_RELEASE);
	if (is_closed)
		mprotect(start, page, PROT_READ);
}

void ggas_mark_descriptors(void *library, const void *(*others)(const char *name))
{
	const ElfW(Rela) *tables[2] = { NULL, NULL };
	size_t sizes[2] = { 0, 0 };
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	struct closed closed = { 0 };
	struct link_map *map;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map))
		return;
	closed.base = map->l_addr;
	dl_iterate_phdr(find_closed, &closed);
	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		/* Some loaders have added the base already. */
		const ElfW(Addr) at = entry->d_un.d_ptr + (entry->d_un.d_ptr < map->l_addr ? map->l_addr : 0);

		switch (entry->d_tag) {
		case DT_JMPREL:
			tables[0] = (const void *)at;
			break;
		case DT_PLTRELSZ:
			sizes[0] = entry->d_un.d_val;
			break;
		case DT_RELA:
			tables[1] = (const void *)at;
			break;
		case DT_RELASZ:
			sizes[1] = entry->d_un.d_val;
			break;
		case DT_SYMTAB:
			symbols = (const void *)at;
			break;
		case DT_STRTAB:
			names = (const void *)at;
			break;
		}
	}
	for (int t = 0; t < 2 && symbols && names; t++) {
		for (size_t i = 0; tables[t] && i < sizes[t] / sizeof(*tables[t]); i++) {
			const ElfW(Rela) *rela = &tables[t][i];
			const size_t symbol = ELF64_R_SYM(rela->r_info);
			const char *name = names + symbols[symbol].st_name;
			const void *function = symbol && others ? others(name) : NULL;

			if (symbol && !function)
				function = marked(name);
			if (function)
				replace(&closed, map->l_addr + rela->r_offset, function);
		}
	}
}
