"""A file that a crash has left with a torn or zeroed tail: nothing is appended to it before that is removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog import ByteBufferMessageSet, FileMessageSet, Record
from kafkalog.errors import LogStateError

KIB = 1024


def batch(offset: int) -> ByteBufferMessageSet:
    return ByteBufferMessageSet.from_records([Record(b"v", timestamp=offset)], base_offset=offset)


SIZE = batch(0).size_in_bytes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


def crashed(path: Path, preallocate_bytes: int) -> None:
    """A file that was written to and neither trimmed nor closed in order."""
    messages = FileMessageSet(path, read_only=False, preallocate_bytes=preallocate_bytes)
    for offset in range(2):
        messages.append(batch(offset))
    messages.release()


def offsets(messages: FileMessageSet) -> list[int]:
    return [record.offset for record in messages]


def test_a_preallocated_file_is_written_on_after_a_crash_once_its_tail_is_cut_off(path: Path) -> None:
    crashed(path, 4 * KIB)
    with FileMessageSet(path, read_only=False) as messages:
        before = path.read_bytes()
        with pytest.raises(LogStateError, match=rf"zeroed tail.*truncate_to\({2 * SIZE}\)") as error:
            messages.append(batch(2))
        assert (error.value.path, error.value.position) == (str(path), 2 * SIZE)
        assert path.read_bytes() == before
        assert messages.truncate_to(messages.valid_bytes) == 4 * KIB - 2 * SIZE
        for offset in (2, 3):
            messages.append(batch(offset))
        assert offsets(messages) == [0, 1, 2, 3]


def test_a_torn_batch_must_be_cut_off_before_the_next(path: Path) -> None:
    crashed(path, 0)
    os.truncate(path, 2 * SIZE - 5)
    with FileMessageSet(path, read_only=False) as messages:
        with pytest.raises(LogStateError, match=rf"torn tail.*truncate_to\({SIZE}\)"):
            messages.append(batch(1))
        messages.truncate_to(SIZE)
        messages.append(batch(1))
        assert offsets(messages) == [0, 1]


def test_a_file_that_is_cut_inside_an_entry_is_not_appended_to(path: Path) -> None:
    crashed(path, 0)
    with FileMessageSet(path, read_only=False) as messages:
        messages.append(batch(2))
        messages.truncate_to(2 * SIZE + 5)
        with pytest.raises(LogStateError, match=rf"truncate_to\({2 * SIZE}\)"):
            messages.append(batch(2))
        messages.truncate_to(2 * SIZE)
        messages.append(batch(2))
        assert offsets(messages) == [0, 1, 2]


@pytest.mark.parametrize(
    "stray", [b"hello", bytes(5), bytes(batch(2).buffer)[:-1], bytes(batch(2).buffer) + b"x"], ids=len
)
def test_nothing_is_appended_after_a_set_that_ends_inside_an_entry(path: Path, stray: bytes) -> None:
    with FileMessageSet(path, read_only=False) as messages:
        messages.append(batch(0))
        assert messages.append(ByteBufferMessageSet(stray)) == len(stray)
        with pytest.raises(LogStateError, match="could not be read"):
            messages.append(batch(3))
        messages.truncate_to(messages.valid_bytes)
        messages.append(batch(3))
        assert offsets(messages)[-1] == 3


def test_nothing_is_appended_after_damage(path: Path) -> None:
    path.write_bytes(bytes(batch(0).buffer) + b"\1" * 8 + bytes(4) + b"\1" * 50)
    with FileMessageSet(path, read_only=False) as messages:
        with pytest.raises(LogStateError, match=rf"damage.*truncate_to\({SIZE}\)") as error:
            messages.append(batch(1))
        messages.truncate_to(error.value.position or 0)
        messages.append(batch(1))
        assert offsets(messages) == [0, 1]


def test_sets_of_many_entries_and_files_are_followed_by_more(path: Path, tmp_path: Path) -> None:
    many = ByteBufferMessageSet(b"".join(bytes(batch(offset).buffer) for offset in range(3)))
    with FileMessageSet(path, read_only=False) as messages, FileMessageSet(tmp_path / "o", read_only=False) as other:
        messages.append(many)
        other.append(messages)
        other.append(ByteBufferMessageSet(b""))
        other.append(batch(3))
        assert offsets(other) == [0, 1, 2, 3]
