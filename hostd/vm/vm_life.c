/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What happens to a VM between its first and its last instruction: QMP, verbs, the end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/exec.h>

#include "hostd/vm/disk.h"
#include "hostd/vm/plug.h"
#include "hostd/vm/qemu.h"
#include "hostd/vm/vm.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/json.h"

enum { QUIT_MS = 2000, REPLUGS_MAX = 8, TICK_MS = 250 };

static void set_text(char *to, size_t n, const char *text)
{
	snprintf(to, n, "%s", text);
}

/* ---- Answers to verbs: the id rides in the pointer of a small heap cell ---- */

struct verb {
	struct vm *vm;
	uint64_t id;
	const char *step;
};

static struct verb *verb_new(struct vm *vm, uint64_t id, const char *step)
{
	struct verb *v = malloc(sizeof(*v));

	if (v)
		*v = (struct verb){ .vm = vm, .id = id, .step = step };
	return v;
}

static void verb_done(void *u, const json_t *result, const char *error)
{
	struct verb *v = u;

	(void)result;
	if (error)
		vm_failed(v->vm, v->id, v->step, error, "holdfast ws show");
	else
		vm_done(v->vm, v->id, NULL);
	free(v);
}

/* Sends one command and answers the verb with its outcome. args is consumed. */
static void verb_command(struct vm *vm, uint64_t id, const char *step, const char *command, json_t *args,
			 int fd)
{
	struct verb *v = verb_new(vm, id, step);

	if (v && vm->qmp && !qmp_command(vm->qmp, command, args, fd, verb_done, v))
		return;
	free(v);
	vm_failed(vm, id, step, "QEMU takes no commands", "holdfast ws stop --force");
}

/* ---- The start's last steps ---- */

static void tick(void *u)
{
	struct vm *vm = u;

	if (vm->state == VM_OVER)
		return;
	if (vm->sentry)
		sentry_link_tick(vm->sentry);
	if (vm->guest)
		guest_link_tick(vm->guest);
	if (vm->running && loop_now_ms() - vm->time_told_ms >= VM_TIME_MS)
		vm_tell_time(vm);
	if (vm->events_dropped && !vm_up_crowded(vm)) {
		char text[96];

		snprintf(text, sizeof(text), "%llu refused flows were not reported while hostd was behind",
			 (unsigned long long)vm->events_dropped);
		vm->events_dropped = 0;
		vm_alarm(vm, "events_dropped", text);
	}
}

/* The guest steps its clock forward if it is behind; it stood still while paused or suspended. */
void vm_tell_time(struct vm *vm)
{
	_cleanup_json_ json_t *m = json_pack("{s:s, s:i, s:I}", "type", "time", "id", 0, "unix_ns",
					     (json_int_t)loop_unix_ns());

	vm->time_told_ms = loop_now_ms();
	if (vm->guest && m)
		guest_link_send(vm->guest, m);
}

static void boot_checkpointed(void *u, const json_t *result, const char *error)
{
	(void)result;
	if (error)
		vm_alarm(u, "checkpoint_failed", error);
}

static void began(void *u, const json_t *result, const char *error)
{
	struct vm *vm = u;

	(void)result;
	if (vm->state != VM_STARTING)
		return;
	if (error) {
		set_text(vm->end_reason, sizeof(vm->end_reason), error);
		vm_kill(vm, "start failed");
		return;
	}
	vm->start_ms = loop_now_ms();
	vm->start_ns = loop_unix_ns();
	vm->running = true;
	vm->tick_timer = loop_timer_add(vm->loop, TICK_MS, TICK_MS, tick, vm);
	vm_set_state(vm, VM_UP);
	vm_up(vm, ROLE_VM_STARTED,
	      json_pack("{s:s, s:s, s:i, s:I, s:s, s:b}", "accel", vm->kvm ? "kvm" : "tcg", "qemu_version",
			qmp_version(vm->qmp), "qemu_pid", (int)vm->qemu_pid, "start_ns",
			(json_int_t)vm->start_ns, "boot_id", vm->cfg.boot_id, "resumed",
			vm->resumed != NULL));
	vm_report(vm, "running", "");
	if (vm->resumed)
		vm_replug(vm, 0);
	if (!vm->hostd)
		vm_pause(vm, 0, "no hostd");
}

static void qmp_up(void *u, const json_t *result, const char *error)
{
	struct vm *vm = u;

	(void)result;
	if (error || vm->state != VM_STARTING)
		return; /* the pidfd tells the rest */
	vm_initramfs_drop(vm);
	if (qmp_version_major(vm->qmp) < QEMU_VERSION_MIN) {
		snprintf(vm->end_reason, sizeof(vm->end_reason), "QEMU %s is too old", qmp_version(vm->qmp));
		vm_kill(vm, "start failed");
		return;
	}
	if (vm->resumed)
		vm_resume(vm);
	else
		vm_run(vm);
}

void vm_run(struct vm *vm)
{
	qmp_command(vm->qmp, "cont", NULL, -1, began, vm);
}

void vm_begin(struct vm *vm)
{
	qmp_command(vm->qmp, "query-status", NULL, -1, qmp_up, vm);
}

/* ---- Events ---- */

static void on_shutdown(struct vm *vm, const json_t *data)
{
	const char *why = json_string_value(json_object_get(data, "reason"));

	if (!why)
		why = "";
	if (!vm->end_reason[0]) {
		if (!strcmp(why, "guest-reset"))
			set_text(vm->end_reason, sizeof(vm->end_reason),
				 console_tail_has(vm->console, "Kernel panic - not syncing") ? "panic" :
											       "reboot");
		else if (!strcmp(why, "guest-shutdown"))
			set_text(vm->end_reason, sizeof(vm->end_reason), "poweroff");
		else if (!strcmp(why, "guest-panic"))
			set_text(vm->end_reason, sizeof(vm->end_reason), "panic");
		else
			snprintf(vm->end_reason, sizeof(vm->end_reason), "qemu died: %.64s", why);
	}
	vm->running = false;
	vm_kill(vm, NULL);
}

static void on_stop(struct vm *vm)
{
	vm->running = false;
	if (!vm->end_reason[0])
		vm_report(vm, "paused", vm->pause_reason[0] ? vm->pause_reason : "stopped");
}

static void on_resume(struct vm *vm)
{
	if (vm->state != VM_UP || vm->running)
		return;
	vm->running = true;
	vm->pause_reason[0] = 0;
	vm_report(vm, "running", "");
	vm_tell_time(vm);
}

static void on_io_error(struct vm *vm, const json_t *data)
{
	if (json_is_true(json_object_get(data, "nospace")))
		set_text(vm->pause_reason, sizeof(vm->pause_reason), "disk full");
}

static void qmp_event(void *u, const char *name, const json_t *data)
{
	struct vm *vm = u;

	if (!strcmp(name, "SHUTDOWN"))
		on_shutdown(vm, data);
	else if (!strcmp(name, "STOP"))
		on_stop(vm);
	else if (!strcmp(name, "RESUME"))
		on_resume(vm);
	else if (!strcmp(name, "RESET"))
		vhost_user_guest_reset(vm->device);
	else if (!strcmp(name, "BLOCK_IO_ERROR"))
		on_io_error(vm, data);
	else if (!strcmp(name, "MIGRATION"))
		vm_suspend_migration(vm, json_string_value(json_object_get(data, "status")));
	else if (!strcmp(name, "DEVICE_DELETED"))
		plug_device_deleted(vm, json_string_value(json_object_get(data, "device")));
}

static void qmp_closed(void *u, const char *why)
{
	struct vm *vm = u;

	if (vm->state != VM_OVER && !vm->end_reason[0])
		snprintf(vm->end_reason, sizeof(vm->end_reason), "qemu died: %.128s", why);
	/* A QEMU without a monitor is of no use, alive or not. */
	if (vm->qemu_pid > 0)
		kill(vm->qemu_pid, SIGKILL);
}

const struct qmp_ops vm_qmp_ops = { .event = qmp_event, .closed = qmp_closed };

/* ---- The device ---- */

static void device_broken(void *u, const char *why)
{
	struct vm *vm = u;

	vm_alarm(vm, "vsock_broken", why);
}

static void replugged(struct vm *vm, uint64_t id, const char *cause)
{
	if (!cause && id)
		vm_done(vm, id, NULL);
	else if (id)
		vm_failed(vm, id, "plug the vsock device", cause, "holdfast ws stop");
	else if (cause)
		vm_alarm(vm, "vsock_lost", cause);
	if (!cause && vm->sentry)
		sentry_link_challenge(vm->sentry);
}

static void unplugged(struct vm *vm, uint64_t id, const char *cause)
{
	if (!cause && plug_in(vm, id, replugged))
		cause = "QEMU takes no commands";
	if (cause)
		replugged(vm, id, cause);
}

void vm_replug(struct vm *vm, uint64_t id)
{
	if (plug_out(vm, id, unplugged))
		replugged(vm, id, "the device is being plugged already");
}

static void device_detached(void *u, const char *why)
{
	struct vm *vm = u;

	if (vm->state != VM_UP || vm->plug || vm->suspend || vm->end_reason[0])
		return;
	vm_alarm(vm, "vsock_lost", why);
	if (vm->plug_count < REPLUGS_MAX)
		vm_replug(vm, 0);
}

const struct vhost_user_ops vm_device_ops = { .broken = device_broken, .detached = device_detached };

/* ---- Verbs ---- */

void vm_pause(struct vm *vm, uint64_t id, const char *reason)
{
	set_text(vm->pause_reason, sizeof(vm->pause_reason), reason);
	if (id)
		verb_command(vm, id, "pause", "stop", NULL, -1);
	else
		qmp_command(vm->qmp, "stop", NULL, -1, NULL, NULL);
}

void vm_cont(struct vm *vm, uint64_t id)
{
	verb_command(vm, id, "continue", "cont", NULL, -1);
}

static void quit_late(void *u)
{
	struct vm *vm = u;

	vm->end_timer = NULL;
	if (vm->qemu_pid > 0)
		kill(vm->qemu_pid, SIGKILL);
}

/* reason NULL: the end has its reason already. */
void vm_kill(struct vm *vm, const char *reason)
{
	if (reason) {
		vm->by_host = true;
		if (!vm->end_reason[0])
			snprintf(vm->end_reason, sizeof(vm->end_reason), "killed: %.128s", reason);
	}
	if (vm->qemu_pid <= 0)
		return;
	if (!vm->qmp || qmp_command(vm->qmp, "quit", NULL, -1, NULL, NULL)) {
		kill(vm->qemu_pid, SIGKILL);
		return;
	}
	loop_timer_del(vm->end_timer);
	vm->end_timer = loop_timer_add(vm->loop, QUIT_MS, 0, quit_late, vm);
}

/* The request to sandboxd: one stream, one frame. What it answers does not matter, the end does. */
static void poweroff_open(struct vsock_stream *s, void *u)
{
	static const char text[] = "{\"op\":\"poweroff\"}";
	uint8_t storage[HF_EXEC_HEADER_BYTES + sizeof(text)];
	struct buf b;

	(void)u;
	buf_init(&b, sizeof(storage));
	if (!buf_put_u8(&b, HF_EXEC_REQUEST) && !buf_put_u32(&b, sizeof(text) - 1) &&
	    !buf_put(&b, text, sizeof(text) - 1))
		vsock_stream_write(s, b.data, b.len);
	buf_free(&b);
}

static size_t poweroff_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	(void)s;
	(void)u;
	(void)p;
	return n;
}

static void poweroff_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	struct vm *vm = u;

	(void)s;
	/* No sandboxd: the button that every init knows. */
	if ((reason == VSOCK_REFUSED || reason == VSOCK_TIMEOUT) && vm->qmp)
		qmp_command(vm->qmp, "system_powerdown", NULL, -1, NULL, NULL);
}

static void poweroff_late(void *u)
{
	struct vm *vm = u;

	vm->end_timer = NULL;
	vm_kill(vm, "the guest did not power off in time");
}

void vm_poweroff(struct vm *vm, uint64_t id, uint64_t timeout_ms)
{
	static const struct vsock_ops ops = {
		.on_open = poweroff_open,
		.on_data = poweroff_data,
		.on_close = poweroff_close,
	};

	vm->by_host = true;
	if (!vsock_connect(vhost_user_vsock(vm->device), HF_EXEC_PORT, &ops, vm))
		qmp_command(vm->qmp, "system_powerdown", NULL, -1, NULL, NULL);
	loop_timer_del(vm->end_timer);
	vm->end_timer = loop_timer_add(vm->loop, timeout_ms, 0, poweroff_late, vm);
	vm_done(vm, id, NULL);
}

void vm_dump(struct vm *vm, uint64_t id, int fd)
{
	if (qmp_command(vm->qmp, "getfd", json_pack("{s:s}", "fdname", "dump"), fd, NULL, NULL)) {
		vm_failed(vm, id, "dump memory", "QEMU takes no commands", "holdfast ws show");
		return;
	}
	verb_command(vm, id, "dump memory", "dump-guest-memory",
		     json_pack("{s:b, s:s}", "paging", 0, "protocol", "fd:dump"), -1);
}

/* Both disks in one transaction: at the same instant, or not at all. */
static json_t *checkpoint_args(const char *name)
{
	return json_pack("{s:[{s:s, s:{s:s, s:s}}, {s:s, s:{s:s, s:s}}]}", "actions", "type",
			 "blockdev-snapshot-internal-sync", "data", "device", "root", "name", name, "type",
			 "blockdev-snapshot-internal-sync", "data", "device", "home", "name", name);
}

void vm_checkpoint(struct vm *vm, uint64_t id, const char *name)
{
	if (!disk_name_ok(name) || !vm->cfg.base[0]) {
		vm_failed(vm, id, "checkpoint", "bad name, or a VM without disks", "holdfast ws checkpoint --help");
		return;
	}
	verb_command(vm, id, "checkpoint", "transaction", checkpoint_args(name), -1);
}

void vm_guest_ready(struct vm *vm)
{
	char name[DISK_NAME_MAX];
	time_t now = time(NULL);
	struct tm tm;

	if (vm->booted || vm->resumed || !vm->cfg.base[0] || vm->state != VM_UP)
		return;
	vm->booted = true;
	strftime(name, sizeof(name), "boot-%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	qmp_command(vm->qmp, "transaction", checkpoint_args(name), -1, boot_checkpointed, vm);
}

json_t *vm_status(struct vm *vm)
{
	struct vsock_stats vs = { 0 };
	json_t *s;

	if (vm->device)
		vsock_stats(vhost_user_vsock(vm->device), &vs);
	s = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:i}", "workspace", vm->cfg.workspace,
		      "boot_id", vm->cfg.boot_id, "state",
		      vm->state == VM_STARTING ? "starting" :
		      vm->state == VM_OVER     ? "off" :
		      vm->running	       ? "running" :
						 "paused",
		      "reason", vm->state == VM_OVER ? vm->end_reason : vm->pause_reason, "accel",
		      vm->kvm ? "kvm" : "tcg", "uptime_ms",
		      (json_int_t)(vm->start_ms ? loop_now_ms() - vm->start_ms : 0), "start_ns",
		      (json_int_t)vm->start_ns, "cut", vm->cut, "qemu_pid", (int)vm->qemu_pid);
	json_object_set_new(s, "vsock",
			    json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "plugged",
				      vm->device && vhost_user_attached(vm->device), "streams",
				      (json_int_t)vs.streams, "queued_bytes", (json_int_t)vs.queued_bytes,
				      "to_guest_bytes", (json_int_t)vs.rx_bytes, "from_guest_bytes",
				      (json_int_t)vs.tx_bytes, "resets", (json_int_t)vs.resets_sent, "dropped",
				      (json_int_t)vs.dropped, "execs",
				      (json_int_t)(vm->execs ? bridge_set_count(vm->execs) : 0)));
	if (vm->sentry)
		json_object_set_new(s, "sentry", sentry_link_status(vm->sentry));
	if (vm->net)
		json_object_set_new(s, "net", net_link_status(vm->net));
	return s;
}

/* ---- The end ---- */

static void end_before_start(struct vm *vm)
{
	const char *words = vm->words_len ? vm->words : "QEMU ended without a word";
	char cause[VM_WORDS_MAX + 64];

	for (char *p = vm->words; *p; p++)
		if (*p == '\n')
			*p = 0;
	if (!vm->qmp || vm->end_reason[0] == 'Q')
		words = vm->end_reason;
	if (strstr(words, "Invalid parameter") || strstr(words, "invalid option"))
		snprintf(cause, sizeof(cause), "this QEMU is too old: %s", words);
	else
		snprintf(cause, sizeof(cause), "%s", words);
	vm_start_failed(vm, "start QEMU", cause, NULL);
}

void vm_qemu_ready(void *u, int fd, uint32_t events)
{
	struct vm *vm = u;
	int status = 0;

	(void)fd;
	(void)events;
	if (waitpid(vm->qemu_pid, &status, WNOHANG) != vm->qemu_pid)
		return;
	loop_fd_del(vm->qemu_watch);
	vm->qemu_watch = NULL;
	vm->qemu_pid = -1;
	vm->running = false;
	loop_timer_del(vm->end_timer);
	vm->end_timer = NULL;
	plug_free(vm);
	vm_initramfs_drop(vm);
	if (vm->state == VM_STARTING) {
		while (vm->words_watch) {
			size_t before = vm->words_len;

			vm_words_read(vm);
			if (before == vm->words_len)
				break;
		}
		end_before_start(vm);
		return;
	}
	if (!vm->end_reason[0]) {
		if (WIFSIGNALED(status))
			snprintf(vm->end_reason, sizeof(vm->end_reason), "qemu died: signal %d",
				 WTERMSIG(status));
		else
			snprintf(vm->end_reason, sizeof(vm->end_reason), "qemu died: exit code %d",
				 WEXITSTATUS(status));
	}
	if (vm->sentry)
		sentry_link_end(vm->sentry, vm->by_host);
	vm_set_state(vm, VM_OVER);
	vm_report(vm, "off", vm->end_reason);
}
