"""The options of a write, as text, and its columns: those of Spark's own Kafka sink.

    path          a data directory on a file system that the driver and all executors share
    topic         the topic of all rows; default: each row's column `topic`
    partitions    the number of partitions of a topic; default: as in the directory, or 1
    compression   none | gzip | snappy | lz4 | zstd
    batchBytes    the approximate size of a batch; segmentBytes: the largest size of a segment
    topicId       the id of `topic`, 22 characters of base64url; default: its present one, or a new one

Names of options and columns are case-insensitive. Columns that the sink does not have (offset, timestampType) are
ignored.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkalog._speedups.arguments import INT32_MAX
from kafkalog.attributes import CompressionType
from kafkalog.sizes import parse_size
from kafkalog.spark.read.options import known_option
from kafkalog.storage.checkpoint.partition_metadata_file import is_topic_id
from kafkalog.storage.file_names import partition_of_dir
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.remote_path import path_of_file_url

DEFAULT_BATCH_BYTES = 1 << 16
DEFAULT_SEGMENT_BYTES = LogConfig().segment_bytes
# Partitions are numbered without gaps, so a high number requires as many directories.
MOST_PARTITIONS = 999_999
# A batch header and an empty record.
_SMALLEST_BATCH = 70
_CODECS = {each.name.lower(): each for each in CompressionType} | {"uncompressed": CompressionType.NONE}

_BYTES = ("binary", "string")
# The types of each column, as Spark calls them.
COLUMN_TYPES = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All options, parsed. Picklable. Sizes are in bytes; None: not given."""

    path: Path
    topic: str | None = None
    partitions: int | None = None
    compression: CompressionType = CompressionType.NONE
    batch_bytes: int = DEFAULT_BATCH_BYTES
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    topic_id: str | None = None

    def __post_init__(self) -> None:
        if self.batch_bytes > self.segment_bytes:
            raise ValueError(f"option batchBytes is {self.batch_bytes}: more than segmentBytes, {self.segment_bytes}")
        if self.topic_id is not None and self.topic is None:
            raise ValueError(f"option topicId is {self.topic_id!r}, which requires option topic")

    def count_of(self, topic: str, counts: Mapping[str, int]) -> int:
        """Return the number of partitions of a topic: the option, or the one in `counts`, or 1."""
        return self.partitions or counts.get(topic, 1)

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> "WriteOptions":
        """Parse options. Names are case-insensitive.

        Raises:
            ValueError: An option is unknown or its value is invalid, or the path is missing. The message has name and
                value.
        """
        given = {known_option(name, value, _BY_LOWER_CASE): str(value) for name, value in options.items()}
        if "path" not in given:
            raise ValueError("option path is required: the directory to write the partitions to")
        return cls(
            **{field: _parsed(name, given[name], parse) for name, (field, parse) in _RULES.items() if name in given}
        )


def sink_columns(names: Iterable[str]) -> dict[str, int]:
    """Return the index of each of the sink's columns, by its name in lower case.

    Raises:
        ValueError: A column occurs more than once.
    """
    found: dict[str, tuple[int, str]] = {}
    for place, name in enumerate(names):
        lower = name.lower()
        if lower in found and lower in COLUMN_TYPES:
            raise ValueError(f"columns {found[lower][1]!r} and {name!r} both stand for column {lower}")
        found[lower] = place, name
    return {name: place for name, (place, _) in found.items() if name in COLUMN_TYPES}


def check_columns(columns: Sequence[tuple[str, str]], options: WriteOptions) -> None:
    """Check that columns with these names and Spark types are enough for a write.

    Raises:
        ValueError: A column has the wrong type, occurs more than once or is missing.
    """
    places = sink_columns(name for name, _ in columns)
    found = {name: columns[place][1] for name, place in places.items()}
    if "value" not in found:
        raise ValueError("column value is missing")
    for name, kind in found.items():
        if kind not in (allowed := COLUMN_TYPES[name]):
            raise ValueError(f"column {name} is of type {kind}: expected {' or '.join(allowed)}")
    if options.topic is None and "topic" not in found:
        raise ValueError("no topic: neither option topic nor a column topic is given")


def check_topic(topic: str) -> str:
    """Return `topic` if it is a valid name.

    Raises:
        ValueError: It is not.
    """
    if partition_of_dir(f"{topic}-0") is None:
        raise ValueError(f"{topic!r} is not a topic name: up to 249 of a-z A-Z 0-9 . _ -")
    return topic


def _parsed(name: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"option {name} is {text!r}: {error}") from None


def _path(text: str) -> Path:
    if text.lower().startswith("file:/"):
        return Path(path_of_file_url(text))
    if "://" in text:
        raise ValueError("expected a local or mounted directory, not a URL")
    if not text:
        raise ValueError("expected a directory")
    return Path(text)


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", text) or not 1 <= int(text) <= MOST_PARTITIONS:
        raise ValueError(f"expected a whole number from 1 to {MOST_PARTITIONS}")
    return int(text)


def _size(text: str) -> int:
    size = parse_size(text)
    if not _SMALLEST_BATCH <= size <= INT32_MAX:
        raise ValueError(f"expected {_SMALLEST_BATCH} to 2g - 1 bytes, such as 65536, 64k or 1g")
    return size


def _codec(text: str) -> CompressionType:
    if text.lower() not in _CODECS:
        raise ValueError(f"expected one of {', '.join(_CODECS)}")
    return _CODECS[text.lower()]


def _topic_id(text: str) -> str:
    if not is_topic_id(text):
        raise ValueError("expected 22 characters of base64url, not all A")
    return text


_RULES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "path": ("path", _path),
    "topic": ("topic", check_topic),
    "partitions": ("partitions", _count),
    "compression": ("compression", _codec),
    "batchBytes": ("batch_bytes", _size),
    "segmentBytes": ("segment_bytes", _size),
    "topicId": ("topic_id", _topic_id),
}
_BY_LOWER_CASE = {name.lower(): name for name in _RULES}
# The options that no read has, in lower case.
WRITE_ONLY = frozenset(_BY_LOWER_CASE) - {"path"}
