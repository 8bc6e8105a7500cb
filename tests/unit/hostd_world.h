/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostd in a process of the test, in folders of its own, and what a VM's role says to it. */
#ifndef TESTS_UNIT_HOSTD_WORLD_H
#define TESTS_UNIT_HOSTD_WORLD_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/role.h>

#include "hostd/daemon/daemon.h"
#include "lib/buf.h"
#include "lib/io.h"
#include "lib/json.h"

static char hostd_dir[] = "/tmp/hf-hostd-XXXXXX";
static struct hostd hostd;

/* Folders and paths; the loop, the store and the API are the test's to open. */
static inline void hostd_world_make(void)
{
	struct err err;

	assert_non_null(mkdtemp(hostd_dir));
	setenv("XDG_DATA_HOME", hostd_dir, 1);
	setenv("XDG_CONFIG_HOME", hostd_dir, 1);
	setenv("XDG_RUNTIME_DIR", hostd_dir, 1);
	hostd.spawner = -1;
	assert_int_equal(paths_init(&hostd.paths, &err), 0);
}

static inline int hostd_world_remove(void **state)
{
	(void)state;
	return io_remove_tree(AT_FDCWD, hostd_dir, NULL);
}

/* For a test that has hostd's parts in its own process: they live as long as it does. */
static inline _Noreturn void hostd_world_exit(int failed)
{
	fflush(NULL);
	_exit(failed);
}

/* hostd's own methods of these names, into a table of the test's. */
static inline void take_methods(struct api_method *into, const char *const *wanted)
{
	for (const struct api_method *m = daemon_methods; m->name; m++)
		for (const char *const *w = wanted; *w; w++)
			if (!strcmp(*w, m->name))
				*into++ = *m;
}

/* A message of the role; json is consumed. */
static inline void say(int role, uint16_t type, json_t *json)
{
	char *text = json_text(json);
	struct buf b;

	buf_init(&b, 65536);
	buf_put_u16(&b, type);
	buf_put_u16(&b, 0);
	buf_put_u32(&b, (uint32_t)strlen(text));
	buf_put_u32(&b, 0);
	buf_put_str(&b, text);
	assert_int_equal(send(role, b.data, b.len, MSG_NOSIGNAL), b.len);
	buf_free(&b);
	free(text);
	json_decref(json);
}

static inline void say_state(int role, const char *state, const char *reason)
{
	say(role, ROLE_VM_STATE, json_pack("{s:s,s:s}", "state", state, "reason", reason));
}

#endif
