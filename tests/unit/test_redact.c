/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Redaction against a corpus of shapes, cut at every byte, and at the store's only door. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostd/sentry/ingest.h"
#include "hostd/store/redact.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/json.h"

static json_t *corpus(const char *part)
{
	json_t *doc = json_load_file("tests/data/redaction/corpus.json", 0, NULL), *list;

	assert_non_null(doc);
	list = json_incref(json_object_get(doc, part));
	json_decref(doc);
	return list;
}

/* The case as a value: a text, an argument vector or an object. */
static json_t *value_of(const json_t *c)
{
	json_t *v = json_object_get(c, "text");

	if (!v)
		v = json_object_get(c, "argv");
	return v ? v : json_object_get(c, "object");
}

static char *dump(const json_t *v)
{
	return json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
}

static void every_shape_goes(void **state)
{
	json_t *list = corpus("must_go");
	const json_t *c;
	unsigned n = 0;
	size_t i;

	(void)state;
	json_array_foreach (list, i, c) {
		const char *secret = json_string_value(json_object_get(c, "secret"));
		const char *about = json_string_value(json_object_get(c, "about"));
		unsigned count = 0;
		json_t *clean = redact_json(value_of(c), &count);
		_cleanup_free_ char *text = dump(clean ? clean : value_of(c));

		json_decref(clean);
		if (!secret) /* a shape that is known not to be found: stays listed */
			continue;
		n++;
		if (strstr(text, secret) || !strstr(text, REDACT_MARK) || !count)
			fail_msg("%s: %s", about, text);
	}
	assert_true(n >= 60);
	json_decref(list);
}

static void ordinary_text_stays(void **state)
{
	json_t *list = corpus("must_stay");
	const json_t *c;
	size_t i;

	(void)state;
	json_array_foreach (list, i, c) {
		unsigned count = 0;
		json_t *clean = redact_json(value_of(c), &count);
		_cleanup_free_ char *text = dump(clean ? clean : value_of(c));

		if (clean)
			fail_msg("lost something: %s", text);
	}
	json_decref(list);
}

/* What is redacted once stays as it is: no reader sees another text than the one that was hashed. */
static void redacting_twice_changes_nothing(void **state)
{
	json_t *list = corpus("must_go");
	const json_t *c;
	size_t i;

	(void)state;
	json_array_foreach (list, i, c) {
		unsigned count = 0;
		json_t *once = redact_json(value_of(c), &count);

		if (once) {
			json_t *twice = redact_json(once, &count);
			_cleanup_free_ char *a = dump(once), *b = dump(twice ? twice : once);

			assert_string_equal(a, b);
			json_decref(twice);
			json_decref(once);
		}
	}
	json_decref(list);
}

/* A guest cuts texts at its own limits: whatever is left of a self-evident token goes. */
static void a_cut_token_is_a_token(void **state)
{
	static const struct {
		size_t prefix;
		const char *text;
	} tokens[] = { { 7, "sk-ant-api03-AbCdEfGhIjKlMnOp" }, { 4, "ghp_0123456789abcdefghijABCDEFGHIJ" },
		       { 11, "github_pat_11ABCDEFG0123456789" }, { 6, "glpat-ABCDEFabcdef12345678" },
		       { 5, "xoxb-123456789012-abcdefghijkl" }, { 4, "hvs.CAESIJabcdefabcdef" } };

	(void)state;
	for (size_t t = 0; t < sizeof(tokens) / sizeof(tokens[0]); t++) {
		for (size_t cut = tokens[t].prefix + 1; cut <= strlen(tokens[t].text); cut++) {
			unsigned count = 0;
			char text[128];
			_cleanup_free_ char *clean = NULL;

			snprintf(text, sizeof(text), "git push %.*s", (int)cut, tokens[t].text);
			clean = redact_text(text, strlen(text), &count);
			if (!clean || strcmp(clean, "git push " REDACT_MARK) != 0)
				fail_msg("%s -> %s", text, clean ? clean : "(kept)");
		}
	}
}

static bool file_has(const char *path, const char *needle)
{
	struct buf b;
	bool found;

	buf_init(&b, 64 << 20);
	if (access(path, F_OK) || io_read_file(path, &b, NULL)) {
		buf_free(&b);
		return false;
	}
	found = memmem(b.data, b.len, needle, strlen(needle)) != NULL;
	buf_free(&b);
	return found;
}

/* Rows, raw frames, full-text index, log: no file of the store ever holds the secret. */
static void no_byte_of_it_reaches_the_disk(void **state)
{
	static const char secret[] = "hunter2hunter2", safe[] = "visibleargument";
	char dir[] = "/tmp/hf-redact-XXXXXX", path[64], other[80], frame[512];
	struct judge_config jc;
	_cleanup_json_ json_t *event = NULL;
	struct store_config cfg = { .path = path };
	struct ingest *in;
	struct store *s;
	struct err e;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/t.db", dir);
	assert_int_equal(store_open(&cfg, NULL, NULL, &s, &e), 0);
	judge_config_default(&jc);
	in = ingest_new(s, "demo", &jc, NULL, NULL, 0);
	ingest_boot(in, "b", 1, 0);
	snprintf(frame, sizeof(frame),
		 "{\"v\":1,\"type\":\"exec\",\"seq\":1,\"t\":5,\"pid\":7,\"path\":\"/usr/bin/tool\",\"argv\":[\"tool\",\"%s\","
		 "\"--password\",\"%s\"],\"chain\":[{\"pid\":1,\"args\":\"sh -c 'tool --password %s'\"}],\"mac\":\"%064d\"}",
		 safe, secret, secret, 1);
	event = json_loads(frame, 0, NULL);
	assert_non_null(event);
	assert_int_equal(ingest_frame(in, 10, "exec", 1, event, frame, strlen(frame), "{}", &e), STORE_OK);
	assert_int_equal(store_sync(s, 5000, &e), 0);
	snprintf(other, sizeof(other), "%s-wal", path);
	assert_true(file_has(other, safe) || file_has(path, safe));
	assert_false(file_has(other, secret));
	ingest_free(in);
	store_close(s);
	assert_true(file_has(path, safe));
	assert_false(file_has(path, secret));
	io_remove_tree(AT_FDCWD, dir, &e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shape_goes),
		cmocka_unit_test(ordinary_text_stays),
		cmocka_unit_test(redacting_twice_changes_nothing),
		cmocka_unit_test(a_cut_token_is_a_token),
		cmocka_unit_test(no_byte_of_it_reaches_the_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
