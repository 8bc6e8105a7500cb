/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The API's framing, shared by its server in hostd and its client in the CLI (docs/protocol/api.md). */
#ifndef HOLDFAST_API_API_H
#define HOLDFAST_API_API_H

enum {
	API_VERSION = 1,
	API_FRAME_MAX = 8 * 1024 * 1024, /* one JSON object */
	API_CONNECTIONS_MAX = 64,
	API_CALLS_MAX = 16,		 /* open at once on one connection */
};

#endif
