/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One growable, capped byte buffer for writing and one bounded reader for hostile bytes. */
#include "lib/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_free(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
}

void buf_drop(struct buf *b, size_t n)
{
	if (n >= b->len) {
		b->len = 0;
		return;
	}
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
}

uint8_t *buf_room(struct buf *b, size_t n)
{
	size_t want, cap;
	uint8_t *data;

	if (n > b->max || b->len > b->max - n)
		return NULL;
	want = b->len + n;
	if (want <= b->cap && b->data)
		return b->data + b->len;
	cap = b->cap ? b->cap : 256;
	while (cap < want)
		cap = cap > b->max / 2 ? b->max : cap * 2;
	data = realloc(b->data, cap ? cap : 1);
	if (!data)
		return NULL;
	b->data = data;
	b->cap = cap;
	return b->data + b->len;
}

int buf_put(struct buf *b, const void *p, size_t n)
{
	uint8_t *to = buf_room(b, n);

	if (!to)
		return -1;
	if (n)
		memcpy(to, p, n);
	b->len += n;
	return 0;
}

int buf_put_u8(struct buf *b, uint8_t v)
{
	return buf_put(b, &v, 1);
}

static int put_be(struct buf *b, uint64_t v, size_t n)
{
	uint8_t be[8];

	for (size_t i = 0; i < n; i++)
		be[i] = (uint8_t)(v >> (8 * (n - 1 - i)));
	return buf_put(b, be, n);
}

int buf_put_u16(struct buf *b, uint16_t v)
{
	return put_be(b, v, 2);
}

int buf_put_u32(struct buf *b, uint32_t v)
{
	return put_be(b, v, 4);
}

int buf_put_u64(struct buf *b, uint64_t v)
{
	return put_be(b, v, 8);
}

int buf_put_str(struct buf *b, const char *s)
{
	return buf_put(b, s, strlen(s));
}

int buf_putf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int need;
	uint8_t *to;

	va_start(ap, fmt);
	need = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (need < 0)
		return -1;
	to = buf_room(b, (size_t)need + 1);
	if (!to)
		return -1;
	va_start(ap, fmt);
	vsnprintf((char *)to, (size_t)need + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)need;
	return 0;
}

char *buf_cstr(struct buf *b)
{
	uint8_t *end = buf_room(b, 1);

	if (!end)
		return NULL;
	*end = 0;
	return (char *)b->data;
}

void rd_init(struct rd *r, const void *p, size_t n)
{
	r->p = p;
	r->left = n;
}

int rd_bytes(struct rd *r, const uint8_t **p, size_t n)
{
	if (n > r->left)
		return -1;
	*p = r->p;
	r->p += n;
	r->left -= n;
	return 0;
}

static int get_be(struct rd *r, uint64_t *v, size_t n)
{
	const uint8_t *p;

	if (rd_bytes(r, &p, n))
		return -1;
	*v = 0;
	for (size_t i = 0; i < n; i++)
		*v = *v << 8 | p[i];
	return 0;
}

int rd_u8(struct rd *r, uint8_t *v)
{
	return rd_copy(r, v, 1);
}

int rd_u16(struct rd *r, uint16_t *v)
{
	uint64_t wide;

	if (get_be(r, &wide, 2))
		return -1;
	*v = (uint16_t)wide;
	return 0;
}

int rd_u32(struct rd *r, uint32_t *v)
{
	uint64_t wide;

	if (get_be(r, &wide, 4))
		return -1;
	*v = (uint32_t)wide;
	return 0;
}

int rd_u64(struct rd *r, uint64_t *v)
{
	return get_be(r, v, 8);
}

int rd_copy(struct rd *r, void *out, size_t n)
{
	const uint8_t *p;

	if (rd_bytes(r, &p, n))
		return -1;
	if (n)
		memcpy(out, p, n);
	return 0;
}

int rd_skip(struct rd *r, size_t n)
{
	const uint8_t *p;

	return rd_bytes(r, &p, n);
}
