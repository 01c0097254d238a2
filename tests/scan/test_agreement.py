"""The same records survive for everybody: `verify`, `dump --skip-damage`, Spark, `salvage`, `scan.records`."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner

import kafkalog
from kafkalog import RecordColumns
from kafkalog.cli import cli
from kafkalog.fsck import salvage
from kafkalog.fsck.verifying import verify_path
from kafkalog.scan.records import Damage, records
from kafkalog.spark import plan_splits, read_records
from kafkalog.storage.file_names import segment_files
from tests.helpers.damage import batch, flipped, log, start_of, with_bytes
from tests.helpers.damage_kinds import KINDS, places_of
from tests.helpers.golden import checked_partitions
from tests.helpers.partitions import ONE_IN
from tests.helpers.spark_logs import options

Survivors: TypeAlias = list[tuple[int, bytes | None, bytes | None]]
FAST = {"kafka-3.9/v2-zstd-0"}
DAMAGED = {"crc-mismatch", "unknown-magic", "batch-too-short", "offset-below-segment", "offset-beyond-segment"}
LOST = {"lost-bytes", "wrong-size", "torn-tail", "zeroed-tail", "preallocated-tail"}


def survivors(parts: Iterator[RecordColumns]) -> Survivors:
    read = (each for part in parts for some in part.record_lists() for each in some)
    return [(each.offset, each.key, each.value) for each in read]


def by_verify(directory: Path) -> Survivors:
    """Return the records of the sound batches: what lies between findings, and has offsets of its segment."""
    findings = [each for each in verify_path(directory) if each.code in DAMAGED | LOST]
    files = segment_files(directory)
    found: Survivors = []
    for i, (base, path) in enumerate(files):
        end = files[i + 1][0] if i + 1 < len(files) else base + 2**31
        at = 0
        for each in [*sorted(each for each in findings if each.path == str(path)), None]:
            start = path.stat().st_size if each is None else each.position
            assert start is not None
            with kafkalog.FileMessageSet(path, start=at, end=start) as sound:
                rows = [row for row in survivors(sound.columns()) if base <= row[0] < end]
            found += rows
            at = 0 if each is None or each.end is None else each.end
    return found


def by_dump(directory: Path) -> Survivors:
    ran = CliRunner().invoke(cli, ["dump", str(directory), "--skip-damage", "-o", "jsonl"])
    return [
        (row["offset"], _bytes(row, "key"), _bytes(row, "value")) for row in map(json.loads, ran.stdout.splitlines())
    ]


def _bytes(row: dict[str, Any], field: str) -> bytes | None:
    text = row[field]
    if text is None or row.get(f"{field}_encoding") == "base64":
        return None if text is None else base64.b64decode(text)
    return str(text).encode()


def by_spark(directory: Path, split_bytes: int) -> Survivors:
    parsed = options(directory, onCorrupt="skip", splitBytes=split_bytes)
    return [
        (each.offset, each.key, each.value) for split in plan_splits(parsed) for each in read_records(split, parsed)
    ]


def by_salvage(directory: Path) -> Survivors:
    """Return the records of the salvaged partition, and those of batches whose offsets do not rise."""
    new = directory.parent / "salvaged" / directory.name
    salvage(directory, new)
    with kafkalog.open(new) as log:
        return survivors(log.columns())


def by_scan(directory: Path) -> tuple[Survivors, list[Damage]]:
    damage: list[Damage] = []
    with kafkalog.open(directory) as log:
        return survivors(records(log, report=damage.append)), damage


def assert_all_agree(directory: Path) -> tuple[Survivors, list[Damage]]:
    found, damage = by_scan(directory)
    assert by_verify(directory) == found
    assert by_dump(directory) == found
    assert by_salvage(directory) == found
    for split_bytes in (1 << 20, 5000):
        assert by_spark(directory, split_bytes) == found
    return found, damage


def cases() -> Iterator[Any]:
    for partition in checked_partitions():
        marks = [] if partition.id in FAST else [pytest.mark.slow]
        if any(segment.log.stat().st_size for segment in partition.segments):
            yield pytest.param(partition.directory, id=partition.id, marks=marks)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if number % ONE_IN == 0 else pytest.mark.slow) for number, kind in enumerate(KINDS)],
)
@pytest.mark.parametrize("partition", list(cases()))
def test_the_same_records_survive(partition: Path, kind: str, tmp_path: Path) -> None:
    """Damaged are a sealed segment in the middle and the last one that holds batches."""
    directory = tmp_path / partition.name
    shutil.copytree(partition, directory)
    logs = [path for _, path in segment_files(directory) if len(places_of(path.read_bytes())) > 1]
    for path in {logs[len(logs) // 2], logs[-1]}:
        data = path.read_bytes()
        path.write_bytes(KINDS[kind](data, places_of(data)))
    assert_all_agree(directory)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    (tmp_path / "orders-0").mkdir()
    return tmp_path / "orders-0"


def test_a_size_field_over_sound_batches_hides_none_of_them(orders: Path) -> None:
    batches = log()
    spanning = (sum(map(len, batches[2:5])) - 12).to_bytes(4, "big")
    path = orders / f"{0:020}.log"
    path.write_bytes(with_bytes(b"".join(batches), start_of(batches, 2) + 8, spanning))
    found, damage = assert_all_agree(orders)
    assert [offset for offset, _, _ in found] == [*range(10), *range(15, 40)]
    assert [each.finding.code for each in damage if each.finding is not None] == ["wrong-size"]
    ran = CliRunner().invoke(cli, ["ls", str(path), "-o", "json"])
    (row,) = json.loads(ran.stdout)
    assert (ran.exit_code, row["records"], row["tail"], len(row["errors"])) == (1, 35, "damaged", 1)


def test_a_size_field_over_sound_batches_and_a_damaged_one_hides_none_of_them(orders: Path) -> None:
    batches = log()
    spanning = (sum(map(len, batches[2:])) - 12).to_bytes(4, "big")
    damaged = with_bytes(b"".join(batches), start_of(batches, 2) + 8, spanning)
    (orders / f"{0:020}.log").write_bytes(flipped(damaged, len(damaged) - 1, 0))
    found, damage = assert_all_agree(orders)
    assert [offset for offset, _, _ in found] == [*range(10), *range(15, 35)]
    assert [each.finding.code for each in damage if each.finding is not None] == ["wrong-size", "crc-mismatch"]


@pytest.mark.parametrize(("cut", "put"), [(100, 0), (0, 200)])
def test_records_behind_a_shift_in_the_last_segment_are_found(orders: Path, cut: int, put: int) -> None:
    batches = [batch(place) for place in range(30)]
    at = start_of(batches, 12) + 300
    data = b"".join(batches)
    (orders / f"{0:020}.log").write_bytes(data[:at] + b"x" * put + data[at + cut :])
    found, _ = assert_all_agree(orders)
    assert [offset for offset, _, _ in found] == [*range(60), *range(65, 150)]
