/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows on a terminal: aligned columns, colour by verdict, one sentence a row, the chain of processes as a tree. */
#include "hostd/cli/timeline_print.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RESET "\033[0m"

/* Length of a character that must not reach a terminal as it is; 0: it may. Invalid UTF-8 is such, byte by byte. */
static size_t hidden(const unsigned char *c)
{
	if (c[0] < 0x20 || c[0] == 0x7f)
		return 1;
	if (c[0] < 0x80)
		return 0;
	if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f) /* C1 */
		return 2;
	if (c[0] == 0xd8 && c[1] == 0x9c) /* U+061C */
		return 2;
	if (c[0] == 0xe2 && c[1] == 0x80 && ((c[2] >= 0x8b && c[2] <= 0x8f) || (c[2] >= 0xa8 && c[2] <= 0xae)))
		return 3; /* U+200B..F, U+2028..E */
	if (c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa0 && c[2] <= 0xaf)
		return 3; /* U+2060..F */
	if (c[0] == 0xef && c[1] == 0xbb && c[2] == 0xbf)
		return 3; /* U+FEFF */
	if (c[0] == 0xf3 && c[1] == 0xa0 && (c[2] == 0x80 || c[2] == 0x81) && (c[3] & 0xc0) == 0x80)
		return 4; /* tags, U+E0000..7F */
	return 0;
}

static size_t utf8_length(const unsigned char *c)
{
	size_t n = c[0] < 0x80 ? 1 : c[0] >= 0xc2 && c[0] < 0xe0 ? 2 : c[0] >= 0xe0 && c[0] < 0xf0 ? 3 :
		   c[0] >= 0xf0 && c[0] < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

void timeline_escape(FILE *out, const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	while (*c) {
		size_t n = hidden(c), whole = utf8_length(c);

		if (!n && whole) {
			fwrite(c, 1, whole, out);
			c += whole;
			continue;
		}
		if (*c == '\n' || *c == '\t' || *c == '\r') {
			fprintf(out, "\\%c", *c == '\n' ? 'n' : *c == '\t' ? 't' : 'r');
			c++;
			continue;
		}
		for (n = n ? n : 1; n; n--)
			fprintf(out, "\\x%02x", *c++);
	}
}

static const char *text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

static long long integer(const json_t *obj, const char *key)
{
	return json_integer_value(json_object_get(obj, key));
}

static const char *color_of(const char *verdict)
{
	static const struct {
		const char *verdict, *color;
	} colors[] = { { "note", "" },		    { "allowed", "\033[32m" },	 { "denied", "\033[33m" },
		       { "warning", "\033[1;33m" }, { "alarm", "\033[1;31m" } };

	for (size_t i = 0; i < sizeof(colors) / sizeof(colors[0]); i++)
		if (!strcmp(colors[i].verdict, verdict))
			return colors[i].color;
	return "";
}

static void print_time(FILE *out, const struct timeline_style *style, int64_t ns)
{
	time_t t = (time_t)(ns / 1000000000), now = (time_t)(style->now_ns / 1000000000);
	int64_t ago = (style->now_ns - ns) / 1000000000;
	struct tm tm, today;
	char when[32];

	if (style->relative) {
		if (ago < 0)
			snprintf(when, sizeof(when), "in %llds", (long long)-ago);
		else if (ago < 60)
			snprintf(when, sizeof(when), "%llds ago", (long long)ago);
		else if (ago < 3600)
			snprintf(when, sizeof(when), "%lldm%02llds ago", (long long)ago / 60, (long long)ago % 60);
		else if (ago < 86400)
			snprintf(when, sizeof(when), "%lldh%02lldm ago", (long long)ago / 3600, (long long)ago / 60 % 60);
		else
			snprintf(when, sizeof(when), "%lldd%02lldh ago", (long long)ago / 86400,
				 (long long)ago / 3600 % 24);
		fprintf(out, "%11s", when);
		return;
	}
	localtime_r(&t, &tm);
	localtime_r(&now, &today);
	strftime(when, sizeof(when), tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year ? "%H:%M:%S" : "%m-%d %H:%M:%S",
		 &tm);
	fprintf(out, "%14s", when);
}

static void print_times(FILE *out, const json_t *row)
{
	long long count = integer(row, "count"), procs = integer(row, "procs");

	if (count <= 1 && !json_is_true(json_object_get(row, "fold")))
		return;
	fprintf(out, "  ×%lld%s", count, json_is_true(json_object_get(row, "fold")) ? " more" : "");
	if (procs > 1)
		fprintf(out, " from %lld%s processes", procs, procs >= 64 ? " or more" : "");
}

void timeline_print_row(FILE *out, const struct timeline_style *style, const json_t *row)
{
	const char *verdict = text(row, "verdict"), *color = style->color ? color_of(verdict) : "";
	long long weight = integer(row, "weight");
	char points[16] = "";

	fprintf(out, "%6lld ", integer(row, "id"));
	print_time(out, style, integer(row, "host_ns"));
	if (style->ws_width) {
		const char *ws = text(row, "ws");

		fputs("  ", out);
		timeline_escape(out, ws);
		for (int n = (int)strlen(ws); n < style->ws_width; n++)
			fputc(' ', out);
	}
	if (weight)
		snprintf(points, sizeof(points), "+%lld", weight);
	fprintf(out, "  %s%-7s%s %4s  %-9s %s", color, verdict, *color ? RESET : "", points, text(row, "engine"), color);
	timeline_escape(out, text(row, "sentence"));
	print_times(out, row);
	fprintf(out, "%s\n", *color ? RESET : "");
}

/* ---- one row, whole ---- */

static void print_value(FILE *out, const json_t *v)
{
	char *dump;

	if (json_is_string(v)) {
		timeline_escape(out, json_string_value(v));
		return;
	}
	dump = json_dumps(v, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_COMPACT);
	timeline_escape(out, dump ? dump : "?");
	free(dump);
}

static void print_process(FILE *out, const json_t *p, size_t depth, bool last)
{
	const char *path = text(p, "path"), *comm = text(p, "comm"), *program = text(p, "program");

	fprintf(out, "  %*s%s", (int)(2 * depth), "", depth ? "└ " : "");
	timeline_escape(out, *program ? program : *path ? path : *comm ? comm : "a process without a name");
	if (json_is_integer(json_object_get(p, "pid")))
		fprintf(out, " (pid %lld)", integer(p, "pid"));
	if (*text(p, "command")) {
		fputs("  ", out);
		timeline_escape(out, text(p, "command"));
	}
	fprintf(out, "%s\n", last ? "   ← this one" : "");
}

/* A chain is nearest first; people read it from the root. */
static void print_chain(FILE *out, const json_t *chain, const json_t *self)
{
	size_t n = json_array_size(chain), depth = 0;

	if (!n)
		return;
	fputs("chain of processes:\n", out);
	while (n--)
		print_process(out, json_array_get(chain, n), depth++, !self && !n);
	if (self)
		print_process(out, self, depth, true);
}

void timeline_print_whole(FILE *out, const struct timeline_style *style, const json_t *row, const json_t *frame)
{
	static const char *const facts[] = { "time", "ws", "engine", "kind", "verdict", "weight", "count", "procs",
					     "epoch", "seq", "boot", "guest_ns", "hash" };
	const char *color = style->color ? color_of(text(row, "verdict")) : "";
	const json_t *data = json_object_get(row, "data"), *chain = json_object_get(frame, "chain");
	const char *key;
	json_t *value;

	fprintf(out, "%srow %lld: ", color, integer(row, "id"));
	timeline_escape(out, text(row, "sentence"));
	print_times(out, row);
	fprintf(out, "%s\n\n", *color ? RESET : "");
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		value = json_object_get(row, facts[i]);
		if (!value || (json_is_integer(value) && !json_integer_value(value)) ||
		    (json_is_string(value) && !json_string_length(value)))
			continue;
		fprintf(out, "  %-10s ", facts[i]);
		print_value(out, value);
		fputc('\n', out);
	}
	fputc('\n', out);
	json_object_foreach ((json_t *)data, key, value) {
		if (!strcmp(key, "chain"))
			continue;
		fputs("  ", out);
		timeline_escape(out, key);
		fprintf(out, "%*s ", (int)(strlen(key) < 18 ? 18 - strlen(key) : 0), "");
		print_value(out, value);
		fputc('\n', out);
	}
	if (!chain)
		chain = json_object_get(data, "chain");
	if (json_is_array(chain)) {
		fputc('\n', out);
		print_chain(out, chain, json_object_get(data, "pid") ? data : NULL);
	}
}

/* ---- times ---- */

static int64_t parse_age(const char *s, int64_t now_ns)
{
	char *end;
	long long n = strtoll(s, &end, 10);
	static const struct {
		const char *unit;
		int64_t seconds;
	} units[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 }, { "w", 604800 } };

	if (end == s || n < 0 || n > 1000000000)
		return -1;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].unit))
			return now_ns - n * units[i].seconds * 1000000000 > 0 ?
				       now_ns - n * units[i].seconds * 1000000000 : 1;
	return -1;
}

int64_t timeline_parse_time(const char *s, int64_t now_ns)
{
	static const char *const formats[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
					       "%Y-%m-%d %H:%M", "%Y-%m-%d" };
	int64_t ns = parse_age(s, now_ns);

	if (ns >= 0)
		return ns;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm tm = { .tm_isdst = -1 };
		const char *end = strptime(s, formats[i], &tm);

		if (end && !*end)
			return (int64_t)mktime(&tm) * 1000000000;
		if (end && !strcmp(end, "Z"))
			return (int64_t)timegm(&tm) * 1000000000;
	}
	return -1;
}
