"""The lock on a data directory: one writer at a time, whether a broker or this library.

    /var/lib/kafka/.lock    an empty file; its bytes are locked (fcntl, advisory)

    a broker, DirectoryLock(data_dir)      bytes 0 .. the largest there is
    DirectoryLock(data_dir, "orders-3")    one byte, at a position derived from the name
    DirectoryLock.exclusive                one byte, while checkpoints or the clean-shutdown marker change

Thus any number of processes may write different partitions, but none of them beside a broker. Readers take no lock.

The system knows fcntl locks by process and inode. They do not exclude threads of the process, and it drops all of them
when the process closes *any* descriptor of the file, including one opened to copy or compare it. Therefore:

    - A process opens a lock file with its first lock in a data directory, and closes it with its last one.
    - `_held` contains what this process has locked; it refuses its own threads, and garbage collection may release an
      abandoned lock wherever it runs. A forked child has no locks.
    - The path must name the file that is locked, since a stopping broker removes it. `acquire` checks that after
      locking, `ensure_held` before changes: if somebody removes the file, others cannot see the lock. This library
      leaves the file.

Source: server-common/.../FileLock.java, LogManager.
"""

import fcntl
import hashlib
import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from kafkalog.errors import LogLockedError
from kafkalog.storage.file_names import LOCK_FILE, real_path

# Reentrant: a garbage collection in this module may release a lock of another log.
_guard = threading.RLock()
_held: set["DirectoryLock"] = set()
# The open lock files, by the real path of their data directory.
_descriptors: dict[Path, int] = {}


def _byte_of(name: str) -> int:
    return int.from_bytes(hashlib.sha256(os.fsencode(name)).digest()[:8], "big") >> 2


class DirectoryLock:
    """A lock on a data directory or on one partition, from `acquire` to `release` or the end of the process.

    Attributes:
        data_dir: The data directory.
        real_dir: The data directory without links, by which this process knows it.
        directory: The locked directory: the data directory or a partition, which need not exist.
        path: The lock file.
        holds_all: Whether the lock covers the whole data directory.
    """

    def __init__(self, data_dir: Path, partition: str | None = None) -> None:
        """Create an unlocked lock on a data directory, or on the partition of this name in it."""
        self.data_dir = data_dir
        self.directory = data_dir if partition is None else data_dir / partition
        self.path = data_dir / LOCK_FILE
        self.holds_all = partition is None
        self.real_dir = real_path(data_dir)
        # Length and start; a length of 0 means up to the largest position.
        self._bytes = (0, 0) if partition is None else (1, _byte_of(partition))
        self._link: DirectoryLock | None = None

    @classmethod
    def of_partition(cls, directory: Path) -> Self:
        """Return an unlocked lock on a partition: on the target of a link, and on the link if it lies in a data dir."""
        named, real = Path(os.path.abspath(directory)), real_path(directory)  # noqa: PTH100 - a link keeps its name
        lock = cls(real.parent, real.name)
        if target_of_link(named) is not None and (named.parent / LOCK_FILE).exists():
            lock._link = cls(named.parent, named.name)
        return lock

    def acquire(self) -> Self:
        """Acquire the lock.

        Raises:
            LogLockedError: A broker or another writer has locked the directory, perhaps in this process.
            OSError: The lock file cannot be opened or locked.
        """
        try:
            with _guard:
                while not self._take():
                    self.release()
            if self._link is not None:
                self._link.acquire()
        except BaseException:
            self.release()
            raise
        return self

    def _take(self) -> bool:
        """Lock the bytes. Return False if the file was removed before it was locked, as a stopping broker does."""
        self._refuse_own()
        # First, so that the file stays open while garbage collection releases other locks.
        _held.add(self)
        if self.real_dir not in _descriptors:
            _descriptors[self.real_dir] = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        descriptor = _descriptors[self.real_dir]
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, *self._bytes)
        except (BlockingIOError, PermissionError):
            what, holder = "another process, a broker perhaps, has it locked", _holder(descriptor, *self._bytes)
            raise LogLockedError(what, str(self.path), found=f"process {holder}" if holder else None) from None
        return self._is_effective()

    def _refuse_own(self) -> None:
        """Raise LogLockedError for an overlapping lock of this process, or one in a lock file that was removed."""
        for other in tuple(_held):
            if other.real_dir != self.real_dir:
                continue
            if other._bytes == self._bytes or other.holds_all or self.holds_all:
                what = "it is" if other.directory == self.directory else f"{other.directory} is"
                message = f"{what} open in this process already, and must be closed first"
                raise LogLockedError(message, str(self.directory))
            other.ensure_held()

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lock."""
        return self in _held

    def ensure_held(self) -> None:
        """Raise LogLockedError if the lock was released, or its file was removed or replaced."""
        if not self.is_held or not self._is_effective():
            what = "the lock file was removed or replaced, and somebody else may be writing: open anew what is open"
            raise LogLockedError(what, str(self.path))
        if self._link is not None:
            self._link.ensure_held()

    def _is_effective(self) -> bool:
        """Return whether the path names the locked file, so that other processes see the lock."""
        with suppress(OSError):
            return os.path.samestat(self.path.stat(), os.fstat(_descriptors.get(self.real_dir, -1)))
        return False

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait for all others that call this in the data directory, threads and processes, and exclude them.

        Raises:
            LogLockedError: As `ensure_held`.
        """
        with _guard:
            self.ensure_held()
            if self.holds_all:
                yield
                return
            descriptor, byte = _descriptors[self.real_dir], (1, _byte_of(""))
            fcntl.lockf(descriptor, fcntl.LOCK_EX, *byte)
            try:
                yield
            finally:
                fcntl.lockf(descriptor, fcntl.LOCK_UN, *byte)

    def has_company(self) -> bool:
        """Return whether another process holds a lock in the data directory. This lock must be held."""
        return _holder(_descriptors[self.real_dir], 0, 0) is not None

    def release(self) -> None:
        """Release the lock. May be called repeatedly, and wherever garbage is collected."""
        with _guard:
            try:
                # While this lock is in `_held`, nobody closes the descriptor.
                if self.is_held and self.real_dir in _descriptors:
                    fcntl.lockf(_descriptors[self.real_dir], fcntl.LOCK_UN, *self._bytes)
            finally:
                _held.discard(self)
                if not any(each.real_dir == self.real_dir for each in tuple(_held)) and self.real_dir in _descriptors:
                    os.close(_descriptors.pop(self.real_dir))
        if self._link is not None:
            self._link.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def holder_of(data_dir: Path) -> int | None:
    """Return a process that has locked something in a data directory (0: on another machine); None if there is none."""
    with _guard:
        if real_path(data_dir) in _descriptors:
            return os.getpid()
        try:
            # Closing it drops no lock of this process, which has none here.
            descriptor = os.open(data_dir / LOCK_FILE, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return _holder(descriptor, 0, 0)
        finally:
            os.close(descriptor)


def target_of_link(partition: Path) -> Path | None:
    """Return the target of a partition that is a symbolic link; None if it is not. The data directory may be one."""
    real = real_path(partition)
    return None if real == real_path(partition.parent) / partition.name else real


# struct flock: type, whence, start, length, pid; on macOS type and whence come last.
_FLOCK = struct.Struct("@qqihh" if sys.platform == "darwin" else "@hhqqi")


def _holder(descriptor: int, length: int, start: int) -> int | None:
    """Return another process that has locked one of these bytes (0: on another machine); None if there is none."""
    asked = (fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    mac = sys.platform == "darwin"
    packed = _FLOCK.pack(*asked[2:], *asked[:2]) if mac else _FLOCK.pack(*asked)
    answer = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, packed))
    kind, process = (answer[3], answer[2]) if mac else (answer[0], answer[4])
    return None if kind == fcntl.F_UNLCK else max(process, 0)


def _forget() -> None:
    """Drop all locks in a forked child, which inherits the descriptors but not the locks."""
    global _guard  # noqa: PLW0603 - another thread of the parent may have held it
    _guard = threading.RLock()
    _held.clear()
    while _descriptors:
        os.close(_descriptors.popitem()[1])


os.register_at_fork(after_in_child=_forget)
