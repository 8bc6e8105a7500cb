/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `hostd alert`: the process that delivers one alert by one channel and ends. */
#include <curl/curl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostd/alert/alert.h"
#include "lib/cleanup.h"
#include "lib/json.h"

#define JOB_MAX (192 * 1024)

static int deliver_job(const json_t *job, struct err *e)
{
	static const char *const keys[] = { "config", "channel", "alert", NULL };
	struct alert_config cfg;
	const char *path, *name;
	json_t *alert;
	int channel, rc;

	if (!json_is_object(job))
		return err_set(e, "the job is no object");
	if (json_only_keys(job, keys, e) || json_get_str(job, "config", &path, e) ||
	    json_get_str(job, "channel", &name, e) || json_get_object(job, "alert", &alert, e))
		return -1;
	channel = alert_channel_find(name);
	if (channel < 0)
		return err_set(e, "no channel is named %s", name);
	if (alert_config_load(path, &cfg, e))
		return -1;
	rc = alert_deliver(&cfg, (enum alert_channel)channel, alert, e);
	alert_config_free(&cfg);
	return rc;
}

int alert_role_main(int fd)
{
	static const struct json_limits limits = { .bytes = JOB_MAX, .depth = 16, .values = 16384 };
	static char text[JOB_MAX];
	_cleanup_json_ json_t *job = NULL, *answer = NULL;
	_cleanup_free_ char *out = NULL;
	struct err e = { "" };
	ssize_t n = recv(fd, text, sizeof(text), 0);
	int rc;

	if (n <= 0)
		return 1;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	job = json_parse(text, (size_t)n, &limits, &e);
	rc = job ? deliver_job(job, &e) : -1;
	answer = json_pack("{s:b,s:s}", "ok", rc == 0, "error", rc ? e.text : "");
	out = answer ? json_text(answer) : NULL;
	if (out)
		send(fd, out, strlen(out), MSG_NOSIGNAL);
	return rc ? 1 : 0;
}
