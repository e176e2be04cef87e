/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the library prints goes through C's streams: in order with the program's, and without harm where they are full. */
#include <fcntl.h>
#include <unistd.h>

#include "common.h"

#ifdef __cplusplus
extern "C"
#endif
	/* In no header (spec 10.4b). */
	void rma2_read_notiqueue(volatile uint64_t *map, uint32_t len);

static RMA2_Notification notification;

/* What stands in the file, which the stream was sent to. */
static char *told(FILE *stream, int file)
{
	static char text[65536];
	ssize_t size;

	CHECK(fflush(stream) == 0 && !ferror(stream));
	size = pread(file, text, sizeof text - 1, 0);
	CHECK(size >= 0);
	text[size] = 0;
	CHECK(ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0);
	return text;
}

static void in_order(int file)
{
	char wanted[400] = "before\n";

	printf("before\n");
	rma2_noti_dump(&notification);
	printf("behind\n");
	rma2_noti_sdump(&notification, wanted, (int)sizeof wanted);
	CHECK(strlen(wanted) > 20);
	strcat(wanted, "behind\n");
	CHECK(strcmp(told(stdout, file), wanted) == 0);
	rma2_noti_dump(NULL);
	CHECK(strcmp(told(stdout, file), "no notification\n") == 0);
}

/* Words of a queue, at any address and not more than 512. */
static void queue(int file)
{
	uint64_t words[600];
	char wanted[100], *text;
	int lines = 0;
	size_t i;

	for (i = 0; i < 600; i++)
		words[i] = 0x1234500000000000u + i;
	printf("before\n");
	rma2_read_notiqueue(words, 2);
	snprintf(wanted, sizeof wanted, "before\n%p: 0x1234500000000000\n%p: 0x1234500000000001\n", (void *)words,
		 (void *)(words + 1));
	CHECK(strcmp(told(stdout, file), wanted) == 0);
	rma2_read_notiqueue(words, 600);
	for (text = told(stdout, file); *text; text++)
		lines += *text == '\n';
	CHECK(lines == 512);
	rma2_read_notiqueue((volatile uint64_t *)(void *)((uint8_t *)words + 8 * 5), 0);
	rma2_read_notiqueue(NULL, 5);
	CHECK(told(stdout, file)[0] == 0);
}

/* To standard error, which is not kept back. */
static void errors(int file)
{
	char wanted[400];

	strcpy(wanted, "header: ");
	rma2_serror(RMA2_ERR_NO_DESC_MEM, wanted + strlen(wanted), 300);
	strcat(wanted, "\n");
	rma2_perror(RMA2_ERR_NO_DESC_MEM, (char *)(uintptr_t) "header");
	CHECK(strcmp(told(stderr, file), wanted) == 0);
	rma2_perror(RMA2_ERR_NO_DESC_MEM, (char *)(uintptr_t) "");
	CHECK(strcmp(told(stderr, file), wanted + strlen("header: ")) == 0);
}

static void everything(void)
{
	uint64_t word = 5;

	rma2_noti_dump(&notification);
	rma2_read_notiqueue(&word, 1);
	rma2_perror(RMA2_ERR_ERROR, (char *)(uintptr_t) "header");
	rma2_perror(RMA2_ERR_ERROR, NULL);
}

/* Full and closed: what is printed is lost, and the program goes on and can tell by the stream. */
static void lost(int kept)
{
	int full = open("/dev/full", O_WRONLY), file;

	CHECK(full >= 0 && setvbuf(stdout, NULL, _IONBF, 0) == 0);
	CHECK(dup2(full, STDOUT_FILENO) == STDOUT_FILENO && dup2(full, STDERR_FILENO) == STDERR_FILENO);
	everything();
	if (!ferror(stdout) || !ferror(stderr)) {
		dprintf(kept, "a full stream has no error\n");
		exit(1);
	}
	clearerr(stdout);
	for (file = STDOUT_FILENO; file <= STDERR_FILENO; file++)
		close(file);
	everything();
	fclose(stdout);
	stdout = NULL;
	everything();
	if (dup2(kept, STDERR_FILENO) != STDERR_FILENO)
		exit(1);
}

int main(void)
{
	RMA2_Port port = open_port();
	RMA2_Handle self = connect_to(port, port);
	int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100), file = fileno(tmpfile());

	OK(rma2_post_notification(port, self, 6, 66, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	notification = next(port);
	CHECK(kept >= 100 && setvbuf(stdout, NULL, _IOFBF, 65536) == 0);
	CHECK(dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
	in_order(file);
	queue(file);
	CHECK(dup2(file, STDERR_FILENO) == STDERR_FILENO);
	errors(file);
	lost(kept);
	OK(rma2_close(port));
	return 0;
}
