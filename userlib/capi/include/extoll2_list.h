/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Doubly linked lists with a pool of items behind them, and branch hints (spec 10.3, 10.4b).
 *
 * An item is a structure that begins with an extoll_list_head_t. A list is one thread's at a time. What the
 * specification leaves open is ours: the first and the last item of an empty list are null, and so is the item behind
 * the last one.
 */
#ifndef EXTOLL2_LIST_H
#define EXTOLL2_LIST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#endif
#ifndef unlikely
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif

/* Links of an item that was removed: whoever follows them is stopped by the system. */
#define EXTOLL_LIST_POISON1 ((void *)0x00100100)
#define EXTOLL_LIST_POISON2 ((void *)0x00200200)

/* A list's head, or an item's place in it. An empty list's head points to itself. */
typedef struct extoll_list_head {
	struct extoll_list_head *next;
	struct extoll_list_head *prev;
} extoll_list_head_t;

/* A list, its free items, and the memory of all of them. */
typedef struct {
	char name[32];
	/* Bytes. */
	uint32_t item_size;
	/* Items in the list. */
	uint32_t num_items;
	/* Items by which the pool grows when none is free; 0: it does not. */
	uint32_t free_increment;
	uint32_t num_free_items;
	/* Items of the pool, wherever they are now. */
	uint32_t items_alloced;
	/* Of extoll2_pool_item_t. */
	extoll_list_head_t pool_list;
	extoll_list_head_t free_list;
	extoll_list_head_t list;
} extoll2_list_t;

/* One block of memory of a pool. */
typedef struct {
	extoll_list_head_t list;
	void *address;
	/* Bytes. */
	uint32_t size;
	/* Items. */
	uint32_t entries;
} extoll2_pool_item_t;

/*
 * An empty list with initial_pool_size free items. The name is cut to 31 characters. Null: no memory, or items that have
 * no room for their links.
 */
extoll2_list_t *extoll2_construct_list(uint32_t item_size, uint32_t initial_pool_size, uint32_t free_increment,
				       const char *name);

/* Frees a list with all items, which nobody may use any more. */
void extoll2_destruct_list(extoll2_list_t *list);

/* Adds num_items free items of zeroes. 0: done; else there is no memory, or nothing was asked for. */
int extoll2_alloc_pool(extoll2_list_t *list, uint32_t num_items);

/* Frees one block, whose items are in no list any more, neither used nor free; counts stay as they are. 0: done. */
int extoll2_free_pool(extoll2_pool_item_t *pool_item);

static inline uint32_t extoll2_list_get_size(extoll2_list_t *list)
{
	return list->num_items;
}

static inline uint32_t extoll2_list_get_freelist_size(extoll2_list_t *list)
{
	return list->num_free_items;
}

static inline uint32_t extoll2_list_get_allocated_items(extoll2_list_t *list)
{
	return list->items_alloced;
}

static inline int extoll2_list_isempty(extoll2_list_t *list)
{
	return list->list.next == &list->list;
}

/* At the end. */
static inline void extoll2_list_append(extoll2_list_t *list, void *item)
{
	extoll_list_head_t *links = (extoll_list_head_t *)item, *head = &list->list;

	links->next = head;
	links->prev = head->prev;
	head->prev->next = links;
	head->prev = links;
	list->num_items++;
}

/* Takes an item out of the list that it is in; its links are poisoned. */
static inline void extoll2_list_remove(extoll2_list_t *list, void *item)
{
	extoll_list_head_t *links = (extoll_list_head_t *)item;

	links->prev->next = links->next;
	links->next->prev = links->prev;
	links->next = (extoll_list_head_t *)EXTOLL_LIST_POISON1;
	links->prev = (extoll_list_head_t *)EXTOLL_LIST_POISON2;
	list->num_items--;
}

static inline void *extoll2_list_first(extoll2_list_t *list)
{
	return extoll2_list_isempty(list) ? NULL : list->list.next;
}

static inline void *extoll2_list_last(extoll2_list_t *list)
{
	return extoll2_list_isempty(list) ? NULL : list->list.prev;
}

/* The item behind this one. */
static inline void *extoll2_list_get_next(extoll2_list_t *list, void *item)
{
	extoll_list_head_t *next = ((extoll_list_head_t *)item)->next;

	return next == &list->list ? NULL : next;
}

/* A free item, linked to itself; the pool grows for it. Null: it cannot. Contents are those of its last use. */
static inline void *extoll2_new_item(extoll2_list_t *list)
{
	extoll_list_head_t *links;

	if (unlikely(list->free_list.next == &list->free_list) && extoll2_alloc_pool(list, list->free_increment) != 0)
		return NULL;
	links = list->free_list.next;
	links->next->prev = links->prev;
	links->prev->next = links->next;
	links->next = links;
	links->prev = links;
	list->num_free_items--;
	return links;
}

/* Gives an item back, which is in no list: the caller has removed it. 0. */
static inline int extoll2_free_item(extoll2_list_t *list, void *item)
{
	extoll_list_head_t *links = (extoll_list_head_t *)item, *head = &list->free_list;

	links->next = head->next;
	links->prev = head;
	head->next->prev = links;
	head->next = links;
	list->num_free_items++;
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* EXTOLL2_LIST_H */
