/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One binary, three roles: hostd, `hostd vm`, `hostd proxy`. This is where they part. */
#include <stdio.h>
#include <string.h>

#include <holdfast/role.h>

#include "hostd/alert/alert.h"
#include "hostd/daemon/daemon.h"
#include "hostd/proxy/proxy_role.h"
#include "hostd/vm/vm_role.h"

int main(int argc, char **argv)
{
	if (argc == 1)
		return daemon_main();
	if (argc == 2 && !strcmp(argv[1], "vm"))
		return vm_role_main(ROLE_FD_HOSTD);
	if (argc == 2 && !strcmp(argv[1], "proxy"))
		return proxy_role_main(ROLE_FD_HOSTD);
	if (argc == 2 && !strcmp(argv[1], "alert"))
		return alert_role_main(ROLE_FD_HOSTD);
	fputs("hostd: takes no arguments; the CLI starts it on demand (man hostd)\n", stderr);
	return 2;
}
