"""`Watermarks`: the log start, and the offsets up to which readers of each isolation level read.

    log start          last stable offset         high watermark          log end
        |  decided, replicated  |  undecided, replicated  |  not replicated  |

    log start <= last stable offset <= high watermark <= log end, always; recovery point <= log end

The position of an offset is looked up in the segments when it is first needed.
Source: storage/.../internals/log/UnifiedLog.java.
"""

import logging

from kafkalog._speedups.arguments import INT64_MAX, whole
from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.read import fetch

_log = logging.getLogger(__name__)


class Watermarks:
    """Log start, first unstable offset and high watermark.

    They are changed under the log's lock, and read by any thread. The errors of the methods are those of the methods of
    `WritableLog` with the same purpose.

    Attributes:
        log_start_offset: The first offset that a consumer can read.
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

    # --- reading

    @property
    def placed_at(self) -> int:
        """The high watermark as it was set: at the base offset of its batch, which may be before the log's start."""
        return self._high_watermark_at.message_offset

    @property
    def high_watermark(self) -> int:
        """The offset before which all replicas have the log."""
        return max(self.placed_at, self.log_start_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the transactions that are open or not fully replicated; None if there are none."""
        unstable = self._first_unstable
        return None if unstable is None else max(unstable.message_offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset before which every transaction is decided; at most the high watermark."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """Return the high watermark with its position, which is looked up if it is unknown."""
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
        """Return the last stable offset with its position, which is looked up if it is unknown."""
        high_watermark, unstable = self.high_watermark_metadata(), self._first_unstable
        if unstable is None or unstable.message_offset >= high_watermark.message_offset:
            return high_watermark
        if unstable.message_offset_only:
            with self._state.lock:
                unstable = self._first_unstable = self._placed(unstable.message_offset)
        return unstable

    def _placed(self, offset: int) -> LogOffsetMetadata:
        """Return an offset with its position, or without one if the offset is not in the log."""
        return fetch.offset_metadata(self._local.segments, self._local.log_end, offset)

    # --- changing the high watermark

    def update(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Set the high watermark, limited to [log start, log end]; return the new one."""
        given = _watermark(high_watermark)
        with self._state.lock:
            self._state.check_usable()
            if given.message_offset < self.log_start_offset:
                given = LogOffsetMetadata(self.log_start_offset)
            elif given.message_offset >= self._local.log_end_offset:
                given = self._local.log_end
            self.place_high_watermark(given)
            return given.message_offset

    def maybe_increment(self, high_watermark: int | LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Increase the high watermark, or move it to a newer segment at the same offset.

        Returns:
            The high watermark before the change; None if it did not change.

        Raises:
            ValueError: It would be after the log's end.
        """
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
        """Set the high watermark without checking it against log start and log end.

        Raises:
            ValueError: It is negative.
        """
        offset = high_watermark.message_offset
        if offset < 0:
            raise ValueError(f"the high watermark is {offset}, less than 0")
        if offset < self.placed_at:
            _log.warning("%s: the high watermark goes back to %s", self._state.directory, high_watermark)
        self._high_watermark_at = high_watermark
        self._producers.on_high_watermark_updated(offset)
        self.update_first_unstable()

    def replicated_to_end(self) -> None:
        """Set the high watermark to the log's end, as all replicas have the log."""
        end, rises = self._local.log_end, self._high_watermark_at.message_offset <= self._local.log_end.message_offset
        if rises and self._first_unstable is None and self._producers.first_unstable_offset is None:
            # The fast path: no transaction becomes stable.
            self._high_watermark_at = end
        else:
            self.place_high_watermark(end)

    def follow_end(self) -> None:
        """Keep the high watermark at or before the log's end, and at the end in the active segment."""
        if self.placed_at >= self._local.log_end_offset:
            self.place_high_watermark(self._local.log_end)

    def lower_to(self, end: int) -> None:
        """Lower the high watermark before a truncation to `end`, so that readers do not read the records to be cut off.

        The caller sets it again after the truncation.
        """
        if self.placed_at > end:
            self._high_watermark_at = LogOffsetMetadata(end)

    def update_first_unstable(self) -> None:
        """Update the first unstable offset after a change of the producers' transactions or of the log's start."""
        unstable = self._producers.first_unstable_offset
        if unstable is not None and (unstable.message_offset_only or unstable.message_offset < self.log_start_offset):
            unstable = self._placed(max(unstable.message_offset, self.log_start_offset))
        self._first_unstable = unstable

    # --- changing the log's start

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Increase the log start; no file changes.

        Returns:
            Whether the log start changed.

        Raises:
            OffsetOutOfRangeError: `offset` is after the high watermark.
        """
        with self._state.lock, self._local.whole():
            self._state.check_usable()
            if offset > self.placed_at:
                message = "the new log start is after the high watermark"
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
