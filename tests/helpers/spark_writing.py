"""Jobs that write rows, as Spark would drive them, and what is in the directory afterwards."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.spark.write import commit as exchange
from kafkalog.spark.write.job import WriteJob
from kafkalog.spark.write.options import WriteOptions
from kafkalog.spark.write.task_files import TaskFiles
from kafkalog.storage.data_dir.session import Session

NOW = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("headers", HEADERS),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


def rows(*found: dict[str, Any]) -> pa.RecordBatch:
    """Rows of the sink's columns; what is not said is null. Timestamps in ms."""
    micros = [
        each | {"timestamp": each["timestamp"] * 1000} if each.get("timestamp") is not None else each for each in found
    ]
    columns = {
        field.name: pa.array(
            [each.get(field.name) for each in micros], pa.int64() if pa.types.is_timestamp(field.type) else field.type
        ).cast(field.type)
        for field in SCHEMA
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def values(*found: bytes, **same: Any) -> pa.RecordBatch:
    """Rows of these values in partition 0 of t."""
    return rows(*({"topic": "t", "partition": 0, "timestamp": NOW, "value": value} | same for value in found))


def started(path: Path, *, overwrite: bool = False, **options: Any) -> WriteJob:
    return WriteJob.start(WriteOptions.parse({"path": str(path), **options}), overwrite=overwrite)


def written(path: Path, *tasks: Iterable[pa.RecordBatch], overwrite: bool = False, **options: Any) -> WriteJob:
    """A job whose tasks, in order, have these rows, committed."""
    job = started(path, overwrite=overwrite, **options)
    job.commit([job.write(batches, number) for number, batches in enumerate(tasks)])
    return job


def records_in(path: Path, partition: str = "t-0") -> list[kafkalog.Record]:
    with kafkalog.open(path / partition) as log:
        return list(log)


def values_in(path: Path, partition: str = "t-0") -> list[bytes | None]:
    """In the order of offsets, which count up from 0."""
    found = records_in(path, partition)
    assert [record.offset for record in found] == list(range(len(found)))
    return [record.value for record in found]


def partitions_in(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


def state_of(path: Path) -> dict[str, bytes]:
    """Every file below, but for the lock."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system that cannot exchange two names in one step."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())


# --- in processes of their own

_SPAWN = multiprocessing.get_context("forkserver")


def task_in_a_process(job: WriteJob, batches: Sequence[pa.RecordBatch], task: int) -> TaskFiles:
    with _SPAWN.Pool(1) as pool:
        return pool.apply(_write, (job, batches, task))


def _write(job: WriteJob, batches: Sequence[pa.RecordBatch], task: int) -> TaskFiles:
    return job.write(batches, task)


def ended_in_a_process(target: Callable[..., None], *arguments: Any) -> int | None:
    """The exit code of a process that calls this."""
    process = _SPAWN.Process(target=target, args=arguments)
    process.start()
    process.join(600)
    return process.exitcode


# Here, not beside the tests: another process cannot import a test's module by the name that pytest gives it.


def killed_in_the_middle(job: WriteJob) -> None:
    """A task that is killed while it writes."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield values(*[b"x" * 1000] * 100)
        os.kill(os.getpid(), signal.SIGKILL)

    job.write(batches(), 0)


def killed_at(point: str, job: WriteJob, messages: list[Any]) -> None:
    """A driver that is killed at this point of its commit."""

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    calls = iter([None, die])
    original = exchange._put

    def put(*arguments: Path) -> None:
        (next(calls) or original)(*arguments)

    owner, name, instead = {
        "before it is committed": (exchange, "write_atomically", die),
        "between two directories": (exchange, "_put", put),
        "before the checkpoints": (Session, "update_checkpoints", die),
    }[point]
    with mock.patch.object(owner, name, instead):
        job.commit(messages)
