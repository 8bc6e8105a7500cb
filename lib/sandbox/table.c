// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every system call of x86-64 up to Linux 7.2, each decided.
 *
 * A row says the class, which is what host roles allow or refuse, and what the guest's filters do. A call
 * that no filter names is allowed in the guest: it either needs a capability that the session does not
 * have, or it reaches nothing that Landlock, the user id or the virtual switch does not already judge.
 * A unit test fails when the kernel's headers know a call that has no row here.
 */
#include "lib/sandbox/table.h"

#include <linux/sched.h>
#include <sys/syscall.h>

#define ROW(nr, name, class, decision) { nr, #name, SANDBOX_CLASS_##class, SANDBOX_##decision },

const struct sandbox_call sandbox_calls[] = {
	ROW(0, read, FD, ALLOW)
	ROW(1, write, FD, ALLOW)
	ROW(2, open, FILE, ALLOW)
	ROW(3, close, FD, ALLOW)
	ROW(4, stat, FILE, ALLOW)
	ROW(5, fstat, FILE, ALLOW)
	ROW(6, lstat, FILE, ALLOW)
	ROW(7, poll, FD, ALLOW)
	ROW(8, lseek, FD, ALLOW)
	ROW(9, mmap, MEMORY, ALLOW)
	ROW(10, mprotect, MEMORY, ALLOW)
	ROW(11, munmap, MEMORY, ALLOW)
	ROW(12, brk, MEMORY, ALLOW)
	ROW(13, rt_sigaction, SIGNAL, ALLOW)
	ROW(14, rt_sigprocmask, SIGNAL, ALLOW)
	ROW(15, rt_sigreturn, SIGNAL, ALLOW)
	ROW(16, ioctl, FD, ARGS)
	ROW(17, pread64, FD, ALLOW)
	ROW(18, pwrite64, FD, ALLOW)
	ROW(19, readv, FD, ALLOW)
	ROW(20, writev, FD, ALLOW)
	ROW(21, access, FILE, ALLOW)
	ROW(22, pipe, FD, ALLOW)
	ROW(23, select, FD, ALLOW)
	ROW(24, sched_yield, SCHED, ALLOW)
	ROW(25, mremap, MEMORY, ALLOW)
	ROW(26, msync, MEMORY, ALLOW)
	ROW(27, mincore, MEMORY, ALLOW)
	ROW(28, madvise, MEMORY, ALLOW)
	ROW(29, shmget, IPC, ALLOW)
	ROW(30, shmat, IPC, ALLOW)
	ROW(31, shmctl, IPC, ALLOW)
	ROW(32, dup, FD, ALLOW)
	ROW(33, dup2, FD, ALLOW)
	ROW(34, pause, SIGNAL, ALLOW)
	ROW(35, nanosleep, TIME, ALLOW)
	ROW(36, getitimer, TIME, ALLOW)
	ROW(37, alarm, TIME, ALLOW)
	ROW(38, setitimer, TIME, ALLOW)
	ROW(39, getpid, PROCESS, ALLOW)
	ROW(40, sendfile, FD, ALLOW)
	ROW(41, socket, NET, ARGS)
	ROW(42, connect, NET, ALLOW)
	ROW(43, accept, NET, ALLOW)
	ROW(44, sendto, NET, ALLOW)
	ROW(45, recvfrom, NET, ALLOW)
	ROW(46, sendmsg, NET, ALLOW)
	ROW(47, recvmsg, NET, ALLOW)
	ROW(48, shutdown, NET, ALLOW)
	ROW(49, bind, NET, ALLOW)
	ROW(50, listen, NET, ALLOW)
	ROW(51, getsockname, NET, ALLOW)
	ROW(52, getpeername, NET, ALLOW)
	ROW(53, socketpair, NET, ARGS)
	ROW(54, setsockopt, NET, ALLOW)
	ROW(55, getsockopt, NET, ALLOW)
	ROW(56, clone, PROCESS, ARGS)
	ROW(57, fork, PROCESS, ALLOW)
	ROW(58, vfork, PROCESS, ALLOW)
	ROW(59, execve, EXEC, ALLOW)
	ROW(60, exit, PROCESS, ALLOW)
	ROW(61, wait4, PROCESS, ALLOW)
	ROW(62, kill, SIGNAL, ARGS)
	ROW(63, uname, PROCESS, ALLOW)
	ROW(64, semget, IPC, ALLOW)
	ROW(65, semop, IPC, ALLOW)
	ROW(66, semctl, IPC, ALLOW)
	ROW(67, shmdt, IPC, ALLOW)
	ROW(68, msgget, IPC, ALLOW)
	ROW(69, msgsnd, IPC, ALLOW)
	ROW(70, msgrcv, IPC, ALLOW)
	ROW(71, msgctl, IPC, ALLOW)
	ROW(72, fcntl, FD, ARGS)
	ROW(73, flock, FD, ALLOW)
	ROW(74, fsync, FD, ALLOW)
	ROW(75, fdatasync, FD, ALLOW)
	ROW(76, truncate, FILE, ALLOW)
	ROW(77, ftruncate, FD, ALLOW)
	ROW(78, getdents, FILE, ALLOW)
	ROW(79, getcwd, FILE, ALLOW)
	ROW(80, chdir, FILE, ALLOW)
	ROW(81, fchdir, FILE, ALLOW)
	ROW(82, rename, FILE, ALLOW)
	ROW(83, mkdir, FILE, ALLOW)
	ROW(84, rmdir, FILE, ALLOW)
	ROW(85, creat, FILE, ALLOW)
	ROW(86, link, FILE, ALLOW)
	ROW(87, unlink, FILE, ALLOW)
	ROW(88, symlink, FILE, ALLOW)
	ROW(89, readlink, FILE, ALLOW)
	ROW(90, chmod, FILE, ALLOW)
	ROW(91, fchmod, FILE, ALLOW)
	ROW(92, chown, FILE, ALLOW)
	ROW(93, fchown, FILE, ALLOW)
	ROW(94, lchown, FILE, ALLOW)
	ROW(95, umask, FILE, ALLOW)
	ROW(96, gettimeofday, TIME, ALLOW)
	ROW(97, getrlimit, PROCESS, ALLOW)
	ROW(98, getrusage, PROCESS, ALLOW)
	ROW(99, sysinfo, PROCESS, ALLOW)
	ROW(100, times, TIME, ALLOW)
	ROW(101, ptrace, TRACE, BOTH)
	ROW(102, getuid, PROCESS, ALLOW)
	ROW(103, syslog, ADMIN, ALLOW)
	ROW(104, getgid, PROCESS, ALLOW)
	ROW(105, setuid, IDENTITY, ALLOW)
	ROW(106, setgid, IDENTITY, ALLOW)
	ROW(107, geteuid, PROCESS, ALLOW)
	ROW(108, getegid, PROCESS, ALLOW)
	ROW(109, setpgid, PROCESS, ALLOW)
	ROW(110, getppid, PROCESS, ALLOW)
	ROW(111, getpgrp, PROCESS, ALLOW)
	ROW(112, setsid, PROCESS, ALLOW)
	ROW(113, setreuid, IDENTITY, ALLOW)
	ROW(114, setregid, IDENTITY, ALLOW)
	ROW(115, getgroups, PROCESS, ALLOW)
	ROW(116, setgroups, IDENTITY, ALLOW)
	ROW(117, setresuid, IDENTITY, ALLOW)
	ROW(118, getresuid, PROCESS, ALLOW)
	ROW(119, setresgid, IDENTITY, ALLOW)
	ROW(120, getresgid, PROCESS, ALLOW)
	ROW(121, getpgid, PROCESS, ALLOW)
	ROW(122, setfsuid, IDENTITY, ALLOW)
	ROW(123, setfsgid, IDENTITY, ALLOW)
	ROW(124, getsid, PROCESS, ALLOW)
	ROW(125, capget, PROCESS, ALLOW)
	ROW(126, capset, IDENTITY, ALLOW)
	ROW(127, rt_sigpending, SIGNAL, ALLOW)
	ROW(128, rt_sigtimedwait, SIGNAL, ALLOW)
	ROW(129, rt_sigqueueinfo, SIGNAL, ARGS)
	ROW(130, rt_sigsuspend, SIGNAL, ALLOW)
	ROW(131, sigaltstack, SIGNAL, ALLOW)
	ROW(132, utime, FILE, ALLOW)
	ROW(133, mknod, FILE, ALLOW)
	ROW(134, uselib, EXEC, MAIN)
	ROW(135, personality, PROCESS, ALLOW)
	ROW(136, ustat, FILE, ALLOW)
	ROW(137, statfs, FILE, ALLOW)
	ROW(138, fstatfs, FILE, ALLOW)
	ROW(139, sysfs, OBSOLETE, ALLOW)
	ROW(140, getpriority, SCHED, ALLOW)
	ROW(141, setpriority, SCHED, ARGS)
	ROW(142, sched_setparam, SCHED, ARGS)
	ROW(143, sched_getparam, SCHED, ALLOW)
	ROW(144, sched_setscheduler, SCHED, ARGS)
	ROW(145, sched_getscheduler, SCHED, ALLOW)
	ROW(146, sched_get_priority_max, SCHED, ALLOW)
	ROW(147, sched_get_priority_min, SCHED, ALLOW)
	ROW(148, sched_rr_get_interval, SCHED, ALLOW)
	ROW(149, mlock, MEMORY, ALLOW)
	ROW(150, munlock, MEMORY, ALLOW)
	ROW(151, mlockall, MEMORY, ALLOW)
	ROW(152, munlockall, MEMORY, ALLOW)
	ROW(153, vhangup, ADMIN, ALLOW)
	ROW(154, modify_ldt, PROCESS, ALLOW)
	ROW(155, pivot_root, MOUNT, MAIN)
	ROW(156, _sysctl, OBSOLETE, ALLOW)
	ROW(157, prctl, PROCESS, ARGS)
	ROW(158, arch_prctl, PROCESS, ALLOW)
	ROW(159, adjtimex, ADMIN, ALLOW)
	ROW(160, setrlimit, PROCESS, ALLOW)
	ROW(161, chroot, IDENTITY, ALLOW)
	ROW(162, sync, FILE, ALLOW)
	ROW(163, acct, ADMIN, ALLOW)
	ROW(164, settimeofday, ADMIN, ALLOW)
	ROW(165, mount, MOUNT, MAIN)
	ROW(166, umount2, MOUNT, MAIN)
	ROW(167, swapon, ADMIN, ALLOW)
	ROW(168, swapoff, ADMIN, ALLOW)
	ROW(169, reboot, ADMIN, ALLOW)
	ROW(170, sethostname, ADMIN, ALLOW)
	ROW(171, setdomainname, ADMIN, ALLOW)
	ROW(172, iopl, ADMIN, ALLOW)
	ROW(173, ioperm, ADMIN, ALLOW)
	ROW(174, create_module, OBSOLETE, ALLOW)
	ROW(175, init_module, ADMIN, ALLOW)
	ROW(176, delete_module, ADMIN, ALLOW)
	ROW(177, get_kernel_syms, OBSOLETE, ALLOW)
	ROW(178, query_module, OBSOLETE, ALLOW)
	ROW(179, quotactl, ADMIN, ALLOW)
	ROW(180, nfsservctl, OBSOLETE, ALLOW)
	ROW(181, getpmsg, OBSOLETE, ALLOW)
	ROW(182, putpmsg, OBSOLETE, ALLOW)
	ROW(183, afs_syscall, OBSOLETE, ALLOW)
	ROW(184, tuxcall, OBSOLETE, ALLOW)
	ROW(185, security, OBSOLETE, ALLOW)
	ROW(186, gettid, PROCESS, ALLOW)
	ROW(187, readahead, FD, ALLOW)
	ROW(188, setxattr, XATTR, ALLOW)
	ROW(189, lsetxattr, XATTR, ALLOW)
	ROW(190, fsetxattr, XATTR, ALLOW)
	ROW(191, getxattr, XATTR, ALLOW)
	ROW(192, lgetxattr, XATTR, ALLOW)
	ROW(193, fgetxattr, XATTR, ALLOW)
	ROW(194, listxattr, XATTR, ALLOW)
	ROW(195, llistxattr, XATTR, ALLOW)
	ROW(196, flistxattr, XATTR, ALLOW)
	ROW(197, removexattr, XATTR, ALLOW)
	ROW(198, lremovexattr, XATTR, ALLOW)
	ROW(199, fremovexattr, XATTR, ALLOW)
	ROW(200, tkill, SIGNAL, ARGS)
	ROW(201, time, TIME, ALLOW)
	ROW(202, futex, PROCESS, ALLOW)
	ROW(203, sched_setaffinity, SCHED, ARGS)
	ROW(204, sched_getaffinity, SCHED, ALLOW)
	ROW(205, set_thread_area, PROCESS, ALLOW)
	ROW(206, io_setup, FD, ALLOW)
	ROW(207, io_destroy, FD, ALLOW)
	ROW(208, io_getevents, FD, ALLOW)
	ROW(209, io_submit, FD, ALLOW)
	ROW(210, io_cancel, FD, ALLOW)
	ROW(211, get_thread_area, PROCESS, ALLOW)
	ROW(212, lookup_dcookie, TRACE, ALLOW)
	ROW(213, epoll_create, FD, ALLOW)
	ROW(214, epoll_ctl_old, OBSOLETE, ALLOW)
	ROW(215, epoll_wait_old, OBSOLETE, ALLOW)
	ROW(216, remap_file_pages, MEMORY, ALLOW)
	ROW(217, getdents64, FILE, ALLOW)
	ROW(218, set_tid_address, PROCESS, ALLOW)
	ROW(219, restart_syscall, SIGNAL, ALLOW)
	ROW(220, semtimedop, IPC, ALLOW)
	ROW(221, fadvise64, FD, ALLOW)
	ROW(222, timer_create, TIME, ALLOW)
	ROW(223, timer_settime, TIME, ALLOW)
	ROW(224, timer_gettime, TIME, ALLOW)
	ROW(225, timer_getoverrun, TIME, ALLOW)
	ROW(226, timer_delete, TIME, ALLOW)
	ROW(227, clock_settime, ADMIN, ALLOW)
	ROW(228, clock_gettime, TIME, ALLOW)
	ROW(229, clock_getres, TIME, ALLOW)
	ROW(230, clock_nanosleep, TIME, ALLOW)
	ROW(231, exit_group, PROCESS, ALLOW)
	ROW(232, epoll_wait, FD, ALLOW)
	ROW(233, epoll_ctl, FD, ALLOW)
	ROW(234, tgkill, SIGNAL, ARGS)
	ROW(235, utimes, FILE, ALLOW)
	ROW(236, vserver, OBSOLETE, ALLOW)
	ROW(237, mbind, MEMORY, ALLOW)
	ROW(238, set_mempolicy, MEMORY, ALLOW)
	ROW(239, get_mempolicy, MEMORY, ALLOW)
	ROW(240, mq_open, IPC, ALLOW)
	ROW(241, mq_unlink, IPC, ALLOW)
	ROW(242, mq_timedsend, IPC, ALLOW)
	ROW(243, mq_timedreceive, IPC, ALLOW)
	ROW(244, mq_notify, IPC, ALLOW)
	ROW(245, mq_getsetattr, IPC, ALLOW)
	ROW(246, kexec_load, ADMIN, ALLOW)
	ROW(247, waitid, PROCESS, ALLOW)
	ROW(248, add_key, KEYS, MAIN)
	ROW(249, request_key, KEYS, MAIN)
	ROW(250, keyctl, KEYS, MAIN)
	ROW(251, ioprio_set, SCHED, ARGS)
	ROW(252, ioprio_get, SCHED, ALLOW)
	ROW(253, inotify_init, FD, ALLOW)
	ROW(254, inotify_add_watch, FD, ALLOW)
	ROW(255, inotify_rm_watch, FD, ALLOW)
	ROW(256, migrate_pages, SCHED, ARGS)
	ROW(257, openat, FILE, ALLOW)
	ROW(258, mkdirat, FILE, ALLOW)
	ROW(259, mknodat, FILE, ALLOW)
	ROW(260, fchownat, FILE, ALLOW)
	ROW(261, futimesat, FILE, ALLOW)
	ROW(262, newfstatat, FILE, ALLOW)
	ROW(263, unlinkat, FILE, ALLOW)
	ROW(264, renameat, FILE, ALLOW)
	ROW(265, linkat, FILE, ALLOW)
	ROW(266, symlinkat, FILE, ALLOW)
	ROW(267, readlinkat, FILE, ALLOW)
	ROW(268, fchmodat, FILE, ALLOW)
	ROW(269, faccessat, FILE, ALLOW)
	ROW(270, pselect6, FD, ALLOW)
	ROW(271, ppoll, FD, ALLOW)
	ROW(272, unshare, NAMESPACE, ARGS)
	ROW(273, set_robust_list, PROCESS, ALLOW)
	ROW(274, get_robust_list, PROCESS, ALLOW)
	ROW(275, splice, FD, ALLOW)
	ROW(276, tee, FD, ALLOW)
	ROW(277, sync_file_range, FD, ALLOW)
	ROW(278, vmsplice, FD, ALLOW)
	ROW(279, move_pages, SCHED, ARGS)
	ROW(280, utimensat, FILE, ALLOW)
	ROW(281, epoll_pwait, FD, ALLOW)
	ROW(282, signalfd, FD, ALLOW)
	ROW(283, timerfd_create, TIME, ALLOW)
	ROW(284, eventfd, FD, ALLOW)
	ROW(285, fallocate, FD, ALLOW)
	ROW(286, timerfd_settime, TIME, ALLOW)
	ROW(287, timerfd_gettime, TIME, ALLOW)
	ROW(288, accept4, NET, ALLOW)
	ROW(289, signalfd4, FD, ALLOW)
	ROW(290, eventfd2, FD, ALLOW)
	ROW(291, epoll_create1, FD, ALLOW)
	ROW(292, dup3, FD, ALLOW)
	ROW(293, pipe2, FD, ALLOW)
	ROW(294, inotify_init1, FD, ALLOW)
	ROW(295, preadv, FD, ALLOW)
	ROW(296, pwritev, FD, ALLOW)
	ROW(297, rt_tgsigqueueinfo, SIGNAL, ARGS)
	ROW(298, perf_event_open, TRACE, MAIN)
	ROW(299, recvmmsg, NET, ALLOW)
	ROW(300, fanotify_init, FILE, ALLOW)
	ROW(301, fanotify_mark, FILE, ALLOW)
	ROW(302, prlimit64, PROCESS, ARGS)
	ROW(303, name_to_handle_at, FILE, ALLOW)
	ROW(304, open_by_handle_at, MOUNT, MAIN)
	ROW(305, clock_adjtime, ADMIN, ALLOW)
	ROW(306, syncfs, FILE, ALLOW)
	ROW(307, sendmmsg, NET, ALLOW)
	ROW(308, setns, NAMESPACE, MAIN)
	ROW(309, getcpu, PROCESS, ALLOW)
	ROW(310, process_vm_readv, TRACE, BOTH)
	ROW(311, process_vm_writev, TRACE, BOTH)
	ROW(312, kcmp, TRACE, HARDEN)
	ROW(313, finit_module, ADMIN, ALLOW)
	ROW(314, sched_setattr, SCHED, ARGS)
	ROW(315, sched_getattr, SCHED, ALLOW)
	ROW(316, renameat2, FILE, ALLOW)
	ROW(317, seccomp, SANDBOX, ARGS)
	ROW(318, getrandom, PROCESS, ALLOW)
	ROW(319, memfd_create, MEMFD, MAIN)
	ROW(320, kexec_file_load, ADMIN, ALLOW)
	ROW(321, bpf, TRACE, MAIN)
	ROW(322, execveat, EXEC, ARGS)
	ROW(323, userfaultfd, TRACE, MAIN)
	ROW(324, membarrier, MEMORY, ALLOW)
	ROW(325, mlock2, MEMORY, ALLOW)
	ROW(326, copy_file_range, FD, ALLOW)
	ROW(327, preadv2, FD, ALLOW)
	ROW(328, pwritev2, FD, ALLOW)
	ROW(329, pkey_mprotect, MEMORY, ALLOW)
	ROW(330, pkey_alloc, MEMORY, ALLOW)
	ROW(331, pkey_free, MEMORY, ALLOW)
	ROW(332, statx, FILE, ALLOW)
	ROW(333, io_pgetevents, FD, ALLOW)
	ROW(334, rseq, PROCESS, ALLOW)
	ROW(335, uretprobe, PROCESS, ALLOW)
	ROW(336, uprobe, PROCESS, ALLOW)
	ROW(424, pidfd_send_signal, PROCESS, MAIN)
	ROW(425, io_uring_setup, URING, MAIN)
	ROW(426, io_uring_enter, URING, MAIN)
	ROW(427, io_uring_register, URING, MAIN)
	ROW(428, open_tree, MOUNT, MAIN)
	ROW(429, move_mount, MOUNT, MAIN)
	ROW(430, fsopen, MOUNT, MAIN)
	ROW(431, fsconfig, MOUNT, MAIN)
	ROW(432, fsmount, MOUNT, MAIN)
	ROW(433, fspick, MOUNT, MAIN)
	ROW(434, pidfd_open, PROCESS, COMPAT)
	ROW(435, clone3, PROCESS, COMPAT)
	ROW(436, close_range, FD, ALLOW)
	ROW(437, openat2, FILE, ALLOW)
	ROW(438, pidfd_getfd, TRACE, BOTH)
	ROW(439, faccessat2, FILE, ALLOW)
	ROW(440, process_madvise, TRACE, HARDEN)
	ROW(441, epoll_pwait2, FD, ALLOW)
	ROW(442, mount_setattr, MOUNT, MAIN)
	ROW(443, quotactl_fd, ADMIN, ALLOW)
	ROW(444, landlock_create_ruleset, SANDBOX, ALLOW)
	ROW(445, landlock_add_rule, SANDBOX, ALLOW)
	ROW(446, landlock_restrict_self, SANDBOX, ALLOW)
	ROW(447, memfd_secret, MEMFD, MAIN)
	ROW(448, process_mrelease, PROCESS, HARDEN)
	ROW(449, futex_waitv, PROCESS, ALLOW)
	ROW(450, set_mempolicy_home_node, MEMORY, ALLOW)
	ROW(451, cachestat, FD, ALLOW)
	ROW(452, fchmodat2, FILE, ALLOW)
	ROW(453, map_shadow_stack, MEMORY, ALLOW)
	ROW(454, futex_wake, PROCESS, ALLOW)
	ROW(455, futex_wait, PROCESS, ALLOW)
	ROW(456, futex_requeue, PROCESS, ALLOW)
	ROW(457, statmount, PROCESS, ALLOW)
	ROW(458, listmount, PROCESS, ALLOW)
	ROW(459, lsm_get_self_attr, PROCESS, ALLOW)
	ROW(460, lsm_set_self_attr, IDENTITY, MAIN)
	ROW(461, lsm_list_modules, PROCESS, ALLOW)
	ROW(462, mseal, MEMORY, ALLOW)
	ROW(463, setxattrat, XATTR, ALLOW)
	ROW(464, getxattrat, XATTR, ALLOW)
	ROW(465, listxattrat, XATTR, ALLOW)
	ROW(466, removexattrat, XATTR, ALLOW)
	ROW(467, open_tree_attr, MOUNT, MAIN)
	ROW(468, file_getattr, FILE, ALLOW)
	ROW(469, file_setattr, FILE, ALLOW)
	ROW(470, listns, PROCESS, ALLOW)
	ROW(471, rseq_slice_yield, PROCESS, ALLOW)
};
const size_t sandbox_call_count = sizeof(sandbox_calls) / sizeof(sandbox_calls[0]);

/* Kernel ABI values, named here because the libc headers of our build hosts miss some of them. */
enum {
	CALL_FCNTL_SETOWN = 8,
	CALL_FCNTL_SETOWN_EX = 15,
	CALL_FIOSETOWN = 0x8901,
	CALL_SIOCSPGRP = 0x8902,
	CALL_TIOCSTI = 0x5412,
	CALL_TIOCLINUX = 0x541c,
	CALL_PRIO_PROCESS = 0,
	CALL_PRIO_PGRP = 1,
	CALL_IOPRIO_WHO_PROCESS = 1,
	CALL_IOPRIO_WHO_PGRP = 2,
	CALL_SET_MODE_FILTER = 1,
	CALL_PR_SET_SECCOMP = 22,
	CALL_AT_EMPTY_PATH = 0x1000,
};

#define ALL 0xffffffffu
#define MAIN(call, what, ...) { SANDBOX_FILTER_MAIN, SYS_##call, what, __VA_ARGS__ }
#define HARD(call, what, ...) { SANDBOX_FILTER_HARDENING, SYS_##call, what, __VA_ARGS__ }
#define ONE(arg, mask, value) 1, { { arg, mask, value, SANDBOX_VALUE } }
#define TO_SUPERVISOR(arg) 1, { { arg, ALL, 0, SANDBOX_SUPERVISOR } }
#define TO_GROUP(arg) 1, { { arg, ALL, 0, SANDBOX_SUPERVISOR_GROUP_NEG } }
#define TWO(arg1, value1, arg2, operand2) \
	2, { { arg1, ALL, value1, SANDBOX_VALUE }, { arg2, ALL, 0, operand2 } }

/* One rule for each namespace flag: a rule on the whole mask would need all of them set at once. clone's
 * low byte is the exit signal, so CLONE_NEWTIME (0x80) exists for unshare only. */
#define NAMESPACE(call, flag) HARD(call, #flag, ONE(0, flag, flag))

const struct sandbox_arg_rule sandbox_arg_rules[] = {
	MAIN(execveat, "AT_EMPTY_PATH", ONE(4, CALL_AT_EMPTY_PATH, CALL_AT_EMPTY_PATH)),
	MAIN(unshare, "CLONE_NEWUSER", ONE(0, CLONE_NEWUSER, CLONE_NEWUSER)),
	MAIN(clone, "CLONE_NEWUSER", ONE(0, CLONE_NEWUSER, CLONE_NEWUSER)),
	/* A newer filter that answers ERRNO without LOG would hide the refusals of ours. */
	MAIN(seccomp, "SECCOMP_SET_MODE_FILTER", ONE(0, ALL, CALL_SET_MODE_FILTER)),
	MAIN(prctl, "PR_SET_SECCOMP", ONE(0, ALL, CALL_PR_SET_SECCOMP)),

	NAMESPACE(unshare, CLONE_NEWNS),
	NAMESPACE(unshare, CLONE_NEWCGROUP),
	NAMESPACE(unshare, CLONE_NEWUTS),
	NAMESPACE(unshare, CLONE_NEWIPC),
	NAMESPACE(unshare, CLONE_NEWPID),
	NAMESPACE(unshare, CLONE_NEWNET),
	HARD(unshare, "CLONE_NEWTIME", ONE(0, 0x80, 0x80)),
	NAMESPACE(clone, CLONE_NEWNS),
	NAMESPACE(clone, CLONE_NEWCGROUP),
	NAMESPACE(clone, CLONE_NEWUTS),
	NAMESPACE(clone, CLONE_NEWIPC),
	NAMESPACE(clone, CLONE_NEWPID),
	NAMESPACE(clone, CLONE_NEWNET),

	HARD(kill, "the supervisor", TO_SUPERVISOR(0)),
	HARD(kill, "every process (-1)", ONE(0, ALL, ALL)),
	HARD(kill, "the supervisor's group", TO_GROUP(0)),
	HARD(tkill, "the supervisor", TO_SUPERVISOR(0)),
	HARD(tgkill, "the supervisor", TO_SUPERVISOR(0)),
	HARD(rt_sigqueueinfo, "the supervisor", TO_SUPERVISOR(0)),
	HARD(rt_tgsigqueueinfo, "the supervisor", TO_SUPERVISOR(0)),
	HARD(prlimit64, "the supervisor", TO_SUPERVISOR(0)),
	HARD(sched_setaffinity, "the supervisor", TO_SUPERVISOR(0)),
	HARD(sched_setparam, "the supervisor", TO_SUPERVISOR(0)),
	HARD(sched_setscheduler, "the supervisor", TO_SUPERVISOR(0)),
	HARD(sched_setattr, "the supervisor", TO_SUPERVISOR(0)),
	HARD(migrate_pages, "the supervisor", TO_SUPERVISOR(0)),
	HARD(move_pages, "the supervisor", TO_SUPERVISOR(0)),
	HARD(setpriority, "the supervisor", TWO(0, CALL_PRIO_PROCESS, 1, SANDBOX_SUPERVISOR)),
	HARD(setpriority, "the supervisor's group", TWO(0, CALL_PRIO_PGRP, 1, SANDBOX_SUPERVISOR_GROUP)),
	HARD(ioprio_set, "the supervisor", TWO(0, CALL_IOPRIO_WHO_PROCESS, 1, SANDBOX_SUPERVISOR)),
	HARD(ioprio_set, "the supervisor's group", TWO(0, CALL_IOPRIO_WHO_PGRP, 1, SANDBOX_SUPERVISOR_GROUP)),
	/* A descriptor's owner is sent SIGIO, or any signal with F_SETSIG. The _EX form and the ioctls name
	 * the owner behind a pointer, which a filter cannot read. */
	HARD(fcntl, "F_SETOWN of the supervisor", TWO(1, CALL_FCNTL_SETOWN, 2, SANDBOX_SUPERVISOR)),
	HARD(fcntl, "F_SETOWN of its group", TWO(1, CALL_FCNTL_SETOWN, 2, SANDBOX_SUPERVISOR_GROUP_NEG)),
	HARD(fcntl, "F_SETOWN_EX", ONE(1, ALL, CALL_FCNTL_SETOWN_EX)),
	HARD(ioctl, "FIOSETOWN", ONE(1, ALL, CALL_FIOSETOWN)),
	HARD(ioctl, "SIOCSPGRP", ONE(1, ALL, CALL_SIOCSPGRP)),
	/* Typing into a terminal that somebody else reads. */
	HARD(ioctl, "TIOCSTI", ONE(1, ALL, CALL_TIOCSTI)),
	HARD(ioctl, "TIOCLINUX", ONE(1, ALL, CALL_TIOCLINUX)),
};
const size_t sandbox_arg_rule_count = sizeof(sandbox_arg_rules) / sizeof(sandbox_arg_rules[0]);

int sandbox_family_allowed(unsigned family)
{
	switch (family) {
	case 0:		/* AF_UNSPEC: the kernel refuses it itself */
	case 1:		/* AF_UNIX */
	case 2:		/* AF_INET */
	case 10:	/* AF_INET6 */
		return 1;
	default:
		return family > SANDBOX_FAMILY_MAX;
	}
}

const struct sandbox_call *sandbox_call_by_nr(int nr)
{
	for (size_t i = 0; i < sandbox_call_count; i++)
		if (sandbox_calls[i].nr == nr)
			return &sandbox_calls[i];
	return NULL;
}

const char *sandbox_class_name(enum sandbox_class class)
{
	static const struct { enum sandbox_class class; const char *name; } names[] = {
		{ SANDBOX_CLASS_FD, "fd" }, { SANDBOX_CLASS_FILE, "file" },
		{ SANDBOX_CLASS_MEMORY, "memory" }, { SANDBOX_CLASS_TIME, "time" },
		{ SANDBOX_CLASS_SIGNAL, "signal" }, { SANDBOX_CLASS_PROCESS, "process" },
		{ SANDBOX_CLASS_EXEC, "exec" }, { SANDBOX_CLASS_NET, "net" },
		{ SANDBOX_CLASS_MEMFD, "memfd" }, { SANDBOX_CLASS_IDENTITY, "identity" },
		{ SANDBOX_CLASS_IPC, "ipc" }, { SANDBOX_CLASS_SANDBOX, "sandbox" },
		{ SANDBOX_CLASS_XATTR, "xattr" }, { SANDBOX_CLASS_SCHED, "sched" },
		{ SANDBOX_CLASS_TRACE, "trace" }, { SANDBOX_CLASS_MOUNT, "mount" },
		{ SANDBOX_CLASS_NAMESPACE, "namespace" }, { SANDBOX_CLASS_KEYS, "keys" },
		{ SANDBOX_CLASS_URING, "uring" }, { SANDBOX_CLASS_ADMIN, "admin" },
		{ SANDBOX_CLASS_OBSOLETE, "obsolete" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].class == class)
			return names[i].name;
	return "?";
}
