/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What both programs at the other end of the Sentry's stream share (host.c, session.c): the port, and their commands. */
#ifndef OTHER_END_H
#define OTHER_END_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/vm_sockets.h>

#include <holdfast/sentry.h>

/* A socket that listens where the Sentry connects to; ends the program if it can't be had. */
static inline int listen_for_sentry(void)
{
	struct sockaddr_vm at = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = HF_SENTRY_PORT };
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 4)) {
		perror("listen");
		exit(1);
	}
	return fd;
}

/* Hand each line that the FIFO holds now to on_command, without its newline. */
static inline void read_commands(int fifo, void (*on_command)(char *line))
{
	char text[512], *line, *save;
	ssize_t n = read(fifo, text, sizeof(text) - 1);

	if (n <= 0)
		return;
	text[n] = 0;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		on_command(line);
}

#endif
