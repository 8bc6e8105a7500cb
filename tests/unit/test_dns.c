/* SPDX-License-Identifier: GPL-2.0-or-later */
/* DNS queries of the guest: what is read, what is refused, what an answer looks like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "hostd/net/dns.h"

#define HEAD "\x12\x34\1\0\0\1\0\0\0\0\0\0"
#define WWW "\3www\7example\3com\0"
#define Q(bytes) (const uint8_t *)(bytes), sizeof(bytes) - 1

/* Parses a copy of exactly this length, so that ASan sees a read behind it. */
static int parse(struct dns_query *q, const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);
	int rcode;

	memcpy(copy, p, n);
	rcode = dns_query_parse(q, copy, n);
	free(copy);
	return rcode;
}

static void test_query(void **state)
{
	struct dns_query q;

	(void)state;
	assert_int_equal(parse(&q, Q(HEAD "\3wWw\7eXample\3com\0" "\0\1\0\1")), 0);
	assert_string_equal(q.name, "www.example.com");
	assert_int_equal(q.qtype, DNS_A);
	assert_int_equal(q.id, 0x1234);
	assert_true(q.recursion_desired);
	assert_int_equal(q.question_len, 21);
	assert_memory_equal(q.question, "\3wWw\7eXample", 12);
	assert_int_equal(parse(&q, Q("\x12\x34\1\0\0\1\0\0\0\0\0\1" WWW "\0\1\0\1"
				     "\0\0\x29\4\xd0\0\0\0\0\0\0")), 0); /* EDNS */
	assert_int_equal(parse(&q, Q("\x12\x34\1\0\0\1\0\0\0\0\0\1" WWW "\0\1\0\1"
				     "\0\0\x29\4\xd0\0\0\0\0\0\4\0\x0a\0\0")), 0);
	assert_int_equal(parse(&q, Q(HEAD "\0" "\0\2\0\1")), 0);
	assert_string_equal(q.name, "");
}

static void test_not_a_query(void **state)
{
	struct dns_query q;

	(void)state;
	assert_int_equal(parse(&q, Q("")), -1);
	assert_int_equal(parse(&q, Q("\x12\x34\1\0\0\1\0\0\0\0\0")), -1);
	assert_int_equal(parse(&q, Q("\x12\x34\x81\0\0\1\0\0\0\0\0\0" WWW "\0\1\0\1")), -1);
}

static void test_malformed(void **state)
{
	static const uint8_t whole[] = HEAD WWW "\0\1\0\1";
	struct dns_query q;
	uint8_t longest[12 + 300] = HEAD;

	(void)state;
	for (size_t n = 12; n < sizeof(whole) - 1; n++)
		assert_int_equal(parse(&q, whole, n), DNS_FORMERR);
	assert_int_equal(parse(&q, Q(HEAD WWW "\0\1\0\1" "x")), DNS_FORMERR);
	assert_int_equal(parse(&q, Q(HEAD "\xc0\x0c" "\0\1\0\1")), DNS_FORMERR); /* pointer */
	assert_int_equal(parse(&q, Q(HEAD "\3www\xc0\x0c" "\0\1\0\1")), DNS_FORMERR);
	assert_int_equal(parse(&q, Q(HEAD "\x40" "x\0" "\0\1\0\1")), DNS_FORMERR);
	assert_int_equal(parse(&q, Q("\x12\x34\1\0\0\2\0\0\0\0\0\0" WWW "\0\1\0\1" WWW "\0\1\0\1")),
			 DNS_FORMERR);
	assert_int_equal(parse(&q, Q("\x12\x34\1\0\0\0\0\0\0\0\0\0")), DNS_FORMERR);
	assert_int_equal(parse(&q, Q("\x12\x34\1\0\0\1\0\1\0\0\0\0" WWW "\0\1\0\1")), DNS_FORMERR);
	assert_int_equal(parse(&q, Q("\x12\x34\1\0\0\1\0\0\0\1\0\0" WWW "\0\1\0\1")), DNS_FORMERR);
	/* Additional data that is no OPT could carry something out with the question. */
	assert_int_equal(parse(&q, Q("\x12\x34\1\0\0\1\0\0\0\0\0\1" WWW "\0\1\0\1"
				     "\0\0\x10\0\1\0\0\0\0\0\0")), DNS_FORMERR);
	/* 4 labels of 63 are one byte too many for a name. */
	for (int i = 0; i < 4; i++) {
		longest[12 + i * 64] = 63;
		memset(longest + 13 + i * 64, 'a', 63);
	}
	memcpy(longest + 12 + 256, "\0\0\1\0\1", 5);
	assert_int_equal(parse(&q, longest, 12 + 256 + 5), DNS_FORMERR);
	longest[12 + 192] = 61;
	memcpy(longest + 12 + 192 + 62, "\0\0\1\0\1", 5);
	assert_int_equal(parse(&q, longest, 12 + 192 + 62 + 5), 0);
	assert_int_equal(strlen(q.name), 253);
}

static void test_odd(void **state)
{
	struct dns_query q;

	(void)state;
	assert_int_equal(parse(&q, Q("\x12\x34\x29\0\0\1\0\0\0\0\0\0" WWW "\0\1\0\1")), DNS_NOTIMP);
	assert_int_equal(parse(&q, Q(HEAD WWW "\0\1\0\3")), DNS_REFUSED); /* class CHAOS */
	assert_int_equal(parse(&q, Q(HEAD "\3w.w\7example\3com\0" "\0\1\0\1")), DNS_REFUSED);
	assert_int_equal(parse(&q, Q(HEAD "\3w\0w\7example\3com\0" "\0\1\0\1")), DNS_REFUSED);
	assert_int_equal(parse(&q, Q(HEAD "\3w\xc3\xa9\7example\3com\0" "\0\1\0\1")), DNS_REFUSED);
}

static void test_hostnames(void **state)
{
	static const char *const good[] = { "a", "www.example.com", "_dmarc.example.com", "x--y.test",
					    "xn--bcher-kva.example", "1.2.3.4.example", "a.b1" };
	static const char *const bad[] = { "", ".", "a..b", "a.", ".a", "1.2.3.4", "127.1", "2130706433",
					   "0x7f.1", "0x7f000001", "a b", "A.example", "a?b.test" };

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(dns_name_is_hostname(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(dns_name_is_hostname(bad[i]));
}

static void test_answer(void **state)
{
	static const uint8_t expected[] =
		"\x12\x34\x81\x80\0\1\0\2\0\0\0\0" WWW "\0\1\0\1"
		"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1"
		"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\2";
	struct in_addr a[12];
	uint8_t out[DNS_MESSAGE_MAX];
	struct dns_query q;

	(void)state;
	for (int i = 0; i < 12; i++)
		a[i].s_addr = htonl(0xc0000201u + (uint32_t)i);
	assert_int_equal(parse(&q, Q(HEAD WWW "\0\1\0\1")), 0);
	assert_int_equal(dns_answer_build(out, &q, DNS_NOERROR, a, 2, 60), sizeof(expected) - 1);
	assert_memory_equal(out, expected, sizeof(expected) - 1);
	assert_int_equal(dns_answer_build(out, &q, DNS_NOERROR, a, 12, 60),
			 12 + 21 + 16 * SWITCH_DEST_MAX);
	assert_int_equal(dns_answer_build(out, &q, DNS_REFUSED, NULL, 0, 0), 12 + 21);
	assert_int_equal(out[3], 0x85);
	assert_int_equal(parse(&q, Q(HEAD "\3www")), DNS_FORMERR);
	assert_int_equal(dns_answer_build(out, &q, DNS_FORMERR, NULL, 0, 0), 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_query),	  cmocka_unit_test(test_not_a_query),
		cmocka_unit_test(test_malformed), cmocka_unit_test(test_odd),
		cmocka_unit_test(test_hostnames), cmocka_unit_test(test_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
