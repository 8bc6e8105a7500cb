// SPDX-License-Identifier: GPL-2.0-or-later
/* Installs the proxy's CA and variables for this boot. */
#include "sandboxd/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <holdfast/guest.h>

#include "lib/buf.h"
#include "lib/cleanup.h"
#include "lib/io.h"
#include "sandboxd/env.h"
#include "sandboxd/identity.h"
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

/* A file of the workspace's root: what a link says means what it will mean once that root is /. */
static int read_beneath(int root_fd, const char *path, struct buf *b)
{
	_cleanup_close_ int fd = guest_open_beneath(root_fd, path, O_RDONLY | O_NONBLOCK, 0);

	return fd < 0 ? -1 : io_read_regular(fd, path, b, NULL);
}

/* A place to mount on. */
static int make_beneath(int root_fd, const char *path)
{
	_cleanup_close_ int fd = guest_open_beneath(root_fd, path, O_WRONLY | O_CREAT | O_EXCL, 0644);

	return fd < 0 ? -1 : 0;
}

/* The system's roots and ours, in one file that takes the place of the system's. */
static int install_bundle(int root_fd)
{
	struct buf b;
	int r = -1;

	buf_init(&b, BUNDLE_MAX);
	read_beneath(root_fd, SYSTEM_BUNDLE, &b);
	if (buf_put_str(&b, "\n") == 0 && io_read_file(HF_INITRD_CA, &b, NULL) == 0 && put(GUEST_CA_BUNDLE, b.data, b.len) == 0)
		r = guest_is_absent(root_fd, SYSTEM_BUNDLE) ? 0 : guest_cover(GUEST_CA_BUNDLE, root_fd, SYSTEM_BUNDLE);
	buf_free(&b);
	return r;
}

/* The same roots for Java, which reads no PEM. */
static int install_keystore(int root_fd)
{
	struct buf pem, store;
	int r = -1;

	buf_init(&pem, 2 * BUNDLE_MAX);
	buf_init(&store, 2 * BUNDLE_MAX);
	if (io_read_file(GUEST_CA_BUNDLE, &pem, NULL) == 0 &&
	    guest_keystore_put(&store, (const char *)pem.data, pem.len) > 0)
		r = put(GUEST_KEYSTORE, store.data, store.len);
	buf_free(&pem);
	buf_free(&store);
	return r < 0 || guest_is_absent(root_fd, SYSTEM_KEYSTORE) ? r : guest_cover(GUEST_KEYSTORE, root_fd, SYSTEM_KEYSTORE);
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
static int install_environment(int root_fd, const struct guest_env *env)
{
	struct buf b;
	int r;

	buf_init(&b, BUNDLE_MAX);
	read_beneath(root_fd, "/etc/environment", &b);
	for (size_t i = 0; i < env->count; i++)
		buf_putf(&b, "\n%s", env->list[i]);
	buf_put_str(&b, "\n");
	r = put(ENVIRONMENT, b.data, b.len);
	buf_free(&b);
	if (r == 0 && guest_is_absent(root_fd, "/etc/environment"))
		r = make_beneath(root_fd, "/etc/environment");
	return r < 0 ? -1 : guest_cover(ENVIRONMENT, root_fd, "/etc/environment");
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
static int install_sudo(int root_fd, const struct guest_env *env)
{
	struct buf b;
	int r;

	if (guest_is_absent(root_fd, SUDOERS))
		return 0;
	buf_init(&b, BUNDLE_MAX);
	r = read_beneath(root_fd, SUDOERS, &b);
	buf_put_str(&b, "\nDefaults env_keep += \"");
	for (size_t i = 0; i < env->count; i++)
		buf_putf(&b, "%s%.*s", i ? " " : "", (int)strcspn(env->list[i], "="), env->list[i]);
	buf_put_str(&b, "\"\n");
	if (r == 0)
		r = put_mode(SUDOERS_COPY, b.data, b.len, 0440);
	buf_free(&b);
	return r < 0 ? -1 : guest_cover(SUDOERS_COPY, root_fd, SUDOERS);
}

static void note(struct guest_steps *steps, const char *name, const char *path, int result)
{
	if (result < 0)
		guest_step_degraded(steps, name, path, errno, NULL);
	else
		guest_step_ok(steps, name);
}

void guest_trust_install(int root_fd, bool sudo, struct guest_steps *steps)
{
	bool ca = access(HF_INITRD_CA, F_OK) == 0;
	struct guest_env env;

	if (ca) {
		note(steps, "proxy_ca", GUEST_CA_FILE, install_ca());
		note(steps, "proxy_bundle", SYSTEM_BUNDLE, install_bundle(root_fd));
		note(steps, "proxy_keystore", GUEST_KEYSTORE, install_keystore(root_fd));
	}
	if (guest_env_proxy(&env, ca, NULL) < 0) {
		note(steps, "proxy_environment", "", -1);
		return;
	}
	note(steps, "proxy_environment", "/etc/environment", install_environment(root_fd, &env));
	note(steps, "proxy_services", "/run/systemd/system.conf.d", install_manager(&env));
	if (sudo)
		note(steps, "proxy_sudo", SUDOERS, install_sudo(root_fd, &env));
	guest_env_free(&env);
}
