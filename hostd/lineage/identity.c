/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which file a program's name stands for in one workspace: pinned at first use, and whether it is still that one. */
#include "hostd/lineage/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/json.h"

/*
 * Theory of operation. A pin is a path and the digest of the file that ran under it when a rule first needed to know.
 * The path is the guest's word, the digest is not; so a path that the process could choose itself (a deleted file, a
 * name that changed since the exec) can meet a pin but never makes one. A mount namespace of its own says nothing:
 * at level strict, where pins count, every session has one that the supervisor made and can make no other.
 * A new digest is an update if the package manager ran since the pin was last met (its exec and its exit both mark the
 * pins), and the package manager is itself the one that was pinned; root in the guest can do the same through a package
 * of its own, which is what the row "updated" is there to show.
 * Results of hashes come in events of their own, by exe_id, which names one state of one file.
 */
enum { ID_HEX = 64, DIGEST_CHARS = 7 + 64, MANAGERS_MAX = 16 };

struct manager {
	json_int_t pid, start_ns;
};

struct hash {
	char exe_id[ID_HEX + 1];
	char digest[DIGEST_CHARS + 1]; /* "" : it failed, and reason says why */
	char reason[16];
};

struct identity {
	json_t *pins; /* path: {"digest", "stale", "changed"}; stale: the package manager ran; changed: the other file */
	struct hash hashes[IDENTITY_HASHES_MAX];
	size_t next_hash;
	bool manager_changed;
	struct manager running[MANAGERS_MAX];
	size_t next_running;
};

struct identity *identity_new(const json_t *kept)
{
	struct identity *id = calloc(1, sizeof(*id));
	const json_t *pins = json_object_get(kept, "pins");

	if (!id)
		return NULL;
	id->pins = json_is_object(pins) ? json_deep_copy(pins) : json_object();
	id->manager_changed = json_is_true(json_object_get(kept, "manager_changed"));
	if (!id->pins) {
		free(id);
		return NULL;
	}
	return id;
}

void identity_free(struct identity *id)
{
	if (!id)
		return;
	json_decref(id->pins);
	free(id);
}

json_t *identity_json(const struct identity *id)
{
	return json_pack("{s:O,s:b}", "pins", id->pins, "manager_changed", id->manager_changed);
}

size_t identity_forget(struct identity *id, const char *program)
{
	size_t n = json_object_size(id->pins);

	if (program)
		return json_object_del(id->pins, program) ? 0 : 1;
	json_object_clear(id->pins);
	id->manager_changed = false;
	return n;
}

/* ---- digests ---- */

static struct hash *hash_of(struct identity *id, const char *exe_id)
{
	for (size_t i = 0; *exe_id && i < IDENTITY_HASHES_MAX; i++)
		if (!strcmp(id->hashes[i].exe_id, exe_id))
			return &id->hashes[i];
	return NULL;
}

/* Of the members themselves; "" if there is no digest among them. */
static void own_digest(const json_t *event, char out[80])
{
	const char *sha256 = json_str(event, "exe_sha256"), *verity = json_str(event, "exe_verity");

	out[0] = '\0';
	if (strlen(sha256) == 64)
		snprintf(out, 80, "sha256:%s", sha256);
	else if (strlen(verity) == 64)
		snprintf(out, 80, "verity:%s", verity);
}

const char *identity_digest(struct identity *id, const json_t *event, char out[80])
{
	const struct hash *hash;

	own_digest(event, out);
	hash = *out ? NULL : hash_of(id, json_str(event, "exe_id"));
	if (hash)
		snprintf(out, 80, "%s", hash->digest);
	return *out ? out : NULL;
}

static void remember_hash(struct identity *id, const json_t *event)
{
	const char *exe_id = json_str(event, "exe_id");
	struct hash *hash = hash_of(id, exe_id);
	char digest[80];

	if (strlen(exe_id) != ID_HEX)
		return;
	if (!hash) {
		hash = &id->hashes[id->next_hash];
		id->next_hash = (id->next_hash + 1) % IDENTITY_HASHES_MAX;
	}
	own_digest(event, digest);
	memset(hash, 0, sizeof(*hash));
	memcpy(hash->exe_id, exe_id, ID_HEX);
	snprintf(hash->digest, sizeof(hash->digest), "%s", digest);
	snprintf(hash->reason, sizeof(hash->reason), "%s", json_str(event, "exe_hash"));
}

/* ---- pins ---- */

static const char reason_changed[] = "its file is not the one that was pinned under this name";

static bool name_is_free(const json_t *event)
{
	return json_is_true(json_object_get(event, "exe_deleted")) || json_is_true(json_object_get(event, "exe_changed")) ||
	       *json_str(event, "attested_by");
}

static void pin(struct identity *id, const char *program, const char *digest)
{
	json_object_set_new(id->pins, program, json_pack("{s:s,s:b}", "digest", digest, "stale", 0));
}

static enum identity_verdict first_use(struct identity *id, const json_t *event, const char *digest, const char **why)
{
	if (name_is_free(event)) {
		*why = "this program was never seen here under a name that it could not choose itself";
		return IDENTITY_UNKNOWN;
	}
	if (json_object_size(id->pins) >= IDENTITY_PINS_MAX) {
		*why = "more programs than can be remembered";
		return IDENTITY_UNKNOWN;
	}
	pin(id, json_str(event, "exe"), digest);
	return IDENTITY_PINNED;
}

static enum identity_verdict compare(struct identity *id, const json_t *event, const char *digest, const char **why)
{
	const char *program = json_str(event, "exe");
	json_t *pinned = json_object_get(id->pins, program);

	if (!pinned)
		return first_use(id, event, digest, why);
	if (!strcmp(json_str(pinned, "digest"), digest)) {
		json_object_set_new(pinned, "stale", json_false());
		return IDENTITY_SAME;
	}
	if (!name_is_free(event) && json_is_true(json_object_get(pinned, "stale")) && !id->manager_changed) {
		pin(id, program, digest);
		return IDENTITY_UPDATED;
	}
	if (name_is_free(event)) {
		*why = "another file than the pinned one has its name there";
		return IDENTITY_UNKNOWN;
	}
	*why = reason_changed;
	return IDENTITY_CHANGED;
}

enum identity_verdict identity_check_name(struct identity *id, const char *program, const char **why)
{
	const json_t *pinned = json_object_get(id->pins, program);

	*why = NULL;
	if (!pinned)
		return IDENTITY_HASHING;
	if (!*json_str(pinned, "changed"))
		return IDENTITY_SAME;
	*why = reason_changed;
	return IDENTITY_CHANGED;
}

static const char *reason_text(const char *word)
{
	static const struct { const char *word, *text; } reasons[] = {
		{ "unsupported_fs", "its file lies on a file system that is not hashed" },
		{ "too_large", "its file is too large to be hashed" },
		{ "failed", "its file could not be hashed" },
		{ "not_asked", "the guest was not told to hash it" },
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (!strcmp(reasons[i].word, word))
			return reasons[i].text;
	return "nothing is known about its file";
}

enum identity_verdict identity_check(struct identity *id, const json_t *event, const char **why)
{
	const char *word = json_str(event, "exe_hash");
	const struct hash *hash = hash_of(id, json_str(event, "exe_id"));
	char digest[80];

	*why = NULL;
	if (identity_digest(id, event, digest) && *json_str(event, "exe"))
		return compare(id, event, digest, why);
	if (!strcmp(word, "hashing") && !hash)
		return IDENTITY_HASHING;
	*why = reason_text(hash ? hash->reason : word);
	return IDENTITY_UNKNOWN;
}

/* ---- events ---- */

/* All but its own: it is never its own excuse. True if that is news: a guest that runs it in a loop has nothing kept. */
static bool mark_stale(struct identity *id)
{
	const char *program;
	json_t *pinned;
	bool news = false;

	json_object_foreach(id->pins, program, pinned) {
		if (!strcmp(program, IDENTITY_PACKAGE_MANAGER) || json_is_true(json_object_get(pinned, "stale")))
			continue;
		json_object_set_new(pinned, "stale", json_true());
		news = true;
	}
	return news;
}

static struct manager manager_of(const json_t *event)
{
	return (struct manager){ json_integer_value(json_object_get(event, "pid")),
				 json_integer_value(json_object_get(event, "start_ns")) };
}

/* Whatever is seen next may be its work. */
static bool manager_ran(struct identity *id, const json_t *exec)
{
	if (strcmp(json_str(exec, "path"), IDENTITY_PACKAGE_MANAGER) || json_is_true(json_object_get(exec, "foreign_root")) ||
	    json_integer_value(json_object_get(exec, "uid")) != 0)
		return false;
	id->running[id->next_running] = manager_of(exec);
	id->next_running = (id->next_running + 1) % MANAGERS_MAX;
	return mark_stale(id);
}

static bool manager_ended(struct identity *id, const json_t *exit)
{
	struct manager gone = manager_of(exit);

	for (size_t i = 0; gone.pid && i < MANAGERS_MAX; i++) {
		if (id->running[i].pid != gone.pid || id->running[i].start_ns != gone.start_ns)
			continue;
		id->running[i] = (struct manager){ 0, 0 };
		return mark_stale(id);
	}
	return false;
}

bool identity_note_change(struct identity *id, const json_t *event)
{
	json_t *pinned = json_object_get(id->pins, json_str(event, "exe"));
	char digest[80];

	if (!pinned || !identity_digest(id, event, digest) || !strcmp(json_str(pinned, "changed"), digest))
		return false;
	json_object_set_new(pinned, "changed", json_string(digest));
	return true;
}

/* A file that ran under this name. */
static enum identity_verdict hashed(struct identity *id, const json_t *event, bool *keep)
{
	const char *program = json_str(event, "exe"), *why;
	enum identity_verdict verdict = identity_check(id, event, &why);

	*keep = verdict == IDENTITY_PINNED || verdict == IDENTITY_UPDATED ||
		(verdict == IDENTITY_CHANGED && identity_note_change(id, event));
	if (verdict == IDENTITY_CHANGED && !strcmp(program, IDENTITY_PACKAGE_MANAGER))
		id->manager_changed = true;
	return verdict;
}

enum identity_verdict identity_event(struct identity *id, const char *kind, const json_t *event, bool *keep)
{
	*keep = false;
	if (!strcmp(kind, "exec"))
		*keep = manager_ran(id, event);
	else if (!strcmp(kind, "exit"))
		*keep = manager_ended(id, event);
	if (strcmp(kind, "program_hash"))
		return IDENTITY_SAME;
	remember_hash(id, event);
	return hashed(id, event, keep);
}
