"""What one look at a log tells of damage."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog.fsck.health import damage_of
from tests.helpers.partition_dirs import batch


def judged(directory: Path, data: bytes, end: int | None = 2, **offsets: int | None) -> str | None:
    path = directory / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(data)
    with kafkalog.open(path.parent) as log:
        return damage_of(log, end, **{"high_watermark": None, "recovery_point": None, **offsets})


@pytest.mark.parametrize("data", [batch(0) + batch(1), b"", b"\0" * 4096, batch(0)[:10]])
def test_a_log_that_begins_with_a_batch_or_may_get_one_is_sound(tmp_path: Path, data: bytes) -> None:
    assert judged(tmp_path, data) is None


@pytest.mark.parametrize("data", [batch(2**40), b"\x07" * 100])
def test_a_segment_that_begins_with_something_else_is_damaged(tmp_path: Path, data: bytes) -> None:
    assert judged(tmp_path, data) == f"{0:020}.log: it does not begin with a batch of this segment"


@pytest.mark.parametrize("name", ["high_watermark", "recovery_point"])
def test_a_log_that_ends_before_a_checkpoint_has_lost_records(tmp_path: Path, name: str) -> None:
    found = judged(tmp_path, batch(0) + batch(1), 2, **{name: 3})
    assert found is not None
    assert found.startswith(f"the log ends at 2, before its {name.replace('_', ' ')}, which is 3 in re")


@pytest.mark.parametrize(("end", "offset"), [(2, 2), (2, None), (None, 3)])
def test_a_log_whose_end_is_not_before_its_checkpoints_is_sound(
    tmp_path: Path, end: int | None, offset: int | None
) -> None:
    assert judged(tmp_path, batch(0) + batch(1), end, high_watermark=offset, recovery_point=offset) is None
