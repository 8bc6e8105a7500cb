/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The QEMU child of one VM: its command line, its descriptors, its end. */
#ifndef HOLDFAST_HOSTD_VM_QEMU_H
#define HOLDFAST_HOSTD_VM_QEMU_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/err.h"

#define QEMU_PROGRAM "qemu-system-x86_64"
#define QEMU_CMDLINE "console=ttyS0 quiet panic=-1 random.trust_cpu=on"

enum {
	QEMU_VERSION_MIN = 7, /* -netdev stream came with 7.2 */
	QEMU_ARGS_MAX = 96,
};

struct qemu_config {
	const char *name;
	bool kvm;
	int cpus;
	int memory_mib;
	bool one_thread; /* TCG: all virtual CPUs in one thread */
	const char *kernel, *initrd, *cmdline;
	const char *root, *home; /* qcow2; "" for none */
	const char *modules;	 /* raw; "" for none */
	const char *mac;	 /* NULL: no network card */
	bool incoming;		 /* wait for a RAM snapshot; without the vsock device */
	/* Our ends' partners. QEMU inherits these and nothing else. */
	int fd_qmp, fd_console, fd_vsock, fd_net /* -1 with mac NULL */;
	int fd_lock;  /* so that the workspace stays locked until QEMU is really gone */
	int fd_words; /* its stderr */
	const char *dir, *run_dir; /* all that it may reach of the file system, with the images */
	const char *base;	   /* backing file of root; "" for none */
};

/*
 * Starts QEMU with its CPUs stopped (-S). The child dies with us (PR_SET_PDEATHSIG) and is confined to
 * this workspace's files. Returns its pid and a pidfd, or -1 when it could not be executed.
 */
int qemu_spawn(const struct qemu_config *cfg, pid_t *pid, int *pidfd, struct err *err);

/* Fills argv with pointers into cfg and static text plus `storage`; for tests. Returns argc. */
struct qemu_args {
	const char *argv[QEMU_ARGS_MAX];
	int argc;
	char text[16384];
	size_t used;
};
int qemu_args_make(const struct qemu_config *cfg, struct qemu_args *args, struct err *err);

/* QMP names of the device that comes and goes, and of its parts. */
#define QEMU_VSOCK_ID "vsock0"
#define QEMU_VSOCK_BUS "rp0"

#endif
