#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 2400
# 200 pauses, load, new devices, deaths of hostd, suspends and a shutdown with the real module and `hostd vm`: no false alarm.
cd "$(dirname "$0")/../.." && exec tests/long/vm_sentry.py
