"""A damaged directory, opened after a crash by Kafka's own UnifiedLog and by kafkalog, is the same afterwards.

The directories are those of real brokers: copied while one was running, and closed ones that are then damaged. Every
file must be the same, byte for byte (of snapshots: the producers in them), and so must be what either says of the log.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kafkalog import CompressionType
from kafkalog.errors import KafkaLogError
from kafkalog.storage.log_config import LogConfig
from tests.helpers.golden import unpacked
from tests.helpers.partition_dirs import Opened, batch, loaded, write_segments
from tests.oracle import java, log_files
from tests.oracle.kafka_log import KafkaLogs
from tests.reference.compression import GZIP
from tests.reference.encode import LegacyWrapper, records

pytestmark = pytest.mark.oracle

FAR = 2**31
NOW = 1_900_000_000_000
SETTINGS = {"segment.index.bytes": "65536", "index.interval.bytes": "1000"}
# The newest formats, the old ones, transactions, compacted and deleted records.
SOURCES = [
    "kafka-0.10.2-crash/data/v1-lz4-0",
    "kafka-3.9-crash/data/v2-none-0",
    "kafka-3.9-crash/data/v2-compacted-0",
    "kafka-3.9-crash/data/v2-txn-0",
    "kafka-3.9/data/v2-txn-0",
    "kafka-3.9/data/v2-deleted-records-0",
    "kafka-0.8.2/data/v0-gzip-0",
]
CLOSED = [source for source in SOURCES if "-crash/" not in source]


@dataclass(frozen=True)
class Case:
    """A broker's directory, what befalls it, and what the checkpoints say when it is opened."""

    source: str
    damage: tuple[str, ...] = ()
    stop: str = "unclean"
    log_start: int = 0
    recovery_point: int = 0
    settings: dict[str, str] = field(default_factory=lambda: SETTINGS)

    @property
    def name(self) -> str:
        return f"{self.source} {self.stop} {self.log_start} {self.recovery_point} {'; '.join(self.damage)}"

    def prepared(self, directory: Path) -> Path:
        """A copy of the directory, damaged."""
        target = directory / self.source.rpartition("/")[2]
        # An absolute path stays one.
        shutil.copytree(unpacked() / self.source, target)
        for line in self.damage:
            log_files.damage(target, line)
        return target


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaLogs]:
    try:
        logs = KafkaLogs(tmp_path_factory.mktemp("kafka"))
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    with logs:
        yield logs


def of_kafka(kafka: KafkaLogs, case: Case, directory: Path) -> tuple[Any, dict[str, Any]]:
    """What Kafka says of the log, or its error, and the files as they are then."""
    kafka.directory = case.prepared(directory)
    kafka.run(f"clock {NOW}")
    settings = " ".join(f"{name}={value}" for name, value in case.settings.items())
    answer = kafka.run(f"open . {case.stop} {case.log_start} {case.recovery_point} {settings}")
    files = log_files.contents(kafka.directory)
    kafka.abandon()
    return answer.get("error") or answer["state"], files


def of_kafkalog(case: Case, directory: Path) -> tuple[Any, dict[str, Any]]:
    """The same of kafkalog."""
    target = case.prepared(directory)
    try:
        with loaded(
            target,
            clean=case.stop == "clean",
            log_start=case.log_start,
            recovery_point=case.recovery_point,
            config=LogConfig.from_topic_config(case.settings),
            now=NOW,
        ) as opened:
            return state_of(opened), log_files.contents(target)
    except KafkaLogError as error:
        return type(error).__name__, log_files.contents(target)


def state_of(opened: Opened) -> dict[str, Any]:
    state = opened.producer_state
    producers = {
        str(entry.producer_id): [
            entry.producer_epoch,
            entry.last_seq,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        ]
        for entry in state.active_producers.values()
    }
    return {
        "log_start": opened.log_start_offset,
        "log_end": opened.end_offset,
        "recovery_point": opened.log.recovery_point,
        "producer_end": state.map_end_offset,
        "segments": [[segment.base_offset, segment.size_in_bytes] for segment in opened.log.segments.values],
        "epochs": [list(entry) for entry in opened.epochs],
        "producers": producers,
    }


def assert_same(kafka: KafkaLogs, case: Case, directory: Path) -> None:
    theirs, their_files = of_kafka(kafka, case, directory / "kafka")
    ours, our_files = of_kafkalog(case, directory / "kafkalog")
    if isinstance(theirs, str) or isinstance(ours, str):
        assert isinstance(theirs, str), (case.name, theirs, ours)
        # Kafka gives up where an index is missing behind a segment that is damaged; kafkalog cuts there, and loads.
        if not any(each.startswith("damage remove") and each.endswith(".index") for each in case.damage):
            assert isinstance(ours, str), (case.name, theirs, ours)
        return
    assert ours == {name: theirs[name] for name in ours}, case.name
    assert our_files == their_files, case.name


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("recovery_point", [0, 100, 10**9])
def test_a_directory_copied_from_a_broker_is_recovered_as_kafka_does(
    kafka: KafkaLogs, tmp_path: Path, source: str, recovery_point: int
) -> None:
    assert_same(kafka, Case(source, recovery_point=recovery_point), tmp_path)


@pytest.mark.parametrize("source", CLOSED)
def test_a_directory_is_taken_over_after_a_clean_stop_as_kafka_does(
    kafka: KafkaLogs, tmp_path: Path, source: str
) -> None:
    assert_same(kafka, Case(source, stop="clean"), tmp_path)


@pytest.mark.parametrize("log_start", [3, 300, 100_000])
@pytest.mark.parametrize("source", ["kafka-3.9/data/v2-txn-0", "kafka-0.10.2/data/v1-lz4-0"])
def test_records_before_the_start_of_the_log_are_treated_as_kafka_does(
    kafka: KafkaLogs, tmp_path: Path, source: str, log_start: int
) -> None:
    for stop in ("clean", "unclean"):
        assert_same(kafka, Case(source, stop=stop, log_start=log_start), tmp_path / stop)


def test_a_segment_whose_offsets_are_too_far_apart_is_split_as_kafka_does(kafka: KafkaLogs, tmp_path: Path) -> None:
    for name, far in overflowing(tmp_path / "logs").items():
        for damage in (
            (),
            ("damage zeros 00000000000000000000.index 80",),
            ("damage remove 00000000000000000000.index",),
        ):
            assert_same(kafka, Case(str(far), damage), tmp_path / f"{name}-{len(damage)}-{' '.join(damage)[7:12]}")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_segment_that_begins_with_a_wrapper_that_cannot_be_decompressed_fails_as_in_kafka(
    kafka: KafkaLogs, tmp_path: Path, magic: int
) -> None:
    wrappers = [LegacyWrapper(records(b"a", b"b", offset=2 * i), GZIP, magic) for i in range(4)]
    batches = [replace(wrappers[0], value=b"?").encoded(), *(each.encoded() for each in wrappers[1:])]
    source = write_segments(tmp_path / "source" / "topic-0", {0: batches[:2], 4: batches[2:]})
    for recovery_point in (0, 4):
        case, directory = Case(str(source), recovery_point=recovery_point), tmp_path / str(recovery_point)
        assert of_kafka(kafka, case, directory / "kafka")[0] == "KafkaException"
        assert of_kafkalog(case, directory / "kafkalog")[0] == "InvalidRecordError"
    assert_same(kafka, Case(str(source), stop="clean"), tmp_path / "clean")


@pytest.mark.parametrize("seed", range(40))
def test_a_replacement_of_segments_that_was_interrupted_is_completed_or_dropped_as_kafka_does(
    kafka: KafkaLogs, tmp_path: Path, seed: int
) -> None:
    assert_same(kafka, interrupted_case(random.Random(seed)), tmp_path)


@pytest.mark.parametrize("seed", range(100))
def test_a_damaged_directory_is_recovered_as_kafka_does(kafka: KafkaLogs, tmp_path: Path, seed: int) -> None:
    assert_same(kafka, random_case(random.Random(seed)), tmp_path)


def random_case(chance: random.Random) -> Case:
    source = chance.choice(SOURCES)
    files = sorted(path for path in (unpacked() / source).iterdir() if path.name != "partition.metadata")
    lines = [random_damage(chance, files) for _ in range(chance.choice([1, 1, 2, 4]))]
    # A file that has gone cannot be damaged any more.
    lines = [line for i, line in enumerate(lines) if not any(f" {line.split()[2]}" in done for done in lines[:i])]
    return Case(source, tuple(lines))


def overflowing(directory: Path) -> dict[str, Path]:
    """Logs with segments whose offsets are too far apart."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    plain = [batch(offset, [b"v"] * 3) for offset in (0, 3, FAR, FAR + 3, 3 * FAR)]
    idempotent = [
        batch(offset, [bytes(300)], base_sequence=sequence, partition_leader_epoch=sequence // 4, **producer)
        for sequence, offset in enumerate([*range(10), *range(FAR + 5, FAR + 15), 2 * FAR + 20, 4 * FAR])
    ]
    wrappers = [
        batch(offset, [b"v"] * 3, magic=1, compression_type=CompressionType.GZIP) for offset in (0, 5, FAR, FAR + 7)
    ]
    logs = {"plain": plain, "idempotent": idempotent, "wrappers": wrappers}
    return {
        name: write_segments(directory / name / "topic-0", {0: batches, 5 * FAR: [batch(5 * FAR)]})
        for name, batches in logs.items()
    }


def interrupted_case(chance: random.Random) -> Case:
    """Some segments stand there once more, on their way in or out."""
    stop = chance.choice(["clean", "unclean"])
    source = chance.choice(CLOSED if stop == "clean" else SOURCES)
    bases = sorted(path.name.partition(".")[0] for path in (unpacked() / source).glob("*.log"))
    lines = []
    for base in chance.sample(bases, min(len(bases), chance.randrange(1, 4))):
        suffix = chance.choice([".swap", ".swap", ".cleaned", ".deleted"])
        endings = [path.name.partition(".")[2] for path in (unpacked() / source).glob(f"{base}.*")]
        taken = [ending for ending in endings if ending.endswith(("log", "index"))]
        lines += [f"damage copy {base}.{ending} {base}.{ending}{suffix}" for ending in taken]
        if chance.random() < 0.5:
            lines += [f"damage remove {base}.{ending} " for ending in endings if ending != "log"]
    return Case(source, tuple(line.rstrip() for line in lines), stop)


def random_damage(chance: random.Random, files: list[Path]) -> str:
    logs = [path for path in files if path.suffix == ".log" and path.stat().st_size]
    path = chance.choice(files if chance.random() < 0.6 else logs)
    size = path.stat().st_size
    if path.name == "leader-epoch-checkpoint":
        return f"damage empty {path.name}"
    kinds = ["append", "zeros", "empty", "remove"] + (["cut", "cut", "flip", "flip"] if size else [])
    if path.suffix == ".log":
        kinds = [kind for kind in kinds if kind != "remove"] + ["copy"]
    arguments = {
        "append": chance.randbytes(chance.randrange(1, 300)).hex(),
        "zeros": str(chance.choice([1, 8, 12, 20, 512, 4096])),
        "cut": str(chance.randrange(1, size + 1)) if size else "",
        "flip": str(chance.randrange(size)) if size else "",
        "copy": path.name + chance.choice([".deleted", ".cleaned"]),
    }
    kind = chance.choice(kinds)
    return f"damage {kind} {path.name} {arguments.get(kind, '')}".rstrip()
