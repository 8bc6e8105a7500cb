/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The timeline from hostd: `timeline --follow` gives what a client lacks without a gap, one that does not read holds nobody
 * up, and a query of large rows is answered in pages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "hostd/api/api.h"
#include "hostd/api/client.h"
#include "tests/unit/hostd_world.h"

enum { BATCH = 1000, TEXT_BYTES = 1500, BATCHES_MAX = 60, WAIT_S = 60, FEW = 900, MANY = 1100, AGAIN = 4, PAGED = 6500,
       CACHES_KB = 24 * 1024 };

/* What is freed is freed: the growth of hostd is measured. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=1";
}

static pid_t server;

/* ---- the hostd: its own methods, and two of the test ---- */

static void follow_method(void *user, struct api_call *call, const json_t *params)
{
	follow_add(user, call, params);
}

static void append_method(void *user, struct api_call *call, const json_t *params)
{
	char data[TEXT_BYTES + 64], text[TEXT_BYTES + 1];
	struct store_row row = { .ws = "demo", .kind = EVENT_EXEC, .data = data };
	json_int_t n = json_integer_value(json_object_get(params, "n"));
	struct err err = { "the queue is full" };

	(void)user;
	memset(text, 'x', TEXT_BYTES);
	text[TEXT_BYTES] = '\0';
	for (json_int_t i = 0; i < n; i++) {
		snprintf(data, sizeof(data), "{\"program\":\"/bin/p\",\"command\":\"%s\",\"pid\":%lld}", text, (long long)i);
		if (store_append_row(hostd.store, &row, &err) != STORE_OK) {
			api_fail_err(call, &err);
			return;
		}
	}
	if (store_sync(hostd.store, 10000, &err))
		api_fail_err(call, &err);
	else
		api_reply(call, NULL);
}

static long resident_kb(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[128];
	long kb = 0;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %ld", &kb);
	fclose(f);
	return kb;
}

static void state_method(void *user, struct api_call *call, const json_t *params)
{
	(void)user;
	(void)params;
	api_reply(call, json_pack("{s:i,s:I}", "follows", (int)follow_count(&hostd), "kb", (json_int_t)resident_kb()));
}

static void serve(void)
{
	static const char *const follow_params[] = { "ws", "after_id", "all", NULL };
	static const char *const append_params[] = { "n", NULL };
	static const char *const no_params[] = { NULL };
	static const char *const wanted[] = { "timeline", NULL };
	static struct api_method methods[8] = { { "timeline.follow", follow_params, follow_method },
						{ "test.append", append_params, append_method },
						{ "test.state", no_params, state_method } };
	struct err err;

	take_methods(methods + 3, wanted);
	hostd.loop = loop_new(&err);
	if (daemon_open_store(&hostd, &err))
		_exit(1);
	hostd.api = api_server_new(hostd.loop, hostd.paths.api, methods, NULL, &hostd, &err);
	loop_run(hostd.loop, &err);
	_exit(0);
}

/* ---- clients ---- */

static struct api_client *client(void)
{
	struct api_client *c;
	struct err err;

	for (int i = 0; i < 1000 && access(hostd.paths.api, F_OK); i++)
		usleep(10000);
	c = api_client_open(&hostd.paths, 0, &err);
	assert_non_null(c);
	return c;
}

static json_t *call(const char *method, json_t *params)
{
	struct api_client *c = client();
	struct err err = { "" };
	json_t *result = api_client_call(c, method, params, NULL, NULL, &err);

	if (!result)
		fail_msg("%s: %s", method, err.text);
	api_client_close(c);
	return result;
}

static json_int_t appended;

static void append(unsigned n)
{
	appended += n;
	json_decref(call("test.append", json_pack("{s:i}", "n", (int)n)));
}

static json_int_t state_of(const char *key)
{
	json_t *state = call("test.state", json_object());
	json_int_t n = json_integer_value(json_object_get(state, key));

	json_decref(state);
	return n;
}

struct follower {
	pthread_t thread;
	json_int_t after;
	_Atomic json_int_t last;
	_Atomic unsigned n, gaps;
	_Atomic bool stop, over;
	bool slow; /* it looks at its first row until it is told to go on */
	sem_t go_on;
	struct err err; /* how it ended */
};

static int on_event(void *user, const json_t *event)
{
	struct follower *f = user;
	json_int_t id = json_integer_value(json_object_get(event, "id"));

	f->gaps += f->last && id != f->last + 1;
	f->last = id;
	if (!f->n++ && f->slow)
		sem_wait(&f->go_on);
	return f->stop;
}

static void *follow(void *user)
{
	struct follower *f = user;
	struct api_client *c = client();
	json_t *params = json_pack("{s:s,s:b}", "ws", "demo", "all", 1);

	if (f->after)
		json_object_set_new(params, "after_id", json_integer(f->after));
	json_decref(api_client_call(c, "timeline.follow", params, on_event, f, &f->err));
	api_client_close(c);
	f->over = true;
	return NULL;
}

static void begin(struct follower *f)
{
	json_int_t before = state_of("follows");

	sem_init(&f->go_on, 0, 0);
	assert_int_equal(pthread_create(&f->thread, NULL, follow, f), 0);
	for (int i = 0; i < WAIT_S * 100 && state_of("follows") == before && !f->n && !f->over; i++)
		usleep(10000);
}

static void end(struct follower *f)
{
	json_int_t before = state_of("follows");

	f->stop = true;
	append(1);
	pthread_join(f->thread, NULL);
	for (int i = 0; i < WAIT_S * 100 && state_of("follows") == before; i++)
		usleep(10000);
}

static bool reaches(struct follower *f, json_int_t id)
{
	for (int i = 0; i < WAIT_S * 100 && f->last < id; i++)
		usleep(10000);
	return f->last == id;
}

/* ---- what must hold ---- */

static void what_a_client_lacks_comes_without_a_gap(void **state)
{
	static struct follower few, many;

	(void)state;
	append(MANY + 100);
	few.after = MANY + 100 - FEW;
	many.after = 100;
	begin(&few);
	assert_true(reaches(&few, MANY + 100));
	append(10);
	assert_true(reaches(&few, MANY + 110));
	assert_int_equal(few.n, FEW + 10);
	assert_int_equal(few.gaps, 0);
	begin(&many);
	pthread_join(many.thread, NULL);
	assert_int_equal(many.n, 0); /* it reads them itself: hostd has others to serve */
	assert_string_equal(many.err.text, "behind");
	end(&few);
}

static void one_that_does_not_read_is_let_go_and_nobody_waits(void **state)
{
	static struct follower slow = { .slow = true }, quick;
	json_int_t both, cut_kb, end_kb, first;
	unsigned batches = 0;

	(void)state;
	begin(&slow);
	begin(&quick);
	both = state_of("follows");
	first = appended + 1;
	while (state_of("follows") == both && batches++ < BATCHES_MAX) {
		append(BATCH);
		assert_true(reaches(&quick, appended));
	}
	assert_int_equal(state_of("follows"), both - 1);
	cut_kb = state_of("kb");
	assert_true((size_t)batches * BATCH * TEXT_BYTES > API_FRAME_MAX / 4); /* as JSON more than twice that */
	for (unsigned i = 0; i < AGAIN * batches; i++) {
		append(BATCH);
		assert_true(reaches(&quick, appended));
	}
	assert_int_equal(quick.n, (1 + AGAIN) * batches * BATCH);
	assert_int_equal(quick.gaps, 0);
	end_kb = state_of("kb");
	print_message("let go after %u rows; hostd had %lld MB then, %lld MB after %u more\n", batches * BATCH,
		      (long long)cut_kb / 1024, (long long)end_kb / 1024, AGAIN * batches * BATCH);
	/* SQLite's cache fills; what was held for a reader would be AGAIN times what it was cut for */
	assert_true(end_kb < cut_kb + CACHES_KB && AGAIN * API_FRAME_MAX / 1024 > CACHES_KB);
	/* it gets what waited for it, is told why there is no more, and knows where to go on */
	assert_int_equal(slow.n, 1);
	assert_int_equal(slow.last, first);
	sem_post(&slow.go_on);
	pthread_join(slow.thread, NULL);
	assert_string_equal(slow.err.text, "behind");
	assert_int_equal(slow.gaps, 0);
	assert_in_range(slow.n, 2, batches * BATCH - 1);
	end(&quick);
}

static void a_query_of_large_rows_is_answered_in_pages(void **state)
{
	unsigned pages = 0;
	json_int_t last = 0;
	bool more = true;

	(void)state;
	while (appended < PAGED)
		append(BATCH);
	for (; more; pages++) {
		json_t *page = call("timeline", json_pack("{s:s,s:b,s:I}", "ws", "demo", "all", 1, "after_id", last)), *row;
		size_t i;

		json_array_foreach(json_object_get(page, "rows"), i, row)
			assert_int_equal(json_integer_value(json_object_get(row, "id")), ++last);
		assert_true(i > 0);
		more = json_is_true(json_object_get(page, "more"));
		json_decref(page);
	}
	assert_int_equal(last, appended);
	for (more = true, last++; more;) {
		json_t *page = call("timeline", json_pack("{s:s,s:b,s:b,s:I}", "ws", "demo", "all", 1, "newest_first", 1,
							  "before_id", last)), *row;
		size_t i;

		json_array_foreach(json_object_get(page, "rows"), i, row)
			assert_int_equal(json_integer_value(json_object_get(row, "id")), --last);
		more = json_is_true(json_object_get(page, "more"));
		json_decref(page);
	}
	assert_int_equal(last, 1);
	assert_true(pages > 1 && (size_t)appended * 2 * TEXT_BYTES > API_FRAME_MAX);
}

static int set_up(void **state)
{
	(void)state;
	hostd_world_make();
	server = fork(); /* before there are threads */
	if (!server)
		serve();
	return 0;
}

static int tear_down(void **state)
{
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return hostd_world_remove(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_client_lacks_comes_without_a_gap),
		cmocka_unit_test(a_query_of_large_rows_is_answered_in_pages),
		cmocka_unit_test(one_that_does_not_read_is_let_go_and_nobody_waits),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
