"""`RemotePath`: a path in a store (s3://, gs://, abfs://, hdfs:// ...), accessed through fsspec, the extra `remote`.

    s3://backup/orders-0                          listed once: names, sizes, times
        00000000000000000000.log     1073741824   <- a path from a listing needs no further request for its own size,
        00000000000000000000.index      2097152      nor for the existence of its siblings

It has those operations of `pathlib.Path` that reading a log needs, so that the same code reads both. A path that was
not listed queries the store each time: fsspec's cache of listings is not used, because logs grow.

Access to the store (endpoint, credentials) is configured in fsspec, by its files or the environment.
"""

import errno
import io
import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

# For type checkers a RemotePath is a Path, so that code that only reads need not distinguish them.
if TYPE_CHECKING:
    _Path = Path
else:
    _Path = object
# How long answers of a store are cached where a disk would be queried each time.
BELIEVED_SECONDS = 3.0
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), "adlfs"),
    "hdfs": "pyarrow",
}
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")


class StoreError(OSError):
    """A store rejects a request, fails, or is unreachable."""

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


class NotInStoreError(StoreError, FileNotFoundError):
    """The file or directory does not exist in the store."""


class RefusedByStoreError(StoreError, PermissionError):
    """The store denies access."""


class _Listing:
    """The entries of a directory (name -> fsspec's description), and the contents of prefetched files."""

    def __init__(self, entries: dict[str, dict[str, Any]]) -> None:
        self.entries = entries
        self.contents: dict[str, bytes] = {}


class RemotePath(_Path):
    """A path in a store. Thread-safe."""

    def __init__(self, files: Any, path: str, listing: _Listing | None = None) -> None:
        """Create the path; use `to_path`.

        Args:
            files: fsspec's file system.
            path: The path inside the file system.
            listing: The listing of the path's directory, which then replaces requests to the store.
        """
        self._files = files
        self._path = path.rstrip("/")
        self._listing = listing

    def __str__(self) -> str:
        return str(self._files.unstrip_protocol(self._path))

    __fspath__ = __str__

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return to_path, (str(self),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    # --- names

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        dot = self.name.rfind(".")
        return self.name[dot:] if dot > 0 else ""

    @property
    def parent(self) -> "RemotePath":
        return RemotePath(self._files, self._path.rpartition("/")[0])

    def __truediv__(self, name: str | os.PathLike[str]) -> "RemotePath":
        return RemotePath(self._files, f"{self._path}/{os.fspath(name)}")

    def with_name(self, name: str) -> "RemotePath":
        return RemotePath(self._files, f"{self._path.rpartition('/')[0]}/{name}", self._listing)

    def absolute(self) -> "RemotePath":
        return self

    # --- metadata

    def _described(self) -> dict[str, Any]:
        if self._listing is None:
            with self._asked():
                self._files.invalidate_cache(self._path)
                found: dict[str, Any] = self._files.info(self._path)
            return found
        if self.name not in self._listing.entries:
            raise NotInStoreError(errno.ENOENT, "does not exist", str(self))
        return self._listing.entries[self.name]

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002 # a store has none
        """Return size, type and modification time; all other fields are 0.

        Raises:
            FileNotFoundError: The path does not exist.
            OSError: The request failed.
        """
        found = self._described()
        mode = stat.S_IFDIR if found["type"] == "directory" else stat.S_IFREG
        changed = next((found[name] for name in _TIMES if name in found), None)
        seconds = changed.timestamp() if isinstance(changed, datetime) else changed
        seconds = seconds if isinstance(seconds, (int, float)) else 0
        times = {"st_mtime_ns": int(seconds * 1_000_000_000)}
        return os.stat_result((mode, 0, 0, 1, 0, 0, int(found["size"] or 0), 0, int(seconds), 0), times)

    def exists(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        try:
            self._described()
        except FileNotFoundError:
            return False
        return True

    def is_file(self) -> bool:
        return self._is("file")

    def is_dir(self) -> bool:
        return self._is("directory")

    def _is(self, kind: str) -> bool:
        try:
            return bool(self._described()["type"] == kind)
        except FileNotFoundError:
            return False

    def iterdir(self) -> "Generator[RemotePath, None, None]":
        """Return the current entries of the directory, sorted by name.

        Raises:
            FileNotFoundError: The directory does not exist.
            OSError: The request failed.
        """
        with self._asked():
            self._files.invalidate_cache(self._path)
            found = self._files.ls(self._path, detail=True)
        listing = _Listing({each["name"].rstrip("/").rpartition("/")[2]: each for each in found})
        # Some stores have an entry for the directory itself.
        paths = {name: each["name"].rstrip("/") for name, each in listing.entries.items()}
        own = self._path.strip("/")
        return (RemotePath(self._files, path, listing) for _, path in sorted(paths.items()) if path.strip("/") != own)

    def matches(self) -> "list[RemotePath]":
        """Return the paths that match this one as a glob pattern, sorted.

        Raises:
            OSError: The request failed.
        """
        with self._asked():
            self._files.invalidate_cache()
            return [RemotePath(self._files, path) for path in sorted(map(str, self._files.glob(self._path)))]

    # --- bytes

    def read_range(self, start: int, end: int) -> bytes:
        """Return bytes [start, end) of the file, fewer if it ends before.

        Raises:
            FileNotFoundError: The file does not exist.
            OSError: The request failed.
        """
        if self._listing is not None:
            self._described()
        with self._asked():
            return bytes(self._files.cat_file(self._path, start=start, end=end))

    def read_bytes(self) -> bytes:
        """Return all bytes of the file.

        Raises:
            FileNotFoundError: The file does not exist.
            OSError: The request failed.
        """
        if self._listing is not None:
            self._described()
            ahead = self._listing.contents.pop(self.name, None)
            if ahead is not None:
                return ahead
        with self._asked():
            return bytes(self._files.cat_file(self._path))

    def fetch_together(self, names: Iterable[str]) -> None:
        """Prefetch whole files of this path's listed directory in parallel requests; `read_bytes` then returns them."""
        assert self._listing is not None
        paths = {str(self.with_name(name)._path): name for name in names if name in self._listing.entries}
        if paths:
            # Files that fail here are requested again by `read_bytes`.
            found = self._files.cat(list(paths), on_error="omit")
            self._listing.contents = {paths[path]: bytes(data) for path, data in found.items() if path in paths}

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Convert the errors of a store, which often do not name the file, to OSErrors that do."""
        try:
            yield
        except FileNotFoundError as error:
            raise NotInStoreError(errno.ENOENT, f"does not exist: {error}", str(self)) from error
        except PermissionError as error:
            raise RefusedByStoreError(errno.EACCES, f"may not be read: {error}", str(self)) from error
        except Exception as error:
            what = f"cannot be read: {type(error).__name__}: {error}"
            raise StoreError(errno.EIO, what, str(self)) from error


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a URL other than a file: URL."""
    text = os.fsdecode(path)
    return "://" in text and not _is_file_url(text)


def _is_file_url(text: str) -> bool:
    return text[:6].lower() == "file:/"


def to_path(path: str | os.PathLike[str]) -> Path:
    """Convert a path or URL to a local path (also from a file: URL) or a path in a store.

    Raises:
        ImportError: fsspec, or the package it needs for this store, is missing.
        ValueError: The kind of store is unknown, or a file: URL names another machine.
    """
    if isinstance(path, (Path, RemotePath)):
        return path
    url = os.fsdecode(path)
    if _is_file_url(url):
        return Path(path_of_file_url(url))
    if not is_remote(url):
        return Path(url)
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(
            f"reading {url} needs fsspec and its package for this store: pip install 'kafkalog[remote]'{_package(url)}"
        ) from error
    try:
        return RemotePath(*fsspec.core.url_to_fs(url))
    except ValueError as error:
        raise ValueError(f"{url!r}: {error}") from None
    except ImportError as error:
        raise ImportError(f"reading {url} needs another package{_package(url)}: {error}") from error


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return the local path of a file or directory to be written.

    Raises:
        io.UnsupportedOperation: The path is a URL of a store, and stores are read-only.
        ValueError: A file: URL names another machine.
    """
    if isinstance(path, RemotePath) or is_remote(path):
        what = f"{os.fspath(path)} is in a store, whose partitions can be read by kafkalog.open, and not be written to"
        raise io.UnsupportedOperation(what)
    return to_path(path)


def path_of_file_url(url: str) -> str:
    """Return the path of a URL such as file:/a%20b or file:///a%20b; `?` and `#` belong to the path.

    Raises:
        ValueError: The URL has a host.
    """
    rest = url[len("file:") :]
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise ValueError(f"names a host, {host!r}; a path has three slashes, file:///...")
        rest = slash + rest
    return unquote(rest)


def _package(url: str) -> str:
    """Return the package that fsspec needs for a store, to be appended to the `pip install` hint; empty if unknown."""
    package = _PACKAGES.get(url.partition("://")[0].lower())
    return "" if package is None else f" {package}"
