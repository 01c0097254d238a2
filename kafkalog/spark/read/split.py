"""The splits of a read: which bytes of which file a task reads, and which offsets.

segment   | batch | batch | batch | batch |
^ start_pos             ^ end_pos       the split has the batches that begin in between
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a segment file for one task.

    It has the records with first_offset <= offset <= last_offset of the batches that begin in [start_pos, end_pos).

    Attributes:
        path: The path of the file.
        start_pos: The first position, bytes.
        end_pos: The position after the last one, bytes.
        first_offset: The first offset.
        last_offset: The last offset, inclusive.
        topic: The topic.
        partition: The number of the partition.
        base_offset: The base offset of the segment.
        next_base: The offset after the last one that the segment may hold.
        file_size: The size of the file when the read was planned, bytes.
        sealed: Whether nothing is appended to the file any more.
        shared: Whether the batch at `start_pos` is in another split too, for its earlier offsets. The other split
            reports damage of this batch.
    """

    path: str
    start_pos: int
    end_pos: int
    first_offset: int
    last_offset: int
    topic: str
    partition: int
    base_offset: int
    next_base: int
    file_size: int
    sealed: bool
    shared: bool = False

    @property
    def size_in_bytes(self) -> int:
        """The approximate number of bytes to read."""
        return self.end_pos - self.start_pos

    @property
    def splits(self) -> tuple["Split", ...]:
        """The split itself, as a group of one."""
        return (self,)


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """Several small splits for one task.

    Attributes:
        splits: The splits, in the order in which the task reads them.
    """

    splits: tuple[Split, ...]

    @property
    def size_in_bytes(self) -> int:
        """The approximate number of bytes to read."""
        return sum(each.size_in_bytes for each in self.splits)


AnySplit: TypeAlias = Split | SplitGroup
