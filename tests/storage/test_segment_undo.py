"""An append that the indexes refuse leaves a segment as it was."""

from pathlib import Path

import pytest

from kafkalog import ByteBufferMessageSet, LogConfig, Record
from kafkalog.storage.index import OffsetIndex
from kafkalog.storage.segment import BatchSpan, LogSegment


def batch(offset: int) -> tuple[ByteBufferMessageSet, BatchSpan]:
    messages = ByteBufferMessageSet.from_records([Record(b"v" * 50, timestamp=offset)], base_offset=offset)
    return messages, BatchSpan(offset, offset, messages.size_in_bytes)


def test_batches_that_an_index_has_no_room_for_are_taken_back_and_can_be_appended_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = LogSegment.open(tmp_path, 0, LogConfig(index_interval_bytes=0, segment_index_bytes=96))
    for offset in range(3):
        segment.append(offset, *(each if i == 0 else [each] for i, each in enumerate(batch(offset))))
    size, entries = segment.size_in_bytes, list(segment.offset_index)
    (first, one), (second, other) = batch(3), batch(4)
    both = ByteBufferMessageSet(bytes(first.buffer) + bytes(second.buffer))
    append = OffsetIndex.append

    def full_at_offset_4(index: OffsetIndex, offset: int, position: int) -> None:
        if offset == 4:
            raise OSError(28, "No space left on device")
        append(index, offset, position)

    with monkeypatch.context() as patched:
        patched.setattr(OffsetIndex, "append", full_at_offset_4)
        with pytest.raises(OSError, match="No space left"):
            segment.append(4, both, [one, other])

    assert (segment.size_in_bytes, list(segment.offset_index), segment.read_next_offset()) == (size, entries, 3)
    segment.append(4, both, [one, other])
    assert [record.offset for record in segment.log] == [0, 1, 2, 3, 4]
    segment.close()
