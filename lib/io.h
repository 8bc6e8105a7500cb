/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole reads and writes, atomic files, and descriptors over unix sockets. */
#ifndef HOLDFAST_LIB_IO_H
#define HOLDFAST_LIB_IO_H

#include <stddef.h>
#include <sys/types.h>

#include "lib/buf.h"
#include "lib/err.h"

enum { IO_FDS_MAX = 8 };

/* Read or write exactly n bytes on a blocking fd. 0, or -1 with errno (end of file: ENODATA). */
int io_read_all(int fd, void *p, size_t n);
int io_write_all(int fd, const void *p, size_t n);

/* Appends a whole file to `out`; refuses what is no regular file or longer than the buffer's cap. */
int io_read_file(const char *path, struct buf *out, struct err *err);
/* The same from a descriptor; name is for errors. */
int io_read_regular(int fd, const char *name, struct buf *out, struct err *err);
/* The same, relative to a directory, never following a symlink in the last component. */
int io_read_file_at(int dirfd, const char *name, struct buf *out, struct err *err);

/*
 * Replaces dirfd/name (no "/" in it) by these bytes so that a crash leaves the old or the new file whole:
 * temporary file, fsync, rename, fsync of the directory.
 */
int io_write_file_atomic(int dirfd, const char *name, const void *p, size_t n, mode_t mode,
			 struct err *err);

/* mkdir -p with this mode for what is made; an existing directory is left as it is. */
int io_mkdir_p(const char *path, mode_t mode, struct err *err);
/* Removes a tree below dirfd without following symlinks. A missing one is fine. */
int io_remove_tree(int dirfd, const char *name, struct err *err);

int io_set_nonblock(int fd);
int io_set_cloexec(int fd);

/* One datagram (or piece of a stream) with up to IO_FDS_MAX descriptors. Bytes sent, or -1 with errno. */
ssize_t io_send_fds(int sock, const void *p, size_t n, const int *fds, size_t n_fds);
/*
 * Receives with close-on-exec. `n_fds` holds the room on entry, the count on return; what does not
 * fit is closed and the call fails with EMSGSIZE, as it does for a truncated datagram. 0 = end of file.
 */
ssize_t io_recv_fds(int sock, void *p, size_t n, int *fds, size_t *n_fds);

/* Binds a listening unix socket of this type at path (mode 0600), replacing a stale one. fd or -1. */
int io_unix_listen(const char *path, int type, struct err *err);
int io_unix_connect(const char *path, int type, struct err *err);

#endif
