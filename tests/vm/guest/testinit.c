/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest of the VM tests: an init that loads modules and serves commands on vsock 5800. */

/*
 * One command line a connection, then bytes:
 *   echo            sends back what comes until end of file
 *   source N        sends N bytes of the pattern
 *   sink            reads to end of file, answers "COUNT CHECKSUM\n"
 *   hang            reads nothing, stays
 *   dial PORT CMD   connects to the host and runs CMD there; answers "ok NS\n" or "error NAME\n"
 *   rtt PORT N SIZE N round trips to an echoing host port: "P50 P99\n" in ns
 *   bench PORT      round trips and throughput with a serving host port (tests/bench/vm_bench.py)
 *   rebind          takes the driver off the device and puts it back
 *   unbind          takes it off for good
 *   sysrq C         writes C to /proc/sysrq-trigger
 *   reboot, poweroff
 *   fill DEV N      writes N MiB of noise at 1 GiB of /dev/DEV, to the disk
 *   trim DEV N      discards them
 *   put NAME        writes a program to /NAME, answers "ok\n"
 *   get NAME        sends the file /NAME
 *   run PROGRAM ARGS  runs a program on the stream
 *   phase N         tells the Sentry, which is loaded when the host gave one, that phase
 *   spin SECONDS    four processes that compute, then "ok\n"
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/fs.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
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
#include <time.h>
#include <unistd.h>

enum { PORT = 5800, CHUNK = 256 * 1024, RTTS_MAX = 10000 };

static uint8_t chunk[CHUNK];

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void write_all(int fd, const void *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n);

		if (k <= 0)
			_exit(1);
		p = (const char *)p + k;
		n -= (size_t)k;
	}
}

static void load_modules(void)
{
	FILE *list = fopen("/holdfast/early.list", "r");
	char name[256], path[512];

	while (list && fgets(name, sizeof(name), list)) {
		int fd;

		name[strcspn(name, "\n")] = 0;
		snprintf(path, sizeof(path), "/holdfast/early/%s.ko", name);
		fd = open(path, O_RDONLY);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			printf("testinit: %s: %s\n", name, strerror(errno));
		close(fd);
	}
}

/* With the boot key, as sandboxd does it. */
static void load_sentry(void)
{
	char params[128] = "boot_key=";
	unsigned char key[32];
	int fd = open("/holdfast/sentry.ko", O_RDONLY), file = open("/holdfast/boot.key", O_RDONLY);

	if (fd < 0)
		return;
	if (read(file, key, sizeof(key)) != sizeof(key))
		printf("testinit: no boot key\n");
	for (size_t i = 0; i < sizeof(key); i++)
		snprintf(params + strlen(params), 3, "%02x", key[i]);
	if (syscall(SYS_finit_module, fd, params, 0))
		printf("testinit: sentry: %s\n", strerror(errno));
	close(file);
	close(fd);
}

static int dial(unsigned port)
{
	struct sockaddr_vm to = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = port };
	struct timeval patience = { .tv_sec = 10 };
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return fd;
	close(fd);
	return -1;
}

static uint8_t pattern(uint64_t at)
{
	return (uint8_t)(at * 131 + (at >> 8));
}

static void source(int fd, uint64_t n)
{
	for (uint64_t at = 0; at < n;) {
		size_t part = n - at < CHUNK ? (size_t)(n - at) : CHUNK;

		for (size_t i = 0; i < part; i++)
			chunk[i] = pattern(at + i);
		write_all(fd, chunk, part);
		at += part;
	}
}

/* Bytes without the cost of making them, for figures. */
static void zeros(int fd, uint64_t n)
{
	for (; n; n -= n < CHUNK ? n : CHUNK)
		write_all(fd, chunk, n < CHUNK ? n : CHUNK);
}

static void sink(int fd, int answer)
{
	uint64_t n = 0, bad = 0;
	char text[64];
	ssize_t k;

	while ((k = read(fd, chunk, CHUNK)) > 0) {
		for (ssize_t i = 0; i < k; i++)
			bad += chunk[i] != pattern(n + (uint64_t)i);
		n += (uint64_t)k;
	}
	write_all(answer, text, (size_t)snprintf(text, sizeof(text), "%llu %llu\n", (unsigned long long)n,
						 (unsigned long long)bad));
}

static void drain(int fd)
{
	while (read(fd, chunk, CHUNK) > 0)
		;
}

static void echo(int fd)
{
	ssize_t n;

	while ((n = read(fd, chunk, 65536)) > 0)
		write_all(fd, chunk, (size_t)n);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* One transport's figures: the far end takes "echo N", "sink N", "source N" lines. */
enum { BENCH_RTTS = 2000, BENCH_BYTES = 64 * 1024 * 1024 };

static void read_exactly(int fd, uint64_t n)
{
	while (n) {
		ssize_t k = read(fd, chunk, n < CHUNK ? n : CHUNK);

		if (k <= 0)
			_exit(1);
		n -= (uint64_t)k;
	}
}

static void bench(const char *name, int fd, int out)
{
	static uint64_t took[BENCH_RTTS];
	static const size_t sizes[] = { 64, 4096 };
	uint64_t start, to_ns, from_ns;
	char text[256];

	for (int k = 0; k < 2; k++) {
		size_t size = sizes[k];

		write_all(fd, text, (size_t)snprintf(text, sizeof(text), "echo %zu\n", size * BENCH_RTTS));
		for (int i = 0; i < BENCH_RTTS; i++) {
			start = now_ns();
			write_all(fd, chunk, size);
			read_exactly(fd, size);
			took[i] = now_ns() - start;
		}
		qsort(took, BENCH_RTTS, sizeof(took[0]), by_size);
		write_all(out, text,
			  (size_t)snprintf(text, sizeof(text), "BENCH %s rtt%zu_us %.0f %.0f\n", name, size,
					   (double)took[BENCH_RTTS / 2] / 1e3,
					   (double)took[BENCH_RTTS * 99 / 100] / 1e3));
	}
	write_all(fd, text, (size_t)snprintf(text, sizeof(text), "sink %d\n", BENCH_BYTES));
	start = now_ns();
	zeros(fd, BENCH_BYTES);
	read_exactly(fd, 1);
	to_ns = now_ns() - start;
	write_all(fd, text, (size_t)snprintf(text, sizeof(text), "source %d\n", BENCH_BYTES));
	start = now_ns();
	read_exactly(fd, BENCH_BYTES);
	from_ns = now_ns() - start;
	write_all(out, text,
		  (size_t)snprintf(text, sizeof(text), "BENCH %s mib_s %.0f %.0f\n", name,
				   BENCH_BYTES / 1048576.0 / ((double)to_ns / 1e9),
				   BENCH_BYTES / 1048576.0 / ((double)from_ns / 1e9)));
}

static void set_addr(const char *ifname, unsigned long what, const char *addr)
{
	struct ifreq r = { 0 };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr(addr) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", ifname);
	memcpy(&r.ifr_addr, &a, sizeof(a));
	if (what == SIOCSIFFLAGS)
		r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(fd, what, &r))
		printf("testinit: %s: %s\n", ifname, strerror(errno));
	close(fd);
}

/* "hfbench" on the command line, with the port of the serving host: the other transports, by the console. */
static void bench_others(unsigned port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = inet_addr("10.0.2.2") };
	int fd, one = 1;
	glob_t found;

	if (!glob("/dev/vport*p1", 0, NULL, &found) && (fd = open(found.gl_pathv[0], O_RDWR)) >= 0)
		bench("serial", fd, 1);
	set_addr("eth0", SIOCSIFADDR, "10.0.2.15");
	set_addr("eth0", SIOCSIFNETMASK, "255.255.255.0");
	set_addr("eth0", SIOCSIFFLAGS, "0.0.0.0");
	fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		printf("testinit: tcp: %s\n", strerror(errno));
	else
		bench("net", fd, 1);
	reboot(RB_POWER_OFF);
}

static unsigned bench_port(void)
{
	char line[2048] = "";
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t n = read(fd, line, sizeof(line) - 1);
	const char *at = n > 0 ? strstr(line, "hfbench=") : NULL;

	close(fd);
	return at ? (unsigned)atoi(at + 8) : 0;
}

static void rtt(int answer, unsigned port, unsigned n, size_t size)
{
	static uint64_t took[RTTS_MAX];
	char text[64];
	int fd = dial(port);

	for (unsigned i = 0; i < n && i < RTTS_MAX && size <= CHUNK; i++) {
		uint64_t start = now_ns();

		write_all(fd, chunk, size);
		for (size_t got = 0; got < size;) {
			ssize_t k = read(fd, chunk, size - got);

			if (k <= 0)
				_exit(1);
			got += (size_t)k;
		}
		took[i] = now_ns() - start;
	}
	qsort(took, n, sizeof(took[0]), by_size);
	write_all(answer, text, (size_t)snprintf(text, sizeof(text), "%llu %llu\n",
						 (unsigned long long)took[n / 2],
						 (unsigned long long)took[n * 99 / 100]));
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("testinit: %s: %s\n", path, strerror(errno));
	close(fd);
}

static void take_driver_off(bool put_back)
{
	static const char driver[] = "/sys/bus/virtio/drivers/vmw_vsock_virtio_transport";
	char path[256], name[32];

	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "virtio%d", i);
		snprintf(path, sizeof(path), "%s/%s", driver, name);
		if (access(path, F_OK))
			continue;
		snprintf(path, sizeof(path), "%s/unbind", driver);
		write_file(path, name);
		snprintf(path, sizeof(path), "%s/bind", driver);
		if (put_back)
			write_file(path, name);
	}
}

static void serve(int fd, char *cmd);

static void dial_and(int fd, char *args)
{
	uint64_t start = now_ns();
	char *cmd = strchr(args, ' ');
	int host = dial((unsigned)atoi(args));
	char text[64];

	if (host < 0) {
		write_all(fd, text, (size_t)snprintf(text, sizeof(text), "error %s\n", strerrorname_np(errno)));
		return;
	}
	if (cmd)
		serve(host, cmd + 1);
	shutdown(host, SHUT_WR);
	write_all(fd, text, (size_t)snprintf(text, sizeof(text), "ok %llu\n",
					     (unsigned long long)(now_ns() - start)));
}

static int disk(const char *dev)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", dev);
	fd = open(path, O_RDWR);
	if (fd < 0 || lseek(fd, 1 << 30, SEEK_SET) < 0)
		_exit(1);
	return fd;
}

static void fill(int answer, const char *dev, unsigned mib)
{
	int fd = disk(dev);

	for (size_t i = 0; i < CHUNK; i++)
		chunk[i] = (uint8_t)(pattern(i) ^ i >> 16) | 1;
	for (unsigned i = 0; i < mib * 4; i++)
		write_all(fd, chunk, CHUNK);
	fsync(fd);
	close(fd);
	write_all(answer, "ok\n", 3);
}

static void trim(int answer, const char *dev, unsigned mib)
{
	uint64_t range[2] = { 1 << 30, (uint64_t)mib << 20 };
	int fd = disk(dev);

	write_all(answer, ioctl(fd, BLKDISCARD, range) ? "no\n" : "ok\n", 3);
	close(fd);
}

static void put(int fd, const char *name)
{
	char path[128];
	ssize_t n;
	int out;

	snprintf(path, sizeof(path), "/%s", name);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	while ((n = read(fd, chunk, CHUNK)) > 0)
		write_all(out, chunk, (size_t)n);
	close(out);
	write_all(fd, "ok\n", 3);
}

static void get(int fd, const char *name)
{
	char path[128];
	ssize_t n;
	int in;

	snprintf(path, sizeof(path), "/%s", name);
	in = open(path, O_RDONLY);
	while ((n = read(in, chunk, CHUNK)) > 0)
		write_all(fd, chunk, (size_t)n);
}

static void run(int fd, char *line)
{
	char *argv[16];
	int n = 0;

	for (char *w = strtok(line, " "); w && n < 15; w = strtok(NULL, " "))
		argv[n++] = w;
	argv[n] = NULL;
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	execv(argv[0], argv);
	_exit(127);
}

static void phase(int answer, const char *number)
{
	write_file("/sys/module/sentry/parameters/phase", number);
	write_all(answer, "ok\n", 3);
}

static void spin(int answer, unsigned seconds)
{
	uint64_t end = now_ns() + seconds * 1000000000ull;

	for (int i = 0; i < 3; i++)
		if (!fork()) {
			answer = -1;
			break;
		}
	while (now_ns() < end)
		;
	if (answer < 0)
		_exit(0);
	write_all(answer, "ok\n", 3);
}

static void serve(int fd, char *cmd)
{
	unsigned port, n, size;
	char c[2] = "", dev[16];

	if (!strcmp(cmd, "echo"))
		echo(fd);
	else if (!strncmp(cmd, "source ", 7))
		source(fd, strtoull(cmd + 7, NULL, 10));
	else if (!strncmp(cmd, "zeros ", 6))
		zeros(fd, strtoull(cmd + 6, NULL, 10));
	else if (!strcmp(cmd, "sink"))
		sink(fd, fd);
	else if (!strcmp(cmd, "drain"))
		drain(fd);
	else if (!strcmp(cmd, "hang"))
		sleep(600);
	else if (!strncmp(cmd, "dial ", 5))
		dial_and(fd, cmd + 5);
	else if (sscanf(cmd, "rtt %u %u %u", &port, &n, &size) == 3)
		rtt(fd, port, n, size);
	else if (sscanf(cmd, "bench %u", &port) == 1)
		bench("vsock", dial(port), fd);
	else if (!strcmp(cmd, "rebind") || !strcmp(cmd, "unbind"))
		take_driver_off(cmd[0] == 'r');
	else if (sscanf(cmd, "sysrq %1s", c) == 1)
		write_file("/proc/sysrq-trigger", c);
	else if (!strcmp(cmd, "reboot"))
		reboot(RB_AUTOBOOT);
	else if (!strcmp(cmd, "poweroff"))
		reboot(RB_POWER_OFF);
	else if (sscanf(cmd, "fill %15s %u", dev, &n) == 2)
		fill(fd, dev, n);
	else if (sscanf(cmd, "trim %15s %u", dev, &n) == 2)
		trim(fd, dev, n);
	else if (!strncmp(cmd, "put ", 4))
		put(fd, cmd + 4);
	else if (!strncmp(cmd, "get ", 4))
		get(fd, cmd + 4);
	else if (!strncmp(cmd, "run ", 4))
		run(fd, cmd + 4);
	else if (!strncmp(cmd, "phase ", 6))
		phase(fd, cmd + 6);
	else if (sscanf(cmd, "spin %u", &n) == 1)
		spin(fd, n);
	else
		write_all(fd, "what?\n", 6);
}

static void child(int fd)
{
	char cmd[256];
	size_t n = 0;

	while (n < sizeof(cmd) - 1 && read(fd, cmd + n, 1) == 1 && cmd[n] != '\n')
		n++;
	cmd[n] = 0;
	serve(fd, cmd);
	_exit(0);
}

static int listen_on(unsigned port)
{
	struct sockaddr_vm any = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port };
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, 64))
		printf("testinit: listen: %s\n", strerror(errno));
	return fd;
}

static void loopback_up(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo))
		printf("testinit: lo: %s\n", strerror(errno));
	close(fd);
}

int main(void)
{
	int listener;

	mount("none", "/dev", "devtmpfs", 0, "");
	mount("none", "/proc", "proc", 0, "");
	mount("none", "/sys", "sysfs", 0, "");
	setvbuf(stdout, NULL, _IONBF, 0);
	load_modules();
	load_sentry();
	loopback_up();
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (bench_port())
		bench_others(bench_port());
	listener = listen_on(PORT);
	printf("testinit: ready\n");
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0) {
			usleep(50000);
			continue;
		}
		if (!fork()) {
			signal(SIGCHLD, SIG_DFL);
			close(listener);
			child(fd);
		}
		close(fd);
	}
}
