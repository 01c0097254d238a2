"""Kafka's own classes and kafkalog at the small files of a data directory, and at a topic's settings.

The lock is tried both ways round. Of everything else Kafka is asked once, in one start of its virtual machine.

Where kafkalog means to differ: a segment may be smaller than 1 MiB and not smaller than an entry, remote storage cannot
be switched on, and what is no number is no ratio.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kafkalog.errors import CorruptCheckpointError, LogLockedError
from kafkalog.storage.checkpoint.checkpoint_file import (
    EpochEntry,
    read_leader_epoch_checkpoint,
    read_offset_checkpoint,
    write_leader_epoch_checkpoint,
    write_offset_checkpoint,
)
from kafkalog.storage.checkpoint.clean_shutdown_file import read_broker_epoch, was_clean_shutdown, write_clean_shutdown
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.checkpoint.partition_metadata_file import (
    random_topic_id,
    read_partition_metadata,
    write_partition_metadata,
)
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.log_config import LogConfig
from tests.helpers.locking import Other, can_be_locked, lock_data_dir, lock_partition, started
from tests.oracle import java

pytestmark = pytest.mark.oracle

FILES = Path(__file__).with_name("Files.java")
REFUSED = "refused"


def command(*arguments: str) -> list[str]:
    try:
        return java.command(FILES, arguments, options=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")


def asked(questions: Sequence[Sequence[object]]) -> list[str]:
    """Kafka's answer to each."""
    lines = "".join("\t".join(map(str, question)) + "\n" for question in questions)
    done = subprocess.run(command("ask"), input=lines, capture_output=True, text=True, check=True, timeout=1200)
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions)
    return answers


# --- the lock


def broker(data: Path) -> AbstractContextManager[Other]:
    """A virtual machine that takes a data directory as a broker does."""
    return started(command("lock", str(data / ".lock")))


def test_a_broker_cannot_lock_a_directory_that_kafkalog_has_locked_until_it_is_released(tmp_path: Path) -> None:
    for take, directory in ((lock_data_dir, tmp_path), (lock_partition, tmp_path / "t-0")):
        with take(directory), broker(tmp_path) as refused:
            assert refused.answer == REFUSED
            assert not can_be_locked("partition", tmp_path / "t-0")
    with broker(tmp_path) as holder:
        assert holder.has_it


def test_kafkalog_cannot_lock_a_directory_that_a_broker_has_locked_until_it_dies(tmp_path: Path) -> None:
    with broker(tmp_path) as holder:
        assert holder.has_it
        for take, directory in ((lock_data_dir, tmp_path), (lock_partition, tmp_path / "t-0")):
            with pytest.raises(LogLockedError) as error:
                take(directory)
            assert error.value.found == f"process {holder.pid}"
        holder.kill()
        with lock_data_dir(tmp_path) as lock:
            assert lock.is_held


# --- settings


def test_every_setting_has_kafkas_name_and_default() -> None:
    (answer,) = asked([["settings"]])
    theirs = dict(each.split("=", 1) for each in answer.split("\t"))
    assert theirs.pop("internal.segment.bytes") == "null"
    assert LogConfig().to_topic_config() == theirs


NUMBERS = [
    *("0", "1", "-1", "-2", "-3", "2", "4", "3", "14", "9", "10", "17", "18", "22", "23", "-131072", "-131073"),
    *("1048575", "1048576", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "+5", " 5 ", "5.0", "1_000", "0x10", "", "five", "5L", "1e3"),
]
WORDS = [
    *("true", "FALSE", "True ", "yes", "null", "compact", "delete", "compact,delete", "delete , compact", "compact,"),
    *("compact,compact", "Compact", ",", "producer", "lz4", "LZ4", "none", "uncompressed", "gzip", "snappy", "zstd"),
    *("CreateTime", "LogAppendTime", "NoTimestampType", "createtime", "*", "0:1", "0:1,2:3", "0:1, 2:3", "0:", "*,0:1"),
    *("0.5", "1.0", "1.1", "-0.1", ".5", "5e-1", "*,"),
]


def _cases() -> Iterator[list[tuple[str, str]]]:
    names = list(LogConfig().to_topic_config())
    for name in names:
        for text in NUMBERS + WORDS:
            yield [(name, text)]
    yield [("segment.byte", "1048576")]
    draw = random.Random(7)
    lags = ["0", "1", "500", "604800000", "9223372036854775807"]
    for _ in range(300):
        yield [
            ("min.compaction.lag.ms", draw.choice(lags)),
            ("max.compaction.lag.ms", draw.choice(lags)),
            ("segment.ms", draw.choice(["1", "600", "604800001"])),
            ("cleanup.policy", draw.choice(["compact", "delete", "", "delete,compact"])),
            ("preallocate", draw.choice(["true", "false"])),
            ("segment.bytes", draw.choice(["1048576", "2147483647"])),
            ("compression.type", draw.choice(["gzip", "lz4", "zstd", "snappy", "uncompressed", "producer"])),
        ]


def _ours(case: list[tuple[str, str]]) -> str:
    try:
        config = LogConfig.from_topic_config(dict(case))
    except ValueError:
        return REFUSED
    words = config.to_topic_config()
    words.setdefault("segment.bytes", words.get("internal.segment.bytes", ""))
    flags = [str(each).lower() for each in (config.compact, config.delete)]
    follows = [*flags, config.max_segment_ms, config.init_file_size, config.segment_bytes]
    codec = config.compression.name.lower() if config.compression is not None else "producer"
    return "\t".join([*(words[name] for name, _ in case), " ".join(map(str, follows)), codec])


def _means_to_differ(case: list[tuple[str, str]]) -> bool:
    name, text = case[0]
    if name == "segment.bytes":
        return text.strip() in ("14", "17", "18", "22", "23", "1048575")
    if name == "segment.index.bytes":
        # Kafka takes 4, which no entry fits into, and then rolls a segment for each batch.
        return text.strip() in ("4", "9", "10", "+5", "5")
    return name == "remote.storage.enable" and text.strip().lower() == "true"


def test_every_value_is_taken_refused_and_understood_as_kafka_does() -> None:
    cases = list(_cases())
    answers = asked([["set", *(word for setting in case for word in setting)] for case in cases])
    unlike = [
        f"{case}: Kafka {theirs!r}, kafkalog {_ours(case)!r}"
        for case, theirs in zip(cases, answers, strict=True)
        if theirs != _ours(case) and not _means_to_differ(case)
    ]
    assert not unlike, f"{len(unlike)} of {len(cases)}:\n" + "\n".join(unlike[:20])
    assert sum(answer == REFUSED for answer in answers) > 800
    assert sum(answer != REFUSED for answer in answers) > 400


def test_all_settings_written_out_are_taken_by_kafka() -> None:
    config = LogConfig(segment_bytes=20_000, cleanup_policy=("compact",), max_compaction_lag_ms=5)
    words = config.to_topic_config()
    (answer,) = asked([["set", *(word for setting in words.items() for word in setting)]])
    assert answer.split("\t")[-2:] == ["true false 5 0 20000", "producer"]


# --- leader epochs


def _steps(draw: random.Random) -> list[tuple[str, int, int]]:
    """Mostly rising, as in a log, and not always."""
    steps, epoch, offset = [], 0, 0
    for _ in range(draw.randint(0, 12)):
        what = draw.choices(["assign", "end", "start", "clear"], [8, 2, 2, 0.3])[0]
        epoch, offset = max(epoch + draw.randint(-1, 2), 0) % 9, max(offset + draw.randint(-3, 7), 0) % 31
        steps.append((what, epoch, offset if what == "assign" else draw.randint(-1, 31)))
    return steps


def _cache_after(path: Path, steps: list[tuple[str, int, int]]) -> str:
    cache = LeaderEpochCache(path)
    for what, epoch, offset in steps:
        if what == "assign":
            cache.assign(epoch, offset)
        elif what == "clear":
            cache.clear_and_flush()
        else:
            (cache.truncate_from_end if what == "end" else cache.truncate_from_start)(offset)
    said = []
    for epoch in range(-1, 10):
        said.append(" ".join(map(str, cache.end_offset_for(epoch, 99))) + ",")
    epochs = (cache.epoch_for_offset(offset) for offset in range(32))
    said.extend(f"{-1 if epoch is None else epoch} " for epoch in epochs)
    return "".join(said) + path.read_text().replace("\n", "/")


def test_a_cache_of_leader_epochs_answers_and_leaves_the_file_as_kafkas_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)  # a thousand of them, and nothing is lost here
    draw = random.Random(3)
    cases = [_steps(draw) for _ in range(200)]
    answers = asked(
        [
            ["cache", tmp_path / f"theirs-{number}", *(word for step in steps for word in step)]
            for number, steps in enumerate(cases)
        ]
    )
    for number, (steps, theirs) in enumerate(zip(cases, answers, strict=True)):
        assert _cache_after(tmp_path / f"ours-{number}", steps) == theirs, steps
    assert len(set(answers)) > 100


# --- files


def _offsets(path: Path) -> str:
    offsets = read_offset_checkpoint(path).items()
    entries = sorted((f"{topic} {partition}", offset) for (topic, partition), offset in offsets)
    return "{" + ", ".join(f"{key}={offset}" for key, offset in entries) + "}"


def _epochs(path: Path) -> str:
    return "[" + ", ".join(f"{epoch} {offset}" for epoch, offset in read_leader_epoch_checkpoint(path)) + "]"


def _metadata(path: Path) -> str:
    metadata = read_partition_metadata(path)
    return f"{metadata.version} {metadata.topic_id}" if metadata else REFUSED


def _clean(directory: Path) -> str:
    epoch = read_broker_epoch(directory)
    return f"{str(was_clean_shutdown(directory)).lower()} {'none' if epoch is None else epoch}"


READERS: dict[str, Callable[[Path], str]] = {
    "offsets": _offsets,
    "epochs": _epochs,
    "metadata": _metadata,
    "clean": _clean,
}


def _written(directory: Path) -> Iterator[tuple[str, Path]]:
    """Files that kafkalog wrote."""
    offsets = {TopicPartition("t", 0): 0, TopicPartition("my-topic.x_y", 70_000): 2**63 - 1}
    for number, given in enumerate((offsets, {})):
        write_offset_checkpoint(directory / f"offsets-{number}", given)
        yield "offsets", directory / f"offsets-{number}"
    for number, entries in enumerate(([EpochEntry(0, 0), EpochEntry(2**31 - 1, 2**63 - 1)], [])):
        write_leader_epoch_checkpoint(directory / f"epochs-{number}", entries)
        yield "epochs", directory / f"epochs-{number}"
    for number in range(3):
        write_partition_metadata(directory / f"metadata-{number}", random_topic_id())
        yield "metadata", directory / f"metadata-{number}"
        (directory / f"clean-{number}").mkdir()
        write_clean_shutdown(directory / f"clean-{number}", number - 1)
        yield "clean", directory / f"clean-{number}"


def _damaged(whole: list[tuple[str, Path]], directory: Path) -> Iterator[tuple[str, Path]]:
    """The same files with pieces cut out, doubled, and replaced by what is nearly right."""
    draw = random.Random(11)
    pieces = [b" ", b"\n", b"\r\n", b"\t", b"0", b"-", b"+", b"A", b"==", b":", b": ", b"\0", b"\xff", b"99999999999"]
    for number in range(1500):
        kind, file = draw.choice(whole)
        data = bytearray((file / ".kafka_cleanshutdown" if kind == "clean" else file).read_bytes())
        for _ in range(draw.randint(1, 2)):
            start = draw.randint(0, len(data))
            data[start : start + draw.choice([0, 0, 1, 1, 2, 30])] = draw.choice([b"", *pieces])
        path = directory / f"damaged-{number}"
        if kind == "clean":
            path.mkdir()
        (path / ".kafka_cleanshutdown" if kind == "clean" else path).write_bytes(data)
        yield kind, path


def _read(kind: str, path: Path) -> str:
    try:
        return READERS[kind](path)
    except CorruptCheckpointError:
        return REFUSED


def test_kafka_and_kafkalog_read_and_refuse_the_same_files(tmp_path: Path) -> None:
    whole = list(_written(tmp_path))
    files = [*whole, *_damaged(whole, tmp_path)]
    answers = asked(files)
    assert [answer for answer in answers[: len(whole)] if answer == REFUSED] == []
    unlike = [
        f"{kind} {_content(path)!r}: Kafka {theirs}, kafkalog {_read(kind, path)}"
        for (kind, path), theirs in zip(files, answers, strict=True)
        if theirs != _read(kind, path)
    ]
    assert not unlike, f"{len(unlike)} of {len(files)}:\n" + "\n".join(unlike[:20])
    assert 300 < sum(answer == REFUSED for answer in answers) < 1300


def _content(path: Path) -> bytes:
    return (path / ".kafka_cleanshutdown" if path.is_dir() else path).read_bytes()


def test_kafka_changes_no_file_that_it_is_asked_about(tmp_path: Path) -> None:
    whole = list(_written(tmp_path))
    before = [_content(path) for _, path in whole]
    asked(whole)
    assert [_content(path) for _, path in whole] == before
    assert not list(tmp_path.rglob("*.tmp"))
