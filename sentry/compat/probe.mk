# SPDX-License-Identifier: GPL-2.0-or-later
# Every difference between kernels that the module meets, found by looking for the feature in the headers
# and in the list of exported symbols.
#
# compat.h turns the results into one name each; nothing outside this folder asks for a kernel's version.

sentry-has = $(if $(shell grep -lE '$(2)' $(srctree)/include/$(1) 2>/dev/null),-DSENTRY_HAS_$(3))
sentry-exports = $(if $(shell grep -sP '\t$(1)\tvmlinux' $(objtree)/Module.symvers),-DSENTRY_HAS_$(2))

ccflags-y += $(call sentry-exports,fsverity_get_digest,VERITY_DIGEST)
ccflags-y += $(call sentry-has,linux/fs.h,^struct file \*get_file_rcu.struct file __rcu,GET_FILE_RCU_SLOT)
ccflags-y += $(call sentry-has,linux/uio.h,struct iovec \*iter_iov.const,ITER_IOV)
ccflags-y += $(call sentry-has,crypto/sha2.h,^struct sha256_ctx,SHA256_CTX)
ccflags-y += $(call sentry-has,linux/net.h,int kernel_connect.*struct sockaddr_unsized,SOCKADDR_UNSIZED)
ccflags-y += $(call sentry-has,linux/fs.h,inode_get_ctime_sec,INODE_GET_CTIME)
ccflags-y += $(call sentry-has,linux/hex.h,bin2hex,HEX_H)
ccflags-y += $(call sentry-has,linux/unaligned.h,get_unaligned,UNALIGNED_H)
