/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostd's alerts: the queue, the children that deliver, `alerts test`. */
#ifndef HOLDFAST_DAEMON_ALERTS_H
#define HOLDFAST_DAEMON_ALERTS_H

#include "hostd/alert/alert.h"
#include "hostd/daemon/daemon.h"

struct alerts;

/* Reads config/alerts.json (a broken one is logged and the default is used) and what still waits. */
struct alerts *alerts_new(struct hostd *hostd);
void alerts_free(struct alerts *alerts);
void alerts_tick(struct alerts *alerts);
/* Sends the alert of a trip; @state says what was done. */
void alerts_send(struct alerts *alerts, const struct ingest_alert *trip, const char *state);
/* "alerts.test": one alert through every channel, one try each; answers {channels: [{channel, on, ok, error}]}. */
void alerts_test(struct alerts *alerts, struct api_call *call, const char *author);

#endif
