/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `hostd proxy`: the process that will hold a workspace's credentials; its contract and confinement. */
#include "hostd/proxy/proxy_role.h"

#include <sodium.h>
#include <sys/prctl.h>

#include "lib/json.h"
#include "lib/log.h"
#include "lib/loop.h"
#include "lib/msg.h"
#include "lib/sandbox/sandbox.h"

struct proxy {
	struct loop *loop;
	struct msg_peer *hostd;
	struct sandbox_report confined;
};

static int on_status(void *user, struct msg *msg, struct err *err)
{
	struct proxy *proxy = user;
	int64_t id;

	if (json_get_int(msg->json, "id", &id, err))
		return -1;
	return msg_send_new(proxy->hostd, ROLE_PROXY_DONE,
			    json_pack("{s:I,s:b,s:b,s:b}", "id", (json_int_t)id, "ok", 1, "landlock",
				      proxy->confined.landlock_enforced, "seccomp",
				      proxy->confined.filters_enforced));
}

static void on_close(void *user, const char *why)
{
	struct proxy *proxy = user;

	(void)why;
	loop_stop(proxy->loop, 0);
}

static const struct msg_rule rules[] = {
	{ ROLE_PROXY_STATUS, "STATUS", 1, 0, on_status },
	{ 0, NULL, 0, 0, NULL },
};

/* Nothing of the file system but random numbers and the resolver's configuration. */
static int confine(struct proxy *proxy, struct err *err)
{
	static const struct sandbox_path paths[] = {
		{ .path = "/dev/urandom", .access = SANDBOX_READ_DATA, .optional = true, .reason = "random numbers" },
		{ .path = "/etc/ssl", .access = SANDBOX_READ_DATA, .optional = true, .reason = "upstream CAs" },
	};
	struct sandbox_profile profile = sandbox_profile_proxy;

	profile.paths = paths;
	profile.path_count = sizeof(paths) / sizeof(paths[0]);
	return sandbox_apply(&profile, &proxy->confined, err);
}

int proxy_role_main(int hostd_fd)
{
	struct proxy proxy = { 0 };
	struct msg_peer_config config = { .rules = rules, .on_close = on_close, .user = &proxy };
	struct err err;
	int rc;

	log_name("hostd proxy");
	prctl(PR_SET_DUMPABLE, 0);
	if (sodium_init() < 0)
		die("libsodium does not start");
	proxy.loop = loop_new(&err);
	if (!proxy.loop || confine(&proxy, &err))
		die("%s", err.text);
	proxy.hostd = msg_peer_new(proxy.loop, hostd_fd, &config, &err);
	if (!proxy.hostd)
		die("%s", err.text);
	rc = loop_run(proxy.loop, &err);
	msg_peer_free(proxy.hostd);
	loop_free(proxy.loop);
	return rc < 0;
}
