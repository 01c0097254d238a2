"""The settings of a topic that affect its files.

    Kafka                          here
    segment.bytes=1048576          LogConfig(segment_bytes=1048576)
    cleanup.policy=compact,delete  LogConfig(cleanup_policy=("compact", "delete"))

Names, defaults and allowed values are those of Kafka 4.2, with two exceptions:

- `segment_bytes` may be as small as an entry. Kafka requires 1 MiB, except in `internal.segment.bytes`.
- `segment_index_bytes` must have room for an entry. Kafka accepts 4, and fails when such a segment is rolled.

Source: storage/.../internals/log/LogConfig.java, clients/.../common/config/TopicConfig.java.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, Self, get_type_hints

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX, instance
from kafkalog.attributes import CompressionType, TimestampType

SMALLEST_ENTRY = 14  # bytes after an entry's offset and size
SMALLEST_INDEX = 12  # bytes of a time index entry; a segment gets one when it is rolled or closed
SMALLEST_SEGMENT_OF_A_TOPIC = 2**20
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")
_OF_OLDER_BROKERS = frozenset({"message.format.version", "message.downconversion.enable"})
_COMMA = re.compile(r"\s*,\s*")


class _Rule(Protocol):
    """The allowed values of a setting, and their text form in Kafka.

    Attributes:
        allowed: The allowed values, in Kafka's words.
        allowed_here: The allowed values, in Python's words.
    """

    @property
    def allowed(self) -> str: ...

    @property
    def allowed_here(self) -> str: ...

    def holds(self, value: Any) -> bool:
        """Return whether the value is allowed."""

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for. It may violate the rule: check it with `holds`.

        Raises:
            ValueError: The text does not stand for a value.
        """

    def text(self, value: Any) -> str:
        """Return the value in Kafka's text form."""


class _AsInKafka:
    """Base of rules whose allowed values have the same description in Kafka and in Python."""

    __slots__ = ()
    allowed: str

    @property
    def allowed_here(self) -> str:
        return self.allowed


@dataclass(frozen=True, slots=True)
class _Whole(_AsInKafka):
    """A whole number from `low` to `high`, or one of `besides`."""

    low: int = -INT64_MAX - 1
    high: int = INT64_MAX
    besides: tuple[int, ...] = ()

    @property
    def allowed(self) -> str:  # type: ignore[override] # computed
        return " or ".join([f"a whole number from {self.low} to {self.high}", *map(str, self.besides)])

    def holds(self, value: Any) -> bool:
        return type(value) is int and (self.low <= value <= self.high or value in self.besides)

    def parse(self, text: str) -> int:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError(text)
        return int(text)

    def text(self, value: int) -> str:
        return str(value)


class _Ratio(_AsInKafka):
    """A number from 0 to 1."""

    allowed = "a number from 0 to 1"

    def holds(self, value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1

    def parse(self, text: str) -> float:
        if "_" in text:
            raise ValueError(text)
        return float(text)

    def text(self, value: float) -> str:
        return str(float(value))


class _Flag(_AsInKafka):
    """True or false."""

    allowed = "true or false"

    def holds(self, value: Any) -> bool:
        return isinstance(value, bool)

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"

    def text(self, value: bool) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class _OneOf:
    """One of several values. `names` maps Kafka's name of each to the value."""

    names: Mapping[str, Any]

    @property
    def allowed(self) -> str:
        return f"one of {', '.join(self.names)}"

    @property
    def allowed_here(self) -> str:
        return f"one of {', '.join(map(_as_written, self.names.values()))}"

    def holds(self, value: Any) -> bool:
        return any(type(value) is type(each) and value == each for each in self.names.values())

    def parse(self, text: str) -> Any:
        return self.names.get(text)

    def text(self, value: Any) -> str:
        return next(name for name, each in self.names.items() if each == value)


class _Names:
    """A tuple of cleanup policies without duplicates."""

    allowed = "any of compact and delete, each once"

    @property
    def allowed_here(self) -> str:
        return f"a tuple of {self.allowed}"

    def holds(self, value: Any) -> bool:
        return isinstance(value, tuple) and sorted(map(str, value)) in (
            [],
            ["compact"],
            ["delete"],
            ["compact", "delete"],
        )

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_COMMA.split(text))) if text else ()  # Kafka drops duplicates, too

    def text(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


class _Replicas(_Names):
    """Replicas, as pairs of partition and broker."""

    allowed = "* or any number of partition:broker"

    def holds(self, value: Any) -> bool:
        if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
            return False
        return "".join(value) == "*" or all(_THROTTLED.fullmatch(each) for each in value)

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(_COMMA.split(text)) if text else ()


_CODECS = {
    "uncompressed": CompressionType.NONE,
    "zstd": CompressionType.ZSTD,
    "lz4": CompressionType.LZ4,
    "snappy": CompressionType.SNAPPY,
    "gzip": CompressionType.GZIP,
    "producer": "producer",
}
_TIMESTAMP_TYPES = {each.label: each for each in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)}

Flag = Annotated[bool, _Flag()]
Ms = Annotated[int, _Whole(0)]
Replicas = Annotated[tuple[str, ...], _Replicas()]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of a topic. Times are in ms, sizes in bytes; -1 in a retention setting means no limit.

    `min_insync_replicas`, `unclean_leader_election_enable` and the `throttled_replicas` have no effect on a log without
    replicas. Remote storage is not supported: its settings are accepted, but it cannot be enabled.

    Raises:
        ValueError: A value is not allowed.
    """

    segment_bytes: Annotated[int, _Whole(SMALLEST_ENTRY, INT32_MAX)] = 2**30
    segment_ms: Annotated[int, _Whole(1)] = 7 * _DAY_MS
    segment_jitter_ms: Ms = 0
    segment_index_bytes: Annotated[int, _Whole(SMALLEST_INDEX, INT32_MAX)] = 10 * 2**20
    index_interval_bytes: Annotated[int, _Whole(0, INT32_MAX)] = 4096
    preallocate: Flag = False
    flush_messages: Annotated[int, _Whole(1)] = INT64_MAX
    flush_ms: Ms = INT64_MAX
    retention_bytes: Annotated[int, _Whole()] = -1
    retention_ms: Annotated[int, _Whole(-1)] = 7 * _DAY_MS
    file_delete_delay_ms: Ms = 60_000
    cleanup_policy: Annotated[tuple[str, ...], _Names()] = ("delete",)
    delete_retention_ms: Ms = _DAY_MS
    min_compaction_lag_ms: Ms = 0
    max_compaction_lag_ms: Annotated[int, _Whole(1)] = INT64_MAX
    min_cleanable_dirty_ratio: Annotated[float, _Ratio()] = 0.5
    max_message_bytes: Annotated[int, _Whole(0, INT32_MAX)] = 2**20 + 12
    compression_type: Annotated[CompressionType | Literal["producer"], _OneOf(_CODECS)] = "producer"
    compression_gzip_level: Annotated[int, _Whole(1, 9, besides=(-1,))] = -1
    compression_lz4_level: Annotated[int, _Whole(1, 17)] = 9
    compression_zstd_level: Annotated[int, _Whole(-131072, 22)] = 3
    message_timestamp_type: Annotated[TimestampType, _OneOf(_TIMESTAMP_TYPES)] = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: Ms = INT64_MAX
    message_timestamp_after_max_ms: Ms = _HOUR_MS
    min_insync_replicas: Annotated[int, _Whole(1, INT32_MAX)] = 1
    unclean_leader_election_enable: Flag = False
    leader_replication_throttled_replicas: Replicas = ()
    follower_replication_throttled_replicas: Replicas = ()
    remote_storage_enable: Flag = False
    remote_log_copy_disable: Flag = False
    remote_log_delete_on_disable: Flag = False
    local_retention_ms: Annotated[int, _Whole(-2)] = -2
    local_retention_bytes: Annotated[int, _Whole(-2)] = -2

    def __post_init__(self) -> None:
        for name, rule in _RULES.items():
            _check(name, getattr(self, name), rule)
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
        """Return all settings by Kafka's names and as texts, as a broker and `from_topic_config` accept them."""
        words = {name.replace("_", "."): _RULES[name].text(value) for name, value in asdict(self).items()}
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
    def max_index_size(self) -> int:
        """The largest size of an index, bytes."""
        return self.segment_index_bytes

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
        return None if self.compression_type == "producer" else self.compression_type

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
        return secrets.randbelow(min(self.segment_jitter_ms, self.segment_ms)) if self.segment_jitter_ms else 0


def _rules() -> dict[str, _Rule]:
    """Return the rule of each setting, from the type hints of `LogConfig`."""
    hints = get_type_hints(LogConfig, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


_RULES = _rules()
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
    try:
        parsed = rule.parse(_text_of(value).strip())
    except ValueError:
        parsed = None
    if not rule.holds(parsed):
        raise ValueError(f"{name} is {value!r}: expected {rule.allowed}")
    return parsed


def _text_of(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _check(name: str, value: Any, rule: _Rule) -> None:
    if not rule.holds(value):
        raise ValueError(f"{name} is {value!r}: expected {rule.allowed_here}")


def _as_written(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def config_or_default(given: LogConfig | None) -> LogConfig:
    """Return `given`, or Kafka's defaults for None.

    Raises:
        TypeError: `given` is not a `LogConfig`.
    """
    if given is None:
        return LogConfig()
    config: LogConfig = instance("config", given, LogConfig, ", as LogConfig.from_topic_config makes of Kafka's names")
    return config
