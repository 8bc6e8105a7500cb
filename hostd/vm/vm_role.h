/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `hostd vm`: the process that is one VM's monitor. */
#ifndef HOLDFAST_HOSTD_VM_VM_ROLE_H
#define HOLDFAST_HOSTD_VM_VM_ROLE_H

/*
 * Serves hostd on this SOCK_SEQPACKET socket (docs/protocol/role.md) until its VM is over. Returns
 * the exit code of the process. Takes the descriptor.
 */
int vm_role_main(int hostd_fd);

#endif
