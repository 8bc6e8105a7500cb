/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * events.h - the one table of event kinds: engine, verdict, judge signal, folding, OCSF class, sentence.
 *
 * hostd/sentry/events.def is the table; docs/protocol/timeline.md shows it to readers. Whoever writes a row names
 * its kind by enum event_kind; whoever reads one finds everything else here.
 */
#ifndef HOSTD_SENTRY_EVENTS_H
#define HOSTD_SENTRY_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_engine {
	ENGINE_SENTRY,
	ENGINE_SWITCH,
	ENGINE_DNS,
	ENGINE_PROXY,
	ENGINE_POLICY,
	ENGINE_LIFECYCLE,
	ENGINE_JUDGE,
	ENGINE_COUNT,
};

/* How a row is coloured and what an operator should think of it. */
enum event_verdict {
	VERDICT_NOTE,	 /* it happened */
	VERDICT_ALLOWED, /* somebody asked and may */
	VERDICT_DENIED,	 /* somebody asked and may not */
	VERDICT_WARNING, /* look at it when there is time */
	VERDICT_ALARM,	 /* look at it now */
	VERDICT_COUNT,
};

/* What the judge counts. The names are the keys of "weights" in the configuration. */
enum judge_signal {
#define SIGNAL(id, name, weight, text) SIGNAL_##id,
#include "hostd/sentry/signals.def"
#undef SIGNAL
	SIGNAL_COUNT,
};

enum event_kind {
#define EVENT(id, name, engine, verdict, signal, fold_s, ocsf, flags, sentence) EVENT_##id,
#include "hostd/sentry/events.def"
#undef EVENT
	EVENT_COUNT,
};

/* OCSF class ids used here (schema 1.5.0). */
enum event_ocsf {
	OCSF_NONE = 0,
	OCSF_FILE_ACTIVITY = 1001,
	OCSF_PROCESS_ACTIVITY = 1007,
	OCSF_DETECTION_FINDING = 2004,
	OCSF_NETWORK_ACTIVITY = 4001,
};

enum event_flags {
	EVENT_ROUTINE = 1, /* stored, but listed only when asked for (--all, or its kind named) */
	EVENT_NO_ROW = 2,  /* a frame of this kind is stored raw and makes no row of its own */
	EVENT_TAMPER = 4,  /* a named tamper reason: weight 20, never muted */
};

struct event_def {
	const char *name; /* "exec" */
	enum event_engine engine;
	enum event_verdict verdict;
	enum judge_signal signal; /* SIGNAL_NONE: never scored */
	unsigned fold_s;	  /* 0: never folded */
	enum event_ocsf ocsf;
	unsigned flags;
	const char *sentence; /* template, see event_sentence() */
};

struct signal_def {
	const char *name;
	unsigned weight; /* default */
	const char *text; /* as the alert says it */
};

extern const struct event_def event_defs[EVENT_COUNT];
extern const struct signal_def signal_defs[SIGNAL_COUNT];

/* The kind named @name (an event kind or a tamper reason), or -1. */
int event_find(const char *name);
int event_signal_find(const char *name);
const char *event_engine_name(enum event_engine engine);
const char *event_verdict_name(enum event_verdict verdict);
int event_engine_find(const char *name);
int event_verdict_find(const char *name);

/*
 * One sentence about a row, without control characters beyond those in @data (the printer escapes).
 * Template: {a.b|c|"text"} is the first of the members that @data has, else the text, else "?";
 * [ ... ] is left out if a member inside it is missing. "subject" is a member of every row.
 * Writes at most @size bytes with the NUL; cut at a character and marked with "…". Returns the length.
 */
size_t event_sentence(enum event_kind kind, const char *subject, const json_t *data, char *out, size_t size);

/* The subject of a row: the program, name or address that the event is about. Writes "" if there is none. */
void event_subject(enum event_kind kind, const json_t *data, char *out, size_t size);

#endif
