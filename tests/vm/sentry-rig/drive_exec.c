// SPDX-License-Identifier: GPL-2.0-or-later
/* exec, exit, and gains of authority. */
#include "drive.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *self = "/bin/drive";

static void exec_words(void *data)
{
	char **words = data;

	execv(words[0][0] == '@' ? words[0] + 1 : self, words);
	_exit(127);
}

static void exec_plain(void)
{
	char *words[] = { "drive", "noop", "two words", "\"quoted\"\\\n\t", "\x01\x1b\x7f", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"}],\"type\":\"exit\",\"x\":[{\"", "", NULL };
	struct waiting child = child_waits(exec_words, words);
	unsigned long long ticks = start_ticks(child.pid);

	go(&child, NULL);
	expect("CAP-03 exec: argv as given, escaped; identity and start time as in /proc",
	       "{\"type\":\"exec\",\"pid\":%d,\"ppid\":%d,\"uid\":0,\"gid\":0,\"comm\":\"drive\",\"sandbox\":false,\"path\":\"/bin/drive\",\"file\":\"/bin/drive\","
	       "\"argc\":8,\"argv\":[\"drive\",\"noop\",\"two words\",\"\\\"quoted\\\"\\\\\\n\\t\",\"\\u0001\\u001b\\u007f\",\"\\u00e9\\u20ac\\ud83d\\ude00\","
	       "\"\\\"}],\\\"type\\\":\\\"exit\\\",\\\"x\\\":[{\\\"\",\"\"],\"start_ns\":{\"$range\":[%llu,%llu]},\"$absent\":[\"argv_truncated\",\"interp\"],"
	       "\"chain\":[{\"pid\":%d,\"comm\":\"drive\",\"path\":\"/bin/drive\",\"args\":\"/bin/drive exec\"},{\"pid\":1,\"comm\":\"init\",\"path\":\"/init\"}],\"$times\":1}",
	       child.pid, getpid(), ticks * 10000000, ticks * 10000000 + 9999999, getpid());
	expect("exit: wait status of a plain exit", "{\"type\":\"exit\",\"pid\":%d,\"status\":0,\"$times\":1}", child.pid);
}

static void exec_bytes(void)
{
	char *words[] = { "drive", "noop", "\xff\xfe", "\xed\xa0\x80", NULL };
	pid_t pid = in_child(exec_words, words, NULL);

	expect("CAP-03 exec: argv that is not UTF-8 is base64", "{\"type\":\"exec\",\"pid\":%d,\"argv_b64\":[\"ZHJpdmU=\",\"bm9vcA==\",\"//4=\",\"7aCA\"],\"$absent\":[\"argv\"]}", pid);
}

static void exec_long(void)
{
	char *words[2003];
	pid_t pid;

	words[0] = "drive";
	words[1] = "noop";
	for (int i = 2; i < 2002; i++)
		words[i] = "abcdefg";
	words[2002] = NULL;
	pid = in_child(exec_words, words, NULL);
	expect("CAP-03 exec: 2002 arguments are cut at 1024 bytes and marked", "{\"type\":\"exec\",\"pid\":%d,\"argc\":2002,\"argv_truncated\":true,\"argv\":[\"drive\",\"noop\",\"abcdefg\"]}", pid);
}

static void exec_worst(void)
{
	/* Every byte escapes to six, in argv and in the path of each ancestor: the frame must still come. */
	static char ones[1000], dir[220], path[256];
	char *words[3];
	pid_t pid;

	memset(ones, 1, sizeof(ones) - 1);
	memset(dir, 2, sizeof(dir) - 1);
	snprintf(path, sizeof(path), "@/tmp/%s", dir);
	copy_self(path + 1, 0755);
	words[0] = path;
	words[1] = ones;
	words[2] = NULL;
	pid = in_child(exec_words, words, NULL);
	expect("exec: the frame with the most escapes still comes", "{\"type\":\"exec\",\"pid\":%d,\"argc\":2,\"path\":{\"$re\":\"^/tmp/\\u0002{219}$\"}}", pid);
}

static void exec_script(void)
{
	char *words[] = { "@/tmp/script.sh", "given", NULL };
	pid_t pid;

	write_text("/tmp/script.sh", "#!/bin/drive noop\n");
	pid = in_child(exec_words, words, NULL);
	expect("CAP-03 exec: a script names file, interpreter and the program that runs",
	       "{\"type\":\"exec\",\"pid\":%d,\"path\":\"/bin/drive\",\"file\":\"/tmp/script.sh\",\"interp\":\"/bin/drive\",\"argv\":[\"/bin/drive\",\"noop\",\"/tmp/script.sh\",\"given\"]}", pid);
}

static void exec_fd(void *data)
{
	char *words[] = { "looks-like-git", "noop", NULL }, *environment[] = { NULL };
	int fd = memfd_create("x", 0), from = open(self, O_RDONLY);
	char block[65536];
	ssize_t n;

	(void)data;
	while ((n = read(from, block, sizeof(block))) > 0)
		write(fd, block, n);
	close(from);
	fexecve(fd, words, environment);
	_exit(127);
}

static void exec_memfd(void)
{
	pid_t pid = in_child(exec_fd, NULL, NULL);

	expect("CAP-03 exec: fexecve of a memfd, exec -a: the path is the file's, not argv[0]",
	       "{\"type\":\"exec\",\"pid\":%d,\"path\":\"/memfd:x\",\"path_deleted\":true,\"argv\":[\"looks-like-git\",\"noop\"]}", pid);
}

static void exec_32(void *data)
{
	unsigned int *argv = low((unsigned int[4]){ 0 }, 16), *environment = low((unsigned int[1]){ 0 }, 4);

	(void)data;
	argv[0] = (unsigned long)low("thirtytwo", 10);
	argv[1] = (unsigned long)low("noop", 5);
	int80(11, (long)low("/bin/drive", 11), (long)argv, (long)environment, 0, 0);
	_exit(127);
}

static void exec_compat(void)
{
	pid_t pid = in_child(exec_32, NULL, NULL);

	expect("CAP-13 exec through int 0x80", "{\"type\":\"exec\",\"pid\":%d,\"path\":\"/bin/drive\",\"argv\":[\"thirtytwo\",\"noop\"]}", pid);
}

/* Changing the arguments afterwards must not change what was reported. */
static void rewrite(void *data)
{
	char *words[] = { "drive", "rewrite-argv", "visible", NULL };

	(void)data;
	execv(self, words);
}

static void exec_rewritten(void)
{
	pid_t pid = in_child(rewrite, NULL, NULL);

	expect("CAP-03 exec: argv is that of the exec, whatever the program does to it later",
	       "{\"type\":\"exec\",\"pid\":%d,\"argv\":[\"drive\",\"rewrite-argv\",\"visible\"]}", pid);
}

static void part_rewrite(char **words)
{
	memset(words[0], 'X', strlen(words[0]));
}

static void nested(void *data)
{
	long depth = (long)data;
	char *words[] = { "drive", "deep", NULL };

	if (depth > 0)
		in_child(nested, (void *)(depth - 1), NULL);
	else
		execv(self, words);
}

static void exec_chain(void)
{
	in_child(nested, (void *)10L, NULL);
	expect("CAP-06 exec: at most 8 ancestors, forks without exec have their parent's program",
	       "{\"type\":\"exec\",\"argv\":[\"drive\",\"deep\"],\"chain\":[{\"path\":\"/bin/drive\"},{\"path\":\"/bin/drive\"},{\"path\":\"/bin/drive\"},{\"path\":\"/bin/drive\"},"
	       "{\"path\":\"/bin/drive\"},{\"path\":\"/bin/drive\"},{\"path\":\"/bin/drive\"},{\"path\":\"/bin/drive\"}]}");
	expect("CAP-06 exec: and not a ninth", "{\"type\":\"exec\",\"argv\":[\"drive\",\"deep\"],\"chain\":{\"$length\":8}}");
}

/* The middle process is gone before the exec, so the child is PID 1's. */
static void orphan(void *data)
{
	char *words[] = { "drive", "orphan", NULL };

	(void)data;
	if (fork())
		_exit(0);
	while (getppid() != 1)
		pause_ms(10);
	execv(self, words);
	_exit(127);
}

static void exec_orphan(void)
{
	in_child(orphan, NULL, NULL);
	pause_ms(500);
	expect("CAP-06 exec: after a double fork the chain is what the kernel has: PID 1",
	       "{\"type\":\"exec\",\"argv\":[\"drive\",\"orphan\"],\"ppid\":1,\"chain\":[{\"pid\":1,\"path\":\"/init\"}]}");
	expect("CAP-06 exec: and nothing else", "{\"type\":\"exec\",\"argv\":[\"drive\",\"orphan\"],\"chain\":{\"$length\":1}}");
}

/* A 32-bit program that connects; rig.py assembles it. */
static void exec_i386(void)
{
	char *words[] = { "@/bin/tiny32", "word", NULL };
	pid_t pid = in_child(exec_words, words, NULL);

	expect("CAP-13 exec: a 32-bit program", "{\"type\":\"exec\",\"pid\":%d,\"path\":\"/bin/tiny32\",\"argv\":[\"@/bin/tiny32\",\"word\"],\"$times\":1}", pid);
	expect("CAP-13 net_flow: a 32-bit program's connect",
	       "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"tcp\",\"dst\":\"192.0.2.1\",\"dport\":88,\"exe\":\"/bin/tiny32\",\"compat\":true,\"$times\":1}", pid);
	expect("CAP-13 exit: of a 32-bit program", "{\"type\":\"exit\",\"pid\":%d,\"status\":768,\"$times\":1}", pid);
}

static void exec_first(void *data)
{
	char *words[] = { "@/tmp/first", "noop", NULL };

	(void)data;
	exec_words(words);
}

/* The program of a used-again pid runs another, so that its chain names it. */
static void exec_second(void *data)
{
	char *words[] = { "second", "one-child", NULL };

	(void)data;
	execv("/tmp/second", words);
	_exit(127);
}

static void part_one_child(char **words)
{
	char *noop[] = { "drive", "noop", "below-second", NULL };

	(void)words;
	self = "/bin/drive";
	in_child(exec_words, noop, NULL);
}

static void exit_seven(void *data);

static void part_pid_again(char **words)
{
	pid_t first, pid = -1;
	int tries;

	(void)words;
	copy_self("/tmp/first", 0755);
	copy_self("/tmp/second", 0755);
	/* After a wrap the kernel goes on at 300. */
	check("pid_max is set to 320", !try_write("/proc/sys/kernel/pid_max", "320"), " ");
	while (in_child(exit_seven, NULL, NULL) < 300)
		;
	first = in_child(exec_first, NULL, NULL);
	for (tries = 0; tries < 1000 && pid != first; tries++) {
		pid = fork();
		if (!pid) {
			if (getpid() == first)
				exec_second(NULL);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	try_write("/proc/sys/kernel/pid_max", "32768");
	check("a pid is used again", pid == first, "after %d forks", tries);
	expect("CAP-03 exec: a pid's first program", "{\"type\":\"exec\",\"pid\":%d,\"path\":\"/tmp/first\",\"$times\":1}", first);
	expect("CAP-03 exec: its second", "{\"type\":\"exec\",\"pid\":%d,\"path\":\"/tmp/second\",\"$times\":1}", first);
	expect("CAP-06 exec: a chain never takes the second for the first",
	       "{\"type\":\"exec\",\"argv\":[\"drive\",\"noop\",\"below-second\"],\"chain\":[{\"pid\":%d,\"path\":\"/tmp/second\",\"args\":\"second one-child\"}],\"$times\":1}", first);
	expect("exit: of the first", "{\"type\":\"exit\",\"pid\":%d,\"comm\":\"first\",\"$times\":1}", first);
	expect("exit: of the second", "{\"type\":\"exit\",\"pid\":%d,\"comm\":\"second\",\"$times\":1}", first);
}

static void part_exec(char **words)
{
	(void)words;
	exec_plain();
	exec_bytes();
	exec_long();
	exec_worst();
	exec_script();
	exec_memfd();
	exec_compat();
	exec_rewritten();
	exec_chain();
	exec_orphan();
	exec_i386();
}

static void exit_seven(void *data)
{
	(void)data;
	_exit(7);
}

static void exit_killed(void *data)
{
	(void)data;
	raise(SIGKILL);
}

static void *late(void *data)
{
	(void)data;
	pause_ms(300);
	syscall(SYS_exit, 5); /* this thread only: the last one */
	return NULL;
}

static void leader_leaves(void *data)
{
	pthread_t thread;

	(void)data;
	pthread_create(&thread, NULL, late, NULL);
	syscall(SYS_exit, 0);
}

static void part_exit(char **words)
{
	pid_t pid;

	(void)words;
	expect("exit: an exit code", "{\"type\":\"exit\",\"pid\":%d,\"status\":1792,\"$times\":1}", in_child(exit_seven, NULL, NULL));
	expect("exit: a signal", "{\"type\":\"exit\",\"pid\":%d,\"status\":9,\"$times\":1}", in_child(exit_killed, NULL, NULL));
	pid = in_child(leader_leaves, NULL, NULL);
	expect("exit: a leader that leaves early does not end its process, the last thread does", "{\"type\":\"exit\",\"pid\":%d,\"status\":1280,\"$times\":1}", pid);
}

static void become_user(void)
{
	setresgid(1000, 1000, 1000);
	setresuid(1000, 1000, 1000);
}

static void suid_exec(void *data)
{
	char *words[] = { "suid", "noop", NULL };

	become_user();
	execv(data, words);
	_exit(127);
}

static void drop_only(void *data)
{
	(void)data;
	become_user();
}

static void user_namespace(void *data)
{
	(void)data;
	become_user();
	if (unshare(CLONE_NEWUSER))
		_exit(1);
}

static void reassert(void *data)
{
	(void)data;
	setresuid(1000, 1000, 0); /* the saved id stays root's */
	setresuid(-1, 0, -1);
}

static void suid_exec_32(void *data)
{
	unsigned int *argv = low((unsigned int[2]){ 0 }, 8), *environment = low((unsigned int[1]){ 0 }, 4);

	become_user();
	argv[0] = (unsigned long)low("suid", 5);
	int80(11, (long)low(data, strlen(data) + 1), (long)argv, (long)environment, 0, 0);
	_exit(127);
}

static void part_cred(char **words)
{
	pid_t pid;

	(void)words;
	copy_self("/tmp/suid", 04755);
	pid = in_child(suid_exec, "/tmp/suid", NULL);
	expect("CAP-04 cred_gain: a set-uid program, once",
	       "{\"type\":\"cred_gain\",\"pid\":%d,\"via\":\"exec\",\"syscall\":59,\"old\":{\"uid\":1000,\"euid\":1000,\"suid\":1000,\"fsuid\":1000,\"caps\":\"0000000000000000\"},"
	       "\"new\":{\"uid\":1000,\"euid\":0,\"suid\":0,\"fsuid\":0,\"caps\":{\"$re\":\"^000001ff\"}},\"$times\":1}", pid);
	pid = in_child(suid_exec_32, "/tmp/suid", NULL);
	expect("CAP-13 cred_gain: through the 32-bit execve", "{\"type\":\"cred_gain\",\"pid\":%d,\"via\":\"exec\",\"syscall\":11,\"compat\":true,\"$times\":1}", pid);
	for (int i = 0; i < 50; i++)
		pid = in_child(drop_only, NULL, NULL);
	absent("CAP-04 cred_gain: dropping to a user is none", "{\"type\":\"cred_gain\",\"pid\":%d}", pid);
	absent("CAP-04 cred_gain: a user namespace is none", "{\"type\":\"cred_gain\",\"pid\":%d}", in_child(user_namespace, NULL, NULL));
	absent("CAP-04 cred_gain: taking back root's saved id is none", "{\"type\":\"cred_gain\",\"pid\":%d,\"via\":\"setid\",\"new\":{\"euid\":0},\"old\":{\"suid\":0,\"caps\":\"000001ffffffffff\"}}",
	       in_child(reassert, NULL, NULL));
}

/* Offer many execs as fast as they go; rig.py checks that each is accounted for. */
static void part_exec_flood(char **words)
{
	long count = words[0] ? atol(words[0]) : 1000;
	char *argv[] = { "drive", NULL }, *environment[] = { NULL };
	pid_t pid;

	for (long i = 0; i < count; i++) {
		progress("execs", i);
		if (!posix_spawn(&pid, self, NULL, NULL, argv, environment))
			waitpid(pid, NULL, 0);
	}
}

const struct part exec_parts[] = {
	{ "exec", part_exec },
	{ "rewrite-argv", part_rewrite },
	{ "exit", part_exit },
	{ "cred", part_cred },
	{ "exec-flood", part_exec_flood },
	{ "one-child", part_one_child },
	{ "pid-again", part_pid_again },
	{ NULL, NULL },
};
