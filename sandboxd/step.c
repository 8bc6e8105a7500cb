// SPDX-License-Identifier: GPL-2.0-or-later
/* Records the steps of a launch and shows failures on the console. */
#include "sandboxd/step.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <holdfast/guest.h>

#include "lib/loop.h"

static int console_fd = STDERR_FILENO;

void guest_console_fd(int fd)
{
	console_fd = fd;
}

void guest_console(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	if (console_fd < 0)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	dprintf(console_fd, "%s\n", line);
}

static struct guest_step *append(struct guest_steps *s, const char *name)
{
	static uint64_t start_ms;
	struct guest_step *step;

	if (!start_ms)
		start_ms = loop_now_ms();
	if (s->count == GUEST_STEPS_MAX)
		s->count--;
	step = &s->list[s->count++];
	memset(step, 0, sizeof(*step));
	step->name = name;
	step->ms = (uint32_t)(loop_now_ms() - start_ms);
	return step;
}

void guest_step_ok(struct guest_steps *s, const char *name)
{
	append(s, name)->ok = true;
}

static struct guest_step *bad(struct guest_steps *s, const char *name, const char *path, int error_nr,
			      const char *text)
{
	struct guest_step *step = append(s, name);

	step->error_nr = error_nr;
	snprintf(step->path, sizeof(step->path), "%s", path ? path : "");
	snprintf(step->text, sizeof(step->text), "%s", text && *text ? text : strerror(error_nr));
	return step;
}

void guest_step_degraded(struct guest_steps *s, const char *name, const char *path, int error_nr, const char *text)
{
	const struct guest_step *step = bad(s, name, path, error_nr, text);

	guest_console("holdfast: degraded: %s%s%s: %s", name, *step->path ? " " : "", step->path, step->text);
}

int guest_step_failed(struct guest_steps *s, const char *name, const char *path, int error_nr, const char *text)
{
	struct guest_step *step = bad(s, name, path, error_nr, text);

	if (!s->failed)
		s->failed = step;
	guest_console(HF_CONSOLE_FAILED "%s%s%s: %s", name, *step->path ? " " : "", step->path, step->text);
	return -1;
}

json_t *guest_step_json(const struct guest_step *step)
{
	if (step->ok)
		return json_pack("{s:s, s:b, s:i}", "name", step->name, "ok", 1, "ms", (int)step->ms);
	return json_pack("{s:s, s:b, s:i, s:s, s:i, s:s}", "name", step->name, "ok", 0, "ms", (int)step->ms, "path",
			 step->path, "errno", step->error_nr, "error", step->text);
}

json_t *guest_steps_json(const struct guest_steps *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->count; i++)
		json_array_append_new(list, guest_step_json(&s->list[i]));
	return list;
}
