/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Doubly linked lists inside of the structures that they join, and branch hints (spec 10.3). */
#ifndef EXTOLL2_LIST_H
#define EXTOLL2_LIST_H

#include <stddef.h>
#include <string.h>

#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#endif
#ifndef unlikely
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif

/* A list's head, or an element's place in it. An empty list's head points to itself. */
struct extoll2_list_head {
	struct extoll2_list_head *next;
	struct extoll2_list_head *prev;
};

/* The structure whose member is the list element at pointer. */
#define extoll2_list_entry(pointer, type, member) ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

#define extoll2_list_for_each(position, head) \
	for ((position) = (head)->next; (position) != (head); (position) = (position)->next)

/* As above; the element at position may be removed. */
#define extoll2_list_for_each_safe(position, following, head)                       \
	for ((position) = (head)->next, (following) = (position)->next; (position) != (head); \
	     (position) = (following), (following) = (position)->next)

static inline void extoll2_list_init(struct extoll2_list_head *head)
{
	head->next = head;
	head->prev = head;
}

static inline int extoll2_list_empty(const struct extoll2_list_head *head)
{
	return head->next == head;
}

static inline void extoll2_list_insert(struct extoll2_list_head *element, struct extoll2_list_head *prev,
				       struct extoll2_list_head *next)
{
	next->prev = element;
	element->next = next;
	element->prev = prev;
	prev->next = element;
}

/* At the front. */
static inline void extoll2_list_add(struct extoll2_list_head *element, struct extoll2_list_head *head)
{
	extoll2_list_insert(element, head, head->next);
}

/* At the end. */
static inline void extoll2_list_add_tail(struct extoll2_list_head *element, struct extoll2_list_head *head)
{
	extoll2_list_insert(element, head->prev, head);
}

/* Takes an element out; it is then an empty list of its own. */
static inline void extoll2_list_del(struct extoll2_list_head *element)
{
	element->prev->next = element->next;
	element->next->prev = element->prev;
	extoll2_list_init(element);
}

#endif /* EXTOLL2_LIST_H */
