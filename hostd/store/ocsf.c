/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows as OCSF events: Process Activity, File System Activity, Network Activity, Detection Finding.
 *
 * What a class has no attribute for stays under "unmapped", so nothing of a row is lost on the way to a SIEM.
 */
#include "hostd/store/ocsf.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/json.h"

#define OCSF_VERSION "1.5.0"

enum severity { SEV_INFO = 1, SEV_LOW, SEV_MEDIUM, SEV_HIGH, SEV_CRITICAL };
enum activity_process { PROC_LAUNCH = 1, PROC_TERMINATE, PROC_OPEN, PROC_INJECT, PROC_SET_USER, PROC_OTHER = 99 };
enum activity_file { FILE_CREATE = 1, FILE_READ, FILE_UPDATE, FILE_DELETE, FILE_RENAME, FILE_OPEN = 14, FILE_OTHER = 99 };
enum activity_network { NET_OPEN = 1, NET_CLOSE, NET_REFUSE = 5, NET_OTHER = 99 };

static const char *text(const json_t *data, const char *key)
{
	const char *s = json_string_value(json_object_get(data, key));

	return s && *s ? s : NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static enum severity severity_of(const struct store_row *row)
{
	if (row->weight >= 20)
		return SEV_CRITICAL;
	if (row->weight >= 10 || row->verdict == VERDICT_ALARM)
		return SEV_HIGH;
	if (row->weight >= 3 || row->verdict == VERDICT_WARNING)
		return SEV_MEDIUM;
	return row->weight || row->verdict == VERDICT_DENIED ? SEV_LOW : SEV_INFO;
}

static json_t *file_json(const char *path)
{
	return json_pack("{s:s,s:s,s:i}", "name", base_name(path), "path", path, "type_id", 1);
}

/* argv as one line; arguments with blanks are quoted. */
static json_t *cmd_line(const json_t *argv)
{
	struct buf b;
	const json_t *arg;
	json_t *line;
	size_t i;

	buf_init(&b, 8192);
	json_array_foreach (argv, i, arg) {
		const char *s = json_string_value(arg);

		if (!s)
			continue;
		if (i)
			buf_put_str(&b, " ");
		if (*s && !strpbrk(s, " \t\n'\""))
			buf_put_str(&b, s);
		else
			buf_putf(&b, "\"%s\"", s);
	}
	line = b.len ? json_stringn((const char *)b.data, b.len) : json_string("");
	buf_free(&b);
	return line;
}

static const char *program_of(const struct store_row *row, const json_t *data)
{
	const char *p = text(data, "program");

	if (!p)
		p = row->kind == EVENT_EXEC ? text(data, "path") : text(data, "exe");
	return p ? p : text(data, "comm");
}

static json_t *process_json(const struct store_row *row, const json_t *data)
{
	const char *program = program_of(row, data);
	const json_t *argv = json_object_get(data, "argv");
	json_t *p = json_object(), *pid = json_object_get(data, "pid"), *uid = json_object_get(data, "uid");
	char id[64];

	if (program) {
		json_object_set_new(p, "name", json_string(base_name(program)));
		if (*program == '/')
			json_object_set_new(p, "file", file_json(program));
	}
	if (json_is_integer(pid)) {
		json_object_set(p, "pid", pid);
		snprintf(id, sizeof(id), "%lld.%lld", (long long)json_integer_value(pid),
			 (long long)json_integer_value(json_object_get(data, "start_ns")));
		json_object_set_new(p, "uid", json_string(id));
	} else {
		json_object_set_new(p, "uid", json_string(program ? program : "unknown"));
	}
	if (json_is_array(argv))
		json_object_set_new(p, "cmd_line", cmd_line(argv));
	if (json_is_integer(uid)) {
		snprintf(id, sizeof(id), "%lld", (long long)json_integer_value(uid));
		json_object_set_new(p, "user", json_pack("{s:s}", "uid", id));
	}
	if (json_is_integer(json_object_get(data, "ppid")))
		json_object_set_new(p, "parent_process",
				    json_pack("{s:I}", "pid", json_integer_value(json_object_get(data, "ppid"))));
	return p;
}

static json_t *actor_json(const struct store_row *row, const json_t *data)
{
	return json_pack("{s:o}", "process", process_json(row, data));
}

static json_t *device_json(const struct store_row *row)
{
	return json_pack("{s:i,s:s,s:s,s:s*}", "type_id", 6, "name", row->ws, "hypervisor", "QEMU", "boot_uid",
			 row->boot && *row->boot ? row->boot : NULL);
}

static json_t *endpoint_json(const json_t *data)
{
	const char *name = text(data, "host"), *dst = text(data, "dst");
	json_t *e = json_object(), *port = json_object_get(data, "dport");
	unsigned char addr[16];

	if (!name)
		name = text(data, "name");
	if (name)
		json_object_set_new(e, "hostname", json_string(name));
	if (dst && (inet_pton(AF_INET, dst, addr) == 1 || inet_pton(AF_INET6, dst, addr) == 1))
		json_object_set_new(e, "ip", json_string(dst));
	else if (!name)
		json_object_set_new(e, "name", json_string(dst ? dst : "unknown"));
	if (json_is_integer(port) && json_integer_value(port) >= 0 && json_integer_value(port) <= 65535)
		json_object_set(e, "port", port);
	return e;
}

static int process_activity(const struct store_row *row)
{
	switch (row->kind) {
	case EVENT_EXEC:
	case EVENT_EXEC_HOST:
		return PROC_LAUNCH;
	case EVENT_EXIT:
		return PROC_TERMINATE;
	case EVENT_PTRACE:
		return PROC_INJECT;
	case EVENT_CRED_GAIN:
		return PROC_SET_USER;
	default:
		return PROC_OTHER;
	}
}

static int file_activity(const json_t *data)
{
	static const struct {
		const char *op;
		int activity;
	} ops[] = { { "open_read", FILE_READ },	 { "open_write", FILE_UPDATE }, { "open_exec", FILE_OPEN },
		    { "create", FILE_CREATE },	 { "mknod", FILE_CREATE },	{ "mkdir", FILE_CREATE },
		    { "rmdir", FILE_DELETE },	 { "unlink", FILE_DELETE },	{ "symlink", FILE_CREATE },
		    { "link", FILE_CREATE },	 { "rename", FILE_RENAME },	{ "truncate", FILE_UPDATE } };
	const char *op = text(data, "op");

	for (size_t i = 0; op && i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].op, op))
			return ops[i].activity;
	return FILE_OTHER;
}

static int network_activity(const struct store_row *row)
{
	if (row->kind == EVENT_FLOW_ENDED)
		return NET_CLOSE;
	return row->verdict == VERDICT_DENIED ? NET_REFUSE : row->kind == EVENT_CREDENTIAL_USED ? NET_OTHER : NET_OPEN;
}

static void add_network(json_t *ev, const json_t *data)
{
	const char *proto = text(data, "proto");
	json_t *up = json_object_get(data, "bytes_up"), *down = json_object_get(data, "bytes_down");

	json_object_set_new(ev, "dst_endpoint", endpoint_json(data));
	json_object_set_new(ev, "connection_info",
			    json_pack("{s:i,s:s*}", "direction_id", 2, "protocol_name", proto));
	if (json_is_integer(up) && json_is_integer(down))
		json_object_set_new(ev, "traffic", json_pack("{s:O,s:O}", "bytes_out", up, "bytes_in", down));
}

static void add_finding(json_t *ev, const struct store_row *row, const char *sentence)
{
	char uid[64];

	snprintf(uid, sizeof(uid), "holdfast-%llu", (unsigned long long)row->id);
	json_object_set_new(ev, "finding_info",
			    json_pack("{s:s,s:s,s:s,s:[s]}", "uid", uid, "title", sentence, "desc", event_defs[row->kind].name,
				      "types", signal_defs[event_defs[row->kind].signal].name));
	json_object_set_new(ev, "risk_score", json_integer(row->weight));
}

json_t *ocsf_event(const struct store_row *row)
{
	enum event_ocsf class = event_defs[row->kind].ocsf;
	_cleanup_json_ json_t *data = json_loads(row->data, 0, NULL);
	char sentence[1024], uid[32];
	const char *path;
	int activity;
	json_t *ev;

	if (class == OCSF_NONE || !json_is_object(data))
		return NULL;
	event_sentence(row->kind, row->subject, data, sentence, sizeof(sentence));
	switch (class) {
	case OCSF_PROCESS_ACTIVITY:
		activity = process_activity(row);
		break;
	case OCSF_FILE_ACTIVITY:
		activity = file_activity(data);
		break;
	case OCSF_NETWORK_ACTIVITY:
		activity = network_activity(row);
		break;
	default:
		activity = 1;
		break;
	}
	snprintf(uid, sizeof(uid), "%llu", (unsigned long long)row->id);
	ev = json_pack("{s:i,s:i,s:i,s:i,s:i,s:I,s:s,s:I,s:i,s:{s:s,s:s,s:s,s:s,s:{s:s,s:s}}}", "class_uid", class,
		       "category_uid", class / 1000, "activity_id", activity, "type_uid", class * 100 + activity,
		       "severity_id", severity_of(row), "time", (json_int_t)(row->host_ns / 1000000), "message",
		       sentence, "count", (json_int_t)row->count, "status_id", row->verdict == VERDICT_DENIED ? 2 : 1,
		       "metadata", "version", OCSF_VERSION, "uid", uid, "event_code", event_defs[row->kind].name,
		       "log_name", "timeline", "product", "name", "Holdfast", "vendor_name", "Holdfast");
	if (!ev)
		return NULL;
	if (class == OCSF_PROCESS_ACTIVITY || class == OCSF_FILE_ACTIVITY) {
		json_object_set_new(ev, "device", device_json(row));
		json_object_set_new(ev, "actor", actor_json(row, data));
	}
	if (class == OCSF_PROCESS_ACTIVITY)
		json_object_set_new(ev, "process", process_json(row, data));
	if (class == OCSF_FILE_ACTIVITY) {
		path = text(data, "path");
		json_object_set_new(ev, "file", file_json(path ? path : "unknown"));
	}
	if (class == OCSF_NETWORK_ACTIVITY)
		add_network(ev, data);
	if (class == OCSF_DETECTION_FINDING)
		add_finding(ev, row, sentence);
	json_object_set_new(ev, "unmapped",
			    json_pack("{s:s,s:s,s:s,s:i,s:I,s:O}", "workspace", row->ws, "engine",
				      event_engine_name(event_defs[row->kind].engine), "verdict",
				      event_verdict_name(row->verdict), "weight", (int)row->weight, "seq",
				      (json_int_t)row->seq, "data", data));
	return ev;
}
