// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes N threads and spawns N processes by the C library's own calls, and says how many of each came to their end. */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

static void *thread(void *user)
{
	return user;
}

int main(int argc, char **argv)
{
	char *again[] = { argv[0], NULL };
	int n = argc > 1 ? atoi(argv[1]) : 0, threads = 0, spawns = 0;

	for (int i = 0; i < n; i++) {
		pthread_t t;
		void *back = NULL;

		if (pthread_create(&t, NULL, thread, &threads) == 0 && pthread_join(t, &back) == 0 && back)
			threads++;
	}
	for (int i = 0; i < n; i++) {
		pid_t pid;
		int status;

		if (posix_spawn(&pid, argv[0], NULL, NULL, again, environ) == 0 && waitpid(pid, &status, 0) == pid && status == 0)
			spawns++;
	}
	if (n)
		printf("%d threads, %d spawns\n", threads, spawns);
	return 0;
}
