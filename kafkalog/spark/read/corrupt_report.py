"""The counts of what tasks leave out because of damage: in their logs, and as files for the driver (corruptReport).

    <corruptReport>/5d41402abc4b2a76b9719d911017c592.json        one for each split with damage
    {"path": "/data/orders-0/00000000000000000000.log", "topic": "orders", "partition": 0,
     "batches": 1, "bytes": 1093, "offsets": 10}

A file is named for its split, so a task that runs again replaces its files and nothing is counted twice.
"""

import hashlib
import json
import logging
from pathlib import Path

from kafkalog.scan.records import LeftOut
from kafkalog.spark.read.split import Split

_log = logging.getLogger(__name__)


def log_left_out(path: str, left_out: LeftOut) -> None:
    """Log the counts of what was left out of a file, or of the files of a directory."""
    _log.warning("%s: left out because of damage: %s", path, left_out)


def write_report(directory: Path, split: Split, left_out: LeftOut) -> None:
    """Write the report of a split.

    Raises:
        OSError: The file was not written.
    """
    key = ascii((split.path, split.start_pos, split.first_offset))
    row = {"path": split.path, "topic": split.topic, "partition": split.partition, **left_out._asdict()}
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    (directory / f"{name}.json").write_text(json.dumps(row) + "\n")


def read_reports(directory: Path, known: set[str]) -> LeftOut:
    """Return the sums of the reports whose file names are not in `known`, and add these names to it.

    Raises:
        OSError, ValueError: A file was not read.
    """
    total = LeftOut()
    for path in directory.glob("*.json"):
        if path.name not in known:
            row = json.loads(path.read_text())
            total = total.plus(LeftOut(*(row[name] for name in LeftOut._fields)))
            known.add(path.name)
    return total
