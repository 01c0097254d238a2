"""What goes wrong while a file is written: it is then as it was before, or the error says that it is not.

Where the system can be brought to fail by itself it is: full disks, limits, read-only mounts. Else the one call that
writes, `os.pwrite`, fails in its place.
"""

from __future__ import annotations

import errno
import gc
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from kafkalog import ByteBufferMessageSet, FileMessageSet
from kafkalog.errors import CorruptRecordError, LogLockedError, NotALogError
from kafkalog.record.builder import BatchSettings, RecordsBuilder
from kafkalog.storage import appending

KIB = 1 << 10
Write = Callable[[int, bytes | bytearray | memoryview, int], int]


def batch(offset: int, size: int = 100) -> ByteBufferMessageSet:
    builder = RecordsBuilder(BatchSettings(base_offset=offset))
    builder.append(bytes([offset % 251 + 1]) * size, timestamp=offset)
    return ByteBufferMessageSet(bytes(builder.build()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


@pytest.fixture(params=[0, 4 * KIB], ids=["grown", "preallocated"])
def written(request: pytest.FixtureRequest, path: Path) -> Iterator[FileMessageSet]:
    """A file of three batches, open for more; with room for more on disk, or without."""
    with FileMessageSet(path, read_only=False, preallocate_bytes=request.param) as messages:
        for offset in range(3):
            messages.append(batch(offset))
        yield messages


def offsets(messages: FileMessageSet) -> list[int]:
    return [record.offset for record in messages]


class Seam:
    """Stands in the place of `os.pwrite`: so many bytes at a time, and an end to them."""

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
def test_a_system_that_takes_little_at_a_time_gets_all(
    path: Path, written: FileMessageSet, seam: Seam, at_a_time: int
) -> None:
    seam.fail_after(10**9, no_space(), at_a_time)
    size = batch(3).size_in_bytes
    assert written.append(batch(3)) == size
    seam.mend()
    assert seam.calls == -(-size // at_a_time)
    assert offsets(written) == offsets(FileMessageSet(path)) == [0, 1, 2, 3]


def test_a_system_that_takes_nothing_is_an_error_and_no_endless_loop(
    written: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="takes no bytes") as error:
        written.append(batch(3))
    assert error.value.errno == errno.EIO
    monkeypatch.undo()
    assert offsets(written) == [0, 1, 2]


# --- an append that fails


@pytest.mark.parametrize("taken", [0, 1, 12, 61, 100])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR, errno.EFBIG])
def test_an_append_that_fails_leaves_the_file_as_it_was_and_says_so(
    path: Path, written: FileMessageSet, seam: Seam, taken: int, number: int
) -> None:
    before, size = path.read_bytes(), written.size_in_bytes
    seam.fail_after(taken, OSError(number, os.strerror(number)))
    with pytest.raises(OSError, match="as it was") as error:
        written.append(batch(3))
    seam.mend()
    assert (error.value.errno, error.value.filename) == (number, str(path))
    assert type(error.value) is type(OSError(number, ""))
    for part in (os.strerror(number), f"appending {batch(3).size_in_bytes} bytes to {size}"):
        assert part in str(error.value)
    assert path.read_bytes() == before
    assert (written.size_in_bytes, offsets(written)) == (size, [0, 1, 2])
    assert written.append(batch(3)) == batch(3).size_in_bytes
    assert offsets(written) == [0, 1, 2, 3]


def test_a_reader_never_sees_half_of_an_append(written: FileMessageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], int, str]] = []

    def watched(fd: int, data: memoryview, at: int) -> int:
        taken = ORIGINAL_WRITE(fd, data[:10], at)
        seen.append((offsets(written), written.size_in_bytes, written.end_of_data.kind.name))
        return taken

    size = written.size_in_bytes
    monkeypatch.setattr(os, "pwrite", watched)
    written.append(batch(3))
    assert seen == [([0, 1, 2], size, "END")] * len(seen)
    assert len(seen) > 10
    assert offsets(written) == [0, 1, 2, 3]


def test_a_signal_that_breaks_off_an_append_takes_it_back(path: Path, written: FileMessageSet, seam: Seam) -> None:
    before = path.read_bytes()
    seam.fail_after(50, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as error:
        written.append(batch(3))
    seam.mend()
    assert path.read_bytes() == before
    assert "as it was before" in error.value.__notes__[0]
    written.append(batch(3))
    assert offsets(written) == [0, 1, 2, 3]


def test_a_signal_that_is_handled_does_not_disturb_an_append(
    path: Path, written: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one, again and again, while a message set larger than any one write goes out."""
    signals = []

    def write(fd: int, data: memoryview, at: int) -> int:
        os.kill(os.getpid(), signal.SIGUSR1)
        return ORIGINAL_WRITE(fd, data[: 100 * KIB], at)

    before = signal.signal(signal.SIGUSR1, lambda *_: signals.append(1))
    monkeypatch.setattr(os, "pwrite", write)
    try:
        written.append(batch(3, size=4 << 20))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(signals) > 40
    assert offsets(written) == [0, 1, 2, 3]
    assert all(each.is_valid for each in FileMessageSet(path, end=written.size_in_bytes).batches())


class TakenBack(Exception):
    """What a signal handler raises."""


def test_a_signal_handler_that_raises_takes_the_append_back(
    path: Path, written: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(*_: object) -> NoReturn:
        raise TakenBack

    def write(fd: int, data: memoryview, at: int) -> int:
        taken = ORIGINAL_WRITE(fd, data[:50], at)
        os.kill(os.getpid(), signal.SIGUSR1)
        return taken

    content = path.read_bytes()
    before = signal.signal(signal.SIGUSR1, handler)
    monkeypatch.setattr(os, "pwrite", write)
    try:
        with pytest.raises(TakenBack):
            written.append(batch(3))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert path.read_bytes() == content
    assert offsets(written) == [0, 1, 2]


def test_a_source_that_breaks_off_is_the_error_and_nothing_is_appended(
    path: Path, written: FileMessageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.log"
    source.write_bytes(bytes(3 << 20))

    def write(fd: int, data: memoryview, at: int) -> int:
        os.truncate(source, 5)
        return ORIGINAL_WRITE(fd, data, at)

    before = path.read_bytes()
    monkeypatch.setattr(os, "pwrite", write)
    with pytest.raises(CorruptRecordError, match="shorter") as error:
        written.append(FileMessageSet(source))
    assert error.value.path == str(source)
    assert path.read_bytes() == before


# --- taking it back fails too


def broken_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "ftruncate", refused)


def test_where_taking_it_back_fails_too_the_error_says_both(
    path: Path, written: FileMessageSet, seam: Seam, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = written.size_in_bytes
    broken_truncation(monkeypatch)
    seam.fail_after(50, no_space())
    with pytest.raises(OSError, match="could not be cut off") as error:
        written.append(batch(3))
    assert error.value.errno == errno.ENOSPC
    assert os.strerror(errno.ENOSPC) in str(error.value)
    assert os.strerror(errno.EROFS) in str(error.value)
    # The bytes are there, and no reader of this object sees them.
    with path.open("rb") as file:
        file.seek(size)
        assert file.read(50).strip(b"\0")
    assert (written.size_in_bytes, offsets(written), written.end_of_data.kind.name) == (size, [0, 1, 2], "END")
    seam.mend()


def test_what_could_not_be_taken_back_is_cut_off_before_the_next_append(
    path: Path, written: FileMessageSet, seam: Seam, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_truncation(monkeypatch)
    seam.fail_after(150, no_space())
    with pytest.raises(OSError, match="could not be cut off"):
        written.append(batch(3))
    for _ in range(2):
        with pytest.raises(OSError, match=f"{os.strerror(errno.EROFS)}.*{path}"):
            written.append(batch(3, size=1))
    seam.mend()
    # Shorter than what lies there.
    written.append(batch(3, size=1))
    assert offsets(written) == [0, 1, 2, 3]
    written.trim()
    assert FileMessageSet(path).end_of_data.kind.name == "END"


def test_what_could_not_be_taken_back_is_cut_off_on_closing(
    path: Path, written: FileMessageSet, seam: Seam, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_truncation(monkeypatch)
    seam.fail_after(50, no_space())
    with pytest.raises(OSError, match="could not be cut off"):
        written.append(batch(3))
    seam.mend()
    written.close()
    assert FileMessageSet(path).end_of_data.kind.name == "END"
    assert offsets(FileMessageSet(path)) == [0, 1, 2]


def test_a_truncation_that_fails_changes_nothing(
    path: Path, written: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()
    broken_truncation(monkeypatch)
    with pytest.raises(OSError, match=str(path)) as error:
        written.truncate_to(0)
    assert error.value.errno == errno.EROFS
    monkeypatch.undo()
    assert (path.read_bytes(), offsets(written)) == (before, [0, 1, 2])
    written.append(batch(3))
    assert offsets(written) == [0, 1, 2, 3]


def test_a_truncation_that_is_broken_off_leaves_no_hole(
    path: Path, written: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncate = os.ftruncate

    def interrupted(fd: int, size: int) -> NoReturn:
        truncate(fd, size)
        raise KeyboardInterrupt

    # The file has been cut by then, and what is written next still goes to where it ended.
    monkeypatch.setattr(os, "ftruncate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        written.truncate_to(batch(0).size_in_bytes)
    monkeypatch.undo()
    assert offsets(written) == [0]
    written.append(batch(1))
    assert offsets(written) == offsets(FileMessageSet(path)) == [0, 1]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system reserves nothing")
def test_a_reservation_that_cannot_be_made_again_is_told(
    path: Path, seam: Seam, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise no_space()

    with FileMessageSet(path, read_only=False, preallocate_bytes=4 * KIB) as messages:
        messages.append(batch(0))
        monkeypatch.setattr(os, "posix_fallocate", full)
        seam.fail_after(50, OSError(errno.EIO, os.strerror(errno.EIO)))
        with pytest.raises(OSError, match="as it was before but for what was preallocated"):
            messages.append(batch(1))
        assert path.stat().st_size == messages.size_in_bytes
        seam.mend()
        messages.append(batch(1))
        assert offsets(messages) == [0, 1]


# --- flushing fails


def test_a_flush_that_fails_says_which_file(written: FileMessageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: int) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=written.path):
        written.flush()
    monkeypatch.undo()


def test_a_file_whose_last_flush_fails_is_trimmed_and_closed_all_the_same(
    path: Path, written: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: int) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    size, fd = written.size_in_bytes, int(written._file.fileno())
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        written.close()
    monkeypatch.undo()
    assert path.stat().st_size == size
    # The error's traceback has the descriptor as long as there is one; from Python 3.13 on in a cycle.
    gc.collect()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(fd)
    written.close()


# --- real disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    if mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)):
        pytest.skip("this process may not mount a file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def mount(*arguments: str) -> int:
    if sys.platform != "linux" or not shutil.which("mount"):
        return 1
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode


def test_a_full_disk_leaves_whole_batches_and_the_error(small_disk: Path) -> None:
    path = small_disk / "00000000000000000000.log"
    large, small = batch(0, size=10_000), batch(0, size=500)
    with FileMessageSet(path, read_only=False) as messages:
        fitting = (64 * KIB) // large.size_in_bytes
        for offset in range(fitting):
            messages.append(batch(offset, size=10_000))
        with pytest.raises(OSError, match="as it was") as error:
            messages.append(batch(fitting, size=10_000))
        assert error.value.errno == errno.ENOSPC
        assert path.read_bytes() == b"".join(
            bytes(batch(i, 10_000)._view(0, large.size_in_bytes)) for i in range(fitting)
        )
        assert offsets(messages) == list(range(fitting))
        # The blocks of the failed one are free again.
        assert messages.append(batch(fitting, size=500)) == small.size_in_bytes
        assert messages.truncate_to(0)
        assert messages.append(batch(0, size=10_000)) == large.size_in_bytes


def test_a_file_that_the_disk_cannot_hold_is_not_preallocated_and_not_left(small_disk: Path) -> None:
    path = small_disk / "00000000000000000000.log"
    with pytest.raises(OSError, match=str(path)) as error:
        FileMessageSet(path, read_only=False, preallocate_bytes=1 << 20)
    assert error.value.errno == errno.ENOSPC
    assert list(small_disk.iterdir()) == []


def test_what_is_preallocated_is_there_when_the_disk_is_full(small_disk: Path) -> None:
    path = small_disk / "00000000000000000000.log"
    with FileMessageSet(path, read_only=False, preallocate_bytes=32 * KIB) as messages:
        with pytest.raises(OSError, match="No space"):
            (small_disk / "other").write_bytes(bytes(64 * KIB))
        for offset in range(3):
            messages.append(batch(offset, size=10_000))
        assert offsets(messages) == [0, 1, 2]
        before = path.read_bytes()
        with pytest.raises(OSError, match=r"as it was|could not"):
            messages.append(batch(3, size=20_000))
        assert path.read_bytes() == before
        assert offsets(messages) == [0, 1, 2]


def test_a_file_system_that_became_read_only_says_so(small_disk: Path) -> None:
    path = small_disk / "00000000000000000000.log"
    with FileMessageSet(path, read_only=False) as messages:
        messages.append(batch(0))
    assert mount("-o", "remount,ro", str(small_disk)) == 0
    with pytest.raises(OSError, match=str(path)) as error:
        FileMessageSet(path, read_only=False)
    assert error.value.errno == errno.EROFS
    assert offsets(FileMessageSet(path)) == [0]


def test_a_limit_on_file_sizes_leaves_whole_batches_and_the_error(path: Path) -> None:
    """Python ignores SIGXFSZ, so that the system takes a part, and then fails."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with FileMessageSet(path, read_only=False) as messages:
        messages.append(batch(0, size=600 * KIB))
        before = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        try:
            with pytest.raises(OSError, match="as it was") as error:
                messages.append(batch(1, size=600 * KIB))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert error.value.errno == errno.EFBIG
        assert path.read_bytes() == before
        messages.append(batch(1))
        assert offsets(messages) == [0, 1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("path", ["/dev/full", "/dev/null", "a directory", "a pipe"])
def test_what_is_no_file_is_neither_written_to_nor_deleted(tmp_path: Path, path: str) -> None:
    (tmp_path / "a directory").mkdir()
    os.mkfifo(tmp_path / "a pipe")
    with pytest.raises(NotALogError, match=path):
        FileMessageSet(tmp_path / path, read_only=False)
    assert (tmp_path / path).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to any directory")
def test_a_read_only_directory_is_told(tmp_path: Path) -> None:
    directory = tmp_path / "closed"
    directory.mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="closed"):
        FileMessageSet(directory / "00000000000000000000.log", read_only=False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root deletes from any directory")
def test_a_file_in_a_read_only_directory_is_not_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "closed"
    directory.mkdir()
    messages = FileMessageSet(directory / "00000000000000000000.log", read_only=False)
    directory.chmod(0o500)
    assert not messages.delete()
    assert "Permission denied" in caplog.text
    directory.chmod(0o700)


def test_a_missing_directory_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileMessageSet(tmp_path / "no" / "such.log", read_only=False)


# --- others at the same file


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """So late that it is time to look whether a file is at its path still."""
    now = time.monotonic() + appending.SECONDS_BETWEEN_LOOKS
    monkeypatch.setattr(appending, "monotonic", lambda: now)


def test_nothing_is_appended_to_a_file_that_was_deleted(
    path: Path, written: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.unlink()
    later(monkeypatch)
    with pytest.raises(FileNotFoundError, match="deleted, renamed or replaced") as error:
        written.append(batch(3))
    assert error.value.filename == str(path)
    assert offsets(written) == [0, 1, 2]


def test_nothing_is_appended_to_a_file_that_was_replaced(
    path: Path, written: FileMessageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch)
    other = tmp_path / "other"
    other.write_bytes(b"another file")
    other.replace(path)
    for write in (lambda: written.append(batch(3)), lambda: written.truncate_to(0)):
        with pytest.raises(FileNotFoundError, match="deleted, renamed or replaced"):
            write()
    # Whoever reads has the file that was opened.
    assert offsets(written) == [0, 1, 2]
    assert path.read_bytes() == b"another file"


def moved_away(path: Path) -> None:
    path.rename(path.with_suffix(".deleted"))


def moved_away_with_another_in_its_place(path: Path) -> None:
    path.rename(path.with_suffix(".deleted"))
    path.touch()


def replaced_and_kept_by_another_name(path: Path) -> None:
    path.with_suffix(".backup").hardlink_to(path)
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize("move", [moved_away, moved_away_with_another_in_its_place, replaced_and_kept_by_another_name])
def test_a_file_that_has_another_name_now_is_missed_at_the_next_look(
    path: Path, written: FileMessageSet, monkeypatch: pytest.MonkeyPatch, move: Callable[[Path], None]
) -> None:
    now = time.monotonic() + 3600
    monkeypatch.setattr(appending, "monotonic", lambda: now)
    written.append(batch(3))
    move(path)
    # Between looks it is not asked for.
    written.append(batch(4))
    for call in (written.flush, lambda: written.append(batch(5))):
        now += appending.SECONDS_BETWEEN_LOOKS
        with pytest.raises(FileNotFoundError, match="renamed") as error:
            call()
        assert error.value.filename == str(path)
    assert offsets(written) == [0, 1, 2, 3, 4]


def test_a_file_whose_owner_says_where_it_went_or_wants_no_look_is_appended_to(path: Path, tmp_path: Path) -> None:
    for number, wanted in enumerate((True, False)):
        with FileMessageSet(path, read_only=False, check_path=wanted) as messages:
            messages.append(batch(0))
            moved = path.rename(tmp_path / f"moved-{number}.log")
            if wanted:
                messages.moved_to(moved)
            messages.append(batch(1))
            messages.flush()
        assert offsets(FileMessageSet(moved)) == [0, 1]


def test_what_is_written_goes_to_the_end_wherever_a_shared_descriptor_stands(
    path: Path, written: FileMessageSet
) -> None:
    os.lseek(written._file.fileno(), 5, os.SEEK_SET)
    written.append(batch(3))
    assert offsets(written) == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_nothing_is_appended_to_a_file_that_another_has_cut_or_grown(
    path: Path, written: FileMessageSet, size: int
) -> None:
    """At the place where the next byte would go, there would be a hole, or another writer's batch."""
    length = path.stat().st_size
    os.truncate(path, size)
    for write in (lambda: written.append(batch(3)), lambda: written.truncate_to(0)):
        with pytest.raises(CorruptRecordError, match="somebody else") as error:
            write()
        assert (error.value.path, error.value.expected, error.value.found) == (str(path), f"{length} bytes", size)
    assert path.stat().st_size == size
    os.truncate(path, length)


def test_of_two_writers_the_second_is_stopped(path: Path) -> None:
    with FileMessageSet(path, read_only=False) as first:
        first.append(batch(0))
        with pytest.raises(LogLockedError, match="somebody else") as error:
            FileMessageSet(path, read_only=False)
        assert error.value.path == str(path)
        first.append(batch(1))
    with FileMessageSet(path, read_only=False) as second:
        assert offsets(second) == [0, 1]


def test_a_file_that_was_closed_can_be_written_to_although_a_child_has_it_open_still(path: Path) -> None:
    first = FileMessageSet(path, read_only=False)
    with open(os.dup(first._file.fileno()), "rb"):
        first.close()
        with FileMessageSet(path, read_only=False) as second:
            second.append(batch(0))


def test_another_process_cannot_append_to_a_file_that_is_being_written_to(path: Path) -> None:
    program = f"import kafkalog; kafkalog.FileMessageSet({str(path)!r}, read_only=False)"
    with FileMessageSet(path, read_only=False):
        outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "LogLockedError" in outcome.stderr


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
        while offset < 100:
            try:
                messages.append(batch(offset, size=offset % 7))
                offset += 1
            except OSError:
                failures += 1
        done.set()
        reader.join()
        monkeypatch.undo()
        assert offsets(messages) == list(range(100))
    assert not problems
    assert failures > 50
