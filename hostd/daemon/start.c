/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From Off to the role's START message: every failure is one line, and leaves the workspace Off. */
#include "hostd/daemon/workspace.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/role.h>

#include "hostd/daemon/policy_methods.h"
#include "hostd/daemon/sentry_module.h"
#include "hostd/daemon/spawner.h"
#include "hostd/ws/image.h"
#include "hostd/ws/settings.h"
#include "lib/catalog/catalog.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"
#include "lib/log.h"

/* The guest sees one network of its own; every workspace the same, since no frame leaves its switch. */
#define GUEST_IP "192.168.64.2"
#define GATEWAY_IP "192.168.64.1"
enum { PREFIX_LEN = 24, GUEST_MTU = 1280, MODULE_POLL_MS = 500 };

/*
 * Theory of operation. Checks that need no time run at once. The base disk is hashed before it is first
 * cloned, on a thread, since that takes seconds; the loop goes on meanwhile. Then the role is spawned and
 * told to start. The boot key is made here, goes to the role in the message's blob and is wiped.
 */
struct preparing {
	struct workspace *ws; /* NULL when the workspace went away meanwhile */
	struct hostd *hostd;
	char name[WS_NAME_MAX + 1];
	uint64_t start_ms; /* of the start that this belongs to */
	struct loop_timer *retry;
	struct image image;
	struct sentry_module module;
	struct loop_fd *watch;
	pthread_t thread;
	int event;
	int checked;
	struct err err;
};

static void random_uuid(char out[37])
{
	uint8_t r[16];
	char hex[33];

	randombytes_buf(r, sizeof(r));
	r[6] = (uint8_t)((r[6] & 0x0f) | 0x40);
	r[8] = (uint8_t)((r[8] & 0x3f) | 0x80);
	hex_encode(hex, r, sizeof(r));
	snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

/* "192.0.2.53" or "192.0.2.53:5353", as "address:port". */
static int nameserver_text(const char *text, json_t *list, struct err *err)
{
	char host[64], out[80];
	struct in_addr parsed;
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);

	if (len >= sizeof(host))
		return err_set(err, "nameservers: \"%s\" is no address", text);
	memcpy(host, text, len);
	host[len] = 0;
	if (inet_pton(AF_INET, host, &parsed) != 1)
		return err_set(err, "nameservers: \"%s\" is no IPv4 address", text);
	snprintf(out, sizeof(out), "%s:%s", host, colon ? colon + 1 : "53");
	json_array_append_new(list, json_string(out));
	return 0;
}

/* The host's own resolvers, as /etc/resolv.conf lists them. */
static void host_nameservers(json_t *list)
{
	struct buf text;
	char *line, *save = NULL, *all;

	buf_init(&text, 65536);
	if (io_read_file("/etc/resolv.conf", &text, NULL) || !(all = buf_cstr(&text))) {
		buf_free(&text);
		return;
	}
	for (line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char address[64];

		if (sscanf(line, "nameserver %63s", address) == 1 && json_array_size(list) < 3)
			nameserver_text(address, list, NULL);
	}
	buf_free(&text);
}

static json_t *network_object(const struct workspace *ws, struct err *err)
{
	json_t *servers = json_array(), *server;
	size_t i;

	json_array_foreach(json_object_get(ws->settings, "nameservers"), i, server)
		if (nameserver_text(json_string_value(server), servers, err)) {
			json_decref(servers);
			return NULL;
		}
	if (!i)
		host_nameservers(servers);
	return json_pack("{s:s,s:s,s:i,s:i,s:s,s:o}", "guest_ip", GUEST_IP, "gateway", GATEWAY_IP, "prefix_len",
			 PREFIX_LEN, "mtu", GUEST_MTU, "hostname", ws->name, "nameservers", servers);
}

static json_t *identity_mac(const struct workspace *ws, struct err *err)
{
	_cleanup_close_ int dir = ws_open(&ws->hostd->paths, ws->name, err);
	_cleanup_json_ json_t *identity = NULL;
	const char *mac;

	if (dir < 0 || ws_mark_read(dir, WS_MARK_IDENTITY, &identity, err))
		return NULL;
	if (!identity) {
		err_set(err, "%s is missing", WS_MARK_IDENTITY);
		return NULL;
	}
	return json_get_str(identity, "mac", &mac, err) ? NULL : json_string(mac);
}

/* 1024 MiB and one CPU at the least need; more CPUs under TCG cannot carry a Sentry (docs/performance). */
static json_t *start_message(struct workspace *ws, const struct preparing *p, struct err *err)
{
	json_t *spec = guest_spec_build(ws, p->module.sha256_hex, err);
	json_t *net = spec ? network_object(ws, err) : NULL;
	json_t *mac = net ? identity_mac(ws, err) : NULL;
	char sandboxd[PATHS_MAX + 16];

	if (!mac) {
		json_decref(spec);
		json_decref(net);
		return NULL;
	}
	snprintf(sandboxd, sizeof(sandboxd), "%s/sandboxd", ws->hostd->paths.bin);
	return json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:s,s:s,s:s,s:I,s:s,s:s,s:s,s:s,s:o,s:s,s:o,s:o,s:s,"
			 "s:{s:s,s:n},s:[],s:b}",
			 "schema", 1, "workspace", ws->name, "dir", ws->dir, "run_dir", ws->run_dir, "boot_id",
			 ws->boot_id, "accel", settings_text(ws->settings, "accel"), "cpus",
			 (int)settings_int(ws->settings, "cpus"), "memory_mib",
			 (int)settings_int(ws->settings, "memory_mib"), "kernel", p->image.vmlinux.path,
			 "modules_image", p->image.modules.path, "base", p->image.base.path, "home_bytes",
			 (json_int_t)settings_int(ws->settings, "home_gib") << 30, "sandboxd", sandboxd,
			 "early_dir", p->image.early_dir, "early_list", p->image.early_list.path,
			 "sentry_module", p->module.path, "guest_spec", spec, "cmdline", "", "mac", mac, "net",
			 net, "network", "open", "sentry", "mode",
			 *p->module.path ? settings_text(ws->settings, "sentry") : "off", "state", "bridges",
			 "resume", 0);
}

static int spawn_role(struct workspace *ws, struct err *err)
{
	int pair[2];

	if (io_mkdir_p(ws->run_dir, 0700, err))
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return err_errno(err, "socketpair");
	if (spawner_run(ws->hostd->spawner, SPAWNER_VM, pair[1], err)) {
		close(pair[0]);
		close(pair[1]);
		return -1;
	}
	close(pair[1]);
	return vmlink_open(ws, pair[0], err);
}

static int send_start(struct workspace *ws, const struct preparing *p, struct err *err)
{
	_cleanup_json_ json_t *message = NULL;
	uint8_t boot_key[ROLE_BOOT_KEY_BYTES];
	int rc;

	random_uuid(ws->boot_id);
	message = start_message(ws, p, err);
	if (!message || spawn_role(ws, err))
		return -1;
	randombytes_buf(boot_key, sizeof(boot_key));
	rc = msg_send(ws->vm, ROLE_VM_START, message, boot_key, sizeof(boot_key), NULL, 0, err);
	sodium_memzero(boot_key, sizeof(boot_key));
	return rc;
}

static void start_failed(struct workspace *ws, const char *why)
{
	workspace_event(ws, EVENT_WS_START_FAILED, json_pack("{s:s,s:s}", "step", "prepare", "cause", why));
	vmlink_over(ws, why);
}

static void prepared(void *user, int fd, uint32_t events)
{
	struct preparing *p = user;
	struct workspace *ws = p->ws;

	(void)fd;
	(void)events;
	pthread_join(p->thread, NULL);
	loop_fd_del(p->watch);
	close(p->event);
	if (workspace_find(ws->hostd, ws->name) == ws && ws->state == WS_STARTING) {
		workspace_progress(ws, "starting the VM");
		if (p->checked || send_start(ws, p, &p->err))
			start_failed(ws, p->err.text);
	}
	free(p);
}

static void *check_base(void *user)
{
	struct preparing *p = user;

	p->checked = image_check_base(&p->image, &p->err);
	if (eventfd_write(p->event, 1))
		log_fault("eventfd: the start of %s will not go on", p->ws->name);
	return NULL;
}

static bool has_disk(const struct workspace *ws)
{
	char path[sizeof(ws->dir) + 16];

	snprintf(path, sizeof(path), "%s/disk.qcow2", ws->dir);
	return !access(path, F_OK);
}

/* Starts the thread, or goes on at once when the disk exists and so was cloned from a checked base. */
static int begin(struct workspace *ws, struct preparing *p, struct err *err)
{
	if (has_disk(ws)) {
		int rc = send_start(ws, p, err);

		free(p);
		return rc;
	}
	workspace_progress(ws, "checking the guest image");
	p->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->event >= 0)
		p->watch = loop_fd_add(ws->hostd->loop, p->event, EPOLLIN, prepared, p, err);
	if (!p->watch || pthread_create(&p->thread, NULL, check_base, p)) {
		loop_fd_del(p->watch);
		if (p->event >= 0)
			close(p->event);
		free(p);
		return err_set(err, "cannot check the image in the background");
	}
	return 0;
}

static int find_module(struct preparing *p, struct err *err);

/* The same start still goes on: the workspace may have been stopped, deleted or started again since. */
static bool still_starting(const struct preparing *p)
{
	return workspace_find(p->hostd, p->name) == p->ws && p->ws->state == WS_STARTING &&
	       p->ws->start_ms == p->start_ms;
}

static void look_again(void *user)
{
	struct preparing *p = user;
	struct workspace *ws = p->ws;
	struct err err;

	loop_timer_del(p->retry);
	p->retry = NULL;
	if (!still_starting(p))
		free(p);
	else if (find_module(p, &err))
		start_failed(ws, err.text);
}

/*
 * The module is chosen before QEMU starts, since a running guest could not load another. While one is
 * being built for this kernel the start waits and shows how far it is; else there is none to wait for.
 * Takes p in every case.
 */
static int find_module(struct preparing *p, struct err *err)
{
	struct workspace *ws = p->ws;
	char step[160];

	if (loop_now_ms() - ws->start_ms < CATALOG_WAIT_MS &&
	    sentry_module_waiting(ws, p->image.release, step, sizeof(step))) {
		workspace_progress(ws, step);
		p->retry = loop_timer_add(ws->hostd->loop, MODULE_POLL_MS, 0, look_again, p);
		if (p->retry)
			return 0;
	}
	if (sentry_module_pick(&p->module, ws, p->image.release, err)) {
		free(p);
		return -1;
	}
	return begin(ws, p, err);
}

static int check_startable(struct workspace *ws, struct err *err)
{
	if (ws->state != WS_OFF)
		return err_set(err, "workspace %s is %s already", ws->name, workspace_state_name(ws));
	policy_file_look(ws, true);
	if (quarantine_may_run(ws->quarantine, err) || store_full_check(ws, err) || workspace_policy_load(ws, err) ||
	    workspace_judge_load(ws, ws->settings, NULL, false, err))
		return -1;
	return quarantine_may_run(ws->quarantine, err); /* the mode may have become one that holds an old trip */
}

int workspace_start(struct workspace *ws, struct err *err)
{
	struct preparing *p;

	if (check_startable(ws, err))
		return -1;
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(err, "out of memory");
	p->ws = ws;
	p->hostd = ws->hostd;
	snprintf(p->name, sizeof(p->name), "%s", ws->name);
	if (image_open(&p->image, &ws->hostd->paths, settings_text(ws->settings, "image"),
		       settings_text(ws->settings, "kernel"), err)) {
		free(p);
		return -1;
	}
	workspace_moves(ws);
	ws->state = WS_STARTING;
	ws->start_ms = loop_now_ms();
	ws->ready = ws->sentry_live = false;
	snprintf(ws->reason, sizeof(ws->reason), "asked to start");
	p->start_ms = ws->start_ms;
	if (find_module(p, err)) {
		vmlink_over(ws, err->text);
		return -1;
	}
	return 0;
}
