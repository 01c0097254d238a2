"""The options of a read: those of Spark's own Kafka source, and a few more, as text.

    startingOffsets         earliest | {"orders": {"0": 23, "1": -2}}     -2 earliest, -1 latest
    endingOffsets           latest   | {"orders": {"0": 50, "1": -1}}     the offset after the last one
    assign                  {"orders": [0, 1]}
    startingOffsetsByTimestamp  {"orders": {"0": 1700000000000}}          ms

If several options give the start, the first of these wins: startingTimestamp, startingOffsetsByTimestamp,
startingOffsets. The end has the same rule. Names and words are case-insensitive. Every error names the option and its
value.
"""

import difflib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar

from kafkalog.sizes import parse_size
from kafkalog.storage.file_names import CLUSTER_METADATA_TOPIC, TopicPartition
from kafkalog.storage.read.list_offsets import EARLIEST, LATEST
from kafkalog.storage.remote_path import path_of_file_url

_log = logging.getLogger(__name__)

# The topics of brokers and controllers: read if they are named, never matched by a pattern.
INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", CLUSTER_METADATA_TOPIC}
)
# Spark takes 0.05 to 0.15 s to start a Python task, the time to read 25 to 75 MB. With twice Spark's own 128 MB, reads
# are up to a quarter faster.
DEFAULT_SPLIT_BYTES = 256 << 20
_MOST = 2**63 - 1
_NAMES = """
    path paths assign subscribe subscribePattern startingTimestamp startingOffsetsByTimestamp startingOffsets
    startingOffsetsByTimestampStrategy endingTimestamp endingOffsetsByTimestamp endingOffsets minPartitions
    maxRecordsPerPartition failOnDataLoss includeHeaders includeMetadata includeControl kafka.isolation.level
    onCorrupt corruptReport splitBytes maxOffsetsPerTrigger
"""
_BY_LOWER_CASE = {name.lower(): name for name in _NAMES.split()}
# The options that Spark adds for a table.
_OF_TABLES = frozenset({"owner", "provider", "location", "is_managed_location", "external", "comment", "collation"})
_VIEW = "use CREATE TEMPORARY VIEW ... USING kafkalog OPTIONS (path '...')"
# The most characters of a value that an error shows.
_SHOWN = 1000
_ISO_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Found = TypeVar("Found")


class OnCorrupt(Enum):
    """The reaction to damage: raise an error, skip it, or give a row that describes it."""

    FAIL = "fail"
    SKIP = "skip"
    PERMISSIVE = "permissive"


@dataclass(frozen=True, slots=True)
class Topics:
    """The partitions to read; without an option, all that are found.

    Attributes:
        option: The name of the option.
        names: The topics.
        pattern: A regular expression that is searched in topic names, as in Spark's source. Internal topics never
            match.
        partitions: The partitions.
    """

    option: str | None = None
    names: frozenset[str] = frozenset()
    pattern: str | None = None
    partitions: frozenset[TopicPartition] = frozenset()

    def wanted(self, partition: TopicPartition) -> bool:
        """Return whether the partition is to be read."""
        if self.pattern is not None:
            return partition.topic not in INTERNAL_TOPICS and re.search(self.pattern, partition.topic) is not None
        if self.option is None or partition.topic in self.names:
            return True
        return partition in self.partitions

    def missing(self, found: Iterable[TopicPartition]) -> list[str]:
        """Return the topics and partitions that are given by name but not among those found."""
        found = set(found)
        topics = {each.topic for each in found}
        return [*sorted(self.names - topics), *(str(each) for each in sorted(self.partitions - found))]


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or the end of a read.

    Attributes:
        option: The name of the option.
        figure: An offset, EARLIEST, LATEST or a timestamp (ms): one for all partitions, or one for each.
        is_time: Whether it is a timestamp.
    """

    option: str
    figure: int | Mapping[TopicPartition, int]
    is_time: bool = False

    @property
    def is_word(self) -> bool:
        """Whether the bound is earliest or latest for all partitions."""
        return not self.is_time and isinstance(self.figure, int)

    def of(self, partition: TopicPartition) -> int:
        """Return the figure for a partition."""
        return self.figure if isinstance(self.figure, int) else self.figure[partition]

    def said_of(self, partition: TopicPartition) -> str:
        """Return the option and its value for a partition, as given."""
        figure = self.of(partition)
        if self.is_time:
            return f"{self.option} {figure} ms"
        return f"{self.option} {_word(figure) if figure < 0 else figure}"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options, parsed. Picklable.

    Attributes:
        paths: The paths as given, with globs and URLs.
        topics: The partitions to read.
        starting: The start of the read.
        ending: The end of the read.
        min_partitions: The fewest tasks, if the log can be split into so many.
        max_records_per_partition: The most offsets of a task.
        split_bytes: The approximate bytes of a task.
        fail_on_data_loss: Whether lost offsets are an error.
        include_headers: Whether there is a column for headers.
        include_metadata: Whether there are columns for metadata.
        include_control: Whether control records are read.
        committed: Whether to leave out aborted transactions and end at the last stable offset.
        on_corrupt: The reaction to damage.
        corrupt_report: The directory for the counts of what is left out because of damage.
        latest_when_no_timestamp: Whether to begin at the end if no record is late enough; otherwise that is an error.
        max_offsets_per_trigger: The most offsets of a micro-batch.
        streaming: Whether the options are those of a stream.
    """

    paths: tuple[str, ...]
    topics: Topics
    starting: Bound
    ending: Bound
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    split_bytes: int = DEFAULT_SPLIT_BYTES
    fail_on_data_loss: bool = True
    include_headers: bool = False
    include_metadata: bool = False
    include_control: bool = False
    committed: bool = False
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    corrupt_report: Path | None = None
    latest_when_no_timestamp: bool = False
    max_offsets_per_trigger: int | None = None
    streaming: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, Any], *, streaming: bool = False) -> "ReadOptions":
        """Parse options. Names are case-insensitive. Values are text, or Python numbers, bools, lists and dicts.

        Raises:
            ValueError: An option is unknown or its value is invalid, two options exclude each other, or the path is
                missing. The message has name and value.
        """
        given = _Given(options)
        if streaming:
            _refuse_ends(given)
        elif "maxOffsetsPerTrigger" in given:
            _log.warning("maxOffsetsPerTrigger is for streams; this batch read ignores it")
        return cls(
            paths=_paths(given),
            topics=_topics(given),
            starting=_bound(given, "starting", LATEST if streaming else EARLIEST, streaming=streaming),
            ending=_bound(given, "ending", LATEST, streaming=streaming),
            min_partitions=given.get("minPartitions", _positive),
            max_records_per_partition=given.get("maxRecordsPerPartition", _positive),
            split_bytes=given.get("splitBytes", _bytes) or DEFAULT_SPLIT_BYTES,
            fail_on_data_loss=given.flag("failOnDataLoss", otherwise=True),
            include_headers=given.flag("includeHeaders"),
            include_metadata=given.flag("includeMetadata"),
            include_control=given.flag("includeControl"),
            committed=given.word("kafka.isolation.level", "read_uncommitted", "read_committed") == "read_committed",
            on_corrupt=OnCorrupt(given.word("onCorrupt", *(each.value for each in OnCorrupt))),
            corrupt_report=given.get("corruptReport", _shared_directory),
            latest_when_no_timestamp=given.word("startingOffsetsByTimestampStrategy", "error", "latest") == "latest",
            max_offsets_per_trigger=given.get("maxOffsetsPerTrigger", _positive),
            streaming=streaming,
        )


class _Given:
    """The given options by their documented names."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._texts: dict[str, str] = {}
        for name, value in options.items():
            self._texts[known_option(name, value, _BY_LOWER_CASE)] = _text(value)

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def get(self, name: str, parse: Callable[[str], Found]) -> Found | None:
        """Return the parsed value; None if the option is not given.

        Raises:
            ValueError: The value is invalid.
        """
        text = self._texts.get(name)
        if text is None:
            return None
        try:
            return parse(text.strip())
        except ValueError as error:
            shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
            raise ValueError(f"option {name}: {shown} is not {error}") from None

    def flag(self, name: str, *, otherwise: bool = False) -> bool:
        """Return the value of an option that is true or false."""
        return self.word(name, str(otherwise).lower(), str(not otherwise).lower()) == "true"

    def word(self, name: str, otherwise: str, *others: str) -> str:
        """Return the value of an option that is one of these words, in lower case."""
        allowed = (otherwise, *others)

        def parse(text: str) -> str:
            if text.lower() not in allowed:
                raise ValueError("one of " + ", ".join(sorted(allowed)))
            return text.lower()

        return self.get(name, parse) or otherwise

    def text(self, name: str) -> str:
        return self._texts[name]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, (dict, list, tuple)) else str(value)


def known_option(name: str, value: object, names: Mapping[str, str]) -> str:
    """Return the documented name of an option.

    Args:
        name: The name in any case.
        value: The value, for the error.
        names: The documented names by their lower case.

    Raises:
        ValueError: The option is unknown. The message suggests the nearest name.
    """
    lower = name.lower()
    if lower not in names:
        raise ValueError(f"unknown option {name!r} (value {_text(value)!r}){_nearest(lower, names)}")
    return names[lower]


def _nearest(lower: str, names: Mapping[str, str]) -> str:
    """Return advice for an unknown option, or an empty text."""
    if lower in _OF_TABLES:
        return f"; Spark adds it to the options of CREATE TABLE, without the path: {_VIEW}"
    near = difflib.get_close_matches(lower, names, n=1)
    if near:
        return f"; did you mean {names[near[0]]}?"
    return "; no broker is used: remove it" if lower.startswith("kafka.") else ""


def _whole(text: str, what: str, least: int) -> int:
    if not re.fullmatch(r"-?[0-9]+", text, re.ASCII) or not least <= int(text) <= _MOST:
        raise ValueError(what)
    return int(text)


def _positive(text: str) -> int:
    return _whole(text, "a whole number of 1 or more", 1)


def _milliseconds(text: str) -> int:
    what = "a time in milliseconds since 1970"
    if _ISO_TIME.match(text):
        what += "; in Python int(datetime.fromisoformat(text).timestamp() * 1000), in Spark unix_millis(...)"
    return _whole(text, what, 0)


def _bytes(text: str) -> int:
    size = parse_size(text)
    if not 1 <= size <= _MOST:
        raise ValueError("a number of bytes, such as 268435456 or 256m")
    return size


# --- paths


def _paths(given: _Given) -> tuple[str, ...]:
    """Return the paths.

    Raises:
        ValueError: There is none, or one is a `file:` URL with a host.
    """
    paths = (given.get("paths", _path_list) or ()) + ((given.text("path"),) if "path" in given else ())
    if not paths or not all(paths):
        raise ValueError(
            f"option path is required: a partition directory, or one that contains partitions (for a table, {_VIEW})"
        )
    for path in paths:
        if path.lower().startswith("file:/"):
            try:
                path_of_file_url(path)
            except ValueError as error:
                raise ValueError(f"option path: {path!r} {error}") from None
    return paths


def _path_list(text: str) -> tuple[str, ...]:
    found = _json(text, "a JSON list of paths")
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError("a JSON list of paths")
    return tuple(found)


def _shared_directory(text: str) -> Path:
    if not text or "://" in text:
        raise ValueError("a local or mounted directory")
    return Path(text).absolute()


def _json(text: str, what: str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: The text is not JSON, or a name occurs twice in an object, of which Python's parser would take the
            last.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"{what}: {next(name for name in names if names.count(name) > 1)!r} occurs twice")
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(what) from None


# --- topics


def _topics(given: _Given) -> Topics:
    """Return the partitions that assign, subscribe or subscribePattern gives.

    Raises:
        ValueError: More than one of them is given, or a value is invalid.
    """
    said = [name for name in ("assign", "subscribe", "subscribePattern") if name in given]
    if len(said) > 1:
        values = ", ".join(f"{name}={given.text(name)!r}" for name in said)
        raise ValueError(f"only one of the options assign, subscribe, subscribePattern may be given: {values}")
    if not said:
        return Topics()
    parse = {"assign": _assigned, "subscribe": _subscribed, "subscribePattern": _pattern}[said[0]]
    found = given.get(said[0], parse)
    assert found is not None
    return found


def _subscribed(text: str) -> Topics:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("a list of topics, such as orders,payments")
    return Topics("subscribe", names)


def _pattern(text: str) -> Topics:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression: {error}") from None
    if not text:
        raise ValueError("a regular expression")
    return Topics("subscribePattern", pattern=text)


def _assigned(text: str) -> Topics:
    what = 'a JSON object of lists of partitions, such as {"orders": [0, 1]}'
    found = _json(text, what)
    if not isinstance(found, dict) or not found:
        raise ValueError(what)
    partitions: set[TopicPartition] = set()
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(what)
        partitions.update(TopicPartition(topic, number) for number in numbers)
    return Topics("assign", partitions=frozenset(partitions))


# --- start and end


def _refuse_ends(given: _Given) -> None:
    for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"):
        if name in given:
            raise ValueError(f"option {name}: {given.text(name)!r} is for batch reads; a stream has no end")


def _bound(given: _Given, side: Literal["starting", "ending"], otherwise: int, *, streaming: bool) -> Bound:
    """Return the bound of the first of the three options that is given."""
    one, each, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    timestamp = given.get(one, _milliseconds)
    if timestamp is not None:
        return Bound(one, timestamp, is_time=True)
    what = 'a JSON object of times in milliseconds, such as {"orders": {"0": 1700000000000}}'
    timestamps = given.get(each, lambda text: _figures(text, what, 0))
    if timestamps is not None:
        return Bound(each, timestamps, is_time=True)
    refused = None if streaming else (LATEST if side == "starting" else EARLIEST)
    found = given.get(offsets, lambda text: _offsets(offsets, text, refused))
    return found or Bound(offsets, otherwise)


_WORDS = {"earliest": EARLIEST, "latest": LATEST}


def _offsets(option: str, text: str, refused: int | None) -> Bound:
    """Parse an option of offsets. `refused` is EARLIEST or LATEST if that is invalid for the option, else None."""
    allowed = " or ".join(word for word, offset in _WORDS.items() if offset != refused)
    word = _WORDS.get(text.lower())
    if word is not None:
        if word == refused:
            raise ValueError(f"{allowed}, or offsets, in a batch query")
        return Bound(option, word)
    special = " ".join(f"({offset}: {word})" for word, offset in _WORDS.items() if offset != refused)
    what = f'a JSON object of offsets, such as {{"orders": {{"0": 23}}}} {special}, or the word {allowed}'
    offsets = _figures(text, what, EARLIEST)
    for partition, offset in offsets.items():
        if offset == refused:
            raise ValueError(f"possible in a batch query: {offset} of {partition} stands for {_word(offset)}")
    return Bound(option, offsets)


def _word(offset: int) -> str:
    return "earliest" if offset == EARLIEST else "latest"


def _figures(text: str, what: str, least: int) -> dict[TopicPartition, int]:
    """Return the numbers in {"topic": {"0": number}}."""
    found = _json(text, what)
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ValueError(what)
    figures: dict[TopicPartition, int] = {}
    for topic, numbers in found.items():
        for number, value in numbers.items():
            partition = TopicPartition(topic, _whole(number, what, 0))
            if partition in figures:
                raise ValueError(f"{what}: {partition} occurs twice")
            if type(value) is not int or not least <= value <= _MOST:
                raise ValueError(what)
            figures[partition] = value
    return figures
