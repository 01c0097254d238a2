"""`kafkalog dump`: the records of a log, or its batches, as text or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalog.cli import FINDINGS, SOUND, exit_code_of
from kafkalog.cli.output import colour_wanted, complain, is_terminal, stdout_bytes, table_width
from kafkalog.cli.positions import Position, PositionType
from kafkalog.cli.progress import Progress
from kafkalog.cli.selection import select, topic_option
from kafkalog.cli.sink import Sink

if TYPE_CHECKING:
    from kafkalog.cli.json_lines import Array, JsonLines
    from kafkalog.cli.sources import Source
    from kafkalog.cli.text_lines import TextLines
    from kafkalog.storage.data_dir import LogFile, PartitionDir

# A payload of megabytes helps nobody on a screen.
TERMINAL_MAX_WIDTH = 1000


@dataclass(frozen=True)
class Wish:
    """What the user asked for. form: "text", "json" or "jsonl". max_width: of text, 0 = none."""

    form: str
    batches: bool
    control: bool
    start: Position | None
    end: Position | None
    max_width: int


class Dump:
    """Prints log after log until the limit is reached, and remembers the gravest exit code."""

    def __init__(self, wish: Wish, limit: int | None, sink: Sink, progress: Progress) -> None:
        self.wish = wish
        self.left = sys.maxsize if limit is None else limit
        self.exit_code = SOUND
        self._sink = sink
        self._progress = progress
        self._printed = 0
        self._filter = _filter(wish.form)
        self._array = _array() if wish.form == "json" else None

    def show(self, place: PartitionDir | LogFile, several: bool) -> None:
        """One log; its damage, or that it cannot be read, does not hide the others."""
        from kafkalog.cli.sources import opened
        from kafkalog.errors import KafkaLogError

        try:
            with opened(place) as source:
                self._show(source, several)
        except BrokenPipeError:
            raise
        except (KafkaLogError, OSError) as error:
            self._complain(error)
            self.exit_code = max(self.exit_code, exit_code_of(error))

    def _show(self, source: Source, several: bool) -> None:
        start = None if self.wish.start is None else max(0, self.wish.start.resolve(source))
        end = None if self.wish.end is None else max(0, self.wish.end.resolve(source))
        before = self._printed
        lines = self._lines(source, several)
        pieces = self._batches if self.wish.batches else self._with_control if self.wish.control else self._records
        for piece in pieces(source, lines, start, end):
            shown = piece if self._filter is None else self._filter(piece)
            self._sink.write([shown if self._array is None else self._array.take(shown)])
            if not self.left:
                return
        self._tell_end(source, self._printed - before, start, end)

    def finish(self) -> None:
        """Ends the JSON document, whatever has happened."""
        if self._array is not None:
            self._sink.write([self._array.end()])

    def _lines(self, source: Source, several: bool) -> JsonLines | TextLines:
        if self.wish.form == "text":
            from kafkalog.cli.text_lines import TextLines

            name = source.name if several else ""
            return TextLines(name, max_width=self.wish.max_width, colour=colour_wanted(), width=table_width())
        from kafkalog.cli.json_lines import JsonLines

        return JsonLines(source.topic_partition if several else None)

    def _records(
        self, source: Source, lines: JsonLines | TextLines, start: int | None, end: int | None
    ) -> Iterator[bytes]:
        for part in source.columns(start, end):
            shown = part if len(part) <= self.left else part[: self.left]
            self._count(len(shown), int(part.batches["size_in_bytes"].sum()))
            yield from lines.records(shown)
            if not self.left:
                return

    def _with_control(
        self, source: Source, lines: JsonLines | TextLines, start: int | None, end: int | None
    ) -> Iterator[bytes]:
        for _, batch in source.batches(start, end):
            if not batch.is_control:
                part = batch.columns()
                part = part.between(start or 0, sys.maxsize if end is None else end)[: self.left]
                self._count(len(part), batch.size_in_bytes)
                yield from lines.records(part) if len(part) else ()
                continue
            for record in batch:
                if self.left and (start or 0) <= record.offset and (end is None or record.offset < end):
                    self._count(1, 0)
                    yield lines.control_record(record)

    def _batches(
        self, source: Source, lines: JsonLines | TextLines, start: int | None, end: int | None
    ) -> Iterator[bytes]:
        """All of them, sound or not: whoever looks at batches wants to see the bad ones too."""
        from kafkalog.cli.batch_facts import facts_of

        damaged = 0
        first_error: Exception | None = None
        for located in source.batches(start, end):
            facts = facts_of(located.batch)
            damaged += facts.error is not None
            first_error = first_error or facts.error
            self._count(1, located.batch.size_in_bytes)
            yield lines.batch(located, facts)
            if not self.left:
                break
        if first_error is not None:
            self._complain(first_error if damaged == 1 else f"{first_error}; {damaged} batches are damaged in all")
            self.exit_code = max(self.exit_code, FINDINGS)

    def _count(self, number: int, size: int) -> None:
        self.left -= number
        self._printed += number
        self._progress.advance(size)

    def _tell_end(self, source: Source, printed: int, start: int | None, end: int | None) -> None:
        """What the output itself does not tell: that a range was empty, or that the file ends in part of a batch."""
        if not printed and (start is not None or end is not None):
            offsets = f"{source.start_offset} to {source.end_offset}"
            self._complain(f"{source.name}: no record there: its offsets go from {offsets}")
        if end is None and (torn := source.torn) is not None:
            self._complain(f"{source.active_path}: position {torn.position}: it ends in part of a batch, not shown")

    def _complain(self, problem: object) -> None:
        self._sink.flush()
        self._progress.clear()
        complain(problem)


def _filter(form: str) -> Callable[[bytes], bytes] | None:
    """What makes JSON safe to look at; text always is."""
    if form == "text" or not is_terminal(sys.stdout):
        return None
    from kafkalog.cli.json_lines import for_terminal

    return for_terminal


def _array() -> Array:
    from kafkalog.cli.json_lines import Array

    return Array()


@click.command(short_help="Print records, or batches.")
@click.argument("path", type=click.Path(path_type=Path))
@topic_option
@click.option("--batches", is_flag=True, help="A line a batch, control batches too, instead of records.")
@click.option("--control", is_flag=True, help="Show control records among the records.")
@click.option("--from", "start", type=PositionType(), metavar="POSITION", help="The first record to show.")
@click.option("--to", "end", type=PositionType(), metavar="POSITION", help="The first record not to show any more.")
@click.option("-n", "--limit", type=click.IntRange(min=0), help="Show so many at most.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
    help="Text for people; jsonl: a line of JSON each; json: one array of the same.",
)  # fmt: skip
@click.option(
    "--max-width", type=click.IntRange(min=0), metavar="N",
    help=f"In text, cut keys, values and headers after N characters; 0: never. [default: {TERMINAL_MAX_WIDTH} on a "
    "terminal, else 0]",
)  # fmt: skip
def dump(
    *,
    path: Path,
    topics: tuple[str, ...],
    batches: bool,
    control: bool,
    start: Position | None,
    end: Position | None,
    limit: int | None,
    form: str,
    max_width: int | None,
) -> int:
    r"""Print the records of a data directory, a partition or a .log file, or its batches.

    \b
    A POSITION is
      1234                     an offset
      earliest, earliest+100   from the first offset on
      end-500                  back from the end
      @2026-01-31T10:00Z       the first record at that time or later (UTC where no zone is given)
      @1769853600000           the same in ms since the epoch
      -1h, -30s, -2d           the same, so long ago

    In JSON, bytes that are UTF-8 are a string; others are base64, and a field beside them says so ("value_encoding":
    "base64"). Times are ms since the epoch. Damage ends a log's records: all before it are shown, and the exit code
    is 1.
    """
    if max_width is None:
        max_width = TERMINAL_MAX_WIDTH if is_terminal(sys.stdout) else 0
    return _dump(path, topics, Wish(form, batches, control, start, end, max_width), limit)


def _dump(path: Path, topics: tuple[str, ...], wish: Wish, limit: int | None) -> int:
    from kafkalog.cli.ls import size_of
    from kafkalog.cli.sources import places
    from kafkalog.storage.data_dir import DataDir, discover

    place = select(discover(path), topics)
    # Where records scroll by on the same terminal, a line of progress would only be in their way.
    progress = Progress(size_of(place), quiet=is_terminal(sys.stdout))
    with progress, Sink(stdout_bytes()) as sink:
        dump = Dump(wish, limit, sink, progress)
        try:
            for each in takewhile(lambda _: dump.left, places(place)):
                dump.show(each, several=isinstance(place, DataDir))
        finally:
            dump.finish()
        return dump.exit_code
