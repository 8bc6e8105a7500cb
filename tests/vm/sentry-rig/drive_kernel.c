// SPDX-License-Identifier: GPL-2.0-or-later
/* What reaches for the kernel or for other processes: ptrace, modules, bpf, kexec, lockdown, mounts, namespaces, tc. */
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that sleeps until it is killed. */
static pid_t sleeper(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	pause_ms(50);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void trace_me(void *data)
{
	(void)data;
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void trace_me_32(void *data)
{
	(void)data;
	int80(26, PTRACE_TRACEME, 0, 0, 0, 0);
}

static void part_ptrace(char **words)
{
	pid_t target = sleeper(), quiet = sleeper(), child;
	char path[64], byte;
	int fd;

	(void)words;
	ptrace(PTRACE_ATTACH, target, NULL, NULL);
	waitpid(target, NULL, 0);
	ptrace(PTRACE_DETACH, target, NULL, NULL);
	expect("CAP-05 ptrace: attach names its target", "{\"type\":\"ptrace\",\"pid\":%d,\"exe\":\"/bin/drive\",\"request\":\"attach\",\"target_pid\":%d,\"target_comm\":\"drive\",\"target_start_ns\":{\"$range\":[%llu,%llu]},\"$times\":1}",
	       getpid(), target, start_ticks(target) * 10000000, start_ticks(target) * 10000000 + 9999999);
	end(target);

	snprintf(path, sizeof(path), "/proc/%d/environ", quiet);
	fd = open(path, O_RDONLY);
	read(fd, &byte, 1);
	close(fd);
	absent("CAP-05 ptrace: looking at a process as ps does is none", "{\"type\":\"ptrace\",\"target_pid\":%d}", quiet);
	end(quiet);

	target = sleeper();
	snprintf(path, sizeof(path), "/proc/%d/mem", target);
	close(open(path, O_RDWR));
	expect("CAP-05 ptrace: opening another process's memory", "{\"type\":\"ptrace\",\"pid\":%d,\"request\":\"attach\",\"target_pid\":%d}", getpid(), target);
	end(target);

	target = sleeper();
	int80(26, PTRACE_SEIZE, target, 0, 0, 0);
	expect("CAP-13 ptrace: through int 0x80", "{\"type\":\"ptrace\",\"pid\":%d,\"request\":\"attach\",\"target_pid\":%d,\"$times\":1}", getpid(), target);
	end(target);

	child = in_child(trace_me, NULL, NULL);
	expect("CAP-05 ptrace: traceme", "{\"type\":\"ptrace\",\"pid\":%d,\"request\":\"traceme\",\"target_pid\":%d,\"$times\":1}", child, getpid());
	child = in_child(trace_me_32, NULL, NULL);
	expect("CAP-13 ptrace: traceme through int 0x80", "{\"type\":\"ptrace\",\"pid\":%d,\"request\":\"traceme\",\"$times\":1}", child);
}

static long finit(const char *path)
{
	int fd = open(path, O_RDONLY);
	long result = syscall(SYS_finit_module, fd, "", 0) ? -errno : 0;

	close(fd);
	return result;
}

static void part_module(char **words)
{
	char junk[] = "no module at all, but long enough to be looked at as one, and then some more bytes of it.....";
	long result = finit("/modules/extra.ko");

	(void)words;
	check("CAP-05 the test's module loads", !result, "%ld", result);
	expect("CAP-05 module_load: name, result, taints", "{\"type\":\"module_load\",\"pid\":%d,\"exe\":\"/bin/drive\",\"name\":\"dummy\",\"op\":\"loaded\",\"result\":0,\"signed\":%s,\"taints\":{\"$re\":\"^[0-9a-f]{16}$\"},\"$times\":1}",
	       getpid(), "true");
	result = syscall(SYS_delete_module, "dummy", O_NONBLOCK) ? -errno : 0;
	expect("CAP-05 module_unload", "{\"type\":\"module_unload\",\"pid\":%d,\"name\":\"dummy\",\"result\":%ld,\"flags\":2048,\"$times\":1}", getpid(), result);
	write_text("/tmp/junk.ko", junk);
	result = finit("/tmp/junk.ko");
	expect("CAP-05 module_load: a refused finit_module", "{\"type\":\"module_load\",\"pid\":%d,\"name\":\"\",\"op\":\"finit_module\",\"result\":%ld,\"$absent\":[\"compat\"],\"$times\":1}", getpid(), result);
	junk[0] = 0;
	result = syscall(SYS_init_module, NULL, 10, "") ? -errno : 0;
	expect("CAP-05 module_load: a refused init_module", "{\"type\":\"module_load\",\"pid\":%d,\"op\":\"init_module\",\"$absent\":[\"compat\"],\"$times\":1,\"result\":%ld}", getpid(), result);
	result = int80(128 /* init_module */, (long)low(junk, sizeof(junk)), 5, (long)low("", 1), 0, 0);
	expect("CAP-13 module_load: a refused init_module through int 0x80", "{\"type\":\"module_load\",\"pid\":%d,\"compat\":true,\"result\":%ld,\"$times\":1}", getpid(), result);
	result = int80(129 /* delete_module */, (long)low("nosuchmodule", 13), O_NONBLOCK, 0, 0, 0);
	expect("CAP-13 module_unload: through int 0x80, with its name", "{\"type\":\"module_unload\",\"pid\":%d,\"name\":\"nosuchmodule\",\"result\":%ld,\"$times\":1}", getpid(), result);
	result = syscall(SYS_delete_module, "sentry", O_NONBLOCK) ? -errno : 0;
	check("TAM-01 the Sentry cannot be unloaded", result == -EBUSY || result == -EWOULDBLOCK, "%ld", result);
	expect("TAM-01 module_unload: the attempt on the Sentry", "{\"type\":\"module_unload\",\"pid\":%d,\"name\":\"sentry\",\"result\":%ld,\"$times\":1}", getpid(), result);
}

static int bpf_load(unsigned int type, const char *name)
{
	struct bpf_insn program[2] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K }, { .code = BPF_JMP | BPF_EXIT } };
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.prog_type = type;
	a.insns = (unsigned long)program;
	a.insn_cnt = 2;
	a.license = (unsigned long)"GPL";
	strcpy(a.prog_name, name);
	return syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
}

static void part_bpf(char **words)
{
	union bpf_attr a;
	int fd = bpf_load(BPF_PROG_TYPE_CGROUP_SKB, "skb"), cgroup = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY);
	char attr[128] = { 0 };

	(void)words;
	expect("CAP-05 bpf: loading a program", "{\"type\":\"bpf\",\"pid\":%d,\"cmd\":5,\"prog_type\":8,\"prog_name\":\"skb\",\"$times\":1}", getpid());
	memset(&a, 0, sizeof(a));
	a.link_create.prog_fd = fd;
	a.link_create.target_fd = cgroup;
	a.link_create.attach_type = BPF_CGROUP_INET_EGRESS;
	close(syscall(SYS_bpf, BPF_LINK_CREATE, &a, sizeof(a)));
	expect("CAP-05 bpf: creating a link", "{\"type\":\"bpf\",\"pid\":%d,\"cmd\":28,\"attach_type\":1,\"$times\":1}", getpid());
	close(bpf_load(BPF_PROG_TYPE_SOCKET_FILTER, "filter"));
	expect("CAP-05 bpf: another program type", "{\"type\":\"bpf\",\"pid\":%d,\"cmd\":5,\"prog_type\":1,\"prog_name\":\"filter\",\"$times\":1}", getpid());
	attr[0] = 2; /* prog_type kprobe, refused for its missing program */
	int80(357 /* bpf */, BPF_PROG_LOAD, (long)low(attr, sizeof(attr)), 64, 0, 0);
	expect("CAP-13 bpf: through int 0x80, refused", "{\"type\":\"bpf\",\"pid\":%d,\"cmd\":5,\"prog_type\":2,\"$times\":1}", getpid());
	close(fd);
}

static void part_kexec(char **words)
{
	long result = syscall(SYS_kexec_load, 0, 17, NULL, 0) ? -errno : 0;

	(void)words;
	expect("CAP-05 kexec: kexec_load, refused", "{\"type\":\"kexec\",\"pid\":%d,\"which\":\"kexec_load\",\"result\":%ld,\"$absent\":[\"compat\"],\"$times\":1}", getpid(), result);
	result = syscall(SYS_kexec_file_load, -1, -1, 0, NULL, 0) ? -errno : 0;
	expect("CAP-05 kexec: kexec_file_load, refused", "{\"type\":\"kexec\",\"pid\":%d,\"which\":\"kexec_file_load\",\"result\":%ld,\"$times\":1}", getpid(), result);
	result = int80(283, 0, 17, 0, 0, 0);
	expect("CAP-13 kexec: kexec_load through int 0x80", "{\"type\":\"kexec\",\"pid\":%d,\"which\":\"kexec_load\",\"compat\":true,\"result\":%ld,\"$times\":1}", getpid(), result);
}

static void part_lockdown(char **words)
{
	int result = try_write("/sys/kernel/security/lockdown", "integrity");

	(void)words;
	check("TAM-02 lockdown is raised", !result, "%d", result);
	expect("TAM-10 lockdown: raising", "{\"type\":\"lockdown\",\"pid\":%d,\"level\":\"integrity\",\"result\":0,\"$times\":1}", getpid());
	result = try_write("/sys/kernel/security/lockdown", "none\n");
	check("TAM-10 lockdown is not lowered", result < 0, "%d", result);
	expect("TAM-10 lockdown: the attempt to lower it", "{\"type\":\"lockdown\",\"pid\":%d,\"level\":\"none\",\"result\":%d,\"$times\":1}", getpid(), result);
}

static void part_mount(char **words)
{
	int fs, mnt;

	(void)words;
	mkdir("/tmp/m", 0755);
	mkdir("/tmp/n", 0755);
	mount("none", "/tmp/m", "tmpfs", MS_NODEV, NULL);
	expect("CAP-05 mount: the old call", "{\"type\":\"mount\",\"pid\":%d,\"op\":\"mount\",\"target\":\"/tmp/m\",\"fstype\":\"tmpfs\",\"flags\":{\"$ge\":4},\"$times\":1}", getpid());
	int80(21, (long)low("none", 5), (long)low("/tmp/n", 7), (long)low("ramfs", 6), 0, 0);
	expect("CAP-13 mount: through int 0x80", "{\"type\":\"mount\",\"pid\":%d,\"op\":\"mount\",\"target\":\"/tmp/n\",\"fstype\":\"ramfs\",\"$times\":1}", getpid());
	fs = syscall(SYS_fsopen, "tmpfs", 0);
	syscall(SYS_fsconfig, fs, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0);
	mnt = syscall(SYS_fsmount, fs, 0, 0);
	syscall(SYS_move_mount, mnt, "", -1, "/tmp/m", 4 /* MOVE_MOUNT_F_EMPTY_PATH */);
	expect("CAP-05 mount: the new API", "{\"type\":\"mount\",\"pid\":%d,\"op\":\"move_mount\",\"target\":\"/tmp/m\",\"fstype\":\"tmpfs\",\"$times\":1}", getpid());
}

static void new_uts(void *data)
{
	(void)data;
	unshare(CLONE_NEWUTS | CLONE_NEWIPC);
}

static void new_uts_32(void *data)
{
	(void)data;
	int80(310, CLONE_NEWUTS, 0, 0, 0, 0);
}

static void own_uts(void *data)
{
	(void)data;
	setns(open("/proc/self/ns/uts", O_RDONLY), CLONE_NEWUTS);
}

static void own_uts_32(void *data)
{
	(void)data;
	int80(346, open("/proc/self/ns/uts", O_RDONLY), CLONE_NEWUTS, 0, 0, 0);
}

/* exe of a process in a mount namespace of its own, which has covered its program's name */
static void elsewhere(void *data)
{
	(void)data;
	unshare(CLONE_NEWNS);
	unshare(CLONE_NEWUTS);
}

static void part_namespaces(char **words)
{
	pid_t pid = in_child(new_uts, NULL, NULL);

	(void)words;
	expect("CAP-05 unshare", "{\"type\":\"unshare\",\"pid\":%d,\"op\":\"unshare\",\"flags\":%d,\"$times\":1}", pid, CLONE_NEWUTS | CLONE_NEWIPC);
	expect("CAP-13 unshare: through int 0x80", "{\"type\":\"unshare\",\"pid\":%d,\"op\":\"unshare\",\"flags\":%d,\"$times\":1}", in_child(new_uts_32, NULL, NULL), CLONE_NEWUTS);
	pid = syscall(SYS_clone, CLONE_NEWUTS | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	expect("CAP-05 unshare: clone with a new namespace", "{\"type\":\"unshare\",\"pid\":%d,\"op\":\"clone\",\"flags\":%d,\"$times\":1}", getpid(), CLONE_NEWUTS);
	expect("CAP-05 setns", "{\"type\":\"setns\",\"pid\":%d,\"flags\":%d,\"result\":0,\"$times\":1}", in_child(own_uts, NULL, NULL), CLONE_NEWUTS);
	expect("CAP-13 setns: through int 0x80", "{\"type\":\"setns\",\"pid\":%d,\"flags\":%d,\"result\":0,\"$times\":1}", in_child(own_uts_32, NULL, NULL), CLONE_NEWUTS);
	expect("a path seen from another mount namespace is marked", "{\"type\":\"unshare\",\"pid\":%d,\"flags\":%d,\"foreign_root\":true,\"$times\":1}", in_child(elsewhere, NULL, NULL), CLONE_NEWUTS);
}

/* One rtnetlink message about a queueing discipline or filter of lo. */
static int tc(int type, unsigned int parent, unsigned int info, const char *kind)
{
	struct {
		struct nlmsghdr n;
		struct tcmsg t;
		struct rtattr a;
		char kind[16];
	} m = {
		.n = { .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | (type == RTM_DELQDISC || type == RTM_DELTFILTER ? 0 : NLM_F_CREATE | NLM_F_EXCL) },
		.t = { .tcm_family = AF_UNSPEC, .tcm_ifindex = 1, .tcm_parent = parent, .tcm_info = info },
		.a = { .rta_type = TCA_KIND },
	};
	struct { struct nlmsghdr n; struct nlmsgerr e; char rest[256]; } answer;
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	strcpy(m.kind, kind);
	m.a.rta_len = RTA_LENGTH(strlen(kind) + 1);
	m.n.nlmsg_len = offsetof(typeof(m), a) + RTA_ALIGN(m.a.rta_len);
	send(fd, &m, m.n.nlmsg_len, 0);
	recv(fd, &answer, sizeof(answer), 0);
	close(fd);
	return answer.e.error;
}

static void part_tc(char **words)
{
	int result = tc(RTM_NEWQDISC, TC_H_ROOT, 0, "pfifo");

	(void)words;
	check("CAP-05 tc: the test's qdisc is added", !result, "%d", result);
	expect("CAP-05 tc_change: adding a qdisc", "{\"type\":\"tc_change\",\"pid\":%d,\"op\":\"qdisc_add\",\"ifindex\":1,\"device\":\"lo\",\"$times\":1}", getpid());
	tc(RTM_NEWTFILTER, TC_H_ROOT, 1 << 16 | 8, "matchall");
	expect("CAP-05 tc_change: adding a filter", "{\"type\":\"tc_change\",\"pid\":%d,\"op\":\"filter_add\",\"ifindex\":1}", getpid());
	tc(RTM_DELTFILTER, TC_H_ROOT, 1 << 16 | 8, "matchall");
	expect("CAP-05 tc_change: deleting a filter", "{\"type\":\"tc_change\",\"pid\":%d,\"op\":\"filter_delete\",\"ifindex\":1}", getpid());
	tc(RTM_DELQDISC, TC_H_ROOT, 0, "pfifo");
	expect("CAP-05 tc_change: deleting a qdisc", "{\"type\":\"tc_change\",\"pid\":%d,\"op\":\"qdisc_delete\",\"ifindex\":1,\"device\":\"lo\",\"$times\":1}", getpid());
}

/* What lockdown could refuse, on a kernel that is not locked down. */
static void part_access(char **words)
{
	(void)words;
	close(open("/proc/kcore", O_RDONLY));
	close(open("/proc/kcore", O_RDONLY));
	expect("kernel_access: kernel memory through kcore", "{\"type\":\"kernel_access\",\"pid\":%d,\"what\":\"kcore\",\"result\":0,\"count\":1,\"exe\":\"/bin/drive\",\"$times\":2}", getpid());
	close(open("/sys/kernel/tracing/trace", O_RDONLY));
	expect("kernel_access: tracefs", "{\"type\":\"kernel_access\",\"pid\":%d,\"what\":\"tracefs\",\"result\":0}", getpid());
	close(open("/sys/kernel/security/lockdown", O_RDONLY));
	absent("kernel_access: what lockdown is not asked about is none", "{\"type\":\"kernel_access\",\"pid\":%d,\"what\":{\"$re\":\"^(?!kcore|tracefs)\"}}", getpid());
}

const struct part kernel_parts[] = {
	{ "ptrace", part_ptrace },
	{ "module", part_module },
	{ "bpf", part_bpf },
	{ "kexec", part_kexec },
	{ "lockdown", part_lockdown },
	{ "mount", part_mount },
	{ "namespaces", part_namespaces },
	{ "tc", part_tc },
	{ "access", part_access },
	{ NULL, NULL },
};
