"""Kafka's own UnifiedLog and kafkalog's Log, given the same scripts, answer the same and leave the same files.

`KAFKALOG_SCRIPTS` sets how many scripts; a script that differs is shown by its seed and its shortest part that does.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers import golden
from tests.oracle import java, kafka_log, log_files, script_batches, scripts
from tests.oracle.kafka_log import KafkaLogs
from tests.oracle.replay import Shrinker, difference, report, scratch
from tests.oracle.scripts import Step, script
from tests.oracle.unified_log import OurLogs
from tests.reference import encode

pytestmark = pytest.mark.oracle

GOLDEN = [f"{partition.archive}/{partition.directory.name}" for partition in golden.partitions()]
SCRIPTS = int(os.environ.get("KAFKALOG_SCRIPTS", "240"))
PARTS = 4
WRITTEN_BY = [Path(str(module.__file__)) for module in (kafka_log, log_files, script_batches, scripts, encode)]

Scripts = dict[str, list[Step]]


def part_of(number: int) -> list[str]:
    """The seeds of one test: several processes share the scripts. A golden log's name is a seed, too."""
    return [*map(str, range(number, SCRIPTS, PARTS)), *GOLDEN[number::PARTS]]


@cache
def played_by_kafka(number: int) -> Scripts:
    """The scripts of one test by their seeds, as Kafka played them."""
    seeds = part_of(number)

    def write(directory: Path) -> None:
        with (directory / "scripts").open("w") as file:
            file.writelines(json.dumps(steps) + "\n" for steps in _written(seeds))

    java.classes(kafka_log.DRIVER)  # outside the lock that writing takes
    name = f"scripts-{java.digest(kafka_log.DRIVER, java.POM, *WRITTEN_BY)}-{golden.digest()}-{SCRIPTS}-{number}"
    with (java.once(name, write) / "scripts").open() as file:
        return {seed: [Step(*step) for step in json.loads(line)] for seed, line in zip(seeds, file, strict=True)}


def _written(seeds: list[str]) -> Iterator[list[Step]]:
    with scratch() as directory, KafkaLogs(Path(directory)) as kafka:
        for number, seed in enumerate(seeds):
            kafka.directory = Path(directory) / str(number) / "topic-0"
            kafka.directory.parent.mkdir()
            yield script(int(seed), kafka) if seed.isdigit() else script(number, kafka, seed)


def played_or_skip(number: int) -> Scripts:
    try:
        return played_by_kafka(number)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")


@pytest.mark.parametrize("number", range(PARTS))
def test_kafkalog_answers_every_line_of_a_script_as_kafka_does_and_leaves_the_same_files(number: int) -> None:
    for seed, steps in played_or_skip(number).items():
        with scratch() as directory:
            found = difference(steps, OurLogs(Path(directory) / "ours" / "topic-0"))
            if found is not None:
                with KafkaLogs(Path(directory)) as kafka:
                    shown = Shrinker(kafka, OurLogs, Path(directory)).shrunk(steps, found)
                pytest.fail(f"{report(seed, *shown)}\n\n(first seen: {found})", pytrace=False)


def test_kafka_itself_answers_a_script_the_same_twice() -> None:
    with scratch() as directory, KafkaLogs(Path(directory)) as kafka:
        for seed, steps in list(played_or_skip(0).items())[::5]:
            kafka.directory = Path(directory) / seed / "topic-0"
            assert difference(steps, kafka) is None


def test_the_scripts_make_kafka_give_every_kind_of_answer() -> None:
    played = [played_or_skip(number) for number in range(PARTS)]
    said = Counter(_said(step) for part in played for steps in part.values() for step in steps)
    assert {what: said[what] for what in MUST_BE_SAID if said[what] < 3} == {}


def _said(step: Step) -> str:
    command, answer = step.line.split(" ")[0], step.answer.get("answer")
    if "error" in step.answer:
        return f"{command} {step.answer['error']}"
    if command == "read" and isinstance(answer, dict):
        return "read " + ("data" if answer["size"] else "nothing") + " aborted" * bool(answer["aborted"])
    if command in ("leader", "follower") and isinstance(answer, dict):
        return f"{command} {answer['codec']}" if answer["first"] >= 0 else f"{command} nothing"
    if command in ("damage", "open"):
        return f"{command} {step.line.split(' ')[2 if command == 'open' else 1]}"
    return f"{command} {bool(answer)}"


ANSWERS = {
    "damage": ("cut", "append", "zeros", "flip", "empty", "remove", "copy", "write"),
    "open": ("clean", "unclean"),
    "leader": (
        *("none", "gzip", "snappy", "lz4", "zstd", "nothing"),
        *("CorruptRecordException", "InvalidRecordException", "RecordValidationException"),
        *("RecordTooLargeException", "RecordBatchTooLargeException", "UnexpectedAppendOffsetException"),
        *("OutOfOrderSequenceException", "InvalidProducerEpochException", "InvalidTxnStateException"),
        "TransactionCoordinatorFencedException",
    ),
    "follower": (
        *("none", "gzip", "snappy", "lz4", "zstd", "nothing"),
        *("CorruptRecordException", "OffsetsOutOfOrderException", "UnexpectedAppendOffsetException"),
    ),
    "read": ("data", "nothing", "data aborted", "OffsetOutOfRangeException"),
    "start": ("True", "False", "OffsetOutOfRangeException"),
    "raise-hw": ("True", "False", "IllegalArgumentException"),
    **dict.fromkeys(("time", "truncate", "epoch-end", "retention"), ("True", "False")),
    **dict.fromkeys(("close", "crash", "roll", "restart", "flush", "snapshot", "expire"), ("True",)),
}
MUST_BE_SAID = [f"{command} {answer}" for command, answers in ANSWERS.items() for answer in answers]
