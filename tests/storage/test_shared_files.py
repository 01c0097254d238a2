"""Others at a file that is written to: they delete, replace, move, cut, lock, inherit or read it meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import FileMessageSet
from kafkalog.errors import CorruptRecordError, LogLockedError
from kafkalog.storage.files import appendable_file as appending
from tests.helpers.written_files import offsets, sized_batch

KIB = 1 << 10


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """So late that it is time to look whether a file is at its path still."""
    now = time.monotonic() + appending.SECONDS_BETWEEN_LOOKS
    monkeypatch.setattr(appending, "monotonic", lambda: now)


def test_nothing_is_appended_to_a_file_that_was_deleted(
    path: Path, filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.unlink()
    later(monkeypatch)
    with pytest.raises(FileNotFoundError, match="deleted, renamed or replaced") as error:
        filled.append(sized_batch(3))
    assert error.value.filename == str(path)
    assert offsets(filled) == [0, 1, 2]


def test_nothing_is_appended_to_a_file_that_was_replaced(
    path: Path, filled: FileMessageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch)
    other = tmp_path / "other"
    other.write_bytes(b"another file")
    other.replace(path)
    for write in (lambda: filled.append(sized_batch(3)), lambda: filled.truncate_to(0)):
        with pytest.raises(FileNotFoundError, match="deleted, renamed or replaced"):
            write()
    # Whoever reads has the file that was opened.
    assert offsets(filled) == [0, 1, 2]
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
    path: Path, filled: FileMessageSet, monkeypatch: pytest.MonkeyPatch, move: Callable[[Path], None]
) -> None:
    now = time.monotonic() + 3600
    monkeypatch.setattr(appending, "monotonic", lambda: now)
    filled.append(sized_batch(3))
    move(path)
    # Between looks it is not asked for.
    filled.append(sized_batch(4))
    for call in (filled.flush, lambda: filled.append(sized_batch(5))):
        now += appending.SECONDS_BETWEEN_LOOKS
        with pytest.raises(FileNotFoundError, match="renamed") as error:
            call()
        assert error.value.filename == str(path)
    assert offsets(filled) == [0, 1, 2, 3, 4]


def test_a_file_whose_owner_says_where_it_went_or_wants_no_look_is_appended_to(path: Path, tmp_path: Path) -> None:
    for number, wanted in enumerate((True, False)):
        with FileMessageSet(path, read_only=False, check_path=wanted) as messages:
            messages.append(sized_batch(0))
            moved = path.rename(tmp_path / f"moved-{number}.log")
            if wanted:
                messages.moved_to(moved)
            messages.append(sized_batch(1))
            messages.flush()
        assert offsets(FileMessageSet(moved)) == [0, 1]


def test_what_is_written_goes_to_the_end_wherever_a_shared_descriptor_stands(
    path: Path, filled: FileMessageSet
) -> None:
    os.lseek(filled._file.fileno(), 5, os.SEEK_SET)
    filled.append(sized_batch(3))
    assert offsets(filled) == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_nothing_is_appended_to_a_file_that_another_has_cut_or_grown(
    path: Path, filled: FileMessageSet, size: int
) -> None:
    """At the place where the next byte would go, there would be a hole, or another writer's batch."""
    length = path.stat().st_size
    os.truncate(path, size)
    for write in (lambda: filled.append(sized_batch(3)), lambda: filled.truncate_to(0)):
        with pytest.raises(CorruptRecordError, match="somebody else") as error:
            write()
        assert (error.value.path, error.value.expected, error.value.found) == (str(path), f"{length} bytes", size)
    assert path.stat().st_size == size
    os.truncate(path, length)


def test_of_two_writers_the_second_is_stopped(path: Path) -> None:
    with FileMessageSet(path, read_only=False) as first:
        first.append(sized_batch(0))
        with pytest.raises(LogLockedError, match="somebody else") as error:
            FileMessageSet(path, read_only=False)
        assert error.value.path == str(path)
        first.append(sized_batch(1))
    with FileMessageSet(path, read_only=False) as second:
        assert offsets(second) == [0, 1]


def test_a_file_that_was_closed_can_be_written_to_although_a_child_has_it_open_still(path: Path) -> None:
    first = FileMessageSet(path, read_only=False)
    with open(os.dup(first._file.fileno()), "rb"):
        first.close()
        with FileMessageSet(path, read_only=False) as second:
            second.append(sized_batch(0))


def test_another_process_cannot_append_to_a_file_that_is_being_written_to(path: Path) -> None:
    program = f"import kafkalog; kafkalog.FileMessageSet({str(path)!r}, read_only=False)"
    with FileMessageSet(path, read_only=False):
        outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "LogLockedError" in outcome.stderr
