/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is the program behind a flow the file that was pinned under its name? */
#include "hostd/daemon/workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cleanup.h"
#include "lib/json.h"
#include "lib/log.h"
#include "lib/loop.h"

/*
 * Theory of operation. hostd/lineage/identity.h compares; here the pins are kept in the store, what comes of a
 * comparison becomes a row, and flows wait while the Sentry still reads the file: all that run the same file go on
 * together when its hash comes, and are refused as "identity unavailable" when it does not.
 */
#define STATE_KEY "identity"
enum { WAITS_MAX = 512 };

struct identify_wait {
	struct identify_wait *next;
	uint64_t deadline_ms;
	json_t *event;
	char *program;
	identify_fn fn;
	void *user;
};

static void keep(struct workspace *ws)
{
	_cleanup_json_ json_t *state = identity_json(ws->identity);
	_cleanup_free_ char *text = json_text(state);
	struct err err;

	if (text && ws->hostd->store && store_put_state(ws->hostd->store, ws->name, STATE_KEY, text, &err))
		log_warn("%s: the pins of programs are not kept: %s", ws->name, err.text);
}

void identify_forget(struct workspace *ws)
{
	if (identity_forget(ws->identity, NULL))
		keep(ws);
}

static void tell(struct workspace *ws, enum event_kind kind, const json_t *event, const char *program, const char *why)
{
	json_t *data = json_pack("{s:s}", "program", program);
	char digest[80];

	if (why)
		json_object_set_new(data, "text", json_string(why));
	if (!strcmp(program, json_str(event, "exe")) && identity_digest(ws->identity, event, digest))
		json_object_set_new(data, "digest", json_string(digest));
	json_object_set(data, "pid", json_object_get(event, "pid"));
	json_object_set(data, "start_ns", json_object_get(event, "start_ns"));
	workspace_event(ws, kind, data);
}

/* What a comparison found, as a row. */
static void tell_verdict(struct workspace *ws, enum identity_verdict verdict, const json_t *event, const char *program,
			 const char *why)
{
	static const enum event_kind kinds[] = {
		[IDENTITY_PINNED] = EVENT_IDENTITY_PINNED, [IDENTITY_UPDATED] = EVENT_IDENTITY_UPDATED,
		[IDENTITY_CHANGED] = EVENT_IDENTITY_CHANGED, [IDENTITY_UNKNOWN] = EVENT_IDENTITY_UNAVAILABLE,
	};

	if (verdict != IDENTITY_SAME && verdict != IDENTITY_HASHING)
		tell(ws, kinds[verdict], event, program, why);
}

static bool wait_for_hash(struct workspace *ws, const json_t *event, const char *program, identify_fn fn, void *user)
{
	_cleanup_free_ char *name = strdup(program);
	struct identify_wait *wait;
	size_t n = 0;

	for (wait = ws->identify_waits; wait; wait = wait->next)
		n++;
	wait = name && n < WAITS_MAX ? calloc(1, sizeof(*wait)) : NULL;
	if (!wait)
		return false;
	*wait = (struct identify_wait){ .next = ws->identify_waits, .deadline_ms = loop_now_ms() + IDENTIFY_MS,
					.event = json_incref((json_t *)event), .program = steal_ptr(&name), .fn = fn,
					.user = user };
	ws->identify_waits = wait;
	return true;
}

static void refuse(identify_fn fn, void *user, const char *what, const char *why)
{
	char refusal[300];

	snprintf(refusal, sizeof(refusal), "%s: %s", what, why);
	fn(user, refusal);
}

void identify(struct workspace *ws, const json_t *event, const char *program, identify_fn fn, void *user)
{
	bool own = !strcmp(program, json_str(event, "exe")), news;
	const char *why;
	enum identity_verdict verdict = own ? identity_check(ws->identity, event, &why) :
					      identity_check_name(ws->identity, program, &why);

	if (verdict == IDENTITY_HASHING) {
		if (wait_for_hash(ws, event, program, fn, user))
			return;
		verdict = IDENTITY_UNKNOWN;
		why = "too many flows wait for hashes";
	}
	news = verdict == IDENTITY_UNKNOWN || verdict == IDENTITY_PINNED || verdict == IDENTITY_UPDATED ||
	       (verdict == IDENTITY_CHANGED && own && identity_note_change(ws->identity, event));
	if (news) {
		keep(ws);
		tell_verdict(ws, verdict, event, program, why);
	}
	if (verdict == IDENTITY_CHANGED)
		refuse(fn, user, "the program was changed", why);
	else if (verdict == IDENTITY_UNKNOWN)
		refuse(fn, user, "identity unavailable", why);
	else
		fn(user, NULL);
}

static void wait_free(struct identify_wait *wait)
{
	json_decref(wait->event);
	free(wait->program);
	free(wait);
}

/* Those that a result is about, or, with NULL, those whose time is over, taken out of the list. */
static struct identify_wait *take(struct workspace *ws, const json_t *result, uint64_t now_ms)
{
	struct identify_wait **at = &ws->identify_waits, *taken = NULL, *wait;

	while ((wait = *at)) {
		bool goes = result ? !strcmp(json_str(wait->event, "exe_id"), json_str(result, "exe_id")) ||
					     !strcmp(wait->program, json_str(result, "exe")) :
				     wait->deadline_ms <= now_ms;

		if (!goes) {
			at = &wait->next;
			continue;
		}
		*at = wait->next;
		wait->next = taken;
		taken = wait;
	}
	return taken;
}

void identify_frame(struct workspace *ws, const char *kind, const json_t *event)
{
	bool changed;
	enum identity_verdict verdict = identity_event(ws->identity, kind, event, &changed);
	struct identify_wait *wait, *next;

	if (changed)
		keep(ws);
	if (strcmp(kind, "program_hash"))
		return;
	if (changed)
		tell_verdict(ws, verdict, event, json_str(event, "exe"), NULL);
	for (wait = take(ws, event, 0); wait; wait = next) {
		next = wait->next;
		identify(ws, wait->event, wait->program, wait->fn, wait->user);
		wait_free(wait);
	}
}

void identify_tick(struct workspace *ws, uint64_t now_ms)
{
	static const char why[] = "its hash did not come in time";
	struct identify_wait *wait = take(ws, NULL, now_ms), *next;

	for (; wait; wait = next) {
		next = wait->next;
		if (now_ms != UINT64_MAX)
			tell(ws, EVENT_IDENTITY_UNAVAILABLE, wait->event, wait->program, why);
		refuse(wait->fn, wait->user, "identity unavailable", why);
		wait_free(wait);
	}
}
