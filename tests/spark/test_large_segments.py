"""A segment of 2 GiB or more, which Kafka does not open, is read in splits as any other, and not appended to.

Its batches are all the same but for their offsets, which no checksum covers, and nearly all zeros: the file has holes.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import pytest

from kafkalog.errors import LogStateError
from kafkalog.spark import read_records, read_split
from tests.helpers.partition_dirs import batch
from tests.helpers.spark_logs import options, splits
from tests.helpers.spark_writing import started, values

MOST = 2**31 - 1
VALUE_BYTES = 16 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A partition directory with one segment, and where its batches, of a record each, begin."""
    directory = tmp_path_factory.mktemp("data") / "t-0"
    directory.mkdir()
    whole = batch(0, [bytes(VALUE_BYTES)])
    header = whole[: len(whole) - VALUE_BYTES]
    positions = list(range(0, MOST + 3 * len(whole), len(whole)))
    segment = directory / f"{0:020d}.log"
    with segment.open("wb") as file:
        for offset, position in enumerate(positions[:2]):
            put(file, position, offset, header)
        file.flush()
        if segment.stat().st_blocks * 512 > VALUE_BYTES:
            pytest.skip("this file system has no holes in files, and 2 GiB are not to be written")
        for offset, position in enumerate(positions):
            put(file, position, offset, header)
        file.truncate(positions[-1] + len(whole))
    # An index cannot name positions behind 2 GiB.
    entries = enumerate(position for position in positions if position <= MOST)
    (directory / f"{0:020d}.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    return directory, positions


def put(file: BinaryIO, position: int, offset: int, header: bytes) -> None:
    file.seek(position)
    file.write(struct.pack(">q", offset) + header[8:])


@pytest.mark.slow
@pytest.mark.parametrize("with_index", [True, False])
def test_splits_reach_to_the_end_of_a_segment_of_two_gigabytes(large: tuple[Path, list[int]], with_index: bool) -> None:
    directory, positions = large
    index = directory / f"{0:020d}.index"
    if not with_index:
        index.rename(directory / "away")
    found = splits(directory)
    if not with_index:
        (directory / "away").rename(index)
    assert {split.start_pos for split in found} <= set(positions)
    assert all(one.end_pos == other.start_pos for one, other in pairwise(found))
    assert (found[0].start_pos, found[-1].end_pos) == (0, positions[-1] + positions[1])
    assert max(split.size_in_bytes for split in found) < 3 << 27
    behind = [split for split in found if split.end_pos > MOST]
    rows = [row for split in behind for each in read_split(split, ["offset"], options(directory)) for row in each[0]]
    last = len(positions) - 1
    assert [row.as_py() for row in rows] == list(range(positions.index(behind[0].start_pos), last + 1))


def test_offsets_that_begin_behind_two_gigabytes_are_found(large: tuple[Path, list[int]]) -> None:
    directory, positions = large
    first = len(positions) - 2
    parsed = options(directory, startingOffsets={"t": {"0": first}})
    (split,) = splits(directory, startingOffsets={"t": {"0": first}})
    assert split.start_pos >= positions[first - 2]
    assert [record.offset for record in read_records(split, parsed)] == [first, first + 1]


def test_such_a_segment_is_not_appended_to(large: tuple[Path, list[int]]) -> None:
    directory, _ = large
    job = started(directory.parent, topic="t")
    before = files_in(directory)
    with pytest.raises(LogStateError, match=r"t-0/0+\.log: .*too large for Kafka to open.*at most 2147483647"):
        job.commit([job.write([values(b"1")])])
    job.abort()
    assert files_in(directory) == before


def files_in(directory: Path) -> list[tuple[str, int, int]]:
    return sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in directory.iterdir())
