"""What a log answers: to a read, to an append, and how far a read may see.

    log start ........... last stable offset ........... high watermark ........... log end
    |  TXN_COMMITTED sees this |                          |                         |
    |  HIGH_WATERMARK sees this ......................... |                         |
    |  LOG_END sees this ........................................................... |

Kafka: `FetchIsolation`, `FetchDataInfo`, `LogAppendInfo`.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kafkalog.attributes import CompressionType
from kafkalog.record.message_set import ByteBufferMessageSet, MessageSet
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata

NO_MESSAGES = ByteBufferMessageSet(b"")


class IsolationLevel(Enum):
    """How far a read sees. TXN_COMMITTED also tells which transactions were aborted."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    TXN_COMMITTED = "txn_committed"


class AbortedTransaction(NamedTuple):
    """A transaction whose records, from first_offset to its marker, a consumer of committed records leaves out."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchDataInfo:
    """Batches that were read, from the one that holds the offset asked for; records before it may be among them.

    fetch_offset_metadata: where the first batch lies, or what was asked for if nothing was found.
    first_entry_incomplete: the size asked for cuts the first batch. aborted_transactions: for TXN_COMMITTED, by first
    appearance, perhaps more than matter; else None.
    """

    fetch_offset_metadata: LogOffsetMetadata
    message_set: MessageSet
    first_entry_incomplete: bool = False
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None


class LogAppendInfo(NamedTuple):
    """What was appended. Offsets are -1 and nothing was written where there was nothing to write.

    A batch of an idempotent producer that had been appended before is not written again: its first offsets are given.
    last_leader_epoch: the one that the last batch came with; -1 = none, as in what clients send. max_timestamp: the
    largest of all batches; log_append_time: both ms, -1 = none. valid_bytes: bytes of whole batches in what was given.
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
        """How many offsets were given out; 0 where nothing was written."""
        return self.last_offset - self.first_offset + 1 if self.first_offset >= 0 else 0


NOTHING_APPENDED = LogAppendInfo()
