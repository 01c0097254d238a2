"""Any one flipped bit of a log is found, except where no checksum covers it and the batches around it allow it.

Fields that no checksum covers, and how their damage is found:

    format 2    base offset    offset-* findings, as far as the batches around it leave no room for the wrong offset
                leader epoch   leader-epoch, where a later batch has a lower one or an earlier batch a higher one
                size, magic    always found: where a wrong size says nothing follows
    format 0/1  offset         as the base offset; a wrapper states its last offset only, so there is more room
                size           always found

So the last batch of the active segment, and those beside gaps that compaction has left, may hide a wrong offset or
epoch.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from tests.helpers.damage import Checked, check, flipped
from tests.helpers.golden import Segment, checked_segments

SEGMENTS = [
    segment
    for segment in checked_segments()
    if segment.topic in {"v2-none-0", "v2-zstd-0", "v2-txn-0", "v2-compacted-0", "v1-none-0", "v1-gzip-0", "v0-none-0"}
    and segment.log.stat().st_size
]
MAY_HIDE = {2: {*range(8), *range(12, 16)}, 1: set(range(8)), 0: set(range(8))}


def starts_and_magics(segment: Segment) -> tuple[list[int], list[int]]:
    with kafkalog.FileMessageSet(segment.log) as entries:
        rows = entries.headers()
    return rows["position"].tolist(), rows["magic"].tolist()


def place_of(segment: Segment, at: int) -> tuple[int, int]:
    """Return the position of byte `at` in its entry, and the entry's magic."""
    starts, magics = starts_and_magics(segment)
    start, magic = max((start, magic) for start, magic in zip(starts, magics, strict=True) if start <= at)
    return at - start, magic


@given(data=st.data())
def test_a_flipped_bit_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from(SEGMENTS), label="segment")
    content = segment.log.read_bytes()
    starts, _ = starts_and_magics(segment)
    headers = st.sampled_from(starts).flatmap(lambda start: st.integers(start, min(start + 61, len(content) - 1)))
    at = data.draw(headers | st.integers(0, len(content) - 1), label="at")
    bit = data.draw(st.integers(0, 7), label="bit")
    path = scratch(tmp_path_factory, segment)
    checked = check(path, flipped(content, at, bit))
    field, magic = place_of(segment, at)
    if not checked.findings:
        assert field in MAY_HIDE[magic]
        return
    assert len(checked.findings) == 1
    assert concerns(checked, at) or field in MAY_HIDE[magic]
    sound = len(starts) - (field not in MAY_HIDE[magic])
    assert checked.summary.batches == sound


def scratch(factory: pytest.TempPathFactory, segment: Segment) -> Path:
    """Return a path of the same name in a directory without other segments."""
    directory = factory.getbasetemp() / segment.id.replace("/", "_")
    directory.mkdir(exist_ok=True)
    return directory / segment.log.name


def concerns(checked: Checked, at: int) -> bool:
    (finding,) = checked.findings
    assert finding.position is not None
    assert finding.end is not None
    return finding.position <= at < finding.end


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)], ids=["some bits", "every bit"])
@pytest.mark.parametrize("segment", [SEGMENTS[0], SEGMENTS[-1]], ids=lambda segment: segment.id)
def test_flipped_bits_of_headers_are_found(tmp_path: Path, segment: Segment, step: int) -> None:
    content = segment.log.read_bytes()
    path = tmp_path / segment.log.name
    starts, magics = starts_and_magics(segment)
    for start, magic in list(zip(starts, magics, strict=True))[:3]:
        for bit in range(0, 8 * (61 if magic == 2 else 26), step):
            field = bit // 8
            found = check(path, flipped(content, start + field, bit % 8)).findings
            assert found or field in MAY_HIDE[magic]
