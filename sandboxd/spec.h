/* SPDX-License-Identifier: GPL-2.0-or-later */
/* guest-spec.json: what the host asks of this boot. Keys in docs/protocol/control.md. */
#ifndef SANDBOXD_SPEC_H
#define SANDBOXD_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <holdfast/guest.h>

#include "lib/err.h"
#include "lib/sandbox/sandbox.h"

enum guest_level { GUEST_OBSERVE, GUEST_FILES, GUEST_STRICT };
enum guest_sentry { GUEST_SENTRY_OFF, GUEST_SENTRY_BEST_EFFORT, GUEST_SENTRY_REQUIRED };

struct guest_spec {
	char *workspace;
	char *hostname;
	enum guest_level level;
	enum guest_sentry sentry;
	char sentry_sha256[65];
	char hash_programs[HF_SENTRY_HASH_LIST_MAX + 1]; /* one a line */
	struct {
		char *name;
		uint32_t uid, gid;
		char *home;
	} user;
	bool has_filesystem;
	bool include_workdir;
	bool network_rules;
	char **read_only;
	size_t read_only_count;
	char **read_write;
	size_t read_write_count;
	enum sandbox_compat compat;
	bool has_process;
	char *run_as_user;	/* name or decimal id */
	char *run_as_group;
	bool proxy;
	int64_t pids_max;	/* 0: no limit */
	int64_t memory_max;
	int64_t boot_unix_ns;
	int64_t mtu;
};

/* The list of programs to hash as the module takes it, from a JSON array. NULL array: none. */
int guest_hash_list(const json_t *array, char out[HF_SENTRY_HASH_LIST_MAX + 1], struct err *e);

/* Parses and checks; an unknown or contradictory key is named. NULL on failure. The caller frees. */
struct guest_spec *guest_spec_parse(const void *text, size_t n, struct err *e);
void guest_spec_free(struct guest_spec *s);

const char *guest_level_name(enum guest_level level);
const char *guest_sentry_name(enum guest_sentry mode);

#endif
