// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PID 1 of the Sentry's test guest: loads the vsock stack, starts the test host, loads the Sentry the way the
 * supervisor does, then runs the scenario's lines one after the other and powers off.
 *
 * /scenario: settings first, then one command a line.
 *   key HEX            boot key
 *   level WORD         level to set; "none" leaves level and sandbox unset
 *   lockdown WORD      lockdown to raise after the load
 *   latch              kexec_load_disabled=1 before and modules_disabled=1 after the load
 *   early COMMAND ...  start a program before the load
 *   before COMMAND ... run one before the load and wait for it
 *   params TEXT        more module parameters
 *   host-program PATH [WORD]  the test host, /bin/host without this
 *   no-sentry          do not load it (for baselines)
 *   run COMMAND ...    run a program as root and wait for it
 *   sandbox COMMAND .. the same, in the sandbox cgroup
 *   start COMMAND ...  the same as run without waiting
 *   host TEXT          a command to the test host
 *   until-idle SECONDS wait until the test host has made /run/idle
 *   touch PATH         make an empty file
 *   sleep MS
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CGROUP "/sys/fs/cgroup/holdfast"
#define PARAMS "/sys/module/sentry/parameters/"

static char host_program[128] = "/bin/host", host_words[128];
static char key[65], level[16] = "files", lockdown[32], params[512], early[512], before[512];
static bool latch, no_sentry;

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("init: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void mounts(void)
{
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/dev", 0755);
	mkdir("/tmp", 01777);
	mkdir("/run", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	mount("tmpfs", "/run", "tmpfs", 0, NULL);
	mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777");
	mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	mount("securityfs", "/sys/kernel/security", "securityfs", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
}

/* lo up, with an address that is not a loopback address, so that flows to it are reported. */
static void network(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), fd6 = socket(AF_INET6, SOCK_DGRAM, 0);
	struct ifreq r = { .ifr_name = "lo" };
	struct { struct in6_addr address; unsigned int prefix; int ifindex; } v6 = { .prefix = 128, .ifindex = 1 };
	struct sockaddr_in *in = (struct sockaddr_in *)&r.ifr_addr;

	r.ifr_flags = IFF_UP | IFF_RUNNING;
	ioctl(fd, SIOCSIFFLAGS, &r);
	strcpy(r.ifr_name, "lo:0");
	memset(in, 0, sizeof(*in));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 */
	if (ioctl(fd, SIOCSIFADDR, &r))
		perror("init: address");
	v6.address = (struct in6_addr){ .s6_addr = { 0x20, 1, 0xd, 0xb8, [15] = 1 } }; /* 2001:db8::1 */
	if (ioctl(fd6, SIOCSIFADDR, &v6))
		perror("init: address 6");
	close(fd);
	close(fd6);
	write_file("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
}

static int load(const char *path, const char *arguments)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), result;

	if (fd < 0)
		return -1;
	result = syscall(SYS_finit_module, fd, arguments, 0);
	if (result)
		printf("init: %s: %s\n", path, strerror(errno));
	close(fd);
	return result;
}

static pid_t start(char *line, bool sandboxed)
{
	char *argv[32], *save;
	int argc = 0;
	pid_t pid;

	for (char *word = strtok_r(line, " ", &save); word && argc < 31; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	argv[argc] = NULL;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (sandboxed)
			write_file(CGROUP "/sandbox/cgroup.procs", "0");
		setsid();
		execv(argv[0], argv);
		printf("init: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	return pid;
}

static void wait_for(pid_t pid, const char *what)
{
	int status;
	pid_t got;

	do
		got = wait(&status);
	while (got > 0 && got != pid);
	if (status)
		printf("init: %s ended with %#x\n", what, status);
}

/* Where frames go out: the virtio port, which takes a frame at once, or a serial port, a byte at a time. */
static const char *frames_port(void)
{
	if (access("/sys/bus/virtio/drivers/virtio_console", F_OK))
		return "/dev/ttyS1";
	for (int i = 0; i < 100 && access("/dev/vport0p1", F_OK); i++)
		usleep(50000);
	return "/dev/vport0p1";
}

static void start_sentry(void)
{
	char text[1024], number[32];
	struct stat st;

	mkfifo("/run/control", 0600);
	snprintf(text, sizeof(text), "%s %s %s /run/control %s", host_program, key, frames_port(), host_words);
	start(text, false);
	usleep(200000);

	if (before[0])
		wait_for(start(before, false), "before");
	if (early[0])
		start(early, false);
	if (latch)
		write_file("/proc/sys/kernel/kexec_load_disabled", "1");
	mkdir(CGROUP, 0755);
	mkdir(CGROUP "/sandbox", 0755);
	if (no_sentry)
		return;
	snprintf(text, sizeof(text), "cid=1 boot_key=%s landlock_abi=%ld %s", key,
		 syscall(444 /* landlock_create_ruleset */, NULL, 0, 1), params);
	if (load("/modules/sentry.ko", text))
		return;
	if (strcmp(level, "none")) {
		stat(CGROUP "/sandbox", &st);
		snprintf(number, sizeof(number), "%lu", (unsigned long)st.st_ino);
		write_file(PARAMS "sandbox_cgroup", number);
		write_file(PARAMS "level", level);
	}
	if (lockdown[0])
		write_file("/sys/kernel/security/lockdown", lockdown);
	if (latch)
		write_file("/proc/sys/kernel/modules_disabled", "1");
	write_file(PARAMS "phase", "1");
	printf("init: sentry loaded\n");
	usleep(1500000);
}

static void to_host(const char *line)
{
	int fd = open("/run/control", O_WRONLY);

	dprintf(fd, "%s\n", line);
	close(fd);
	usleep(200000);
}

/* The test host says by a file that it is done. */
static void until_idle(int seconds)
{
	for (int i = 0; i < 4 * seconds; i++) {
		if (!access("/run/idle", F_OK))
			return;
		usleep(250000);
	}
	printf("init: the host is not done in %d s\n", seconds);
}

static void command(char *line)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", line);
	printf("step %s\n", copy);
	if (!strncmp(line, "run ", 4))
		wait_for(start(line + 4, false), copy);
	else if (!strncmp(line, "sandbox ", 8))
		wait_for(start(line + 8, true), copy);
	else if (!strncmp(line, "start ", 6))
		start(line + 6, false);
	else if (!strncmp(line, "host ", 5))
		to_host(line + 5);
	else if (!strncmp(line, "touch ", 6))
		close(open(line + 6, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	else if (!strncmp(line, "until-idle ", 11))
		until_idle(atoi(line + 11));
	else if (!strncmp(line, "sleep ", 6))
		usleep(1000 * atoi(line + 6));
	else
		printf("init: what is %s\n", copy);
}

static bool setting(const char *line)
{
	if (!strncmp(line, "key ", 4))
		snprintf(key, sizeof(key), "%s", line + 4);
	else if (!strncmp(line, "level ", 6))
		snprintf(level, sizeof(level), "%s", line + 6);
	else if (!strncmp(line, "lockdown ", 9))
		snprintf(lockdown, sizeof(lockdown), "%s", line + 9);
	else if (!strncmp(line, "host-program ", 13))
		sscanf(line + 13, "%127s %127s", host_program, host_words);
	else if (!strncmp(line, "params ", 7))
		snprintf(params, sizeof(params), "%s", line + 7);
	else if (!strncmp(line, "before ", 7))
		snprintf(before, sizeof(before), "%s", line + 7);
	else if (!strncmp(line, "early ", 6))
		snprintf(early, sizeof(early), "%s", line + 6);
	else if (!strcmp(line, "latch"))
		latch = true;
	else if (!strcmp(line, "no-sentry"))
		no_sentry = true;
	else
		return false;
	return true;
}

int main(void)
{
	FILE *scenario;
	char line[512], module[64];
	bool started = false;

	mounts();
	setvbuf(stdout, NULL, _IOLBF, 0);
	network();
	for (int i = 0; i < 16; i++) {
		snprintf(module, sizeof(module), "/modules/%02d.ko", i);
		load(module, "");
	}
	scenario = fopen("/scenario", "re");
	while (scenario && fgets(line, sizeof(line), scenario)) {
		line[strcspn(line, "\n")] = 0;
		if (!line[0] || line[0] == '#' || setting(line))
			continue;
		if (!started)
			start_sentry();
		started = true;
		command(line);
	}
	usleep(2500000);
	printf("init: done\n");
	sync();
	usleep(200000);
	reboot(RB_AUTOBOOT); /* with -no-reboot that is the end, without ACPI too */
	return 0;
}
