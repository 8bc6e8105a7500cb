// SPDX-License-Identifier: GPL-2.0-or-later
/* The profiles: what each confined process may do, as constants, and the rules for path lists. */
#include <stddef.h>
#include <string.h>

#include "lib/err.h"
#include "lib/sandbox/sandbox.h"

/* What any daemon of ours needs that runs an event loop and forks nothing. */
#define CLASSES_DAEMON                                                                                \
	(SANDBOX_CLASS_FD | SANDBOX_CLASS_FILE | SANDBOX_CLASS_MEMORY | SANDBOX_CLASS_TIME |          \
	 SANDBOX_CLASS_SIGNAL | SANDBOX_CLASS_PROCESS | SANDBOX_CLASS_NET | SANDBOX_CLASS_SCHED |     \
	 SANDBOX_CLASS_SANDBOX)

/* Applied while still root, without no_new_privs, so that sudo goes on working inside. */
const struct sandbox_profile sandbox_profile_guest_files = {
	.name = "guest-files",
	.landlock = true,
};

const struct sandbox_profile sandbox_profile_guest_strict = {
	.name = "guest-strict",
	.landlock = true,
	.scope_abstract = true,
	.scope_signal = true,
	.no_new_privs = true,
	.filters = SANDBOX_FILTERS_GUEST,
};

/* The API listens on a unix socket and, for the web page, on loopback. memfd: a module is verified and staged in
 * sealed memory. */
const struct sandbox_profile sandbox_profile_hostd = {
	.name = "hostd",
	.landlock = true,
	.no_new_privs = true,
	.filters = SANDBOX_FILTERS_ROLE,
	.allowed_classes = CLASSES_DAEMON | SANDBOX_CLASS_MEMFD,
	.role_inet = true,
};

/* memfd: guest memory of a device that is plugged again. No connect by TCP is denied: it is the NAT. */
const struct sandbox_profile sandbox_profile_vm = {
	.name = "vm",
	.landlock = true,
	.no_new_privs = true,
	.filters = SANDBOX_FILTERS_ROLE,
	.allowed_classes = CLASSES_DAEMON | SANDBOX_CLASS_MEMFD,
	.role_inet = true,
};

const struct sandbox_profile sandbox_profile_proxy = {
	.name = "proxy",
	.landlock = true,
	.scope_abstract = true,
	.scope_signal = true,
	.no_new_privs = true,
	.filters = SANDBOX_FILTERS_ROLE,
	.allowed_classes = CLASSES_DAEMON,
	.role_inet = true,
};

const struct sandbox_profile sandbox_profile_qemu = {
	.name = "qemu",
	.landlock = true,
	.deny_tcp_bind = true,
	.deny_tcp_connect = true,
	.no_new_privs = true,
	.filters = SANDBOX_FILTERS_NONE,
};

const struct sandbox_profile *sandbox_profile_find(const char *name)
{
	static const struct sandbox_profile *const all[] = {
		&sandbox_profile_guest_files, &sandbox_profile_guest_strict, &sandbox_profile_hostd,
		&sandbox_profile_vm, &sandbox_profile_proxy, &sandbox_profile_qemu,
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i]->name, name))
			return all[i];
	return NULL;
}

static bool is_plain(const char *path)
{
	for (const char *p = path; (p = strchr(p, '/')); p++)
		if (!strncmp(p, "//", 2) || (!strncmp(p, "/.", 2) && strchr("/", p[2])) ||
		    (!strncmp(p, "/..", 3) && strchr("/", p[3])))
			return false;
	return true;
}

/* Whether inner is outer or lies below it, component by component. */
bool sandbox_path_beneath(const char *inner, const char *outer)
{
	size_t n = strlen(outer);

	while (n > 1 && outer[n - 1] == '/')
		n--;
	if (n == 1)
		return true;
	return !strncmp(inner, outer, n) && (inner[n] == '/' || inner[n] == '\0');
}

/* Plumbing below the user's paths is no contradiction: only what the user wrote is judged. */
int sandbox_paths_check(const struct sandbox_path *paths, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (!paths[i].path || paths[i].path[0] != '/')
			return err_set(e, "path %s is not absolute", paths[i].path ? paths[i].path : "(none)");
		if (!is_plain(paths[i].path))
			return err_set(e, "path %s has empty or dot components", paths[i].path);
	}
	for (size_t i = 0; i < n; i++) {
		if (paths[i].access == SANDBOX_WRITE || paths[i].reason)
			continue;
		for (size_t k = 0; k < n; k++)
			if (paths[k].access == SANDBOX_WRITE && !paths[k].reason &&
			    sandbox_path_beneath(paths[i].path, paths[k].path))
				return err_set(e, "read_only %s lies in read_write %s, which gives no protection",
					       paths[i].path, paths[k].path);
	}
	return 0;
}
