"""`cut_back` leaves a segment as it was before an append that the indexes refused."""

from pathlib import Path

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, LogConfig, Record
from kafkalog.storage.index.offset_index import OffsetIndex
from kafkalog.storage.segment.log_segment import BatchSpan, LogSegment
from tests.helpers.failing import refuse_open


def batch(offset: int) -> tuple[ByteBufferMessageSet, BatchSpan]:
    messages = ByteBufferMessageSet.from_records([Record(b"v" * 50, timestamp=offset)], base_offset=offset)
    return messages, BatchSpan(offset, offset, messages.size_in_bytes)


def test_cutting_back_undoes_an_append_that_an_index_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = LogSegment.open(tmp_path, 0, LogConfig(index_interval_bytes=0, segment_index_bytes=96))
    for offset in range(3):
        messages, span = batch(offset)
        segment.append(offset, messages, [span])
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
    segment.cut_back(size, 3)

    assert (segment.size_in_bytes, list(segment.offset_index), segment.read_next_offset()) == (size, entries, 3)
    segment.append(4, both, [one, other])
    assert [record.offset for record in segment.log] == [0, 1, 2, 3, 4]
    segment.close()


@pytest.mark.parametrize("ending", [".index", ".timeindex"])
@pytest.mark.parametrize("kind", ["records", "a producer's batch"])
def test_an_index_that_cannot_be_created_fails_the_append_before_a_byte_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, kind: str
) -> None:
    def append(value: bytes) -> None:
        if kind == "records":
            log.append([Record(value)])
        else:
            log.append_as_leader(ByteBufferMessageSet.from_records([Record(value)]), 0)

    with kafkalog.open(tmp_path / "topic-0", "a", LogConfig(segment_bytes=200)) as log:
        append(b"0" * 100)
        with monkeypatch.context() as patched:
            refuse_open(patched, ending)
            with pytest.raises(OSError, match="Too many"):
                append(b"x" * 100)
        append(b"1" * 100)
        assert [record.value[:1] for record in log if record.value] == [b"0", b"1"]
