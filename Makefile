# SPDX-License-Identifier: GPL-2.0-or-later
# Holdfast: `make demo` and `make check` do everything on a fresh Debian machine; see README.md.
# (Kbuild, beside this file, is what the kernel's build system reads for the Sentry module.)

PREFIX ?= /usr/local
B := build
CC := gcc
CLANG := clang

# ---- what is built -------------------------------------------------------------------------
PROGRAMS := holdfast hostd sandboxd holdfast-catalog
MAIN_holdfast := hostd/cli/main.c
MAIN_hostd := hostd/main.c
MAIN_sandboxd := sandboxd/main.c
MAIN_holdfast-catalog := catalog/main.c

MAINS := $(foreach p,$(PROGRAMS),$(MAIN_$(p)))
SOURCES := $(filter-out $(MAINS),$(sort $(shell find lib hostd sandboxd catalog -name '*.c' 2>/dev/null)))
BUILT_PROGRAMS := $(foreach p,$(PROGRAMS),$(if $(wildcard $(MAIN_$(p))),$(B)/bin/$(p)))

UNIT_TESTS := $(patsubst tests/unit/%.c,$(B)/test/%,$(wildcard tests/unit/test_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/fuzzer/%,$(wildcard tests/fuzz/fuzz_*.c))
BENCHES := $(patsubst tests/bench/%.c,$(B)/bench/%,$(wildcard tests/bench/bench_*.c))

# ---- flags ---------------------------------------------------------------------------------
PKGS := jansson libsodium sqlite3 libfyaml slirp libcares openssl libnghttp2 libseccomp zlib libzstd libarchive \
	libcurl libsystemd
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lz3 -lm -lpthread
STATIC_LIBS := -ljansson -lsodium -lseccomp -lutil -lm -lpthread

WARN := -Wall -Wextra -Werror -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla \
	-Wpointer-arith -Wwrite-strings -Wformat=2 -Wundef -Wno-format-nonliteral -Wno-format-truncation
VERSION := 0.1.0
BASE := -std=gnu11 -D_GNU_SOURCE -DHOLDFAST_VERSION=\"$(VERSION)\" -I. -Iinclude $(PKG_CFLAGS) -MMD -MP -g
REL := -O2 -fstack-protector-strong -fstack-clash-protection -fcf-protection -D_FORTIFY_SOURCE=2 \
	-fPIE -ftrivial-auto-var-init=zero -Wframe-larger-than=262144
ASAN := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ := -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=undefined
HARDEN := -pie -Wl,-z,relro,-z,now,-z,noexecstack

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all setup programs demo check check-long attack bench image modules sentry install clean unit fuzz help

all: setup
	@$(MAKE) --no-print-directory programs

help:
	@sed -n 's/^## //p' Makefile

## make            build the programs into build/bin (installs what it needs first)
programs: $(BUILT_PROGRAMS)

setup:
	@ci/setup

# ---- compiling: one archive of everything without main, in three variants -------------------
$(B)/rel/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $@"; $(CC) $(BASE) $(WARN) $(REL) -c $< -o $@
$(B)/asan/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $@"; $(CC) $(BASE) $(WARN) $(ASAN) -c $< -o $@
$(B)/fuzz/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CLANG $@"; $(CLANG) $(BASE) -Wall -Wextra -Wno-gnu-variable-sized-type-not-at-end $(FUZZ) -c $< -o $@

$(B)/%/libholdfast.a: .force
	@$(MAKE) --no-print-directory $(patsubst %.c,$(B)/$*/%.o,$(SOURCES))
	@new="$(patsubst %.c,$(B)/$*/%.o,$(SOURCES))"; \
	 if [ ! -e $@ ] || [ "$$(cat $@.list 2>/dev/null)" != "$$new" ] || [ -n "$$(find $$new -newer $@)" ]; then \
		rm -f $@ && ar rcs $@ $$new && echo "$$new" > $@.list; fi
.PHONY: .force
.force:

define program
$(B)/bin/$(1): $(B)/rel/$(MAIN_$(1):.c=.o) $(B)/rel/libholdfast.a
	@mkdir -p $$(@D)
	$(CC) $$(HARDEN) -o $$@ $$(filter %.o,$$^) $(B)/rel/libholdfast.a $$(PKG_LIBS)
endef
$(foreach p,$(filter-out sandboxd,$(PROGRAMS)),$(eval $(call program,$(p))))

# The guest's program runs from the initramfs, where there is nothing to link with.
$(B)/bin/sandboxd: $(B)/rel/$(MAIN_sandboxd:.c=.o) $(B)/rel/libholdfast.a
	@mkdir -p $(@D)
	$(CC) -static -Wl,-z,noexecstack -o $@ $(filter %.o,$^) $(B)/rel/libholdfast.a $(STATIC_LIBS)

# ---- tests ---------------------------------------------------------------------------------
$(B)/test/%: $(B)/asan/tests/unit/%.o $(B)/asan/libholdfast.a
	@mkdir -p $(@D)
	$(CC) -fsanitize=address,undefined -o $@ $< $(B)/asan/libholdfast.a -lcmocka $(PKG_LIBS)
$(B)/fuzzer/%: $(B)/fuzz/tests/fuzz/%.o $(B)/fuzz/libholdfast.a
	@mkdir -p $(@D)
	$(CLANG) -fsanitize=fuzzer,address,undefined -o $@ $< $(B)/fuzz/libholdfast.a $(PKG_LIBS)
$(B)/bench/%: $(B)/rel/tests/bench/%.o $(B)/rel/libholdfast.a
	@mkdir -p $(@D)
	$(CC) $(HARDEN) -o $@ $< $(B)/rel/libholdfast.a $(PKG_LIBS)

unit: $(UNIT_TESTS)
fuzz: $(FUZZERS)

## make check      set up, build, and pass every test (under 40 minutes on 2 cores)
check: setup
	@$(MAKE) --no-print-directory programs unit fuzz sentry image
	@tests/run check

## make check-long the slow rings: debug kernel, vsock_test, two CPUs, long fuzzing
check-long: setup
	@$(MAKE) --no-print-directory programs unit fuzz sentry image
	@tests/run long

## make attack     what guest root can try, a line each; TABLE=FILE writes docs/attacks.md's table
attack: setup
	@$(MAKE) --no-print-directory programs sentry image
	@tests/attack/50-sentry-attacks.sh

## make bench      figures as ratios, written to build/bench
bench: setup
	@$(MAKE) --no-print-directory programs tools probe-programs $(BENCHES) sentry image
	@tests/run bench

# ---- the guest -----------------------------------------------------------------------------
## make image      the guest image and its kernels, cached outside the tree
image: setup
	@ci/image/build

## make sentry     the Sentry module for the image's kernels
sentry: setup
	@ci/modules/local

## make modules    the Sentry for every kernel release of the archive, twice (RELEASES=... for a few)
modules: setup programs
	@ci/modules/all $(RELEASES)

## make demo       the main job, end to end, in a VM
demo: setup
	@$(MAKE) --no-print-directory programs sentry image
	@demo/run

# ---- installing ----------------------------------------------------------------------------
## make install    programs, man pages, completion and units below $(DESTDIR)$(PREFIX)
install: programs
	@ci/install "$(DESTDIR)$(PREFIX)"

clean:
	rm -rf $(B)

-include $(wildcard mk/*.mk)
-include $(shell find $(B) -name '*.d' -type f 2>/dev/null)
