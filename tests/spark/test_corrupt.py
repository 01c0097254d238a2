"""Damage raises, is passed over, or becomes a row of its own; what is sound around it comes out however it is split."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog import CompressionType
from kafkalog.errors import CorruptRecordError, DecompressedSizeError, KafkaLogError
from kafkalog.spark import plan_splits, read_records, read_split
from tests.helpers.partition_dirs import batch, closed, write_segments
from tests.helpers.spark_logs import PER_BATCH, log_of, offsets, options, rows

BATCHES = 20
any_damage = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
SIZES = [1 << 20, 400]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, list[int]]:
    """A log, the bytes of its first segment, and where its batches begin."""
    directory = log_of(tmp_path_factory.mktemp("data") / "orders-0", batches=BATCHES)
    data = (directory / f"{0:020d}.log").read_bytes()
    positions = [0]
    while positions[-1] < len(data):
        positions.append(positions[-1] + 12 + int.from_bytes(data[positions[-1] + 8 : positions[-1] + 12], "big"))
    return directory, data, positions


@pytest.fixture
def damaged(sound: tuple[Path, bytes, list[int]]) -> Iterator[tuple[Path, list[int]]]:
    """The directory, and where batches begin; whatever a test does to the segment is undone."""
    directory, data, positions = sound
    yield directory, positions
    (directory / f"{0:020d}.log").write_bytes(data)


def change(directory: Path, position: int, new: bytes) -> None:
    with (directory / f"{0:020d}.log").open("r+b") as file:
        file.seek(position)
        file.write(new)


def of_batches(*left_out: int) -> list[int]:
    gone = {n * PER_BATCH + i for n in left_out for i in range(PER_BATCH)}
    return [offset for offset in range(2 * BATCHES * PER_BATCH) if offset not in gone]


@pytest.mark.parametrize("name", ["a wrong record", "a wrong size", "a wrong magic", "zeros", "a size of the rest"])
def test_a_damaged_batch_is_left_out_and_all_others_are_read(
    damaged: tuple[Path, list[int]], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory, positions = damaged
    at = positions[11]
    place, new = {
        "a wrong record": (at + 80, b"XYZ"),
        "a wrong size": (at + 8, b"\0\0\0\5"),
        "a wrong magic": (at + 16, b"\7"),
        "zeros": (at, bytes(positions[12] - at)),
        "a size of the rest": (at + 8, (positions[-1] - at - 12).to_bytes(4, "big")),
    }[name]
    change(directory, place, new)
    for size in SIZES:
        caplog.clear()
        assert offsets(directory, splitBytes=size, onCorrupt="skip") == of_batches(11)
        assert "passed over" in caplog.text
        with pytest.raises(KafkaLogError) as caught:
            offsets(directory, splitBytes=size)
        assert f"{0:020d}.log" in str(caught.value)
        assert caught.value.position is not None


def test_permissive_mode_gives_a_row_that_describes_the_damage(damaged: tuple[Path, list[int]]) -> None:
    directory, positions = damaged
    change(directory, positions[5] + 80, b"XYZ")
    for size in SIZES:
        found = rows(directory, splitBytes=size, onCorrupt="permissive", includeMetadata=True)
        (row,) = [row for row in found if row["_corrupt"] is not None]
        assert row["_corrupt"].startswith(
            f"{directory}/{0:020d}.log: position {positions[5]}: the checksum of the batch"
        )
        assert (row["offset"], row["position"], row["topic"], row["partition"]) == (15, positions[5], "orders", 0)
        assert row["file"] == f"{directory}/{0:020d}.log"
        assert (row["key"], row["value"], row["timestamp"], row["sequence"]) == (None, None, None, None)
        assert [row["offset"] for row in found if row["_corrupt"] is None] == of_batches(5)


def test_records_before_damage_are_returned_before_the_error(damaged: tuple[Path, list[int]]) -> None:
    directory, positions = damaged
    change(directory, positions[20] + 80, b"XYZ")
    parsed = options(directory)
    (split,) = plan_splits(parsed)
    found: list[int] = []
    with pytest.raises(CorruptRecordError, match=f"position {positions[20]}"):  # noqa: PT012 - what was read before counts
        for batch_of_rows in read_split(split, ["offset"], parsed):
            found += batch_of_rows.column(0).to_pylist()
    assert found == list(range(60))


def test_read_records_leaves_out_the_row_of_damage(damaged: tuple[Path, list[int]]) -> None:
    directory, positions = damaged
    change(directory, positions[5] + 80, b"XYZ")
    parsed = options(directory, onCorrupt="permissive")
    (split,) = plan_splits(parsed)
    assert [record.offset for record in read_records(split, parsed)] == of_batches(5)


def test_a_column_that_may_not_be_null_refuses_the_row_of_damage(damaged: tuple[Path, list[int]]) -> None:
    directory, positions = damaged
    change(directory, positions[5] + 80, b"XYZ")
    with pytest.raises(ValueError, match="column value is not nullable, and a damaged batch has null there"):
        rows(directory, columns=[("value", False), "_corrupt"], onCorrupt="permissive")


def test_a_batch_with_an_offset_of_another_segment_is_left_out(damaged: tuple[Path, list[int]]) -> None:
    directory, positions = damaged
    change(directory, positions[7], (5000).to_bytes(8, "big"))
    assert offsets(directory, onCorrupt="skip") == of_batches(7)


@any_damage
@given(st.data())
def test_batches_around_any_damage_are_read_however_the_segment_is_split(
    damaged: tuple[Path, list[int]], data: st.DataObject
) -> None:
    directory, positions = damaged
    which = data.draw(st.integers(0, BATCHES - 1))
    start, end = positions[which], positions[which + 1]
    place = data.draw(st.integers(start, end - 1))
    new = data.draw(st.binary(min_size=1, max_size=end - place))
    before = (directory / f"{0:020d}.log").read_bytes()
    change(directory, place, new)
    kept = set(of_batches(which))
    found = offsets(directory, splitBytes=data.draw(st.sampled_from(SIZES)), onCorrupt="skip")
    assert kept <= set(found)
    (directory / f"{0:020d}.log").write_bytes(before)


def test_a_length_that_leads_beyond_a_sealed_segment_may_be_the_damage_itself(
    damaged: tuple[Path, list[int]],
) -> None:
    directory, positions = damaged
    change(directory, positions[11] + 8, (1 << 20).to_bytes(4, "big"))
    with pytest.raises(CorruptRecordError, match="torn tail, or a length in it is damaged") as raised:
        offsets(directory)
    assert raised.value.position == positions[11]


def test_damage_at_the_end_of_the_active_segment_is_no_torn_tail(tmp_path: Path) -> None:
    directory = write_segments(tmp_path / "orders-0", {0: [batch(0), batch(1)]})
    closed(directory)
    log = directory / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + b"\0\0\0\0\0\0\0\2\0\0\0\3" + b"x" * 50)
    with pytest.raises(CorruptRecordError, match="the size field is less than"):
        offsets(directory)
    assert offsets(directory, onCorrupt="skip") == [0, 1]
    log.write_bytes(log.read_bytes() + batch(2))
    assert offsets(directory, onCorrupt="skip") == [0, 1, 2]


def test_a_batch_that_decompresses_to_too_much_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = batch(1, [bytes(1 << 20)], compression_type=CompressionType.ZSTD)
    directory = write_segments(tmp_path / "orders-0", {0: [batch(0), large, batch(2)]})
    monkeypatch.setattr("kafkalog.spark.read.split_reader.DECOMPRESSION_LIMIT", 1 << 19)
    with pytest.raises(DecompressedSizeError, match=r"0+\.log"):
        offsets(directory)
    assert offsets(directory, onCorrupt="skip") == [0, 2]
