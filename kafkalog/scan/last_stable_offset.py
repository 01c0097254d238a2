"""The last stable offset of a log that grows, by the library's producer state.

    offset     10   11   12   13   14   15              producers A and B, x: A's marker
    batch      A    A    B    A    x    B
    open       A 10      B 12      A ends               last stable offset: 10 before the marker, then 12

The state is read from the newest snapshot and the log once, then continued batch by batch.
"""

from kafkalog.errors import LogTruncatedError
from kafkalog.storage.log import Log
from kafkalog.storage.producer.rebuild_producer_state import load_producers


class LastStableOffset:
    """The last stable offset of a log, followed while the log grows."""

    def __init__(self, log: Log) -> None:
        """Read the producer state at the log's end.

        Raises:
            OSError, KafkaLogError: The snapshot or the log cannot be read.
        """
        self._state = log.producer_state

    def follow(self, log: Log, end: int) -> bool:
        """Read on to offset `end`. Return False if the log was truncated: then it must be followed anew.

        Raises:
            OSError, KafkaLogError: The log cannot be read.
        """
        known = self._state.map_end_offset
        if end > known:
            try:
                batches = log.batches(known, end, on_out_of_range="earliest")
                load_producers(self._state, (each for each in batches if each.producer_id >= 0))
            except LogTruncatedError:
                return False
            self._state.update_map_end_offset(end)
        return end >= known

    def at(self, high_watermark: int) -> int:
        """Return the last stable offset for a high watermark, which is at least as large as in the last call."""
        self._state.on_high_watermark_updated(high_watermark)
        unstable = self._state.first_unstable_offset
        return high_watermark if unstable is None else min(high_watermark, unstable.message_offset)
