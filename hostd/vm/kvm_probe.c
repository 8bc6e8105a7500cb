/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does KVM run guest code here? Found out by running some. */
#include "hostd/vm/kvm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cleanup.h"

enum { PAGE_BYTES = 4096, PORT = 0x10, TOKEN = 0x5a, RUN_TRIES = 16 };

/* Exit codes of the child, each a step that failed. */
enum { STEP_RAN = 0, STEP_OPEN = 10, STEP_VERSION, STEP_VM, STEP_MEMORY, STEP_CPU, STEP_RUN, STEP_ANSWER };

/*
 * Ten million turns take some ms where the CPU runs the guest. Where KVM emulates every instruction
 * (seen under a hypervisor without nesting: 1 million a second) they outlast KVM_PROBE_MS.
 */
static const uint8_t program[] = {
	0x66, 0xb9, 0x80, 0x96, 0x98, 0x00, /* mov $10000000, %ecx */
	0x66, 0x49,			    /* dec %ecx */
	0x75, 0xfc,			    /* jnz to the dec */
	0xb0, TOKEN,			    /* mov $TOKEN, %al */
	0xe6, PORT,			    /* out %al, $PORT */
	0xf4,				    /* hlt */
};

static int setup_cpu(int cpu)
{
	struct kvm_regs regs = { .rflags = 2 };
	struct kvm_sregs sregs;

	if (ioctl(cpu, KVM_GET_SREGS, &sregs))
		return -1;
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	return ioctl(cpu, KVM_SET_SREGS, &sregs) || ioctl(cpu, KVM_SET_REGS, &regs) ? -1 : 0;
}

static int run_guest(int cpu, const struct kvm_run *run)
{
	int answered = 0;

	for (int i = 0; i < RUN_TRIES; i++) {
		if (ioctl(cpu, KVM_RUN, 0) && errno != EINTR)
			return STEP_RUN;
		if (run->exit_reason == KVM_EXIT_IO && run->io.port == PORT)
			answered = *((const uint8_t *)run + run->io.data_offset) == TOKEN;
		else if (run->exit_reason == KVM_EXIT_HLT)
			return answered ? STEP_RAN : STEP_ANSWER;
	}
	return STEP_ANSWER;
}

static int child(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	struct kvm_userspace_memory_region region = { .memory_size = PAGE_BYTES };
	struct kvm_run *run;
	int vm, cpu, size;
	void *page;

	if (kvm < 0)
		return STEP_OPEN;
	if (ioctl(kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		return STEP_VERSION;
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0)
		return STEP_VM;
	page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return STEP_MEMORY;
	memcpy(page, program, sizeof(program));
	region.userspace_addr = (uintptr_t)page;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region))
		return STEP_MEMORY;
	cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (cpu < 0 || size < (int)sizeof(*run))
		return STEP_CPU;
	run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
	if (run == MAP_FAILED || setup_cpu(cpu))
		return STEP_CPU;
	return run_guest(cpu, run);
}

static int explain(int status, struct err *err)
{
	static const char *const step[] = {
		[STEP_VERSION - STEP_OPEN] = "its API version is not 12",
		[STEP_VM - STEP_OPEN] = "it makes no VM",
		[STEP_MEMORY - STEP_OPEN] = "it takes no guest memory",
		[STEP_CPU - STEP_OPEN] = "it makes no virtual CPU",
		[STEP_RUN - STEP_OPEN] = "it does not run guest code",
		[STEP_ANSWER - STEP_OPEN] = "guest code ran but did not answer as it must",
	};
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (code == STEP_RAN)
		return 0;
	if (code == STEP_OPEN && access("/dev/kvm", F_OK))
		return err_set(err, "there is no /dev/kvm");
	if (code == STEP_OPEN)
		return err_set(err, "/dev/kvm may not be opened by this user");
	if (code > STEP_OPEN && code <= STEP_ANSWER)
		return err_set(err, "/dev/kvm opens, but %s", step[code - STEP_OPEN]);
	return err_set(err, "/dev/kvm opens, but its test guest died");
}

int kvm_probe(struct err *err)
{
	_cleanup_close_ int pidfd = -1;
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return err_errno(err, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		_exit(child());
	}
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0 || poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, KVM_PROBE_MS) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return err_set(err, "/dev/kvm opens, but no guest makes progress on it");
	}
	if (waitpid(pid, &status, 0) != pid)
		return err_errno(err, "wait for the test guest");
	return explain(status, err);
}
