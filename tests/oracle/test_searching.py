"""Kafka's FileRecords and kafkalog's FileMessageSet find the same batch for an offset, the same record for a time.

Kafka chooses what to look for: the offsets and timestamps of a log's own batches, and those just beside them. Negative
times are left out: Kafka finds records of format 0 for them, which have no timestamp, and kafkalog finds nothing.
"""

from pathlib import Path
from typing import Any

import pytest

from kafkalog import FileMessageSet
from tests.oracle import corpus, kafka
from tests.oracle.corpus import Log
from tests.oracle.kafka import SEARCH, Answer, Part

pytestmark = pytest.mark.oracle

# Every offset is sought with every timestamp, so nothing of thousands of entries; and nothing whose offsets go back and
# forth: what is found there depends on whether base or last offsets are looked at, and Kafka's versions differ.
LEFT_OUT = ("large", "wrapper offset 0", "offsets backwards")


@pytest.fixture(scope="module")
def searched() -> list[tuple[Log, Answer]]:
    logs = [log for log in corpus.sound() if not any(name in log.name for name in LEFT_OUT)]
    return list(zip(logs, kafka.answers_or_skip([Part(SEARCH, log.data) for log in logs]), strict=True))


def test_an_offset_leads_to_the_batch_that_kafka_finds(searched: list[tuple[Log, Answer]], tmp_path: Path) -> None:
    for log, answer in searched:
        with _file(tmp_path, log) as file:
            found = [[target, _as_list(file.search(target))] for target, _ in answer["offsets"]]
        assert found == answer["offsets"], log.name


def test_a_time_leads_to_the_record_that_kafka_finds(searched: list[tuple[Log, Answer]], tmp_path: Path) -> None:
    for log, answer in searched:
        with _file(tmp_path, log) as file:
            found = [
                [time, start, _as_list(file.search_timestamp(time, starting_offset=start))]
                for time, start, _ in answer["timestamps"]
                if time >= 0
            ]
        assert found == [each for each in answer["timestamps"] if each[0] >= 0], log.name


def _file(directory: Path, log: Log) -> FileMessageSet:
    path = directory / "00000000000000000000.log"
    path.write_bytes(log.data)
    return FileMessageSet(path)


def _as_list(found: tuple[Any, ...] | None) -> list[Any] | None:
    return None if found is None else list(found)
