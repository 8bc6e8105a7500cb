/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * glob.h - the pattern flavours of the format, each a type of its own so that they cannot be mixed up.
 *
 *	host	 labels separated by dots, case-insensitive; without `*` a plain comparison
 *	program	 components of a path; without `*` a plain comparison
 *	path	 of a request, canonical; always a glob, exactly `**` matches everything
 *	value	 query values, tool and method names, GraphQL names: components separated by dots
 *	selector an endpoint's `path` as it *selects* a request: `*` and `?` cross slashes
 *
 * An invalid pattern is kept with `bad` set: whoever reaches it while deciding fails the decision, as
 * the reference does, except for the selector, where it is compared as plain text.
 */
#ifndef HOLDFAST_POLICY_GLOB_H
#define HOLDFAST_POLICY_GLOB_H

#include "hostd/policy/automaton.h"

struct glob_base {
	const char *text;
	const char *bad; /* why it is invalid; NULL = valid */
	struct automaton a;
};

struct host_glob {
	struct glob_base g;
	bool wild; /* has a `*` */
};
struct program_glob {
	struct glob_base g;
	bool wild;
};
struct path_glob {
	struct glob_base g;
	bool all;
};
struct value_glob {
	struct glob_base g;
};
struct selector_glob {
	struct glob_base g;
	bool all;
	size_t tree_len; /* "X/ **": length of X; 0 = not of that shape */
	bool tree;
};

/* 0, or -1 when out of memory. */
int policy_host_glob(struct arena *a, const char *text, struct host_glob *out);
int policy_program_glob(struct arena *a, const char *text, struct program_glob *out);
int policy_path_glob(struct arena *a, const char *text, struct path_glob *out);
int policy_value_glob(struct arena *a, const char *text, struct value_glob *out);
int policy_selector_glob(struct arena *a, const char *text, struct selector_glob *out);

/* 1 yes, 0 no, -1 the pattern is invalid. */
int policy_host_matches(const struct host_glob *g, const char *host, size_t len);
int policy_program_matches(const struct program_glob *g, const char *path);
int policy_path_matches(const struct path_glob *g, const char *path, size_t len);
int policy_value_matches(const struct value_glob *g, const char *value);
int policy_selector_matches(const struct selector_glob *g, const char *path);

/* Is there a host that both patterns match?  As the format's ambiguity check understands patterns. */
bool policy_hosts_overlap(const char *left, const char *right);
/* Is there a path that both endpoint selectors select? */
bool policy_selectors_overlap(const struct selector_glob *left, const struct selector_glob *right);

/* Host patterns of middleware selectors: label by label, `**` one or more labels. */
enum policy_selector_error {
	HOST_SELECTOR_OK,
	HOST_SELECTOR_EMPTY,
	HOST_SELECTOR_BRACES,
	HOST_SELECTOR_EMPTY_LABEL,
	HOST_SELECTOR_WHITESPACE,
	HOST_SELECTOR_INVALID,
};
enum policy_selector_error policy_host_selector_check(const char *pattern);
bool policy_host_selector_matches(const char *pattern, const char *host);
bool policy_host_selectors_overlap(const char *left, const char *right);
const char *policy_host_selector_error_name(enum policy_selector_error e);

#endif
