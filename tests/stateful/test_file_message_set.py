"""A file that is appended to, cut, sliced, searched, reopened and failed by its disk in any order is a list of entries.

The model: the entries that were appended, each with its bytes and its records, and a torn rest of one where the file
was cut inside an entry.
"""

from __future__ import annotations

import errno
import io
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkalog import ByteBufferMessageSet, CompressionType, FileMessageSet
from kafkalog.record.builder import BatchSettings, RecordsBuilder
from tests.reference.encode import FORMATS
from tests.stateful.sizes import sized

write = os.pwrite


@dataclass(frozen=True)
class Entry:
    """One batch, or one message of format 0 or 1."""

    data: bytes
    offsets: tuple[int, ...]
    timestamps: tuple[int, ...]
    magic: int
    wrapped: bool

    @property
    def last_offset(self) -> int:
        return self.offsets[-1]


def entry(magic: int, codec: int, first: int, timestamps: list[int]) -> Entry:
    builder = RecordsBuilder(BatchSettings(magic=magic, compression_type=CompressionType(codec), base_offset=first))
    for timestamp in timestamps:
        builder.append(b"value", timestamp=timestamp)
    offsets = tuple(range(first, first + len(timestamps)))
    return Entry(bytes(builder.build()), offsets, tuple(timestamps), magic, bool(codec) and magic < 2)


timestamps = st.lists(st.integers(0, 60), min_size=1, max_size=3)
preallocations = st.sampled_from([0, 0, 100, 5000])


class FileMachine(RuleBasedStateMachine):
    @initialize(preallocate_bytes=preallocations)
    def begin(self, preallocate_bytes: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "00000000000000000000.log"
        self.entries: list[Entry] = []
        self.torn = b""
        self.slices: list[tuple[FileMessageSet, int, int]] = []
        # What the file's length is beyond what was written.
        self.length = preallocate_bytes
        self.messages = FileMessageSet(self.path, read_only=False, preallocate_bytes=preallocate_bytes)

    @property
    def next_offset(self) -> int:
        return self.entries[-1].last_offset + 1 if self.entries else 0

    @property
    def data(self) -> bytes:
        return b"".join(each.data for each in self.entries) + self.torn

    @property
    def starts(self) -> list[int]:
        """Where each entry begins, and where the last one ends."""
        starts = [0]
        for each in self.entries:
            starts.append(starts[-1] + len(each.data))
        return starts

    def whole(self, start: int, end: int) -> list[Entry]:
        """The entries from `start`, where one begins, that end by `end`."""
        pairs = zip(self.starts, self.entries, strict=False)
        return [each for at, each in pairs if start <= at and at + len(each.data) <= end]

    # --- writing

    @precondition(lambda self: not self.torn)
    @rule(form=st.sampled_from(FORMATS), timestamps=timestamps, gap=st.sampled_from([0, 0, 1, 40]))
    def append(self, form: tuple[int, int], timestamps: list[int], gap: int) -> None:
        added = entry(*form, self.next_offset + gap, timestamps)
        assert self.messages.append(ByteBufferMessageSet(added.data)) == len(added.data)
        # Without compression, each message of format 0 or 1 is an entry.
        if added.magic < 2 and not added.wrapped:
            self.entries += self.single_messages(added)
        else:
            self.entries.append(added)
        self.length = max(self.length, len(self.data))

    def single_messages(self, added: Entry) -> list[Entry]:
        singles = [
            entry(added.magic, 0, offset, [timestamp])
            for offset, timestamp in zip(added.offsets, added.timestamps, strict=True)
        ]
        assert b"".join(each.data for each in singles) == added.data
        return singles

    @precondition(lambda self: not self.torn)
    @rule(form=st.sampled_from(FORMATS), taken=st.integers(0, 200), at_a_time=st.integers(1, 50))
    def append_to_a_failing_disk(self, form: tuple[int, int], taken: int, at_a_time: int) -> None:
        data = entry(*form, self.next_offset, [1, 2, 3]).data
        left = min(taken, len(data) - 1)

        def failing(fd: int, piece: memoryview, at: int) -> int:
            nonlocal left
            if not left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            amount = write(fd, piece[: min(left, at_a_time)], at)
            left -= amount
            return amount

        with patch("os.pwrite", failing), pytest.raises(OSError, match="as it was"):
            self.messages.append(ByteBufferMessageSet(data))

    @precondition(lambda self: not self.torn and len(self.data) < 5000)
    @rule()
    def append_the_last_entry_of_the_file_again(self) -> None:
        """Its offsets do not rise; a file does not look at them."""
        if self.entries:
            start = self.starts[-2]
            part = self.messages.read(start, len(self.entries[-1].data))
            assert self.messages.append(part) == len(self.entries[-1].data)
            self.entries.append(self.entries[-1])
            self.length = max(self.length, len(self.data))

    @rule(data=st.data())
    def truncate_to_the_end_of_an_entry(self, data: st.DataObject) -> None:
        self.truncate(data.draw(st.sampled_from(self.starts)))

    @rule(data=st.data())
    def truncate_anywhere(self, data: st.DataObject) -> None:
        self.truncate(data.draw(st.integers(0, len(self.data))))

    @precondition(lambda self: self.torn)
    @rule()
    def truncate_the_torn_tail(self) -> None:
        self.truncate(self.messages.valid_bytes)
        assert not self.torn

    def truncate(self, size: int) -> None:
        before = self.data
        assert self.messages.truncate_to(size) == len(before) - size
        self.entries = self.whole(0, size)
        self.torn = before[len(b"".join(each.data for each in self.entries)) : size]
        self.length = size

    @rule(beyond=st.integers(1, 100))
    def truncate_beyond_the_end(self, beyond: int) -> None:
        with pytest.raises(ValueError, match="cannot be truncated"):
            self.messages.truncate_to(len(self.data) + beyond)

    @rule(preallocate_bytes=preallocations)
    def reopen(self, preallocate_bytes: int) -> None:
        self.messages.close()
        self.slices.clear()
        assert self.path.read_bytes() == self.data
        self.messages = FileMessageSet(self.path, read_only=False, preallocate_bytes=preallocate_bytes)
        self.length = len(self.data)

    @rule(preallocate_bytes=preallocations)
    def delete_and_begin_again(self, preallocate_bytes: int) -> None:
        assert self.messages.delete()
        assert not self.messages.delete()
        self.slices.clear()
        self.entries, self.torn = [], b""
        self.messages = FileMessageSet(self.path, read_only=False, preallocate_bytes=preallocate_bytes)
        self.length = preallocate_bytes

    @rule()
    def trim(self) -> None:
        self.messages.trim()
        self.length = len(self.data)

    @rule()
    def flush(self) -> None:
        self.messages.flush()

    # --- reading

    @rule(data=st.data(), cut=st.integers(0, 3))
    def slice_it(self, data: st.DataObject, cut: int) -> None:
        start = data.draw(st.sampled_from(self.starts))
        length = max(0, data.draw(st.integers(0, len(self.data) - start + 50)) - cut)
        part = self.messages.read(start, length)
        self.slices.append((part, start, min(start + length, len(self.data))))

    @rule(data=st.data())
    def search(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(-1, self.next_offset + 2))
        start = data.draw(st.integers(0, len(self.entries)))
        found = self.messages.search(offset, self.starts[start])
        candidates = [i for i in range(start, len(self.entries)) if self.entries[i].last_offset >= offset]
        if not candidates:
            assert found is None
            return
        first = candidates[0]
        assert found is not None
        assert found.position == self.starts[first]
        assert found.size == len(self.entries[first].data)
        assert found.offset == self.entries[first].offsets[0]

    @rule(timestamp=st.integers(0, 61), data=st.data())
    def search_by_time(self, timestamp: int, data: st.DataObject) -> None:
        start = data.draw(st.integers(0, len(self.entries)))
        expected = next(
            (
                (at, offset)
                for each in self.entries[start:]
                for offset, at in zip(each.offsets, each.timestamps, strict=True)
                if each.magic > 0 and at >= timestamp
            ),
            None,
        )
        found = self.messages.search_timestamp(timestamp, self.starts[start])
        assert (None if found is None else (found.timestamp, found.offset)) == expected

    @rule(data=st.data())
    def write_elsewhere(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.data)))
        size = data.draw(st.none() | st.integers(0, len(self.data) + 10))
        expected = self.data[position:][:size]
        memory, other = io.BytesIO(), self.path.with_name("other")
        with other.open("wb") as file:
            for target in (memory, file):
                assert self.messages.write_to(target, position, size) == len(expected)
        assert memory.getvalue() == other.read_bytes() == expected

    @rule(magic=st.integers(0, 2))
    def ask_for_the_magic(self, magic: int) -> None:
        assert self.messages.has_matching_magic(magic) == all(each.magic == magic for each in self.entries)

    # --- invariants

    @invariant()
    def the_file_holds_the_entries(self) -> None:
        data = self.data
        assert self.messages.size_in_bytes == len(data)
        assert self.messages.valid_bytes == self.starts[-1]
        # What is torn off an entry of offset 0 begins with zero bytes.
        kind = "END" if not self.torn else "TORN" if any(self.torn) else "ZEROED"
        assert self.messages.end_of_data.kind.name == kind
        stored = self.path.read_bytes()
        assert len(stored) == max(self.length, len(data))
        assert stored == data + bytes(len(stored) - len(data))

    @invariant()
    def all_records_are_read(self) -> None:
        expected = [
            (offset, timestamp if each.magic else -1)
            for each in self.entries
            for offset, timestamp in zip(each.offsets, each.timestamps, strict=True)
        ]
        assert [(record.offset, record.timestamp) for record in self.messages] == expected
        assert [batch.position for batch in self.messages.batches()] == self.starts[:-1]

    @invariant()
    def slices_hold_what_is_left_between_their_ends(self) -> None:
        # A slice may have lost the entry it began with; after that, other bytes lie there.
        sound = [each for each in self.slices if each[1] in self.starts]
        self.slices = sound[-3:]
        for part, start, end in self.slices:
            until = min(end, len(self.data))
            expected = self.whole(start, until)
            assert [batch.last_offset for batch in part.batches()] == [each.last_offset for each in expected]
            assert part.size_in_bytes == max(0, until - start)

    def teardown(self) -> None:
        if hasattr(self, "messages"):
            self.messages.close()
            assert self.path.read_bytes() == self.data
            self.directory.cleanup()


TestFileMessageSet = FileMachine.TestCase
TestFileMessageSet.settings = sized(2, steps=30)
