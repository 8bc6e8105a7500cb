/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The processes of one VM, by (pid, start_ns), as the Sentry's exec and exit events tell of them. */
#ifndef HOLDFAST_LINEAGE_PROCESS_H
#define HOLDFAST_LINEAGE_PROCESS_H

#include <jansson.h>
#include <stdint.h>

enum {
	PROCESS_KEPT_MAX = 4096,    /* the least recently used one goes first */
	PROCESS_COMMAND_MAX = 1024, /* bytes of the joined command line */
};

struct process {
	int64_t pid;
	uint64_t start_ns; /* CLOCK_BOOTTIME of the guest at its start: with pid, its identity */
	int64_t ppid;
	uint64_t parent_start_ns; /* 0 = not known */
	uint64_t exec_seq;	  /* Sentry frame of its last exec, 0 = never seen */
	char path[257];
	char command[PROCESS_COMMAND_MAX + 1]; /* argv, quoted where needed, cut and marked with "..." */
};

struct process_table;

struct process_table *process_table_new(void);
void process_table_free(struct process_table *table);
/* Forgets everything: a new boot. */
void process_table_clear(struct process_table *table);

/* Takes one event frame of kind "exec" or "exit"; others are ignored. */
void process_table_event(struct process_table *table, const char *kind, uint64_t seq, const json_t *event);

/* Exactly this process, or NULL. Valid until the next event. */
const struct process *process_find(struct process_table *table, int64_t pid, uint64_t start_ns);

/*
 * The ancestry of an event as a list for rows, nearest first, without the process itself: the event's own
 * chain, each entry {pid, start_ns, path, comm, command, exec_seq}, with what the table knows of it.
 * The caller's.
 */
json_t *process_chain(struct process_table *table, const json_t *event);

/* A command line as a shell would take it: arguments joined, quoted where needed. The caller's. */
char *process_command(const json_t *argv);

#endif
