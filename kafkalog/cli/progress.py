"""A line of progress on stderr, only on a terminal and only if the work takes more than a second."""

import sys
import time
from collections.abc import Callable
from typing import Self

from kafkalog.cli.output import human_size, is_terminal

WORTH_SHOWING_SECONDS = 1.0
BETWEEN_UPDATES_SECONDS = 0.1


class Progress:
    """A line that shows progress in bytes: `with Progress(measure) as progress: progress.advance(n)`.

    Args:
        measure: Returns the bytes of all work. It is not called if nothing is shown: that may take long.
        quiet: Show nothing.
    """

    def __init__(self, measure: Callable[[], int], *, quiet: bool = False) -> None:
        self._quiet = quiet or not is_terminal(sys.stderr)
        self.total = 0 if self._quiet else measure()
        self.done = 0
        self._shown = False
        self._start = time.monotonic()
        self._next = self._start + WORTH_SHOWING_SECONDS

    def advance(self, size: int) -> None:
        """Add `size` bytes to the work that is done."""
        self.done += size
        if not self._quiet and (now := time.monotonic()) >= self._next:
            self._next = now + BETWEEN_UPDATES_SECONDS
            self._show(now)

    def _show(self, now: float) -> None:
        rate = self.done / max(now - self._start, 1e-9)
        share = min(1.0, self.done / self.total) if self.total else 1.0
        left = max(0, self.total - self.done) / rate if rate else 0
        sizes = f"{human_size(self.done)} of {human_size(self.total)}  {human_size(int(rate))}/s"
        sys.stderr.write(f"\r{share:4.0%}  {sizes}  {left:.0f} s left\033[K")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Remove the line before other output. The next update shows it again."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
