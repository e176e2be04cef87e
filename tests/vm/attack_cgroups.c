/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Protection ids by cgroup: who is in a job's cgroup, or below it, has the job's id, whoever they are, and nobody else
 * has it: not by other names for the cgroup, not by moving, not while processes move.
 */

#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "users.h"

#define CGROUPS	"/tmp/cgroups"
#define TABLE	"/jobs/17:9, /jobs/18:10, *:3"
#define LEVELS	(PATH_MAX / NAME_MAX + 1)	/* so many longest names are too much for one path */
#define ENTRIES	128	/* that a table may have */
#define ROUNDS	30

static void at(char *path, const char *cgroup, const char *file)
{
	snprintf(path, PATH_MAX, CGROUPS "%s%s", cgroup, file);
}

static void made(const char *cgroup)
{
	char path[PATH_MAX];

	at(path, cgroup, "");
	CHECK(mkdir(path, 0755) == 0);
}

static void removed(const char *cgroup)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	char path[PATH_MAX];

	at(path, cgroup, "");
	/* Who has just ended in it may still be on the way out. */
	while (rmdir(path)) {
		CHECK(errno == EBUSY && now_ns() < end);
		usleep(1000);
	}
}

/* This process is in the cgroup from now on. */
static void enter(const char *cgroup)
{
	char path[PATH_MAX];

	at(path, cgroup, "/cgroup.procs");
	CHECK(put_text(path, "0") == 0);
}

/* A port of a file that was opened in the cgroup; it is used outside. */
static void port_open_in(struct port *port, const char *cgroup, uid_t user)
{
	enter(cgroup);
	port_open_as(port, user);
	enter("");
}

static void both_reach(struct port *a, struct port *b, int whether)
{
	CHECK(arrives(a, b) == whether && arrives(b, a) == whether);
}

/* Where ports were opened, by whom, and the id that the table gives them. */
static const struct place {
	const char *cgroup;
	uid_t user;
	int id;
} places[] = {
	{ "/jobs/17", VICTIM, 9 }, { "/jobs/17", OTHER, 9 }, { "/jobs/17", 0, 9 }, { "/jobs/17/step", VICTIM, 9 },
	{ "/jobs/18", VICTIM, 10 }, { "/jobs/170", VICTIM, 3 }, { "/jobs", VICTIM, 3 }, { "/18", VICTIM, 3 },
	{ "", VICTIM, 3 },
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static void by_place(void)
{
	static struct port port[PLACES];

	for (size_t i = 0; i < PLACES; i++)
		port_open_in(&port[i], places[i].cgroup, places[i].user);
	for (size_t i = 0; i < PLACES; i++)
		for (size_t k = 0; k < PLACES; k++) {
			int reaches = arrives(&port[i], &port[k]);

			if (reaches != (places[i].id == places[k].id))
				printf("user %u in %s, and user %u in %s\n", places[i].user, places[i].cgroup,
				       places[k].user, places[k].cgroup);
			CHECK(reaches == (places[i].id == places[k].id));
		}
	for (size_t i = 0; i < PLACES; i++)
		port_close(&port[i]);
	puts("attack_cgroups: by place");
}

/* The id is that of the cgroup in which the file was opened, not of that in which the port is. */
static void opened_elsewhere(struct port *job17)
{
	struct extoll_port_open open_ = { .units = EXTOLL_UNIT_RMA };
	int fd;

	CHECK(table("/jobs/17:9, *:none") == 0);
	fd = device_open();
	enter("/jobs/17");
	CHECK_ERRNO(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open_), EACCES);
	close(fd);
	fd = device_open();
	enter("");
	CHECK(ioctl(fd, EXTOLL_IOC_PORT_OPEN, &open_) == 0);
	note(job17, open_.node, open_.vpid, 1);
	CHECK(port_wait(&(struct port){ .fd = fd }, 0, PATIENCE_NS) == 0);
	close(fd);
	CHECK_ERRNO(ioctl(fd = device_open(), EXTOLL_IOC_PORT_OPEN, &open_), EACCES);
	close(fd);
	CHECK(table(TABLE) == 0);
	puts("attack_cgroups: opened elsewhere");
}

/* The first entry that fits counts, of users and of cgroups. */
static void in_order(struct port *job17)
{
	static const struct {
		const char *table;
		int reaches;
	} orders[] = {
		{ "/jobs/17/step:11, /jobs/17:9", 0 }, { "/jobs/17:9, /jobs/17/step:11", 1 }, { "1000:11,/jobs/17:9", 0 },
		{ "/jobs/17:9,1000:11", 1 }, { "*:11, /jobs/17:9", 0 }, { "/jobs/18:11, /job/17:11, /jobs/1:11, 1000:9", 1 },
		{ "/jobs:9", 1 }, { "/17:9, /step:9, /jobs/17/ste:9, /jobs/17/step/step:9", 0 },
	};

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct port step;

		CHECK(table(orders[i].table) == 0);
		port_open_in(&step, "/jobs/17/step", VICTIM);
		both_reach(job17, &step, orders[i].reaches);
		port_close(&step);
	}
	CHECK(table(TABLE) == 0);
	puts("attack_cgroups: in order");
}

/* A job that has ended, and another one of the same name, which the entry means, too. */
static void made_again(struct port *job17)
{
	struct port again;

	removed("/jobs/17/step");
	removed("/jobs/17");
	port_open_in(&again, "/jobs", VICTIM);
	both_reach(job17, &again, 0);
	port_close(&again);
	made("/jobs/17");
	made("/jobs/17/step");
	port_open_in(&again, "/jobs/17/step", OTHER);
	both_reach(job17, &again, 1);
	port_close(&again);
	puts("attack_cgroups: made again");
}

/* A namespace in which the cgroup is called as that of another job is. */
static void in_a_namespace(void)
{
	pid_t child;
	int status;

	made("/jobs/17/jobs");
	made("/jobs/17/jobs/18");
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct port own, job17, job18;

		port_open_in(&job17, "/jobs/17", VICTIM);
		port_open_in(&job18, "/jobs/18", VICTIM);
		enter("/jobs/17");
		CHECK(unshare(CLONE_NEWCGROUP) == 0);
		enter("/jobs/17/jobs/18");
		port_open_as(&own, VICTIM);
		both_reach(&own, &job17, 1);
		both_reach(&own, &job18, 0);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	removed("/jobs/17/jobs/18");
	removed("/jobs/17/jobs");
	puts("attack_cgroups: in a namespace");
}

/* Below the cgroup, by a path that no buffer for paths holds. */
static void far_below(struct port *job17)
{
	char name[NAME_MAX + 1];
	struct port deep;

	memset(name, 'x', NAME_MAX);
	name[NAME_MAX] = 0;
	CHECK(chdir(CGROUPS "/jobs/17") == 0);
	for (int i = 0; i < LEVELS; i++)
		CHECK(mkdir(name, 0755) == 0 && chdir(name) == 0);
	CHECK(put_text("cgroup.procs", "0") == 0);
	port_open_as(&deep, VICTIM);
	enter("");
	both_reach(job17, &deep, 1);
	port_close(&deep);
	for (int i = 0; i < LEVELS; i++)
		CHECK(chdir("..") == 0 && rmdir(name) == 0);
	CHECK(chdir("/") == 0);
	puts("attack_cgroups: far below");
}

static volatile int stop;

static void *mover(void *arg)
{
	while (!stop) {
		enter("/jobs/18");
		enter("/jobs/17/step");
	}
	return arg;
}

/* Opened while the process is moved: by the one cgroup or by the other, never by none. */
static void while_moving(struct port *job17, struct port *job18)
{
	pthread_t thread;
	int seen[2] = { 0, 0 };

	enter("/jobs/17");
	CHECK(pthread_create(&thread, NULL, mover, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct port own;
		int in17;

		CHECK(table(i % 2 ? "/jobs/18:10,/jobs/17:9" : TABLE) == 0);
		port_open(&own);
		in17 = arrives(job17, &own);
		CHECK(arrives(job18, &own) == !in17);
		seen[in17]++;
		port_close(&own);
	}
	stop = 1;
	CHECK(pthread_join(thread, NULL) == 0);
	enter("");
	CHECK(table(TABLE) == 0);
	printf("attack_cgroups: while moving, %d times in one and %d in the other\n", seen[1], seen[0]);
}

/* A mistake anywhere, and nothing of the table is taken. */
static void mistakes(struct port *job17)
{
	static const char *const wrong[] = {
		"/:1", "/", "//jobs:1", "/jobs/:1", "/jobs//17:1", "/.:1", "/..:1", "/jobs/.:1", "/jobs/../jobs/17:1", "/jobs",
		"/jobs:", "/jobs:x", "/jobs:65536", "/jobs:-1", "jobs/17:1", "/jobs/17 :1", "/jobs /17:1", "/jobs/17:1:", "/a:1,,",
		"/a:1 /b:2",
	};
	static char text[PATH_MAX];
	struct port own;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK_ERRNO(table(wrong[i]), EINVAL);
		snprintf(text, sizeof(text), "/jobs/17:11, %s, *:12", wrong[i]);
		CHECK_ERRNO(table(text), EINVAL);
	}
	snprintf(text, sizeof(text), "/%0*d:1", NAME_MAX, 0);
	CHECK(table(text) == 0);
	CHECK(table(TABLE) == 0);
	snprintf(text, sizeof(text), "/%0*d:1", NAME_MAX + 1, 0);
	CHECK_ERRNO(table(text), EINVAL);
	text[0] = 0;
	for (int i = 0; i < ENTRIES; i++)
		strcat(text, i ? ",/a:1" : "/a:1");
	CHECK(table(text) == 0);
	CHECK(table(TABLE) == 0);
	CHECK_ERRNO(table(strcat(text, ",*:1")), E2BIG);
	/* A text that fills a page may be the first piece of one that goes on: where it ends says nothing. */
	snprintf(text, PAGE, "1:1%*s", (int)PAGE - 4, "");
	CHECK_ERRNO(table(text), E2BIG);
	text[PAGE - 2] = 0;
	CHECK(table(text) == 0);
	CHECK(table(TABLE) == 0);
	CHECK(table_is(TABLE));
	port_open_in(&own, "/jobs/17", VICTIM);
	both_reach(job17, &own, 1);
	port_close(&own);
	/* Names that look like mistakes. */
	CHECK(table("/.../..a/a:b/a*1-2:1, 0:2") == 0 && table(TABLE) == 0);
	puts("attack_cgroups: mistakes");
}

static const char *const tree[] = { "/jobs", "/jobs/17", "/jobs/17/step", "/jobs/18", "/jobs/170", "/18" };
#define TREE (sizeof(tree) / sizeof(tree[0]))

static void all(void)
{
	struct port job17, job18;

	CHECK(table(TABLE) == 0);	/* before there is such a cgroup */
	for (size_t i = 0; i < TREE; i++)
		made(tree[i]);
	by_place();
	port_open_in(&job17, "/jobs/17", VICTIM);
	port_open_in(&job18, "/jobs/18", VICTIM);
	opened_elsewhere(&job17);
	in_order(&job17);
	made_again(&job17);
	in_a_namespace();
	far_below(&job17);
	while_moving(&job17, &job18);
	mistakes(&job17);
	both_reach(&job17, &job18, 0);
	port_close(&job17);
	port_close(&job18);
	for (size_t i = TREE; i-- > 0;)
		removed(tree[i]);
	CHECK(umount(CGROUPS) == 0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	find_card();
	CHECK(chmod(DEVICE, 0666) == 0 && mkdir(CGROUPS, 0755) == 0);
	if (mount("none", CGROUPS, "cgroup2", 0, NULL) == 0) {
		all();
	} else {
		/* A kernel without cgroups, where no entry for one could ever fit. */
		CHECK(errno == ENODEV && table("*:3") == 0);
		CHECK_ERRNO(table("0:1, /jobs/17:9"), EOPNOTSUPP);
		CHECK(table_is("*:3"));
		puts("attack_cgroups: no cgroups here");
	}
	CHECK(table("") == 0);
	puts("PASS attack_cgroups");
	return 0;
}
