"""`kafkalog tail`: the last records of a partition, then new ones."""

from __future__ import annotations

import select
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalog.cli import FINDINGS, SOUND
from kafkalog.cli.common_options import LogPath
from kafkalog.cli.output import colour_wanted, complain, is_terminal, stdout_bytes
from kafkalog.errors import LogTruncatedError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from kafkalog import Log
    from kafkalog.cli.json_lines import JsonLines
    from kafkalog.cli.text_lines import TextLines
    from kafkalog.storage.fetch_data_info import IsolationName

# The interval between checks for new records.
INTERVAL_SECONDS = 0.1
# The number of last batches that are compared to find where a log was truncated.
BATCHES_REMEMBERED = 1000

EPILOG = """\
Following continues across new segments, while a broker or another process writes. Records that are deleted before they
are shown, or truncated afterwards, are reported on stderr. Ctrl-C ends the command, as does
the exit of the process that reads its output.

Lines of JSON have no transaction_state, unlike those of dump: a record is shown once, and its transaction may end
later. --committed shows a record when its transaction is committed.

\b
Examples:
  kafkalog tail orders-0                        its last ten records
  kafkalog tail -n 0 -f orders-0                only new records
  kafkalog tail -f orders-0 -o jsonl | jq .value
"""


@click.command(short_help="Show the last records, then new ones.", epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=LogPath())
@click.option(
    "-n",
    "--records",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    default=10,
    show_default=True,
    help="The number of last records.",
)
@click.option("-f", "--follow", is_flag=True, help="Then show new records as they are appended.")
@click.option(
    "--committed", is_flag=True, help="Show what a read_committed consumer gets: no aborted or open transactions."
)
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "jsonl"]), default="text", show_default=True,
    help="Text, or a line of JSON for each record.",
)  # fmt: skip
def tail(*, directory: Path, count: int, follow: bool, committed: bool, form: str) -> int:
    """Show the last records of the partition in DIR, and, with --follow, new ones."""
    from kafkalog.cli.log_source import open_unhidden

    isolation: IsolationName = "txn_committed" if committed else "log_end"
    log, problems = open_unhidden(directory)
    with log:
        for problem in problems:
            complain(problem)
        shown = Tail(log, isolation, _lines(log, form))
        shown.show_last(count)
        while follow:
            wait_for_reader(INTERVAL_SECONDS)
            shown.show_new()
    return FINDINGS if problems else SOUND


def _lines(log: Log, form: str) -> JsonLines | TextLines:
    """Return the encoder of records for an output format."""
    if form == "text":
        from kafkalog.cli.dump import TERMINAL_MAX_WIDTH
        from kafkalog.cli.text_lines import TextLines

        return TextLines("", max_width=TERMINAL_MAX_WIDTH if is_terminal(sys.stdout) else 0, colour=colour_wanted())
    from kafkalog.cli.json_lines import JsonLines

    return JsonLines(log.topic_partition, log.directory)


def wait_for_reader(seconds: float) -> None:
    """Wait.

    Raises:
        BrokenPipeError: The reader of stdout has exited.
    """
    stdout = select.poll()
    stdout.register(sys.stdout.fileno(), 0)
    found = stdout.poll(1000 * seconds)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in found):
        raise BrokenPipeError
    if found:
        # On systems that do not support this, poll returns at once.
        time.sleep(seconds)


class Tail:
    """The state of following: records before `offset` are shown; the last batches are kept to detect truncation."""

    def __init__(self, log: Log, isolation: IsolationName, lines: JsonLines | TextLines) -> None:
        self._log = log
        self._isolation = isolation
        self._lines = lines
        self.offset = log.log_start_offset
        self._batches: deque[tuple[int, int]] = deque(maxlen=BATCHES_REMEMBERED)

    def show_last(self, count: int) -> None:
        """Print the last `count` records of the log. Later calls of `show_new` continue after them.

        Raises:
            LogTruncatedError: The log was truncated meanwhile.
            KafkaLogError, OSError: The log was not read.
        """
        end = self._end()
        first = first_of_last(self._log, count, end, self._isolation)
        earlier = self._log.batches(max(self._log.log_start_offset, first - BATCHES_REMEMBERED), first)
        self._batches.extend((batch.last_offset, batch.checksum) for batch in earlier)
        self._show(first, end, skip=max(0, self._log.count(first, end, isolation=self._isolation) - count))

    def show_new(self) -> None:
        """Show the records appended since. Report truncation and deletion."""
        end = self._end()
        if end < self.offset:
            self._go_back(end)
        start = self._log.log_start_offset
        if start > self.offset:
            complain(f"{self._log.directory}: offsets {self.offset} to {start - 1} were deleted before they were shown")
            self.offset = start
        if end > self.offset:
            try:
                self._show(self.offset, end)
            except LogTruncatedError:
                self._go_back(self._end())

    def _go_back(self, end: int) -> None:
        """Report the truncation of a log that ends at `end` now, if it concerns records that were shown."""
        if (left := self._end_of_known(end)) < self.offset:
            complain(f"{self._log.directory}: truncated to offset {left}; showing new records from there on")
            self.offset = left

    def _end_of_known(self, end: int) -> int:
        """Return the end of the known batches that are still in the log; at most `offset`."""
        oldest = end
        while self._batches:
            last, checksum = self._batches[-1]
            found = next(self._log.batches(last, last + 1, on_out_of_range="latest"), None)
            if found is not None and (found.last_offset, found.checksum) == (last, checksum):
                return last + 1
            oldest = min(oldest, last)
            self._batches.pop()
        return max(oldest, self._log.log_start_offset)

    def _end(self) -> int:
        committed = self._isolation == "txn_committed"
        return self._log.last_stable_offset if committed else self._log.log_end_offset

    def _show(self, first: int, end: int, skip: int = 0) -> None:
        """Show the records in [first, end) except the first `skip`.

        Raises:
            LogTruncatedError: The log was truncated meanwhile.
        """
        out = stdout_bytes()
        self.offset = first
        try:
            for part in self._log.columns(first, end, isolation=self._isolation):
                shown, skip = part[skip:], max(0, skip - len(part))
                if len(shown):
                    out.writelines(self._lines.records(shown))
                self.offset = int(part.offset[-1]) + 1
                shown_batches = part.batches[: int(part.batch[-1]) + 1]
                # Columns that are parts of the same batches have the same rows.
                is_new = shown_batches["last_offset"] > (self._batches[-1][0] if self._batches else -1)
                self._batches.extend(shown_batches[is_new][["last_offset", "checksum"]].tolist())
                del part, shown
        except LogTruncatedError:
            raise
        except (OffsetOutOfRangeError, FileNotFoundError):
            # The records were deleted; the next check reports it.
            return
        finally:
            out.flush()
        self.offset = end


def first_of_last(log: Log, count: int, end: int, isolation: IsolationName) -> int:
    """Return an offset with at least `count` records between it and `end`; the log's start if there are fewer."""
    start, distance = log.log_start_offset, count
    if count == 0:
        return end
    # Compaction and transaction markers leave gaps in the offsets: double the distance each time.
    while (first := end - distance) > start and log.count(first, end, isolation=isolation) < count:
        distance *= 2
    return max(first, start)
