"""The end of a log that another process writes: it is searched for in several reads."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogOffsetMetadata
from kafkalog.errors import KafkaLogError
from kafkalog.storage import listing
from tests.helpers import damage
from tests.helpers.inspected import segment_file

BATCHES = damage.log()
WHOLE = b"".join(BATCHES)
SECOND = damage.start_of(BATCHES, 2)
ENDS = {
    "whole": WHOLE,
    "one batch": BATCHES[0],
    "empty": b"",
    "torn": WHOLE[:-7],
    "torn header": WHOLE + WHOLE[:30],
    "zeroes behind": WHOLE + bytes(5_000),
    "zeroes between": WHOLE[:SECOND] + bytes(3_000) + WHOLE[SECOND:],
    "size of nothing": WHOLE[: SECOND + 8] + struct.pack(">i", 3) + WHOLE[SECOND + 12 :],
    "size of too much": WHOLE[: SECOND + 8] + struct.pack(">i", 1 << 30) + WHOLE[SECOND + 12 :],
    "last offset of all offsets": struct.pack(">q", 2**63 - 1) + WHOLE[8:],
}


def end(path: Path) -> tuple[int, LogOffsetMetadata] | str:
    """Return the log's end and its place, or the error."""
    with kafkalog.open(path) as log:
        try:
            return log.log_end_offset, log.high_watermark_metadata
        except KafkaLogError as error:
            return str(error)


@pytest.mark.parametrize("name", ENDS)
def test_the_end_does_not_depend_on_the_size_of_reads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment_file(tmp_path / "a-0", ENDS[name]).parent
    expected = end(path)
    for size in (1, 17, 61, 100, len(BATCHES[0]), len(BATCHES[0]) + 1, SECOND, 2_000, 5_000):
        monkeypatch.setattr(listing, "_PASSED_BYTES", size)
        assert end(path) == expected


def test_the_end_is_found_again_as_the_log_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PASSED_BYTES", 2 * max(map(len, BATCHES)))
    file = segment_file(tmp_path / "a-0", BATCHES[0])
    with kafkalog.open(file.parent) as log:
        ends = [log.log_end_offset]
        for batch in BATCHES[1:]:
            with file.open("ab") as out:
                out.write(batch)
            ends.append(log.log_end_offset)
    assert ends == sorted(set(ends))
    with kafkalog.open(file.parent) as log:
        assert ends[-1] == log.log_end_offset
