# SPDX-License-Identifier: GPL-2.0
"""Progress of long work: counts and time left, in place on a terminal, plain lines elsewhere."""
import sys
import time

PLAIN_EVERY_S = 10


class Progress:
    def __init__(self, what, total):
        self.what, self.total, self.done, self.started = what, total, 0, time.monotonic()
        self.printed = 0.0
        self.terminal = sys.stderr.isatty()

    def step(self, text=""):
        self.done += 1
        now = time.monotonic()
        last = self.done == self.total
        if not self.terminal and not last and now - self.printed < PLAIN_EVERY_S:
            return
        self.printed = now
        left = (now - self.started) / self.done * (self.total - self.done)
        line = f"{self.what}: {self.done}/{self.total}"
        line += f", {duration(now - self.started)} in all" if last \
            else f", about {duration(left)} left"
        if text:
            line += f" ({text})"
        if self.terminal:
            print(f"\r\033[K{line[:120]}", end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def note(self, text):
        """A line of its own that stays."""
        print(f"\r\033[K{text}" if self.terminal else text, file=sys.stderr, flush=True)


def duration(seconds):
    seconds = int(seconds + 0.5)
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min {seconds % 60} s"
