/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of event kinds, made from events.def, and the sentences that rows are read as. */
#include "hostd/sentry/events.h"

#include <stdio.h>
#include <string.h>

const struct event_def event_defs[EVENT_COUNT] = {
#define EVENT(id, name_, engine_, verdict_, signal_, fold_s_, ocsf_, flags_, sentence_)                                \
	[EVENT_##id] = { .name = name_,                                                                                \
			 .engine = ENGINE_##engine_,                                                                   \
			 .verdict = VERDICT_##verdict_,                                                                \
			 .signal = SIGNAL_##signal_,                                                                   \
			 .fold_s = fold_s_,                                                                            \
			 .ocsf = OCSF_##ocsf_,                                                                         \
			 .flags = flags_,                                                                              \
			 .sentence = sentence_ },
#include "hostd/sentry/events.def"
#undef EVENT
};

const struct signal_def signal_defs[SIGNAL_COUNT] = {
#define SIGNAL(id, name_, weight_, text_) [SIGNAL_##id] = { .name = name_, .weight = weight_, .text = text_ },
#include "hostd/sentry/signals.def"
#undef SIGNAL
};

static const char *const engine_names[ENGINE_COUNT] = {
	"sentry", "switch", "dns", "proxy", "policy", "lifecycle", "judge",
};
static const char *const verdict_names[VERDICT_COUNT] = { "note", "allowed", "denied", "warning", "alarm" };

int event_find(const char *name)
{
	for (int i = 0; i < EVENT_COUNT; i++)
		if (!strcmp(event_defs[i].name, name))
			return i;
	return -1;
}

int event_signal_find(const char *name)
{
	for (int i = 0; i < SIGNAL_COUNT; i++)
		if (!strcmp(signal_defs[i].name, name))
			return i;
	return -1;
}

static int find_in(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

const char *event_engine_name(enum event_engine engine)
{
	return (unsigned)engine < ENGINE_COUNT ? engine_names[engine] : "?";
}

const char *event_verdict_name(enum event_verdict verdict)
{
	return (unsigned)verdict < VERDICT_COUNT ? verdict_names[verdict] : "?";
}

int event_engine_find(const char *name)
{
	return find_in(engine_names, ENGINE_COUNT, name);
}

int event_verdict_find(const char *name)
{
	return find_in(verdict_names, VERDICT_COUNT, name);
}

/* ---- sentences ---- */

/* Text under construction; what does not fit is remembered and not written. */
struct text {
	char *out;
	size_t size, len;
	bool cut;
};

static void text_put(struct text *t, const char *s, size_t n)
{
	if (t->cut)
		return;
	if (t->len + n >= t->size) {
		n = t->size - 1 - t->len;
		t->cut = true;
	}
	memcpy(t->out + t->len, s, n);
	t->len += n;
	t->out[t->len] = '\0';
}

/* A cut text ends in whole characters and an ellipsis. */
static void text_finish(struct text *t)
{
	static const char ellipsis[] = "…";
	size_t n = sizeof(ellipsis) - 1;

	if (!t->cut || t->size <= n)
		return;
	if (t->len > t->size - 1 - n)
		t->len = t->size - 1 - n;
	while (t->len && ((unsigned char)t->out[t->len] & 0xc0) == 0x80)
		t->len--;
	memcpy(t->out + t->len, ellipsis, n + 1);
	t->len += n;
}

/* argv as a person would type it: arguments with blanks or quotes get quotes. */
static void text_put_argv(struct text *t, const json_t *argv)
{
	size_t i;
	const json_t *arg;

	json_array_foreach (argv, i, arg) {
		const char *s = json_string_value(arg);

		if (!s)
			continue;
		if (i)
			text_put(t, " ", 1);
		if (*s && !strpbrk(s, " \t\n'\"\\$`;&|<>()*?")) {
			text_put(t, s, strlen(s));
			continue;
		}
		text_put(t, "'", 1);
		for (; *s; s++)
			text_put(t, *s == '\'' ? "'\\''" : s, *s == '\'' ? 4 : 1);
		text_put(t, "'", 1);
	}
}

/* Names that stand for whichever member the frame has. */
static const json_t *member(const json_t *data, const char *name, size_t n)
{
	static const struct {
		const char *alias, *members[6];
	} aliases[] = {
		{ "program", { "program", "exe", "path", "comm", "exe_b64", NULL } },
		{ "command", { "argv", "command", NULL } },
		{ "target", { "target", "path", "dst", NULL } },
		{ "set_by", { "set_by", "comm", NULL } },
	};

	for (size_t a = 0; a < sizeof(aliases) / sizeof(aliases[0]); a++) {
		if (strlen(aliases[a].alias) != n || memcmp(aliases[a].alias, name, n) != 0)
			continue;
		for (size_t m = 0; aliases[a].members[m]; m++) {
			const json_t *v = json_object_get(data, aliases[a].members[m]);

			if (v)
				return v;
		}
		return NULL;
	}
	return json_object_getn(data, name, n);
}

static bool put_value(struct text *t, const json_t *v)
{
	char number[32];

	switch (json_typeof(v)) {
	case JSON_STRING:
		if (!json_string_length(v))
			return false;
		text_put(t, json_string_value(v), json_string_length(v));
		return true;
	case JSON_INTEGER:
		text_put(t, number, (size_t)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v)));
		return true;
	case JSON_REAL:
		text_put(t, number, (size_t)snprintf(number, sizeof(number), "%.1f", json_real_value(v)));
		return true;
	case JSON_TRUE:
		text_put(t, "yes", 3);
		return true;
	case JSON_FALSE:
		text_put(t, "no", 2);
		return true;
	case JSON_ARRAY:
		text_put_argv(t, v);
		return json_array_size(v) > 0;
	case JSON_OBJECT: /* {pid, comm}: the name of the process */
		v = json_object_get(v, "comm");
		return json_is_string(v) && put_value(t, v);
	default:
		return false;
	}
}

/* @p is behind "{"; puts the first alternative that there is and returns behind "}". */
static const char *put_field(struct text *t, const char *p, const char *subject, const json_t *data, bool *missing)
{
	bool done = false;

	while (*p && *p != '}') {
		size_t n;
		const json_t *v;

		if (*p == '|') {
			p++;
			continue;
		}
		if (*p == '"') {
			n = strcspn(p + 1, "\"");
			if (!done)
				text_put(t, p + 1, n);
			done = true;
			p += n + 2;
			continue;
		}
		n = strcspn(p, "|}");
		if (!done && n == 7 && !memcmp(p, "subject", 7) && *subject) {
			text_put(t, subject, strlen(subject));
			done = true;
		} else if (!done && (v = member(data, p, n))) {
			done = put_value(t, v);
		}
		p += n;
	}
	if (!done) {
		*missing = true;
		text_put(t, "?", 1);
	}
	return *p ? p + 1 : p;
}

size_t event_sentence(enum event_kind kind, const char *subject, const json_t *data, char *out, size_t size)
{
	const char *p = event_defs[kind].sentence;
	struct text t = { .out = out, .size = size }, before = t;
	bool missing = false;

	if (!size)
		return 0;
	out[0] = '\0';
	if (!subject)
		subject = "";
	while (*p) {
		size_t n = strcspn(p, "{[]");

		text_put(&t, p, n);
		p += n;
		if (*p == '{') {
			p = put_field(&t, p + 1, subject, data, &missing);
		} else if (*p == '[') {
			before = t;
			missing = false;
			p++;
		} else if (*p == ']') {
			if (missing) { /* the optional part goes as a whole */
				t = before;
				t.out[t.len] = '\0';
			}
			p++;
		}
	}
	text_finish(&t);
	return t.len;
}

void event_subject(enum event_kind kind, const json_t *data, char *out, size_t size)
{
	static const char *const by_program[] = { "program", NULL };
	static const char *const by_dest[] = { "host", "name", "dst", NULL };
	const char *const *names = event_defs[kind].ocsf == OCSF_NETWORK_ACTIVITY ? by_dest : by_program;
	struct text t = { .out = out, .size = size };

	out[0] = '\0';
	for (; *names && !t.len; names++) {
		const json_t *v = member(data, *names, strlen(*names));

		if (json_is_string(v))
			put_value(&t, v);
	}
	text_finish(&t);
}
