"""The lock on a data directory: one writer at a time, whether a broker or this library.

    /var/lib/kafka/.lock    an empty file; its bytes are locked (fcntl, advisory)

    a broker, lock_data_dir      bytes 0 .. the largest there is
    lock_partition("orders-3")   one byte, at a position derived from the name

Thus any number of processes may write different partitions, but none of them beside a broker. Readers take no lock.
The file stays when the lock is released: otherwise one process could lock the removed file and another one a new file.
If the file is removed anyway, this process still knows its own locks, but other processes cannot see them. The holder
of such a lock detects this at the next check (`ensure_held`) and stops writing.

A partition that is a symbolic link is locked in the directory of its target and, if there is a lock file, in the
directory of the link, too.

fcntl locks belong to the process: they do not exclude its own threads, and the system drops all of them as soon as the
process closes *any* descriptor of the file, including one opened to copy or compare it. Therefore each lock file is
opened only once per process, by this module, and closed with its last lock. A signal may interrupt this module at any
point; a lock without an owner is released when it is garbage collected.

Source: server-common/.../FileLock.java, LogManager.
"""

import fcntl
import hashlib
import os
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kafkalog.errors import LogLockedError
from kafkalog.storage.file_names import LOCK_FILE

_FileId = tuple[int, int]  # device, inode


@dataclass(frozen=True, slots=True)
class _Range:
    """A range of bytes in a lock file; a length of 0 means up to the largest position."""

    start: int
    length: int

    def overlaps(self, other: "_Range") -> bool:
        return self == other or 0 in (self.length, other.length)


_WHOLE = _Range(0, 0)
# How long to wait for another process to write the checkpoints.
_WAIT_S, _LONGEST_WAIT_S = 0.01, 30.0
# How long to wait for another process to write the clean-shutdown marker.
_LOOKING_AROUND_S = 0.3


@dataclass(slots=True)
class _LockFile:
    """A lock file opened by this process, with the ranges it has locked.

    Attributes:
        path: The lock file.
        descriptors: The descriptors of the file and of its directory; an open directory keeps its identity.
        home: The identity of the directory.
        locked: The mark (see `DirectoryLock`) and the directory of each locked range.
    """

    path: Path
    descriptors: list[int] = field(default_factory=list)
    home: _FileId = (-1, -1)
    locked: dict[_Range, tuple[object, Path]] = field(default_factory=dict)

    def lock(self, wanted: _Range, mark: object, directory: Path) -> None:
        try:
            self.locked[wanted] = mark, directory
            fcntl.lockf(self.descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB, wanted.length, wanted.start)
        except (BlockingIOError, PermissionError):
            self.locked.pop(wanted, None)
            raise _locked_elsewhere(self.path, self.descriptors[0], wanted) from None
        except BaseException:
            self.unlock(wanted)
            raise

    def unlock(self, held: _Range) -> None:
        """Unlock a range; its entry is removed last, so that an unlock interrupted by a signal can be repeated."""
        try:
            self._let_go(held)
        except OSError:
            self.locked.pop(held, None)
            raise
        self.locked.pop(held, None)

    def _let_go(self, part: _Range) -> None:
        fcntl.lockf(self.descriptors[0], fcntl.LOCK_UN, part.length, part.start)

    def do_alone(self, held: _Range, action: Callable[[], None]) -> None:
        """Call `action` with all bytes but `held` locked, unless another lock is held, by this process or another."""
        around = (_Range(0, held.start), _Range(held.start + held.length, 0))
        wanted = [each for each in around if each != _WHOLE] if held != _WHOLE else []
        try:
            for part in wanted if self.locked.keys() == {held} else ():
                fcntl.lockf(self.descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB, part.length, part.start)
            alone = self.locked.keys() == {held}
        except (BlockingIOError, PermissionError):
            alone = False
        try:
            if alone:
                action()
        finally:
            for part in wanted if self.locked.keys() == {held} else ():
                self._let_go(part)

    def close(self) -> None:
        self.locked.clear()
        while self.descriptors:
            # Remove it first: the descriptor is released even if closing fails, and its number may be reused at once.
            os.close(self.descriptors.pop())


_files: dict[_FileId, _LockFile] = {}
_guard = threading.Lock()
# Ranges of garbage-collected locks that could not be unlocked at that moment.
_forgotten: deque[tuple[_LockFile, _Range, object]] = deque()


class DirectoryLock:
    """A lock that is held from `acquire` until `release`, the end of a `with`, or the end of the process.

    It is not inherited by forked children, and it is released when it is garbage collected.

    Attributes:
        directory: The locked directory.
        path: The lock file.
    """

    # A class attribute, in case a signal interrupts __init__.
    _file: _LockFile | None = None

    def __init__(self, directory: Path, path: Path, wanted: _Range, longest_wait_s: float = 0) -> None:
        """Create an unlocked lock; use `lock_data_dir` or a class method such as `of_data_dir`."""
        self.directory = directory
        self.path = path
        self._wanted = wanted
        self._longest_wait_s = longest_wait_s
        # Identifies the ranges of this lock without keeping the lock alive.
        self._mark = object()
        self._link: DirectoryLock | None = None

    @classmethod
    def of_data_dir(cls, directory: Path) -> Self:
        """Return the lock of `lock_data_dir`, not acquired yet."""
        return cls(directory, directory / LOCK_FILE, _WHOLE)

    @classmethod
    def of_partition(cls, directory: Path) -> Self:
        """Return the lock of `lock_partition`, not acquired yet."""
        named = Path(os.path.abspath(directory))  # noqa: PTH100 - a link keeps its name
        real = named.resolve()
        lock = cls(real, real.parent / LOCK_FILE, _byte_of(real.name), _LOOKING_AROUND_S)
        if _is_link(named, real) and (named.parent / LOCK_FILE).exists():
            lock._link = cls(named, named.parent / LOCK_FILE, _byte_of(named.name), _LOOKING_AROUND_S)
        return lock

    @classmethod
    def of_target(cls, directory: Path) -> Self | None:
        """Return a lock, not acquired yet, on the target of a linked partition; None if `directory` is not a link.

        It completes the lock on a data directory, which does not cover targets elsewhere.
        """
        real = directory.resolve()
        if not _is_link(directory.absolute(), real):
            return None
        return cls(real, real.parent / LOCK_FILE, _byte_of(real.name), _LOOKING_AROUND_S)

    @classmethod
    def of_checkpoints(cls, data_dir: Path) -> Self:
        """Return a lock, not acquired yet, on the checkpoints of a data directory; `acquire` waits for others."""
        return cls(data_dir, data_dir / LOCK_FILE, _byte_of(""), _LONGEST_WAIT_S)

    def acquire(self) -> Self:
        """Acquire the lock. Callers must call `release` even if this fails.

        Raises:
            LogLockedError: The lock is held elsewhere, perhaps by this process, for longer than the waiting time.
            OSError: The lock file cannot be opened or locked.
        """
        _patiently(lambda: _take(self), self._longest_wait_s)
        if self._link is not None:
            try:
                self._link.acquire()
            except BaseException:
                self.release()
                raise
        return self

    @property
    def mark(self) -> object:
        """The identity of this lock, for objects that must not keep the lock alive."""
        return self._mark

    @property
    def is_held(self) -> bool:
        """Whether the lock is held."""
        return self._file is not None and _is_marked(self._file, self._wanted, self._mark)

    @property
    def holds_all(self) -> bool:
        """Whether the lock covers the whole data directory, not a partition."""
        return self._wanted == _WHOLE

    def ensure_held(self) -> None:
        """Raise LogLockedError if the lock was released, or its file was removed or replaced."""
        file = self._file
        if file is None or not self.is_held or _files.get(_file_id(self.path)) is not file:
            what = "the lock file was removed or replaced, and somebody else may be writing: open anew what is open"
            raise LogLockedError(what, str(self.path))
        if self._link is not None:
            self._link.ensure_held()

    def if_nobody_else(self, action: Callable[[], None]) -> None:
        """Call `action` if this is the only lock in its data directory; no other one can be acquired meanwhile."""
        with _guard:
            if self._file is not None and self.is_held:
                self._file.do_alone(self._wanted, action)

    def release(self) -> None:
        """Release the lock. May be called repeatedly."""
        if self._link is not None:
            self._link.release()
        if self._file is not None:
            with _guard:
                _settle_forgotten()
                _let_go(self._file, self._wanted, self._mark)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __del__(self) -> None:
        """Release the lock on garbage collection, perhaps while this thread is acquiring or releasing another lock."""
        if self.is_held and self._file is not None:
            _forgotten.append((self._file, self._wanted, self._mark))
            if _guard.acquire(blocking=False):
                try:
                    _settle_forgotten()
                finally:
                    _guard.release()


def lock_data_dir(directory: Path) -> DirectoryLock:
    """Lock a data directory against all other writers.

    Raises:
        LogLockedError: A broker or another writer is active, perhaps in this process.
        OSError: The lock file cannot be opened or locked.
    """
    return DirectoryLock.of_data_dir(directory).acquire()


def lock_partition(directory: Path) -> DirectoryLock:
    """Lock one partition of a data directory against other writers. Raises: as `lock_data_dir`.

    The partition need not exist yet. The lock file lies beside it. This waits for a process that runs `if_nobody_else`.
    """
    return DirectoryLock.of_partition(directory).acquire()


def _patiently(take: Callable[[], None], longest_s: float) -> None:
    """Call `take` until it succeeds; raise its LogLockedError after `longest_s` seconds."""
    give_up = time.monotonic() + longest_s
    while True:
        try:
            return take()
        except LogLockedError:
            if time.monotonic() >= give_up:
                raise
        time.sleep(_WAIT_S)


def is_busy() -> bool:
    """Return whether a thread, perhaps this one, is acquiring or releasing a lock."""
    return _guard.locked()


def _is_link(named: Path, real: Path) -> bool:
    """Return whether the partition itself is a link; the data directory may be one, too."""
    return (named.parent.resolve(), named.name) != (real.parent, real.name)


def _byte_of(name: str) -> _Range:
    digest = hashlib.sha256(os.fsencode(name)).digest()
    return _Range(int.from_bytes(digest[:8], "big") >> 2, 1)


def _take(lock: DirectoryLock) -> None:
    with _guard:
        _settle_forgotten()
        try:
            while True:
                lock._file = file = _opened(lock.path)
                _refuse_own(file, lock)
                file.lock(lock._wanted, lock._mark, lock.directory)
                # A stopping broker removes the file, perhaps after it was opened here and before it was locked.
                if _files.get(_file_id(lock.path)) is file:
                    return
                _let_go(file, lock._wanted, lock._mark)
        except BaseException:
            if lock._file is not None:
                _let_go(lock._file, lock._wanted, lock._mark)
            raise


def _refuse_own(file: _LockFile, lock: DirectoryLock) -> None:
    """Raise LogLockedError if this process holds an overlapping lock, perhaps in a lock file removed since."""
    for known in {id(each): each for each in _files.values() if each.home == file.home}.values():
        mine = next((whose for part, (_, whose) in known.locked.items() if lock._wanted.overlaps(part)), None)
        if mine is not None:
            what = "it is" if mine == lock.directory else f"{mine} is"
            raise LogLockedError(f"{what} open in this process already, and must be closed first", str(lock.directory))


def _is_marked(file: _LockFile, part: _Range, mark: object) -> bool:
    return file.locked.get(part, (None,))[0] is mark


def _let_go(file: _LockFile, part: _Range, mark: object) -> None:
    try:
        if _is_marked(file, part, mark):
            file.unlock(part)
    finally:
        _close_if_unused(file)


def _settle_forgotten() -> None:
    while _forgotten:
        _let_go(*_forgotten.popleft())


def _opened(path: Path) -> _LockFile:
    """Return the open lock file; it is opened only once, because closing a second descriptor would drop the locks."""
    known = _open_file(_file_id(path))
    if known is not None:
        return known
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    file_id = _id_of(os.fstat(descriptor))
    # The path may meanwhile refer to a file that is already open here.
    file = _open_file(file_id) or _LockFile(path)
    # Add the descriptor first: if a signal interrupts, a registered file must have one.
    file.descriptors.append(descriptor)
    _files[file_id] = file
    if len(file.descriptors) == 1:
        try:
            file.descriptors.append(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            file.home = _id_of(os.fstat(file.descriptors[1]))
        except BaseException:
            _close_if_unused(file)
            raise
    return file


def _open_file(file_id: _FileId) -> _LockFile | None:
    file = _files.get(file_id)
    # A signal may have interrupted its closing.
    return file if file is not None and file.descriptors else None


def _id_of(status: os.stat_result) -> _FileId:
    return status.st_dev, status.st_ino


def _file_id(path: Path) -> _FileId:
    try:
        status = path.stat()
    except FileNotFoundError:
        return -1, -1
    return _id_of(status)


def _close_if_unused(file: _LockFile) -> None:
    if not file.locked:
        file.close()
        for file_id in [each for each, known in _files.items() if known is file]:
            del _files[file_id]


def _locked_elsewhere(path: Path, descriptor: int, wanted: _Range) -> LogLockedError:
    holder = _holder(descriptor, wanted)
    what = "another process, a broker perhaps, has it locked"
    return LogLockedError(what, str(path), found=f"process {holder}" if holder else None)


# struct flock: type, whence, start, length, pid; on macOS type and whence come last.
_FLOCK = struct.Struct("@qqihh" if sys.platform == "darwin" else "@hhqqi")


def _holder(descriptor: int, wanted: _Range) -> int | None:
    """Return the process that has locked these bytes, if the system reports it."""
    asked = (fcntl.F_WRLCK, os.SEEK_SET, wanted.start, wanted.length, 0)
    mac = sys.platform == "darwin"
    with suppress(OSError, struct.error):
        packed = _FLOCK.pack(*asked[2:], *asked[:2]) if mac else _FLOCK.pack(*asked)
        answer = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, packed))
        kind, process = (answer[3], answer[2]) if mac else (answer[0], answer[4])
        return process if kind != fcntl.F_UNLCK and process > 0 else None
    return None


def _forget() -> None:
    """Drop all state in a forked child, which inherits the descriptors but not the locks."""
    global _guard  # noqa: PLW0603 - another thread of the parent may have held it
    _guard = threading.Lock()
    _forgotten.clear()
    for file in _files.values():
        file.close()
    _files.clear()


os.register_at_fork(after_in_child=_forget)
