// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds the process behind a flow: the socket's inode by its addresses in /proc/net, its holder among the
 * descriptors of all processes, the program by the running object itself (/proc/PID/exe), never by a path.
 * All through a procfs that the workspace cannot cover with a mount. It is the guest's word all the same:
 * where the Sentry has a hash, that one counts.
 */
#include "sandboxd/attest.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/cleanup.h"
#include "lib/hash.h"
#include "lib/hex.h"

enum { CHAIN_MAX = 8, HASH_MAX_BYTES = 64 * 1024 * 1024 };

static void dir_close(DIR **d)
{
	if (*d)
		closedir(*d);
}
#define _cleanup_dir_ __attribute__((cleanup(dir_close)))

static FILE *open_file(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (!f && fd >= 0)
		close(fd);
	return f;
}

/* A row of /proc/net/{tcp,udp}[6]: the address is hex words in host order. 1 when it is this flow's. */
static int match_row(const char *line, const struct guest_flow *flow, bool v6, unsigned long *inode)
{
	char local[40], remote[40], dst[40];
	unsigned lport, rport, uid;

	if (sscanf(line, "%*d: %39[0-9A-F]:%4X %39[0-9A-F]:%4X %*2X %*s %*s %*s %u %*d %lu", local, &lport, remote, &rport,
		   &uid, inode) != 6)
		return 0;
	snprintf(dst, sizeof(dst), v6 ? "0000000000000000FFFF0000%08X" : "%08X", flow->dst);
	if (lport != flow->sport || !*inode)
		return 0;
	if (rport == flow->dport && !strcmp(remote, dst))
		return 1;
	/* A datagram socket that never connected has no remote end. */
	return flow->udp && rport == 0;
}

static unsigned long find_inode(const struct guest *g, const struct guest_flow *flow)
{
	static const char *const tables[2][2] = { { "1/net/tcp", "1/net/tcp6" }, { "1/net/udp", "1/net/udp6" } };

	for (int v6 = 0; v6 < 2; v6++) {
		_cleanup_fclose_ FILE *f = open_file(g->proc_fd, tables[flow->udp][v6]);
		char line[512];
		unsigned long inode;

		while (f && fgets(line, sizeof(line), f))
			if (match_row(line, flow, v6, &inode))
				return inode;
	}
	return 0;
}

static bool holds(int proc_fd, const char *pid, unsigned long inode)
{
	char name[64], wanted[64], target[64];
	_cleanup_dir_ DIR *d = NULL;
	struct dirent *entry;
	int fd;

	snprintf(name, sizeof(name), "%.16s/fd", pid);
	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	fd = openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	while (d && (entry = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), entry->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = '\0';
		if (!strcmp(target, wanted))
			return true;
	}
	return false;
}

static int find_holder(const struct guest *g, unsigned long inode)
{
	int fd = openat(g->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (isdigit((unsigned char)entry->d_name[0]) && holds(g->proc_fd, entry->d_name, inode))
			return atoi(entry->d_name);
	return 0;
}

struct process {
	int pid, ppid;
	unsigned uid;
	unsigned long long start_ns;
	char comm[32], exe[PATH_MAX], cgroup[256];
};

static int read_process(int proc_fd, int pid, struct process *p)
{
	long ticks = sysconf(_SC_CLK_TCK);
	char name[64], line[1024], *rest;
	unsigned long long start;
	struct stat st;
	ssize_t n;

	memset(p, 0, sizeof(*p));
	p->pid = pid;
	snprintf(name, sizeof(name), "%d/stat", pid);
	if (guest_read_line(proc_fd, name, line, sizeof(line)) < 0)
		return -1;
	/* comm may hold anything, also ") R": the last parenthesis ends it. */
	rest = strrchr(line, ')');
	if (!rest || sscanf(rest + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			    &p->ppid, &start) != 2)
		return -1;
	p->start_ns = start * (1000000000ULL / (unsigned long long)ticks);
	snprintf(name, sizeof(name), "%d/comm", pid);
	guest_read_line(proc_fd, name, p->comm, sizeof(p->comm));
	snprintf(name, sizeof(name), "%d/cgroup", pid);
	guest_read_line(proc_fd, name, p->cgroup, sizeof(p->cgroup));
	snprintf(name, sizeof(name), "%d", pid);
	if (fstatat(proc_fd, name, &st, 0) == 0)
		p->uid = st.st_uid;
	snprintf(name, sizeof(name), "%d/exe", pid);
	n = readlinkat(proc_fd, name, p->exe, sizeof(p->exe) - 1);
	p->exe[n < 0 ? 0 : n] = '\0';
	return 0;
}

static void add_text(json_t *o, const char *key, const char *text)
{
	json_t *value = json_string(text);

	json_object_set_new(o, key, value ? value : json_string(""));
}

/* Opened through the link, so it is the file that runs, whatever lies at its path now. */
static void add_hash(json_t *o, int proc_fd, int pid)
{
	uint8_t hash[HASH_BYTES];
	char name[64], hex[HASH_HEX];
	_cleanup_close_ int fd = -1;
	struct stat st;

	snprintf(name, sizeof(name), "%d/exe", pid);
	fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > HASH_MAX_BYTES || hash_sha256_fd(hash, fd, NULL) < 0) {
		json_object_set_new(o, "exe_sha256", json_null());
		return;
	}
	hex_encode(hex, hash, sizeof(hash));
	json_object_set_new(o, "exe_sha256", json_string(hex));
}

static json_t *process_json(const struct process *p)
{
	json_t *o = json_pack("{s:i, s:I, s:I}", "pid", p->pid, "start_ns", (json_int_t)p->start_ns, "uid",
			      (json_int_t)p->uid);

	add_text(o, "exe", p->exe);
	add_text(o, "comm", p->comm);
	return o;
}

static json_t *chain_json(int proc_fd, int ppid)
{
	json_t *list = json_array();
	struct process p;

	for (int i = 0; i < CHAIN_MAX && ppid > 0 && read_process(proc_fd, ppid, &p) == 0; i++) {
		json_array_append_new(list, process_json(&p));
		ppid = p.ppid;
	}
	return list;
}

static json_t *not_found(const char *reason)
{
	return json_pack("{s:s, s:b, s:s}", "type", "who", "found", 0, "reason", reason);
}

json_t *guest_attest_who(const struct guest *g, const struct guest_flow *flow)
{
	unsigned long inode = find_inode(g, flow);
	int pid = inode ? find_holder(g, inode) : 0;
	struct process p;
	char name[16];
	json_t *o;

	if (!inode)
		return not_found("no such socket");
	if (!pid || read_process(g->proc_fd, pid, &p) < 0)
		return not_found("nobody holds the socket any more");
	o = process_json(&p);
	json_object_set_new(o, "type", json_string("who"));
	json_object_set_new(o, "found", json_true());
	add_text(o, "cgroup", p.cgroup);
	json_object_set_new(o, "sandboxed", json_boolean(!strncmp(p.cgroup, "0::/holdfast/sandbox", 20)));
	add_hash(o, g->proc_fd, pid);
	json_object_set_new(o, "chain", chain_json(g->proc_fd, p.ppid));
	snprintf(name, sizeof(name), "%d", pid);
	if (holds(g->proc_fd, name, inode))
		return o;
	json_decref(o);
	return not_found("the socket changed hands");
}
