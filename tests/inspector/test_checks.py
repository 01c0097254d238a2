"""What a check says of partitions and segments, and for how long."""

from __future__ import annotations

import os
import time
from pathlib import Path

from kafkalog.fsck import verify_path
from kafkalog.inspector.jobs.checks import Check
from tests.helpers.damage import flipped, log, start_of
from tests.helpers.inspected import segment_file


def written(directory: Path, data: bytes) -> Path:
    path = segment_file(directory, data)
    os.utime(path, (time.time() - 60, time.time() - 60))
    return path


def test_errors_are_of_their_partition_and_segment_and_stay_until_the_next_check(tmp_path: Path) -> None:
    batches = log()
    whole = b"".join(batches)
    sound, damaged = (
        written(tmp_path / "a-0", whole),
        written(tmp_path / "b-0", flipped(whole, start_of(batches, 3) + 300, 0)),
    )
    check = Check(tmp_path)
    assert check.of(sound.parent) == ("unchecked", None)
    check.add(verify_path(tmp_path))
    assert check.of(damaged)[0] == check.of(damaged.parent)[0] == "damaged"
    assert check.of(sound) == ("unchecked", None)
    check.finished = True
    assert check.of(sound) == check.of(sound.parent) == ("ok", None)
    damaged.touch()
    assert check.of(damaged)[0] == "damaged"


def test_what_was_written_since_is_unchecked_again(tmp_path: Path) -> None:
    path = written(tmp_path / "a-0", b"".join(log()))
    check = Check(tmp_path / "a-0", finished=True)
    assert check.of(path)[0] == "ok"
    assert check.of(tmp_path / "b-0")[0] == "unchecked"
    path.touch()
    assert (check.of(path)[0], check.of(path.parent)[0]) == ("unchecked", "unchecked")


def test_an_error_in_an_index_is_of_its_segment(tmp_path: Path) -> None:
    path = written(tmp_path / "a-0", b"".join(log()))
    path.with_suffix(".index").write_bytes(b"\0\0\0\x09\0\0\0\x09")
    check = Check(tmp_path / "a-0")
    check.add(each for each in verify_path(tmp_path / "a-0"))
    check.finished = True
    health, problem = check.of(path)
    assert (health, (problem or "").startswith(path.with_suffix(".index").name)) == ("damaged", True)
