// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hashes of programs.
 *
 * The main thread asks when an exec or a flow of a program on the list passes; the file is the one that the process
 * executes, not what its path leads to now. A second thread reads it in chunks, so that the heartbeat never waits,
 * and reports the result as an event. Results are kept by the state of the file (device, inode, size, time of
 * change), and a file that changed while it was read has failed.
 *
 * A file that fs-verity protects is known by fs-verity's digest at once, and never read.
 *
 * A file whose server could hang the thread (FUSE, network) is refused: only file systems on a block device and
 * those in memory are read.
 */
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/magic.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include "compat/compat.h"
#include "gate.h"
#include "hash.h"
#include "program.h"
#include "task.h"

#define ENTRIES 128
#define CHUNK (64 * 1024)
#define LIST_MAX 4096

struct entry {
	struct sentry_file_id id;
	struct sentry_process process; /* who needed it first */
	struct file *file;	       /* until it has been read */
	u64 used;
	enum sentry_hash_state state;
	u16 flags; /* how that process saw the file's name */
	u16 exe_len;
	u8 exe[HF_SENTRY_PATH_MAX];
	u8 digest[SHA256_DIGEST_SIZE];
};

static DEFINE_MUTEX(lock);
static DECLARE_WAIT_QUEUE_HEAD(work);
static struct entry *entries;
static u8 *chunk;
static struct task_struct *thread;
static u64 uses;
static atomic_t waiting = ATOMIC_INIT(0);
static char list[LIST_MAX];

static bool is_asked(const struct sentry_record *r)
{
	const char *line = list, *end;
	const u8 *exe = sentry_record_text(r, SENTRY_TEXT_EXE);
	size_t len = r->text_len[SENTRY_TEXT_EXE], wanted;

	lockdep_assert_held(&lock);
	for (; *line && len; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		wanted = end - line;
		if (wanted && end[-1] == '*' ? wanted - 1 <= len && !memcmp(line, exe, wanted - 1) :
					       wanted == len && !memcmp(line, exe, len))
			return true;
	}
	return false;
}

int sentry_hash_set_programs(const char *value)
{
	if (strlen(value) >= sizeof(list))
		return -E2BIG;
	mutex_lock(&lock);
	strscpy(list, value, sizeof(list));
	mutex_unlock(&lock);
	return 0;
}

static enum sentry_hash_state file_state(const struct file *file, u64 size, u8 digest[SHA256_DIGEST_SIZE])
{
	const struct super_block *sb = file_inode(file)->i_sb;

	if (sb->s_magic == FUSE_SUPER_MAGIC || (!sb->s_bdev && sb->s_magic != TMPFS_MAGIC && sb->s_magic != RAMFS_MAGIC))
		return SENTRY_HASH_UNSUPPORTED_FS;
	if (sentry_verity_digest(file_inode(file), digest))
		return SENTRY_HASH_VERITY;
	return size > HF_SENTRY_HASH_MAX ? SENTRY_HASH_TOO_LARGE : SENTRY_HASH_WAITING;
}

/* The entry of a file state; an unused or the least recently used one if there is none. NULL if all are being read. */
static struct entry *entry_for(const struct sentry_file_id *id)
{
	struct entry *e, *oldest = NULL;

	for (e = entries; e < entries + ENTRIES; e++) {
		if (e->state != SENTRY_HASH_NOT_ASKED && !memcmp(&e->id, id, sizeof(*id)))
			return e;
		if (!e->file && (!oldest || e->used < oldest->used))
			oldest = e;
	}
	if (oldest)
		oldest->state = SENTRY_HASH_NOT_ASKED;
	return oldest;
}

/* What is known about the program of a record; begins to find out if nothing is. */
static struct entry *ask(const struct sentry_record *r, enum sentry_hash_state *state)
{
	struct sentry_file_id id;
	struct entry *e;

	*state = SENTRY_HASH_NOT_ASKED;
	if (!is_asked(r))
		return NULL;
	*state = SENTRY_HASH_FAILED;
	e = entry_for(&r->exe_id);
	if (!e)
		return NULL;
	if (e->state == SENTRY_HASH_NOT_ASKED) {
		struct file *file = sentry_program_file(&r->subject);

		if (!file)
			return NULL;
		sentry_file_id_fill(&id, file);
		if (memcmp(&id, &r->exe_id, sizeof(id))) {
			fput(file);
			return NULL;
		}
		e->id = id;
		e->process = r->subject;
		e->flags = r->flags & (SENTRY_FOREIGN_ROOT | SENTRY_EXE_DELETED);
		e->exe_len = r->text_len[SENTRY_TEXT_EXE];
		memcpy(e->exe, sentry_record_text(r, SENTRY_TEXT_EXE), e->exe_len);
		e->state = file_state(file, id.size, e->digest);
		if (e->state == SENTRY_HASH_WAITING) {
			e->file = file;
			atomic_inc(&waiting);
			wake_up(&work);
		} else {
			fput(file);
		}
	}
	e->used = ++uses;
	*state = e->state;
	return e;
}

void sentry_hash_exec(const struct sentry_record *r)
{
	enum sentry_hash_state state;

	mutex_lock(&lock);
	ask(r, &state);
	mutex_unlock(&lock);
}

static void id_member(struct sentry_json *j, const struct sentry_file_id *id)
{
	sentry_json_hex(j, "exe_id", (const u8 *)id, sizeof(*id));
}

static void state_member(struct sentry_json *j, enum sentry_hash_state state, const u8 digest[SHA256_DIGEST_SIZE])
{
	static const char *const words[] = {
		[SENTRY_HASH_NOT_ASKED] = "not_asked", [SENTRY_HASH_WAITING] = "hashing",
		[SENTRY_HASH_RUNNING] = "hashing",     [SENTRY_HASH_UNSUPPORTED_FS] = "unsupported_fs",
		[SENTRY_HASH_TOO_LARGE] = "too_large", [SENTRY_HASH_FAILED] = "failed",
	};

	if (state == SENTRY_HASH_DONE)
		sentry_json_hex(j, "exe_sha256", digest, SHA256_DIGEST_SIZE);
	else if (state == SENTRY_HASH_VERITY)
		sentry_json_hex(j, "exe_verity", digest, SHA256_DIGEST_SIZE);
	else
		sentry_json_word(j, "exe_hash", words[state]);
}

void sentry_hash_members(struct sentry_json *j, const struct sentry_record *r)
{
	enum sentry_hash_state state;
	struct entry *e;

	mutex_lock(&lock);
	e = ask(r, &state);
	state_member(j, state, e ? e->digest : NULL);
	if (state != SENTRY_HASH_NOT_ASKED)
		id_member(j, &r->exe_id);
	mutex_unlock(&lock);
}

void sentry_hash_result_members(struct sentry_json *j, const struct sentry_record *r)
{
	id_member(j, &r->exe_id);
	state_member(j, r->detail.hash.state, r->detail.hash.digest);
	sentry_json_u64(j, "size", r->detail.hash.size);
}

static enum sentry_hash_state digest_of(struct file *file, const struct sentry_file_id *id, u8 digest[SHA256_DIGEST_SIZE])
{
	struct sentry_sha256_state state;
	struct sentry_file_id after;
	loff_t at = 0;
	ssize_t n;

	sha256_init(&state);
	while ((n = kernel_read(file, chunk, CHUNK, &at)) > 0) {
		sha256_update(&state, chunk, n);
		cond_resched();
	}
	sha256_final(&state, digest);
	sentry_file_id_fill(&after, file);
	return n < 0 || (u64)at != id->size || memcmp(&after, id, sizeof(after)) ? SENTRY_HASH_FAILED : SENTRY_HASH_DONE;
}

static struct entry *next_waiting(void)
{
	struct entry *e, *found = NULL;

	mutex_lock(&lock);
	for (e = entries; e < entries + ENTRIES && !found; e++)
		if (e->state == SENTRY_HASH_WAITING)
			found = e;
	if (found)
		found->state = SENTRY_HASH_RUNNING;
	mutex_unlock(&lock);
	return found;
}

static void report(const struct entry *e)
{
	struct sentry_record *r = sentry_record_begin(HF_SENTRY_KIND_PROGRAM_HASH);

	if (!r)
		return;
	r->subject = e->process;
	r->ppid = r->uid = r->gid = 0;
	r->flags = e->flags;
	r->exe_id = e->id;
	r->detail.hash.state = e->state;
	r->detail.hash.size = e->id.size;
	memcpy(r->detail.hash.digest, e->digest, sizeof(e->digest));
	sentry_record_add_bytes(r, SENTRY_TEXT_EXE, e->exe, e->exe_len);
	sentry_record_offer(r);
}

/* While an entry has its file, the main thread neither moves nor reuses it. */
static void hash_one(struct entry *e)
{
	enum sentry_hash_state state;
	u8 digest[SHA256_DIGEST_SIZE];
	struct file *file = e->file;

	state = digest_of(file, &e->id, digest);
	mutex_lock(&lock);
	memcpy(e->digest, digest, sizeof(digest));
	e->state = state;
	mutex_unlock(&lock);
	report(e);
	mutex_lock(&lock);
	e->file = NULL;
	mutex_unlock(&lock);
	fput(file);
}

static int run(void *unused)
{
	struct entry *e;

	for (;;) {
		wait_event_idle(work, atomic_read(&waiting));
		atomic_dec(&waiting);
		e = next_waiting();
		if (e)
			hash_one(e);
	}
	return 0;
}

int sentry_hash_create(void)
{
	entries = vzalloc(ENTRIES * sizeof(*entries));
	chunk = vmalloc(CHUNK);
	thread = entries && chunk ? kthread_create(run, NULL, "holdfast-hash") : ERR_PTR(-ENOMEM);
	if (!IS_ERR(thread)) {
		sentry_task_set_own(1, thread);
		return 0;
	}
	vfree(chunk);
	vfree(entries);
	return PTR_ERR(thread);
}

void sentry_hash_start(void)
{
	wake_up_process(thread);
}

void sentry_hash_discard(void)
{
	kthread_stop(thread);
	vfree(chunk);
	vfree(entries);
}
