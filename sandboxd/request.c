// SPDX-License-Identifier: GPL-2.0-or-later
/* The operations on vsock 5800, as a table. Each refuses keys it does not know. */
#include "sandboxd/request.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

#include <holdfast/exec.h>

#include "lib/cleanup.h"
#include "lib/json.h"
#include "sandboxd/env.h"
#include "sandboxd/files.h"

enum { SYSTEMD_POWEROFF_OFFSET = 4 };

static void finish(struct guest_conn *c, json_t *reply)
{
	guest_conn_reply(c, reply);
	guest_conn_finish(c);
}

static void bad_request(struct guest_conn *c, const struct err *e)
{
	finish(c, guest_refusal("request", "", EINVAL, e->text, HF_EXEC_CODE_REFUSED));
}

/* Why no work is taken. NULL when it is. */
static json_t *not_ready(const struct guest_supervisor *v)
{
	const struct guest_step *failed = v->guest->steps.failed;
	char text[512];

	if (failed)
		snprintf(text, sizeof(text), "sandbox unavailable: %.64s%s%.128s: %.256s", failed->name,
			 *failed->path ? " " : "", failed->path, failed->text);
	else if (v->phase == GUEST_PHASE_SHUTDOWN)
		snprintf(text, sizeof(text), "sandbox unavailable: the workspace is shutting down");
	else if (!v->ready)
		snprintf(text, sizeof(text), "sandbox unavailable: the workspace is still starting");
	else
		return NULL;
	return json_pack("{s:b, s:s, s:s, s:i, s:s, s:i}", "ok", 0, "step", failed ? failed->name : "ready", "path",
			 failed ? failed->path : "", "errno", failed ? failed->error_nr : EAGAIN, "error", text, "code",
			 HF_EXEC_CODE_NOT_READY);
}

struct exec {
	struct guest_session_request request;
	struct guest_identity who;
	struct guest_env env;
	char **argv;
	json_t *dropped;
};

static void exec_release(struct exec *x)
{
	guest_env_free(&x->env);
	free(x->argv);
	json_decref(x->dropped);
}

static int parse_argv(struct exec *x, const json_t *o, struct err *e)
{
	json_t *list, *item;
	size_t i;

	if (json_get_array(o, "argv", &list, e) < 0)
		return -1;
	if (json_array_size(list) > HF_EXEC_ARGV_MAX)
		return err_set(e, "argv: more than %d", HF_EXEC_ARGV_MAX);
	x->argv = calloc(json_array_size(list) + 2, sizeof(char *));
	if (!x->argv)
		return err_errno(e, "argv");
	json_array_foreach(list, i, item) {
		if (!json_is_string(item))
			return err_set(e, "argv[%zu]: no string", i);
		x->argv[i] = (char *)(uintptr_t)json_string_value(item);
	}
	if (json_array_size(list) && !*x->argv[0])
		return err_set(e, "argv[0]: empty");
	return 0;
}

static int parse_size(const json_t *o, const char *key, uint16_t *out, struct err *e)
{
	int64_t v;

	if (json_opt_int(o, key, &v, 0, e) < 0)
		return -1;
	if (v < 0 || v > UINT16_MAX)
		return err_set(e, "%s: out of range", key);
	*out = (uint16_t)v;
	return 0;
}

/* Who it runs as. Root is the host's own administration and does not exist at strict. */
static int choose_user(const struct guest_supervisor *v, struct exec *x, const char *user, struct err *e)
{
	if (!strcmp(user, "agent")) {
		x->who = v->confine.session;
		return 0;
	}
	if (strcmp(user, "root"))
		return err_set(e, "user: \"%s\" is neither agent nor root", user);
	if (v->confine.level == GUEST_STRICT)
		return err_set(e, "user: root is refused at level strict");
	if (guest_identity_find(v->guest->root_fd, "root", &x->who, e) < 0)
		return -1;
	x->request.unconfined = true;
	return guest_identity_groups(v->guest->root_fd, &x->who, e);
}

static int parse_exec(const struct guest_supervisor *v, struct exec *x, const json_t *o, struct err *e)
{
	static const char *const keys[] = { "op", "argv", "cwd", "env", "pty", "rows", "cols", "user", "detach", "term",
					    NULL };
	const char *user, *term, *cwd;
	json_t *env = json_object_get(o, "env");

	if (json_only_keys(o, keys, e) < 0 || parse_argv(x, o, e) < 0 ||
	    json_opt_str(o, "user", &user, "agent", e) < 0 || json_opt_str(o, "term", &term, "xterm-256color", e) < 0 ||
	    json_opt_bool(o, "pty", &x->request.pty, false, e) < 0 ||
	    json_opt_bool(o, "detach", &x->request.detach, false, e) < 0 ||
	    parse_size(o, "rows", &x->request.rows, e) < 0 || parse_size(o, "cols", &x->request.cols, e) < 0 ||
	    choose_user(v, x, user, e) < 0 || json_opt_str(o, "cwd", &cwd, "", e) < 0)
		return -1;
	if (env && !json_is_object(env))
		return err_set(e, "env: not an object");
	if (x->request.detach && !x->request.pty)
		return err_set(e, "detach: needs pty");
	x->request.cwd = *cwd ? cwd : x->who.home;
	x->request.who = &x->who;
	if (!x->argv[0]) {
		x->argv[0] = x->who.shell;
		x->request.login = true;
	}
	x->dropped = json_array();
	x->request.env_dropped = x->dropped;
	if (guest_env_build(&x->env, v->guest->root_fd, &x->who, v->guest->spec->proxy, x->request.pty ? term : "dumb", env,
			    x->dropped, e) < 0)
		return -1;
	x->request.argv = x->argv;
	x->request.env = x->env.list;
	return 0;
}

/* Whatever runs is told to the Sentry as the start of sessions first. */
static void start(struct guest_supervisor *v, struct guest_conn *c, const struct guest_session_request *r)
{
	if (v->phase == GUEST_PHASE_BOOT)
		guest_supervisor_phase(v, GUEST_PHASE_SESSION);
	guest_session_start(v->sessions, c, r);
}

static void op_exec(struct guest_supervisor *v, struct guest_conn *c, const json_t *o)
{
	struct exec x = { .argv = NULL };
	struct err e = { .text = "" };

	if (parse_exec(v, &x, o, &e) < 0)
		bad_request(c, &e);
	else
		start(v, c, &x.request);
	exec_release(&x);
}

static void op_files(struct guest_supervisor *v, struct guest_conn *c, const json_t *o)
{
	struct guest_files files;
	struct guest_session_request r = { .who = &v->confine.session, .cwd = "/", .run = guest_files_run, .user = &files };
	struct err e = { .text = "" };

	if (guest_files_parse(o, &files, &e) < 0)
		bad_request(c, &e);
	else
		start(v, c, &r);
}

static void op_attach(struct guest_supervisor *v, struct guest_conn *c, const json_t *o)
{
	static const char *const keys[] = { "op", "session", "rows", "cols", NULL };
	struct err e = { .text = "" };
	const char *name;
	uint16_t rows = 0, cols = 0;

	if (json_only_keys(o, keys, &e) < 0 || json_get_str(o, "session", &name, &e) < 0 ||
	    parse_size(o, "rows", &rows, &e) < 0 || parse_size(o, "cols", &cols, &e) < 0)
		bad_request(c, &e);
	else if (guest_session_attach(v->sessions, c, name, rows, cols) < 0)
		finish(c, guest_refusal("attach", name, ESRCH, "no detached session of this name", HF_EXEC_CODE_REFUSED));
}

static void op_signal(struct guest_supervisor *v, struct guest_conn *c, const json_t *o)
{
	static const char *const keys[] = { "op", "session", "signal", NULL };
	struct err e = { .text = "" };
	const char *name;
	int64_t number;

	if (json_only_keys(o, keys, &e) < 0 || json_get_str(o, "session", &name, &e) < 0 ||
	    json_get_int(o, "signal", &number, &e) < 0)
		bad_request(c, &e);
	else if (number < 1 || number >= NSIG || guest_session_signal(v->sessions, name, (int)number) < 0)
		finish(c, guest_refusal("signal", name, ESRCH, "no such session or signal", HF_EXEC_CODE_REFUSED));
	else
		finish(c, json_pack("{s:b}", "ok", 1));
}

static void op_sessions(struct guest_supervisor *v, struct guest_conn *c, const json_t *o)
{
	(void)o;
	finish(c, json_pack("{s:b, s:o}", "ok", 1, "sessions", guest_sessions_json(v->sessions)));
}

static void op_status(struct guest_supervisor *v, struct guest_conn *c, const json_t *o)
{
	(void)o;
	finish(c, json_pack("{s:b, s:o}", "ok", 1, "status", guest_status_json(v)));
}

static void op_time(struct guest_supervisor *v, struct guest_conn *c, const json_t *o)
{
	static const char *const keys[] = { "op", "unix_ns", NULL };
	struct err e = { .text = "" };
	int64_t unix_ns, step_ms;

	if (json_only_keys(o, keys, &e) < 0 || json_get_int(o, "unix_ns", &unix_ns, &e) < 0) {
		bad_request(c, &e);
		return;
	}
	step_ms = guest_supervisor_time(v, unix_ns);
	if (step_ms < 0)
		finish(c, guest_refusal("time", "", errno, NULL, HF_EXEC_CODE_REFUSED));
	else
		finish(c, json_pack("{s:b, s:I}", "ok", 1, "stepped_ms", (json_int_t)step_ms));
}

/* The init stops its units; where there is none, nothing is mounted that would mind. */
static void op_poweroff(struct guest_supervisor *v, struct guest_conn *c, const json_t *o)
{
	(void)o;
	guest_supervisor_phase(v, GUEST_PHASE_SHUTDOWN);
	finish(c, json_pack("{s:b}", "ok", 1));
	if (v->init_running) {
		kill(1, SIGRTMIN + SYSTEMD_POWEROFF_OFFSET);
		return;
	}
	sync();
	sleep(1);
	reboot(RB_POWER_OFF);
}

static const struct op {
	const char *name;
	bool needs_ready;
	void (*fn)(struct guest_supervisor *v, struct guest_conn *c, const json_t *o);
} ops[] = {
	{ "exec", true, op_exec },
	{ "files", true, op_files },
	{ "attach", true, op_attach },
	{ "signal", true, op_signal },
	{ "sessions", true, op_sessions },
	{ "status", false, op_status },
	{ "time", false, op_time },
	{ "poweroff", false, op_poweroff },
};

void guest_request_handle(struct guest_supervisor *v, struct guest_conn *c, const uint8_t *text, size_t n)
{
	static const struct json_limits limits = {
		.bytes = HF_EXEC_MESSAGE_MAX, .depth = HF_EXEC_REQUEST_DEPTH, .values = 3 * HF_EXEC_ARGV_MAX,
	};
	struct err e = { .text = "" };
	_cleanup_json_ json_t *o = json_parse(text, n, &limits, &e);
	const char *name;
	json_t *refusal;

	if (!o || json_get_str(o, "op", &name, &e) < 0) {
		bad_request(c, &e);
		return;
	}
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(ops[i].name, name))
			continue;
		refusal = ops[i].needs_ready ? not_ready(v) : NULL;
		if (refusal)
			finish(c, refusal);
		else
			ops[i].fn(v, c, o);
		return;
	}
	err_set(&e, "op: \"%.64s\" is not known", name);
	bad_request(c, &e);
}
