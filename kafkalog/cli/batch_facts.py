"""What showing a batch takes beyond its header: its checksum, and the inside of control batches and old wrappers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog.attributes import codec_name
from kafkalog.errors import KafkaLogError

if TYPE_CHECKING:
    from kafkalog import Record, RecordBatch


@dataclass
class BatchFacts:
    """codec: as the header has it, None = the format is none that is known.

    base_offset: None = only decompressing would tell, and fails. error: why the batch is not valid, None = it is.
    """

    codec: str | None
    base_offset: int | None = None
    control: list[Record] = field(default_factory=list)
    error: KafkaLogError | None = None


def facts_of(batch: RecordBatch) -> BatchFacts:
    """Raises nothing for damage."""
    facts = BatchFacts(_codec(batch))
    try:
        facts.base_offset = batch.base_offset if batch.magic >= 2 or not batch.is_compressed else None
        batch.ensure_valid()
        facts.base_offset = batch.base_offset
        facts.control = list(batch) if batch.is_control else []
    except KafkaLogError as error:
        facts.error = error
    return facts


def _codec(batch: RecordBatch) -> str | None:
    try:
        return codec_name(batch.compression_type) if 0 <= batch.magic <= 2 else None
    except KafkaLogError as error:
        return f"codec {error.found}"
