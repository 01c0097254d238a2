"""`kafkalog tail`: the last records of a partition, then those that are appended."""

from __future__ import annotations

import select
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalog.cli import SOUND
from kafkalog.cli.common_options import LogPath
from kafkalog.cli.output import colour_wanted, complain, is_terminal, stdout_bytes

if TYPE_CHECKING:
    from kafkalog import IsolationLevel, Log
    from kafkalog.cli.json_lines import JsonLines
    from kafkalog.cli.text_lines import TextLines

# How often a log is asked whether it has grown.
INTERVAL_SECONDS = 0.1
# By so many of the last batches is it found where a log was cut off.
BATCHES_REMEMBERED = 1000

EPILOG = """\
Following goes on through rolls, and beside a broker or another writer. Records that are deleted before they are shown,
or cut off after, are told of on stderr. Ctrl-C ends it, and so does a reader of the output who goes away.

\b
Examples:
  kafkalog tail orders-0                        its last ten records
  kafkalog tail -n 0 -f orders-0                only those that come
  kafkalog tail -f orders-0 -o jsonl | jq .value
"""


@click.command(short_help="Show the last records, and those that come.", epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=LogPath())
@click.option("-n", "--records", "count", type=click.IntRange(min=0), default=10, show_default=True, help="So many.")
@click.option("-f", "--follow", is_flag=True, help="Then show each record that is appended.")
@click.option("--committed", is_flag=True, help="As a read_committed consumer: no aborted or undecided transactions.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "jsonl"]), default="text", show_default=True,
    help="Text for people, or a line of JSON each.",
)  # fmt: skip
def tail(*, directory: Path, count: int, follow: bool, committed: bool, form: str) -> int:
    """Show the last records of the partition in DIR, and, with --follow, those that come."""
    import kafkalog

    isolation = kafkalog.IsolationLevel.TXN_COMMITTED if committed else kafkalog.IsolationLevel.LOG_END
    with kafkalog.open(directory) as log:
        shown = Tail(log, isolation, _lines(log, form))
        shown.show_last(count)
        while follow:
            wait_for_reader(INTERVAL_SECONDS)
            shown.show_new()
    return SOUND


def _lines(log: Log, form: str) -> JsonLines | TextLines:
    if form == "text":
        from kafkalog.cli.dump import TERMINAL_MAX_WIDTH
        from kafkalog.cli.text_lines import TextLines

        return TextLines("", max_width=TERMINAL_MAX_WIDTH if is_terminal(sys.stdout) else 0, colour=colour_wanted())
    from kafkalog.cli.json_lines import JsonLines
    from kafkalog.cli.output import path_text

    partition = log.topic_partition
    if partition is None:
        return JsonLines({"path": path_text(log.directory)})
    return JsonLines({"topic": path_text(partition.topic), "partition": partition.partition})


def wait_for_reader(seconds: float) -> None:
    """Wait so long, with whoever reads stdout. BrokenPipeError: nobody does any more."""
    stdout = select.poll()
    stdout.register(sys.stdout.fileno(), 0)
    found = stdout.poll(1000 * seconds)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in found):
        raise BrokenPipeError
    if found:
        # A system that cannot tell answers at once.
        time.sleep(seconds)


class Tail:
    """What of a log has been shown: all before `offset`. Its last batches are remembered, should some be cut off."""

    def __init__(self, log: Log, isolation: IsolationLevel, lines: JsonLines | TextLines) -> None:
        self._log = log
        self._isolation = isolation
        self._lines = lines
        self.offset = log.log_start_offset
        self._batches: deque[tuple[int, int]] = deque(maxlen=BATCHES_REMEMBERED)

    def show_last(self, count: int) -> None:
        """The last `count` records that are seen. KafkaLogError, OSError: they cannot be read."""
        end = self._end()
        first = first_of_last(self._log, count, end, self._isolation)
        earlier = self._log.batches(max(self._log.log_start_offset, first - BATCHES_REMEMBERED), first)
        self._batches.extend((batch.last_offset, batch.checksum) for batch in earlier)
        self._show(first, end, skip=max(0, self._log.count(first, end, isolation=self._isolation) - count))

    def show_new(self) -> None:
        """What has come since."""
        end = self._end()
        if end < self.offset and (left := self._left(end)) < self.offset:
            complain(f"{self._log.directory}: cut off at offset {left}; offsets from there on come anew")
            self.offset = left
        start = self._log.log_start_offset
        if start > self.offset:
            complain(f"{self._log.directory}: offsets {self.offset} to {start - 1} were deleted before they were shown")
            self.offset = start
        if end > self.offset:
            self._show(self.offset, end)

    def _left(self, end: int) -> int:
        """Up to where the log is what it was: what was cut off may have been replaced since. At most `offset`."""
        oldest = end
        while self._batches:
            last, checksum = self._batches[-1]
            found = next(self._log.batches(last, last + 1), None)
            if found is not None and (found.last_offset, found.checksum) == (last, checksum):
                return last + 1
            oldest = min(oldest, last)
            self._batches.pop()
        return max(oldest, self._log.log_start_offset)

    def _end(self) -> int:
        from kafkalog import IsolationLevel

        committed = self._isolation is IsolationLevel.TXN_COMMITTED
        return self._log.last_stable_offset if committed else self._log.log_end_offset

    def _show(self, first: int, end: int, skip: int = 0) -> None:
        from kafkalog.errors import OffsetOutOfRangeError

        out = stdout_bytes()
        self.offset = first
        try:
            for part in self._log.columns(first, end, isolation=self._isolation):
                shown, skip = part[skip:], max(0, skip - len(part))
                if len(shown):
                    out.writelines(self._lines.records(shown))
                self.offset = int(part.offset[-1]) + 1
                self._batches.extend(part.batches[["last_offset", "checksum"]].tolist())
        except (OffsetOutOfRangeError, FileNotFoundError):
            # Deleted meanwhile: the next look tells.
            return
        finally:
            out.flush()
        self.offset = end


def first_of_last(log: Log, count: int, end: int, isolation: IsolationLevel) -> int:
    """An offset with `count` records, or some more, between it and `end`; the log's start if there are less."""
    start, distance = log.log_start_offset, count
    if count == 0:
        return end
    # Compaction, transactions and their markers leave gaps: twice as far each time.
    while (first := end - distance) > start and log.count(first, end, isolation=isolation) < count:
        distance *= 2
    return max(first, start)
