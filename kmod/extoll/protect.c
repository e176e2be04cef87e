// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protection ids (spec 7, 8.3). Ports reach each other only with the same id: who names a foreign VPID and its NLAs
 * finds packets dropped. A file has the id that the table in the parameter `protection`, the same on all nodes, gives
 * the user who opens it, or the cgroup that the opener is in; it is fixed when the device is opened.
 */

#include <linux/cgroup.h>
#include <linux/kernfs.h>
#include <linux/limits.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uidgid.h>

#include "extoll.h"

#define RULES		128
#define NO_ID		(-EACCES)

/* Users from first to last have this id, or whoever is in a cgroup or below it. */
struct rule {
	u32 first, last;
	const char *cgroup;		/* its path; NULL: the rule is for users */
	int levels;			/* components of the path */
	int id;
};

struct table {
	u32 rules;
	struct rule rule[RULES];
	char *text;			/* as it was given */
	char *parts;			/* the same, taken apart: paths lie there */
};

/* Spinning: who holds it goes on, whatever scheduling the holder asked for, and nobody's open waits for long. */
static DEFINE_SPINLOCK(table_lock);
static struct table *table;		/* NULL: every user's id is the number's low bits */

/* The number of a user, and of the last one of several, before the colon. */
static int users_parse(char *text, struct rule *rule)
{
	char *last = strchr(text, '-');
	int err;

	if (!strcmp(text, "*")) {
		rule->first = 0;
		rule->last = U32_MAX;
		return 0;
	}
	if (last)
		*last++ = 0;
	err = kstrtou32(text, 10, &rule->first);
	if (!err)
		err = kstrtou32(last ?: text, 10, &rule->last);
	return err ?: rule->first > rule->last ? -EINVAL : 0;
}

/* The path of a cgroup, as the hierarchy has it: what no path can be is a mistake. */
static int cgroup_parse(const char *path, struct rule *rule)
{
	const char *at = path;

	if (!IS_ENABLED(CONFIG_CGROUPS))
		return -EOPNOTSUPP;
	for (; *at == '/'; rule->levels++) {
		size_t length = strcspn(++at, "/ \t\n");

		if (!length || length > NAME_MAX || (length <= 2 && *at == '.' && at[length - 1] == '.'))
			return -EINVAL;
		at += length;
	}
	rule->cgroup = path;
	return *at || at - path >= PATH_MAX - 1 ? -EINVAL : 0;
}

static int rule_parse(char *text, struct rule *rule)
{
	char *id = strrchr(text, ':');
	u16 number;
	int err;

	if (!id)
		return -EINVAL;
	*id++ = 0;
	err = *text == '/' ? cgroup_parse(text, rule) : users_parse(text, rule);
	if (err)
		return err;
	if (!strcmp(id, "none")) {
		rule->id = NO_ID;
		return 0;
	}
	err = kstrtou16(id, 10, &number);
	rule->id = number;
	return err;
}

static int table_parse(struct table *to)
{
	char *rest = strim(to->parts), *part;
	int err;

	if (!*rest)
		return 0;
	while ((part = strsep(&rest, ","))) {
		if (to->rules == RULES)
			return -E2BIG;
		err = rule_parse(strim(part), &to->rule[to->rules++]);
		if (err)
			return err == -EOPNOTSUPP ? err : -EINVAL;
	}
	return 0;
}

static void table_end(struct table *old)
{
	if (!old)
		return;
	kfree(old->text);
	kfree(old->parts);
	kfree(old);
}

/*
 * All of the new table, or the old one. A text that fills the page may go on in another write: nothing tells whether
 * that is its end.
 */
static int table_set(const char *value, const struct kernel_param *param)
{
	struct table *fresh;
	int err;

	if (strlen(value) >= PAGE_SIZE - 1)
		return -E2BIG;
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	if (!fresh)
		return -ENOMEM;
	fresh->text = kstrdup(value, GFP_KERNEL);
	fresh->parts = kstrdup(value, GFP_KERNEL);
	err = fresh->text && fresh->parts ? table_parse(fresh) : -ENOMEM;
	if (!err) {
		spin_lock(&table_lock);
		swap(table, fresh);
		spin_unlock(&table_lock);
	}
	table_end(fresh);
	return err;
}

static int table_get(char *buffer, const struct kernel_param *param)
{
	int length;

	spin_lock(&table_lock);
	length = sysfs_emit(buffer, "%s\n", table ? strim(table->text) : "");
	spin_unlock(&table_lock);
	return length;
}

static void table_free(void *arg)
{
	table_end(table);
}

static const struct kernel_param_ops table_ops = { .set = table_set, .get = table_get, .free = table_free };
module_param_cb(protection, &table_ops, NULL, 0644);
MODULE_PARM_DESC(protection, "Protection ids: UID:ID, FIRST-LAST:ID, *:ID, /CGROUP:ID or :none, by commas; first that fits");

#if IS_ENABLED(CONFIG_CGROUPS)
/*
 * Whether the caller is in the rule's cgroup or below it, by the hierarchy's own names: what a cgroup namespace shows
 * as that path is for its users to choose. The names of all that is above the caller stay: cgroups of version 2 are not
 * renamed, nor removed while a process is in them. Only the ancestor that can be meant is named, so it is no use to be
 * below it at a path that is too long for the buffer.
 */
static bool in_cgroup(const struct rule *rule)
{
	static char path[PATH_MAX];
	struct cgroup *cgroup;
	int length = -ENOENT;

	lockdep_assert_held(&table_lock);
	rcu_read_lock();
	cgroup = cgroup_ancestor(task_dfl_cgroup(current), rule->levels);
	if (cgroup)
		length = kernfs_path(cgroup->kn, path, sizeof(path));
	rcu_read_unlock();
	return length > 0 && !strcmp(path, rule->cgroup);
}
#else
static bool in_cgroup(const struct rule *rule)
{
	return false;
}
#endif

/* The id of the ports of a file that the caller opens as this user; -EACCES: may have none. */
int extoll_protection(kuid_t user)
{
	u32 number = from_kuid(&init_user_ns, user), i;
	int id = number & 0xffff;

	spin_lock(&table_lock);
	for (i = 0; table && i < table->rules; i++) {
		const struct rule *rule = &table->rule[i];

		if (rule->cgroup ? in_cgroup(rule) : number >= rule->first && number <= rule->last) {
			id = rule->id;
			break;
		}
	}
	spin_unlock(&table_lock);
	return id;
}
