/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where Holdfast keeps things: the XDG folders, the sockets, the shipped files. */
#include "hostd/ws/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/io.h"

static int join(char out[PATHS_MAX], const char *a, const char *b, struct err *err)
{
	if (snprintf(out, PATHS_MAX, "%s/%s", a, b) >= PATHS_MAX)
		return err_set(err, "%s/%s: path too long", a, b);
	return 0;
}

/* $VARIABLE/holdfast, or $HOME/FALLBACK/holdfast; relative values are ignored as the XDG text asks. */
static int xdg(char out[PATHS_MAX], const char *variable, const char *fallback, struct err *err)
{
	const char *base = getenv(variable);
	const char *home = getenv("HOME");
	char dir[PATHS_MAX];

	if (base && base[0] == '/')
		return join(out, base, "holdfast", err);
	if (!home || home[0] != '/')
		return err_set(err, "neither %s nor HOME is set to an absolute path", variable);
	if (join(dir, home, fallback, err))
		return -1;
	return join(out, dir, "holdfast", err);
}

static int private_folder(const char *path, struct err *err)
{
	struct stat st;

	if (io_mkdir_p(path, 0700, err))
		return -1;
	if (lstat(path, &st))
		return err_errno(err, "%s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
		return err_set(err, "%s: must be a folder of yours that no one else can enter (chmod 700)", path);
	return 0;
}

static int run_folder(char out[PATHS_MAX], struct err *err)
{
	const char *base = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	if (base && base[0] == '/')
		return join(out, base, "holdfast", err);
	snprintf(out, PATHS_MAX, "/run/user/%u", geteuid());
	if (!stat(out, &st) && st.st_uid == geteuid())
		snprintf(out, PATHS_MAX, "/run/user/%u/holdfast", geteuid());
	else
		snprintf(out, PATHS_MAX, "/tmp/holdfast-%u", geteuid());
	return 0;
}

static int program_folder(char out[PATHS_MAX], struct err *err)
{
	ssize_t n = readlink("/proc/self/exe", out, PATHS_MAX - 1);
	char *slash;

	if (n < 0)
		return err_errno(err, "readlink /proc/self/exe");
	out[n] = 0;
	slash = strrchr(out, '/');
	if (slash)
		*slash = 0;
	return 0;
}

static void parent(char path[PATHS_MAX])
{
	char *slash = strrchr(path, '/');

	if (slash && slash != path)
		*slash = 0;
}

/* PREFIX/share/holdfast beside an installed PREFIX/bin, share beside a built build/bin. */
static int shipped(struct paths *p, struct err *err)
{
	char up[PATHS_MAX];

	snprintf(up, sizeof(up), "%s", p->bin);
	parent(up);
	if (join(p->share, up, "share/holdfast", err))
		return -1;
	if (!access(p->share, F_OK))
		return 0;
	parent(up);
	return join(p->share, up, "share", err);
}

int paths_init(struct paths *p, struct err *err)
{
	const char *cache = getenv("HOLDFAST_CACHE");

	*p = (struct paths){ 0 };
	if (xdg(p->data, "XDG_DATA_HOME", ".local/share", err) ||
	    xdg(p->config, "XDG_CONFIG_HOME", ".config", err) || run_folder(p->run, err) ||
	    program_folder(p->bin, err) || shipped(p, err))
		return -1;
	if (cache && cache[0] == '/')
		snprintf(p->cache, sizeof(p->cache), "%s", cache);
	else if (xdg(p->cache, "XDG_CACHE_HOME", ".cache", err))
		return -1;
	if (join(p->workspaces, p->data, "workspaces", err) || join(p->store, p->data, "store", err) ||
	    join(p->api, p->run, "api.sock", err))
		return -1;
	if (private_folder(p->data, err) || private_folder(p->config, err) ||
	    private_folder(p->run, err) || private_folder(p->workspaces, err) ||
	    private_folder(p->store, err))
		return -1;
	return 0;
}
