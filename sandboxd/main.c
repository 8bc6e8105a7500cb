// SPDX-License-Identifier: GPL-2.0-or-later
/* sandboxd: PID 1 of the host's initramfs, then the supervisor; or a question about its tables. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/sandbox/sandbox.h"
#include "sandboxd/guest.h"
#include "sandboxd/supervisor.h"

static int usage(void)
{
	fprintf(stderr, "usage: sandboxd --print-filter | --landlock-abi\n"
			"As process 1 of the host's initramfs it starts the workspace and supervises it.\n");
	return 2;
}

static int print_abi(void)
{
	char lost[512];
	int abi = sandbox_landlock_abi();

	sandbox_landlock_lost(abi, lost, sizeof(lost));
	printf("%d%s%s\n", abi, *lost ? " lacks " : "", lost);
	return 0;
}

int main(int argc, char **argv)
{
	static struct guest guest = {
		.root_fd = -1, .proc_fd = -1, .pts_fd = -1, .params_fd = -1, .daemon_cgroup_fd = -1,
		.sandbox_cgroup_fd = -1, .run_fd = -1, .launch_fd = -1,
	};

	if (getpid() == 1 && argc >= 1) {
		guest_launch(&guest, argv);
		return guest_supervisor_run(&guest);
	}
	if (argc == 2 && !strcmp(argv[1], "--print-filter"))
		return sandbox_table_print(STDOUT_FILENO);
	if (argc == 2 && !strcmp(argv[1], "--landlock-abi"))
		return print_abi();
	return usage();
}
