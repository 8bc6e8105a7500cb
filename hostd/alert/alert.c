/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an alert says, and the configuration of its channels. */
#include "hostd/alert/alert.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hostd/store/redact.h"
#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/hex.h"
#include "lib/io.h"
#include "lib/json.h"

#define CONFIG_MAX 65536
#define TEXT_MAX 16384

static const char *const channel_names[ALERT_CHANNELS] = { "journal", "desktop", "webhook", "command" };

const char *alert_channel_name(enum alert_channel channel)
{
	return (unsigned)channel < ALERT_CHANNELS ? channel_names[channel] : "?";
}

int alert_channel_find(const char *name)
{
	for (int i = 0; i < ALERT_CHANNELS; i++)
		if (!strcmp(channel_names[i], name))
			return i;
	return -1;
}

/* ---- configuration ---- */

static void config_default(struct alert_config *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	cfg->on[ALERT_JOURNAL] = cfg->on[ALERT_DESKTOP] = true;
	strcpy(cfg->journal_socket, "/run/systemd/journal/socket");
	strcpy(cfg->syslog_socket, "/dev/log");
}

void alert_config_free(struct alert_config *cfg)
{
	for (int i = 0; i < ALERT_ARGS_MAX; i++)
		free(cfg->command[i]);
	memset(cfg->command, 0, sizeof(cfg->command));
}

static int take(char *out, size_t size, const char *value, const char *key, struct err *e)
{
	if ((size_t)snprintf(out, size, "%s", value) >= size)
		return err_set(e, "\"%s\" is too long", key);
	return 0;
}

static int parse_webhook(const json_t *obj, struct alert_config *cfg, struct err *e)
{
	static const char *const keys[] = { "url", "secret_file", "ca_file", NULL };
	const char *url, *secret, *ca;

	if (!json_is_object(obj))
		return err_set(e, "\"webhook\" must be an object");
	if (json_only_keys(obj, keys, e) || json_get_str(obj, "url", &url, e) ||
	    json_get_str(obj, "secret_file", &secret, e) || json_opt_str(obj, "ca_file", &ca, "", e))
		return err_prefix(e, "\"webhook\"");
	/* a plain connection only to this machine: the alert and its signature are nobody else's */
	if (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://127.0.0.1", 16) != 0 &&
	    strncmp(url, "http://[::1]", 12) != 0)
		return err_set(e, "\"webhook\": \"url\" must begin with https://");
	if (strstr(url, "@"))
		return err_set(e, "\"webhook\": \"url\" must not hold a user or password");
	if (*secret != '/' || (*ca && *ca != '/'))
		return err_set(e, "\"webhook\": files are named by absolute paths");
	cfg->on[ALERT_WEBHOOK] = true;
	return take(cfg->url, sizeof(cfg->url), url, "url", e) ||
		       take(cfg->secret_file, sizeof(cfg->secret_file), secret, "secret_file", e) ||
		       take(cfg->ca_file, sizeof(cfg->ca_file), ca, "ca_file", e) ? -1 : 0;
}

static int parse_command(const json_t *argv, struct alert_config *cfg, struct err *e)
{
	const json_t *arg;
	size_t i;

	if (!json_is_array(argv) || !json_array_size(argv) || json_array_size(argv) > ALERT_ARGS_MAX)
		return err_set(e, "\"command\" must be an array of 1 to %d strings", ALERT_ARGS_MAX);
	json_array_foreach (argv, i, arg) {
		if (!json_is_string(arg))
			return err_set(e, "\"command\" must hold strings");
		cfg->command[i] = strdup(json_string_value(arg));
	}
	if (!cfg->command[0] || cfg->command[0][0] != '/')
		return err_set(e, "\"command\": the program is named by its absolute path");
	cfg->on[ALERT_COMMAND] = true;
	return 0;
}

int alert_config_parse(const json_t *obj, struct alert_config *cfg, struct err *e)
{
	static const char *const keys[] = { "journal", "desktop", "webhook", "command", NULL };

	config_default(cfg);
	if (!json_is_object(obj))
		return err_set(e, "it must be an object");
	if (json_only_keys(obj, keys, e) ||
	    json_opt_bool(obj, "journal", &cfg->on[ALERT_JOURNAL], true, e) ||
	    json_opt_bool(obj, "desktop", &cfg->on[ALERT_DESKTOP], true, e) ||
	    (json_object_get(obj, "webhook") && parse_webhook(json_object_get(obj, "webhook"), cfg, e)) ||
	    (json_object_get(obj, "command") && parse_command(json_object_get(obj, "command"), cfg, e))) {
		alert_config_free(cfg);
		return -1;
	}
	return 0;
}

int alert_config_load(const char *path, struct alert_config *cfg, struct err *e)
{
	static const struct json_limits limits = { .bytes = CONFIG_MAX, .depth = 4, .values = 256 };
	_cleanup_json_ json_t *obj = NULL;
	struct buf text;

	config_default(cfg);
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	buf_init(&text, CONFIG_MAX);
	if (io_read_file(path, &text, e)) {
		buf_free(&text);
		return -1;
	}
	obj = json_parse(text.data, text.len, &limits, e);
	buf_free(&text);
	if (!obj || alert_config_parse(obj, cfg, e))
		return err_prefix(e, "%s", path);
	return 0;
}

/* ---- contents ---- */

static void iso_time(int64_t ns, char out[40])
{
	time_t s = (time_t)(ns / 1000000000);
	struct tm tm;

	strftime(out, 40, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&s, &tm));
}

static json_t *new_id(void)
{
	uint8_t raw[16];
	char hex[33];

	randombytes_buf(raw, sizeof(raw));
	hex_encode(hex, raw, sizeof(raw));
	return json_string(hex);
}

static json_t *parts_json(const struct ingest_alert *trip)
{
	json_t *parts = json_array();

	for (unsigned i = 0; i < trip->n_parts; i++)
		json_array_append_new(parts,
				      json_pack("{s:s,s:i,s:I,s:s}", "signal", signal_defs[trip->parts[i].signal].name,
						"points", (int)trip->parts[i].points, "count",
						(json_int_t)trip->parts[i].count, "text",
						signal_defs[trip->parts[i].signal].text));
	return parts;
}

/* Programs, nearest first, as the Sentry gave them. */
static json_t *chain_json(const json_t *chain)
{
	json_t *out = json_array();
	const json_t *p;
	size_t i;

	json_array_foreach (chain, i, p) {
		const char *path = json_string_value(json_object_get(p, "path"));

		if (!path || !*path)
			path = json_string_value(json_object_get(p, "comm"));
		json_array_append_new(out, json_pack("{s:s,s:O*,s:O*}", "program", path ? path : "?", "pid",
						     json_object_get(p, "pid"), "args", json_object_get(p, "args")));
	}
	return out;
}

static json_t *redacted(json_t *alert)
{
	unsigned count = 0;
	json_t *clean = alert ? redact_json(alert, &count) : NULL;

	if (!clean)
		return alert;
	json_decref(alert);
	return clean;
}

json_t *alert_new(const struct ingest_alert *trip, int64_t wall_ns, const char *state)
{
	char when[40], look[128], act[128];
	bool held = !strcmp(state, "quarantined");

	iso_time(wall_ns, when);
	snprintf(look, sizeof(look), "holdfast timeline %s --since 10m --min-weight 1", trip->ws);
	snprintf(act, sizeof(act), held ? "holdfast release %s" : "holdfast quarantine %s", trip->ws);
	return redacted(json_pack("{s:i,s:o,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:o,s:o,s:[s,s]}", "schema", 1, "id", new_id(),
				  "time", when, "workspace", trip->ws, "state", state, "kind",
				  event_defs[trip->kind].name, "sentence", trip->sentence, "score", (int)trip->score,
				  "threshold", (int)trip->threshold, "parts", parts_json(trip), "chain",
				  chain_json(trip->chain), "commands", look, act));
}

json_t *alert_test_new(const char *author, int64_t wall_ns)
{
	char when[40], sentence[256];

	iso_time(wall_ns, when);
	snprintf(sentence, sizeof(sentence), "This is a test that %s asked for; nothing happened", author);
	return redacted(json_pack("{s:i,s:o,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:[],s:[],s:[s,s]}", "schema", 1, "id", new_id(),
				  "time", when, "workspace", "-", "state", "test", "kind", "alert_test", "sentence",
				  sentence, "score", 0, "threshold", 0, "parts", "chain", "commands",
				  "holdfast alerts", "holdfast alerts test"));
}

static const char *text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

static long long integer(const json_t *obj, const char *key)
{
	return json_integer_value(json_object_get(obj, key));
}

/* A guest's text on one line, without what moves a cursor or turns a line round. */
static void put_plain(struct buf *b, const char *s)
{
	for (const unsigned char *c = (const unsigned char *)s; *c; c++) {
		bool mark = c[0] == 0xe2 && ((c[1] == 0x80 && c[2] >= 0x8b && c[2] <= 0xae) ||
					     (c[1] == 0x81 && c[2] >= 0xa0 && c[2] <= 0xaf));

		if (*c < 0x20 || *c == 0x7f || (c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f)) {
			buf_put_str(b, "?");
			c += c[0] == 0xc2;
		} else if (mark) {
			buf_put_str(b, "?");
			c += 2;
		} else {
			buf_put_u8(b, *c);
		}
	}
}

char *alert_text(const json_t *alert)
{
	const json_t *parts = json_object_get(alert, "parts"), *chain = json_object_get(alert, "chain"), *p;
	struct buf b;
	char *out;
	size_t i;

	buf_init(&b, TEXT_MAX);
	buf_putf(&b, "Workspace %s", text(alert, "workspace"));
	buf_putf(&b, "%s: ", !strcmp(text(alert, "state"), "quarantined") ? " was cut off and paused" : "");
	put_plain(&b, text(alert, "sentence"));
	buf_put_str(&b, ".\n");
	if (integer(alert, "threshold"))
		buf_putf(&b, "Score %lld of %lld", integer(alert, "score"), integer(alert, "threshold"));
	json_array_foreach (parts, i, p) {
		buf_putf(&b, "%s%lld for %s", i ? ", " : ": ", integer(p, "points"), text(p, "text"));
		if (integer(p, "count") > 1)
			buf_putf(&b, " ×%lld", integer(p, "count"));
	}
	if (integer(alert, "threshold"))
		buf_put_str(&b, ".\n");
	if (json_array_size(chain)) {
		buf_put_str(&b, "Processes: ");
		for (i = json_array_size(chain); i--;) {
			put_plain(&b, text(json_array_get(chain, i), "program"));
			buf_put_str(&b, i ? " → " : ".\n");
		}
	}
	json_array_foreach (json_object_get(alert, "commands"), i, p)
		buf_putf(&b, "  %s\n", json_string_value(p));
	out = buf_cstr(&b) ? strdup((char *)b.data) : NULL;
	buf_free(&b);
	return out;
}
