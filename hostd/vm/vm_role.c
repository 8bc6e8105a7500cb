/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `hostd vm`: the messages between hostd and one VM, and life without hostd. */

/*
 * Theory of operation
 *
 * One loop, one VM. hostd's socket is descriptor 3 at first; when hostd dies, the VM goes on for
 * ROLE_REATTACH_MS while frames are held and new flows refused, and a new hostd comes by the
 * listening socket in run_dir with ATTACH. Then it is paused, and still waits.
 *
 * After the VM has ended the role stays until hostd has read everything, or, without hostd, until the
 * time for its return is over.
 */
#include "hostd/vm/vm_role.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/exec.h>
#include <holdfast/guest.h>
#include <holdfast/sentry.h>

#include "hostd/vm/disk.h"
#include "hostd/vm/plug.h"
#include "hostd/vm/vm.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

enum { CROWDED_BYTES = 4 * 1024 * 1024, LEAVE_POLL_MS = 20, DESCRIPTORS_MAX = 8192 };

static int peer_serve(struct vm *vm, int fd, bool newcomer, struct err *err);

/* ---- Up ---- */

bool vm_up_blob(struct vm *vm, uint16_t type, json_t *json, const void *blob, size_t n)
{
	_cleanup_json_ json_t *owned = json;

	return vm->hostd && owned && !msg_send(vm->hostd, type, owned, blob, n, NULL, 0, NULL);
}

bool vm_up(struct vm *vm, uint16_t type, json_t *json)
{
	return vm_up_blob(vm, type, json, NULL, 0);
}

void vm_done(struct vm *vm, uint64_t id, json_t *extra)
{
	json_t *m = extra ? extra : json_object();

	json_object_set_new(m, "id", json_integer((json_int_t)id));
	json_object_set_new(m, "ok", json_true());
	vm_up(vm, ROLE_VM_DONE, m);
}

void vm_failed(struct vm *vm, uint64_t id, const char *step, const char *cause, const char *next)
{
	vm_up(vm, ROLE_VM_DONE,
	      json_pack("{s:I, s:b, s:s, s:s, s:s}", "id", (json_int_t)id, "ok", 0, "step", step, "cause",
			cause, "next", next));
}

static struct alarm_kind *alarm_kind(struct vm *vm, const char *kind)
{
	struct alarm_kind *a = vm->alarms;

	while (a < vm->alarms + VM_ALARM_KINDS - 1 && a->kind && strcmp(a->kind, kind))
		a++;
	if (!a->kind)
		*a = (struct alarm_kind){ .kind = kind };
	return a;
}

void vm_alarm(struct vm *vm, const char *kind, const char *text)
{
	struct alarm_kind *a = alarm_kind(vm, kind);
	uint64_t now = loop_now_ms();
	char more[256];

	if (a->last_ms && now - a->last_ms < VM_ALARM_MS) {
		a->held_back++;
		return;
	}
	if (a->held_back) {
		snprintf(more, sizeof(more), "%.160s (and %llu times since the last alarm of this kind)", text,
			 (unsigned long long)a->held_back);
		text = more;
	}
	a->last_ms = now;
	a->held_back = 0;
	vm_up(vm, ROLE_VM_ALARM, json_pack("{s:s, s:s}", "kind", kind, "text", text));
}

bool vm_up_crowded(const struct vm *vm)
{
	return vm->hostd && msg_peer_queued(vm->hostd) > CROWDED_BYTES;
}

void vm_report(struct vm *vm, const char *state, const char *reason)
{
	vm_up(vm, ROLE_VM_STATE, json_pack("{s:s, s:s}", "state", state, "reason", reason));
}

static void leave_when_read(void *u)
{
	struct vm *vm = u;

	if (vm->state == VM_OVER && vm->hostd && !msg_peer_queued(vm->hostd))
		loop_stop(vm->loop, 0);
}

void vm_set_state(struct vm *vm, enum vm_state state)
{
	vm->state = state;
	if (vm->hostd)
		msg_peer_set_state(vm->hostd, state);
	if (state == VM_OVER && !vm->leave_timer)
		vm->leave_timer = loop_timer_add(vm->loop, LEAVE_POLL_MS, LEAVE_POLL_MS, leave_when_read, vm);
}

/* ---- Down: one function per message ---- */

static int get_id(const json_t *m, uint64_t *id, struct err *err)
{
	int64_t v;

	if (json_get_int(m, "id", &v, err))
		return -1;
	if (v < 1)
		return err_set(err, "id %lld", (long long)v);
	*id = (uint64_t)v;
	return 0;
}

/* hostd may not know yet that the VM is not up: the verb fails, and that is no break of the protocol. */
static bool is_up(struct vm *vm, uint64_t id, const char *step)
{
	if (vm->state == VM_UP)
		return true;
	vm_failed(vm, id, step, vm->state == VM_STARTING ? "the VM is still starting" : "the VM has ended",
		  "holdfast ws show");
	return false;
}

static int on_start(void *u, struct msg *m, struct err *err)
{
	struct vm *vm = u;

	if (m->blob_len != ROLE_BOOT_KEY_BYTES)
		return err_set(err, "boot key of %zu bytes", m->blob_len);
	memcpy(vm->cfg.boot_key, m->blob, ROLE_BOOT_KEY_BYTES);
	if (vm_config_parse(&vm->cfg, m->json, err)) {
		vm_start_failed(vm, "read the settings", err->text, "holdfast ws show");
		return 0;
	}
	vm_set_state(vm, VM_STARTING);
	vm_start(vm);
	return 0;
}

static int disk_verb(const char *op, const char *dir, const char *name, json_t **extra, struct err *err)
{
	if (!strcmp(op, "list")) {
		json_t *list = disk_list(dir, err);

		*extra = list ? json_pack("{s:o}", "checkpoints", list) : NULL;
		return list ? 0 : -1;
	}
	if (!strcmp(op, "checkpoint"))
		return disk_checkpoint(dir, name, err);
	if (!strcmp(op, "rollback"))
		return disk_rollback(dir, name, err);
	if (!strcmp(op, "drop"))
		return disk_drop(dir, name, err);
	if (!strcmp(op, "thin"))
		return disk_thin(dir, (int64_t)(loop_unix_ns() / 1000000000), err);
	if (!strcmp(op, "reset"))
		return disk_reset(dir, err);
	return err_set(err, "no disk verb \"%s\"", op);
}

static int on_disk(void *u, struct msg *m, struct err *err)
{
	_cleanup_close_ int lock = -1;
	const char *op, *dir, *name;
	struct vm *vm = u;
	json_t *extra = NULL;
	struct err why;
	uint64_t id;

	if (get_id(m->json, &id, err) || json_get_str(m->json, "op", &op, err) ||
	    json_get_str(m->json, "dir", &dir, err) || json_opt_str(m->json, "name", &name, "", err))
		return -1;
	lock = disk_lock(dir, &why);
	if (lock < 0 || disk_verb(op, dir, name, &extra, &why))
		vm_failed(vm, id, op, why.text, "holdfast ws show");
	else
		vm_done(vm, id, extra);
	return 0;
}

static int on_pause(void *u, struct msg *m, struct err *err)
{
	const char *reason;
	uint64_t id;

	if (get_id(m->json, &id, err) || json_get_str(m->json, "reason", &reason, err))
		return -1;
	if (is_up(u, id, "pause"))
		vm_pause(u, id, reason);
	return 0;
}

static int on_cont(void *u, struct msg *m, struct err *err)
{
	uint64_t id;

	if (get_id(m->json, &id, err))
		return -1;
	if (is_up(u, id, "continue"))
		vm_cont(u, id);
	return 0;
}

static int on_cut(void *u, struct msg *m, struct err *err)
{
	struct vm *vm = u;
	const char *what;
	uint64_t id;
	bool cut;

	if (get_id(m->json, &id, err) || json_get_bool(m->json, "cut", &cut, err) ||
	    json_get_str(m->json, "what", &what, err))
		return -1;
	if (!strcmp(what, "vsock")) {
		vm->vsock_cut = cut;
		if (vm->device)
			vsock_cut(vhost_user_vsock(vm->device), cut, HF_SENTRY_PORT);
	} else if (!strcmp(what, "network")) {
		vm->cut = cut;
		if (vm->net)
			net_link_cut(vm->net, cut);
	} else {
		return err_set(err, "cut of \"%s\"", what);
	}
	vm_done(vm, id, NULL);
	return 0;
}

static int on_poweroff(void *u, struct msg *m, struct err *err)
{
	int64_t timeout_ms;
	uint64_t id;

	if (get_id(m->json, &id, err) ||
	    json_opt_int(m->json, "timeout_ms", &timeout_ms, ROLE_POWEROFF_MS, err))
		return -1;
	if (is_up(u, id, "power off"))
		vm_poweroff(u, id, timeout_ms < 0 ? 0 : (uint64_t)timeout_ms);
	return 0;
}

static int on_kill(void *u, struct msg *m, struct err *err)
{
	const char *reason;
	uint64_t id;

	if (get_id(m->json, &id, err) || json_get_str(m->json, "reason", &reason, err))
		return -1;
	vm_kill(u, reason);
	vm_done(u, id, NULL);
	return 0;
}

static int on_status(void *u, struct msg *m, struct err *err)
{
	uint64_t id;

	if (get_id(m->json, &id, err))
		return -1;
	vm_done(u, id, json_pack("{s:o}", "status", vm_status(u)));
	return 0;
}

static void exec_opened(void *u, uint64_t id, const char *reason)
{
	if (reason)
		vm_failed(u, id, "reach the guest", reason, "try again once the guest is up");
	else
		vm_done(u, id, NULL);
}

static int on_exec_open(void *u, struct msg *m, struct err *err)
{
	struct vm *vm = u;
	int64_t port;
	uint64_t id;

	if (get_id(m->json, &id, err) || json_get_int(m->json, "port", &port, err))
		return -1;
	if (m->n_fds != 1 || (port != HF_EXEC_PORT && port != HF_PORT_OAUTH_RELAY))
		return err_set(err, "exec with %zu descriptors to port %lld", m->n_fds, (long long)port);
	if (!is_up(vm, id, "reach the guest"))
		return 0;
	if (bridge_connect(vm->execs, (uint32_t)port, steal_fd(&m->fds[0]), id, exec_opened, vm))
		exec_opened(vm, id, "no driver in the guest, or too many connections");
	return 0;
}

static int on_flow_verdict(void *u, struct msg *m, struct err *err)
{
	return net_link_flow_verdict(((struct vm *)u)->net, m->json, err);
}

static int on_name_verdict(void *u, struct msg *m, struct err *err)
{
	return net_link_name_verdict(((struct vm *)u)->net, m->json, err);
}

static int on_dest_verdict(void *u, struct msg *m, struct err *err)
{
	return net_link_dest_verdict(((struct vm *)u)->net, m->json, err);
}

static int on_sentry_ack(void *u, struct msg *m, struct err *err)
{
	struct vm *vm = u;
	int64_t seq;

	if (json_get_int(m->json, "seq", &seq, err))
		return -1;
	if (vm->sentry)
		sentry_link_durable(vm->sentry, (uint64_t)seq);
	return 0;
}

static int on_guest_send(void *u, struct msg *m, struct err *err)
{
	struct vm *vm = u;
	json_t *msg;

	if (json_get_object(m->json, "msg", &msg, err))
		return -1;
	if (!vm->guest || guest_link_send(vm->guest, msg))
		vm_alarm(vm, "guest_unreachable", "sandboxd is not connected or does not read");
	return 0;
}

static int on_rejudge(void *u, struct msg *m, struct err *err)
{
	struct vm *vm = u;
	uint64_t id;

	if (get_id(m->json, &id, err))
		return -1;
	if (vm->net)
		net_link_rejudge(vm->net);
	vm_done(vm, id, NULL);
	return 0;
}

static int on_challenge(void *u, struct msg *m, struct err *err)
{
	struct vm *vm = u;
	uint64_t id;

	if (get_id(m->json, &id, err))
		return -1;
	if (vm->sentry)
		sentry_link_challenge(vm->sentry);
	vm_done(vm, id, NULL);
	return 0;
}

static int on_dump(void *u, struct msg *m, struct err *err)
{
	uint64_t id;

	if (get_id(m->json, &id, err))
		return -1;
	if (m->n_fds != 1)
		return err_set(err, "dump without a descriptor");
	if (is_up(u, id, "dump memory"))
		vm_dump(u, id, m->fds[0]);
	return 0;
}

static int on_checkpoint(void *u, struct msg *m, struct err *err)
{
	const char *name;
	uint64_t id;

	if (get_id(m->json, &id, err) || json_get_str(m->json, "name", &name, err))
		return -1;
	if (is_up(u, id, "checkpoint"))
		vm_checkpoint(u, id, name);
	return 0;
}

static int on_replug(void *u, struct msg *m, struct err *err)
{
	uint64_t id;

	if (get_id(m->json, &id, err))
		return -1;
	if (is_up(u, id, "plug the vsock device"))
		vm_replug(u, id);
	return 0;
}

static int on_suspend(void *u, struct msg *m, struct err *err)
{
	uint64_t id;

	if (get_id(m->json, &id, err))
		return -1;
	if (is_up(u, id, "suspend"))
		vm_suspend(u, id);
	return 0;
}

static int on_attach(void *u, struct msg *m, struct err *err)
{
	struct vm *vm = u;
	const char *boot_id;
	int64_t durable;

	if (json_get_str(m->json, "boot_id", &boot_id, err) ||
	    json_get_int(m->json, "durable_seq", &durable, err))
		return -1;
	if (strcmp(boot_id, vm->cfg.boot_id))
		return err_set(err, "attach to another boot");
	vm->hostd = steal_ptr(&vm->newcomer);
	msg_peer_set_state(vm->hostd, vm->state);
	loop_timer_del(vm->detach_timer);
	vm->detach_timer = NULL;
	vm_up(vm, ROLE_VM_ATTACHED, vm_status(vm));
	if (vm->sentry)
		sentry_link_resend(vm->sentry, durable < 0 ? 0 : (uint64_t)durable);
	if (vm->state == VM_OVER)
		vm_report(vm, "off", vm->end_reason);
	return 0;
}

#define ANY_RUN (VM_STARTING | VM_UP | VM_OVER)
static const struct msg_rule rules[] = {
	{ ROLE_VM_START, "START", VM_IDLE, 0, on_start },
	{ ROLE_VM_DISK, "DISK", VM_IDLE, 0, on_disk },
	{ ROLE_VM_ATTACH, "ATTACH", VM_ATTACHING, 0, on_attach },
	{ ROLE_VM_PAUSE, "PAUSE", ANY_RUN, 0, on_pause },
	{ ROLE_VM_CONT, "CONT", ANY_RUN, 0, on_cont },
	{ ROLE_VM_CUT, "CUT", ANY_RUN, 0, on_cut },
	{ ROLE_VM_POWEROFF, "POWEROFF", ANY_RUN, 0, on_poweroff },
	{ ROLE_VM_KILL, "KILL", ANY_RUN, 0, on_kill },
	{ ROLE_VM_STATUS, "STATUS", ANY_RUN, 0, on_status },
	{ ROLE_VM_EXEC_OPEN, "EXEC_OPEN", ANY_RUN, 1, on_exec_open },
	{ ROLE_VM_FLOW_VERDICT, "FLOW_VERDICT", ANY_RUN, 0, on_flow_verdict },
	{ ROLE_VM_NAME_VERDICT, "NAME_VERDICT", ANY_RUN, 0, on_name_verdict },
	{ ROLE_VM_DEST_VERDICT, "DEST_VERDICT", ANY_RUN, 0, on_dest_verdict },
	{ ROLE_VM_SENTRY_ACK, "SENTRY_ACK", ANY_RUN, 0, on_sentry_ack },
	{ ROLE_VM_GUEST_SEND, "GUEST_SEND", ANY_RUN, 0, on_guest_send },
	{ ROLE_VM_REJUDGE, "REJUDGE", ANY_RUN, 0, on_rejudge },
	{ ROLE_VM_CHALLENGE, "CHALLENGE", ANY_RUN, 0, on_challenge },
	{ ROLE_VM_DUMP, "DUMP", ANY_RUN, 1, on_dump },
	{ ROLE_VM_CHECKPOINT, "CHECKPOINT", ANY_RUN, 0, on_checkpoint },
	{ ROLE_VM_SUSPEND, "SUSPEND", ANY_RUN, 0, on_suspend },
	{ ROLE_VM_REPLUG, "REPLUG", ANY_RUN, 0, on_replug },
	{ 0, NULL, 0, 0, NULL },
};

/* ---- With and without hostd ---- */

static void detached_for_long(void *u)
{
	struct vm *vm = u;

	vm->detach_timer = NULL;
	if (vm->state == VM_OVER)
		loop_stop(vm->loop, 0);
	else if (vm->state == VM_UP && vm->running)
		vm_pause(vm, 0, "no hostd");
}

static void hostd_closed(void *u, const char *why)
{
	struct vm *vm = u;

	if (vm->state != VM_IDLE && vm->state != VM_OVER)
		fprintf(stderr, "hostd vm %s: hostd is gone: %s\n", vm->cfg.workspace, why);
	msg_peer_free(steal_ptr(&vm->hostd));
	/* After the end hostd has closed because it knows; a VM that ends without hostd waits for one. */
	if (vm->state == VM_IDLE || vm->state == VM_OVER || vm->attach_fd < 0) {
		loop_stop(vm->loop, 0);
		return;
	}
	loop_timer_del(vm->detach_timer);
	vm->detach_timer = loop_timer_add(vm->loop, ROLE_REATTACH_MS, 0, detached_for_long, vm);
}

static void newcomer_closed(void *u, const char *why)
{
	struct vm *vm = u;

	fprintf(stderr, "hostd vm %s: refused on " ROLE_SOCKET_NAME ": %s\n", vm->cfg.workspace, why);
	msg_peer_free(steal_ptr(&vm->newcomer));
}

/* One callback for both, since a newcomer becomes hostd. */
static void peer_closed(void *u, const char *why)
{
	struct vm *vm = u;

	if (vm->newcomer && !vm->hostd)
		newcomer_closed(vm, why);
	else
		hostd_closed(vm, why);
}

static int peer_serve(struct vm *vm, int fd, bool newcomer, struct err *err)
{
	struct msg_peer_config cfg = { .rules = rules, .on_close = peer_closed, .user = vm };
	struct msg_peer *peer = msg_peer_new(vm->loop, fd, &cfg, err);

	if (!peer)
		return -1;
	if (newcomer)
		vm->newcomer = peer;
	else
		vm->hostd = peer;
	msg_peer_set_state(peer, newcomer ? VM_ATTACHING : vm->state);
	return 0;
}

static void attach_ready(void *u, int fd, uint32_t events)
{
	struct vm *vm = u;
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred cred;
	socklen_t n = sizeof(cred);

	(void)events;
	if (peer < 0)
		return;
	/* Only while there is no hostd: a second one would be an impostor or a mistake. */
	if (vm->hostd || vm->newcomer || getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &cred, &n) ||
	    cred.uid != getuid() || cred.pid == vm->qemu_pid) {
		close(peer);
		return;
	}
	peer_serve(vm, peer, true, NULL);
}

int vm_attach_listen(struct vm *vm, struct err *err)
{
	char path[VM_PATH_MAX];

	snprintf(path, sizeof(path), "%s/" ROLE_SOCKET_NAME, vm->cfg.run_dir);
	vm->attach_fd = io_unix_listen(path, SOCK_SEQPACKET, err);
	if (vm->attach_fd < 0)
		return -1;
	vm->attach_watch = loop_fd_add(vm->loop, vm->attach_fd, EPOLLIN, attach_ready, vm, err);
	return vm->attach_watch ? 0 : -1;
}

static void vm_free(struct vm *vm)
{
	char path[VM_PATH_MAX];

	if (vm->qemu_pid > 0)
		kill(vm->qemu_pid, SIGKILL);
	if (vm->attach_fd >= 0) {
		snprintf(path, sizeof(path), "%s/" ROLE_SOCKET_NAME, vm->cfg.run_dir);
		unlink(path);
		loop_fd_del(vm->attach_watch);
		close(vm->attach_fd);
	}
	plug_free(vm);
	vm_suspend_free(vm);
	sentry_link_free(vm->sentry);
	guest_link_free(vm->guest);
	bridge_set_free(vm->bridges);
	bridge_set_free(vm->execs);
	net_link_free(vm->net);
	vhost_user_free(vm->device);
	qmp_free(vm->qmp);
	console_free(vm->console);
	msg_peer_free(vm->hostd);
	msg_peer_free(vm->newcomer);
	loop_fd_del(vm->qemu_watch);
	loop_fd_del(vm->words_watch);
	loop_free(vm->loop);
	json_decref(vm->cfg.json);
	json_decref(vm->resumed);
	explicit_bzero(vm->cfg.boot_key, sizeof(vm->cfg.boot_key));
	free(vm);
}

/* Each flow of the guest is a descriptor, and the usual soft limit is 1024. */
static void raise_descriptor_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	r.rlim_cur = r.rlim_max < DESCRIPTORS_MAX ? r.rlim_max : DESCRIPTORS_MAX;
	setrlimit(RLIMIT_NOFILE, &r);
}

int vm_role_main(int hostd_fd)
{
	struct vm *vm = calloc(1, sizeof(*vm));
	struct err err;
	int rc;

	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_DUMPABLE, 0);
	raise_descriptor_limit();
	if (!vm)
		die("hostd vm: out of memory");
	vm->state = VM_IDLE;
	vm->attach_fd = vm->lock_fd = vm->qemu_pidfd = vm->words_fd = -1;
	vm->qemu_pid = -1;
	vm->loop = loop_new(&err);
	if (!vm->loop || peer_serve(vm, hostd_fd, false, &err))
		die("hostd vm: %s", err.text);
	rc = loop_run(vm->loop, &err);
	if (rc < 0)
		fprintf(stderr, "hostd vm: %s\n", err.text);
	vm_free(vm);
	return rc < 0 ? 1 : rc;
}
