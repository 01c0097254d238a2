"""The results of reads and appends, and the isolation levels of reads.

    log start ........... last stable offset ........... high watermark ........... log end
    |  TXN_COMMITTED sees this |                          |                         |
    |  HIGH_WATERMARK sees this ......................... |                         |
    |  LOG_END sees this ........................................................... |

Kafka: `FetchIsolation`, `FetchDataInfo`, `LogAppendInfo`.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from kafkalog.attributes import CompressionType
from kafkalog.record.message_set import ByteBufferMessageSet, MessageSet
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata

NO_MESSAGES = ByteBufferMessageSet(b"")


class IsolationLevel(Enum):
    """The end of what a read returns. A consumer's `isolation.level` names two of them.

    Attributes:
        LOG_END: The log end.
        HIGH_WATERMARK: The high watermark.
        TXN_COMMITTED: The last stable offset. A read also returns the aborted transactions.
        READ_UNCOMMITTED: Another name of HIGH_WATERMARK.
        READ_COMMITTED: Another name of TXN_COMMITTED.
    """

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    TXN_COMMITTED = "txn_committed"
    READ_UNCOMMITTED = HIGH_WATERMARK
    READ_COMMITTED = TXN_COMMITTED


IsolationName: TypeAlias = Literal["log_end", "high_watermark", "txn_committed", "read_uncommitted", "read_committed"]
"""The name of an isolation level, which functions accept for it."""


class AbortedTransaction(NamedTuple):
    """An aborted transaction, whose records a consumer with "read_committed" leaves out.

    Attributes:
        producer_id: Its producer.
        first_offset: The offset of its first record. It ends with the producer's next marker.
    """

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchDataInfo:
    """The batches of a read, from the one that contains the requested offset on.

    The first batch may contain records before the requested offset.

    Attributes:
        fetch_offset_metadata: The place of the first batch, or of the requested offset if there are no batches.
        message_set: The batches.
        first_entry_incomplete: Whether the requested size cuts the first batch short.
        aborted_transactions: For TXN_COMMITTED: the aborted transactions by first offset, perhaps with some that have
            no records here. Else None.
    """

    fetch_offset_metadata: LogOffsetMetadata
    message_set: MessageSet
    first_entry_incomplete: bool = False
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None


class LogAppendInfo(NamedTuple):
    """The result of an append. Offsets are -1 if there was nothing to append.

    A batch that an idempotent producer sends again is not written again: the result has the offsets of the first time.

    Attributes:
        first_offset: The offset of the first record.
        last_offset: The offset of the last record.
        last_leader_epoch: The leader epoch in the last batch as given; -1 = none, as in batches from clients.
        max_timestamp: The largest timestamp of all batches, ms; -1 = none.
        log_append_time: The timestamp that the log gave to the records, ms; -1 = none.
        log_start_offset: The log start offset.
        source_compression: The codec of the batches as given.
        valid_bytes: The bytes of complete batches as given.
        is_duplicate: Whether the batch had been appended before.
    """

    first_offset: int = -1
    last_offset: int = -1
    last_leader_epoch: int = -1
    max_timestamp: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    source_compression: CompressionType = CompressionType.NONE
    valid_bytes: int = 0
    is_duplicate: bool = False

    @property
    def offsets_count(self) -> int:
        """The number of assigned offsets; 0 if nothing was written."""
        return self.last_offset - self.first_offset + 1 if self.first_offset >= 0 else 0


NOTHING_APPENDED = LogAppendInfo()
