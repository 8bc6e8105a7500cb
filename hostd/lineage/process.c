/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The processes of one VM, by (pid, start_ns), as the Sentry's exec and exit events tell of them. */
#include "hostd/lineage/process.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/json.h"

/*
 * Theory of operation. A fixed array of entries, a hash from identity to entry, and a list in order of
 * use. A pid that is used again has another start_ns and so is another entry: it inherits nothing. An
 * exited process stays until it is pushed out, since its flows and children may be told of later.
 */
enum { BUCKETS = 8192, NONE = -1 };

struct entry {
	struct process process;
	int next_in_bucket;
	int newer, older; /* in order of use */
	bool used;
};

struct process_table {
	struct entry entries[PROCESS_KEPT_MAX];
	int buckets[BUCKETS];
	int newest, oldest;
	int filled;
};

static unsigned int bucket_of(int64_t pid, uint64_t start_ns)
{
	uint64_t x = (uint64_t)pid * 0x9e3779b97f4a7c15u ^ start_ns;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return (unsigned int)(x >> 32) % BUCKETS;
}

void process_table_clear(struct process_table *table)
{
	for (int i = 0; i < BUCKETS; i++)
		table->buckets[i] = NONE;
	table->newest = table->oldest = NONE;
	table->filled = 0;
}

struct process_table *process_table_new(void)
{
	struct process_table *table = calloc(1, sizeof(*table));

	if (table)
		process_table_clear(table);
	return table;
}

void process_table_free(struct process_table *table)
{
	free(table);
}

static void unlink_use(struct process_table *table, int i)
{
	struct entry *e = &table->entries[i];

	if (e->newer != NONE)
		table->entries[e->newer].older = e->older;
	else
		table->newest = e->older;
	if (e->older != NONE)
		table->entries[e->older].newer = e->newer;
	else
		table->oldest = e->newer;
}

static void link_newest(struct process_table *table, int i)
{
	struct entry *e = &table->entries[i];

	e->newer = NONE;
	e->older = table->newest;
	if (table->newest != NONE)
		table->entries[table->newest].newer = i;
	else
		table->oldest = i;
	table->newest = i;
}

static int find(const struct process_table *table, int64_t pid, uint64_t start_ns)
{
	int i = table->buckets[bucket_of(pid, start_ns)];

	while (i != NONE && (table->entries[i].process.pid != pid ||
			     table->entries[i].process.start_ns != start_ns))
		i = table->entries[i].next_in_bucket;
	return i;
}

static void unlink_bucket(struct process_table *table, int i)
{
	const struct process *p = &table->entries[i].process;
	int *at = &table->buckets[bucket_of(p->pid, p->start_ns)];

	while (*at != i)
		at = &table->entries[*at].next_in_bucket;
	*at = table->entries[i].next_in_bucket;
}

/* An entry for this identity, new or known, most recently used from now on. */
static struct process *take(struct process_table *table, int64_t pid, uint64_t start_ns)
{
	int i = find(table, pid, start_ns);
	unsigned int b;

	if (i != NONE) {
		unlink_use(table, i);
		link_newest(table, i);
		return &table->entries[i].process;
	}
	if (table->filled < PROCESS_KEPT_MAX) {
		i = table->filled++;
	} else {
		i = table->oldest;
		unlink_bucket(table, i);
		unlink_use(table, i);
	}
	b = bucket_of(pid, start_ns);
	table->entries[i] = (struct entry){ .process = { .pid = pid, .start_ns = start_ns },
					    .next_in_bucket = table->buckets[b], .used = true };
	table->buckets[b] = i;
	link_newest(table, i);
	return &table->entries[i].process;
}

static int64_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static bool is_plain(const char *arg)
{
	return *arg && !arg[strspn(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
					"_@%+=:,./-")];
}

static int put_quoted(struct buf *b, const char *arg)
{
	if (is_plain(arg))
		return buf_put_str(b, arg);
	if (buf_put_u8(b, '\''))
		return -1;
	for (; *arg; arg++)
		if (*arg == '\'' ? buf_put_str(b, "'\\''") : buf_put_u8(b, (uint8_t)*arg))
			return -1;
	return buf_put_u8(b, '\'');
}

char *process_command(const json_t *argv)
{
	struct buf b;
	json_t *arg;
	size_t i;
	char *text;

	buf_init(&b, PROCESS_COMMAND_MAX);
	json_array_foreach((json_t *)argv, i, arg)
		if ((i && buf_put_u8(&b, ' ')) || put_quoted(&b, json_string_value(arg) ? : "?")) {
			/* Cut at a whole character and say so. */
			b.len = b.len > PROCESS_COMMAND_MAX - 4 ? PROCESS_COMMAND_MAX - 4 : b.len;
			while (b.len && (b.data[b.len - 1] & 0xc0) == 0x80)
				b.len--;
			if (b.len && b.data[b.len - 1] >= 0xc0)
				b.len--;
			buf_put_str(&b, "...");
			break;
		}
	text = strndup(b.data ? (char *)b.data : "", b.len);
	buf_free(&b);
	return text;
}

static void take_exec(struct process_table *table, uint64_t seq, const json_t *event)
{
	struct process *p = take(table, number_of(event, "pid"), (uint64_t)number_of(event, "start_ns"));
	const json_t *parent = json_array_get(json_object_get(event, "chain"), 0);
	_cleanup_free_ char *command = process_command(json_object_get(event, "argv"));

	p->ppid = number_of(event, "ppid");
	p->parent_start_ns = (uint64_t)number_of(parent, "start_ns");
	p->exec_seq = seq;
	snprintf(p->path, sizeof(p->path), "%s", json_str(event, "path"));
	snprintf(p->command, sizeof(p->command), "%s", command ? command : "");
}

void process_table_event(struct process_table *table, const char *kind, uint64_t seq, const json_t *event)
{
	if (!strcmp(kind, "exec"))
		take_exec(table, seq, event);
}

const struct process *process_find(struct process_table *table, int64_t pid, uint64_t start_ns)
{
	int i = find(table, pid, start_ns);

	return i == NONE ? NULL : &table->entries[i].process;
}

/* One link: what the event says, and what the table knows beyond it. */
static json_t *chain_link(struct process_table *table, const json_t *said)
{
	int64_t pid = number_of(said, "pid");
	int64_t start_ns = number_of(said, "start_ns");
	const struct process *known = process_find(table, pid, (uint64_t)start_ns);
	const char *path = json_str(said, "path");
	json_t *link;

	if (!*path)
		path = json_str(said, "exe");
	if (!*path && known)
		path = known->path;
	link = json_pack("{s:I,s:I,s:s,s:s}", "pid", (json_int_t)pid, "start_ns", (json_int_t)start_ns,
			 "path", path, "comm", json_str(said, "comm"));
	if (link && known) {
		json_object_set_new(link, "command", json_string(known->command));
		json_object_set_new(link, "exec_seq", json_integer((json_int_t)known->exec_seq));
	}
	return link;
}

json_t *process_chain(struct process_table *table, const json_t *event)
{
	json_t *chain = json_array();
	json_t *said;
	size_t i;

	json_array_foreach(json_object_get(event, "chain"), i, said)
		json_array_append_new(chain, chain_link(table, said));
	return chain;
}
