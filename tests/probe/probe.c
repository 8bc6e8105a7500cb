// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs inside the guest: makes each probe and prints what came of it, one a line. It knows no expectation.
 *
 *	probe calls SUPERVISOR GROUP 64|int80|x32 < seccomp.tsv		label errno|KILLED
 *	probe prepare DIR						makes what the file probes work on
 *	probe files DIR dir|file					op errno
 *	probe true							exits with 0
 */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "tests/probe/calls.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

static char base[256];

static char *at(const char *name)
{
	static char paths[8][512];
	static int n;

	n = (n + 1) % 8;
	snprintf(paths[n], sizeof(paths[n]), "%s%s%s", base, *name ? "/" : "", name);
	return paths[n];
}

static int opened(int fd)
{
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int op_execute(const char *f)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execl(f, f, "true", NULL);
		_exit(errno);
	}
	waitpid(pid, &status, 0);
	errno = WEXITSTATUS(status);
	return errno ? -1 : 0;
}

static int op_read(const char *f) { return opened(open(f, O_RDONLY | O_NONBLOCK)); }
static int op_write(const char *f) { return opened(open(f, O_WRONLY)); }
static int op_read_write(const char *f) { return opened(open(f, O_RDWR | O_NONBLOCK)); }
static int op_append(const char *f) { return opened(open(f, O_WRONLY | O_APPEND)); }
static int op_open_truncate(const char *f) { return opened(open(f, O_WRONLY | O_TRUNC)); }
static int op_truncate(const char *f) { return truncate(f, 1); }
static int op_read_truncate(const char *f) { return opened(open(f, O_RDONLY | O_TRUNC)); }

static int op_ftruncate(const char *f)
{
	int fd = open(f, O_RDWR), r = fd < 0 ? -1 : ftruncate(fd, 1);

	if (fd >= 0)
		close(fd);
	return r;
}

static int op_stat(const char *f)
{
	struct stat st;

	return stat(f, &st);
}

static int op_access(const char *f) { return access(f, W_OK); }
static int op_path(const char *f) { return opened(open(f, O_PATH)); }
static int op_unlink(const char *f) { return unlink(f); }

static int op_rename(const char *f)
{
	char to[600];

	snprintf(to, sizeof(to), "%s.renamed", f);
	return rename(f, to) < 0 ? -1 : rename(to, f);
}

static const struct { const char *name, *item; int (*fn)(const char *); } file_ops[] = {
	{ "execute", "exe", op_execute }, { "read_file", "file", op_read }, { "write_file", "file", op_write },
	{ "read_write_file", "file", op_read_write }, { "append_file", "file", op_append },
	{ "open_truncate", "file", op_open_truncate }, { "truncate", "file", op_truncate },
	{ "read_truncate", "file", op_read_truncate }, { "ftruncate_of_read_write", "file", op_ftruncate },
	{ "stat", "file", op_stat }, { "access_write", "file", op_access }, { "path_fd", "file", op_path },
	{ "rename_same_dir", "file", op_rename }, { "remove_file", "victim", op_unlink },
};

static int d_read_dir(void) { return opened(open(at(""), O_RDONLY | O_DIRECTORY)); }
static int d_read_subdir(void) { return opened(open(at("sub"), O_RDONLY | O_DIRECTORY)); }
static int d_remove_dir(void) { return rmdir(at("empty")); }
static int d_make_dir(void) { return mkdir(at("new.d"), 0755); }
static int d_make_reg(void) { return opened(open(at("new.f"), O_WRONLY | O_CREAT | O_EXCL, 0644)); }
static int d_make_mknod(void) { return mknod(at("new.n"), S_IFREG | 0644, 0); }
static int d_make_tmpfile(void)
{
	int fd = open(at(""), O_RDWR | O_TMPFILE, 0600), r;
	char name[64];

	if (fd < 0)
		return -1;
	/* O_TMPFILE itself makes no name; giving it one does. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	r = linkat(AT_FDCWD, name, AT_FDCWD, at("new.t"), AT_SYMLINK_FOLLOW);
	close(fd);
	return r;
}
static int d_make_char(void) { return mknod(at("new.c"), S_IFCHR | 0600, makedev(0, 0)); }
static int d_make_block(void) { return mknod(at("new.b"), S_IFBLK | 0600, makedev(7, 99)); }
static int d_make_fifo(void) { return mkfifo(at("new.p"), 0600); }
static int d_make_sym(void) { return symlink("x", at("new.l")); }

static int unix_call(const char *path, int (*call)(int, const struct sockaddr *, socklen_t))
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), r;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	r = call(fd, (struct sockaddr *)&a, sizeof(a));
	close(fd);
	return r;
}
static int d_make_sock(void) { return unix_call(at("new.s"), bind); }
static int d_connect(void) { return unix_call(at("sock"), connect); }
static int d_link_same(void) { return link(at("file"), at("new.h")); }
static int d_link_other(void) { return link(at("file"), at("sub/new.h")); }
static int d_rename_other(void) { return rename(at("mover"), at("sub/mover")); }
static int d_exchange(void) { return renameat2(AT_FDCWD, at("left"), AT_FDCWD, at("sub/right"), RENAME_EXCHANGE); }
static int d_read_fifo(void) { return opened(open(at("fifo"), O_RDONLY | O_NONBLOCK)); }
static int d_write_fifo(void) { return opened(open(at("fifo"), O_RDWR | O_NONBLOCK)); }
static int d_read_device(void) { return opened(open(at("device"), O_RDONLY)); }
static int d_write_device(void) { return opened(open(at("device"), O_WRONLY)); }
static int d_ioctl(void)
{
	char room[256];
	int fd = open(at("device"), O_RDONLY), r = fd < 0 ? -1 : ioctl(fd, 0x5401, room);

	if (fd >= 0)
		close(fd);
	return r;
}
static int d_through_link(void) { return opened(open(at("link"), O_RDONLY)); }
static int d_chdir(void) { return chdir(at("")); }

static const struct { const char *name; int (*fn)(void); } dir_ops[] = {
	{ "read_dir", d_read_dir }, { "read_subdir", d_read_subdir }, { "remove_dir", d_remove_dir }, { "make_dir", d_make_dir },
	{ "make_reg", d_make_reg }, { "make_reg_by_mknod", d_make_mknod }, { "make_tmpfile", d_make_tmpfile },
	{ "make_char", d_make_char }, { "make_block", d_make_block }, { "make_fifo", d_make_fifo }, { "make_sock", d_make_sock },
	{ "make_sym", d_make_sym }, { "link_same_dir", d_link_same }, { "link_other_dir", d_link_other },
	{ "rename_other_dir", d_rename_other }, { "exchange", d_exchange }, { "read_fifo", d_read_fifo },
	{ "write_fifo", d_write_fifo }, { "read_device", d_read_device }, { "write_device", d_write_device },
	{ "ioctl_device", d_ioctl }, { "through_link", d_through_link }, { "connect_sock", d_connect }, { "chdir", d_chdir },
};

static void say(const char *name, int r)
{
	printf("%s %s\n", name, r < 0 ? strerrorname_np(errno) : "ok");
}

static int files(const char *kind)
{
	for (size_t i = 0; i < sizeof(file_ops) / sizeof(file_ops[0]); i++)
		say(file_ops[i].name, file_ops[i].fn(strcmp(kind, "dir") ? base : at(file_ops[i].item)));
	for (size_t i = 0; !strcmp(kind, "dir") && i < sizeof(dir_ops) / sizeof(dir_ops[0]); i++)
		say(dir_ops[i].name, dir_ops[i].fn());
	return 0;
}

static void put(const char *name, const void *data, size_t n)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0777);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n || fchmod(fd, 0777))
		perror(at(name));
	close(fd);
}

static int prepare(void)
{
	static char self[4 << 20];
	int fd = open("/proc/self/exe", O_RDONLY);
	ssize_t n = read(fd, self, sizeof(self));

	umask(0);
	mkdir(base, 0777);
	mkdir(at("sub"), 0777);
	mkdir(at("empty"), 0777);
	put("exe", self, (size_t)n);
	put("file", "content\n", 8);
	put("victim", "v", 1);
	put("mover", "m", 1);
	put("left", "l", 1);
	put("sub/right", "r", 1);
	mkfifo(at("fifo"), 0666);
	symlink("file", at("link"));
	unlink(at("sock"));
	unix_call(at("sock"), bind);
	chmod(at("sock"), 0777);
	if (geteuid() == 0 && mknod(at("device"), S_IFCHR | 0666, makedev(1, 3)) < 0 && errno != EEXIST)
		perror("device");
	return 0;
}

static int calls(pid_t supervisor, pid_t group, const char *entry)
{
	enum probe_entry how = !strcmp(entry, "int80") ? PROBE_INT80 : !strcmp(entry, "x32") ? PROBE_X32 : PROBE_64;
	struct probe_row row;

	probe_init();
	while (probe_read(stdin, &row)) {
		int r = how == PROBE_INT80 && row.nr32 < 0 ? -2 : probe_run(&row, how, supervisor, group);

		if (r == -2)
			continue;
		if (r >= PROBE_KILLED)
			printf("%s KILLED-%d\n", row.label, r - PROBE_KILLED);
		else
			printf("%s %s\n", row.label, r ? strerrorname_np(r) : "ok");
	}
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	if (argc == 2 && !strcmp(argv[1], "true"))
		return 0;
	if (argc == 5 && !strcmp(argv[1], "calls"))
		return calls(atoi(argv[2]), atoi(argv[3]), argv[4]);
	if (argc >= 3)
		snprintf(base, sizeof(base), "%s", argv[2]);
	if (argc == 3 && !strcmp(argv[1], "prepare"))
		return prepare();
	if (argc == 4 && !strcmp(argv[1], "files"))
		return files(argv[3]);
	return 2;
}
