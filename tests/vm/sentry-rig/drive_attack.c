// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Attempts of guest root on the Sentry, one a name: `drive attack NAME`. Each prints
 *     attack-begins TAB NAME TAB PID TAB BOOTTIME_NS
 *     attack TAB NAME TAB PID TAB BOOTTIME_NS TAB RESULT
 * with RESULT "worked", "no effect" or the name of an errno; tests/attack/sentry_attacks.py knows what must come of it.
 */
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/fanotify.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <time.h>
#include <unistd.h>

#define PARAMS "/sys/module/sentry/parameters/"
#define CGROUP "/sys/fs/cgroup/holdfast"
#define KPROBES "/sys/kernel/debug/kprobes/enabled"

/* 0 or -errno of a call that says -1 on failure. */
static int outcome(long result)
{
	return result < 0 ? -errno : 0;
}

static int write_to(const char *path, const char *text)
{
	return try_write(path, text);
}

static int lower_lockdown(void) { return write_to("/sys/kernel/security/lockdown", "none"); }
static int kprobes_off(void) { return write_to(KPROBES, "0"); }

/* On again where it worked, since a live patch needs it. */
static int ftrace_off(void)
{
	int result = write_to("/proc/sys/kernel/ftrace_enabled", "0");

	if (!result)
		write_to("/proc/sys/kernel/ftrace_enabled", "1");
	return result;
}

static int kprobe_events(void)
{
	int result = write_to("/sys/kernel/tracing/kprobe_events", "p:x do_exit");

	write_to("/sys/kernel/tracing/kprobe_events", "");
	return result;
}

/* Off again at once: it makes everything many times slower. */
static int function_tracer(void)
{
	int result = write_to("/sys/kernel/tracing/current_tracer", "function");

	write_to("/sys/kernel/tracing/current_tracer", "nop");
	return result;
}

static int modules_enable(void) { return write_to("/proc/sys/kernel/modules_disabled", "0"); }
static int kexec_enable(void) { return write_to("/proc/sys/kernel/kexec_load_disabled", "0"); }
static int actions_logged(void) { return write_to("/proc/sys/kernel/seccomp/actions_logged", "kill_process"); }
static int phase_back(void) { return write_to(PARAMS "phase", "0"); }
static int level_down(void) { return write_to(PARAMS "level", "observe"); }
static int phase_early(void) { return write_to(PARAMS "phase", "2"); }
static int supervisor_other(void) { return write_to(PARAMS "supervisor_pid", "1"); }

static int sandbox_other(void)
{
	struct stat st;
	char number[32];

	stat(CGROUP, &st);
	snprintf(number, sizeof(number), "%lu", (unsigned long)st.st_ino);
	return write_to(PARAMS "sandbox_cgroup", number);
}

static int read_boot_key(void)
{
	return outcome(open(PARAMS "boot_key", O_RDONLY));
}

/* Modules */

static int finit(const char *path)
{
	return outcome(syscall(SYS_finit_module, open(path, O_RDONLY), "", 0));
}

static int load_signed(void) { return finit("/modules/extra.ko"); }
static int load_unsigned(void) { return finit("/modules/unsigned.ko"); }

static int load_copy(void)
{
	static char image[1 << 20];
	ssize_t len = read(open("/modules/extra.ko", O_RDONLY), image, sizeof(image));

	return outcome(syscall(SYS_init_module, image, len, ""));
}

static int load_32(void)
{
	int fd = open("/modules/extra.ko", O_RDONLY);

	return int80(350 /* finit_module */, fd, (long)low("", 1), 0, 0, 0);
}

/* See livepatch/livepatch.c. A task is patched once it is not in the kernel's old code, so that it may take a moment. */
static int livepatch(void)
{
	char text[16] = "";
	int result = finit("/modules/livepatch.ko");

	for (int i = 0; !result && strncmp(text, "patched", 7) && i < 100; i++) {
		int fd = open("/proc/cmdline", O_RDONLY);

		read(fd, text, sizeof(text) - 1);
		close(fd);
		pause_ms(50);
	}
	return result ? result : strncmp(text, "patched", 7) ? -ETIMEDOUT : 0;
}

static int unload(const char *name, int flags)
{
	return outcome(syscall(SYS_delete_module, name, flags));
}

static int unload_sentry(void) { return unload("sentry", O_NONBLOCK); }
static int unload_sentry_forced(void) { return unload("sentry", O_NONBLOCK | O_TRUNC); }
static int unload_vsock_forced(void) { return unload("vsock_loopback", O_NONBLOCK | O_TRUNC); }
static int unload_32(void) { return int80(129, (long)low("sentry", 7), O_NONBLOCK | O_TRUNC, 0, 0, 0); }

/* Memory and ports */

static int read_kcore(void)
{
	char page[4096];
	int fd = open("/proc/kcore", O_RDONLY);

	return fd < 0 ? -errno : outcome(read(fd, page, sizeof(page)));
}

static int open_mem(void)
{
	char byte;
	int fd = open("/dev/mem", O_RDWR);

	return fd < 0 ? -errno : outcome(pread(fd, &byte, 1, 0x1000));
}

static int open_port(void) { return outcome(open("/dev/port", O_RDWR)); }
static int raise_iopl(void) { return outcome(iopl(3)); }
static int raise_ioperm(void) { return outcome(ioperm(0x70, 2, 1)); }

/* Write what stands there into its place again: who may, may also write something else. */
static int write_again(const char *path, size_t len, off_t at)
{
	unsigned char bytes[8];
	int fd = open(path, O_RDWR);
	ssize_t n = fd < 0 ? -1 : pread(fd, bytes, len, at);

	if (n < 0)
		return -errno;
	return (size_t)n != len ? -EIO : outcome(pwrite(fd, bytes, len, at));
}

/* the command register, which switches a device off; TSC_AUX */
static int write_pci_config(void) { return write_again("/sys/bus/pci/devices/0000:00:00.0/config", 2, 4); }
static int write_msr(void) { return write_again("/dev/cpu/0/msr", 8, 0xc0000103); }

static int hibernate(void) { return outcome(open("/dev/snapshot", O_RDONLY)); }

/* kexec */

static int kexec(void)
{
	/* One segment of nothing at 1 MiB: what counts is whether it is let in. */
	struct { void *buf; size_t bufsz; void *mem; size_t memsz; } segment = { "", 0, (void *)0x100000, 4096 };

	return outcome(syscall(SYS_kexec_load, 0x100000, 1, &segment, 62UL << 16));
}

static int kexec_file(void)
{
	int fd = open("/bin/drive", O_RDONLY), result;

	result = outcome(syscall(SYS_kexec_file_load, fd, -1, 1, "", 4 /* KEXEC_FILE_NO_INITRAMFS */));
	/* Not a kernel image: past lockdown and latch it fails as such. */
	return result == -ENOEXEC ? 0 : result;
}

/* bpf */

/* A program that calls one helper with (fp-8, 8, 0) or, to write, with (0, fp-8, 8); without a helper it returns 0. */
static int bpf_program(unsigned int type, unsigned int attach, int helper, bool writes, const char *name)
{
	int buffer = writes ? BPF_REG_2 : BPF_REG_1;
	struct bpf_insn code[] = {
		{ .code = BPF_ST | BPF_DW | BPF_MEM, .dst_reg = BPF_REG_10, .off = -8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = buffer, .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = buffer, .imm = -8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = writes ? BPF_REG_1 : BPF_REG_2, .imm = writes ? 0 : 8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = writes ? 8 : 0 },
		{ .code = BPF_JMP | BPF_CALL, .imm = helper },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.prog_type = type;
	a.expected_attach_type = attach;
	a.insns = (unsigned long)(helper ? code : code + 6);
	a.insn_cnt = helper ? 8 : 2;
	a.license = (unsigned long)"GPL";
	strcpy(a.prog_name, name);
	return outcome(syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a)));
}

static int bpf_read_kernel(void) { return bpf_program(BPF_PROG_TYPE_KPROBE, 0, 113, false, "reader"); }
static int bpf_write_user(void) { return bpf_program(BPF_PROG_TYPE_KPROBE, 0, 36, true, "writer"); }
static int bpf_lsm(void) { return bpf_program(BPF_PROG_TYPE_LSM, BPF_LSM_MAC, 0, false, "muzzle"); }
static int bpf_fentry(void) { return bpf_program(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, 0, false, "fentry"); }

static int bpf_cgroup(void)
{
	union bpf_attr a;
	struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 }, { .code = BPF_JMP | BPF_EXIT },
	};
	int program;

	memset(&a, 0, sizeof(a));
	a.prog_type = BPF_PROG_TYPE_CGROUP_SKB;
	a.insns = (unsigned long)code;
	a.insn_cnt = 2;
	a.license = (unsigned long)"GPL";
	program = syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
	memset(&a, 0, sizeof(a));
	a.target_fd = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY);
	a.attach_bpf_fd = program;
	a.attach_type = BPF_CGROUP_INET_EGRESS;
	return outcome(syscall(SYS_bpf, BPF_PROG_ATTACH, &a, sizeof(a)));
}

/* A probe through perf, which goes by the kprobe PMU. */
static int perf_kprobe(void)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .sample_period = 1 };
	char type[16] = "";

	read(open("/sys/bus/event_source/devices/kprobe/type", O_RDONLY), type, sizeof(type) - 1);
	attr.type = atoi(type);
	attr.config1 = (unsigned long)"do_exit";
	return outcome(syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0));
}

/* The thread */

static pid_t thread_pid(const char *wanted)
{
	struct dirent *entry;
	char path[300], comm[32];
	DIR *proc = opendir("/proc");
	pid_t found = 0;

	while (!found && (entry = readdir(proc))) {
		int fd;

		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		memset(comm, 0, sizeof(comm));
		read(fd, comm, sizeof(comm) - 1);
		close(fd);
		comm[strcspn(comm, "\n")] = 0;
		if (!strcmp(comm, wanted))
			found = atoi(entry->d_name);
	}
	closedir(proc);
	return found;
}

/* The Sentry's thread, or where there is no Sentry another kernel thread, to show what can be done to one. */
static pid_t victim(void)
{
	pid_t pid = thread_pid("holdfast-sentry");

	return pid ? pid : thread_pid("kswapd0");
}

static int kill_thread(void)
{
	pid_t pid = victim();

	kill(pid, SIGSTOP);
	kill(pid, SIGKILL);
	pause_ms(300);
	return kill(pid, 0) ? 0 : 1;
}

static int freeze_thread(void)
{
	char number[16];
	int result;

	snprintf(number, sizeof(number), "%d", victim());
	mkdir(CGROUP "/ice", 0755);
	result = write_to(CGROUP "/ice/cgroup.procs", number);
	if (!result)
		write_to(CGROUP "/ice/cgroup.freeze", "1");
	return result;
}

/* A processor for 1 ms of each second. */
static int throttle_thread(void)
{
	char number[16];
	int result;

	snprintf(number, sizeof(number), "%d", victim());
	write_to("/sys/fs/cgroup/cgroup.subtree_control", "+cpu");
	write_to(CGROUP "/cgroup.subtree_control", "+cpu");
	mkdir(CGROUP "/slow", 0755);
	write_to(CGROUP "/slow/cpu.max", "1000 1000000");
	result = write_to(CGROUP "/slow/cgroup.procs", number);
	write_to(CGROUP "/cgroup.subtree_control", "-cpu"); /* else no process may be moved to the folder above */
	return result;
}

static int pin_thread(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	return outcome(sched_setaffinity(victim(), sizeof(set), &set));
}

/* A hog above every real-time priority but the highest, for 6 s, with the thread demoted below all others. */
static int starve_thread(void)
{
	struct sched_param top = { .sched_priority = 99 }, none = { 0 };
	time_t end;

	write_to("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	sched_setscheduler(victim(), SCHED_IDLE, &none);
	if (sched_setscheduler(0, SCHED_FIFO, &top))
		return -errno;
	for (end = time(NULL) + 7; time(NULL) < end;)
		;
	sched_setscheduler(0, SCHED_OTHER, &none);
	return 0;
}

/* Calls visit for every process of user space but this one, PID 1 and the test host; returns how often it said true. */
static int each_process(bool (*visit)(pid_t pid))
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int count = 0;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name);
		char path[64], exe[64] = "";

		snprintf(path, sizeof(path), "/proc/%d/exe", pid);
		if (pid <= 1 || pid == getpid() || readlink(path, exe, sizeof(exe) - 1) <= 0 || !strcmp(exe, "/bin/host"))
			continue;
		count += visit(pid);
	}
	closedir(proc);
	return count;
}

static bool kill_one(pid_t pid)
{
	return !kill(pid, SIGKILL);
}

static int kill_everyone(void)
{
	each_process(kill_one);
	pause_ms(2500);
	return 0;
}

/* Takes each descriptor of the process and asks whether it is a vsock socket. */
static bool has_vsock(pid_t pid)
{
	int process = syscall(SYS_pidfd_open, pid, 0);
	bool found = false;

	for (int fd = 0; fd < 256; fd++) {
		int own = syscall(SYS_pidfd_getfd, process, fd, 0), domain = 0;
		socklen_t len = sizeof(domain);

		if (own < 0)
			continue;
		found |= !getsockopt(own, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_VSOCK;
		close(own);
	}
	close(process);
	return found;
}

/* The channel is nobody's descriptor, so nobody can close it or write to it. PID 1 is looked at too. */
static int steal_channel(void)
{
	return each_process(has_vsock) || has_vsock(1) ? 0 : 1;
}

static int eat_memory(void)
{
	pid_t pid = fork();

	if (!pid) {
		write_to("/proc/self/oom_score_adj", "1000");
		for (size_t step = 1 << 22;;) {
			char *more = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

			if (more == MAP_FAILED)
				break;
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return 0;
}

static int change_clock(void)
{
	struct timeval now;

	gettimeofday(&now, NULL);
	now.tv_sec += 86400;
	return outcome(settimeofday(&now, NULL));
}

/* Evasion: do something that should be seen in a way that should not */

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	return pid;
}

static int ptrace_32(void)
{
	pid_t pid = sleeper();
	int result = int80(26, PTRACE_ATTACH, pid, 0, 0, 0);

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return result;
}

/* The supervisor can be named once, so that the first attempt's serves the next. */
static int stop_supervisor(void)
{
	char number[16];
	pid_t pid = sleeper();

	snprintf(number, sizeof(number), "%d", pid);
	write_to(PARAMS "supervisor_pid", number);
	write_text("/run/supervisor", number);
	return outcome(kill(pid, SIGSTOP));
}

static int kill_supervisor(void)
{
	FILE *f = fopen("/run/supervisor", "re");
	int pid;

	if (!f || fscanf(f, "%d", &pid) != 1)
		return -ESRCH;
	fclose(f);
	return outcome(kill(pid, SIGKILL));
}

static int leave_sandbox(void) { return write_to(CGROUP "/cgroup.procs", "0"); }

static int clone_out(void)
{
	struct { unsigned long long v[11]; } args = { { 0x200000000ULL, [4] = SIGCHLD, [10] = open(CGROUP, O_RDONLY | O_DIRECTORY) } };
	pid_t pid = syscall(SYS_clone3, &args, sizeof(args));

	if (!pid)
		_exit(0);
	return pid < 0 ? -errno : (waitpid(pid, NULL, 0), 0);
}

static void fire(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0xc0000201) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	connect(fd, (struct sockaddr *)&to, sizeof(to));
	close(fd);
}

static int spoof_comm(void)
{
	prctl(PR_SET_NAME, "git");
	fire(6001);
	return 0;
}

/* The name of an allowed program for ours, by covering it in a mount namespace of our own. */
static int cover_name(void)
{
	char *words[] = { "git", "attack-fire", "6002", NULL };
	pid_t pid = fork();

	if (!pid) {
		unshare(CLONE_NEWNS);
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
		write_text("/tmp/git", "");
		copy_self("/tmp/evil", 0755);
		mount("/tmp/evil", "/tmp/git", NULL, MS_BIND, NULL);
		execv("/tmp/git", words);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	return 0;
}

static int chroot_name(void)
{
	char *words[] = { "git", "attack-fire", "6003", NULL };
	pid_t pid = fork();

	if (!pid) {
		mkdir("/tmp/jail", 0755);
		mkdir("/tmp/jail/bin", 0755);
		copy_self("/tmp/jail/bin/git", 0755);
		chroot("/tmp/jail");
		execv("/bin/git", words);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	return 0;
}

static int long_path(void)
{
	static char path[600], part[200];
	char *words[] = { "long", "attack-fire", "6004", NULL };
	pid_t pid;

	memset(part, 'd', 150);
	snprintf(path, sizeof(path), "/tmp/%s", part);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "/tmp/%s/%s", part, part);
	mkdir(path, 0755);
	strcat(path, "/git");
	copy_self(path, 0755);
	pid = fork();
	if (!pid) {
		execv(path, words);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	return 0;
}

/* Rename the program after its exec, so that its path says another. */
static int rename_self(void)
{
	char *words[] = { "renamed", "attack-rename", NULL };
	pid_t pid;

	copy_self("/tmp/evil2", 0755);
	pid = fork();
	if (!pid) {
		execv("/tmp/evil2", words);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	return 0;
}

static int double_fork(void)
{
	pid_t pid = fork();

	if (!pid) {
		if (!fork()) {
			setsid();
			pause_ms(100);
			fire(6006);
			_exit(0);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	pause_ms(300);
	return 0;
}

/* Opens that wait for a fanotify listener hold one return-probe instance each, inside the sandbox. */
static int use_up_instances(void)
{
	int listener = fanotify_init(FAN_CLASS_CONTENT | FAN_NONBLOCK, O_RDONLY);
	struct fanotify_event_metadata events[64];
	struct fanotify_response answer = { .response = FAN_ALLOW };
	pid_t pids[600];
	int i, started = 0;
	ssize_t n;

	write_text("/tmp/watched", "x");
	if (fanotify_mark(listener, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, "/tmp/watched"))
		return -errno;
	for (i = 0; i < 600; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			open("/tmp/watched", O_RDONLY);
			_exit(0);
		}
		started += pids[i] > 0;
	}
	pause_ms(1500);
	write_to(PARAMS "level", "files"); /* any write: only time passes here */
	fire(6010);
	pause_ms(1500);
	for (int quiet = 0; quiet < 20;) {
		n = read(listener, events, sizeof(events));
		if (n <= 0) {
			quiet++;
			pause_ms(20);
			continue;
		}
		for (struct fanotify_event_metadata *e = events; FAN_EVENT_OK(e, n); e = FAN_EVENT_NEXT(e, n)) {
			answer.fd = e->fd;
			write(listener, &answer, sizeof(answer));
			close(e->fd);
		}
	}
	close(listener);
	for (i = 0; i < 600; i++)
		if (pids[i] > 0)
			waitpid(pids[i], NULL, 0);
	pause_ms(1200);
	return started == 600 ? 0 : -EAGAIN;
}

static void run_drive(const char *first, const char *second)
{
	char *words[] = { "drive", (char *)first, (char *)second, NULL };
	pid_t pid = fork();

	if (!pid) {
		execv("/bin/drive", words);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static int hide_in_flood(void)
{
	run_drive("exec-flood", "400");
	run_drive("hidden", NULL);
	run_drive("exec-flood", "200");
	pause_ms(1200);
	return 0;
}

/* Two thousand datagrams to one destination, one to another. */
static int hide_in_fold(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201), .sin_port = htons(6011) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	for (int i = 0; i < 2000; i++)
		sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	to.sin_port = htons(6012);
	if (sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) != 1)
		return -errno;
	to.sin_port = htons(6011);
	for (int i = 0; i < 2000; i++)
		sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	close(fd);
	return 0;
}

static int packet_frame(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW, htons(3));
	struct { unsigned short family, protocol; int ifindex; char rest[12]; } to = { AF_PACKET, htons(0x800), 1, { 0 } };
	char frame[64] = { 0 };

	return outcome(sendto(fd, frame, sizeof(frame), 0, (struct sockaddr *)&to, sizeof(to)));
}

static int crash(void) { return write_to("/proc/sysrq-trigger", "c"); }

static int power_off(void)
{
	return outcome(syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF, NULL));
}

/* Opened before lockdown, used after it. */
static int early_fd(void)
{
	int fd = open(KPROBES, O_WRONLY);

	pause_ms(8000);
	return outcome(write(fd, "0", 1));
}

static const struct {
	const char *name;
	int (*run)(void);
} attacks[] = {
	{ "lower-lockdown", lower_lockdown },
	{ "kprobes-off", kprobes_off },
	{ "ftrace-off", ftrace_off },
	{ "kprobe-events", kprobe_events },
	{ "function-tracer", function_tracer },
	{ "perf-kprobe", perf_kprobe },
	{ "modules-enable", modules_enable },
	{ "kexec-enable", kexec_enable },
	{ "actions-logged", actions_logged },
	{ "phase-back", phase_back },
	{ "phase-early", phase_early },
	{ "level-down", level_down },
	{ "sandbox-other", sandbox_other },
	{ "supervisor-other", supervisor_other },
	{ "read-boot-key", read_boot_key },
	{ "load-signed", load_signed },
	{ "load-unsigned", load_unsigned },
	{ "load-copy", load_copy },
	{ "load-32", load_32 },
	{ "livepatch", livepatch },
	{ "unload-sentry", unload_sentry },
	{ "unload-sentry-forced", unload_sentry_forced },
	{ "unload-sentry-32", unload_32 },
	{ "unload-vsock-forced", unload_vsock_forced },
	{ "read-kcore", read_kcore },
	{ "open-mem", open_mem },
	{ "open-port", open_port },
	{ "iopl", raise_iopl },
	{ "ioperm", raise_ioperm },
	{ "kexec-load", kexec },
	{ "kexec-file-load", kexec_file },
	{ "bpf-read-kernel", bpf_read_kernel },
	{ "bpf-write-user", bpf_write_user },
	{ "bpf-lsm", bpf_lsm },
	{ "bpf-fentry", bpf_fentry },
	{ "bpf-cgroup", bpf_cgroup },
	{ "kill-thread", kill_thread },
	{ "freeze-thread", freeze_thread },
	{ "pin-thread", pin_thread },
	{ "throttle-thread", throttle_thread },
	{ "kill-everyone", kill_everyone },
	{ "steal-channel", steal_channel },
	{ "write-msr", write_msr },
	{ "write-pci-config", write_pci_config },
	{ "hibernate", hibernate },
	{ "hide-in-fold", hide_in_fold },
	{ "starve-thread", starve_thread },
	{ "eat-memory", eat_memory },
	{ "change-clock", change_clock },
	{ "ptrace-32", ptrace_32 },
	{ "stop-supervisor", stop_supervisor },
	{ "kill-supervisor", kill_supervisor },
	{ "leave-sandbox", leave_sandbox },
	{ "clone-out", clone_out },
	{ "spoof-comm", spoof_comm },
	{ "cover-name", cover_name },
	{ "chroot-name", chroot_name },
	{ "long-path", long_path },
	{ "rename-self", rename_self },
	{ "double-fork", double_fork },
	{ "use-up-instances", use_up_instances },
	{ "hide-in-flood", hide_in_flood },
	{ "packet-frame", packet_frame },
	{ "crash", crash },
	{ "power-off", power_off },
	{ "early-fd", early_fd },
};

static unsigned long long boottime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void part_attack(char **words)
{
	char line[256];
	int result;

	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		if (!words[0] || strcmp(attacks[i].name, words[0]))
			continue;
		snprintf(line, sizeof(line), "attack-begins\t%s\t%d\t%llu\n", words[0], getpid(), boottime_ns());
		write(1, line, strlen(line));
		result = attacks[i].run();
		snprintf(line, sizeof(line), "attack\t%s\t%d\t%llu\t%s\n", words[0], getpid(), boottime_ns(),
			 result == 0 ? "worked" : result > 0 ? "no effect" : strerrorname_np(-result));
		write(1, line, strlen(line));
	}
}

static void part_fire(char **words)
{
	fire(atoi(words[0]));
}

static void part_rename(char **words)
{
	(void)words;
	rename("/tmp/evil2", "/tmp/npm");
	fire(6005);
}

const struct part attack_parts[] = {
	{ "attack", part_attack },
	{ "attack-fire", part_fire },
	{ "attack-rename", part_rename },
	{ NULL, NULL },
};
