"""One measured step of a growth curve in a process of its own: answers "case TAB directory" with a JSON line.

    columns      all columns of a partition, checksums checked; items: records
    open         a partition opened for reading, up to its end offset; items: segments
    open-write   a partition opened for writing after a clean stop; items: segments
    plan         the splits of a partition for Spark, without Spark; items: splits
    manager      a data directory opened for reading, and each log up to its end offset; items: partitions
    manager-write   a data directory opened for writing after a clean stop; items: partitions

Closing is not measured.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import kafkalog
from kafkalog import LogManager
from kafkalog.storage.unified_log import Opening, WritableLog


def columns(path: Path, stack: ExitStack) -> int:
    log = stack.enter_context(kafkalog.open(path))
    return sum(map(len, log.columns()))


def opened(path: Path, stack: ExitStack) -> int:
    log = stack.enter_context(kafkalog.open(path))
    assert log.log_end_offset > 0
    return len(log.segments)


def opened_to_write(path: Path, stack: ExitStack) -> int:
    log = WritableLog.load(path, None, Opening(had_clean_shutdown=True, recovery_point=2**63 - 1))
    stack.callback(log.close)
    return len(log.segments)


def planned(path: Path, stack: ExitStack) -> int:  # noqa: ARG001 - nothing stays open
    from kafkalog.spark import ReadOptions, plan_splits

    return len(plan_splits(ReadOptions.parse({"path": str(path)})))


def managed(path: Path, stack: ExitStack) -> int:
    manager = stack.enter_context(LogManager(path))
    return sum(log.log_end_offset > 0 for log in manager.values())


def managed_to_write(path: Path, stack: ExitStack) -> int:
    return len(stack.enter_context(LogManager(path, "a")))


CASES: dict[str, Callable[[Path, ExitStack], int]] = {
    "columns": columns,
    "open": opened,
    "open-write": opened_to_write,
    "plan": planned,
    "manager": managed,
    "manager-write": managed_to_write,
}


def main() -> None:
    """Answer requests until there are no more."""
    import kafkalog.spark.read.planner  # noqa: F401 - the import is no part of a plan

    for line in sys.stdin:
        case, _, path = line.rstrip("\n").partition("\t")
        with ExitStack() as stack:
            begin, cpu_begin = time.perf_counter(), time.process_time()
            items = CASES[case](Path(path), stack)
            cpu_seconds, seconds = time.process_time() - cpu_begin, time.perf_counter() - begin
            print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "items": items, "bytes": -1}), flush=True)


if __name__ == "__main__":
    main()
