"""The settings of a topic that affect its files.

    Kafka                          here
    segment.bytes=1048576          LogConfig(segment_bytes=1048576)
    cleanup.policy=compact,delete  LogConfig(cleanup_policy=("compact", "delete"))

Names, defaults and allowed values are those of Kafka 4.2, with two exceptions:

- `segment_bytes` may be as small as an entry. Kafka requires 1 MiB, except in `internal.segment.bytes`.
- `segment_index_bytes` must have room for an entry. Kafka accepts 4, and fails when such a segment is rolled.

Source: storage/.../internals/log/LogConfig.java, clients/.../common/config/TopicConfig.java.
"""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal, NamedTuple, Self, get_args

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX, instance, member
from kafkalog.attributes import CodecName, CompressionType, TimestampName, TimestampType

SMALLEST_ENTRY = 14  # bytes after an entry's offset and size
SMALLEST_INDEX = 12  # bytes of a time index entry; a segment gets one when it is rolled or closed
SMALLEST_SEGMENT_OF_A_TOPIC = 2**20
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS

_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")
_OF_OLDER_BROKERS = frozenset({"message.format.version", "message.downconversion.enable"})


def _as_text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Rule(NamedTuple):
    """The texts that are allowed for a setting in Kafka. A value is allowed if it is the value of its own text.

    Attributes:
        allowed: A description of the texts.
        parse: Returns the value of a text, None if it is not allowed; may raise ValueError for a text of another kind.
        text: Returns the text of a value.
        allowed_here: A description of the values; None: the same.
    """

    allowed: str
    parse: Callable[[str], Any]
    text: Callable[[Any], str] = _as_text
    allowed_here: str | None = None

    def value_of(self, text: str) -> Any:
        """Return the value of a text; None if it is not allowed."""
        try:
            return self.parse(text.strip())
        except ValueError:
            return None

    def holds(self, value: object) -> bool:
        """Return whether a value is allowed. A ratio may also be 0 or 1, a whole number."""
        parsed = self.value_of(self.text(value))
        return bool(parsed == value) and type(parsed) in (type(value), float)


def _setting(default: object, *rule: Any) -> Any:
    return field(default=default, metadata={"rule": _Rule(*rule)})


def _whole(default: int, low: int = -INT64_MAX - 1, high: int = INT64_MAX, besides: int | None = None) -> Any:
    """Return a setting that is a whole number from `low` to `high`, or `besides`."""

    def parse(text: str) -> int | None:
        number = int(text)
        return number if "_" not in text and (low <= number <= high or number == besides) else None

    return _setting(default, f"a whole number from {low} to {high}" + (f" or {besides}" if besides else ""), parse)


def _ratio(default: float) -> Any:
    """Return a setting that is a number from 0 to 1."""

    def parse(text: str) -> float | None:
        return float(text) if "_" not in text and 0 <= float(text) <= 1 else None

    return _setting(default, "a number from 0 to 1", parse)


def _flag() -> Any:
    """Return a setting that is true or false, by default false."""
    return _setting(False, "true or false", lambda text: {"true": True, "false": False}.get(text.lower()))


def _one_of(values: Mapping[str, Any], default: object) -> Any:
    """Return a setting that is one of some values; `values` has their names in Kafka."""
    here = [f"{type(each).__name__}.{each.name}" if isinstance(each, Enum) else repr(each) for each in values.values()]

    def text(value: object) -> str:
        return next((name for name, each in values.items() if each == value), "")

    return _setting(default, f"one of {', '.join(values)}", values.get, text, f"one of {', '.join(here)}")


def _names(
    default: tuple[str, ...], allowed: str, allows: Callable[[tuple[str, ...]], bool], *, distinct: bool = False
) -> Any:
    """Return a setting that is a tuple of texts; `distinct` drops duplicates from a text, as Kafka does."""

    def parse(text: str) -> tuple[str, ...] | None:
        found = re.split(r"\s*,\s*", text) if text else ()
        names = tuple(dict.fromkeys(found) if distinct else found)
        return names if allows(names) else None

    return _setting(default, allowed, parse, _as_text, f"a tuple of {allowed}")


def _replicas() -> Any:
    """Return a setting that is a tuple of replicas, as pairs of partition and broker."""
    allowed = "* or any number of partition:broker"
    return _names((), allowed, lambda names: "".join(names) == "*" or all(map(_THROTTLED.fullmatch, names)))


_CODECS = {
    "uncompressed": CompressionType.NONE,
    "zstd": CompressionType.ZSTD,
    "lz4": CompressionType.LZ4,
    "snappy": CompressionType.SNAPPY,
    "gzip": CompressionType.GZIP,
    "producer": "producer",
}
_POLICIES = {"compact", "delete"}
_TIMESTAMPS = {each.label: each for each in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of a topic. Times are in ms, sizes in bytes; -1 in a retention setting means no limit.

    kafkalog does not compact: the settings of compaction only limit the age of the active segment. Settings of replicas
    have no effect on a log without replicas. Remote storage is not supported: its settings are accepted, but it cannot
    be enabled.

    Attributes:
        segment_bytes: The size at which a segment is rolled.
        segment_ms: The age at which a segment is rolled.
        segment_jitter_ms: The most by which `segment_ms` is shortened at random, so that not all logs roll at once.
        segment_index_bytes: The size of an index at which its segment is rolled.
        index_interval_bytes: The bytes of batches between two entries of an index.
        preallocate: Whether a new segment file gets its full size at once.
        flush_messages: The number of records after which an append flushes.
        flush_ms: The time after which `LogManager` flushes appended records.
        retention_bytes: The size of the log above which its oldest segments are deleted.
        retention_ms: The age of its newest record at which a segment is deleted.
        file_delete_delay_ms: The time between the deletion of a segment and that of its files.
        cleanup_policy: "delete", "compact", both or none. Without "delete", retention deletes no segment.
        delete_retention_ms: How long compaction keeps deletions.
        min_compaction_lag_ms: The age below which records are not compacted.
        max_compaction_lag_ms: The age at which records have to be compacted: the active segment is rolled by then.
        min_cleanable_dirty_ratio: The part of the log that is not compacted, at which compaction begins.
        max_message_bytes: The size of the largest batch that an append accepts.
        compression_type: The codec of appended batches, or its name; "producer" keeps the one that they have.
        compression_gzip_level: The level for gzip; -1 is its default.
        compression_lz4_level: The level for LZ4.
        compression_zstd_level: The level for Zstandard.
        message_timestamp_type: Who sets the timestamps, or its name: "CreateTime" or "LogAppendTime".
        message_timestamp_before_max_ms: How far a producer's timestamp may lie in the past.
        message_timestamp_after_max_ms: How far a producer's timestamp may lie in the future.
        min_insync_replicas: A setting of replicas.
        unclean_leader_election_enable: A setting of replicas.
        leader_replication_throttled_replicas: A setting of replicas.
        follower_replication_throttled_replicas: A setting of replicas.
        remote_storage_enable: Has to be False.
        remote_log_copy_disable: A setting of remote storage.
        remote_log_delete_on_disable: A setting of remote storage.
        local_retention_ms: A setting of remote storage.
        local_retention_bytes: A setting of remote storage.
        producer_id_expiration_ms: The time without a batch after which a producer without an open transaction is
            forgotten; a broker's setting in Kafka.

    Raises:
        ValueError: A value is not allowed.
    """

    segment_bytes: int = _whole(2**30, SMALLEST_ENTRY, INT32_MAX)
    segment_ms: int = _whole(7 * _DAY_MS, 1)
    segment_jitter_ms: int = _whole(0, 0)
    segment_index_bytes: int = _whole(10 * 2**20, SMALLEST_INDEX, INT32_MAX)
    index_interval_bytes: int = _whole(4096, 0, INT32_MAX)
    preallocate: bool = _flag()
    flush_messages: int = _whole(INT64_MAX, 1)
    flush_ms: int = _whole(INT64_MAX, 0)
    retention_bytes: int = _whole(-1)
    retention_ms: int = _whole(7 * _DAY_MS, -1)
    file_delete_delay_ms: int = _whole(60_000, 0)
    cleanup_policy: tuple[str, ...] = _names(
        ("delete",), "any of compact and delete, each once", _POLICIES.issuperset, distinct=True
    )
    delete_retention_ms: int = _whole(_DAY_MS, 0)
    min_compaction_lag_ms: int = _whole(0, 0)
    max_compaction_lag_ms: int = _whole(INT64_MAX, 1)
    min_cleanable_dirty_ratio: float = _ratio(0.5)
    max_message_bytes: int = _whole(2**20 + 12, 0, INT32_MAX)
    compression_type: CompressionType | CodecName | Literal["producer"] = _one_of(_CODECS, "producer")  # noqa: RUF009
    compression_gzip_level: int = _whole(-1, 1, 9, besides=-1)
    compression_lz4_level: int = _whole(9, 1, 17)
    compression_zstd_level: int = _whole(3, -131072, 22)
    message_timestamp_type: TimestampType | TimestampName = _one_of(  # noqa: RUF009 - a field
        _TIMESTAMPS, TimestampType.CREATE_TIME
    )
    message_timestamp_before_max_ms: int = _whole(INT64_MAX, 0)
    message_timestamp_after_max_ms: int = _whole(_HOUR_MS, 0)
    min_insync_replicas: int = _whole(1, 1, INT32_MAX)
    unclean_leader_election_enable: bool = _flag()
    leader_replication_throttled_replicas: tuple[str, ...] = _replicas()
    follower_replication_throttled_replicas: tuple[str, ...] = _replicas()
    remote_storage_enable: bool = _flag()
    remote_log_copy_disable: bool = _flag()
    remote_log_delete_on_disable: bool = _flag()
    local_retention_ms: int = _whole(-2, -2)
    local_retention_bytes: int = _whole(-2, -2)
    producer_id_expiration_ms: int = _whole(_DAY_MS, 1, INT32_MAX)

    def __post_init__(self) -> None:
        if self.compression_type in get_args(CodecName):
            object.__setattr__(self, "compression_type", self.compression)
        if self.message_timestamp_type in get_args(TimestampName):
            object.__setattr__(self, "message_timestamp_type", self.timestamp_type)
        for name, rule in _RULES.items():
            value = getattr(self, name)
            if not rule.holds(value):
                raise ValueError(f"{name} is {value!r}: expected {rule.allowed_here or rule.allowed}")
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            lags = f"{self.min_compaction_lag_ms} and {self.max_compaction_lag_ms}"
            raise ValueError(f"min_compaction_lag_ms is above max_compaction_lag_ms: {lags}")
        if self.remote_storage_enable:
            raise ValueError("remote_storage_enable is True: remote storage is not supported")

    @classmethod
    def from_topic_config(cls, settings: Mapping[str, object], defaults: Self | None = None) -> Self:
        """Create a config from Kafka's names ("segment.bytes") and values.

        Args:
            settings: Values are texts, numbers, bools, or lists in place of comma-separated texts.
                `internal.segment.bytes` overrides `segment.bytes`. Settings of older brokers (message format and
                conversion) are ignored.
            defaults: The values of the other settings; default: Kafka's.

        Raises:
            ValueError: A name is unknown or a value is not allowed. The message suggests the nearest name.
        """
        instance("settings", settings, Mapping, ' of names to values, such as {"segment.bytes": "1048576"}')
        given = {name: value for name, value in settings.items() if name not in _OF_OLDER_BROKERS}
        values = {_field_name(name): _parsed(name, value) for name, value in given.items()}
        if INTERNAL_SEGMENT_BYTES in settings:
            values["segment_bytes"] = _parsed(INTERNAL_SEGMENT_BYTES, settings[INTERNAL_SEGMENT_BYTES])
        return replace(defaults or cls(), **values)

    def to_topic_config(self) -> dict[str, str]:
        """Return all settings of topics by Kafka's names and as texts, as a broker and `from_topic_config` accept them.

        `producer_id_expiration_ms` is not among them.
        """
        words = {name.replace("_", "."): rule.text(getattr(self, name)) for name, rule in _RULES.items()}
        del words["producer.id.expiration.ms"]
        if self.segment_bytes < SMALLEST_SEGMENT_OF_A_TOPIC:
            words[INTERNAL_SEGMENT_BYTES] = words.pop("segment.bytes")
        return words

    @property
    def delete(self) -> bool:
        """Whether segments are deleted by age or size."""
        return "delete" in self.cleanup_policy

    @property
    def compact(self) -> bool:
        """Whether compaction keeps only the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def init_file_size(self) -> int:
        """The initial size of a segment file, bytes."""
        return self.segment_bytes if self.preallocate else 0

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled, before jitter; at most the compaction lag of a compacted topic."""
        return min(self.max_compaction_lag_ms, self.segment_ms) if self.compact else self.segment_ms

    @property
    def compression(self) -> CompressionType | None:
        """The codec for appended batches; None: keep the producer's."""
        codec = self.compression_type
        return None if codec == "producer" else member("compression_type", codec, CompressionType)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who sets the timestamps of appended records."""
        return member("message_timestamp_type", self.message_timestamp_type, TimestampType)

    @property
    def compression_level(self) -> int | None:
        """The level of `compression`; None if the codec has no levels."""
        levels = {
            CompressionType.GZIP: self.compression_gzip_level,
            CompressionType.LZ4: self.compression_lz4_level,
            CompressionType.ZSTD: self.compression_zstd_level,
        }
        return levels.get(self.compression) if self.compression is not None else None

    def random_segment_jitter(self) -> int:
        """Return a random time, ms, by which a segment is rolled before `max_segment_ms`.

        It is less than `segment_jitter_ms` and `segment_ms`. Jitter avoids that many partitions roll at the same time.
        """
        limit = min(self.segment_jitter_ms, self.segment_ms)
        return random.randrange(limit) if limit else 0  # noqa: S311 - no secret


_RULES: dict[str, _Rule] = {each.name: each.metadata["rule"] for each in fields(LogConfig)}
_FIELD_NAMES = {name.replace("_", "."): name for name in _RULES} | {INTERNAL_SEGMENT_BYTES: "segment_bytes"}


def _field_name(name: str) -> str:
    """Return the field of `LogConfig` for a setting's name in Kafka.

    Raises:
        ValueError: The name is unknown.
    """
    if name in _FIELD_NAMES:
        return _FIELD_NAMES[name]
    # The broker settings that are defaults for topics have this prefix.
    near = get_close_matches(str(name).removeprefix("log."), _FIELD_NAMES, 1)
    raise ValueError(f"{name} is not a topic setting" + (f"; did you mean {near[0]}?" if near else ""))


def _parsed(name: str, value: object) -> Any:
    """Return the value of a setting given as in Kafka.

    Raises:
        ValueError: The value is not allowed.
    """
    rule = _RULES[_field_name(name)]
    parsed = rule.value_of(_as_text(value))
    if parsed is None:
        raise ValueError(f"{name} is {value!r}: expected {rule.allowed}")
    return parsed


def config_or_default(given: LogConfig | None) -> LogConfig:
    """Return `given`, or Kafka's defaults for None.

    Raises:
        TypeError: `given` is not a `LogConfig`.
    """
    if given is None:
        return LogConfig()
    config: LogConfig = instance("config", given, LogConfig, ", as LogConfig.from_topic_config makes of Kafka's names")
    return config
