"""Every system call of every change of a log fails once: the state of the log then, and after it is opened again.

    python -m tests.crash.disk_errors        prints the table: change, call, error -> log, log opened again

A log that has refused or undone a change goes on; one whose files are partly changed takes no append until it is opened
again. In both cases reads go on, and a log opened again has no gap: every record that the change was not to remove.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kafkalog import LogConfig, LogManager, Record
from kafkalog.errors import LogStateError
from kafkalog.fsck import Options, Severity, verify_path
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    SWAP_SUFFIX,
    offset_file,
)
from tests.crash.background import HeldScheduler
from tests.crash.disk import Disk, Fail
from tests.crash.runs import Session
from tests.crash.workload import NAME, NOW, Refused, records_of
from tests.helpers.partition_dirs import batch

CODES = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EINTR)
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100, segment_index_bytes=240, file_delete_delay_ms=0)
RECORDS = 12  # three a segment


class Change(NamedTuple):
    """A change of a log, and the offsets that it removes.

    Attributes:
        work: The change.
        removes: The offsets that it removes.
        leave: Puts files into the partition, as an older broker or a crash has left them; opening it is the change.
        holds: The offsets before.
    """

    work: Callable[[Session], object] = lambda _: None
    removes: frozenset[int] = frozenset()
    leave: Callable[[Path], object] | None = None
    holds: Sequence[int] = range(RECORDS)


def _append(session: Session, count: int = 1) -> None:
    for _ in range(count):
        offset = session.log.log_end_offset
        session.log.append([Record(_value(offset), timestamp=NOW)])


def _value(offset: int) -> bytes:
    return f"{offset}:".encode().ljust(20, b"x")


def _retention(session: Session) -> None:
    session.log.delete_records(5)
    session.log.delete_old_segments()
    session.scheduler.run()


def _truncate_fully(session: Session) -> None:
    session.log.truncate_fully_and_start_at(50)
    session.scheduler.run()


def _truncate(session: Session) -> None:
    session.log.truncate_to(4)
    session.scheduler.run()


def _checkpoint(session: Session) -> None:
    session.log.delete_records(2)
    session.manager.checkpoint()


def _leave_swap(partition: Path) -> None:
    """Leave a compacted segment that is to replace those at 3 and 6."""
    _write(partition, 3, (4, 8), SWAP_SUFFIX)


def _leave_too_large(partition: Path) -> None:
    """Leave a segment whose offsets are too far apart for its indexes."""
    for path in partition.iterdir():
        if path.name != PARTITION_METADATA:
            path.unlink()
    _write(partition, 0, FAR_APART)
    _write(partition, 3 * FAR, AFTER)


def _write(partition: Path, base: int, offsets: Sequence[int], suffix: str = "") -> None:
    batches = [batch(offset, [_value(offset)]) for offset in offsets]
    offset_file(partition, base, LOG_SUFFIX + suffix).write_bytes(b"".join(batches))


FAR = 2**31
FAR_APART, AFTER = (0, 1, 5, FAR, FAR + 1, 2 * FAR + 7), (3 * FAR, 3 * FAR + 1)

CHANGES = {
    "append": Change(_append),
    "append and roll": Change(lambda session: _append(session, 4)),
    "roll": Change(lambda session: session.log.roll()),
    "flush": Change(lambda session: session.log.flush(force_active=True)),
    "retention": Change(_retention, frozenset(range(8))),
    "truncate": Change(_truncate, frozenset(range(4, RECORDS))),
    "truncate fully": Change(_truncate_fully, frozenset(range(RECORDS))),
    "checkpoint": Change(_checkpoint, frozenset(range(2))),
    "create": Change(lambda session: session.manager.create("payments-0")),
    "close": Change(lambda session: session.manager.close()),
    "swap": Change(removes=frozenset({3, 5, 6, 7}), leave=_leave_swap),
    "split": Change(leave=_leave_too_large, holds=FAR_APART + AFTER),
}


class Row(NamedTuple):
    """What happened where one call failed."""

    change: str
    call: str
    code: str
    raised: str
    log: str
    opened_again: str


def opened(root: Path) -> Session:
    scheduler = HeldScheduler()
    manager = LogManager(root, "a", CONFIG, scheduler=scheduler, clock=lambda: NOW)
    return Session(manager, manager[NAME] if NAME in manager else manager.create(NAME), scheduler)


def prepared(root: Path) -> Path:
    """Write a log of four segments, flushed up to its end."""
    session = opened(root)
    _append(session, RECORDS)
    session.close()
    return root


def rows(name: str, code: int, scratch: Path) -> Iterator[Row]:
    """Let each call of a change fail in turn, until none is left.

    Raises:
        AssertionError: A record is lost, appears twice, or is another one; or the directory has damage.
    """
    change = CHANGES[name]
    prepared(scratch / "before")
    if change.leave is not None:
        change.leave(scratch / "before" / NAME)
        # Opening it recovers it, from the start.
        for file in (CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
            (scratch / "before" / file).unlink()
    at = 0
    while True:
        at += 1
        root = Path(shutil.copytree(scratch / "before", scratch / f"{at}"))
        session = opened(root) if change.leave is None else None
        disk = Disk(root, Fail(at, 1, code), sparing=())
        raised: BaseException | None = None
        with disk:
            try:
                session = session or opened(root)
                change.work(session)
            except (*Refused, ExceptionGroup) as error:
                raised = error
        if disk.calls < at:
            assert session is not None, (name, raised)
            session.give_up()
            return
        yield _looked_at(root, session, Row(name, disk.names[at - 1], errno.errorcode[code], _short(raised), "", ""))
        shutil.rmtree(root)


def _looked_at(root: Path, session: Session | None, row: Row) -> Row:
    change = CHANGES[row.change]
    state, appended = ("not opened", set[int]()) if session is None else _use(session, row)
    # A copy, because a process that dies writes no checkpoints.
    crashed = Path(shutil.copytree(root, root.with_name("crashed")))
    if session is not None:
        session.give_up()
    again = opened(crashed)
    try:
        found = records_of(again.log)
        _check(found, change, appended, row)
        _append(again)
        assert records_of(again.log)[:-1] == found, row
    finally:
        again.close()
    damage = [each for each in verify_path(crashed, Options(deep=True)) if each.severity is Severity.ERROR]
    if row.change == "create":
        # A broker sets a partition aside whose creation failed before its topic id was written.
        damage = [each for each in damage if each.code != "partition-metadata-missing"]
    if row.change in {"retention", "truncate fully"}:
        # The leader epochs follow a deletion later: after an interrupted one nothing shows that it was meant.
        damage = [each for each in damage if each.code != "first-segment-missing"]
    if row.change in {"truncate fully", "split"}:
        # The offsets that the change itself leaves out.
        damage = [each for each in damage if each.code not in {"segment-gap", "offset-gap"}]
    assert not damage, (row, damage)
    shutil.rmtree(crashed)
    return row._replace(
        log=state, opened_again=f"{len(found)} records, {found[0][0]}..{found[-1][0]}" if found else "empty"
    )


def _use(session: Session, row: Row) -> tuple[str, set[int]]:
    """Read the log and append to it; return its state and the offsets acknowledged since."""
    if row.change != "close":
        held = [offset for offset, _ in records_of(session.log)]
        assert held == sorted(set(held)), row
    before = session.log.log_end_offset
    try:
        _append(session)
    except LogStateError:
        return "takes no append", set()
    if row.change == "retention":
        # Whatever the first attempt has left, the second one removes more.
        session.log.delete_records(8)
        session.log.delete_old_segments()
    return "goes on", {before}


def _check(found: list[tuple[int, bytes]], change: Change, appended: set[int], row: Row) -> None:
    offsets = [offset for offset, _ in found]
    kept = set(change.holds) - change.removes | appended
    # Appended to, a log has no gap; one that a broker has left may have.
    begin = offsets[0] if offsets else 0
    expected = list(range(begin, begin + len(offsets))) if change.leave is None else sorted(kept)
    assert offsets == expected, (row, offsets)
    assert all(value == _value(offset) for offset, value in found), row
    assert kept <= set(offsets), (row, sorted(kept - set(offsets)))


def _short(error: BaseException | None) -> str:
    return "-" if error is None else type(error).__name__


def main() -> None:
    """Print the table, without calls whose rows are equal."""
    for name in CHANGES:
        seen: dict[tuple[str, ...], list[str]] = {}
        for code in CODES:
            with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
                for row in rows(name, code, Path(scratch)):
                    seen.setdefault((row.call, row.raised, row.log), []).append(row.code)
        for (call, raised, state), codes in seen.items():
            print(f"{name:16} {call:16} {' '.join(sorted(set(codes))):26} {len(codes):4} {raised:20} {state}")


if __name__ == "__main__":
    main()
