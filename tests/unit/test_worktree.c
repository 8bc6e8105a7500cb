// SPDX-License-Identifier: GPL-2.0-or-later
/* Which folders count as linked worktrees: git's own, and none that only says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hostd/cli/cli.h"

static char dir[] = "/tmp/holdfast-worktree-XXXXXX";

static void sh(const char *script)
{
	char command[4096];

	snprintf(command, sizeof(command), "cd %s && %s", dir, script);
	assert_int_equal(system(command), 0);
}

static bool found(const char *name, struct worktree *w)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return worktree_find(path, w);
}

static void test_gits_own_worktree_is_found(void **state)
{
	struct worktree w;

	(void)state;
	sh("git init -q main && git -C main -c user.name=n -c user.email=n@example.org commit -q --allow-empty -m one && "
	   "git -C main worktree add -q ../linked -b side");
	assert_true(found("linked", &w));
	assert_non_null(strstr(w.own, "/main/.git/worktrees/linked"));
	assert_false(found("main", &w));
	assert_false(found("nowhere", &w));
}

/* A folder that came back from a guest, and a repository of the user's that it would like to see. */
static void test_a_link_that_is_not_answered_does_not_count(void **state)
{
	struct worktree w;

	(void)state;
	sh("mkdir -p copy/fake/worktrees/x && echo \"gitdir: $PWD/main/.git/worktrees/linked\" >copy/.git");
	assert_false(found("copy", &w));
	sh("echo \"gitdir: fake/worktrees/x\" >copy/.git && echo \"$PWD/main/.git\" >copy/fake/worktrees/x/commondir && "
	   "echo \"$PWD/copy/.git\" >copy/fake/worktrees/x/gitdir");
	assert_false(found("copy", &w));
	sh("ln -s \"$PWD/main/.git\" copy/fake/common && echo ../../common >copy/fake/worktrees/x/commondir");
	assert_false(found("copy", &w));
	sh("ln -s fake/worktrees/x copy/link && echo 'gitdir: link' >copy/.git");
	assert_false(found("copy", &w));
	sh("printf 'gitdir: ' >copy/.git");
	assert_false(found("copy", &w));
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gits_own_worktree_is_found),
		cmocka_unit_test(test_a_link_that_is_not_answered_does_not_count),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
