/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lower-case hexadecimal. */
#ifndef HOLDFAST_LIB_HEX_H
#define HOLDFAST_LIB_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Writes 2*n digits and a NUL to out. */
void hex_encode(char *out, const uint8_t *in, size_t n);
/* Needs exactly 2*n lower-case digits followed by NUL. 0 or -1. */
int hex_decode(uint8_t *out, size_t n, const char *in);

#endif
