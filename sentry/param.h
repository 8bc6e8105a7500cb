/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The module's parameters; those that can be set after the load go one way only. */
#ifndef SENTRY_PARAM_H
#define SENTRY_PARAM_H

#include <linux/types.h>
#include <holdfast/sentry.h>

extern unsigned int sentry_param_cid, sentry_param_port, sentry_param_landlock_abi;
extern unsigned int sentry_param_dedup_ms, sentry_param_flow_dedup_ms;

/* Read the boot id and derive the keys from the boot key that was passed. */
int sentry_param_init(void);

/* The module has loaded: parameters given to insmod take effect. */
void sentry_param_ready(void);

const char *sentry_param_boot_id(void);
bool sentry_param_is_local_port(u16 port);

struct sentry_phase {
	unsigned int phase;
	u32 pid; /* who set it; 0 while it is 0 */
	char comm[HF_SENTRY_COMM_MAX];
};
void sentry_param_phase(struct sentry_phase *phase);

#endif
