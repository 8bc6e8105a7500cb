/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one child of hostd that may exec: it starts the fixed roles and nothing else. */
#include "hostd/daemon/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/role.h>

#include "lib/cleanup.h"
#include "lib/io.h"

static const char *role_word(uint8_t role)
{
	switch (role) {
	case SPAWNER_VM:
		return "vm";
	case SPAWNER_PROXY:
		return "proxy";
	case SPAWNER_ALERT:
		return "alert";
	default:
		return NULL;
	}
}

/* In the grandchild: descriptor 3 is the socket, nothing else above stderr survives. */
static void exec_role(const char *word, int fd)
{
	signal(SIGCHLD, SIG_DFL);
	if (fd == ROLE_FD_HOSTD) {
		if (fcntl(fd, F_SETFD, 0))
			_exit(126);
	} else if (dup2(fd, ROLE_FD_HOSTD) < 0) {
		_exit(126);
	}
	if (close_range(ROLE_FD_HOSTD + 1, ~0u, 0))
		_exit(126);
	execl("/proc/self/exe", "hostd", word, (char *)NULL);
	_exit(126);
}

/* A role outlives hostd, and so the spawner: it is nobody's to wait for (SIGCHLD is ignored). */
static uint8_t fork_role(uint8_t role, int fd)
{
	const char *word = role_word(role);
	pid_t pid;

	if (!word)
		return EINVAL;
	pid = fork();
	if (pid < 0)
		return EAGAIN;
	if (!pid) {
		setsid();
		exec_role(word, fd);
	}
	return 0;
}

static void serve(int sock)
{
	for (;;) {
		uint8_t role, answer;
		int fds[1];
		size_t n = 1;
		ssize_t got = io_recv_fds(sock, &role, 1, fds, &n);

		if (got == 0 || (got < 0 && errno != EMSGSIZE))
			_exit(0);
		if (got != 1 || n != 1) {
			answer = EINVAL;
		} else {
			answer = fork_role(role, fds[0]);
			close(fds[0]);
		}
		if (send(sock, &answer, 1, MSG_NOSIGNAL) != 1)
			_exit(0);
	}
}

int spawner_start(struct err *err)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return err_errno(err, "socketpair");
	pid = fork();
	if (pid < 0) {
		close(pair[0]);
		close(pair[1]);
		return err_errno(err, "fork the spawner");
	}
	if (!pid) {
		close(pair[0]);
		prctl(PR_SET_NAME, "hostd-spawner");
		signal(SIGCHLD, SIG_IGN);
		signal(SIGTERM, SIG_DFL);
		serve(pair[1]);
	}
	close(pair[1]);
	return pair[0];
}

int spawner_run(int spawner, enum spawner_role role, int fd, struct err *err)
{
	uint8_t word = (uint8_t)role, answer;

	if (io_send_fds(spawner, &word, 1, &fd, 1) != 1 || recv(spawner, &answer, 1, 0) != 1)
		return err_errno(err, "ask the spawner");
	return answer ? err_set(err, "start %s: %s", role_word(word), strerror(answer)) : 0;
}
