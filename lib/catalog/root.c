/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Root documents: which keys may sign what, and how one root document hands over to the next. */
#include "lib/catalog/root.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/catalog/canon.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

const char *const catalog_role_names[CATALOG_ROLES] = {"root", "catalog", "timestamp"};

enum { WALK_MAX = 1000 };

static int find_key(const struct catalog_root *root, const char *id)
{
	char have[MINISIG_ID_TEXT];

	for (size_t i = 0; i < root->n_keys; i++) {
		minisig_id_text(have, root->keys[i].id);
		if (!strcmp(have, id))
			return (int)i;
	}
	return -1;
}

static int parse_keys(struct catalog_root *root, const json_t *keys, struct err *err)
{
	static const char *const known[] = {"id", "public", NULL};
	const char *id, *public;
	char have[MINISIG_ID_TEXT];
	json_t *key;
	size_t i;

	if (!json_array_size(keys) || json_array_size(keys) > CATALOG_ROOT_KEYS_MAX)
		return err_set(err, "between 1 and %d keys expected", CATALOG_ROOT_KEYS_MAX);
	json_array_foreach(keys, i, key) {
		if (json_only_keys(key, known, err) || json_get_str(key, "id", &id, err) ||
		    json_get_str(key, "public", &public, err) ||
		    minisig_key_parse(&root->keys[i], public, err))
			return -1;
		minisig_id_text(have, root->keys[i].id);
		if (strcmp(have, id) || find_key(root, id) >= 0)
			return err_set(err, "key %zu: id is wrong or used twice", i);
		/* One key under two ids would count twice towards a threshold. */
		for (size_t j = 0; j < i; j++)
			if (!memcmp(root->keys[j].public, root->keys[i].public, sizeof(root->keys[i].public)))
				return err_set(err, "key %s is there twice", id);
		root->n_keys = i + 1;
	}
	return 0;
}

static int parse_role(struct catalog_root *root, enum catalog_role role, const json_t *json,
		      struct err *err)
{
	static const char *const known[] = {"keys", "threshold", NULL};
	int64_t threshold;
	json_t *keys, *id;
	size_t i, n = 0;

	if (json_only_keys(json, known, err) || json_get_array(json, "keys", &keys, err) ||
	    json_get_int(json, "threshold", &threshold, err))
		return -1;
	json_array_foreach(keys, i, id) {
		int at = json_is_string(id) ? find_key(root, json_string_value(id)) : -1;

		if (at < 0 || root->roles[role].may[at])
			return err_set(err, "key %zu is unknown or named twice", i);
		root->roles[role].may[at] = true;
		n++;
	}
	if (threshold < 1 || (size_t)threshold > n || (role != CATALOG_ROLE_ROOT && threshold != 1))
		return err_set(err, "threshold out of range");
	root->roles[role].threshold = (size_t)threshold;
	return 0;
}

static int parse_members(struct catalog_root *root, const json_t *json, struct err *err)
{
	static const char *const known[] = {"channel", "expires", "issued", "keys", "roles",
					    "schema",  "type",	  "version", NULL};
	static const char *const roles_known[] = {"catalog", "root", "timestamp", NULL};
	const char *channel, *expires, *issued, *type;
	int64_t schema, version, issued_s;
	json_t *keys, *roles, *role;

	if (json_only_keys(json, known, err) || json_get_str(json, "type", &type, err) ||
	    json_get_int(json, "schema", &schema, err) || json_get_int(json, "version", &version, err) ||
	    json_get_str(json, "channel", &channel, err) || json_get_str(json, "expires", &expires, err) ||
	    json_get_str(json, "issued", &issued, err) || json_get_array(json, "keys", &keys, err) ||
	    json_get_object(json, "roles", &roles, err))
		return -1;
	if (strcmp(type, "holdfast-root") || schema != 1 || version < 1)
		return err_set(err, "not a root document of schema 1");
	if (strcmp(channel, "local") && strcmp(channel, "release"))
		return err_set(err, "\"channel\" must be local or release");
	if (canon_time(expires, &root->expires_s) || canon_time(issued, &issued_s))
		return err_set(err, "\"issued\" and \"expires\" must be times");
	root->version = (uint64_t)version;
	root->local = !strcmp(channel, "local");
	if (parse_keys(root, keys, err) || json_only_keys(roles, roles_known, err))
		return -1;
	for (enum catalog_role i = 0; i < CATALOG_ROLES; i++)
		if (json_get_object(roles, catalog_role_names[i], &role, err) ||
		    parse_role(root, i, role, err))
			return err_prefix(err, "role %s", catalog_role_names[i]);
	return 0;
}

int catalog_root_parse(struct catalog_root *root, const void *text, size_t n, struct err *err)
{
	_cleanup_json_ json_t *json = canon_parse(text, n, err);
	uint8_t hash[HASH_BYTES];

	if (!json)
		return err_prefix(err, "malformed: root");
	memset(root, 0, sizeof(*root));
	if (parse_members(root, json, err))
		return err_prefix(err, "malformed: root");
	hash_sha256(hash, text, n);
	hex_encode(root->sha256_hex, hash, sizeof(hash));
	return 0;
}

void catalog_comment(char out[MINISIG_COMMENT_MAX], const char *what, uint64_t version,
		     const char *sha256_hex)
{
	snprintf(out, MINISIG_COMMENT_MAX, "holdfast %s version:%" PRIu64 " sha256:%s", what, version,
		 sha256_hex);
}

static int signed_by(const struct minisig_key *key, const void *sig_text, size_t sig_n, const void *data,
		     size_t n, const char *comment)
{
	struct minisig sig;

	return !minisig_parse(&sig, sig_text, sig_n, NULL) && !strcmp(sig.comment, comment) &&
	       !minisig_verify(&sig, key, data, n);
}

size_t catalog_root_count(const struct catalog_root *root, enum catalog_role role, int dirfd,
			  const char *name, const struct buf *text, const char *comment)
{
	char id[MINISIG_ID_TEXT], file[256];
	size_t good = 0;

	for (size_t i = 0; i < root->n_keys; i++) {
		struct buf sig;

		if (!root->roles[role].may[i])
			continue;
		minisig_id_text(id, root->keys[i].id);
		snprintf(file, sizeof(file), "%s.%s.minisig", name, id);
		buf_init(&sig, MINISIG_FILE_MAX);
		if (!io_read_file_at(dirfd, file, &sig, NULL) &&
		    signed_by(&root->keys[i], sig.data, sig.len, text->data, text->len, comment))
			good++;
		buf_free(&sig);
	}
	return good;
}

int catalog_comment_check(const struct minisig *sig, const char *comment, struct err *err)
{
	if (!strcmp(sig->comment, comment))
		return 0;
	return err_set(err, "bad_signature: signed as \"%s\", not as \"%s\"", sig->comment, comment);
}

int catalog_root_check(const struct catalog_root *root, enum catalog_role role,
		       const struct minisig *sig, const void *data, size_t n, struct err *err)
{
	char id[MINISIG_ID_TEXT];

	minisig_id_text(id, sig->id);
	for (size_t i = 0; i < root->n_keys; i++) {
		if (!root->roles[role].may[i] || memcmp(root->keys[i].id, sig->id, sizeof(sig->id)))
			continue;
		return minisig_verify(sig, &root->keys[i], data, n)
			       ? err_set(err, "bad_signature: not what key %s signed", id)
			       : 0;
	}
	return err_set(err, "bad_signature: key %s does not have the role %s", id,
		       catalog_role_names[role]);
}

static bool role_changed(const struct catalog_root *a, const struct catalog_root *b, enum catalog_role role)
{
	size_t in_a = 0, in_b = 0, common = 0;

	for (size_t i = 0; i < a->n_keys; i++) {
		in_a += a->roles[role].may[i];
		for (size_t j = 0; j < b->n_keys && a->roles[role].may[i]; j++)
			common += b->roles[role].may[j] && !memcmp(&a->keys[i], &b->keys[j], sizeof(a->keys[i]));
	}
	for (size_t j = 0; j < b->n_keys; j++)
		in_b += b->roles[role].may[j];
	return in_a != common || in_b != common;
}

static int successor(const struct catalog_root *old, struct catalog_root *new, int dirfd,
		     const char *name, const struct buf *text, struct err *err)
{
	char comment[MINISIG_COMMENT_MAX];
	size_t by_old, by_new;

	if (catalog_root_parse(new, text->data, text->len, err))
		return -1;
	if (new->version != old->version + 1)
		return err_set(err, "malformed: %s says it is version %" PRIu64, name, new->version);
	/* A root of a release never becomes a local one, or the other way round. */
	if (new->local != old->local)
		return err_set(err, "malformed: %s changes the channel", name);
	catalog_comment(comment, "root", new->version, new->sha256_hex);
	by_old = catalog_root_count(old, CATALOG_ROLE_ROOT, dirfd, name, text, comment);
	by_new = catalog_root_count(new, CATALOG_ROLE_ROOT, dirfd, name, text, comment);
	if (by_old < old->roles[CATALOG_ROLE_ROOT].threshold)
		return err_set(err, "few_signatures: %s has %zu of %zu signatures of the keys before it", name,
			       by_old, old->roles[CATALOG_ROLE_ROOT].threshold);
	if (by_new < new->roles[CATALOG_ROLE_ROOT].threshold)
		return err_set(err, "few_signatures: %s has %zu of %zu signatures of its own keys", name,
			       by_new, new->roles[CATALOG_ROLE_ROOT].threshold);
	return 0;
}

int catalog_root_walk(struct catalog_root *root, struct buf *text, int dirfd,
		      bool changed[CATALOG_ROLES], struct err *err)
{
	for (int i = 0; i < WALK_MAX; i++) {
		struct catalog_root next;
		struct buf next_text;
		char name[64];

		snprintf(name, sizeof(name), "root.%" PRIu64 ".json", root->version + 1);
		if (faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW))
			return errno == ENOENT ? 0 : err_errno(err, "no_catalog: %s", name);
		buf_init(&next_text, CATALOG_ROOT_BYTES_MAX);
		if (io_read_file_at(dirfd, name, &next_text, err)) {
			buf_free(&next_text);
			return err_prefix(err, "no_catalog");
		}
		if (successor(root, &next, dirfd, name, &next_text, err)) {
			buf_free(&next_text);
			return -1;
		}
		for (enum catalog_role role = 0; role < CATALOG_ROLES; role++)
			changed[role] |= role_changed(root, &next, role);
		*root = next;
		buf_free(text);
		*text = next_text;
	}
	return err_set(err, "malformed: more than %d root documents", WALK_MAX);
}
