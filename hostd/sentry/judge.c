/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The judge: points for events, the sliding window over them, the trip.
 *
 * Theory of operation. Time is running time of the VM in milliseconds (judge_now()); nothing here asks a clock.
 * An event has a signal, the signal a weight, and a few signals have a counting rule that keeps ordinary work from
 * adding up: once per (process subtree, kind) and window for mounts and namespaces, at most some points per program
 * and window for denials of weight 1, once per program for probes that common runtimes make. What is left is added to
 * the window. An entry made at t counts for every moment before t + window, and not at it: 19 points at 59 s and 19 at
 * 61 s are 2 s apart and trip. The score trips once and stays tripped until judge_release().
 * Phases: while the VM boots (until phase 1 or boot_ms) and shuts down (phase 2, shutdown_ms) mounts, namespaces and
 * denials are seen but not scored; what weighs 10 or more always is. A VM that outlives its announced shutdown has all
 * that was exempted scored at once.
 * All tables are bounded; where one is full the entry that was quiet longest makes room.
 */
#include "hostd/sentry/judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/sentry/judge_int.h"
#include "lib/json.h"

#define COUNT_MAX 1000 /* of one event: beyond, more makes no difference */

void judge_config_default(struct judge_config *cfg)
{
	*cfg = (struct judge_config){
		.window_ms = 60000,
		.threshold = 20,
		.boot_ms = 90000,
		.shutdown_ms = 20000,
		.denials_per_program = 5,
		.probing_count = 20,
		.probing_again_ms = 300000,
		.settle_ms = 600000,
		.slow_hours = 6,
		.slow_threshold = 60,
		.volume_bytes_per_s = 5000000,
		.volume_ratio = 10,
	};
	for (int i = 0; i < SIGNAL_COUNT; i++)
		cfg->weight[i] = signal_defs[i].weight;
}

/* The numbers of the configuration: member, where it goes, what it may be. */
#define NUMBER(member, low, high) { #member, offsetof(struct judge_config, member), low, high }
static const struct {
	const char *name;
	size_t at;
	int64_t low, high;
} numbers[] = {
	NUMBER(window_ms, 1000, 3600000),	  NUMBER(threshold, 1, 1000),
	NUMBER(boot_ms, 1000, 600000),		  NUMBER(shutdown_ms, 1000, 600000),
	NUMBER(denials_per_program, 1, 1000),	  NUMBER(probing_count, 2, JUDGE_DENIALS_MAX),
	NUMBER(probing_again_ms, 1000, 86400000), NUMBER(settle_ms, 0, 86400000),
	NUMBER(slow_hours, 1, 24),		  NUMBER(slow_threshold, 1, 100000),
	NUMBER(volume_ratio, 2, 1000),
};

static int parse_weights(const json_t *weights, struct judge_config *cfg, struct err *e)
{
	const char *key;
	json_t *value;

	if (!json_is_object(weights))
		return err_set(e, "\"weights\" must be an object");
	json_object_foreach ((json_t *)weights, key, value) {
		int signal = event_signal_find(key);

		if (signal <= 0)
			return err_set(e, "\"weights\": unknown signal \"%s\"", key);
		if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > 100)
			return err_set(e, "\"weights\": \"%s\" must be 0 to 100", key);
		if (signal == SIGNAL_TAMPER && json_integer_value(value) < 1)
			return err_set(e, "\"weights\": \"tamper\" must be at least 1");
		cfg->weight[signal] = (unsigned)json_integer_value(value);
	}
	return 0;
}

static int parse_mutes(const json_t *mutes, struct judge_config *cfg, struct err *e)
{
	static const char *const keys[] = { "signal", "program", NULL };
	const json_t *mute;
	size_t i;

	if (!json_is_array(mutes) || json_array_size(mutes) > JUDGE_MUTES_MAX - cfg->n_mutes)
		return err_set(e, "\"mutes\" must be an array, of at most %d in all", JUDGE_MUTES_MAX);
	json_array_foreach (mutes, i, mute) {
		struct judge_mute *m = &cfg->mutes[cfg->n_mutes];
		const char *signal, *program;
		int s;

		if (!json_is_object(mute) || json_only_keys(mute, keys, e) || json_get_str(mute, "signal", &signal, e) ||
		    json_get_str(mute, "program", &program, e))
			return err_prefix(e, "\"mutes\" %zu", i);
		s = event_signal_find(signal);
		if (s <= 0)
			return err_set(e, "\"mutes\": unknown signal \"%s\"", signal);
		if (s == SIGNAL_TAMPER || s == SIGNAL_GARBAGE || s == SIGNAL_UNCLEAN_END)
			return err_set(e, "\"mutes\": %s can't be muted, no program stands behind it", signal);
		if (strcmp(program, "*") != 0 && (*program != '/' || strlen(program) >= JUDGE_PROGRAM_MAX))
			return err_set(e, "\"mutes\": \"program\" must be an absolute path or *");
		m->signal = (enum judge_signal)s;
		snprintf(m->program, sizeof(m->program), "%s", program);
		cfg->n_mutes++;
	}
	return 0;
}

int judge_config_parse(const json_t *obj, struct judge_config *cfg, struct err *e)
{
	static const char *const keys[] = { "weights",	     "mutes",	     "strict",	   "volume_bytes_per_s",
					    "window_ms",     "threshold",    "boot_ms",	   "shutdown_ms",
					    "denials_per_program", "probing_count", "probing_again_ms", "settle_ms",
					    "slow_hours",    "slow_threshold", "volume_ratio", NULL };
	int64_t v;

	if (!obj)
		return 0;
	if (!json_is_object(obj))
		return err_set(e, "the judge's configuration must be an object");
	if (json_only_keys(obj, keys, e))
		return -1;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		unsigned *at = (unsigned *)((char *)cfg + numbers[i].at);

		if (json_opt_int(obj, numbers[i].name, &v, *at, e))
			return -1;
		if (v < numbers[i].low || v > numbers[i].high)
			return err_set(e, "\"%s\" must be %lld to %lld", numbers[i].name, (long long)numbers[i].low,
				       (long long)numbers[i].high);
		*at = (unsigned)v;
	}
	if (json_opt_int(obj, "volume_bytes_per_s", &v, (int64_t)cfg->volume_bytes_per_s, e))
		return -1;
	if (v < 1000)
		return err_set(e, "\"volume_bytes_per_s\" must be at least 1000");
	cfg->volume_bytes_per_s = (uint64_t)v;
	if (json_opt_bool(obj, "strict", &cfg->strict, cfg->strict, e))
		return -1;
	if (json_object_get(obj, "weights") && parse_weights(json_object_get(obj, "weights"), cfg, e))
		return -1;
	if (json_object_get(obj, "mutes") && parse_mutes(json_object_get(obj, "mutes"), cfg, e))
		return -1;
	return 0;
}

__attribute__((format(printf, 4, 5)))
static size_t say(char *out, size_t size, size_t at, const char *fmt, ...)
{
	const char *comma = at ? ", " : "";
	size_t n = strlen(comma);
	va_list ap;
	int more;

	if (at + n + 1 >= size)
		return at;
	va_start(ap, fmt);
	more = vsnprintf(out + at + n, size - at - n, fmt, ap);
	va_end(ap);
	if (more < 0 || (size_t)more >= size - at - n) { /* whole parts only */
		out[at] = '\0';
		return at;
	}
	memcpy(out + at, comma, n);
	return at + n + (size_t)more;
}

static bool has_mute(const struct judge_config *cfg, const struct judge_mute *mute)
{
	for (unsigned i = 0; i < cfg->n_mutes; i++)
		if (cfg->mutes[i].signal == mute->signal && !strcmp(cfg->mutes[i].program, mute->program))
			return true;
	return false;
}

static size_t say_mutes(const struct judge_config *in, const struct judge_config *from, const char *word, char *out,
			size_t size, size_t at)
{
	for (unsigned i = 0; i < in->n_mutes; i++)
		if (!has_mute(from, &in->mutes[i]))
			at = say(out, size, at, "%s %s for %s", word, signal_defs[in->mutes[i].signal].name,
				 in->mutes[i].program);
	return at;
}

size_t judge_config_diff(const struct judge_config *from, const struct judge_config *to, char *out, size_t size)
{
	size_t at = 0;

	*out = '\0';
	if (from->strict != to->strict)
		at = say(out, size, at, "%s", to->strict ? "strict" : "no longer strict");
	if (from->required != to->required)
		at = say(out, size, at, "the Sentry is %s", to->required ? "required" : "no longer required");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		unsigned a = *(const unsigned *)((const char *)from + numbers[i].at);
		unsigned b = *(const unsigned *)((const char *)to + numbers[i].at);

		if (a != b)
			at = say(out, size, at, "%s %u to %u", numbers[i].name, a, b);
	}
	if (from->volume_bytes_per_s != to->volume_bytes_per_s)
		at = say(out, size, at, "volume_bytes_per_s %llu to %llu", (unsigned long long)from->volume_bytes_per_s,
			 (unsigned long long)to->volume_bytes_per_s);
	for (int s = 1; s < SIGNAL_COUNT; s++)
		if (from->weight[s] != to->weight[s])
			at = say(out, size, at, "%s weighs %u to %u", signal_defs[s].name, from->weight[s], to->weight[s]);
	at = say_mutes(to, from, "mutes", out, size, at);
	return say_mutes(from, to, "no longer mutes", out, size, at);
}

struct judge *judge_new(const struct judge_config *cfg, judge_row_fn row, void *u)
{
	struct judge *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->programs = calloc(JUDGE_PROGRAMS_MAX, sizeof(*j->programs));
	j->procs = calloc(JUDGE_PROCS_MAX, sizeof(*j->procs));
	if (!j->programs || !j->procs) {
		judge_free(j);
		return NULL;
	}
	j->cfg = *cfg;
	j->row = row;
	j->u = u;
	j->slow_told = -1;
	j->phase = 1;
	j->boot_over = j->shutdown_over = true;
	return j;
}

void judge_free(struct judge *j)
{
	if (!j)
		return;
	free(j->programs);
	free(j->procs);
	free(j);
}

const struct judge_config *judge_config(const struct judge *j)
{
	return &j->cfg;
}

/* ---- time ---- */

int64_t judge_now(const struct judge *j, int64_t now_ms)
{
	int64_t passed = now_ms - j->base_ms;

	return j->clock_ms + (j->runs && passed > 0 ? passed : 0);
}

void judge_running(struct judge *j, int64_t now_ms, bool running)
{
	j->clock_ms = judge_now(j, now_ms);
	j->base_ms = now_ms;
	j->runs = running;
	j->dirty = true;
}

void judge_boot(struct judge *j, int64_t now_ms)
{
	judge_running(j, now_ms, true);
	j->phase = 0;
	j->boot_t = j->clock_ms;
	j->boot_over = j->heard = false;
	j->shutdown_over = false;
	j->set_by[0] = '\0';
	j->supervisor = 0;
	memset(j->exempt, 0, sizeof(j->exempt));
	memset(&j->counters, 0, sizeof(j->counters));
	memset(j->procs, 0, JUDGE_PROCS_MAX * sizeof(*j->procs));
	j->volume_known = false;
	memset(j->volume, 0, sizeof(j->volume));
}

/* ---- the window ---- */

static void expire(struct judge *j, int64_t t)
{
	unsigned gone = 0;

	while (gone < j->n_window && t - j->window[gone].t >= (int64_t)j->cfg.window_ms)
		gone++;
	if (!gone)
		return;
	memmove(j->window, j->window + gone, (j->n_window - gone) * sizeof(j->window[0]));
	j->n_window -= gone;
}

static unsigned score_at(struct judge *j, int64_t t)
{
	unsigned score = 0;

	expire(j, t);
	for (unsigned i = 0; i < j->n_window; i++)
		score += j->window[i].points;
	return score;
}

unsigned judge_score(struct judge *j, int64_t now_ms)
{
	return score_at(j, judge_now(j, now_ms));
}

static unsigned parts_at(struct judge *j, int64_t t, struct judge_part parts[JUDGE_PARTS_MAX])
{
	struct judge_part all[SIGNAL_COUNT] = { 0 };
	unsigned n = 0;

	expire(j, t);
	for (unsigned i = 0; i < j->n_window; i++) {
		struct judge_part *p = &all[j->window[i].signal];

		p->signal = j->window[i].signal;
		p->points += j->window[i].points;
		p->count += j->window[i].count;
	}
	while (n < JUDGE_PARTS_MAX) {
		unsigned best = 0;

		for (unsigned i = 1; i < SIGNAL_COUNT; i++)
			if (all[i].points > all[best].points)
				best = i;
		if (!all[best].points)
			break;
		parts[n++] = all[best];
		all[best].points = 0;
	}
	return n;
}

unsigned judge_parts(struct judge *j, int64_t now_ms, struct judge_part parts[JUDGE_PARTS_MAX])
{
	return parts_at(j, judge_now(j, now_ms), parts);
}

void judge_parts_text(const struct judge_part *parts, unsigned n, char *out, size_t size)
{
	size_t len = 0;

	if (!size)
		return;
	out[0] = '\0';
	for (unsigned i = 0; i < n && len < size; i++) {
		len += (size_t)snprintf(out + len, size - len, "%s%u for %s", i ? ", " : "", parts[i].points,
					signal_defs[parts[i].signal].text);
		if (parts[i].count > 1 && len < size)
			len += (size_t)snprintf(out + len, size - len, " ×%u", parts[i].count);
	}
}

static void slow_add(struct judge *j, int64_t t, enum judge_signal signal, unsigned points)
{
	int64_t bucket = t / (JUDGE_SLOW_MINUTES * 60000);
	unsigned i = (unsigned)(bucket % JUDGE_SLOW_BUCKETS);

	if (j->slow[i].bucket != bucket) {
		memset(&j->slow[i], 0, sizeof(j->slow[i]));
		j->slow[i].bucket = bucket;
	}
	j->slow[i].points[signal] += points;
}

static unsigned slow_sum(const struct judge *j, int64_t t, unsigned hours, struct judge_part all[SIGNAL_COUNT])
{
	int64_t last = t / (JUDGE_SLOW_MINUTES * 60000), first = last - hours * 60 / JUDGE_SLOW_MINUTES + 1;
	unsigned sum = 0;

	for (unsigned i = 0; i < JUDGE_SLOW_BUCKETS; i++) {
		if (j->slow[i].bucket < first || j->slow[i].bucket > last)
			continue;
		for (unsigned s = 0; s < SIGNAL_COUNT; s++) {
			sum += j->slow[i].points[s];
			if (all) {
				all[s].signal = s;
				all[s].points += j->slow[i].points[s];
			}
		}
	}
	return sum;
}

unsigned judge_slow(struct judge *j, int64_t now_ms, unsigned hours)
{
	if (hours < 1)
		hours = 1;
	if (hours > 24)
		hours = 24;
	return slow_sum(j, judge_now(j, now_ms), hours, NULL);
}

static void emit(struct judge *j, enum event_kind kind, unsigned points, json_t *data)
{
	if (j->row)
		j->row(j->u, kind, points, data);
	json_decref(data);
}

static void trip(struct judge *j, int64_t t, unsigned score)
{
	struct judge_part parts[JUDGE_PARTS_MAX];
	char text[768];

	j->tripped = true;
	judge_parts_text(parts, parts_at(j, t, parts), text, sizeof(text));
	emit(j, EVENT_SCORE_TRIP, 0,
	     json_pack("{s:i,s:i,s:s}", "score", (int)score, "threshold", (int)j->cfg.threshold, "parts", text));
}

bool judge_add(struct judge *j, int64_t t, enum judge_signal signal, unsigned points, uint32_t count)
{
	struct judge_entry *last;
	unsigned score;

	if (!points)
		return false;
	expire(j, t);
	last = j->n_window ? &j->window[j->n_window - 1] : NULL;
	if (last && last->t == t && last->signal == signal) {
		last->points += points;
		last->count += count;
	} else {
		if (j->n_window == JUDGE_WINDOW_MAX) { /* tripped long ago: the oldest no longer decides anything */
			memmove(j->window, j->window + 1, (JUDGE_WINDOW_MAX - 1) * sizeof(j->window[0]));
			j->n_window--;
		}
		j->window[j->n_window++] = (struct judge_entry){ .t = t, .signal = signal, .points = points,
								  .count = count };
	}
	slow_add(j, t, signal, points);
	j->dirty = true;
	score = score_at(j, t);
	if (j->tripped || score < j->cfg.threshold)
		return false;
	trip(j, t, score);
	return true;
}

void judge_reconfigure(struct judge *j, int64_t now_ms, const struct judge_config *cfg)
{
	int64_t t = judge_now(j, now_ms);
	unsigned score;

	j->cfg = *cfg;
	j->dirty = true;
	score = score_at(j, t);
	if (!j->tripped && score >= j->cfg.threshold)
		trip(j, t, score);
}

bool judge_tripped(const struct judge *j)
{
	return j->tripped;
}

void judge_release(struct judge *j, int64_t now_ms)
{
	(void)now_ms;
	j->tripped = false;
	j->n_window = 0;
	j->dirty = true;
}

/* ---- counting rules ---- */

uint64_t judge_key(const char *kind, const char *a, const char *b)
{
	uint64_t h = 14695981039346656037ull;

	for (const char *const *s = (const char *const[]){ kind, "\x1f", a, "\x1f", b, NULL }; *s; s++)
		for (const char *c = *s; *c; c++)
			h = (h ^ (unsigned char)*c) * 1099511628211ull;
	return h & INT64_MAX ? h & INT64_MAX : 1; /* fits a JSON integer, never 0 */
}

bool judge_first(struct judge *j, int64_t t, uint64_t key)
{
	unsigned oldest = 0;

	for (unsigned i = 0; i < j->n_once; i++) {
		if (j->once[i].key == key) {
			if (t - j->once[i].t < (int64_t)j->cfg.window_ms)
				return false;
			j->once[i].t = t;
			return true;
		}
		if (j->once[i].t < j->once[oldest].t)
			oldest = i;
	}
	if (j->n_once < JUDGE_ONCE_MAX)
		oldest = j->n_once++;
	j->once[oldest] = (struct judge_once){ .key = key, .t = t };
	return true;
}

struct judge_program *judge_program(struct judge *j, const char *name, int64_t t)
{
	uint64_t key = judge_key("program", name, "");
	struct judge_program *free_one = NULL;

	for (unsigned i = 0; i < JUDGE_PROGRAMS_MAX; i++) {
		struct judge_program *p = &j->programs[i];

		if (p->key == key)
			return p;
		if (!free_one || (free_one->key && (!p->key || p->last < free_one->last)))
			free_one = p;
	}
	memset(free_one, 0, sizeof(*free_one));
	free_one->key = key;
	snprintf(free_one->name, sizeof(free_one->name), "%s", name);
	free_one->last = t;
	free_one->probed = -1;
	return free_one;
}

static bool is_denial(enum judge_signal s)
{
	return s == SIGNAL_SANDBOX_DENIED || s == SIGNAL_FIREWALL_DENIED || s == SIGNAL_SECCOMP_DENIED;
}

static bool is_muted(const struct judge *j, enum judge_signal signal, const char *program)
{
	for (unsigned i = 0; i < j->cfg.n_mutes; i++)
		if (j->cfg.mutes[i].signal == signal &&
		    (!strcmp(j->cfg.mutes[i].program, "*") || !strcmp(j->cfg.mutes[i].program, program)))
			return true;
	return false;
}

/* Exempt while the VM is put together and taken apart; never what weighs 10 or more. */
static bool is_exempt(const struct judge *j, int64_t t, enum judge_signal s)
{
	bool boot = j->phase == 0 && !j->boot_over && t - j->boot_t < (int64_t)j->cfg.boot_ms;
	bool shutdown = j->phase == 2 && !j->shutdown_over && t - j->shutdown_t < (int64_t)j->cfg.shutdown_ms;

	if (!boot && !shutdown)
		return false;
	if (j->cfg.weight[s] >= 10)
		return false;
	return is_denial(s) || s == SIGNAL_MOUNT || s == SIGNAL_UNSHARE || s == SIGNAL_SETNS;
}

/* Denials of one program: how many in the window, and how many of their points are spent. */
static void denials_expire(const struct judge *j, struct judge_program *p, int64_t t)
{
	unsigned gone = 0;

	while (gone < p->n && t - p->denials[gone].t >= (int64_t)j->cfg.window_ms)
		gone++;
	memmove(p->denials, p->denials + gone, (p->n - gone) * sizeof(p->denials[0]));
	p->n -= gone;
}

static void denial_add(struct judge_program *p, int64_t t, uint32_t count, unsigned points)
{
	if (p->n == JUDGE_DENIALS_MAX) {
		/* all within the window: the two oldest become one, at the later time */
		p->denials[1].count += p->denials[0].count;
		p->denials[1].points += p->denials[0].points;
		memmove(p->denials, p->denials + 1, (JUDGE_DENIALS_MAX - 1) * sizeof(p->denials[0]));
		p->n--;
	}
	p->denials[p->n++] = (struct judge_denial){ .t = t, .count = count, .points = points };
	p->last = t;
}

static uint32_t denial_count(const struct judge_program *p)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < p->n; i++)
		n += p->denials[i].count;
	return n;
}

static unsigned denial_points(const struct judge_program *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->n; i++)
		n += p->denials[i].points;
	return n;
}

static unsigned denial_weight(struct judge *j, int64_t t, const struct judge_event *ev, enum judge_signal s,
			      uint32_t count, struct judge_program *p)
{
	unsigned weight = j->cfg.weight[s], points = weight * count, spent;

	(void)t;
	if (ev->routine) {
		if (p->routine & ev->routine)
			return 0;
		p->routine |= ev->routine;
		return weight;
	}
	if (s == SIGNAL_SECCOMP_DENIED)
		return points;
	spent = denial_points(p);
	if (spent >= j->cfg.denials_per_program)
		return 0;
	return points < j->cfg.denials_per_program - spent ? points : j->cfg.denials_per_program - spent;
}

/* One program refused again and again. */
static bool probing(struct judge *j, int64_t t, struct judge_program *p, uint32_t denials)
{
	unsigned points = j->cfg.weight[SIGNAL_PROBING];

	if (denials < j->cfg.probing_count || (p->probed >= 0 && t - p->probed < (int64_t)j->cfg.probing_again_ms))
		return false;
	p->probed = t;
	j->dirty = true;
	if (is_muted(j, SIGNAL_PROBING, p->name))
		points = 0;
	emit(j, EVENT_PROBING, points,
	     json_pack("{s:s,s:i,s:i}", "program", *p->name ? p->name : "an unknown program", "denials", (int)denials,
		       "window_s", (int)(j->cfg.window_ms / 1000)));
	return judge_add(j, t, SIGNAL_PROBING, points, 1);
}

static unsigned points_of(struct judge *j, int64_t t, const struct judge_event *ev, enum judge_signal s,
			  uint32_t count)
{
	switch (s) {
	case SIGNAL_MOUNT:
	case SIGNAL_UNSHARE:
	case SIGNAL_SETNS:
		if (!judge_first(j, t, judge_key(signal_defs[s].name, ev->subtree ? ev->subtree : "", "")))
			return 0;
		return j->cfg.weight[s];
	case SIGNAL_PTRACE:
		/* a debugger makes several of these with the programs that it starts */
		if (!ev->own_subtree)
			return j->cfg.weight[s] * count;
		return judge_first(j, t, judge_key("ptrace", ev->subtree ? ev->subtree : "", "")) ? j->cfg.weight[s] : 0;
	case SIGNAL_TAMPER:
		if (ev->kind != EVENT_SUPERVISOR_LOST)
			return j->cfg.weight[s];
		/* the signal and the exit that follows are one end */
		if (!judge_first(j, t, judge_key(event_defs[ev->kind].name, "", "")))
			return 0;
		return j->cfg.required ? j->cfg.weight[s] : j->cfg.weight[s] / 2;
	case SIGNAL_GARBAGE:
	case SIGNAL_UNCLEAN_END:
	case SIGNAL_DROPPED:
	case SIGNAL_RATE_LIMITED:
	case SIGNAL_MISSED:
	case SIGNAL_VOLUME:
		return j->cfg.weight[s];
	default:
		return j->cfg.weight[s] * count;
	}
}

/* A destination that this workspace never used before; costs something once it has settled. */
static bool first_contact(struct judge *j, int64_t t, const struct judge_event *ev)
{
	uint64_t key = judge_key("dest", ev->dest, "");
	unsigned points = t - j->boot_t < (int64_t)j->cfg.settle_ms ? 0 : j->cfg.weight[SIGNAL_FIRST_CONTACT];

	for (unsigned i = 0; i < j->n_dests; i++)
		if (j->dests[i] == key)
			return false;
	j->dests[j->next_dest] = key;
	j->next_dest = (j->next_dest + 1) % JUDGE_DESTS_MAX;
	if (j->n_dests < JUDGE_DESTS_MAX)
		j->n_dests++;
	j->dirty = true;
	if (!points || is_muted(j, SIGNAL_FIRST_CONTACT, ev->program ? ev->program : ""))
		return false;
	emit(j, EVENT_FIRST_CONTACT, points,
	     json_pack("{s:s,s:s*}", "name", ev->dest, "program", ev->program && *ev->program ? ev->program : NULL));
	return judge_add(j, t, SIGNAL_FIRST_CONTACT, points, 1);
}

static enum judge_signal signal_of(const struct judge *j, const struct judge_event *ev)
{
	enum judge_signal s = ev->signal != SIGNAL_NONE ? ev->signal : event_defs[ev->kind].signal;

	if (ev->free)
		return SIGNAL_NONE;
	if (s == SIGNAL_CRED_GAIN_STRICT && !(j->cfg.strict && ev->sandboxed && !ev->supervisor))
		return SIGNAL_NONE;
	/* pid 1 puts the guest together, also in a session (JDG-25: a known way past outside strict) */
	if (ev->pid == 1 && (s == SIGNAL_MOUNT || s == SIGNAL_UNSHARE || s == SIGNAL_SETNS || s == SIGNAL_BPF ||
			     s == SIGNAL_BPF_LIGHT))
		return SIGNAL_NONE;
	if (ev->supervisor && (s == SIGNAL_MOUNT || s == SIGNAL_UNSHARE || s == SIGNAL_SETNS))
		return SIGNAL_NONE; /* what it does to start a command in its sandbox */
	/* the supervisor goes with the VM once that has been announced */
	if (ev->kind == EVENT_SUPERVISOR_LOST && j->phase == 2)
		return SIGNAL_NONE;
	return s;
}

void judge_event(struct judge *j, int64_t now_ms, const struct judge_event *ev, struct judge_result *out)
{
	int64_t t = judge_now(j, now_ms);
	uint32_t count = ev->count ? ev->count < COUNT_MAX ? ev->count : COUNT_MAX : 1;
	enum judge_signal s = signal_of(j, ev);
	struct judge_program *p = NULL;
	uint32_t denials = 0;

	memset(out, 0, sizeof(*out));
	if (s != SIGNAL_NONE) {
		out->exempt = is_exempt(j, t, s);
		out->muted = is_muted(j, s, ev->program ? ev->program : "");
		if (is_denial(s) && !out->muted) {
			p = judge_program(j, ev->program ? ev->program : "", t);
			denials_expire(j, p, t);
			out->points = denial_weight(j, t, ev, s, count, p);
			denial_add(p, t, count, s == SIGNAL_SECCOMP_DENIED ? 0 : out->points);
			denials = denial_count(p);
			j->dirty = true;
		} else if (!out->muted) {
			out->points = points_of(j, t, ev, s, count);
		}
		if (out->exempt) {
			if (j->phase == 2) {
				j->exempt[s].points += out->points;
				j->exempt[s].count += count;
			}
			out->points = 0;
		}
		out->trip = judge_add(j, t, s, out->points, count);
		/* a routine probe is no sign of probing, twenty refused traces are */
		if (p && (!ev->routine || ev->routine == JUDGE_ROUTINE_PTRACE) && probing(j, t, p, denials))
			out->trip = true;
	}
	if (ev->dest && *ev->dest && first_contact(j, t, ev))
		out->trip = true;
	out->score = score_at(j, t);
}

/* ---- timers, phases, volume ---- */

void judge_set_phase(struct judge *j, int64_t t, int phase, const char *set_by)
{
	static const char *const names[] = { "boot", "session", "shutdown" };

	if (phase <= j->phase || phase > 2)
		return; /* one way, whatever the guest says */
	j->phase = phase;
	if (phase == 1)
		j->boot_over = true;
	if (phase == 2) {
		j->shutdown_t = t;
		snprintf(j->set_by, sizeof(j->set_by), "%s", set_by);
	}
	j->dirty = true;
	emit(j, EVENT_PHASE, 0,
	     json_pack("{s:i,s:s,s:s*}", "phase", phase, "phase_name", names[phase], "set_by", *set_by ? set_by : NULL));
}

static void boot_slow(struct judge *j)
{
	j->boot_over = true;
	if (j->heard)
		emit(j, EVENT_BOOT_SLOW, 0, json_pack("{s:i}", "limit_s", (int)(j->cfg.boot_ms / 1000)));
}

/* The VM did not go away: what its last phase excused is scored, at once. */
static void shutdown_slow(struct judge *j, int64_t t)
{
	unsigned points = 0;

	j->shutdown_over = true;
	for (unsigned s = 0; s < SIGNAL_COUNT; s++)
		points += j->exempt[s].points;
	emit(j, EVENT_SHUTDOWN_SLOW, 0,
	     json_pack("{s:i,s:s*}", "limit_s", (int)(j->cfg.shutdown_ms / 1000), "set_by", *j->set_by ? j->set_by : NULL));
	if (!points)
		return;
	emit(j, EVENT_EXEMPT_SCORED, points,
	     json_pack("{s:i,s:s*}", "points", (int)points, "set_by", *j->set_by ? j->set_by : NULL));
	for (unsigned s = 0; s < SIGNAL_COUNT; s++)
		judge_add(j, t, s, j->exempt[s].points, j->exempt[s].count);
	memset(j->exempt, 0, sizeof(j->exempt));
}

static void slow_check(struct judge *j, int64_t t)
{
	struct judge_part all[SIGNAL_COUNT] = { 0 }, parts[JUDGE_PARTS_MAX];
	unsigned sum = slow_sum(j, t, j->cfg.slow_hours, all), n = 0;
	char text[768];

	if (sum < j->cfg.slow_threshold || j->tripped ||
	    (j->slow_told >= 0 && t - j->slow_told < (int64_t)j->cfg.slow_hours * 3600000))
		return;
	j->slow_told = t;
	j->dirty = true;
	for (unsigned i = 0; i < SIGNAL_COUNT && n < JUDGE_PARTS_MAX; i++)
		if (all[i].points)
			parts[n++] = all[i];
	judge_parts_text(parts, n, text, sizeof(text));
	emit(j, EVENT_SLOW_SCORE, 0,
	     json_pack("{s:i,s:i,s:i,s:s}", "score", (int)sum, "hours", (int)j->cfg.slow_hours, "threshold",
		       (int)j->cfg.threshold, "parts", text));
}

void judge_tick(struct judge *j, int64_t now_ms)
{
	int64_t t = judge_now(j, now_ms);

	if (j->phase == 0 && !j->boot_over && t - j->boot_t >= (int64_t)j->cfg.boot_ms)
		boot_slow(j);
	if (j->phase == 2 && !j->shutdown_over && t - j->shutdown_t >= (int64_t)j->cfg.shutdown_ms)
		shutdown_slow(j, t);
	slow_check(j, t);
}

void judge_volume(struct judge *j, int64_t now_ms, uint64_t bytes_up_total)
{
	int64_t t = judge_now(j, now_ms);
	uint64_t sample = bytes_up_total - j->volume_last, mean = 0;
	bool known = j->volume_known && bytes_up_total >= j->volume_last;

	j->volume_last = bytes_up_total;
	j->volume_known = true;
	if (!known)
		return;
	for (unsigned i = 0; i < JUDGE_VOLUME_SAMPLES; i++)
		mean += j->volume[i];
	mean /= JUDGE_VOLUME_SAMPLES; /* a workspace that just started has sent nothing yet */
	j->volume[j->volume_at] = sample;
	j->volume_at = (j->volume_at + 1) % JUDGE_VOLUME_SAMPLES;
	if (sample <= j->cfg.volume_bytes_per_s || sample <= j->cfg.volume_ratio * mean ||
	    is_muted(j, SIGNAL_VOLUME, "*") || !judge_first(j, t, judge_key("volume", "", "")))
		return;
	emit(j, EVENT_VOLUME, j->cfg.weight[SIGNAL_VOLUME],
	     json_pack("{s:I,s:I}", "bytes_per_s", (json_int_t)sample, "ratio",
		       (json_int_t)(mean ? sample / mean : sample)));
	judge_add(j, t, SIGNAL_VOLUME, j->cfg.weight[SIGNAL_VOLUME], 1);
}

bool judge_dirty(const struct judge *j)
{
	return j->dirty;
}
