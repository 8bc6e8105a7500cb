/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the queue holds: rows, entries, and what is known of workspaces, boots and their state. */
#include "hostd/store/store.h"

#include <stdlib.h>
#include <string.h>

#include "hostd/store/store_parts.h"

static void row_free(struct item_row *r)
{
	free(r->sentence);
	free(r);
}

void st_rows_free(struct item_row *r)
{
	for (struct item_row *next; r; r = next) {
		next = r->next;
		row_free(r);
	}
}

void st_unit_free(struct unit *u)
{
	if (!u)
		return;
	st_rows_free(u->rows);
	for (struct item_frame *f = u->frames, *next; f; f = next) {
		next = f->next;
		free(f);
	}
	for (struct item_state *s = u->states, *next; s; s = next) {
		next = s->next;
		free(s->key);
		free(s->json);
		free(s);
	}
	free(u);
}

/* One allocation for a row and its strings. */
struct item_row *st_row_copy(const struct store_row *r, const char *ws, const char *subject, const char *data)
{
	const char *from[4] = { ws, r->boot ? r->boot : "", subject, data };
	size_t len[4], total = sizeof(struct item_row);
	struct item_row *item;
	char *at;

	for (int i = 0; i < 4; i++)
		total += len[i] = strlen(from[i]) + 1;
	item = calloc(1, total);
	if (!item)
		return NULL;
	item->r = *r;
	item->bytes = total;
	at = (char *)(item + 1);
	for (int i = 0; i < 4; i++) {
		memcpy(at, from[i], len[i]);
		*(const char **[]){ &item->r.ws, &item->r.boot, &item->r.subject, &item->r.data }[i] = at;
		at += len[i];
	}
	return item;
}

struct wsinfo *st_ws_find(struct store *s, const char *name)
{
	for (struct wsinfo *w = s->workspaces; w; w = w->next)
		if (!strcmp(w->name, name))
			return w;
	return NULL;
}

struct wsinfo *st_ws_get(struct store *s, const char *name)
{
	struct wsinfo *w = st_ws_find(s, name);

	if (w)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->next = s->workspaces;
	s->workspaces = w;
	return w;
}

struct boot *st_boot_find(struct wsinfo *w, const char *boot, uint32_t epoch)
{
	for (struct boot *b = w ? w->boots : NULL; b; b = b->next)
		if (b->epoch == epoch && !strcmp(b->boot, boot))
			return b;
	return NULL;
}

struct boot *st_boot_get(struct wsinfo *w, const char *boot, uint32_t epoch)
{
	struct boot *b = st_boot_find(w, boot, epoch);

	if (b)
		return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	snprintf(b->boot, sizeof(b->boot), "%s", boot);
	b->epoch = epoch;
	b->next = w->boots;
	w->boots = b;
	return b;
}

void st_state_set(struct wsinfo *w, const char *key, const char *json)
{
	struct state **p = &w->states, *s;

	while (*p && strcmp((*p)->key, key) != 0)
		p = &(*p)->next;
	s = *p;
	if (!json) {
		if (s) {
			*p = s->next;
			free(s->key);
			free(s->json);
			free(s);
		}
		return;
	}
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return;
		s->key = strdup(key);
		*p = s;
	}
	free(s->json);
	s->json = strdup(json);
}
