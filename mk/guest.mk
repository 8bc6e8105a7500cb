# SPDX-License-Identifier: GPL-2.0-or-later
# The guest's part: tools for its tests, the probe matrix, the comparison with other implementations.

TOOLS := $(patsubst tests/tool/%.c,$(B)/tool/%,$(wildcard tests/tool/*.c))

$(B)/tool/%: $(B)/rel/tests/tool/%.o $(B)/rel/libholdfast.a
	@mkdir -p $(@D)
	$(CC) $(HARDEN) -o $@ $< $(B)/rel/libholdfast.a $(PKG_LIBS)

# Programs that run inside the guest, where there is nothing to link with.
$(B)/probe/%: tests/probe/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -I. -Iinclude -Wall -Wextra -O2 -static -o $@ $< -lpthread
PROBES := $(patsubst tests/probe/%.c,$(B)/probe/%,$(wildcard tests/probe/*.c))

.PHONY: tools probe-programs probes check-diff
tools: $(TOOLS)
probe-programs: $(PROBES)
unit: tools probe-programs

## make probes     every filter row, Landlock right and file type, against tests/data
probes: setup
	@$(MAKE) --no-print-directory programs tools probe-programs image
	@tests/vm/probes.py $(PROBE_ARGS)

## make check-diff the same policies through other implementations (needs cargo)
check-diff: setup
	@$(MAKE) --no-print-directory programs tools probe-programs
	@tests/diff/run
