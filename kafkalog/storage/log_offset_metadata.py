"""`LogOffsetMetadata`: an offset, such as a high watermark, and the place of its record, if known.

    segment 0 .......... | segment 40 ......x....
                           ^ segment base   ^ relative position in segment (bytes)

Kafka: `LogOffsetMetadata`.
"""

from typing import NamedTuple

UNKNOWN_OFFSET = -1
UNKNOWN_POSITION = -1


class LogOffsetMetadata(NamedTuple):
    """An offset, the base offset of its segment and its position there (bytes); both are -1 if unknown."""

    message_offset: int
    segment_base_offset: int = UNKNOWN_OFFSET
    relative_position_in_segment: int = UNKNOWN_POSITION

    @property
    def message_offset_only(self) -> bool:
        """Whether only the offset is known."""
        return self.segment_base_offset == UNKNOWN_OFFSET and self.relative_position_in_segment == UNKNOWN_POSITION

    def on_same_segment(self, that: "LogOffsetMetadata") -> bool:
        """Return whether both are in one segment; False if the segment of one is unknown."""
        return self._both_placed(that) and self.segment_base_offset == that.segment_base_offset

    def on_older_segment(self, that: "LogOffsetMetadata") -> bool:
        """Return whether this segment precedes that one; False if the segment of one is unknown."""
        return self._both_placed(that) and self.segment_base_offset < that.segment_base_offset

    def position_diff(self, that: "LogOffsetMetadata") -> int:
        """Return the bytes from `that` to this one.

        Raises:
            ValueError: They are not in the same segment, or not known to be.
        """
        if not self.on_same_segment(that):
            raise ValueError(f"{self} and {that} are not known to be in the same segment")
        return self.relative_position_in_segment - that.relative_position_in_segment

    def _both_placed(self, that: "LogOffsetMetadata") -> bool:
        return not (self.message_offset_only or that.message_offset_only)
