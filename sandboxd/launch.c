// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Early launch: PID 1 of the initramfs that the host made for this boot.
 *
 * Nothing of the workspace's disks runs before the Sentry is loaded, lockdown is raised and the supervisor
 * stands in a cgroup of its own. Each step has a name; the first that fails ends the launch: PID 1 then
 * stays, reaps, and leaves a supervisor that says why and refuses work. It is never restarted.
 *
 * The boot key exists in one file of the initramfs, is given to the module while it loads, and is wiped
 * from file and memory before anything is forked.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/guest.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "sandboxd/disk.h"
#include "sandboxd/guest.h"
#include "sandboxd/module.h"
#include "sandboxd/revoke.h"
#include "sandboxd/trust.h"

#define NEW_ROOT "/newroot"
#define CGROUP "/sys/fs/cgroup"
#define SENTRY_PARAMS "/sys/module/sentry/parameters"

enum { DISK_WAIT_MS = 10000 };

int guest_write_file(int dir_fd, const char *name, const char *text)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	if (fd < 0)
		return -1;
	return write(fd, text, n) == (ssize_t)n ? 0 : -1;
}

int guest_read_line(int dir_fd, const char *name, char *line, size_t size)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, line, size - 1);
	if (n < 0)
		return -1;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

/* A step that is one system call on one path. */
static int settle(struct guest *g, const char *step, const char *path, int result)
{
	if (result < 0)
		return guest_step_failed(&g->steps, step, path, errno, NULL);
	return 0;
}

static int done(struct guest *g, const char *step)
{
	guest_step_ok(&g->steps, step);
	return 0;
}

static int mount_one(struct guest *g, const char *type, const char *target, unsigned long flags, const char *data)
{
	mkdir(target, 0755);
	if (mount(type, target, type, flags, data) < 0 && errno != EBUSY)
		return settle(g, "mounts", target, -1);
	return 0;
}

static int step_mounts(struct guest *g)
{
	const unsigned long quiet = MS_NOSUID | MS_NODEV | MS_NOEXEC;

	umask(022);
	if (mount_one(g, "proc", "/proc", quiet, NULL) < 0 || mount_one(g, "sysfs", "/sys", quiet, NULL) < 0 ||
	    mount_one(g, "devtmpfs", "/dev", MS_NOSUID, "mode=0755") < 0 ||
	    mount_one(g, "tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755") < 0 ||
	    mount_one(g, "securityfs", "/sys/kernel/security", quiet, NULL) < 0 ||
	    mount_one(g, "proc", GUEST_OWN_PROC, quiet, NULL) < 0 ||
	    mount_one(g, "devpts", GUEST_OWN_PTS, MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666") < 0)
		return -1;
	g->proc_fd = open(GUEST_OWN_PROC, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (settle(g, "mounts", GUEST_OWN_PROC, g->proc_fd) < 0)
		return -1;
	g->pts_fd = open(GUEST_OWN_PTS, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (settle(g, "mounts", GUEST_OWN_PTS, g->pts_fd) < 0)
		return -1;
	mkdir("/run/holdfast", 0755);
	g->run_fd = open("/run/holdfast", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (settle(g, "mounts", "/run/holdfast", g->run_fd) < 0)
		return -1;
	guest_console_fd(open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC));
	return done(g, "mounts");
}

static int step_spec(struct guest *g)
{
	struct err e = { .text = "" };
	struct buf text;

	buf_init(&text, HF_SPEC_MAX);
	if (io_read_file(HF_INITRD_SPEC, &text, &e) == 0)
		g->spec = guest_spec_parse(text.data, text.len, &e);
	buf_free(&text);
	if (!g->spec)
		return guest_step_failed(&g->steps, "spec", HF_INITRD_SPEC, EINVAL, e.text);
	if (*g->spec->hostname && sethostname(g->spec->hostname, strlen(g->spec->hostname)) < 0)
		guest_step_degraded(&g->steps, "hostname", g->spec->hostname, errno, NULL);
	return done(g, "spec");
}

/* A loaded image would run after a crash or a reboot(LINUX_REBOOT_CMD_KEXEC), past lockdown. */
static int step_kexec(struct guest *g)
{
	char loaded[16] = "";

	if (guest_read_line(AT_FDCWD, "/sys/kernel/kexec_loaded", loaded, sizeof(loaded)) < 0) {
		if (errno == ENOENT)
			return done(g, "kexec");
		return settle(g, "kexec", "/sys/kernel/kexec_loaded", -1);
	}
	if (strcmp(loaded, "0"))
		return guest_step_failed(&g->steps, "kexec", "/sys/kernel/kexec_loaded", EPERM,
					 "a kexec image is loaded already");
	if (settle(g, "kexec", "/proc/sys/kernel/kexec_load_disabled",
		   guest_write_file(AT_FDCWD, "/proc/sys/kernel/kexec_load_disabled", "1")) < 0)
		return -1;
	return done(g, "kexec");
}

static int step_modules(struct guest *g)
{
	char path[128] = "";
	struct err e = { .text = "" };

	if (guest_modules_load(HF_INITRD_EARLY_LIST, HF_INITRD_EARLY_DIR, path, sizeof(path), &e) < 0)
		return guest_step_failed(&g->steps, "early_modules", path, errno, e.text);
	return done(g, "early_modules");
}

/* The clock only goes forward. The host's time is that of the start of the VM, a little ago. */
static int step_clock(struct guest *g)
{
	int64_t ns = g->spec->boot_unix_ns;
	struct timespec now, host = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	clock_gettime(CLOCK_REALTIME, &now);
	if (ns > 0 && now.tv_sec < host.tv_sec && clock_settime(CLOCK_REALTIME, &host) < 0)
		guest_step_degraded(&g->steps, "clock", "", errno, NULL);
	return 0;
}

/* Fatal where the Sentry is required, else named and gone past. */
static int sentry_trouble(struct guest *g, const char *step, const char *path, int error_nr, const char *text)
{
	if (g->spec->sentry == GUEST_SENTRY_REQUIRED)
		return guest_step_failed(&g->steps, step, path, error_nr, text);
	guest_step_degraded(&g->steps, step, path, error_nr, text);
	return 0;
}

static int step_sentry(struct guest *g)
{
	struct err e = { .text = "" };

	if (g->spec->sentry == GUEST_SENTRY_OFF)
		return 0;
	if (guest_module_check(HF_INITRD_SENTRY, g->spec->sentry_sha256, &e) < 0)
		return sentry_trouble(g, "sentry_hash", HF_INITRD_SENTRY, EBADMSG, e.text);
	done(g, "sentry_hash");
	if (guest_sentry_insert(HF_INITRD_SENTRY, HF_INITRD_BOOT_KEY, &e) < 0)
		return sentry_trouble(g, "sentry_load", HF_INITRD_SENTRY, errno, e.text);
	g->sentry_loaded = true;
	return done(g, "sentry_load");
}

static int step_wipe(struct guest *g)
{
	struct err e = { .text = "" };

	if (guest_key_wipe(HF_INITRD_BOOT_KEY, &e) < 0)
		return guest_step_failed(&g->steps, "key_wipe", HF_INITRD_BOOT_KEY, errno, e.text);
	return done(g, "key_wipe");
}

static int step_digest(struct guest *g)
{
	const char *path = SENTRY_PARAMS "/secret_digest";

	if (!g->sentry_loaded)
		return 0;
	g->params_fd = open(SENTRY_PARAMS, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (guest_read_line(AT_FDCWD, path, g->secret_digest, sizeof(g->secret_digest)) < 0)
		return sentry_trouble(g, "sentry_digest", path, errno, NULL);
	return done(g, "sentry_digest");
}

/* "none [integrity] confidentiality": the bracketed word is in force. */
static void read_lockdown(char *out, size_t size)
{
	char line[96] = "", *from, *to;

	snprintf(out, size, "unknown");
	if (guest_read_line(AT_FDCWD, "/sys/kernel/security/lockdown", line, sizeof(line)) < 0)
		return;
	from = strchr(line, '[');
	to = from ? strchr(from, ']') : NULL;
	if (to)
		snprintf(out, size, "%.*s", (int)(to - from - 1), from + 1);
}

static int step_lockdown(struct guest *g)
{
	const char *path = "/sys/kernel/security/lockdown";
	const char *level = g->spec->sentry == GUEST_SENTRY_REQUIRED ? "confidentiality" : "integrity";

	if (g->spec->sentry == GUEST_SENTRY_OFF)
		return 0;
	if (guest_write_file(AT_FDCWD, path, level) < 0)
		return sentry_trouble(g, "lockdown", path, errno, NULL);
	read_lockdown(g->lockdown, sizeof(g->lockdown));
	if (strcmp(g->lockdown, level))
		return sentry_trouble(g, "lockdown", path, EPERM, "the level read back is another");
	return done(g, "lockdown");
}

static int write_limit(struct guest *g, const char *file, int64_t limit)
{
	char path[128], value[32];

	if (!limit)
		return 0;
	snprintf(path, sizeof(path), CGROUP "/holdfast/sandbox/%s", file);
	snprintf(value, sizeof(value), "%lld", (long long)limit);
	return settle(g, "cgroup", path, guest_write_file(AT_FDCWD, path, value));
}

static int step_cgroup(struct guest *g)
{
	static const char *const dirs[] = { CGROUP "/holdfast", CGROUP "/holdfast/daemon", CGROUP "/holdfast/sandbox" };
	struct stat st;

	if (mount("cgroup2", CGROUP, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "nsdelegate,memory_recursiveprot") < 0 && errno != EBUSY)
		return settle(g, "cgroup", CGROUP, -1);
	for (size_t i = 0; i < 3; i++)
		if (mkdir(dirs[i], 0755) < 0 && errno != EEXIST)
			return settle(g, "cgroup", dirs[i], -1);
	if (settle(g, "cgroup", CGROUP "/cgroup.subtree_control",
		   guest_write_file(AT_FDCWD, CGROUP "/cgroup.subtree_control", "+memory +pids")) < 0 ||
	    settle(g, "cgroup", CGROUP "/holdfast/cgroup.subtree_control",
		   guest_write_file(AT_FDCWD, CGROUP "/holdfast/cgroup.subtree_control", "+memory +pids")) < 0 ||
	    write_limit(g, "pids.max", g->spec->pids_max) < 0 || write_limit(g, "memory.max", g->spec->memory_max) < 0)
		return -1;
	g->daemon_cgroup_fd = open(dirs[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	g->sandbox_cgroup_fd = open(dirs[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (g->daemon_cgroup_fd < 0 || g->sandbox_cgroup_fd < 0 || fstat(g->sandbox_cgroup_fd, &st) < 0)
		return settle(g, "cgroup", dirs[2], -1);
	/* kernfs: the inode number is the cgroup's id. */
	g->sandbox_cgroup_id = st.st_ino;
	return done(g, "cgroup");
}

static int step_sandbox_cgroup(struct guest *g)
{
	char id[32];

	if (g->params_fd < 0)
		return 0;
	snprintf(id, sizeof(id), "%llu", (unsigned long long)g->sandbox_cgroup_id);
	if (guest_write_file(g->params_fd, "sandbox_cgroup", id) < 0)
		return sentry_trouble(g, "sentry_cgroup", SENTRY_PARAMS "/sandbox_cgroup", errno, NULL);
	/* with both set, the module arms the probes of refusals, unless the level is observe */
	if (guest_write_file(g->params_fd, "level", guest_level_name(g->spec->level)) < 0)
		return sentry_trouble(g, "sentry_cgroup", SENTRY_PARAMS "/level", errno, NULL);
	return done(g, "sentry_cgroup");
}

static int mount_root(struct guest *g)
{
	char node[64];

	mkdir(NEW_ROOT, 0755);
	if (guest_disk_find(HF_DISK_ROOT, DISK_WAIT_MS, node, sizeof(node)) < 0)
		return settle(g, "disk_root", HF_DISK_ROOT, -1);
	if (mount(node, NEW_ROOT, "ext4", 0, NULL) < 0)
		return settle(g, "disk_root", NEW_ROOT, -1);
	g->root_fd = open(NEW_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return settle(g, "disk_root", NEW_ROOT, g->root_fd) < 0 ? -1 : done(g, "disk_root");
}

/* Target is a name of the root disk, and what links it has there stays inside it: otherwise a link at /home would
 * lay a disk of the workspace's over what this process trusts. */
static int mount_disk(struct guest *g, const char *step, const char *serial, const char *type, const char *target,
		      unsigned long flags)
{
	_cleanup_close_ int fd = -1;
	char node[64];

	if (guest_disk_find(serial, 0, node, sizeof(node)) < 0) {
		guest_step_degraded(&g->steps, step, serial, ENODEV, "no such disk");
		return 0;
	}
	fd = guest_mount_point(g->root_fd, target);
	if (fd < 0 || guest_mount_on(fd, node, type, flags) < 0)
		return settle(g, step, target, -1);
	return done(g, step);
}

static int step_disks(struct guest *g)
{
	const struct guest_spec *s = g->spec;
	struct err e = { .text = "" };

	if (mount_root(g) < 0 || mount_disk(g, "disk_home", HF_DISK_HOME, "ext4", "/home", MS_NODEV | MS_NOSUID) < 0)
		return -1;
	if (guest_home_make(g->root_fd, s->user.home, s->user.uid, s->user.gid, &e) < 0)
		guest_step_degraded(&g->steps, "home", s->user.home, errno, e.text);
	return mount_disk(g, "disk_modules", HF_DISK_MODULES, "squashfs", "/usr/lib/modules",
			  MS_RDONLY | MS_NODEV | MS_NOSUID);
}

static void set_mtu(const struct guest *g)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "eth0", .ifr_mtu = (int)g->spec->mtu };

	if (g->spec->mtu > 0 && fd >= 0)
		ioctl(fd, SIOCSIFMTU, &request);
}

/* Last of all that needs a module: with the Sentry required no module comes or goes any more, not even by
 * a forced unload. */
static int step_modules_disabled(struct guest *g)
{
	const char *path = "/proc/sys/kernel/modules_disabled";

	set_mtu(g);
	if (g->spec->sentry != GUEST_SENTRY_REQUIRED)
		return 0;
	if (settle(g, "modules_disabled", path, guest_write_file(AT_FDCWD, path, "1")) < 0)
		return -1;
	g->modules_disabled = true;
	return done(g, "modules_disabled");
}

static int step_revoke(struct guest *g)
{
	if (g->spec->level == GUEST_OBSERVE)
		return 0;
	if (guest_revoke_managers(&g->steps) < 0)
		return -1;
	if (g->spec->level != GUEST_STRICT)
		return 0;
	return guest_revoke(g->spec, g->root_fd, &g->steps);
}

static int step_trust(struct guest *g)
{
	if (g->spec->proxy)
		guest_trust_install(g->root_fd, g->spec->level != GUEST_STRICT, &g->steps);
	return 0;
}

static int (*const steps[])(struct guest *) = {
	step_mounts, step_kexec, step_modules, step_spec, step_clock, step_sentry, step_wipe, step_digest,
	step_lockdown, step_cgroup, step_sandbox_cgroup, step_disks, step_modules_disabled, step_revoke,
	step_trust,
};

/* The key goes whatever failed before it was used. */
static void run_steps(struct guest *g)
{
	struct err e;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i](g) < 0)
			break;
	guest_key_wipe(HF_INITRD_BOOT_KEY, &e);
}

static const char *move_mounts(const struct guest *g, const char **path)
{
	static const char *const names[] = { "/proc", "/sys", "/dev", "/run" };

	for (size_t i = 0; i < 4; i++) {
		_cleanup_close_ int fd = guest_mount_point(g->root_fd, names[i]);

		*path = names[i];
		if (fd < 0 || guest_mount_on(fd, names[i], NULL, MS_MOVE) < 0)
			return "move_mount";
	}
	return NULL;
}

/* Returns the name of the step that failed; only a failure returns. */
static const char *switch_root(const struct guest *g, const char **path)
{
	static char init[] = "/sbin/init", *const argv[] = { init, NULL };
	const char *failed = move_mounts(g, path);

	if (failed)
		return failed;
	*path = NEW_ROOT;
	if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		return "switch_root";
	*path = argv[0];
	execv(argv[0], argv);
	return "exec_init";
}

/* PID 1 stays for the life of the VM when there is no init to become: leaving would be a panic. */
static void __attribute__((noreturn)) stay(void)
{
	for (;;)
		if (waitpid(-1, NULL, 0) < 0)
			sleep(1);
}

/* systemd moves a process of the root cgroup into a unit and kills what is left at shutdown; a cgroup of
 * its own and a leading '@' keep this one (systemd's "ROOT_STORAGE_DAEMONS" rule). */
static void become_supervisor(struct guest *g, char **argv)
{
	setsid();
	argv[0][0] = '@';
	prctl(PR_SET_NAME, "sandboxd");
	prctl(PR_SET_DUMPABLE, 0);
	if (g->daemon_cgroup_fd >= 0)
		guest_write_file(g->daemon_cgroup_fd, "cgroup.procs", "0");
	guest_write_file(g->proc_fd, "self/oom_score_adj", "-1000");
}

void guest_launch(struct guest *g, char **argv)
{
	struct guest_launch_failure failure = { .error_nr = 0 };
	const char *name, *path = "";
	int channel[2];
	pid_t pid;

	run_steps(g);
	if (pipe2(channel, O_CLOEXEC) < 0)
		guest_step_failed(&g->steps, "fork", "", errno, NULL);
	pid = fork();
	if (pid == 0) {
		close(channel[1]);
		g->launch_fd = channel[0];
		become_supervisor(g, argv);
		return;
	}
	close(channel[0]);
	if (pid < 0)
		guest_step_failed(&g->steps, "fork", "", errno, NULL);
	if (g->steps.failed)
		stay();
	name = switch_root(g, &path);
	failure.error_nr = errno;
	snprintf(failure.name, sizeof(failure.name), "%s", name);
	snprintf(failure.path, sizeof(failure.path), "%s", path);
	guest_console(HF_CONSOLE_FAILED "%s %s: %s", name, path, strerror(failure.error_nr));
	io_write_all(channel[1], &failure, sizeof(failure));
	stay();
}
