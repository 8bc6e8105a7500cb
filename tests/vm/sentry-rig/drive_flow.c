// SPDX-License-Identifier: GPL-2.0-or-later
/* Network flows. 192.0.2.1 and 2001:db8::1 are on lo but are no loopback addresses, so flows to them are reported. */
#include "drive.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/io_uring.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define V4 "192.0.2.1"
#define V6 "2001:db8::1"

static struct sockaddr_in v4(const char *address, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, address, &to.sin_addr);
	return to;
}

static struct sockaddr_in6 v6(const char *address, int port)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	inet_pton(AF_INET6, address, &to.sin6_addr);
	return to;
}

/* A socket bound to a port that is known before it connects. */
static int bound(int family, int type, int port)
{
	struct sockaddr_in6 any = { .sin6_family = family, .sin6_port = htons(port) };
	int fd = socket(family, type, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&any, family == AF_INET6 ? sizeof(any) : sizeof(struct sockaddr_in)))
		perror("bind");
	return fd;
}

static void tcp(void)
{
	struct sockaddr_in to = v4(V4, 81);
	struct sockaddr_in6 to6 = v6(V6, 82), mapped = v6("::ffff:" V4, 83);
	unsigned long long cookie = 0;
	socklen_t len = sizeof(cookie);
	int fd = bound(AF_INET, SOCK_STREAM, 4001);

	connect(fd, (struct sockaddr *)&to, sizeof(to));
	getsockopt(fd, SOL_SOCKET, 57 /* SO_COOKIE */, &cookie, &len);
	expect("CAP-06 net_flow: TCP over IPv4, with the socket's cookie and the chain",
	       "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"tcp\",\"ip_proto\":6,\"family\":4,\"sport\":4001,\"dst\":\"" V4 "\",\"dport\":81,\"cookie\":%llu,\"count\":1,\"exe\":\"/bin/drive\","
	       "\"chain\":[{\"pid\":1,\"path\":\"/init\"}],\"$absent\":[\"icmp_type\"],\"$times\":1}", getpid(), cookie);
	close(fd);
	fd = bound(AF_INET6, SOCK_STREAM, 4002);
	connect(fd, (struct sockaddr *)&to6, sizeof(to6));
	close(fd);
	expect("CAP-06 net_flow: TCP over IPv6", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"tcp\",\"family\":6,\"sport\":4002,\"dst\":\"" V6 "\",\"dport\":82,\"$times\":1}", getpid());
	fd = bound(AF_INET6, SOCK_STREAM, 4003);
	connect(fd, (struct sockaddr *)&mapped, sizeof(mapped));
	close(fd);
	expect("CAP-06 net_flow: TCP to IPv4 through an IPv6 socket", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"tcp\",\"family\":4,\"sport\":4003,\"dst\":\"" V4 "\",\"dport\":83,\"$times\":1}", getpid());
}

static void fast_open(void)
{
	struct sockaddr_in to = v4(V4, 84);
	int fd = bound(AF_INET, SOCK_STREAM, 4004);

	sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof(to));
	close(fd);
	expect("CAP-06 net_flow: TCP Fast Open", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"tcp\",\"sport\":4004,\"dport\":84,\"$times\":1}", getpid());
}

static void tcp_compat(void)
{
	struct sockaddr_in to = v4(V4, 85);
	int fd = bound(AF_INET, SOCK_STREAM, 4005);

	int80(362 /* connect */, fd, (long)low(&to, sizeof(to)), sizeof(to), 0, 0);
	close(fd);
	expect("CAP-13 net_flow: connect through int 0x80", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"tcp\",\"sport\":4005,\"dport\":85,\"$times\":1}", getpid());
}

/* One operation through a ring of its own. */
static int uring(struct io_uring_sqe *op)
{
	struct io_uring_params p = { 0 };
	int ring = syscall(SYS_io_uring_setup, 4, &p);
	unsigned char *sq;
	struct io_uring_sqe *sqes;

	if (ring < 0)
		return -1;
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	sqes[0] = *op;
	*(unsigned int *)(sq + p.sq_off.array) = 0;
	__atomic_store_n((unsigned int *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	close(ring);
	return 0;
}

static void io_uring(void)
{
	struct sockaddr_in to = v4(V4, 86), udp_to = v4(V4, 87);
	int fd = bound(AF_INET, SOCK_STREAM, 4006), ok;
	struct io_uring_sqe op = { .opcode = IORING_OP_CONNECT, .fd = fd, .addr = (unsigned long)&to, .off = sizeof(to) };
	struct iovec iov = { "x", 1 };
	struct msghdr msg = { .msg_name = &udp_to, .msg_namelen = sizeof(udp_to), .msg_iov = &iov, .msg_iovlen = 1 };

	ok = uring(&op);
	close(fd);
	if (ok) {
		check("CAP-06 net_flow: io_uring # SKIP the kernel has no io_uring", true, " ");
		return;
	}
	expect("CAP-06 net_flow: connect through io_uring", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"tcp\",\"sport\":4006,\"dport\":86,\"$times\":1}", getpid());
	fd = bound(AF_INET, SOCK_DGRAM, 4007);
	op = (struct io_uring_sqe){ .opcode = IORING_OP_SENDMSG, .fd = fd, .addr = (unsigned long)&msg, .len = 1 };
	uring(&op);
	close(fd);
	expect("CAP-06 net_flow: sendmsg through io_uring", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"udp\",\"sport\":4007,\"dport\":87,\"$times\":1}", getpid());
}

static void udp(void)
{
	struct sockaddr_in to = v4(V4, 53), other = v4(V4, 54), third = v4(V4, 55);
	struct sockaddr_in6 to6 = v6(V6, 53);
	int fd = bound(AF_INET, SOCK_DGRAM, 4010), quiet = bound(AF_INET, SOCK_DGRAM, 4011), six = bound(AF_INET6, SOCK_DGRAM, 4012);
	struct iovec iov = { "x", 1 };
	struct mmsghdr many[2] = {
		{ .msg_hdr = { .msg_name = &other, .msg_namelen = sizeof(other), .msg_iov = &iov, .msg_iovlen = 1 } },
		{ .msg_hdr = { .msg_name = &third, .msg_namelen = sizeof(third), .msg_iov = &iov, .msg_iovlen = 1 } },
	};

	for (int i = 0; i < 5; i++)
		sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	expect("CAP-06 net_flow: the first datagram goes out at once", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"udp\",\"ip_proto\":17,\"family\":4,\"sport\":4010,\"dst\":\"" V4 "\",\"dport\":53,\"count\":1,\"$times\":1}", getpid());
	expect("CAP-12 net_flow: four repeats are one frame with their number", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"udp\",\"sport\":4010,\"dport\":53,\"count\":4,\"$times\":1}", getpid());
	sendmmsg(fd, many, 2, 0);
	expect("CAP-12 net_flow: another port is another fact (sendmmsg, first)", "{\"type\":\"net_flow\",\"pid\":%d,\"sport\":4010,\"dport\":54,\"count\":1,\"$times\":1}", getpid());
	expect("CAP-12 net_flow: another port is another fact (sendmmsg, second)", "{\"type\":\"net_flow\",\"pid\":%d,\"sport\":4010,\"dport\":55,\"count\":1,\"$times\":1}", getpid());
	sendto(six, "x", 1, 0, (struct sockaddr *)&to6, sizeof(to6));
	expect("CAP-06 net_flow: UDP over IPv6", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"udp\",\"family\":6,\"sport\":4012,\"dst\":\"" V6 "\",\"dport\":53,\"$times\":1}", getpid());
	connect(quiet, (struct sockaddr *)&to, sizeof(to));
	absent("CAP-06 net_flow: a connected UDP socket that sends nothing is none", "{\"type\":\"net_flow\",\"pid\":%d,\"sport\":4011}", getpid());
	close(fd);
	close(quiet);
	close(six);
}

static void connected_udp(void)
{
	struct sockaddr_in to = v4(V4, 56);
	int fd = bound(AF_INET, SOCK_DGRAM, 4013);

	connect(fd, (struct sockaddr *)&to, sizeof(to));
	send(fd, "x", 1, 0);
	close(fd);
	expect("CAP-06 net_flow: a connected UDP socket that sends", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"udp\",\"sport\":4013,\"dst\":\"" V4 "\",\"dport\":56,\"$times\":1}", getpid());
}

static void icmp(void)
{
	struct sockaddr_in to = v4(V4, 0);
	struct sockaddr_in6 to6 = v6(V6, 0);
	struct icmphdr echo = { .type = ICMP_ECHO };
	struct icmp6_hdr echo6 = { .icmp6_type = ICMP6_ECHO_REQUEST };
	int ping = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	int ping6 = socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6), raw6 = socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6), other = socket(AF_INET, SOCK_RAW, 253);

	for (int i = 0; i < 5; i++)
		sendto(ping, &echo, sizeof(echo), 0, (struct sockaddr *)&to, sizeof(to));
	expect("CAP-06 net_flow: ping socket, with the ICMP type", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"icmp\",\"ip_proto\":1,\"family\":4,\"dst\":\"" V4 "\",\"icmp_type\":8,\"count\":1}", getpid());
	expect("CAP-12 net_flow: five echo requests are one frame and four repeats", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"icmp\",\"icmp_type\":8,\"count\":4}", getpid());
	echo.type = ICMP_TIMESTAMP;
	sendto(raw, &echo, sizeof(echo), 0, (struct sockaddr *)&to, sizeof(to));
	expect("CAP-06 net_flow: raw ICMP", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"icmp\",\"icmp_type\":13,\"count\":1,\"$times\":1}", getpid());
	sendto(ping6, &echo6, sizeof(echo6), 0, (struct sockaddr *)&to6, sizeof(to6));
	expect("CAP-06 net_flow: ICMPv6 ping socket", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"icmpv6\",\"ip_proto\":58,\"family\":6,\"dst\":\"" V6 "\",\"icmp_type\":128}", getpid());
	echo6.icmp6_type = 200;
	sendto(raw6, &echo6, sizeof(echo6), 0, (struct sockaddr *)&to6, sizeof(to6));
	expect("CAP-06 net_flow: raw ICMPv6", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"icmpv6\",\"icmp_type\":200,\"$times\":1}", getpid());
	sendto(other, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	expect("CAP-06 net_flow: a raw protocol", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"raw\",\"ip_proto\":253,\"dst\":\"" V4 "\",\"$times\":1}", getpid());
}

static void packet(void)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = 1, .sll_halen = 6 };
	int fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
	char header[20] = { 0x45 };

	if (fd < 0 || sendto(fd, header, sizeof(header), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		perror("packet");
	close(fd);
	expect("CAP-06 net_flow: a packet socket", "{\"type\":\"net_flow\",\"pid\":%d,\"proto\":\"packet\",\"family\":0,\"ifindex\":1}", getpid());
}

static void loopback(void)
{
	struct sockaddr_in to = v4("127.0.0.1", 9999), proxy = v4("127.0.0.1", 8080), all = v4("127.255.0.3", 9998);
	int fd = bound(AF_INET, SOCK_STREAM, 4020);

	connect(fd, (struct sockaddr *)&to, sizeof(to));
	close(fd);
	fd = bound(AF_INET, SOCK_DGRAM, 4021);
	sendto(fd, "x", 1, 0, (struct sockaddr *)&all, sizeof(all));
	close(fd);
	absent("CAP-16 net_flow: loopback is none (TCP)", "{\"type\":\"net_flow\",\"pid\":%d,\"sport\":4020}", getpid());
	absent("CAP-16 net_flow: loopback is none (UDP)", "{\"type\":\"net_flow\",\"pid\":%d,\"sport\":4021}", getpid());
	expect("CAP-16 loopback flows are counted", "{\"type\":\"heartbeat\",\"flows\":{\"local_suppressed\":{\"$ge\":2}}}");
	fd = bound(AF_INET, SOCK_STREAM, 4022);
	connect(fd, (struct sockaddr *)&proxy, sizeof(proxy));
	close(fd);
	expect("CAP-16 net_flow: the proxy's port on loopback is reported", "{\"type\":\"net_flow\",\"pid\":%d,\"sport\":4022,\"dst\":\"127.0.0.1\",\"dport\":8080,\"$times\":1}", getpid());
}

static void part_flow(char **words)
{
	(void)words;
	tcp();
	fast_open();
	tcp_compat();
	io_uring();
	udp();
	connected_udp();
	icmp();
	packet();
	loopback();
}

static void part_flow_flood(char **words)
{
	long count = words[0] ? atol(words[0]) : 1000;
	struct sockaddr_in to = v4(V4, 1);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	for (long i = 0; i < count; i++) {
		progress("datagrams", i);
		to.sin_port = htons(1 + i % 60000);
		sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	}
	close(fd);
}

static void part_tcp_flood(char **words)
{
	long count = words[0] ? atol(words[0]) : 1000;
	struct sockaddr_in to = v4(V4, 1);

	for (long i = 0; i < count; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		progress("connects", i);
		connect(fd, (struct sockaddr *)&to, sizeof(to));
		close(fd);
	}
}

const struct part flow_parts[] = {
	{ "flow", part_flow },
	{ "flow-flood", part_flow_flood },
	{ "tcp-flood", part_tcp_flood },
	{ NULL, NULL },
};
