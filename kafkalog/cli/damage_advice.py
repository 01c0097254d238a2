"""Advice on how to continue a dump after damage."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from kafkalog.cli.log_source import Source
from kafkalog.errors import KafkaLogError
from kafkalog.fsck.verifying import scope_of
from kafkalog.record.decoding import Entries, Reading
from kafkalog.record.record_batch import RecordBatch, batches_of
from kafkalog.scan.records import surviving
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.remote_path import to_path
from kafkalog.storage.segment.file_message_set import FileMessageSet


def advice_after(source: Source, error: KafkaLogError) -> str:
    """Return advice to add to the message about damage; an empty text if nothing follows the damage."""
    paths = [file.path for file in source.files]
    if error.position is None or error.path not in paths:
        return ""
    i = paths.index(error.path)
    batch = _next_batch(to_path(error.path), error.position)
    if batch is None:
        following = segment_base_offset(to_path(paths[i + 1]).name) if i + 1 < len(paths) else None
        return "" if following is None else _advice(following)
    offset = batch.base_offset
    return _advice(offset if _from_option_finds(source.files[i], offset, batch.position) else None)


def _advice(offset: int | None) -> str:
    return "; to continue after it, use --skip-damage" + ("" if offset is None else f" or --from {offset}")


def _next_batch(path: Path, position: int) -> RecordBatch | None:
    """Return the next batch at or after a position that can be decoded; None if there is none."""
    with closing(open_source(path)) as file:
        for entries in surviving(file, scope_of(path)):
            if isinstance(entries, Entries):
                rows = entries.rows[entries.rows["position"] >= position]
                for batch in batches_of(entries._replace(rows=rows), Reading()):
                    # The position of a truncated batch's error is where the next batch begins, which is valid.
                    if _is_sound(batch):
                        return batch
    return None


def _is_sound(batch: RecordBatch) -> bool:
    try:
        batch.columns()
    except KafkaLogError:
        return False
    return True


def _from_option_finds(file: FileMessageSet, offset: int, position: int) -> bool:
    """Return whether a search by headers from the start of the file finds `offset` at or after `position`."""
    try:
        found = file.search(offset) if offset >= 0 else None
    except KafkaLogError:
        return False
    return found is not None and found.position >= position
