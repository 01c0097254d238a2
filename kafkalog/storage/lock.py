"""The lock on a data directory: one writer at a time, be it a broker or one of us.

    /var/lib/kafka/.lock    an empty file; what counts is who has locked which bytes of it (fcntl, advisory)

    a broker, lock_data_dir      bytes 0 .. the largest there is
    lock_partition("orders-3")   one byte, at a place that follows from the name

So any number of processes may each write another partition, and none of them beside a broker. Readers take no lock.
The file stays when the lock is released: were it removed, somebody could lock the removed file, and somebody else a
new one.

Locks of this kind belong to the process. They do not keep its own threads apart, and the system drops all of them as
soon as the process closes *any* descriptor of the file, also one that it opened to copy or compare it. So each file is
opened once here, whoever asks, and closed with its last lock. Source: server-common/.../FileLock.java, LogManager.
"""

import fcntl
import hashlib
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kafkalog.errors import LogLockedError
from kafkalog.storage.paths import LOCK_FILE

_FileId = tuple[int, int]  # device, inode


@dataclass(frozen=True, slots=True)
class _Range:
    """Bytes of a lock file; a length of 0 reaches as far as there is."""

    start: int
    length: int

    def overlaps(self, other: "_Range") -> bool:
        return self == other or 0 in (self.length, other.length)


_WHOLE = _Range(0, 0)
# How long others may take to write a few lines.
_WAIT_S, _LONGEST_WAIT_S = 0.01, 30.0
# And to write the mark of a clean shutdown.
_LOOKING_AROUND_S = 0.3


@dataclass(slots=True)
class _LockFile:
    """A lock file that this process has open, and what it has locked of it."""

    path: Path
    descriptors: list[int] = field(default_factory=list)
    # For which directory.
    locked: dict[_Range, Path] = field(default_factory=dict)

    def lock(self, wanted: _Range, directory: Path) -> None:
        mine = next((held for part, held in self.locked.items() if wanted.overlaps(part)), None)
        if mine is not None:
            what = "it is" if mine == directory else f"{mine} is"
            raise LogLockedError(f"{what} open in this process already, and must be closed first", str(directory))
        try:
            self.locked[wanted] = directory
            fcntl.lockf(self.descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB, wanted.length, wanted.start)
        except (BlockingIOError, PermissionError):
            self.locked.pop(wanted, None)
            raise _locked_elsewhere(self.path, self.descriptors[0], wanted) from None
        except BaseException:
            self.unlock(wanted)
            raise

    def unlock(self, held: _Range) -> None:
        try:
            fcntl.lockf(self.descriptors[0], fcntl.LOCK_UN, held.length, held.start)
        finally:
            self.locked.pop(held, None)

    @contextmanager
    def all_but(self, held: _Range) -> Iterator[bool]:
        """Lock all bytes but `held`; False where somebody has one of them, in this process too."""
        around = (_Range(0, held.start), _Range(held.start + held.length, 0))
        wanted = [each for each in around if each != _WHOLE] if held != _WHOLE else []
        with ExitStack() as last:
            try:
                for part in wanted if self.locked.keys() == {held} else ():
                    fcntl.lockf(self.descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB, part.length, part.start)
                    last.callback(fcntl.lockf, self.descriptors[0], fcntl.LOCK_UN, part.length, part.start)
            except (BlockingIOError, PermissionError):
                last.close()
                yield False
            else:
                yield self.locked.keys() == {held}

    def close(self) -> None:
        self.locked.clear()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()


_files: dict[_FileId, _LockFile] = {}
_guard = threading.Lock()


class DirectoryLock:
    """A lock that is held until `release`, the end of a `with`, or the end of the process. A forked child has none."""

    def __init__(self, directory: Path, file: _LockFile, held: _Range) -> None:
        self.directory = directory
        self.path = file.path
        self._file = file
        self._held = held

    @property
    def is_held(self) -> bool:
        """Whether nobody else may write there."""
        return self._held in self._file.locked

    @property
    def holds_all(self) -> bool:
        """Whether it is the whole data directory that is locked, not a partition."""
        return self._held == _WHOLE

    def release(self) -> None:
        """Let others write. May be called again."""
        with _guard:
            if self.is_held:
                self._file.unlock(self._held)
                _close_if_unused(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def lock_data_dir(directory: Path) -> DirectoryLock:
    """Keep everybody else from writing below a data directory.

    LogLockedError: a broker or another writer is there, perhaps in this process. OSError: the lock file cannot be
    opened or locked.
    """
    return _lock(directory, directory / LOCK_FILE, _WHOLE)


def lock_partition(directory: Path) -> DirectoryLock:
    """Keep everybody else from writing to one partition of a data directory. The errors of `lock_data_dir`.

    The partition need not be there yet. The lock file lies beside it. Somebody who looks whether nobody else is there,
    see `nobody_else`, is waited for.
    """
    directory = Path(os.path.abspath(directory))  # noqa: PTH100 - a link keeps its name
    wanted = _byte_of(directory.name)
    return _patiently(lambda: _lock(directory, directory.parent / LOCK_FILE, wanted), _LOOKING_AROUND_S)


@contextmanager
def checkpoints_locked(data_dir: Path) -> Iterator[None]:
    """Keep other processes that write partitions of a data directory from changing its checkpoints; waits for them.

    LogLockedError: a broker has the directory, or somebody takes longer than can be. OSError: as `lock_data_dir`.
    """
    with _patiently(lambda: _lock(data_dir, data_dir / LOCK_FILE, _byte_of("")), _LONGEST_WAIT_S):
        yield


def _patiently(take: Callable[[], DirectoryLock], longest_s: float) -> DirectoryLock:
    """The lock, once others have given it up. LogLockedError: they do not, for so long."""
    give_up = time.monotonic() + longest_s
    while True:
        try:
            return take()
        except LogLockedError:
            if time.monotonic() >= give_up:
                raise
        time.sleep(_WAIT_S)


@contextmanager
def nobody_else(lock: DirectoryLock) -> Iterator[bool]:
    """Whether `lock` is the only one below its data directory; if it is, nobody gets another until the `with` ends."""
    with _guard, lock._file.all_but(lock._held) as alone:
        yield alone


def is_busy() -> bool:
    """Whether some thread, perhaps this one, is about to take or release a lock."""
    return _guard.locked()


def _byte_of(name: str) -> _Range:
    digest = hashlib.sha256(os.fsencode(name)).digest()
    return _Range(int.from_bytes(digest[:8], "big") >> 2, 1)


def _lock(directory: Path, path: Path, wanted: _Range) -> DirectoryLock:
    with _guard:
        while True:
            file = _opened(path)
            try:
                file.lock(wanted, directory)
            except BaseException:
                _close_if_unused(file)
                raise
            # A broker that stops removes the file, perhaps after we opened it and before we had its lock.
            if _files.get(_file_id(path)) is file:
                return DirectoryLock(directory, file, wanted)
            file.unlock(wanted)
            _close_if_unused(file)


def _opened(path: Path) -> _LockFile:
    """The file, opened only if this process does not have it open: to close it again would drop the locks."""
    known = _files.get(_file_id(path))
    if known is not None:
        return known
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    status = os.fstat(descriptor)
    file_id = status.st_dev, status.st_ino
    file = _files.get(file_id) or _LockFile(path)
    # Known only with a descriptor, wherever a signal ends this.
    file.descriptors.append(descriptor)
    _files[file_id] = file
    return file


def _file_id(path: Path) -> _FileId:
    try:
        status = path.stat()
    except FileNotFoundError:
        return -1, -1
    return status.st_dev, status.st_ino


def _close_if_unused(file: _LockFile) -> None:
    if not file.locked:
        file.close()
        for file_id in [each for each, known in _files.items() if known is file]:
            del _files[file_id]


def _locked_elsewhere(path: Path, descriptor: int, wanted: _Range) -> LogLockedError:
    holder = _holder(descriptor, wanted)
    what = "another process, a broker perhaps, has it locked"
    return LogLockedError(what, str(path), found=f"process {holder}" if holder else None)


# struct flock: type, whence, start, length, pid; macOS begins with the numbers.
_FLOCK = struct.Struct("@qqihh" if sys.platform == "darwin" else "@hhqqi")


def _holder(descriptor: int, wanted: _Range) -> int | None:
    """The process that has locked these bytes, where the system tells."""
    asked = (fcntl.F_WRLCK, os.SEEK_SET, wanted.start, wanted.length, 0)
    mac = sys.platform == "darwin"
    with suppress(OSError, struct.error):
        packed = _FLOCK.pack(*asked[2:], *asked[:2]) if mac else _FLOCK.pack(*asked)
        answer = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, packed))
        kind, process = (answer[3], answer[2]) if mac else (answer[0], answer[4])
        return process if kind != fcntl.F_UNLCK and process > 0 else None
    return None


def _forget() -> None:
    """In a forked child, which has the descriptors and none of the locks."""
    global _guard  # noqa: PLW0603 - another thread of the parent may have held it
    _guard = threading.Lock()
    for file in _files.values():
        file.close()
    _files.clear()


os.register_at_fork(after_in_child=_forget)
