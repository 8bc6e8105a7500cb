/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What host and guest agree on beside exec: ports, the initramfs, the control stream. See
 * docs/protocol/control.md and docs/protocol/bridge.md. */
#ifndef HOLDFAST_GUEST_H
#define HOLDFAST_GUEST_H

#define HF_HOST_CID 2

/* vsock ports on which the host listens, unless noted. */
#define HF_PORT_PROXY 8443
#define HF_PORT_SSH_AGENT 8444
#define HF_PORT_AWS 8445
#define HF_PORT_MODEL_TOKEN 8446
#define HF_PORT_SECOND_TOKEN 8447
#define HF_PORT_OAUTH_RELAY 5010	/* the guest listens */
#define HF_PORT_CONTROL 5840

/* Control stream: u32 length (big-endian) and that many bytes of JSON, both ways. */
#define HF_CONTROL_MESSAGE_MAX (64 * 1024)
#define HF_CONTROL_STATUS_MS 5000	/* at least one status in this time */
#define HF_CONTROL_RETRY_MS 1000

/* The bridge listens here inside the guest and opens each stream to the proxy with this line. */
#define HF_BRIDGE_PORT 8080
#define HF_BRIDGE_PREAMBLE "HOLDFAST-CLIENT 1 sport=%u peer=%s\n"
#define HF_BRIDGE_PREAMBLE_MAX 96

/* Files in the initramfs. */
#define HF_INITRD_DIR "/holdfast"
#define HF_INITRD_EARLY_LIST "/holdfast/early.list"
#define HF_INITRD_EARLY_DIR "/holdfast/early"
#define HF_INITRD_SENTRY "/holdfast/sentry.ko"
#define HF_INITRD_BOOT_KEY "/holdfast/boot.key"
#define HF_INITRD_SPEC "/holdfast/guest-spec.json"
#define HF_INITRD_CA "/holdfast/ca.crt"	/* proxy's CA, PEM; only with proxy: on */
#define HF_BOOT_KEY_BYTES 32
#define HF_SPEC_SCHEMA 1
#define HF_SENTRY_HASH_LIST_MAX 4095 /* bytes of the programs to hash with their line ends (the module's limit) */
#define HF_SPEC_MAX (1024 * 1024)

/* Serial numbers of the virtio disks. */
#define HF_DISK_ROOT "hf-root"
#define HF_DISK_HOME "hf-home"
#define HF_DISK_MODULES "hf-modules"

/* Console line of a failed step: one line, for people and for the start of a VM. */
#define HF_CONSOLE_FAILED "holdfast: failed: "
#define HF_CONSOLE_READY "holdfast: ready"

#endif
