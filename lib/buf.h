/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One growable, capped byte buffer for writing and one bounded reader for hostile bytes. */
#ifndef HOLDFAST_LIB_BUF_H
#define HOLDFAST_LIB_BUF_H

#include <stddef.h>
#include <stdint.h>

/* Integers are big-endian. All put functions return 0, or -1 at the cap or out of memory
 * (the buffer then keeps what it had). */
struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	size_t max;
};

void buf_init(struct buf *b, size_t max);
void buf_free(struct buf *b);
/* Forgets the first n bytes (all, when n exceeds len). */
void buf_drop(struct buf *b, size_t n);
void buf_clear(struct buf *b);
/* Makes room for n more bytes and returns where they go, or NULL; raise b->len after filling. */
uint8_t *buf_room(struct buf *b, size_t n);
int buf_put(struct buf *b, const void *p, size_t n);
int buf_put_u8(struct buf *b, uint8_t v);
int buf_put_u16(struct buf *b, uint16_t v);
int buf_put_u32(struct buf *b, uint32_t v);
int buf_put_u64(struct buf *b, uint64_t v);
int buf_put_str(struct buf *b, const char *s);
int buf_putf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes sure a NUL stands behind the data (not counted in len); NULL at the cap. */
char *buf_cstr(struct buf *b);

/* Reader: every getter returns 0, or -1 when fewer bytes are left (nothing is consumed then). */
struct rd {
	const uint8_t *p;
	size_t left;
};

void rd_init(struct rd *r, const void *p, size_t n);
int rd_u8(struct rd *r, uint8_t *v);
int rd_u16(struct rd *r, uint16_t *v);
int rd_u32(struct rd *r, uint32_t *v);
int rd_u64(struct rd *r, uint64_t *v);
/* Points into the input, valid as long as it is. */
int rd_bytes(struct rd *r, const uint8_t **p, size_t n);
int rd_copy(struct rd *r, void *out, size_t n);
int rd_skip(struct rd *r, size_t n);

#endif
