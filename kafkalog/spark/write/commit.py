"""Directories of a data directory exchanged for others: all of them, or none.

    <path>/orders-0                                  what readers see
    <path>/_kafkalog_tmp/<job>/new/orders-0          complete, on the disk
    <path>/_kafkalog_tmp/<job>/old/orders-0          where one goes that is not to be there any more
    <path>/_kafkalog_tmp/<job>/commit.json           which are to be exchanged: once it is there, the job is committed

A process that dies before it has written commit.json has changed nothing. One that dies later has committed: whoever
writes to the directory next finds the file and does the rest. Where something fails and the process lives, all is put
back as it was. Each directory changes in one step where the system can exchange two names (Linux), else in two.
"""

import ctypes
import errno
import json
import logging
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kafkalog.errors import KafkaLogError, LogStateError
from kafkalog.spark.write.merge import JoinedLog, segment_bytes_in
from kafkalog.storage.data_dir import session as sessions
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.file_names import TopicPartition, partition_of_dir
from kafkalog.storage.files.durable import sync_directory, write_atomically

_log = logging.getLogger(__name__)
TEMPORARY = "_kafkalog_tmp"
TASKS, NEW, OLD, JOURNAL = "tasks", "new", "old", "commit.json"
_VERSION = 1
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a job changes in a data directory: these logs come, those partitions go. job: the job's directory."""

    data_dir: Path
    job: Path
    coming: Sequence[JoinedLog]
    going: Sequence[str]

    def run(self, lock: DirectoryLock) -> None:
        """Do it, or nothing. lock: on the data directory. OSError: nothing was changed.

        ExceptionGroup: nor could all be put back; it says whether the next writer completes the exchange.
        """
        for name in (NEW, OLD):
            (self.job / name).mkdir(exist_ok=True)
            sync_directory(self.job / name)
        known = sessions.read_checkpoints(self.data_dir)
        try:
            write_atomically(self.job / JOURNAL, self._text().encode())
            sync_directory(self.job.parent)
            self._do(lock)
        except BaseException as error:
            self._take_back(lock, known, error)
            raise
        self._clear_up()

    @classmethod
    def begun(cls, data_dir: Path, job: Path) -> "Exchange":
        """The one that somebody began who died. ValueError: the file is damaged. OSError: it cannot be read."""
        try:
            return cls(data_dir, job, *_read(job / JOURNAL))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            what = f"is not of version {_VERSION}, or damaged: settle by hand what of this job is to be in place"
            raise ValueError(f"{job / JOURNAL} {what}, and remove it ({type(error).__name__}: {error})") from error

    def complete(self, lock: DirectoryLock) -> None:
        """Do what is not done yet. OSError: try again.

        LogStateError: somebody has written since to a log that is to be replaced: what is right, a program cannot know.
        """
        for each in self.coming:
            final = self._final(each)
            if not self._is_done(each) and segment_bytes_in(final) not in (None, each.replaces_bytes):
                message = (
                    f"was written to since a job that is not complete joined it; settle {self.job / JOURNAL} by hand"
                )
                raise LogStateError(message, str(final))
        self._do(lock)
        _remove_job(self.job)

    def _text(self) -> str:
        coming = [asdict(each) for each in self.coming]
        return json.dumps({"version": _VERSION, "coming": coming, "going": list(self.going)}, indent=1)

    def _final(self, log: JoinedLog) -> Path:
        return self.data_dir / str(log.topic_partition)

    def _is_done(self, log: JoinedLog) -> bool:
        final = self._final(log)
        return final.exists() and final.stat().st_ino == log.inode

    def _do(self, lock: DirectoryLock) -> None:
        known = sessions.read_checkpoints(self.data_dir)
        logs = [_not_before(each, known) if self._is_done(each) else each for each in self.coming]
        for each in self.coming:
            name = str(each.topic_partition)
            if not self._is_done(each):
                _put(self.job / NEW / name, self._final(each), self.job / OLD / name)
        for name in self.going:
            if (self.data_dir / name).exists() and not (self.job / OLD / name).exists():
                (self.data_dir / name).rename(self.job / OLD / name)
        sync_directory(self.data_dir)
        sessions.update_checkpoints(self.data_dir, lock, logs)
        for partition in filter(None, map(partition_of_dir, self.going)):
            sessions.forget_partition(self.data_dir, lock, partition)

    def _undo(self) -> None:
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

    def _take_back(self, lock: DirectoryLock, known: sessions.Checkpoints, error: BaseException) -> None:
        try:
            if not is_committed(self.job):
                return
            self._undo()
            sessions.restore_checkpoints(self.data_dir, lock, known)
            sync_directory(self.data_dir)
            (self.job / JOURNAL).unlink()
        except (OSError, KafkaLogError) as another:
            what = "committed, but not in place; the next job there, or `recover`, completes it: do not write it again"
            raise ExceptionGroup(f"{self.job}: {what}", [another, *_alone(error)]) from error
        try:
            sync_directory(self.job)
        except OSError as another:
            what = f"{JOURNAL} is removed, which may not outlast a power cut: the next job would then complete this one"
            raise ExceptionGroup(f"{self.job}: {what}", [another, *_alone(error)]) from error

    def _clear_up(self) -> None:
        """The exchange is done: what cannot be removed is no reason to do it once more."""
        try:
            _remove_job(self.job)
        except OSError as error:
            _log.warning("%s: all is in place; the next job there, or `recover`, removes this: %s", self.job, error)


def _alone(error: BaseException) -> list[Exception]:
    """In a list, if a group of errors takes it: not what ends the process."""
    return [error] if isinstance(error, Exception) else []


def _not_before(log: JoinedLog, known: sessions.Checkpoints) -> JoinedLog:
    """Its offsets for the checkpoints, where somebody may have appended to it since."""
    point = known.recovery_points.get(log.topic_partition, 0)
    mark = known.high_watermarks.get(log.topic_partition, 0)
    return replace(log, recovery_point=max(point, log.recovery_point), high_watermark=max(mark, log.high_watermark))


def complete_begun(data_dir: Path, lock: DirectoryLock) -> list[Path]:
    """Complete what others began who died; the directories of their jobs."""
    found = sorted(data_dir.glob(f"{TEMPORARY}/*/{JOURNAL}"))
    for journal in found:
        Exchange.begun(data_dir, journal.parent).complete(lock)
    return [journal.parent for journal in found]


def _read(journal: Path) -> tuple[list[JoinedLog], list[str]]:
    """What comes and what goes. Whatever is raised of something else than such a file: what is wrong with it."""
    if not stat.S_ISREG(journal.stat().st_mode):
        # To read it might take for ever.
        raise ValueError("no regular file")
    found = json.loads(journal.read_bytes())
    coming = [JoinedLog(TopicPartition(*each.pop("topic_partition")), **each) for each in found["coming"]]
    going = [str(name) for name in found["going"]]
    if found["version"] != _VERSION:
        raise ValueError(f"version {found['version']}")
    if not all(map(partition_of_dir, going + [str(each.topic_partition) for each in coming])):
        raise ValueError("names that are none of partitions")
    return coming, going


def is_committed(job: Path) -> bool:
    """Whether a job's directory holds what is to be completed. OSError: it cannot be said."""
    try:
        (job / JOURNAL).lstat()
    except FileNotFoundError:
        return False
    return True


def remove_job(job: Path) -> None:
    """Remove what a job has below the data directory; nothing where it is committed and not complete."""
    if not is_committed(job):
        _remove_job(job)


def _remove_job(job: Path) -> None:
    """commit.json first: what is left without it counts for nothing."""
    if is_committed(job):
        (job / JOURNAL).unlink()
        _keep_removed(job)
    shutil.rmtree(job, ignore_errors=True)
    with suppress(OSError):  # another job's directory is there
        job.parent.rmdir()


def _keep_removed(job: Path) -> None:
    """Were commit.json back after a power cut, others may have written meanwhile to what it would remove."""
    try:
        sync_directory(job)
    except OSError as error:
        what = "all is in place, and this is removed, which may not outlast a power cut: were it back, remove it"
        _log.warning("%s: %s: %s", job / JOURNAL, what, error)


def _put(new: Path, final: Path, old: Path) -> None:
    """`new` takes the place of `final`, if that is there, which becomes `new`, or `old` where that takes two steps."""
    if final.exists():
        if _exchanged(new, final):
            return
        final.rename(old)
    new.rename(final)


def _exchanged(one: Path, other: Path) -> bool:
    """Two names in one step; False where the system cannot do so."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))
