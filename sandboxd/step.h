/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The named steps of early launch and set-up: what landed, how long it took, what failed on what and why. */
#ifndef SANDBOXD_STEP_H
#define SANDBOXD_STEP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"

enum { GUEST_STEPS_MAX = 64 };

/* Names and paths are literals or live as long as the list. */
struct guest_step {
	const char *name;
	bool ok;
	uint32_t ms;		/* after the start of this process */
	int error_nr;
	char path[128];
	char text[256];
};

struct guest_steps {
	struct guest_step list[GUEST_STEPS_MAX];
	size_t count;
	const struct guest_step *failed;	/* the first that ends the launch, or NULL */
};

void guest_step_ok(struct guest_steps *s, const char *name);

/* A step that did not land and does not end the launch. */
void guest_step_degraded(struct guest_steps *s, const char *name, const char *path, int error_nr, const char *text);

/* One that does: shown on the console as well. Always -1. */
int guest_step_failed(struct guest_steps *s, const char *name, const char *path, int error_nr, const char *text);

json_t *guest_step_json(const struct guest_step *step);
json_t *guest_steps_json(const struct guest_steps *s);

/* One line on the kernel's log and the console, whatever stderr is. */
void guest_console(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Where guest_console() writes; -1 for nowhere. */
void guest_console_fd(int fd);

#endif
