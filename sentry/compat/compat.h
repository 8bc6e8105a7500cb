/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One name for each thing that kernels do in different ways; the features are found by probe.mk. */
#ifndef SENTRY_COMPAT_H
#define SENTRY_COMPAT_H

#include <linux/file.h>
#include <linux/fs.h>
#ifdef SENTRY_HAS_VERITY_DIGEST /* 6.6 exported fsverity_get_digest() to modules */
#include <linux/fsverity.h>
#endif
#include <linux/kernel.h>
#ifdef SENTRY_HAS_HEX_H /* 6.4 moved bin2hex() there */
#include <linux/hex.h>
#endif
#include <linux/mm_types.h>
#include <linux/net.h>
#ifdef SENTRY_HAS_UNALIGNED_H /* 6.12 moved it */
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif
#include <linux/uio.h>
#include <crypto/sha2.h>

/* 6.16 renamed the state of the SHA-256 library. */
#ifdef SENTRY_HAS_SHA256_CTX
#define sentry_sha256_state sha256_ctx
#else
#define sentry_sha256_state sha256_state
#endif

/* 6.19 gave kernel_connect() a type of its own for addresses of any length. */
#ifdef SENTRY_HAS_SOCKADDR_UNSIZED
#define sentry_sockaddr sockaddr_unsized
#else
#define sentry_sockaddr sockaddr
#endif

/* A reference to the executable of an address space, or NULL; the caller gives it back with fput().
 * 6.7 made files type-stable, and get_file_rcu() re-reads the slot. Any context. */
static inline struct file *sentry_mm_exe_file(struct mm_struct *mm)
{
	struct file *file;

	rcu_read_lock();
#ifdef SENTRY_HAS_GET_FILE_RCU_SLOT
	file = get_file_rcu(&mm->exe_file);
#else
	file = rcu_dereference(mm->exe_file);
	if (file && !get_file_rcu(file))
		file = NULL;
#endif
	rcu_read_unlock();
	return file;
}

/* When the inode last changed, in ns; user space cannot set it. 6.6 made it an accessor. */
static inline u64 sentry_inode_change(const struct inode *inode)
{
#ifdef SENTRY_HAS_INODE_GET_CTIME
	struct timespec64 t = inode_get_ctime(inode);
#else
	struct timespec64 t = inode->i_ctime;
#endif
	return t.tv_sec * (u64)NSEC_PER_SEC + t.tv_nsec;
}

/* fs-verity's digest of a file, if it has one that is made of SHA-256. Before 6.6 no module could ask. */
static inline bool sentry_verity_digest(struct inode *inode, u8 digest[SHA256_DIGEST_SIZE])
{
#ifdef SENTRY_HAS_VERITY_DIGEST
	u8 raw[FS_VERITY_MAX_DIGEST_SIZE], algorithm = 0;

	if (!IS_VERITY(inode) || fsverity_get_digest(inode, raw, &algorithm, NULL) != SHA256_DIGEST_SIZE ||
	    algorithm != FS_VERITY_HASH_ALG_SHA256)
		return false;
	memcpy(digest, raw, SHA256_DIGEST_SIZE);
	return true;
#else
	return false;
#endif
}

/* Where the next byte of a message lies in user space, or NULL if it is kernel memory or empty. */
static inline const void __user *sentry_iter_user(const struct iov_iter *iter)
{
	if (!iov_iter_count(iter))
		return NULL;
	if (iter_is_ubuf(iter))
		return iter->ubuf + iter->iov_offset;
	if (!iter_is_iovec(iter))
		return NULL;
#ifdef SENTRY_HAS_ITER_IOV
	return iter_iov(iter)->iov_base + iter->iov_offset;
#else
	return iter->iov->iov_base + iter->iov_offset;
#endif
}

#endif
