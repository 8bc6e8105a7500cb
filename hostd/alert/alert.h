/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alert.h - telling somebody: what an alert says, where it goes, and that it arrives.
 *
 * An alert is one JSON object (docs/protocol/alert.md). The timeline has it as rows of its own; the other channels are
 * delivered by a child process (`hostd alert`), since hostd itself reaches no network and starts no program. The queue
 * keeps what was not delivered yet, across restarts, and tries again: a webhook may get an alert twice, never not at
 * all for want of trying.
 */
#ifndef HOSTD_ALERT_ALERT_H
#define HOSTD_ALERT_ALERT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "hostd/sentry/ingest.h"
#include "lib/err.h"

enum alert_channel {
	ALERT_JOURNAL, /* journald, else syslog */
	ALERT_DESKTOP, /* org.freedesktop.Notifications on the session's bus */
	ALERT_WEBHOOK, /* POST, signed */
	ALERT_COMMAND, /* a program with the alert on its standard input */
	ALERT_CHANNELS,
};

const char *alert_channel_name(enum alert_channel channel);
int alert_channel_find(const char *name);

#define ALERT_URL_MAX 1024
#define ALERT_ARGS_MAX 16
#define ALERT_SECRET_MIN 16
#define ALERT_SECRET_MAX 256

struct alert_config {
	bool on[ALERT_CHANNELS];
	char url[ALERT_URL_MAX];
	char ca_file[ALERT_URL_MAX];
	char secret_file[ALERT_URL_MAX];
	char *command[ALERT_ARGS_MAX + 1];
	char journal_socket[108]; /* where journald listens; tests have their own */
	char syslog_socket[108];
};

/* {"journal": bool, "desktop": bool, "webhook": {"url","secret_file","ca_file"?}, "command": [argv]}; a missing file is
 * the default: journal and desktop on. */
int alert_config_load(const char *path, struct alert_config *cfg, struct err *e);
int alert_config_parse(const json_t *obj, struct alert_config *cfg, struct err *e);
void alert_config_free(struct alert_config *cfg);

/*
 * The alert of a trip, redacted: {id, time, workspace, state, sentence, score, threshold, parts[], chain[], commands[]}.
 * @state: what was done ("quarantined", "running"). New reference, or NULL.
 */
json_t *alert_new(const struct ingest_alert *trip, int64_t wall_ns, const char *state);
json_t *alert_test_new(const char *author, int64_t wall_ns);
/* The same for people: the sentence, the score with its parts, the chain, the two commands. The caller frees. */
char *alert_text(const json_t *alert);

/* Delivers now and waits; -1 with the reason. Blocks up to 30 s: for the child process and tests. */
int alert_deliver(const struct alert_config *cfg, enum alert_channel channel, const json_t *alert, struct err *e);
/* `hostd alert`: one job on @fd ({config, channel, alert}), one answer ({ok, error}). Exit code. */
int alert_role_main(int fd);

/* ---- the queue ---- */

#define ALERT_QUEUE_MAX 256  /* deliveries that wait; the oldest that failed goes first when it is full */
#define ALERT_RUNNING_MAX 4  /* at once */
#define ALERT_GIVE_UP_MS (24 * 3600 * 1000LL)

struct alert_queue;

struct alert_queue_ops {
	/* Starts a delivery; answer by alert_queue_done(). -1: it could not be started (counts as a failed try). */
	int (*start)(void *u, uint64_t job, enum alert_channel channel, const json_t *alert);
	/* What waits, to be stored; NULL: nothing. */
	void (*save)(void *u, json_t *state);
	/* It arrived, or (error set) was given up. */
	void (*over)(void *u, enum alert_channel channel, const json_t *alert, unsigned tries, const char *error);
};

struct alert_queue *alert_queue_new(const struct alert_queue_ops *ops, void *u);
void alert_queue_free(struct alert_queue *q);
int alert_queue_restore(struct alert_queue *q, int64_t now_ms, const json_t *state, struct err *e);
/* Queues @alert on every channel that @cfg has on, and starts what can be started. Returns how many. */
unsigned alert_queue_add(struct alert_queue *q, int64_t now_ms, const struct alert_config *cfg, const json_t *alert);
void alert_queue_done(struct alert_queue *q, int64_t now_ms, uint64_t job, bool ok, const char *error);
/* At least once a second. */
void alert_queue_tick(struct alert_queue *q, int64_t now_ms);
unsigned alert_queue_waiting(const struct alert_queue *q);

#endif
