/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frames of the guest: the checks at the door, then the whole switch over its link.
 *
 * The input is one frame. It is judged as it is and once more with the source and the IP
 * checksum put right, so that the fuzzer gets past the door.
 */
#include <stdio.h>

#include "tests/fuzz/net_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int wire = -1;

static void drain(void)
{
	uint8_t b[65536];

	while (recv(wire, b, sizeof(b), MSG_DONTWAIT) > 0)
		;
}

static void over_the_link(const uint8_t *data, size_t size)
{
	uint8_t len[4];
	int sv[2];

	if (wire < 0) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) || switch_attach(fuzz_switch, sv[0], NULL))
			abort();
		wire = sv[1];
	}
	put_be32(len, (uint32_t)size);
	if (send(wire, len, 4, 0) != 4 || send(wire, data, size, 0) != (ssize_t)size)
		abort();
	loop_turn(fuzz_loop, 0, NULL);
	drain();
}

static void judge(const uint8_t *data, size_t size)
{
	enum switch_drop why = DROP_MAX;
	struct frame f;

	if (!frame_check(&f, &fuzz_switch->rules, data, size, &why)) {
		if (why >= DROP_MAX)
			abort();
		return;
	}
	if (f.len > size || (f.ethertype == ETHERTYPE_IPV4 &&
			     (f.l4 > f.len || f.payload > f.len || f.payload + f.payload_len != f.len)))
		abort();
	if (f.ethertype == ETHERTYPE_IPV4 && f.src.s_addr &&
	    f.src.s_addr != fuzz_switch->rules.guest_ip.s_addr)
		abort();
	if (frame_at(&f, f.len, 1) || !frame_at(&f, f.payload, f.payload_len))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t fixed[4096];

	fuzz_start();
	if (size > sizeof(fixed))
		return 0;
	judge(data, size);
	over_the_link(data, size);
	memcpy(fixed, data, size);
	if (size >= ETH_LEN + IP_LEN) {
		uint8_t *h = fixed + ETH_LEN;

		memcpy(fixed, fuzz_switch->rules.our_mac, 6);
		memcpy(fixed + 6, fuzz_switch->rules.guest_mac, 6);
		memcpy(h + 12, &fuzz_switch->rules.guest_ip, 4);
		put_be16(h + 10, 0);
		put_be16(h + 10, frame_csum_end(frame_csum_add(0, h, IP_LEN)));
		judge(fixed, size);
		over_the_link(fixed, size);
	}
	/* What is left open would fill the questions and hide the rest. */
	if (fuzz_switch->asks_open > SWITCH_ASKS_MAX / 2) {
		switch_cut(fuzz_switch, "fuzzer");
		switch_uncut(fuzz_switch);
		drain();
	}
	return 0;
}
