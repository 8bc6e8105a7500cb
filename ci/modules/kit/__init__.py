# SPDX-License-Identifier: GPL-2.0
"""What the commands of ci/modules share: the cache, the archive, the sandbox, the checks."""
