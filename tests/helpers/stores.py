"""A store in memory, for what is read by ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A range that was asked for: of which file, from where, and how many bytes (-1: all)."""

    name: str
    start: int
    length: int


class MemoryStore:
    """fsspec's file system `memory`, which notes what is asked of it. failing: called with the path of each range."""

    def __init__(self, monkeypatch: Any) -> None:
        import fsspec

        self.files = fsspec.filesystem("memory")
        self.clear()
        self.ranges: list[Asked] = []
        self.listed: list[str] = []
        self.failing: Any = lambda path: None
        cat_file, ls = type(self.files).cat_file, type(self.files).ls
        store = self

        def noted(files: Any, path: str, start: int | None = None, end: int | None = None, **more: Any) -> Any:
            length = -1 if end is None else end - (start or 0)
            store.ranges.append(Asked(path.rpartition("/")[2], start or 0, length))
            store.failing(path)
            return cat_file(files, path, start=start, end=end, **more)

        def listing(files: Any, path: str, *arguments: Any, **more: Any) -> Any:
            store.listed.append(path)
            return ls(files, path, *arguments, **more)

        monkeypatch.setattr(type(self.files), "cat_file", noted)
        monkeypatch.setattr(type(self.files), "ls", listing)

    def clear(self) -> None:
        """Forget all files: the store is one for the whole process."""
        self.files.store.clear()
        self.files.pseudo_dirs[:] = [""]

    def put(self, directory: Path, name: str) -> str:
        """Copy a directory; the URL of the copy."""
        self.files.put(str(directory), f"/{name}", recursive=True)
        return f"memory:///{name}"

    def change(self, url: str, change: Any) -> None:
        """Put what `change` makes of its bytes in the place of a file."""
        path = url.removeprefix("memory://")
        self.files.pipe_file(path, change(bytes(self.files.store[path].getvalue())))
