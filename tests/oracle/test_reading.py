"""Kafka's own classes and kafkalog read the same bytes and find the same in them: batches, records, errors.

Kafka is asked once about all logs of this module (`kafka.py`); `corpus.py` makes them, `compare.py` says where the two
may differ.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkalog import ByteBufferMessageSet, FileMessageSet, MessageSet
from tests.oracle import corpus, kafka, ours
from tests.oracle.compare import differences
from tests.oracle.corpus import CODEC_NAMES, Log
from tests.oracle.kafka import FILE, MEMORY, Answer, Part
from tests.reference.encode import FORMATS

pytestmark = pytest.mark.oracle

SHAPES = [f"v{magic}-{CODEC_NAMES[codec]}" for magic, codec in FORMATS]

# (shape, log): where kafkalog reads what Kafka refuses.
LZ4_LINKED_BLOCKS = "the flag says that blocks may refer to earlier ones; there is only one; Kafka refuses the flag"
TOLERATED: dict[tuple[str, str], str] = {
    ("v0-lz4", "byte 30 bit 2"): LZ4_LINKED_BLOCKS,
    ("v0-lz4", "byte 30 bit 2, CRC right"): LZ4_LINKED_BLOCKS,
}


class Case(NamedTuple):
    """A log, what Kafka reads in it, and the same bytes for kafkalog to read."""

    log: Log
    kafka: Answer
    message_set: MessageSet
    start: int
    """Where the message set begins in its file."""


class Answers:
    """Kafka's answers about every log of the module, and the file that holds the logs."""

    def __init__(self, directory: Path) -> None:
        self.logs = {"sound": corpus.sound(), "impossible": corpus.impossible()}
        self.logs |= {shape: corpus.damaged(*form) for shape, form in zip(SHAPES, FORMATS, strict=True)}
        parts = [Part(mode, log.data) for logs in self.logs.values() for log in logs for mode in (FILE, MEMORY)]
        self._answers = kafka.answers_or_skip(parts)
        self._file = directory / "00000000000000000000.log"
        self._file.write_bytes(b"".join(log.data for logs in self.logs.values() for log in logs))

    def cases(self, group: str, mode: str) -> Iterator[Case]:
        """The logs of one group, read in one way."""
        number = position = 0
        with FileMessageSet(self._file) as whole:
            for name, logs in self.logs.items():
                for log in logs:
                    if name == group:
                        answer = self._answers[2 * number + (mode == MEMORY)]
                        if mode == FILE:
                            yield Case(log, answer, whole.read(position, len(log.data)), position)
                        else:
                            yield Case(log, answer, ByteBufferMessageSet(log.data), 0)
                    number, position = number + 1, position + len(log.data)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(tmp_path_factory.mktemp("logs"))


def _relative(answer: Answer, start: int) -> Answer:
    """Positions in a slice of a file count from the start of the file."""
    for batch in answer["batches"]:
        batch["position"] -= start
    return answer


def _unlike(cases: Iterator[Case], shape: str = "") -> dict[str, list[str]]:
    found = {}
    for log, theirs, message_set, start in cases:
        unlike = differences(theirs, _relative(ours.answer(message_set), start), log.data)
        if unlike and (shape, log.name) not in TOLERATED:
            found[log.name] = unlike
    return found


@pytest.mark.parametrize("mode", [FILE, MEMORY])
def test_sound_logs_are_read_as_kafka_reads_them(answers: Answers, mode: str) -> None:
    assert not _unlike(answers.cases("sound", mode))


@pytest.mark.parametrize("mode", [FILE, MEMORY])
def test_kafka_finds_nothing_wrong_with_the_sound_logs(answers: Answers, mode: str) -> None:
    batches = [batch for case in answers.cases("sound", mode) for batch in case.kafka["batches"]]
    assert len(batches) > len(answers.logs["sound"])
    assert [batch for batch in batches if batch["valid"] or batch["error"]] == []


@pytest.mark.parametrize("mode", [FILE, MEMORY])
def test_invalid_content_is_refused_where_kafka_refuses_it(answers: Answers, mode: str) -> None:
    assert not _unlike(answers.cases("impossible", mode))


@pytest.mark.parametrize("mode", [FILE, MEMORY])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_bit_flipped_and_each_length_cut_gives_what_kafka_gives(answers: Answers, shape: str, mode: str) -> None:
    assert not _unlike(answers.cases(shape, mode), shape)


@pytest.mark.parametrize("mode", [FILE, MEMORY])
@pytest.mark.parametrize("group", ["sound", "impossible", *SHAPES])
def test_every_way_through_a_message_set_gives_the_records_of_its_batches(
    answers: Answers, group: str, mode: str
) -> None:
    for log, _, message_set, _ in answers.cases(group, mode):
        expected = _as_a_consumer(ours.answer(message_set))
        assert _with_message(ours.records_of_objects(message_set)) == expected, log.name
        assert _with_message(ours.records_of_columns(message_set, 1)) == expected, log.name


@pytest.mark.parametrize("group", ["sound", "impossible"])
def test_two_threads_give_the_records_of_one(answers: Answers, group: str) -> None:
    for log, _, message_set, _ in answers.cases(group, FILE):
        expected = _as_a_consumer(ours.answer(message_set))
        assert _with_message(ours.records_of_columns(message_set, 2)) == expected, log.name


def _as_a_consumer(answer: Answer) -> tuple[list[Any], str | None]:
    """The records up to the first error, without control batches; and that error."""
    records: list[Any] = []
    for batch in answer["batches"]:
        if batch["control"] and batch["valid"] is None:
            continue
        records += batch["records"]
        if batch["error"]:
            return _with_message((records, batch["error"]))
    return _with_message((records, answer["error"]))


def _with_message(found: tuple[list[Any], Answer | None]) -> tuple[list[Any], str | None]:
    records, error = found
    return records, None if error is None else error["message"]
