// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Parameters.
 *
 * The supervisor sets sandbox_cgroup, level and supervisor_pid before any other code runs in the guest; from then on
 * the same value is accepted again and any other is -EPERM and an event. phase only goes forward.
 */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/sched.h>

#include "compat/compat.h"
#include "gate.h"
#include "hash.h"
#include "key.h"
#include "param.h"
#include "probe.h"
#include "supervisor.h"
#include "task.h"

unsigned int sentry_param_cid = HF_SENTRY_HOST_CID, sentry_param_port = HF_SENTRY_PORT;
unsigned int sentry_param_landlock_abi;
unsigned int sentry_param_dedup_ms = HF_SENTRY_FOLD_MS, sentry_param_flow_dedup_ms = HF_SENTRY_FLOW_FOLD_MS;

module_param_named(cid, sentry_param_cid, uint, 0444);
module_param_named(port, sentry_param_port, uint, 0444);
module_param_named(landlock_abi, sentry_param_landlock_abi, uint, 0444);
module_param_named(dedup_ms, sentry_param_dedup_ms, uint, 0444);
module_param_named(flow_dedup_ms, sentry_param_flow_dedup_ms, uint, 0444);

static ushort local_ports[HF_SENTRY_LOCAL_PORTS_MAX];
static unsigned int local_port_count;
module_param_array_named(flow_local_ports, local_ports, ushort, &local_port_count, 0444);

static u8 boot_key[HF_SENTRY_KEY_BYTES];
static bool boot_key_given;
static char boot_id[HF_SENTRY_BOOT_ID_CHARS + 1];

static DEFINE_MUTEX(param_lock);
static struct sentry_phase phase;
static u64 sandbox_id;
static char level[8];
static bool ready; /* the module has loaded: probes can be armed and refusals reported */

bool sentry_param_is_local_port(u16 port)
{
	unsigned int i;

	for (i = 0; i < local_port_count; i++)
		if (local_ports[i] == port)
			return true;
	return false;
}

const char *sentry_param_boot_id(void)
{
	return boot_id;
}

void sentry_param_phase(struct sentry_phase *out)
{
	mutex_lock(&param_lock);
	*out = phase;
	mutex_unlock(&param_lock);
}

/* Report a refused write with its author. */
static int refuse(const struct kernel_param *kp, const char *value)
{
	const char *name = strrchr(kp->name, '.') ? strrchr(kp->name, '.') + 1 : kp->name;
	struct sentry_record *r = ready ? sentry_record_begin(HF_SENTRY_KIND_PARAM_DENIED) : NULL;

	if (r) {
		sentry_record_add_exe(r);
		sentry_record_add_string(r, SENTRY_TEXT_PATH, name);
		sentry_record_add_bytes(r, SENTRY_TEXT_SECOND, value, min_t(size_t, strcspn(value, "\n"), 64));
		sentry_record_offer(r);
	}
	return -EPERM;
}

/* The kernel keeps a module's arguments, and this is where they lie: wiped here, the key is nowhere else. */
static int boot_key_set(const char *value, const struct kernel_param *kp)
{
	size_t len = strlen(value);
	int err = -EINVAL;

	if (len == SENTRY_HEX_BYTES && !boot_key_given && !hex2bin(boot_key, value, sizeof(boot_key))) {
		boot_key_given = true;
		err = 0;
	}
	memzero_explicit((char *)value, len);
	return err;
}

static int phase_set(const char *value, const struct kernel_param *kp)
{
	unsigned int wanted;
	int err = kstrtouint(value, 10, &wanted);

	if (err || wanted > HF_SENTRY_PHASE_SHUTDOWN)
		return -EINVAL;
	mutex_lock(&param_lock);
	if (wanted < phase.phase) {
		err = refuse(kp, value);
	} else if (wanted > phase.phase) {
		phase.phase = wanted;
		phase.pid = current->tgid;
		memcpy(phase.comm, current->comm, sizeof(phase.comm));
	}
	mutex_unlock(&param_lock);
	return err;
}

static int phase_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%u\n", READ_ONCE(phase.phase));
}

static void arm_if_ready(void)
{
	if (ready && sandbox_id && level[0] && strcmp(level, "observe"))
		sentry_probe_arm_denials();
}

static int sandbox_set(const char *value, const struct kernel_param *kp)
{
	struct cgroup *cgroup;
	u64 id;
	int err = kstrtou64(value, 10, &id);

	if (err || !id)
		return -EINVAL;
	mutex_lock(&param_lock);
	if (sandbox_id) {
		err = sandbox_id == id ? 0 : refuse(kp, value);
	} else {
		cgroup = cgroup_get_from_id(id);
		if (IS_ERR(cgroup)) {
			err = PTR_ERR(cgroup);
		} else {
			sentry_task_set_sandbox(cgroup);
			sandbox_id = id;
			arm_if_ready();
		}
	}
	mutex_unlock(&param_lock);
	return err;
}

static int sandbox_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%llu\n", READ_ONCE(sandbox_id));
}

static int level_set(const char *value, const struct kernel_param *kp)
{
	static const char *const levels[] = { "observe", "files", "strict" };
	int i = __sysfs_match_string(levels, ARRAY_SIZE(levels), value), err = 0;

	if (i < 0)
		return -EINVAL;
	mutex_lock(&param_lock);
	if (level[0]) {
		err = strcmp(level, levels[i]) ? refuse(kp, value) : 0;
	} else {
		strscpy(level, levels[i], sizeof(level));
		arm_if_ready();
	}
	mutex_unlock(&param_lock);
	return err;
}

static int level_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", level);
}

static int supervisor_set(const char *value, const struct kernel_param *kp)
{
	struct pid *old = sentry_supervisor(), *pid;
	int number, err = kstrtoint(value, 10, &number);

	if (err || number <= 0)
		return -EINVAL;
	mutex_lock(&param_lock);
	pid = find_get_pid(number);
	if (old)
		err = pid == old ? 0 : refuse(kp, value);
	else if (!pid)
		err = -ESRCH;
	else
		sentry_supervisor_set(get_pid(pid));
	put_pid(pid);
	mutex_unlock(&param_lock);
	return err;
}

static int supervisor_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d\n", pid_nr(sentry_supervisor()));
}

static int hash_programs_set(const char *value, const struct kernel_param *kp)
{
	struct pid *supervisor = sentry_supervisor();

	if (supervisor && task_tgid(current) != supervisor)
		return refuse(kp, value);
	return sentry_hash_set_programs(value);
}

static int digest_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", sentry_key_secret_digest());
}

static int boot_id_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", boot_id);
}

static int read_only_set(const char *value, const struct kernel_param *kp)
{
	return -EPERM;
}

#define PARAM(name, setter, getter, mode)                                                          \
	static const struct kernel_param_ops name##_ops = { .set = setter, .get = getter };        \
	module_param_cb(name, &name##_ops, NULL, mode)

PARAM(boot_key, boot_key_set, NULL, 0);
PARAM(phase, phase_set, phase_get, 0644);
PARAM(sandbox_cgroup, sandbox_set, sandbox_get, 0644);
PARAM(level, level_set, level_get, 0644);
PARAM(supervisor_pid, supervisor_set, supervisor_get, 0644);
PARAM(hash_programs, hash_programs_set, NULL, 0200);
PARAM(secret_digest, read_only_set, digest_get, 0400);
PARAM(boot_id, read_only_set, boot_id_get, 0444);

/* The kernel exports no function for it, so it is read where everybody reads it. */
static int boot_id_read(void)
{
	struct file *file = filp_open("/proc/sys/kernel/random/boot_id", O_RDONLY, 0);
	loff_t at = 0;
	ssize_t len;

	if (IS_ERR(file))
		return PTR_ERR(file);
	len = kernel_read(file, boot_id, HF_SENTRY_BOOT_ID_CHARS, &at);
	fput(file);
	return len == HF_SENTRY_BOOT_ID_CHARS ? 0 : -EIO;
}

int sentry_param_init(void)
{
	int err;

	if (!boot_key_given)
		return -EINVAL;
	err = boot_id_read();
	return err ? err : sentry_key_init(boot_key, boot_id);
}

void sentry_param_ready(void)
{
	mutex_lock(&param_lock);
	ready = true;
	arm_if_ready();
	mutex_unlock(&param_lock);
}
