// SPDX-License-Identifier: GPL-2.0-or-later
/* The whole state of the guest's side as one object, each part asked from its owner. */
#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "sandboxd/bridge.h"
#include "sandboxd/control.h"
#include "sandboxd/supervisor.h"

#ifndef HOLDFAST_VERSION
#define HOLDFAST_VERSION "0.1.0"
#endif

static int64_t uptime_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static json_t *sentry_json(const struct guest *g)
{
	return json_pack("{s:s, s:b, s:s, s:s, s:b, s:I}", "mode",
			 g->spec ? guest_sentry_name(g->spec->sentry) : "unknown", "loaded", g->sentry_loaded,
			 "secret_digest", g->secret_digest, "lockdown", *g->lockdown ? g->lockdown : "none",
			 "modules_disabled", g->modules_disabled, "sandbox_cgroup", (json_int_t)g->sandbox_cgroup_id);
}

static json_t *revocations_json(const struct guest_steps *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->count; i++)
		if (!strncmp(s->list[i].name, "revoke_", 7))
			json_array_append_new(list, guest_step_json(&s->list[i]));
	return list;
}

/* In force is what a probe saw, not what was asked for. */
static json_t *level_json(const struct guest_supervisor *v)
{
	const struct guest_spec *s = v->guest->spec;
	const char *requested = s ? guest_level_name(s->level) : "unknown";

	return json_pack("{s:s, s:s}", "requested", requested, "in_force", v->confine.probed ? requested : "none");
}

static bool strict_applied(const struct guest_supervisor *v)
{
	const struct guest_confine *c = &v->confine;

	return c->probed && c->level == GUEST_STRICT && c->report.filters_enforced && c->report.no_new_privs &&
	       (!c->profile.landlock || c->report.landlock_enforced) && !v->guest->steps.failed;
}

json_t *guest_status_json(const struct guest_supervisor *v)
{
	static const char *const phases[] = { "boot", "session", "shutdown" };
	const struct guest *g = v->guest;
	char boot_id[64] = "";
	struct utsname un;
	json_t *o;

	uname(&un);
	guest_read_line(g->proc_fd, "sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
	o = json_pack("{s:s, s:i, s:s, s:s, s:s, s:I, s:b, s:s, s:o, s:o, s:o, s:b, s:o, s:o}", "type", "status", "schema",
		      1, "version", HOLDFAST_VERSION, "kernel", un.release, "boot_id", boot_id, "uptime_ms",
		      (json_int_t)uptime_ms(), "ready", v->ready, "phase", phases[v->phase], "failed",
		      g->steps.failed ? guest_step_json(g->steps.failed) : json_null(), "steps",
		      guest_steps_json(&g->steps), "level", level_json(v), "strict_applied", strict_applied(v), "sentry",
		      sentry_json(g), "revocations", revocations_json(&g->steps));
	if (!o)
		return NULL;
	json_object_set_new(o, "landlock", guest_confine_landlock_json(&v->confine));
	json_object_set_new(o, "seccomp", guest_confine_seccomp_json(&v->confine));
	json_object_set_new(o, "identity", guest_confine_identity_json(&v->confine));
	json_object_set_new(o, "masks", guest_confine_masks_json(&v->confine));
	json_object_set_new(o, "capabilities", json_pack("{s:b, s:b}", "bounding_empty", v->confine.bounding_empty,
							 "setuid0_refused", v->confine.setuid0_refused));
	json_object_set_new(o, "sessions", json_integer(v->sessions ? (json_int_t)guest_sessions_count(v->sessions) : 0));
	json_object_set_new(o, "clock", json_pack("{s:i, s:I}", "steps", (int)v->clock_steps, "last_step_ms",
						  (json_int_t)v->clock_last_ms));
	json_object_set_new(o, "bridge", guest_bridge_json(v->bridge));
	json_object_set_new(o, "control", guest_control_json(v->control));
	return o;
}
