"""The lock on a data directory: one writer at a time, be it a broker or one of us.

    /var/lib/kafka/.lock    an empty file; what counts is who has locked which bytes of it (fcntl, advisory)

    a broker, lock_data_dir      bytes 0 .. the largest there is
    lock_partition("orders-3")   one byte, at a place that follows from the name

So any number of processes may each write another partition, and none of them beside a broker. Readers take no lock.
The file stays when the lock is released: were it removed, somebody could lock the removed file, and somebody else a
new one. Where somebody removes it all the same, this process still knows what it has locked; other processes cannot,
so whoever holds such a lock finds out when it next asks, and writes no more (`ensure_held`).

A partition that is a link is locked where it leads to, and, if there is a lock file, where the link lies, too.

Locks of this kind belong to the process. They do not keep its own threads apart, and the system drops all of them as
soon as the process closes *any* descriptor of the file, also one that it opened to copy or compare it. So each file is
opened once here, whoever asks, and closed with its last lock. A signal may end whatever is done here, wherever it is:
a lock that nobody has any more is given up when it is collected. Source: server-common/.../FileLock.java, LogManager.
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
    """A lock file that this process has open, and what it has locked of it.

    descriptors: the file's, and its directory's, which therefore is no other as long as this one is open. home: which
    directory it is. locked: by what mark, see `DirectoryLock`, and for which directory.
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
        """Its mark goes last: where a signal ends this, it is to be unlocked once more."""
        try:
            self._let_go(held)
        except OSError:
            self.locked.pop(held, None)
            raise
        self.locked.pop(held, None)

    def _let_go(self, part: _Range) -> None:
        fcntl.lockf(self.descriptors[0], fcntl.LOCK_UN, part.length, part.start)

    def do_alone(self, held: _Range, action: Callable[[], None]) -> None:
        """Do it while all bytes but `held` are locked, unless somebody has one of them, in this process too."""
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
            # Forgotten first: it is gone even where closing fails, and may be another file's the moment after.
            os.close(self.descriptors.pop())


_files: dict[_FileId, _LockFile] = {}
_guard = threading.Lock()
# What was held by locks that were collected while it could not be let go.
_forgotten: deque[tuple[_LockFile, _Range, object]] = deque()


class DirectoryLock:
    """A lock that is held from `acquire` until `release`, the end of a `with`, or the end of the process.

    A forked child has none. One that is forgotten is released. directory: what is locked; path: the lock file.
    """

    # A signal may end its making.
    _file: _LockFile | None = None

    def __init__(self, directory: Path, path: Path, wanted: _Range, longest_wait_s: float = 0) -> None:
        """Use `of_data_dir` and the like, or `lock_data_dir`."""
        self.directory = directory
        self.path = path
        self._wanted = wanted
        self._longest_wait_s = longest_wait_s
        # What it has locked is known by this, so that the lock itself can be forgotten.
        self._mark = object()
        self._link: DirectoryLock | None = None

    @classmethod
    def of_data_dir(cls, directory: Path) -> Self:
        """Not acquired yet: what `lock_data_dir` takes."""
        return cls(directory, directory / LOCK_FILE, _WHOLE)

    @classmethod
    def of_partition(cls, directory: Path) -> Self:
        """Not acquired yet: what `lock_partition` takes."""
        named = Path(os.path.abspath(directory))  # noqa: PTH100 - a link keeps its name
        real = named.resolve()
        lock = cls(real, real.parent / LOCK_FILE, _byte_of(real.name), _LOOKING_AROUND_S)
        if _is_link(named, real) and (named.parent / LOCK_FILE).exists():
            lock._link = cls(named, named.parent / LOCK_FILE, _byte_of(named.name), _LOOKING_AROUND_S)
        return lock

    @classmethod
    def of_target(cls, directory: Path) -> Self | None:
        """Where a partition of a data directory that is locked is a link: what keeps others from writing to its target.

        None: it is no link. Not acquired yet.
        """
        real = directory.resolve()
        if not _is_link(directory.absolute(), real):
            return None
        return cls(real, real.parent / LOCK_FILE, _byte_of(real.name), _LOOKING_AROUND_S)

    @classmethod
    def of_checkpoints(cls, data_dir: Path) -> Self:
        """Not acquired yet: what keeps other processes from changing the checkpoints; others are waited for."""
        return cls(data_dir, data_dir / LOCK_FILE, _byte_of(""), _LONGEST_WAIT_S)

    def acquire(self) -> Self:
        """Take it. LogLockedError: somebody else has it, perhaps in this process, for longer than can be waited.

        OSError: the lock file cannot be opened or locked. Whoever calls this must `release`, whatever it raises.
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
        """By what this lock is known to those who must not hold it."""
        return self._mark

    @property
    def is_held(self) -> bool:
        """Whether nobody else may write there."""
        return self._file is not None and _is_marked(self._file, self._wanted, self._mark)

    @property
    def holds_all(self) -> bool:
        """Whether it is the whole data directory that is locked, not a partition."""
        return self._wanted == _WHOLE

    def ensure_held(self) -> None:
        """LogLockedError: nobody is kept out any more: the lock file is not at its path, or the lock was released."""
        file = self._file
        if file is None or not self.is_held or _files.get(_file_id(self.path)) is not file:
            what = "the lock file was removed or replaced, and somebody else may be writing: open anew what is open"
            raise LogLockedError(what, str(self.path))
        if self._link is not None:
            self._link.ensure_held()

    def if_nobody_else(self, action: Callable[[], None]) -> None:
        """Do something if this is the only lock below its data directory; nobody gets another meanwhile."""
        with _guard:
            if self._file is not None and self.is_held:
                self._file.do_alone(self._wanted, action)

    def release(self) -> None:
        """Let others write. May be called again."""
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
        """Wherever garbage is collected, and so perhaps while this very thread is about to take or release a lock."""
        if self.is_held and self._file is not None:
            _forgotten.append((self._file, self._wanted, self._mark))
            if _guard.acquire(blocking=False):
                try:
                    _settle_forgotten()
                finally:
                    _guard.release()


def lock_data_dir(directory: Path) -> DirectoryLock:
    """Keep everybody else from writing below a data directory.

    LogLockedError: a broker or another writer is there, perhaps in this process. OSError: the lock file cannot be
    opened or locked.
    """
    return DirectoryLock.of_data_dir(directory).acquire()


def lock_partition(directory: Path) -> DirectoryLock:
    """Keep everybody else from writing to one partition of a data directory. The errors of `lock_data_dir`.

    The partition need not be there yet. The lock file lies beside it. Somebody who looks whether nobody else is there,
    see `if_nobody_else`, is waited for.
    """
    return DirectoryLock.of_partition(directory).acquire()


def _patiently(take: Callable[[], None], longest_s: float) -> None:
    """Take it, once others have given it up. LogLockedError: they do not, for so long."""
    give_up = time.monotonic() + longest_s
    while True:
        try:
            return take()
        except LogLockedError:
            if time.monotonic() >= give_up:
                raise
        time.sleep(_WAIT_S)


def is_busy() -> bool:
    """Whether some thread, perhaps this one, is about to take or release a lock."""
    return _guard.locked()


def _is_link(named: Path, real: Path) -> bool:
    """Whether a partition is in a data directory by a link only; the data directory may be one itself."""
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
                # A broker that stops removes the file, perhaps after we opened it and before we had its lock.
                if _files.get(_file_id(lock.path)) is file:
                    return
                _let_go(file, lock._wanted, lock._mark)
        except BaseException:
            if lock._file is not None:
                _let_go(lock._file, lock._wanted, lock._mark)
            raise


def _refuse_own(file: _LockFile, lock: DirectoryLock) -> None:
    """LogLockedError: this process has what is wanted, perhaps in a lock file that has been removed since."""
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
    """The file, opened only if this process does not have it open: to close it again would drop the locks."""
    known = _open_file(_file_id(path))
    if known is not None:
        return known
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    file_id = _id_of(os.fstat(descriptor))
    # Somebody may have put there meanwhile what is open here.
    file = _open_file(file_id) or _LockFile(path)
    # Known only with a descriptor, wherever a signal ends this.
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
    # A signal may have ended its closing.
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
    _forgotten.clear()
    for file in _files.values():
        file.close()
    _files.clear()


os.register_at_fork(after_in_child=_forget)
