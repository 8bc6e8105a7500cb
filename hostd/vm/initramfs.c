/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The initramfs of one boot: sandboxd as init, early modules, Sentry, boot key, guest spec. */
#include "hostd/vm/initramfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <holdfast/role.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"

enum { LIST_MAX = 64 * 1024, NAME_PAD = 4 };

struct archive {
	FILE *out;
	unsigned inode;
	uint64_t bytes;
	struct err *err;
};

static int put(struct archive *a, const void *p, size_t n)
{
	a->bytes += n;
	if (a->bytes > INITRAMFS_BYTES_MAX)
		return err_set(a->err, "initramfs is larger than %d bytes", INITRAMFS_BYTES_MAX);
	if (n && fwrite(p, n, 1, a->out) != 1)
		return err_errno(a->err, "write the initramfs");
	return 0;
}

static int pad(struct archive *a)
{
	return put(a, "\0\0\0", -a->bytes & (NAME_PAD - 1));
}

static int entry(struct archive *a, const char *name, mode_t mode, size_t size, dev_t rdev)
{
	size_t n = strlen(name) + 1;
	char head[111];

	snprintf(head, sizeof(head), "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		 a->inode++, mode, 0, 0, 1, 0, (unsigned)size, 0, 0, major(rdev), minor(rdev),
		 (unsigned)n, 0);
	if (put(a, head, sizeof(head) - 1) || put(a, name, n))
		return -1;
	return pad(a);
}

static int bytes(struct archive *a, const char *name, mode_t mode, const void *p, size_t n)
{
	if (entry(a, name, S_IFREG | mode, n, 0) || put(a, p, n))
		return -1;
	return pad(a);
}

/* The size is written before the bytes, so a file that changes meanwhile is refused. */
static int file(struct archive *a, const char *name, mode_t mode, const char *path)
{
	_cleanup_fclose_ FILE *in = fopen(path, "re");
	char chunk[8192];
	struct stat st;
	size_t left, n;

	if (!in || fstat(fileno(in), &st))
		return err_errno(a->err, "%s", path);
	if (!S_ISREG(st.st_mode) || st.st_size > INITRAMFS_BYTES_MAX)
		return err_set(a->err, "%s: no regular file, or too large", path);
	if (entry(a, name, S_IFREG | mode, (size_t)st.st_size, 0))
		return -1;
	for (left = (size_t)st.st_size; left; left -= n) {
		n = fread(chunk, 1, left < sizeof(chunk) ? left : sizeof(chunk), in);
		if (!n)
			return err_set(a->err, "%s: changed while it was read", path);
		if (put(a, chunk, n))
			return -1;
	}
	return pad(a);
}

static int early_modules(struct archive *a, const struct initramfs_parts *parts)
{
	char from[4096], to[512];
	struct buf list;
	char *line, *save = NULL;
	int count = 0;
	int rc = -1;

	buf_init(&list, LIST_MAX);
	if (io_read_file(parts->early_list, &list, a->err) ||
	    bytes(a, "holdfast/early.list", 0400, list.data, list.len))
		goto out;
	line = buf_cstr(&list);
	for (line = line ? strtok_r(line, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
		if (strchr(line, '/') || line[0] == '.' || strlen(line) > 255 ||
		    ++count > INITRAMFS_EARLY_MAX) {
			err_set(a->err, "%s: bad name or more than %d names", parts->early_list,
				INITRAMFS_EARLY_MAX);
			goto out;
		}
		snprintf(from, sizeof(from), "%s/%s.ko", parts->early_dir, line);
		snprintf(to, sizeof(to), "holdfast/early/%s.ko", line);
		if (file(a, to, 0400, from))
			goto out;
	}
	rc = 0;
out:
	buf_free(&list);
	return rc;
}

static int archive_write(struct archive *a, const struct initramfs_parts *p)
{
	static const char *const dirs[] = { "dev", "proc", "sys", "run", "newroot", "holdfast",
					    "holdfast/early" };

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		if (entry(a, dirs[i], S_IFDIR | 0755, 0, 0))
			return -1;
	if (entry(a, "dev/console", S_IFCHR | 0600, 0, makedev(5, 1)) ||
	    entry(a, "dev/null", S_IFCHR | 0666, 0, makedev(1, 3)) ||
	    file(a, "init", 0500, p->sandboxd) ||
	    bytes(a, "holdfast/boot.key", 0400, p->boot_key, ROLE_BOOT_KEY_BYTES) ||
	    bytes(a, "holdfast/guest-spec.json", 0400, p->guest_spec, strlen(p->guest_spec)))
		return -1;
	if (p->early_list[0] && early_modules(a, p))
		return -1;
	if (p->sentry_module[0] && file(a, "holdfast/sentry.ko", 0400, p->sentry_module))
		return -1;
	if (p->proxy_ca[0] && file(a, "holdfast/ca.crt", 0444, p->proxy_ca))
		return -1;
	return entry(a, "TRAILER!!!", 0, 0, 0);
}

int initramfs_build(int dirfd, const char *name, const struct initramfs_parts *parts,
		    struct err *err)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct archive a = { .inode = 1, .err = err };
	int rc;

	if (fd < 0)
		return err_errno(err, "create %s", name);
	a.out = fdopen(fd, "w");
	if (!a.out) {
		close(fd);
		unlinkat(dirfd, name, 0);
		return err_errno(err, "create %s", name);
	}
	rc = archive_write(&a, parts);
	if (fclose(a.out) && !rc)
		rc = err_errno(err, "write the initramfs");
	if (rc)
		unlinkat(dirfd, name, 0);
	return rc;
}
