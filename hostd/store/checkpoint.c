/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signed checkpoints: what is signed, their JSON form, and the anchor file that outlives a cut tail. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "hostd/store/chain.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

#define LABEL_CHECKPOINT "holdfast-checkpoint-1"
#define ANCHOR_MAX 4096

/* label || store_id || u64 n || u64 row_id || u64 frame_id || u64 host_ns || row_head || frame_head */
static size_t signed_text(const struct checkpoint *c, uint8_t out[256])
{
	struct buf b;
	size_t n;

	buf_init(&b, 256);
	buf_put_str(&b, LABEL_CHECKPOINT);
	buf_put(&b, c->store_id, sizeof(c->store_id));
	buf_put_u64(&b, c->n);
	buf_put_u64(&b, c->row_id);
	buf_put_u64(&b, c->frame_id);
	buf_put_u64(&b, (uint64_t)c->host_ns);
	buf_put(&b, c->row_head, STORE_HASH_BYTES);
	buf_put(&b, c->frame_head, STORE_HASH_BYTES);
	n = b.len;
	memcpy(out, b.data, n);
	buf_free(&b);
	return n;
}

void checkpoint_sign(struct checkpoint *c, const struct ed25519_secret *key)
{
	uint8_t text[256];
	size_t n = signed_text(c, text);

	ed25519_sign(c->sig, key, text, n);
}

int checkpoint_verify(const struct checkpoint *c, const struct ed25519_public *key)
{
	uint8_t text[256];
	size_t n = signed_text(c, text);

	return ed25519_verify(c->sig, key, text, n);
}

static json_t *hex_json(const uint8_t *p, size_t n)
{
	char hex[2 * ED25519_SIGNATURE + 1];

	hex_encode(hex, p, n);
	return json_string(hex);
}

json_t *checkpoint_json(const struct checkpoint *c)
{
	return json_pack("{s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:o}", "n", (json_int_t)c->n, "row", (json_int_t)c->row_id, "frame",
			 (json_int_t)c->frame_id, "host_ns", (json_int_t)c->host_ns, "row_head",
			 hex_json(c->row_head, STORE_HASH_BYTES), "frame_head",
			 hex_json(c->frame_head, STORE_HASH_BYTES), "store", hex_json(c->store_id, 32), "sig",
			 hex_json(c->sig, ED25519_SIGNATURE));
}

static int get_hex(const json_t *obj, const char *key, uint8_t *out, size_t n, struct err *e)
{
	const char *s;

	if (json_get_str(obj, key, &s, e))
		return -1;
	if (hex_decode(out, n, s))
		return err_set(e, "\"%s\" must be %zu hex digits", key, 2 * n);
	return 0;
}

static int get_u64(const json_t *obj, const char *key, uint64_t *out, struct err *e)
{
	int64_t v;

	if (json_get_int(obj, key, &v, e))
		return -1;
	if (v < 0)
		return err_set(e, "\"%s\" is negative", key);
	*out = (uint64_t)v;
	return 0;
}

int checkpoint_from_json(const json_t *obj, struct checkpoint *c, struct err *e)
{
	static const char *const keys[] = { "n",	"row",	 "frame", "host_ns", "row_head",
					    "frame_head", "store", "sig",   NULL };

	memset(c, 0, sizeof(*c));
	if (!json_is_object(obj))
		return err_set(e, "a checkpoint must be an object");
	if (json_only_keys(obj, keys, e) || get_u64(obj, "n", &c->n, e) || get_u64(obj, "row", &c->row_id, e) ||
	    get_u64(obj, "frame", &c->frame_id, e) || json_get_int(obj, "host_ns", &c->host_ns, e) ||
	    get_hex(obj, "row_head", c->row_head, STORE_HASH_BYTES, e) ||
	    get_hex(obj, "frame_head", c->frame_head, STORE_HASH_BYTES, e) ||
	    get_hex(obj, "store", c->store_id, 32, e) || get_hex(obj, "sig", c->sig, ED25519_SIGNATURE, e))
		return -1;
	return 0;
}

int checkpoint_anchor_write(const char *path, const struct checkpoint *c, struct err *e)
{
	_cleanup_free_ char *dir = strdup(path);
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_t *obj = checkpoint_json(c);
	_cleanup_close_ int dirfd = -1;
	char *slash;

	if (!dir || !obj || !(text = json_text(obj)))
		return err_set(e, "%s: out of memory", path);
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	dirfd = open(slash ? (*dir ? dir : "/") : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_errno(e, "%s", dir);
	return io_write_file_atomic(dirfd, slash ? path + (slash - dir) + 1 : path, text, strlen(text), 0600, e);
}

int checkpoint_anchor_read(const char *path, struct checkpoint *c, struct err *e)
{
	static const struct json_limits limits = { .bytes = ANCHOR_MAX, .depth = 2, .values = 64 };
	_cleanup_json_ json_t *obj = NULL;
	struct buf text;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 1;
	buf_init(&text, ANCHOR_MAX);
	if (io_read_file(path, &text, e)) {
		buf_free(&text);
		return -1;
	}
	obj = json_parse(text.data, text.len, &limits, e);
	buf_free(&text);
	if (!obj || checkpoint_from_json(obj, c, e))
		return err_prefix(e, "%s", path);
	return 0;
}
