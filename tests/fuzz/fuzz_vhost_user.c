/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Feeds requests to the vhost-user control socket, with descriptors, as a captured QEMU could. */

/*
 * Input: per message u8 request, u8 flags, u8 descriptors (low nibble: how many, high nibble: which
 * kind), u8 body length, body. Kinds: sealed memfd, unsealed memfd, eventfd.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/vm/vhost_user.h"
#include "lib/io.h"

enum { MEM = 64 * 1024, HEADER = 12, MESSAGES_MAX = 64 };

static void nothing(void *u, const char *why)
{
	(void)u;
	(void)why;
}

static size_t on_data(struct vsock_stream *s, void *u, const uint8_t *p, size_t n)
{
	(void)u;
	vsock_stream_write(s, p, n);
	return n;
}

static void on_open(struct vsock_stream *s, void *u)
{
	(void)s;
	(void)u;
}

static void on_close(struct vsock_stream *s, void *u, enum vsock_reason reason)
{
	(void)s;
	(void)u;
	(void)reason;
}

static const struct vsock_ops streams = { .on_open = on_open, .on_data = on_data, .on_close = on_close };
static const struct vhost_user_ops ops = { .broken = nothing, .detached = nothing };

static int make_fd(unsigned kind)
{
	int fd;

	if (kind % 3 == 2)
		return eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	fd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd >= 0 && (ftruncate(fd, MEM) || (kind % 3 == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))))
		abort();
	return fd;
}

static size_t message(int fd, const uint8_t *p, size_t n)
{
	uint8_t out[HEADER + 255] = { 0 };
	int fds[IO_FDS_MAX];
	size_t n_fds = p[2] & 7, body = p[3] < n - 4 ? p[3] : n - 4;
	uint32_t head[3] = { p[0] % 32, 1u | (p[1] & 8u), (uint32_t)body };

	memcpy(out, head, HEADER);
	memcpy(out + HEADER, p + 4, body);
	for (size_t i = 0; i < n_fds; i++)
		fds[i] = make_fd(p[2] >> 4);
	io_send_fds(fd, out, HEADER + body, fds, n_fds);
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	return 4 + body;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct loop *loop = loop_new(NULL);
	struct vhost_user *d = vhost_user_new(loop, 3, &ops, NULL);
	uint8_t answers[4096];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) ||
	    vhost_user_attach(d, pair[0], NULL))
		abort();
	vsock_listen(vhost_user_vsock(d), 1, &streams, NULL);
	for (int i = 0; i < MESSAGES_MAX && n >= 4; i++) {
		size_t used = message(pair[1], p, n);

		p += used;
		n -= used;
		loop_turn(loop, 0, NULL);
		while (recv(pair[1], answers, sizeof(answers), MSG_DONTWAIT) > 0)
			;
	}
	vsock_connect(vhost_user_vsock(d), 1, &streams, NULL);
	close(pair[1]);
	for (int i = 0; i < 4; i++)
		loop_turn(loop, 0, NULL);
	vhost_user_free(d);
	loop_free(loop);
	return 0;
}
