/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * holdfast evidence export: what is left of a workspace that stands still, into one folder, with digests.
 *
 * SHA256SUMS is in the form that sha256sum -c reads; its own digest is a row of the (signed) timeline, written last, so
 * that a folder can be held against the row whenever its origin is asked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "hostd/cli/timeline_cmd.h"
#include "lib/cleanup.h"
#include "lib/hash.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/loop.h"

#define SUMS "SHA256SUMS"

static const char usage[] = "evidence export WS --out DIR [--ram] [--json]";

struct evidence {
	const char *ws;
	int from, to; /* the workspace's folder, and the new one */
	struct buf sums;
	char stand[64]; /* hostd's word for the time in which it stands still */
	unsigned files;
	uint64_t bytes, start_ms;
};

static void progress(const struct evidence *ev, const char *what, const char *name)
{
	cli_progress("%6.1f s  %s%s", (double)(loop_now_ms() - ev->start_ms) / 1000, what, name);
}

/* ---- copying ---- */

static int copy_piece(int in, int out, off_t at, off_t end)
{
	while (at < end) {
		loff_t from = at, to = at;
		ssize_t n = copy_file_range(in, &from, out, &to, (size_t)(end - at), 0);
		char block[65536];

		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS)) {
			n = pread(in, block, (size_t)(end - at) < sizeof(block) ? (size_t)(end - at) : sizeof(block), at);
			if (n > 0)
				n = pwrite(out, block, (size_t)n, at);
		}
		if (n <= 0)
			return -1;
		at += n;
	}
	return 0;
}

/* Holes stay holes. */
static int copy_fd(int in, int out)
{
	off_t end = lseek(in, 0, SEEK_END), at = 0;

	while (at < end) {
		off_t data = lseek(in, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(in, data, SEEK_HOLE);
		if (hole < 0 || copy_piece(in, out, data, hole))
			return -1;
		at = hole;
	}
	return end < 0 || ftruncate(out, end) || fsync(out) ? -1 : 0;
}

static int new_file(const struct evidence *ev, const char *name, struct err *err)
{
	int fd = openat(ev->to, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? err_errno(err, "%s", name) : fd;
}

/* One line of SHA256SUMS. */
static int note_sum(struct evidence *ev, const char *name, struct err *err)
{
	_cleanup_close_ int fd = openat(ev->to, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint8_t digest[HASH_BYTES];
	char hex[HASH_HEX];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || hash_sha256_fd(digest, fd, err))
		return fd < 0 ? err_errno(err, "%s", name) : -1;
	hex_encode(hex, digest, sizeof(digest));
	ev->files++;
	ev->bytes += (uint64_t)st.st_size;
	return buf_putf(&ev->sums, "%s  %s\n", hex, name) ? err_set(err, "too many files") : 0;
}

static int put_copy(struct evidence *ev, int in, const char *name, struct err *err)
{
	_cleanup_close_ int out = new_file(ev, name, err);

	if (out < 0)
		return -1;
	progress(ev, "copying ", name);
	return copy_fd(in, out) ? err_errno(err, "%s", name) : note_sum(ev, name, err);
}

static int put_text(struct evidence *ev, const char *name, const char *text, struct err *err)
{
	if (!text)
		return err_set(err, "out of memory");
	return io_write_file_atomic(ev->to, name, text, strlen(text), 0600, err) ? -1 : note_sum(ev, name, err);
}

/* A file of the workspace; one that is not there is left out. */
static int put_file(struct evidence *ev, const char *name, struct err *err)
{
	_cleanup_close_ int in = openat(ev->from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (in < 0)
		return errno == ENOENT ? 0 : err_errno(err, "%s", name);
	return put_copy(ev, in, name, err);
}

/* ---- the parts ---- */

static int put_state(struct evidence *ev, bool ram, struct err *err)
{
	const char *stand;
	_cleanup_json_ json_t *state = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	int passed = -1;

	if (ram)
		progress(ev, "writing the RAM image", "");
	state = api_client_call_fd(cli_hostd(), "evidence.begin",
				   json_pack("{s:s,s:b,s:s}", "name", ev->ws, "ram", ram, "author", cli_author()), &passed,
				   err);
	fd = passed;
	if (!state || json_get_str(state, "stand", &stand, err))
		return -1;
	snprintf(ev->stand, sizeof(ev->stand), "%s", stand);
	json_object_del(state, "stand");
	if (ram && fd < 0)
		return err_set(err, "hostd gave no RAM image");
	text = json_dumps(state, JSON_INDENT(2) | JSON_SORT_KEYS);
	if (put_text(ev, "workspace.json", text, err))
		return -1;
	return ram ? put_copy(ev, fd, "ram.elf", err) : 0;
}

static int put_policies(struct evidence *ev, struct err *err)
{
	_cleanup_json_ json_t *history = NULL;
	_cleanup_free_ char *text = NULL;

	history = api_client_call(cli_hostd(), "policy.history", json_pack("{s:s}", "name", ev->ws), NULL, NULL, err);
	if (!history)
		return -1;
	text = json_dumps(history, JSON_INDENT(2) | JSON_SORT_KEYS);
	return put_text(ev, "policy-history.json", text, err);
}

static int put_timeline(struct evidence *ev, const char *dir, struct err *err)
{
	struct query q = { .ws = ev->ws, .all = true };
	struct export_totals totals;
	char path[PATHS_MAX + 32];

	progress(ev, "exporting the timeline", "");
	if ((size_t)snprintf(path, sizeof(path), "%s/timeline.jsonl", dir) >= sizeof(path))
		return err_set(err, "%s: the path is too long", dir);
	return timeline_export_to(path, &q, true, &totals, err) ? -1 : note_sum(ev, "timeline.jsonl", err);
}

static int put_all(struct evidence *ev, const char *dir, bool ram, struct err *err)
{
	static const char *const files[] = { "disk.qcow2", "home.qcow2", "policy.yaml", "console.log" };

	if (put_state(ev, ram, err))
		return -1;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (put_file(ev, files[i], err))
			return -1;
	return put_policies(ev, err) || put_timeline(ev, dir, err) ? -1 : 0;
}

/* The digests, then the row that has theirs. */
static int finish(struct evidence *ev, const char *dir, char hex[HASH_HEX], struct err *err)
{
	uint8_t digest[HASH_BYTES];
	json_t *result;

	if (io_write_file_atomic(ev->to, SUMS, ev->sums.data, ev->sums.len, 0600, err))
		return -1;
	hash_sha256(digest, ev->sums.data, ev->sums.len);
	hex_encode(hex, digest, sizeof(digest));
	result = api_client_call(cli_hostd(), "evidence.done",
				 json_pack("{s:s,s:s,s:s,s:s,s:s}", "name", ev->ws, "stand", ev->stand, "file", dir,
					   "sha256", hex, "author", cli_author()), NULL, NULL, err);
	json_decref(result);
	return result ? 0 : -1;
}

static int open_places(struct evidence *ev, const char *dir, struct err *err)
{
	char from[PATHS_MAX + 256];

	snprintf(from, sizeof(from), "%s/%s", cli_paths()->workspaces, ev->ws);
	ev->from = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ev->from < 0)
		return err_set(err, "no workspace is named \"%s\"", ev->ws);
	if (mkdir(dir, 0700))
		return err_errno(err, "%s", dir);
	ev->to = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return ev->to < 0 ? err_errno(err, "%s", dir) : 0;
}

static int export_evidence(const char *ws, const char *dir, bool ram, bool json)
{
	struct evidence ev = { .ws = ws, .from = -1, .to = -1, .start_ms = loop_now_ms() };
	struct err err = { "" };
	char hex[HASH_HEX];
	int rc;

	buf_init(&ev.sums, 65536);
	rc = open_places(&ev, dir, &err);
	if (!rc) {
		rc = put_all(&ev, dir, ram, &err) || finish(&ev, dir, hex, &err) ? -1 : 0;
		cli_progress_end();
		if (rc)
			io_remove_tree(AT_FDCWD, dir, NULL); /* half of it would be taken for all */
	}
	close(ev.from);
	close(ev.to);
	buf_free(&ev.sums);
	if (rc)
		return cli_fail(&err);
	if (json)
		cli_print_json(json_pack("{s:s,s:s,s:i,s:I,s:s}", "workspace", ws, "dir", dir, "files", (int)ev.files,
					 "bytes", (json_int_t)ev.bytes, "sha256", hex));
	else
		printf("%s: %u files, %llu bytes; check them with: cd %s && sha256sum -c " SUMS "\n"
		       "the timeline names the digest of " SUMS ": %s\n",
		       dir, ev.files, (unsigned long long)ev.bytes, dir, hex);
	return CLI_OK;
}

int cmd_evidence(int argc, char **argv)
{
	bool ram = false, json = false;
	const char *out = NULL;
	const struct cli_option options[] = {
		{ "out", NULL, &out, NULL },
		{ "ram", &ram, NULL, NULL },
		{ "json", &json, NULL, NULL },
		{ NULL, NULL, NULL, NULL },
	};
	int rc = cli_parse(&argc, &argv, options, NULL, usage);

	if (rc)
		return rc;
	if (argc != 2 || strcmp(argv[0], "export") || !out || strchr(argv[1], '/'))
		return cli_usage(usage);
	return export_evidence(argv[1], out, ram, json);
}
