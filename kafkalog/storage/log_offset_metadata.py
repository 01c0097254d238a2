"""`LogOffsetMetadata`: an offset and, where known, where its record lies: the high watermark, for one, or a log's end.

    segment 0 .......... | segment 40 ......x....
                           ^ segment base   ^ relative position in segment (bytes)

Kafka: `LogOffsetMetadata`.
"""

from typing import NamedTuple

UNKNOWN_OFFSET = -1
UNKNOWN_POSITION = -1


class LogOffsetMetadata(NamedTuple):
    """An offset; the base offset of its segment and its position (bytes) there, both -1 where they are not known."""

    message_offset: int
    segment_base_offset: int = UNKNOWN_OFFSET
    relative_position_in_segment: int = UNKNOWN_POSITION

    @property
    def message_offset_only(self) -> bool:
        """Whether nothing but the offset is known."""
        return self.segment_base_offset == UNKNOWN_OFFSET and self.relative_position_in_segment == UNKNOWN_POSITION

    def on_same_segment(self, that: "LogOffsetMetadata") -> bool:
        """Whether both lie in one segment; False where of one of them only the offset is known."""
        return self._both_placed(that) and self.segment_base_offset == that.segment_base_offset

    def on_older_segment(self, that: "LogOffsetMetadata") -> bool:
        """Whether this one's segment comes before that one's; False where of one of them only the offset is known."""
        return self._both_placed(that) and self.segment_base_offset < that.segment_base_offset

    def position_diff(self, that: "LogOffsetMetadata") -> int:
        """The bytes from that one to this one. ValueError: they do not lie in one segment, or that is not known."""
        if not self.on_same_segment(that):
            raise ValueError(f"{self} and {that} are not known to lie in one segment: nor are the bytes between them")
        return self.relative_position_in_segment - that.relative_position_in_segment

    def _both_placed(self, that: "LogOffsetMetadata") -> bool:
        return not (self.message_offset_only or that.message_offset_only)
