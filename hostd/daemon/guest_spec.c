/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one document that the host gives sandboxd (docs/protocol/control.md, "guest-spec.json"). */
#include "hostd/daemon/workspace.h"

#include <stdio.h>
#include <string.h>

#include <holdfast/guest.h>

#include "hostd/ws/settings.h"
#include "lib/loop.h"

/* Made by the image (ci/image): the workspace's user. */
#define SESSION_USER "agent"
enum { SESSION_UID = 1000, GUEST_PIDS_MAX = 8192 };

static json_t *texts(const char *const *list, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, json_string(list[i]));
	return array;
}

static void add_policy(json_t *spec, const struct policy *policy)
{
	const struct policy_static *parts = policy_static_parts(policy);

	if (parts->has_filesystem)
		json_object_set_new(spec, "filesystem",
				    json_pack("{s:b,s:o,s:o}", "include_workdir", parts->include_workdir,
					      "read_only", texts(parts->read_only, parts->n_read_only),
					      "read_write", texts(parts->read_write, parts->n_read_write)));
	if (parts->has_landlock)
		json_object_set_new(spec, "landlock",
				    json_pack("{s:s}", "compatibility", parts->hard_requirement ?
					      "hard_requirement" : "best_effort"));
	if (parts->has_process) {
		json_t *process = json_object();

		if (parts->run_as_user)
			json_object_set_new(process, "run_as_user", json_string(parts->run_as_user));
		if (parts->run_as_group)
			json_object_set_new(process, "run_as_group", json_string(parts->run_as_group));
		json_object_set_new(spec, "process", process);
	}
	json_object_set_new(spec, "network_rules", json_boolean(policy_has_network(policy)));
}

/* The package manager first; a pattern by its literal beginning. What has no room for all of them hashes every program. */
json_t *guest_hash_programs(const struct workspace *ws)
{
	json_t *list = json_array();
	size_t bytes = sizeof(IDENTITY_PACKAGE_MANAGER);
	const char *pattern;

	if (!ws->policy || strcmp(workspace_level(ws), "strict") || !policy_program_pattern(ws->policy, 0))
		return list;
	json_array_append_new(list, json_string(IDENTITY_PACKAGE_MANAGER));
	for (size_t i = 0; (pattern = policy_program_pattern(ws->policy, i)); i++) {
		size_t literal = strcspn(pattern, "*?[{\\");
		char line[512];

		snprintf(line, sizeof(line), "%.*s%s", (int)(literal < 500 ? literal : 500), pattern,
			 pattern[literal] || literal >= 500 ? "*" : "");
		bytes += strlen(line) + 1;
		if (bytes > HF_SENTRY_HASH_LIST_MAX) {
			json_array_clear(list);
			json_array_append_new(list, json_string("*"));
			break;
		}
		json_array_append_new(list, json_string(line));
	}
	return list;
}

json_t *guest_spec_build(const struct workspace *ws, const char *sentry_sha256, struct err *err)
{
	const char *mode = *sentry_sha256 ? settings_text(ws->settings, "sentry") : "off";
	json_t *spec = json_pack("{s:i,s:s,s:s,s:s,s:{s:s,s:s},s:{s:s,s:i,s:i,s:s},s:s,s:{s:i},s:I}", "schema",
				 HF_SPEC_SCHEMA, "workspace", ws->name, "hostname", ws->name, "level",
				 workspace_level(ws), "sentry", "mode", mode, "sha256", sentry_sha256,
				 "session_user", "name", SESSION_USER, "uid", SESSION_UID, "gid", SESSION_UID,
				 "home", "/home/" SESSION_USER, "proxy", "off", "cgroup", "pids_max",
				 GUEST_PIDS_MAX, "boot_unix_ns", (json_int_t)loop_unix_ns());

	if (!spec) {
		err_set(err, "out of memory");
		return NULL;
	}
	json_object_set_new(json_object_get(spec, "sentry"), "hash_programs", guest_hash_programs(ws));
	if (ws->policy)
		add_policy(spec, ws->policy);
	return spec;
}
