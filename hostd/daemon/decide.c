/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Answers the switch: names, addresses, flows; and writes what it did, with the process behind it. */
#include "hostd/daemon/workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/role.h>

#include "lib/json.h"
#include "lib/log.h"

/*
 * Theory of operation. A flow that no rule could allow for any program is refused at once. One that a
 * rule may allow needs its program: the Sentry's event about the very socket, waited for up to
 * IDENTITY_MS; failing that (no Sentry, or a record that its bucket suppressed) the guest's attestor is
 * asked once; failing that it is refused as "identity unavailable", which is not "not allowed".
 * At level strict a rule that names programs also wants the file that ran to be the one that was pinned under its
 * name (identify.c); the flow waits while the Sentry reads the file.
 * The row of a decision is written with the process chain, so it waits for the Sentry's event up to
 * IDENTITY_MS when the decision did not need it; the refusal itself never waits.
 */
enum { IDENTITY_MS = 1000, WHO_MS = 1000, WHOS_MAX = 256, ANCESTORS_MAX = 16 };

#define REASON_NO_IDENTITY "identity unavailable: no one could say which program opened this connection"

struct ask {
	struct workspace *ws;
	json_int_t id;
	json_t *flow;
	struct flow_key key;
	json_t *event;	/* while its program is identified: who opened it */
	char rule[256]; /* and what allows it */
};

/* A question to the attestor. */
struct who {
	struct who *next;
	uint32_t id;
	uint64_t deadline_ms;
	struct ask *ask;
};

static void ask_free(struct ask *ask)
{
	json_decref(ask->flow);
	json_decref(ask->event);
	free(ask);
}

static int key_of_flow(struct flow_key *key, const json_t *flow, struct err *err)
{
	const char *proto, *dst;
	int64_t sport, dport;

	if (json_get_str(flow, "proto", &proto, err) || json_get_str(flow, "dst", &dst, err) ||
	    json_get_int(flow, "sport", &sport, err) || json_get_int(flow, "dport", &dport, err))
		return -1;
	if (strlen(proto) >= sizeof(key->proto) || strlen(dst) >= sizeof(key->dst))
		return err_set(err, "a flow with overlong text");
	*key = (struct flow_key){ .sport = (uint16_t)sport, .dport = (uint16_t)dport };
	strcpy(key->proto, proto);
	strcpy(key->dst, dst);
	return 0;
}

/* ---- verdicts ---- */

static void verdict(struct ask *ask, bool allow, const char *rule, const char *reason)
{
	struct workspace *ws = ask->ws;

	if (ws->vm)
		msg_send_new(ws->vm, ROLE_VM_FLOW_VERDICT,
			     json_pack("{s:I,s:s,s:s,s:s}", "id", ask->id, "verdict", allow ? "allow" : "deny",
				       "rule", rule ? rule : "", "reason", reason));
	ask_free(ask);
}

static const char *host_of(const json_t *flow)
{
	const char *name = json_str(flow, "name");

	return *name ? name : json_str(flow, "dst");
}

/* L4, then the destination. event NULL: programs are not considered. */
static bool judge_flow(const struct workspace *ws, const json_t *flow, const json_t *event,
		       struct policy_decision *d)
{
	const char *ancestors[ANCESTORS_MAX];
	struct policy_l4_input in = { .host = host_of(flow), .no_identity = !event, .ancestors = ancestors,
				      .port = (uint16_t)json_integer_value(json_object_get(flow, "dport")) };
	struct policy_addr addr;
	json_t *link;
	size_t i;

	if (event) {
		in.program = json_str(event, "exe");
		json_array_foreach(json_object_get(event, "chain"), i, link) {
			const char *path = json_str(link, "exe");

			if (in.n < ANCESTORS_MAX)
				ancestors[in.n++] = *path ? path : json_str(link, "path");
		}
	}
	policy_decide_l4(ws->policy, &in, d);
	if (d->verdict == POLICY_DENY)
		return false;
	/* A rule about requests must not become a plain tunnel while nothing reads them. */
	if (d->inspect) {
		snprintf(d->text, sizeof(d->text), "rule %s decides requests, and no proxy reads them yet: "
			 "only rules without a protocol open connections", d->rule ? d->rule : "?");
		return false;
	}
	if (policy_addr_parse(json_str(flow, "dst"), &addr)) {
		snprintf(d->text, sizeof(d->text), "the destination is no address");
		return false;
	}
	policy_decide_dest(ws->policy, &in, &addr, 1, NULL, d);
	return d->verdict != POLICY_DENY;
}

static uint64_t flow_id(const json_t *flow)
{
	return (uint64_t)json_integer_value(json_object_get(flow, "id"));
}

/* Would it be allowed to this program alone? */
static bool allowed_to(const struct workspace *ws, const json_t *flow, const char *program)
{
	_cleanup_json_ json_t *event = json_pack("{s:s}", "exe", program);
	struct policy_decision d;

	return event && judge_flow(ws, flow, event, &d);
}

/* The program whose name allows this flow: the event's own or an ancestor's; NULL if any may open it. */
static const char *named_program(const struct workspace *ws, const json_t *flow, const json_t *event)
{
	const char *exe = json_str(event, "exe");
	json_t *link;
	size_t i;

	if (allowed_to(ws, flow, ""))
		return NULL;
	if (allowed_to(ws, flow, exe))
		return exe;
	json_array_foreach(json_object_get(event, "chain"), i, link) {
		const char *path = json_str(link, json_object_get(link, "exe") ? "exe" : "path");

		if (*path && allowed_to(ws, flow, path))
			return path;
	}
	return exe;
}

static void allowed(void *user, const char *refusal)
{
	struct ask *ask = user;

	if (!refusal)
		owners_note(ask->ws->owners, flow_id(ask->flow), ask->event);
	verdict(ask, !refusal, ask->rule, refusal ? refusal : "");
}

static void judged(struct ask *ask, const json_t *event)
{
	struct workspace *ws = ask->ws;
	const char *program = NULL;
	struct policy_decision d;

	if (!judge_flow(ws, ask->flow, event, &d)) {
		verdict(ask, false, d.rule, d.text);
		return;
	}
	ask->event = json_incref((json_t *)event);
	snprintf(ask->rule, sizeof(ask->rule), "%s", d.rule ? d.rule : "");
	if (ws->sentry_live && !strcmp(workspace_level(ws), "strict"))
		program = named_program(ws, ask->flow, event);
	if (program)
		identify(ws, event, program, allowed, ask);
	else
		allowed(ask, NULL);
}

/* ---- identity ---- */

static void ask_who(struct ask *ask)
{
	struct workspace *ws = ask->ws;
	struct who *who = NULL;
	size_t open = 0;

	for (struct who *w = ws->whos; w; w = w->next)
		open++;
	if (ws->ready && ws->vm && open < WHOS_MAX)
		who = calloc(1, sizeof(*who));
	if (!who) {
		verdict(ask, false, NULL, REASON_NO_IDENTITY);
		return;
	}
	*who = (struct who){ .next = ws->whos, .id = ++ws->last_who, .ask = ask,
			     .deadline_ms = loop_now_ms() + WHO_MS };
	ws->whos = who;
	msg_send_new(ws->vm, ROLE_VM_GUEST_SEND,
		     json_pack("{s:{s:s,s:I,s:s,s:i,s:s,s:i}}", "msg", "type", "who", "id", (json_int_t)who->id,
			       "proto", ask->key.proto, "sport", ask->key.sport, "dst", ask->key.dst, "dport",
			       ask->key.dport));
}

/* The attestor's word was about one flow: no other one may be judged by it. */
static void claimed(void *user, const json_t *event)
{
	(void)user;
	(void)event;
}

void decide_who(struct workspace *ws, const json_t *answer)
{
	json_int_t id = json_integer_value(json_object_get(answer, "id"));
	struct who **at = &ws->whos;
	struct who *who;
	json_t *event;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	who = *at;
	if (!who)
		return;
	*at = who->next;
	if (!json_is_true(json_object_get(answer, "found"))) {
		verdict(who->ask, false, NULL, REASON_NO_IDENTITY);
		free(who);
		return;
	}
	/* From here on it stands for the Sentry's event, marked as the guest's word. */
	event = json_copy((json_t *)answer);
	json_object_set_new(event, "attested_by", json_string("guest"));
	json_object_set_new(event, "proto", json_string(who->ask->key.proto));
	json_object_set_new(event, "dst", json_string(who->ask->key.dst));
	json_object_set_new(event, "sport", json_integer(who->ask->key.sport));
	json_object_set_new(event, "dport", json_integer(who->ask->key.dport));
	flow_join_event(ws->flows, loop_now_ms(), event);
	if (!strcmp(who->ask->key.proto, "tcp"))
		flow_join_claim(ws->flows, loop_now_ms(), &who->ask->key, 0, claimed, NULL);
	judged(who->ask, event);
	json_decref(event);
	free(who);
}

static void identified(void *user, const json_t *event)
{
	struct ask *ask = user;

	if (event)
		judged(ask, event);
	else
		ask_who(ask);
}

/* An open flow under another policy: whom it was allowed for is known, unless hostd began after it. */
static void judge_again(struct ask *ask, uint64_t wait)
{
	const json_t *event = owners_find(ask->ws->owners, flow_id(ask->flow));

	if (event)
		judged(ask, event);
	else
		flow_join_ask(ask->ws->flows, loop_now_ms(), &ask->key, wait, identified, ask);
}

int decide_flow(struct workspace *ws, const json_t *message, struct err *err)
{
	struct policy_decision d;
	struct ask *ask;
	json_t *flow;
	int64_t id;
	uint64_t wait = ws->sentry_live ? IDENTITY_MS : 0;

	if (json_get_int(message, "id", &id, err) || json_get_object(message, "flow", &flow, err))
		return -1;
	ask = calloc(1, sizeof(*ask));
	if (!ask)
		return err_set(err, "out of memory");
	*ask = (struct ask){ .ws = ws, .id = id, .flow = json_incref(flow) };
	if (key_of_flow(&ask->key, flow, err)) {
		ask_free(ask);
		return -1;
	}
	if (!ws->policy)
		verdict(ask, true, "unfiltered", "");
	else if (!judge_flow(ws, flow, NULL, &d))
		verdict(ask, false, d.rule, d.text);
	else if (json_is_true(json_object_get(flow, "rejudged")))
		judge_again(ask, wait);
	else if (!strcmp(ask->key.proto, "tcp"))
		flow_join_claim(ws->flows, loop_now_ms(), &ask->key, wait, identified, ask);
	else
		flow_join_ask(ws->flows, loop_now_ms(), &ask->key, wait, identified, ask);
	return 0;
}

/* ---- names and addresses ---- */

int decide_name(struct workspace *ws, const json_t *ask, struct err *err)
{
	const char *name, *reason = "";
	int64_t id;
	bool allow;

	if (json_get_int(ask, "id", &id, err) || json_get_str(ask, "name", &name, err))
		return -1;
	allow = !ws->policy || policy_name_allowed(ws->policy, name);
	if (!allow)
		reason = "no rule names this host";
	msg_send_new(ws->vm, ROLE_VM_NAME_VERDICT, json_pack("{s:I,s:s,s:s,s:s}", "id", (json_int_t)id, "verdict",
							     allow ? "allow" : "deny", "rule",
							     ws->policy ? "" : "unfiltered", "reason", reason));
	workspace_event(ws, allow ? EVENT_NAME_ALLOWED : EVENT_NAME_DENIED,
			json_pack("{s:s,s:s}", "name", name, "reason", reason));
	return 0;
}

int decide_dest(struct workspace *ws, const json_t *ask, struct err *err)
{
	json_t *addrs, *addr, *allowed = json_array();
	const char *name;
	int64_t id;
	size_t i;

	if (json_get_int(ask, "id", &id, err) || json_get_str(ask, "name", &name, err) ||
	    json_get_array(ask, "addrs", &addrs, err)) {
		json_decref(allowed);
		return -1;
	}
	json_array_foreach(addrs, i, addr) {
		const char *text = json_string_value(addr);
		struct policy_addr parsed;

		if (text && !policy_addr_parse(text, &parsed) &&
		    (!ws->policy || policy_dest_check(ws->policy, name, 0, &parsed)))
			json_array_append(allowed, addr);
		else
			workspace_event(ws, EVENT_DEST_REFUSED,
					json_pack("{s:s,s:s,s:s}", "name", name, "dst", text ? text : "?", "reason",
						  "the policy does not let this name stand for this address"));
	}
	msg_send_new(ws->vm, ROLE_VM_DEST_VERDICT,
		     json_pack("{s:I,s:o}", "id", (json_int_t)id, "allowed", allowed));
	return 0;
}

/* ---- rows ---- */

struct row {
	struct workspace *ws;
	enum event_kind kind;
	json_t *data;
};

/* Who opened it: what the event says, what the exec of that very process said, and its ancestors. */
static void add_identity(struct row *row, const json_t *event)
{
	static const char *const copied[] = { "pid", "start_ns", "uid", "exe_sha256", "exe_verity", "attested_by" };
	char digest[80];
	const struct process *process =
		process_find(row->ws->processes, json_integer_value(json_object_get(event, "pid")),
			     (uint64_t)json_integer_value(json_object_get(event, "start_ns")));

	for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++)
		if (json_object_get(event, copied[i]))
			json_object_set(row->data, copied[i], json_object_get(event, copied[i]));
	/* A hash may have come after the flow. */
	if (identity_digest(row->ws->identity, event, digest) && !strncmp(digest, "sha256:", 7))
		json_object_set_new(row->data, "exe_sha256", json_string(digest + 7));
	json_object_set_new(row->data, "program", json_string(json_str(event, "exe")));
	if (process && process->exec_seq) {
		json_object_set_new(row->data, "command", json_string(process->command));
		json_object_set_new(row->data, "exec_seq", json_integer((json_int_t)process->exec_seq));
	}
	json_object_set_new(row->data, "chain", process_chain(row->ws->processes, event));
}

static void row_with_identity(void *user, const json_t *event)
{
	struct row *row = user;

	if (event)
		add_identity(row, event);
	workspace_event(row->ws, row->kind, row->data);
	free(row);
}

/* The last row of a flow that had an owner: no need to ask, and nothing to keep after it. */
static void row_of_ended(struct row *row, const struct flow_key *key, uint64_t flow)
{
	_cleanup_json_ json_t *event = owners_take(row->ws->owners, flow);

	if (event)
		row_with_identity(row, event);
	else
		flow_join_ask(row->ws->flows, loop_now_ms(), key, 0, row_with_identity, row);
}

int decide_flow_event(struct workspace *ws, const json_t *message, struct err *err)
{
	static const struct { const char *what; enum event_kind kind; } kinds[] = {
		{ "allowed", EVENT_FLOW_ALLOWED }, { "denied", EVENT_FLOW_DENIED }, { "ended", EVENT_FLOW_ENDED },
	};
	const char *what;
	struct flow_key key;
	struct row *row;
	json_t *flow;

	if (json_get_str(message, "what", &what, err) || json_get_object(message, "flow", &flow, err) ||
	    key_of_flow(&key, flow, err))
		return -1;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].what, what))
			continue;
		row = calloc(1, sizeof(*row));
		if (!row)
			return err_set(err, "out of memory");
		*row = (struct row){ .ws = ws, .kind = kinds[i].kind, .data = json_copy(flow) };
		if (!*json_str(flow, "name"))
			json_object_del(row->data, "name");
		if (!*json_str(flow, "reason"))
			json_object_del(row->data, "reason");
		if (!*json_str(flow, "rule"))
			json_object_del(row->data, "rule");
		if (row->kind == EVENT_FLOW_ENDED)
			row_of_ended(row, &key, flow_id(flow));
		else
			flow_join_ask(ws->flows, loop_now_ms(), &key, ws->sentry_live ? IDENTITY_MS : 0,
				      row_with_identity, row);
		return 0;
	}
	return err_set(err, "unknown flow event \"%s\"", what);
}

/* ---- time ---- */

void decide_tick(struct workspace *ws)
{
	struct who **at = &ws->whos;
	uint64_t now = loop_now_ms();

	flow_join_tick(ws->flows, now);
	identify_tick(ws, now);
	while (*at) {
		struct who *who = *at;

		if (who->deadline_ms > now) {
			at = &who->next;
			continue;
		}
		*at = who->next;
		verdict(who->ask, false, NULL, REASON_NO_IDENTITY);
		free(who);
	}
}

/* The run is over: nobody waits for verdicts any more, rows are written as they are. */
void decide_reset(struct workspace *ws)
{
	while (ws->whos) {
		struct who *who = ws->whos;

		ws->whos = who->next;
		ask_free(who->ask);
		free(who);
	}
	identify_tick(ws, UINT64_MAX);
	if (ws->flows)
		flow_join_tick(ws->flows, UINT64_MAX);
	if (ws->owners)
		owners_clear(ws->owners);
}
