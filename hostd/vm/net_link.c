/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The switch of one VM and its questions, which hostd answers. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/net/switch.h"
#include "hostd/vm/vm.h"
#include "lib/cleanup.h"
#include "lib/json.h"

enum { ADDRS_MAX = SWITCH_DEST_MAX, DNS_PORT = 53 };

#define NO_HOSTD "no hostd"

struct net_link {
	struct vm *vm;
	struct switch_ctx *sw;
};

static const char *const verdicts[] = {
	[FLOW_DENY] = "deny",
	[FLOW_ALLOW] = "allow",
	[FLOW_ALLOW_HOST] = "allow_host",
	[FLOW_INSPECT] = "inspect",
};

static const char *const happenings[] = {
	[FLOW_ALLOWED] = "allowed",
	[FLOW_DENIED] = "denied",
	[FLOW_ENDED] = "ended",
};

static const char *proto_name(uint8_t proto)
{
	return proto == IPPROTO_TCP ? "tcp" : proto == IPPROTO_UDP ? "udp" : "icmp";
}

static json_t *flow_json(const struct flow *f)
{
	char dst[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &f->dst, dst, sizeof(dst));
	return json_pack("{s:I, s:s, s:i, s:s, s:i, s:s, s:I, s:b, s:b, s:s, s:s, s:s, s:I, s:I}",
			 "id", (json_int_t)f->id, "proto", proto_name(f->proto), "sport", f->sport,
			 "dst", dst, "dport", f->dport, "name", f->name, "names",
			 (json_int_t)f->name_n, "synthetic", f->synthetic, "rejudged", f->rejudged,
			 "verdict", verdicts[f->verdict], "rule", f->rule, "reason", f->reason,
			 "bytes_up", (json_int_t)f->bytes_up, "bytes_down",
			 (json_int_t)f->bytes_down);
}

/* ---- Questions ---- */

static bool asks_refused(const struct net_link *l)
{
	return !l->vm->hostd || vm_up_crowded(l->vm);
}

static void flow_ask(void *u, uint64_t id, const struct flow *f)
{
	struct net_link *l = u;

	if (asks_refused(l) ||
	    !vm_up(l->vm, ROLE_VM_FLOW_ASK,
		   json_pack("{s:I, s:o*}", "id", (json_int_t)id, "flow", flow_json(f))))
		switch_flow_verdict(l->sw, id, FLOW_DENY, "", NO_HOSTD);
}

static void name_ask(void *u, uint64_t id, const char *name, uint16_t qtype)
{
	struct net_link *l = u;

	if (asks_refused(l) || !vm_up(l->vm, ROLE_VM_NAME_ASK,
				      json_pack("{s:I, s:s, s:i}", "id", (json_int_t)id, "name",
						name, "qtype", qtype)))
		switch_name_verdict(l->sw, id, false, NO_HOSTD);
}

static void dest_ask(void *u, uint64_t id, const char *name, const struct in_addr *addrs, size_t n)
{
	struct net_link *l = u;
	json_t *list = json_array();
	char text[INET_ADDRSTRLEN];

	for (size_t i = 0; i < n; i++) {
		inet_ntop(AF_INET, &addrs[i], text, sizeof(text));
		json_array_append_new(list, json_string(text));
	}
	if (asks_refused(l)) {
		json_decref(list);
		switch_dest_verdict(l->sw, id, NULL, 0, NO_HOSTD);
		return;
	}
	if (!vm_up(l->vm, ROLE_VM_DEST_ASK,
		   json_pack("{s:I, s:s, s:o*}", "id", (json_int_t)id, "name", name, "addrs", list)))
		switch_dest_verdict(l->sw, id, NULL, 0, NO_HOSTD);
}

static void flow_event(void *u, const struct flow *f, enum flow_what what)
{
	struct net_link *l = u;

	/* A guest makes refused flows faster than a stalled hostd takes them: count, don't queue for ever. */
	if (vm_up_crowded(l->vm) && what == FLOW_DENIED) {
		l->vm->events_dropped++;
		return;
	}
	vm_up(l->vm, ROLE_VM_FLOW_EVENT,
	      json_pack("{s:s, s:o*}", "what", happenings[what], "flow", flow_json(f)));
}

static void link_down(void *u, const char *why)
{
	struct net_link *l = u;

	if (l->vm->state == VM_UP)
		vm_alarm(l->vm, "net_down", why);
}

/* ---- Answers ---- */

int net_link_flow_verdict(struct net_link *l, const json_t *m, struct err *err)
{
	const char *verdict, *rule, *reason;
	int64_t id;

	if (json_get_int(m, "id", &id, err) || json_get_str(m, "verdict", &verdict, err) ||
	    json_opt_str(m, "rule", &rule, "", err) || json_opt_str(m, "reason", &reason, "", err))
		return -1;
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
		if (strcmp(verdict, verdicts[i]))
			continue;
		/* A late answer is no mistake of hostd: the flow may have gone meanwhile. */
		if (l)
			switch_flow_verdict(l->sw, (uint64_t)id, (enum flow_verdict)i, rule, reason);
		return 0;
	}
	return err_set(err, "verdict \"%s\"", verdict);
}

int net_link_name_verdict(struct net_link *l, const json_t *m, struct err *err)
{
	const char *verdict, *reason;
	int64_t id;

	if (json_get_int(m, "id", &id, err) || json_get_str(m, "verdict", &verdict, err) ||
	    json_opt_str(m, "reason", &reason, "", err))
		return -1;
	if (strcmp(verdict, "allow") && strcmp(verdict, "deny"))
		return err_set(err, "verdict \"%s\"", verdict);
	if (l)
		switch_name_verdict(l->sw, (uint64_t)id, !strcmp(verdict, "allow"), reason);
	return 0;
}

int net_link_dest_verdict(struct net_link *l, const json_t *m, struct err *err)
{
	struct in_addr keep[ADDRS_MAX];
	const char *reason;
	json_t *list, *s;
	size_t n = 0, i;
	int64_t id;

	if (json_get_int(m, "id", &id, err) || json_get_array(m, "allowed", &list, err) ||
	    json_opt_str(m, "reason", &reason, "", err))
		return -1;
	if (json_array_size(list) > ADDRS_MAX)
		return err_set(err, "more than %d addresses", ADDRS_MAX);
	json_array_foreach(list, i, s)
		if (!json_is_string(s) || inet_pton(AF_INET, json_string_value(s), &keep[n++]) != 1)
			return err_set(err, "\"allowed\" holds what is no address");
	if (l)
		switch_dest_verdict(l->sw, (uint64_t)id, keep, n, reason);
	return 0;
}

/* ---- Life ---- */

static int parse_addr(const json_t *net, const char *key, struct in_addr *out, struct err *err)
{
	const char *text;

	if (json_get_str(net, key, &text, err))
		return -1;
	return inet_pton(AF_INET, text, out) == 1 ? 0 : err_set(err, "net.%s is no address", key);
}

static int parse_nameserver(const char *text, struct sockaddr_in *out, struct err *err)
{
	char addr[INET_ADDRSTRLEN] = "";
	unsigned port = DNS_PORT;

	if (sscanf(text, "%15[0-9.]:%u", addr, &port) < 1 || !port || port > UINT16_MAX ||
	    inet_pton(AF_INET, addr, &out->sin_addr) != 1)
		return err_set(err, "net.nameservers: \"%s\" is no address", text);
	out->sin_family = AF_INET;
	out->sin_port = htons((uint16_t)port);
	return 0;
}

static int parse_mac(const char *text, uint8_t mac[6], struct err *err)
{
	int n = 0;

	if (sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2], &mac[3],
		   &mac[4], &mac[5], &n) != 6 ||
	    text[n])
		return err_set(err, "mac \"%s\"", text);
	return 0;
}

static int parse_net(const struct vm_config *cfg, struct switch_config *out, struct err *err)
{
	static const char *const keys[] = { "guest_ip", "gateway",    "prefix_len", "mtu",
					    "hostname", "nameservers", NULL };
	int64_t prefix, mtu;
	json_t *servers, *s;
	size_t i;

	if (json_only_keys(cfg->net, keys, err) || parse_mac(cfg->mac, out->guest_mac, err) ||
	    parse_addr(cfg->net, "guest_ip", &out->guest_ip, err) ||
	    parse_addr(cfg->net, "gateway", &out->gateway, err) ||
	    json_get_int(cfg->net, "prefix_len", &prefix, err) ||
	    json_opt_int(cfg->net, "mtu", &mtu, 0, err) ||
	    json_opt_str(cfg->net, "hostname", &out->hostname, NULL, err) ||
	    json_get_array(cfg->net, "nameservers", &servers, err))
		return -1;
	if (prefix < 0 || prefix > 32 || mtu < 0 || mtu > SWITCH_MTU_MAX)
		return err_set(err, "net.prefix_len or net.mtu out of range");
	out->prefix_len = (unsigned)prefix;
	out->mtu = (unsigned)mtu;
	json_array_foreach(servers, i, s) {
		if (out->nameserver_n == SWITCH_NAMESERVERS_MAX || !json_is_string(s))
			return err_set(err, "net.nameservers: at most %d addresses",
				       SWITCH_NAMESERVERS_MAX);
		if (parse_nameserver(json_string_value(s), &out->nameservers[out->nameserver_n++], err))
			return -1;
	}
	return 0;
}

struct net_link *net_link_new(struct vm *vm, int *qemu_fd, struct err *err)
{
	static const struct switch_ops ops = {
		.flow_ask = flow_ask,
		.name_ask = name_ask,
		.dest_ask = dest_ask,
		.flow_event = flow_event,
		.link_down = link_down,
	};
	struct switch_config cfg = { .run_dir = vm->cfg.run_dir };
	struct net_link *l = calloc(1, sizeof(*l));
	int pair[2];

	if (!l || parse_net(&vm->cfg, &cfg, err) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		free(l);
		return NULL;
	}
	l->vm = vm;
	l->sw = switch_new(vm->loop, &cfg, &ops, l, err);
	if (!l->sw || switch_attach(l->sw, pair[0], err)) {
		close(pair[0]);
		close(pair[1]);
		net_link_free(l);
		return NULL;
	}
	if (vm->cut)
		switch_cut(l->sw, "network is cut");
	*qemu_fd = pair[1];
	return l;
}

void net_link_free(struct net_link *l)
{
	if (!l)
		return;
	switch_free(l->sw);
	free(l);
}

void net_link_cut(struct net_link *l, bool cut)
{
	if (cut)
		switch_cut(l->sw, "network is cut");
	else
		switch_uncut(l->sw);
}

void net_link_rejudge(struct net_link *l)
{
	switch_rejudge(l->sw);
}

json_t *net_link_status(const struct net_link *l)
{
	struct switch_stats st;
	json_t *drops = json_object();

	switch_stats_get(l->sw, &st);
	for (int i = 0; i < DROP_MAX; i++)
		if (st.drops[i])
			json_object_set_new(drops, switch_drop_name((enum switch_drop)i),
					    json_integer((json_int_t)st.drops[i]));
	return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o*}", "cut", st.cut,
			 "flows_open", (json_int_t)st.flows_open, "flows_allowed",
			 (json_int_t)st.flows_allowed, "flows_denied", (json_int_t)st.flows_denied,
			 "asks_open", (json_int_t)st.asks_open, "asks_timed_out",
			 (json_int_t)st.asks_timed_out, "asks_full", (json_int_t)st.asks_full,
			 "bytes_up", (json_int_t)st.bytes_up, "bytes_down",
			 (json_int_t)st.bytes_down, "drops", drops);
}
