/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The judge's state as JSON: what must not be forgotten when hostd or the VM starts again. */
#include <string.h>

#include "hostd/sentry/judge_int.h"
#include "lib/json.h"

#define STATE_SCHEMA 1

static json_t *window_json(const struct judge *j)
{
	json_t *a = json_array();

	for (unsigned i = 0; i < j->n_window; i++)
		json_array_append_new(a, json_pack("[I,s,i,i]", (json_int_t)j->window[i].t,
						   signal_defs[j->window[i].signal].name, (int)j->window[i].points,
						   (int)j->window[i].count));
	return a;
}

static json_t *once_json(const struct judge *j, int64_t t)
{
	json_t *a = json_array();

	for (unsigned i = 0; i < j->n_once; i++)
		if (t - j->once[i].t < (int64_t)j->cfg.window_ms)
			json_array_append_new(a, json_pack("[I,I]", (json_int_t)j->once[i].key, (json_int_t)j->once[i].t));
	return a;
}

/* Programs that still have something to say. */
static json_t *programs_json(const struct judge *j, int64_t t)
{
	json_t *a = json_array();

	for (unsigned i = 0; i < JUDGE_PROGRAMS_MAX; i++) {
		const struct judge_program *p = &j->programs[i];
		json_t *denials;

		if (!p->key)
			continue;
		denials = json_array();
		for (unsigned d = 0; d < p->n; d++)
			if (t - p->denials[d].t < (int64_t)j->cfg.window_ms)
				json_array_append_new(denials, json_pack("[I,i,i]", (json_int_t)p->denials[d].t,
									 (int)p->denials[d].count,
									 (int)p->denials[d].points));
		if (!json_array_size(denials) && !p->routine &&
		    (p->probed < 0 || t - p->probed >= (int64_t)j->cfg.probing_again_ms)) {
			json_decref(denials);
			continue;
		}
		json_array_append_new(a, json_pack("{s:s%,s:I,s:i,s:o}", "name", p->name,
						   strnlen(p->name, sizeof(p->name)), "probed", (json_int_t)p->probed,
						   "routine", (int)p->routine, "denials", denials));
	}
	return a;
}

static json_t *slow_json(const struct judge *j)
{
	json_t *a = json_array();

	for (unsigned i = 0; i < JUDGE_SLOW_BUCKETS; i++)
		for (unsigned s = 0; s < SIGNAL_COUNT; s++)
			if (j->slow[i].points[s])
				json_array_append_new(a, json_pack("[I,s,i]", (json_int_t)j->slow[i].bucket,
								   signal_defs[s].name, (int)j->slow[i].points[s]));
	return a;
}

static json_t *exempt_json(const struct judge *j)
{
	json_t *a = json_array();

	for (unsigned s = 0; s < SIGNAL_COUNT; s++)
		if (j->exempt[s].points)
			json_array_append_new(a, json_pack("[s,i,i]", signal_defs[s].name, (int)j->exempt[s].points,
							   (int)j->exempt[s].count));
	return a;
}

static json_t *ints_json(const uint64_t *v, unsigned n)
{
	json_t *a = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(a, json_integer((json_int_t)v[i]));
	return a;
}

json_t *judge_export(struct judge *j, int64_t now_ms)
{
	int64_t t = judge_now(j, now_ms);
	json_t *state = json_pack(
		"{s:i,s:I,s:b,s:b,s:i,s:I,s:I,s:b,s:b,s:b,s:s,s:I}", "schema", STATE_SCHEMA, "clock", (json_int_t)t,
		"runs", j->runs, "tripped", j->tripped, "phase", j->phase, "boot", (json_int_t)j->boot_t, "shutdown",
		(json_int_t)j->shutdown_t, "boot_over", j->boot_over, "shutdown_over", j->shutdown_over, "heard",
		j->heard, "set_by", j->set_by, "slow_told", (json_int_t)j->slow_told);

	if (!state) /* set_by is the guest's: no UTF-8, no name */
		state = json_pack("{s:i,s:I,s:b,s:b,s:i,s:I,s:I,s:b,s:b,s:b,s:s,s:I}", "schema", STATE_SCHEMA, "clock",
				  (json_int_t)t, "runs", j->runs, "tripped", j->tripped, "phase", j->phase, "boot",
				  (json_int_t)j->boot_t, "shutdown", (json_int_t)j->shutdown_t, "boot_over",
				  j->boot_over, "shutdown_over", j->shutdown_over, "heard", j->heard, "set_by", "",
				  "slow_told", (json_int_t)j->slow_told);
	json_object_set_new(state, "supervisor", json_integer(j->supervisor));
	json_object_set_new(state, "window", window_json(j));
	json_object_set_new(state, "once", once_json(j, t));
	json_object_set_new(state, "programs", programs_json(j, t));
	json_object_set_new(state, "dests", ints_json(j->dests, j->n_dests));
	json_object_set_new(state, "next_dest", json_integer(j->next_dest));
	json_object_set_new(state, "exempt", exempt_json(j));
	json_object_set_new(state, "slow", slow_json(j));
	if (j->counters.known) {
		json_object_set_new(state, "dropped", json_integer((json_int_t)j->counters.dropped));
		json_object_set_new(state, "missed", json_integer((json_int_t)j->counters.missed));
		json_object_set_new(state, "limited", ints_json(j->counters.limited, JUDGE_LIMITED_MAX));
	}
	j->dirty = false;
	return state;
}

static void load_window(struct judge *j, const json_t *a)
{
	const json_t *v;
	size_t i;

	json_array_foreach (a, i, v) {
		struct judge_entry *w = &j->window[j->n_window];
		json_int_t t;
		const char *name;
		int points, count, s;

		if (j->n_window == JUDGE_WINDOW_MAX)
			break;
		if (json_unpack((json_t *)v, "[I,s,i,i]", &t, &name, &points, &count) ||
		    (s = event_signal_find(name)) < 0)
			continue;
		*w = (struct judge_entry){ .t = t, .signal = (enum judge_signal)s, .points = (unsigned)points,
					   .count = (uint32_t)count };
		j->n_window++;
	}
}

static void load_once(struct judge *j, const json_t *a)
{
	const json_t *v;
	json_int_t key, t;
	size_t i;

	json_array_foreach (a, i, v)
		if (j->n_once < JUDGE_ONCE_MAX && !json_unpack((json_t *)v, "[I,I]", &key, &t))
			j->once[j->n_once++] = (struct judge_once){ .key = (uint64_t)key, .t = t };
}

static void load_programs(struct judge *j, const json_t *a)
{
	const json_t *v, *d;
	size_t i, k;

	json_array_foreach (a, i, v) {
		const char *name;
		json_int_t probed, t;
		json_t *denials;
		int routine, count, points;
		struct judge_program *p;

		if (i == JUDGE_PROGRAMS_MAX)
			break;
		if (json_unpack((json_t *)v, "{s:s,s:I,s:i,s:o}", "name", &name, "probed", &probed, "routine", &routine,
				"denials", &denials))
			continue;
		p = judge_program(j, name, 0);
		p->probed = probed;
		p->routine = (unsigned)routine;
		json_array_foreach (denials, k, d)
			if (p->n < JUDGE_DENIALS_MAX && !json_unpack((json_t *)d, "[I,i,i]", &t, &count, &points)) {
				p->denials[p->n++] = (struct judge_denial){ .t = t, .count = (uint32_t)count,
									    .points = (unsigned)points };
				p->last = t;
			}
	}
}

static void load_sums(struct judge *j, const json_t *state)
{
	const json_t *v;
	json_int_t bucket;
	const char *name;
	int points, count, s;
	size_t i;

	json_array_foreach (json_object_get(state, "slow"), i, v) {
		if (json_unpack((json_t *)v, "[I,s,i]", &bucket, &name, &points) || bucket < 0 ||
		    (s = event_signal_find(name)) < 0)
			continue;
		j->slow[bucket % JUDGE_SLOW_BUCKETS].bucket = bucket;
		j->slow[bucket % JUDGE_SLOW_BUCKETS].points[s] = (unsigned)points;
	}
	json_array_foreach (json_object_get(state, "exempt"), i, v)
		if (!json_unpack((json_t *)v, "[s,i,i]", &name, &points, &count) && (s = event_signal_find(name)) >= 0) {
			j->exempt[s].points = (unsigned)points;
			j->exempt[s].count = (uint32_t)count;
		}
	json_array_foreach (json_object_get(state, "dests"), i, v)
		if (j->n_dests < JUDGE_DESTS_MAX)
			j->dests[j->n_dests++] = (uint64_t)json_integer_value(v);
	j->next_dest = (unsigned)json_integer_value(json_object_get(state, "next_dest")) % JUDGE_DESTS_MAX;
	if (json_object_get(state, "limited")) {
		j->counters.known = true;
		j->counters.dropped = (uint64_t)json_integer_value(json_object_get(state, "dropped"));
		j->counters.missed = (uint64_t)json_integer_value(json_object_get(state, "missed"));
		json_array_foreach (json_object_get(state, "limited"), i, v)
			if (i < JUDGE_LIMITED_MAX)
				j->counters.limited[i] = (uint64_t)json_integer_value(v);
	}
}

int judge_import(struct judge *j, int64_t now_ms, const json_t *state, struct err *e)
{
	int schema, runs, tripped, phase, boot_over, shutdown_over, heard;
	json_int_t clock, boot, shutdown, slow_told;
	const char *set_by;

	if (json_unpack((json_t *)state, "{s:i,s:I,s:b,s:b,s:i,s:I,s:I,s:b,s:b,s:b,s:s,s:I}", "schema", &schema, "clock",
			&clock, "runs", &runs, "tripped", &tripped, "phase", &phase, "boot", &boot, "shutdown",
			&shutdown, "boot_over", &boot_over, "shutdown_over", &shutdown_over, "heard", &heard, "set_by",
			&set_by, "slow_told", &slow_told))
		return err_set(e, "the judge's state does not parse");
	if (schema != STATE_SCHEMA || phase < 0 || phase > 2)
		return err_set(e, "the judge's state is of another version");
	j->clock_ms = clock;
	j->base_ms = now_ms;
	j->runs = runs;
	j->tripped = tripped;
	j->phase = phase;
	j->boot_t = boot;
	j->shutdown_t = shutdown;
	j->boot_over = boot_over;
	j->shutdown_over = shutdown_over;
	j->heard = heard;
	j->slow_told = slow_told;
	j->supervisor = json_integer_value(json_object_get(state, "supervisor"));
	snprintf(j->set_by, sizeof(j->set_by), "%s", set_by);
	load_window(j, json_object_get(state, "window"));
	load_once(j, json_object_get(state, "once"));
	load_programs(j, json_object_get(state, "programs"));
	load_sums(j, state);
	j->dirty = false;
	return 0;
}
