"""Copies of the data directory of a real broker, with some of its partitions, to damage."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from kafkalog.fsck import Finding, Options, verify_path
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint, write_offset_checkpoint
from kafkalog.storage.file_names import partition_of_dir
from tests.helpers.golden import unpacked

PLAIN, COMPACTED, TRANSACTIONS, EPOCHS = "v2-none-0", "v2-compacted-0", "v2-txn-0", "v2-epochs-0"
METADATA = "__cluster_metadata-0"


def broker_dir(home: Path, *partitions: str, archive: str = "kafka-3.9") -> Path:
    """Copy a broker's data directory with only these partitions; its checkpoints know no others."""
    source, data = unpacked() / archive / "data", home / "data"
    data.mkdir()
    for path in source.iterdir():
        if path.is_file():
            shutil.copy2(path, data)
    for name in partitions:
        shutil.copytree(source / name, data / name)
    for path in data.glob("*-offset-checkpoint"):
        kept = {each: at for each, at in read_offset_checkpoint(path).items() if str(each) in partitions}
        write_offset_checkpoint(path, kept, sync=False)
    return data


def checkpointed(data: Path, name: str, partition: str, offset: int) -> None:
    """Set the offset of a partition in a checkpoint."""
    at = partition_of_dir(partition)
    assert at is not None
    write_offset_checkpoint(data / name, {**read_offset_checkpoint(data / name), at: offset}, sync=False)


def findings(path: Path, **options: Any) -> list[Finding]:
    return list(verify_path(path, Options(**options)))


def told(path: Path, **options: Any) -> list[tuple[str, str, str]]:
    """Return code, consequence and relative path of each finding."""
    return [(each.code, str(each.consequence), os.path.relpath(each.path, path)) for each in findings(path, **options)]


def segments(data: Path, partition: str) -> list[Path]:
    return sorted((data / partition).glob("*.log"))
