/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A linked git worktree whose repository lies outside of it (git-worktree(1), gitrepository-layout(5)).
 *
 * Its .git is a file that names a folder of the main repository, which the guest does not have. The guest is
 * given what a repository consists of (objects, refs, this worktree's HEAD and index) and makes the rest anew:
 * neither the host's hooks nor its configuration go in.
 *
 * A folder that came out of a guest may hold a .git file that names somebody else's repository. So the link
 * counts only when the repository, which no guest can write, links back to this very folder.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "lib/cleanup.h"

/* The first line of a file below dir, after prefix; 0, or -1. */
static int read_line(const char *dir, const char *name, const char *prefix, char *out, size_t size)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX], line[PATH_MAX];
	size_t skip = strlen(prefix);

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return -1;
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f) || strncmp(line, prefix, skip))
		return -1;
	line[strcspn(line, "\n")] = '\0';
	return snprintf(out, size, "%s", line + skip) < (int)size ? 0 : -1;
}

/* A path of a file of git's: as it is, or seen from dir. */
static int from_dir(const char *dir, const char *path, char *out, size_t size)
{
	return snprintf(out, size, "%s%s%s", *path == '/' ? "" : dir, *path == '/' ? "" : "/", path) < (int)size ? 0 : -1;
}

static bool same(const char *a, const char *b)
{
	_cleanup_free_ char *x = realpath(a, NULL), *y = realpath(b, NULL);

	return x && y && !strcmp(x, y);
}

/* Whether own is COMMON/worktrees/NAME and names dir's .git. */
static bool links_back(const char *dir, const struct worktree *w)
{
	char back[PATH_MAX], git[PATH_MAX + 8], above[PATH_MAX + 8], parent[PATH_MAX + 16], shared[PATH_MAX + 16];

	snprintf(git, sizeof(git), "%s/.git", dir);
	snprintf(above, sizeof(above), "%s/../..", w->own);
	snprintf(parent, sizeof(parent), "%s/..", w->own);
	snprintf(shared, sizeof(shared), "%s/worktrees", w->common);
	return read_line(w->own, "gitdir", "", back, sizeof(back)) == 0 && same(back, git) && same(above, w->common) &&
	       same(parent, shared);
}

bool worktree_find(const char *dir, struct worktree *w)
{
	char line[PATH_MAX];

	return read_line(dir, ".git", "gitdir: ", line, sizeof(line)) == 0 &&
	       from_dir(dir, line, w->own, sizeof(w->own)) == 0 &&
	       read_line(w->own, "commondir", "", line, sizeof(line)) == 0 &&
	       from_dir(w->own, line, w->common, sizeof(w->common)) == 0 && links_back(dir, w);
}

static int in_guest(const char *name, const char *script, const char *work)
{
	char *argv[] = { (char *)"sh", (char *)"-ec", (char *)script, (char *)"sh", (char *)work, NULL };
	struct exec_request request = { .argv = argv, .in_fd = -1, .out_fd = STDERR_FILENO };

	return exec_in(name, &request, NULL);
}

int worktree_copy(const struct worktree *w, const char *name, const char *work)
{
	const struct { const char *dir, *file; } parts[] = {
		{ w->common, "objects" }, { w->common, "refs" }, { w->common, "packed-refs" }, { w->common, "shallow" },
		{ w->own, "HEAD" }, { w->own, "index" },
	};
	int code = in_guest(name, "rm -rf \"$1/.git\" && mkdir \"$1/.git\"", work);

	for (size_t i = 0; !code && i < sizeof(parts) / sizeof(parts[0]); i++) {
		char from[PATH_MAX + 16], to[PATH_MAX];

		snprintf(from, sizeof(from), "%s/%s", parts[i].dir, parts[i].file);
		snprintf(to, sizeof(to), "%s/.git/%s", work, parts[i].file);
		if (access(from, R_OK) == 0)
			code = copy_into(name, from, to);
	}
	return code ? code : in_guest(name, "git init -q --template= \"$1\"", work);
}
