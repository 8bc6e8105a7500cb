// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The collector's other half: loads the programs, leaves a child that gathers what they see, and returns once all are
 * attached. When /run/oracle-stop is there the child prints a line for each different thing with how often it was seen,
 * and stays, so that its end is no event.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "oracle.h"
#include "oracle.skel.h"

#define SANDBOX "/sys/fs/cgroup/holdfast/sandbox"
#define SLOTS (1 << 18)

static struct { struct oracle_event event; unsigned long count; } table[SLOTS];
static unsigned long seen;

static const char *const kinds[] = {
#define ORACLE_NAME(constant, name) name,
	ORACLE_KINDS(ORACLE_NAME)
#undef ORACLE_NAME
};

static unsigned int hash(const struct oracle_event *e)
{
	const unsigned char *p = (const unsigned char *)e;
	unsigned int h = 2166136261u;

	for (size_t i = 0; i < sizeof(*e); i++)
		h = (h ^ p[i]) * 16777619u;
	return h;
}

static int take(void *u, void *data, size_t len)
{
	const struct oracle_event *e = data;

	(void)u;
	(void)len;
	/* What came before the Sentry was there to see it. */
	if (e->kind == ORACLE_MODULE && !strcmp(e->name, "sentry")) {
		memset(table, 0, sizeof(table));
		seen = 0;
		return 0;
	}
	seen++;
	for (unsigned int i = hash(e); ; i++) {
		if (table[i % SLOTS].count && memcmp(&table[i % SLOTS].event, e, sizeof(*e)))
			continue;
		table[i % SLOTS].event = *e;
		table[i % SLOTS].count++;
		return 0;
	}
}

static void print_all(const struct oracle_bpf *skel)
{
	for (size_t i = 0; i < SLOTS; i++) {
		const struct oracle_event *e = &table[i].event;
		char dst[64] = "-";

		if (!table[i].count)
			continue;
		if (e->kind == ORACLE_FLOW && e->family)
			inet_ntop(e->family == 4 ? AF_INET : AF_INET6, e->dst, dst, sizeof(dst));
		printf("oracle\t%s\t%u\t%lu\t%u\t%d\t%u\t%u\t%s\t%u\t%s\n", kinds[e->kind], e->pid, table[i].count, e->op, e->value,
		       e->protocol, e->sport, dst, e->dport, e->name);
	}
	printf("oracle-end\t%lu\t%llu\n", seen, skel->bss->lost);
}

/* A function that this kernel does not have is left out; everything else must load. */
static void leave_out_missing(struct oracle_bpf *skel)
{
	struct btf *btf = btf__load_vmlinux_btf();
	struct bpf_program *program;

	bpf_object__for_each_program(program, skel->obj) {
		const char *section = bpf_program__section_name(program), *name = strchr(section, '/');

		if (name && (!strncmp(section, "fentry/", 7) || !strncmp(section, "fexit/", 6)) &&
		    btf__find_by_name_kind(btf, name + 1, BTF_KIND_FUNC) < 0) {
			printf("oracle-without\t%s\n", name + 1);
			bpf_program__set_autoload(program, false);
		}
	}
	btf__free(btf);
}

static void gather(struct oracle_bpf *skel, int ready)
{
	struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(skel->maps.events), take, NULL, NULL);

	setsid();
	write(ready, "k", 1);
	close(ready);
	while (access("/run/oracle-stop", F_OK))
		ring_buffer__poll(ring, 100);
	ring_buffer__consume(ring);
	print_all(skel);
	fflush(stdout);
	close(open("/run/idle", O_CREAT | O_WRONLY, 0600));
	for (;;)
		pause();
}

int main(void)
{
	struct oracle_bpf *skel = oracle_bpf__open();
	struct stat st;
	int ends[2];
	char byte = 0;

	mkdir("/sys/fs/cgroup/holdfast", 0755);
	mkdir(SANDBOX, 0755);
	if (!skel || stat(SANDBOX, &st) || pipe(ends))
		return 1;
	leave_out_missing(skel);
	skel->bss->sandbox_id = st.st_ino;
	if (oracle_bpf__load(skel) || oracle_bpf__attach(skel)) {
		printf("oracle: it does not load\n");
		return 1;
	}
	fflush(stdout);
	if (!fork()) {
		close(ends[0]);
		gather(skel, ends[1]);
	}
	close(ends[1]);
	read(ends[0], &byte, 1);
	printf("oracle attached\n");
	return byte == 'k' ? 0 : 1;
}
