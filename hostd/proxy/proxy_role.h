/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `hostd proxy`: the process that will hold a workspace's credentials; its contract and confinement. */
#ifndef HOLDFAST_PROXY_PROXY_ROLE_H
#define HOLDFAST_PROXY_PROXY_ROLE_H

/*
 * Confines itself, then serves its message table on this socket until hostd closes it. It takes no
 * traffic yet: the table has STATUS alone (docs/protocol/role.md). Returns the exit code.
 */
int proxy_role_main(int hostd_fd);

/* hostd -> hostd proxy, and back. */
enum role_proxy { ROLE_PROXY_STATUS = 1, ROLE_PROXY_DONE = 101 };

#endif
