/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the thread remembers of programs, so that a chain can name its ancestors. Thread only. */
#ifndef SENTRY_PROGRAM_H
#define SENTRY_PROGRAM_H

#include "record.h"

struct sentry_program {
	u64 start_ns;
	u64 used_ns; /* 0: free slot */
	u32 pid, exec_id;
	u16 exe_len, args_len;
	bool args_truncated;
	u8 exe[HF_SENTRY_PATH_MAX];
	u8 args[HF_SENTRY_ARG_MAX]; /* joined by spaces */
};

int sentry_program_init(void);

/* An exec record has passed: remember its program. */
void sentry_program_exec(const struct sentry_record *record);

/* The program of a process: known from its exec, or looked up now if it still runs the same image. NULL if neither. May sleep. */
const struct sentry_program *sentry_program_find(const struct sentry_process *process);

/* The executable of a process that still runs this image, or NULL; the caller gives it back with fput(). May sleep. */
struct file *sentry_program_file(const struct sentry_process *process);

/* Whether the exec of this process was seen with another executable than this one. */
bool sentry_program_differs(const struct sentry_process *process, const u8 *exe, size_t len);

size_t sentry_program_bytes(void);

#endif
