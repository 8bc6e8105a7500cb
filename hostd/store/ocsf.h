/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows as events of the Open Cybersecurity Schema Framework, version 1.5.0. */
#ifndef HOSTD_STORE_OCSF_H
#define HOSTD_STORE_OCSF_H

#include "hostd/store/store.h"

/* The event of a row, or NULL if its kind has no OCSF class. The caller owns it. */
json_t *ocsf_event(const struct store_row *row);

#endif
