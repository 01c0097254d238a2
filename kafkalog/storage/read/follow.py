"""`follow` and `afollow` read a log to its end, again and again, and wait for the records in between.

    log      0 .. 99                 100 .. 120      (truncated to 90)
    poll     0 .. 99 | nothing | 100 .. 120 | LogTruncatedError

One `Walk` goes on from poll to poll: it remembers the last batch that it returned, and so notices if that was cut off.
Between polls the log is looked at after pauses that grow while nothing comes: another process may write it, which
gives no signal.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator

from kafkalog._speedups.record import Record
from kafkalog.record.record_columns import RecordColumns

# The first pause after records, and the longest, which takes less than 0.1 % of a processor.
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.1

# Returns the records that were appended since the last call.
Poll = Callable[[], Iterator[RecordColumns]]


class _Pauses:
    """The pauses between polls, until `timeout` seconds have passed without records."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self.begin()

    def begin(self) -> None:
        """Note that there were records."""
        self._began, self._pause = time.monotonic(), _FIRST_PAUSE_SECONDS

    def next(self) -> float | None:
        """Return the seconds to wait; None if the time is over."""
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        if self._timeout is None:
            return pause
        left = self._began + self._timeout - time.monotonic()
        return min(pause, left) if left > 0 else None


def follow(poll: Poll, timeout: float | None) -> Iterator[Record]:
    """Yield records as they come; end when none came for `timeout` seconds."""
    pauses = _Pauses(timeout)
    while True:
        for part in poll():
            yield from part
            pauses.begin()
            del part
        if (pause := pauses.next()) is None:
            return
        time.sleep(pause)


async def afollow(poll: Poll, timeout: float | None) -> AsyncIterator[Record]:  # noqa: ASYNC109 - of silence
    """Yield records as `follow` does. The log is read in another thread."""
    # It takes as long to import as all of storage/read.
    import asyncio

    pauses = _Pauses(timeout)
    while True:
        parts = poll()
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            for record in part:
                yield record
            pauses.begin()
        if (pause := pauses.next()) is None:
            return
        await asyncio.sleep(pause)
