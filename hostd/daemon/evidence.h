/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `evidence export`, hostd's part: the state of a VM that stands still, its RAM, the row. */
#ifndef HOLDFAST_DAEMON_EVIDENCE_H
#define HOLDFAST_DAEMON_EVIDENCE_H

#include "hostd/daemon/workspace.h"

/* Answers with the workspace, without the values of its environment; with @ram after its RAM was written, and with a
 * descriptor of that image (an ELF core). Fails while the VM runs. */
void evidence_begin(struct workspace *ws, struct api_call *call, bool ram);
/* All was copied to @file; @sha256 is that of its list of digests, @stand what evidence_begin() gave. Fails if the VM runs,
 * or ran in between, or its disk was reset, or another hostd can't tell. */
void evidence_done(struct workspace *ws, struct api_call *call, const char *stand, const char *file, const char *sha256,
		   const char *author);

#endif
