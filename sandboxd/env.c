// SPDX-License-Identifier: GPL-2.0-or-later
/* Builds a session's environment, the same for every kind of exec. */
#include "sandboxd/env.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <holdfast/exec.h>
#include <holdfast/guest.h>

#include "lib/cleanup.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define PROXY_URL "http://127.0.0.1:" STRING(HF_BRIDGE_PORT)
#define NO_PROXY "localhost,127.0.0.1,::1"

static const char *const dropped_names[] = {
	"BASH_ENV", "ENV", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "IFS", "CDPATH", "GLOBIGNORE",
	"PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PYTHONINSPECT", "PYTHONUSERBASE", "PYTHONWARNINGS",
	"PERL5OPT", "PERL5LIB", "PERLLIB", "PERL5DB", "RUBYOPT", "RUBYLIB", "NODE_OPTIONS", "NODE_PATH",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "GCONV_PATH", "GETCONF_DIR",
	"HOSTALIASES", "LOCALDOMAIN", "LOCPATH", "MALLOC_TRACE", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF",
	"RES_OPTIONS", "TZDIR", "GIT_EDITOR", "GIT_PAGER",
	"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR",
	"GIT_PROXY_COMMAND", "GIT_SEQUENCE_EDITOR", "SSH_ASKPASS", "LESSOPEN", "LESSCLOSE",
	"OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "SUDO_ASKPASS", "PATH", "HOME", "USER", "LOGNAME",
	"SHELL",
};

static const char *const dropped_prefixes[] = { "LD_", "GIT_CONFIG", "BASH_FUNC_", "HOLDFAST_", "DYLD_" };

static bool is_name(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && *s != '_')
			return false;
	return true;
}

bool guest_env_allowed(const char *name)
{
	if (!is_name(name))
		return false;
	for (size_t i = 0; i < sizeof(dropped_names) / sizeof(dropped_names[0]); i++)
		if (!strcmp(name, dropped_names[i]))
			return false;
	for (size_t i = 0; i < sizeof(dropped_prefixes) / sizeof(dropped_prefixes[0]); i++)
		if (!strncmp(name, dropped_prefixes[i], strlen(dropped_prefixes[i])))
			return false;
	return true;
}

/* Sets or replaces. */
static int set(struct guest_env *env, const char *name, const char *value, struct err *e)
{
	size_t n = strlen(name), size = n + strlen(value) + 2, i = 0;
	char *text = malloc(size);

	if (!text)
		return err_errno(e, "environment");
	snprintf(text, size, "%s=%s", name, value);
	while (i < env->count && (strncmp(env->list[i], name, n) || env->list[i][n] != '='))
		i++;
	if (i < env->count) {
		free(env->list[i]);
	} else if (i == HF_EXEC_ENV_MAX) {
		free(text);
		return err_set(e, "environment: more than %d variables", HF_EXEC_ENV_MAX);
	} else {
		env->count++;
	}
	env->list[i] = text;
	return 0;
}

struct pair { const char *name, *value; };

static int set_all(struct guest_env *env, const struct pair *pairs, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (set(env, pairs[i].name, pairs[i].value, e) < 0)
			return -1;
	return 0;
}

static bool exists(int root_fd, const char *path)
{
	_cleanup_close_ int fd = guest_open_beneath(root_fd, path, O_PATH, 0);

	return fd >= 0;
}

/* Node adds its file to its own roots; the others replace theirs and want the whole bundle. */
static int set_proxy(struct guest_env *env, bool ca, struct err *e)
{
	static const struct pair proxy[] = {
		{ "HTTPS_PROXY", PROXY_URL }, { "HTTP_PROXY", PROXY_URL }, { "ALL_PROXY", PROXY_URL },
		{ "https_proxy", PROXY_URL }, { "http_proxy", PROXY_URL }, { "all_proxy", PROXY_URL },
		{ "NO_PROXY", NO_PROXY }, { "no_proxy", NO_PROXY }, { "NODE_USE_ENV_PROXY", "1" },
	};
	static const struct pair bundle[] = {
		{ "SSL_CERT_FILE", GUEST_CA_BUNDLE }, { "REQUESTS_CA_BUNDLE", GUEST_CA_BUNDLE },
		{ "CURL_CA_BUNDLE", GUEST_CA_BUNDLE }, { "GIT_SSL_CAINFO", GUEST_CA_BUNDLE },
		{ "PIP_CERT", GUEST_CA_BUNDLE }, { "CARGO_HTTP_CAINFO", GUEST_CA_BUNDLE },
		{ "AWS_CA_BUNDLE", GUEST_CA_BUNDLE }, { "DENO_CERT", GUEST_CA_BUNDLE },
	};
	static const char java[] = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=" STRING(HF_BRIDGE_PORT)
				   " -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=" STRING(HF_BRIDGE_PORT);

	static const char trust[] = " -Djavax.net.ssl.trustStore=" GUEST_KEYSTORE;
	char options[sizeof(java) + sizeof(trust)];

	snprintf(options, sizeof(options), "%s%s", java, ca ? trust : "");
	if (set_all(env, proxy, sizeof(proxy) / sizeof(proxy[0]), e) < 0 ||
	    set(env, "JAVA_TOOL_OPTIONS", options, e) < 0)
		return -1;
	if (!ca)
		return 0;
	return set(env, "NODE_EXTRA_CA_CERTS", GUEST_CA_FILE, e) < 0 ||
	       set_all(env, bundle, sizeof(bundle) / sizeof(bundle[0]), e) < 0 ? -1 : 0;
}

static int env_new(struct guest_env *env, struct err *e)
{
	env->count = 0;
	env->list = calloc(HF_EXEC_ENV_MAX + 1, sizeof(char *));
	return env->list ? 0 : err_errno(e, "environment");
}

int guest_env_proxy(struct guest_env *env, bool ca, struct err *e)
{
	if (env_new(env, e) < 0)
		return -1;
	if (set_proxy(env, ca, e) == 0)
		return 0;
	guest_env_free(env);
	return -1;
}

static int set_base(struct guest_env *env, const struct guest_identity *id, const char *term, struct err *e)
{
	const struct pair base[] = {
		{ "PATH", id->uid ? "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games" :
				    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
		{ "HOME", id->home }, { "USER", id->name }, { "LOGNAME", id->name }, { "SHELL", id->shell },
		{ "LANG", "C.UTF-8" }, { "TERM", term }, { "HOLDFAST", "1" },
	};

	return set_all(env, base, sizeof(base) / sizeof(base[0]), e);
}

static int set_extra(struct guest_env *env, const json_t *extra, json_t *dropped, struct err *e)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)extra, name, value) {
		if (!json_is_string(value))
			return err_set(e, "env: the value of %s is no string", name);
		if (!guest_env_allowed(name)) {
			json_array_append_new(dropped, json_string(name));
			continue;
		}
		if (set(env, name, json_string_value(value), e) < 0)
			return -1;
	}
	return 0;
}

int guest_env_build(struct guest_env *env, int root_fd, const struct guest_identity *id, bool proxy,
		    const char *term, const json_t *extra, json_t *dropped, struct err *e)
{
	if (env_new(env, e) < 0)
		return -1;
	if (set_base(env, id, term, e) < 0 || (proxy && set_proxy(env, exists(root_fd, GUEST_CA_FILE), e) < 0) ||
	    (extra && set_extra(env, extra, dropped, e) < 0)) {
		guest_env_free(env);
		return -1;
	}
	return 0;
}

void guest_env_free(struct guest_env *env)
{
	for (size_t i = 0; env->list && i < env->count; i++)
		free(env->list[i]);
	free(env->list);
	env->list = NULL;
	env->count = 0;
}
