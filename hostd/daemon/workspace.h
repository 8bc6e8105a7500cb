/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A workspace as hostd runs it: its settings and policy, its VM's role, its judge and lineage. */
#ifndef HOLDFAST_DAEMON_WORKSPACE_H
#define HOLDFAST_DAEMON_WORKSPACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "hostd/daemon/daemon.h"
#include "hostd/lineage/flow.h"
#include "hostd/lineage/identity.h"
#include "hostd/lineage/owner.h"
#include "hostd/lineage/process.h"
#include "hostd/policy/policy.h"
#include "hostd/sentry/ingest.h"
#include "hostd/sentry/quarantine.h"
#include "hostd/ws/workspace.h"
#include "lib/msg.h"

enum ws_state { WS_OFF, WS_STARTING, WS_RUNNING, WS_PAUSED, WS_STOPPING };

enum {
	WS_REQUESTS_MAX = 256, /* open requests to the VM's role */
	WS_WAITERS_MAX = 32,   /* API calls that wait for the start or the end */
	WS_READY_MS = 180000,  /* from the guest's first instruction to its first session */
};

/* ok: result is the role's answer; otherwise why is one line. Valid during the call. */
typedef void (*vm_done_fn)(void *user, bool ok, const json_t *result, const char *why);

struct vm_request {
	struct vm_request *next;
	json_int_t id;
	vm_done_fn fn;
	void *user;
};

/* Which text policy.yaml holds, as far as the file system tells. */
struct policy_stamp {
	bool missing, regular;
	uint64_t ino;
	int64_t size, changed_ns;
};

struct ws_waiter {
	struct ws_waiter *next;
	struct workspace *ws;
	struct api_call *call;
	bool for_ready; /* else for the end of the VM */
};

struct workspace {
	struct hostd *hostd;
	struct workspace *next;
	char name[WS_NAME_MAX + 1];
	char dir[PATHS_MAX + WS_NAME_MAX + 2];
	char run_dir[PATHS_MAX + WS_NAME_MAX + 2];

	json_t *settings;
	struct policy *policy; /* NULL: unfiltered */
	char policy_error[512]; /* the file on disk is not in force, and why */
	struct {
		struct policy_stamp seen, taken;
		uint64_t looked_ms;
	} policy_file; /* policy_file.c's */

	enum ws_state state;
	char reason[256];     /* of the last change of state */
	char stand[17];	      /* another whenever it begins to run or gets another disk: evidence is of one of them */
	char off_reason[256]; /* the role said that the run is over; it has yet to leave */
	char boot_id[40];
	uint32_t epoch;
	bool guest_strict, guest_required; /* of the guest that runs, or ran last: judged by, whatever is set since */
	json_t *running;      /* what STARTED or ATTACHED said */
	json_t *guest_status; /* the guest's word */
	bool ready;	      /* it takes sessions */
	bool sentry_live;     /* a frame came in this boot */
	uint64_t start_ms;    /* of the current run, monotonic */

	struct msg_peer *vm;
	struct vm_request *requests;
	json_int_t last_request;
	struct ws_waiter *waiters;
	struct loop_timer *ready_timer;

	struct {
		bool asked;
		uint64_t asked_ms, sampled_ms, bytes;
	} volume; /* volume.c's */

	struct {
		uint64_t looked_ms, quiet_ms;
		bool expected, silent;
	} supervisor; /* supervisor.c's */

	struct ingest *ingest;
	struct quarantine *quarantine;
	struct process_table *processes;
	struct flow_join *flows;
	struct owners *owners; /* of open flows, by the switch's id */
	struct identity *identity;
	struct identify_wait *identify_waits;
	struct who *whos; /* questions to the guest's attestor */
	uint32_t last_who;
};

/* workspace.c: the table. */
int workspaces_load(struct hostd *hostd, struct err *err);
void workspaces_free(struct hostd *hostd);
struct workspace *workspace_find(struct hostd *hostd, const char *name);
/* Loads one from its folder into the table; NULL with err on failure. */
struct workspace *workspace_add(struct hostd *hostd, const char *name, struct err *err);
void workspace_remove(struct workspace *ws);
/* What the store keeps of it beside its rows: another workspace of this name begins anew. */
void workspace_forget(struct workspace *ws);
/* Reads policy.yaml again. A bad one leaves the one in force and sets policy_error. */
int workspace_policy_load(struct workspace *ws, struct err *err);
/* The organisation's boundary, else the user's; *out stays NULL when there is none. */
int workspace_boundary(const struct hostd *hostd, struct policy **out, struct err *err);
/* Files, process and network parts decide: "observe", "files" or "strict". */
const char *workspace_level(const struct workspace *ws);
/*
 * The judge and quarantine by @settings (those of the workspace, or what is to become of them), judge.json and the level;
 * a row names what changed. @author may be NULL. An error changes nothing; with @check nothing is changed anyway.
 */
int workspace_judge_load(struct workspace *ws, const json_t *settings, const char *author, bool check, struct err *err);
json_t *workspace_json(struct workspace *ws);
const char *workspace_state_name(const struct workspace *ws);
void workspace_tick(struct workspace *ws);
/* What was read of it before and what is read from here on are two. */
void workspace_moves(struct workspace *ws);
void workspace_event(struct workspace *ws, enum event_kind kind, json_t *data); /* data is consumed */

/* start.c: from Off to the role's START. The end is told to the waiters. */
int workspace_start(struct workspace *ws, struct err *err);
/* guest_spec.c: docs/protocol/control.md "guest-spec.json". */
/* The programs that the Sentry has to hash for this policy: paths, or their beginnings with "*"; the caller's. */
json_t *guest_hash_programs(const struct workspace *ws);
json_t *guest_spec_build(const struct workspace *ws, const char *sentry_sha256, struct err *err);

/* vmlink.c: the role's messages. */
int vmlink_open(struct workspace *ws, int fd, struct err *err);
void vmlink_close(struct workspace *ws);
/* Asks the role; fn runs once, also when the role ends. params is consumed; fd may be -1. */
void vmlink_request(struct workspace *ws, uint16_t type, json_t *params, int fd, vm_done_fn fn, void *user);
/* The VM's run is over, for this reason. */
void vmlink_over(struct workspace *ws, const char *reason);
/* Frames of this boot up to seq are durable. */
void vmlink_acknowledge(struct workspace *ws, const char *boot, uint32_t epoch, uint64_t seq);
/* Tries to take over a VM that an earlier hostd left. 1 = attached, 0 = there is none. */
int vmlink_reattach(struct workspace *ws);

/* decide.c: questions of the switch, and its events. */
int decide_flow(struct workspace *ws, const json_t *ask, struct err *err);
int decide_name(struct workspace *ws, const json_t *ask, struct err *err);
int decide_dest(struct workspace *ws, const json_t *ask, struct err *err);
int decide_flow_event(struct workspace *ws, const json_t *event, struct err *err);
/* Answers of the attestor. */
void decide_who(struct workspace *ws, const json_t *answer);
void decide_tick(struct workspace *ws);
void decide_reset(struct workspace *ws);

/* volume.c: bytes that leave through the switch, to the judge, each second. */
void volume_tick(struct workspace *ws);

/* supervisor.c: a row when the guest's supervisor, while it is expected to, says nothing for 20 s, and when it is heard again. */
void supervisor_expected(struct workspace *ws, bool expected);
void supervisor_heard(struct workspace *ws);
void supervisor_tick(struct workspace *ws, uint64_t now_ms); /* monotonic; several times a second */

/*
 * identify.c: is a program the file that was pinned under its name? refusal: NULL, or one line why not. program: the
 * event's own, or that of an ancestor. fn runs once, at the latest after IDENTIFY_MS.
 */
enum { IDENTIFY_MS = 9000 }; /* less than the switch holds a SYN (SWITCH_ASK_MS) */
typedef void (*identify_fn)(void *user, const char *refusal);
void identify(struct workspace *ws, const json_t *event, const char *program, identify_fn fn, void *user);
/* A frame of the Sentry: results of hashes, and what the package manager does. */
void identify_frame(struct workspace *ws, const char *kind, const json_t *event);
void identify_tick(struct workspace *ws, uint64_t now_ms); /* UINT64_MAX: nobody waits any more */
void identify_forget(struct workspace *ws); /* the disk is another */

/* hold.c: what a tripped score does. */
int hold_new(struct workspace *ws, struct err *err);
/* Mode by the settings. A score that tripped and was not released is held from here on, if the mode says so. */
void hold_settings(struct workspace *ws);
void hold_trip(void *user, const struct ingest_alert *alert);
/* After a re-attach: every effect of quarantine once more, on the VM that is there. */
void hold_again(struct workspace *ws);

/* store_full.c: a timeline that cannot be written. */
/* 0: this workspace may start; otherwise err says why not. */
int store_full_check(const struct workspace *ws, struct err *err);
/* Pauses its VM or lets it go on, as the store's health and its settings have it now. */
void store_full_apply(struct workspace *ws);

/* Waiters of `ws start` and `ws stop`. */
void workspace_wait(struct workspace *ws, struct api_call *call, bool for_ready);
void workspace_progress(struct workspace *ws, const char *step);
void workspace_tell_ready(struct workspace *ws);
void workspace_tell_over(struct workspace *ws, const char *why);

#endif
