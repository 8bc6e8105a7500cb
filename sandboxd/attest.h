/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The attestor: which process owns a socket, from the live object. */
#ifndef SANDBOXD_ATTEST_H
#define SANDBOXD_ATTEST_H

#include <jansson.h>
#include <stdint.h>

#include "sandboxd/guest.h"

struct guest_flow {
	bool udp;
	uint16_t sport, dport;
	uint32_t dst;		/* IPv4, network order */
};

/* Answers a `who` (without its id). Never NULL unless memory is short. */
json_t *guest_attest_who(const struct guest *g, const struct guest_flow *flow);

#endif
