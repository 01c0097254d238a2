"""Offset and time indexes against the batches of their segments."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogConfig, Record, TimestampAndOffset
from kafkalog.fsck import Consequence, apply_repair, explain, plan_repair
from kafkalog.storage.index.offset_index import OffsetIndex
from tests.helpers.broker_dirs import PLAIN, TRANSACTIONS, broker_dir, findings, segments, told
from tests.helpers.running import batch, segment


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A segment in the middle of a broker's partition."""
    return segments(broker_dir(tmp_path, PLAIN), PLAIN)[4]


def entries_of(path: Path, change: Callable[[int, int], tuple[int, int]]) -> None:
    """Change every entry of an offset index: offset relative to the base, position."""
    path.write_bytes(
        b"".join(struct.pack(">ii", *change(*each)) for each in struct.iter_unpack(">ii", path.read_bytes()))
    )


def codes(log: Path) -> list[str]:
    return [each.code for each in findings(log.parent)]


@pytest.mark.parametrize(
    ("change", "message", "expected"),
    [
        (lambda offset, at: (offset, at + 5), "between batches", "position"),
        (lambda offset, at: (offset, at + (1 << 20)), "beyond the end of the log", "less than position"),
        (lambda offset, at: (max(0, offset - 80), at), "begins after the offset", "or more"),
        (lambda offset, at: (offset + 40, at), "in the batch of the next entry", "less than offset"),
    ],
)
def test_an_entry_that_leads_to_a_wrong_place_is_found_with_its_position(
    log: Path, change: Callable[[int, int], tuple[int, int]], message: str, expected: str
) -> None:
    path = log.with_suffix(".index")
    entries_of(path, change)
    (found,) = findings(log.parent)
    assert (found.code, found.path, found.consequence) == ("index-entries", str(path), Consequence.SERVED_WRONGLY)
    assert message in found.message
    assert expected in str(found.expected)
    assert found.position is not None
    assert found.position % 8 == 0


def test_one_wrong_entry_is_told_by_its_place_and_value(log: Path) -> None:
    path = log.with_suffix(".index")
    entries = list(OffsetIndex(path, int(log.stem), writable=False))
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, 8 + 4, entries[1].position + 1)
    path.write_bytes(data)
    (found,) = findings(log.parent)
    assert (found.position, found.length) == (8, 8)
    assert found.found == f"{entries[1].offset} -> {entries[1].position + 1}"
    assert found.expected == f"position {entries[1].position}"
    assert found.message.endswith(f"(1 of {len(entries)} entries are wrong)")


def test_entries_of_several_batches_as_older_brokers_wrote_for_followers_are_right(tmp_path: Path) -> None:
    batches = [batch(b"v" * 100, offset=offset) for offset in range(9)]
    log = segment(tmp_path / "t-0", 0, b"".join(batches))
    # Three appends of three batches each: the largest offset, and the position of the first.
    size = len(batches[0])
    log.with_suffix(".index").write_bytes(struct.pack(">iiii", 5, 3 * size, 8, 6 * size))
    assert codes(log) == []
    log.with_suffix(".index").write_bytes(struct.pack(">iiii", 6, 3 * size, 8, 6 * size))
    assert codes(log) == ["index-entries"]


def test_a_missing_time_index_is_rebuilt_in_the_active_segment_or_with_a_missing_offset_index(log: Path) -> None:
    *_, other, active = segments(log.parents[1], PLAIN)
    for path in (log, other, active):
        path.with_suffix(".timeindex").unlink()
    log.with_suffix(".index").unlink()
    assert told(log.parent) == [
        ("index-missing", "rebuilt", f"{log.stem}.index"),
        ("time-index-missing", "rebuilt", f"{log.stem}.timeindex"),
        ("time-index-missing", "served-wrongly", f"{other.stem}.timeindex"),
        ("time-index-missing", "rebuilt", f"{active.stem}.timeindex"),
    ]
    assert findings(log.parent)[2].mend == f"kafkalog repair {log.parent}"


def test_a_directory_of_segments_alone_is_a_copy_and_misses_no_index(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "t-0"
    copy.mkdir()
    for each in log.parent.glob("*.log"):
        shutil.copy2(each, copy)
    assert findings(copy) == []


def test_an_index_that_ends_inside_of_an_entry(log: Path) -> None:
    path = log.with_suffix(".index")
    path.write_bytes(path.read_bytes()[:-3])
    (found,) = findings(log.parent)
    assert (found.code, found.position, found.length) == ("index-size", path.stat().st_size - 5, 5)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_garbage_is_found(log: Path, suffix: str) -> None:
    path = log.with_suffix(suffix)
    path.write_bytes(random.Random(1).randbytes(24 * 20))
    assert codes(log)[0] == ("index-entries" if suffix == ".index" else "time-index-entries")


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_zeros_in_place_of_the_entries_are_found(log: Path, suffix: str) -> None:
    path = log.with_suffix(suffix)
    path.write_bytes(bytes(path.stat().st_size))
    assert codes(log)[0] == "index-zeros"


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_entries_that_fall_are_found(log: Path, suffix: str) -> None:
    path, size = log.with_suffix(suffix), 8 if suffix == ".index" else 12
    data = path.read_bytes()
    path.write_bytes(b"".join(reversed([data[at : at + size] for at in range(0, len(data), size)])))
    found = findings(log.parent)
    assert {each.code for each in found} <= {"index-entries", "time-index-entries"}
    assert any("do not rise" in each.message for each in found)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_the_index_of_another_segment_is_found(log: Path, suffix: str) -> None:
    other = segments(log.parents[1], PLAIN)[1]
    shutil.copy2(other.with_suffix(suffix), log.with_suffix(suffix))
    assert codes(log)[0] == ("index-entries" if suffix == ".index" else "time-index-entries")


@pytest.mark.parametrize(("later", "offset"), [(86_400_000, 0), (-86_400_000, 0), (0, 20)])
def test_an_entry_of_another_time_than_its_batch_is_found(log: Path, later: int, offset: int) -> None:
    path = log.with_suffix(".timeindex")
    entries = struct.iter_unpack(">qi", path.read_bytes())
    path.write_bytes(b"".join(struct.pack(">qi", time + later, relative + offset) for time, relative in entries))
    found = findings(log.parent)[0]
    assert (found.code, found.consequence) == ("time-index-entries", Consequence.SERVED_WRONGLY)


@pytest.mark.parametrize("timestamp", [2**63 - 1, 2**63 - 2])
def test_the_largest_timestamps_are_right_as_the_first_entry_of_a_time_index(tmp_path: Path, timestamp: int) -> None:
    directory = tmp_path / "orders-0"
    config = LogConfig(segment_bytes=2000, index_interval_bytes=100, message_timestamp_after_max_ms=2**63 - 1)
    with kafkalog.open(directory, "a", config=config) as log:
        for number in range(60):
            log.append([Record(b"x" * 100, timestamp=timestamp if number % 20 == 0 else number)])
    for rebuilt in (False, True):
        if rebuilt:
            for path in directory.glob("*.timeindex"):
                path.unlink()
            apply_repair(plan_repair(directory))
        assert findings(directory) == []
        with kafkalog.open(directory) as log:
            assert log.offset_for_timestamp(timestamp) == TimestampAndOffset(timestamp, 0, 0)


def test_a_time_index_without_its_last_entry_is_too_short(log: Path) -> None:
    path = log.with_suffix(".timeindex")
    path.write_bytes(path.read_bytes()[:-12])
    (found,) = findings(log.parent)
    assert (found.code, found.position) == ("time-index-short", path.stat().st_size)


def test_an_untrimmed_index_of_the_active_segment_is_normal_unless_the_broker_stopped_cleanly(tmp_path: Path) -> None:
    data = broker_dir(tmp_path, PLAIN)
    path = segments(data, PLAIN)[-1].with_suffix(".index")
    with path.open("ab") as file:
        file.write(bytes(8 * 100))
    assert told(data) == [("index-zeros", "served-wrongly", f"{PLAIN}/{path.name}")]
    (data / ".kafka_cleanshutdown").unlink()
    assert told(data) == []


def test_entries_that_lead_into_damage_are_right(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[5000:6000] = bytes(1000)
    log.write_bytes(data)
    assert {each.code for each in findings(log.parent)} == {"lost-bytes"}


# --- the last entry, by which a broker that trusts the last segment finds the log's end


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """The last segment of a partition, without the end of the batch that its last index entry leads to."""
    log = segments(broker_dir(tmp_path, TRANSACTIONS), TRANSACTIONS)[-1]
    log.write_bytes(log.read_bytes()[:-30])
    return log


def test_a_last_entry_that_leads_to_a_torn_batch_hides_the_segment_after_a_clean_stop(torn: Path) -> None:
    """Kafka 4.2 takes 1335 for the log's end."""
    data = torn.parent.parent
    index = torn.with_suffix(".index")
    (found,) = (each for each in findings(data) if each.code == "index-entries")
    assert (found.path, found.consequence) == (str(index), Consequence.RECORDS_LOST)
    assert (found.first_offset, found.last_offset) == (1335, 1434)
    assert found.mend == f"kafkalog repair {torn.parent}"
    (partition,) = (each for each in explain(data).partitions if each.log_end_offset == 1335)
    assert [each.path for each in partition.steps if each.finding == found] == [str(index)]
    apply_repair(plan_repair(data))
    assert not [each for each in findings(data) if each.code == "index-entries"]


def test_after_an_unclean_stop_no_index_hides_a_segment_that_is_recovered(torn: Path) -> None:
    data = torn.parent.parent
    (data / ".kafka_cleanshutdown").unlink()
    assert "index-entries" not in {each.code for each in findings(data)}


def test_a_last_entry_behind_the_log_hides_the_segment_too(torn: Path) -> None:
    torn.write_bytes(torn.read_bytes()[:11490])
    found = [each for each in findings(torn.parent.parent) if each.code == "index-entries"]
    assert [(each.consequence, each.last_offset) for each in found] == [(Consequence.RECORDS_LOST, 1434)]
