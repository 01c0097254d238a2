"""`kafkalog dump`: the records of logs, or their batches, as text or JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalog.attributes import CONTROL_BIT
from kafkalog.cli import FINDINGS, SOUND, exit_code_of
from kafkalog.cli.background_writer import Sink
from kafkalog.cli.common_options import paths_argument, select, topic_option, wide_option
from kafkalog.cli.output import colour_wanted, complain, is_terminal, stdout_bytes, table_width
from kafkalog.cli.positions import Position, PositionType, check_order, range_in
from kafkalog.cli.progress import Progress
from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir, discover, log_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkalog import RecordColumns
    from kafkalog.cli.json_lines import Array, JsonLines
    from kafkalog.cli.log_source import Source
    from kafkalog.cli.positions import Range
    from kafkalog.cli.text_lines import TextLines
    from kafkalog.scan.records import LeftOut

# Megabytes of payload are of no use on a terminal.
TERMINAL_MAX_WIDTH = 1000

EPILOG = """\b
A POSITION is
  1234                     an offset
  earliest, earliest+100   from the first offset on
  end, end-500             the offset after the last, and back from there;
                           "latest" is another word for it
  @2026-01-31T10:00Z       a time (UTC where no zone is given)
  @1769853600000           the same in ms since the epoch
  -1h, -30s, -2d           a time so long ago (s, m, h, d, w)

Offsets select the records of each partition by itself. Times select the records with from <= timestamp < to, in
whatever order they are stored, and none without a timestamp. With --batches, a batch is shown if some of its offsets
are in the range, and if the times from its first record's to its largest overlap the range.

The records of aborted and open transactions are shown, too, and counted on stderr; JSON has the state of each record's
transaction, and its producer. With --isolation committed they are left out, and a log ends at its last stable offset.
A transaction is "undecided" if its marker is not in the file that is shown, or is hidden by damage. Its records are
treated like those of an open one.

In JSON, bytes that are UTF-8 are a string; others are base64, and a field beside them says so ("value_encoding":
"base64"). Times are ms since the epoch, null = none. Names are Kafka's: CreateTime, LogAppendTime; none, gzip, snappy,
lz4, zstd. Each object has a "version", which rises when a field is removed or changes its meaning.

If the offsets of successive batches leave gaps, repeat or fall back, stderr says so at the end, unless --limit ended
the output or damage was left out. Compaction leaves gaps; the exit code does not change.

\b
Examples:
  kafkalog dump orders-0 --from end-10               its last ten offsets
  kafkalog dump orders-0 orders-1 --from -1h -o jsonl | jq .value
                                                     the last hour, as JSON
  kafkalog dump /var/lib/kafka -t orders --batches   batches of one topic
"""


@dataclass(frozen=True)
class Options:
    """The options of the command.

    Attributes:
        form: "text", "json" or "jsonl".
        batches: Whether to show batches instead of records.
        control: Whether to show control records too.
        start: The first position; None: no limit.
        end: The position after the last one; None: no limit.
        max_width: The largest length of a key, value or header in text, characters; 0: no limit.
        skip_damage: Whether to continue after damage.
        wide: Whether to show all columns on a narrow terminal.
        committed: Whether to leave out the records that a consumer of committed records does not get.
    """

    form: str
    batches: bool
    control: bool
    start: Position | None
    end: Position | None
    max_width: int
    skip_damage: bool = False
    wide: bool = False
    committed: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether `--from` or `--to` limits the output."""
        return self.start is not None or self.end is not None


class Dump:
    """The output of logs, one after the other until the limit is reached, and the most severe exit code.

    Attributes:
        options: The options.
        left: How many records or batches may still be printed.
        exit_code: The most severe exit code so far.
        printed: How many records or batches were printed.
    """

    def __init__(self, options: Options, limit: int | None, sink: Sink, progress: Progress, *, several: bool) -> None:
        """Prepare the output.

        Args:
            options: The options.
            limit: The largest number of records or batches, of all logs together; None: no limit.
            sink: Where to write.
            progress: The progress line.
            several: Whether each line of text names the log that it is from.
        """
        self.options = options
        self.left = sys.maxsize if limit is None else limit
        self.exit_code = SOUND
        self.printed = 0
        self._several = several
        self._sink = sink
        self._progress = progress
        self._filter: Callable[[bytes], bytes] | None = None
        self._array: Array | None = None
        if options.form != "text":
            from kafkalog.cli.json_lines import Array, for_terminal

            # Text is printable already.
            self._filter = for_terminal if is_terminal(sys.stdout) else None
            self._array = Array() if options.form == "json" else None
        self._hides = False
        # How many of the log's records were shown in each transaction state that is not committed.
        self._unfinished: Counter[str] = Counter()
        self._left_out: dict[str, LeftOut] = {}

    def show(self, place: PartitionDir | LogFile) -> None:
        """Print one log. Damage and errors in reading it are reported, so that other logs can follow.

        Raises:
            BrokenPipeError: The reader of stdout has gone.
        """
        try:
            with self._opened(place) as source:
                self._unfinished = Counter()
                for problem in source.problems:
                    self._report_problem(str(problem), True)
                try:
                    self._show(source)
                except KafkaLogError as error:
                    self._report_damage(error)
                self._report_unfinished(source)
                self._report_left_out()
        except BrokenPipeError:
            raise
        except (KafkaLogError, OSError) as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Report an error that ended the reading of a log."""
        self._complain(error)
        self.exit_code = max(self.exit_code, exit_code_of(error))

    def _opened(self, place: PartitionDir | LogFile) -> Source:
        if self.options.skip_damage:
            from kafkalog.cli.survivors import SurvivingSource

            return SurvivingSource(place, self._report_passed)
        from kafkalog.cli.log_source import Source

        return Source(place)

    def _show(self, source: Source) -> None:
        wanted = range_in(source, self.options.start, self.options.end)
        if self.options.committed:
            end = source.last_stable_offset
            wanted = replace(wanted, stop=end if wanted.stop is None else min(wanted.stop, end))
        before = self.printed
        lines = self._lines(source)
        pieces = (
            self._batches if self.options.batches else self._with_control if self.options.control else self._records
        )
        for piece in pieces(source, lines, wanted):
            shown = piece if self._filter is None else self._filter(piece)
            self._sink.write(shown if self._array is None else self._array.take(shown))
        if self.left:
            self._report_end(source, wanted, nothing=self.printed == before)

    def finish(self) -> None:
        """End the JSON document, also after an error; write the hint about columns hidden on a narrow terminal."""
        if self._array is not None:
            self._sink.write(self._array.end())
        if self._hides and self.printed:
            from kafkalog.cli.text_lines import HIDDEN_HINT

            self._sink.write(HIDDEN_HINT.encode())

    def _lines(self, source: Source) -> JsonLines | TextLines:
        if self.options.form != "text":
            from kafkalog.cli.json_lines import JsonLines

            return JsonLines(source.topic_partition, source.path)
        from kafkalog.cli.text_lines import TextLines

        width = None if self.options.wide else table_width()
        name = source.name if self._several else ""
        lines = TextLines(name, max_width=self.options.max_width, colour=colour_wanted(), width=width)
        self._hides = self.options.batches and lines.is_narrow
        return lines

    def _records(self, source: Source, lines: JsonLines | TextLines, wanted: Range) -> Iterator[bytes]:
        rows = None
        for part in source.columns(wanted):
            # Columns that are parts of the same batches have the same rows.
            size = 0 if part.batches is rows else int(part.batches["size_in_bytes"].sum())
            rows = part.batches
            yield from lines.records(*self._chosen(source, part, size))
            del part
            if not self.left:
                return

    def _with_control(self, source: Source, lines: JsonLines | TextLines, wanted: Range) -> Iterator[bytes]:
        from kafkalog.cli.survivors import left_out_of

        # Records may have earlier times than the first of their batch, so the header cannot exclude a batch by `until`.
        for path, batch in source.batches(replace(wanted, until=None)):
            try:
                # Read the whole batch, so that its damage is raised here.
                part = wanted.of(batch.columns())
            except KafkaLogError as error:
                if not self.options.skip_damage:
                    raise
                self._report_passed(error, str(path), left_out_of(batch))
                continue
            yield from lines.record_list(*self._chosen(source, part, batch.size_in_bytes), control=batch.is_control)
            if not self.left:
                return

    def _chosen(self, source: Source, part: RecordColumns, size: int) -> tuple[RecordColumns, NDArray[np.uint8]]:
        """Return the records to show, and their transaction states, and count them."""
        from kafkalog.scan.transaction_states import COMMITTED, STATES

        states = source.states.among(part.batches)[part.batch]
        unfinished = states > COMMITTED
        if unfinished.any():
            unfinished &= part.batches["attributes"][part.batch] & CONTROL_BIT == 0
        if self.options.committed:
            part, states = part.where(~unfinished), states[~unfinished]
        part, states = part[: self.left], states[: self.left]
        if not self.options.committed:
            self._unfinished.update(STATES[state] for state in states[unfinished[: self.left]].tolist())
        self._count(len(part), size)
        return part, states

    def _batches(self, source: Source, lines: JsonLines | TextLines, wanted: Range) -> Iterator[bytes]:
        """Yield lines for all batches, valid or not: users who inspect batches want to see damaged ones too."""
        from kafkalog.cli.log_source import facts_of

        damaged = 0
        first_error: Exception | None = None
        for located in source.batches(wanted):
            facts = facts_of(located.batch)
            damaged += facts.error is not None
            first_error = first_error or facts.error
            self._count(1, located.batch.size_in_bytes)
            yield lines.batch(located, facts)
            if not self.left:
                break
        if first_error is not None:
            self._report_problem(
                first_error if damaged == 1 else f"{first_error}; {damaged} batches are damaged in all", True
            )

    def _count(self, number: int, size: int) -> None:
        self.left -= number
        self.printed += number
        self._progress.advance(size)

    def _report_end(self, source: Source, wanted: Range, *, nothing: bool) -> None:
        """Report on stderr why the output is empty, an incomplete batch at the end, and offsets out of sequence."""
        if nothing and not self._several and (self.options.is_bounded or self.options.form == "text"):
            from kafkalog.cli.emptiness import reason_for_nothing

            what = "batch" if self.options.batches else "record"
            self._complain(reason_for_nothing(source, wanted, what, control=self.options.control))
        if wanted.stop is None and (torn := source.torn) is not None:
            self._complain(f"{source.active_path}: position {torn.position}: it ends in part of a batch, not shown")
        if not self._left_out:
            # Without damage that explains them.
            for note in source.steps(wanted).notes("the log"):
                self._complain(f"{source.name}: {note}")

    def _report_unfinished(self, source: Source) -> None:
        """Report how many records of transactions that are not committed are among those shown."""
        if self._unfinished:
            counts = ", ".join(f"{number} of {state}" for state, number in sorted(self._unfinished.items()))
            self._complain(
                f"{source.name}: among these are records of transactions that are not committed: {counts} ones"
                " (--isolation committed leaves them out)"
            )

    def report_nothing(self, logs: int) -> None:
        """Report that none of several logs had output, unless all records were asked for as JSON."""
        if not self.options.is_bounded and self.options.form != "text":
            return
        what = "batch" if self.options.batches else "record"
        self._complain(f"no {what} {'in that range ' if self.options.is_bounded else ''}in any of the {logs} logs")

    def _report_damage(self, error: Exception) -> None:
        is_damage = isinstance(error, KafkaLogError) and error.position is not None
        advice = "; to continue after it, use --skip-damage" if is_damage and not self.options.skip_damage else ""
        self._complain(f"{error}{advice}")
        self.exit_code = max(self.exit_code, exit_code_of(error))

    def _report_passed(self, problem: object, path: str, left_out: LeftOut | None) -> None:
        """Report damage that does not end the dump, and count what is left out; None: nothing but a torn tail."""
        self._report_problem(problem, left_out is not None)
        if left_out is not None:
            known = self._left_out.get(path)
            self._left_out[path] = left_out if known is None else known.plus(left_out)

    def _report_left_out(self) -> None:
        """Report what was left out of each file because of damage."""
        for path, left_out in self._left_out.items():
            self._complain(f"{path}: left out because of damage: {left_out}")
        self._left_out.clear()

    def _report_problem(self, problem: object, is_damage: bool) -> None:
        """Report a problem that does not end the dump; damage changes the exit code."""
        self._complain(problem)
        if is_damage:
            self.exit_code = max(self.exit_code, FINDINGS)

    def _complain(self, problem: object) -> None:
        self._sink.flush()
        self._progress.clear()
        complain(problem)


@click.command(short_help="Print records, or batches.", epilog=EPILOG)
@paths_argument
@topic_option
@click.option("--batches", is_flag=True, help="Show a line for each batch, control batches too, instead of records.")
@click.option("--control", is_flag=True, help="Show control records among the records.")
@click.option(
    "--isolation", type=click.Choice(["committed", "uncommitted"]), default="uncommitted", show_default=True,
    help="Show all records of transactions, or only those that a consumer of committed records gets.",
)  # fmt: skip
@click.option("--from", "start", type=PositionType(), metavar="POSITION", help="The first offset, or time, to show.")
@click.option("--to", "end", type=PositionType(), metavar="POSITION", help="The offset, or time, to stop before.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), metavar="N", help="The most records or batches, of all logs together."
)
@click.option(
    "--skip-damage", is_flag=True,
    help="Name what is damaged on stderr, go on after it, and count what is left out. The exit code is still 1.",
)  # fmt: skip
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
    help="Text for people; jsonl: a line of JSON each; json: one array of the same.",
)  # fmt: skip
@click.option(
    "--max-width", type=click.IntRange(min=0), metavar="N",
    help=f"In text, cut keys, values and headers after N characters; 0: never. [default: {TERMINAL_MAX_WIDTH} on a "
    "terminal, else 0]",
)  # fmt: skip
@wide_option
def dump(
    *,
    paths: tuple[Path, ...],
    topics: tuple[str, ...],
    batches: bool,
    control: bool,
    isolation: str,
    start: Position | None,
    end: Position | None,
    limit: int | None,
    skip_damage: bool,
    form: str,
    max_width: int | None,
    wide: bool,
) -> int:
    """Print the records of data directories, partitions or .log files, or their batches.

    At damage, the records of a log end: those before it are shown, and the exit code is 1. With --skip-damage those
    after it are shown, too. A log start offset beyond the log's end hides records from consumers only: they are shown,
    and the exit code is 1.
    """
    check_order(start, end)
    committed = isolation == "committed"
    if committed and batches:
        raise click.UsageError("--isolation committed selects records, not --batches")
    if max_width is None:
        max_width = TERMINAL_MAX_WIDTH if is_terminal(sys.stdout) else 0
    options = Options(form, batches, control, start, end, max_width, skip_damage, wide, committed)
    found, problems, several = _places(paths, topics)
    # If records are printed on the same terminal, a progress line would interfere with them.
    progress = Progress(lambda: sum(map(log_bytes, found)), quiet=is_terminal(sys.stdout))
    with progress, Sink(stdout_bytes()) as sink:
        run = Dump(options, limit, sink, progress, several=several)
        try:
            for problem in problems:
                run.fail(problem)
            for each in takewhile(lambda _: run.left, found):
                run.show(each)
            if several and run.left and not run.printed and run.exit_code == SOUND:
                run.report_nothing(len(found))
        finally:
            run.finish()
        return run.exit_code


def _places(
    paths: Sequence[Path], topics: tuple[str, ...]
) -> tuple[list[PartitionDir | LogFile], list[Exception], bool]:
    """Return the logs found, the errors of the other paths, and whether there may be several logs."""
    found: list[PartitionDir | LogFile] = []
    problems: list[Exception] = []
    several = len(paths) > 1
    for path in paths:
        try:
            place = select(discover(path), topics)
        except (OSError, NotALogError) as error:
            problems.append(error)
            continue
        several |= isinstance(place, DataDir)
        found += place.partitions if isinstance(place, DataDir) else [place]
    return found, problems, several
