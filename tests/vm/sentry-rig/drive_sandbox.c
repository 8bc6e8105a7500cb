// SPDX-License-Identifier: GPL-2.0-or-later
/* The sandbox: refused files and sockets (Landlock), refused system calls (seccomp), leaving the cgroup; parameters. */
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARAMS "/sys/module/sentry/parameters/"
#define CGROUP "/sys/fs/cgroup/holdfast"

static int landlock_abi(void)
{
	return syscall(444, NULL, 0, 1);
}

/* Everything that the ABI knows is handled; only reading and running below /bin is allowed. */
static void restrict_self(void)
{
	static const unsigned long long by_abi[] = { 0, 0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff, 0xffff };
	int abi = landlock_abi();
	unsigned long long attr[2] = { by_abi[abi > 6 ? 6 : abi], 3 /* bind and connect TCP */ };
	struct { unsigned long long access; int fd; } __attribute__((packed)) beneath = { 0xd /* execute, read file, read dir */, 0 };
	int ruleset = syscall(444, attr, abi >= 4 ? 16 : 8, 0);

	beneath.fd = open("/bin", O_PATH);
	syscall(445, ruleset, 1, &beneath, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(446, ruleset, 0))
		printf("landlock: %s\n", strerror(errno));
	close(ruleset);
}

static void fixtures(void)
{
	mkdir("/tmp/no", 0777);
	mkdir("/tmp/no/dir", 0777);
	mkdir("/tmp/no/victim", 0777);
	write_text("/tmp/no/file", "content");
	write_text("/tmp/no/other", "content");
	copy_self("/tmp/no/program", 0755);
}

struct attempt {
	const char *op, *path;
	int (*run)(void);
	int abi; /* from which this is Landlock's to refuse */
};

static int do_read(void) { return open("/tmp/no/file", O_RDONLY); }
static int do_write(void) { return open("/tmp/no/file", O_WRONLY); }
static int do_create(void) { return open("/tmp/no/new", O_WRONLY | O_CREAT, 0600); }
static int do_exec(void) { return execl("/tmp/no/program", "program", NULL); }
static int do_mkdir(void) { return mkdir("/tmp/no/made", 0755); }
static int do_rmdir(void) { return rmdir("/tmp/no/dir"); }
static int do_unlink(void) { return unlink("/tmp/no/file"); }
static int do_symlink(void) { return symlink("x", "/tmp/no/symlink"); }
static int do_link(void) { return link("/tmp/no/file", "/tmp/no/hard"); }
static int do_rename(void) { return rename("/tmp/no/other", "/tmp/no/renamed"); }
static int do_truncate(void) { return truncate("/tmp/no/other", 0); }

static int do_connect(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(4444), .sin_addr.s_addr = htonl(0xc0000201) };

	return connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof(to));
}

static int do_bind(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(4445) };

	return bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof(to));
}

static const struct attempt attempts[] = {
	{ "open_read", "/tmp/no/file", do_read, 1 },
	{ "open_write", "/tmp/no/file", do_write, 1 },
	{ "open_exec", "/tmp/no/program", do_exec, 1 },
	{ "create", "/tmp/no/new", do_create, 1 },
	{ "mkdir", "/tmp/no/made", do_mkdir, 1 },
	{ "rmdir", "/tmp/no/dir", do_rmdir, 1 },
	{ "unlink", "/tmp/no/file", do_unlink, 1 },
	{ "symlink", "/tmp/no/symlink", do_symlink, 1 },
	{ "link", "/tmp/no/hard", do_link, 1 },
	{ "rename", "/tmp/no/other", do_rename, 1 },
	{ "truncate", "/tmp/no/other", do_truncate, 3 },
	{ "connect", NULL, do_connect, 4 },
	{ "bind", NULL, do_bind, 4 },
	{ NULL, NULL, NULL, 0 },
};

/* Refused inside the sandbox: an event each. The same refusals outside it: none. */
static void part_landlock(char **words)
{
	bool inside = words[0] && !strcmp(words[0], "inside");
	const struct attempt *a;
	char name[128];
	int result;

	fixtures();
	restrict_self();
	for (a = attempts; a->op; a++) {
		if (landlock_abi() < a->abi) {
			snprintf(name, sizeof(name), "CAP-08 sandbox_denied: %s # SKIP Landlock ABI %d does not refuse it", a->op, landlock_abi());
			if (inside)
				check(name, true, " ");
			continue;
		}
		errno = 0;
		result = a->run();
		snprintf(name, sizeof(name), "LL %s is refused %s", a->op, inside ? "in the sandbox" : "outside");
		check(name, result < 0 && (errno == EACCES || errno == EPERM), "%d %s", result, strerror(errno));
		if (!inside)
			continue;
		snprintf(name, sizeof(name), "CAP-08 sandbox_denied: %s", a->op);
		if (a->path)
			expect(name, "{\"type\":\"sandbox_denied\",\"pid\":%d,\"sandbox\":true,\"exe\":\"/bin/drive\",\"op\":\"%s\",\"path\":\"%s\",\"errno\":%d,\"count\":1,\"$times\":1}",
			       getpid(), a->op, a->path, errno);
		else
			expect(name, "{\"type\":\"sandbox_denied\",\"pid\":%d,\"sandbox\":true,\"op\":\"%s\",\"path\":\"\",\"errno\":%d,\"family\":2,\"port\":%d,\"count\":1,\"$times\":1}",
			       getpid(), a->op, errno, !strcmp(a->op, "bind") ? 4445 : 4444);
	}
	if (!inside) {
		absent("CAP-08 sandbox_denied: a refusal outside the sandbox is none", "{\"type\":\"sandbox_denied\",\"pid\":%d}", getpid());
		return;
	}
	for (int i = 0; i < 7; i++)
		do_mkdir();
	expect("CAP-12 sandbox_denied: seven repeats are one frame", "{\"type\":\"sandbox_denied\",\"pid\":%d,\"op\":\"mkdir\",\"path\":\"/tmp/no/made\",\"count\":7,\"$times\":1}", getpid());
}

/* ptrace with EPERM and a log entry; the filter takes both entries. */
static void filter(unsigned int action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_I386, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 26, 3, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, &program))
		printf("seccomp: %s\n", strerror(errno));
}

static void killed(void *data)
{
	(void)data;
	filter(SECCOMP_RET_KILL_PROCESS);
	syscall(SYS_ptrace, 0, 0, 0, 0);
}

static void part_seccomp(char **words)
{
	bool inside = words[0] && !strcmp(words[0], "inside");
	pid_t pid = in_child(killed, NULL, NULL);

	expect("CAP-07 seccomp_denied: a killed process", "{\"type\":\"seccomp_denied\",\"pid\":%d,\"syscall\":101,\"action\":2147483648,\"signal\":31}", pid);
	filter(SECCOMP_RET_ERRNO | EPERM);
	check("CAP-07 the call is refused", syscall(SYS_ptrace, 0, 0, 0, 0) < 0 && errno == EPERM, "%d", errno);
	expect("CAP-07 seccomp_denied: number, action, program",
	       "{\"type\":\"seccomp_denied\",\"pid\":%d,\"sandbox\":%s,\"exe\":\"/bin/drive\",\"syscall\":101,\"arch\":3221225534,\"action\":327680,\"signal\":0,\"count\":1,\"$times\":1}",
	       getpid(), inside ? "true" : "false");
	int80(26, 0, 0, 0, 0, 0);
	expect("CAP-13 seccomp_denied: through int 0x80", "{\"type\":\"seccomp_denied\",\"pid\":%d,\"syscall\":26,\"arch\":1073741827,\"action\":327680,\"$times\":1}", getpid());
	for (int i = 0; i < 5; i++)
		syscall(SYS_ptrace, 0, 0, 0, 0);
	expect("CAP-12 seccomp_denied: five repeats are one frame", "{\"type\":\"seccomp_denied\",\"pid\":%d,\"syscall\":101,\"arch\":3221225534,\"count\":5,\"$times\":1}", getpid());
}

static void part_actions_logged(char **words)
{
	(void)words;
	try_write("/proc/sys/kernel/seccomp/actions_logged", "kill_process kill_thread");
	expect("CAP-07 seccomp_log: taking errno out of the log is an event",
	       "{\"type\":\"seccomp_log\",\"pid\":%d,\"result\":0,\"names\":\"kill_process kill_thread\",\"$times\":1}", getpid());
}

static void nothing(void *data)
{
	(void)data;
}

static void part_leave(char **words)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	struct stat inside, top;
	struct waiting child = child_waits(nothing, NULL);
	char number[16];
	pid_t pid;

	(void)words;
	stat(CGROUP "/sandbox", &inside);
	stat(CGROUP, &top);
	args.cgroup = open(CGROUP, O_RDONLY | O_DIRECTORY);
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	expect("cgroup_move: a child cloned into another cgroup", "{\"type\":\"cgroup_move\",\"pid\":%d,\"sandbox\":true,\"op\":\"fork\",\"from\":%lu,\"to\":%lu,\"target_pid\":%d,\"target_comm\":\"drive\",\"$times\":1}",
	       getpid(), (unsigned long)inside.st_ino, (unsigned long)top.st_ino, pid);
	snprintf(number, sizeof(number), "%d", child.pid);
	try_write(CGROUP "/cgroup.procs", number);
	expect("cgroup_move: a process moved out", "{\"type\":\"cgroup_move\",\"pid\":%d,\"sandbox\":true,\"op\":\"attach\",\"from\":%lu,\"to\":%lu,\"target_pid\":%d,\"$times\":1}",
	       getpid(), (unsigned long)inside.st_ino, (unsigned long)top.st_ino, child.pid);
	go(&child, NULL);
}

static bool digest_matches(void)
{
	char text[80] = "";
	int fd = open(PARAMS "secret_digest", O_RDONLY);

	read(fd, text, sizeof(text) - 1);
	close(fd);
	text[strcspn(text, "\n")] = 0;
	expect("ID-04 secret_digest is the digest of the hello's secret", "{\"type\":\"hello\",\"conn\":0,\"secret\":{\"$sha256\":\"%s\"}}", text);
	return strlen(text) == 64;
}

static void part_params(char **words)
{
	struct stat st, other;
	char number[32];

	(void)words;
	stat(CGROUP "/sandbox", &st);
	stat(CGROUP, &other);
	snprintf(number, sizeof(number), "%lu\n", (unsigned long)st.st_ino);
	check("CAP-10 sandbox_cgroup: the same value again is accepted", !try_write(PARAMS "sandbox_cgroup", number), " ");
	snprintf(number, sizeof(number), "%lu", (unsigned long)other.st_ino);
	check("CAP-10 sandbox_cgroup: another value is refused", try_write(PARAMS "sandbox_cgroup", number) == -EPERM, " ");
	expect("CAP-10 param_denied: sandbox_cgroup", "{\"type\":\"param_denied\",\"pid\":%d,\"exe\":\"/bin/drive\",\"param\":\"sandbox_cgroup\",\"value\":\"%s\",\"$times\":1}", getpid(), number);
	check("CAP-10 sandbox_cgroup: 0 is refused", try_write(PARAMS "sandbox_cgroup", "0") == -EINVAL, " ");
	check("CAP-10 level: another value is refused", try_write(PARAMS "level", "observe") == -EPERM, " ");
	expect("CAP-10 param_denied: level", "{\"type\":\"param_denied\",\"pid\":%d,\"param\":\"level\",\"value\":\"observe\",\"$times\":1}", getpid());
	check("TAM-11 phase: a step back is refused", try_write(PARAMS "phase", "0") == -EPERM, " ");
	expect("TAM-11 param_denied: phase, with its author", "{\"type\":\"param_denied\",\"pid\":%d,\"comm\":\"drive\",\"param\":\"phase\",\"value\":\"0\",\"$times\":1}", getpid());
	check("phase: no such phase", try_write(PARAMS "phase", "3") == -EINVAL, " ");
	check("the boot key cannot be read", access(PARAMS "boot_key", F_OK) < 0, " ");
	check("ID-04 secret_digest has 64 digits", digest_matches(), " ");
	stat(PARAMS "secret_digest", &st);
	check("ID-04 secret_digest is 0400", (st.st_mode & 07777) == 0400, "%o", st.st_mode);
	check("cid cannot be changed", try_write(PARAMS "cid", "7") < 0, " ");
}

static void part_phase(char **words)
{
	try_write(PARAMS "phase", words[0]);
	pause_ms(1500);
	expect("TAM-11 heartbeat: phase and who set it", "{\"type\":\"heartbeat\",\"phase\":%s,\"phase_set_by\":{\"pid\":%d,\"comm\":\"drive\"}}", words[0], getpid());
}

static void part_supervisor(char **words)
{
	char number[32];
	int status;
	pid_t pid;

	(void)words;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	snprintf(number, sizeof(number), "%d", pid);
	check("supervisor_pid is set", !try_write(PARAMS "supervisor_pid", number), " ");
	check("supervisor_pid: the same again is accepted", !try_write(PARAMS "supervisor_pid", number), " ");
	check("supervisor_pid: another is refused", try_write(PARAMS "supervisor_pid", "1") == -EPERM, " ");
	expect("param_denied: supervisor_pid", "{\"type\":\"param_denied\",\"pid\":%d,\"param\":\"supervisor_pid\",\"value\":\"1\",\"$times\":1}", getpid());
	kill(pid, SIGWINCH); /* ignored by default: no event */
	kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
	expect("supervisor_lost: the fatal signal and its sender", "{\"type\":\"supervisor_lost\",\"pid\":%d,\"exe\":\"/bin/drive\",\"op\":\"signal\",\"signal\":15}", getpid());
	absent("supervisor_lost: an ignored signal is none", "{\"type\":\"supervisor_lost\",\"signal\":28}");
	expect("supervisor_lost: the exit", "{\"type\":\"supervisor_lost\",\"pid\":%d,\"op\":\"exit\",\"signal\":15,\"status\":15,\"$times\":1}", pid);
}

/* After the breaks of scenarios/reconnect. */
static void part_transport(char **words)
{
	(void)words;
	pause_ms(1200);
	expect("ID-02 hello: a later connection proves the secret without repeating it", "{\"type\":\"hello\",\"conn\":1,\"proof\":{\"$re\":\"^[0-9a-f]{64}$\"},\"$absent\":[\"secret\"]}");
	expect("TRN: conn moves on only with a welcome", "{\"type\":\"hello\",\"conn\":3}");
	expect("host bytes that are no record, or wrongly MACed, are ignored and counted", "{\"type\":\"heartbeat\",\"tallies\":{\"host_ignored\":2,\"ack_ahead\":0}}");
	expect("broken connections are counted", "{\"type\":\"heartbeat\",\"tallies\":{\"connection_lost\":{\"$ge\":6},\"connect_failed\":{\"$ge\":1}}}");
}

const struct part sandbox_parts[] = {
	{ "transport", part_transport },
	{ "landlock", part_landlock },
	{ "seccomp", part_seccomp },
	{ "actions-logged", part_actions_logged },
	{ "leave", part_leave },
	{ "params", part_params },
	{ "phase", part_phase },
	{ "supervisor", part_supervisor },
	{ NULL, NULL },
};
