/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lists with a pool of items (spec 10.4b): order, counts, growth, and what links say. */
#include "common.h"
#include "extoll2_list.h"

typedef struct {
	extoll_list_head_t links;
	uint32_t number;
	char text[5];
} item_t;

static void check(extoll2_list_t *list, uint32_t used, uint32_t idle, uint32_t all)
{
	CHECK(extoll2_list_get_size(list) == used && list->num_items == used);
	CHECK(extoll2_list_get_freelist_size(list) == idle && list->num_free_items == idle);
	CHECK(extoll2_list_get_allocated_items(list) == all && list->items_alloced == all);
	CHECK(!extoll2_list_isempty(list) == (used > 0));
}

static item_t *add(extoll2_list_t *list, uint32_t number)
{
	item_t *item = (item_t *)extoll2_new_item(list);

	CHECK(item && item->links.next == &item->links && item->links.prev == &item->links);
	item->number = number;
	memset(item->text, 'x', sizeof item->text);
	extoll2_list_append(list, item);
	return item;
}

static void drop(extoll2_list_t *list, item_t *item)
{
	extoll2_list_remove(list, item);
	CHECK(item->links.next == (extoll_list_head_t *)EXTOLL_LIST_POISON1);
	CHECK(item->links.prev == (extoll_list_head_t *)EXTOLL_LIST_POISON2);
	CHECK(extoll2_free_item(list, item) == 0);
}

/* Items in order, by every second number. */
static void holds(extoll2_list_t *list, uint32_t first, uint32_t step, uint32_t count)
{
	item_t *item = (item_t *)extoll2_list_first(list), *last = NULL;
	uint32_t i;

	for (i = 0; i < count; i++) {
		CHECK(item && item->number == first + i * step && (uintptr_t)item % sizeof(void *) == 0);
		last = item;
		item = (item_t *)extoll2_list_get_next(list, item);
	}
	CHECK(!item && (item_t *)extoll2_list_last(list) == last);
}

static void use(void)
{
	extoll2_list_t *list = extoll2_construct_list(sizeof(item_t), 4, 3, "descriptors");
	item_t *items[8];
	uint32_t i;

	CHECK(list && strcmp(list->name, "descriptors") == 0 && list->item_size == sizeof(item_t));
	CHECK(list->free_increment == 3 && list->pool_list.next != &list->pool_list);
	check(list, 0, 4, 4);
	holds(list, 0, 1, 0);
	for (i = 0; i < 8; i++)
		items[i] = add(list, i);
	/* Grown by three, twice. */
	check(list, 8, 2, 10);
	holds(list, 0, 1, 8);
	for (i = 0; i < 8; i += 2)
		drop(list, items[i]);
	check(list, 4, 6, 10);
	holds(list, 1, 2, 4);
	CHECK(extoll2_alloc_pool(list, 100) == 0);
	check(list, 4, 106, 110);
	for (i = 1; i < 8; i += 2)
		drop(list, items[i]);
	for (i = 0; i < 110; i++)
		add(list, i);
	check(list, 110, 0, 110);
	holds(list, 0, 1, 110);
	extoll2_destruct_list(list);
}

/* A block whose items nobody has is given back by itself. */
static void blocks(void)
{
	extoll2_list_t *list = extoll2_construct_list(24, 0, 0, NULL);
	extoll2_pool_item_t *block;

	CHECK(list && list->name[0] == 0);
	check(list, 0, 0, 0);
	/* Nothing is free, and it does not grow. */
	CHECK(!extoll2_new_item(list));
	CHECK(extoll2_alloc_pool(list, 5) == 0);
	block = (extoll2_pool_item_t *)(void *)list->pool_list.next;
	CHECK(block->entries == 5 && block->size == 5 * 24 && block->address == (void *)list->free_list.next);
	list->free_list.next = &list->free_list;
	list->free_list.prev = &list->free_list;
	list->num_free_items = 0;
	CHECK(extoll2_free_pool(block) == 0 && list->pool_list.next == &list->pool_list);
	CHECK(!extoll2_new_item(list));
	extoll2_destruct_list(list);
}

static void refused(void)
{
	extoll2_list_t *list = extoll2_construct_list(17, 1, 1, "a name of more than thirty-one characters");

	CHECK(list && strcmp(list->name, "a name of more than thirty-one ") == 0);
	CHECK(extoll2_alloc_pool(list, 0) != 0 && extoll2_alloc_pool(list, UINT32_MAX) != 0);
	CHECK(extoll2_alloc_pool(NULL, 1) != 0 && extoll2_free_pool(NULL) != 0);
	check(list, 0, 1, 1);
	/* Links are aligned in items of odd sizes, too. */
	CHECK(extoll2_alloc_pool(list, 3) == 0 && (uintptr_t)list->free_list.prev % sizeof(void *) == 0);
	extoll2_destruct_list(list);
	extoll2_destruct_list(NULL);
	CHECK(!extoll2_construct_list(15, 0, 1, "no room for links"));
	CHECK(likely(1) && !unlikely(0));
}

int main(void)
{
	use();
	blocks();
	refused();
	return 0;
}
