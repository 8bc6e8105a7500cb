/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The queue of deliveries: what waits, when it is tried again, when it is given up.
 *
 * Pure: starting a delivery and storing the state are operations. A delivery is stored before it is first started, so
 * a crash costs a second delivery at most and never the only one. Between tries it waits 5 s, 30 s, 2 min, 10 min, then
 * an hour each; after a day it is given up and that is a row of the timeline. Journal, desktop and command are tried
 * three times: what they need is on this machine or it is not.
 */
#include <stdlib.h>
#include <string.h>

#include "hostd/alert/alert.h"
#include "lib/json.h"

#define LOCAL_TRIES 3

struct delivery {
	struct delivery *next;
	uint64_t job;
	enum alert_channel channel;
	json_t *alert;
	unsigned tries;
	int64_t first_ms, due_ms;
	bool running;
};

struct alert_queue {
	struct alert_queue_ops ops;
	void *u;
	struct delivery *first; /* oldest first */
	unsigned waiting, running;
	uint64_t last_job;
};

static const int64_t pauses_ms[] = { 5000, 30000, 120000, 600000, 3600000 };

struct alert_queue *alert_queue_new(const struct alert_queue_ops *ops, void *u)
{
	struct alert_queue *q = calloc(1, sizeof(*q));

	if (q) {
		q->ops = *ops;
		q->u = u;
	}
	return q;
}

static void delivery_free(struct delivery *d)
{
	json_decref(d->alert);
	free(d);
}

void alert_queue_free(struct alert_queue *q)
{
	if (!q)
		return;
	for (struct delivery *d = q->first, *next; d; d = next) {
		next = d->next;
		delivery_free(d);
	}
	free(q);
}

unsigned alert_queue_waiting(const struct alert_queue *q)
{
	return q->waiting;
}

static void save(struct alert_queue *q)
{
	json_t *state = q->waiting ? json_array() : NULL;

	if (!q->ops.save)
		return;
	for (const struct delivery *d = q->first; d; d = d->next)
		json_array_append_new(state, json_pack("{s:s,s:O,s:i}", "channel", alert_channel_name(d->channel),
						       "alert", d->alert, "tries", (int)d->tries));
	q->ops.save(q->u, state);
	json_decref(state);
}

static void unlink_delivery(struct alert_queue *q, struct delivery *d)
{
	struct delivery **at = &q->first;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	q->waiting--;
	if (d->running)
		q->running--;
}

static void over(struct alert_queue *q, struct delivery *d, const char *error)
{
	unlink_delivery(q, d);
	if (q->ops.over)
		q->ops.over(q->u, d->channel, d->alert, d->tries, error);
	delivery_free(d);
}

/* Makes room by giving up the oldest that already failed, else the oldest that does not run. */
static bool make_room(struct alert_queue *q)
{
	struct delivery *victim = NULL;

	if (q->waiting < ALERT_QUEUE_MAX)
		return true;
	for (struct delivery *d = q->first; d; d = d->next)
		if (!d->running && (!victim || (d->tries && !victim->tries)))
			victim = d;
	if (!victim)
		return false;
	over(q, victim, "too many alerts wait");
	return true;
}

static struct delivery *append(struct alert_queue *q, enum alert_channel channel, const json_t *alert, int64_t now_ms)
{
	struct delivery *d = make_room(q) ? calloc(1, sizeof(*d)) : NULL, **at = &q->first;

	if (!d)
		return NULL;
	d->job = ++q->last_job;
	d->channel = channel;
	d->alert = json_incref((json_t *)alert);
	d->first_ms = d->due_ms = now_ms;
	while (*at)
		at = &(*at)->next;
	*at = d;
	q->waiting++;
	return d;
}

static void failed(struct alert_queue *q, struct delivery *d, int64_t now_ms, const char *error)
{
	bool local = d->channel != ALERT_WEBHOOK;
	unsigned n = d->tries - 1;

	if ((local && d->tries >= LOCAL_TRIES) || (!local && now_ms - d->first_ms >= ALERT_GIVE_UP_MS)) {
		over(q, d, error);
		return;
	}
	if (n >= sizeof(pauses_ms) / sizeof(pauses_ms[0]))
		n = sizeof(pauses_ms) / sizeof(pauses_ms[0]) - 1;
	d->due_ms = now_ms + pauses_ms[n];
}

/* Starts what is due; a delivery that can't be started has failed. */
static void start_due(struct alert_queue *q, int64_t now_ms)
{
	struct delivery *next;

	for (struct delivery *d = q->first; d && q->running < ALERT_RUNNING_MAX; d = next) {
		next = d->next;
		if (d->running || d->due_ms > now_ms)
			continue;
		d->tries++;
		d->running = true;
		q->running++;
		if (!q->ops.start(q->u, d->job, d->channel, d->alert))
			continue;
		d->running = false;
		q->running--;
		failed(q, d, now_ms, "it could not be started");
	}
}

unsigned alert_queue_add(struct alert_queue *q, int64_t now_ms, const struct alert_config *cfg, const json_t *alert)
{
	unsigned n = 0;

	for (int c = 0; c < ALERT_CHANNELS; c++)
		if (cfg->on[c] && append(q, (enum alert_channel)c, alert, now_ms))
			n++;
	save(q);
	start_due(q, now_ms);
	return n;
}

void alert_queue_done(struct alert_queue *q, int64_t now_ms, uint64_t job, bool ok, const char *error)
{
	for (struct delivery *d = q->first; d; d = d->next) {
		if (d->job != job || !d->running)
			continue;
		d->running = false;
		q->running--;
		if (ok)
			over(q, d, NULL);
		else
			failed(q, d, now_ms, error && *error ? error : "it failed");
		save(q);
		break;
	}
	start_due(q, now_ms);
}

void alert_queue_tick(struct alert_queue *q, int64_t now_ms)
{
	start_due(q, now_ms);
}

int alert_queue_restore(struct alert_queue *q, int64_t now_ms, const json_t *state, struct err *e)
{
	const json_t *item;
	size_t i;

	if (!json_is_array(state))
		return err_set(e, "the queue of alerts does not parse");
	json_array_foreach (state, i, item) {
		const char *name;
		struct delivery *d;
		json_t *alert;
		int tries, channel;

		if (json_unpack((json_t *)item, "{s:s,s:o,s:i}", "channel", &name, "alert", &alert, "tries", &tries) ||
		    (channel = alert_channel_find(name)) < 0 || !json_is_object(alert))
			return err_set(e, "the queue of alerts does not parse");
		d = append(q, (enum alert_channel)channel, alert, now_ms);
		if (d)
			d->tries = tries < 0 ? 0 : (unsigned)tries;
	}
	start_due(q, now_ms);
	return 0;
}
