// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Memory of this process that others read and write: by messages in pieces, which the owner sends or takes only if the key
 * allows it at that time. So memory that was taken back is touched no more. What only UCX can copy is one message, and memory
 * that it still reads then cannot be taken back.
 */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

void ggas_ucx_memory_close(struct ggas_endpoint *e)
{
	struct region *region;

	for (size_t i = 0; i < BUCKETS; i++) {
		while ((region = e->regions[i])) {
			e->regions[i] = region->next;
			free(region);
		}
	}
}

/* Of memory that only this process moves, and that has an address here, there is nothing to keep: its region is 0. */
int ggas_ucx_reg(struct ggas_endpoint *e, void *memory, size_t len, uint32_t access, uint64_t *made, void *key,
		 size_t *key_len)
{
	const bool gpu = access & GGAS_ACCESS_GPU;
	struct region *region;
	int error;

	if (access == GGAS_ACCESS_LOCAL) {
		*made = 0;
		*key_len = 0;
		return 0;
	}
	region = calloc(1, sizeof(*region));
	error = region ? ggas_ucx_draw(e, &region->key) : UCS_ERR_NO_MEMORY;
	if (!error && gpu && (!e->gpu || access == (GGAS_ACCESS_ALL | GGAS_ACCESS_GPU)))
		error = UCS_ERR_UNSUPPORTED;
	if (error) {
		free(region);
		return error;
	}
	region->memory = memory;
	region->len = len;
	region->access = access & ~GGAS_ACCESS_GPU;
	region->gpu = gpu;
	if (gpu)
		ggas_ucx_use_gpu(e, memory);
	region->next = e->regions[region->key % BUCKETS];
	e->regions[region->key % BUCKETS] = region;
	memcpy(key, &region->key, sizeof(region->key));
	*key_len = sizeof(region->key);
	*made = (uintptr_t)region;
	return 0;
}

int ggas_ucx_unreg(struct ggas_endpoint *e, uint64_t which)
{
	struct region *region = (void *)(uintptr_t)which, **at;

	if (!region)
		return 0;
	at = &e->regions[region->key % BUCKETS];
	region->access = GGAS_ACCESS_LOCAL;
	if (region->out)
		return GGAS_AGAIN;
	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	free(region);
	return 0;
}

/* The region of a key; NULL: that does not allow access to these bytes of it. */
static struct region *opened(const struct ggas_endpoint *e, const struct head *head, uint64_t offset, uint64_t len,
			     bool write)
{
	struct region *region = e->regions[head->key % BUCKETS];

	while (region && region->key != head->key)
		region = region->next;
	if (!region || region->access == GGAS_ACCESS_LOCAL || (write && region->access != GGAS_ACCESS_ALL))
		return NULL;
	return offset <= region->len && len <= region->len - offset ? region : NULL;
}

/* Where these bytes of the key's region are; NULL: the key does not allow it. */
static char *allowed(const struct ggas_endpoint *e, const struct head *head, uint64_t offset, uint64_t len, bool write)
{
	struct region *region = opened(e, head, offset, len, write);

	return region ? region->memory + offset : NULL;
}

ucs_status_t ggas_ucx_on_read(void *arg, const void *header, size_t header_len, void *data, size_t len,
			      const ucp_am_recv_param_t *param)
{
	struct ggas_endpoint *e = arg;
	struct head head;
	struct peer *peer;

	(void)data;
	(void)len;
	(void)param;
	if (header_len != sizeof(head))
		return UCS_OK;
	memcpy(&head, header, sizeof(head));
	peer = ggas_ucx_peer(e, head.from);
	if (peer && !peer->failed)
		ggas_ucx_add_chore(e, peer, DATA, &head);
	return UCS_OK;
}

/* Has UCX read what one of us cannot copy, as one message. */
static void give_whole(struct parcel *parcel, struct region *region, const struct head *head)
{
	parcel->region = region;
	region->out++;
	if (ggas_ucx_launch(parcel, region->memory + head->offset, head->len))
		region->out--;
}

bool ggas_ucx_give(struct ggas_endpoint *e, struct chore *chore)
{
	const struct head *head = &chore->head;
	const uint64_t left = head->len - chore->sent, len = left < PIECE ? left : PIECE;
	const char *from = allowed(e, head, head->offset + chore->sent, len, false);
	struct region *region = opened(e, head, head->offset, head->len, false);
	struct parcel *parcel = ggas_ucx_parcel(e, chore->peer, DATA);

	if (!parcel)
		return false;
	parcel->head = (struct head){ .op = head->op, .offset = chore->sent };
	if (region && head->len && (region->gpu || head->whole)) {
		give_whole(parcel, region, head);
		return true;
	}
	if (!from || head->whole) {
		parcel->head.status = UCS_ERR_REJECTED;
		ggas_ucx_launch(parcel, NULL, 0);
		return true;
	}
	/* A copy: the memory may be taken back before UCX has sent it. */
	memcpy(parcel->buffer, from, len);
	chore->sent += len;
	return ggas_ucx_launch(parcel, parcel->buffer, len) || chore->sent == head->len;
}

ucs_status_t ggas_ucx_on_write(void *arg, const void *header, size_t header_len, void *data, size_t len,
			       const ucp_am_recv_param_t *param)
{
	struct ggas_endpoint *e = arg;
	struct head head, answer;
	struct peer *peer;
	char *to;

	if (header_len != sizeof(head) || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
		return UCS_OK;
	memcpy(&head, header, sizeof(head));
	peer = ggas_ucx_peer(e, head.from);
	if (!peer || peer->failed)
		return UCS_OK;
	to = allowed(e, &head, head.offset, len, true);
	answer = (struct head){ .op = head.op, .status = to ? UCS_OK : UCS_ERR_REJECTED };
	if (to)
		memcpy(to, data, len);
	if (to && head.last && head.notify) {
		const struct ggas_event event = { .kind = GGAS_WRITTEN, .immediate = head.immediate };

		ggas_ucx_tell(e, &event);
	}
	if (!to || head.last)
		ggas_ucx_add_chore(e, peer, ANSWER, &answer);
	return UCS_OK;
}

/* Comes in order with messages, as whatever goes by itself at once. */
ucs_status_t ggas_ucx_on_led(void *arg, const void *header, size_t header_len, void *data, size_t len,
			     const ucp_am_recv_param_t *param)
{
	struct ggas_endpoint *e = arg;
	const size_t led_len = header_len - sizeof(struct head);
	const char *led = (const char *)header + sizeof(struct head);
	struct ggas_event event = { .kind = GGAS_LED, .bytes = led, .len = led_len, .more = data, .more_len = len };
	struct head head;
	struct peer *peer;
	char *to;

	if (header_len < sizeof(head) || led_len > GGAS_HEAD_MAX || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
		return UCS_OK;
	memcpy(&head, header, sizeof(head));
	peer = ggas_ucx_peer(e, head.from);
	to = peer && !peer->failed ? allowed(e, &head, head.offset, led_len + len, true) : NULL;
	if (!to)
		return UCS_OK;
	event.immediate = head.immediate;
	if (ggas_ucx_offer(e, &event))
		return UCS_OK;
	memcpy(to, led, led_len);
	memcpy(to + led_len, data, len);
	event.kind = GGAS_WRITTEN;
	ggas_ucx_offer(e, &event);
	return UCS_OK;
}

bool ggas_ucx_answer(struct ggas_endpoint *e, struct chore *chore)
{
	struct parcel *parcel = ggas_ucx_parcel(e, chore->peer, ANSWER);

	if (!parcel)
		return false;
	parcel->head = chore->head;
	ggas_ucx_launch(parcel, NULL, 0);
	return true;
}
