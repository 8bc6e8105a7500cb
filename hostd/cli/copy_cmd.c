/* SPDX-License-Identifier: GPL-2.0-or-later */
/* holdfast cp: files and trees between host and guest, as a tar stream over exec. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "lib/cleanup.h"
#include "lib/sandbox/sandbox.h"

#define USAGE "cp FROM TO   (one of them WS:PATH)"

/*
 * Theory of operation. The guest's side is tar, run like any other command, under the session's own
 * confinement. The host's side is libarchive in a child. What comes from a guest is hostile: the child
 * may write below the destination's folder only (Landlock), takes regular files, directories and links
 * alone, never follows a link, refuses absolute names and "..", and drops setuid, setgid and sticky bits.
 */
struct place {
	char ws[48]; /* empty: the host */
	const char *path;
};

static int parse_place(struct place *place, const char *text)
{
	const char *colon = strchr(text, ':'), *slash = strchr(text, '/');

	*place = (struct place){ .path = text };
	if (!colon || (slash && slash < colon))
		return 0;
	if ((size_t)(colon - text) >= sizeof(place->ws))
		return -1;
	memcpy(place->ws, text, (size_t)(colon - text));
	place->path = colon + 1;
	return *place->path ? 0 : -1;
}

/* ---- guest to host ---- */

/* The entry's name with its first component replaced; NULL when it is not below what was asked for. */
static char *renamed(const char *name, const char *top)
{
	const char *rest = name + strcspn(name, "/");
	char *out;

	if (name[0] == '/' || !*name || asprintf(&out, "%s%s", top, rest) < 0)
		return NULL;
	return out;
}

static int extract_entry(struct archive *in, struct archive *out, struct archive_entry *entry, const char *top)
{
	mode_t type = archive_entry_filetype(entry);
	const char *link = archive_entry_hardlink(entry);
	_cleanup_free_ char *name = renamed(archive_entry_pathname(entry) ? : "", top);
	_cleanup_free_ char *link_name = link ? renamed(link, top) : NULL;
	const void *block;
	size_t n;
	la_int64_t at;
	int rc;

	if (!name || (link && !link_name) ||
	    (!link && type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK)) {
		fprintf(stderr, "holdfast: left out, since it is no file, folder or link: ");
		cli_put_text(stderr, archive_entry_pathname(entry) ? : "?");
		fputc('\n', stderr);
		return 0;
	}
	archive_entry_set_pathname(entry, name);
	if (link)
		archive_entry_set_hardlink(entry, link_name);
	archive_entry_set_perm(entry, archive_entry_perm(entry) & 0777);
	if (archive_write_header(out, entry) < ARCHIVE_WARN)
		return -1;
	while ((rc = archive_read_data_block(in, &block, &n, &at)) == ARCHIVE_OK)
		if (archive_write_data_block(out, block, n, at) < ARCHIVE_WARN)
			return -1;
	return rc == ARCHIVE_EOF && archive_write_finish_entry(out) >= ARCHIVE_WARN ? 0 : -1;
}

static int extract(int from, const char *top, struct err *err)
{
	struct archive *in = archive_read_new(), *out = archive_write_disk_new();
	struct archive_entry *entry;
	int rc;

	archive_read_support_format_tar(in);
	archive_write_disk_set_options(out, ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_TIME |
					    ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT |
					    ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS);
	rc = archive_read_open_fd(in, from, 65536);
	while (rc == ARCHIVE_OK && (rc = archive_read_next_header(in, &entry)) == ARCHIVE_OK)
		if (extract_entry(in, out, entry, top)) {
			err_set(err, "%s", archive_error_string(out) ? : archive_error_string(in) ? : "refused");
			rc = ARCHIVE_FATAL;
		}
	if (rc != ARCHIVE_EOF && !err->text[0])
		err_set(err, "%s", archive_error_string(in) ? : "not a tar stream");
	archive_read_free(in);
	archive_write_free(out);
	return rc == ARCHIVE_EOF ? 0 : -1;
}

/* The folder to write in, and the name of the copy in it. */
static int destination(const char *to, const char *from, char **dir, char **top, struct err *err)
{
	_cleanup_free_ char *a = strdup(to), *b = strdup(to), *c = strdup(from);
	struct stat st;

	if (!a || !b || !c)
		return err_set(err, "out of memory");
	if (!stat(to, &st) && S_ISDIR(st.st_mode)) {
		*dir = realpath(to, NULL);
		*top = strdup(basename(c));
	} else {
		*dir = realpath(dirname(a), NULL);
		*top = strdup(basename(b));
	}
	if (!*dir)
		return err_errno(err, "%s", to);
	if (!*top || !strcmp(*top, "/") || !strcmp(*top, "..") || !strcmp(*top, "."))
		return err_set(err, "%s: name the copy", to);
	return 0;
}

/* In the child; never returns. */
static void receive(int from, const char *dir, const char *top)
{
	const struct sandbox_path paths[] = { { .path = dir, .access = SANDBOX_WRITE, .reason = "destination" } };
	struct sandbox_profile profile = sandbox_profile_vm;
	struct sandbox_report report = { 0 };
	struct err err = { "" };

	profile.paths = paths;
	profile.path_count = 1;
	if (chdir(dir) || (strcmp(dir, "/") && sandbox_apply(&profile, &report, &err)) || extract(from, top, &err)) {
		fprintf(stderr, "holdfast: %s/%s: %s\n", dir, top, err.text[0] ? err.text : strerror(errno));
		_exit(CLI_FAILED);
	}
	_exit(CLI_OK);
}

static int finish_child(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return CLI_FAILED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
}

static int run_guest(const char *ws, char **argv, int in_fd, int out_fd)
{
	struct exec_request request = { .argv = argv, .in_fd = in_fd, .out_fd = out_fd };
	struct err err = { "" };
	int fd = exec_open(ws, "holdfast cp"), code;

	if (fd < 0)
		return CLI_FAILED;
	code = exec_session(fd, &request, &err);
	return err.text[0] ? cli_fail(&err) : code;
}

static int from_guest(const struct place *from, const char *to)
{
	/* dirname and basename happen in the guest, whose rules for links they follow. */
	char script[] = "exec tar -C \"$(dirname -- \"$1\")\" -cf - -- \"$(basename -- \"$1\")\"";
	char *argv[] = { (char *)"sh", (char *)"-c", script, (char *)"sh", (char *)from->path, NULL };
	_cleanup_free_ char *dir = NULL, *top = NULL;
	struct err err = { "" };
	int pipe_fds[2], code, received;
	pid_t pid;

	if (destination(to, from->path, &dir, &top, &err))
		return cli_fail(&err);
	if (pipe2(pipe_fds, O_CLOEXEC) || (pid = fork()) < 0) {
		err_errno(&err, "start the copy");
		return cli_fail(&err);
	}
	if (!pid) {
		close(pipe_fds[1]);
		receive(pipe_fds[0], dir, top);
	}
	close(pipe_fds[0]);
	code = run_guest(from->ws, argv, -1, pipe_fds[1]);
	close(pipe_fds[1]);
	received = finish_child(pid);
	return code ? code : received;
}

/* ---- host to guest ---- */

static int add_tree(struct archive *out, struct archive *disk, const char *base, struct err *err)
{
	static char block[65536];
	struct archive_entry *entry = archive_entry_new();
	int rc;

	while ((rc = archive_read_next_header2(disk, entry)) == ARCHIVE_OK) {
		ssize_t got;
		int fd;

		if (archive_entry_filetype(entry) == AE_IFDIR)
			archive_read_disk_descend(disk);
		if (archive_write_header(out, entry) < ARCHIVE_WARN)
			break;
		fd = archive_entry_size(entry) ? open(archive_entry_sourcepath(entry), O_RDONLY | O_CLOEXEC |
						      O_NOFOLLOW) : -1;
		while (fd >= 0 && (got = read(fd, block, sizeof(block))) > 0)
			archive_write_data(out, block, (size_t)got);
		if (fd >= 0)
			close(fd);
		archive_entry_clear(entry);
	}
	archive_entry_free(entry);
	if (rc != ARCHIVE_EOF)
		return err_set(err, "%s: %s", base, archive_error_string(disk) ? : archive_error_string(out) ? : "?");
	return 0;
}

/* In the child: the tree's parent is the working folder, so names begin with the tree's own. */
static void send_tree(int to, const char *path)
{
	_cleanup_free_ char *a = strdup(path), *b = strdup(path);
	struct archive *out = archive_write_new(), *disk = archive_read_disk_new();
	struct err err = { "" };
	const char *base = basename(b);
	int rc;

	archive_write_set_format_pax_restricted(out);
	archive_read_disk_set_symlink_physical(disk);
	archive_read_disk_set_standard_lookup(disk);
	rc = chdir(dirname(a)) || archive_write_open_fd(out, to) != ARCHIVE_OK ||
	     archive_read_disk_open(disk, base) != ARCHIVE_OK;
	if (rc)
		err_set(&err, "%s: %s", path, archive_error_string(disk) ? : strerror(errno));
	else
		rc = add_tree(out, disk, base, &err);
	archive_read_free(disk);
	if (archive_write_close(out) != ARCHIVE_OK && !rc)
		rc = err_set(&err, "%s: %s", path, archive_error_string(out) ? : "?");
	archive_write_free(out);
	if (rc)
		fprintf(stderr, "holdfast: %s\n", err.text);
	_exit(rc ? CLI_FAILED : CLI_OK);
}

static int to_guest(const char *from, const struct place *to)
{
	/* Into a folder of its own first, so that a broken copy never stands where a whole one was. */
	char script[] = "set -e; if [ -d \"$1\" ]; then d=$1 n=$2; else d=$(dirname -- \"$1\"); "
			"n=$(basename -- \"$1\"); fi; t=$(mktemp -d -- \"$d/.holdfast-cp.XXXXXX\"); "
			"trap 'rm -rf -- \"$t\"' EXIT; tar -C \"$t\" --no-same-owner -xpf -; "
			"mv -T -- \"$t/$2\" \"$d/$n\"";
	_cleanup_free_ char *copy = strdup(from), *whole = realpath(from, NULL);
	char *argv[] = { (char *)"sh", (char *)"-c", script, (char *)"sh", (char *)to->path, basename(copy), NULL };
	struct err err = { "" };
	int pipe_fds[2], code, sent;
	struct stat st;
	pid_t pid;

	if (lstat(from, &st) || !whole) {
		err_errno(&err, "%s", from);
		return cli_fail(&err);
	}
	if (pipe2(pipe_fds, O_CLOEXEC) || (pid = fork()) < 0) {
		err_errno(&err, "start the copy");
		return cli_fail(&err);
	}
	if (!pid) {
		close(pipe_fds[0]);
		send_tree(pipe_fds[1], from);
	}
	close(pipe_fds[1]);
	code = run_guest(to->ws, argv, pipe_fds[0], STDOUT_FILENO);
	close(pipe_fds[0]);
	sent = finish_child(pid);
	return code ? code : sent;
}

int copy_into(const char *name, const char *from, const char *to)
{
	struct place place = { .path = to };

	snprintf(place.ws, sizeof(place.ws), "%s", name);
	return to_guest(from, &place);
}

int cmd_cp(int argc, char **argv)
{
	const struct cli_option options[] = { { NULL, NULL, NULL, NULL } };
	struct place from, to;
	int rc = cli_parse(&argc, &argv, options, NULL, USAGE);

	if (rc)
		return rc;
	if (argc != 2 || parse_place(&from, argv[0]) || parse_place(&to, argv[1]) || !*from.ws == !*to.ws)
		return cli_usage(USAGE);
	return *from.ws ? from_guest(&from, to.path) : to_guest(from.path, &to);
}
