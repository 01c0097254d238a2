"""A file that is appended to, truncated and preallocated, and read meanwhile."""

from __future__ import annotations

import errno
import io
import os
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkalog import ByteBufferMessageSet, FileMessageSet
from kafkalog.errors import LogStateError
from tests.helpers.reading import batch_fields, record_fields
from tests.helpers.written_files import batch, offsets
from tests.reference.encode import FORMATS

MIB = 1 << 20
LIMIT = 2**31 - 1


def as_bytes(messages: ByteBufferMessageSet) -> bytes:
    return bytes(messages.buffer)


# --- appending


def test_a_missing_file_is_created_and_holds_what_is_appended(path: Path) -> None:
    with FileMessageSet(path, read_only=False) as messages:
        assert (path.stat().st_size, messages.size_in_bytes, list(messages)) == (0, 0, [])
        first = batch(0)
        assert messages.append(first) == first.size_in_bytes
        assert path.read_bytes() == as_bytes(first)
        assert messages.size_in_bytes == first.size_in_bytes
        assert messages.append(batch(1)) == batch(1).size_in_bytes
    assert path.read_bytes() == as_bytes(batch(0)) + as_bytes(batch(1))


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_appended_sets_read_as_in_memory(path: Path, magic: int, codec: int) -> None:
    sets = [batch(offset, b"a", b"b" * 100, magic=magic, codec=codec) for offset in (0, 2, 4)]
    whole = ByteBufferMessageSet(b"".join(map(as_bytes, sets)))
    with FileMessageSet(path, read_only=False) as messages:
        assert sum(map(messages.append, sets)) == whole.size_in_bytes
        for reader in (messages, FileMessageSet(path)):
            assert list(map(record_fields, reader)) == list(map(record_fields, whole))
            assert list(map(batch_fields, reader.batches())) == list(map(batch_fields, whole.batches()))
            assert reader.headers().tolist() == whole.headers().tolist()
            assert [reader.has_matching_magic(each) for each in range(3)] == [each == magic for each in range(3)]


BUFFERS: list[Callable[[bytes], Any]] = [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)]


@pytest.mark.parametrize("kind", BUFFERS, ids=["bytes", "bytearray", "memoryview", "array"])
def test_bytes_are_appended_as_a_set_of_them_is(
    path: Path, written: FileMessageSet, kind: Callable[[bytes], Any]
) -> None:
    two = bytes(batch(3).buffer) + bytes(batch(4).buffer)
    data = kind(two)
    assert written.append_bytes(data) == len(two)
    assert written.append_bytes(b"") == 0
    assert offsets(written) == [0, 1, 2, 3, 4]
    written.append_bytes(two[:-1])
    with pytest.raises(LogStateError, match="torn"):
        written.append_bytes(two)
    with pytest.raises(io.UnsupportedOperation, match="slice"):
        written.read(0, 10).append_bytes(two)
    with pytest.raises(io.UnsupportedOperation, match="read-only"):
        FileMessageSet(path).append_bytes(two)
    with pytest.raises(TypeError):
        written.append_bytes("text")  # type: ignore[arg-type]


def test_a_reopened_file_goes_on_at_its_end(path: Path, written: FileMessageSet) -> None:
    size = written.size_in_bytes
    written.close()
    with FileMessageSet(path, read_only=False) as messages:
        assert messages.size_in_bytes == size
        messages.append(batch(3))
        assert offsets(messages) == [0, 1, 2, 3]
        assert messages.size_in_bytes == path.stat().st_size


def test_an_empty_message_set_adds_nothing(path: Path, written: FileMessageSet) -> None:
    before = path.read_bytes()
    assert written.append(ByteBufferMessageSet(b"")) == 0
    assert path.read_bytes() == before


def test_a_file_or_a_slice_of_one_is_appended_too(path: Path, written: FileMessageSet, tmp_path: Path) -> None:
    size = batch(0).size_in_bytes
    with FileMessageSet(tmp_path / "copy.log", read_only=False) as copy:
        assert copy.append(written) == 3 * size
        assert copy.append(written.read(size, size)) == size
        assert copy.append(FileMessageSet(path, start=2 * size, sealed=True)) == size
        assert offsets(copy) == [0, 1, 2, 1, 2]


def test_a_file_is_appended_to_itself_once(written: FileMessageSet) -> None:
    size = written.size_in_bytes
    assert written.append(written) == size
    assert offsets(written) == [0, 1, 2, 0, 1, 2]


def test_a_message_set_larger_than_the_copy_buffer_is_appended(path: Path, tmp_path: Path) -> None:
    large = batch(0, *(bytes([i]) * MIB for i in range(3)))
    with FileMessageSet(path, read_only=False) as messages, FileMessageSet(tmp_path / "copy", read_only=False) as copy:
        assert messages.append(large) == copy.append(messages) == large.size_in_bytes
    assert path.read_bytes() == (tmp_path / "copy").read_bytes() == as_bytes(large)


def test_append_refuses_bytes(written: FileMessageSet) -> None:
    with pytest.raises(TypeError, match="MessageSet"):
        written.append(b"bytes")  # type: ignore[arg-type]


def test_stray_bytes_at_the_end_do_not_disturb_reading(written: FileMessageSet) -> None:
    size = written.size_in_bytes
    for stray in (0, 2, 4, 5, 6):
        written.append(ByteBufferMessageSet(b"\x05" * stray))
        assert offsets(written) == [0, 1, 2]
        assert (written.size_in_bytes, written.valid_bytes) == (size + stray, size)
        assert written.truncate_to(written.valid_bytes) == stray
    written.append(batch(3))
    assert offsets(written) == [0, 1, 2, 3]


def test_a_torn_tail_stays_until_it_is_truncated(path: Path) -> None:
    path.write_bytes(as_bytes(batch(0)) + as_bytes(batch(1))[:20])
    with FileMessageSet(path, read_only=False) as messages:
        assert messages.end_of_data.kind.name == "TORN"
        assert messages.truncate_to(messages.valid_bytes) == 20
        messages.append(batch(1))
        assert (offsets(messages), messages.end_of_data.kind.name) == ([0, 1], "END")


def test_a_segment_does_not_grow_beyond_kafkas_limit(path: Path) -> None:
    with path.open("wb") as file:
        # One entry, nearly as long as a segment may be.
        file.write(struct.pack(">qi", 0, LIMIT - 10 - 12))
        file.truncate(LIMIT - 10)
    with FileMessageSet(path, read_only=False) as messages:
        with pytest.raises(ValueError, match=str(LIMIT)):
            messages.append(ByteBufferMessageSet(bytes(11)))
        assert path.stat().st_size == messages.size_in_bytes == LIMIT - 10
        assert messages.append(ByteBufferMessageSet(b"x" * 10)) == 10
        assert messages.size_in_bytes == LIMIT
        messages.truncate_to(0)


def test_a_file_larger_than_a_segment_is_read_and_not_appended_to(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(LIMIT + 1)
    with pytest.raises(OSError, match=str(path)) as error:
        FileMessageSet(path, read_only=False)
    assert error.value.errno == errno.EFBIG
    assert path.stat().st_size == LIMIT + 1
    assert FileMessageSet(path).size_in_bytes == LIMIT + 1


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is mapped")
def test_a_file_that_is_written_to_is_never_mapped(path: Path, written: FileMessageSet) -> None:
    assert offsets(written) == [0, 1, 2]
    columns = list(written.columns())
    assert str(path) not in Path("/proc/self/maps").read_text()
    assert columns
    sealed = FileMessageSet(path, sealed=True)
    assert offsets(sealed) == [0, 1, 2]
    assert str(path) in Path("/proc/self/maps").read_text(), "a sealed file is mapped, and listed here"


# --- reading meanwhile


def test_an_iterator_sees_records_appended_before_it_ends(written: FileMessageSet) -> None:
    records = iter(written)
    written.append(batch(3))
    assert [record.offset for record in records] == [0, 1, 2, 3]


def test_a_search_finds_what_was_just_appended(written: FileMessageSet) -> None:
    size = batch(0).size_in_bytes
    assert written.search(3) is None
    assert written.search_timestamp(21) is None
    written.append(batch(50))
    assert written.search(3) == (50, 3 * size, size)
    assert written.search_timestamp(21) == (500, 50, None)
    assert written.last_offset() == 50


def test_two_slices_keep_their_ranges_while_the_file_grows(written: FileMessageSet) -> None:
    size = batch(0).size_in_bytes
    first, to_end = written.read(0, 2 * size), written.read(2 * size, 2**40)
    following = written.starting_at(1)
    for offset in range(3, 10):
        written.append(batch(offset))
        assert offsets(first) == [0, 1]
        assert offsets(to_end) == [2]
        assert offsets(following) == list(range(1, offset + 1))


def test_a_slice_of_exactly_one_batch_holds_it_and_one_byte_less_holds_none(written: FileMessageSet) -> None:
    size = batch(0).size_in_bytes
    assert offsets(written.read(size, size)) == [1]
    assert offsets(written.read(size, size - 1)) == []
    with pytest.raises(ValueError, match="position"):
        written.read(3 * size + 1, 1)


def test_a_slice_ends_where_its_file_was_truncated(written: FileMessageSet) -> None:
    size = batch(0).size_in_bytes
    part = written.read(size, 2 * size)
    written.truncate_to(2 * size)
    assert (offsets(part), part.size_in_bytes) == ([1], size)
    written.truncate_to(0)
    assert (offsets(part), part.size_in_bytes) == ([], 0)


def test_readers_in_threads_see_whole_batches_only(path: Path) -> None:
    batches = 300
    problems: list[object] = []
    done = threading.Event()

    def read(messages: FileMessageSet) -> None:
        last = 0
        while not done.is_set():
            found = offsets(messages)
            if found != list(range(len(found))) or len(found) < last or messages.end_of_data.kind.name != "END":
                problems.append(found)
            last = len(found)

    with FileMessageSet(path, read_only=False, preallocate_bytes=MIB) as messages:
        threads = [threading.Thread(target=read, args=(messages,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for offset in range(batches):
                messages.append(batch(offset, bytes(offset)))
        finally:
            done.set()
        for thread in threads:
            thread.join()
        assert offsets(messages) == list(range(batches))
    assert not problems


def test_appends_in_threads_come_one_after_the_other(path: Path) -> None:
    def append(first: int) -> None:
        for offset in range(first, first + 50):
            messages.append(batch(offset, bytes(1000)))

    with FileMessageSet(path, read_only=False) as messages:
        threads = [threading.Thread(target=append, args=(100 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = offsets(messages)
    assert sorted(found) == [100 * i + j for i in range(4) for j in range(50)]
    assert all(each.is_valid for each in FileMessageSet(path).batches())


# --- truncating


def test_truncating_returns_the_number_of_bytes_removed(path: Path, written: FileMessageSet) -> None:
    size = batch(0).size_in_bytes
    assert written.truncate_to(size) == 2 * size
    assert (offsets(written), written.size_in_bytes, path.stat().st_size) == ([0], size, size)
    written.append(batch(1))
    assert offsets(written) == [0, 1]
    assert written.truncate_to(0) == 2 * size
    assert path.stat().st_size == 0


@pytest.mark.parametrize("size", [-1, 1000, 2**40])
def test_truncating_to_a_size_out_of_range_is_refused(path: Path, written: FileMessageSet, size: int) -> None:
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"{len(before)} bytes"):
        written.truncate_to(size)
    assert path.read_bytes() == before


def test_a_file_of_the_right_size_is_not_truncated(
    path: Path, written: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(os, "ftruncate", lambda _fd, size: calls.append(size))
    assert written.truncate_to(written.size_in_bytes) == 0
    written.trim()
    assert calls == []


# --- preallocating


def test_a_preallocated_file_is_empty_and_long(path: Path) -> None:
    with FileMessageSet(path, read_only=False, preallocate_bytes=MIB) as messages:
        assert (messages.size_in_bytes, path.stat().st_size) == (0, MIB)
        messages.append(batch(0))
        assert (offsets(messages), messages.end_of_data.kind.name) == ([0], "END")
        assert (messages.size_in_bytes, path.stat().st_size) == (batch(0).size_in_bytes, MIB)
        # Another reader cannot know, and sees zero bytes.
        assert (offsets(FileMessageSet(path)), FileMessageSet(path).end_of_data.kind.name) == ([0], "ZEROED")


def test_a_preallocated_file_has_its_real_length_after_it_was_closed(path: Path) -> None:
    with FileMessageSet(path, read_only=False, preallocate_bytes=MIB) as messages:
        messages.append(batch(0))
    size = batch(0).size_in_bytes
    assert path.stat().st_size == size
    with FileMessageSet(path, read_only=False, preallocate_bytes=MIB) as messages:
        assert (messages.size_in_bytes, path.stat().st_size) == (size, size)
        messages.append(batch(1))
        assert offsets(messages) == [0, 1]


def test_trimming_cuts_what_was_not_used_and_the_file_grows_on(path: Path) -> None:
    with FileMessageSet(path, read_only=False, preallocate_bytes=MIB) as messages:
        messages.append(batch(0))
        messages.trim()
        assert path.stat().st_size == messages.size_in_bytes
        messages.append(batch(1))
        assert (offsets(messages), path.stat().st_size) == ([0, 1], messages.size_in_bytes)


def test_truncating_removes_the_preallocated_rest(path: Path) -> None:
    with FileMessageSet(path, read_only=False, preallocate_bytes=MIB) as messages:
        messages.append(batch(0))
        assert messages.truncate_to(messages.size_in_bytes) == 0
        assert path.stat().st_size == messages.size_in_bytes


def test_a_preallocated_file_may_grow_beyond_its_preallocated_size(path: Path) -> None:
    with FileMessageSet(path, read_only=False, preallocate_bytes=100) as messages:
        for offset in range(3):
            messages.append(batch(offset))
            assert offsets(messages) == list(range(offset + 1))
    assert path.stat().st_size == 3 * batch(0).size_in_bytes


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_fallocate_still_extends_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    with FileMessageSet(path, read_only=False, preallocate_bytes=MIB):
        assert path.stat().st_size == MIB


@pytest.mark.parametrize("size", [-1, LIMIT + 1])
def test_no_more_is_preallocated_than_a_segment_may_have(path: Path, size: int) -> None:
    with pytest.raises(ValueError, match="preallocate_bytes"):
        FileMessageSet(path, read_only=False, preallocate_bytes=size)
    assert not path.exists()


# --- what may not be written to

WRITES: list[Callable[[FileMessageSet], object]] = [
    lambda messages: messages.append(batch(9)),
    lambda messages: messages.truncate_to(0),
    lambda messages: messages.trim(),
    lambda messages: messages.delete(),
]
PARTS: dict[str, Callable[[FileMessageSet], FileMessageSet]] = {
    "read-only": lambda messages: FileMessageSet(messages.path),
    "sealed": lambda messages: FileMessageSet(messages.path, sealed=True),
    "part of a file": lambda messages: FileMessageSet(messages.path, start=5, end=10),
    "slice": lambda messages: messages.read(0, 2**40),
    "slice to the end": lambda messages: messages.starting_at(0),
}


@pytest.mark.parametrize("part", PARTS)
def test_neither_a_read_only_set_nor_a_slice_is_written_to(path: Path, written: FileMessageSet, part: str) -> None:
    before = path.read_bytes()
    for write in WRITES:
        with pytest.raises(io.UnsupportedOperation, match=r"read-only|slice"):
            write(PARTS[part](written))
    assert path.read_bytes() == before


@pytest.mark.parametrize("how", [{"start": 1}, {"end": 10}, {"start": 0, "end": 0}, {"sealed": True}])
def test_a_part_of_a_file_or_a_sealed_one_is_not_opened_for_writing(path: Path, how: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole file"):
        FileMessageSet(path, read_only=False, **how)
    assert not path.exists()


def test_nothing_is_preallocated_for_a_reader(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="only read"):
        FileMessageSet(path, preallocate_bytes=1)


def test_a_reader_creates_nothing(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileMessageSet(path)
    assert not path.exists()
