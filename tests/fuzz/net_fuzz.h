/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A switch that says no to everything, for the fuzzers of what the guest sends. */
#ifndef HOLDFAST_TESTS_NET_FUZZ_H
#define HOLDFAST_TESTS_NET_FUZZ_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/net/ctx.h"

static struct switch_ctx *fuzz_switch;
static struct loop *fuzz_loop;

static void fuzz_flow_ask(void *u, uint64_t id, const struct flow *f)
{
	(void)u;
	if (f->dport & 1) /* leave the others open */
		switch_flow_verdict(fuzz_switch, id, FLOW_DENY, "", "");
}

static void fuzz_name_ask(void *u, uint64_t id, const char *name, uint16_t qtype)
{
	(void)u;
	(void)name;
	(void)qtype;
	switch_name_verdict(fuzz_switch, id, false, "");
}

static void fuzz_dest_ask(void *u, uint64_t id, const char *name, const struct in_addr *a, size_t n)
{
	(void)u;
	(void)id;
	(void)name;
	(void)a;
	(void)n;
	abort(); /* nothing was allowed */
}

static void fuzz_start(void)
{
	static const struct switch_ops ops = {
		.flow_ask = fuzz_flow_ask, .name_ask = fuzz_name_ask, .dest_ask = fuzz_dest_ask,
	};
	struct switch_config cfg = { .guest_mac = { 2, 0, 0, 0, 0, 2 }, .prefix_len = 24 };
	char dir[] = "/tmp/net-fuzz-XXXXXX", path[64];

	if (fuzz_switch)
		return;
	inet_pton(AF_INET, "192.168.64.2", &cfg.guest_ip);
	inet_pton(AF_INET, "192.168.64.1", &cfg.gateway);
	cfg.run_dir = mkdtemp(dir);
	fuzz_loop = loop_new(NULL);
	fuzz_switch = switch_new(fuzz_loop, &cfg, &ops, NULL, NULL);
	if (!fuzz_switch)
		abort();
	snprintf(path, sizeof(path), "%s/nat.sock", dir);
	unlink(path); /* nothing is ever allowed, so nobody connects there */
	rmdir(dir);
}

/* A frame over this payload as udp_input() would have got it. */
static inline struct frame fuzz_frame(const uint8_t *data, size_t len, uint16_t sport,
				      uint16_t dport)
{
	return (struct frame){
		.data = data, .len = len, .ethertype = ETHERTYPE_IPV4, .proto = IPPROTO_UDP,
		.src = fuzz_switch->rules.guest_ip, .dst = fuzz_switch->rules.gateway,
		.sport = sport, .dport = dport, .payload_len = len,
	};
}

#endif
