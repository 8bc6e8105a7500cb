/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The signed catalog of Sentry modules, as its users see it: open, pick by kernel release, stage. */
#ifndef HOLDFAST_LIB_CATALOG_CATALOG_H
#define HOLDFAST_LIB_CATALOG_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/err.h"
#include "lib/hash.h"

/*
 * Trust runs from a root document that came with the installation (or the newest one that the old
 * ones signed) to the timestamp, to the catalog, to each module. Formats: docs/protocol/catalog.md.
 *
 * Every refusal is an error text that starts with one of these words and ": ", which tests, logs
 * and `unavailable` states show as they are:
 *   no_catalog    there is no catalog, or a file of it cannot be read
 *   no_root       there is no trusted root document, or it cannot be read
 *   malformed     not the canonical form, an unknown key, a value out of range
 *   bad_signature not signed by a key of this role, or the signed comment names something else
 *   few_signatures  a root document with fewer good signatures than the threshold
 *   rollback      older than what this machine has seen
 *   expired       past its date; modules that were verified before stay usable
 *   bad_path      a module path that leaves the folder of modules, or a symlink
 *   bad_size      the file is longer or shorter than the catalog says
 *   bad_hash      the file does not have the SHA-256 that the catalog says
 *   revoked       the hash is on the list of revoked modules
 *   test_build    the module was built with test-only switches
 *   wrong_release the module's own vermagic names another kernel
 *   bad_log       the append-only log was rewritten or does not end in this catalog
 */

struct catalog_config {
	const char *dir;       /* folder of modules: DIR/current/ (metadata), DIR/RELEASE/sentry.ko */
	const char *root;      /* first trusted root document; read only while state has none */
	const char *state_dir; /* this user's memory of what it saw, 0700, made if need be; NULL: none */
	int64_t now_s;	       /* unix time to judge expiry by; 0 = the clock */
};

enum { CATALOG_RELEASE_MAX = 128, CATALOG_PATH_MAX = 192, CATALOG_TEXT_MAX = 128 };

struct catalog_module {
	char release[CATALOG_RELEASE_MAX]; /* exactly `uname -r` of the guest's kernel */
	char flavour[16];		   /* amd64, cloud, rt */
	char suite[32];
	char path[CATALOG_PATH_MAX]; /* relative to the folder of modules */
	uint64_t size_bytes;
	uint8_t sha256[HASH_BYTES];
	char sha256_hex[HASH_HEX];
	char srcversion[40];
	char vermagic[CATALOG_TEXT_MAX];
	uint32_t builds;  /* independent builds that gave this hash */
	bool load_tested; /* it was loaded into this kernel once */
	bool revoked;
};

struct catalog_info {
	uint64_t version;
	uint64_t root_version;
	char issued[24];  /* RFC 3339, UTC */
	char expires[24]; /* the earlier of catalog and timestamp */
	bool expired;
	bool local; /* signed by a key made on this machine at set-up, not by a release */
	size_t modules;
	char source_commit[65];
	char source_sha256[HASH_HEX];
	char sha256_hex[HASH_HEX]; /* of the catalog's own bytes */
};

struct catalog;

/*
 * Fills `config` with the places of this installation: $HOLDFAST_CATALOG or the modules folder
 * beside the program (build/modules, else PREFIX/share/holdfast/modules); $HOLDFAST_CATALOG_ROOT,
 * /etc/holdfast/catalog-root.json or trust/root.json beside the modules folder;
 * $XDG_DATA_HOME/holdfast/catalog. The strings live until the process ends. 0 or -1.
 */
int catalog_config_default(struct catalog_config *config, struct err *err);

/*
 * Reads and verifies root chain, timestamp, catalog and log, and remembers the versions seen. An
 * expired catalog opens (see catalog_info.expired); picking from it is limited to what was verified
 * before. NULL with a refusal otherwise. The caller owns the result.
 */
struct catalog *catalog_open(const struct catalog_config *config, struct err *err);
void catalog_free(struct catalog *catalog);

const struct catalog_info *catalog_about(const struct catalog *catalog);
/* Module number `index` in release order; NULL past the end. Lives as long as the catalog. */
const struct catalog_module *catalog_module_at(const struct catalog *catalog, size_t index);

/*
 * The module for exactly this release: 0 and *out; 1 when the catalog has none ("unavailable");
 * -1 when it has one that is refused (revoked, expired and never verified here).
 */
int catalog_pick(const struct catalog *catalog, const char *release,
		 const struct catalog_module **out, struct err *err);

/*
 * A sealed memory file that holds the module, read once from an open descriptor, with size, hash
 * and signature verified over the very bytes it holds: what happens to the file afterwards does
 * not matter. Remembers the hash as verified. The caller closes the fd; -1 on a refusal. Needs
 * openat2, memfd_create, fcntl(F_ADD_SEALS); reads below config.dir, writes below state_dir.
 */
int catalog_stage(struct catalog *catalog, const struct catalog_module *module, struct err *err);

/* One call for those who start a VM: open, pick, stage. Returns as catalog_pick does; *fd on 0. */
int catalog_stage_release(const struct catalog_config *config, const char *release, int *fd,
			  struct catalog_module *out, struct err *err);

/* What a build in progress says about a release (DIR/pending/RELEASE, unsigned, for display only). */
struct catalog_pending {
	char step[64];
	uint32_t done;
	uint32_t total;
};
/*
 * 1 when a build of the module for this release is running and said so in the last 60 s, so that
 * waiting makes sense (at most CATALOG_WAIT_MS); 0 when none is coming.
 */
int catalog_pending(const struct catalog_config *config, const char *release,
		    struct catalog_pending *out);
enum { CATALOG_WAIT_MS = 45000 };

#endif
