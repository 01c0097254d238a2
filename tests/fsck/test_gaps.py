"""Offsets that are in no segment, and logs that are shorter than they were."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkalog import ByteBufferMessageSet, Record
from kafkalog.storage.file_names import CLEANER_OFFSET_CHECKPOINT
from tests.helpers.broker_dirs import COMPACTED, METADATA, PLAIN, broker_dir, checkpointed, findings, segments, told
from tests.helpers.damage_kinds import places_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return broker_dir(tmp_path, PLAIN, COMPACTED)


def without_segment(log: Path) -> None:
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()


def test_a_missing_segment_is_a_gap_with_its_offsets(data: Path) -> None:
    logs = segments(data, PLAIN)
    without_segment(logs[4])
    (found,) = findings(data)
    assert (found.code, found.path) == ("segment-gap", str(logs[5]))
    assert (found.first_offset, found.last_offset) == (int(logs[4].stem), int(logs[5].stem) - 1)


def test_a_gap_that_compaction_explains_is_none(data: Path) -> None:
    without_segment(segments(data, PLAIN)[4])
    checkpointed(data, CLEANER_OFFSET_CHECKPOINT, PLAIN, 1200)
    assert findings(data) == []


def test_an_emptied_segment_in_the_middle_is_a_gap(data: Path) -> None:
    logs = segments(data, PLAIN)
    logs[4].write_bytes(b"")
    gap = next(each for each in findings(data) if each.code == "segment-gap")
    assert gap.message.endswith(f"{logs[4].name} is empty")
    assert (gap.first_offset, gap.last_offset) == (int(logs[4].stem), int(logs[5].stem) - 1)


def test_a_batch_that_was_cut_out_is_a_gap(data: Path) -> None:
    log = segments(data, PLAIN)[4]
    places = places_of(log.read_bytes())
    content = log.read_bytes()
    first, last = (struct.unpack_from(">q", content, places[at])[0] for at in (1, 2))
    log.write_bytes(content[: places[1]] + content[places[2] :])
    gap = next(each for each in findings(data) if each.code == "offset-gap")
    assert (gap.path, gap.position, gap.first_offset, gap.last_offset) == (str(log), places[1], first, last - 1)


def test_damage_before_its_last_batch_does_not_hide_that_offsets_are_missing_after_a_segment(data: Path) -> None:
    before, gone, _ = segments(data, PLAIN)[3:6]
    content = bytearray(before.read_bytes())
    start = places_of(bytes(content))[1]
    content[start : start + 300] = bytes(300)
    before.write_bytes(content)
    without_segment(gone)
    gap = next(each for each in findings(data) if each.code == "segment-gap")
    assert gap.first_offset == int(gone.stem)


def with_gaps(logs: list[Path]) -> list[tuple[int, int]]:
    """Cut the second batch out of the first segment, and remove the next one; return the offsets that go."""
    content = logs[0].read_bytes()
    places = places_of(content)
    offsets = [struct.unpack_from(">q", content, place)[0] for place in places[:3]]
    logs[0].write_bytes(content[: places[1]] + content[places[2] :])
    without_segment(logs[1])
    return [(offsets[1], offsets[2] - 1), (int(logs[1].stem), int(logs[2].stem) - 1)]


def gaps(data: Path) -> list[tuple[int | None, int | None]]:
    found = findings(data, only=frozenset({"logs"}))
    assert {each.code for each in found} <= {"offset-gap", "segment-gap"}
    return [(each.first_offset, each.last_offset) for each in found]


@pytest.mark.parametrize("gone", ["*-checkpoint", CLEANER_OFFSET_CHECKPOINT])
def test_gaps_of_a_partition_that_may_have_been_compacted_elsewhere_are_none(tmp_path: Path, gone: str) -> None:
    keyed = "v1-logappend-0"
    data = broker_dir(tmp_path, keyed, archive="kafka-0.10.2")
    without_segment(segments(data, keyed)[1])
    assert gaps(data) != []
    for path in data.glob(gone):
        path.unlink()
    assert gaps(data) == []


@pytest.mark.parametrize("gone", ["*-checkpoint", CLEANER_OFFSET_CHECKPOINT])
def test_compaction_does_not_explain_a_gap_behind_a_record_without_a_key(data: Path, gone: str) -> None:
    missing = with_gaps(segments(data, PLAIN)[4:])
    for path in data.glob(gone):
        path.unlink()
    assert gaps(data) == missing
    assert all("has no key" in each.message for each in findings(data, only=frozenset({"logs"})))


@pytest.mark.parametrize(("key", "expected"), [(b"k", []), (None, [(9, 9)])])
def test_only_records_before_a_gap_tell_that_compaction_did_not_make_it(
    tmp_path: Path, key: bytes | None, expected: list[tuple[int, int]]
) -> None:
    log = tmp_path / PLAIN / f"{0:020}.log"
    log.parent.mkdir()
    with log.open("wb") as file:
        # More than ten batches for the one gap.
        for offset in (*range(9), *range(10, 30)):
            record = Record(b"v", key=key if offset == 5 else b"k" if offset < 9 else None)
            file.write(bytes(ByteBufferMessageSet.from_records([record], base_offset=offset)))
    assert gaps(log.parent) == expected


def test_the_replica_of_a_compacted_topic_may_have_gaps_of_its_leader(tmp_path: Path) -> None:
    data = broker_dir(tmp_path, METADATA, PLAIN, COMPACTED)
    (data / CLEANER_OFFSET_CHECKPOINT).unlink()
    for path in segments(data, COMPACTED):
        without_segment(path)
    for path in segments(data, PLAIN):
        path.rename(data / COMPACTED / path.name)
    with_gaps(segments(data, COMPACTED)[4:])
    assert gaps(data / COMPACTED) == []


def test_a_log_that_ends_before_its_high_watermark_has_lost_records(data: Path) -> None:
    log = segments(data, PLAIN)[-1]
    places = places_of(log.read_bytes())
    end = struct.unpack_from(">q", log.read_bytes(), places[-3])[0]
    log.write_bytes(log.read_bytes()[: places[-3]])
    short = next(each for each in findings(data) if each.code == "log-too-short")
    assert (short.path, short.position, short.first_offset, short.last_offset) == (str(log), places[-3], end, 1199)
    assert "high watermark" in short.message


def test_a_torn_tail_does_not_hide_that_committed_records_are_gone(data: Path) -> None:
    log = segments(data, PLAIN)[-1]
    log.write_bytes(log.read_bytes()[:-3])
    assert [code for code, *_ in told(data) if "index" not in code] == [
        "torn-tail",
        "leader-epoch-beyond-end",
        "log-too-short",
    ]


def test_no_broker_cuts_off_a_torn_tail_after_a_clean_stop(data: Path) -> None:
    log = segments(data, PLAIN)[-1]
    log.write_bytes(log.read_bytes()[:-3])
    torn = next(each for each in findings(data) if each.code == "torn-tail")
    assert (torn.consequence, torn.mend) == ("records-lost", f"kafkalog repair {data / PLAIN}")
    assert "stopped cleanly" in torn.message
    (data / ".kafka_cleanshutdown").unlink()
    torn = next(each for each in findings(data) if each.code == "torn-tail")
    assert torn.consequence == "rebuilt"
    assert "recovery cuts it off" in torn.message


def test_a_broker_recovers_its_metadata_also_after_a_clean_stop(tmp_path: Path) -> None:
    data = broker_dir(tmp_path, METADATA)
    log = segments(data, METADATA)[-1]
    log.write_bytes(log.read_bytes()[:-3])
    (torn,) = findings(data)
    assert (torn.code, torn.consequence) == ("torn-tail", "rebuilt")


@pytest.mark.parametrize("keep_directory", [True, False])
def test_a_partition_without_segments_or_without_directory_has_lost_its_records(
    data: Path, keep_directory: bool
) -> None:
    for path in (data / PLAIN).iterdir():
        if not keep_directory or path.suffix:
            path.unlink()
    if not keep_directory:
        (data / PLAIN).rmdir()
    codes = {code: consequence for code, consequence, _ in told(data)}
    assert codes["log-too-short" if keep_directory else "partition-gone"] == "records-lost"
