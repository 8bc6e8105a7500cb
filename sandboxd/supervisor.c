// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The supervisor: one process, one loop, for the rest of the boot.
 *
 * It lives in the initramfs (its own root), sees the workspace through descriptors only, and starts nothing
 * for itself. The gate opens once PID 1 is the disk's init, logins are permitted, and a probe has seen the
 * confinement hold; before that, and after a failed step, every exec is answered with 75 and the reason.
 */
#include "sandboxd/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include <holdfast/exec.h>
#include <holdfast/guest.h>

#include "lib/cleanup.h"
#include "lib/io.h"
#include "sandboxd/bridge.h"
#include "sandboxd/clock.h"
#include "sandboxd/control.h"
#include "sandboxd/request.h"

enum {
	GATE_MS = 50,
	WATCH_MS = 500,
	LISTEN_RETRY_MS = 1000,
	FOREIGN_INIT_MS = 500,		/* an init that is not systemd gets this long */
	UNNAMED_INIT_MS = 10 * 1000,
	SYSTEMD_MAX_MS = 120 * 1000,	/* no such file ever came: open all the same */
	BACKLOG = 128,
};

struct gate {
	struct guest_supervisor *v;
	struct loop_timer *timer;
	struct loop_fd *launch;
	uint64_t init_ms;
	bool saw_nologin;
};

static struct gate gate;

void guest_supervisor_phase(struct guest_supervisor *v, int phase)
{
	char text[4];

	if (phase <= (int)v->phase)
		return;
	v->phase = phase;
	snprintf(text, sizeof(text), "%d", phase);
	if (v->guest->params_fd >= 0 && guest_write_file(v->guest->params_fd, "phase", text) < 0)
		guest_step_degraded(&v->guest->steps, "sentry_phase", "phase", errno, NULL);
	guest_control_changed(v->control);
}

int64_t guest_supervisor_time(struct guest_supervisor *v, int64_t unix_ns)
{
	int64_t step_ms = guest_clock_push(unix_ns);

	if (step_ms > 0) {
		v->clock_steps++;
		v->clock_last_ms = step_ms;
	}
	return step_ms;
}

/* --- connections --- */

static void on_request(void *user, struct guest_conn *c, uint8_t type, const uint8_t *payload, size_t len)
{
	if (type == HF_EXEC_REQUEST)
		guest_request_handle(user, c, payload, len);
	else
		guest_conn_refuse(c, "the first frame is a request");
}

static void on_nothing(void *user, struct guest_conn *c)
{
	(void)user;
	(void)c;
}

static const struct guest_conn_ops request_ops = { on_request, on_nothing, on_nothing };

/* The host is CID 2; anything else is a process of the workspace. */
static void on_vsock(void *user, int fd, uint32_t events)
{
	struct guest_supervisor *v = user;
	struct sockaddr_vm peer;
	socklen_t size = sizeof(peer);
	int client = accept4(fd, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (client < 0)
		return;
	if (peer.svm_cid != HF_HOST_CID)
		close(client);
	else
		guest_conn_new(v->loop, client, &request_ops, v);
}

/* A session at files or strict has a namespace of its own, whatever cgroup it has put a child of its into. */
static bool sees_what_init_sees(const struct guest *g, pid_t pid)
{
	struct stat a, b;
	char name[64];

	snprintf(name, sizeof(name), "%d/ns/mnt", pid);
	return fstatat(g->proc_fd, name, &a, 0) == 0 && fstatat(g->proc_fd, "1/ns/mnt", &b, 0) == 0 && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

/* Root, and from outside the sandbox: the uid alone would let a session at level files in through sudo. */
static bool local_peer_allowed(const struct guest *g, int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	char name[64], line[512];

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != 0 || peer.pid <= 0)
		return false;
	snprintf(name, sizeof(name), "%d/cgroup", peer.pid);
	if (guest_read_line(g->proc_fd, name, line, sizeof(line)) < 0)
		return false;
	if (strncmp(line, "0::/", 4) || !strncmp(line, "0::/holdfast/sandbox", 20))
		return false;
	return g->spec->level == GUEST_OBSERVE || sees_what_init_sees(g, peer.pid);
}

static void on_local(void *user, int fd, uint32_t events)
{
	struct guest_supervisor *v = user;
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (client < 0)
		return;
	if (local_peer_allowed(v->guest, client))
		guest_conn_new(v->loop, client, &request_ops, v);
	else
		close(client);
}

static int listen_vsock(struct guest_supervisor *v)
{
	struct sockaddr_vm any = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = HF_EXEC_PORT };
	_cleanup_close_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0 || listen(fd, BACKLOG) < 0 ||
	    !loop_fd_add(v->loop, fd, EPOLLIN, on_vsock, v, NULL))
		return -1;
	steal_fd(&fd);
	return 0;
}

static void retry_vsock(void *user)
{
	struct guest_supervisor *v = user;

	if (listen_vsock(v) < 0)
		loop_timer_add(v->loop, LISTEN_RETRY_MS, 0, retry_vsock, v);
}

static void start_vsock(struct guest_supervisor *v)
{
	if (listen_vsock(v) == 0) {
		guest_step_ok(&v->guest->steps, "listen_vsock");
		return;
	}
	guest_step_degraded(&v->guest->steps, "listen_vsock", "vsock 5800", errno, NULL);
	loop_timer_add(v->loop, LISTEN_RETRY_MS, 0, retry_vsock, v);
}

/* Bound by a relative name: the directory is about to move to another root. */
static int listen_local(struct guest_supervisor *v)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "sandboxd.sock" };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t mask = umask(0177);
	int r = -1;

	if (fd >= 0 && v->guest->run_fd >= 0 && fchdir(v->guest->run_fd) == 0) {
		unlink(name.sun_path);
		r = bind(fd, (struct sockaddr *)&name, sizeof(name));
	}
	umask(mask);
	if (chdir("/") < 0 || r < 0 || listen(fd, BACKLOG) < 0 || !loop_fd_add(v->loop, fd, EPOLLIN, on_local, v, NULL))
		return -1;
	steal_fd(&fd);
	return 0;
}

/* --- signals --- */

static void reap(struct guest_supervisor *v)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (v->sessions)
			guest_sessions_reaped(v->sessions, pid, status);
}

static void on_signal(void *user, int fd, uint32_t events)
{
	struct guest_supervisor *v = user;
	struct signalfd_siginfo info;

	(void)events;
	while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo == SIGCHLD)
			reap(v);
}

static int watch_signals(struct guest_supervisor *v)
{
	static const int ignored[] = { SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTOU };
	sigset_t set;
	int fd;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 || !loop_fd_add(v->loop, fd, EPOLLIN, on_signal, v, NULL) ? -1 : 0;
}

/* --- the gate --- */

static bool exists(const struct guest_supervisor *v, const char *path)
{
	_cleanup_close_ int fd = guest_open_beneath(v->guest->root_fd, path, O_PATH | O_NOFOLLOW, 0);

	return fd >= 0;
}

/* systemd writes /run/nologin early and removes it when logins are permitted. Its absence says nothing
 * before it was seen: on a loaded machine it comes seconds after the manager does. */
static bool booted(const struct guest_supervisor *v)
{
	uint64_t ms = loop_now_ms() - gate.init_ms;
	char comm[32] = "";

	guest_read_line(v->guest->proc_fd, "1/comm", comm, sizeof(comm));
	if (!strcmp(comm, "init"))
		return ms >= UNNAMED_INIT_MS;	/* systemd renames itself a moment after its exec */
	if (strcmp(comm, "systemd"))
		return ms >= FOREIGN_INIT_MS;
	if (exists(v, "run/nologin")) {
		gate.saw_nologin = true;
		return false;
	}
	return gate.saw_nologin || ms >= SYSTEMD_MAX_MS;
}

/* The end of the init's life begins with /run/nologin again, where it has been there before. Containers may
 * come at any time. */
static void on_watch(void *user)
{
	struct guest_supervisor *v = user;

	if (v->phase != GUEST_PHASE_SHUTDOWN && gate.saw_nologin && exists(v, "run/nologin"))
		guest_supervisor_phase(v, GUEST_PHASE_SHUTDOWN);
	guest_bridge_containers(v->bridge);
}

static void open_gate(struct guest_supervisor *v)
{
	struct err e = { .text = "" };

	if (guest_confine_prepare(&v->confine, v->guest) == 0) {
		v->sessions = guest_sessions_new(v->loop, &v->confine, &e);
		if (v->sessions) {
			v->bridge = guest_bridge_new(v);
			v->ready = true;
			guest_step_ok(&v->guest->steps, "ready");
			guest_console(HF_CONSOLE_READY);
		} else {
			guest_step_failed(&v->guest->steps, "sessions", "", ENOMEM, e.text);
		}
	}
	guest_control_changed(v->control);
	loop_timer_add(v->loop, WATCH_MS, WATCH_MS, on_watch, v);
}

static void on_gate(void *user)
{
	struct guest_supervisor *v = user;

	if (v->guest->steps.failed || (v->init_running && booted(v))) {
		loop_timer_del(gate.timer);
		gate.timer = NULL;
		if (!v->guest->steps.failed)
			open_gate(v);
	}
}

/* PID 1's end of the pipe: closed by its exec, or one record of what failed. */
static void on_launch(void *user, int fd, uint32_t events)
{
	static struct guest_launch_failure failure;
	struct guest_supervisor *v = user;
	ssize_t n = read(fd, &failure, sizeof(failure));

	(void)events;
	loop_fd_del(gate.launch);
	gate.launch = NULL;
	if (n == (ssize_t)sizeof(failure)) {
		guest_step_failed(&v->guest->steps, failure.name, failure.path, failure.error_nr, NULL);
	} else {
		guest_step_ok(&v->guest->steps, "switch_root");
		v->init_running = true;
		gate.init_ms = loop_now_ms();
	}
	guest_control_changed(v->control);
}

static int start_gate(struct guest_supervisor *v)
{
	gate.v = v;
	/* Where early launch itself failed, PID 1 stays what it is. */
	if (v->guest->steps.failed)
		return 0;
	guest_confine_preflight(v->guest);
	gate.launch = loop_fd_add(v->loop, v->guest->launch_fd, EPOLLIN, on_launch, v, NULL);
	gate.timer = loop_timer_add(v->loop, GATE_MS, GATE_MS, on_gate, v);
	return gate.launch && gate.timer ? 0 : -1;
}

/* From now on only this process may write it. */
int guest_supervisor_hash_programs(struct guest *g, const char *list)
{
	if (g->params_fd < 0 || guest_write_file(g->params_fd, "hash_programs", list) >= 0)
		return 0;
	guest_step_degraded(&g->steps, "sentry_hash_programs", "hash_programs", errno, NULL);
	return -1;
}

static void tell_sentry(struct guest *g)
{
	char pid[16];

	if (g->params_fd < 0)
		return;
	snprintf(pid, sizeof(pid), "%d", getpid());
	if (guest_write_file(g->params_fd, "supervisor_pid", pid) < 0)
		guest_step_degraded(&g->steps, "sentry_supervisor", "supervisor_pid", errno, NULL);
	else
		guest_step_ok(&g->steps, "sentry_supervisor");
	if (g->spec->hash_programs[0] && guest_supervisor_hash_programs(g, g->spec->hash_programs) == 0)
		guest_step_ok(&g->steps, "sentry_hash_programs");
}

int guest_supervisor_run(struct guest *g)
{
	static struct guest_supervisor v;
	struct err e = { .text = "" };

	v.guest = g;
	v.loop = loop_new(&e);
	if (!v.loop || watch_signals(&v) < 0) {
		guest_step_failed(&g->steps, "supervisor", "", errno, e.text);
		return 1;
	}
	tell_sentry(g);
	start_vsock(&v);
	if (listen_local(&v) < 0)
		guest_step_degraded(&g->steps, "listen_local", "/run/holdfast/sandboxd.sock", errno, NULL);
	v.control = guest_control_new(&v);
	if (start_gate(&v) < 0)
		guest_step_failed(&g->steps, "supervisor", "", errno, NULL);
	return loop_run(v.loop, &e);
}
