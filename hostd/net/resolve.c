/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Upstream resolution of allowed names: c-ares, its sockets and its timer on our loop.
 *
 * Only A records are asked for, of the configured servers alone: no hosts file, no search list,
 * no resolv.conf. c-ares picks random query ids and source ports and follows CNAMEs within the
 * answer; every address at the end of the chain goes to policy.
 */
#define CARES_NO_DEPRECATED /* ares_query() and its parser exist in every version we meet */
#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "hostd/net/dns.h"

enum { SOCKETS_MAX = 32, TIMEOUT_MS = 2000, TRIES = 2 };

struct resolver {
	struct switch_ctx *c;
	ares_channel channel;
	bool usable; /* there are name servers */
	struct {
		int fd;
		struct loop_fd *watch;
	} sockets[SOCKETS_MAX];
	struct loop_timer *timer;
};

struct lookup {
	struct resolver *r;
	uint64_t id;
};

static void arm_timer(struct resolver *r);

static void on_timer(void *u)
{
	struct resolver *r = u;

	r->timer = NULL;
	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	arm_timer(r);
}

static void arm_timer(struct resolver *r)
{
	struct timeval tv, *next = ares_timeout(r->channel, NULL, &tv);

	loop_timer_del(r->timer);
	r->timer = NULL;
	if (next)
		r->timer = loop_timer_add(r->c->loop,
					  (uint64_t)next->tv_sec * 1000 +
						  (uint64_t)next->tv_usec / 1000 + 1,
					  0, on_timer, r);
}

static void on_socket(void *u, int fd, uint32_t events)
{
	struct resolver *r = u;

	ares_process_fd(r->channel, events & ~(uint32_t)EPOLLOUT ? fd : ARES_SOCKET_BAD,
			events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
	arm_timer(r);
}

/* c-ares tells which of its sockets it wants to read or write; both 0 means that it closes it. */
static void on_socket_state(void *u, ares_socket_t fd, int readable, int writable)
{
	uint32_t events = (readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0);
	struct resolver *r = u;
	size_t i, empty = SOCKETS_MAX;

	for (i = 0; i < SOCKETS_MAX; i++) {
		if (r->sockets[i].watch && r->sockets[i].fd == fd)
			break;
		if (!r->sockets[i].watch && empty == SOCKETS_MAX)
			empty = i;
	}
	if (i < SOCKETS_MAX && events) {
		loop_fd_mod(r->sockets[i].watch, events);
	} else if (i < SOCKETS_MAX) {
		loop_fd_del(r->sockets[i].watch);
		r->sockets[i].watch = NULL;
	} else if (events && empty < SOCKETS_MAX) {
		/* Without a watch the query ends in its timeout, and the guest gets SERVFAIL. */
		r->sockets[empty].fd = fd;
		r->sockets[empty].watch =
			loop_fd_add(r->c->loop, fd, events, on_socket, r, NULL);
	}
}

static enum resolve_status status_of(int status)
{
	switch (status) {
	case ARES_SUCCESS:
		return RESOLVE_OK;
	case ARES_ENOTFOUND:
		return RESOLVE_NXDOMAIN;
	case ARES_ENODATA:
		return RESOLVE_NODATA;
	default:
		return RESOLVE_FAILED;
	}
}

static void on_answer(void *arg, int status, int timeouts, unsigned char *bytes, int len)
{
	struct ares_addrttl records[SWITCH_DEST_MAX * 4];
	int n = sizeof(records) / sizeof(records[0]);
	struct in_addr addrs[SWITCH_DEST_MAX];
	struct lookup l = *(struct lookup *)arg;
	unsigned ttl_s = 0;
	size_t given = 0;

	(void)timeouts;
	free(arg);
	if (status == ARES_EDESTRUCTION)
		return;
	if (status == ARES_SUCCESS)
		status = ares_parse_a_reply(bytes, len, NULL, records, &n);
	if (status != ARES_SUCCESS)
		n = 0;
	for (int i = 0; i < n && given < SWITCH_DEST_MAX; i++) {
		unsigned ttl = records[i].ttl < 0 ? 0 : (unsigned)records[i].ttl;

		ttl_s = given && ttl_s < ttl ? ttl_s : ttl;
		addrs[given++] = records[i].ipaddr;
	}
	if (status == ARES_SUCCESS && !given)
		status = ARES_ENODATA;
	dns_resolved(l.r->c, l.id, status_of(status), addrs, given, ttl_s);
}

void resolver_start(struct switch_ctx *c, uint64_t id, const char *name)
{
	struct resolver *r = c->resolver;
	struct lookup *l = r->usable ? malloc(sizeof(*l)) : NULL;

	if (!l) {
		dns_resolved(c, id, RESOLVE_FAILED, NULL, 0, 0);
		return;
	}
	*l = (struct lookup){ r, id };
	ares_query(r->channel, name, 1 /* IN */, DNS_A, on_answer, l);
	arm_timer(r);
}

static int set_servers(struct resolver *r, const struct switch_config *cfg, struct err *err)
{
	struct ares_addr_port_node nodes[SWITCH_NAMESERVERS_MAX] = { 0 };

	for (size_t i = 0; i < cfg->nameserver_n; i++) {
		int port = ntohs(cfg->nameservers[i].sin_port);

		nodes[i].next = i + 1 < cfg->nameserver_n ? &nodes[i + 1] : NULL;
		nodes[i].family = AF_INET;
		nodes[i].addr.addr4 = cfg->nameservers[i].sin_addr;
		nodes[i].udp_port = nodes[i].tcp_port = port ? port : 53;
	}
	r->usable = cfg->nameserver_n > 0;
	if (r->usable && ares_set_servers_ports(r->channel, nodes) != ARES_SUCCESS)
		return err_set(err, "set the name servers of c-ares: refused");
	return 0;
}

int resolver_new(struct switch_ctx *c, const struct switch_config *cfg, struct err *err)
{
	struct resolver *r = calloc(1, sizeof(*r));
	struct in_addr none = { htonl(INADDR_LOOPBACK) };
	char lookups[] = "b"; /* DNS only */
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TIMEOUT_MS,
		.tries = TRIES,
		.lookups = lookups,
		.servers = &none, /* replaced below; given so that resolv.conf is not */
		.nservers = 1,
		.sock_state_cb = on_socket_state,
		.sock_state_cb_data = r,
	};
	int status;

	if (!r)
		return err_set(err, "no memory for the resolver");
	r->c = c;
	status = ares_library_init(ARES_LIB_INIT_ALL);
	if (status == ARES_SUCCESS)
		status = ares_init_options(&r->channel, &o,
					   ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
						   ARES_OPT_LOOKUPS | ARES_OPT_SERVERS |
						   ARES_OPT_SOCK_STATE_CB);
	if (status != ARES_SUCCESS) {
		free(r);
		return err_set(err, "start c-ares: %s", ares_strerror(status));
	}
	c->resolver = r;
	return set_servers(r, cfg, err);
}

void resolver_free(struct switch_ctx *c)
{
	struct resolver *r = c->resolver;

	if (!r)
		return;
	ares_destroy(r->channel);
	loop_timer_del(r->timer);
	for (size_t i = 0; i < SOCKETS_MAX; i++)
		loop_fd_del(r->sockets[i].watch);
	free(r);
}
