/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The proxy's CA and variables for everything in the workspace that the supervisor does not start itself. */
#ifndef SANDBOXD_TRUST_H
#define SANDBOXD_TRUST_H

#include <stdbool.h>

#include "sandboxd/step.h"

/*
 * Before the init of the root behind root_fd runs: the CA into /run, a bundle with the system's roots over
 * the system's, the variables into /etc/environment (PAM: cron, su, login) and the init's own defaults
 * (services, docker); with `sudo`, the variables' names into what sudo keeps. By bind mounts and files of /run
 * only. What cannot be done is a degraded step.
 */
void guest_trust_install(int root_fd, bool sudo, struct guest_steps *steps);

#endif
