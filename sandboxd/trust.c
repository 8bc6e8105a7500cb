// SPDX-License-Identifier: GPL-2.0-or-later
/* Installs the proxy's CA and variables for this boot. */
#include "sandboxd/trust.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <holdfast/guest.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "sandboxd/env.h"
#include "sandboxd/keystore.h"
#include "sandboxd/revoke.h"

#define SYSTEM_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define SYSTEM_KEYSTORE "/etc/ssl/certs/java/cacerts"
#define ENVIRONMENT "/run/holdfast/environment"
#define SUDOERS "/etc/sudoers"
#define SUDOERS_COPY "/run/holdfast/sudoers"

enum { BUNDLE_MAX = 8 * 1024 * 1024 };

static int put_mode(const char *path, const void *data, size_t n, mode_t mode)
{
	_cleanup_fclose_ FILE *f = fopen(path, "we");

	if (!f || fchmod(fileno(f), mode) < 0 || fwrite(data, 1, n, f) != n || fflush(f))
		return -1;
	return 0;
}

static int put(const char *path, const void *data, size_t n)
{
	return put_mode(path, data, n, 0644);
}

/* The system's roots and ours, in one file that takes the place of the system's. */
static int install_bundle(const char *root)
{
	char path[PATH_MAX];
	struct buf b;
	int r = -1;

	buf_init(&b, BUNDLE_MAX);
	snprintf(path, sizeof(path), "%s%s", root, SYSTEM_BUNDLE);
	io_read_file(path, &b, NULL);
	if (buf_put_str(&b, "\n") == 0 && io_read_file(HF_INITRD_CA, &b, NULL) == 0 && put(GUEST_CA_BUNDLE, b.data, b.len) == 0)
		r = access(path, F_OK) < 0 ? 0 : guest_cover(GUEST_CA_BUNDLE, root, SYSTEM_BUNDLE);
	buf_free(&b);
	return r;
}

/* The same roots for Java, which reads no PEM. */
static int install_keystore(const char *root)
{
	char path[PATH_MAX];
	struct buf pem, store;
	int r = -1;

	buf_init(&pem, 2 * BUNDLE_MAX);
	buf_init(&store, 2 * BUNDLE_MAX);
	if (io_read_file(GUEST_CA_BUNDLE, &pem, NULL) == 0 &&
	    guest_keystore_put(&store, (const char *)pem.data, pem.len) > 0)
		r = put(GUEST_KEYSTORE, store.data, store.len);
	buf_free(&pem);
	buf_free(&store);
	snprintf(path, sizeof(path), "%s%s", root, SYSTEM_KEYSTORE);
	return r < 0 || access(path, F_OK) < 0 ? r : guest_cover(GUEST_KEYSTORE, root, SYSTEM_KEYSTORE);
}

static int install_ca(void)
{
	struct buf b;
	int r;

	buf_init(&b, BUNDLE_MAX);
	r = io_read_file(HF_INITRD_CA, &b, NULL) < 0 ? -1 : put(GUEST_CA_FILE, b.data, b.len);
	buf_free(&b);
	return r;
}

/* pam_env's file keeps what it had; ours comes after it. */
static int install_environment(const char *root, const struct guest_env *env)
{
	char path[PATH_MAX];
	struct buf b;
	int r;

	buf_init(&b, BUNDLE_MAX);
	snprintf(path, sizeof(path), "%s/etc/environment", root);
	io_read_file(path, &b, NULL);
	for (size_t i = 0; i < env->count; i++)
		buf_putf(&b, "\n%s", env->list[i]);
	buf_put_str(&b, "\n");
	r = put(ENVIRONMENT, b.data, b.len);
	buf_free(&b);
	if (r == 0 && access(path, F_OK) < 0)
		r = put(path, "", 0);	/* a place to mount on */
	return r < 0 ? -1 : guest_cover(ENVIRONMENT, root, "/etc/environment");
}

static int install_manager(const struct guest_env *env)
{
	struct buf b;
	int r;

	if ((mkdir("/run/systemd", 0755) < 0 && errno != EEXIST) ||
	    (mkdir("/run/systemd/system.conf.d", 0755) < 0 && errno != EEXIST))
		return -1;
	buf_init(&b, BUNDLE_MAX);
	buf_put_str(&b, "[Manager]\nDefaultEnvironment=");
	for (size_t i = 0; i < env->count; i++)
		buf_putf(&b, "\"%s\" ", env->list[i]);
	buf_put_str(&b, "\n");
	r = put("/run/systemd/system.conf.d/holdfast-proxy.conf", b.data, b.len);
	buf_free(&b);
	return r;
}

/* sudo drops every variable that it is not told to keep. What an include may set comes before ours. */
static int install_sudo(const char *root, const struct guest_env *env)
{
	char path[PATH_MAX];
	struct buf b;
	int r;

	snprintf(path, sizeof(path), "%s%s", root, SUDOERS);
	if (access(path, F_OK) < 0)
		return 0;
	buf_init(&b, BUNDLE_MAX);
	r = io_read_file(path, &b, NULL);
	buf_put_str(&b, "\nDefaults env_keep += \"");
	for (size_t i = 0; i < env->count; i++)
		buf_putf(&b, "%s%.*s", i ? " " : "", (int)strcspn(env->list[i], "="), env->list[i]);
	buf_put_str(&b, "\"\n");
	if (r == 0)
		r = put_mode(SUDOERS_COPY, b.data, b.len, 0440);
	buf_free(&b);
	return r < 0 ? -1 : guest_cover(SUDOERS_COPY, root, SUDOERS);
}

static void note(struct guest_steps *steps, const char *name, const char *path, int result)
{
	if (result < 0)
		guest_step_degraded(steps, name, path, errno, NULL);
	else
		guest_step_ok(steps, name);
}

void guest_trust_install(const char *root, bool sudo, struct guest_steps *steps)
{
	bool ca = access(HF_INITRD_CA, F_OK) == 0;
	struct guest_env env;

	if (ca) {
		note(steps, "proxy_ca", GUEST_CA_FILE, install_ca());
		note(steps, "proxy_bundle", SYSTEM_BUNDLE, install_bundle(root));
		note(steps, "proxy_keystore", GUEST_KEYSTORE, install_keystore(root));
	}
	if (guest_env_proxy(&env, ca, NULL) < 0) {
		note(steps, "proxy_environment", "", -1);
		return;
	}
	note(steps, "proxy_environment", "/etc/environment", install_environment(root, &env));
	note(steps, "proxy_services", "/run/systemd/system.conf.d", install_manager(&env));
	if (sudo)
		note(steps, "proxy_sudo", SUDOERS, install_sudo(root, &env));
	guest_env_free(&env);
}
