/* SPDX-License-Identifier: GPL-2.0-or-later */
/* RAM to a file and back: a VM that ends and goes on where it was. */

/*
 * Theory of operation
 *
 * Suspend: network cut, the Sentry challenged (so that its silence has a cause it can see), the
 * vsock device unplugged while the guest runs (QEMU saves no RAM with it, and the guest must agree
 * within 5 s), QMP stop, migrate to vm.state through a passed fd, fsync, vm.state.json beside it,
 * quit. Whatever fails before the RAM is whole puts everything back: the VM runs on.
 *
 * vm.state.json is written last and renamed into place, so without it vm.state is nothing. It holds
 * the boot key and id (the guest's module goes on with both), the Sentry session's state as of the
 * last durable frame, and the configuration, which must be the same at resume.
 *
 * Resume: QEMU with -incoming defer and without the device, both files unlinked as soon as they are
 * open (a snapshot never lives on beside the disk that has moved on), migrate-incoming, cont, plug.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/vm/disk.h"
#include "hostd/vm/plug.h"
#include "hostd/vm/vm.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

enum { INFO_MAX = 256 * 1024, ACKS_MS = 3000, ACKS_POLL_MS = 50, BANDWIDTH = 1 << 30 };

#define STATE_NEW DISK_STATE ".new"

static const struct json_limits info_limits = { .bytes = INFO_MAX, .depth = 16, .values = 16384 };

struct suspend {
	struct vm *vm;
	uint64_t id;
	int fd;
	bool saving; /* QEMU writes RAM */
	bool was_cut;
	unsigned waited_ms;
	struct loop_timer *timer;
};

/* What has to be the same for the RAM to fit: all but names and times. */
static json_t *configuration(const struct vm_config *c, bool kvm)
{
	return json_pack("{s:s, s:b, s:I, s:I, s:s, s:s, s:s, s:s, s:b}", "workspace", c->workspace, "kvm", kvm,
			 "cpus", (json_int_t)c->cpus, "memory_mib", (json_int_t)c->memory_mib, "kernel",
			 c->kernel, "modules_image", c->modules_image, "base", c->base, "mac", c->mac, "net",
			 c->net != NULL);
}

/* ---- Suspend ---- */

void vm_suspend_free(struct vm *vm)
{
	struct suspend *s = vm->suspend;

	if (!s)
		return;
	vm->suspend = NULL;
	loop_timer_del(s->timer);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

static void file_drop(const struct vm *vm, const char *name)
{
	char path[VM_PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", vm->cfg.dir, name);
	unlink(path);
}

static void plugged_again(struct vm *vm, uint64_t id, const char *cause)
{
	(void)id;
	if (cause)
		vm_alarm(vm, "vsock_lost", cause);
}

/* Puts everything back: the VM runs on as if nothing had been asked. */
static void give_up(struct suspend *s, const char *cause)
{
	struct vm *vm = s->vm;
	uint64_t id = s->id;
	bool was_cut = s->was_cut;

	vm_suspend_free(vm);
	file_drop(vm, STATE_NEW);
	if (!vm->running)
		qmp_command(vm->qmp, "cont", NULL, -1, NULL, NULL);
	if (!vhost_user_attached(vm->device) && plug_in(vm, 0, plugged_again))
		vm_alarm(vm, "vsock_lost", "the device could not be plugged again");
	if (vm->net && !was_cut)
		net_link_cut(vm->net, false);
	vm_failed(vm, id, "suspend", cause, "shut it down instead: holdfast ws stop");
}

static int info_write(struct suspend *s, struct err *err)
{
	struct vm *vm = s->vm;
	const json_t *state = vm->sentry ? sentry_link_durable_state(vm->sentry) : NULL;
	_cleanup_close_ int dirfd = open(vm->cfg.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char key[2 * ROLE_BOOT_KEY_BYTES + 1];
	json_t *info;
	char *text;
	int rc;

	if (dirfd < 0 || fsync(s->fd) || renameat(dirfd, STATE_NEW, dirfd, DISK_STATE))
		return err_errno(err, "%s", vm->cfg.dir);
	hex_encode(key, vm->cfg.boot_key, sizeof(vm->cfg.boot_key));
	info = json_pack("{s:i, s:s, s:s, s:o, s:O*}", "schema", 1, "boot_id", vm->cfg.boot_id, "boot_key",
			 key, "configuration", configuration(&vm->cfg, vm->kvm), "sentry",
			 (json_t *)state);
	text = info ? json_text(info) : NULL;
	rc = text ? io_write_file_atomic(dirfd, DISK_STATE_INFO, text, strlen(text), 0600, err) :
		    err_set(err, "out of memory");
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
	explicit_bzero(key, sizeof(key));
	json_decref(info);
	return rc;
}

static void saved(struct suspend *s)
{
	struct vm *vm = s->vm;
	struct err err;

	if (info_write(s, &err)) {
		file_drop(vm, DISK_STATE);
		give_up(s, err.text);
		return;
	}
	vm_done(vm, s->id, NULL);
	vm_suspend_free(vm);
	snprintf(vm->end_reason, sizeof(vm->end_reason), "suspended");
	vm->by_host = true;
	vm_kill(vm, NULL);
}

static void migrating(void *u, const json_t *result, const char *error)
{
	struct vm *vm = u;

	(void)result;
	if (error && vm->suspend)
		give_up(vm->suspend, error);
}

void vm_suspend_migration(struct vm *vm, const char *status)
{
	struct suspend *s = vm->suspend;

	if (!status)
		return;
	if (vm->state == VM_STARTING && vm->resumed) {
		if (!strcmp(status, "completed")) {
			vm_run(vm);
		} else if (!strcmp(status, "failed")) {
			snprintf(vm->end_reason, sizeof(vm->end_reason), "QEMU did not take the suspended state");
			vm_kill(vm, "start failed");
		}
		return;
	}
	if (!s || !s->saving)
		return;
	if (!strcmp(status, "completed"))
		saved(s);
	else if (!strcmp(status, "failed"))
		give_up(s, "QEMU could not save the guest's memory (is the disk full?)");
}

static json_t *events_capability(void)
{
	return json_pack("{s:[{s:s, s:b}]}", "capabilities", "capability", "events", "state", 1);
}

static void stopped(void *u, const json_t *result, const char *error)
{
	struct vm *vm = u;
	struct suspend *s = vm->suspend;

	(void)result;
	if (!s)
		return;
	if (error) {
		give_up(s, error);
		return;
	}
	s->saving = true;
	if (qmp_command(vm->qmp, "migrate-set-capabilities", events_capability(), -1, migrating, vm) ||
	    qmp_command(vm->qmp, "migrate-set-parameters",
			json_pack("{s:I}", "max-bandwidth", (json_int_t)BANDWIDTH * 16), -1, migrating, vm) ||
	    qmp_command(vm->qmp, "getfd", json_pack("{s:s}", "fdname", "ram"), s->fd, migrating, vm) ||
	    qmp_command(vm->qmp, "migrate", json_pack("{s:s}", "uri", "fd:ram"), -1, migrating, vm))
		give_up(s, "QEMU takes no commands");
}

static void unplugged(struct vm *vm, uint64_t id, const char *cause)
{
	struct suspend *s = vm->suspend;

	(void)id;
	if (!s)
		return;
	if (cause)
		give_up(s, cause);
	else if (snprintf(vm->pause_reason, sizeof(vm->pause_reason), "suspending") < 0 ||
		 qmp_command(vm->qmp, "stop", NULL, -1, stopped, vm))
		give_up(s, "QEMU takes no commands");
}

/* Frames that hostd has not made durable would be said again by a module that thinks them unsaid. */
static void wait_for_acks(void *u)
{
	struct suspend *s = u;
	struct vm *vm = s->vm;

	s->timer = NULL;
	s->waited_ms += ACKS_POLL_MS;
	if (vm->sentry && sentry_link_held(vm->sentry) && s->waited_ms < ACKS_MS) {
		s->timer = loop_timer_add(vm->loop, ACKS_POLL_MS, 0, wait_for_acks, s);
		return;
	}
	if (plug_out(vm, 0, unplugged))
		give_up(s, "the vsock device is being plugged");
}

void vm_suspend(struct vm *vm, uint64_t id)
{
	char path[VM_PATH_MAX];
	struct suspend *s;

	if (vm->suspend || vm->vsock_cut || !vm->running) {
		vm_failed(vm, id, "suspend",
			  vm->suspend	? "it is being suspended already" :
			  vm->vsock_cut ? "it is in quarantine" :
					  "its CPUs stand still",
			  "holdfast ws show");
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		vm_failed(vm, id, "suspend", "out of memory", "holdfast ws show");
		return;
	}
	snprintf(path, sizeof(path), "%s/" STATE_NEW, vm->cfg.dir);
	unlink(path);
	*s = (struct suspend){ .vm = vm, .id = id, .was_cut = vm->cut };
	s->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	vm->suspend = s;
	if (s->fd < 0) {
		give_up(s, strerror(errno));
		return;
	}
	if (vm->net)
		net_link_cut(vm->net, true);
	if (vm->sentry)
		sentry_link_challenge(vm->sentry);
	s->timer = loop_timer_add(vm->loop, ACKS_POLL_MS, 0, wait_for_acks, s);
}

/* ---- Resume ---- */

static int info_take(struct vm *vm, json_t *info, struct err *err)
{
	_cleanup_json_ json_t *now = configuration(&vm->cfg, vm->kvm);
	const char *boot_id, *key;
	json_t *then;

	if (json_get_str(info, "boot_id", &boot_id, err) || json_get_str(info, "boot_key", &key, err) ||
	    json_get_object(info, "configuration", &then, err))
		return -1;
	if (!json_equal(now, then))
		return err_set(err, "it was suspended with other settings, which must be the same");
	if (strlen(key) != 2 * ROLE_BOOT_KEY_BYTES || hex_decode(vm->cfg.boot_key, ROLE_BOOT_KEY_BYTES, key))
		return err_set(err, "the suspended state has no key");
	vm->cfg.boot_id = boot_id;
	vm->cfg.sentry_state = json_object_get(info, "sentry");
	return 0;
}

int vm_resume_read(struct vm *vm, struct err *err)
{
	_cleanup_close_ int dirfd = open(vm->cfg.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct buf text;
	int rc = -1;

	buf_init(&text, INFO_MAX);
	if (dirfd < 0 || faccessat(dirfd, DISK_STATE, R_OK, 0))
		err_set(err, "it is not suspended");
	else if (!io_read_file_at(dirfd, DISK_STATE_INFO, &text, err) &&
		 (vm->resumed = json_parse(text.data, text.len, &info_limits, err)))
		rc = info_take(vm, vm->resumed, err);
	if (text.data)
		explicit_bzero(text.data, text.len);
	buf_free(&text);
	return rc;
}

static void resuming(void *u, const json_t *result, const char *error)
{
	struct vm *vm = u;

	(void)result;
	if (!error || vm->state != VM_STARTING)
		return;
	snprintf(vm->end_reason, sizeof(vm->end_reason), "QEMU did not take the suspended state: %.100s", error);
	vm_kill(vm, "start failed");
}

void vm_resume(struct vm *vm)
{
	_cleanup_close_ int fd = -1;
	char path[VM_PATH_MAX];

	snprintf(path, sizeof(path), "%s/" DISK_STATE, vm->cfg.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		resuming(vm, NULL, strerror(errno));
		return;
	}
	disk_state_drop(vm->cfg.dir, NULL);
	if (qmp_command(vm->qmp, "migrate-set-capabilities", events_capability(), -1, resuming, vm) ||
	    qmp_command(vm->qmp, "getfd", json_pack("{s:s}", "fdname", "ram"), fd, resuming, vm) ||
	    qmp_command(vm->qmp, "migrate-incoming", json_pack("{s:s}", "uri", "fd:ram"), -1, resuming, vm))
		resuming(vm, NULL, "QEMU takes no commands");
}
