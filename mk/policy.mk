# SPDX-License-Identifier: GPL-2.0-or-later
## make bench-policy  decisions a second beside regorus and OPA, parsing, proving
.PHONY: bench-policy
bench-policy: setup
	@$(MAKE) --no-print-directory $(B)/bench/bench_policy
	@tests/bench/policy-engines.sh
