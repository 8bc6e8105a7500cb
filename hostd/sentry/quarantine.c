/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Quarantine: an ordered state machine over four effects.
 *
 * Theory of operation. Steps run one after another in the order of enum quarantine_step; the next begins when the one
 * before answered or its time is over, so the network is always closed before the VM stops, and a proxy that hangs
 * can't keep the VM running. The state is saved when it changes to cutting and again when it is held: a hostd that
 * dies in between finds "cutting" and does all steps again, which is why they are idempotent.
 */
#include "hostd/sentry/quarantine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/json.h"

#define REASON_MAX 1024

struct quarantine {
	enum quarantine_mode mode;
	struct quarantine_ops ops;
	void *u;
	enum quarantine_state state;
	enum quarantine_step step;
	int64_t decided_ns, step_since_ns, cut_ns;
	unsigned failed;
	bool starting, answered, answer_ok; /* an answer from within ops.start() */
	bool was_held; /* before hostd started again: told already */
	int64_t since_unix;
	char reason[REASON_MAX];
};

static const char *const step_names[QUARANTINE_STEPS] = { "close the network", "cut the proxy's streams",
							  "close the guest's sockets", "stop the VM" };

const char *quarantine_step_name(enum quarantine_step step)
{
	return (unsigned)step < QUARANTINE_STEPS ? step_names[step] : "?";
}

struct quarantine *quarantine_new(enum quarantine_mode mode, const struct quarantine_ops *ops, void *u)
{
	struct quarantine *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->mode = mode;
	q->ops = *ops;
	q->u = u;
	return q;
}

void quarantine_free(struct quarantine *q)
{
	free(q);
}

void quarantine_set_mode(struct quarantine *q, enum quarantine_mode mode)
{
	q->mode = mode;
}

static void save(struct quarantine *q)
{
	static const char *const states[] = { "free", "cutting", "held" };
	json_t *state;

	if (!q->ops.save)
		return;
	state = json_pack("{s:i,s:s,s:s,s:I}", "schema", 1, "state", states[q->state], "reason", q->reason, "since",
			  (json_int_t)q->since_unix);
	if (!state) /* a reason with text of the guest that is no UTF-8 */
		state = json_pack("{s:i,s:s,s:s,s:I}", "schema", 1, "state", states[q->state], "reason", "", "since",
				  (json_int_t)q->since_unix);
	q->ops.save(q->u, state);
	json_decref(state);
}

static void begin_step(struct quarantine *q, int64_t now_ns, enum quarantine_step step);

static void end_step(struct quarantine *q, int64_t now_ns, bool ok)
{
	if (!ok)
		q->failed |= 1u << q->step;
	if (q->step == QUARANTINE_CLOSE_SWITCH)
		q->cut_ns = now_ns - q->decided_ns;
	if (q->step + 1 < QUARANTINE_STEPS) {
		begin_step(q, now_ns, q->step + 1);
		return;
	}
	q->state = QUARANTINE_HELD;
	save(q);
	if (q->ops.held && (!q->was_held || q->failed))
		q->ops.held(q->u, q->cut_ns, now_ns - q->decided_ns, q->failed);
}

static void begin_step(struct quarantine *q, int64_t now_ns, enum quarantine_step step)
{
	int rc;

	q->step = step;
	q->step_since_ns = now_ns;
	q->starting = true;
	q->answered = false;
	rc = q->ops.start(q->u, step);
	q->starting = false;
	if (rc < 0)
		end_step(q, now_ns, true);
	else if (q->answered)
		end_step(q, now_ns, q->answer_ok);
}

static void begin(struct quarantine *q, int64_t now_ns, int64_t decided_ns)
{
	q->state = QUARANTINE_CUTTING;
	q->decided_ns = decided_ns;
	q->failed = 0;
	save(q);
	begin_step(q, now_ns, QUARANTINE_CLOSE_SWITCH);
}

int quarantine_restore(struct quarantine *q, int64_t now_ns, const json_t *state, struct err *e)
{
	static const char *const keys[] = { "schema", "state", "reason", "since", NULL };
	const char *name, *reason;

	if (!json_is_object(state))
		return err_set(e, "it must be an object");
	if (json_only_keys(state, keys, e) || json_get_str(state, "state", &name, e) ||
	    json_get_str(state, "reason", &reason, e) || json_get_int(state, "since", &q->since_unix, e))
		return -1;
	snprintf(q->reason, sizeof(q->reason), "%s", reason);
	if (!strcmp(name, "free"))
		return 0;
	/* held, cutting, and whatever this program does not know: the safe reading is to cut */
	q->was_held = !strcmp(name, "held");
	begin(q, now_ns, now_ns);
	return 0;
}

void quarantine_trip(struct quarantine *q, int64_t now_ns, int64_t decided_ns, const char *reason, bool forced)
{
	if (q->state != QUARANTINE_FREE || (q->mode != QUARANTINE_CUT && !forced))
		return;
	snprintf(q->reason, sizeof(q->reason), "%s", reason ? reason : "");
	q->since_unix = time(NULL);
	q->was_held = false;
	begin(q, now_ns, decided_ns);
}

void quarantine_done(struct quarantine *q, int64_t now_ns, enum quarantine_step step, bool ok)
{
	if (q->state != QUARANTINE_CUTTING || step != q->step)
		return; /* late: its time was over and the next step runs */
	if (q->starting) {
		q->answered = true;
		q->answer_ok = ok;
		return;
	}
	end_step(q, now_ns, ok);
}

void quarantine_tick(struct quarantine *q, int64_t now_ns)
{
	if (q->state == QUARANTINE_CUTTING && now_ns - q->step_since_ns >= QUARANTINE_STEP_MS * 1000000LL)
		end_step(q, now_ns, false);
}

void quarantine_release(struct quarantine *q, const char *verb, const char *author)
{
	(void)verb;
	(void)author;
	if (q->state == QUARANTINE_FREE)
		return;
	q->state = QUARANTINE_FREE;
	q->reason[0] = '\0';
	save(q);
}

enum quarantine_state quarantine_state(const struct quarantine *q)
{
	return q->state;
}

const char *quarantine_reason(const struct quarantine *q)
{
	return q->reason;
}

int quarantine_may_run(const struct quarantine *q, struct err *e)
{
	char when[32];
	time_t since = (time_t)q->since_unix;
	struct tm tm;

	if (q->state == QUARANTINE_FREE)
		return 0;
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&since, &tm));
	return err_set(e, "in quarantine since %s (%s): holdfast release, ws reset or ws delete", when, q->reason);
}
