/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * role.h - the messages between hostd and its per-VM role, `hostd vm`.
 *
 * The framing is lib/msg.h: SOCK_SEQPACKET, one header, one JSON object, one blob, optional
 * descriptors.  docs/protocol/role.md says what each object holds; this file is the numbers.
 * Secrets travel in the blob, never in the JSON, so the JSON of any message may be logged.
 */
#ifndef HOLDFAST_ROLE_H
#define HOLDFAST_ROLE_H

/* hostd -> hostd vm */
enum role_vm_down {
	ROLE_VM_START = 1,	   /* first message of a new VM; blob = boot key */
	ROLE_VM_DISK = 2,	   /* checkpoint, rollback, list, drop, reset; only while no VM runs */
	ROLE_VM_ATTACH = 3,	   /* first message of a new hostd on the role's own socket */
	ROLE_VM_PAUSE = 4,	   /* QMP stop */
	ROLE_VM_CONT = 5,	   /* QMP cont */
	ROLE_VM_CUT = 6,	   /* close or open the network of the VM */
	ROLE_VM_POWEROFF = 7,	   /* ask the guest, then the power button, then kill */
	ROLE_VM_KILL = 8,	   /* end QEMU now */
	ROLE_VM_STATUS = 9,	   /* answered by ROLE_VM_DONE with a "status" object */
	ROLE_VM_EXEC_OPEN = 10,	   /* one fd: bridged to a vsock stream that the guest accepts */
	ROLE_VM_FLOW_VERDICT = 11, /* answers ROLE_VM_FLOW_ASK */
	ROLE_VM_NAME_VERDICT = 12, /* answers ROLE_VM_NAME_ASK */
	ROLE_VM_DEST_VERDICT = 13, /* answers ROLE_VM_DEST_ASK */
	ROLE_VM_SENTRY_ACK = 14,   /* frames up to seq are durable */
	ROLE_VM_GUEST_SEND = 15,   /* one object to sandboxd on its 5840 stream */
	ROLE_VM_REJUDGE = 16,	   /* the policy changed: ask again for every open flow */
	ROLE_VM_CHALLENGE = 17,	   /* tell the Sentry that the host did something (suspend, resume) */
	ROLE_VM_DUMP = 18,	   /* evidence: dump-guest-memory to the one fd passed */
	ROLE_VM_SUSPEND = 19,	   /* RAM into the workspace's vm.state, then the VM ends */
	ROLE_VM_CHECKPOINT = 20,   /* of disk and home, while the VM runs */
	ROLE_VM_REPLUG = 21,	   /* take the vsock device out and put a new one in */
};

/* hostd vm -> hostd */
enum role_vm_up {
	ROLE_VM_STARTED = 101,	    /* QEMU runs the guest */
	ROLE_VM_START_FAILED = 102, /* step, cause, next; the role ends after it */
	ROLE_VM_STATE = 103,	    /* running, paused, off, ... and why */
	ROLE_VM_SENTRY_FRAME = 104, /* one verified frame; blob = its raw bytes */
	ROLE_VM_TAMPER = 105,	    /* a named reason of the Sentry session */
	ROLE_VM_FLOW_ASK = 106,	    /* a flow is held until its verdict */
	ROLE_VM_NAME_ASK = 107,	    /* a DNS name waits for its verdict */
	ROLE_VM_DEST_ASK = 108,	    /* addresses of an allowed name wait for theirs */
	ROLE_VM_FLOW_EVENT = 109,   /* a flow was allowed, denied or has ended */
	ROLE_VM_GUEST_STATUS = 110, /* one object that sandboxd sent on 5840 */
	ROLE_VM_DONE = 111,	    /* the answer to every message that carries an "id" */
	ROLE_VM_ATTACHED = 112,	    /* the answer to ROLE_VM_ATTACH: what runs here */
	ROLE_VM_ALARM = 113,	    /* this VM or its device misbehaves; not the Sentry's words */
};

/* Sizes and times both sides rely on. */
#define ROLE_BOOT_KEY_BYTES 32
#define ROLE_SENTRY_FRAME_MAX 65536    /* bytes of one frame in the blob */
#define ROLE_HELD_FRAMES_MAX (1 << 20) /* bytes of frames kept until SENTRY_ACK */
#define ROLE_ASKS_MAX 256	       /* flow, name and dest asks open at once */
#define ROLE_ASK_TIMEOUT_MS 10000      /* an ask without an answer is denied */
#define ROLE_REATTACH_MS 60000	       /* without hostd for so long: the VM is paused */
#define ROLE_POWEROFF_MS 30000	       /* default patience of ROLE_VM_POWEROFF */
#define ROLE_BRIDGES_MAX 16	       /* entries of "bridges" in ROLE_VM_START */
#define ROLE_EXECS_MAX 64	       /* EXEC_OPEN streams at once */
#define ROLE_SOCKET_NAME "vm.sock"     /* in "run_dir": where a new hostd attaches */

/* Descriptor numbers at exec of a role: the socket to hostd, nothing else above stderr. */
#define ROLE_FD_HOSTD 3

#endif
