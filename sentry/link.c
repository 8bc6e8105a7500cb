// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The connection.
 *
 * DOWN     nothing; the next try has a time, 1 s after the last and then up to 5 s
 * GREETING connected; the hello goes out, and nothing else before the host's welcome
 * UP       frames from the store go out
 *
 * A hello is built once for each conn and said again byte for byte until its welcome; only the welcome moves conn on.
 * No call waits: what the socket does not take stays in the store at the cursor and is resumed on the same
 * connection, and a connection without progress for 5 s is given up. A connection that broke inside a frame is
 * never resumed, since the next one starts with a hello.
 */
#include <linux/jiffies.h>
#include <linux/net.h>
#include <linux/vm_sockets.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "compat/compat.h"
#include "frame.h"
#include "key.h"
#include "link.h"
#include "param.h"
#include "store.h"
#include "tally.h"

enum state { DOWN, GREETING, UP };

static enum state state;
static struct socket *sock;
static unsigned long next_try, last_progress; /* jiffies */
static unsigned int wait_ms;
static bool welcomed;

static u32 conn;
static const u8 *hello; /* NULL: to be built for conn */
static size_t hello_len, hello_sent;

static struct hf_sentry_record incoming;
static size_t incoming_len;
static u64 host_seq;

bool sentry_link_is_up(void)
{
	return state == UP;
}

bool sentry_link_take_welcome(void)
{
	bool was = welcomed;

	welcomed = false;
	return was;
}

static void later(void)
{
	wait_ms = clamp(wait_ms * 2, HF_SENTRY_RECONNECT_MIN_MS, HF_SENTRY_RECONNECT_MAX_MS);
	next_try = jiffies + msecs_to_jiffies(wait_ms);
}

static void drop(void)
{
	sentry_tally_add(SENTRY_TALLY_CONNECTION_LOST, 1);
	sock_release(sock);
	sock = NULL;
	state = DOWN;
	later();
}

static void dial(void)
{
	struct sockaddr_vm to = {
		.svm_family = AF_VSOCK, .svm_cid = sentry_param_cid, .svm_port = sentry_param_port,
	};
	int err;

	if (time_before(jiffies, next_try))
		return;
	err = sock_create_kern(&init_net, AF_VSOCK, SOCK_STREAM, 0, &sock);
	if (!err) {
		err = kernel_connect(sock, (struct sentry_sockaddr *)&to, sizeof(to), 0);
		if (err)
			sock_release(sock);
	}
	if (err) {
		sock = NULL;
		sentry_tally_add(SENTRY_TALLY_CONNECT_FAILED, 1);
		later();
		return;
	}
	if (!hello)
		hello = sentry_frame_hello(conn, &hello_len);
	hello_sent = 0;
	incoming_len = 0;
	last_progress = jiffies;
	state = GREETING;
}

static void on_welcome(const struct hf_sentry_record *r)
{
	if (state != GREETING || hello_sent != hello_len || get_unaligned_be32(r->value + HF_SENTRY_WELCOME_CONN) != conn)
		return;
	state = UP;
	conn++;
	hello = NULL;
	wait_ms = 0;
	welcomed = true;
	sentry_store_rewind();
	if (!sentry_store_ack(get_unaligned_be64(r->value + HF_SENTRY_WELCOME_SEQ)))
		sentry_tally_add(SENTRY_TALLY_ACK_AHEAD, 1);
}

static void on_record(const struct hf_sentry_record *r)
{
	u32 kind = be32_to_cpu(r->kind);
	u64 seq = be64_to_cpu(r->seq);

	if (be32_to_cpu(r->magic) != HF_SENTRY_RECORD_MAGIC || kind < HF_SENTRY_WELCOME || kind > HF_SENTRY_ACK ||
	    seq <= host_seq || !sentry_key_check_host(r)) {
		sentry_tally_add(SENTRY_TALLY_HOST_IGNORED, 1);
		return;
	}
	host_seq = seq;
	switch ((enum hf_sentry_record_kind)kind) {
	case HF_SENTRY_WELCOME:
		on_welcome(r);
		break;
	case HF_SENTRY_CHALLENGE:
		sentry_frame_set_nonce(r->value);
		break;
	case HF_SENTRY_ACK:
		if (!sentry_store_ack(get_unaligned_be64(r->value + HF_SENTRY_ACK_SEQ)))
			sentry_tally_add(SENTRY_TALLY_ACK_AHEAD, 1);
		break;
	}
}

/* At most a store's worth of acknowledgements in one go, so that a talking host cannot hold the thread. */
static void receive(void)
{
	unsigned int rounds;

	for (rounds = 0; sock && rounds < 64; rounds++) {
		struct kvec into = {
			.iov_base = (u8 *)&incoming + incoming_len, .iov_len = sizeof(incoming) - incoming_len,
		};
		struct msghdr msg = { .msg_flags = MSG_DONTWAIT };
		int n = kernel_recvmsg(sock, &msg, &into, 1, into.iov_len, MSG_DONTWAIT);

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			drop();
			return;
		}
		incoming_len += n;
		if (incoming_len == sizeof(incoming)) {
			incoming_len = 0;
			on_record(&incoming);
		}
	}
}

/* Returns bytes taken, 0 if none could be; drops the connection on an error. */
static size_t send_some(const void *bytes, size_t len)
{
	struct kvec from = { .iov_base = (void *)bytes, .iov_len = len };
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	int n = kernel_sendmsg(sock, &msg, &from, 1, len);

	if (n > 0) {
		last_progress = jiffies;
		return n;
	}
	if (n != -EAGAIN)
		drop();
	return 0;
}

static void transmit(void)
{
	const void *bytes;
	size_t len, n;

	while (state == GREETING && hello_sent < hello_len) {
		n = send_some(hello + hello_sent, hello_len - hello_sent);
		if (!n)
			return;
		hello_sent += n;
	}
	while (state == UP && (len = sentry_store_unsent(&bytes))) {
		n = send_some(bytes, len);
		if (!n)
			return;
		sentry_store_sent(n);
	}
}

bool sentry_link_is_behind(void)
{
	const void *bytes;

	return (state == GREETING && hello_sent < hello_len) || (state == UP && sentry_store_unsent(&bytes));
}

void sentry_link_step(void)
{
	if (state == DOWN)
		dial();
	if (state == DOWN)
		return;
	receive();
	if (state != DOWN)
		transmit();
	if (state == DOWN)
		return;
	if (state == UP && !sentry_link_is_behind())
		last_progress = jiffies;
	if (time_after(jiffies, last_progress + msecs_to_jiffies(HF_SENTRY_IO_TIMEOUT_MS)))
		drop();
}
