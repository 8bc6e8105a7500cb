/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Staging: from a file that anyone may change to a sealed copy whose every byte was verified. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/catalog/internal.h"
#include "lib/catalog/modinfo.h"
#include "lib/cleanup.h"
#include "lib/hash.h"
#include "lib/io.h"

/* Reads exactly the size that the catalog says; the file may have changed since any look at it. */
static int read_module(int fd, const struct catalog_module *module, struct buf *out, struct err *err)
{
	struct stat st;
	uint8_t *to;
	char probe;

	if (fstat(fd, &st))
		return err_errno(err, "no_catalog: %s", module->path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, "bad_path: %s is not a regular file", module->path);
	if ((uint64_t)st.st_size != module->size_bytes)
		return err_set(err, "bad_size: %s has %lld bytes, the catalog says %llu", module->path,
			       (long long)st.st_size, (unsigned long long)module->size_bytes);
	to = buf_room(out, module->size_bytes);
	if (!to)
		return err_set(err, "no_catalog: out of memory");
	if (io_read_all(fd, to, module->size_bytes) || read(fd, &probe, 1) != 0)
		return err_set(err, "bad_size: %s changed while it was read", module->path);
	out->len = module->size_bytes;
	return 0;
}

static int check_signature(const struct catalog *catalog, const struct catalog_module *module,
			   const struct buf *data, struct err *err)
{
	char path[CATALOG_PATH_MAX + 16], comment[MINISIG_COMMENT_MAX];
	_cleanup_close_ int fd = -1;
	uint8_t text[MINISIG_FILE_MAX];
	struct minisig sig;
	ssize_t n;

	snprintf(path, sizeof(path), "%s.minisig", module->path);
	fd = catalog_open_beneath(catalog->dirfd, path, err);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return err_errno(err, "no_catalog: %s", path);
	if (minisig_parse(&sig, text, (size_t)n, err) ||
	    catalog_root_check(&catalog->root, CATALOG_ROLE_CATALOG, &sig, data->data, data->len, err))
		return -1;
	snprintf(comment, sizeof(comment), "holdfast module release:%s sha256:%s", module->release,
		 module->sha256_hex);
	return catalog_comment_check(&sig, comment, err);
}

static int check_bytes(const struct catalog *catalog, const struct catalog_module *module,
		       const struct buf *data, struct err *err)
{
	uint8_t hash[HASH_BYTES];

	hash_sha256(hash, data->data, data->len);
	if (!hash_equal(hash, module->sha256))
		return err_set(err, "bad_hash: %s is not the file that the catalog lists", module->path);
	if (check_signature(catalog, module, data, err))
		return -1;
	return modinfo_check(data->data, data->len, module->release, err);
}

static int sealed_copy(const struct buf *data, struct err *err)
{
	_cleanup_close_ int fd = memfd_create("sentry.ko", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || io_write_all(fd, data->data, data->len) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) ||
	    lseek(fd, 0, SEEK_SET))
		return err_errno(err, "no_catalog: memory file for the module");
	return steal_fd(&fd);
}

/* Another process may have written the state since it was read here. */
static int remember_verified(struct catalog *catalog, const struct catalog_module *module,
			     struct err *err)
{
	_cleanup_close_ int lock = -1;
	struct catalog_state state;
	int rc;

	if (catalog_state_verified(&catalog->state, module->sha256_hex) || catalog->statefd < 0)
		return 0;
	lock = catalog_state_lock(catalog->statefd, err);
	if (lock < 0 || catalog_state_load(&state, catalog->statefd, err))
		return -1;
	rc = catalog_state_add_verified(&state, module->sha256_hex)
		     ? err_set(err, "no_catalog: out of memory")
		     : catalog_state_save(&state, catalog->statefd, err);
	if (!rc)
		catalog_state_add_verified(&catalog->state, module->sha256_hex);
	catalog_state_free(&state);
	return rc;
}

int catalog_stage(struct catalog *catalog, const struct catalog_module *module, struct err *err)
{
	_cleanup_close_ int file = -1, sealed = -1;
	struct buf data;

	if (module->revoked)
		return err_set(err, "revoked: the module for %s was revoked", module->release);
	file = catalog_open_beneath(catalog->dirfd, module->path, err);
	if (file < 0)
		return -1;
	buf_init(&data, CATALOG_MODULE_BYTES_MAX + 1);
	if (!read_module(file, module, &data, err) && !check_bytes(catalog, module, &data, err))
		sealed = sealed_copy(&data, err);
	buf_free(&data);
	if (sealed < 0 || remember_verified(catalog, module, err))
		return -1;
	return steal_fd(&sealed);
}

int catalog_stage_release(const struct catalog_config *config, const char *release, int *fd,
			  struct catalog_module *out, struct err *err)
{
	struct catalog *catalog = catalog_open(config, err);
	const struct catalog_module *module;
	int rc;

	if (!catalog)
		return -1;
	rc = catalog_pick(catalog, release, &module, err);
	if (!rc) {
		*fd = catalog_stage(catalog, module, err);
		if (out)
			*out = *module;
		rc = *fd < 0 ? -1 : 0;
	}
	catalog_free(catalog);
	return rc;
}
