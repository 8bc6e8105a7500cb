/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostd: set-up, confinement in phases, the loop, the end. */
#include "hostd/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/daemon/alerts.h"
#include "hostd/daemon/spawner.h"
#include "hostd/daemon/workspace.h"
#include "hostd/store/verify.h"
#include "lib/catalog/catalog.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "lib/log.h"
#include "lib/sandbox/sandbox.h"

/*
 * Theory of operation, in phases:
 *  1. alone: folders, the lock that makes it one hostd per user, the spawner (the only part that may exec
 *     later), no core dumps.
 *  2. confined: Landlock to its own folders and what it reads, no_new_privs, the role's filter. From here
 *     on nothing can be executed, traced or mounted, and no file outside those folders opened.
 *  3. serving: store, workspaces, running VMs taken over, then the API's socket, so that whoever can
 *     connect finds everything in place.
 */
enum { TICK_MS = 50, PRUNE_MS = 24 * 3600 * 1000, SYNC_AT_END_MS = 5000 };

static int lock_user(const struct paths *paths, struct err *err)
{
	char path[PATHS_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/hostd.lock", paths->run);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "open %s", path);
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return err_set(err, "another hostd of yours runs (it holds %s)", path);
	}
	return fd;
}

static int confine(const struct hostd *hostd, struct err *err)
{
	struct catalog_config catalog = { 0 };
	bool has_catalog = !catalog_config_default(&catalog, NULL);
	const struct sandbox_path paths[] = {
		{ .path = hostd->paths.data, .access = SANDBOX_WRITE, .reason = "workspaces and timeline" },
		{ .path = hostd->paths.config, .access = SANDBOX_WRITE, .reason = "configuration and keys" },
		{ .path = hostd->paths.run, .access = SANDBOX_WRITE, .reason = "sockets" },
		{ .path = hostd->paths.cache, .access = SANDBOX_READ_DATA, .optional = true, .reason = "guest images" },
		{ .path = hostd->paths.share, .access = SANDBOX_READ_DATA, .optional = true, .reason = "shipped files" },
		{ .path = has_catalog ? catalog.dir : "/etc", .access = SANDBOX_READ_DATA, .optional = true,
		  .reason = "Sentry modules" },
		{ .path = has_catalog ? catalog.root : "/etc", .access = SANDBOX_READ_DATA, .optional = true,
		  .reason = "their root of trust" },
		{ .path = "/etc", .access = SANDBOX_READ_DATA, .reason = "resolvers, boundary, time zone" },
		{ .path = "/usr/share/zoneinfo", .access = SANDBOX_READ_DATA, .optional = true, .reason = "time zone" },
		{ .path = "/dev/urandom", .access = SANDBOX_READ_DATA, .optional = true, .reason = "random numbers" },
		{ .path = "/proc", .access = SANDBOX_READ_DATA, .reason = "its own descriptors" },
	};
	struct sandbox_profile profile = sandbox_profile_hostd;
	struct sandbox_report report = { 0 };

	profile.paths = paths;
	profile.path_count = sizeof(paths) / sizeof(paths[0]);
	if (sandbox_apply(&profile, &report, err))
		return err_prefix(err, "confine hostd");
	if (report.lost[0])
		log_warn("this kernel's Landlock lacks: %s", report.lost);
	return 0;
}

/* ---- the store ---- */

static void on_durable(void *user, const char *name, const char *boot, uint32_t epoch, uint64_t seq)
{
	struct workspace *ws = workspace_find(user, name);

	if (ws)
		vmlink_acknowledge(ws, boot, epoch, seq);
}

static void on_row(void *user, const struct store_row *row)
{
	follow_row(user, row);
}

static void on_health(void *user, enum store_health health, const char *why)
{
	struct hostd *hostd = user;

	if (health == STORE_HEALTHY)
		log_info("the timeline is written again");
	else
		log_fault("the timeline cannot be written: %s", why);
	for (struct workspace *ws = hostd->workspaces; ws; ws = ws->next)
		store_full_apply(ws);
}

static void on_writable(void *user, const char *name)
{
	struct workspace *ws = workspace_find(user, name);

	if (ws && ws->vm)
		msg_peer_pause(ws->vm, 0);
}

static void store_event(void *user, int fd, uint32_t events)
{
	(void)fd;
	(void)events;
	store_dispatch(((struct hostd *)user)->store);
}

/* What this user's own `timeline verify` trusts: the key that hostd made itself. */
static void pin_key(const struct hostd *hostd)
{
	char key[PATHS_MAX + 32], pins[PATHS_MAX + 32], fingerprint[STORE_FINGERPRINT_SIZE];
	struct err err;

	snprintf(key, sizeof(key), "%s.key", hostd->db_path);
	snprintf(pins, sizeof(pins), "%s/timeline.pins", hostd->paths.config);
	if (store_key_fingerprint(key, fingerprint, &err) || verify_pins_save(pins, fingerprint, &err))
		log_warn("the timeline's key was not pinned: %s", err.text);
}

/* What a person can do about a timeline that does not open. */
static int store_refused(const struct hostd *hostd, struct err *err)
{
	struct err why = *err;

	if (access(hostd->paths.store, W_OK) < 0)
		return err_set(err, "%s cannot be written (%s): %s", hostd->paths.store, strerror(errno), why.text);
	return err_set(err, "%s (holdfast timeline verify says where it is damaged, holdfast timeline rotate begins a new one)",
		       why.text);
}

int daemon_open_store(struct hostd *hostd, struct err *err)
{
	static const struct store_ops ops = {
		.durable = on_durable, .row = on_row, .health = on_health, .writable = on_writable,
	};
	struct store_config config = { .path = hostd->db_path };

	snprintf(hostd->db_path, sizeof(hostd->db_path), "%s/timeline.db", hostd->paths.store);
	if (store_open(&config, &ops, hostd, &hostd->store, err))
		return store_refused(hostd, err);
	pin_key(hostd);
	return loop_fd_add(hostd->loop, store_fd(hostd->store), EPOLLIN, store_event, hostd, err) ? 0 : -1;
}

void daemon_note(struct hostd *hostd, const char *ws, enum event_kind kind, json_t *data)
{
	char *text = data ? json_dumps(data, JSON_COMPACT) : NULL;
	struct store_row row = { .ws = ws, .kind = kind, .verdict = event_defs[kind].verdict, .data = text };
	struct err err;

	if (store_append_row(hostd->store, &row, &err) < 0)
		log_warn("a row of kind %s was not taken: %s", event_defs[kind].name, err.text);
	free(text);
	json_decref(data);
}

/* ---- the loop ---- */

static void tick(void *user)
{
	struct hostd *hostd = user;

	for (struct workspace *ws = hostd->workspaces; ws; ws = ws->next)
		workspace_tick(ws);
	alerts_tick(hostd->alerts);
}

static void prune(void *user)
{
	store_prune(((struct hostd *)user)->store, 0, 0, NULL);
}

static void on_signal(void *user, int fd, uint32_t events)
{
	struct hostd *hostd = user;
	struct signalfd_siginfo info;

	(void)events;
	if (read(fd, &info, sizeof(info)) == sizeof(info)) {
		log_info("signal %u: ending", info.ssi_signo);
		loop_stop(hostd->loop, 0);
	}
}

static int watch_signals(struct hostd *hostd, struct err *err)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return err_errno(err, "sigprocmask");
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_errno(err, "signalfd");
	return loop_fd_add(hostd->loop, fd, EPOLLIN, on_signal, hostd, err) ? 0 : -1;
}

/* QEMU runs as the same user and can fork nothing: a guest that broke out of it is told by its pid. */
static bool is_a_qemu(void *user, int pid)
{
	const struct hostd *hostd = user;

	for (const struct workspace *ws = hostd->workspaces; ws; ws = ws->next)
		if (ws->running && json_integer_value(json_object_get(ws->running, "qemu_pid")) == pid)
			return true;
	return false;
}

static int serve(struct hostd *hostd, struct err *err)
{
	ws_sweep(&hostd->paths);
	if (daemon_open_store(hostd, err))
		return -1;
	hostd->alerts = alerts_new(hostd);
	if (!hostd->alerts)
		return err_set(err, "out of memory");
	if (workspaces_load(hostd, err))
		return -1;
	daemon_note(hostd, NULL, EVENT_HOSTD_STARTED, json_pack("{s:i}", "pid", (int)getpid()));
	for (struct workspace *ws = hostd->workspaces; ws; ws = ws->next)
		vmlink_reattach(ws);
	if (!loop_timer_add(hostd->loop, TICK_MS, TICK_MS, tick, hostd) ||
	    !loop_timer_add(hostd->loop, PRUNE_MS, PRUNE_MS, prune, hostd))
		return err_set(err, "out of memory");
	hostd->api = api_server_new(hostd->loop, hostd->paths.api, daemon_methods, is_a_qemu,
				    hostd, err);
	if (!hostd->api)
		return -1;
	log_info("serving on %s", hostd->paths.api);
	return loop_run(hostd->loop, err);
}

static void finish(struct hostd *hostd)
{
	api_server_free(hostd->api);
	if (hostd->store) {
		daemon_note(hostd, NULL, EVENT_HOSTD_STOPPED, json_pack("{s:s}", "reason", "asked to"));
		store_sync(hostd->store, SYNC_AT_END_MS, NULL);
	}
	workspaces_free(hostd);
	alerts_free(hostd->alerts);
	if (hostd->store)
		store_close(hostd->store);
	loop_free(hostd->loop);
}

int daemon_main(void)
{
	struct hostd hostd = { .spawner = -1, .started_ms = loop_now_ms() };
	_cleanup_close_ int lock = -1;
	struct err err;
	int rc;

	log_name("hostd");
	umask(077);
	if (sodium_init() < 0)
		die("libsodium does not start");
	prctl(PR_SET_DUMPABLE, 0);
	if (paths_init(&hostd.paths, &err))
		die("%s", err.text);
	lock = lock_user(&hostd.paths, &err);
	if (lock < 0)
		die("%s", err.text);
	hostd.spawner = spawner_start(&err);
	if (hostd.spawner < 0)
		die("%s", err.text);
	hostd.loop = loop_new(&err);
	if (!hostd.loop || watch_signals(&hostd, &err) || confine(&hostd, &err))
		die("%s", err.text);
	rc = serve(&hostd, &err);
	if (rc < 0)
		log_fault("%s", err.text);
	finish(&hostd);
	return rc < 0 ? 1 : rc;
}
