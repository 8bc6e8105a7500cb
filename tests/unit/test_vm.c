/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a VM is started with: command line, initramfs, checkpoints kept, QMP, START's checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostd/vm/disk.h"
#include "hostd/vm/initramfs.h"
#include "hostd/vm/qemu.h"
#include "hostd/vm/vm.h"
#include "lib/io.h"
#include "lib/json.h"

/* ---- the command line ---- */

static struct qemu_config config(void)
{
	return (struct qemu_config){ .name = "test",	.cpus = 1,	.memory_mib = 512,
				     .kernel = "/k",	.initrd = "/i", .cmdline = "quiet",
				     .root = "/d/root",	.home = "/d/home", .modules = "/m",
				     .mac = "52:54:00:00:00:01", .base = "/b" };
}

static bool has(const struct qemu_args *a, const char *text)
{
	for (int i = 0; i < a->argc; i++)
		if (strstr(a->argv[i], text))
			return true;
	return false;
}

static void command_line_holds_what_it_must(void **state)
{
	static const char *const must[] = {
		"-nodefaults", "-no-user-config", "-no-reboot", "-no-shutdown", "-S",
		"on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"memory-backend-memfd,id=mem,size=512M,share=on,seal=on", "max,-cx16", "tcg,thread=multi",
		"serial=hf-root", "serial=hf-home", "serial=hf-modules", "discard=unmap",
		"pcie-root-port,id=rp0", "vhost-user-vsock-pci", "stream,id=net0,server=off",
	};
	struct qemu_args *a = malloc(sizeof(*a));
	struct qemu_config c = config();

	(void)state;
	assert_true(qemu_args_make(&c, a, NULL) > 0);
	for (size_t i = 0; i < sizeof(must) / sizeof(must[0]); i++)
		if (!has(a, must[i]))
			fail_msg("no %s", must[i]);
	c.kvm = true;
	c.mac = NULL;
	c.incoming = true;
	assert_true(qemu_args_make(&c, a, NULL) > 0);
	assert_true(has(a, "kvm") && has(a, "defer"));
	assert_false(has(a, "vhost-user-vsock-pci") || has(a, "netdev"));
	free(a);
}

static void commas_open_no_options(void **state)
{
	struct qemu_args *a = malloc(sizeof(*a));
	struct qemu_config c = config();
	static char longer[20000];

	(void)state;
	c.root = "/d/a,readonly=off,file=/etc/shadow";
	assert_true(qemu_args_make(&c, a, NULL) > 0);
	assert_true(has(a, "filename=/d/a,,readonly=off,,file=/etc/shadow,"));
	memset(longer, 'x', sizeof(longer) - 1);
	c.cmdline = longer;
	assert_int_equal(qemu_args_make(&c, a, NULL), -1);
	free(a);
}

/* ---- the initramfs ---- */

static char dir[] = "/tmp/hf-test-vm-XXXXXX";

static void file(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
}

struct cpio_entry {
	char name[128];
	unsigned mode, size;
	const uint8_t *data;
};

static unsigned field(const uint8_t *p, int i)
{
	char hex[9] = "";

	memcpy(hex, p + 6 + i * 8, 8);
	return (unsigned)strtoul(hex, NULL, 16);
}

/* Reads the archive as the kernel does; the count of entries before the trailer. */
static size_t cpio_read(const struct buf *b, struct cpio_entry *e, size_t max)
{
	size_t at = 0, n = 0;

	for (;;) {
		unsigned name_len;

		assert_true(at + 110 <= b->len);
		assert_memory_equal(b->data + at, "070701", 6);
		name_len = field(b->data + at, 11);
		assert_true(n < max && name_len <= sizeof(e[n].name));
		memcpy(e[n].name, b->data + at + 110, name_len);
		e[n].mode = field(b->data + at, 1);
		e[n].size = field(b->data + at, 6);
		at = (at + 110 + name_len + 3) & ~(size_t)3;
		e[n].data = b->data + at;
		at = (at + e[n].size + 3) & ~(size_t)3;
		assert_true(at <= b->len);
		if (!strcmp(e[n].name, "TRAILER!!!"))
			return n;
		n++;
	}
}

static const struct cpio_entry *entry(const struct cpio_entry *e, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(e[i].name, name))
			return &e[i];
	fail_msg("no %s", name);
	return NULL;
}

static void initramfs_holds_its_parts(void **state)
{
	static struct cpio_entry e[64];
	static const uint8_t key[32] = "the boot key of thirty-two byte";
	char init[256], early[256], list[256], path[256];
	struct initramfs_parts parts = { .sandboxd = init, .early_dir = early, .early_list = list,
					 .sentry_module = "", .proxy_ca = "", .boot_key = key,
					 .guest_spec = "{\"schema\":1}" };
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
	struct stat st;
	struct buf b;
	struct err err;
	size_t n;

	(void)state;
	snprintf(init, sizeof(init), "%s/sandboxd", dir);
	snprintf(early, sizeof(early), "%s", dir);
	snprintf(list, sizeof(list), "%s/early.list", dir);
	file("sandboxd", "#!init");
	file("early.list", "vsock\n");
	file("vsock.ko", "a module");
	assert_int_equal(initramfs_build(dirfd, "initramfs", &parts, &err), 0);
	snprintf(path, sizeof(path), "%s/initramfs", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	buf_init(&b, 1 << 20);
	assert_int_equal(io_read_file(path, &b, &err), 0);
	n = cpio_read(&b, e, 64);
	assert_memory_equal(entry(e, n, "init")->data, "#!init", 6);
	assert_true(entry(e, n, "init")->mode & 0100);
	assert_int_equal(entry(e, n, "holdfast/boot.key")->size, 32);
	assert_memory_equal(entry(e, n, "holdfast/boot.key")->data, key, 32);
	assert_int_equal(entry(e, n, "holdfast/boot.key")->mode & 0777, 0400);
	assert_memory_equal(entry(e, n, "holdfast/early/vsock.ko")->data, "a module", 8);
	assert_memory_equal(entry(e, n, "holdfast/guest-spec.json")->data, "{\"schema\":1}", 12);
	entry(e, n, "dev/console");
	buf_free(&b);

	/* Never over an old one, never a name out of the folder, and nothing half-made stays. */
	assert_int_equal(initramfs_build(dirfd, "initramfs", &parts, &err), -1);
	unlinkat(dirfd, "initramfs", 0);
	file("early.list", "../../etc/passwd\n");
	assert_int_equal(initramfs_build(dirfd, "initramfs", &parts, &err), -1);
	assert_int_equal(faccessat(dirfd, "initramfs", F_OK, 0), -1);
	file("early.list", "missing\n");
	assert_int_equal(initramfs_build(dirfd, "initramfs", &parts, &err), -1);
	assert_non_null(strstr(err.text, "missing.ko"));
	assert_int_equal(faccessat(dirfd, "initramfs", F_OK, 0), -1);
	close(dirfd);
}

/* ---- checkpoints ---- */

static void checkpoints_thin_out(void **state)
{
	enum { DAY = 86400, N = 60 };
	int64_t now = 1800000000, t[N];
	bool drop[N];
	int kept = 0;

	(void)state;
	/* Two boots a day for thirty days, oldest first. */
	for (int i = 0; i < N; i++)
		t[i] = now - (int64_t)(N - 1 - i) * DAY / 2;
	disk_thin_pick(t, N, now, drop);
	for (int i = 0; i < N; i++)
		kept += !drop[i];
	assert_false(drop[N - 1] || drop[N - 2] || drop[N - 3]);
	assert_true(drop[0]); /* older than four weeks */
	/* 7 days, 3 further weeks, and at most 2 of the last 3 boots beyond those. */
	assert_in_range(kept, 10, 12);
	/* Thinning again drops nothing. */
	for (int i = 0, k = 0; i < N; i++)
		if (!drop[i])
			t[k++] = t[i];
	disk_thin_pick(t, (size_t)kept, now, drop);
	for (int i = 0; i < kept; i++)
		assert_false(drop[i]);
	/* A clock that went back does not lose everything. */
	t[0] = now + DAY;
	disk_thin_pick(t, 1, now, drop);
	assert_false(drop[0]);
	assert_true(disk_name_ok("boot-20261130T110000Z"));
	assert_false(disk_name_ok("") || disk_name_ok("-d") || disk_name_ok("a/b") || disk_name_ok("..") ||
		     disk_name_ok("a b"));
}

/* ---- QMP ---- */

struct monitor {
	int events, closed, done;
	char last[128];
};

static void on_event(void *u, const char *name, const json_t *data)
{
	struct monitor *m = u;

	(void)data;
	m->events++;
	snprintf(m->last, sizeof(m->last), "%s", name);
}

static void on_closed(void *u, const char *why)
{
	(void)why;
	((struct monitor *)u)->closed++;
}

static void on_done(void *u, const json_t *result, const char *error)
{
	struct monitor *m = u;

	m->done++;
	snprintf(m->last, sizeof(m->last), "%s", error ? error : result ? "ok" : "?");
}

static const struct qmp_ops qmp_ops = { on_event, on_closed };

static void say(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void turns(struct loop *loop)
{
	for (int i = 0; i < 4; i++)
		loop_turn(loop, 10, NULL);
}

static void qmp_matches_answers_by_id(void **state)
{
	struct loop *loop = loop_new(NULL);
	struct monitor m = { 0 };
	char heard[4096] = "";
	struct qmp *q;
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	q = qmp_new(loop, fd[0], &qmp_ops, &m, NULL);
	assert_int_equal(qmp_command(q, "query-status", NULL, -1, on_done, &m), 0);
	turns(loop);
	/* Nothing is said before the greeting. */
	assert_int_equal(recv(fd[1], heard, sizeof(heard), MSG_DONTWAIT), -1);
	say(fd[1], "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 22, \"minor\": 2, \"major\": 7}}}}\r\n");
	turns(loop);
	assert_true(recv(fd[1], heard, sizeof(heard) - 1, MSG_DONTWAIT) > 0);
	assert_non_null(strstr(heard, "qmp_capabilities"));
	assert_non_null(strstr(heard, "query-status"));
	assert_string_equal(qmp_version(q), "7.2.22");
	/* Events between, answers in any pieces and order. */
	say(fd[1], "{\"event\": \"STOP\", \"data\": {}}\r\n{\"return\": {}, \"id\": 1}\r\n{\"ret");
	turns(loop);
	assert_int_equal(m.events, 1);
	assert_int_equal(m.done, 1);
	assert_string_equal(m.last, "ok");
	say(fd[1], "urn\": {}, \"id\": 0}\r\n");
	turns(loop);
	assert_int_equal(qmp_command(q, "nope", NULL, -1, on_done, &m), 0);
	say(fd[1], "{\"error\": {\"class\": \"x\", \"desc\": \"no such command\"}, \"id\": 2}\r\n");
	turns(loop);
	assert_string_equal(m.last, "no such command");
	assert_int_equal(m.closed, 0);
	/* An answer to nothing ends it, and open commands are answered. */
	assert_int_equal(qmp_command(q, "late", NULL, -1, on_done, &m), 0);
	say(fd[1], "{\"return\": {}, \"id\": 99}\r\n");
	turns(loop);
	assert_int_equal(m.closed, 1);
	assert_int_equal(m.done, 3);
	assert_int_equal(qmp_command(q, "more", NULL, -1, on_done, &m), -1);
	qmp_free(q);
	close(fd[1]);
	loop_free(loop);
}

/* ---- START ---- */

static json_t *start(void)
{
	return json_loads("{\"schema\":1,\"workspace\":\"w\",\"dir\":\"/d\",\"run_dir\":\"/r\",\"boot_id\":\"b\","
			  "\"accel\":\"tcg\",\"cpus\":1,\"memory_mib\":512,\"kernel\":\"/k\",\"modules_image\":\"\","
			  "\"base\":\"\",\"home_bytes\":1073741824,\"sandboxd\":\"/s\",\"early_dir\":\"\","
			  "\"early_list\":\"\",\"sentry_module\":\"\",\"guest_spec\":{},\"cmdline\":\"\",\"mac\":\"\","
			  "\"net\":null,\"network\":\"open\",\"sentry\":{\"mode\":\"off\",\"state\":null},"
			  "\"bridges\":[],\"resume\":false}",
			  0, NULL);
}

static void start_is_checked(void **state)
{
	static const struct {
		const char *key, *value;
	} rows[] = {
		{ "schema", "2" },	  { "dir", "\"relative\"" }, { "accel", "\"fast\"" }, { "cpus", "0" },
		{ "cpus", "65" },	  { "memory_mib", "1" },     { "home_bytes", "1" },   { "network", "\"maybe\"" },
		{ "sentry", "{\"mode\":\"x\",\"state\":null}" },      { "net", "[]" },	      { "kernel", "\"\"" },
		{ "unknown", "1" },	  { "workspace", "null" },   { "guest_spec", "[]" },  { "sandboxd", "7" },
		{ "sentry", "{\"mode\":\"off\",\"state\":null,\"more\":1}" },
	};
	_cleanup_json_ json_t *good = start();
	struct vm_config c = { 0 };
	struct err err;

	(void)state;
	assert_non_null(good);
	assert_int_equal(vm_config_parse(&c, good, &err), 0);
	assert_string_equal(c.workspace, "w");
	json_decref(c.json);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_json_ json_t *bad = start();

		json_object_set_new(bad, rows[i].key, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
		memset(&c, 0, sizeof(c));
		if (!vm_config_parse(&c, bad, &err))
			fail_msg("%s %s was taken", rows[i].key, rows[i].value);
		json_decref(c.json);
	}
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(command_line_holds_what_it_must),
		cmocka_unit_test(commas_open_no_options),
		cmocka_unit_test(initramfs_holds_its_parts),
		cmocka_unit_test(checkpoints_thin_out),
		cmocka_unit_test(qmp_matches_answers_by_id),
		cmocka_unit_test(start_is_checked),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
