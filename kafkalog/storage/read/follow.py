"""`Follower`: reads a log to its end, again and again; `follow` and `afollow` wait for the records in between.

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
from kafkalog.storage.read.aborted_transactions import AbortedBatches
from kafkalog.storage.read.log_scan import Walk

# The first pause after records, and the longest, which takes less than 0.1 % of a processor.
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.1

# From, until -> the aborted transactions between these offsets.
Aborted = Callable[[int, int], AbortedBatches | None]


class Follower:
    """Reads a log to its end, again and again. Use it from one thread at a time."""

    def __init__(self, walk: Walk, end: Callable[[], int], aborted: Aborted) -> None:
        """Begin where `walk` begins.

        Args:
            walk: A scan that nothing has been read from.
            end: Returns the offset up to which records may be read now.
            aborted: Returns the aborted transactions to leave out.
        """
        self._walk = walk
        self._end = end
        self._aborted = aborted

    def poll(self) -> Iterator[RecordColumns]:
        """Yield the records that were appended since the last call. Raise errors as `Log.records`."""
        end = self._end()
        if self._walk.goes_on_to(end):
            yield from self._walk.columns(self._aborted(self._walk.next_offset, end), threads=1, check_crcs=True)


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


def follow(follower: Follower, timeout: float | None) -> Iterator[Record]:
    """Yield records as they come; end when none came for `timeout` seconds."""
    pauses = _Pauses(timeout)
    while True:
        for part in follower.poll():
            yield from part
            pauses.begin()
            del part
        if (pause := pauses.next()) is None:
            return
        time.sleep(pause)


async def afollow(follower: Follower, timeout: float | None) -> AsyncIterator[Record]:  # noqa: ASYNC109 - of silence
    """Yield records as `follow` does. The log is read in another thread."""
    # It takes as long to import as all of storage/read.
    import asyncio

    pauses = _Pauses(timeout)
    while True:
        parts = follower.poll()
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            for record in part:
                yield record
            pauses.begin()
        if (pause := pauses.next()) is None:
            return
        await asyncio.sleep(pause)
