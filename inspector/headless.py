"""Each screen as text or JSON, for scripts: `kafkalog inspect PATH --headless SCREEN -o json`.

JSON is one document, {"version": ..., "screen": ..., "path": ..., "rows": [...], ...}. Batches, records, segments,
partitions and findings have the shapes that the other commands print (`kafkalog.cli.json_shapes`), and the fields that
the screen adds. Rows are written as they are read, so that a long segment takes no more memory than a short one. The
text has the columns of the screen. The exit code is 1 if a problem is reported, else 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspector import charts, columns, text
from inspector.columns import Times
from inspector.jobs.jobs import Wanted
from inspector.model import Model, Progress
from inspector.reading.answers import BatchRow, CellKind, PartitionState, RecordDetail, RecordRow, SegmentRow, TopicRow
from inspector.reading.batches import SegmentReader
from inspector.reading.partition import PartitionReader
from inspector.reading.search import Search
from inspector.reading.statistics import Statistics
from inspector.reading.verifying import Verification
from inspector.rows import Shown
from kafkalog import Record, TopicPartition
from kafkalog.cli import json_shapes
from kafkalog.cli.log_source import Located, facts_of
from kafkalog.cli.output import path_text, rfc3339, write_text
from kafkalog.fsck import Severity
from kafkalog.scan.search import Match
from kafkalog.scan.summary import SegmentSummary
from kafkalog.scan.transactions import TransactionRow, Transactions
from kafkalog.storage.data_dir.discover import LogFile

WINDOW = 1_000
TEXT_WIDTH = 100
MAP_CELLS = 80
# The number of bytes of a field that are given: in JSON, and in text.
FIELD_BYTES = 256
TEXT_BYTES = 8
SOUND, FINDINGS = 0, 1


class NeedsMoreError(ValueError):
    """The screen needs another option."""


class NeedsPartitionError(NeedsMoreError):
    """The screen needs a partition."""


@dataclass(frozen=True)
class TopKey:
    """A frequent key, and a lower bound for the number of its records."""

    key: bytes
    records: int


@dataclass(frozen=True)
class FieldRow:
    """A field of the bytes of a segment.

    Attributes:
        segment: The base offset of the segment.
        position: The position in the file, bytes.
        length: The length, bytes.
        hex: The first bytes.
        name: The name of the field.
        value: The value as text.
        explanation: The meaning of the field.
        of: The record and header that it belongs to.
        problem: The problem of the batch, in its first field.
    """

    segment: int | None
    position: int
    length: int
    hex: str
    name: str
    value: str
    explanation: str
    of: tuple[str, ...]
    problem: str | None = None


@dataclass(frozen=True)
class CellRow:
    """A cell of the map of a segment.

    Attributes:
        segment: The base offset of the segment.
        position: The position of the first byte.
        bytes: The number of bytes.
        kind: The kind of batches in it.
        first_row: The row of the first batch that begins in the cell; None: none does.
        last_row: The row of the last batch that begins in the cell; None: none does.
    """

    segment: int | None
    position: int
    bytes: int
    kind: CellKind
    first_row: int | None
    last_row: int | None


@dataclass(frozen=True)
class InSegment:
    """A row whose numbers and positions are relative to its segment."""

    reader: SegmentReader
    row: Any


@dataclass(frozen=True)
class Options:
    """The options of single screens.

    Attributes:
        find: What the search screen searches for.
        deep: Whether the verify screen parses every record.
    """

    find: Wanted | None = None
    deep: bool = False


@dataclass(frozen=True)
class Asked:
    """The arguments of a screen."""

    model: Model
    times: Times
    options: Options


@dataclass(frozen=True)
class Listing:
    """The content of a screen.

    Attributes:
        rows: The rows.
        columns: The columns of the text.
        facts: Facts about the whole.
        after: Returns facts that are known after all rows were read.
        lines: The text, if it is not a table.
        document: Returns the JSON of a row.
    """

    rows: Iterable[Any]
    columns: Sequence[Shown[Any]]
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    after: Callable[[], dict[str, Any]] = dict
    lines: Sequence[str] | None = None
    document: Callable[[Any], dict[str, Any]] = dataclasses.field(default_factory=lambda: _plain)


def topics(asked: Asked) -> Listing:
    """List the partitions, with all values."""
    found = {row.name: row for row in asked.model.topics()}
    facts = {"problem": asked.model.problem}
    return Listing(list(found.values()), columns.topics(asked.times), after=lambda: facts, document=_topic)


def segments(asked: Asked) -> Listing:
    """List the segments of a partition, after reading all their headers, with the state of the partition."""
    reader = _partition(asked)
    for row in reader.refresh().segments:
        _indexed(reader.segment(row.base_offset))
    stable = reader.work_out_last_stable()
    state = reader.refresh()
    facts = _state(dataclasses.replace(state, last_stable=stable), reader.transactions())
    return Listing(state.segments, columns.segments(asked.times), facts, document=_segment)


def batches(asked: Asked) -> Listing:
    """List the batches of all segments."""
    through = _Through(asked)
    rows = _windows(through, lambda segment: segment.batches, lambda segment: segment.batch_rows)
    return Listing(rows, columns.batches(asked.times), after=through.problem, document=_batch)


def records(asked: Asked) -> Listing:
    """List the records of all segments, with the beginning of long keys and values."""
    through = _Through(asked)
    rows = _windows(through, lambda segment: segment.records, lambda segment: segment.record_rows)
    return Listing(rows, columns.records(asked.times), after=through.problem, document=_record)


def record(asked: Asked) -> Listing:
    """List the records of all segments, with complete content."""
    through = _Through(asked)
    shown = _record_columns(asked.times)
    return Listing(_details(through), shown, after=through.problem, document=_detail_documents())


def segment_map(asked: Asked) -> Listing:
    """List the cells of the map of each segment."""
    shown: list[Shown[CellRow]] = [
        Shown("POSITION", 13, lambda cell: text.number(cell.position), right=True),
        Shown("BYTES", 10, lambda cell: text.number(cell.bytes), right=True),
        Shown("KIND", 13, lambda cell: cell.kind),
        Shown("FIRST BATCH", 11, lambda cell: text.number(cell.first_row), right=True),
        Shown("LAST BATCH", 11, lambda cell: text.number(cell.last_row), right=True),
    ]
    through = _Through(asked, damage=True)
    return Listing((row for segment in through for row in _cells(segment)), shown, after=through.problem)


def _cells(segment: SegmentReader) -> Iterator[CellRow]:
    for cell in segment.strip(MAP_CELLS):
        first, last = (None, None) if cell.first_row < 0 else (cell.first_row, cell.last_row)
        yield CellRow(segment.base_offset, cell.position, cell.bytes, cell.kind, first, last)


def hexadecimal(asked: Asked) -> Listing:
    """List the fields of all bytes of all segments, with the first bytes of long fields."""
    shown: list[Shown[FieldRow]] = [
        Shown("POSITION", 13, lambda row: text.number(row.position), right=True),
        Shown("LENGTH", 9, lambda row: text.number(row.length), right=True),
        Shown("BYTES", 3 * TEXT_BYTES - 1, _first_bytes),
        Shown("FIELD", 24, lambda row: row.name),
        Shown("VALUE", 20, lambda row: text.printable(row.value)),
        Shown("OF", 20, lambda row: " > ".join(row.of)),
    ]
    through = _Through(asked)
    return Listing((row for segment in through for row in _fields(segment)), shown, after=through.problem)


def _fields(segment: SegmentReader) -> Iterator[FieldRow]:
    for number in range(segment.batches):
        batch = segment.batch(number)
        problem = None if batch is None else batch.problem
        for field in segment.every_field(number):
            data = segment.read_bytes(field.start, min(field.length, FIELD_BYTES)).hex()
            what = field.name, field.value, field.explanation, field.path
            yield FieldRow(segment.base_offset, field.start, field.length, data, *what, problem)
            problem = None


def _first_bytes(row: FieldRow) -> str:
    data = bytes.fromhex(row.hex)
    return data.hex(" ") if row.length <= TEXT_BYTES else data[: TEXT_BYTES - 1].hex(" ") + " …"


def transactions(asked: Asked) -> Listing:
    """List the transactions of a partition: the open ones, and the newest of those that have ended."""
    scan = _partition(asked).scan_transactions()
    while not scan.step().is_done:
        pass
    scan.close()
    state = scan.state()
    facts = {
        "open": state.open,
        "hanging": state.hanging,
        "aborted": state.aborted,
        "committed": state.committed,
        "last_stable_offset": state.last_stable_offset,
        "problem": state.problem,
    }
    command: Shown[TransactionRow] = Shown("COMMAND TO ABORT", 20, lambda row: text.printable(row.abort_command or ""))
    shown = [*columns.transactions(asked.times), command]
    return Listing(state.rows, shown, facts)


def verify(asked: Asked) -> Listing:
    """List the findings of a check of the data directory, the partition or the file."""
    verification = Verification(asked.model.path, deep=asked.options.deep)
    rows = (finding for finding in verification if not isinstance(finding, Progress))

    def after() -> dict[str, Any]:
        check = json_shapes.of_check(verification.summary, deep=verification.deep)
        return {"complete": verification.finished, **check, "problem": verification.problem}

    shown = columns.findings(asked.model.path, wide=asked.model.kind == "data_dir")
    return Listing(rows, shown, after=after, document=json_shapes.of_finding)


def search(asked: Asked) -> Listing:
    """List the records of a partition that match a search.

    Raises:
        NeedsMoreError: The option `find` is missing.
    """
    wanted = asked.options.find
    if wanted is None:
        raise NeedsMoreError("what is searched for? --find TEXT")
    looking = Search(_partition(asked), wanted.pattern(), fields=wanted.fields)
    rows = (match for match in looking if isinstance(match, Match))

    def after() -> dict[str, Any]:
        progress = looking.progress(finished=True)
        found = {name: value for name, value in _plain(progress).items() if name != "finished"}
        return {**found, "complete": progress.complete}

    facts = {"find": path_text(wanted.text), "regex": wanted.regex}
    return Listing(rows, columns.matches(), facts, after, document=_match)


def statistics(asked: Asked) -> Listing:
    """Show the charts of a partition, and its most frequent keys."""
    counting = Statistics(_partition(asked))
    while not counting.step().is_done:
        pass
    state = counting.state()
    facts = _plain(state)
    for name in ("top_keys", "progress"):
        facts.pop(name)
    shown: list[Shown[Any]] = [
        Shown("KEY", 20, lambda row: text.printable(row.key)),
        Shown("RECORDS", 12, lambda row: text.number(row.records), right=True),
    ]
    rows = [TopKey(key, count) for key, count in state.top_keys]
    return Listing(rows, shown, facts, lines=charts.report(state, asked.times, TEXT_WIDTH))


SCREENS: dict[str, Callable[[Asked], Listing]] = {
    "topics": topics,
    "segments": segments,
    "map": segment_map,
    "batches": batches,
    "records": records,
    "record": record,
    "hex": hexadecimal,
    "transactions": transactions,
    "verify": verify,
    "search": search,
    "statistics": statistics,
}


def show(path: Path, screen: str, form: str, zone: text.Zone = "utc", options: Options | None = None) -> int:
    """Print a screen.

    Args:
        path: A data directory, a partition or a segment file.
        screen: A name in `SCREENS`.
        form: "json" or "text".
        zone: The zone of times in text.
        options: The options of single screens.

    Returns:
        The exit code.

    Raises:
        NotALogError: The path holds no log.
        OSError: The path was not opened.
        NeedsMoreError: The screen needs another option, or a partition.
    """
    model = Model(path)
    try:
        listing = SCREENS[screen](Asked(model, Times(zone), options or Options()))
        lines = _json(listing, screen, model.path) if form == "json" else _text(listing)
        found = SOUND
        for line, is_sound in lines:
            found = found if is_sound else FINDINGS
            write_text(line)
        return found
    finally:
        model.close()


def _partition(asked: Asked) -> PartitionReader:
    if asked.model.kind == "data_dir":
        raise NeedsPartitionError("a data directory has many partitions: give the directory of one")
    return asked.model.partition(None)


class _Through:
    """Iterates over the segments of a partition, and collects their problems."""

    def __init__(self, asked: Asked, *, damage: bool = False) -> None:
        """Open the partition.

        Args:
            asked: The arguments of the screen.
            damage: Whether the first damage of each segment is a problem too, for rows that do not report it.
        """
        self._reader = _partition(asked)
        self._damage = damage
        self._problems: list[str] = []

    def __iter__(self) -> Iterator[SegmentReader]:
        state = self._reader.refresh()
        if not state.segments:
            self._note(state.problem)
        for row in state.segments:
            segment = _indexed(self._reader.segment(row.base_offset))
            yield segment
            self._note(segment.problem)
            self._note(segment.first_damage() if self._damage else None)

    def _note(self, problem: str | None) -> None:
        self._problems += [] if problem is None else [problem]

    def problem(self) -> dict[str, Any]:
        """Return the problems found; complete after all rows were read."""
        return {"problem": "; ".join(self._problems) or None}


def _indexed(segment: SegmentReader) -> SegmentReader:
    """Read the headers of a segment up to its current end, and return it."""
    before = None
    while not (progress := segment.index_more()).is_done and progress != before:
        before = progress
    return segment


def _windows(
    segments: Iterable[SegmentReader],
    count: Callable[[SegmentReader], int],
    read: Callable[[SegmentReader], Callable[[int, int], Sequence[Any]]],
) -> Iterator[InSegment]:
    for segment in segments:
        for first in range(0, count(segment), WINDOW):
            for row in read(segment)(first, min(WINDOW, count(segment) - first)):
                yield InSegment(segment, row)


def _details(segments: Iterable[SegmentReader]) -> Iterator[InSegment]:
    for segment in segments:
        for number in range(segment.records):
            detail = segment.record(number)
            if detail is not None:
                yield InSegment(segment, detail)


def _record_columns(times: Times) -> list[Shown[Any]]:
    return [
        Shown("OFFSET", 10, lambda detail: str(detail.offset), right=True),
        Shown("TIME", 24, lambda detail: times.full(detail.timestamp)),
        Shown("KEY", 12, lambda detail: text.printable(detail.key)),
        Shown("VALUE", 20, lambda detail: detail.control or text.printable(detail.value)),
        Shown("HEADERS", 20, lambda detail: _headers(detail.headers)),
    ]


def _headers(headers: Iterable[tuple[str, bytes | None]]) -> str:
    return " ".join(f"{text.printable(name)}={text.printable(value)}" for name, value in headers)


# Text: pairs of a text, and whether it reports no problem.


def _text(listing: Listing) -> Iterator[tuple[str, bool]]:
    if listing.lines is not None:
        yield "".join(f"{line.rstrip()}\n" for line in listing.lines), True
        yield from _fact_lines({name: listing.facts.get(name) or None for name in ("unreadable", "problem")})
        return
    yield from _fact_lines(listing.facts)
    yield _line([(each.title, each) for each in listing.columns]), True
    for each in listing.rows:
        row = _bare(each)
        yield _line([(shown.cell(row), shown) for shown in listing.columns]), _is_sound(row)
        problem = getattr(row, "problem", None)
        if problem is not None:
            yield f"  ! {text.printable(problem)}\n", False
    yield from _fact_lines(listing.after())


def _fact_lines(facts: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    for name, value in facts.items():
        if value not in (None, [], {}):
            yield f"{name}: {_one_line(value)}\n", name != "problem"


def _bare(row: Any) -> Any:
    return row.row if isinstance(row, InSegment) else row


def _is_sound(row: Any) -> bool:
    """Return whether a row is neither a problem, nor a finding of damage, nor a hanging transaction."""
    if getattr(row, "problem", None) is not None or getattr(row, "severity", None) == Severity.ERROR:
        return False
    return not (isinstance(row, TransactionRow) and row.state == "hanging")


def _one_line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_one_line(each)}" for name, each in value.items() if each not in (None, [], {}))
    if isinstance(value, (list, tuple)):
        between = "; " if any(isinstance(each, (dict, list, tuple)) for each in value) else " "
        return between.join(map(_one_line, value))
    return text.printable(value if isinstance(value, str) else str(value))


def _line(cells: Iterable[tuple[str, Shown[Any]]]) -> str:
    aligned = [cell.rjust(each.width) if each.right else cell.ljust(each.width) for cell, each in cells]
    return "  ".join(aligned).rstrip() + "\n"


# JSON.


def _json(listing: Listing, screen: str, path: Path) -> Iterator[tuple[str, bool]]:
    head = {"version": json_shapes.JSON_VERSION, "screen": screen, "path": path_text(path), **listing.facts}
    yield json_shapes.text_of(head)[:-1] + ',"rows":[', not listing.facts.get("problem")
    for i, row in enumerate(listing.rows):
        document, is_sound = listing.document(row), _is_sound(_bare(row))
        yield ",\n" if i else "\n", is_sound
        pieces: Iterable[str]
        try:
            pieces = (json_shapes.text_of(document),)
        except TypeError:
            # It has a `LargeText`.
            pieces = map(bytes.decode, json_shapes.pieces_of(document))
        yield from ((piece, is_sound) for piece in pieces)
    after = listing.after()
    rest = "," + json_shapes.text_of(after)[1:] if after else "}"
    yield f"]{rest}\n", not after.get("problem")


def _topic(row: TopicRow) -> dict[str, Any]:
    return {
        "name": path_text(row.name),
        **json_shapes.of_place(row.path, TopicPartition(row.topic, row.partition) if row.partition >= 0 else None),
        "mark": row.mark,
        "is_internal": row.is_internal,
        "filled": row.filled,
        "segments": row.segments,
        "size_in_bytes": row.bytes,
        "records": row.records,
        "offsets": row.offsets,
        "log_start_offset": row.log_start,
        "high_watermark": row.high_watermark,
        "last_stable_offset": row.last_stable,
        "log_end_offset": row.log_end,
        "rate": row.rate,
        "last_timestamp": row.last_timestamp,
        "last_time": _time(row.last_timestamp),
        "health": row.health,
        "problem": row.problem,
    }


def _time(timestamp: int | None) -> str | None:
    return None if timestamp is None else rfc3339(timestamp)


def _state(state: PartitionState, transactions: Transactions) -> dict[str, Any]:
    """Return the JSON of the state of a partition, without its segments."""
    return {
        "name": path_text(state.name),
        "log_start_offset": state.log_start,
        "recovery_point": state.recovery_point,
        "last_stable_offset": state.last_stable,
        "high_watermark": state.high_watermark,
        "log_end_offset": state.log_end,
        "leader_epochs": [{"epoch": epoch, "start_offset": offset} for epoch, offset in state.epochs],
        "problem": state.problem,
        "gaps": [{**_plain(gap), "note": gap.note} for gap in state.gaps],
        "transactions": _plain(transactions),
    }


def _segment(row: SegmentRow) -> dict[str, Any]:
    counts = json_shapes.of_counts(SegmentSummary() if row.summary is None else row.summary)
    return {
        **json_shapes.of_place(row.path, LogFile(row.path).topic_partition),
        "base_offset": row.base_offset,
        "end_offset": row.end_offset,
        "size_in_bytes": row.bytes,
        **(dict.fromkeys(counts) if row.summary is None else counts),
        "sealed": row.sealed,
        "index_state": row.index_state,
        "problem": row.problem,
    }


def _batch(each: InSegment) -> dict[str, Any]:
    reader, row = each.reader, each.row
    assert isinstance(row, BatchRow)
    batch = reader.record_batch(row.row)
    shape = dict.fromkeys(json_shapes.BATCH_FIELDS)
    if batch is None:
        shape |= {"path": path_text(reader.path), "position": row.position, "size_in_bytes": row.size}
    else:
        shape = json_shapes.of_batch(Located(reader.path, batch), facts_of(batch))
    return {
        "segment": reader.base_offset,
        "row": row.row,
        "kind": row.kind,
        **shape,
        "gap_before": row.gap_before,
        "problem": row.problem,
    }


def _record(each: InSegment) -> dict[str, Any]:
    row = each.row
    assert isinstance(row, RecordRow)
    detail = each.reader.record(row.row) if row.control is not None else None
    return {
        "segment": each.reader.base_offset,
        "row": row.row,
        "batch": row.batch,
        "kind": row.kind,
        "offset": row.offset,
        "timestamp": row.timestamp,
        "timestamp_type": row.timestamp_type,
        **json_shapes.of_bytes("key", row.key),
        **json_shapes.of_bytes("value", row.value),
        "key_size": row.key_size,
        "value_size": row.value_size,
        "headers_count": row.headers_count,
        "size": row.size,
        "control": None if detail is None else _control(detail),
        "gap_before": row.gap_before,
        "problem": row.problem,
    }


def _detail_documents() -> Callable[[InSegment], dict[str, Any]]:
    """Return a function that makes the JSON of a record. Records of the same batch share one read of it."""
    batch: dict[str, Any] = {}

    def document(each: InSegment) -> dict[str, Any]:
        nonlocal batch
        reader, detail = each.reader, each.row
        assert isinstance(detail, RecordDetail)
        if (batch.get("segment"), batch.get("row")) != (reader.base_offset, detail.batch.row):
            batch = _batch(InSegment(reader, detail.batch))
        return {
            "segment": reader.base_offset,
            "row": detail.row,
            "batch": batch,
            "offset": detail.offset,
            "timestamp": detail.timestamp,
            "timestamp_type": detail.timestamp_type,
            **json_shapes.of_bytes("key", detail.key),
            **json_shapes.of_bytes("value", detail.value),
            "headers": json_shapes.of_headers(detail.headers),
            "sequence": detail.sequence,
            "spans": _plain(detail.spans),
            "control": None if detail.control is None else _control(detail),
            "problem": detail.problem,
        }

    return document


def _control(detail: RecordDetail) -> dict[str, Any]:
    return json_shapes.of_control(Record(detail.value, detail.key))


def _match(match: Match) -> dict[str, Any]:
    document = _plain(match)
    return {"segment": document.pop("base_offset"), **document}


def _plain(value: Any) -> Any:
    """Convert a value to types of JSON; a dataclass becomes an object."""
    if dataclasses.is_dataclass(value):
        found: dict[str, Any] = {}
        for each in dataclasses.fields(value):
            content = getattr(value, each.name)
            found |= (
                json_shapes.of_bytes(each.name, content) if isinstance(content, bytes) else {each.name: _plain(content)}
            )
        return found
    if isinstance(value, (tuple, list, frozenset)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    # Names of files may have bytes that are not UTF-8.
    return path_text(value) if isinstance(value, (str, Path)) else value
