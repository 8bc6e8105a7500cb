// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses guest-spec.json, strictly: every key is known and every contradiction is refused. */
#include "sandboxd/spec.h"

#include <stdlib.h>
#include <string.h>

#include <holdfast/guest.h>
#include "lib/json.h"

enum { SPEC_PATHS_MAX = 256 };

static const char *const level_names[] = { "observe", "files", "strict" };
static const char *const sentry_names[] = { "off", "best_effort", "required" };
static const char *const compat_names[] = { "best_effort", "hard_requirement" };

const char *guest_level_name(enum guest_level level)
{
	return level_names[level];
}

const char *guest_sentry_name(enum guest_sentry mode)
{
	return sentry_names[mode];
}

static int choose(const char *key, const char *value, const char *const *names, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], value))
			return (int)i;
	return err_set(e, "%s: \"%s\" is none of its values", key, value);
}

static int copy(char **out, const char *s, struct err *e)
{
	*out = strdup(s);
	return *out ? 0 : err_errno(e, "spec");
}

/* An optional section. 1 when it is there with only these keys, 0 when it is absent. */
static int section(const json_t *root, const char *key, const char *const *keys, json_t **out, struct err *e)
{
	*out = json_object_get(root, key);
	if (!*out || json_is_null(*out))
		return 0;
	if (!json_is_object(*out))
		return err_set(e, "%s: not an object", key);
	if (json_only_keys(*out, keys, e) < 0)
		return err_prefix(e, "%s", key);
	return 1;
}

static int parse_paths(const json_t *o, const char *key, char ***out, size_t *count, struct err *e)
{
	json_t *list = json_object_get(o, key), *item;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > SPEC_PATHS_MAX)
		return err_set(e, "filesystem.%s: not a list of at most %d paths", key, SPEC_PATHS_MAX);
	*out = calloc(json_array_size(list) + 1, sizeof(char *));
	if (!*out)
		return err_errno(e, "spec");
	json_array_foreach(list, i, item) {
		const char *path = json_string_value(item);

		if (!path || path[0] != '/')
			return err_set(e, "filesystem.%s[%zu]: not an absolute path", key, i);
		if (!strcmp(path, "/"))
			return err_set(e, "filesystem.%s[%zu]: / covers everything", key, i);
		(*out)[i] = strdup(path);
		if (!(*out)[i])
			return err_errno(e, "spec");
		*count = i + 1;
	}
	return 0;
}

int guest_hash_list(const json_t *array, char out[HF_SENTRY_HASH_LIST_MAX + 1], struct err *e)
{
	const json_t *item;
	size_t i, used = 0;

	out[0] = '\0';
	if (!array)
		return 0;
	if (!json_is_array(array))
		return err_set(e, "hash_programs: not a list");
	json_array_foreach(array, i, item) {
		const char *program = json_string_value(item);
		size_t n = program ? strlen(program) : 0;

		if (!n || strchr(program, '\n') || (*program != '/' && strcmp(program, "*")))
			return err_set(e, "hash_programs: no. %zu is neither a path nor *", i + 1);
		if (used + n + 1 > HF_SENTRY_HASH_LIST_MAX)
			return err_set(e, "hash_programs: longer than %d bytes", HF_SENTRY_HASH_LIST_MAX);
		used += (size_t)snprintf(out + used, HF_SENTRY_HASH_LIST_MAX + 1 - used, "%s%s", used ? "\n" : "", program);
	}
	return 0;
}

static int parse_sentry(const json_t *root, struct guest_spec *s, struct err *e)
{
	static const char *const keys[] = { "mode", "sha256", "hash_programs", NULL };
	const char *mode, *sha256;
	json_t *o;
	int r = section(root, "sentry", keys, &o, e);

	if (r <= 0)
		return r;
	if (json_get_str(o, "mode", &mode, e) < 0 || json_opt_str(o, "sha256", &sha256, "", e) < 0)
		return err_prefix(e, "sentry");
	r = choose("sentry.mode", mode, sentry_names, 3, e);
	if (r < 0)
		return -1;
	s->sentry = (enum guest_sentry)r;
	if (*sha256 && (strlen(sha256) != 64 || strspn(sha256, "0123456789abcdef") != 64))
		return err_set(e, "sentry.sha256: not 64 lower-case hex digits");
	if (s->sentry != GUEST_SENTRY_OFF && !*sha256)
		return err_set(e, "sentry.sha256: missing");
	memcpy(s->sentry_sha256, sha256, strlen(sha256));
	return guest_hash_list(json_object_get(o, "hash_programs"), s->hash_programs, e);
}

static int get_id(const json_t *o, const char *key, uint32_t *id, struct err *e)
{
	int64_t v;

	if (json_get_int(o, key, &v, e) < 0)
		return -1;
	if (v < 1 || v >= UINT32_MAX)
		return err_set(e, "%s: %lld is not between 1 and 4294967294", key, (long long)v);
	*id = (uint32_t)v;
	return 0;
}

static int parse_user(const json_t *root, struct guest_spec *s, struct err *e)
{
	static const char *const keys[] = { "name", "uid", "gid", "home", NULL };
	const char *name, *home;
	json_t *o;
	int r = section(root, "session_user", keys, &o, e);

	if (r < 0)
		return -1;
	if (!r)
		return err_set(e, "session_user: missing");
	if (json_get_str(o, "name", &name, e) < 0 || json_get_str(o, "home", &home, e) < 0 ||
	    get_id(o, "uid", &s->user.uid, e) < 0 || get_id(o, "gid", &s->user.gid, e) < 0)
		return err_prefix(e, "session_user");
	if (home[0] != '/' || !home[1])
		return err_set(e, "session_user.home: \"%s\" is no absolute path", home);
	return copy(&s->user.name, name, e) < 0 || copy(&s->user.home, home, e) < 0 ? -1 : 0;
}

static int parse_filesystem(const json_t *root, struct guest_spec *s, struct err *e)
{
	static const char *const keys[] = { "include_workdir", "read_only", "read_write", NULL };
	json_t *o;
	int r = section(root, "filesystem", keys, &o, e);

	if (r <= 0)
		return r;
	s->has_filesystem = true;
	if (json_opt_bool(o, "include_workdir", &s->include_workdir, false, e) < 0)
		return err_prefix(e, "filesystem");
	return parse_paths(o, "read_only", &s->read_only, &s->read_only_count, e) < 0 ||
	       parse_paths(o, "read_write", &s->read_write, &s->read_write_count, e) < 0 ? -1 : 0;
}

static int parse_landlock(const json_t *root, struct guest_spec *s, struct err *e)
{
	static const char *const keys[] = { "compatibility", NULL };
	const char *compat;
	json_t *o;
	int r = section(root, "landlock", keys, &o, e);

	if (r <= 0)
		return r;
	if (json_opt_str(o, "compatibility", &compat, "best_effort", e) < 0)
		return err_prefix(e, "landlock");
	r = choose("landlock.compatibility", compat, compat_names, 2, e);
	if (r < 0)
		return -1;
	s->compat = (enum sandbox_compat)r;
	return 0;
}

/* Root in any spelling, and the id that means "no change". Names are looked up once the disk is there. */
static int check_run_as(const char *key, const char *value, struct err *e)
{
	char *end;
	unsigned long long id;

	if (!*value)
		return 0;
	if (!strcmp(value, "root"))
		return err_set(e, "process.%s: root is refused", key);
	if (!strchr("+-0123456789", value[0]))
		return 0;
	id = strtoull(value, &end, 10);
	if (strspn(value, "0123456789") != strlen(value) || *end || id < 1 || id >= UINT32_MAX)
		return err_set(e, "process.%s: \"%s\" is no id between 1 and 4294967294", key, value);
	return 0;
}

static int parse_process(const json_t *root, struct guest_spec *s, struct err *e)
{
	static const char *const keys[] = { "run_as_user", "run_as_group", NULL };
	const char *user, *group;
	json_t *o;
	int r = section(root, "process", keys, &o, e);

	if (r <= 0)
		return r;
	s->has_process = true;
	if (json_opt_str(o, "run_as_user", &user, "", e) < 0 || json_opt_str(o, "run_as_group", &group, "", e) < 0)
		return err_prefix(e, "process");
	if (check_run_as("run_as_user", user, e) < 0 || check_run_as("run_as_group", group, e) < 0)
		return -1;
	return copy(&s->run_as_user, user, e) < 0 || copy(&s->run_as_group, group, e) < 0 ? -1 : 0;
}

static int parse_cgroup(const json_t *root, struct guest_spec *s, struct err *e)
{
	static const char *const keys[] = { "pids_max", "memory_max", NULL };
	json_t *o;
	int r = section(root, "cgroup", keys, &o, e);

	if (r <= 0)
		return r;
	if (json_opt_int(o, "pids_max", &s->pids_max, 0, e) < 0 ||
	    json_opt_int(o, "memory_max", &s->memory_max, 0, e) < 0)
		return err_prefix(e, "cgroup");
	if (s->pids_max < 0 || s->memory_max < 0)
		return err_set(e, "cgroup: a limit is negative");
	return 0;
}

static int parse_scalars(const json_t *root, struct guest_spec *s, struct err *e)
{
	const char *workspace, *hostname, *level, *proxy;
	int64_t schema;
	int r;

	if (json_get_int(root, "schema", &schema, e) < 0)
		return -1;
	if (schema != HF_SPEC_SCHEMA)
		return err_set(e, "schema %lld, this sandboxd knows %d", (long long)schema, HF_SPEC_SCHEMA);
	if (json_get_str(root, "workspace", &workspace, e) < 0 || json_opt_str(root, "hostname", &hostname, "", e) < 0 ||
	    json_get_str(root, "level", &level, e) < 0 || json_opt_str(root, "proxy", &proxy, "off", e) < 0 ||
	    json_opt_bool(root, "network_rules", &s->network_rules, false, e) < 0 ||
	    json_opt_int(root, "boot_unix_ns", &s->boot_unix_ns, 0, e) < 0 ||
	    json_opt_int(root, "mtu", &s->mtu, 0, e) < 0)
		return -1;
	r = choose("level", level, level_names, 3, e);
	if (r < 0)
		return -1;
	s->level = (enum guest_level)r;
	if (strcmp(proxy, "on") && strcmp(proxy, "off"))
		return err_set(e, "proxy: \"%s\" is neither on nor off", proxy);
	s->proxy = !strcmp(proxy, "on");
	return copy(&s->workspace, workspace, e) < 0 || copy(&s->hostname, hostname, e) < 0 ? -1 : 0;
}

/* Each section applies only where it is present, and a level that says otherwise is a contradiction. */
static int check(const struct guest_spec *s, struct err *e)
{
	if (s->has_process && s->level != GUEST_STRICT)
		return err_set(e, "level: %s, but a process section needs strict", guest_level_name(s->level));
	if (s->has_filesystem && s->level == GUEST_OBSERVE)
		return err_set(e, "level: observe, but there is a filesystem section");
	if (s->level == GUEST_FILES && !s->has_filesystem)
		return err_set(e, "level: files, but there is no filesystem section");
	return 0;
}

struct guest_spec *guest_spec_parse(const void *text, size_t n, struct err *e)
{
	static const struct json_limits limits = { .bytes = HF_SPEC_MAX, .depth = 6, .values = 4096 };
	static const char *const keys[] = { "schema", "workspace", "hostname", "level", "sentry", "session_user",
					    "filesystem", "landlock", "process", "network_rules", "proxy",
					    "cgroup", "boot_unix_ns", "mtu", NULL };
	_cleanup_json_ json_t *root = json_parse(text, n, &limits, e);
	struct guest_spec *s;

	if (!root)
		return NULL;
	if (!json_is_object(root)) {
		err_set(e, "not an object");
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		err_errno(e, "spec");
		return NULL;
	}
	if (json_only_keys(root, keys, e) < 0 || parse_scalars(root, s, e) < 0 || parse_sentry(root, s, e) < 0 ||
	    parse_user(root, s, e) < 0 || parse_filesystem(root, s, e) < 0 || parse_landlock(root, s, e) < 0 ||
	    parse_process(root, s, e) < 0 || parse_cgroup(root, s, e) < 0 || check(s, e) < 0) {
		guest_spec_free(s);
		return NULL;
	}
	return s;
}

static void free_list(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

void guest_spec_free(struct guest_spec *s)
{
	if (!s)
		return;
	free_list(s->read_only, s->read_only_count);
	free_list(s->read_write, s->read_write_count);
	free(s->workspace);
	free(s->hostname);
	free(s->user.name);
	free(s->user.home);
	free(s->run_as_user);
	free(s->run_as_group);
	free(s);
}
