"""`LogOffsetMetadata`: an offset, such as a high watermark, and the place of its record, if known.

    segment 0 .......... | segment 40 ......x....
                           ^ segment base   ^ relative position in segment (bytes)

Kafka: `LogOffsetMetadata`.
"""

from typing import NamedTuple

UNKNOWN_OFFSET = -1
UNKNOWN_POSITION = -1


class LogOffsetMetadata(NamedTuple):
    """An offset and its place.

    Attributes:
        message_offset: The offset.
        segment_base_offset: The base offset of its segment; -1 = unknown.
        relative_position_in_segment: Its position in the segment, bytes; -1 = unknown.
    """

    message_offset: int
    segment_base_offset: int = UNKNOWN_OFFSET
    relative_position_in_segment: int = UNKNOWN_POSITION

    @property
    def message_offset_only(self) -> bool:
        """Whether only the offset is known."""
        return self.segment_base_offset == UNKNOWN_OFFSET and self.relative_position_in_segment == UNKNOWN_POSITION

    def on_older_segment(self, that: "LogOffsetMetadata") -> bool:
        """Return whether this segment precedes that one; False if the segment of one is unknown."""
        is_known = not (self.message_offset_only or that.message_offset_only)
        return is_known and self.segment_base_offset < that.segment_base_offset
