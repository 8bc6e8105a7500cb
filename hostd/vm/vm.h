/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One `hostd vm`: the parts of a running VM and how they reach hostd. Internal to hostd/vm. */
#ifndef HOLDFAST_HOSTD_VM_VM_H
#define HOLDFAST_HOSTD_VM_VM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <holdfast/role.h>

#include "hostd/vm/bridge.h"
#include "hostd/vm/console.h"
#include "hostd/vm/qmp.h"
#include "hostd/vm/vhost_user.h"
#include "lib/err.h"
#include "lib/loop.h"
#include "lib/msg.h"

enum { VM_GUEST_CID = 3, VM_PATH_MAX = 4096, VM_WORDS_MAX = 512 };

/* Bits, since message rules name sets of them. */
enum vm_state {
	VM_IDLE = 1,
	VM_STARTING = 2,
	VM_UP = 4,
	VM_OVER = 8,
	VM_ATTACHING = 16, /* of a connection to vm.sock before its ATTACH */
};

/* Alarms of one kind come at most once in VM_ALARM_MS: a guest can cause them at will. */
enum { VM_ALARM_KINDS = 16, VM_ALARM_MS = 10000, VM_TIME_MS = 60000 };

struct alarm_kind {
	const char *kind;
	uint64_t last_ms;
	uint64_t held_back;
};

struct sentry_link;
struct guest_link;
struct net_link;

/* What START said, checked. Strings point into `json`, which is kept. */
struct vm_config {
	json_t *json;
	const char *workspace, *dir, *run_dir, *boot_id, *accel, *kernel, *modules_image, *base;
	const char *sandboxd, *early_dir, *early_list, *sentry_module, *proxy_ca, *cmdline, *mac, *sentry_mode;
	const json_t *guest_spec, *net, *sentry_state, *bridges;
	int64_t cpus, memory_mib, home_bytes;
	bool cut, resume;
	uint8_t boot_key[ROLE_BOOT_KEY_BYTES]; /* kept for a suspend, wiped with the struct */
};

struct vm {
	struct loop *loop;
	enum vm_state state;
	struct msg_peer *hostd; /* NULL while no hostd is attached */
	struct msg_peer *newcomer;
	struct loop_fd *attach_watch;
	int attach_fd;
	struct loop_timer *detach_timer, *tick_timer, *end_timer, *leave_timer;
	struct vm_config cfg;

	pid_t qemu_pid;
	int qemu_pidfd, lock_fd, words_fd;
	struct loop_fd *qemu_watch, *words_watch;
	char words[VM_WORDS_MAX]; /* QEMU's last words */
	size_t words_len;
	struct qmp *qmp;
	struct vhost_user *device;
	struct bridge_set *bridges, *execs;
	struct console *console;
	struct sentry_link *sentry;
	struct guest_link *guest;
	struct net_link *net;

	struct alarm_kind alarms[VM_ALARM_KINDS];
	uint64_t events_dropped; /* flow events that hostd was too far behind for */
	uint64_t time_told_ms;	 /* when the guest was last told the time */
	bool booted;		 /* sandboxd said ready: this boot has its checkpoint */
	bool vsock_cut;
	struct suspend *suspend; /* under way */
	json_t *resumed;	 /* what vm.state said, when started from it */

	bool kvm;
	bool running;		 /* the CPUs run */
	bool by_host;		 /* a verb of the host ends it */
	bool cut;
	char pause_reason[128];
	char end_reason[192];
	uint64_t start_ms, start_ns;
	unsigned plug_count;
	struct plug *plug;	 /* an unplug or plug under way */
	uint64_t poweroff_id;
};

/* ---- vm_role.c: to hostd ---- */

/* Sends up; json is consumed. False while no hostd is attached. */
bool vm_up(struct vm *vm, uint16_t type, json_t *json);
bool vm_up_blob(struct vm *vm, uint16_t type, json_t *json, const void *blob, size_t n);
void vm_done(struct vm *vm, uint64_t id, json_t *extra);
void vm_failed(struct vm *vm, uint64_t id, const char *step, const char *cause, const char *next);
/* kind is a literal. */
void vm_alarm(struct vm *vm, const char *kind, const char *text);
/* True if what hostd has not read yet is so much that guests have to wait. */
bool vm_up_crowded(const struct vm *vm);
void vm_set_state(struct vm *vm, enum vm_state state);
void vm_report(struct vm *vm, const char *state, const char *reason);
int vm_attach_listen(struct vm *vm, struct err *err);

/* ---- vm_start.c ---- */

int vm_config_parse(struct vm_config *cfg, const json_t *start, struct err *err);
/* Disks, initramfs, device, QEMU: the guest runs (or ROLE_VM_START_FAILED follows). */
void vm_start(struct vm *vm);
/* Gives up what only a start needs: Landlock to this workspace's folders, the vm filter. */
int vm_confine(struct vm *vm, struct err *err);
/* Removes the initramfs file: QEMU has read it. */
void vm_initramfs_drop(struct vm *vm);
/* Reads what QEMU said on stderr. */
void vm_words_read(struct vm *vm);
void vm_start_failed(struct vm *vm, const char *step, const char *cause, const char *next);

/* ---- vm_life.c ---- */

extern const struct qmp_ops vm_qmp_ops;
extern const struct vhost_user_ops vm_device_ops;
void vm_begin(struct vm *vm);	   /* waits for QMP, then resumes or runs */
void vm_run(struct vm *vm);	   /* lets the CPUs run: STARTED follows */
void vm_qemu_ready(void *u, int fd, uint32_t events); /* its pidfd: it has ended */
void vm_pause(struct vm *vm, uint64_t id, const char *reason); /* id 0: nobody waits */
void vm_cont(struct vm *vm, uint64_t id);
void vm_kill(struct vm *vm, const char *reason);
void vm_poweroff(struct vm *vm, uint64_t id, uint64_t timeout_ms);
void vm_replug(struct vm *vm, uint64_t id);
void vm_dump(struct vm *vm, uint64_t id, int fd);
void vm_checkpoint(struct vm *vm, uint64_t id, const char *name);
json_t *vm_status(struct vm *vm);
/* sandboxd says that sessions may come: the disks are worth keeping. */
void vm_guest_ready(struct vm *vm);
void vm_tell_time(struct vm *vm);

/* ---- vm_suspend.c ---- */

void vm_suspend(struct vm *vm, uint64_t id);
/* Reads what a suspend left: key, boot id and session state replace those of START. */
int vm_resume_read(struct vm *vm, struct err *err);
/* QEMU waits for RAM: give it, delete it, let the CPUs run. */
void vm_resume(struct vm *vm);
void vm_suspend_migration(struct vm *vm, const char *status);
void vm_suspend_free(struct vm *vm);

/* ---- the links ---- */

/* Sentry streams (port 5841) and the session. NULL with err if the saved state does not parse. */
struct sentry_link *sentry_link_new(struct vm *vm, struct err *err);
void sentry_link_free(struct sentry_link *l);
void sentry_link_tick(struct sentry_link *l);
void sentry_link_durable(struct sentry_link *l, uint64_t seq);
void sentry_link_challenge(struct sentry_link *l);
void sentry_link_digest(struct sentry_link *l, const char *hex);
/* Sends again what a new hostd does not have. */
void sentry_link_resend(struct sentry_link *l, uint64_t durable_seq);
size_t sentry_link_held(const struct sentry_link *l);
void sentry_link_end(struct sentry_link *l, bool by_host);
/* The session's state as of the last durable frame; borrowed, NULL before one. */
const json_t *sentry_link_durable_state(const struct sentry_link *l);
json_t *sentry_link_status(const struct sentry_link *l);

/* sandboxd's status stream (port 5840). */
struct guest_link *guest_link_new(struct vm *vm);
void guest_link_free(struct guest_link *l);
void guest_link_tick(struct guest_link *l);
int guest_link_send(struct guest_link *l, const json_t *msg);

/* The switch and its questions. */
struct net_link *net_link_new(struct vm *vm, int *qemu_fd, struct err *err);
void net_link_free(struct net_link *l);
void net_link_cut(struct net_link *l, bool cut);
void net_link_rejudge(struct net_link *l);
int net_link_flow_verdict(struct net_link *l, const json_t *m, struct err *err);
int net_link_name_verdict(struct net_link *l, const json_t *m, struct err *err);
int net_link_dest_verdict(struct net_link *l, const json_t *m, struct err *err);
json_t *net_link_status(const struct net_link *l);

#endif
