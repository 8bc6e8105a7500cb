/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs a small program (qemu-img, mke2fs) to its end and keeps what it said. */
#include "hostd/vm/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/loop.h"

enum { EXIT_NOT_FOUND = 127, LAST_WORDS = 200 };

#define TOOL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static void child(const char *const argv[], int out, int words)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(words, 2) < 0)
		_exit(EXIT_NOT_FOUND);
	setenv("PATH", TOOL_PATH, 1);
	setenv("LC_ALL", "C", 1);
	execvp(argv[0], (char *const *)argv);
	_exit(EXIT_NOT_FOUND);
}

/* Reads both pipes until they end or time is up. */
static int collect(int out, struct buf *out_buf, int words, struct buf *words_buf)
{
	uint64_t end = loop_now_ms() + TOOL_TIMEOUT_MS;
	struct pollfd p[2] = { { .fd = out, .events = POLLIN }, { .fd = words, .events = POLLIN } };
	struct buf *to[2] = { out_buf, words_buf };

	while (p[0].fd >= 0 || p[1].fd >= 0) {
		uint64_t now = loop_now_ms();

		if (now >= end || (poll(p, 2, (int)(end - now)) < 0 && errno != EINTR))
			return -1;
		for (int i = 0; i < 2; i++) {
			char chunk[4096];
			ssize_t n;

			if (p[i].fd < 0 || !p[i].revents)
				continue;
			n = read(p[i].fd, chunk, sizeof(chunk));
			if (n <= 0)
				p[i].fd = -1;
			else
				buf_put(to[i], chunk, (size_t)n); /* full: the rest is dropped */
		}
	}
	return 0;
}

static int verdict(const char *name, int status, struct buf *words, struct err *err)
{
	const char *text = buf_cstr(words);
	size_t n;

	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_FOUND)
		return err_set(err, "%s is not installed", name);
	if (!text || !*text)
		return err_set(err, "%s failed", name);
	for (n = words->len; n && text[n - 1] == '\n'; n--)
		words->data[n - 1] = 0;
	return err_set(err, "%s", n > LAST_WORDS ? text + n - LAST_WORDS : text);
}

int tool_run(const char *const argv[], struct buf *out, struct err *err)
{
	struct buf own_out, words;
	int o[2] = { -1, -1 }, w[2] = { -1, -1 };
	int status = -1, rc;
	pid_t pid;

	if (pipe2(o, O_CLOEXEC))
		return err_errno(err, "pipe");
	if (pipe2(w, O_CLOEXEC)) {
		close(o[0]);
		close(o[1]);
		return err_errno(err, "pipe");
	}
	pid = fork();
	if (!pid)
		child(argv, o[1], w[1]);
	close(o[1]);
	close(w[1]);
	buf_init(&own_out, TOOL_OUTPUT_MAX);
	buf_init(&words, 64 * 1024);
	rc = pid < 0 ? -1 : collect(o[0], out ? out : &own_out, w[0], &words);
	close(o[0]);
	close(w[0]);
	if (pid < 0) {
		err_errno(err, "fork");
	} else if (rc) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		err_set(err, "%s took longer than %d s", argv[0], TOOL_TIMEOUT_MS / 1000);
	} else {
		waitpid(pid, &status, 0);
		rc = verdict(argv[0], status, &words, err);
	}
	buf_free(&own_out);
	buf_free(&words);
	return rc;
}
