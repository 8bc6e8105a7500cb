/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * yaml.h - a bounded tree of one YAML 1.2 document, with the position of each node.
 *
 * libfyaml does the grammar; this refuses what must not be in a policy: other encodings than UTF-8, NUL,
 * anchors, aliases, merge keys, tags, more than one document, and too much of anything.
 */
#ifndef HOLDFAST_POLICY_YAML_H
#define HOLDFAST_POLICY_YAML_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hostd/policy/arena.h"
#include "hostd/policy/policy.h"

#define YAML_DEPTH_MAX 32
#define YAML_NODES_MAX 2100000 /* about what fits into 4 MiB */

enum ynode_kind { YNODE_SCALAR, YNODE_LIST, YNODE_MAP };

struct ynode {
	uint8_t kind;
	bool plain;    /* a scalar without quotes */
	bool resolved; /* reached through an alias */
	unsigned int line, column;
	const char *text; /* scalars; NUL at its end, none within */
	size_t len;
	struct ynode **item; /* lists: items; maps: values */
	struct ynode **key;
	size_t n;
};

enum yscalar { YSCALAR_STRING, YSCALAR_NULL, YSCALAR_BOOL, YSCALAR_INT, YSCALAR_FLOAT };

/* What a scalar is in the core schema. */
enum yscalar policy_yaml_type(const struct ynode *n);
/* 0 or -1; only for YSCALAR_INT */
int policy_yaml_int(const struct ynode *n, int64_t *out);

/* NULL on error or for an empty document, which is an error too. */
struct ynode *policy_yaml_parse(struct arena *a, const void *bytes, size_t len, bool aliases,
				struct policy_diags *diags);
/* The same tree from JSON; positions are 0. */
struct ynode *policy_yaml_from_json(struct arena *a, const json_t *json);

struct ynode *policy_yaml_get(const struct ynode *map, const char *key);

/* Adds an error or warning; the text is copied. */
void policy_diag_add(struct policy_diags *d, bool warning, unsigned int line, unsigned int column,
		     const char *path, const char *expected, const char *fmt, ...)
	__attribute__((format(printf, 7, 8)));

#endif
