"""Which file it is that is written to, whoever moves or replaces it, and what closes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kafkalog import ByteBufferMessageSet, FileMessageSet, Record


def batch(offset: int) -> ByteBufferMessageSet:
    return ByteBufferMessageSet.from_records([Record(b"v", timestamp=offset)], base_offset=offset)


def offsets(messages: FileMessageSet) -> list[int]:
    return [record.offset for record in messages]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


@pytest.fixture
def written(path: Path) -> Iterator[FileMessageSet]:
    """A file of three batches, open for more."""
    with FileMessageSet(path, read_only=False) as messages:
        for offset in range(3):
            messages.append(batch(offset))
        yield messages


# --- where the file is


def test_deleting_takes_the_file_that_was_opened_wherever_the_process_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.log").touch()
    monkeypatch.chdir(tmp_path / "here")
    messages = FileMessageSet("a.log", read_only=False)
    monkeypatch.chdir(tmp_path / "there")
    messages.append(batch(0))
    messages.flush()
    assert messages.delete()
    assert [each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*.log")] == ["there/a.log"]


def test_a_new_file_is_flushed_wherever_the_process_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with FileMessageSet("sub/a.log", read_only=False) as messages:
        monkeypatch.chdir("/")
        messages.flush()


def test_a_file_that_has_taken_the_place_of_another_is_not_deleted_for_it(path: Path, written: FileMessageSet) -> None:
    other = path.with_name("other")
    other.write_bytes(b"another file")
    other.replace(path)
    assert not written.delete()
    assert path.read_bytes() == b"another file"


def test_a_link_to_a_file_that_is_not_there_creates_it_with_room(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere.log")
    with FileMessageSet(path, read_only=False, preallocate_bytes=1000):
        assert (tmp_path / "elsewhere.log").stat().st_size == 1000


# --- slices and closing


def test_leaving_a_slice_does_not_close_the_file(written: FileMessageSet) -> None:
    with written.read(0, written.size_in_bytes) as part:
        assert offsets(part) == [0, 1, 2]
    assert not written.closed
    written.append(batch(3))
    written.close()
    assert written.closed
    assert part.closed


def test_the_size_to_cut_to_is_a_number_of_bytes_and_no_other_kind_of_number(written: FileMessageSet) -> None:
    for size in (True, "5", 5.0):
        with pytest.raises(TypeError, match="size is a whole number of bytes"):
            written.truncate_to(size)  # type: ignore[arg-type]
    size = batch(0).size_in_bytes
    written.truncate_to(np.uint8(size))  # type: ignore[arg-type]
    for offset in range(1, 9):
        written.append(batch(offset))
    assert offsets(written) == list(range(9))
