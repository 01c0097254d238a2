"""What is exported: a new file, whole, and never in a log."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any, Self

import pytest

from kafkalog.inspector.exporting import write_new

DATA = Path(__file__).parents[1] / "data" / "v2-zstd-0"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return shutil.copytree(DATA, tmp_path / "data" / "v2-zstd-0")


def test_bytes_are_written_to_a_new_file_and_over_none(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "value"
    assert write_new(str(path), b"abc", log) == path
    with pytest.raises(OSError, match=r"^File exists: "):
        write_new(str(path), b"def", log)
    assert path.read_bytes() == b"abc"


@pytest.mark.parametrize("looked_at", ["", f"{0:020d}.log"])
@pytest.mark.parametrize("name", ["value", f"{99999:020d}.log"])
def test_nothing_is_written_beside_the_inspected_segments(log: Path, looked_at: str, name: str) -> None:
    before = sorted(log.iterdir())
    with pytest.raises(OSError, match="nothing is written into a log"):
        write_new(str(log / name), b"abc", log / looked_at)
    assert sorted(log.iterdir()) == before


@pytest.mark.parametrize("place", ["data/value", "data/other-0/value", "link/value"])
def test_nothing_is_written_to_the_data_directory_around_the_partition(log: Path, tmp_path: Path, place: str) -> None:
    (log.parent / "meta.properties").touch()
    (log.parent / "other-0").mkdir()
    (tmp_path / "link").symlink_to(log.parent)
    with pytest.raises(OSError, match="nothing is written into a log"):
        write_new(str(tmp_path / place), b"abc", log)
    assert not list(tmp_path.rglob("value"))


def test_a_partly_written_file_is_removed_when_the_disk_is_full(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    class Full:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def write(self, data: bytes) -> None:
            self._file.write(data[:1])
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode: Full(opened(path, mode)))
        with pytest.raises(OSError, match="No space left"):
            write_new(str(tmp_path / "value"), b"abc", log)
    assert not (tmp_path / "value").exists()


def test_an_unknown_user_in_the_path_is_an_error(log: Path) -> None:
    with pytest.raises(OSError, match="~nosuchuser/x"):
        write_new("~nosuchuser/x", b"abc", log)


@pytest.mark.parametrize("name", ["n" * 300, "none/" * 50 + "x", "n" * 300 + "/x"])
def test_an_error_begins_with_the_reason_however_long_the_path_is(log: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"^(File name too long|No such file or directory): /"):
        write_new(str(tmp_path / name), b"abc", log)
