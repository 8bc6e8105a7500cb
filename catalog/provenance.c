/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Provenance of a module: an in-toto statement with a SLSA v1 predicate, in a DSSE envelope. */
/* Formats: in-toto Statement v1, SLSA provenance v1, DSSE v1 (pre-authentication encoding, PAE). */
#include "catalog/provenance.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/json.h"

#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define PREDICATE_TYPE "https://slsa.dev/provenance/v1"
#define BUILD_TYPE "https://holdfast.invalid/build/sentry-module/v1"
#define BUILDER_ID "https://holdfast.invalid/builder/ci-modules"

enum { ENVELOPE_MAX = 256 * 1024 };

static const struct json_limits limits = {.bytes = ENVELOPE_MAX, .depth = 10, .values = 10000};

static json_t *dependency(const char *kind, const char *name, const char *digest_name, const char *digest)
{
	char uri[512];

	snprintf(uri, sizeof(uri), "%s%s", kind, name);
	return json_pack("{ss s{ss}}", "uri", uri, "digest", digest_name, digest);
}

static json_t *dependencies(const json_t *entry, const json_t *source)
{
	const json_t *toolchain = json_object_get(entry, "toolchain");
	json_t *list = json_array(), *header;
	char name[512];
	size_t i;

	json_array_append_new(list,
			      dependency("holdfast:source@",
					 json_string_value(json_object_get(source, "commit")), "sha256",
					 json_string_value(json_object_get(source, "tree_sha256"))));
	json_array_append_new(list, dependency("holdfast:toolchain-root/",
					       json_string_value(json_object_get(toolchain, "gcc")), "sha256",
					       json_string_value(json_object_get(toolchain, "root_sha256"))));
	json_array_foreach(json_object_get(entry, "headers"), i, header) {
		snprintf(name, sizeof(name), "%s@%s",
			 json_string_value(json_object_get(header, "package")),
			 json_string_value(json_object_get(header, "version")));
		json_array_append_new(list, dependency("pkg:deb/debian/", name, "sha256",
						       json_string_value(json_object_get(header, "sha256"))));
	}
	return list;
}

static char *statement(const json_t *entry, const json_t *source, const char *recipe_sha256)
{
	const json_t *module = json_object_get(entry, "module");
	_cleanup_json_ json_t *json = json_pack(
		"{ss s[{ss s{sO}}] ss s{s{ss s{sO sO} s{ss sO} so} s{s{ss}}}}", "_type", STATEMENT_TYPE,
		"subject", "name", json_string_value(json_object_get(module, "path")), "digest", "sha256",
		json_object_get(module, "sha256"), "predicateType", PREDICATE_TYPE, "predicate",
		"buildDefinition", "buildType", BUILD_TYPE, "externalParameters", "release",
		json_object_get(entry, "release"), "flavour", json_object_get(entry, "flavour"),
		"internalParameters", "recipe_sha256", recipe_sha256, "builds",
		json_object_get(entry, "builds"), "resolvedDependencies", dependencies(entry, source),
		"runDetails", "builder", "id", BUILDER_ID);

	return json ? json_text(json) : NULL;
}

/* PAE(type, body) = "DSSEv1" SP LEN(type) SP type SP LEN(body) SP body */
static int encode(struct buf *out, const char *type, const char *body, size_t n)
{
	return buf_putf(out, "DSSEv1 %zu %s %zu ", strlen(type), type, n) || buf_put(out, body, n) ? -1 : 0;
}

char *provenance_make(const json_t *entry, const json_t *source, const char *recipe_sha256,
		      const struct keyfile *key, struct err *err)
{
	char sig_text[sodium_base64_ENCODED_LEN(64, sodium_base64_VARIANT_ORIGINAL)], id[MINISIG_ID_TEXT];
	_cleanup_free_ char *body = statement(entry, source, recipe_sha256), *payload = NULL;
	_cleanup_json_ json_t *envelope = NULL;
	struct minisig_key public;
	uint8_t sig[64];
	struct buf pae;
	size_t room;

	buf_init(&pae, ENVELOPE_MAX);
	if (!body || encode(&pae, PROVENANCE_TYPE, body, strlen(body))) {
		buf_free(&pae);
		err_set(err, "provenance: out of memory");
		return NULL;
	}
	keyfile_sign_raw(sig, key, pae.data, pae.len);
	buf_free(&pae);
	keyfile_public(&public, key);
	minisig_id_text(id, public.id);
	sodium_bin2base64(sig_text, sizeof(sig_text), sig, sizeof(sig), sodium_base64_VARIANT_ORIGINAL);
	room = sodium_base64_encoded_len(strlen(body), sodium_base64_VARIANT_ORIGINAL);
	payload = malloc(room);
	if (payload) {
		sodium_bin2base64(payload, room, (const uint8_t *)body, strlen(body),
				  sodium_base64_VARIANT_ORIGINAL);
		envelope = json_pack("{ss ss s[{ss ss}]}", "payload", payload, "payloadType",
				     PROVENANCE_TYPE, "signatures", "keyid", id, "sig", sig_text);
	}
	if (!envelope)
		err_set(err, "provenance: out of memory");
	return envelope ? json_text(envelope) : NULL;
}

static bool signed_by_role(const struct catalog_root *root, const char *id, const uint8_t sig[64],
			   const struct buf *pae)
{
	char have[MINISIG_ID_TEXT];

	for (size_t i = 0; i < root->n_keys; i++) {
		minisig_id_text(have, root->keys[i].id);
		if (root->roles[CATALOG_ROLE_CATALOG].may[i] && !strcmp(have, id) &&
		    !crypto_sign_verify_detached(sig, pae->data, pae->len, root->keys[i].public))
			return true;
	}
	return false;
}

static int check_subject(const char *body, size_t n, const char *sha256_hex, struct err *err)
{
	_cleanup_json_ json_t *json = json_parse(body, n, &limits, err);
	const json_t *subject = json_array_get(json_object_get(json, "subject"), 0);
	const char *type, *predicate, *digest;

	if (!json || json_get_str(json, "_type", &type, err) ||
	    json_get_str(json, "predicateType", &predicate, err) ||
	    json_get_str(json_object_get(subject, "digest"), "sha256", &digest, err))
		return err_prefix(err, "malformed: provenance");
	if (strcmp(type, STATEMENT_TYPE) || strcmp(predicate, PREDICATE_TYPE))
		return err_set(err, "malformed: provenance of another type");
	return strcmp(digest, sha256_hex) ? err_set(err, "bad_hash: provenance is about another file") : 0;
}

int provenance_check(const void *text, size_t n, const struct catalog_root *root, const char *sha256_hex,
		     struct err *err)
{
	_cleanup_json_ json_t *json = json_parse(text, n, &limits, err);
	const json_t *first = json_array_get(json_object_get(json, "signatures"), 0);
	const char *payload, *type, *id, *sig_text;
	_cleanup_free_ char *body = NULL;
	struct buf pae;
	uint8_t sig[64];
	size_t body_n, sig_n;
	bool good;

	if (!json || json_get_str(json, "payload", &payload, err) ||
	    json_get_str(json, "payloadType", &type, err) || json_get_str(first, "keyid", &id, err) ||
	    json_get_str(first, "sig", &sig_text, err))
		return err_prefix(err, "malformed: provenance");
	body = malloc(strlen(payload) + 1);
	if (!body ||
	    sodium_base642bin((uint8_t *)body, strlen(payload), payload, strlen(payload), NULL, &body_n, NULL,
			      sodium_base64_VARIANT_ORIGINAL) ||
	    sodium_base642bin(sig, sizeof(sig), sig_text, strlen(sig_text), NULL, &sig_n, NULL,
			      sodium_base64_VARIANT_ORIGINAL) ||
	    sig_n != sizeof(sig))
		return err_set(err, "malformed: provenance: base64");
	buf_init(&pae, ENVELOPE_MAX);
	good = !encode(&pae, type, body, body_n) && signed_by_role(root, id, sig, &pae);
	buf_free(&pae);
	if (!good)
		return err_set(err, "bad_signature: provenance is not signed by the catalog key");
	return check_subject(body, body_n, sha256_hex, err);
}
