/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prove_static.c - containment of files, Landlock and process; and the baseline that is added to files. */
#include <stdio.h>
#include <string.h>

#include "hostd/policy/prove.h"

/* ---- the baseline ---- */

static const struct policy_added baseline[] = {
	{ "/usr", false, "programs and libraries" },
	{ "/lib", false, "libraries" },
	{ "/etc", false, "configuration, certificates, name resolution" },
	{ "/app", false, "the image's application" },
	{ "/var/log", false, "logs" },
	{ "/proc", false, "process information" },
	{ "/dev/urandom", false, "random numbers" },
	{ "/tmp", true, "temporary files" },
	{ "/dev/null", true, "sessions cannot run without it" },
};

static bool is_at_or_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (n && dir[n - 1] == '/')
		n--;
	return !strncmp(path, dir, n) && (!path[n] || path[n] == '/');
}

static bool in_list(const char *const *v, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (is_at_or_below(path, v[i]))
			return true;
	return false;
}

const struct policy_added *policy_baseline(const struct policy *p, size_t i)
{
	const struct policy_static *s = &p->st;

	if (!s->has_filesystem)
		return NULL;
	for (size_t k = 0; k < sizeof(baseline) / sizeof(baseline[0]); k++) {
		const struct policy_added *b = &baseline[k];
		/* without network rules only what sessions need is added */
		bool due = policy_has_network(p) || !strcmp(b->path, "/dev/null");

		if (!due || in_list(s->read_write, s->n_read_write, b->path) ||
		    (!b->write && in_list(s->read_only, s->n_read_only, b->path)))
			continue;
		if (i-- == 0)
			return b;
	}
	return NULL;
}

bool policy_file_allowed(const struct policy *p, const char *path, bool write)
{
	const struct policy_static *s = &p->st;
	const struct policy_added *b;

	if (!s->has_filesystem)
		return true;
	if (in_list(s->read_write, s->n_read_write, path) ||
	    (!write && in_list(s->read_only, s->n_read_only, path)))
		return true;
	for (size_t i = 0; (b = policy_baseline(p, i)) != NULL; i++)
		if ((b->write || !write) && is_at_or_below(path, b->path))
			return true;
	return false;
}

/* ---- containment ---- */

static int exceeds(struct policy_proof *out, const char *dimension, unsigned int line, const char *text)
{
	out->result = POLICY_EXCEEDS;
	out->dimension = dimension;
	out->line = line;
	snprintf(out->text, sizeof(out->text), "exceeds: %s", text);
	return 1;
}

static int file(const struct policy *b, const struct policy *c, struct policy_proof *out, const char *path,
		bool write)
{
	char text[900];

	if (policy_file_allowed(b, path, write) || !policy_file_allowed(c, path, write))
		return 0;
	snprintf(out->file, sizeof(out->file), "%s", path);
	snprintf(text, sizeof(text), "the candidate may %s %s, the boundary may not", write ? "write" : "read",
		 path);
	return exceeds(out, write ? "file_write" : "file_read", c->fs_line, text);
}

static int files(const struct policy *b, const struct policy *c, struct policy_proof *out)
{
	const struct policy_static *s = &c->st;
	const struct policy_added *a;

	if (!b->st.has_filesystem)
		return 0;
	if (!s->has_filesystem) {
		/* no filesystem_policy is no confinement: any path the boundary leaves out will do */
		return file(b, c, out, "/root/.holdfast-anywhere", true);
	}
	for (size_t i = 0; i < s->n_read_write; i++)
		if (file(b, c, out, s->read_write[i], true) || file(b, c, out, s->read_write[i], false))
			return 1;
	for (size_t i = 0; i < s->n_read_only; i++)
		if (file(b, c, out, s->read_only[i], false))
			return 1;
	for (size_t i = 0; (a = policy_baseline(c, i)) != NULL; i++)
		if (file(b, c, out, a->path, a->write))
			return 1;
	if (s->include_workdir && !b->st.include_workdir) {
		snprintf(out->file, sizeof(out->file), "(the workspace folder)");
		return exceeds(out, "file_write", c->fs_line,
			       "the candidate may write the workspace folder, the boundary may not");
	}
	if (b->st.has_landlock && b->st.hard_requirement && !s->hard_requirement)
		return exceeds(out, "landlock", c->landlock_line,
			       "the candidate may start without confinement (best_effort), the boundary may not");
	return 0;
}

static bool same_or_unset(const char *a, const char *b)
{
	return (!a && !b) || (a && b && !strcmp(a, b));
}

int policy_prove_static(const struct policy *b, const struct policy *c, struct policy_proof *out)
{
	char text[900];

	if (files(b, c, out))
		return 1;
	if (!b->st.has_process)
		return 0;
	if (c->st.has_process && same_or_unset(b->st.run_as_user, c->st.run_as_user) &&
	    same_or_unset(b->st.run_as_group, c->st.run_as_group))
		return 0;
	snprintf(text, sizeof(text), "the boundary runs as %s:%s, the candidate as %s:%s",
		 b->st.run_as_user ? b->st.run_as_user : "(default)",
		 b->st.run_as_group ? b->st.run_as_group : "(default)",
		 !c->st.has_process	? "anyone" :
		 c->st.run_as_user	? c->st.run_as_user :
					  "(default)",
		 !c->st.has_process	? "anyone" :
		 c->st.run_as_group	? c->st.run_as_group :
					  "(default)");
	return exceeds(out, "process", c->process_line, text);
}
