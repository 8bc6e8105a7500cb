/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The compiled programs of a set of filters, for tests and measurements. */
#ifndef LIB_SANDBOX_FILTER_H
#define LIB_SANDBOX_FILTER_H

#include "lib/sandbox/sandbox.h"

struct sock_filter;

/* The i-th program's instructions and their count; 0 when there is no such program. */
size_t sandbox_filters_code(const struct sandbox_filters *f, unsigned i, const struct sock_filter **code);

#endif
