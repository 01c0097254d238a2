"""The golden logs are all there, and the specification reads them as Kafka does.

So whatever is checked against the specification is checked against Kafka.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers import golden
from tests.helpers.golden import Partition, Segment
from tests.helpers.partitions import sampled_of_all_partitions
from tests.reference.codes import Status
from tests.reference.framing import scan_headers
from tests.reference.message_set import decode_batches
from tests.reference.regions import Regions, regions

# --- unpacking


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of two files, one of them old."""
    source, path = tmp_path / "source", tmp_path / "small.tar.xz"
    (source / "data").mkdir(parents=True)
    for name in ("0.log", "0.index"):
        (source / "data" / name).write_bytes(name.encode())
    os.utime(source / "data" / "0.log", (1_400_000_000, 1_400_000_000))
    with tarfile.open(path, "w:xz") as tar:
        tar.add(source, "small")
    return path


@pytest.fixture
def home(tmp_path: Path, archive: Path) -> Path:
    """The place where it is unpacked."""
    golden.unpack([archive], tmp_path / "home")
    return tmp_path / "home"


def test_unpacking_keeps_content_and_time_of_the_files(home: Path) -> None:
    log = home / "small" / "data" / "0.log"
    assert log.read_bytes() == b"0.log"
    assert log.stat().st_mtime == 1_400_000_000
    assert golden.is_complete(home)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a file is missing": lambda home: (home / "small/data/0.log").unlink(),
    "a file is shorter": lambda home: os.truncate(home / "small/data/0.log", 1),
    "a file was written to": lambda home: (home / "small/data/0.log").write_bytes(b"0.LOG"),
    "a file was added": lambda home: (home / "small/data/1.log").touch(),
    "a directory is missing": lambda home: shutil.rmtree(home / "small/data"),
    "the list of files is missing": lambda home: (home / golden.LIST_OF_FILES).unlink(),
    "the list of files is cut": lambda home: os.truncate(home / golden.LIST_OF_FILES, 20),
    "the list of files is of other files": lambda home: (home / golden.LIST_OF_FILES).write_text("{}"),
    "all is missing": shutil.rmtree,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_copy_is_unpacked_again(home: Path, archive: Path, damage: Callable[[Path], object]) -> None:
    damage(home)
    assert not golden.is_complete(home)
    golden.unpack([archive], home)
    assert golden.is_complete(home)
    log = home / "small" / "data" / "0.log"
    assert (log.read_bytes(), log.stat().st_mtime) == (b"0.log", 1_400_000_000)
    assert [path.name for path in home.parent.glob("home*")] == ["home", "home.lock"]


def test_a_complete_copy_stays_as_it_is(home: Path, archive: Path) -> None:
    inodes = {path: path.stat().st_ino for path in home.rglob("*")}
    golden.unpack([archive], home)
    assert {path: path.stat().st_ino for path in home.rglob("*")} == inodes


def test_one_of_several_that_unpack_at_once_does_so(tmp_path: Path, archive: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: golden.unpack([archive], tmp_path / "home"), range(4)))
    assert golden.is_complete(tmp_path / "home")
    assert {path.name for path in tmp_path.glob("home*")} == {"home", "home.lock"}


# --- what is in them


def test_every_segment_but_the_metadata_quorums_has_an_expectation() -> None:
    assert len(golden.checked_segments()) == 229
    assert all(segment.expected.is_file() for segment in golden.checked_segments())
    left_out = {partition.id for partition in golden.partitions()} - {p.id for p in golden.checked_partitions()}
    assert left_out == {"kafka-3.9/__cluster_metadata-0"}


@sampled_of_all_partitions
def test_the_reference_reads_what_kafka_reads(partition: Partition) -> None:
    for segment in partition.segments:
        data = segment.log.read_bytes()
        rows, status, *_ = scan_headers(data)
        arguments = regions(data, rows)
        assert status == Status.END
        assert len(arguments.rows) == len(rows)
        if segment.expected.is_file():
            assert_headers(arguments, segment)
            assert_records(arguments, segment)


def assert_headers(arguments: Regions, segment: Segment) -> None:
    for row, batch in zip(arguments.rows, segment.batches(), strict=True):
        assert row["position"] == batch["position"]
        assert row["size_in_bytes"] == batch["size"]
        assert row["magic"] == batch["magic"]
        assert row["last_offset"] == batch["last_offset"]
        assert row["max_timestamp"] == batch["max_timestamp"]
        assert row["checksum"] == batch["crc"]


def assert_records(arguments: Regions, segment: Segment) -> None:
    block, owners, count, fault = decode_batches(*arguments)
    expected = [(i, *record) for i, batch in enumerate(segment.batches()) for record in batch["records"]]
    assert fault is None
    assert count == len(expected)
    for owner, column, (batch, offset, timestamp, _, key, value, headers) in zip(
        owners.tolist(), block.T.tolist(), expected, strict=True
    ):
        assert (owner, column[0], column[1]) == (batch, offset, timestamp)
        assert part(arguments.buffer, *column[2:4]) == key
        assert part(arguments.buffer, *column[4:6]) == value
        assert bool(column[7]) == bool(headers)


def part(buffer: bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else buffer[start : start + length]
