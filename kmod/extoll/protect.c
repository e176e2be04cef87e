// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protection ids (spec 7, 8.3). Ports reach each other only with the same id: who names a foreign VPID and its NLAs
 * finds packets dropped. A user's files have the user's id, which the table in the parameter `protection` gives, the
 * same on all nodes; it is fixed when the device is opened.
 */

#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uidgid.h>

#include "extoll.h"

#define RULES		128
#define NO_ID		(-EACCES)

/* Users from first to last have this id, or their own number's low bits. */
struct rule {
	u32 first, last;
	int id;
};

static DEFINE_MUTEX(table_lock);
static struct rule table[RULES];
static u32 rules;
static char *table_text;

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

static int rule_parse(char *text, struct rule *rule)
{
	char *id = strchr(text, ':');
	u16 number;
	int err;

	if (!id)
		return -EINVAL;
	*id++ = 0;
	err = users_parse(text, rule);
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

/* The number of rules in the text, which is taken apart. */
static int table_parse(char *text, struct rule *to)
{
	char *part;
	u32 count = 0;
	int err;

	if (!*text)
		return 0;
	while ((part = strsep(&text, ","))) {
		if (count == RULES)
			return -E2BIG;
		err = rule_parse(strim(part), &to[count++]);
		if (err)
			return -EINVAL;
	}
	return count;
}

/* All of the new table, or the old one. */
static int table_set(const char *value, const struct kernel_param *param)
{
	struct rule *fresh = kcalloc(RULES, sizeof(*fresh), GFP_KERNEL);
	char *text = kstrdup(value, GFP_KERNEL), *parts = kstrdup(value, GFP_KERNEL);
	int count = -ENOMEM;

	if (fresh && text && parts)
		count = table_parse(strim(parts), fresh);
	if (count >= 0) {
		mutex_lock(&table_lock);
		memcpy(table, fresh, count * sizeof(*fresh));
		rules = count;
		swap(table_text, text);
		mutex_unlock(&table_lock);
	}
	kfree(text);
	kfree(parts);
	kfree(fresh);
	return count < 0 ? count : 0;
}

static int table_get(char *buffer, const struct kernel_param *param)
{
	int length;

	mutex_lock(&table_lock);
	length = sysfs_emit(buffer, "%s\n", table_text ? strim(table_text) : "");
	mutex_unlock(&table_lock);
	return length;
}

static void table_free(void *arg)
{
	kfree(table_text);
}

static const struct kernel_param_ops table_ops = { .set = table_set, .get = table_get, .free = table_free };
module_param_cb(protection, &table_ops, NULL, 0644);
MODULE_PARM_DESC(protection, "Protection ids of users: UID:ID, FIRST-LAST:ID, *:ID or :none, by commas, the first that fits");

/* The id of a user's ports; -EACCES: may have none. */
int extoll_protection(kuid_t user)
{
	u32 number = from_kuid(&init_user_ns, user), i;
	int id = number & 0xffff;

	mutex_lock(&table_lock);
	for (i = 0; i < rules; i++) {
		if (number >= table[i].first && number <= table[i].last) {
			id = table[i].id;
			break;
		}
	}
	mutex_unlock(&table_lock);
	return id;
}
