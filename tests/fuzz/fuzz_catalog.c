/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzzer of every parser of the catalog: the first byte says which one gets the rest. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "catalog/provenance.h"
#include "lib/catalog/canon.h"
#include "lib/catalog/entries.h"
#include "lib/catalog/history.h"
#include "lib/catalog/minisig.h"
#include "lib/catalog/modinfo.h"
#include "lib/catalog/root.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What is accepted must come out again as the bytes that went in. */
static void catalog(const uint8_t *data, size_t n)
{
	struct catalog_document doc;

	if (!catalog_document_parse(&doc, data, n, NULL)) {
		char *text = canon_text(doc.json);

		if (!text || strlen(text) != n || memcmp(text, data, n))
			abort();
		free(text);
		for (size_t i = 0; i < doc.info.modules; i++)
			if (doc.modules[i].path[0] == '/' || strstr(doc.modules[i].path, "..") == doc.modules[i].path)
				abort();
	}
	catalog_document_free(&doc);
}

static void root(const uint8_t *data, size_t n)
{
	struct catalog_root parsed;

	if (!catalog_root_parse(&parsed, data, n, NULL) &&
	    (parsed.n_keys > CATALOG_ROOT_KEYS_MAX || !parsed.roles[CATALOG_ROLE_ROOT].threshold))
		abort();
}

static void signature(const uint8_t *data, size_t n)
{
	struct minisig sig;
	struct minisig_key key = {.id = {1}};

	if (!minisig_parse(&sig, data, n, NULL)) {
		memcpy(key.id, sig.id, sizeof(key.id));
		if (strlen(sig.comment) >= MINISIG_COMMENT_MAX || !minisig_verify(&sig, &key, data, n))
			abort();
	}
}

static void history(const uint8_t *data, size_t n)
{
	struct catalog_history log;

	catalog_history_parse(&log, data, n, 1, NULL);
}

static void module(const uint8_t *data, size_t n)
{
	modinfo_check(data, n, "6.1.0-57-cloud-amd64", NULL);
}

static void provenance(const uint8_t *data, size_t n)
{
	static const struct catalog_root none;

	if (!provenance_check(data, n, &none, "", NULL))
		abort();
}

static void key(const uint8_t *data, size_t n)
{
	char text[MINISIG_KEY_TEXT + 8], again[MINISIG_KEY_TEXT];
	struct minisig_key parsed;

	if (n >= sizeof(text))
		return;
	memcpy(text, data, n);
	text[n] = '\0';
	if (minisig_key_parse(&parsed, text, NULL))
		return;
	minisig_key_text(again, &parsed);
	if (strcmp(again, text))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const parsers[])(const uint8_t *, size_t) = {catalog, root,	signature, history,
								   module,  provenance, key};

	if (n)
		parsers[data[0] % (sizeof(parsers) / sizeof(*parsers))](data + 1, n - 1);
	return 0;
}
