/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The exec protocol on vsock 5800: frames, requests and exit codes that host and guest share. See
 * docs/protocol/exec.md. */
#ifndef HOLDFAST_EXEC_H
#define HOLDFAST_EXEC_H

#include <assert.h>
#include <stdint.h>

#define HF_EXEC_PORT 5800

/* Every message is u8 type, u32 length (big-endian), payload. */
#define HF_EXEC_HEADER_BYTES 5
#define HF_EXEC_DATA_MAX (64 * 1024)		/* stdin, stdout, stderr */
#define HF_EXEC_MESSAGE_MAX (10 * 1024 * 1024)	/* request and reply */
#define HF_EXEC_REQUEST_DEPTH 8
#define HF_EXEC_ARGV_MAX 4096			/* elements */
#define HF_EXEC_ENV_MAX 1024
#define HF_EXEC_SCROLLBACK (64 * 1024)		/* of a detached terminal, replayed on attach */

enum hf_exec_type {
	HF_EXEC_REQUEST = 1,	/* JSON, first message of the host, once */
	HF_EXEC_REPLY = 2,	/* JSON, first message of the guest (files write: after the data) */
	HF_EXEC_STDIN = 3,
	HF_EXEC_STDOUT = 4,
	HF_EXEC_STDERR = 5,
	HF_EXEC_RESIZE = 6,	/* u16 rows, u16 columns */
	HF_EXEC_SIGNAL = 7,	/* u8 signal number, to the foreground process group */
	HF_EXEC_EXIT = 8,	/* u8 kind, u8 value; last message of the guest */
	HF_EXEC_EOF = 9,	/* of stdin (from the host), of a file's bytes (either side) */
	HF_EXEC_ERROR = 10,	/* text; the connection ends */
};

enum hf_exec_exit {
	HF_EXEC_EXITED = 0,	/* value is the exit code */
	HF_EXEC_SIGNALED = 1,	/* value is the signal number */
};

/* In the reply's "code": what a client exits with when nothing was started. */
#define HF_EXEC_CODE_REFUSED 126	/* a step of the confinement, or the program, failed: see "step" */
#define HF_EXEC_CODE_NOT_READY 75	/* the sandbox is not up (yet): try again, or see the status */

#endif
