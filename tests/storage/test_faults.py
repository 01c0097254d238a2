"""Errors while a file is written: it is then as it was before, or the error says that it is not.

The one call that writes, `os.pwrite`, fails in the system's place; where that fails by itself, see test_real_disks.py.
"""

from __future__ import annotations

import errno
import gc
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from kafkalog import FileMessageSet
from kafkalog.errors import CorruptRecordError
from tests.helpers.written_files import offsets, sized_batch

KIB = 1 << 10
Write = Callable[[int, bytes | bytearray | memoryview, int], int]


class Seam:
    """Replaces `os.pwrite` by one that writes a few bytes at a time, and fails in the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.calls = 0

    def fail_after(self, taken: int, error: BaseException, at_a_time: int = 7) -> None:
        left = taken

        def write(fd: int, data: memoryview, at: int) -> int:
            nonlocal left
            self.calls += 1
            if not left:
                raise error
            amount = ORIGINAL_WRITE(fd, data[: min(left, at_a_time)], at)
            left -= amount
            return amount

        self._patch.setattr(os, "pwrite", write)

    def mend(self) -> None:
        self._patch.undo()


ORIGINAL_WRITE: Write = os.pwrite


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# --- short writes


@pytest.mark.parametrize("at_a_time", [1, 13, 60, 61, 10**6])
def test_short_writes_are_continued(path: Path, filled: FileMessageSet, seam: Seam, at_a_time: int) -> None:
    seam.fail_after(10**9, no_space(), at_a_time)
    size = sized_batch(3).size_in_bytes
    assert filled.append(sized_batch(3)) == size
    seam.mend()
    assert seam.calls == -(-size // at_a_time)
    assert offsets(filled) == offsets(FileMessageSet(path)) == [0, 1, 2, 3]


def test_a_write_of_no_bytes_is_an_error_and_no_endless_loop(
    filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="takes no bytes") as error:
        filled.append(sized_batch(3))
    assert error.value.errno == errno.EIO
    monkeypatch.undo()
    assert offsets(filled) == [0, 1, 2]


# --- an append that fails


@pytest.mark.parametrize("taken", [0, 1, 12, 61, 100])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR, errno.EFBIG])
def test_a_failed_append_leaves_the_file_unchanged_and_its_error_names_the_file(
    path: Path, filled: FileMessageSet, seam: Seam, taken: int, number: int
) -> None:
    before, size = path.read_bytes(), filled.size_in_bytes
    seam.fail_after(taken, OSError(number, os.strerror(number)))
    with pytest.raises(OSError, match="as it was") as error:
        filled.append(sized_batch(3))
    seam.mend()
    assert (error.value.errno, error.value.filename) == (number, str(path))
    assert type(error.value) is type(OSError(number, ""))
    for part in (os.strerror(number), f"appending {sized_batch(3).size_in_bytes} bytes to {size}"):
        assert part in str(error.value)
    assert path.read_bytes() == before
    assert (filled.size_in_bytes, offsets(filled)) == (size, [0, 1, 2])
    assert filled.append(sized_batch(3)) == sized_batch(3).size_in_bytes
    assert offsets(filled) == [0, 1, 2, 3]


def test_a_reader_never_sees_half_of_an_append(filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], int, str]] = []

    def watched(fd: int, data: memoryview, at: int) -> int:
        taken = ORIGINAL_WRITE(fd, data[:10], at)
        seen.append((offsets(filled), filled.size_in_bytes, filled.end_of_data.kind.name))
        return taken

    size = filled.size_in_bytes
    monkeypatch.setattr(os, "pwrite", watched)
    filled.append(sized_batch(3))
    assert seen == [([0, 1, 2], size, "END")] * len(seen)
    assert len(seen) > 10
    assert offsets(filled) == [0, 1, 2, 3]


def test_an_append_interrupted_by_a_signal_is_undone(path: Path, filled: FileMessageSet, seam: Seam) -> None:
    before = path.read_bytes()
    seam.fail_after(50, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as error:
        filled.append(sized_batch(3))
    seam.mend()
    assert path.read_bytes() == before
    assert "as it was before" in error.value.__notes__[0]
    filled.append(sized_batch(3))
    assert offsets(filled) == [0, 1, 2, 3]


def test_an_append_goes_on_after_a_handled_signal(
    path: Path, filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real signal at each write of a message set larger than any one write."""
    signals = []

    def write(fd: int, data: memoryview, at: int) -> int:
        signal.raise_signal(signal.SIGUSR1)
        return ORIGINAL_WRITE(fd, data[: 100 * KIB], at)

    before = signal.signal(signal.SIGUSR1, lambda *_: signals.append(1))
    monkeypatch.setattr(os, "pwrite", write)
    try:
        filled.append(sized_batch(3, size=4 << 20))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(signals) > 40
    assert offsets(filled) == [0, 1, 2, 3]
    assert all(each.is_valid for each in FileMessageSet(path, end=filled.size_in_bytes).batches())


class TakenBack(Exception):
    """What a signal handler raises."""


def test_an_append_is_undone_when_a_signal_handler_raises(
    path: Path, filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(*_: object) -> NoReturn:
        raise TakenBack

    def write(fd: int, data: memoryview, at: int) -> int:
        taken = ORIGINAL_WRITE(fd, data[:50], at)
        signal.raise_signal(signal.SIGUSR1)
        return taken

    content = path.read_bytes()
    before = signal.signal(signal.SIGUSR1, handler)
    monkeypatch.setattr(os, "pwrite", write)
    try:
        with pytest.raises(TakenBack):
            filled.append(sized_batch(3))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert path.read_bytes() == content
    assert offsets(filled) == [0, 1, 2]


def test_an_append_from_a_source_that_is_cut_meanwhile_appends_nothing(
    path: Path, filled: FileMessageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.log"
    source.write_bytes(bytes(3 << 20))

    def write(fd: int, data: memoryview, at: int) -> int:
        os.truncate(source, 5)
        return ORIGINAL_WRITE(fd, data, at)

    before = path.read_bytes()
    monkeypatch.setattr(os, "pwrite", write)
    with pytest.raises(CorruptRecordError, match="shorter") as error:
        filled.append(FileMessageSet(source))
    assert error.value.path == str(source)
    assert path.read_bytes() == before


# --- taking it back fails too


def broken_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "ftruncate", refused)


def test_an_append_that_cannot_be_undone_names_both_errors(
    path: Path, filled: FileMessageSet, seam: Seam, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = filled.size_in_bytes
    broken_truncation(monkeypatch)
    seam.fail_after(50, no_space())
    with pytest.raises(OSError, match="could not be cut off") as error:
        filled.append(sized_batch(3))
    assert error.value.errno == errno.ENOSPC
    assert os.strerror(errno.ENOSPC) in str(error.value)
    assert os.strerror(errno.EROFS) in str(error.value)
    # The bytes are there, and no reader of this object sees them.
    with path.open("rb") as file:
        file.seek(size)
        assert file.read(50).strip(b"\0")
    assert (filled.size_in_bytes, offsets(filled), filled.end_of_data.kind.name) == (size, [0, 1, 2], "END")
    seam.mend()


def test_bytes_of_a_failed_append_are_cut_off_before_the_next_append(
    path: Path, filled: FileMessageSet, seam: Seam, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_truncation(monkeypatch)
    seam.fail_after(150, no_space())
    with pytest.raises(OSError, match="could not be cut off"):
        filled.append(sized_batch(3))
    for _ in range(2):
        with pytest.raises(OSError, match=f"{os.strerror(errno.EROFS)}.*{path}"):
            filled.append(sized_batch(3, size=1))
    seam.mend()
    # Shorter than what lies there.
    filled.append(sized_batch(3, size=1))
    assert offsets(filled) == [0, 1, 2, 3]
    filled.trim()
    assert FileMessageSet(path).end_of_data.kind.name == "END"


def test_bytes_of_a_failed_append_are_cut_off_on_closing(
    path: Path, filled: FileMessageSet, seam: Seam, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_truncation(monkeypatch)
    seam.fail_after(50, no_space())
    with pytest.raises(OSError, match="could not be cut off"):
        filled.append(sized_batch(3))
    seam.mend()
    filled.close()
    assert FileMessageSet(path).end_of_data.kind.name == "END"
    assert offsets(FileMessageSet(path)) == [0, 1, 2]


def test_a_truncation_that_fails_changes_nothing(
    path: Path, filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()
    broken_truncation(monkeypatch)
    with pytest.raises(OSError, match=str(path)) as error:
        filled.truncate_to(0)
    assert error.value.errno == errno.EROFS
    monkeypatch.undo()
    assert (path.read_bytes(), offsets(filled)) == (before, [0, 1, 2])
    filled.append(sized_batch(3))
    assert offsets(filled) == [0, 1, 2, 3]


def test_an_interrupted_truncation_leaves_no_hole(
    path: Path, filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncate = os.ftruncate

    def interrupted(fd: int, size: int) -> NoReturn:
        truncate(fd, size)
        raise KeyboardInterrupt

    # The file has been cut by then, and what is written next still goes to where it ended.
    monkeypatch.setattr(os, "ftruncate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        filled.truncate_to(sized_batch(0).size_in_bytes)
    monkeypatch.undo()
    assert offsets(filled) == [0]
    filled.append(sized_batch(1))
    assert offsets(filled) == offsets(FileMessageSet(path)) == [0, 1]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system reserves nothing")
def test_an_append_whose_undoing_cannot_preallocate_again_says_so(
    path: Path, seam: Seam, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise no_space()

    with FileMessageSet(path, read_only=False, preallocate_bytes=4 * KIB) as messages:
        messages.append(sized_batch(0))
        monkeypatch.setattr(os, "posix_fallocate", full)
        seam.fail_after(50, OSError(errno.EIO, os.strerror(errno.EIO)))
        with pytest.raises(OSError, match="as it was before but for what was preallocated"):
            messages.append(sized_batch(1))
        assert path.stat().st_size == messages.size_in_bytes
        seam.mend()
        messages.append(sized_batch(1))
        assert offsets(messages) == [0, 1]


# --- flushing fails


def test_a_failed_flush_names_the_file(filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: int) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=filled.path):
        filled.flush()
    monkeypatch.undo()


def test_a_file_whose_last_flush_fails_is_trimmed_and_closed_all_the_same(
    path: Path, filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: int) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    size = filled.size_in_bytes
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        filled.close()
    monkeypatch.undo()
    assert path.stat().st_size == size
    # The error's traceback has the descriptor as long as there is one; from Python 3.13 on in a cycle.
    gc.collect()
    assert str(path) not in [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    filled.close()


# --- readers meanwhile


def test_failing_appends_disturb_no_reader_in_another_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[object] = []
    done = threading.Event()
    chance = random.Random(5)

    def flaky(fd: int, data: memoryview, at: int) -> int:
        if chance.random() < 0.3:
            raise no_space()
        return ORIGINAL_WRITE(fd, data[:40], at)

    def read() -> None:
        while not done.is_set():
            found = offsets(messages)
            if found != list(range(len(found))) or messages.end_of_data.kind.name != "END":
                problems.append(found)

    with FileMessageSet(path, read_only=False) as messages:
        reader = threading.Thread(target=read)
        reader.start()
        monkeypatch.setattr(os, "pwrite", flaky)
        offset = failures = 0
        try:
            while offset < 100:
                assert failures < 10_000, "appends fail always"
                try:
                    messages.append(sized_batch(offset, size=offset % 7))
                    offset += 1
                except OSError:
                    failures += 1
        finally:
            done.set()
            reader.join()
            monkeypatch.undo()
        assert offsets(messages) == list(range(100))
    assert not problems
    assert failures > 50
