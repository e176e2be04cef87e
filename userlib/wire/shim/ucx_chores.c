// SPDX-License-Identifier: MIT OR Apache-2.0
/* What is to be sent as soon as there is room for it. */
#include "ucx.h"

#include <stdlib.h>

void ggas_ucx_chores_open(struct ggas_endpoint *e)
{
	e->last_chore = &e->chores;
}

void ggas_ucx_chores_close(struct ggas_endpoint *e)
{
	struct chore *chore;

	while ((chore = e->chores)) {
		e->chores = chore->next;
		free(chore);
	}
}

struct chore *ggas_ucx_add_chore(struct ggas_endpoint *e, struct peer *peer, enum kind kind, const struct head *head)
{
	struct chore *chore = e->chore_count < CHORES_MAX ? calloc(1, sizeof(*chore)) : NULL;

	if (!chore)
		return NULL;
	chore->peer = peer;
	chore->kind = kind;
	chore->head = *head;
	*e->last_chore = chore;
	e->last_chore = &chore->next;
	e->chore_count++;
	return chore;
}

void ggas_ucx_drop_chores(struct ggas_endpoint *e, struct peer *peer)
{
	/* They may be in use just now: the next look takes them away. */
	for (struct chore *chore = e->chores; chore; chore = chore->next) {
		if (chore->peer == peer)
			chore->peer = NULL;
	}
}

/* Goes on with a chore while there is room. Whether it is over. */
static bool work(struct ggas_endpoint *e, struct chore *chore)
{
	while (chore->peer) {
		struct peer *peer = chore->peer;
		const uint32_t room = peer->pieces < PEER_PIECES && e->free_pieces;
		const bool over = chore->kind == DATA  ? room && ggas_ucx_give(e, chore) :
				  chore->kind == WRITE ? room && ggas_ucx_put(e, chore) :
							 ggas_ucx_answer(e, chore);

		if (over)
			return true;
		if (!room || chore->kind == ANSWER)
			return false;
	}
	return true;
}

void ggas_ucx_serve(struct ggas_endpoint *e)
{
	struct chore **at = &e->chores, *chore;

	if (e->serving)
		return;
	e->serving = true;
	while ((chore = *at)) {
		if (!work(e, chore)) {
			at = &chore->next;
			continue;
		}
		*at = chore->next;
		if (e->last_chore == &chore->next)
			e->last_chore = at;
		e->chore_count--;
		free(chore);
	}
	e->serving = false;
}
