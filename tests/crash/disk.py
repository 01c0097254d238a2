"""A file system that stops, fails or loses power at any call that kafkalog makes to change it.

    os.write, ftruncate, rename, ...  ->  Disk  ->  the file system        one number for each call

`Stop`: from that call on nothing is changed any more, as if the process were gone; a write may be done in part.
`Fail`: calls raise an OSError, and go on again later. And at any time `image` says what a disk may hold when the power
goes: of each file what was there when it was last synced, and any part of what came later; of each directory the names
it had then, or those after some of the later changes, in their order.
"""

from __future__ import annotations

import builtins
import errno
import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from unittest import mock

from kafkalog.storage.files import durable as atomic

BLOCKS = (64, 512, 4096)
# A descriptor of it that is closed takes the process's lock away.
_UNTOUCHED = ".lock"


class Stopped(BaseException):
    """The process is gone: nothing that it does has an effect any more."""


@dataclass(frozen=True)
class Stop:
    """Stop at the n-th call (from 1 on)."""

    at: int


@dataclass(frozen=True)
class Fail:
    """Fail from the n-th call on, so many times. half: a write does half of its work first."""

    at: int
    times: int = 1
    code: int = errno.ENOSPC
    half: bool = False


Fault = Stop | Fail | None


class Disk:
    """Stands between kafkalog and all below `root`, while it is entered.

    calls: how many changes were asked for. sparing: calls that never fail, because a full disk gives its space back.
    """

    def __init__(
        self,
        root: Path,
        fault: Fault = None,
        *,
        remembers: bool = False,
        sparing: tuple[str, ...] = ("unlink", "remove", "rmdir"),
    ) -> None:
        self.root = root
        self.fault = fault
        self.sparing = sparing
        self.calls = 0
        self.stopped = False
        self.names: list[str] = []
        self._memory = _Memory(root) if remembers else None
        self._real: dict[str, Any] = {}
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        for name in ("rename", "replace"):
            self._patch(os, name, self._renaming)
        for name in ("unlink", "remove", "rmdir", "mkdir", "truncate", "utime"):
            self._patch(os, name, self._by_path)
        for name in ("ftruncate", "posix_fallocate", "fsync"):
            self._patch(os, name, self._by_descriptor)
        for name in ("write", "pwrite"):
            self._patch(os, name, self._writing)
        self._patch(os, "open", self._opening)
        self._patches.enter_context(mock.patch.object(atomic, "open", self._open_file, create=True))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def heal(self) -> None:
        """From now on every call succeeds."""
        self.fault = None
        self.stopped = False

    def forget(self) -> None:
        """Give up the files that were held for `image`."""
        if self._memory is not None:
            self._memory.close()

    def image(self, target: Path, rng: random.Random | None = None) -> None:
        """Write what the disk holds after a loss of power: only what was synced, or with `rng` parts of the rest."""
        assert self._memory is not None
        self._memory.image(target, rng)

    # --- the calls

    def _patch(self, owner: Any, name: str, wrapper: Callable[[str], Callable[..., Any]]) -> None:
        if hasattr(owner, name):
            self._real[name] = getattr(owner, name)
            self._patches.enter_context(mock.patch.object(owner, name, wrapper(name)))

    def _call(self, name: str, real: Callable[[], Any], part: Callable[[], Any] | None = None, path: Any = None) -> Any:
        """path: what the system names in an error; it names nothing where it was given a descriptor."""
        if self.stopped:
            raise Stopped
        self.calls += 1
        self.names.append(name)
        fault = self.fault
        if isinstance(fault, Stop) and self.calls >= fault.at:
            self.stopped = True
            with suppress(OSError):
                part() if part is not None else None
            raise Stopped
        if isinstance(fault, Fail) and fault.at <= self.calls < fault.at + fault.times and name not in self.sparing:
            if fault.half and part is not None and self.calls == fault.at:
                return part()
            raise OSError(fault.code, os.strerror(fault.code), path)
        return real()

    def _is_ours(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and self.root in Path(path).parents

    def _by_path(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if not self._is_ours(path):
                return real(path, *arguments, **options)
            outcome = self._call(name, lambda: real(path, *arguments, **options), path=os.fspath(path))
            self._note_names(Path(path).parent)
            return outcome

        return call

    def _renaming(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(old: Any, new: Any, **options: Any) -> Any:
            if not self._is_ours(old):
                return real(old, new, **options)
            outcome = self._call(name, lambda: real(old, new, **options), path=os.fspath(old))
            self._note_names(Path(old).parent)
            return outcome

        return call

    def _by_descriptor(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(descriptor: int, *arguments: Any) -> Any:
            if name != "fsync":
                return self._call(name, lambda: real(descriptor, *arguments))
            # Never really: a test need not wait for the disk.
            self._call(name, lambda: None)
            if self._memory is not None:
                self._memory.synced(descriptor)
            return None

        return call

    def _writing(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(descriptor: int, data: Any, *arguments: Any) -> Any:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return real(descriptor, data, *arguments)
            half = memoryview(data)[: max(1, len(data) // 2)]
            return self._call(
                name, lambda: real(descriptor, data, *arguments), lambda: real(descriptor, half, *arguments)
            )

        return call

    def _opening(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(path: Any, flags: int, *arguments: Any, **options: Any) -> Any:
            creates = flags & os.O_CREAT and self._is_ours(path) and not os.path.lexists(path)
            if not creates:
                return real(path, flags, *arguments, **options)
            descriptor = self._call("create", lambda: real(path, flags, *arguments, **options), path=os.fspath(path))
            self._note_names(Path(path).parent)
            return descriptor

        return call

    def _open_file(self, path: Any, mode: str = "r", *, opener: Any = None) -> Any:
        """The built-in one, for whoever writes a whole file."""
        # closed by the wrapper
        file = self._call("create", lambda: builtins.open(path, mode, opener=opener), path=path)  # noqa: SIM115
        self._note_names(Path(path).parent)
        return _WholeFile(file, self._call)

    def _note_names(self, directory: Path) -> None:
        if self._memory is not None:
            self._memory.changed(directory)


class _WholeFile:
    """An open file whose bytes go to the disk when it is flushed, or closed."""

    def __init__(self, file: Any, call: Callable[..., Any]) -> None:
        self._file = file
        self._call = call
        self._data = b""

    def write(self, data: bytes) -> None:
        self._data += data

    def flush(self) -> None:
        data, self._data = self._data, b""

        def put(part: bytes) -> None:
            self._file.write(part)
            self._file.flush()

        def put_half() -> None:
            put(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        self._call("write", lambda: put(data), put_half)

    def fileno(self) -> int:
        number: int = self._file.fileno()
        return number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._file:
            if self._data and kind is None:
                self.flush()


@dataclass
class _Names:
    """What a directory held when it was last synced, and after each change since: name -> number of the file."""

    listings: list[dict[str, int]]


class _Memory:
    """What of the files and directories below a root is on the disk for good. What is there at the beginning is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held: dict[int, int] = {}
        self._synced: dict[int, bytes] = {}
        self._directories: dict[int, _Names] = {}
        self._begin(root)

    def _begin(self, directory: Path) -> None:
        listing = self._list(directory)
        self._directories[directory.stat().st_ino] = _Names([listing])
        for name, number in listing.items():
            if (directory / name).is_dir():
                self._begin(directory / name)
            elif number in self._held:
                self._synced[number] = self._now(number)

    def _list(self, directory: Path) -> dict[str, int]:
        found = {}
        for each in directory.iterdir():
            number = found[each.name] = each.stat().st_ino
            # Held, so that no other file gets its number.
            if number not in self._held and each.name != _UNTOUCHED:
                self._held[number] = os.open(each, os.O_RDONLY)
        return found

    def changed(self, directory: Path) -> None:
        if not directory.is_dir():
            return
        names = self._directories.setdefault(directory.stat().st_ino, _Names([{}]))
        names.listings.append(self._list(directory))
        for each in directory.iterdir():
            if each.is_dir():
                self._directories.setdefault(each.stat().st_ino, _Names([{}]))

    def synced(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if status.st_ino in self._held and not stat.S_ISDIR(status.st_mode):
            self._synced[status.st_ino] = self._now(status.st_ino)
        elif status.st_ino in self._directories:
            names = self._directories[status.st_ino]
            names.listings = names.listings[-1:]

    def _now(self, number: int) -> bytes:
        descriptor = self._held[number]
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)

    def image(self, target: Path, rng: random.Random | None) -> None:
        self._image(self.root.stat().st_ino, target, rng)

    def _image(self, number: int, target: Path, rng: random.Random | None) -> None:
        target.mkdir()
        listings = self._directories[number].listings
        listing = listings[0] if rng is None else rng.choice(listings)
        for name, each in listing.items():
            if each in self._directories:
                self._image(each, target / name, rng)
            else:
                (target / name).write_bytes(self._content(each, rng))

    def _content(self, number: int, rng: random.Random | None) -> bytes:
        synced = self._synced.get(number, b"")
        if rng is None or number not in self._held:
            return synced
        return mixed(synced, self._now(number), rng)

    def close(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()


def mixed(old: bytes, new: bytes, rng: random.Random) -> bytes:
    """What a file may hold that was `old` on the disk and `new` in memory: any length between, each block either."""
    shortest, longest = sorted((len(old), len(new)))
    length = rng.choice([len(old), len(new), rng.randint(shortest, longest)])
    return b"".join(_blocks(old.ljust(length, b"\0"), new.ljust(length, b"\0"), length, len(old), rng))


def _blocks(old: bytes, new: bytes, length: int, known: int, rng: random.Random) -> Iterator[bytes]:
    size = rng.choice(BLOCKS)
    for at in range(0, length, size):
        end = min(length, at + size)
        whatever = old[at:end] if at < known else rng.randbytes(end - at)
        yield rng.choices([old[at:end], new[at:end], whatever], [4, 8, 1])[0]
