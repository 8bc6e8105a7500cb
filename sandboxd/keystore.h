/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Java's store of trusted certificates, written without Java. */
#ifndef SANDBOXD_KEYSTORE_H
#define SANDBOXD_KEYSTORE_H

#include <stddef.h>

#include "lib/buf.h"

/*
 * Appends to `out` a keystore of type JKS with every certificate of a PEM text, named holdfast-0, holdfast-1 and so
 * on; its password is Java's own default, "changeit". Every JVM reads this type, whatever its default is
 * (keystore.type.compat). Certificates are not looked into. Returns how many, or -1 when memory is short.
 */
int guest_keystore_put(struct buf *out, const char *pem, size_t len);

#endif
