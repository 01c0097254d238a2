"""`Model`: the one door through which screens ask about a path.

    Model(path) ─┬─ topics()            rows of all partitions
                 └─ partition(name) ─┬─ refresh()          segments and watermarks
                                     ├─ segment(base)      batches, records, bytes, fields, the map
                                     └─ transactions(), locate(target)

Each call answers at once or reads a bounded piece; who calls is a worker, never the thread that draws. Use each object
from one thread at a time. What is on disk never makes a call raise: see `problem` in the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from inspector.reading.answers import (
    BatchRow,
    Byte,
    Cell,
    Field,
    Offset,
    PartitionState,
    Place,
    RecordDetail,
    RecordRow,
    SegmentRow,
    Span,
    Target,
    Time,
    TopicRow,
)
from inspector.reading.ends import Checkpoints
from inspector.reading.topics import Source, Topics
from kafkalog.errors import NotALogError
from kafkalog.scan.progress import Progress
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir, discover, partition_dir
from kafkalog.storage.file_names import real_path

if TYPE_CHECKING:
    from inspector.reading.batches import SegmentReader
    from inspector.reading.partition import PartitionReader

__all__ = [
    "BatchRow",
    "Byte",
    "Cell",
    "Field",
    "Model",
    "Offset",
    "PartitionReader",
    "PartitionState",
    "Place",
    "Progress",
    "RecordDetail",
    "RecordRow",
    "SegmentReader",
    "SegmentRow",
    "Span",
    "Target",
    "Time",
    "TopicRow",
]

# What reads partitions takes longer to import than their names to list: it comes when the first is opened.
_LATER = {"PartitionReader": "inspector.reading.partition", "SegmentReader": "inspector.reading.batches"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


class Model:
    """A data directory, a partition directory or one segment file, read-only.

    kind: which of these. path: as it was given. OSError: there is no such path, or no permission. NotALogError: it
    holds no Kafka log.
    """

    kind: Literal["data_dir", "partition", "file"]

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        place = discover(self.path)
        self._is_data_dir = isinstance(place, DataDir)
        self.kind = "data_dir" if isinstance(place, DataDir) else "file" if isinstance(place, LogFile) else "partition"
        if self.kind == "file":
            # Where there is nothing else to show, it is the path that cannot be read.
            self.path.open("rb").close()
        home = self.path if self.kind == "data_dir" else real_path(self.path).parent
        self._checkpoints = Checkpoints(home if self.kind != "file" else home.parent)
        self._place: PartitionDir | LogFile | None = None if isinstance(place, DataDir) else place
        self._found = self._sources_in(place) if isinstance(place, DataDir) else None
        self._topics = Topics()
        self._readers: dict[str, PartitionReader] = {}
        self._gone: str | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with the data directory itself, when it was last looked at."""
        return self._gone or self._checkpoints.problem

    def names(self) -> list[TopicRow]:
        """The first rows of `topics`, which takes them from the same listing: for a first look."""
        if self._place is None and self._found is None:
            self._found = self.sources()
        return self._topics.named(self.sources() if self._found is None else self._found)

    def topics(self) -> Iterator[TopicRow]:
        """A row a partition three times over: names, then filled, then with what takes longer to find out.

        Rows of the same `name` take the place of the ones before. Called again it lists the directory again, and knows
        the rate of growth.
        """
        yield from self._topics.rows(self.sources())

    def sources(self) -> list[Source]:
        """What there is to read, as it is now; empty where the directory has gone."""
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
        if isinstance(place, LogFile):
            base = place.base_offset
            return Source(
                place.path.name, place.path, place.topic_partition, self._checkpoints, is_file=True,
                file_base=base or 0, has_base=base is not None,
            )  # fmt: skip
        name = place.path.name if self._is_data_dir else real_path(place.path).name
        mark = place.mark if place.mark in ("delete", "stray", "future") else None
        return Source(name, place.path, place.topic_partition, self._checkpoints, mark)  # type: ignore[arg-type]

    def partition(self, name: str | None = None) -> PartitionReader:
        """The reader of the partition of that name (of its row); the same one each time. None: the only one there is.

        A name that is not there (any more) gives a reader whose state says so.
        """
        if self._place is not None:
            source = self._source(self._place)
            name = source.name
        elif name is None:
            raise ValueError("a data directory has many partitions: a name is needed")
        else:
            source = self._source(partition_dir(self.path / name))
        from inspector.reading.partition import PartitionReader

        found = self._readers.get(name)
        if found is None:
            found = self._readers[name] = PartitionReader(source)
        return found

    def close(self) -> None:
        """Give up all files."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
