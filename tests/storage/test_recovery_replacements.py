"""Loading a log whose replacement of segments was interrupted, at each step."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.errors import CorruptRecordError
from kafkalog.storage.file_names import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from tests.helpers.partition_dirs import (
    bytes_of,
    change,
    closed,
    copy_of,
    loaded,
    log_file,
    log_of,
    names,
    numbered,
    snapshot_offsets,
    write_segments,
)

ENDINGS = (".log", ".index", ".timeindex")


def add_suffix(directory: Path, base_offset: int, suffix: str) -> None:
    for ending in ENDINGS:
        path = log_file(directory, base_offset, ending)
        path.rename(path.with_name(path.name + suffix))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Segments at 0, 10, 20 and 30, closed."""
    return log_of(tmp_path / "old", segments=4)


def bring(new: Path, into: Path, base_offset: int, suffix: str) -> None:
    for ending in ENDINGS:
        data = log_file(new, base_offset, ending).read_bytes()
        log_file(into, base_offset, ending + suffix).write_bytes(data)


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    """A segment at 10 as compaction would make it of those at 10 and 20, with a few of their records."""
    directory = tmp_path / "merged"
    kept = [*numbered(12, 2), *numbered(29, 1)]
    write_segments(directory, {10: kept})
    closed(directory, log_start=10)
    return directory


KEPT_ALL = list(range(40))
KEPT_SOME = [*range(10), 12, 13, 29, *range(30, 40)]


def test_incomplete_cleaned_files_are_deleted_and_the_old_segments_stay(old: Path, merged: Path) -> None:
    bring(merged, old, 10, CLEANED_SUFFIX)
    change(log_file(old, 10, ".log.cleaned"), lambda data: data[:50])
    with loaded(old, clean=True) as opened:
        assert [offset for offset, _ in opened.records()] == KEPT_ALL
    assert names(old, CLEANED_SUFFIX) == []


def test_swap_files_beside_cleaned_files_are_deleted(old: Path, merged: Path) -> None:
    bring(merged, old, 10, CLEANED_SUFFIX)
    bring(old, old, 20, SWAP_SUFFIX)
    with loaded(old, clean=True) as opened:
        assert [offset for offset, _ in opened.records()] == KEPT_ALL
    assert names(old, CLEANED_SUFFIX) == names(old, SWAP_SUFFIX) == []


def test_complete_swap_files_replace_the_segments_in_their_range(
    old: Path, merged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bring(merged, old, 10, SWAP_SUFFIX)
    with loaded(old, clean=True) as opened:
        assert opened.bases == [0, 10, 30]
        assert [offset for offset, _ in opened.records()] == KEPT_SOME
    assert names(old, SWAP_SUFFIX) == []
    assert 20 not in snapshot_offsets(old)
    assert f"{log_file(old, 20)}: deleted" in caplog.text


@pytest.mark.parametrize("renamed", [[], [10], [20], [10, 20]])
def test_old_segments_renamed_for_deletion_are_deleted_with_the_replacement(
    old: Path, merged: Path, renamed: list[int]
) -> None:
    for base_offset in renamed:
        add_suffix(old, base_offset, DELETED_SUFFIX)
    bring(merged, old, 10, SWAP_SUFFIX)
    with loaded(old, clean=True) as opened:
        assert [offset for offset, _ in opened.records()] == KEPT_SOME
    assert names(old, DELETED_SUFFIX) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_half_renamed_replacement_is_completed(old: Path, merged: Path, ending: str) -> None:
    add_suffix(old, 10, DELETED_SUFFIX)
    add_suffix(old, 20, DELETED_SUFFIX)
    bring(merged, old, 10, SWAP_SUFFIX)
    path = log_file(old, 10, ending + SWAP_SUFFIX)
    path.rename(log_file(old, 10, ending))
    with loaded(old, clean=True) as opened:
        assert [offset for offset, _ in opened.records()] == KEPT_SOME
    closed(old, clean=True)
    assert log_file(old, 10).read_bytes() == log_file(merged, 10).read_bytes()


def test_a_replacement_without_an_index_gets_one(old: Path, merged: Path) -> None:
    bring(merged, old, 10, SWAP_SUFFIX)
    log_file(old, 10, ".index.swap").unlink()
    with loaded(old, clean=True) as opened:
        assert [offset for offset, _ in opened.records()] == KEPT_SOME
    assert log_file(old, 10, ".index").stat().st_size < 100


def test_an_empty_swap_file_replaces_no_other_segment(old: Path) -> None:
    log_file(old, 15, ".log.swap").write_bytes(b"")
    with loaded(old, clean=True) as opened:
        assert opened.bases == [0, 10, 15, 20, 30]


@pytest.mark.parametrize("size", [10, 300])
def test_a_truncated_swap_file_is_refused_and_no_file_is_touched(old: Path, merged: Path, size: int) -> None:
    bring(merged, old, 10, SWAP_SUFFIX)
    add_suffix(old, 20, DELETED_SUFFIX)
    change(log_file(old, 10, ".log.swap"), lambda data: data[:size])
    before = bytes_of(old)
    with pytest.raises(CorruptRecordError, match="a swap file ends in a torn tail"), loaded(old, clean=True):
        pass
    assert bytes_of(old) == before


def test_all_files_renamed_for_deletion_are_deleted(tmp_path: Path) -> None:
    log_of(tmp_path)
    for name in ("00000000000000000005.log.deleted", "00000000000000000005.snapshot.deleted", "any.thing.deleted"):
        (tmp_path / name).write_bytes(b"x")
    with loaded(tmp_path, clean=True) as opened:
        assert opened.bases == [0, 10, 20]
    assert names(tmp_path, DELETED_SUFFIX) == []


def test_a_metadata_snapshot_renamed_for_deletion_is_not_touched(tmp_path: Path) -> None:
    log_of(tmp_path)
    kept = tmp_path / "00000000000000000005-0000000001.checkpoint.deleted"
    kept.write_bytes(b"x")
    with loaded(tmp_path, clean=True):
        assert kept.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_an_error_and_no_file_is_touched(old: Path) -> None:
    log_file(old, 0).chmod(0)
    log_file(old, 5, ".log.deleted").write_bytes(b"x")
    with pytest.raises(PermissionError), loaded(old, clean=True):
        pass
    assert log_file(old, 5, ".log.deleted").exists()


def test_completing_a_replacement_can_be_interrupted_after_any_step(
    old: Path, merged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(merged, old, 10, SWAP_SUFFIX)
    add_suffix(old, 20, DELETED_SUFFIX)
    interrupted = 0
    for steps in range(40):
        directory = copy_of(old, tmp_path / f"after-{steps}")
        with monkeypatch.context() as context:
            context.setattr(Path, "unlink", _counting(Path.unlink, counter := [steps]))
            context.setattr(Path, "rename", _counting(Path.rename, counter))
            try:
                with loaded(directory, clean=True):
                    pass
            except _Crash:
                interrupted += 1
        with loaded(directory, clean=True) as opened:
            assert [offset for offset, _ in opened.records()] == KEPT_SOME, steps
    assert 5 < interrupted < 40


class _Crash(BaseException):
    pass


def _counting(function: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def crash_when_none_are_left(*arguments: Any, **settings: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise _Crash
        return function(*arguments, **settings)

    return crash_when_none_are_left
