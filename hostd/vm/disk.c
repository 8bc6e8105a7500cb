/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The disks of a workspace: overlay, home, their checkpoints, and the lock that owns them. */
#include "hostd/vm/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/vm/tool.h"
#include "lib/cleanup.h"
#include "lib/json.h"

enum { PATH_BYTES = 4096 };

static const struct json_limits info_limits = { .bytes = TOOL_OUTPUT_MAX, .depth = 16,
						.values = 16384 };
static const char *const disks[] = { DISK_ROOT, DISK_HOME };

static int path_of(char *out, const char *dir, const char *name, struct err *err)
{
	if (snprintf(out, PATH_BYTES, "%s/%s", dir, name) >= PATH_BYTES)
		return err_set(err, "%s: path is too long", dir);
	return 0;
}

int disk_lock(const char *dir, struct err *err)
{
	char path[PATH_BYTES];
	int fd;

	if (path_of(path, dir, DISK_LOCK, err))
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			err_set(err, "its VM runs already, or its disks are being worked on");
		else
			err_errno(err, "lock %s", path);
		close(fd);
		return -1;
	}
	return fd;
}

/* Makes `path` by way of a temporary name, so that a half-made disk is never used. */
static int make(const char *path, int (*fill)(const char *tmp, const void *arg, struct err *err),
		const void *arg, struct err *err)
{
	char tmp[PATH_BYTES + 8];

	if (!access(path, F_OK))
		return 0;
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	unlink(tmp);
	if (fill(tmp, arg, err)) {
		unlink(tmp);
		return -1;
	}
	if (rename(tmp, path)) {
		err_errno(err, "%s", path);
		unlink(tmp);
		return -1;
	}
	return 0;
}

static int fill_root(const char *tmp, const void *arg, struct err *err)
{
	const char *base = arg;
	const char *const argv[] = { "qemu-img", "create", "-q",   "-f", "qcow2", "-F",
				     "qcow2",	 "-b",	   base, tmp,  NULL };

	return tool_run(argv, NULL, err);
}

static int fill_home(const char *tmp, const void *arg, struct err *err)
{
	uint64_t bytes = *(const uint64_t *)arg;
	char raw[PATH_BYTES + 16];
	const char *const mkfs[] = { "mke2fs", "-q",	  "-t", "ext4", "-F",  "-L",
				     "hf-home", "-m", "0",	"-E", "lazy_itable_init=1,lazy_journal_init=1,discard,root_owner=0:0",
				     raw,	NULL };
	const char *const convert[] = { "qemu-img", "convert", "-q", "-f", "raw", "-O",
					"qcow2", raw, tmp, NULL };
	_cleanup_close_ int fd = -1;
	int rc;

	snprintf(raw, sizeof(raw), "%s.raw", tmp);
	fd = open(raw, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		rc = err_errno(err, "%s", raw);
	else
		rc = tool_run(mkfs, NULL, err) || tool_run(convert, NULL, err) ? -1 : 0;
	unlink(raw);
	return rc;
}

int disk_prepare(const char *dir, const char *base, uint64_t home_bytes, struct err *err)
{
	char root[PATH_BYTES], home[PATH_BYTES];
	mode_t mask = umask(077);
	int rc;

	if (path_of(root, dir, DISK_ROOT, err) || path_of(home, dir, DISK_HOME, err))
		rc = -1;
	else if (access(root, F_OK) && access(base, R_OK))
		rc = err_errno(err, "base image %s", base);
	else
		rc = make(root, fill_root, base, err) || make(home, fill_home, &home_bytes, err) ? -1 : 0;
	umask(mask);
	return rc;
}

/* ---- Checkpoints ---- */

bool disk_name_ok(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n && n < DISK_NAME_MAX && !name[n] && name[0] != '-' && name[0] != '.';
}

static int snapshot(const char *dir, const char *disk, const char *verb, const char *name,
		    struct err *err)
{
	char path[PATH_BYTES];
	const char *const argv[] = { "qemu-img", "snapshot", "-q", verb, name, path, NULL };

	return path_of(path, dir, disk, err) ? -1 : tool_run(argv, NULL, err);
}

static json_t *snapshots_of(const char *dir, const char *disk, struct err *err)
{
	char path[PATH_BYTES];
	const char *const argv[] = { "qemu-img", "info", "--output=json", path, NULL };
	json_t *list = NULL;
	struct buf out;

	if (path_of(path, dir, disk, err))
		return NULL;
	buf_init(&out, TOOL_OUTPUT_MAX);
	if (!tool_run(argv, &out, err)) {
		_cleanup_json_ json_t *info = json_parse(out.data, out.len, &info_limits, err);

		if (info) {
			list = json_incref(json_object_get(info, "snapshots"));
			if (!list)
				list = json_array();
		}
	}
	buf_free(&out);
	return list;
}

static const json_t *find(const json_t *list, const char *name)
{
	const json_t *s;
	size_t i;

	json_array_foreach(list, i, s) {
		const char *n = json_string_value(json_object_get(s, "name"));

		if (n && !strcmp(n, name))
			return s;
	}
	return NULL;
}

json_t *disk_list(const char *dir, struct err *err)
{
	_cleanup_json_ json_t *root = snapshots_of(dir, DISK_ROOT, err);
	_cleanup_json_ json_t *home = root ? snapshots_of(dir, DISK_HOME, err) : NULL;
	json_t *both = home ? json_array() : NULL;
	const json_t *s;
	size_t i;

	json_array_foreach(root, i, s) {
		const char *name = json_string_value(json_object_get(s, "name"));

		/* One that is on one disk only was cut short while it was made. */
		if (both && name && find(home, name))
			json_array_append_new(both, json_pack("{s:s, s:I}", "name", name, "time",
							      json_integer_value(json_object_get(
								      s, "date-sec"))));
	}
	return both;
}

int disk_checkpoint(const char *dir, const char *name, struct err *err)
{
	_cleanup_json_ json_t *list = NULL;

	if (!disk_name_ok(name))
		return err_set(err, "checkpoint name may hold letters, digits, '.', '_' and '-'");
	list = disk_list(dir, err);
	if (!list)
		return -1;
	if (find(list, name))
		return err_set(err, "checkpoint %s is there already", name);
	if (json_array_size(list) >= DISK_CHECKPOINTS_MAX)
		return err_set(err, "there are %d checkpoints already", DISK_CHECKPOINTS_MAX);
	/* Left over from one that was cut short. */
	snapshot(dir, DISK_ROOT, "-d", name, NULL);
	snapshot(dir, DISK_HOME, "-d", name, NULL);
	return snapshot(dir, DISK_ROOT, "-c", name, err) || snapshot(dir, DISK_HOME, "-c", name, err) ? -1 :
													 0;
}

int disk_state_drop(const char *dir, struct err *err)
{
	static const char *const names[] = { DISK_STATE, DISK_STATE_INFO };
	char path[PATH_BYTES];

	for (int i = 0; i < 2; i++) {
		if (path_of(path, dir, names[i], err))
			return -1;
		if (unlink(path) && errno != ENOENT)
			return err_errno(err, "remove %s", path);
	}
	return 0;
}

int disk_rollback(const char *dir, const char *name, struct err *err)
{
	_cleanup_json_ json_t *list = disk_list(dir, err);

	if (!list)
		return -1;
	if (!find(list, name))
		return err_set(err, "there is no checkpoint %s", name);
	if (disk_state_drop(dir, err))
		return -1;
	return snapshot(dir, DISK_ROOT, "-a", name, err) || snapshot(dir, DISK_HOME, "-a", name, err) ? -1 :
													 0;
}

int disk_drop(const char *dir, const char *name, struct err *err)
{
	_cleanup_json_ json_t *list = disk_list(dir, err);

	if (!list)
		return -1;
	if (!find(list, name))
		return err_set(err, "there is no checkpoint %s", name);
	return snapshot(dir, DISK_ROOT, "-d", name, err) || snapshot(dir, DISK_HOME, "-d", name, err) ? -1 :
													 0;
}

void disk_thin_pick(const int64_t *time_s, size_t n, int64_t now_s, bool *drop)
{
	const int64_t day = 86400, week = 7 * day;
	bool day_has[DISK_KEEP_DAYS] = { false };
	bool week_has[DISK_KEEP_WEEKS] = { false };

	for (size_t i = n; i-- > 0;) {
		int64_t age = now_s > time_s[i] ? now_s - time_s[i] : 0;
		bool keep = n - i <= DISK_KEEP_BOOTS;

		if (age / day < DISK_KEEP_DAYS && !day_has[age / day])
			keep = day_has[age / day] = true;
		if (age / week < DISK_KEEP_WEEKS && !week_has[age / week])
			keep = week_has[age / week] = true;
		drop[i] = !keep;
	}
}

int disk_thin(const char *dir, int64_t now_s, struct err *err)
{
	_cleanup_json_ json_t *list = disk_list(dir, err);
	const char *name[DISK_CHECKPOINTS_MAX];
	int64_t time_s[DISK_CHECKPOINTS_MAX];
	bool drop[DISK_CHECKPOINTS_MAX];
	size_t n = 0, i;
	const json_t *s;

	if (!list)
		return -1;
	json_array_foreach(list, i, s) {
		const char *text = json_string_value(json_object_get(s, "name"));

		if (n == DISK_CHECKPOINTS_MAX || strncmp(text, "boot-", 5))
			continue;
		name[n] = text;
		time_s[n++] = json_integer_value(json_object_get(s, "time"));
	}
	disk_thin_pick(time_s, n, now_s, drop);
	for (i = 0; i < n; i++)
		if (drop[i] && disk_drop(dir, name[i], err))
			return -1;
	return 0;
}

int disk_reset(const char *dir, struct err *err)
{
	char path[PATH_BYTES];

	if (disk_state_drop(dir, err) || path_of(path, dir, DISK_ROOT, err))
		return -1;
	return unlink(path) && errno != ENOENT ? err_errno(err, "remove %s", path) : 0;
}

int disk_usage(const char *dir, uint64_t *root_bytes, uint64_t *home_bytes, struct err *err)
{
	uint64_t *out[] = { root_bytes, home_bytes };
	char path[PATH_BYTES];
	struct stat st;

	for (int i = 0; i < 2; i++) {
		if (path_of(path, dir, disks[i], err))
			return -1;
		if (stat(path, &st))
			return err_errno(err, "%s", path);
		*out[i] = (uint64_t)st.st_blocks * 512;
	}
	return 0;
}
