/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The signed guest image: which base disk and which kernel a start uses. */
#include "hostd/ws/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/ed25519.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

enum { IMAGE_JSON_MAX = 1024 * 1024, IMAGE_SCHEMA = 1 };

/* What is signed is this line and then the file, so that a signature of something else does not fit. */
#define SIGNED_PREFIX "holdfast image 1\n"

static const struct json_limits limits = { .bytes = IMAGE_JSON_MAX, .depth = 8, .values = 20000 };

static int path_in(char out[PATHS_MAX], const char *dir, const char *name, struct err *err)
{
	if (name[0] == '/' || strstr(name, ".."))
		return err_set(err, "\"%s\" leads out of the image", name);
	if (snprintf(out, PATHS_MAX, "%s/%s", dir, name) >= PATHS_MAX)
		return err_set(err, "path too long");
	return 0;
}

static int check_signature(const struct paths *paths, const char *dir, const struct buf *json, struct err *err)
{
	char path[PATHS_MAX + 32], hex[2 * ED25519_SIGNATURE + 1];
	uint8_t signature[ED25519_SIGNATURE];
	struct ed25519_public key;
	struct buf text;
	int rc;

	snprintf(path, sizeof(path), "%s/keys/image.key.pub", paths->config);
	if (ed25519_public_load(&key, path, err))
		return err_prefix(err, "the image's key");
	snprintf(path, sizeof(path), "%s/image.json.sig", dir);
	buf_init(&text, sizeof(hex) + 1);
	rc = io_read_file(path, &text, err);
	if (!rc && text.len >= sizeof(hex) - 1) {
		memcpy(hex, text.data, sizeof(hex) - 1);
		hex[sizeof(hex) - 1] = 0;
	} else {
		hex[0] = 0;
	}
	buf_free(&text);
	if (rc)
		return -1;
	if (hex_decode(signature, sizeof(signature), hex))
		return err_set(err, "%s: not a signature", path);
	buf_init(&text, IMAGE_JSON_MAX + sizeof(SIGNED_PREFIX));
	rc = buf_put_str(&text, SIGNED_PREFIX) || buf_put(&text, json->data, json->len) ||
	     ed25519_verify(signature, &key, text.data, text.len);
	buf_free(&text);
	return rc ? err_set(err, "image.json is not signed by the key in %s/keys/image.key.pub "
				 "(make image makes and signs one)", paths->config) : 0;
}

static int get_file(struct image_file *out, const char *dir, const json_t *parent, const char *key,
		    struct err *err)
{
	const char *name, *hex;
	json_t *entry;

	if (json_get_object(parent, key, &entry, err))
		return -1;
	if (json_get_str(entry, "file", &name, err) || json_get_str(entry, "sha256", &hex, err) ||
	    json_get_int(entry, "size", &out->size, err) || path_in(out->path, dir, name, err))
		return err_prefix(err, "%s", key);
	if (hex_decode(out->sha256, sizeof(out->sha256), hex))
		return err_set(err, "%s: \"sha256\" is no SHA-256", key);
	return 0;
}

static int check_file(const struct image_file *file, struct err *err)
{
	uint8_t digest[HASH_BYTES];
	struct stat st;

	if (stat(file->path, &st))
		return err_errno(err, "%s", file->path);
	if (st.st_size != file->size)
		return err_set(err, "%s: %lld bytes, the image's list says %lld", file->path,
			       (long long)st.st_size, (long long)file->size);
	if (hash_sha256_file(digest, file->path, err))
		return -1;
	return hash_equal(digest, file->sha256) ? 0 :
	       err_set(err, "%s: its SHA-256 is not the one that was signed (make image again)", file->path);
}

static const json_t *find_kernel(const json_t *json, const char *release, struct err *err)
{
	json_t *kernels, *kernel;
	const char *name;
	size_t i;

	if (json_get_array(json, "kernels", &kernels, err))
		return NULL;
	json_array_foreach(kernels, i, kernel)
		if (!json_get_str(kernel, "release", &name, err) && !strcmp(name, release))
			return kernel;
	err_set(err, "the image has no kernel \"%s\"", release);
	return NULL;
}

static int read_mirrors(struct image *image, const json_t *json, struct err *err)
{
	json_t *list = json_object_get(json, "mirrors"), *entry;
	size_t i;

	json_array_foreach(list, i, entry) {
		struct image_mirror *m = &image->mirrors[image->n_mirrors];
		const char *kind, *host;
		int64_t port;

		if (json_get_str(entry, "kind", &kind, err) || json_get_str(entry, "host", &host, err) ||
		    json_get_int(entry, "port", &port, err) || port < 1 || port > 65535)
			return err_prefix(err, "mirrors[%zu]", i);
		if (image->n_mirrors == IMAGE_MIRRORS_MAX || strlen(kind) >= sizeof(m->kind) ||
		    strlen(host) >= sizeof(m->host))
			return err_set(err, "mirrors[%zu]: too many, or too long", i);
		strcpy(m->kind, kind);
		strcpy(m->host, host);
		m->port = (uint16_t)port;
		image->n_mirrors++;
	}
	return 0;
}

static int read_list(struct image *image, const json_t *json, const char *kernel_name, struct err *err)
{
	const json_t *kernel;
	int64_t schema;

	if (json_get_int(json, "schema", &schema, err))
		return -1;
	if (schema != IMAGE_SCHEMA)
		return err_set(err, "image schema %lld is not known here", (long long)schema);
	if (!strcmp(kernel_name, "default") && json_get_str(json, "default_kernel", &kernel_name, err))
		return -1;
	kernel = find_kernel(json, kernel_name, err);
	if (!kernel)
		return -1;
	snprintf(image->release, sizeof(image->release), "%s", kernel_name);
	if (get_file(&image->base, image->dir, json, "base", err) ||
	    get_file(&image->vmlinux, image->dir, kernel, "vmlinux", err) ||
	    get_file(&image->modules, image->dir, kernel, "modules_image", err) ||
	    get_file(&image->early_list, image->dir, kernel, "early_list", err) ||
	    read_mirrors(image, json, err))
		return -1;
	snprintf(image->early_dir, sizeof(image->early_dir), "%s", image->early_list.path);
	strcpy(strrchr(image->early_dir, '/') + 1, "early");
	return 0;
}

int image_open(struct image *image, const struct paths *paths, const char *name, const char *kernel,
	       struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	_cleanup_free_ char *real = NULL;
	char link[PATHS_MAX + 300], path[PATHS_MAX + 32];
	uint8_t digest[HASH_BYTES];
	struct buf text;
	int rc = -1;

	*image = (struct image){ 0 };
	if (strchr(name, '/') || name[0] == '.')
		return err_set(err, "image \"%s\": must be current or a digest", name);
	snprintf(link, sizeof(link), "%s/image/%s", paths->cache, name);
	real = realpath(link, NULL);
	if (!real)
		return err_set(err, "no guest image at %s: make it with `make image`", link);
	if (strlen(real) >= sizeof(image->dir))
		return err_set(err, "%s: path too long", real);
	strcpy(image->dir, real);
	snprintf(path, sizeof(path), "%s/image.json", image->dir);
	buf_init(&text, IMAGE_JSON_MAX);
	if (io_read_file(path, &text, err) || check_signature(paths, image->dir, &text, err))
		goto out;
	hash_sha256(digest, text.data, text.len);
	hex_encode(image->digest, digest, sizeof(digest));
	json = json_parse(text.data, text.len, &limits, err);
	if (!json || read_list(image, json, kernel, err) || check_file(&image->vmlinux, err) ||
	    check_file(&image->early_list, err) || check_file(&image->modules, err))
		goto out;
	rc = 0;
out:
	buf_free(&text);
	return rc ? err_prefix(err, "image %s", name) : 0;
}

int image_check_base(const struct image *image, struct err *err)
{
	return check_file(&image->base, err);
}
