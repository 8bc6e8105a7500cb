/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * holdfast timeline: list, follow, show, export, verify.
 *
 * All of them read the database (or a file) themselves, on a read-only connection: they work while hostd runs and when
 * it does not, and see what is durable. --follow is told of new rows by hostd, and reads the database whenever it has
 * to catch up.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "hostd/cli/timeline_cmd.h"
#include "hostd/cli/timeline_list.h"
#include "hostd/cli/timeline_print.h"
#include "hostd/store/export.h"
#include "hostd/store/verify.h"
#include "hostd/ws/workspace.h"
#include "lib/cleanup.h"
#include "lib/json.h"

#define LIST_DEFAULT 200

static const char usage_list[] =
	"timeline [WS] [--since 10m] [--until T] [--kind K,...] [--engine E,...] [--verdict V,...] [--min-weight N]\n"
	"                         [--grep S] [--match WORDS] [--limit N] [--all] [--follow] [--relative]\n"
	"                         [--json|--csv|--ocsf] [--color auto|always|never]\n"
	"       holdfast timeline show ID [--json]\n"
	"       holdfast timeline export [WS] --out FILE [--frames] [filters]\n"
	"       holdfast timeline verify [FILE] [--key FINGERPRINT|FILE]... [--json]\n"
	"       holdfast timeline rotate [--new-key]\n"
	"       holdfast timeline kinds";

struct timeline_args {
	struct query q;
	const char *since, *until, *kinds, *engines, *verdicts, *min_weight, *limit, *color, *out;
	bool follow, json, csv, ocsf, relative, frames, new_key;
	json_t *keys;
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* ---- arguments ---- */

static int usage_error(const char *fmt, const char *what)
{
	fputs("holdfast: ", stderr);
	fprintf(stderr, fmt, what);
	fputc('\n', stderr);
	return CLI_USAGE;
}

/* "a,b,c" through a table of names. */
static int each_name(const char *list, int (*find)(const char *), struct query *q, uint32_t *bits, const char *what)
{
	_cleanup_free_ char *copy = list ? strdup(list) : NULL;
	char *rest = copy, *name;

	while ((name = strsep(&rest, ","))) {
		int n;

		if (!*name)
			continue;
		n = find(name);
		if (n < 0) {
			fprintf(stderr, "holdfast: no %s is named \"%s\"%s\n", what, name,
				bits ? "" : " (holdfast timeline kinds lists them)");
			return CLI_USAGE;
		}
		if (bits)
			*bits |= 1u << n;
		else
			query_kind_add(q, (enum event_kind)n);
	}
	return 0;
}

static int parse_number(const char *text, unsigned *out, const char *what)
{
	char *end;
	unsigned long n;

	if (!text)
		return 0;
	n = strtoul(text, &end, 10);
	if (*end || end == text || *text == '-' || n > 1000000000)
		return usage_error("%s needs a number", what);
	*out = (unsigned)n;
	return 0;
}

static int parse_args(int *argc, char ***argv, struct timeline_args *a)
{
	const struct cli_option options[] = {
		{ "since", NULL, &a->since, NULL },
		{ "until", NULL, &a->until, NULL },
		{ "kind", NULL, &a->kinds, NULL },
		{ "engine", NULL, &a->engines, NULL },
		{ "verdict", NULL, &a->verdicts, NULL },
		{ "min_weight", NULL, &a->min_weight, NULL },
		{ "grep", NULL, &a->q.grep, NULL },
		{ "match", NULL, &a->q.match, NULL },
		{ "limit", NULL, &a->limit, NULL },
		{ "all", &a->q.all, NULL, NULL },
		{ "follow", &a->follow, NULL, NULL },
		{ "relative", &a->relative, NULL, NULL },
		{ "json", &a->json, NULL, NULL },
		{ "csv", &a->csv, NULL, NULL },
		{ "ocsf", &a->ocsf, NULL, NULL },
		{ "color", NULL, &a->color, NULL },
		{ "out", NULL, &a->out, NULL },
		{ "frames", &a->frames, NULL, NULL },
		{ "new_key", &a->new_key, NULL, NULL },
		{ "key", NULL, NULL, a->keys },
		{ NULL, NULL, NULL, NULL },
	};
	int rc = cli_parse(argc, argv, options, NULL, usage_list);
	int64_t now = now_ns();

	if (rc)
		return rc;
	if (a->since && (a->q.since_ns = timeline_parse_time(a->since, now)) < 0)
		return usage_error("--since %s: give an age (10m, 2h, 3d) or a time (2026-11-30T12:00)", a->since);
	if (a->until && (a->q.until_ns = timeline_parse_time(a->until, now)) < 0)
		return usage_error("--until %s: give an age (10m, 2h, 3d) or a time (2026-11-30T12:00)", a->until);
	if (a->json + a->csv + a->ocsf > 1)
		return usage_error("%s exclude one another", "--json, --csv and --ocsf");
	if ((rc = each_name(a->kinds, event_find, &a->q, NULL, "kind")) ||
	    (rc = each_name(a->engines, event_engine_find, &a->q, &a->q.engines, "engine")) ||
	    (rc = each_name(a->verdicts, event_verdict_find, &a->q, &a->q.verdicts, "verdict")) ||
	    (rc = parse_number(a->min_weight, &a->q.min_weight, "--min-weight")) ||
	    (rc = parse_number(a->limit, &a->q.limit, "--limit")))
		return rc;
	return 0;
}

static bool use_color(const char *wish)
{
	if (wish && !strcmp(wish, "always"))
		return true;
	if (wish && !strcmp(wish, "never"))
		return false;
	return isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && strcmp(getenv("TERM") ? getenv("TERM") : "dumb", "dumb") != 0;
}

static int db_path(char *out, size_t size)
{
	return (size_t)snprintf(out, size, "%s/timeline.db", cli_paths()->store) < size ? 0 : -1;
}

static int open_timeline(struct query_db **db, struct err *e)
{
	char path[PATHS_MAX + 16];

	db_path(path, sizeof(path));
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return err_set(e, "there is no timeline yet (%s): nothing has run", path);
	return query_open(path, db, e);
}

/* ---- list ---- */

static int list(struct timeline_args *a)
{
	struct timeline_listing how = { .rows_for_programs = a->json || a->csv || a->ocsf, .color = use_color(a->color),
					.format = a->csv ? EXPORT_CSV : a->ocsf ? EXPORT_OCSF : EXPORT_JSON,
					.relative = a->relative, .follow = a->follow };
	struct query_db *db = NULL;
	struct err e = { "" };
	int rc;

	if (!a->limit && !a->since && !how.rows_for_programs)
		a->q.limit = a->follow ? 20 : LIST_DEFAULT;
	how.q = a->q;
	if (open_timeline(&db, &e))
		return cli_fail(&e);
	rc = timeline_list(db, &how, &e) ? cli_fail(&e) : CLI_OK;
	query_close(db);
	return rc;
}

/* ---- show ---- */

struct shown {
	json_t *row, *frame;
	struct query_db *db;
};

static int show_row(void *u, const struct store_row *row)
{
	struct shown *s = u;

	s->row = query_row_json(row);
	if (row->seq && row->boot && *row->boot)
		s->frame = query_frame(s->db, row->ws, row->boot, row->epoch, row->seq);
	return 1;
}

static int show(int argc, char **argv, struct timeline_args *a)
{
	struct timeline_style style = { .color = use_color(a->color), .now_ns = now_ns() };
	struct shown s = { NULL, NULL, NULL };
	struct err e = { "" };
	char *end = NULL;
	unsigned long long id = argc == 2 ? strtoull(argv[1], &end, 10) : 0;

	if (!id || *end)
		return cli_usage("timeline show ID [--json]");
	if (open_timeline(&s.db, &e) || query_row(s.db, id, show_row, &s, &e)) {
		query_close(s.db);
		return cli_fail(&e);
	}
	query_close(s.db);
	if (!s.row) {
		err_set(&e, "the timeline has no row %llu", id);
		return cli_fail(&e);
	}
	if (a->json)
		cli_print_json(json_pack("{s:O,s:O*}", "row", s.row, "frame", s.frame));
	else
		timeline_print_whole(stdout, &style, s.row, s.frame);
	json_decref(s.row);
	json_decref(s.frame);
	return CLI_OK;
}

/* ---- export ---- */

int timeline_export_to(const char *path, const struct query *q, bool frames, struct export_totals *totals, struct err *e)
{
	char db[PATHS_MAX + 16], key[PATHS_MAX + 32], tmp[PATHS_MAX + 16];
	_cleanup_fclose_ FILE *out = NULL;
	int fd, rc;

	db_path(db, sizeof(db));
	snprintf(key, sizeof(key), "%s.key", db);
	if ((size_t)snprintf(tmp, sizeof(tmp), "%s.tmp", path) >= sizeof(tmp))
		return err_set(e, "%s: the path is too long", path);
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || !(out = fdopen(fd, "w")))
		return err_errno(e, "%s", tmp);
	rc = export_file(db, key, q, frames, out, totals, e);
	if (!rc && (fflush(out) || fsync(fd) < 0 || rename(tmp, path) < 0))
		rc = err_errno(e, "%s", path);
	if (rc)
		unlink(tmp);
	return rc;
}

static int export_verb(int argc, char **argv, struct timeline_args *a)
{
	struct export_totals totals;
	struct err e = { "" };

	if (argc > 2 || !a->out)
		return cli_usage("timeline export [WS] --out FILE [--frames] [filters]");
	a->q.ws = argc == 2 ? argv[1] : NULL;
	a->q.all = true;
	if (timeline_export_to(a->out, &a->q, a->frames, &totals, &e))
		return cli_fail(&e);
	if (a->json)
		cli_print_json(json_pack("{s:s,s:I,s:I,s:I}", "file", a->out, "rows", (json_int_t)totals.rows, "omitted",
					 (json_int_t)totals.omitted, "frames", (json_int_t)totals.frames));
	else
		printf("%s: %llu rows, %llu others by their digests, %llu frames; check it with: holdfast timeline verify %s\n",
		       a->out, (unsigned long long)totals.rows, (unsigned long long)totals.omitted,
		       (unsigned long long)totals.frames, a->out);
	return CLI_OK;
}

/* ---- verify ---- */

static int load_pins(const struct timeline_args *a, struct verify_pins *pins, struct err *e)
{
	char path[PATHS_MAX + 32];
	const json_t *key;
	size_t i;

	memset(pins, 0, sizeof(*pins));
	json_array_foreach (a->keys, i, key)
		if (verify_pin_add(pins, json_string_value(key), e))
			return -1;
	if (pins->n)
		return 0; /* what was said here is all that is trusted */
	snprintf(path, sizeof(path), "%s/timeline.pins", cli_paths()->config);
	return verify_pins_load(pins, path, e);
}

static void print_verified(const char *what, const struct verify_report *r)
{
	char when[40] = "never";
	time_t t = (time_t)(r->signed_ns / 1000000000);
	struct tm tm;

	if (r->signed_ns)
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", localtime_r(&t, &tm));
	printf("%s verifies: rows %llu to %llu", what, (unsigned long long)r->first_row, (unsigned long long)r->last_row);
	if (r->omitted)
		printf(" (%llu of them by digest only)", (unsigned long long)r->omitted);
	printf(", %llu frames, %llu checkpoints, the last signed %s by %s", (unsigned long long)r->frames,
	       (unsigned long long)r->checkpoints, when, r->fingerprint);
	if (r->unsigned_rows)
		printf("; %llu rows after it are not signed yet", (unsigned long long)r->unsigned_rows);
	putchar('\n');
}

static int verify_verb(int argc, char **argv, struct timeline_args *a)
{
	struct verify_pins *pins = calloc(1, sizeof(*pins));
	char path[PATHS_MAX + 16], anchor[PATHS_MAX + 32];
	struct verify_report r;
	struct err e = { "" };
	const char *file = argc == 2 ? argv[1] : path;
	int rc;

	if (argc > 2 || !pins) {
		free(pins);
		return cli_usage("timeline verify [FILE] [--key FINGERPRINT|FILE]... [--json]");
	}
	if (load_pins(a, pins, &e)) {
		free(pins);
		return cli_fail(&e);
	}
	if (argc < 2)
		db_path(path, sizeof(path));
	if (argc == 2 && verify_is_export(file)) {
		_cleanup_fclose_ FILE *in = fopen(file, "re");

		rc = in ? verify_export(in, pins, &r) : (memset(&r, 0, sizeof(r)), snprintf(r.text, sizeof(r.text), "%s", strerror(errno)), -1);
	} else {
		snprintf(anchor, sizeof(anchor), "%s.anchor", file);
		rc = verify_db(file, anchor, pins, &r);
	}
	free(pins);
	if (a->json)
		cli_print_json(json_pack("{s:s,s:b,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:s}", "file", file, "ok", rc == 0,
					 "text", r.text, "first", (json_int_t)r.first_row, "last",
					 (json_int_t)r.last_row, "rows", (json_int_t)r.rows, "omitted",
					 (json_int_t)r.omitted, "frames", (json_int_t)r.frames, "checkpoints",
					 (json_int_t)r.checkpoints, "unsigned", (json_int_t)r.unsigned_rows, "bad_row",
					 (json_int_t)r.bad_row, "key", r.fingerprint));
	else if (rc)
		fprintf(stderr, "holdfast: %s does not verify: %s\n", file, r.text);
	else
		print_verified(file, &r);
	return rc ? CLI_FAILED : CLI_OK;
}

/* ---- rotate ---- */

/* The lock of hostd, so that none runs or starts meanwhile. */
static int lock_hostd(struct err *e)
{
	char path[PATHS_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/hostd.lock", cli_paths()->run);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(e, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return err_set(e, "hostd runs: holdfast daemon stop first");
	}
	return fd;
}

/* For an old timeline that cannot say what was in quarantine: everything is. NULL with e. */
static json_t *all_held(struct err *e)
{
	_cleanup_json_ json_t *names = ws_names(cli_paths(), e);
	_cleanup_json_ json_t *state = json_pack("{s:i,s:s,s:s,s:I}", "schema", 1, "state", "held", "reason",
						 "the timeline was damaged, and with it what was in quarantine", "since",
						 (json_int_t)time(NULL));
	_cleanup_free_ char *text = json_text(state);
	json_t *list = names && text ? json_array() : NULL;
	const json_t *name;
	size_t i;

	json_array_foreach (names, i, name)
		json_array_append_new(list, json_pack("[s,s,s]", json_string_value(name), "quarantine", text));
	if (names && json_array_size(list) != json_array_size(names)) {
		json_decref(list);
		err_set(e, "out of memory");
		return NULL;
	}
	return list;
}

static int rotate(int argc, char **argv, struct timeline_args *a)
{
	char path[PATHS_MAX + 16], moved[PATHS_MAX + 64], why[128];
	struct store_config cfg = { .path = path };
	_cleanup_json_ json_t *held = NULL;
	_cleanup_close_ int lock = -1;
	struct err e = { "" };
	bool lost;

	(void)argv;
	if (argc != 1)
		return cli_usage("timeline rotate [--new-key]");
	db_path(path, sizeof(path));
	snprintf(why, sizeof(why), "%s asked for it%s", cli_author(), a->new_key ? ", and for a new key" : "");
	lock = lock_hostd(&e);
	if (lock < 0 || !(held = all_held(&e)) ||
	    store_rotate(&cfg, why, a->new_key, held, moved, sizeof(moved), &lost, &e))
		return cli_fail(&e);
	printf("a new timeline was begun; the old one is %s\n", moved);
	if (lost)
		puts("it could not be read, so every workspace is held in quarantine: holdfast release WS for each that may run");
	return CLI_OK;
}

static int kinds(void)
{
	printf("%-22s %-9s %-8s %6s  %s\n", "kind", "engine", "verdict", "weight", "reads as");
	for (int k = 0; k < EVENT_COUNT; k++)
		printf("%-22s %-9s %-8s %6u  %s\n", event_defs[k].name, event_engine_name(event_defs[k].engine),
		       event_verdict_name(event_defs[k].verdict), signal_defs[event_defs[k].signal].weight,
		       event_defs[k].sentence);
	return CLI_OK;
}

static int dispatch(int argc, char **argv, struct timeline_args *a)
{
	static const struct {
		const char *name;
		int (*fn)(int argc, char **argv, struct timeline_args *a);
	} verbs[] = { { "show", show }, { "export", export_verb }, { "verify", verify_verb }, { "rotate", rotate } };

	for (size_t i = 0; argc && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(argv[0], verbs[i].name))
			return verbs[i].fn(argc, argv, a);
	if (argc && !strcmp(argv[0], "kinds"))
		return kinds();
	if (argc > 1)
		return cli_usage(usage_list);
	if (argc)
		a->q.ws = argv[0];
	return list(a);
}

int cmd_timeline(int argc, char **argv)
{
	struct timeline_args a = { .keys = json_array() };
	int rc = parse_args(&argc, &argv, &a);

	if (!rc)
		rc = dispatch(argc, argv, &a);
	json_decref(a.keys);
	return rc;
}

int timeline_list_alarms(const char *ws, const char *since, bool json)
{
	struct timeline_args a = { .since = since, .json = json };

	a.q.ws = ws;
	a.q.verdicts = 1u << VERDICT_ALARM;
	if (since && (a.q.since_ns = timeline_parse_time(since, now_ns())) < 0)
		return usage_error("--since %s: give an age (10m, 2h, 3d) or a time (2026-11-30T12:00)", since);
	return list(&a);
}
