"""The journal of a repair: what it changes, with the bytes that it replaces, so that it can be finished or undone.

    kafka                                   a data directory
    kafka.repair-20261123-101500.123456     the journal, beside it: a broker does not start with a directory of that
                                            name in it
      journal.json                          the state, and the steps in order
      new/3                                 the new content of step 3
      old/3                                 what it replaces: the old file, a hard link if possible; or bytes cut off

    staging          nothing is changed but the journal
    applying         the steps are taken: a file is replaced, created, removed, or cut
    applied          all of them
    undoing          they are reverted, the last one first; then the journal is deleted

Each step may be taken or reverted again after an interruption: a file is there as it was, or as it is to be.
"""

import json
import os
import re
import shutil
import stat
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from errno import EXDEV
from pathlib import Path
from typing import NamedTuple, Self

from kafkalog.errors import LogStateError, NotALogError
from kafkalog.storage.file_names import LOCK_FILE, real_path
from kafkalog.storage.files.durable import naming, sync_directory, write_atomically

_VERSION = 1
_INFIX = ".repair-"
_NAME = re.compile(r"(.+)\.repair-[0-9]{8}-[0-9]{6}[.-][0-9]{6}")
_FILE = "journal.json"
STAGING, APPLYING, APPLIED, UNDOING = "staging", "applying", "applied", "undoing"
# Beside the target of a file that cannot be renamed to it, since they are on different file systems.
_DRAFT = ".repair-draft"
_PIECE = 1 << 20

State = tuple[int, int] | None
"""Size and mtime (ns) of a file; of a directory, -1 and 0. None: it is not there."""


def state_of(path: Path) -> State:
    """Return the state of a file; of a link, that of the link."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return (-1, 0) if stat.S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a repair: to a file, or the removal of a directory.

    Attributes:
        path: The file to create, to replace, to remove or to cut; or a directory to remove.
        before: Its state before the step.
        after: Its state after it.
        is_cut: Whether it is cut to its size after the step.
    """

    path: Path
    before: State
    after: State
    is_cut: bool = False

    def fits(self, *, done: bool) -> bool:
        """Return whether the file is as the step leaves it (`done`), or as an interruption of the step does."""
        found = state_of(self.path)
        if self.is_cut and not done and found and self.before and self.after:
            return self.after[0] <= found[0] <= self.before[0]
        return found == self.after or (not done and found == self.before)


class Journal:
    """A journal. Those who change it or its directory hold the lock of the directory.

    Attributes:
        path: The directory of the journal.
        directory: The data directory that is repaired.
        state: How far it is.
        steps: The steps in order.
        times: The mtime (ns) of each directory whose entries change, before the repair.
    """

    def __init__(
        self, path: Path, directory: Path, *, state: str, steps: list[Step], times: dict[Path, int], locks: list[Path]
    ) -> None:
        """Create a journal of these attributes; `locks`: the lock files that the repair created."""
        self.path = path
        self.directory = directory
        self.state = state
        self.steps = steps
        self.times = times
        self._locks = locks

    # --- files of the journal

    @classmethod
    def create(cls, stem: Path, directory: Path, times: dict[Path, int], locks: list[Path]) -> Self:
        """Begin the journal of a repair.

        Args:
            stem: The beginning of its path, which the time is added to.
            directory: The data directory.
            times: The mtime (ns) of directories where locks were created, before that.
            locks: The lock files that were created.

        Raises:
            OSError: It cannot be written.
        """
        path = stem.with_name(f"{stem.name}{_INFIX}{datetime.now(UTC):%Y%m%d-%H%M%S.%f}")
        journal = cls(path, directory, state=STAGING, steps=[], times=times, locks=locks)
        path.mkdir()
        try:
            journal._save(STAGING)
            (path / "new").mkdir()
            (path / "old").mkdir()
        except BaseException:
            shutil.rmtree(path)
            raise
        return journal

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a journal.

        Raises:
            NotALogError: It is none.
            OSError: It cannot be read.
        """
        try:
            found = json.loads((path / _FILE).read_bytes())
            if found["version"] != _VERSION:
                raise NotALogError("a journal of another version", str(path), None, _VERSION, found["version"])
            steps = [
                Step(Path(each["path"]), _as_state(each["before"]), _as_state(each["after"]), each["is_cut"])
                for each in found["steps"]
            ]
            times = {Path(name): int(time) for name, time in found["times"].items()}
            locks = [Path(each) for each in found["locks"]]
            return cls(path, Path(found["directory"]), state=found["state"], steps=steps, times=times, locks=locks)
        except (FileNotFoundError, NotADirectoryError):
            raise NotALogError("no journal of a repair", str(path)) from None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise NotALogError(f"no journal of a repair: {error!r}", str(path / _FILE)) from None

    def _save(self, state: str) -> None:
        self.state = state
        document = {
            "version": _VERSION,
            "state": state,
            "directory": str(self.directory),
            "steps": [{**asdict(each), "path": str(each.path)} for each in self.steps],
            "times": {str(path): time for path, time in self.times.items()},
            "locks": [str(path) for path in self._locks],
        }
        write_atomically(self.path / _FILE, json.dumps(document, indent=1).encode())

    def _new(self, number: int) -> Path:
        return self.path / "new" / str(number)

    def _old(self, number: int) -> Path:
        return self.path / "old" / str(number)

    # --- staging

    def stage(self, path: Path, source: Path | None) -> None:
        """Add a step: the file at `path` becomes a copy of `source`; without one, it is removed.

        The new file gets the owner and the mode of the old one.
        """
        path = real_path(path.parent) / path.name
        number, before = len(self.steps), state_of(path)
        if before is None and source is None:
            return
        after = None
        if source is not None:
            new = self._new(number)
            _link_or_copy(Path(os.path.realpath(source)), new)
            if not source.is_symlink():
                _dress(new, path)
            with new.open("rb") as file:
                os.fsync(file.fileno())
            after = state_of(new)
        if path.is_dir() and not path.is_symlink():
            if path.stat().st_dev != self.path.stat().st_dev:
                raise OSError(EXDEV, "it cannot be moved to the journal, which is on another file system", str(path))
        elif before is not None:
            _link_or_copy(path, self._old(number))
        self._add(Step(path, before, after))

    def stage_cut(self, path: Path, size: int) -> None:
        """Add a step: the file at `path` is cut to `size` bytes."""
        path = Path(os.path.realpath(path))
        with path.open("rb") as file, self._old(len(self.steps)).open("wb") as kept:
            file.seek(size)
            shutil.copyfileobj(file, kept, _PIECE)
            kept.flush()
            os.fsync(kept.fileno())
        before = state_of(path)
        assert before is not None
        self._add(Step(path, before, (size, before[1]), is_cut=True))

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        self.times.setdefault(step.path.parent, step.path.parent.stat().st_mtime_ns)

    def discard(self) -> None:
        """Delete the journal of a repair that has changed nothing."""
        restore_directories(self.times, self._locks)
        self._delete()

    # --- changes

    def apply(self) -> None:
        """Take all steps, also after an interruption of this.

        Raises:
            LogStateError: Somebody has changed a file meanwhile.
            OSError: A file cannot be changed; calling this again goes on.
        """
        self._ensure_untouched(done=False)
        for directory in ("new", "old"):
            sync_directory(self.path / directory)
        self._save(APPLYING)
        for number, step in enumerate(self.steps):
            self._take(step, self._new(number), self._old(number))
        self._sync_directories()
        self._save(APPLIED)

    def _take(self, step: Step, new: Path, old: Path) -> None:
        path = step.path
        if step.is_cut:
            assert step.after is not None
            with path.open("r+b") as file, naming(path):
                file.truncate(step.after[0])
                os.fsync(file.fileno())
            # Retention goes by it where records have no timestamps.
            _set_mtime(path, step.after[1])
        elif step.after is not None:
            if new.exists():
                _move(new, path)
        elif path.is_dir() and not path.is_symlink():
            path.rename(old)
        else:
            path.unlink(missing_ok=True)

    def undo(self) -> None:
        """Revert all steps, also after an interruption of this or of `apply`; then delete the journal.

        Raises:
            LogStateError: Somebody has changed a file since, or the journal.
            OSError: A file cannot be changed; calling this again goes on.
        """
        self._ensure_untouched(done=self.state == APPLIED)
        if self.state == APPLIED:
            self._ensure_complete()
        self._save(UNDOING)
        for number, step in reversed([*enumerate(self.steps)]):
            self._revert(step, self._old(number))
        self._sync_directories()
        restore_directories(self.times, self._locks)
        self._delete()

    def _revert(self, step: Step, old: Path) -> None:
        path = step.path
        path.with_name(path.name + _DRAFT).unlink(missing_ok=True)
        if step.before is None:
            path.unlink(missing_ok=True)
        elif not os.path.lexists(old):
            pass
        elif step.is_cut:
            assert step.after is not None
            with old.open("rb") as kept, path.open("r+b") as file, naming(path):
                file.seek(step.after[0])
                shutil.copyfileobj(kept, file, _PIECE)
                file.flush()
                os.fsync(file.fileno())
            _set_mtime(path, step.before[1])
        elif old.is_dir() and not old.is_symlink():
            old.rename(path)
        else:
            _move(old, path)

    def _ensure_untouched(self, *, done: bool) -> None:
        # If a path has several steps, its first one has the old state, its last one the new state.
        shown = {step.path: step for step in (self.steps if done else reversed(self.steps))}
        touched = [str(path) for path, step in shown.items() if not step.fits(done=done)]
        if touched:
            what = "somebody has changed files since the repair: nothing is done"
            raise LogStateError(what, str(self.path), None, None, ", ".join(touched))

    def _ensure_complete(self) -> None:
        for number, step in enumerate(self.steps):
            old = self._old(number)
            if step.before is not None:
                kept, cut = state_of(old), step.after[0] if step.is_cut and step.after else 0
                if kept is None or kept[0] != step.before[0] - cut:
                    what = "a file of the journal is missing or has another size: nothing is done"
                    raise LogStateError(what, str(old), None, step.before[0] - cut, None if kept is None else kept[0])

    def _sync_directories(self) -> None:
        for directory in {step.path.parent for step in self.steps}:
            sync_directory(directory)

    def _delete(self) -> None:
        # First, so that an interrupted deletion leaves no valid journal.
        (self.path / _FILE).unlink()
        shutil.rmtree(self.path)


class Journals(NamedTuple):
    """The journals of a data directory.

    Attributes:
        found: Those that can be read, in the order of their times.
        strays: The paths of others, and what to do about each.
    """

    found: list[Journal]
    strays: dict[Path, str]


def journals_of(homes: Iterable[Path], directory: Path, names: Container[str]) -> Journals:
    """Find the journals of a data directory.

    Args:
        homes: The directories to look in.
        directory: The data directory.
        names: What may stand before the time in their names: the names of the data directory and of its partitions.
    """
    journals = Journals([], {})
    for home in homes:
        with suppress(OSError):
            for path in home.iterdir():
                match = _NAME.fullmatch(path.name)
                if match and match[1] in names and path.is_dir():
                    _take(path, directory, journals)
    journals.found.sort(key=lambda journal: journal.path.name.rpartition(_INFIX)[2])
    return journals


def _take(path: Path, directory: Path, journals: Journals) -> None:
    """Add the journal at a path."""
    try:
        journal = Journal.read(path)
    except (NotALogError, OSError) as error:
        if os.path.lexists(path / _FILE):
            why = f"{error}: restore it from a copy, or an interrupted repair can be neither finished nor undone"
        else:
            kept = any(path.glob("old/*"))
            what = "it holds what a repair has moved: look at old/ in it first" if kept else "delete it"
            why = f"{path}: without {_FILE}, left by an interruption before the first change or after an undo: {what}"
        journals.strays[path] = why
        return
    # Another data directory of the same name may have its journals in the same place.
    if real_path(journal.directory) == real_path(directory):
        journals.found.append(journal)


def lock_files(directories: Iterable[Path]) -> tuple[dict[Path, int], list[Path]]:
    """Return the mtimes of the directories without a lock file, and the lock files that locking them will create."""
    without = [each for each in directories if not (each / LOCK_FILE).exists()]
    return {each: each.stat().st_mtime_ns for each in without}, [each / LOCK_FILE for each in without]


def restore_directories(times: Mapping[Path, int], locks: Iterable[Path]) -> None:
    """Remove the lock files that were created, and restore the mtimes of directories."""
    for path in locks:
        path.unlink(missing_ok=True)
    for directory, time in times.items():
        with suppress(FileNotFoundError):
            _set_mtime(directory, time)


def _as_state(found: list[int] | None) -> State:
    return None if found is None else (found[0], found[1])


def _set_mtime(path: Path, mtime_ns: int) -> None:
    os.utime(path, ns=(path.stat().st_atime_ns, mtime_ns))


def _dress(new: Path, path: Path) -> None:
    """Give a new file the owner and the mode of the old one at `path`; without one, those of its directory.

    A new `.log` also gets the mtime: retention goes by it where records have no timestamps.
    """
    model = path.stat() if path.is_file() else path.parent.stat()
    own = new.stat()
    if (own.st_uid, own.st_gid) != (model.st_uid, model.st_gid):
        os.chown(new, model.st_uid, model.st_gid)
    new.chmod(stat.S_IMODE(model.st_mode) & 0o666)
    if path.is_file() and path.suffix == ".log":
        _set_mtime(new, model.st_mtime_ns)


def _link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link; a copy with mode, owner and mtime where links are not possible."""
    try:
        target.hardlink_to(source) if not source.is_symlink() else os.link(source, target, follow_symlinks=False)
    except OSError:
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)
    status, own = source.lstat(), target.lstat()
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    if not target.is_symlink():
        with target.open("rb") as file:
            os.fsync(file.fileno())


def _move(source: Path, target: Path) -> None:
    """Put a file in the place of `target`, atomically also from another file system."""
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != EXDEV:
            raise
        draft = target.with_name(target.name + _DRAFT)
        _copy(source, draft)
        draft.replace(target)
        source.unlink()
