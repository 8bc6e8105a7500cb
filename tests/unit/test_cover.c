/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What sandboxd covers on a disk that an earlier boot prepared: links mean what they mean inside that root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "sandboxd/revoke.h"

static char top[] = "/tmp/hf-cover.XXXXXX";
static int root_fd;

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void is(const char *path, const char *text)
{
	char have[64] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_non_null(fgets(have, sizeof(have), f));
	fclose(f);
	assert_string_equal(have, text);
}

/* A root with files in it, in a mount namespace that ends with this process; what it has links to is outside too. */
static int set_up(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 0; /* the tests are skipped */
	if (!mkdtemp(top) || mount("tmpfs", top, "tmpfs", 0, NULL) < 0 || chdir(top) < 0 || mkdir("root", 0755) < 0 ||
	    mkdir("root/etc", 0755) < 0)
		return -1;
	root_fd = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	put("cover", "cover");
	put("outside", "outside");
	return root_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	return chdir("/") < 0 || umount2(top, MNT_DETACH) < 0 || rmdir(top) < 0 ? -1 : 0;
}

static void need_root(void)
{
	if (!root_fd)
		skip();
}

static void test_an_absolute_link_stays_inside(void **state)
{
	(void)state;
	need_root();
	put("root/etc/real", "real");
	assert_int_equal(symlink("/etc/real", "root/etc/sudoers"), 0);
	assert_false(guest_is_absent(root_fd, "/etc/sudoers"));
	assert_int_equal(guest_cover("cover", root_fd, "/etc/sudoers"), 0);
	is("root/etc/real", "cover");
	assert_int_equal(access("root/etc/real", W_OK), -1); /* read-only, for root as well */
}

static void test_a_link_cannot_lead_out(void **state)
{
	char far[sizeof(top) + 16];

	(void)state;
	need_root();
	snprintf(far, sizeof(far), "%s/outside", top);
	assert_int_equal(symlink(far, "root/etc/group"), 0);
	assert_int_equal(symlink("../../../../outside", "root/etc/gshadow"), 0);
	assert_true(guest_is_absent(root_fd, "/etc/group"));
	assert_true(guest_is_absent(root_fd, "/etc/gshadow"));
	assert_int_equal(guest_cover("cover", root_fd, "/etc/group"), -1);
	is("outside", "outside");
}

static void test_a_folder_is_covered_too(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(mkdir("empty", 0755), 0);
	assert_int_equal(mkdir("root/etc/sudoers.d", 0755), 0);
	put("root/etc/sudoers.d/all", "all");
	assert_int_equal(guest_cover("empty", root_fd, "/etc/sudoers.d"), 0);
	assert_int_equal(access("root/etc/sudoers.d/all", F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_absolute_link_stays_inside),
		cmocka_unit_test(test_a_link_cannot_lead_out),
		cmocka_unit_test(test_a_folder_is_covered_too),
	};

	return cmocka_run_group_tests_name("cover", tests, set_up, tear_down);
}
