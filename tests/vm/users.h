/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For tests of protection ids: ports of several users, the administrator's table, and who reaches whom. */
#ifndef VM_USERS_H
#define VM_USERS_H

#include "card.h"

#define VICTIM	1000
#define OTHER	1001

/* Whom the files that are opened next belong to. Only the effective ids change back. */
static inline void become(uid_t user)
{
	CHECK(setresuid(0, 0, 0) == 0);
	CHECK(setresuid(user, user, 0) == 0);
}

static inline void port_open_as(struct port *port, uid_t user)
{
	become(user);
	port_open(port);
	become(0);
}

static inline void note(struct port *port, uint32_t node, uint32_t vpid, uint32_t class_)
{
	post(port, EXTOLL_OPTION_TE,
	     extoll_desc_notification_put(node, vpid, EXTOLL_SPEC_COMPLETER, 0, class_, class_));
}

/* Whether what one sends comes to the other of this node, seen by what the other one sends itself after it. */
static inline int arrives(struct port *sender, struct port *receiver)
{
	uint32_t class_;

	note(sender, receiver->open.node, receiver->open.vpid, 1);
	note(receiver, receiver->open.node, receiver->open.vpid, 2);
	class_ = extoll_noti_class(take(receiver, PATIENCE_MS).word1);
	CHECK(class_ == 2 || (class_ == 1 && extoll_noti_class(take(receiver, PATIENCE_MS).word1) == 2));
	return class_ == 1;
}

static inline int table(const char *text)
{
	return put_text("/sys/module/extoll/parameters/protection", *text ? text : "\n");
}

static inline int table_is(const char *want)
{
	return text_is("/sys/module/extoll/parameters/protection", want);
}

#endif /* VM_USERS_H */
