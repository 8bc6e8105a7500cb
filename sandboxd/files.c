// SPDX-License-Identifier: GPL-2.0-or-later
/* File operations for the host, with the rights of the session's user and nothing more. */
#include "sandboxd/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <holdfast/exec.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"
#include "sandboxd/identity.h"
#include "sandboxd/session.h"

enum { LIST_MAX = 20000 };

static const char *const verbs[] = { "list", "read", "write", "mkdir", "remove" };

int guest_files_parse(const json_t *request, struct guest_files *f, struct err *e)
{
	static const char *const keys[] = { "op", "verb", "path", "mode", "create", NULL };
	const char *verb;
	int64_t mode;

	if (json_only_keys(request, keys, e) < 0 || json_get_str(request, "verb", &verb, e) < 0 ||
	    json_get_str(request, "path", &f->path, e) < 0)
		return -1;
	f->verb = GUEST_FILES_LIST;
	while (f->verb <= GUEST_FILES_REMOVE && strcmp(verbs[f->verb], verb))
		f->verb++;
	if (f->verb > GUEST_FILES_REMOVE)
		return err_set(e, "verb: \"%s\" is none of list, read, write, mkdir, remove", verb);
	if (f->path[0] != '/' || strlen(f->path) >= PATH_MAX)
		return err_set(e, "path: not an absolute path");
	if (json_opt_int(request, "mode", &mode, f->verb == GUEST_FILES_MKDIR ? 0755 : 0644, e) < 0 ||
	    json_opt_bool(request, "create", &f->create, true, e) < 0)
		return -1;
	if (mode < 0 || mode > 0777)
		return err_set(e, "mode: %lld is not between 0 and 511", (long long)mode);
	f->mode = (unsigned)mode;
	return 0;
}

static int frame(uint8_t type, const void *p, size_t n)
{
	uint8_t header[HF_EXEC_HEADER_BYTES] = { type, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
						 (uint8_t)n };

	return io_write_all(STDOUT_FILENO, header, sizeof(header)) < 0 || io_write_all(STDOUT_FILENO, p, n) < 0 ? -1 : 0;
}

static int reply(json_t *json)
{
	_cleanup_free_ char *text = json_text(json);

	json_decref(json);
	return !text || frame(HF_EXEC_REPLY, text, strlen(text)) < 0;
}

static int refuse(const struct guest_files *f, const char *what)
{
	char step[48];

	snprintf(step, sizeof(step), "files_%s", verbs[f->verb]);
	return reply(guest_refusal(step, f->path, errno, what, HF_EXEC_CODE_REFUSED));
}

/* Opens the directory that holds the last component, which *name then points at. */
static int open_parent(int root, const char *path, char copy[PATH_MAX], const char **name)
{
	size_t n = strlen(path);
	char *slash;

	memcpy(copy, path, n + 1);
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	slash = strrchr(copy, '/');
	*name = slash + 1;
	if (!**name || !strcmp(*name, ".") || !strcmp(*name, "..")) {
		errno = EINVAL;
		return -1;
	}
	*slash = '\0';
	return guest_open_beneath(root, *copy ? copy : "/", O_PATH | O_DIRECTORY, 0);
}

static const char *type_name(mode_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "dir" : S_ISLNK(mode) ? "link" : "other";
}

/* Names that are not UTF-8 are left out and said to be. */
static int do_list(const struct guest_files *f, int root)
{
	int fd = guest_open_beneath(root, f->path, O_RDONLY | O_DIRECTORY, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	json_t *list = json_array();
	struct dirent *entry;
	bool truncated = false;

	if (!d)
		return refuse(f, NULL);
	while ((entry = readdir(d))) {
		struct stat st;
		json_t *item;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		item = json_pack("{s:s, s:s, s:I, s:i, s:I}", "name", entry->d_name, "type", type_name(st.st_mode), "size",
				 (json_int_t)st.st_size, "mode", (int)(st.st_mode & 07777), "mtime",
				 (json_int_t)st.st_mtime);
		if (!item || json_array_size(list) >= LIST_MAX) {
			json_decref(item);
			truncated = true;
			continue;
		}
		json_array_append_new(list, item);
	}
	closedir(d);
	return reply(json_pack("{s:b, s:o, s:b}", "ok", 1, "entries", list, "truncated", truncated));
}

static int do_read(const struct guest_files *f, int root)
{
	_cleanup_close_ int fd = guest_open_beneath(root, f->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	static uint8_t bytes[HF_EXEC_DATA_MAX];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return refuse(f, NULL);
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return refuse(f, "not a regular file");
	}
	if (reply(json_pack("{s:b, s:I, s:i}", "ok", 1, "size", (json_int_t)st.st_size, "mode",
			    (int)(st.st_mode & 07777))))
		return 1;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		if (frame(HF_EXEC_STDOUT, bytes, (size_t)n) < 0)
			return 1;
	if (n < 0)
		return frame(HF_EXEC_ERROR, strerror(errno), strlen(strerror(errno))) < 0;
	return frame(HF_EXEC_EOF, NULL, 0) < 0;
}

static int copy_input(int fd, int64_t *total)
{
	static uint8_t bytes[HF_EXEC_DATA_MAX];
	ssize_t n;

	while ((n = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0) {
		if (io_write_all(fd, bytes, (size_t)n) < 0)
			return -1;
		*total += n;
	}
	return n < 0 ? -1 : 0;
}

/* A new file beside the old one, renamed over it: readers see the old bytes or the new ones. */
static int do_write(const struct guest_files *f, int root)
{
	char copy[PATH_MAX], temp[64];
	const char *name;
	_cleanup_close_ int dir = open_parent(root, f->path, copy, &name);
	_cleanup_close_ int fd = -1;
	int64_t total = 0;
	struct stat st;

	if (dir < 0)
		return refuse(f, NULL);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!S_ISREG(st.st_mode)) {
			errno = EINVAL;
			return refuse(f, "not a regular file");
		}
	} else if (!f->create) {
		return refuse(f, NULL);
	}
	snprintf(temp, sizeof(temp), ".holdfast-%d", (int)getpid());
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, f->mode);
	if (fd < 0)
		return refuse(f, NULL);
	if (fchmod(fd, f->mode) < 0 || copy_input(fd, &total) < 0 || fsync(fd) < 0 ||
	    renameat(dir, temp, dir, name) < 0) {
		int saved = errno;

		unlinkat(dir, temp, 0);
		errno = saved;
		return refuse(f, NULL);
	}
	return reply(json_pack("{s:b, s:I}", "ok", 1, "bytes", (json_int_t)total));
}

static int do_mkdir(const struct guest_files *f, int root)
{
	char copy[PATH_MAX];
	const char *name;
	_cleanup_close_ int dir = open_parent(root, f->path, copy, &name);

	if (dir < 0 || mkdirat(dir, name, f->mode) < 0)
		return refuse(f, NULL);
	return reply(json_pack("{s:b}", "ok", 1));
}

static int do_remove(const struct guest_files *f, int root)
{
	char copy[PATH_MAX];
	const char *name;
	_cleanup_close_ int dir = open_parent(root, f->path, copy, &name);

	if (dir < 0 || (unlinkat(dir, name, 0) < 0 &&
			(errno != EISDIR || unlinkat(dir, name, AT_REMOVEDIR) < 0)))
		return refuse(f, NULL);
	return reply(json_pack("{s:b}", "ok", 1));
}

int guest_files_run(void *files)
{
	static int (*const run[])(const struct guest_files *, int) = { do_list, do_read, do_write, do_mkdir, do_remove };
	const struct guest_files *f = files;
	_cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return refuse(f, NULL);
	return run[f->verb](f, root);
}
