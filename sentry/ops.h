/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the member "op" (or "via", "which") of a record's kind stands for; the names are those of the frame. */
#ifndef SENTRY_OPS_H
#define SENTRY_OPS_H

#define SENTRY_DENIED_OPS(X)                                                                       \
	X(OPEN_READ, "open_read")                                                                  \
	X(OPEN_WRITE, "open_write")                                                                \
	X(OPEN_EXEC, "open_exec")                                                                  \
	X(CREATE, "create")                                                                        \
	X(MKDIR, "mkdir")                                                                          \
	X(RMDIR, "rmdir")                                                                          \
	X(UNLINK, "unlink")                                                                        \
	X(SYMLINK, "symlink")                                                                      \
	X(LINK, "link")                                                                            \
	X(RENAME, "rename")                                                                        \
	X(TRUNCATE, "truncate")                                                                    \
	X(CONNECT, "connect")                                                                      \
	X(BIND, "bind")

#define SENTRY_CRED_OPS(X) X(EXEC, "exec") X(SETID, "setid") X(CAPSET, "capset") X(OTHER, "other")

#define SENTRY_PTRACE_OPS(X) X(ATTACH, "attach") X(TRACEME, "traceme")

#define SENTRY_MODULE_OPS(X) X(LOADED, "loaded") X(INIT, "init_module") X(FINIT, "finit_module")

#define SENTRY_KEXEC_OPS(X) X(LOAD, "kexec_load") X(FILE_LOAD, "kexec_file_load")

#define SENTRY_MOUNT_OPS(X) X(MOUNT, "mount") X(MOVE, "move_mount")

#define SENTRY_UNSHARE_OPS(X) X(UNSHARE, "unshare") X(CLONE, "clone")

#define SENTRY_MOVE_OPS(X) X(ATTACH, "attach") X(FORK, "fork")

#define SENTRY_LOST_OPS(X) X(EXIT, "exit") X(SIGNAL, "signal")

#define SENTRY_TC_OPS(X)                                                                           \
	X(QDISC_ADD, "qdisc_add")                                                                  \
	X(QDISC_DELETE, "qdisc_delete")                                                            \
	X(FILTER_ADD, "filter_add")                                                                \
	X(FILTER_DELETE, "filter_delete")                                                          \
	X(ACTION, "action")

#define SENTRY_ACCESS_OPS(X)                                                                       \
	X(DEV_MEM, "dev_mem")                                                                      \
	X(PCI_ACCESS, "pci_access")                                                                \
	X(IOPORT, "ioport")                                                                        \
	X(MSR, "msr")                                                                              \
	X(ACPI_TABLES, "acpi_tables")                                                              \
	X(MMIOTRACE, "mmiotrace")                                                                  \
	X(DEBUGFS, "debugfs")                                                                      \
	X(BPF_WRITE_USER, "bpf_write_user")                                                        \
	X(KCORE, "kcore")                                                                          \
	X(KPROBES, "kprobes")                                                                      \
	X(BPF_READ_KERNEL, "bpf_read_kernel")                                                      \
	X(PERF, "perf")                                                                            \
	X(TRACEFS, "tracefs")

#define X(constant, name) SENTRY_DENIED_##constant,
enum sentry_denied_op { SENTRY_DENIED_OPS(X) };
#undef X
#define X(constant, name) SENTRY_CRED_##constant,
enum sentry_cred_op { SENTRY_CRED_OPS(X) };
#undef X
#define X(constant, name) SENTRY_PTRACE_##constant,
enum sentry_ptrace_op { SENTRY_PTRACE_OPS(X) };
#undef X
#define X(constant, name) SENTRY_MODULE_##constant,
enum sentry_module_op { SENTRY_MODULE_OPS(X) };
#undef X
#define X(constant, name) SENTRY_KEXEC_##constant,
enum sentry_kexec_op { SENTRY_KEXEC_OPS(X) };
#undef X
#define X(constant, name) SENTRY_MOUNT_##constant,
enum sentry_mount_op { SENTRY_MOUNT_OPS(X) };
#undef X
#define X(constant, name) SENTRY_UNSHARE_##constant,
enum sentry_unshare_op { SENTRY_UNSHARE_OPS(X) };
#undef X
#define X(constant, name) SENTRY_MOVE_##constant,
enum sentry_move_op { SENTRY_MOVE_OPS(X) };
#undef X
#define X(constant, name) SENTRY_LOST_##constant,
enum sentry_lost_op { SENTRY_LOST_OPS(X) };
#undef X
#define X(constant, name) SENTRY_TC_##constant,
enum sentry_tc_op { SENTRY_TC_OPS(X) };
#undef X
#define X(constant, name) SENTRY_ACCESS_##constant,
enum sentry_access_op { SENTRY_ACCESS_OPS(X) };
#undef X

#endif
