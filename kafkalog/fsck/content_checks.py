"""Checks of the records inside sound batches: `RecordCheck`, the deep part of a check.

A valid checksum shows that the compressed bytes are those that were written. It does not show that the writer wrote a
sound batch. So each batch is decompressed and all its records are parsed. A batch for which that fails is a finding,
and the check goes on with the next one.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.checksum import first_invalid
from kafkalog._speedups.framing import scan_headers
from kafkalog.attributes import CONTROL_BIT, TimestampType
from kafkalog.errors import InvalidRecordError, KafkaLogError
from kafkalog.fsck.findings import Finding, Severity
from kafkalog.fsck.header_checks import Longs, Rows, about, unknown_codecs
from kafkalog.record.control import decode_control
from kafkalog.record.decoding import Entries, Reading, read_columns
from kafkalog.record.record_columns import RecordColumns

# At most so many compressed bytes, or one batch, are decompressed together: decompression bombs must not add up.
_COMPRESSED_TOGETHER = 32 * 1024


class RecordCheck:
    """The check of the records of one file.

    Attributes:
        records: The number of records decoded so far.
    """

    def __init__(self, path: str, limit: int) -> None:
        """Create the check.

        Args:
            path: The file, as named in findings.
            limit: The number of bytes that one batch may decompress to.
        """
        self._path = path
        self._reading = Reading(check_crcs=False, control=True, decompression_limit=limit, path=path)
        self.records = 0

    def findings(self, entries: Entries, before: Longs) -> Iterator[Finding]:
        """Yield the findings about the records of sound batches.

        Args:
            entries: The batches; their headers and checksums are valid.
            before: For each batch, the last offset before it, shape (n,).
        """
        known = ~unknown_codecs(entries.rows)
        entries, before = entries._replace(rows=entries.rows[known]), before[known]
        cuts = [*_group_starts(entries.rows), len(entries.rows)]
        for start, stop in pairwise(cuts):
            yield from self._group(entries._replace(rows=entries.rows[start:stop]), before[start:stop])

    def _group(self, entries: Entries, before: Longs) -> Iterator[Finding]:
        found: list[Finding] = []
        while len(entries.rows):
            try:
                for columns in read_columns(entries, self._reading):
                    self.records += len(columns)
                    found += self._inside(columns, before)
                break
            except KafkaLogError as error:
                bad = row_of(error, entries, self._reading)
                row = entries.rows[bad]
                # Findings about the records before the error mean nothing: the batch as a whole is unreadable.
                found = [each for each in found if each.position != int(row["position"])]
                found.append(self._unreadable(row, error))
                entries, before = entries._replace(rows=entries.rows[bad + 1 :]), before[bad + 1 :]
        yield from found

    def _unreadable(self, row: np.void, error: KafkaLogError) -> Finding:
        at = error.position
        message = error.message if at == int(row["position"]) else f"{error.message}, at position {at}"
        return about(
            row, self._path, Severity.ERROR, "invalid-records", message,
            expected=_comparable(error.expected), found=_comparable(error.found),
        )  # fmt: skip

    def _inside(self, columns: RecordColumns, before: Longs) -> Iterator[Finding]:
        rows = columns.batches
        counts = np.bincount(columns.batch, minlength=len(rows))
        held = np.flatnonzero(counts)
        starts = (np.cumsum(counts) - counts)[held]
        yield from self._offsets(columns, held, starts, before)
        yield from self._timestamps(columns, held, starts)
        yield from self._control(columns)
        if len(rows) == 1 and rows["magic"][0] < 2 and rows["compression_type"][0]:
            yield from self._inner_checksums(columns)

    def _offsets(
        self, columns: RecordColumns, held: NDArray[np.intp], starts: NDArray[np.intp], before: Longs
    ) -> Iterator[Finding]:
        offset, batch, rows = columns.offset, columns.batch, columns.batches
        last = rows["last_offset"].copy()
        wrapper = (rows["magic"] < 2) & (rows["compression_type"] != 0)
        # A broken order that the header already shows is reported by `OrderCheck`.
        after = np.where(before < last, before + 1, np.iinfo(np.int64).min) if wrapper.any() else last
        least = np.where(wrapper, after, rows["base_offset"])
        # Old clients sent wrappers with offset 0, which then means nothing.
        last[wrapper & (last == 0) & (rows["magic"] == 1)] = np.iinfo(np.int64).max
        wrong = np.zeros(len(offset), np.bool_)
        wrong[1:] = (offset[1:] <= offset[:-1]) & (batch[1:] == batch[:-1])
        wrong |= (offset < least[batch]) | (offset > last[batch])
        ends = np.append(starts[1:], len(offset)) - 1
        wrong[ends] |= wrapper[held] & (last[held] != np.iinfo(np.int64).max) & (offset[ends] != last[held])
        places = np.flatnonzero(wrong)
        for i in places[np.unique(batch[places], return_index=True)[1]].tolist():
            row = int(batch[i])
            message = (
                f"offset {int(offset[i])} of record {i - int(np.searchsorted(batch, row))} is out of order or range"
            )
            expected = f"rising offsets {int(least[row])}..{int(rows['last_offset'][row])}"
            if wrapper[row]:
                expected = f"rising offsets up to {int(rows['last_offset'][row])}"
            yield about(rows[row], self._path, Severity.ERROR, "inner-offsets", message,
                        expected=expected, found=int(offset[i]))  # fmt: skip

    def _timestamps(
        self, columns: RecordColumns, held: NDArray[np.intp], starts: NDArray[np.intp]
    ) -> Iterator[Finding]:
        rows = columns.batches[held]
        most = np.maximum.reduceat(columns.timestamp, starts)
        stated = rows["max_timestamp"]
        checked = (rows["timestamp_type"] == TimestampType.CREATE_TIME) & (rows["magic"] >= 1)
        for i in np.flatnonzero(checked & (most != stated)).tolist():
            yield about(
                rows[i], self._path, Severity.WARNING, "max-timestamp",
                "the largest timestamp differs from that of the records", expected=int(most[i]), found=int(stated[i]),
            )  # fmt: skip

    def _control(self, columns: RecordColumns) -> Iterator[Finding]:
        rows = columns.batches
        control = (rows["magic"] >= 2) & (rows["attributes"] & CONTROL_BIT != 0)
        if not control.any():
            return
        for i in np.flatnonzero(control[columns.batch]).tolist():
            try:
                decode_control(columns.record(i))
            except InvalidRecordError as error:
                row, offset = rows[columns.batch[i]], int(columns.offset[i])
                yield about(
                    row, self._path, Severity.ERROR, "control-record", error.message, first_offset=offset,
                    last_offset=offset, expected=_comparable(error.expected), found=_comparable(error.found),
                )  # fmt: skip

    def _inner_checksums(self, columns: RecordColumns) -> Iterator[Finding]:
        """Check the messages of one wrapper; the columns' buffer is its decompressed value."""
        messages = scan_headers(columns.buffer, 0, 0, len(columns))[0]
        done = 0
        while done < len(messages):
            bad, computed = first_invalid(columns.buffer, messages[done:], 0)
            i = done + bad
            if i < len(messages):
                offset = int(columns.offset[i])
                yield about(
                    columns.batches[0], self._path, Severity.ERROR, "inner-crc",
                    f"the checksum of message {i} inside does not hold", first_offset=offset, last_offset=offset,
                    expected=hexadecimal(messages["checksum"][i]), found=hexadecimal(computed),
                )  # fmt: skip
            done = i + 1


def row_of(error: KafkaLogError, entries: Entries, reading: Reading) -> int:
    """Return the index of the row that an error raised by decoding `entries` is about.

    Raises:
        KafkaLogError: `error`, if it has no position.
    """
    if error.position is None:
        raise error
    starts = entries.rows["position"]
    i = int(np.searchsorted(starts, error.position, "right")) - 1
    # The error of a batch that ends too early is at its end, where the next batch begins.
    if i and error.position == int(starts[i]) and _undecodable(entries._replace(rows=entries.rows[i - 1 : i]), reading):
        return i - 1
    return i


def _undecodable(entries: Entries, reading: Reading) -> bool:
    try:
        for _ in read_columns(entries, reading):
            pass
    except KafkaLogError:
        return True
    return False


def _group_starts(rows: Rows) -> list[int]:
    """Return the first index of each group of `rows` to decode together: a wrapper is a group of its own."""
    if not len(rows):
        return []
    alone = (rows["magic"] < 2) & (rows["compression_type"] != 0)
    bytes_compressed = np.cumsum(np.where(rows["compression_type"] != 0, rows["size_in_bytes"], 0).astype(np.int64))
    cut = alone.copy()
    cut[1:] |= alone[:-1] | (np.diff(bytes_compressed // _COMPRESSED_TOGETHER) > 0)
    cut[0] = True
    return [int(i) for i in np.flatnonzero(cut)]


def hexadecimal(checksum: int) -> str:
    """Format a checksum, for example 0x0000a1b2."""
    return f"{int(checksum):#010x}"


def _comparable(value: object) -> int | str | None:
    return value if value is None or isinstance(value, (int, str)) else str(value)
