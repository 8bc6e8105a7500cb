/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What judge.c (points and window), judge_frame.c (frames) and judge_state.c (JSON) share. */
#ifndef HOSTD_SENTRY_JUDGE_INT_H
#define HOSTD_SENTRY_JUDGE_INT_H

#include "hostd/sentry/judge.h"

#define JUDGE_WINDOW_MAX 1024	/* entries; more are added to the newest of their signal */
#define JUDGE_ONCE_MAX 512	/* things that score once a window */
#define JUDGE_PROGRAMS_MAX 512	/* programs whose denials are counted; the one longest quiet makes room */
#define JUDGE_DENIALS_MAX 32	/* denials kept of one program: more than probing needs */
#define JUDGE_DESTS_MAX 1024
#define JUDGE_PROCS_MAX 4096	/* a power of two */
#define JUDGE_SLOW_MINUTES 5
#define JUDGE_SLOW_BUCKETS (24 * 60 / JUDGE_SLOW_MINUTES)
#define JUDGE_VOLUME_SAMPLES 120
#define JUDGE_LIMITED_MAX 32 /* kinds in rate_limited */

struct judge_entry {
	int64_t t;
	enum judge_signal signal;
	unsigned points;
	uint32_t count;
};

struct judge_once {
	uint64_t key;
	int64_t t;
};

struct judge_denial {
	int64_t t;
	uint32_t count;
	unsigned points; /* of weight-1 denials */
};

struct judge_program {
	uint64_t key; /* 0: free */
	char name[JUDGE_PROGRAM_MAX];
	int64_t last, probed; /* probed: -1 never */
	unsigned routine;     /* bits of routine probes seen */
	struct judge_denial denials[JUDGE_DENIALS_MAX];
	unsigned n;
};

struct judge_proc {
	int64_t pid; /* 0: free */
	uint64_t root;
};

struct judge_counters {
	bool known;
	uint64_t dropped, missed, limited[JUDGE_LIMITED_MAX];
};

struct judge {
	struct judge_config cfg;
	judge_row_fn row;
	void *u;
	bool dirty;

	int64_t base_ms, clock_ms; /* running time is clock + now - base while it runs */
	bool runs;

	struct judge_entry window[JUDGE_WINDOW_MAX];
	unsigned n_window;
	bool tripped;
	struct judge_once once[JUDGE_ONCE_MAX];
	unsigned n_once;
	struct judge_program *programs; /* JUDGE_PROGRAMS_MAX */
	struct judge_proc *procs;	/* JUDGE_PROCS_MAX */
	uint64_t dests[JUDGE_DESTS_MAX];
	unsigned n_dests, next_dest;

	int phase;
	int64_t boot_t, shutdown_t;
	bool boot_over, shutdown_over, heard;
	char set_by[64];
	int64_t supervisor; /* pid of what began the session: it does so before anything of a user runs; 0: unknown */
	struct judge_entry exempt[SIGNAL_COUNT]; /* of the shutdown phase */

	struct judge_counters counters;

	uint64_t volume_last;
	bool volume_known;
	uint64_t volume[JUDGE_VOLUME_SAMPLES];
	unsigned volume_at;

	struct {
		int64_t bucket;
		unsigned points[SIGNAL_COUNT];
	} slow[JUDGE_SLOW_BUCKETS];
	int64_t slow_told; /* -1: never */
};

int64_t judge_now(const struct judge *j, int64_t now_ms);
uint64_t judge_key(const char *kind, const char *a, const char *b);
/* Adds points that no event carries; returns true if it tripped. */
bool judge_add(struct judge *j, int64_t t, enum judge_signal signal, unsigned points, uint32_t count);
/* The first time within the window? */
bool judge_first(struct judge *j, int64_t t, uint64_t key);
void judge_set_phase(struct judge *j, int64_t t, int phase, const char *set_by);
struct judge_program *judge_program(struct judge *j, const char *name, int64_t t);

#endif
