/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From a START message to a guest that runs: check, disks, initramfs, device, QEMU. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <holdfast/guest.h>

#include "hostd/vm/disk.h"
#include "hostd/vm/initramfs.h"
#include "hostd/vm/kvm_probe.h"
#include "hostd/vm/qemu.h"
#include "hostd/vm/vm.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/sandbox/sandbox.h"

#define INITRAMFS_NAME "initramfs"

enum { LOCK_TRIES = 20, LOCK_PAUSE_MS = 100 };
enum { CPUS_MAX = 64, MEMORY_MIN_MIB = 256, MEMORY_MAX_MIB = 1048576, HOME_MIN = 64 * 1024 * 1024 };

/* ---- START ---- */

static int parse_strings(struct vm_config *c, struct err *err)
{
	const struct {
		const char *key;
		const char **to;
		bool path; /* absolute, or "" where `empty` */
		bool empty;
	} keys[] = {
		{ "workspace", &c->workspace, false, false },
		{ "dir", &c->dir, true, false },
		{ "run_dir", &c->run_dir, true, false },
		{ "boot_id", &c->boot_id, false, false },
		{ "accel", &c->accel, false, false },
		{ "kernel", &c->kernel, true, false },
		{ "modules_image", &c->modules_image, true, true },
		{ "base", &c->base, true, true },
		{ "sandboxd", &c->sandboxd, true, false },
		{ "early_dir", &c->early_dir, true, true },
		{ "early_list", &c->early_list, true, true },
		{ "sentry_module", &c->sentry_module, true, true },
		{ "cmdline", &c->cmdline, false, true },
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *v;

		if (json_get_str(c->json, keys[i].key, &v, err))
			return -1;
		if ((!v[0] && !keys[i].empty) || (v[0] && keys[i].path && v[0] != '/') ||
		    strlen(v) >= VM_PATH_MAX / 2)
			return err_set(err, "%s \"%s\" is no absolute path", keys[i].key, v);
		*keys[i].to = v;
	}
	return 0;
}

static int parse_numbers(struct vm_config *c, struct err *err)
{
	const char *network;
	int64_t schema;

	if (json_get_int(c->json, "schema", &schema, err) || json_get_int(c->json, "cpus", &c->cpus, err) ||
	    json_get_int(c->json, "memory_mib", &c->memory_mib, err) ||
	    json_get_int(c->json, "home_bytes", &c->home_bytes, err) ||
	    json_get_str(c->json, "network", &network, err) ||
	    json_opt_bool(c->json, "resume", &c->resume, false, err))
		return -1;
	if (schema != 1)
		return err_set(err, "schema %lld", (long long)schema);
	if (c->cpus < 1 || c->cpus > CPUS_MAX)
		return err_set(err, "cpus must be 1 to %d", CPUS_MAX);
	if (c->memory_mib < MEMORY_MIN_MIB || c->memory_mib > MEMORY_MAX_MIB)
		return err_set(err, "memory_mib must be %d to %d", MEMORY_MIN_MIB, MEMORY_MAX_MIB);
	if (c->home_bytes < HOME_MIN)
		return err_set(err, "home_bytes must be %d or more", HOME_MIN);
	if (strcmp(network, "open") && strcmp(network, "cut"))
		return err_set(err, "network is \"open\" or \"cut\"");
	c->cut = !strcmp(network, "cut");
	return 0;
}

static int parse_objects(struct vm_config *c, struct err *err)
{
	static const char *const sentry_keys[] = { "mode", "state", NULL };
	json_t *spec, *sentry, *bridges;

	if (json_get_object(c->json, "guest_spec", &spec, err) ||
	    json_get_object(c->json, "sentry", &sentry, err) ||
	    json_only_keys(sentry, sentry_keys, err) ||
	    json_get_str(sentry, "mode", &c->sentry_mode, err) ||
	    json_get_array(c->json, "bridges", &bridges, err))
		return -1;
	if (strcmp(c->sentry_mode, "off") && strcmp(c->sentry_mode, "best_effort") &&
	    strcmp(c->sentry_mode, "required"))
		return err_set(err, "sentry.mode \"%s\"", c->sentry_mode);
	if (json_array_size(bridges) > ROLE_BRIDGES_MAX)
		return err_set(err, "more than %d bridges", ROLE_BRIDGES_MAX);
	c->guest_spec = spec;
	c->bridges = bridges;
	c->sentry_state = json_object_get(sentry, "state");
	c->net = json_object_get(c->json, "net");
	if (json_is_null(c->net))
		c->net = NULL;
	else if (!json_is_object(c->net))
		return err_set(err, "net must be an object or null");
	return json_opt_str(c->json, "mac", &c->mac, "", err);
}

int vm_config_parse(struct vm_config *c, const json_t *start, struct err *err)
{
	static const char *const keys[] = {
		"id",	      "schema",	    "workspace",  "dir",	   "run_dir",  "boot_id",
		"accel",      "cpus",	    "memory_mib", "kernel",	   "base",     "modules_image",
		"home_bytes", "sandboxd",   "early_dir",  "early_list",	   "proxy_ca", "sentry_module",
		"guest_spec", "cmdline",    "mac",	  "net",	   "network",  "sentry",
		"bridges",    "resume",	    NULL,
	};

	/* A copy: the message is gone when its handler returns. */
	c->json = json_deep_copy(start);
	if (json_only_keys(c->json, keys, err) || parse_strings(c, err) || parse_numbers(c, err) ||
	    parse_objects(c, err) || json_opt_str(c->json, "proxy_ca", &c->proxy_ca, "", err))
		return -1;
	if (strcmp(c->accel, "auto") && strcmp(c->accel, "kvm") && strcmp(c->accel, "tcg"))
		return err_set(err, "accel \"%s\"", c->accel);
	return 0;
}

/* ---- Starting ---- */

static void cause_to_next(const char *cause, const char **next)
{
	static const struct {
		const char *text, *next;
	} known[] = {
		{ "not installed", "apt-get install qemu-system-x86 qemu-utils e2fsprogs" },
		{ "No space left", "free space on the disk that holds the workspace (holdfast ws list --sizes)" },
		{ "Cannot allocate memory", "start it with less memory: holdfast ws set WS --memory" },
		{ "No such file", "make image" },
		{ "runs already", "holdfast ws list" },
		{ "may not be opened", "add this user to the group kvm, or start with --accel tcg" },
		{ "no /dev/kvm", "start with --accel tcg" },
		{ "/dev/kvm opens", "start with --accel tcg" },
		{ "too old", "install QEMU 7.2 or newer" },
		{ "Permission denied", "holdfast doctor" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(cause, known[i].text)) {
			*next = known[i].next;
			return;
		}
	*next = "holdfast doctor";
}

void vm_start_failed(struct vm *vm, const char *step, const char *cause, const char *next)
{
	if (!next)
		cause_to_next(cause, &next);
	vm_up(vm, ROLE_VM_START_FAILED,
	      json_pack("{s:s, s:s, s:s}", "step", step, "cause", cause, "next", next));
	vm_set_state(vm, VM_OVER);
}

static int choose_accel(struct vm *vm, struct err *err)
{
	if (!strcmp(vm->cfg.accel, "tcg"))
		return 0;
	if (kvm_probe(err))
		return -1;
	vm->kvm = true;
	return 0;
}

static int make_initramfs(struct vm *vm, int run_dirfd, struct err *err)
{
	const struct vm_config *c = &vm->cfg;
	_cleanup_free_ char *spec = json_text(c->guest_spec);
	static const uint8_t no_key[ROLE_BOOT_KEY_BYTES];
	struct initramfs_parts parts = {
		.sandboxd = c->sandboxd,
		.early_dir = c->early_dir,
		.early_list = c->early_list,
		.sentry_module = c->sentry_module,
		.proxy_ca = c->proxy_ca,
		/* QEMU wants a file; a resumed guest has long read its own. */
		.boot_key = vm->resumed ? no_key : c->boot_key,
		.guest_spec = spec,
	};

	if (!spec)
		return err_set(err, "out of memory");
	unlinkat(run_dirfd, INITRAMFS_NAME, 0);
	return initramfs_build(run_dirfd, INITRAMFS_NAME, &parts, err);
}

void vm_initramfs_drop(struct vm *vm)
{
	char path[VM_PATH_MAX];

	snprintf(path, sizeof(path), "%s/" INITRAMFS_NAME, vm->cfg.run_dir);
	unlink(path);
}

int vm_confine(struct vm *vm, struct err *err)
{
	struct sandbox_path paths[] = {
		{ .path = vm->cfg.dir, .access = SANDBOX_WRITE, .reason = "console log, saved RAM" },
		{ .path = vm->cfg.run_dir, .access = SANDBOX_WRITE, .reason = "sockets" },
	};
	struct sandbox_profile p = sandbox_profile_vm;
	struct sandbox_report report;

	p.paths = paths;
	p.path_count = sizeof(paths) / sizeof(paths[0]);
	return sandbox_apply(&p, &report, err);
}

static int listen_bridges(struct vm *vm, struct err *err)
{
	static const char *const keys[] = { "port", "unix", NULL };
	const json_t *b;
	size_t i;

	json_array_foreach(vm->cfg.bridges, i, b) {
		const char *path;
		int64_t port;

		if (json_only_keys(b, keys, err) || json_get_int(b, "port", &port, err) ||
		    json_get_str(b, "unix", &path, err))
			return err_prefix(err, "bridges");
		if (port < 1 || port > UINT16_MAX || bridge_listen(vm->bridges, (uint32_t)port, path))
			return err_set(err, "bridges: port %lld or path %s", (long long)port, path);
	}
	return 0;
}

/* The backend and all that listens on it, before the guest can connect. */
static int make_device(struct vm *vm, struct err *err)
{
	struct vsock *v;

	vm->device = vhost_user_new(vm->loop, VM_GUEST_CID, &vm_device_ops, vm);
	if (!vm->device)
		return err_set(err, "out of memory");
	v = vhost_user_vsock(vm->device);
	vm->bridges = bridge_set_new(vm->loop, v, VSOCK_STREAMS_MAX);
	vm->execs = bridge_set_new(vm->loop, v, ROLE_EXECS_MAX);
	vm->guest = guest_link_new(vm);
	if (!vm->bridges || !vm->execs || !vm->guest)
		return err_set(err, "out of memory");
	if (strcmp(vm->cfg.sentry_mode, "off")) {
		vm->sentry = sentry_link_new(vm, err);
		if (!vm->sentry)
			return err_prefix(err, "Sentry session");
	}
	return listen_bridges(vm, err);
}

void vm_words_read(struct vm *vm)
{
	char chunk[256];
	ssize_t n = read(vm->words_fd, chunk, sizeof(chunk));

	if (n <= 0 && errno != EAGAIN) {
		loop_fd_del(vm->words_watch);
		vm->words_watch = NULL;
	}
	/* The last line counts; what came first is dropped. */
	for (ssize_t i = 0; i < n; i++) {
		if (vm->words_len && vm->words[vm->words_len - 1] == '\n')
			vm->words_len = 0;
		if (vm->words_len < sizeof(vm->words) - 1)
			vm->words[vm->words_len++] = chunk[i];
	}
	vm->words[vm->words_len] = 0;
}

static void words_ready(void *u, int fd, uint32_t events)
{
	(void)fd;
	(void)events;
	vm_words_read(u);
}

struct ends {
	int qmp[2], console[2], vsock[2], words[2], net; /* [0] ours, [1] QEMU's */
};

static int ends_make(struct ends *e)
{
	*e = (struct ends){ { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 }, -1 };
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->qmp) ||
			       socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->console) ||
			       socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->vsock) ||
			       pipe2(e->words, O_CLOEXEC) || io_set_nonblock(e->words[0]) ?
		       -1 :
		       0;
}

static void ends_close(struct ends *e)
{
	int *all[] = { e->qmp, e->console, e->vsock, e->words };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (int k = 0; k < 2; k++)
			if (all[i][k] >= 0)
				close(all[i][k]);
	if (e->net >= 0)
		close(e->net);
}

/* Hands our ends to their owners. */
static int ends_adopt(struct vm *vm, struct ends *e, struct err *err)
{
	vm->words_fd = steal_fd(&e->words[0]);
	vm->words_watch = loop_fd_add(vm->loop, vm->words_fd, EPOLLIN, words_ready, vm, err);
	vm->qemu_watch = loop_fd_add(vm->loop, vm->qemu_pidfd, EPOLLIN, vm_qemu_ready, vm, err);
	if (!vm->words_watch || !vm->qemu_watch)
		return -1;
	/* A suspended VM comes back without the device; it is plugged once the guest runs. */
	if (vm->resumed && e->vsock[0] >= 0)
		close(steal_fd(&e->vsock[0]));
	vm->console = console_new(vm->loop, steal_fd(&e->console[0]), vm->cfg.dir, err);
	vm->qmp = qmp_new(vm->loop, steal_fd(&e->qmp[0]), &vm_qmp_ops, vm, err);
	if (!vm->console || !vm->qmp)
		return -1;
	return vm->resumed ? 0 : vhost_user_attach(vm->device, steal_fd(&e->vsock[0]), err);
}

static int spawn(struct vm *vm, struct ends *e, struct err *err)
{
	const struct vm_config *c = &vm->cfg;
	char initrd[VM_PATH_MAX], root[VM_PATH_MAX], home[VM_PATH_MAX], cmdline[VM_PATH_MAX];
	struct qemu_config q = {
		.name = c->workspace,
		.kvm = vm->kvm,
		.cpus = (int)c->cpus,
		.memory_mib = (int)c->memory_mib,
		.one_thread = !vm->kvm && c->cpus > 1 && strcmp(c->sentry_mode, "off"),
		.kernel = c->kernel,
		.initrd = initrd,
		.cmdline = cmdline,
		.root = c->base[0] ? root : "",
		.home = c->base[0] ? home : "",
		.modules = c->modules_image,
		.mac = c->net ? c->mac : NULL,
		.fd_qmp = e->qmp[1],
		.fd_console = e->console[1],
		.fd_vsock = e->vsock[1],
		.fd_net = e->net,
		.fd_lock = vm->lock_fd,
		.fd_words = e->words[1],
		.dir = c->dir,
		.run_dir = c->run_dir,
		.base = c->base,
		.incoming = vm->resumed != NULL,
	};

	snprintf(initrd, sizeof(initrd), "%s/" INITRAMFS_NAME, c->run_dir);
	snprintf(root, sizeof(root), "%s/" DISK_ROOT, c->dir);
	snprintf(home, sizeof(home), "%s/" DISK_HOME, c->dir);
	snprintf(cmdline, sizeof(cmdline), QEMU_CMDLINE "%s%s%s", vm->kvm ? "" : " mitigations=off",
		 c->cmdline[0] ? " " : "", c->cmdline);
	return qemu_spawn(&q, &vm->qemu_pid, &vm->qemu_pidfd, err);
}

/* One step of the start: what it is called in the message, and what it does. */
static int step_paths(struct vm *vm, struct ends *e, struct err *err)
{
	(void)e;
	if (access(vm->cfg.kernel, R_OK))
		return err_errno(err, "%s", vm->cfg.kernel);
	if (vm->cfg.modules_image[0] && access(vm->cfg.modules_image, R_OK))
		return err_errno(err, "%s", vm->cfg.modules_image);
	return io_mkdir_p(vm->cfg.run_dir, 0700, err);
}

static int step_lock(struct vm *vm, struct ends *e, struct err *err)
{
	(void)e;
	/* The run before may be over for hostd and its role still leaving. */
	for (int i = 0; i < LOCK_TRIES && vm->lock_fd < 0; i++) {
		if (i)
			usleep(LOCK_PAUSE_MS * 1000);
		vm->lock_fd = disk_lock(vm->cfg.dir, err);
	}
	return vm->lock_fd < 0 ? -1 : 0;
}

static int step_accel(struct vm *vm, struct ends *e, struct err *err)
{
	(void)e;
	return choose_accel(vm, err);
}

static int step_resume(struct vm *vm, struct ends *e, struct err *err)
{
	(void)e;
	return vm->cfg.resume ? vm_resume_read(vm, err) : 0;
}

static int step_disks(struct vm *vm, struct ends *e, struct err *err)
{
	(void)e;
	if (!vm->cfg.base[0])
		return 0;
	/* Without a resume the saved RAM would outlive the disk that it belongs to. */
	if (!vm->resumed && disk_state_drop(vm->cfg.dir, err))
		return -1;
	if (disk_prepare(vm->cfg.dir, vm->cfg.base, (uint64_t)vm->cfg.home_bytes, err))
		return -1;
	/* Old checkpoints that can't be dropped (a full disk) are no reason not to start. */
	if (!vm->resumed && disk_thin(vm->cfg.dir, (int64_t)(loop_unix_ns() / 1000000000), err))
		vm_alarm(vm, "checkpoint_failed", err->text);
	return 0;
}

static int step_initramfs(struct vm *vm, struct ends *e, struct err *err)
{
	_cleanup_close_ int dirfd = open(vm->cfg.run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)e;
	return dirfd < 0 ? err_errno(err, "%s", vm->cfg.run_dir) : make_initramfs(vm, dirfd, err);
}

static int step_device(struct vm *vm, struct ends *e, struct err *err)
{
	if (ends_make(e))
		return err_errno(err, "sockets");
	return make_device(vm, err);
}

static int step_network(struct vm *vm, struct ends *e, struct err *err)
{
	if (!vm->cfg.net)
		return 0;
	vm->net = net_link_new(vm, &e->net, err);
	return vm->net ? 0 : -1;
}

static int step_qemu(struct vm *vm, struct ends *e, struct err *err)
{
	return spawn(vm, e, err) || ends_adopt(vm, e, err) ? -1 : 0;
}

static int step_socket(struct vm *vm, struct ends *e, struct err *err)
{
	(void)e;
	return vm_attach_listen(vm, err);
}

static int step_confine(struct vm *vm, struct ends *e, struct err *err)
{
	(void)e;
	return vm_confine(vm, err);
}

void vm_start(struct vm *vm)
{
	static const struct {
		const char *name;
		int (*run)(struct vm *vm, struct ends *e, struct err *err);
	} steps[] = {
		{ "look for the kernel", step_paths },
		{ "lock the workspace", step_lock },
		{ "use KVM", step_accel },
		{ "read the suspended state", step_resume },
		{ "prepare the disks", step_disks },
		{ "build the initramfs", step_initramfs },
		{ "make the vsock device", step_device },
		{ "make the network", step_network },
		{ "listen for hostd", step_socket },
		{ "start QEMU", step_qemu },
		{ "confine the VM's monitor", step_confine },
	};
	struct ends e = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 }, -1 };
	struct err err;

	vm->cut = vm->cfg.cut;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (!steps[i].run(vm, &e, &err))
			continue;
		vm_start_failed(vm, steps[i].name, err.text, NULL);
		break;
	}
	if (vm->state == VM_STARTING)
		vm_begin(vm);
	ends_close(&e);
}
