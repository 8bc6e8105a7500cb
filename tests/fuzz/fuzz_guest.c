// SPDX-License-Identifier: GPL-2.0-or-later
/* Hostile bytes on sandboxd's exec connection: frames, and the requests inside them. */
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/exec.h>

#include "lib/json.h"
#include "sandboxd/conn.h"
#include "sandboxd/files.h"
#include "lib/osc52.h"
#include "sandboxd/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_frame(void *user, struct guest_conn *c, uint8_t type, const uint8_t *payload, size_t len)
{
	static const struct json_limits limits = { .bytes = HF_EXEC_MESSAGE_MAX, .depth = 8, .values = 12288 };
	_cleanup_json_ json_t *o = type == HF_EXEC_REQUEST ? json_parse(payload, len, &limits, NULL) : NULL;
	struct guest_files files;

	(void)user;
	if (o && json_is_object(o))
		guest_files_parse(o, &files, NULL);
	if (type == HF_EXEC_REQUEST)
		guest_spec_free(guest_spec_parse(payload, len, NULL));
	if (type == HF_EXEC_SIGNAL)
		guest_conn_refuse(c, "enough");
	else
		guest_conn_send(c, HF_EXEC_STDOUT, payload, len < 64 ? len : 64);
}

static void nothing(void *user, struct guest_conn *c)
{
	(void)user;
	(void)c;
}

/* Half of the input as a stream in pieces whose sizes it chooses, all of it as terminal output. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct guest_conn_ops ops = { on_frame, nothing, nothing };
	static uint8_t out[1 << 20];
	struct osc52 filter = { .len = 0 };
	struct loop *loop;
	int fds[2];
	size_t at = 0;

	if (size > sizeof(out) - 64)
		return 0;
	osc52_filter(&filter, data, size, out);
	loop = loop_new(NULL);
	if (!loop || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
		return 0;
	guest_conn_new(loop, fds[0], &ops, NULL);
	while (at < size) {
		size_t step = (size_t)data[at] + 1;
		ssize_t n = send(fds[1], data + at, size - at < step ? size - at : step, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		at += (size_t)n;
		loop_turn(loop, 0, NULL);
		while (recv(fds[1], out, sizeof(out), MSG_DONTWAIT) > 0)
			continue;
	}
	close(fds[1]);
	for (int i = 0; i < 3; i++)
		loop_turn(loop, 0, NULL);
	loop_free(loop);
	return 0;
}
