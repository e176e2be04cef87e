/* SPDX-License-Identifier: GPL-2.0-only */
/* Whom limits of users count for; gpumap has them, too. */
#ifndef EXTOLL_QUOTA_H
#define EXTOLL_QUOTA_H

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

/*
 * The user that the caller is for others. Users of a user namespace count as the one outside who made it: they can be
 * as many, and have any number, as that one likes.
 */
static inline kuid_t extoll_outer_user(void)
{
	const struct cred *cred = current_cred();
	const struct user_namespace *ns;
	kuid_t user = cred->uid;

	for (ns = cred->user_ns; ns->parent; ns = ns->parent)
		user = ns->owner;
	return user;
}

/* The user whose limit what the caller opens counts for; INVALID_UID: nobody's, the caller has CAP_SYS_RESOURCE. */
static inline kuid_t extoll_quota_user(void)
{
	return capable(CAP_SYS_RESOURCE) ? INVALID_UID : extoll_outer_user();
}

#endif /* EXTOLL_QUOTA_H */
