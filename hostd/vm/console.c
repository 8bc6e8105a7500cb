/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's serial console, written to a log of bounded size. */
#include "hostd/vm/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/io.h"

enum { READS_PER_TURN = 16 };

struct console {
	struct loop_fd *watch;
	int fd, dirfd, log;
	size_t logged;
	char tail[2 * CONSOLE_TAIL];
	size_t tail_len;
};

static int log_open(struct console *c, struct err *err)
{
	if (c->log >= 0)
		close(c->log);
	c->logged = 0;
	renameat(c->dirfd, CONSOLE_LOG, c->dirfd, CONSOLE_LOG_OLD);
	c->log = openat(c->dirfd, CONSOLE_LOG, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	return c->log < 0 ? err_errno(err, "create " CONSOLE_LOG) : 0;
}

static void tail_add(struct console *c, const char *p, size_t n)
{
	if (c->tail_len + n > sizeof(c->tail)) {
		size_t keep = c->tail_len < CONSOLE_TAIL ? c->tail_len : CONSOLE_TAIL;

		memmove(c->tail, c->tail + c->tail_len - keep, keep);
		c->tail_len = keep;
	}
	memcpy(c->tail + c->tail_len, p, n);
	c->tail_len += n;
}

/* A console that can't be logged (disk full) is still read, or the guest would stand still. */
static bool read_some(struct console *c)
{
	char chunk[CONSOLE_TAIL];
	ssize_t n = read(c->fd, chunk, sizeof(chunk));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		loop_fd_del(c->watch);
		c->watch = NULL;
		return false;
	}
	tail_add(c, chunk, (size_t)n);
	if (c->logged + (size_t)n > CONSOLE_LOG_BYTES)
		log_open(c, NULL);
	if (c->log >= 0 && write(c->log, chunk, (size_t)n) == n)
		c->logged += (size_t)n;
	return true;
}

static void ready(void *u, int fd, uint32_t events)
{
	struct console *c = u;

	(void)fd;
	(void)events;
	for (int i = 0; i < READS_PER_TURN && read_some(c); i++)
		;
}

struct console *console_new(struct loop *loop, int fd, const char *dir, struct err *err)
{
	struct console *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		err_set(err, "out of memory");
		return NULL;
	}
	*c = (struct console){ .fd = fd, .log = -1 };
	c->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->dirfd < 0)
		err_errno(err, "%s", dir);
	else if (!log_open(c, err) && !io_set_nonblock(fd))
		c->watch = loop_fd_add(loop, fd, EPOLLIN, ready, c, err);
	if (c->watch)
		return c;
	console_free(c);
	return NULL;
}

void console_free(struct console *c)
{
	if (!c)
		return;
	loop_fd_del(c->watch);
	close(c->fd);
	if (c->dirfd >= 0)
		close(c->dirfd);
	if (c->log >= 0)
		close(c->log);
	free(c);
}

bool console_tail_has(struct console *c, const char *text)
{
	while (c->watch && read_some(c))
		;
	return memmem(c->tail, c->tail_len, text, strlen(text));
}
