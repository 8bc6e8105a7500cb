// SPDX-License-Identifier: GPL-2.0-or-later
/* finit_module for the preload list, and the handover of the boot key. */
#include "sandboxd/module.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <holdfast/guest.h>
#include <holdfast/sentry.h>

#include "lib/cleanup.h"
#include "lib/hash.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/sandbox/sandbox.h"

static int insert(const char *file, const char *params)
{
	_cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (syscall(SYS_finit_module, fd, params, 0) == 0 || errno == EEXIST)
		return 0;
	return -1;
}

int guest_modules_load(const char *list, const char *dir, char *path, size_t size, struct err *e)
{
	_cleanup_fclose_ FILE *f = fopen(list, "re");
	char name[96];

	if (!f) {
		snprintf(path, size, "%s", list);
		return err_errno(e, "open");
	}
	while (fgets(name, sizeof(name), f)) {
		name[strcspn(name, "\r\n")] = '\0';
		if (!*name || *name == '#')
			continue;
		snprintf(path, size, "%s/%s.ko", dir, name);
		if (strchr(name, '/'))
			return err_set(e, "a module name with a slash");
		if (insert(path, "") < 0)
			return err_errno(e, "load");
	}
	return 0;
}

int guest_module_check(const char *file, const char *sha256, struct err *e)
{
	uint8_t want[HASH_BYTES], have[HASH_BYTES];
	char hex[HASH_HEX];

	if (hex_decode(want, sizeof(want), sha256) < 0)
		return err_set(e, "no SHA-256 was given");
	if (hash_sha256_file(have, file, e) < 0)
		return -1;
	if (hash_equal(want, have))
		return 0;
	hex_encode(hex, have, sizeof(have));
	return err_set(e, "SHA-256 is %s, the host said %s", hex, sha256);
}

int guest_sentry_insert(const char *file, const char *key_file, struct err *e)
{
	static const char name[] = HF_SENTRY_PARAM_BOOT_KEY "=";
	char params[sizeof(name) + 2 * HF_BOOT_KEY_BYTES + 64];
	uint8_t key[HF_BOOT_KEY_BYTES];
	_cleanup_close_ int fd = open(key_file, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_errno(e, "open %s", key_file);
	if (io_read_all(fd, key, sizeof(key)) < 0)
		return err_errno(e, "read %s", key_file);
	memcpy(params, name, sizeof(name) - 1);
	hex_encode(params + sizeof(name) - 1, key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	/* a flow to the bridge is the first half of a flow through the proxy, so it is reported though it is local */
	snprintf(params + strlen(params), sizeof(params) - strlen(params), " " HF_SENTRY_PARAM_LANDLOCK_ABI "=%d "
		 HF_SENTRY_PARAM_LOCAL_PORTS "=%d", sandbox_landlock_abi(), HF_BRIDGE_PORT);
	r = insert(file, params);
	if (r < 0)
		err_errno(e, "load");
	explicit_bzero(params, sizeof(params));
	return r;
}

int guest_key_wipe(const char *key_file, struct err *e)
{
	static const uint8_t zeros[HF_BOOT_KEY_BYTES];
	_cleanup_close_ int fd = open(key_file, O_WRONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(e, "open");
	if (fstat(fd, &st) < 0)
		return err_errno(e, "stat");
	for (off_t at = 0; at < st.st_size; at += (off_t)sizeof(zeros))
		if (pwrite(fd, zeros, sizeof(zeros), at) != (ssize_t)sizeof(zeros))
			return err_errno(e, "overwrite");
	if (fsync(fd) < 0 || unlink(key_file) < 0)
		return err_errno(e, "sync and unlink");
	return 0;
}
