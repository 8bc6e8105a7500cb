/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reload.c - a new document against the policy in force, and what that means for open connections.
 *
 * A candidate replaces the policy as a whole or not at all.  What cannot be read, was cut off, is from a
 * newer schema, is ambiguous or exceeds the boundary leaves the old one in force, and the report says why.
 */
#include <stdio.h>
#include <string.h>

#include "hostd/policy/model.h"

static void refuse(struct policy_reload_report *r, const char *text)
{
	r->outcome = POLICY_RELOAD_REFUSED;
	snprintf(r->text, sizeof(r->text), "%s", text);
}

/* What an editor or a full disk leaves behind, which may well be valid YAML of a shorter policy. */
static const char *half_written(const char *bytes, size_t len, const struct policy *current)
{
	size_t blank = 0;

	while (blank < len && (bytes[blank] == ' ' || bytes[blank] == '\n' || bytes[blank] == '\r'))
		blank++;
	if (blank == len)
		return current ? "the file is empty: a save in progress?" : "the file is empty";
	if (bytes[len - 1] != '\n')
		return "the file does not end with a line break: cut off, or a save in progress?";
	return NULL;
}

static bool same_lists(const char *const *a, size_t n, const char *const *b, size_t m)
{
	if (n != m)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(a[i], b[i]))
			return false;
	return true;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_network(const struct policy *a, const struct policy *b);

static void compare(const struct policy *a, const struct policy *b, struct policy_reload_report *r)
{
	const struct policy_static *x = &a->st, *y = &b->st;

	r->filesystem_changed = x->has_filesystem != y->has_filesystem ||
				x->include_workdir != y->include_workdir ||
				!same_lists(x->read_only, x->n_read_only, y->read_only, y->n_read_only) ||
				!same_lists(x->read_write, x->n_read_write, y->read_write, y->n_read_write);
	r->landlock_changed = x->has_landlock != y->has_landlock || x->hard_requirement != y->hard_requirement;
	r->process_changed = x->has_process != y->has_process || !same_text(x->run_as_user, y->run_as_user) ||
			     !same_text(x->run_as_group, y->run_as_group);
	r->network_changed = !same_network(a, b);
}

static bool same_node(const struct ynode *a, const struct ynode *b)
{
	if (!a || !b)
		return a == b;
	if (a->kind != b->kind || a->n != b->n)
		return false;
	if (a->kind == YNODE_SCALAR)
		return a->plain == b->plain && !strcmp(a->text, b->text);
	for (size_t i = 0; i < a->n; i++) {
		if (a->kind == YNODE_MAP && !same_node(a->key[i], b->key[i]))
			return false;
		if (!same_node(a->item[i], b->item[i]))
			return false;
	}
	return true;
}

static bool same_network(const struct policy *a, const struct policy *b)
{
	return same_node(policy_yaml_get(a->tree, "network_policies"),
			 policy_yaml_get(b->tree, "network_policies"));
}

static bool has_tcp(const struct policy *p)
{
	for (size_t i = 0; i < p->n_endpoints; i++)
		if (p->endpoints[i]->protocol == POLICY_PROTO_TCP)
			return true;
	return false;
}

static void first_error(const struct policy_diags *d, struct policy_reload_report *r)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct policy_diag *g = &d->v[i];

		if (g->warning)
			continue;
		r->outcome = POLICY_RELOAD_REFUSED;
		snprintf(r->text, sizeof(r->text), "line %u, column %u: %s%s%s%s", g->line, g->column, g->path,
			 *g->path ? ": " : "", g->text, d->errors > 1 ? " (and more)" : "");
		return;
	}
	refuse(r, "the policy cannot be read");
}

static void say_changes(struct policy_reload_report *r, bool first)
{
	bool later = r->filesystem_changed || r->landlock_changed || r->process_changed;

	if (first) {
		r->outcome = POLICY_RELOAD_NOW;
		snprintf(r->text, sizeof(r->text), "the policy is in force");
	} else if (!later && !r->network_changed) {
		r->outcome = POLICY_RELOAD_SAME;
		snprintf(r->text, sizeof(r->text), "nothing changes");
	} else if (!later && !r->tcp_needs_start) {
		r->outcome = POLICY_RELOAD_NOW;
		snprintf(r->text, sizeof(r->text), "the network part is in force now");
	} else {
		r->outcome = POLICY_RELOAD_NEXT_START;
		snprintf(r->text, sizeof(r->text), "%sat the next start:%s%s%s%s",
			 r->network_changed ? "the network part is in force now; " : "",
			 r->filesystem_changed ? " filesystem_policy" : "", r->landlock_changed ? " landlock" : "",
			 r->process_changed ? " process" : "",
			 r->tcp_needs_start ? " the first protocol tcp endpoint" : "");
	}
}

void policy_reload(struct policy *current, struct policy *boundary, const void *bytes, size_t len,
		   struct policy **next, struct policy_diags *diags, struct policy_reload_report *r)
{
	const char *cut = half_written(bytes, len, current);
	struct policy_proof proof = { 0 };
	struct policy *p, *bound;

	memset(r, 0, sizeof(*r));
	*next = NULL;
	if (cut) {
		policy_diag_add(diags, false, 0, 0, "", "the whole document", "%s", cut);
		refuse(r, cut);
		return;
	}
	p = policy_parse(bytes, len, POLICY_STRICT, diags);
	if (!p) {
		first_error(diags, r);
		return;
	}
	if (boundary) {
		if (policy_contains(boundary, p, &proof) != POLICY_WITHIN) {
			policy_diag_add(diags, false, proof.line, 0, "", "a policy within the boundary", "%s",
					proof.text);
			refuse(r, proof.text);
			policy_proof_free(&proof);
			policy_put(p);
			return;
		}
		policy_proof_free(&proof);
		bound = policy_bind(p, boundary);
		policy_put(p);
		p = bound;
		if (!p) {
			refuse(r, "out of memory");
			return;
		}
	}
	if (current) {
		compare(current, p, r);
		r->tcp_needs_start = has_tcp(p) && !has_tcp(current);
	}
	say_changes(r, !current);
	*next = p;
}

size_t policy_rejudge(const struct policy *p, const struct policy_conn *conns, size_t n,
		      policy_rejudge_fn fn, void *user)
{
	size_t closed = 0;

	for (size_t i = 0; i < n; i++) {
		struct policy_decision d;

		policy_decide_l4(p, &conns[i].in, &d);
		if (d.verdict != POLICY_DENY && conns[i].has_addr) {
			bool inspect = d.inspect;

			policy_decide_dest(p, &conns[i].in, &conns[i].addr, 1, NULL, &d);
			d.inspect = inspect;
		}
		closed += d.verdict == POLICY_DENY;
		fn(user, &conns[i], &d);
	}
	return closed;
}
