/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where this installation keeps its catalog, its first root and its memory; builds in progress. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/catalog/catalog.h"
#include "lib/catalog/internal.h"
#include "lib/cleanup.h"

#define ADMIN_ROOT "/etc/holdfast/catalog-root.json"
enum { PENDING_FRESH_S = 60 };

/* The folder that holds bin/, whose own place /proc knows. */
static int program_prefix(char *out, size_t room, struct err *err)
{
	ssize_t n = readlink("/proc/self/exe", out, room - 1);
	char *slash;

	if (n < 0)
		return err_errno(err, "no_catalog: /proc/self/exe");
	out[n] = '\0';
	for (int i = 0; i < 2; i++) {
		slash = strrchr(out, '/');
		if (!slash)
			return err_set(err, "no_catalog: the program has no place");
		*slash = '\0';
	}
	return 0;
}

static int modules_dir(char *out, size_t room, const char *prefix)
{
	const char *given = getenv("HOLDFAST_CATALOG");

	if (given && *given)
		return snprintf(out, room, "%s", given);
	snprintf(out, room, "%s/modules", prefix);
	if (!access(out, F_OK))
		return 0;
	return snprintf(out, room, "%s/share/holdfast/modules", prefix);
}

static void root_file(char *out, size_t room, const char *modules)
{
	const char *given = getenv("HOLDFAST_CATALOG_ROOT");
	const char *slash = strrchr(modules, '/');

	if (given && *given)
		snprintf(out, room, "%s", given);
	else if (!access(ADMIN_ROOT, F_OK))
		snprintf(out, room, "%s", ADMIN_ROOT);
	else
		snprintf(out, room, "%.*s/trust/root.json", slash ? (int)(slash - modules) : 1,
			 slash ? modules : ".");
}

static int state_folder(char *out, size_t room, struct err *err)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

	if (data && *data == '/')
		snprintf(out, room, "%s/holdfast/catalog", data);
	else if (home && *home == '/')
		snprintf(out, room, "%s/.local/share/holdfast/catalog", home);
	else
		return err_set(err, "no_catalog: neither XDG_DATA_HOME nor HOME is set");
	return 0;
}

int catalog_config_default(struct catalog_config *config, struct err *err)
{
	static char prefix[PATH_MAX], dir[PATH_MAX + 64], root[PATH_MAX + 128], state[PATH_MAX + 64];

	if (program_prefix(prefix, sizeof(prefix), err) || state_folder(state, sizeof(state), err))
		return -1;
	modules_dir(dir, sizeof(dir), prefix);
	root_file(root, sizeof(root), dir);
	*config = (struct catalog_config){.dir = dir, .root = root, .state_dir = state};
	return 0;
}

int catalog_pending(const struct catalog_config *config, const char *release,
		    struct catalog_pending *out)
{
	char path[CATALOG_PATH_MAX], text[128] = "";
	_cleanup_close_ int dirfd = -1, fd = -1;
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "pending/%s", release);
	dirfd = open(config->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = dirfd < 0 ? -1 : catalog_open_beneath(dirfd, path, NULL);
	if (fd < 0 || fstat(fd, &st) || time(NULL) - st.st_mtime > PENDING_FRESH_S)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	memset(out, 0, sizeof(*out));
	if (n < 0 || sscanf(text, "%u %u %63[ -~]", &out->done, &out->total, out->step) != 3)
		snprintf(out->step, sizeof(out->step), "building");
	return 1;
}
