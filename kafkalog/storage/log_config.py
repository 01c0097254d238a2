"""The settings of a topic, as far as they drive its files.

    Kafka                          here
    segment.bytes=1048576          LogConfig(segment_bytes=1048576)
    cleanup.policy=compact,delete  LogConfig(cleanup_policy=("compact", "delete"))

Names, defaults and what is allowed are Kafka 4.2's, but for `segment_bytes`, which may be as small as an entry: Kafka
wants 1 MiB, and takes less as `internal.segment.bytes` only; and for `segment_index_bytes`: Kafka takes 4, which no
entry fits into, and fails when the segment ends. Source: storage/.../internals/log/LogConfig.java,
clients/.../common/config/TopicConfig.java.
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

SMALLEST_ENTRY = 14  # bytes behind an entry's offset and size
SMALLEST_INDEX = 12  # bytes of one entry of a time index, which a segment gets when it is rolled or closed
SMALLEST_SEGMENT_OF_A_TOPIC = 2**20
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")
_OF_OLDER_BROKERS = frozenset({"message.format.version", "message.downconversion.enable"})
_COMMA = re.compile(r"\s*,\s*")


class _Rule(Protocol):
    """What a setting may be, and how Kafka writes it. allowed: in Kafka's words; allowed_here: in Python's."""

    @property
    def allowed(self) -> str: ...

    @property
    def allowed_here(self) -> str: ...

    def holds(self, value: Any) -> bool: ...

    def parse(self, text: str) -> Any:
        """The value that a text stands for. ValueError: none; what it returns may still be against the rule."""

    def text(self, value: Any) -> str: ...


class _AsInKafka:
    """What is allowed is said alike."""

    __slots__ = ()
    allowed: str

    @property
    def allowed_here(self) -> str:
        return self.allowed


@dataclass(frozen=True, slots=True)
class _Whole(_AsInKafka):
    """A whole number from `low` to `high`, or one of those `besides`."""

    low: int = -INT64_MAX - 1
    high: int = INT64_MAX
    besides: tuple[int, ...] = ()

    @property
    def allowed(self) -> str:  # type: ignore[override] # worked out
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
    """One of some values; `names` has Kafka's name for each."""

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
    """Several names, each once."""

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
        return tuple(dict.fromkeys(_COMMA.split(text))) if text else ()  # Kafka too drops repetitions

    def text(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


class _Replicas(_Names):
    """Replicas by partition and broker."""

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
    """A topic's settings: times in ms, sizes in bytes, -1 in a retention setting = no limit.

    ValueError: a value is not allowed; the text names the setting, the value and what is.

    Of no effect on a log that stands alone, and here because a topic's settings have them: `min_insync_replicas`,
    `unclean_leader_election_enable`, the `throttled_replicas`. There is no remote storage: what belongs to it may be
    set, but it cannot be switched on.
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
            raise ValueError(f"min_compaction_lag_ms must not be above max_compaction_lag_ms: they are {lags}")
        if self.remote_storage_enable:
            raise ValueError("remote_storage_enable is True: there is no remote storage, only False is allowed")

    @classmethod
    def from_topic_config(cls, settings: Mapping[str, object], defaults: Self | None = None) -> Self:
        """From Kafka's names ("segment.bytes") and values, as texts, numbers or bools; `defaults` for the others.

        A list stands for what Kafka separates by commas. `internal.segment.bytes` takes the place of `segment.bytes`.
        What only older brokers know and follow, formats of messages and their conversion, is of no effect. ValueError:
        a name that is none, with the one that may be meant; a value that is not allowed.
        """
        instance("settings", settings, Mapping, ' of names to values, such as {"segment.bytes": "1048576"}')
        given = {name: value for name, value in settings.items() if name not in _OF_OLDER_BROKERS}
        values = {_field_name(name): _parsed(name, value) for name, value in given.items()}
        if INTERNAL_SEGMENT_BYTES in settings:
            values["segment_bytes"] = _parsed(INTERNAL_SEGMENT_BYTES, settings[INTERNAL_SEGMENT_BYTES])
        return replace(defaults or cls(), **values)

    def to_topic_config(self) -> dict[str, str]:
        """All settings by Kafka's names and in its words; a broker and `from_topic_config` take them."""
        words = {name.replace("_", "."): _RULES[name].text(value) for name, value in asdict(self).items()}
        if self.segment_bytes < SMALLEST_SEGMENT_OF_A_TOPIC:
            words[INTERNAL_SEGMENT_BYTES] = words.pop("segment.bytes")
        return words

    @property
    def delete(self) -> bool:
        """Whether segments are deleted when they are old or too many."""
        return "delete" in self.cleanup_policy

    @property
    def compact(self) -> bool:
        """Whether only the last record of a key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def max_index_size(self) -> int:
        """The largest size of an index, bytes."""
        return self.segment_index_bytes

    @property
    def init_file_size(self) -> int:
        """The size in which a segment's file is created, bytes."""
        return self.segment_bytes if self.preallocate else 0

    @property
    def max_segment_ms(self) -> int:
        """After how long a segment is rolled, before jitter: a compacted one early enough to be compacted in time."""
        return min(self.max_compaction_lag_ms, self.segment_ms) if self.compact else self.segment_ms

    @property
    def compression(self) -> CompressionType | None:
        """The codec of what is appended; None: the producer's."""
        return None if self.compression_type == "producer" else self.compression_type

    @property
    def compression_level(self) -> int | None:
        """The level for `compression`; None where it has no levels."""
        levels = {
            CompressionType.GZIP: self.compression_gzip_level,
            CompressionType.LZ4: self.compression_lz4_level,
            CompressionType.ZSTD: self.compression_zstd_level,
        }
        return levels.get(self.compression) if self.compression is not None else None

    def random_segment_jitter(self) -> int:
        """How much earlier than `max_segment_ms` a segment is rolled, so that those of many partitions are not at once.

        At random from 0 to below `segment_jitter_ms`, and below `segment_ms`.
        """
        return secrets.randbelow(min(self.segment_jitter_ms, self.segment_ms)) if self.segment_jitter_ms else 0


def _rules() -> dict[str, _Rule]:
    hints = get_type_hints(LogConfig, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


_RULES = _rules()
_FIELD_NAMES = {name.replace("_", "."): name for name in _RULES} | {INTERNAL_SEGMENT_BYTES: "segment_bytes"}


def _field_name(name: str) -> str:
    if name in _FIELD_NAMES:
        return _FIELD_NAMES[name]
    # Brokers have defaults for topics, most of which begin like this.
    near = get_close_matches(str(name).removeprefix("log."), _FIELD_NAMES, 1)
    raise ValueError(f"{name} is no setting of a topic" + (f": {near[0]} is" if near else ""))


def _parsed(name: str, value: object) -> Any:
    rule = _RULES[_field_name(name)]
    try:
        parsed = rule.parse(_text_of(value).strip())
    except ValueError:
        parsed = None
    if not rule.holds(parsed):
        raise ValueError(f"{name} is {value!r}: {rule.allowed} is allowed")
    return parsed


def _text_of(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _check(name: str, value: Any, rule: _Rule) -> None:
    if not rule.holds(value):
        raise ValueError(f"{name} is {value!r}: {rule.allowed_here} is allowed")


def _as_written(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def config_or_default(given: LogConfig | None) -> LogConfig:
    """A topic's settings; Kafka's defaults for None. TypeError: they are no `LogConfig`."""
    if given is None:
        return LogConfig()
    config: LogConfig = instance("config", given, LogConfig, ", as LogConfig.from_topic_config makes of Kafka's names")
    return config
