"""`cut_back` leaves a segment as it was before an append that the indexes refused."""

from pathlib import Path

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, LogConfig, Record
from kafkalog.storage.index.offset_index import OffsetIndex
from tests.helpers.failing import refuse_open
from tests.helpers.making import append as append_to
from tests.helpers.making import batch, segment, together


def test_cutting_back_undoes_an_append_that_an_index_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = segment(tmp_path, 0, LogConfig(index_interval_bytes=0, segment_index_bytes=96))
    append_to(made, *(batch(offset, magic=2) for offset in range(3)))
    size, entries = made.size_in_bytes, list(made.offset_index)
    both = together(batch(3, magic=2), batch(4, magic=2))
    append = OffsetIndex.append

    def full_at_offset_4(index: OffsetIndex, offset: int, position: int) -> None:
        if offset == 4:
            raise OSError(28, "No space left on device")
        append(index, offset, position)

    with monkeypatch.context() as patched:
        patched.setattr(OffsetIndex, "append", full_at_offset_4)
        with pytest.raises(OSError, match="No space left"):
            append_to(made, both)
    made.cut_back(size, 3)

    assert (made.size_in_bytes, list(made.offset_index), made.read_next_offset()) == (size, entries, 3)
    append_to(made, both)
    assert [record.offset for record in made.log] == [0, 1, 2, 3, 4]
    made.close()


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
