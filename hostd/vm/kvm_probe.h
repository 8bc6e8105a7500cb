/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does KVM run guest code here? Found out by running some. */
#ifndef HOLDFAST_HOSTD_VM_KVM_PROBE_H
#define HOLDFAST_HOSTD_VM_KVM_PROBE_H

#include "lib/err.h"

enum { KVM_PROBE_MS = 3000 };

/*
 * Runs a short loop in a guest of its own, in a child with a timeout: there are machines where
 * /dev/kvm opens and no guest makes progress. 0 if it works; -1 with the cause. Blocks at
 * most KVM_PROBE_MS.
 */
int kvm_probe(struct err *err);

#endif
