"""Facts about a batch beyond its header: validity, first offset of a wrapper, records of a control batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog.attributes import codec_name
from kafkalog.errors import KafkaLogError

if TYPE_CHECKING:
    from kafkalog import Record, RecordBatch


@dataclass
class BatchFacts:
    """Facts about a batch that are shown with its header.

    Attributes:
        codec: The name of the codec; None if the format is unknown.
        base_offset: The first offset; None if only decompression would tell, and it failed.
        control: The records of a control batch.
        error: The reason why the batch is invalid; None if it is valid.
    """

    codec: str | None
    base_offset: int | None = None
    control: list[Record] = field(default_factory=list)
    error: KafkaLogError | None = None


def facts_of(batch: RecordBatch) -> BatchFacts:
    """Return the facts about a batch. Damage is part of them, not raised."""
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
