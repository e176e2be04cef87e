/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What differs between processors. */
#ifndef ARCH_DEFINE_H
#define ARCH_DEFINE_H

/* Pages of the card: requester pages, registers, translations. */
#define EXTOLL_PAGE_SIZE 4096
#define EXTOLL_PAGE_SHIFT 12

#if defined(__x86_64__) || defined(__i386__)
#define EXTOLL_CACHELINE 64
/* Stores before it, also write-combined ones, are visible to the card before those behind it. */
#define EXTOLL_SFENCE() __asm__ __volatile__("sfence" ::: "memory")
#define EXTOLL_LFENCE() __asm__ __volatile__("lfence" ::: "memory")
#define EXTOLL_MFENCE() __asm__ __volatile__("mfence" ::: "memory")
#define EXTOLL_PAUSE() __asm__ __volatile__("pause" ::: "memory")
#elif defined(__aarch64__)
#define EXTOLL_CACHELINE 64
#define EXTOLL_SFENCE() __asm__ __volatile__("dsb st" ::: "memory")
#define EXTOLL_LFENCE() __asm__ __volatile__("dsb ld" ::: "memory")
#define EXTOLL_MFENCE() __asm__ __volatile__("dsb sy" ::: "memory")
#define EXTOLL_PAUSE() __asm__ __volatile__("yield" ::: "memory")
#else
#define EXTOLL_CACHELINE 64
#define EXTOLL_SFENCE() __sync_synchronize()
#define EXTOLL_LFENCE() __sync_synchronize()
#define EXTOLL_MFENCE() __sync_synchronize()
#define EXTOLL_PAUSE() __sync_synchronize()
#endif

#endif /* ARCH_DEFINE_H */
