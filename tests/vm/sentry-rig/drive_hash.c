// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hashes of programs: of the file that runs, of files that change, of files that fs-verity protects, and of a file whose
 * server hangs: a FUSE server of a few requests, in a process of its own.
 */
#include "drive.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fsverity.h>
#include <linux/fuse.h>
#include <linux/loop.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define V4 "192.0.2.1"
#define LIST "/sys/module/sentry/parameters/hash_programs"

static void connect_from(int port)
{
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(port) }, to = { .sin_family = AF_INET, .sin_port = htons(90) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)))
		perror("bind");
	inet_pton(AF_INET, V4, &to.sin_addr);
	connect(fd, (struct sockaddr *)&to, sizeof(to));
	close(fd);
}

/* drive fire PORT...: a connect from each, a second apart, and alive for a while, so that its file can be looked for. */
static void part_fire(char **words)
{
	for (; *words; words++) {
		connect_from(atoi(*words));
		pause_ms(words[1] ? 1000 : 300);
	}
}

static pid_t fire(const char *program, char *first, char *second)
{
	char *words[] = { "hashed", "fire", first, second, NULL };
	pid_t pid = fork();

	if (!pid) {
		execv(program, words);
		perror(program);
		_exit(127);
	}
	return pid;
}

static void fire_and_wait(const char *program, char *port)
{
	waitpid(fire(program, port, NULL), NULL, 0);
	pause_ms(1500);
}

static void changing_file(void)
{
	int fd;

	copy_self("/tmp/hashed", 0755);
	fire_and_wait("/tmp/hashed", "4031");
	expect("exe_sha256: another file with the same content has the same hash", "{\"type\":\"program_hash\",\"exe\":\"/tmp/hashed\",\"exe_sha256\":{\"$program\":\"drive\"},\"$times\":1}");
	fd = open("/tmp/hashed", O_WRONLY | O_APPEND);
	write(fd, "x", 1);
	close(fd);
	fire_and_wait("/tmp/hashed", "4031");
	expect("exe_sha256: a changed file has another", "{\"type\":\"program_hash\",\"exe\":\"/tmp/hashed\",\"exe_sha256\":{\"$not_program\":\"drive\"},\"$times\":1}");
}

static void part_hash(char **words)
{
	(void)words;
	check("hash_programs is written", !try_write(LIST, "/bin/nothing\n/bin/drive\n/tmp/has*\n/tmp/after\n/tmp/fuse/prog\n/tmp/verity/prog"), " ");
	connect_from(4030);
	pause_ms(2000);
	expect("exe_sha256: the result comes as an event", "{\"type\":\"program_hash\",\"pid\":%d,\"exe\":\"/bin/drive\",\"exe_id\":{\"$re\":\"^[0-9a-f]{64}$\"},\"exe_sha256\":{\"$program\":\"drive\"},\"$times\":1}", getpid());
	connect_from(4032);
	expect("exe_sha256: a later flow carries it", "{\"type\":\"net_flow\",\"pid\":%d,\"sport\":4032,\"exe_sha256\":{\"$program\":\"drive\"},\"$absent\":[\"exe_hash\"],\"$times\":1}", getpid());
	changing_file();
	absent("exe_sha256: what is not on the list is not hashed", "{\"type\":\"program_hash\",\"exe\":\"/init\"}");
}

/* A FUSE file system of one file, "prog", with the bytes of this program. */

struct request {
	struct fuse_in_header in;
	char body[135168 - sizeof(struct fuse_in_header)];
};

static void reply(int fuse, unsigned long long unique, int error, const void *body, size_t len)
{
	struct fuse_out_header out = { .len = sizeof(out) + len, .error = -error, .unique = unique };
	struct iovec parts[] = { { &out, sizeof(out) }, { (void *)body, len } };

	writev(fuse, parts, 2);
}

static struct fuse_attr attributes(unsigned long long node, unsigned long long size)
{
	struct fuse_attr a = { .ino = node, .size = size, .blocks = size / 512, .nlink = 1, .blksize = 4096 };

	a.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0755;
	return a;
}

static void answer(int fuse, const struct request *q, int file, unsigned long long size)
{
	static char block[131072];
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 131072, .max_write = 131072 };
	struct fuse_entry_out entry = { .nodeid = 2, .entry_valid = 3600, .attr_valid = 3600, .attr = attributes(2, size) };
	struct fuse_attr_out attr = { .attr_valid = 3600, .attr = attributes(q->in.nodeid, size) };
	struct fuse_open_out opened = { .fh = 1, .open_flags = FOPEN_KEEP_CACHE };
	const struct fuse_read_in *r = (const struct fuse_read_in *)q->body;

	switch (q->in.opcode) {
	case FUSE_INIT:
		return reply(fuse, q->in.unique, 0, &init, sizeof(init));
	case FUSE_LOOKUP:
		if (strcmp(q->body, "prog"))
			return reply(fuse, q->in.unique, ENOENT, NULL, 0);
		return reply(fuse, q->in.unique, 0, &entry, sizeof(entry));
	case FUSE_GETATTR:
		return reply(fuse, q->in.unique, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
		return reply(fuse, q->in.unique, 0, &opened, sizeof(opened));
	case FUSE_READ:
		return reply(fuse, q->in.unique, 0, block, pread(file, block, r->size, r->offset));
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		return;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		return reply(fuse, q->in.unique, 0, NULL, 0);
	default:
		return reply(fuse, q->in.unique, ENOSYS, NULL, 0);
	}
}

static void serve(void *data)
{
	static struct request q;
	int fuse = *(int *)data, file = open("/bin/drive", O_RDONLY);
	struct stat st;

	fstat(file, &st);
	while (read(fuse, &q, sizeof(q)) > 0)
		answer(fuse, &q, file, st.st_size);
}

/* Mount and serve; returns the server's pid, or -1. */
static pid_t fuse_start(void)
{
	char options[64];
	int fuse;
	pid_t pid;

	mkdir("/tmp/fuse", 0755);
	mknod("/dev/fuse", S_IFCHR | 0600, 10 << 8 | 229);
	fuse = open("/dev/fuse", O_RDWR);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions", fuse);
	if (fuse < 0 || mount("fuse", "/tmp/fuse", "fuse", 0, options)) {
		perror("fuse");
		return -1;
	}
	pid = fork();
	if (!pid) {
		serve(&fuse);
		_exit(0);
	}
	close(fuse);
	return pid;
}

static void part_hash_fuse(char **words)
{
	pid_t server = fuse_start(), program;

	(void)words;
	check("a FUSE server is there", server > 0, " ");
	if (server < 0)
		return;
	program = fire("/tmp/fuse/prog", "4033", "4034");
	pause_ms(700);
	kill(server, SIGSTOP);
	pause_ms(1300);
	expect("exe_hash: a program on FUSE is not read", "{\"type\":\"net_flow\",\"pid\":%d,\"sport\":4033,\"exe\":\"/tmp/fuse/prog\",\"exe_hash\":\"unsupported_fs\",\"$absent\":[\"exe_sha256\"],\"$times\":1}", program);
	expect("exe_hash: nor while its server hangs", "{\"type\":\"net_flow\",\"pid\":%d,\"sport\":4034,\"exe_hash\":\"unsupported_fs\",\"$times\":1}", program);
	absent("exe_hash: no hash of it ever comes", "{\"type\":\"program_hash\",\"exe\":\"/tmp/fuse/prog\"}");
	copy_self("/tmp/after", 0755);
	fire_and_wait("/tmp/after", "4035");
	expect("exe_hash: others are hashed while the server hangs", "{\"type\":\"program_hash\",\"exe\":\"/tmp/after\",\"exe_sha256\":{\"$program\":\"drive\"},\"$times\":1}");
	kill(program, SIGKILL);
	kill(server, SIGKILL);
	waitpid(program, NULL, 0);
	waitpid(server, NULL, 0);
	umount2("/tmp/fuse", MNT_DETACH);
}

/* A file that fs-verity protects, on an ext4 image that rig.py made, and its digest; -1 if that can't be had. */
static int verity_file(unsigned char digest[32])
{
	union { struct fsverity_digest d; unsigned char room[sizeof(struct fsverity_digest) + 32]; } measured = { .d.digest_size = 32 };
	struct fsverity_enable_arg enable = { .version = 1, .hash_algorithm = FS_VERITY_HASH_ALG_SHA256, .block_size = 4096 };
	int loop, image = open("/verity.img", O_RDWR), fd;

	mkdir("/tmp/verity", 0755);
	mknod("/dev/loop0", S_IFBLK | 0600, 7 << 8);
	loop = open("/dev/loop0", O_RDWR);
	if (image < 0 || loop < 0 || ioctl(loop, LOOP_SET_FD, image) || mount("/dev/loop0", "/tmp/verity", "ext4", 0, NULL))
		return -errno;
	copy_self("/tmp/verity/prog", 0755);
	fd = open("/tmp/verity/prog", O_RDONLY);
	if (ioctl(fd, FS_IOC_ENABLE_VERITY, &enable) || ioctl(fd, FS_IOC_MEASURE_VERITY, &measured))
		return -errno;
	memcpy(digest, measured.d.digest, 32);
	close(fd);
	return 0;
}

static void part_hash_verity(char **words)
{
	unsigned char digest[32];
	struct utsname system;
	char hex[65];
	int result = verity_file(digest);

	(void)words;
	check("fs-verity protects a program", !result, "%d", result);
	if (result)
		return;
	for (int i = 0; i < 32; i++)
		sprintf(hex + 2 * i, "%02x", digest[i]);
	fire_and_wait("/tmp/verity/prog", "4036");
	uname(&system);
	if (!strncmp(system.release, "6.1.", 4)) {
		expect("exe_verity: before 6.6 the file is hashed like others", "{\"type\":\"program_hash\",\"exe\":\"/tmp/verity/prog\",\"exe_sha256\":{\"$program\":\"drive\"},\"$times\":1}");
		return;
	}
	expect("exe_verity: fs-verity's own digest", "{\"type\":\"net_flow\",\"sport\":4036,\"exe\":\"/tmp/verity/prog\",\"exe_verity\":\"%s\",\"$absent\":[\"exe_sha256\",\"exe_hash\"],\"$times\":1}", hex);
	absent("exe_verity: such a file is not read", "{\"type\":\"program_hash\",\"exe\":\"/tmp/verity/prog\"}");
}

const struct part hash_parts[] = {
	{ "hash", part_hash },
	{ "fire", part_fire },
	{ "hash-fuse", part_hash_fuse },
	{ "hash-verity", part_hash_verity },
	{ NULL, NULL },
};
