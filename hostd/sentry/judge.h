/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * judge.h - what events add up to: points, the sliding window, the trip.
 *
 * Pure: no clock, no file, no socket. Time is the host's own, in milliseconds of any monotonic clock; what the guest
 * says about time is never used. The judge's clock stands still while the VM does (judge_running()), and its state
 * survives as JSON, so neither a restart of hostd nor one of the VM empties the window.
 * ingest.h puts judge, rows and store together; hostd normally calls only that.
 */
#ifndef HOSTD_SENTRY_JUDGE_H
#define HOSTD_SENTRY_JUDGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "hostd/sentry/events.h"
#include "lib/err.h"

#define JUDGE_PARTS_MAX 8
#define JUDGE_MUTES_MAX 64
#define JUDGE_PROGRAM_MAX 264

struct judge_mute {
	enum judge_signal signal;
	char program[JUDGE_PROGRAM_MAX]; /* full path, or "*" for any */
};

/* judge_config_default() fills in spec values; judge_config_parse() overlays and validates. */
struct judge_config {
	unsigned weight[SIGNAL_COUNT]; /* 0..100 */
	unsigned window_ms;	       /* 60000; 1000..3600000 */
	unsigned threshold;	       /* 20; 1..1000 */
	unsigned boot_ms, shutdown_ms; /* 90000, 20000 */
	unsigned denials_per_program;  /* 5: points of weight-1 denials for one program and window */
	unsigned probing_count;	       /* 20 */
	unsigned probing_again_ms;     /* 300000 */
	unsigned settle_ms;	       /* 600000: destinations first seen within it cost nothing */
	unsigned slow_hours;	       /* 6 */
	unsigned slow_threshold;       /* 60: points within slow_hours that are worth a warning row */
	uint64_t volume_bytes_per_s;   /* 5000000 */
	unsigned volume_ratio;	       /* 10 */
	bool strict;		       /* the workspace's level */
	bool required;		       /* the Sentry is required: the supervisor's end weighs all of "tamper", else half */
	struct judge_mute mutes[JUDGE_MUTES_MAX];
	unsigned n_mutes;
};

void judge_config_default(struct judge_config *cfg);
/* {"weights": {"ptrace": 3, …}, "window_ms": …, "threshold": …, "mutes": [{"signal","program"}], …}; NULL is allowed.
 * Mutes add to those that are there. */
int judge_config_parse(const json_t *obj, struct judge_config *cfg, struct err *e);

/* What @to changes, in words: "threshold 20 to 30, ptrace weighs 3 to 5, …"; returns the length, 0: nothing. */
size_t judge_config_diff(const struct judge_config *from, const struct judge_config *to, char *out, size_t size);

/* Of judge_event.routine; the others are judge_frame.c's own. */
enum { JUDGE_ROUTINE_PTRACE = 16 };

/* What the judge needs to know of an event. Zero and NULL mean "not known" and are safe. */
struct judge_event {
	enum event_kind kind;
	uint32_t count;	      /* folded in the guest; 0 counts as 1 */
	const char *program;  /* path of the executable */
	int64_t pid;
	uint64_t start_ns;
	const char *subtree;  /* names the tool call, service or container below which it ran; NULL: taken from the chain */
	bool sandboxed;
	bool supervisor;      /* sandboxd or one of its own helpers */
	enum judge_signal signal; /* SIGNAL_NONE: that of the kind */
	unsigned routine;     /* bits of what runtimes try and do without: scored once a program, and (but ptrace) no probing */
	bool own_subtree;     /* ptrace: what it traces is below the same command */
	bool free;	      /* shown, worth nothing (a signed module, say) */
	const char *dest;     /* flows: name or address, for first contact */
	long syscall;	      /* seccomp_denied; -1: unknown */
};

struct judge_part {
	enum judge_signal signal;
	unsigned points;
	uint32_t count;
};

struct judge_result {
	unsigned points;  /* this event's own */
	unsigned score;	  /* of the window now */
	bool exempt;	  /* not scored because of the phase */
	bool muted;
	bool trip;	  /* this event, or one derived from it, tripped: once until judge_release() */
};

struct judge;

/* Rows of the judge's own: probing, counters that grew, phases, trip. @data is borrowed. */
typedef void (*judge_row_fn)(void *u, enum event_kind kind, unsigned points, const json_t *data);

struct judge *judge_new(const struct judge_config *cfg, judge_row_fn row, void *u);
void judge_free(struct judge *j);
/* Another configuration from now on; window, score, phase and tables stay. A threshold that the score of now reaches
 * trips; mutes and weights are those of events to come. */
void judge_reconfigure(struct judge *j, int64_t now_ms, const struct judge_config *cfg);
const struct judge_config *judge_config(const struct judge *j);

/* The VM started (a new boot: phase and counters begin again, window and score stay); runs or stands still. */
void judge_boot(struct judge *j, int64_t now_ms);
void judge_running(struct judge *j, int64_t now_ms, bool running);

void judge_event(struct judge *j, int64_t now_ms, const struct judge_event *ev, struct judge_result *out);
/* A parsed frame: fills *ev (strings point into @frame) and judges it; heartbeats move phase and counters. */
int judge_frame(struct judge *j, int64_t now_ms, const char *type, const json_t *frame, struct judge_event *ev,
		struct judge_result *out);
/* Total bytes that left through the switch, once a second. */
void judge_volume(struct judge *j, int64_t now_ms, uint64_t bytes_up_total);
/* Timers: at least once a second. */
void judge_tick(struct judge *j, int64_t now_ms);

unsigned judge_score(struct judge *j, int64_t now_ms);
/* Parts of the score, largest first; returns how many. */
unsigned judge_parts(struct judge *j, int64_t now_ms, struct judge_part parts[JUDGE_PARTS_MAX]);
/* "20 tampering with the Sentry, 3 one process taking over another ×1" */
void judge_parts_text(const struct judge_part *parts, unsigned n, char *out, size_t size);
/* Points of the last @hours (1..24) of running time: what stays below the threshold all day. */
unsigned judge_slow(struct judge *j, int64_t now_ms, unsigned hours);
bool judge_tripped(const struct judge *j);
void judge_release(struct judge *j, int64_t now_ms);

/* Changed since the last export? */
bool judge_dirty(const struct judge *j);
json_t *judge_export(struct judge *j, int64_t now_ms);
int judge_import(struct judge *j, int64_t now_ms, const json_t *state, struct err *e);

#endif
