"""Checks of the records inside sound batches: `RecordCheck`, the deep part of a check.

A valid checksum shows that the compressed bytes are those that were written. It does not show that the writer wrote a
sound batch. So each batch is decompressed and all its records are parsed. A batch for which that fails is a finding,
and the check goes on with the next one.
"""

from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog._speedups.checksum import first_invalid
from kafkalog._speedups.decompress import linked_lz4_rows
from kafkalog._speedups.framing import scan_headers
from kafkalog.attributes import CONTROL_BIT, TimestampType
from kafkalog.errors import InvalidRecordError, KafkaLogError
from kafkalog.fsck.findings import Finding
from kafkalog.fsck.header_checks import Longs, Rows, about, is_wrapper, unknown_codecs
from kafkalog.record.control import decode_control
from kafkalog.record.decoding import Entries, Reading, read_columns
from kafkalog.record.record_columns import RecordColumns

# At most so many compressed bytes, or one batch, are decompressed together: decompression bombs must not add up.
_COMPRESSED_TOGETHER = 32 * 1024
# The most findings of one kind about the records of a batch that are read together.
MOST_ALIKE = 10


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
        # The batch that the last part ends in.
        self._begun: _Begun | None = None

    def findings(self, entries: Entries, before: Longs) -> Iterator[Finding]:
        """Yield the findings about the records of sound batches.

        Args:
            entries: The batches; their headers and checksums are valid.
            before: For each batch, the last offset before it, shape (n,).
        """
        yield from self._linked_blocks(entries)
        known = ~unknown_codecs(entries.rows)
        entries, before = entries._replace(rows=entries.rows[known]), before[known]
        cuts = [*_group_starts(entries.rows), len(entries.rows)]
        for start, stop in pairwise(cuts):
            yield from self._group(entries._replace(rows=entries.rows[start:stop]), before[start:stop])

    def _linked_blocks(self, entries: Entries) -> Iterator[Finding]:
        for i in linked_lz4_rows(entries.view, entries.rows, entries.position):
            yield about(
                entries.rows[i], self._path, "linked-lz4-blocks",
                "the blocks of the LZ4 frame are linked, which Kafka's Java clients do not read",
            )  # fmt: skip

    def _group(self, entries: Entries, before: Longs) -> Iterator[Finding]:
        found: list[Finding] = []
        while len(entries.rows):
            try:
                for columns in read_columns(entries, self._reading):
                    self.records += len(columns)
                    found += self._inside(columns, before)
                    del columns
                found += self._end()
                break
            except KafkaLogError as error:
                bad = row_of(error, entries, self._reading)
                row = entries.rows[bad]
                found += self._end()
                # Findings about the records before the error mean nothing: the batch as a whole is unreadable.
                found = [each for each in found if each.position != int(row["position"])]
                found.append(self._unreadable(row, error))
                entries, before = entries._replace(rows=entries.rows[bad + 1 :]), before[bad + 1 :]
        yield from found

    def _unreadable(self, row: np.void, error: KafkaLogError) -> Finding:
        at = error.position
        message = error.message if at == int(row["position"]) else f"{error.message}, at position {at}"
        return about(
            row, self._path, "invalid-records", message,
            expected=_comparable(error.expected), found=_comparable(error.found),
        )  # fmt: skip

    def _inside(self, columns: RecordColumns, before: Longs) -> Iterator[Finding]:
        """Check a part of the records. What its last batch is found to hold is noted, because more of it may follow."""
        rows = columns.batches
        counts = np.bincount(columns.batch, minlength=len(rows))
        held = np.flatnonzero(counts)
        starts = (np.cumsum(counts) - counts)[held]
        begun = self._begun
        if begun is None or rows["position"][held[0]] != begun.rows["position"][0]:
            yield from self._end()
            begun = None
        wrong = self._wrong_offsets(columns, before, begun)
        yield from self._offsets(columns, wrong, begun)
        yield from self._largest_offset(columns)
        yield from self._control(columns)
        checked_to = 0
        if len(rows) == 1 and is_wrapper(rows[0]):
            checked_to = yield from self._inner_checksums(columns, begun)
        here = _Begun(
            rows[held],
            counts[held],
            columns.offset[np.append(starts[1:], len(columns)) - 1],
            np.maximum.reduceat(columns.timestamp, starts),
            np.logical_or.reduceat(wrong, starts),
            checked_to,
        )
        if begun is not None:
            here.records[0] += begun.records[0]
            here.latest[0] = max(here.latest[0], begun.latest[0])
            here.is_wrong[0] |= begun.is_wrong[0]
        yield from self._ends(here.part(slice(None, -1)))
        self._begun = here.part(slice(-1, None))

    def _end(self) -> Iterator[Finding]:
        begun, self._begun = self._begun, None
        return iter(()) if begun is None else self._ends(begun)

    def _ends(self, whole: "_Begun") -> Iterator[Finding]:
        """Check the last offsets and the largest timestamps of batches that have been read to their ends."""
        rows = whole.rows
        wrong = is_wrapper(rows) & ~_means_nothing(rows) & (whole.last_offset != rows["last_offset"]) & ~whole.is_wrong
        for i in np.flatnonzero(wrong).tolist():
            yield self._wrong_offset(rows[i], int(whole.last_offset[i]), int(whole.records[i]) - 1)
        checked = (rows["timestamp_type"] == TimestampType.CREATE_TIME) & (rows["magic"] >= 1)
        for i in np.flatnonzero(checked & (whole.latest != rows["max_timestamp"])).tolist():
            yield about(
                rows[i], self._path, "max-timestamp",
                "the largest timestamp differs from that of the records", expected=int(whole.latest[i]),
                found=int(rows["max_timestamp"][i]),
            )  # fmt: skip

    def _wrong_offsets(self, columns: RecordColumns, before: Longs, begun: "_Begun | None") -> NDArray[np.bool_]:
        """Return a mask of the records whose offset is out of order or range."""
        offset, batch, rows = columns.offset, columns.batch, columns.batches
        last = rows["last_offset"].copy()
        wrapper = is_wrapper(rows)
        # A broken order that the header already shows is reported by `OrderCheck`.
        after = np.where(before < last, before + 1, np.iinfo(np.int64).min) if wrapper.any() else last
        least = np.where(wrapper, after, rows["base_offset"])
        last[_means_nothing(rows)] = np.iinfo(np.int64).max
        wrong = (offset < least[batch]) | (offset > last[batch])
        wrong[1:] |= (offset[1:] <= offset[:-1]) & (batch[1:] == batch[:-1])
        if begun is not None:
            wrong[0] |= offset[0] <= begun.last_offset[0]
        return wrong

    def _offsets(self, columns: RecordColumns, wrong: NDArray[np.bool_], begun: "_Begun | None") -> Iterator[Finding]:
        """Yield a finding for the first wrong offset of each batch."""
        batch, places = columns.batch, np.flatnonzero(wrong)
        for i in places[np.unique(batch[places], return_index=True)[1]].tolist():
            continues = begun is not None and batch[i] == batch[0]
            if begun is None or not continues or not begun.is_wrong[0]:
                number = (
                    i - int(np.searchsorted(batch, batch[i])) + (int(begun.records[0]) if begun and continues else 0)
                )
                yield self._wrong_offset(columns.batches[batch[i]], int(columns.offset[i]), number)

    def _wrong_offset(self, row: np.void, offset: int, number: int) -> Finding:
        expected = f"rising offsets {int(row['base_offset'])}..{int(row['last_offset'])}"
        if is_wrapper(row):
            expected = f"rising offsets up to {int(row['last_offset'])}"
        return about(
            row, self._path, "inner-offsets",
            f"offset {offset} of record {number} is out of order or range", expected=expected, found=offset,
        )  # fmt: skip

    def _largest_offset(self, columns: RecordColumns) -> Iterator[Finding]:
        for i in np.flatnonzero(columns.offset == INT64_MAX)[:MOST_ALIKE].tolist():
            yield about(
                columns.batches[columns.batch[i]], self._path, "largest-offset",
                "a record has the largest offset that there is, so that none follows it",
                first_offset=INT64_MAX, last_offset=INT64_MAX,
            )  # fmt: skip

    def _control(self, columns: RecordColumns) -> Iterator[Finding]:
        rows = columns.batches
        control = (rows["magic"] >= 2) & (rows["attributes"] & CONTROL_BIT != 0)
        if not control.any():
            return
        bad = 0
        for i in np.flatnonzero(control[columns.batch]).tolist():
            try:
                decode_control(columns.record(i))
            except InvalidRecordError as error:
                bad += 1
                if bad > MOST_ALIKE:
                    return
                row, offset = rows[columns.batch[i]], int(columns.offset[i])
                yield about(
                    row, self._path, "control-record", error.message, first_offset=offset,
                    last_offset=offset, expected=_comparable(error.expected), found=_comparable(error.found),
                )  # fmt: skip

    def _inner_checksums(self, columns: RecordColumns, begun: "_Begun | None") -> Generator[Finding, None, int]:
        """Check the messages of one wrapper, whose decompressed value is the columns' buffer.

        Returns:
            The index of the first message that follows.
        """
        start, number = (0, 0) if begun is None else (begun.checked_to, int(begun.records[0]))
        messages, _, end, *_ = scan_headers(columns.buffer, 0, start, len(columns))
        done = 0
        for _ in range(MOST_ALIKE):
            bad, computed = first_invalid(columns.buffer, messages[done:], 0)
            i = done + bad
            if i == len(messages):
                break
            offset = int(columns.offset[i])
            yield about(
                columns.batches[0], self._path, "inner-crc",
                f"the checksum of message {number + i} inside does not hold", first_offset=offset, last_offset=offset,
                expected=hexadecimal(messages["checksum"][i]), found=hexadecimal(computed),
            )  # fmt: skip
            done = i + 1
        return end


class _Begun(NamedTuple):
    """The state of the check of some batches whose records are read in parts; one element for each batch.

    Attributes:
        rows: Their rows of the header table.
        records: The number of their records.
        last_offset: The offset of the last of them.
        latest: The largest timestamp.
        is_wrong: Whether an offset is out of order or range.
        checked_to: The index of the first message inside a wrapper whose checksum is not checked.
    """

    rows: Rows
    records: NDArray[np.intp]
    last_offset: Longs
    latest: Longs
    is_wrong: NDArray[np.bool_]
    checked_to: int

    def part(self, wanted: slice) -> "_Begun":
        """Return some of the batches."""
        return _Begun(
            self.rows[wanted],
            self.records[wanted],
            self.last_offset[wanted],
            self.latest[wanted],
            self.is_wrong[wanted],
            self.checked_to,
        )


def _means_nothing(rows: Rows) -> NDArray[np.bool_]:
    """Return for which rows the last offset has no meaning: old clients sent wrappers with offset 0."""
    nothing: NDArray[np.bool_] = is_wrapper(rows) & (rows["last_offset"] == 0) & (rows["magic"] == 1)
    return nothing


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
    alone = is_wrapper(rows)
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
