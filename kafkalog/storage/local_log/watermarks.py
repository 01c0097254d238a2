"""`Watermarks`: where a log begins, and how far readers of each isolation level see.

    log start          last stable offset         high watermark          log end
        |  decided, replicated  |  undecided, replicated  |  not replicated  |

    log start <= last stable offset <= high watermark <= log end, always; recovery point <= log end

An offset is looked up in the segments when somebody first asks where it lies. Source:
storage/.../internals/log/UnifiedLog.java.
"""

import logging

from kafkalog._speedups.arguments import INT64_MAX, whole
from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.read import fetch

_log = logging.getLogger(__name__)


class Watermarks:
    """Log start, first unstable offset and high watermark. Changed under the log's lock; read by any thread.

    log_start_offset: the first offset a consumer gets. What the methods raise: see those of `WritableLog`.
    """

    def __init__(self, state: LogState, log_start_offset: int) -> None:
        self._state = state
        self._local = state.local
        self._producers = state.producers
        self._high_watermark_at = LogOffsetMetadata(log_start_offset)
        self._first_unstable: LogOffsetMetadata | None = None
        self._local.recovery_point = max(self._local.recovery_point, log_start_offset)
        self.log_start_offset = max(log_start_offset, self._local.segments.base_offsets[0])
        self.update_first_unstable()

    # --- what they are

    @property
    def placed_at(self) -> int:
        """The high watermark as it was placed: at its batch's base, be that before the log's start."""
        return self._high_watermark_at.message_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which all replicas have the log."""
        return max(self.placed_at, self.log_start_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or not replicated to its end."""
        unstable = self._first_unstable
        return None if unstable is None else max(unstable.message_offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is decided; at most the high watermark."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its place, looked up where it is not known yet."""
        if not self._state.forked:
            self._state.check_open()
        found = self._high_watermark_at
        if not found.message_offset_only:
            return found
        with self._state.lock:
            found = self._placed(self.placed_at)
            self.place_high_watermark(found)
            return found

    def last_stable_metadata(self) -> LogOffsetMetadata:
        """The last stable offset with its place."""
        high_watermark, unstable = self.high_watermark_metadata(), self._first_unstable
        if unstable is None or unstable.message_offset >= high_watermark.message_offset:
            return high_watermark
        if unstable.message_offset_only:
            with self._state.lock:
                unstable = self._first_unstable = self._placed(unstable.message_offset)
        return unstable

    def _placed(self, offset: int) -> LogOffsetMetadata:
        """The offset with its place, or without where it is not in the log."""
        try:
            return fetch.offset_metadata(self._local.segments, self._local.log_end, offset)
        except OffsetOutOfRangeError:
            return LogOffsetMetadata(offset)

    # --- the high watermark moves

    def update(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Set the high watermark, brought into [log start, log end]; returns what it is then."""
        given = _watermark(high_watermark)
        with self._state.lock:
            self._state.check_usable()
            if given.message_offset < self.log_start_offset:
                given = LogOffsetMetadata(self.log_start_offset)
            elif given.message_offset >= self._local.log_end_offset:
                given = self._local.log_end
            self.place_high_watermark(given)
            return given.message_offset

    def maybe_update(self, high_watermark: int | LogOffsetMetadata) -> int | None:
        """As `update`; None where that changed nothing."""
        with self._state.lock:
            self._state.check_usable()
            before = self.placed_at
            after = self.update(high_watermark)
            return None if after == before else after

    def maybe_increment(self, high_watermark: int | LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Move the high watermark forward, or to a newer segment at the same offset; returns the one before."""
        given = _watermark(high_watermark)
        with self._state.lock:
            self._state.check_usable()
            if given.message_offset > self._local.log_end_offset:
                raise ValueError(f"high watermark {given} is after the log's end {self._local.log_end}")
            before = self.high_watermark_metadata()
            if before.message_offset < given.message_offset or (
                before.message_offset == given.message_offset and before.on_older_segment(given)
            ):
                self.place_high_watermark(given)
                return before
            return None

    def place_high_watermark(self, high_watermark: LogOffsetMetadata) -> None:
        """The high watermark is there from now on. ValueError: it is negative."""
        offset = high_watermark.message_offset
        if offset < 0:
            raise ValueError(f"the high watermark is {offset}, less than 0")
        if offset < self.placed_at:
            _log.warning("%s: the high watermark goes back to %s", self._state.directory, high_watermark)
        self._high_watermark_at = high_watermark
        self._producers.on_high_watermark_updated(offset)
        self.update_first_unstable()

    def replicated_to_end(self) -> None:
        """All replicas have the log: the high watermark is its end."""
        end, rises = self._local.log_end, self._high_watermark_at.message_offset <= self._local.log_end.message_offset
        if rises and self._first_unstable is None and self._producers.first_unstable_offset is None:
            # No transaction becomes stable by it.
            self._high_watermark_at = end
        else:
            self.place_high_watermark(end)

    def follow_end(self) -> None:
        """The high watermark is not after the log's end; and where it is there, it is in the active segment."""
        if self.placed_at >= self._local.log_end_offset:
            self.place_high_watermark(self._local.log_end)

    def lower_to(self, end: int) -> None:
        """Before the log is cut, so that readers do not look for what goes; whoever has cut it sets it once more."""
        if self.placed_at > end:
            self._high_watermark_at = LogOffsetMetadata(end)

    def update_first_unstable(self) -> None:
        """The producers' transactions have changed, or the log's start."""
        unstable = self._producers.first_unstable_offset
        if unstable is not None and (unstable.message_offset_only or unstable.message_offset < self.log_start_offset):
            unstable = self._placed(max(unstable.message_offset, self.log_start_offset))
        self._first_unstable = unstable

    # --- the log's start moves

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Let the log begin at a later offset; no bytes move. Returns whether it did.

        OffsetOutOfRangeError: it would be after the high watermark.
        """
        with self._state.lock, self._local.uninterrupted():
            self._state.check_usable()
            if offset > self.placed_at:
                message = "the log cannot begin after the high watermark"
                expected = f"at most {self.placed_at}"
                raise OffsetOutOfRangeError(message, str(self._state.directory), None, expected, offset)
            if offset <= self.log_start_offset:
                return False
            self.log_start_offset = offset
            self._local.recovery_point = max(self._local.recovery_point, offset)
            self._state.epochs.truncate_from_start(offset)
            self._producers.on_log_start_offset_incremented(offset)
            self.update_first_unstable()
            return True


def _watermark(given: int | LogOffsetMetadata) -> LogOffsetMetadata:
    if isinstance(given, LogOffsetMetadata):
        return given
    return LogOffsetMetadata(whole("high_watermark", given, -INT64_MAX - 1, INT64_MAX))
