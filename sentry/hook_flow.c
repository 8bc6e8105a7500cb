// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Network flows, where the kernel is about to send.
 *
 * TCP: tcp_connect(), to which connect, Fast Open, io_uring and MPTCP subflows all come; one record each, since the
 * host joins them by source port. The rest: the first datagram to a destination, then folded by 5-tuple and process;
 * the table is asked before anything else is gathered, so that a repeated datagram costs a lookup.
 */
#include <linux/icmp.h>
#include <linux/if_packet.h>
#include <linux/sock_diag.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/sock.h>

#include "canary.h"
#include "compat/compat.h"
#include "gate.h"
#include "param.h"
#include "probe.h"
#include "tally.h"
#include "task.h"

/* The flow of one datagram and what it takes to look it up. */
struct draft {
	struct sentry_flow flow;
	bool loopback;
};

static void set_v4(struct draft *d, __be32 address)
{
	d->flow.family = 4;
	memcpy(d->flow.dst, &address, sizeof(address));
	d->loopback = ipv4_is_loopback(address);
}

static void set_v6(struct draft *d, const struct in6_addr *address)
{
	if (ipv6_addr_v4mapped(address)) {
		set_v4(d, address->s6_addr32[3]);
		return;
	}
	d->flow.family = 6;
	memcpy(d->flow.dst, address, sizeof(*address));
	d->loopback = ipv6_addr_loopback(address);
}

static bool is_suppressed(const struct draft *d)
{
	if (likely(!d->loopback) || sentry_param_is_local_port(d->flow.dport))
		return false;
	atomic64_inc(&sentry_sums.local_flows);
	return true;
}

static struct sentry_record *flow_begin(const struct draft *d)
{
	struct sentry_record *r = sentry_record_begin(HF_SENTRY_KIND_NET_FLOW);

	if (r)
		r->detail.flow = d->flow;
	return r;
}

static void flow_end(struct sentry_record *r, bool fold)
{
	sentry_record_add_exe(r);
	sentry_record_add_chain(r);
	sentry_gate_offer(r, fold);
	sentry_record_end(r);
}

static noinline void first_datagram(const struct draft *d)
{
	struct sentry_record *r = flow_begin(d);

	if (r)
		flow_end(r, true);
}

/* What does not connect: counted if it is a repeat, reported if not. */
static __always_inline int datagram(const struct draft *d)
{
	if (!is_suppressed(d) && !sentry_gate_repeat_flow(&d->flow))
		first_datagram(d);
	return 0;
}

static int on_tcp_connect(struct kprobe *kp, struct pt_regs *regs)
{
	struct sock *sk = (struct sock *)sentry_arg(regs, 0);
	struct draft d = { .flow.protocol = IPPROTO_TCP };
	struct sentry_record *r;
	u32 cookie[2];

	if (sk->sk_family == AF_INET6)
		set_v6(&d, &sk->sk_v6_daddr);
	else
		set_v4(&d, inet_sk(sk)->inet_daddr);
	d.flow.sport = ntohs(inet_sk(sk)->inet_sport);
	d.flow.dport = ntohs(inet_sk(sk)->inet_dport);
	if (is_suppressed(&d))
		return 0;
	r = flow_begin(&d);
	if (!r)
		return 0;
	sock_diag_save_cookie(sk, cookie);
	r->cookie = (u64)cookie[1] << 32 | cookie[0];
	flow_end(r, false);
	return 0;
}

/* The type of an ICMP message is the first byte of what user space sends, if it can be read without a fault. */
static void set_icmp_type(struct draft *d, const struct msghdr *msg)
{
	const void __user *from = sentry_iter_user(&msg->msg_iter);

	if (from && sentry_user_bytes(&d->flow.icmp_type, from, 1) == 1)
		d->flow.has_icmp_type = true;
}

/* Fill the destination of a message on an IPv4 socket; false if it has none. */
static bool to_v4(struct draft *d, struct sock *sk, const struct msghdr *msg)
{
	const struct sockaddr_in *to = msg->msg_name;

	if (to && msg->msg_namelen >= (int)sizeof(*to)) {
		set_v4(d, to->sin_addr.s_addr);
		d->flow.dport = ntohs(to->sin_port);
	} else if (inet_sk(sk)->inet_daddr) {
		set_v4(d, inet_sk(sk)->inet_daddr);
		d->flow.dport = ntohs(inet_sk(sk)->inet_dport);
	} else {
		return false;
	}
	return true;
}

/* The same for IPv6. False also for IPv4 in disguise, which goes on to the IPv4 function and is seen there. */
static bool to_v6(struct draft *d, struct sock *sk, const struct msghdr *msg)
{
	const struct sockaddr_in6 *to = msg->msg_name;

	if (to && msg->msg_namelen >= SIN6_LEN_RFC2133 && to->sin6_family == AF_INET6) {
		set_v6(d, &to->sin6_addr);
		d->flow.dport = ntohs(to->sin6_port);
	} else if (!to && !ipv6_addr_any(&sk->sk_v6_daddr)) {
		set_v6(d, &sk->sk_v6_daddr);
		d->flow.dport = ntohs(inet_sk(sk)->inet_dport);
	} else {
		return false;
	}
	return d->flow.family == 6;
}

static int on_udp_sendmsg(struct kprobe *kp, struct pt_regs *regs)
{
	struct sock *sk = (struct sock *)sentry_arg(regs, 0);
	struct draft d = { .flow.protocol = sk->sk_protocol };

	if (sentry_task_is_own()) {
		sentry_selftest_answer(SENTRY_SELFTEST_UDP);
		return 0;
	}
	if (!to_v4(&d, sk, (const struct msghdr *)sentry_arg(regs, 1)))
		return 0;
	d.flow.sport = ntohs(inet_sk(sk)->inet_sport);
	return datagram(&d);
}

static int on_udpv6_sendmsg(struct kprobe *kp, struct pt_regs *regs)
{
	struct sock *sk = (struct sock *)sentry_arg(regs, 0);
	struct draft d = { .flow.protocol = sk->sk_protocol };

	if (!to_v6(&d, sk, (const struct msghdr *)sentry_arg(regs, 1)))
		return 0;
	d.flow.sport = ntohs(inet_sk(sk)->inet_sport);
	return datagram(&d);
}

/* raw and ping sockets: ports mean nothing there; a ping socket's "port" is the identifier of its echo requests. */
static int portless(struct draft *d, struct sock *sk, const struct msghdr *msg)
{
	d->flow.protocol = sk->sk_protocol;
	d->flow.dport = 0;
	if (d->flow.protocol == IPPROTO_ICMP || d->flow.protocol == IPPROTO_ICMPV6)
		set_icmp_type(d, msg);
	return datagram(d);
}

static int on_v4_portless(struct kprobe *kp, struct pt_regs *regs)
{
	struct sock *sk = (struct sock *)sentry_arg(regs, 0);
	const struct msghdr *msg = (const struct msghdr *)sentry_arg(regs, 1);
	struct draft d = { 0 };

	return to_v4(&d, sk, msg) ? portless(&d, sk, msg) : 0;
}

static int on_v6_portless(struct kprobe *kp, struct pt_regs *regs)
{
	struct sock *sk = (struct sock *)sentry_arg(regs, 0);
	const struct msghdr *msg = (const struct msghdr *)sentry_arg(regs, 1);
	struct draft d = { 0 };

	return to_v6(&d, sk, msg) ? portless(&d, sk, msg) : 0;
}

/* packet_sendmsg(socket, msg, len): frames of the sender's own making; there is no flow to name but the device. */
static int on_packet_sendmsg(struct kprobe *kp, struct pt_regs *regs)
{
	const struct msghdr *msg = (const struct msghdr *)sentry_arg(regs, 1);
	const struct sockaddr_ll *to = msg->msg_name;
	struct draft d = { 0 };

	if (to && msg->msg_namelen >= (int)offsetof(struct sockaddr_ll, sll_hatype))
		d.flow.ifindex = to->sll_ifindex;
	return datagram(&d);
}

static struct sentry_probe probes[] = {
	SENTRY_ENTRY("tcp_connect", on_tcp_connect),
	SENTRY_ENTRY("udp_sendmsg", on_udp_sendmsg),
	SENTRY_ENTRY("udpv6_sendmsg", on_udpv6_sendmsg),
	SENTRY_ENTRY("raw_sendmsg", on_v4_portless),
	SENTRY_ENTRY("rawv6_sendmsg", on_v6_portless),
	SENTRY_ENTRY("ping_v4_sendmsg", on_v4_portless),
	SENTRY_ENTRY("ping_v6_sendmsg", on_v6_portless),
	SENTRY_ENTRY("packet_sendmsg", on_packet_sendmsg),
};
const struct sentry_probe_table sentry_hook_flow = { probes, ARRAY_SIZE(probes) };
