/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * attack_users PEER: what users of a network could do to each other, who know each other's VPIDs and NLAs. Both guests do
 * the same at once: each has a victim, whom the attackers, friends and root of the other reach or not.
 */

#define _GNU_SOURCE
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "extoll/velo.h"
#include "users.h"

#define MARK	0x5a5a5a5a5a5a5a5aull
#define EVIL	0xee
#define FRIEND	0x11

/* Words of the victim's page. */
enum { KEPT = 0, FROM_FRIEND = 8, FROM_ROOT = 16, DONE = 24, WORDS = 512 };

struct box {
	struct extoll_port_open open;
	int fd;
	volatile uint64_t *page, *wcb, *slots;
};

static uint32_t peer;

static void box_open_as(struct box *box, uid_t user)
{
	become(user);
	memset(box, 0, sizeof(*box));
	box->fd = device_open();
	box->open.units = EXTOLL_UNIT_VELO;
	CHECK(ioctl(box->fd, EXTOLL_IOC_PORT_OPEN, &box->open) == 0 && box->open.slot_bytes == 128);
	box->page = map(box->fd, EXTOLL_MAP_VELO_REQUESTER, PAGE);
	box->wcb = map(box->fd, EXTOLL_MAP_VELO_WCB, PAGE);
	box->slots = map(box->fd, EXTOLL_MAP_VELO_MAILBOX, box->open.mailbox_bytes_out);
	CHECK(box->page != MAP_FAILED && box->wcb != MAP_FAILED && box->slots != MAP_FAILED);
	become(0);
}

static void send(struct box *box, uint32_t vpid, uint32_t tag)
{
	uint64_t line[2] = { extoll_velo_header(peer, vpid, 0, tag, 8), tag };

	line_post(box->wcb, box->page, line, 2);
}

static volatile uint64_t *status(struct box *box, uint32_t slot)
{
	return &box->slots[slot * 16 + 15];
}

static void await(volatile uint64_t *word, uint64_t other_than)
{
	for (uint64_t end = now_ns() + PATIENCE_NS; *word == other_than;) {
		CHECK(now_ns() < end);
		sched_yield();
	}
}

/* Somebody of the other node who knows where the victim there is: here, as both do the same. */
struct actor {
	struct port port;
	struct box box;
	volatile uint64_t *at;
	uint64_t nla;
};

static void actor_open(struct actor *actor, uid_t user)
{
	port_open_as(&actor->port, user);
	box_open_as(&actor->box, user);
	actor->at = memory(PAGE);
	memset((void *)actor->at, (uint8_t)MARK, PAGE);
	CHECK(region(&actor->port, (void *)actor->at, PAGE, &actor->nla) == 0);
}

static void put_word(struct actor *actor, const struct actor *victim, uint32_t word, uint64_t value)
{
	post(&actor->port, EXTOLL_OPTION_TE,
	     extoll_desc_immediate_put(peer, victim->port.open.vpid, 0, 0, 8, victim->nla + 8 * word, value));
}

static void get(struct actor *actor, const struct actor *victim, uint32_t bytes)
{
	post(&actor->port, EXTOLL_OPTION_TE,
	     extoll_desc_get(0, peer, victim->port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, victim->nla, actor->nla, bytes));
}

/* Until the victim is there. */
static void meet(struct actor *actor, const struct actor *victim)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	struct extoll_noti noti;

	do {
		CHECK(now_ns() < end);
		*(volatile uint8_t *)actor->at = 0;
		get(actor, victim, 1);
		noti = take(&actor->port, 100);
	} while (!noti.word1 || extoll_noti_error(noti.word1) || *(volatile uint8_t *)actor->at != (uint8_t)MARK);
}

/* The victim's page comes; what was answered before, late or not, is over then. */
static void get_page(struct actor *actor, const struct actor *victim)
{
	struct extoll_noti noti;

	get(actor, victim, PAGE);
	do {
		noti = take(&actor->port, PATIENCE_MS);
		CHECK(noti.word1 != 0);
	} while (noti.word0 + extoll_noti_size(noti.word1) != actor->nla + PAGE);
	CHECK(extoll_noti_error(noti.word1) == 0);
}

/* Every way to somebody's port, with a notification where there is one. */
static void attack(struct actor *actor, const struct actor *victim)
{
	uint32_t vpid = victim->port.open.vpid, both = EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER;

	memset((void *)actor->at, EVIL, PAGE);
	post(&actor->port, EXTOLL_OPTION_TE, extoll_desc_put(0, peer, vpid, both, 0, actor->nla, victim->nla, PAGE));
	put_word(actor, victim, KEPT, EVIL);
	note(&actor->port, peer, vpid, EVIL);
	post(&actor->port, EXTOLL_OPTION_TE,
	     extoll_desc_get(0, peer, vpid, EXTOLL_SPEC_COMPLETER, 0, victim->nla, actor->nla, PAGE));
	post(&actor->port, EXTOLL_OPTION_TE,
	     extoll_desc_lock(peer, vpid, EXTOLL_SPEC_COMPLETER, 0, 0, 3, 1 << 20, 7));
	send(&actor->box, victim->box.open.vpid, EVIL);
}

/* The put has left, and nothing was answered. */
static void expect_nothing(struct actor *actor)
{
	struct extoll_noti noti = take(&actor->port, PATIENCE_MS);

	CHECK(extoll_noti_kind(noti.word1) == EXTOLL_NOTI_KIND_REQUESTER);
	CHECK(take(&actor->port, 0).word1 == 0);
	for (int i = 0; i < WORDS; i++)
		CHECK(actor->at[i] == EVIL * 0x0101010101010101ull);
}

/* Behind the attackers, on the same way: what a friend does arrives, and shows that they are over. */
static void befriend(struct actor *actor, const struct actor *victim, uint32_t word)
{
	put_word(actor, victim, word, FRIEND);
	note(&actor->port, peer, victim->port.open.vpid, FRIEND);
	send(&actor->box, victim->box.open.vpid, FRIEND);
	get_page(actor, victim);
	CHECK(actor->at[word] == FRIEND && actor->at[KEPT] == MARK);
}

/* The lock that attackers added to. */
static void expect_lock(struct actor *actor, const struct actor *victim)
{
	struct extoll_noti noti;

	post(&actor->port, EXTOLL_OPTION_TE, extoll_desc_lock(peer, victim->port.open.vpid, EXTOLL_SPEC_COMPLETER, 0, 0, 3,
							      1 << 20, 0));
	noti = take(&actor->port, PATIENCE_MS);
	CHECK(extoll_noti_command(noti.word1) == EXTOLL_CMD_LOCK_RSP && extoll_noti_lock_value(noti.word0) == 0);
}

/* What was left of the victim: nothing but what friends and root did. */
static void expect_unharmed(struct actor *victim)
{
	for (int i = 0; i < WORDS; i++) {
		uint64_t word = i == FROM_FRIEND || i == FROM_ROOT || i == DONE ? FRIEND : MARK;

		if (victim->at[i] != word)
			printf("word %d is %#llx\n", i, (unsigned long long)victim->at[i]);
		CHECK(victim->at[i] == word);
	}
	for (int i = 0; i < 2; i++) {
		struct extoll_noti noti = take(&victim->port, PATIENCE_MS);

		CHECK(noti.word1 != 0 && extoll_noti_class(noti.word1) == FRIEND && noti.word0 == FRIEND);
		await(status(&victim->box, i), 0);
		CHECK(extoll_velo_status_tag(*status(&victim->box, i)) == FRIEND);
	}
	CHECK(take(&victim->port, 0).word1 == 0 && *status(&victim->box, 2) == 0);
}

/* Another node's root can take any id: cards believe each other. */
static void as_root(struct actor *root)
{
	struct extoll_port_rights rights = { .mask = EXTOLL_RIGHT_PROTECTION, .protection = VICTIM };

	actor_open(root, 0);
	CHECK(ioctl(root->port.fd, EXTOLL_IOC_PORT_RIGHTS, &rights) == 0);
	CHECK(ioctl(root->box.fd, EXTOLL_IOC_PORT_RIGHTS, &rights) == 0);
	rights.mask |= EXTOLL_RIGHT_TRAFFIC_CLASSES;
	CHECK_ERRNO(ioctl(root->box.fd, EXTOLL_IOC_PORT_RIGHTS, &rights), ENXIO);
}

static void between_nodes(void)
{
	long responder = number("counters/responder_protection"), completer = number("counters/completer_protection");
	static struct actor victim, other, friend, root;

	actor_open(&victim, VICTIM);
	actor_open(&other, OTHER);
	actor_open(&friend, VICTIM);
	as_root(&root);
	meet(&friend, &victim);
	attack(&other, &victim);
	befriend(&friend, &victim, FROM_FRIEND);
	expect_nothing(&other);
	expect_lock(&friend, &victim);
	befriend(&root, &victim, FROM_ROOT);
	put_word(&friend, &victim, DONE, FRIEND);
	get_page(&friend, &victim);	/* it has arrived */
	await(&victim.at[DONE], MARK);
	expect_unharmed(&victim);
	CHECK(number("counters/responder_protection") >= responder + 2);
	CHECK(number("counters/completer_protection") >= completer + 3);
	puts("attack_users: between nodes");
}

static int reaches(uid_t from, uid_t to)
{
	struct port sender, receiver;
	int whether;

	port_open_as(&sender, from);
	port_open_as(&receiver, to);
	whether = arrives(&sender, &receiver);
	port_close(&sender);
	port_close(&receiver);
	return whether;
}

static void tables(void)
{
	static const char *const wrong[] = { "1000", "x:1", "1-0:1", "1:65536", "1:1,", "1:", ":1", "-1:1", "1:1;2:2" };
	struct extoll_port_open open_ = { .units = EXTOLL_UNIT_RMA };
	int fd;

	CHECK(!reaches(OTHER, VICTIM) && !reaches(0, VICTIM) && reaches(VICTIM, VICTIM));
	/* A number that has the same low bits is the same id: sites with such numbers need a table. */
	CHECK(reaches(VICTIM + 65536, VICTIM));
	CHECK(table("1000-1001:7, 0:8") == 0);
	CHECK(reaches(OTHER, VICTIM) && reaches(VICTIM, OTHER) && !reaches(0, VICTIM) && !reaches(VICTIM + 65536, VICTIM));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK_ERRNO(table(wrong[i]), EINVAL);
	CHECK(table_is("1000-1001:7, 0:8") && reaches(OTHER, VICTIM));
	CHECK(table("1001:none,*:3") == 0 && reaches(0, VICTIM));
	become(OTHER);
	fd = device_open();
	become(0);
	CHECK(table("*:3") == 0);	/* too late for that file */
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open_), EACCES);
	close(fd);
	CHECK(reaches(OTHER, VICTIM));
	CHECK(table("") == 0 && !reaches(OTHER, VICTIM));
	puts("attack_users: tables");
}

/* Who makes a user namespace and is given numbers for it (subuid) stays who they are for others, whatever numbers these are. */
static void in_a_namespace(void)
{
	struct port own, victims;
	int state, made[2], mapped[2];
	char path[64], byte;
	pid_t child;

	port_open_as(&own, OTHER);
	port_open_as(&victims, VICTIM);
	CHECK(pipe(made) == 0 && pipe(mapped) == 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		struct port port;

		CHECK(setresuid(OTHER, OTHER, OTHER) == 0);
		byte = unshare(CLONE_NEWUSER) == 0;
		CHECK(write(made[1], &byte, 1) == 1 && read(mapped[0], &byte, 1) == 1);
		CHECK(setresuid(1, 1, 1) == 0);
		port_open(&port);
		note(&port, own.open.node, victims.open.vpid, EVIL);
		note(&port, own.open.node, own.open.vpid, FRIEND);
		pause();
	}
	close(made[1]);
	CHECK(read(made[0], &byte, 1) == 1);
	if (!byte) {
		CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &state, 0) == child);
		puts("attack_users: no user namespaces here");
		goto out;
	}
	snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
	CHECK(put_text(path, "0 1001 1\n1 66536 1\n") == 0);	/* 1000 in its low bits */
	CHECK(write(mapped[1], "", 1) == 1);
	CHECK(extoll_noti_class(take(&own, PATIENCE_MS).word1) == FRIEND);
	CHECK(take(&victims, 0).word1 == 0);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &state, 0) == child);
	puts("attack_users: in a namespace");
out:
	close(made[0]);
	close(mapped[0]);
	close(mapped[1]);
	port_close(&own);
	port_close(&victims);
}

/* A file that was opened by root and given away. */
static void dropped_rights(void)
{
	struct extoll_port_rights rights = { .mask = EXTOLL_RIGHT_PROTECTION, .protection = VICTIM };
	struct extoll_drop_rights drop = { .flags = 1 };
	struct extoll_port_open open_ = { .units = EXTOLL_UNIT_RMA };
	struct extoll_buffer_alloc buffer = { .bytes = PAGE };
	struct extoll_info info;
	int fd = device_open();

	CHECK(ioctl(fd, EXTOLL_IOC_INFO, &info) == 0 && info.flags == EXTOLL_INFO_PRIVILEGED);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_DROP_RIGHTS, &drop), EINVAL);
	drop.flags = 0;
	CHECK(ioctl(fd, EXTOLL_IOC_DROP_RIGHTS, &drop) == 0);
	CHECK(ioctl(fd, EXTOLL_IOC_INFO, &info) == 0 && info.flags == 0);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_BUFFER_ALLOC, &buffer), EPERM);
	CHECK(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open_) == 0 && !(open_.options & 1u << EXTOLL_OPTION_PHYSICAL));
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_PORT_RIGHTS, &rights), EPERM);
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_DROP_RIGHTS, &drop), EBUSY);
	close(fd);
	puts("attack_users: dropped rights");
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
	peer = (uint32_t)atoi(argv[1]);
	find_card();
	CHECK(chmod(DEVICE, 0666) == 0);
	between_nodes();
	tables();
	in_a_namespace();
	dropped_rights();
	puts("PASS attack_users");
	return 0;
}
