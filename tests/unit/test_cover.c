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

#include "sandboxd/disk.h"
#include "sandboxd/identity.h"
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

/* Where a disk of the workspace's is mounted: on its own root, whatever it has put at that name. */
static void test_a_mount_point_stays_inside(void **state)
{
	int fd;

	(void)state;
	need_root();
	assert_int_equal(mkdir("trusted", 0755), 0);
	put("trusted/latch", "latch");
	assert_int_equal(symlink("/trusted", "root/home"), 0);
	assert_int_equal(guest_mount_point(root_fd, "/home"), -1);
	assert_int_equal(mkdir("root/trusted", 0755), 0);
	fd = guest_mount_point(root_fd, "/home");
	assert_true(fd >= 0);
	assert_int_equal(guest_mount_on(fd, "tmpfs", "tmpfs", MS_NODEV | MS_NOSUID), 0);
	close(fd);
	is("trusted/latch", "latch");
	put("root/trusted/mounted", "mounted");
	assert_int_equal(umount2("root/trusted", MNT_DETACH), 0);
	assert_int_equal(access("root/trusted/mounted", F_OK), -1);
	fd = guest_mount_point(root_fd, "/made");
	assert_true(fd >= 0);
	close(fd);
	put("root/plain", "");
	assert_int_equal(guest_mount_point(root_fd, "/plain"), -1);
	assert_int_equal(guest_mount_point(root_fd, "/no/such"), -1);
}

static void test_a_home_is_made_inside(void **state)
{
	struct err e;
	struct stat st;

	(void)state;
	need_root();
	assert_int_equal(mkdir("secret", 0755), 0);
	put("secret/file", "secret");
	assert_int_equal(symlink("/secret", "root/etc/skel"), 0);
	assert_int_equal(mkfifo("root/pipe", 0600), 0);
	assert_int_equal(guest_home_make(root_fd, "/someone", 1234, 1234, &e), 0);
	assert_int_equal(stat("root/someone", &st), 0);
	assert_int_equal(st.st_uid, 1234);
	assert_int_equal(access("root/someone/file", F_OK), -1);
	assert_int_equal(unlink("root/etc/skel"), 0);
	assert_int_equal(mkdir("root/etc/skel", 0755), 0);
	put("root/etc/skel/.profile", "profile");
	assert_int_equal(mkfifo("root/etc/skel/pipe", 0600), 0); /* opening it must not wait for a writer */
	assert_int_equal(guest_home_make(root_fd, "/other", 1234, 1234, &e), 0);
	is("root/other/.profile", "profile");
	/* one that is there is left as it is, a link too */
	assert_int_equal(symlink("/etc", "root/linked"), 0);
	assert_int_equal(guest_home_make(root_fd, "/linked", 1234, 1234, &e), 0);
	assert_int_equal(stat("root/etc", &st), 0);
	assert_int_not_equal(st.st_uid, 1234);
}

/* Tables that would hold the supervisor for ever: each is refused at once. */
static void test_a_table_is_a_small_regular_file(void **state)
{
	struct guest_identity who;
	struct err e;
	FILE *f;

	(void)state;
	need_root();
	alarm(20);
	assert_int_equal(mkfifo("root/etc/passwd", 0644), 0);
	assert_int_equal(guest_identity_find(root_fd, "agent", &who, &e), -1);
	unlink("root/etc/passwd");
	assert_int_equal(mknod("root/etc/passwd", S_IFCHR | 0644, 1 << 8 | 5), 0); /* zeros without end */
	assert_int_equal(guest_identity_find(root_fd, "agent", &who, &e), -1);
	unlink("root/etc/passwd");
	put("root/etc/passwd", "agent:x:1000:1000::/home/agent:/bin/bash\n");
	assert_int_equal(guest_identity_find(root_fd, "agent", &who, &e), 0);
	assert_int_equal(who.uid, 1000);
	assert_int_equal(truncate("root/etc/passwd", (off_t)1 << 40), 0);
	assert_int_equal(guest_identity_find(root_fd, "agent", &who, &e), -1);
	assert_int_equal(symlink("../../outside", "root/etc/shadow"), 0);
	f = guest_open_table(root_fd, "/etc/shadow", &e);
	assert_null(f);
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_absolute_link_stays_inside),
		cmocka_unit_test(test_a_link_cannot_lead_out),
		cmocka_unit_test(test_a_folder_is_covered_too),
		cmocka_unit_test(test_a_mount_point_stays_inside),
		cmocka_unit_test(test_a_home_is_made_inside),
		cmocka_unit_test(test_a_table_is_a_small_regular_file),
	};

	return cmocka_run_group_tests_name("cover", tests, set_up, tear_down);
}
