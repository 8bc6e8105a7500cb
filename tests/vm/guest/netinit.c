/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest of the network tests: an init that gets a lease, checks what it sees, and powers off.
 *
 * What it finds goes to the console as TAP; `netbench` on the kernel command line adds figures,
 * `netuser` means that the other end is QEMU's user network, where only figures make sense.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/tcp.h>
#include <netpacket/packet.h>
#include <poll.h>
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
#include <time.h>
#include <unistd.h>

#define IF_NAME "eth0"
#define SERVER "192.0.2.10"

enum { ECHO = 7000, SOURCE = 7001, SINK = 7002, DENIED = 7004, PARALLEL = 50, BENCH_MS = 5000 };

static unsigned checks;
static struct in_addr my_ip, gateway;

static void ok(bool good, const char *name)
{
	printf("%sok %u - guest: %s\n", good ? "" : "not ", ++checks, name);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void load_modules(void)
{
	static const char *const names[] = { "failover", "net_failover", "virtio_net", "af_packet" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "/%s.ko", names[i]);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
			printf("# %s: %s\n", path, strerror(errno));
		close(fd);
	}
}

/* ---- configuration ---- */

static struct sockaddr_in addr(const char *ip, unsigned port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	inet_pton(AF_INET, ip, &a.sin_addr);
	return a;
}

static void set_if(unsigned long request, struct in_addr value)
{
	struct ifreq r = { 0 };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = value };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	strcpy(r.ifr_name, IF_NAME);
	memcpy(&r.ifr_addr, &a, sizeof(a));
	if (ioctl(fd, request, &r))
		printf("# ioctl %lx: %s\n", request, strerror(errno));
	close(fd);
}

static void set_up(const char *name, unsigned mtu)
{
	struct ifreq r = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	strcpy(r.ifr_name, name);
	if (mtu) {
		r.ifr_mtu = (int)mtu;
		ioctl(fd, SIOCSIFMTU, &r);
	}
	ioctl(fd, SIOCGIFFLAGS, &r);
	r.ifr_flags |= IFF_UP | IFF_RUNNING;
	ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
}

static void default_route(struct in_addr via)
{
	struct rtentry r = { .rt_flags = RTF_UP | RTF_GATEWAY };
	struct sockaddr_in any = { .sin_family = AF_INET }, gw = { .sin_family = AF_INET, .sin_addr = via };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	memcpy(&r.rt_dst, &any, sizeof(any));
	memcpy(&r.rt_genmask, &any, sizeof(any));
	memcpy(&r.rt_gateway, &gw, sizeof(gw));
	ioctl(fd, SIOCADDRT, &r);
	close(fd);
}

static void hw_address(uint8_t mac[6])
{
	struct ifreq r = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	strcpy(r.ifr_name, IF_NAME);
	ioctl(fd, SIOCGIFHWADDR, &r);
	memcpy(mac, r.ifr_hwaddr.sa_data, 6);
	close(fd);
}

static size_t dhcp_message(uint8_t p[300], uint8_t type, const struct in_addr *wanted)
{
	size_t n = 240;

	memset(p, 0, 300);
	p[0] = p[1] = 1;
	p[2] = 6;
	p[4] = 0x42;
	p[10] = 0x80; /* answer by broadcast: there is no address yet */
	hw_address(p + 28);
	memcpy(p + 236, "\x63\x82\x53\x63", 4);
	memcpy(p + n, (uint8_t[]){ 53, 1, type }, 3);
	n += 3;
	if (wanted) {
		p[n++] = 50;
		p[n++] = 4;
		memcpy(p + n, wanted, 4);
		n += 4;
	}
	p[n++] = 255;
	return 300;
}

static const uint8_t *dhcp_option(const uint8_t *p, ssize_t n, uint8_t code)
{
	for (ssize_t i = 240; i + 1 < n && p[i] != 255; i += 2 + p[i + 1]) {
		if (p[i] == code)
			return p + i + 2;
	}
	return NULL;
}

/* One exchange; the type of the answer, 0 for none. */
static int dhcp(int fd, uint8_t type, const struct in_addr *wanted, uint8_t *p, ssize_t *n)
{
	struct sockaddr_in all = addr("255.255.255.255", 67);
	const uint8_t *answer;
	uint8_t q[300];

	for (int i = 0; i < 10; i++) {
		sendto(fd, q, dhcp_message(q, type, wanted), 0, (struct sockaddr *)&all, sizeof(all));
		*n = recv(fd, p, 1000, 0);
		answer = *n > 240 ? dhcp_option(p, *n, 53) : NULL;
		if (answer)
			return *answer;
	}
	return 0;
}

static void get_lease(void)
{
	struct timeval tv = { 1, 0 };
	struct in_addr any = { 0 }, mask = { 0 }, elsewhere;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
	struct sockaddr_in a = addr("0.0.0.0", 68);
	unsigned mtu = 0;
	uint8_t p[1000];
	ssize_t n = 0;

	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, IF_NAME, sizeof(IF_NAME));
	bind(fd, (struct sockaddr *)&a, sizeof(a));
	set_if(SIOCSIFADDR, any);
	set_up("lo", 0);
	set_up(IF_NAME, 0);
	ok(dhcp(fd, 1, NULL, p, &n) == 2, "DHCP offers a lease");
	memcpy(&my_ip, p + 16, 4);
	inet_pton(AF_INET, "192.168.64.77", &elsewhere);
	ok(dhcp(fd, 3, &elsewhere, p, &n) == 6, "DHCP refuses another address");
	ok(dhcp(fd, 3, &my_ip, p, &n) == 5, "DHCP acknowledges the offered one");
	if (dhcp_option(p, n, 1) && dhcp_option(p, n, 3)) {
		memcpy(&mask, dhcp_option(p, n, 1), 4);
		memcpy(&gateway, dhcp_option(p, n, 3), 4);
	}
	if (dhcp_option(p, n, 26))
		mtu = (unsigned)(dhcp_option(p, n, 26)[0] << 8 | dhcp_option(p, n, 26)[1]);
	close(fd);
	set_if(SIOCSIFADDR, my_ip);
	set_if(SIOCSIFNETMASK, mask);
	set_up(IF_NAME, mtu);
	default_route(gateway);
	printf("# address %s, ", inet_ntoa(my_ip));
	printf("gateway %s, MTU %u\n", inet_ntoa(gateway), mtu);
}

/* ---- checks ---- */

static int dial(const char *ip, unsigned port)
{
	struct sockaddr_in a = addr(ip, port);
	struct timeval tv = { 20, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0), saved;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (!connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static bool read_all(int fd, void *p, size_t n)
{
	while (n) {
		ssize_t k = read(fd, p, n);

		if (k <= 0)
			return false;
		p = (char *)p + k;
		n -= (size_t)k;
	}
	return true;
}

static bool echoes(int fd, size_t n)
{
	static uint8_t out[4096], back[4096];
	bool same = fd >= 0;

	for (size_t at = 0; same && at < n; at += sizeof(out)) {
		for (size_t i = 0; i < sizeof(out); i++)
			out[i] = (uint8_t)((at >> 12) * 7 + i * 131 + (i >> 8));
		same = write(fd, out, sizeof(out)) == sizeof(out) && read_all(fd, back, sizeof(back)) &&
		       !memcmp(out, back, sizeof(out));
	}
	return same;
}

/* First address of the answer; the response code in rcode. */
static struct in_addr resolve(const char *name, int *rcode)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(53), .sin_addr = gateway };
	uint8_t q[300] = { 1, 2, 1, 0, 0, 1 }, r[600];
	struct timeval tv = { 12, 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct in_addr out = { 0 };
	size_t len = 12;
	ssize_t n;

	for (const char *s = name; *s;) {
		size_t label = strcspn(s, ".");

		q[len++] = (uint8_t)label;
		memcpy(q + len, s, label);
		len += label;
		s += label + (s[label] == '.');
	}
	q[len + 2] = q[len + 4] = 1;
	len += 5;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	sendto(fd, q, len, 0, (struct sockaddr *)&a, sizeof(a));
	n = recv(fd, r, sizeof(r), 0);
	close(fd);
	*rcode = n < (ssize_t)len ? -1 : r[3] & 15;
	if (n >= (ssize_t)len + 16 && r[7])
		memcpy(&out, r + len + 12, 4);
	return out;
}

static void check_tcp(void)
{
	uint64_t quickest = UINT64_MAX;
	int fd, fds[PARALLEL];
	bool all = true;

	fd = dial(SERVER, ECHO);
	ok(echoes(fd, 256 * 1024), "an allowed flow carries 256 KiB both ways unchanged");
	close(fd);
	for (int i = 0; i < 5; i++) { /* the machine may be busy: the switch is not */
		uint64_t before = now_ms();

		fd = dial(SERVER, DENIED);
		all &= fd < 0 && errno == ECONNREFUSED;
		if (now_ms() - before < quickest)
			quickest = now_ms() - before;
	}
	ok(all, "a refused flow is reset");
	printf("# refused after %llu ms\n", (unsigned long long)quickest);
	ok(quickest < 100, "within 100 ms");
	all = true;
	ok(dial("169.254.169.254", 80) < 0 && errno == ECONNREFUSED, "cloud metadata is refused");
	ok(dial(inet_ntoa(gateway), ECHO) < 0 && errno == ECONNREFUSED, "the host's loopback is refused");
	for (int i = 0; i < PARALLEL; i++)
		all &= (fds[i] = dial(SERVER, ECHO)) >= 0;
	for (int i = 0; i < PARALLEL; i++)
		all &= echoes(fds[i], 4096);
	ok(all, "50 flows at once");
	for (int i = 0; i < PARALLEL; i++)
		close(fds[i]);
}

static void check_names(void)
{
	struct in_addr a;
	int rcode, fd;

	a = resolve("www.allowed.test", &rcode);
	ok(!rcode && !strcmp(inet_ntoa(a), SERVER), "an allowed name has its address");
	fd = dial(inet_ntoa(a), ECHO);
	ok(echoes(fd, 4096), "and is reached");
	close(fd);
	a = resolve("c2VjcmV0.exfil.test", &rcode);
	ok(!rcode && ntohl(a.s_addr) >> 17 == 0xc6120000u >> 17, "a refused name has a synthetic address");
	ok(dial(inet_ntoa(a), 443) < 0 && errno == ECONNREFUSED, "where the connection is refused");
}

static void check_udp(void)
{
	struct sockaddr_in a = addr(SERVER, ECHO);
	struct timeval tv = { 3, 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char b[16];

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	connect(fd, (struct sockaddr *)&a, sizeof(a));
	ok(send(fd, "hello", 5, 0) == 5 && recv(fd, b, 16, 0) == 5, "an allowed datagram is answered");
	close(fd);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	a = addr("192.0.2.11", 9);
	connect(fd, (struct sockaddr *)&a, sizeof(a));
	ok(send(fd, "x", 1, 0) == 1 && recv(fd, b, 16, 0) < 0 && errno == EHOSTUNREACH,
	   "a refused one is answered by ICMP");
	close(fd);
}

/* Root in the guest puts what it likes on the wire; the host's counters say what became of it. */
static void send_forged(void)
{
	uint8_t f[60] = { 0x02, 0x68, 0x66, 0, 0, 1 };
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_halen = 6 };
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	to.sll_ifindex = (int)if_nametoindex(IF_NAME);
	hw_address(f + 6);
	f[12] = 8;
	f[14] = 0x45;
	f[17] = 40;
	memcpy(f + 26, "\xc0\xa8\x40\x63", 4);
	memcpy(f + 24, "\x00\x00", 2);
	for (int i = 0; i < 5; i++) {
		f[12] = 8, f[13] = 0;
		f[11] ^= i == 0; /* another machine's MAC */
		if (i == 1)
			f[12] = 0x81; /* VLAN */
		if (i == 2)
			f[12] = 0x86, f[13] = 0xdd; /* IPv6 */
		if (i == 3)
			f[14] = 0x46; /* IP options */
		sendto(fd, f, sizeof(f), 0, (struct sockaddr *)&to, sizeof(to));
		f[11] ^= i == 0;
		f[14] = 0x45;
	}
	close(fd);
}

/* ---- throughput ---- */

static void measure(const char *ip, unsigned port, const char *what)
{
	static char b[65536];
	uint64_t start, total = 0;
	int fd = dial(ip, port);

	if (fd < 0) {
		printf("# %s: %s\n", what, strerror(errno));
		return;
	}
	start = now_ms();
	while (now_ms() - start < BENCH_MS) {
		ssize_t n = port == SINK ? write(fd, b, sizeof(b)) : read(fd, b, sizeof(b));

		if (n <= 0)
			break;
		total += (uint64_t)n;
	}
	printf("figure %s %.1f Mbit/s\n", what, (double)total * 8 / 1000 / (double)(now_ms() - start));
	close(fd);
}

static void measure_connects(const char *ip)
{
	uint64_t start = now_ms();
	unsigned n = 0;
	char c;

	while (n < 200) {
		int fd = dial(ip, ECHO);

		if (fd < 0)
			break;
		if (write(fd, "x", 1) != 1 || read(fd, &c, 1) != 1)
			break;
		close(fd);
		n++;
	}
	printf("figure connect+echo %.2f ms\n", n ? (double)(now_ms() - start) / n : 0.0);
}

static bool asked_for(const char *word)
{
	static char line[1024];
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);

	line[n > 0 ? n : 0] = 0;
	close(fd);
	return strstr(line, word);
}

int main(void)
{
	int fd;

	mkdir("/dev", 0755);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	fd = open("/dev/console", O_RDWR);
	dup2(fd, 1);
	dup2(fd, 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
	mkdir("/proc", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	load_modules();
	get_lease();
	if (!asked_for("netuser")) {
		check_tcp();
		check_names();
		check_udp();
		send_forged();
	}
	if (asked_for("netbench")) {
		measure(SERVER, SINK, "up");
		measure(SERVER, SOURCE, "down");
		measure_connects(SERVER);
	}
	usleep(300000);
	printf("END\n");
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 0;
}
