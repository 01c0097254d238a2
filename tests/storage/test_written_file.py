"""A file being written whose path changes, and how it is closed and deleted."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkalog import FileMessageSet
from kafkalog.errors import LogStateError
from tests.helpers.written_files import batch, offsets

# --- where the file is


def test_a_relative_path_is_deleted_after_a_change_of_directory(
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


def test_a_relative_path_is_flushed_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with FileMessageSet("sub/a.log", read_only=False) as messages:
        monkeypatch.chdir("/")
        messages.flush()


def test_a_file_that_replaced_the_opened_one_is_not_deleted(path: Path, written: FileMessageSet) -> None:
    other = path.with_name("other")
    other.write_bytes(b"another file")
    other.replace(path)
    assert not written.delete()
    assert path.read_bytes() == b"another file"


def test_a_dangling_link_creates_its_target_preallocated(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere.log")
    with FileMessageSet(path, read_only=False, preallocate_bytes=1000):
        assert (tmp_path / "elsewhere.log").stat().st_size == 1000


# --- slices and closing


def test_leaving_a_slice_does_not_close_the_file(written: FileMessageSet) -> None:
    with written.read(0, written.size_in_bytes) as part:
        assert offsets(part) == [0, 1, 2]
    written.append(batch(3))
    written.close()
    assert (written.closed, part.closed) == (True, True)


def test_truncate_to_accepts_only_whole_numbers(written: FileMessageSet) -> None:
    wrong: list[Any] = [True, "5", 5.0]
    for size in wrong:
        with pytest.raises(TypeError, match="size is a whole number of bytes"):
            written.truncate_to(size)
    right: Any = np.uint8(batch(0).size_in_bytes)
    written.truncate_to(right)
    for offset in range(1, 9):
        written.append(batch(offset))
    assert offsets(written) == list(range(9))


# --- flushing, closing


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the names of the files that are synced from now on."""
    names: list[str] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        names.append(Path(f"/dev/fd/{fd}").resolve().name)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    return names


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/fd tells the names; macOS syncs by another call")
def test_flushing_syncs_the_file_and_the_directory_that_has_its_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = synced(monkeypatch)
    with FileMessageSet(path, read_only=False) as messages:
        messages.append(batch(0))
        assert names == []
        messages.flush()
        assert names == [path.name, path.parent.name]
        messages.flush()
        assert names[2:] == [path.name]
    assert names[3:] == [path.name]
    with FileMessageSet(path, read_only=False) as messages:
        messages.flush()
        assert names[4:] == [path.name]
    FileMessageSet(path).flush()
    assert len(names) == 6


def test_a_closed_set_neither_reads_nor_writes_and_closes_again(path: Path, written: FileMessageSet) -> None:
    written.close()
    written.close()
    uses: list[Callable[[FileMessageSet], object]] = [
        lambda messages: messages.append(batch(9)),
        lambda messages: messages.truncate_to(0),
        lambda messages: messages.trim(),
        lambda messages: messages.flush(),
        lambda messages: messages.size_in_bytes,
        list,
        lambda messages: messages.write_to(io.BytesIO()),
    ]
    before = path.read_bytes()
    for use in uses:
        with pytest.raises(LogStateError, match="closed"):
            use(written)
    assert path.read_bytes() == before


def test_an_exception_in_the_with_block_closes_the_file(path: Path) -> None:
    def fail() -> None:
        with FileMessageSet(path, read_only=False, preallocate_bytes=1 << 20) as messages:
            messages.append(batch(0))
            raise RuntimeError("elsewhere")

    with pytest.raises(RuntimeError, match="elsewhere"):
        fail()
    assert path.stat().st_size == batch(0).size_in_bytes


def test_an_unclosed_set_raises_a_resource_warning(path: Path) -> None:
    messages = FileMessageSet(path, read_only=False)
    messages.append(batch(0))
    with pytest.warns(ResourceWarning, match=r"00000000000000000000\.log"):
        del messages
    assert offsets(FileMessageSet(path)) == [0]


# --- deleting


def test_a_file_is_deleted_only_once(path: Path, written: FileMessageSet) -> None:
    assert written.delete()
    assert not path.exists()
    assert not written.delete()
    written.close()
    with pytest.raises(LogStateError, match="closed"):
        written.append(batch(3))


def test_a_closed_file_can_be_deleted(path: Path, written: FileMessageSet) -> None:
    written.close()
    assert written.delete()
    assert not path.exists()


def test_deleting_returns_false_if_the_file_is_already_gone(path: Path, written: FileMessageSet) -> None:
    path.unlink()
    assert not written.delete()


def test_errors_while_deleting_are_logged(
    path: Path, written: FileMessageSet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "not to be deleted")

    close = os.close

    def failing_close(fd: int) -> None:
        close(fd)
        raise OSError(errno.EIO, "not to be closed")

    monkeypatch.setattr(Path, "unlink", refused)
    monkeypatch.setattr(os, "close", failing_close)
    with caplog.at_level(logging.WARNING, "kafkalog"):
        deleted = written.delete()
    monkeypatch.undo()
    assert not deleted
    assert path.exists()
    assert [str(path) in message for message in caplog.messages] == [True, True]
    assert "not to be closed" in caplog.text
    assert "not to be deleted" in caplog.text
    assert written.delete()
