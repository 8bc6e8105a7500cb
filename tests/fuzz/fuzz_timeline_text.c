/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest's text and JSON on their way in and out: redaction, sentences, queries, exports, the terminal. */
#include <stdlib.h>
#include <string.h>

#include "hostd/cli/timeline_print.h"
#include "hostd/sentry/judge.h"
#include "hostd/store/export.h"
#include "hostd/store/redact.h"
#include "lib/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const json_t *obj, const char *text)
{
	static FILE *null;
	struct timeline_style style = { .now_ns = 1, .ws_width = 4 };
	_cleanup_json_ json_t *row_json = NULL;
	char *dump = json_text(obj), subject[STORE_SUBJECT_MAX];
	struct store_row row = { .id = 1, .ws = "demo", .boot = "", .data = dump, .count = 2, .kind = EVENT_EXEC };

	if (!null)
		null = fopen("/dev/null", "w");
	row.kind = (enum event_kind)(strlen(dump) % EVENT_COUNT);
	event_subject(row.kind, obj, subject, sizeof(subject));
	row.subject = subject;
	for (int f = EXPORT_JSON; f <= EXPORT_OCSF; f++)
		export_row(null, (enum export_format)f, &row);
	row_json = query_row_json(&row);
	if (row_json) {
		timeline_print_row(null, &style, row_json);
		timeline_print_whole(null, &style, row_json, obj);
	}
	timeline_escape(null, text);
	free(dump);
}

/* A frame that the session let through: the judge takes it whatever its members are. */
static void judge_it(const json_t *obj)
{
	struct judge_config cfg;
	struct judge_event ev;
	struct judge_result res;
	struct judge *j;
	json_t *state;

	judge_config_default(&cfg);
	judge_config_parse(obj, &cfg, NULL);
	j = judge_new(&cfg, NULL, NULL);
	judge_boot(j, 0);
	for (int k = 0; k < EVENT_COUNT; k++)
		judge_frame(j, 100000 + k, event_defs[k].name, obj, &ev, &res);
	state = judge_export(j, 200000);
	judge_import(j, 0, obj, NULL);
	if (judge_import(j, 0, state, NULL))
		__builtin_trap();
	json_decref(state);
	judge_free(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct json_limits limits = { .bytes = 65536, .depth = 16, .values = 16384 };
	json_t *obj = json_parse(data, size, &limits, NULL), *clean;
	char *text = strndup((const char *)data, size), *redacted;
	unsigned count = 0;
	struct query q;

	redacted = redact_text((const char *)data, size, &count);
	free(redacted);
	if (json_is_object(obj)) {
		clean = redact_json(obj, &count);
		show(clean ? clean : obj, text);
		json_decref(clean);
		query_from_json(obj, &q, NULL);
		judge_it(obj);
	}
	json_decref(obj);
	free(text);
	return 0;
}
