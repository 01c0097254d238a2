"""`maxRecordsPerPartition`, and cuts where a task would have few bytes: each batch in one task; a plan that ends."""

from __future__ import annotations

import os
import shutil
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups.framing import HEADER_DTYPE, scan_headers
from kafkalog.spark import SplitGroup, plan_splits, read_records
from kafkalog.spark.read import planner
from kafkalog.spark.read.record_limit import Part, parts_of
from kafkalog.storage.index.offset_index import entries_near
from tests.helpers.partition_dirs import batch, closed, write_segments
from tests.helpers.spark_logs import PER_BATCH, log_of, offsets, options, rows, splits

END = 240
TEN = 10


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """240 records in two segments of 40 batches of three."""
    return log_of(tmp_path_factory.mktemp("data") / "orders-0")


def records_a_task(*paths: Path, **given: Any) -> list[int]:
    parsed = options(*paths, **given)
    return [sum(1 for _ in read_records(split, parsed)) for split in plan_splits(parsed)]


def change(log: Path, position: int, new: bytes) -> None:
    data = bytearray(log.read_bytes())
    data[position : position + len(new)] = new
    log.write_bytes(data)


def positions(log: Path) -> list[int]:
    return [int(each) for each in scan_headers(log.read_bytes())[0]["position"]]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 50, 119, 120])
@pytest.mark.parametrize("indexed", [True, False])
def test_no_task_has_more_records_than_allowed(orders: Path, tmp_path: Path, most: int, indexed: bool) -> None:
    directory = Path(shutil.copytree(orders, tmp_path / "orders-0"))
    if not indexed:
        for index in directory.glob("*.index"):
            index.unlink()
    assert not any(
        isinstance(each, SplitGroup) for each in plan_splits(options(directory, maxRecordsPerPartition=most))
    )
    found = records_a_task(directory, maxRecordsPerPartition=most)
    assert max(found) <= most
    assert sum(found) == END
    assert len(found) <= 2 * (END // most + 2) or most < 2 * PER_BATCH


def test_two_tasks_share_only_the_bytes_of_a_batch_with_too_many_records(orders: Path) -> None:
    found = splits(orders, maxRecordsPerPartition=50)
    for one, other in pairwise(found):
        assert one.path != other.path or one.end_pos == other.start_pos
    shared = splits(orders, maxRecordsPerPartition=2)
    assert [each.shared for each in shared] == [False, True] * (END // PER_BATCH)


def test_gaps_between_offsets_make_no_tasks(tmp_path: Path) -> None:
    far = [0, 10**9, 2 * 10**9]
    directory = write_segments(tmp_path / "orders-0", {each: [batch(each)] for each in far})
    closed(directory)
    assert offsets(directory, maxRecordsPerPartition=1) == far
    assert len(splits(directory, maxRecordsPerPartition=1)) == 3


@pytest.mark.parametrize("bit", [0, 1, 7, 16, 24, 31, 45, 62])
@pytest.mark.parametrize("which", [20, 39])
def test_one_wrong_bit_in_an_offset_makes_no_plan_longer(orders: Path, tmp_path: Path, bit: int, which: int) -> None:
    directory = Path(shutil.copytree(orders, tmp_path / "orders-0"))
    log = directory / f"{120:020d}.log"
    at = positions(log)[which]
    change(log, at, (int.from_bytes(log.read_bytes()[at : at + 8], "big") ^ 1 << bit).to_bytes(8, "big"))
    assert len(splits(directory, maxRecordsPerPartition=50)) <= 10
    found = rows(directory, maxRecordsPerPartition=50, onCorrupt="skip")
    given_out = {row["offset"] for row in found}
    lost = set(range(120 + PER_BATCH * which, 120 + PER_BATCH * (which + 1)))
    assert set(range(END)) - lost <= given_out


@pytest.mark.parametrize(
    "most", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow), 4, 50]
)
def test_damage_gives_one_row_however_its_segment_is_cut(orders: Path, tmp_path: Path, most: int) -> None:
    directory = Path(shutil.copytree(orders, tmp_path / "orders-0"))
    log = directory / f"{0:020d}.log"
    change(log, positions(log)[5] + 80, b"XYZ")
    for start in (0, 15, 16, 17):
        begins = {"orders": {"0": start}}
        found = rows(directory, maxRecordsPerPartition=most, onCorrupt="permissive", startingOffsets=begins)
        assert [row["offset"] for row in found if row["_corrupt"] is not None] == [15]
        sound = [row["offset"] for row in found if row["_corrupt"] is None]
        assert sound == [each for each in range(start, END) if each not in (15, 16, 17)]


@given(st.data())
def test_parts_cover_whatever_headers_and_index_say(data: st.DataObject) -> None:
    """Each position in one part at least, and no more parts than batches, bytes of long ones, and index entries."""
    count = data.draw(st.integers(1, 12))
    figures = st.integers(-1, 60) | st.sampled_from([2**32, 2**62, 2**63 - 1])
    headers = np.zeros(count, HEADER_DTYPE)
    headers["position"] = np.arange(count) * TEN
    headers["size_in_bytes"] = TEN
    for name in ("base_offset", "last_offset"):
        headers[name] = data.draw(st.lists(figures, min_size=count, max_size=count))
    headers["records_count"] = data.draw(st.lists(st.integers(-1, 2**31 - 1), min_size=count, max_size=count))
    headers["magic"] = data.draw(st.sampled_from([0, 2]))
    known = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    rising = sorted(data.draw(st.sets(st.integers(0, 60), min_size=len(known), max_size=len(known))))
    entries = np.array([*zip(rising, (TEN * each for each in known), strict=True)], np.int64).reshape(-1, 2)
    whole = Part(0, count * TEN, 0, data.draw(st.integers(0, 60) | st.just(2**62)))

    def headers_between(start: int, end: int) -> list[Any]:
        return [headers[(headers["position"] >= start) & (headers["position"] < end)]]

    found = list(parts_of(whole, data.draw(st.integers(1, 30)), entries, headers_between))
    own = [each for each in found if not each.shared]
    assert [own[0].start, *(each.end for each in own)] == [*(each.start for each in own), whole.end]
    assert len(found) <= count * (TEN + 1) + len(known)
    for one, other in pairwise(found):
        assert other.first == one.last + 1 if other.shared else other.start == one.end


@pytest.mark.parametrize(("option", "value"), [("splitBytes", 1), ("minPartitions", 2**31 - 1)])
def test_a_plan_has_a_largest_number_of_tasks_and_warns_where_it_is_reached(
    orders: Path, option: str, value: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(planner, "_MOST_SPLITS", 20)
    assert 10 < len(splits(orders, **{option: value})) <= 40
    assert f"option {option}: tasks have " in caplog.text
    assert offsets(orders, **{option: value}) == list(range(END))


@pytest.mark.parametrize("zeros", [0, 8, 800])
def test_the_entries_nearest_to_some_positions_are_found_once_each(tmp_path: Path, zeros: int) -> None:
    path = tmp_path / f"{7:020d}.index"
    assert entries_near(path, 7, [5]) == []
    path.write_bytes(b"".join(struct.pack(">ii", each, each * 100) for each in range(1, 40)) + bytes(zeros))
    assert entries_near(path, 7, range(50, 1 << 20, 50)) == [(7 + each, each * 100) for each in range(1, 40)]
    assert entries_near(path, 7, [50, 199, 1234]) == [(8, 100), (19, 1200)]
    assert entries_near(path, 7, []) == []


def test_records_of_many_megabytes_are_cut_as_fast_as_small_ones(tmp_path: Path) -> None:
    directory = write_segments(tmp_path / "orders-0", {0: [batch(i, [bytes(4 << 20)]) for i in range(4)]})
    closed(directory)
    assert len(splits(directory, splitBytes=1)) == 4


# --- what stands beside segments


def test_an_empty_file_with_the_largest_possible_name_hides_no_segment(orders: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(orders, tmp_path / "orders-0"))
    (directory / f"{2**63 - 1}.log").touch()
    assert offsets(directory) == list(range(END))
    assert offsets(directory, maxRecordsPerPartition=50) == list(range(END))


@pytest.mark.parametrize("kind", ["pipe", "directory"])
@pytest.mark.parametrize("option", ["splitBytes", "maxRecordsPerPartition"])
def test_a_pipe_or_directory_in_place_of_an_index_is_ignored(
    orders: Path, tmp_path: Path, kind: str, option: str
) -> None:
    """A pipe would keep whoever opens it waiting."""
    directory = Path(shutil.copytree(orders, tmp_path / "orders-0"))
    for base in (0, 120):
        index = directory / f"{base:020d}.index"
        index.unlink()
        if kind == "pipe":
            os.mkfifo(index)
        else:
            index.mkdir()
    assert offsets(directory, **{option: 50}) == list(range(END))


def test_no_task_is_cut_shorter_than_it_need_be(orders: Path) -> None:
    found = splits(orders, splitBytes=2000)
    sizes = [each.end_pos - each.start_pos for each in found]
    # A batch has about 400 bytes.
    assert all(1100 < size <= 2800 for size in sizes), sizes
