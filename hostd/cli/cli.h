/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the verbs of `holdfast` share: options by table, output, the connection to hostd. */
#ifndef HOLDFAST_CLI_CLI_H
#define HOLDFAST_CLI_CLI_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "hostd/api/client.h"
#include "hostd/ws/paths.h"
#include "lib/err.h"

/* Exit codes: done, refused or failed with one line why, usage. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli_verb {
	const char *name;
	int (*fn)(int argc, char **argv); /* argv[0] is the verb */
	const char *usage;		  /* without "holdfast " */
	const char *help;		  /* one line */
};

/* One --option. Exactly one of flag and value is set; a repeated value appends when list is set. */
struct cli_option {
	const char *name; /* without "--" */
	bool *flag;
	const char **value;
	json_t *list;
};

/*
 * Takes options from anywhere before "--" out of argv. On return argv[0..*argc) are the positional
 * arguments (without the verb) and, when rest is not NULL, *rest is what followed "--" (else NULL).
 * options ends with a NULL name. 0, or CLI_USAGE after a line on stderr.
 */
int cli_parse(int *argc, char ***argv, const struct cli_option *options, char ***rest, const char *usage);

/* One line on stderr; returns CLI_FAILED, or CLI_USAGE. */
int cli_fail(const struct err *err);
int cli_usage(const char *usage);

/* Paths and a connection, made on first use; both exit the program with one line when impossible. */
const struct paths *cli_paths(void);
struct api_client *cli_hostd(void);
/* A call that prints its failure: the result, or NULL. params is consumed. */
json_t *cli_call(const char *method, json_t *params);
/* The same with pushed events. */
json_t *cli_call_events(const char *method, json_t *params, int (*on_event)(void *, const json_t *), void *user);

/* The user's name, for rows. */
const char *cli_author(void);

/* --json: one compact object and a newline. Consumed. */
void cli_print_json(json_t *json);
/* Text that may be a guest's: control characters, escapes and bidi marks are shown as \xNN. */
void cli_print_text(const char *text);
void cli_put_text(FILE *f, const char *text);

/* Long work on stderr: a line that is rewritten on a terminal, plain lines elsewhere. */
void cli_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_progress_end(void);

/* A session in the guest over a connected exec stream (docs/protocol/exec.md). */
struct exec_request {
	char **argv; /* NULL-terminated; empty: a login shell */
	const char *cwd, *user;
	const json_t *env;
	bool pty, detach;
	int in_fd, out_fd; /* what stands for stdin and stdout; in_fd -1: no input */
};
/* Runs it between these descriptors; stderr is this process's. Exit code of the program, 128+n for a
 * signal, or the guest's code for what did not start. Owns fd. */
int exec_session(int fd, const struct exec_request *request, struct err *err);
/* NAME=VALUE texts as an object, with a warning for values that look like real keys. NULL with err. */
json_t *exec_env(const json_t *pairs, struct err *err);
/* The whole of it: the workspace's own environment below env, the stream, the session. Prints failures. */
int exec_in(const char *name, struct exec_request *request, json_t *env);
/* Opens the stream to a workspace's guest; prints and returns -1 on failure. command is for the row. */
int exec_open(const char *name, const char *command);

/* Copies a file or tree of the host into a workspace (holdfast cp). Prints failures; an exit code. */
int copy_into(const char *name, const char *from, const char *to);

/* A linked git worktree: its own folder in the main repository, and what it shares with the others. */
struct worktree {
	char own[PATH_MAX], common[PATH_MAX];
};
/* Whether dir is one. */
bool worktree_find(const char *dir, struct worktree *w);
/* Turns its copy in the guest into a repository that stands by itself. Prints failures; an exit code. */
int worktree_copy(const struct worktree *w, const char *name, const char *work);

int cmd_ws(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_quarantine(int argc, char **argv);
int cmd_release(int argc, char **argv);
int cmd_evidence(int argc, char **argv);
int cmd_daemon(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_timeline(int argc, char **argv);
int cmd_alerts(int argc, char **argv);

#endif
