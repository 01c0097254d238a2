"""Validation of a producer's messages and assignment of offsets, as by the leader of a partition.

    v0/v1 messages   message | message | ...      any number in a set
    v0/v1 wrapper    message [ message | ... ]    one in a set
    v2 batch         header | record | ...        one in a set

If format, codec and inner offsets are those of the topic, only a few bytes of the header change. Else the records are
written again, as one batch. `record_checks` has the checks of records.

Stricter than Kafka: a batch with a producer epoch less than -1 is refused if it has to be written again. See also
`record_checks`.
Source: storage/.../internals/log/LogValidator.java.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import EPOCH_MS, INT32_MAX, INT64_MAX, MS, check_fields, instance
from kafkalog._speedups.decompress import linked_lz4_rows
from kafkalog.attributes import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    CompressionType,
    TimestampType,
)
from kafkalog.errors import (
    InvalidRecordError,
    RecordValidationError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from kafkalog.record.batch_headers import (
    ensure_offsets,
    set_last_offsets,
    set_leader_epoch,
    set_max_timestamps,
    stamp_batch,
)
from kafkalog.record.batch_validity import ensure_end, ensure_readable
from kafkalog.record.compress import checked_level
from kafkalog.record.decoding import Entries, Reading, read_whole
from kafkalog.record.format_conversion import ensure_writable, unwritable
from kafkalog.record.framing import Header, headers_of
from kafkalog.record.layout import BATCH_LEADER_EPOCH_AT, NO_TIMESTAMP, RECORD_BATCH_OVERHEAD
from kafkalog.record.message_set import ByteBufferMessageSet
from kafkalog.record.record_checks import (
    Content,
    TimestampRange,
    content_of_entry,
    content_of_messages,
    errors_of,
    faults_of,
    reason_of,
)
from kafkalog.record.record_columns import RecordColumns
from kafkalog.record.records_builder import BatchSettings, RecordsBuilder

if TYPE_CHECKING:
    from kafkalog._speedups.arguments import Rule

HOUR_MS = 3_600_000


class AppendOrigin(Enum):
    """The origin of an append. A client may send less than the others, for example no control records.

    Attributes:
        REPLICATION: A follower, with the batches of its leader.
        COORDINATOR: The coordinator of groups or of transactions.
        CLIENT: A producer.
        RAFT_LEADER: The leader of the cluster's metadata.
    """

    REPLICATION = "replication"
    COORDINATOR = "coordinator"
    CLIENT = "client"
    RAFT_LEADER = "raft leader"


class ValidationResult(NamedTuple):
    """Messages ready to be appended.

    Attributes:
        message_set: The messages.
        log_append_time: The `now` of the validation, ms.
        max_timestamp: The largest timestamp, ms; -1 = none.
        offset_of_max_timestamp: The last offset of the first batch with that timestamp, for an index entry; -1 = none.
        message_size_maybe_changed: Whether the messages were written again.
        records_count: The number of offsets assigned.
        headers: The rows of the header table of the messages.
    """

    message_set: ByteBufferMessageSet
    log_append_time: int
    max_timestamp: int
    offset_of_max_timestamp: int
    message_size_maybe_changed: bool
    records_count: int
    headers: NDArray[np.void]


@dataclass(slots=True)  # Not frozen: creating a frozen instance takes longer than its checks.
class Rules:
    """The settings of topic and broker; see `validate_messages_and_assign_offsets`. Not changed after creation."""

    first_offset: int
    now: int
    target_compression: CompressionType | None
    compression_level: int | None
    compacted: bool
    magic: int
    timestamp_type: TimestampType
    before_max_ms: int
    after_max_ms: int
    partition_leader_epoch: int
    origin: AppendOrigin

    def __post_init__(self) -> None:
        check_fields(self, _FIELDS)
        if self.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE and self.magic > 0:
            raise ValueError("a timestamp type is needed from magic 1 on")
        if self.target_compression is not None:
            checked_level(self.target_compression, self.compression_level)
        elif self.compression_level is not None:
            raise ValueError("a compression level needs a target compression")


_FIELDS: "tuple[Rule, ...]" = (
    ("first_offset", (0, INT64_MAX, ""), False),
    ("now", (0, INT64_MAX, EPOCH_MS), False),
    ("target_compression", CompressionType, True),
    ("compacted", bool, False),
    ("magic", (0, 2, ""), False),
    ("timestamp_type", TimestampType, False),
    ("before_max_ms", (0, INT64_MAX, MS), False),
    ("after_max_ms", (0, INT64_MAX, MS), False),
    ("partition_leader_epoch", (-INT32_MAX - 1, INT32_MAX, ""), False),
    ("origin", AppendOrigin, False),
)


class _Given(NamedTuple):
    """The messages to be validated.

    Attributes:
        rows: Rows of the header table.
        view: The bytes from the first entry to the end of the last one.
        source: The codec of the messages.
        target: The codec to write.
        reading: How to read them.
    """

    rows: NDArray[np.void]
    view: memoryview
    source: CompressionType
    target: CompressionType
    reading: Reading

    @property
    def magic(self) -> int:
        return int(self.rows["magic"][0])

    @property
    def entries(self) -> Entries:
        return Entries(self.rows, self.view, 0)

    def columns(self) -> RecordColumns:
        """Read every record, without checking checksums."""
        return read_whole(self.entries, self.reading, check_crcs=False)

    @property
    def is_compressed(self) -> bool:
        return self.source is not CompressionType.NONE

    @property
    def is_plain(self) -> bool:
        """Whether the messages are neither compressed nor to be compressed."""
        return not self.is_compressed and self.target is CompressionType.NONE

    @property
    def is_control(self) -> bool:
        return self.magic >= 2 and bool(self.rows["attributes"][0] & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        return self.magic >= 2 and bool(self.rows["attributes"][0] & TRANSACTIONAL_BIT)


# --- the common case


def _validate_fitting_batch(entries: Entries, reading: Reading, rules: Rules) -> ValidationResult | None:
    """Validate a single valid v2 batch that already fits the topic, as nearly all do; None for any other entries.

    The result is the same as of `_validate_others`, in a tenth of the time.
    """
    if len(entries.rows) != 1:
        return None
    header = headers_of(entries.rows)[0]
    if not _header_fits(header, rules) or linked_lz4_rows(entries.view, entries.rows, entries.position):
        return None
    records = read_whole(entries, Reading(decompression_limit=reading.decompression_limit), check_crcs=False)
    largest = int(records.timestamp.max())
    if not _records_fit(records, largest, header, rules):
        return None
    return _renumbered(entries, header, reading, rules, largest)


def _header_fits(header: Header, rules: Rules) -> bool:
    """Return whether the header is valid, and only offset, leader epoch and time have to change."""
    codec, count = header.compression_type, header.records_count
    return (
        header.magic == rules.magic == 2
        and header.size_in_bytes >= RECORD_BATCH_OVERHEAD
        and codec <= CompressionType.ZSTD
        and rules.target_compression in (None, codec)
        and header.timestamp_type == TimestampType.CREATE_TIME
        and count == header.last_offset - header.base_offset + 1 > 0
        and not header.attributes & CONTROL_BIT
        and (header.producer_id < 0 or header.base_sequence >= 0)
    )


def _records_fit(records: RecordColumns, largest: int, header: Header, rules: Rules) -> bool:
    """Return whether no record can have a fault."""
    if rules.compacted and (records.key_length < 0).any():
        return False
    if header.compression_type and (records.offset != np.arange(len(records))).any():
        return False
    if rules.timestamp_type is not TimestampType.CREATE_TIME:
        return True
    smallest = int(records.timestamp.min())
    return smallest >= 0 and rules.now - smallest <= rules.before_max_ms and largest - rules.now <= rules.after_max_ms


def _renumbered(entries: Entries, header: Header, reading: Reading, rules: Rules, largest: int) -> ValidationResult:
    """Copy the batch with other offsets, another leader epoch and, for LogAppendTime, the append time."""
    buffer, bit = bytearray(entries.view), 0
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        largest, bit = rules.now, LOG_APPEND_TIME_BIT
    view = memoryview(buffer)
    view[:8] = rules.first_offset.to_bytes(8, "big")
    epoch = rules.partition_leader_epoch.to_bytes(4, "big", signed=True)
    view[BATCH_LEADER_EPOCH_AT : BATCH_LEADER_EPOCH_AT + 4] = epoch
    if bit or header.max_timestamp != largest:
        stamp_batch(view, header.attributes, bit, largest)
    ensure_offsets(rules.first_offset, header.records_count)
    return _result(buffer, reading, rules, largest, header.records_count, changed=False)


# --- the whole


def validate_messages_and_assign_offsets(
    message_set: ByteBufferMessageSet,
    *,
    first_offset: int,
    now: int,
    target_compression: CompressionType | None = None,
    compression_level: int | None = None,
    compacted: bool = False,
    magic: int = 2,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    before_max_ms: int = INT64_MAX,
    after_max_ms: int = HOUR_MS,
    partition_leader_epoch: int = -1,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> ValidationResult:
    """Check the messages of a producer and return them as a leader appends them.

    The given buffer is not changed. A torn tail is ignored. Checksums of entries are not checked: a log has done that
    before (`RecordBatch.ensure_valid`). The defaults are those of topics in Kafka.

    Args:
        message_set: The messages.
        first_offset: The offset of the first record.
        now: The current time, ms since the epoch.
        target_compression: The codec of the topic; None = that of the producer. A batch with this codec is not
            compressed again, whatever its level.
        compression_level: The level for batches that are compressed; None = the default of the codec.
        compacted: Whether every record needs a key.
        magic: The format of the topic.
        timestamp_type: The timestamp type of the topic.
        before_max_ms: The largest time by which a timestamp may be before `now`, ms.
        after_max_ms: The largest time by which a timestamp may be after `now`, ms.
        partition_leader_epoch: The epoch of the leader.
        origin: The origin of the append.

    Raises:
        CorruptRecordError: The framing is damaged, or a CRC inside a wrapper is wrong.
        InvalidRecordError: Invalid content or header, or more than one batch.
        RecordValidationError: The topic refuses records; the error has the reasons for the first 1,000. Kafka lists
            all, however many a small batch decompresses to.
        UnsupportedForMessageFormatError: Headers or producer data below magic 2.
        UnsupportedCompressionError: zstd below magic 2.
        InvalidTimestampError: A negative timestamp that has to be written again.
        ValueError: An argument is out of range.
    """
    rules = Rules(
        first_offset,
        now,
        target_compression,
        compression_level,
        compacted,
        magic,
        timestamp_type,
        before_max_ms,
        after_max_ms,
        partition_leader_epoch,
        origin,
    )
    instance("message_set", message_set, ByteBufferMessageSet, ", as ByteBufferMessageSet(bytes) makes one")
    rows, stop = message_set._scan(0, rows=-1, span=-1)
    ensure_readable(rows)
    stop.end()
    ensure_end(message_set.buffer, stop.position)
    return validate(Entries(rows, message_set.buffer[: stop.position], 0), message_set._reading, rules)


def validate(entries: Entries, reading: Reading, rules: Rules) -> ValidationResult:
    """Validate readable entries and assign offsets, as `validate_messages_and_assign_offsets`.

    Args:
        entries: Rows of the header table, and all bytes that they describe.
        reading: How to read them.
        rules: The settings.
    """
    if not len(entries.rows):
        raise InvalidRecordError("there is no batch", expected="at least 1", found=0)
    return _validate_fitting_batch(entries, reading, rules) or _validate_others(entries, reading, rules)


def _validate_others(entries: Entries, reading: Reading, rules: Rules) -> ValidationResult:
    """Validate any entries."""
    given = _given(entries, reading, rules.target_compression)
    converting = given.is_plain and bool((given.rows["magic"] != rules.magic).any())
    content = _checked_content(given, rules, given.columns() if converting else None)
    ensure_offsets(rules.first_offset, len(content))
    if _only_headers_change(given, rules, content, converting):
        return _with_changed_headers(given, rules, content)
    return _rebuilt(given, rules, content)


def _given(entries: Entries, reading: Reading, target: CompressionType | None) -> _Given:
    codecs = entries.rows["compression_type"][entries.rows["compression_type"] != 0]
    source = CompressionType(int(codecs[-1])) if len(codecs) else CompressionType.NONE
    return _Given(entries.rows, entries.view, source, source if target is None else target, reading)


def _checked_content(given: _Given, rules: Rules, columns: RecordColumns | None) -> Content:
    """Return the content of the messages after checking it.

    Args:
        given: The messages.
        rules: The settings.
        columns: The records, if they have to be converted to another format; else None.

    Raises:
        InvalidRecordError: The entries are not valid.
        RecordValidationError: The topic refuses records.
    """
    if len(given.rows) > 1 and (given.magic >= 2 or given.is_compressed):
        raise InvalidRecordError("there is more than one batch", expected=1, found=len(given.rows))
    _check_batch(given, rules, columns is not None)
    if linked_lz4_rows(given.view, given.rows, 0):
        message = "the blocks of the LZ4 frame are linked, which Kafka does not read"
        raise InvalidRecordError(message, None, 0, "independent blocks", "linked blocks")
    other = given.rows["magic"] != given.magic
    content = _content_of(given, int(other.argmax()) if other.any() else len(given.rows))
    taken = TimestampRange(rules.now, rules.before_max_ms, rules.after_max_ms)
    faults = faults_of(content, given.rows, rules.timestamp_type, taken, compacted=rules.compacted)
    bad = np.flatnonzero(faults)
    if columns is not None and unwritable(columns, rules.magic) < (bad[0] if len(bad) else len(content)):
        ensure_writable(columns, rules.magic)
    if len(bad):
        batch = content.batch == content.batch[bad[0]]
        bad = bad[batch[bad]]
        errors = errors_of(content, faults, bad, int(batch.argmax()), taken)
        raise RecordValidationError.of(reason_of(faults[bad]), errors, len(bad))
    if other.any():
        row = given.rows[other.argmax()]
        message = "the entry is of another format than the first"
        raise InvalidRecordError(message, None, int(row["position"]), f"magic {given.magic}", f"magic {row['magic']}")
    return content


def _content_of(given: _Given, count: int) -> Content:
    """Return the content of the first `count` entries."""
    if given.magic < 2 and not given.is_compressed:
        return content_of_messages(Entries(given.rows[:count], given.view, 0))
    return content_of_entry(given.entries, given.reading)


def _check_batch(given: _Given, rules: Rules, converting: bool) -> None:
    """Check the header of a v2 batch."""
    if given.magic < 2:
        return
    if converting:
        _check_format(rules.magic, given.is_transactional, False)
    row = given.rows[0]
    if rules.origin is AppendOrigin.CLIENT:
        _check_clients_batch(given.rows[:1], given.is_control)
    _check_format(rules.magic, given.is_transactional, row["producer_id"] > -1)


def _check_format(magic: int, is_transactional: bool, is_idempotent: bool) -> None:
    if magic < 2 and (is_transactional or is_idempotent):
        what = "transactional" if is_transactional else "idempotent"
        message = f"the batch is {what}"
        raise UnsupportedForMessageFormatError(message, None, 0, "magic 2", f"magic {magic}")


def _check_clients_batch(rows: NDArray[np.void], is_control: bool) -> None:
    row = rows[0]
    span, count = int((rows["last_offset"] - rows["base_offset"])[0]) + 1, int(row["records_count"])
    if span <= 0 or count <= 0 or span != count:
        raise InvalidRecordError("offsets and count do not agree", None, 0, f"{span} records by offsets", count)
    if is_control:
        raise InvalidRecordError("a client may not send control records", None, 0)
    if row["producer_id"] > -1 and row["base_sequence"] < 0:
        message = "an idempotent producer's batch has no sequence"
        raise InvalidRecordError(message, None, 0, "at least 0", int(row["base_sequence"]))


def _only_headers_change(given: _Given, rules: Rules, content: Content, converting: bool) -> bool:
    """Return whether only the headers of the entries have to change.

    Raises:
        InvalidRecordError: The offsets in a compressed batch would have to change, which Kafka refuses too.
    """
    if given.is_plain:
        return not converting
    stays = given.source == given.target and given.magic == rules.magic != 0
    if given.is_control and not given.is_compressed:
        stays = True
    if given.magic > 0 and rules.magic > 0 and (content.offset != np.arange(len(content))).any():
        if stays and given.magic >= 2 and given.is_compressed:
            raise InvalidRecordError("the offsets in a compressed batch do not count 0, 1, 2, ...", None, 0)
        return False
    return stays


def _with_changed_headers(given: _Given, rules: Rules, content: Content) -> ValidationResult:
    """Copy the entries with new headers."""
    buffer, rows = bytearray(given.view), given.rows
    counts = np.bincount(content.batch, minlength=len(rows))
    set_last_offsets(buffer, rows, rules.first_offset - 1 + np.cumsum(counts, dtype=np.int64))
    largest = _largest_timestamps(given, rules, content)
    if rules.magic > 0:
        set_max_timestamps(buffer, rows, rules.timestamp_type, largest)
    if rules.magic >= 2:
        set_leader_epoch(buffer, rows, rules.partition_leader_epoch)
    return _result(buffer, given.reading, rules, int(largest.max()), len(content), changed=False)


def _largest_timestamps(given: _Given, rules: Rules, content: Content) -> NDArray[np.int64]:
    """Return the largest timestamp of each entry, ms.

    For a topic of format 0 there is none, except `now` for a control batch with LogAppendTime, as in Kafka.
    """
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME and (rules.magic > 0 or not given.is_plain):
        return np.full(len(given.rows), rules.now, np.int64)
    largest = np.full(len(given.rows), NO_TIMESTAMP, np.int64)
    if rules.magic > 0:
        np.maximum.at(largest, content.batch, content.timestamp)
    return largest


def _rebuilt(given: _Given, rules: Rules, content: Content) -> ValidationResult:
    """Write the records again, as one batch, one wrapper or consecutive messages."""
    columns = content.columns if content.columns is not None else given.columns()
    if given.target is CompressionType.ZSTD and rules.magic < 2:
        message = "zstd exists only in format 2"
        raise UnsupportedCompressionError(message, None, 0, "magic 2", f"magic {rules.magic}")
    ensure_writable(columns, rules.magic)
    builder = RecordsBuilder(_settings(given, rules))
    log_append = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    if not len(columns) and log_append and (rules.magic >= 2 or builder.settings.is_wrapped):
        raise InvalidRecordError("there is no record to give an append time to", None, 0)
    for records in columns.record_lists():
        builder.extend(records)
    largest = rules.now if log_append else builder.max_timestamp
    return _result(builder.build(), given.reading, rules, largest, len(columns), changed=True)


def _settings(given: _Given, rules: Rules) -> BatchSettings:
    """Return the settings of a batch of the same producer as the first entry.

    Raises:
        InvalidRecordError: The producer's data contradict each other.
    """
    row = given.rows[0]
    log_append = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    try:
        return BatchSettings(
            magic=rules.magic,
            compression_type=given.target,
            compression_level=rules.compression_level,
            timestamp_type=rules.timestamp_type,
            log_append_time=rules.now if log_append else -1,
            base_offset=rules.first_offset,
            producer_id=int(row["producer_id"]),
            producer_epoch=int(row["producer_epoch"]),
            base_sequence=int(row["base_sequence"]),
            is_transactional=given.is_transactional,
            partition_leader_epoch=rules.partition_leader_epoch,
        )
    except ValueError as error:
        raise InvalidRecordError(f"the batch contradicts itself: {error}", None, 0) from None


def _result(
    buffer: bytearray, reading: Reading, rules: Rules, max_timestamp: int, count: int, *, changed: bool
) -> ValidationResult:
    message_set = ByteBufferMessageSet(buffer, decompression_limit=reading.decompression_limit)
    rows = message_set.headers()
    at = int(rows["max_timestamp"].argmax()) if len(rows) else 0
    known = len(rows) and rows["max_timestamp"][at] > NO_TIMESTAMP
    offset = int(rows["last_offset"][at]) if known else -1
    return ValidationResult(message_set, rules.now, max_timestamp, offset, changed, count, rows)
