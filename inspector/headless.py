"""Screens as text or JSON, for scripts: `kafkalog inspect PATH --headless SCREEN -o json`.

JSON is one document, {"version": ..., "screen": ..., "path": ..., "rows": [...], ...}; of a data directory a document a
partition. With `jsonl` it is a line a row. Segments have the shape that
`ls` prints (`kafkalog.cli.json_shapes`), and the fields that the screen adds. Rows are written as they are read, so
that a long segment takes no more memory than a short one. The text has the columns of the screen. The exit code is 1 if
a problem is reported, else 0. Screens that another command prints are not here: see `COMMANDS`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kafkalog.cli import json_shapes
from kafkalog.cli.output import path_text, write_text
from kafkalog.scan.search import Match, Search
from kafkalog.scan.statistics import LogStatistics
from kafkalog.scan.summary import SegmentSummary
from kafkalog.scan.transactions import TransactionRow, Transactions, TransactionScan
from kafkalog.storage.data_dir.discover import LogFile

from . import charts, columns, text
from .columns import Times
from .jobs.jobs import STEP_SECONDS, Wanted
from .model.decoders import PARTS, Formats
from .model.model import Model
from .model.partition import PartitionReader
from .model.schemas import Schemas
from .model.segment import SegmentReader
from .model.types import CellKind, PartitionState, RecordDetail, SegmentRow
from .tables import Shown

T = TypeVar("T")
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
class Asked:
    """What a screen is asked for. find: what to search for. schemas: of a schema registry."""

    model: Model
    times: Times
    find: Wanted | None
    schemas: Schemas | None


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


def segments(asked: Asked) -> Listing:
    """List the segments of a partition, after reading all their headers, with the state of the partition."""
    reader = _partition(asked)
    for row in reader.refresh(math.inf).segments:
        _indexed(reader.segment(row.base_offset))
    stable = reader.work_out_last_stable()
    state = reader.refresh(math.inf)
    facts = _state(dataclasses.replace(state, last_stable=stable), reader.transactions())
    return Listing(state.segments, columns.segments(asked.times), facts, document=_segment)


def segment_map(asked: Asked) -> Listing:
    """List the cells of the map of each segment."""
    shown: list[Shown[CellRow]] = [
        Shown("POSITION", 13, lambda cell: text.number(cell.position), right=True),
        Shown("BYTES", 10, lambda cell: text.number(cell.bytes), right=True),
        Shown("KIND", 13, lambda cell: cell.kind),
        Shown("FIRST BATCH", 11, lambda cell: text.number(cell.first_row), right=True),
        Shown("LAST BATCH", 11, lambda cell: text.number(cell.last_row), right=True),
    ]
    return _of_segments(asked, _cells, shown, damage=True)


def _cells(segment: SegmentReader) -> Iterator[CellRow]:
    for cell in segment.strip(MAP_CELLS):
        first, last = (None, None) if cell.first_row < 0 else (cell.first_row, cell.last_row)
        yield CellRow(segment.base_offset, cell.position, cell.bytes, cell.kind, first, last)


def record(asked: Asked) -> Listing:
    """List the records of a partition, control records too, with the content of keys and values of a known format."""
    formats = Formats.of(_partition(asked).refresh().name, asked.schemas)
    shown: list[Shown[RecordDetail]] = [
        Shown("OFFSET", 12, lambda row: str(row.offset), right=True),
        Shown("TIME", 24, lambda row: asked.times.full(row.timestamp)),
        Shown("KEY", 20, lambda row: columns.preview(row, formats, "key")),
        Shown("VALUE", 40, lambda row: columns.preview(row, formats, "value")),
    ]
    return dataclasses.replace(_of_segments(asked, _records, shown), document=lambda row: _record(row, formats))


def _records(segment: SegmentReader) -> Iterator[RecordDetail]:
    for number in range(segment.records):
        found = segment.record(number)
        if found is not None:
            yield found


def hexadecimal(asked: Asked) -> Listing:
    """List the fields of all bytes of all segments, with the first bytes of long fields."""
    shown: list[Shown[FieldRow]] = [
        Shown("POSITION", 13, lambda row: text.number(row.position), right=True),
        Shown("LENGTH", 9, lambda row: text.number(row.length), right=True),
        Shown("BYTES", 3 * TEXT_BYTES - 1, _first_bytes),
        Shown("FIELD", 24, lambda row: row.name),
        Shown("VALUE", 40, lambda row: text.printable(row.value)),
        Shown("OF", 20, lambda row: " > ".join(row.of)),
    ]
    return _of_segments(asked, _fields, shown)


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
    scan = TransactionScan(_partition(asked).path, is_file=asked.model.kind == "file")
    while not scan.step().is_done:
        pass
    scan.close()
    state = scan.state()
    names = ("open", "hanging", "aborted", "committed", "last_stable_offset", "problem")
    facts = {name: getattr(state, name) for name in names}
    command: Shown[TransactionRow] = Shown("COMMAND TO ABORT", 20, lambda row: text.printable(row.abort_command or ""))
    shown = [*columns.transactions(asked.times), command]
    return Listing(state.rows, shown, facts)


def search(asked: Asked) -> Listing:
    """List the records of a partition that match a search, which `show` has been given."""
    wanted = asked.find
    assert wanted is not None
    looking = Search(_partition(asked).path, wanted.pattern(), fields=wanted.fields)
    has_ended = False

    def rows() -> Iterator[Match]:
        nonlocal has_ended
        yield from (match for match in looking if isinstance(match, Match))
        has_ended = True

    def after() -> dict[str, Any]:
        progress = looking.progress(finished=has_ended)
        found = {name: value for name, value in _plain(progress).items() if name != "finished"}
        return {**found, "complete": progress.complete}

    facts = {"find": path_text(wanted.text), "regex": wanted.regex}
    return Listing(rows(), columns.matches(), facts, after, document=_match)


def statistics(asked: Asked) -> Listing:
    """Show the charts of a partition, and its most frequent keys."""
    with closing(LogStatistics(_partition(asked).path)) as counting:
        while not counting.step(STEP_SECONDS).is_done:
            pass
        state = counting.totals()
    facts = _plain(state)
    for name in ("top_keys", "progress"):
        facts.pop(name)
    shown: list[Shown[Any]] = [
        Shown("KEY", 20, lambda row: text.printable(row[0])),
        Shown("RECORDS", 12, lambda row: text.number(row[1]), right=True),
    ]
    lines = charts.report(state, asked.times, TEXT_WIDTH)
    return Listing(state.top_keys, shown, facts, lines=lines, document=_top_key)


SCREENS: dict[str, Callable[[Asked], Listing]] = {
    "segments": segments,
    "map": segment_map,
    "record": record,
    "hex": hexadecimal,
    "transactions": transactions,
    "search": search,
    "statistics": statistics,
}


# The screens that another command prints, and its options.
COMMANDS: dict[str, tuple[str, dict[str, bool]]] = {
    "topics": ("status", {}),
    "batches": ("dump", {"batches": True, "skip_damage": True}),
    "records": ("dump", {"control": True, "skip_damage": True}),
    "verify": ("verify", {}),
}
NAMES = (
    "topics", "segments", "map", "batches", "records", "record", "hex", "transactions", "verify", "search",
    "statistics",
)  # fmt: skip


# The screens that are printed of each partition of a data directory.
OF_ALL = ("record", "transactions", "search", "statistics")


def show(
    path: Path,
    screen: str,
    form: str,
    zone: text.Zone = "utc",
    *,
    find: Wanted | None = None,
    limit: int | None = None,
    schemas: Schemas | None = None,
) -> int:
    """Print a screen.

    Args:
        path: A data directory, a partition or a segment file.
        screen: A name in `SCREENS`.
        form: "json", "jsonl" or "text".
        zone: The zone of times in text.
        find: What the search screen searches for.
        limit: The largest number of rows; None: no limit.
        schemas: The schemas of a schema registry.

    Returns:
        The exit code; 1 also if a search found nothing.

    Raises:
        NotALogError: The path holds no log.
        OSError: The path was not opened.
        NeedsMoreError: The screen needs another option, or a partition.
    """
    if screen == "search" and find is None:
        raise NeedsMoreError("what is searched for? --find TEXT")
    model = Model(path)
    try:
        is_of_all = model.kind == "data_dir" and screen in OF_ALL
        models = (Model(row.path) for row in model.names()) if is_of_all else iter((model,))
        code, printed = SOUND, 0

        def counted(rows: Iterable[Any]) -> Iterator[Any]:
            """Yield the rows up to the limit, which is for all partitions together."""
            nonlocal printed
            for row in islice(rows, None if limit is None else limit - printed):
                printed += 1
                yield row

        for each in models:
            with closing(each):
                if is_of_all and form == "text":
                    write_text(f"{text.printable(each.path.name)}:\n")
                listing = SCREENS[screen](Asked(each, Times(zone), find, schemas))
                listing = dataclasses.replace(listing, rows=counted(listing.rows))
                forms = {"json": _json(listing, screen, each.path), "jsonl": _json_lines(listing)}
                for line, is_sound in forms.get(form, _text(listing)):
                    code = code if is_sound else FINDINGS
                    write_text(line)
        return FINDINGS if screen == "search" and not printed else code
    finally:
        model.close()


def _partition(asked: Asked) -> PartitionReader:
    if asked.model.kind == "data_dir":
        raise NeedsPartitionError("a data directory has many partitions: give the directory of one")
    return asked.model.partition(None)


def _of_segments(
    asked: Asked, rows_of: Callable[[SegmentReader], Iterator[T]], shown: Sequence[Shown[T]], *, damage: bool = False
) -> Listing:
    """List the rows of all segments of a partition, and then their problems.

    Args:
        asked: The arguments of the screen.
        rows_of: Returns the rows of a segment.
        shown: The columns of the text.
        damage: Whether the first damage of each segment is a problem too, for rows that do not report it.
    """
    reader = _partition(asked)
    problems: list[str | None] = []

    def rows() -> Iterator[T]:
        state = reader.refresh()
        if not state.segments:
            problems.append(state.problem)
        for row in state.segments:
            segment = _indexed(reader.segment(row.base_offset))
            yield from rows_of(segment)
            problems.extend((segment.problem, segment.first_damage() if damage else None))

    return Listing(rows(), shown, after=lambda: {"problem": "; ".join(filter(None, problems)) or None})


def _indexed(segment: SegmentReader) -> SegmentReader:
    """Read the headers of a segment up to its current end, and return it."""
    before = None
    while not (progress := segment.index_more()).is_done and progress != before:
        before = progress
    return segment


# Text: pairs of a text, and whether it reports no problem.


def _text(listing: Listing) -> Iterator[tuple[str, bool]]:
    if listing.lines is not None:
        yield "".join(f"{line.rstrip()}\n" for line in listing.lines), True
        yield from _fact_lines({name: listing.facts.get(name) or None for name in ("unreadable", "problem")})
        return
    yield from _fact_lines(listing.facts)
    yield _line([(each.title, each) for each in listing.columns]), True
    for row in listing.rows:
        yield _line([(shown.cell(row), shown) for shown in listing.columns]), _is_sound(row)
        problem = getattr(row, "problem", None)
        if problem is not None:
            yield f"  ! {text.printable(problem)}\n", False
    yield from _fact_lines(listing.after())


def _fact_lines(facts: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    for name, value in facts.items():
        if value not in (None, [], {}):
            yield f"{name}: {_one_line(value)}\n", name != "problem"


def _is_sound(row: Any) -> bool:
    """Return whether a row has no problem, and is no hanging transaction."""
    is_hanging = isinstance(row, TransactionRow) and row.state == "hanging"
    return not is_hanging and getattr(row, "problem", None) is None


def _one_line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_one_line(each)}" for name, each in value.items() if each not in (None, [], {}))
    if isinstance(value, (list, tuple)):
        between = "; " if any(isinstance(each, (dict, list, tuple)) for each in value) else " "
        return between.join(map(_one_line, value))
    return text.printable(value if isinstance(value, str) else str(value))


def _line(cells: Iterable[tuple[str, Shown[Any]]]) -> str:
    *before, (last, shown) = [(cell, each) for cell, each in cells]
    aligned = [cell.rjust(each.width) if each.right else charts.fitted(cell, each.width) for cell, each in before]
    return "  ".join([*aligned, last.rjust(shown.width) if shown.right else last]).rstrip() + "\n"


# JSON.


def _json(listing: Listing, screen: str, path: Path) -> Iterator[tuple[str, bool]]:
    head = {"version": json_shapes.JSON_VERSION, "screen": screen, "path": path_text(path), **listing.facts}
    yield json_shapes.text_of(head)[:-1] + ',"rows":[', not listing.facts.get("problem")
    for i, row in enumerate(listing.rows):
        yield ",\n" if i else "\n", _is_sound(row)
        yield from _pieces(listing.document(row))
    after = listing.after()
    rest = "," + json_shapes.text_of(after)[1:] if after else "}"
    yield f"]{rest}\n", not after.get("problem")


def _json_lines(listing: Listing) -> Iterator[tuple[str, bool]]:
    for row in listing.rows:
        yield from _pieces(listing.document(row))
        yield "\n", _is_sound(row)
    yield "", not {**listing.facts, **listing.after()}.get("problem")


def _pieces(document: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Encode a row in pieces: a record may be large."""
    for piece in json_shapes.pieces_of(document):
        yield piece.decode(), True


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


def _record(row: RecordDetail, formats: Formats) -> dict[str, Any]:
    document: dict[str, Any] = {
        "offset": row.offset,
        "timestamp": row.timestamp,
        "timestamp_type": row.timestamp_type,
        **json_shapes.of_bytes("key", row.key),
        **json_shapes.of_bytes("value", row.value),
        "headers": json_shapes.of_headers(row.headers),
        "kind": row.batch.kind,
        "control": row.control,
        "problem": row.problem,
    }
    for part in PARTS if row.control is None else ():
        found = formats.decoded(part, row.key, row.value)
        if found is not None:
            document[f"{part}_format"], document[f"{part}_content"] = found.kind, msgspec.Raw(found.json)
        elif note := formats.note(row.key if part == "key" else row.value):
            document[f"{part}_note"] = note
    return document


def _top_key(row: tuple[bytes, int]) -> dict[str, Any]:
    """Return a frequent key, and a lower bound for the number of its records."""
    return {**json_shapes.of_bytes("key", row[0]), "records": row[1]}


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
