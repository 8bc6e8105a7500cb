/* SPDX-License-Identifier: GPL-2.0-or-later */
/* holdfast doctor: what works on this machine, and what to do where it doesn't. Needs no daemon. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "hostd/cli/cli.h"
#include "hostd/vm/kvm_probe.h"
#include "hostd/vm/tool.h"
#include "hostd/ws/image.h"
#include "hostd/ws/settings.h"
#include "hostd/ws/workspace.h"
#include "lib/catalog/catalog.h"
#include "lib/cleanup.h"
#include "lib/json.h"
#include "lib/sandbox/sandbox.h"

enum grade { GOOD, NOTE, BAD };

struct finding {
	enum grade grade;
	char text[512];
};

enum { DISK_WANTED_MIB = 4096, LANDLOCK_WANTED = 6 };

static void find(struct finding *f, enum grade grade, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void find(struct finding *f, enum grade grade, const char *fmt, ...)
{
	va_list ap;

	f->grade = grade;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

static void check_qemu(struct finding *f)
{
	static const char *const argv[] = { "qemu-system-x86_64", "--version", NULL };
	struct buf out;
	struct err err;
	int major = 0, minor = 0;

	buf_init(&out, TOOL_OUTPUT_MAX);
	if (tool_run(argv, &out, &err)) {
		find(f, BAD, "QEMU does not run: %s (apt install qemu-system-x86)", err.text);
	} else if (sscanf(buf_cstr(&out), "QEMU emulator version %d.%d", &major, &minor) != 2 || major < 7 ||
		   (major == 7 && minor < 2)) {
		find(f, BAD, "QEMU %d.%d is too old: 7.2 or later is needed", major, minor);
	} else {
		find(f, GOOD, "QEMU %d.%d", major, minor);
	}
	buf_free(&out);
}

static void check_kvm(struct finding *f)
{
	struct err err;

	if (!kvm_probe(&err))
		find(f, GOOD, "KVM runs guest code");
	else
		find(f, NOTE, "no KVM: %s (VMs start with --accel tcg, several times slower)", err.text);
}

static void check_image(struct finding *f)
{
	struct image image;
	struct err err;

	if (image_open(&image, cli_paths(), "current", "default", &err))
		find(f, BAD, "%s", err.text);
	else
		find(f, GOOD, "guest image %.12s with kernel %s", image.digest, image.release);
}

static void check_landlock(struct finding *f)
{
	int abi = sandbox_landlock_abi();

	if (!abi)
		find(f, BAD, "this kernel has no Landlock: hostd's roles cannot be confined and do not start");
	else
		find(f, abi < LANDLOCK_WANTED ? NOTE : GOOD, "Landlock ABI %d%s", abi,
		     abi < LANDLOCK_WANTED ? " (6 confines abstract sockets and signals too)" : "");
}

static void check_disk(struct finding *f)
{
	struct statvfs st;
	unsigned long long mib;

	if (statvfs(cli_paths()->data, &st)) {
		find(f, BAD, "%s cannot be looked at", cli_paths()->data);
		return;
	}
	mib = (unsigned long long)st.f_bavail * st.f_frsize >> 20;
	find(f, mib < DISK_WANTED_MIB ? BAD : GOOD, "%llu MiB free for workspaces in %s", mib, cli_paths()->data);
}

/* Does every workspace's kernel have a module, before an upgrade strands it? */
static void check_module(struct finding *f, const char *name)
{
	struct catalog_config config = { 0 };
	struct catalog_module entry;
	struct image image;
	_cleanup_json_ json_t *settings = NULL;
	_cleanup_close_ int dir = -1, fd = -1;
	struct err err;
	int rc;

	dir = ws_open(cli_paths(), name, &err);
	settings = dir < 0 ? NULL : settings_load(dir, &err);
	if (!settings || image_open(&image, cli_paths(), settings_text(settings, "image"),
				    settings_text(settings, "kernel"), &err)) {
		find(f, BAD, "workspace %s: %s", name, err.text);
		return;
	}
	if (!strcmp(settings_text(settings, "sentry"), "off")) {
		find(f, NOTE, "workspace %s runs without the Sentry (its settings say so)", name);
		return;
	}
	rc = catalog_config_default(&config, &err) ? -1 :
	     catalog_stage_release(&config, image.release, &fd, &entry, &err);
	if (rc)
		find(f, strcmp(settings_text(settings, "sentry"), "required") ? NOTE : BAD,
		     "workspace %s: no Sentry for its kernel %s%s%s", name, image.release, rc < 0 ? ": " : "",
		     rc < 0 ? err.text : "");
	else
		find(f, GOOD, "workspace %s: the Sentry for its kernel %s is there and verified", name, image.release);
}

static void print_finding(const struct finding *f, bool json)
{
	static const char *const words[] = { "ok", "note", "bad" };

	if (json)
		cli_print_json(json_pack("{s:s,s:s}", "grade", words[f->grade], "text", f->text));
	else
		printf("%-5s %s\n", words[f->grade], f->text);
}

int cmd_doctor(int argc, char **argv)
{
	static void (*const checks[])(struct finding *) = { check_qemu, check_kvm, check_image, check_landlock,
							     check_disk };
	static const char usage[] = "doctor [--json]";
	bool json = false, bad = false;
	const struct cli_option options[] = { { "json", &json, NULL, NULL }, { NULL, NULL, NULL, NULL } };
	int rc = cli_parse(&argc, &argv, options, NULL, usage);
	_cleanup_json_ json_t *names = NULL;
	struct finding f;
	json_t *name;
	size_t i;

	if (rc)
		return rc;
	if (argc)
		return cli_usage(usage);
	for (i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		checks[i](&f);
		print_finding(&f, json);
		bad |= f.grade == BAD;
	}
	names = ws_names(cli_paths(), NULL);
	json_array_foreach(names, i, name) {
		check_module(&f, json_string_value(name));
		print_finding(&f, json);
		bad |= f.grade == BAD;
	}
	return bad ? CLI_FAILED : CLI_OK;
}
