/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `timeline --follow`: new rows to every client that asked for them. */
#include <stdlib.h>
#include <string.h>

#include "hostd/daemon/daemon.h"
#include "hostd/store/query.h"

enum { FOLLOWS_MAX = 16 };

struct follow {
	struct hostd *hostd;
	struct follow *next;
	struct api_call *call;
	json_t *params; /* query's strings point into it */
	struct query query;
};

static void follow_end(void *user)
{
	struct follow *f = user;
	struct follow **at = &f->hostd->follows;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	json_decref(f->params);
	free(f);
}

void follow_add(struct hostd *hostd, struct api_call *call, const json_t *params)
{
	struct follow *f = NULL;
	struct err err;
	size_t n = 0;

	for (f = hostd->follows; f; f = f->next)
		n++;
	f = n < FOLLOWS_MAX ? calloc(1, sizeof(*f)) : NULL;
	if (!f) {
		api_fail(call, "too many commands follow the timeline");
		return;
	}
	*f = (struct follow){ .hostd = hostd, .call = call, .params = json_deep_copy(params) };
	if (query_from_json(f->params, &f->query, &err)) {
		api_fail_err(call, &err);
		json_decref(f->params);
		free(f);
		return;
	}
	f->next = hostd->follows;
	hostd->follows = f;
	api_call_on_cancel(call, follow_end, f);
}

void follow_row(struct hostd *hostd, const struct store_row *row)
{
	struct follow *next;

	for (struct follow *f = hostd->follows; f; f = next) {
		next = f->next;
		if (!query_fits(&f->query, row))
			continue;
		if (api_push(f->call, query_row_json(row))) {
			struct api_call *call = f->call;

			follow_end(f);
			api_fail(call, "rows came faster than they were read; start --follow again");
		}
	}
}
