// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The test host: speaks the host's side of the Sentry stream inside the guest, over vsock loopback.
 *
 *   host BOOT_KEY_HEX FRAMES_PORT CONTROL_FIFO
 *
 * Whole frames go to FRAMES_PORT as they came, length first; whoever reads them checks the MACs. The control FIFO
 * takes one command a line:
 *   acks on|off          acknowledge what has come, or keep silent (and forget it with the connection)
 *   close                close the connection now
 *   close-after N        close the next connection once N bytes of it have come
 *   close-before-welcome N   close the next N connections when their hello is complete
 *   garbage              send 96 bytes that are no record, then a record with a wrong MAC
 *   listen on|off        stop and start listening
 *   stall SECONDS        read nothing for so long
 *   frames on|off        hand frames out, or not (for costs)
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/sentry.h>

#include "other_end.h"

static unsigned char host_key[32];
static unsigned long long host_seq, received, durable;
static int listener = -1, connection = -1, frames, control;
static bool acks = true, hand_out = true, in_order;
static long close_after = -1, refuse_welcomes, stall_until;

static unsigned char in[HF_SENTRY_FRAME_HOST_MAX + 4];
static size_t in_len;
static long got_bytes;
static unsigned int nonce;

static void die(const char *what)
{
	printf("host: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000L + t.tv_nsec / 1000000;
}

static void derive(const char *hex)
{
	unsigned char key[32];
	crypto_hash_sha256_state state;

	if (sodium_hex2bin(key, sizeof(key), hex, strlen(hex), NULL, NULL, NULL))
		die("boot key");
	crypto_hash_sha256_init(&state);
	crypto_hash_sha256_update(&state, (const unsigned char *)HF_SENTRY_LABEL_HOST_0, strlen(HF_SENTRY_LABEL_HOST_0));
	crypto_hash_sha256_update(&state, key, sizeof(key));
	crypto_hash_sha256_final(&state, host_key);
}

static void say(unsigned int kind, const void *value, size_t len, bool wrong_mac)
{
	struct hf_sentry_record r = { .magic = htobe32(HF_SENTRY_RECORD_MAGIC), .kind = htobe32(kind) };
	crypto_auth_hmacsha256_state state;

	memcpy(r.value, value, len);
	r.seq = htobe64(++host_seq);
	crypto_auth_hmacsha256_init(&state, host_key, sizeof(host_key));
	crypto_auth_hmacsha256_update(&state, (const unsigned char *)&r, HF_SENTRY_RECORD_MACED_BYTES);
	crypto_auth_hmacsha256_final(&state, r.mac);
	if (wrong_mac)
		r.mac[0] ^= 1;
	if (connection >= 0 && send(connection, &r, sizeof(r), MSG_NOSIGNAL) < 0)
		printf("host: send: %s\n", strerror(errno));
}

static void hang_up(void)
{
	if (connection >= 0)
		close(connection);
	connection = -1;
	in_len = 0;
	in_order = false;
}

static void acknowledge(void)
{
	unsigned long long value;

	durable = received;
	value = htobe64(durable);
	say(HF_SENTRY_ACK, &value, sizeof(value), false);
}

static void welcome(unsigned int conn)
{
	unsigned char value[12], challenge[32] = { 0 };
	unsigned int c = htobe32(conn);
	unsigned long long s = htobe64(durable);

	memcpy(value, &c, 4);
	memcpy(value + 4, &s, 8);
	say(HF_SENTRY_WELCOME, value, sizeof(value), false);
	challenge[31] = ++nonce;
	say(HF_SENTRY_CHALLENGE, challenge, sizeof(challenge), false);
	printf("host: welcome %u durable %llu\n", conn, durable);
}

static bool number_after(const unsigned char *json, size_t len, const char *name, unsigned long long *value)
{
	const unsigned char *at = memmem(json, len, name, strlen(name));

	if (!at)
		return false;
	*value = strtoull((const char *)at + strlen(name), NULL, 10);
	return true;
}

static void on_frame(const unsigned char *frame, size_t len)
{
	unsigned long long number;
	bool is_hello = memmem(frame, len, "\"type\":\"hello\"", 14);
	const char *out = (const char *)frame - 4;
	size_t left = len + 4;
	ssize_t n;

	for (; hand_out && left; out += n, left -= n)
		if ((n = write(frames, out, left)) < 0)
			die("frames");
	if (is_hello && number_after(frame, len, "\"conn\":", &number)) {
		if (refuse_welcomes > 0) {
			refuse_welcomes--;
			hang_up();
			return;
		}
		in_order = true;
		received = durable; /* what was not durable is lost with the connection */
		welcome(number);
	} else if (in_order && number_after(frame, len, "\"seq\":", &number) && number == received + 1) {
		received = number;
	}
}

static void on_bytes(void)
{
	size_t want = sizeof(in) - in_len, len;
	ssize_t n;

	if (close_after >= 0 && (long)want > close_after - got_bytes)
		want = close_after - got_bytes;
	n = want ? recv(connection, in + in_len, want, 0) : 0;
	if (n <= 0) {
		printf("host: connection ended after %ld bytes\n", got_bytes);
		if (close_after >= 0 && got_bytes >= close_after)
			close_after = -1;
		hang_up();
		return;
	}
	in_len += n;
	got_bytes += n;
	while (in_len >= 4) {
		len = (size_t)in[0] << 24 | in[1] << 16 | in[2] << 8 | in[3];
		if (len > HF_SENTRY_FRAME_MAX) {
			printf("host: frame of %zu bytes\n", len);
			hang_up();
			return;
		}
		if (in_len < 4 + len)
			break;
		on_frame(in + 4, len);
		if (connection < 0)
			return;
		memmove(in, in + 4 + len, in_len - 4 - len);
		in_len -= 4 + len;
	}
}

static void on_command(char *line)
{
	static const unsigned char junk[96] = { 0x7b };

	if (!strcmp(line, "acks on"))
		acks = true;
	else if (!strcmp(line, "acks off"))
		acks = false;
	else if (!strcmp(line, "close"))
		hang_up();
	else if (!strncmp(line, "close-after ", 12))
		close_after = atol(line + 12);
	else if (!strncmp(line, "close-before-welcome ", 21))
		refuse_welcomes = atol(line + 21);
	else if (!strcmp(line, "frames on"))
		hand_out = true;
	else if (!strcmp(line, "frames off"))
		hand_out = false;
	else if (!strncmp(line, "stall ", 6))
		stall_until = now_ms() + 1000 * atol(line + 6);
	else if (!strcmp(line, "listen off") && listener >= 0) {
		close(listener);
		listener = -1;
	} else if (!strcmp(line, "listen on") && listener < 0)
		listener = listen_for_sentry();
	else if (!strcmp(line, "garbage") && connection >= 0) {
		send(connection, junk, sizeof(junk), MSG_NOSIGNAL);
		say(HF_SENTRY_ACK, "\0\0\0\0\0\0\377\377", 8, true);
	}
	printf("host: command %s\n", line);
}

int main(int argc, char **argv)
{
	long next_ack = 0, next_challenge = 0;
	struct termios raw;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 4 || sodium_init() < 0)
		return 2;
	derive(argv[1]);
	frames = open(argv[2], O_WRONLY | O_NOCTTY);
	control = open(argv[3], O_RDWR | O_NONBLOCK);
	if (frames < 0 || control < 0)
		die("open");
	if (!tcgetattr(frames, &raw)) {
		cfmakeraw(&raw);
		tcsetattr(frames, TCSANOW, &raw);
	}
	listener = listen_for_sentry();
	for (;;) {
		bool stalled = now_ms() < stall_until;
		struct pollfd p[3] = {
			{ .fd = control, .events = POLLIN },
			{ .fd = connection < 0 ? listener : -1, .events = POLLIN },
			{ .fd = stalled ? -1 : connection, .events = POLLIN },
		};

		poll(p, 3, 50);
		if (p[0].revents)
			read_commands(control, on_command);
		if (p[1].revents && listener >= 0) {
			connection = accept(listener, NULL, NULL);
			got_bytes = 0;
		}
		if (p[2].revents && connection >= 0)
			on_bytes();
		if (connection >= 0 && in_order && acks && now_ms() >= next_ack) {
			acknowledge();
			next_ack = now_ms() + 200;
		}
		if (connection >= 0 && in_order && now_ms() >= next_challenge) {
			unsigned char challenge[32] = { 0 };

			challenge[31] = ++nonce;
			say(HF_SENTRY_CHALLENGE, challenge, sizeof(challenge), false);
			next_challenge = now_ms() + 2000;
		}
	}
}
