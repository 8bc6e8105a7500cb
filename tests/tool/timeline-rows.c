/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * timeline-rows DATABASE - appends rows to a timeline as hostd does, which must not have it open: one JSON object
 * {ws, kind, data} a line on standard input.  For tests of what reads rows that only a running VM brings about.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "hostd/store/store.h"

static int append(struct store *store, json_t *line, struct err *err)
{
	const char *ws, *kind;
	json_t *data;
	char *text;
	int rc = -1;

	if (json_unpack(line, "{s:s,s:s,s:o}", "ws", &ws, "kind", &kind, "data", &data))
		return err_set(err, "not {ws, kind, data}");
	text = json_dumps(data, JSON_COMPACT);
	for (int k = 0; rc < 0 && k < EVENT_COUNT; k++) {
		struct store_row row = { .ws = ws, .kind = (enum event_kind)k, .verdict = event_defs[k].verdict,
					 .data = text };

		if (!strcmp(event_defs[k].name, kind))
			rc = store_append_row(store, &row, err);
	}
	free(text);
	return rc < 0 && !*err->text ? err_set(err, "no event is named %s", kind) : rc;
}

int main(int argc, char **argv)
{
	struct store_config config = { .path = argc == 2 ? argv[1] : NULL };
	struct store *store;
	struct err err = { "" };
	json_t *line;
	int rc = 0;

	if (argc != 2 || store_open(&config, NULL, NULL, &store, &err)) {
		fprintf(stderr, "timeline-rows: %s\n", *err.text ? err.text : "needs a database");
		return 2;
	}
	while (rc >= 0 && (line = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
		rc = append(store, line, &err);
		json_decref(line);
	}
	if (rc >= 0)
		rc = store_sync(store, 5000, &err);
	if (rc < 0)
		fprintf(stderr, "timeline-rows: %s\n", err.text);
	store_close(store);
	return rc < 0;
}
