/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the test driver share: expectations, children, 32-bit system calls. */
#ifndef DRIVE_H
#define DRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Print what rig.py shall find. The format makes a JSON object. */
void expect(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
void absent(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check(const char *name, bool good, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Say on the console how far a long part is, each 10 000th time; rig.py shows it while the guest runs. */
void progress(const char *what, long done);

/* Run function in a child; returns its pid after it has ended. *status may be NULL. */
pid_t in_child(void (*function)(void *), void *data, int *status);
/* Fork a child that waits for go() before it runs function. */
struct waiting { pid_t pid; int pipe; };
struct waiting child_waits(void (*function)(void *), void *data);
void go(struct waiting *child, int *status);

/* A system call through int 0x80; pointers must lie below 4 GiB (see low()). Returns -errno on failure. */
long int80(long number, long a, long b, long c, long d, long e);
/* Copy bytes to memory below 4 GiB. */
void *low(const void *bytes, size_t len);

/* Start of a process in ticks of 1/100 s, as /proc/PID/stat has it. */
unsigned long long start_ticks(pid_t pid);
/* A process that runs the program of this path, or 0. */
pid_t process_of(const char *program);
void write_text(const char *path, const char *text);
int try_write(const char *path, const char *text); /* 0 or -errno */
void copy_self(const char *path, unsigned int mode);
void pause_ms(long ms);

/* The parts: name, what it does. */
struct part { const char *name; void (*run)(char **words); };
extern const struct part exec_parts[], flow_parts[], hash_parts[], kernel_parts[], sandbox_parts[], attack_parts[], bench_parts[],
	debug_parts[], peer_parts[];

#endif
