"""The last stable offset, followed while a log grows."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog import AppendOrigin, WritableLog
from kafkalog.record.control import ControlRecordType, end_transaction_marker
from kafkalog.scan.last_stable_offset import LastStableOffset

NOW = 1_700_000_000_000


def append(log: WritableLog, producer: int, sequence: int) -> None:
    data = kafkalog.ByteBufferMessageSet.from_records(
        [kafkalog.Record(b"v", timestamp=NOW)],
        producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=producer >= 0,
    )  # fmt: skip
    log.append_as_leader(data, 0)


def end(log: WritableLog, producer: int, kind: ControlRecordType) -> None:
    log.append_as_leader(end_transaction_marker(kind, producer, 0, timestamp=NOW), 0, AppendOrigin.COORDINATOR)


@pytest.mark.parametrize(("high_watermark", "stable"), [(1, 0), (2, 0), (3, 3)])
def test_an_ended_transaction_is_open_until_the_high_watermark_has_passed_its_marker(
    tmp_path: Path, high_watermark: int, stable: int
) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        append(log, 1, 0)
        with kafkalog.open(log.directory) as reader:
            followed = LastStableOffset(reader)
            append(log, 1, 1)
            end(log, 1, ControlRecordType.COMMIT)
            assert followed.follow(reader, 3)
            assert followed.at(high_watermark) == stable


def test_each_step_gives_the_offset_that_a_reader_of_the_whole_log_finds(tmp_path: Path) -> None:
    """Producers that begin, go on, commit and abort, over several segments, among records without a producer."""
    with kafkalog.open(tmp_path / "t-0", "a") as log, kafkalog.open(log.directory) as reader:
        followed = LastStableOffset(reader)
        sequences = dict.fromkeys(range(4), 0)
        for step in range(60):
            producer = (step * 7 + step // 3) % 4
            if step % 5 == 4 and sequences[producer]:
                end(log, producer, ControlRecordType(step % 2))
            elif step % 7 == 6:
                log.append([kafkalog.Record(b"v")])
            else:
                append(log, producer, sequences[producer])
                sequences[producer] += 1
            if step % 11 == 10:
                log.roll()
            if step % 3 == 0:
                assert followed.follow(reader, log.log_end_offset)
                with kafkalog.open(log.directory) as other:
                    assert followed.at(log.log_end_offset) == other.last_stable_offset
        log.truncate_to(3)
        assert not followed.follow(reader, 3)
