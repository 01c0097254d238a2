"""Helpers of the command's tests: how it is run, the logs it reads, and how its output is parsed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tests.reference.encode import PlainRecord, V2Batch

COMMAND = [sys.executable, "-P", "-m", "kafkalog.cli"]


class Ran(NamedTuple):
    """The exit code and the output of one run of the command."""

    code: int
    out: str
    err: str


Kafkalog: TypeAlias = Callable[..., Ran]


def batch(*values: bytes | None, offset: int = 0, key: bytes | None = b"k", **fields: Any) -> bytes:
    """Return a v2 batch of one record for each value, a second apart, from the first second of 2026 on."""
    start = 1_767_225_600_000
    records = [PlainRecord(offset + i, start + 1000 * (offset + i), key, value) for i, value in enumerate(values)]
    return V2Batch(records, **fields).encoded()


def segment(directory: Path, base_offset: int, data: bytes) -> Path:
    """Write a segment file into a partition's directory, which is created if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020}.log"
    path.write_bytes(data)
    return path


def lines(text: str) -> list[dict[str, Any]]:
    """Parse lines of JSON."""
    return [json.loads(line) for line in text.splitlines()]


def offsets(kafkalog: Kafkalog, *arguments: object) -> list[int]:
    """Return the offsets of the records that `dump` shows."""
    ran = kafkalog("dump", *arguments, "-o", "jsonl")
    assert ran.code == 0
    return [line["offset"] for line in lines(ran.out)]
