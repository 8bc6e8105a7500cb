/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Workspaces on disk: one folder each, with settings, policy, identity and marks. */
#include "hostd/ws/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/ws/settings.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

static const struct json_limits mark_limits = { .bytes = 65536, .depth = 8, .values = 4096 };

bool ws_name_valid(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return n && n <= WS_NAME_MAX && !name[n] && name[0] >= 'a' && name[0] <= 'z' && name[n - 1] != '-';
}

int ws_name_check(const char *name, struct err *err)
{
	if (ws_name_valid(name))
		return 0;
	return err_set(err, "\"%.60s\" is no workspace name: 1 to %d of a-z, 0-9 and '-', beginning with a letter",
		       name, WS_NAME_MAX);
}

static int open_root(const struct paths *paths, struct err *err)
{
	int fd = open(paths->workspaces, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_errno(err, "open %s", paths->workspaces) : fd;
}

int ws_open(const struct paths *paths, const char *name, struct err *err)
{
	_cleanup_close_ int root = -1;
	int fd;

	if (ws_name_check(name, err))
		return -1;
	root = open_root(paths, err);
	if (root < 0)
		return -1;
	fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, "no workspace is named \"%s\" (holdfast ws list shows them)", name);
	return fd < 0 ? err_errno(err, "open workspace %s", name) : fd;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

json_t *ws_names(const struct paths *paths, struct err *err)
{
	DIR *dir = opendir(paths->workspaces);
	json_t *names = json_array();
	char **found = NULL;
	size_t n = 0;
	struct dirent *entry;

	if (!dir) {
		err_errno(err, "open %s", paths->workspaces);
		json_decref(names);
		return NULL;
	}
	while ((entry = readdir(dir))) {
		char **more;

		if (!ws_name_valid(entry->d_name))
			continue;
		more = realloc(found, (n + 1) * sizeof(*found));
		if (!more)
			break;
		found = more;
		found[n] = strdup(entry->d_name);
		if (found[n])
			n++;
	}
	closedir(dir);
	if (n)
		qsort(found, n, sizeof(*found), by_text);
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(names, json_string(found[i]));
		free(found[i]);
	}
	free(found);
	return names;
}

/* A locally administered unicast address of QEMU's prefix, random once and then kept. */
static json_t *new_identity(void)
{
	uint8_t r[3];
	char mac[18];

	if (getrandom(r, sizeof(r), 0) != sizeof(r))
		return NULL;
	snprintf(mac, sizeof(mac), "52:54:00:%02x:%02x:%02x", r[0], r[1], r[2]);
	return json_pack("{s:s}", "mac", mac);
}

static int fill(int dirfd, const json_t *settings, const char *policy, size_t policy_len, struct err *err)
{
	_cleanup_json_ json_t *identity = new_identity();

	if (!identity)
		return err_set(err, "no random numbers");
	if (settings_save(dirfd, settings, err) || ws_mark_write(dirfd, WS_MARK_IDENTITY, identity, err))
		return -1;
	return policy ? io_write_file_atomic(dirfd, "policy.yaml", policy, policy_len, 0600, err) : 0;
}

int ws_create(const struct paths *paths, const char *name, const json_t *settings, const char *policy,
	      size_t policy_len, struct err *err)
{
	_cleanup_close_ int root = -1, dir = -1;
	char tmp[WS_NAME_MAX + 16];

	if (ws_name_check(name, err))
		return -1;
	root = open_root(paths, err);
	if (root < 0)
		return -1;
	if (!faccessat(root, name, F_OK, AT_SYMLINK_NOFOLLOW))
		return err_set(err, "workspace \"%s\" exists already", name);
	snprintf(tmp, sizeof(tmp), ".new-%s", name);
	if (io_remove_tree(root, tmp, err))
		return -1;
	if (mkdirat(root, tmp, 0700))
		return err_errno(err, "make a folder for workspace %s", name);
	dir = openat(root, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_errno(err, "open %s", tmp);
	if (fill(dir, settings, policy, policy_len, err)) {
		io_remove_tree(root, tmp, NULL);
		return -1;
	}
	if (renameat(root, tmp, root, name) || fsync(root)) {
		err_errno(err, "make workspace %s", name);
		io_remove_tree(root, tmp, NULL);
		return -1;
	}
	return 0;
}

int ws_delete(const struct paths *paths, const char *name, struct err *err)
{
	_cleanup_close_ int root = open_root(paths, err);
	char tmp[WS_NAME_MAX + 16];

	if (root < 0 || ws_name_check(name, err))
		return -1;
	snprintf(tmp, sizeof(tmp), ".old-%s", name);
	if (io_remove_tree(root, tmp, err))
		return -1;
	if (renameat(root, name, root, tmp))
		return err_errno(err, "delete workspace %s", name);
	fsync(root);
	return io_remove_tree(root, tmp, err);
}

void ws_sweep(const struct paths *paths)
{
	_cleanup_close_ int root = open_root(paths, NULL);
	DIR *dir = opendir(paths->workspaces);
	struct dirent *entry;

	while (dir && root >= 0 && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, ".new-", 5) || !strncmp(entry->d_name, ".old-", 5))
			io_remove_tree(root, entry->d_name, NULL);
	if (dir)
		closedir(dir);
}

int ws_mark_read(int dirfd, const char *mark, json_t **out, struct err *err)
{
	struct buf text;

	*out = NULL;
	if (faccessat(dirfd, mark, F_OK, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : err_errno(err, "%s", mark);
	buf_init(&text, mark_limits.bytes);
	if (!io_read_file_at(dirfd, mark, &text, err))
		*out = json_parse(text.data, text.len, &mark_limits, err);
	buf_free(&text);
	return *out ? 0 : err_prefix(err, "%s", mark);
}

int ws_mark_write(int dirfd, const char *mark, const json_t *value, struct err *err)
{
	_cleanup_free_ char *text = json_text(value);

	if (!text)
		return err_set(err, "out of memory");
	return io_write_file_atomic(dirfd, mark, text, strlen(text), 0600, err);
}

int ws_mark_clear(int dirfd, const char *mark, struct err *err)
{
	if (unlinkat(dirfd, mark, 0) && errno != ENOENT)
		return err_errno(err, "remove %s", mark);
	return fsync(dirfd) ? err_errno(err, "sync the workspace") : 0;
}
