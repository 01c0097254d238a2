"""kafkalog's log in a process of its own: answers "case arguments TAB directory" with a JSON line.

    append IN_BATCH COUNT    so many records of 200 bytes, so many an append, into directory/kafkalog/new-0
    records | columns        all of directory/kafkalog/bench-0, which stays open between requests
    offset COUNT             the first record at each of so many offsets
    timestamp COUNT          the same, by the record's time
    reader-offset COUNT      as `offset`, in a log opened for reading
    reader-timestamp COUNT   as `timestamp`
    open | open-large        opening directory/kafkalog/bench-0, or directory/large/bench-0, after a clean stop
    recover                  opening directory/large/bench-0 after an unclean one

Nobody else may have a log open that is opened here. Closing is not measured.
"""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from kafkalog import Log, Record
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.unified_log import Opening, WritableLog

FIRST_TIMESTAMP = 1_700_000_000_000
RECORDS = 20_000
VALUE_BYTES = 200

Answer = dict[str, float]


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()


def _since(begin: tuple[float, float]) -> Answer:
    cpu_end, end = time.thread_time(), time.perf_counter()
    return {"seconds": end - begin[0], "cpu_seconds": cpu_end - begin[1]}


def opened(directory: Path, *, clean: bool = True) -> WritableLog:
    """The log, as a broker opens it: with the settings that a topic has unless told otherwise."""
    return WritableLog.load(
        directory, None, Opening(had_clean_shutdown=clean, recovery_point=2**63 - 1 if clean else 0)
    )


def append(directory: Path, in_batch: int, count: int) -> Answer:
    """Records that are there already, appended `in_batch` at a time."""
    path = directory / "kafkalog" / "new-0"
    base = bytes(i % 256 for i in range(256 + VALUE_BYTES))
    values = (base[i % 256 : i % 256 + VALUE_BYTES] for i in range(RECORDS // in_batch * in_batch))
    records = [Record(value, timestamp=FIRST_TIMESTAMP + i) for i, value in enumerate(values)]
    batches = [records[i : i + in_batch] for i in range(0, len(records), in_batch)]
    log = opened(path)
    begin = _now()
    for batch in islice(cycle(batches), -(-count // in_batch)):
        log.append(batch)
    seconds = _since(begin)
    answer = seconds | {"items": log.log_end_offset, "bytes": log.size_in_bytes}
    log.close()
    shutil.rmtree(path)
    return answer


class Reading:
    """The log that is read from, open as long as the same one is asked for in the same way."""

    def __init__(self) -> None:
        self.log: Log | None = None
        self._opened: tuple[Path, bool] | None = None

    def of(self, path: Path, *, writable: bool) -> Log:
        """The log at a path."""
        if self.log is None or self._opened != (path, writable):
            self.let_go()
            self.log, self._opened = opened(path) if writable else ReadOnlyLog(path), (path, writable)
        return self.log

    def let_go(self) -> None:
        """Close it."""
        if self.log is not None:
            self.log.close()
        self.log = None


def opening(reading: Reading, path: Path, *, clean: bool) -> Answer:
    """Opening, until the log can be used."""
    reading.let_go()
    if not clean:
        for snapshot in path.glob("*.snapshot"):
            snapshot.unlink()
    begin = _now()
    log = opened(path, clean=clean)
    answer = _since(begin) | {"items": len(log.segments), "bytes": log.size_in_bytes}
    log.close()
    return answer


def read_all(log: Log, how: str) -> int:
    """All records, as objects or as columns; how many there were."""
    if how == "columns":
        return sum(map(len, log.columns()))
    return sum(1 for _ in log.records())


def read_some(log: Log, count: int, *, by_time: bool) -> int:
    """The first record of so many reads; how many reads."""
    for offset in offsets(count, log.log_end_offset):
        wanted = offset
        if by_time:
            found = log.offset_for_timestamp(FIRST_TIMESTAMP + 7 * offset)
            assert found is not None
            wanted = found.offset
        assert next(log.records(wanted)).offset == offset
    return count


def offsets(count: int, end: int) -> Iterator[int]:
    """Offsets below `end` in no order, the same for everybody."""
    state = 1
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 11) % end


def measured(reading: Reading, case: str, directory: Path) -> Answer:
    """One case."""
    kind, *arguments = case.split()
    path = directory / "kafkalog" / "bench-0"
    if kind == "append":
        return append(directory, *map(int, arguments))
    if kind in {"open", "open-large", "recover"}:
        return opening(reading, path if kind == "open" else directory / "large" / "bench-0", clean=kind != "recover")
    log = reading.of(path, writable=not kind.startswith("reader-"))
    if arguments:
        read = partial(read_some, log, int(arguments[0]), by_time=kind.endswith("timestamp"))
    else:
        read = partial(read_all, log, kind)
    begin = _now()
    items = read()
    return _since(begin) | {"items": items, "bytes": -1}


def main() -> None:
    """Answer requests until there are no more."""
    reading = Reading()
    for line in sys.stdin:
        case, _, path = line.rstrip("\n").partition("\t")
        print(json.dumps(measured(reading, case, Path(path))), flush=True)


if __name__ == "__main__":
    main()
