"""Logs to plan and to read, and what comes out of it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafkalog.spark import ReadOptions, Split, plan_splits, read_records, read_split
from tests.helpers.partition_dirs import batch, closed, write_segments

PER_BATCH = 3


def log_of(directory: Path, batches: int = 40, segments: int = 2, first: int = 0, **settings: Any) -> Path:
    """A partition: segments of `batches` batches of three records each, their indexes dense."""
    made: dict[int, Sequence[bytes]] = {}
    for i in range(segments):
        base = first + i * batches * PER_BATCH
        offsets = range(base, base + batches * PER_BATCH, PER_BATCH)
        made[base] = [batch(at, [b"%d" % (at + k) + b"." * 90 for k in range(PER_BATCH)], **settings) for at in offsets]
    write_segments(directory, made)
    closed(directory)
    return directory


def options(*paths: Path | str, **given: Any) -> ReadOptions:
    return ReadOptions.parse({"paths": [str(path) for path in paths], **given})


def splits(*paths: Path | str, **given: Any) -> list[Split]:
    return [split for group in plan_splits(options(*paths, **given)) for split in group.splits]


def offsets(*paths: Path | str, **given: Any) -> list[int]:
    """The offsets that come out, through Arrow and through records, each split having travelled."""
    parsed = options(*paths, **given)
    planned = [pickle.loads(pickle.dumps(split)) for split in plan_splits(parsed)]
    by_arrow = [
        row for split in planned for each in read_split(split, ["offset"], parsed) for row in each[0].to_pylist()
    ]
    assert by_arrow == [record.offset for split in planned for record in read_records(split, parsed)]
    return by_arrow


def rows(*paths: Path | str, columns: Any = None, **given: Any) -> list[dict[str, Any]]:
    parsed = options(*paths, **given)
    planned = plan_splits(parsed)
    return [row for split in planned for each in read_split(split, columns, parsed) for row in each.to_pylist()]
