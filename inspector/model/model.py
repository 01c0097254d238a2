"""`Model`: the interface through which screens read a path.

    Model(path) ─┬─ topics()            rows of all partitions
                 └─ partition(name) ─┬─ refresh()          segments and watermarks
                                     ├─ segment(base)      batches, records, bytes, fields, the map
                                     └─ transactions(), locate(target)

Each call returns at once or reads a bounded amount. Call it from a worker, never from the thread that draws, and use
each object from one thread at a time. After the model is open, damage and unreadable files raise nothing: see `problem`
in the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kafkalog.errors import NotALogError
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir, discover, partition_dir
from kafkalog.storage.file_names import real_path

from .partitions import Source, Topics, named
from .types import TopicRow

if TYPE_CHECKING:
    from kafkalog.scan.status import DirectoryStatus

    from .partition import PartitionReader


class Model:
    """A data directory, a partition directory or one segment file, read-only.

    Attributes:
        kind: Which of these it is.
        path: The absolute path.
    """

    kind: Literal["data_dir", "partition", "file"]

    def __init__(self, path: Path | str) -> None:
        """Find out what is at a path.

        Raises:
            OSError: The path does not exist, or permission is missing.
            NotALogError: It holds no Kafka log.
        """
        self.path = Path(path).absolute()
        place = discover(self.path)
        self.kind = "data_dir" if isinstance(place, DataDir) else "file" if isinstance(place, LogFile) else "partition"
        if self.kind == "file":
            # A file that was not opened is an error of the path, because there is nothing else to show.
            self.path.open("rb").close()
        home = self.path if self.kind == "data_dir" else real_path(self.path).parent
        self._home = home if self.kind != "file" else home.parent
        self._place: PartitionDir | LogFile | None = None if isinstance(place, DataDir) else place
        self._found = self._sources_in(place) if isinstance(place, DataDir) else None
        self._topics = Topics()
        self._readers: dict[str, PartitionReader] = {}
        self._gone: str | None = None

    @property
    def problem(self) -> str | None:
        """The problem of the data directory itself when it was last read; None if there is none."""
        if self._gone is not None or "_directory" not in self.__dict__:
            return self._gone
        return next((str(each) for each in self._directory.problems), None)

    @cached_property
    def _directory(self) -> DirectoryStatus:
        # It takes longer to import than to list the names.
        from kafkalog.scan.status import DirectoryStatus

        return DirectoryStatus(self._home)

    def names(self) -> list[TopicRow]:
        """Return the first rows of `topics`, for a quick first display. `topics` uses the same directory listing."""
        self._found = self.sources()
        return [named(source) for source in self._found]

    def topics(self, wanted: Sequence[str] = ()) -> Iterator[TopicRow]:
        """Yield three rows per partition: the name, then its values, then the values that take longer.

        A row replaces an earlier one with the same `name`. Another call lists the directory again, and its rows have
        the rate of growth.

        Args:
            wanted: The names of partitions that are read first; it may be changed between two rows.
        """
        self._directory.refresh()
        yield from self._topics.rows(self.sources(), wanted)

    def sources(self) -> list[Source]:
        """List what can be read now; nothing if the directory was deleted."""
        if self._place is not None:
            return [self._source(self._place)]
        found, self._found = self._found, None
        if found is not None:
            return found
        self._gone = None
        try:
            place = discover(self.path)
        except (OSError, NotALogError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.message
            self._gone = f"{self.path}: {reason}"
            return []
        return self._sources_in(place) if isinstance(place, DataDir) else []

    def _sources_in(self, place: DataDir) -> list[Source]:
        return [self._source(each) for each in place.partitions]

    def _source(self, place: PartitionDir | LogFile) -> Source:
        is_named = isinstance(place, LogFile) or self.kind == "data_dir"
        path = place.path if is_named else real_path(place.path)
        return Source(path.name, place, lambda: self._directory)

    def partition(self, name: str | None = None) -> PartitionReader:
        """Return the reader of a partition, the same object each time.

        Args:
            name: The `name` of its row; None: the only partition. An unknown name gives a reader whose state has the
                problem.

        Raises:
            ValueError: The model is a data directory, and the name is None.
        """
        if self._place is not None:
            source = self._source(self._place)
            name = source.name
        elif name is None:
            raise ValueError("a data directory has many partitions: a name is needed")
        else:
            source = self._source(partition_dir(self.path / name))
        # It takes longer to import than to list the names.
        from .partition import PartitionReader

        found = self._readers.get(name)
        if found is None:
            found = self._readers[name] = PartitionReader(source)
        return found

    def close(self) -> None:
        """Close all files."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
