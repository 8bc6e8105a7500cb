/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The QEMU child of one VM: its command line, its descriptors, its end. */
#include "hostd/vm/qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/sandbox/sandbox.h"

/* Where the child finds its descriptors. */
enum { FD_QMP = 3, FD_CONSOLE, FD_VSOCK, FD_NET, FD_LOCK, FD_END };

static int arg(struct qemu_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int arg(struct qemu_args *a, const char *fmt, ...)
{
	size_t room = sizeof(a->text) - a->used;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(a->text + a->used, room, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room || a->argc >= QEMU_ARGS_MAX - 1)
		return -1;
	a->argv[a->argc++] = a->text + a->used;
	a->argv[a->argc] = NULL;
	a->used += (size_t)n + 1;
	return 0;
}

#define OPT(...) (rc |= arg(a, __VA_ARGS__))

/* A comma ends an option's value in QEMU's command line; doubled it is one of the value. */
static const char *escaped(struct qemu_args *a, const char *path)
{
	char *to = a->text + a->used;
	size_t room = sizeof(a->text) - a->used;
	size_t n = 0;

	for (; *path; path++) {
		if (n + 3 > room)
			return "";
		to[n++] = *path;
		if (*path == ',')
			to[n++] = ',';
	}
	to[n++] = 0;
	a->used += n;
	return to;
}

static int machine(struct qemu_args *a, const struct qemu_config *c)
{
	int rc = 0;

	OPT("-name");
	OPT("holdfast-%s,debug-threads=on", escaped(a, c->name));
	OPT("-nodefaults");
	OPT("-no-user-config");
	OPT("-display");
	OPT("none");
	OPT("-machine");
	OPT("q35,memory-backend=mem,vmport=off,smbus=off,sata=off,usb=off,hpet=off");
	OPT("-accel");
	OPT("%s", c->kvm ? "kvm" : c->one_thread ? "tcg,thread=single" : "tcg,thread=multi");
	OPT("-cpu");
	/* QEMU 7.2 under TCG panics 6.12 guests in cmpxchg16b (5 of 24 boots). */
	OPT("%s", c->kvm ? "host" : "max,-cx16");
	OPT("-smp");
	OPT("%d", c->cpus);
	OPT("-m");
	OPT("%dM", c->memory_mib);
	OPT("-object");
	OPT("memory-backend-memfd,id=mem,size=%dM,share=on,seal=on", c->memory_mib);
	OPT("-no-reboot");
	OPT("-no-shutdown");
	OPT("-S");
	OPT("-sandbox");
	OPT("on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
	OPT("-kernel");
	OPT("%s", c->kernel);
	OPT("-initrd");
	OPT("%s", c->initrd);
	OPT("-append");
	OPT("%s", c->cmdline);
	if (c->incoming) {
		OPT("-incoming");
		OPT("defer");
	}
	return rc;
}

static int disk(struct qemu_args *a, const char *id, const char *driver, const char *path, bool writable)
{
	int rc = 0;

	OPT("-blockdev");
	OPT("driver=file,node-name=%s-file,filename=%s,%s", id, escaped(a, path),
	    writable ? "discard=unmap" : "read-only=on");
	OPT("-blockdev");
	OPT("driver=%s,node-name=%s,file=%s-file,%s", driver, id, id,
	    writable ? "discard=unmap,detect-zeroes=unmap" : "read-only=on");
	OPT("-device");
	/* A full host disk stops the VM and is reported; the guest never sees an error for it. */
	OPT("virtio-blk-pci,drive=%s,serial=hf-%s,%s", id, id,
	    writable ? "discard=on,werror=enospc,rerror=report" : "discard=off");
	return rc;
}

static int devices(struct qemu_args *a, const struct qemu_config *c)
{
	int rc = 0;

	OPT("-chardev");
	OPT("socket,id=qmp,fd=%d", FD_QMP);
	OPT("-mon");
	OPT("chardev=qmp,mode=control");
	OPT("-chardev");
	OPT("socket,id=console,fd=%d", FD_CONSOLE);
	OPT("-serial");
	OPT("chardev:console");
	/* q35's root bus takes no hotplug, and suspend unplugs the device. */
	OPT("-device");
	OPT("pcie-root-port,id=" QEMU_VSOCK_BUS ",chassis=1,slot=1");
	if (!c->incoming) {
		OPT("-chardev");
		OPT("socket,id=vsock-a,fd=%d", FD_VSOCK);
		OPT("-device");
		OPT("vhost-user-vsock-pci,chardev=vsock-a,id=" QEMU_VSOCK_ID ",bus=" QEMU_VSOCK_BUS);
	}
	if (c->root[0])
		rc |= disk(a, "root", "qcow2", c->root, true);
	if (c->home[0])
		rc |= disk(a, "home", "qcow2", c->home, true);
	if (c->modules[0])
		rc |= disk(a, "modules", "raw", c->modules, false);
	if (c->mac) {
		OPT("-netdev");
		OPT("stream,id=net0,server=off,addr.type=fd,addr.str=%d", FD_NET);
		OPT("-device");
		OPT("virtio-net-pci,netdev=net0,mac=%s,romfile=", c->mac);
	}
	OPT("-device");
	OPT("virtio-rng-pci");
	return rc;
}

int qemu_args_make(const struct qemu_config *cfg, struct qemu_args *args, struct err *err)
{
	args->argc = 0;
	args->used = 0;
	if (arg(args, "%s", QEMU_PROGRAM) || machine(args, cfg) || devices(args, cfg))
		return err_set(err, "the command line of QEMU is too long");
	return args->argc;
}

/* Only this workspace's files, the images, QEMU's own and /dev/kvm. */
static int confine(const struct qemu_config *c, struct err *err)
{
	struct sandbox_path paths[] = {
		{ .path = "/usr", .access = SANDBOX_READ, .reason = "QEMU, its libraries and firmware" },
		{ .path = "/lib", .access = SANDBOX_READ, .optional = true, .reason = "libraries" },
		{ .path = "/lib64", .access = SANDBOX_READ, .optional = true, .reason = "loader" },
		{ .path = "/etc/ld.so.cache", .access = SANDBOX_READ, .optional = true, .reason = "loader" },
		{ .path = "/etc/qemu", .access = SANDBOX_READ, .optional = true, .reason = "QEMU" },
		{ .path = "/dev/null", .access = SANDBOX_WRITE, .reason = "standard input" },
		{ .path = "/dev/urandom", .access = SANDBOX_READ, .optional = true, .reason = "virtio-rng" },
		{ .path = "/dev/kvm", .access = SANDBOX_WRITE, .optional = true, .reason = "KVM" },
		{ .path = "/proc/self", .access = SANDBOX_READ, .optional = true, .reason = "glibc" },
		{ .path = "/sys/devices/system", .access = SANDBOX_READ, .optional = true, .reason = "glibc" },
		{ .path = c->root[0] ? c->root : c->dir, .access = SANDBOX_WRITE, .reason = "disk" },
		{ .path = c->home[0] ? c->home : c->dir, .access = SANDBOX_WRITE, .reason = "disk" },
		{ .path = c->run_dir, .access = SANDBOX_READ, .reason = "initramfs" },
		{ .path = c->kernel, .access = SANDBOX_READ, .reason = "kernel" },
		{ .path = c->modules[0] ? c->modules : c->kernel, .access = SANDBOX_READ, .reason = "modules" },
		{ .path = c->base[0] ? c->base : c->kernel, .access = SANDBOX_READ, .reason = "base image" },
	};
	struct sandbox_profile p = sandbox_profile_qemu;
	struct sandbox_report report;

	p.paths = paths;
	p.path_count = sizeof(paths) / sizeof(paths[0]);
	return sandbox_apply(&p, &report, err);
}

static void child_fail(int fd, const char *what)
{
	char text[600];
	int n = snprintf(text, sizeof(text), "%s", what);

	_exit(write(fd, text, (size_t)n) < 0 ? 126 : 127);
}

/* Runs in the child: never returns. What goes wrong before exec is written to `fail`. */
static void child(const struct qemu_config *c, const struct qemu_args *args, pid_t parent, int fail)
{
	const int from[] = { c->fd_qmp, c->fd_console, c->fd_vsock, c->fd_net, c->fd_lock };
	int moved[FD_END - FD_QMP];
	struct err err;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(126);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	/* Out of the way first: a source may have a number that is another's target. */
	fail = fcntl(fail, F_DUPFD_CLOEXEC, FD_END + 16);
	for (int i = 0; i < FD_END - FD_QMP; i++)
		moved[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, FD_END + 16);
	if (dup2(null, 0) < 0 || dup2(c->fd_words, 1) < 0 || dup2(c->fd_words, 2) < 0)
		child_fail(fail, "descriptors");
	for (int i = 0; i < FD_END - FD_QMP; i++) {
		if (moved[i] >= 0 && dup2(moved[i], FD_QMP + i) < 0)
			child_fail(fail, "descriptors");
		if (moved[i] < 0)
			close(FD_QMP + i);
	}
	syscall(SYS_close_range, FD_END, ~0u, CLOSE_RANGE_CLOEXEC);
	if (confine(c, &err))
		child_fail(fail, err.text);
	execvp(args->argv[0], (char *const *)args->argv);
	child_fail(fail, errno == ENOENT ? QEMU_PROGRAM " is not installed" : strerror(errno));
}

int qemu_spawn(const struct qemu_config *cfg, pid_t *pid, int *pidfd, struct err *err)
{
	_cleanup_free_ struct qemu_args *args = malloc(sizeof(*args));
	_cleanup_close_ int fail_read = -1;
	pid_t parent = getpid();
	char text[500];
	int fail[2];
	ssize_t n;

	if (!args || qemu_args_make(cfg, args, err) < 0)
		return -1;
	if (pipe2(fail, O_CLOEXEC))
		return err_errno(err, "pipe");
	fail_read = fail[0];
	*pid = fork();
	if (!*pid)
		child(cfg, args, parent, fail[1]);
	close(fail[1]);
	if (*pid < 0)
		return err_errno(err, "fork");
	n = read(fail_read, text, sizeof(text) - 1);
	*pidfd = n ? -1 : (int)syscall(SYS_pidfd_open, *pid, 0);
	if (*pidfd >= 0)
		return 0;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	if (n <= 0)
		return err_errno(err, "QEMU");
	text[n] = 0;
	return err_set(err, "%s", text);
}
