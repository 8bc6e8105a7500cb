/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which Sentry module a start stages: from the signed catalog, for exactly the kernel that boots. */
#include "hostd/daemon/sentry_module.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/ws/settings.h"
#include "lib/catalog/catalog.h"
#include "lib/cleanup.h"
#include "lib/io.h"

/* The staged fd is a sealed copy in memory; the initramfs builder takes a path, so it becomes a file. */
static int keep_copy(struct sentry_module *module, const struct workspace *ws, int staged, struct err *err)
{
	_cleanup_close_ int dir = -1;
	struct buf bytes;
	char path[64];
	int rc;

	if (io_mkdir_p(ws->run_dir, 0700, err))
		return -1;
	dir = open(ws->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_errno(err, "open %s", ws->run_dir);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", staged);
	buf_init(&bytes, 16 << 20);
	rc = io_read_file(path, &bytes, err) ||
	     io_write_file_atomic(dir, "sentry.ko", bytes.data, bytes.len, 0600, err);
	buf_free(&bytes);
	snprintf(module->path, sizeof(module->path), "%s/sentry.ko", ws->run_dir);
	return rc ? -1 : 0;
}

static int stage(struct sentry_module *module, const struct workspace *ws, const char *release,
		 struct err *err)
{
	struct catalog_config config = { 0 };
	struct catalog_module entry;
	_cleanup_close_ int fd = -1;
	int rc;

	if (catalog_config_default(&config, err))
		return -1;
	rc = catalog_stage_release(&config, release, &fd, &entry, err);
	if (rc > 0)
		return err_set(err, "the catalog has no Sentry for kernel %s", release);
	if (rc < 0)
		return err_prefix(err, "the Sentry for kernel %s", release);
	snprintf(module->sha256_hex, sizeof(module->sha256_hex), "%s", entry.sha256_hex);
	return keep_copy(module, ws, fd, err);
}

int sentry_module_pick(struct sentry_module *module, struct workspace *ws, const char *release,
		       struct err *err)
{
	const char *mode = settings_text(ws->settings, "sentry");
	struct err why;

	*module = (struct sentry_module){ 0 };
	if (!strcmp(mode, "off"))
		return 0;
	if (!stage(module, ws, release, &why))
		return 0;
	module->path[0] = module->sha256_hex[0] = 0;
	if (!strcmp(mode, "required"))
		return err_set(err, "the Sentry is required, and %s", why.text);
	workspace_event(ws, EVENT_SENTRY_UNAVAILABLE, json_pack("{s:s}", "text", why.text));
	return 0;
}

static bool listed(const struct catalog_config *config, const char *release)
{
	struct catalog *catalog = catalog_open(config, NULL);
	const struct catalog_module *module;
	bool found = catalog && catalog_pick(catalog, release, &module, NULL) != 1;

	catalog_free(catalog);
	return found;
}

bool sentry_module_waiting(const struct workspace *ws, const char *release, char *step, size_t room)
{
	struct catalog_config config = { 0 };
	struct catalog_pending pending;

	if (!strcmp(settings_text(ws->settings, "sentry"), "off") || catalog_config_default(&config, NULL) ||
	    !catalog_pending(&config, release, &pending) || listed(&config, release))
		return false;
	snprintf(step, room, "waiting for the Sentry of kernel %.64s: %.60s, %u of %u", release, pending.step,
		 pending.done, pending.total);
	return true;
}
