/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Landlock rights by number, for the library and its tests; include/uapi/linux/landlock.h up to ABI 7. */
#ifndef LIB_SANDBOX_LANDLOCK_H
#define LIB_SANDBOX_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/sandbox/sandbox.h"

#define LL_FS_EXECUTE		(UINT64_C(1) << 0)
#define LL_FS_WRITE_FILE	(UINT64_C(1) << 1)
#define LL_FS_READ_FILE		(UINT64_C(1) << 2)
#define LL_FS_READ_DIR		(UINT64_C(1) << 3)
#define LL_FS_REMOVE_DIR	(UINT64_C(1) << 4)
#define LL_FS_REMOVE_FILE	(UINT64_C(1) << 5)
#define LL_FS_MAKE_CHAR		(UINT64_C(1) << 6)
#define LL_FS_MAKE_DIR		(UINT64_C(1) << 7)
#define LL_FS_MAKE_REG		(UINT64_C(1) << 8)
#define LL_FS_MAKE_SOCK		(UINT64_C(1) << 9)
#define LL_FS_MAKE_FIFO		(UINT64_C(1) << 10)
#define LL_FS_MAKE_BLOCK	(UINT64_C(1) << 11)
#define LL_FS_MAKE_SYM		(UINT64_C(1) << 12)
#define LL_FS_REFER		(UINT64_C(1) << 13)	/* ABI 2 */
#define LL_FS_TRUNCATE		(UINT64_C(1) << 14)	/* ABI 3 */
#define LL_FS_IOCTL_DEV		(UINT64_C(1) << 15)	/* ABI 5 */
#define LL_NET_BIND_TCP		(UINT64_C(1) << 0)	/* ABI 4 */
#define LL_NET_CONNECT_TCP	(UINT64_C(1) << 1)	/* ABI 4 */
#define LL_SCOPE_ABSTRACT_UNIX	(UINT64_C(1) << 0)	/* ABI 6 */
#define LL_SCOPE_SIGNAL		(UINT64_C(1) << 1)	/* ABI 6 */

/* The rights that one path of a list is given. A file takes file rights only: the kernel refuses more. */
uint64_t sandbox_landlock_rights(enum sandbox_access access, bool directory, uint64_t handled);

#endif
