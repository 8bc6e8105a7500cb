/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole reads and writes, atomic files, and descriptors over unix sockets. */
#include "lib/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/cleanup.h"

int io_read_all(int fd, void *p, size_t n)
{
	char *at = p;

	while (n) {
		ssize_t got = read(fd, at, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0) {
			errno = ENODATA;
			return -1;
		}
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

int io_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n) {
		ssize_t put = write(fd, at, n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -1;
		at += put;
		n -= (size_t)put;
	}
	return 0;
}

int io_read_regular(int fd, const char *name, struct buf *out, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_errno(err, "stat %s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, "%s: not a regular file", name);
	for (;;) {
		uint8_t *to = buf_room(out, 4096);
		size_t room = 4096;
		ssize_t got;

		if (!to) {
			room = out->max - out->len;
			to = room ? buf_room(out, room) : NULL;
		}
		if (!to) {
			char probe;

			got = read(fd, &probe, 1);
			if (got == 0)
				return 0;
			return err_set(err, "%s: longer than %zu bytes", name, out->max);
		}
		got = read(fd, to, room);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "read %s", name);
		if (got == 0)
			return 0;
		out->len += (size_t)got;
	}
}

int io_read_file_at(int dirfd, const char *name, struct buf *out, struct err *err)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return err_errno(err, "open %s", name);
	return io_read_regular(fd, name, out, err);
}

int io_read_file(const char *path, struct buf *out, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_errno(err, "open %s", path);
	return io_read_regular(fd, path, out, err);
}

int io_write_file_atomic(int dirfd, const char *name, const void *p, size_t n, mode_t mode,
			 struct err *err)
{
	_cleanup_close_ int fd = -1, dir = -1;
	char tmp[256];
	unsigned int salt;

	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return err_errno(err, "getrandom");
	if (snprintf(tmp, sizeof(tmp), "%s.%08x.tmp", name, salt) >= (int)sizeof(tmp))
		return err_set(err, "%s: name too long", name);
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return err_errno(err, "create %s", tmp);
	if (fchmod(fd, mode) || io_write_all(fd, p, n) || fsync(fd)) {
		err_errno(err, "write %s", name);
		unlinkat(dirfd, tmp, 0);
		return -1;
	}
	if (renameat(dirfd, tmp, dirfd, name)) {
		err_errno(err, "rename to %s", name);
		unlinkat(dirfd, tmp, 0);
		return -1;
	}
	dir = openat(dirfd, ".", O_RDONLY | O_CLOEXEC);
	if (dir < 0 || fsync(dir))
		return err_errno(err, "sync the folder of %s", name);
	return 0;
}

int io_mkdir_p(const char *path, mode_t mode, struct err *err)
{
	_cleanup_free_ char *copy = strdup(path);

	if (!copy)
		return err_set(err, "out of memory");
	for (char *c = copy + 1; ; c++) {
		char was = *c;

		if (was != '/' && was)
			continue;
		*c = 0;
		if (mkdir(copy, mode) && errno != EEXIST)
			return err_errno(err, "make folder %s", copy);
		*c = was;
		if (!was)
			return 0;
	}
}

static int remove_entries(DIR *dir, struct err *err)
{
	struct dirent *entry;

	while ((entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (io_remove_tree(dirfd(dir), entry->d_name, err))
			return -1;
	}
	return 0;
}

int io_remove_tree(int dirfd_, const char *name, struct err *err)
{
	int fd, rc;
	DIR *dir;

	if (!unlinkat(dirfd_, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return err_errno(err, "remove %s", name);
	fd = openat(dirfd_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "open %s", name);
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return err_errno(err, "open %s", name);
	}
	rc = remove_entries(dir, err);
	closedir(dir);
	if (rc)
		return -1;
	if (unlinkat(dirfd_, name, AT_REMOVEDIR) && errno != ENOENT)
		return err_errno(err, "remove %s", name);
	return 0;
}

int io_set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

int io_set_cloexec(int fd)
{
	return fcntl(fd, F_SETFD, FD_CLOEXEC);
}

ssize_t io_send_fds(int sock, const void *p, size_t n, const int *fds, size_t n_fds)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * IO_FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = (void *)p, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (n_fds > IO_FDS_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (n_fds) {
		struct cmsghdr *cmsg;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
	}
	do
		sent = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent;
}

static void take_fds(struct msghdr *msg, int *fds, size_t room, size_t *count, int *overflow)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (*count < room) {
				fds[(*count)++] = fd;
			} else {
				close(fd);
				*overflow = 1;
			}
		}
	}
}

ssize_t io_recv_fds(int sock, void *p, size_t n, int *fds, size_t *n_fds)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * 32)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = p, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space,
			      .msg_controllen = sizeof(control.space) };
	size_t count = 0;
	int overflow = 0;
	ssize_t got;

	do
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -1;
	take_fds(&msg, fds, *n_fds, &count, &overflow);
	if (overflow || msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) {
		while (count)
			close(fds[--count]);
		*n_fds = 0;
		errno = EMSGSIZE;
		return -1;
	}
	*n_fds = count;
	return got;
}

static int unix_address(const char *path, struct sockaddr_un *sun, struct err *err)
{
	*sun = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(sun->sun_path))
		return err_set(err, "%s: longer than a socket path may be (%zu bytes)", path,
			       sizeof(sun->sun_path) - 1);
	strcpy(sun->sun_path, path);
	return 0;
}

int io_unix_listen(const char *path, int type, struct err *err)
{
	struct sockaddr_un sun;
	_cleanup_close_ int fd = -1;
	mode_t old;
	int rc;

	if (unix_address(path, &sun, err))
		return -1;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "socket");
	unlink(path);
	old = umask(0177);
	rc = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
	umask(old);
	if (rc || listen(fd, 64))
		return err_errno(err, "listen on %s", path);
	return steal_fd(&fd);
}

int io_unix_connect(const char *path, int type, struct err *err)
{
	struct sockaddr_un sun;
	_cleanup_close_ int fd = -1;

	if (unix_address(path, &sun, err))
		return -1;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, "socket");
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)))
		return err_errno(err, "connect to %s", path);
	return steal_fd(&fd);
}
