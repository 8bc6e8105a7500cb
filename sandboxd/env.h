/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The environment of a session: built from nothing, never inherited. */
#ifndef SANDBOXD_ENV_H
#define SANDBOXD_ENV_H

#include <jansson.h>
#include <stdbool.h>

#include "sandboxd/identity.h"

/* Whether a variable of the caller's may pass: not one that makes a program load or run a file. */
bool guest_env_allowed(const char *name);

struct guest_env {
	char **list;		/* NULL-terminated "NAME=value" */
	size_t count;
};

/*
 * Base variables of this user, proxy and CA variables with proxy (the CA's only where its file exists below
 * root_fd), then the caller's, which win. Names that are dropped are appended to dropped (array). -1 when
 * a value is no string or there are too many.
 */
int guest_env_build(struct guest_env *env, int root_fd, const struct guest_identity *id, bool proxy,
		    const char *term, const json_t *extra, json_t *dropped, struct err *e);
/* The proxy's variables alone, those of the CA with ca: for programs that we do not start. */
int guest_env_proxy(struct guest_env *env, bool ca, struct err *e);
void guest_env_free(struct guest_env *env);

/* Where the bundle of the system's roots and the proxy's CA lies in the guest. */
#define GUEST_CA_BUNDLE "/run/holdfast/ca-bundle.crt"
#define GUEST_CA_FILE "/run/holdfast/ca.crt"
#define GUEST_KEYSTORE "/run/holdfast/cacerts.jks"

#endif
