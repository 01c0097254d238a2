"""`kafkalog append`: append lines from stdin as records."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalog.cli import FINDINGS, SOUND
from kafkalog.cli.common_options import LogPath
from kafkalog.cli.offset_steps import OffsetSteps
from kafkalog.cli.output import abandon, complain, flush_stdout, is_terminal, write_text
from kafkalog.cli.progress import Progress
from kafkalog.cli.signals import raised
from kafkalog.errors import RecordBatchTooLargeError, RecordTooLargeError, RecordValidationError

if TYPE_CHECKING:
    from kafkalog import CompressionType, LogConfig, WritableLog
    from kafkalog.cli.input_lines import Given

# The bytes of one read become a batch: a typed line, or the present content of a pipe.
READ_BYTES = 1 << 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

EPILOG = """\
In lines, the value is the line without its end, LF or CRLF. With --key-separator, the text before the first separator
is the key; a line without a separator has no key. In jsonl, each line is an object as `kafkalog dump -o jsonl` prints
it: "value" is required (null: a tombstone); "key", "timestamp" (ms since the epoch) and "headers"
([{"key":"h","value":"v"}]) are optional, and other fields are ignored. If "offset" has gaps, repeats or falls back, or
if the records get other offsets, stderr says so at the end. Numbers, objects and lists as key or value are stored as
JSON.

The lines of one read from stdin become a batch, or several if they are larger than --batch-bytes. A batch is visible
to readers before the next one is read. All are flushed to disk when the command ends; with --flush, each before the
next one is read.

The command always reports the appended offsets. An invalid line, or a record that the topic rejects, ends it with exit
code 1: the records of the lines before it are in the log. Ctrl-C, SIGTERM and SIGHUP close the log cleanly; the exit
codes are 130, 143 and 129.

The parent directory is the broker's data directory: it is locked, so no broker may run, and its checkpoints are
updated. A partition that was not closed cleanly is recovered first. A new partition gets a new topic id, unless the
directory has others of its topic: a broker sets aside a partition whose id its cluster does not know. To move a log
with its offsets and its id, use kafkalog salvage.

\b
Examples:
  seq 1000 | kafkalog append /tmp/kafka/numbers-0
  kafkalog append /tmp/kafka/orders-0 --key-separator : -c zstd < orders.txt
  kafkalog dump old-0 -o jsonl | kafkalog append /tmp/kafka/new-0 -f jsonl
"""


@click.command(short_help="Append lines from stdin to a partition.", epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=LogPath())
@click.option(
    "-f", "--format", "form", type=click.Choice(["lines", "jsonl"]), default="lines", show_default=True,
    help="The format of a line of stdin.",
)  # fmt: skip
@click.option("--key-separator", metavar="TEXT", help=r"In lines, the text between key and value; \t is a tab.")
@click.option("-c", "--compression", type=click.Choice(CODECS), help="The codec.  [default: the topic's, or none]")
@click.option(
    "--batch-bytes", metavar="BYTES", type=click.IntRange(min=100), default=READ_BYTES, show_default=True,
    help="The largest batch; a larger record gets a batch of its own.",
)  # fmt: skip
@click.option(
    "--config", "settings", metavar="NAME=VALUE", multiple=True,
    help="A setting of the topic, such as segment.bytes=104857600. Repeatable; the others are Kafka's defaults.",
)  # fmt: skip
@click.option("--flush", is_flag=True, help="Flush each batch to disk before the next one is read.")
@click.option(
    "-o", "--output", "output", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="The report of appended offsets: a line on stderr, or an object on stdout.",
)  # fmt: skip
def append(
    *,
    directory: Path,
    form: str,
    key_separator: str | None,
    compression: str | None,
    batch_bytes: int,
    settings: tuple[str, ...],
    flush: bool,
    output: str,
) -> int:
    """Append the lines of stdin to the partition in DIR, named <topic>-<number> and created if it is missing."""
    from kafkalog.cli.input_lines import Lines

    if key_separator is not None and (form != "lines" or not key_separator):
        raise click.UsageError("--key-separator must not be empty and requires --format lines")
    config = _config(settings)
    codec = _codec(compression, config)
    if is_terminal(sys.stdin):
        complain("reading records from the terminal, one a line; end with Ctrl-D")
    separator = None if key_separator is None else os.fsencode(key_separator.replace("\\t", "\t"))
    records = Lines(form, separator).of_pieces(_pieces())
    offsets = InputOffsets()
    try:
        with raised(), _opened(directory, config, output) as log:
            problem = Appending(log, codec, batch_bytes, flush, offsets).append_all(records)
    finally:
        for note in offsets.notes():
            complain(f"{directory}: {note}")
    if problem is not None:
        complain(problem)
        return FINDINGS
    return SOUND


@contextmanager
def _opened(directory: Path, config: LogConfig, output: str) -> Iterator[WritableLog]:
    """Open the log. Report the appended offsets after it has been closed, even after an error."""
    import kafkalog

    log = kafkalog.open(directory, "a", config, progress=_recovery_progress())
    first = log.log_end_offset
    try:
        with log:
            yield log
    finally:
        _report_offsets(output, directory, first, log.log_end_offset)


def _codec(name: str | None, config: LogConfig) -> CompressionType | None:
    """Return the requested codec; None if there is none. It must match the codec of the topic, if that has one."""
    from kafkalog import CompressionType

    codec = None if name is None else CompressionType[name.upper()]
    if codec is not None and config.compression not in (None, codec):
        raise click.UsageError(f"--compression {name} and --config compression.type exclude each other")
    return codec


def _config(settings: tuple[str, ...]) -> LogConfig:
    """Parse the values of --config."""
    from kafkalog import LogConfig

    pairs = [each.partition("=") for each in settings]
    names = [name for name, _, _ in pairs]
    for given, (name, equals, _) in zip(settings, pairs, strict=True):
        if not equals or not name:
            raise click.UsageError(f"--config {given}: expected NAME=VALUE")
        if names.count(name) > 1:
            raise click.UsageError(f"--config {name} is given {names.count(name)} times")
    try:
        return LogConfig.from_topic_config({name: value for name, _, value in pairs})
    except ValueError as error:
        raise click.UsageError(f"--config: {error}") from error


def _recovery_progress() -> Callable[[int, int], None]:
    """Return a function that shows the progress of a long recovery."""
    progress = Progress(lambda: 0)

    def show(done: int, to_do: int) -> None:
        progress.total = to_do
        progress.advance(done - progress.done)
        if done >= to_do:
            progress.clear()

    return show


class InputOffsets:
    """The offsets in the lines of the input, as `dump` prints them, compared with those that the records get."""

    def __init__(self) -> None:
        self._count = self._renumbered = 0
        self._start: tuple[int, int] | None = None
        self._steps = OffsetSteps()

    def add(self, begin: int, offsets: list[int | None]) -> None:
        """Add the offsets in the lines of the records that were appended from offset `begin` on."""
        for own, offset in enumerate(offsets, begin):
            if offset is None:
                continue
            self._count += 1
            self._renumbered += offset != own
            self._start = self._start or (offset, own)
            self._steps.add(offset)

    def notes(self) -> Iterator[str]:
        """Yield what is remarkable about the input."""
        if self._renumbered:
            yield f"{self._renumbered} of {self._count} records got other offsets than they have in the input"
        if self._start is not None and self._start[0] != self._start[1]:
            kind = "leaves a gap" if self._start[0] > self._start[1] else "repeats or falls back"
            yield f"the input begins at offset {self._start[0]}, where the log ended at {self._start[1]}: it {kind}"
        yield from self._steps.notes("the input")


@dataclass(frozen=True, slots=True)
class Appending:
    """The log to append to, the options of batches, and the offsets of the input."""

    log: WritableLog
    codec: CompressionType | None
    batch_bytes: int
    flush: bool
    offsets: InputOffsets

    def append_all(self, batches: Iterable[Given]) -> Exception | None:
        """Append all records. Return the error of the line that ended it early, if there is one."""
        from kafkalog.cli.input_lines import LineError

        try:
            for given in batches:
                begin = self.log.log_end_offset
                try:
                    self._append(given)
                finally:
                    self.offsets.add(begin, given.offsets[: self.log.log_end_offset - begin])
                if self.flush:
                    self.log.flush()
        except LineError as error:
            return error
        return None

    def _append(self, given: Given) -> None:
        """Append the records of one read.

        Raises:
            LineError: The topic rejects a record; those before it are in the log.
        """
        from kafkalog.cli.input_lines import Given, LineError

        begin, records = self.log.log_end_offset, given.records
        try:
            self.log.append(records, compression_type=self.codec, max_batch_bytes=self.batch_bytes)
        except RecordValidationError as error:
            # The whole batch was rejected: append the records before the invalid one.
            done = self.log.log_end_offset - begin
            refused = error.record_errors[0]
            self._append(Given(given.first_line + done, records[done : done + refused.index], []))
            line = given.first_line + done + refused.index
            raise LineError(f"line {line} is rejected: {refused.message}") from error
        except (RecordTooLargeError, RecordBatchTooLargeError) as error:
            # A record that is too large has a batch of its own.
            line = given.first_line + self.log.log_end_offset - begin
            name = "max.message.bytes" if isinstance(error, RecordTooLargeError) else "segment.bytes"
            raise LineError(f"line {line} is rejected: {error} (--config {name}=N sets the limit)") from error


def _report_offsets(output: str, directory: Path, first: int, end: int) -> None:
    """Report the appended offsets."""
    if output == "json":
        from kafkalog.cli.json_shapes import of_appended

        try:
            write_text(json.dumps(of_appended(directory, first, end)) + "\n")
            flush_stdout()
        except OSError as error:
            abandon(sys.stdout)
            complain(f"{directory}: {_appended(first, end)}")
            raise OSError(error.errno, error.strerror, "stdout") from error
    else:
        complain(f"{directory}: {_appended(first, end)}")


def _appended(first: int, end: int) -> str:
    if end <= first:
        return "nothing appended"
    if end == first + 1:
        return f"1 record appended, offset {first}"
    return f"{end - first} records appended, offsets {first} to {end - 1}"


def _pieces() -> Iterator[bytes]:
    """Yield the bytes of each read from stdin."""
    while piece := os.read(sys.stdin.fileno(), READ_BYTES):
        yield piece
