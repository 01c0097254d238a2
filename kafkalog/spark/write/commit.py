"""Atomic replacement of several partition directories: all of them, or none.

    <path>/orders-0                                  the directory that readers see
    <path>/_kafkalog_tmp/<job>/new/orders-0          the new directory, complete and flushed
    <path>/_kafkalog_tmp/<job>/old/orders-0          the place of a removed directory
    <path>/_kafkalog_tmp/<job>/commit.json           the directories to replace; the job is committed once it exists

A process that dies before it has written commit.json has changed nothing. If it dies later, the job is committed: the
next writer to the data directory finds the file and completes the job. On an error in a living process, all changes are
undone. A directory is replaced in one step if the system can exchange two names (Linux), else in two.
"""

import ctypes
import errno
import json
import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kafkalog.errors import KafkaLogError, LogStateError
from kafkalog.spark.write.merge import JoinedLog, segment_bytes_in
from kafkalog.storage.data_dir.session import Checkpoints, Session, read_checkpoints
from kafkalog.storage.file_names import TopicPartition, partition_of_dir
from kafkalog.storage.files.durable import sync_directory, write_atomically
from kafkalog.storage.files.small_file import read_small_file

_log = logging.getLogger(__name__)
TEMPORARY = "_kafkalog_tmp"
TASKS, NEW, OLD, JOURNAL = "tasks", "new", "old", "commit.json"
_VERSION = 1
# The largest commit.json that is read. With a million partitions it has half as many bytes.
_MOST_BYTES = 1 << 30
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@dataclass(frozen=True, slots=True)
class Exchange:
    """The changes of a job in a data directory.

    Attributes:
        data_dir: The data directory.
        job: The directory of the job.
        coming: The logs to put in place.
        going: The names of the partitions to remove.
    """

    data_dir: Path
    job: Path
    coming: Sequence[JoinedLog]
    going: Sequence[str]

    def run(self, session: Session) -> None:
        """Replace all directories, or none.

        Args:
            session: The session that has locked the data directory.

        Raises:
            OSError: The changes were undone.
            ExceptionGroup: An error and another one while undoing the changes. The message says whether the next writer
                completes the job.
        """
        for name in (NEW, OLD):
            (self.job / name).mkdir(exist_ok=True)
            sync_directory(self.job / name)
        known = read_checkpoints(self.data_dir)
        try:
            write_atomically(self.job / JOURNAL, self._text().encode())
            sync_directory(self.job.parent)
            self._do(session)
        except BaseException as error:
            self._take_back(session, known, error)
            raise
        self._clear_up()

    @classmethod
    def begun(cls, data_dir: Path, job: Path) -> "Exchange":
        """Read the changes of a committed job that died before it was complete.

        Raises:
            ValueError: commit.json is damaged.
            OSError: The file was not read.
        """
        try:
            return cls(data_dir, job, *_read(job / JOURNAL))
        except (KafkaLogError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            what = f"is damaged or not of version {_VERSION}: put the directories of this job in place by hand"
            raise ValueError(f"{job / JOURNAL} {what}, and remove it ({type(error).__name__}: {error})") from error

    def complete(self, session: Session) -> None:
        """Complete the remaining changes.

        Raises:
            OSError: A change failed; call it again.
            LogStateError: A log to be replaced was written to since, so the right outcome is unknown.
        """
        for each in self.coming:
            final = self._final(each)
            if not self._is_done(each) and segment_bytes_in(final) not in (None, each.replaces_bytes):
                message = f"was written to after an unfinished job copied it; resolve {self.job / JOURNAL} by hand"
                raise LogStateError(message, str(final))
        self._do(session)
        _remove_job(self.job)

    def _text(self) -> str:
        """Return the content of commit.json."""
        coming = [asdict(each) for each in self.coming]
        return json.dumps({"version": _VERSION, "coming": coming, "going": list(self.going)}, indent=1)

    def _final(self, log: JoinedLog) -> Path:
        return self.data_dir / str(log.topic_partition)

    def _is_done(self, log: JoinedLog) -> bool:
        """Return whether a log is in place, by the inode of its directory."""
        final = self._final(log)
        return final.exists() and final.stat().st_ino == log.inode

    def _do(self, session: Session) -> None:
        """Make the remaining changes and update the checkpoints."""
        known = read_checkpoints(self.data_dir)
        logs = [_not_before(each, known) if self._is_done(each) else each for each in self.coming]
        for each in self.coming:
            name = str(each.topic_partition)
            if not self._is_done(each):
                _put(self.job / NEW / name, self._final(each), self.job / OLD / name)
        for name in self.going:
            if (self.data_dir / name).exists() and not (self.job / OLD / name).exists():
                (self.data_dir / name).rename(self.job / OLD / name)
        sync_directory(self.data_dir)
        session.update_checkpoints(logs)
        for partition in filter(None, map(partition_of_dir, self.going)):
            session.forget_partition(partition)

    def _undo(self) -> None:
        """Move all directories back."""
        for each in self.coming:
            name, final = str(each.topic_partition), self._final(each)
            new, old = self.job / NEW / name, self.job / OLD / name
            if self._is_done(each) and not (new.exists() and _exchanged(new, final)):
                final.rename(new)
            if old.exists():
                old.rename(final)
        for name in self.going:
            with suppress(FileNotFoundError):
                (self.job / OLD / name).rename(self.data_dir / name)

    def _take_back(self, session: Session, known: Checkpoints, error: BaseException) -> None:
        """Undo the changes after `error`."""
        try:
            if not is_committed(self.job):
                return
            self._undo()
            session.restore_checkpoints(known)
            sync_directory(self.data_dir)
            (self.job / JOURNAL).unlink()
        except (OSError, KafkaLogError) as another:
            what = "committed but not complete; the next job there, or `recover`, completes it: do not write it again"
            raise ExceptionGroup(f"{self.job}: {what}", [another, *_alone(error)]) from error
        try:
            sync_directory(self.job)
        except OSError as another:
            what = f"{JOURNAL} may reappear after a power failure; the next job would then complete this one"
            raise ExceptionGroup(f"{self.job}: {what}", [another, *_alone(error)]) from error

    def _clear_up(self) -> None:
        """Remove the directory of a complete job. A failure is logged only: the job must not be run again."""
        try:
            _remove_job(self.job)
        except OSError as error:
            _log.warning(
                "%s: the job is complete; the next job there, or `recover`, removes this directory: %s", self.job, error
            )


def _alone(error: BaseException) -> list[Exception]:
    """Return the error as a list for an `ExceptionGroup`; empty for KeyboardInterrupt and the like."""
    return [error] if isinstance(error, Exception) else []


def _not_before(log: JoinedLog, known: Checkpoints) -> JoinedLog:
    """Raise the offsets of a log to those in the checkpoints, because it may have been appended to since."""
    point = known.recovery_points.get(log.topic_partition, 0)
    mark = known.high_watermarks.get(log.topic_partition, 0)
    return replace(log, recovery_point=max(point, log.recovery_point), high_watermark=max(mark, log.high_watermark))


def complete_begun(data_dir: Path, session: Session) -> list[Path]:
    """Complete the committed jobs of processes that died, log them, and return their directories."""
    jobs = [journal.parent for journal in sorted(data_dir.glob(f"{TEMPORARY}/*/{JOURNAL}"))]
    for job in jobs:
        Exchange.begun(data_dir, job).complete(session)
        _log.warning("%s: completed a job that a process committed before it died", job)
    return jobs


def _read(journal: Path) -> tuple[list[JoinedLog], list[str]]:
    """Read commit.json: the logs to put in place and the partitions to remove.

    Raises:
        KafkaLogError, ValueError, KeyError, TypeError, AttributeError, RecursionError: The file is damaged.
        OSError: The file was not read.
    """
    found = json.loads(read_small_file(journal, _MOST_BYTES))
    coming = [JoinedLog(TopicPartition(*each.pop("topic_partition")), **each) for each in found["coming"]]
    going = [str(name) for name in found["going"]]
    if found["version"] != _VERSION:
        raise ValueError(f"version {found['version']}")
    if not all(map(partition_of_dir, going + [str(each.topic_partition) for each in coming])):
        raise ValueError("names that are not those of partitions")
    return coming, going


def is_committed(job: Path) -> bool:
    """Return whether a job is committed and not complete.

    Raises:
        OSError: It is unknown.
    """
    try:
        (job / JOURNAL).lstat()
    except FileNotFoundError:
        return False
    return True


def remove_job(job: Path) -> None:
    """Remove the directory of a job, unless it is committed and not complete."""
    if not is_committed(job):
        _remove_job(job)


def _remove_job(job: Path) -> None:
    """Remove the directory of a job, commit.json first: without it, the other files have no effect."""
    if is_committed(job):
        (job / JOURNAL).unlink()
        # If it reappeared after a power failure, the next job would overwrite logs that may have changed since.
        try:
            sync_directory(job)
        except OSError as error:
            what = "the job is complete; remove this file if it reappears after a power failure"
            _log.warning("%s: %s: %s", job / JOURNAL, what, error)
    shutil.rmtree(job, ignore_errors=True)
    with suppress(OSError):  # another job's directory is there
        job.parent.rmdir()


def _put(new: Path, final: Path, old: Path) -> None:
    """Move `new` to `final`. A directory there becomes `new` in an exchange, or else `old`."""
    if final.exists():
        if _exchanged(new, final):
            return
        final.rename(old)
    new.rename(final)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step. Return False if the system does not support it."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))
