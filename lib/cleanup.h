/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scope-bound cleanup for userland code: attributes instead of goto ladders. */
#ifndef HOLDFAST_LIB_CLEANUP_H
#define HOLDFAST_LIB_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define _cleanup_free_ __attribute__((cleanup(cleanup_free)))
#define _cleanup_close_ __attribute__((cleanup(cleanup_close)))
#define _cleanup_fclose_ __attribute__((cleanup(cleanup_fclose)))

/* Takes the value out of a cleanup variable: the caller owns it from here. */
static inline int steal_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void *steal_ptr_(void *p)
{
	void *taken = *(void **)p;

	*(void **)p = NULL;
	return taken;
}
#define steal_ptr(p) ((__typeof__(*(p)))steal_ptr_(p))

#endif
