/* SPDX-License-Identifier: GPL-2.0-or-later */
/* DNS queries of the guest: the parser, and what an answer to them is made of. */
#include <stdio.h>

#include "hostd/net/dns.h"
#include "tests/fuzz/net_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[DNS_MESSAGE_MAX];
	struct in_addr a[SWITCH_DEST_MAX] = { 0 };
	struct dns_query q;
	struct frame f;
	int rcode;

	fuzz_start();
	rcode = dns_query_parse(&q, data, size);
	if (rcode >= 0 &&
	    dns_answer_build(out, &q, rcode, a, SWITCH_DEST_MAX, 1) > DNS_MESSAGE_MAX)
		abort();
	if (strlen(q.name) >= SWITCH_NAME_MAX || q.question_len > sizeof(q.question))
		abort();
	if (rcode == 0 && dns_name_is_hostname(q.name) && strpbrk(q.name, "?/ \\"))
		abort();
	f = fuzz_frame(data, size, 1000, 53);
	dns_input(fuzz_switch, &f);
	return 0;
}
