"""`kafkalog append`: lines from stdin become records of a partition."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalog.cli import FINDINGS, SOUND
from kafkalog.cli.output import complain, is_terminal, write_text

if TYPE_CHECKING:
    from kafkalog import CompressionType, LogConfig, Record, WritableLog

# What is read at once becomes a batch: what is typed, line by line; what comes through a pipe, as much as it holds.
READ_BYTES = 1 << 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

EPILOG = """\
In lines, the value is the line without its end. With --key-separator, what stands before the first one is the key; a
line without one has none. In jsonl, each line is an object as `kafkalog dump -o jsonl` prints it; only "value" is
needed (null: a tombstone), "key", "headers", "timestamp" are taken over where they stand, all else is not looked at.
Numbers, objects and lists as key or value are stored as JSON.

What stdin gives at once is one batch, of at most --batch-bytes. Every batch is in the log, seen by readers, when the
next is read; all are on the disk when the command ends, with --flush each of them before the next is read. A line that
is no record ends it with exit code 1: the records of the lines before are in the log.

The directory above is the broker's data directory: it is locked, so that no broker runs meanwhile, and its checkpoints
are kept. A partition that was not closed is recovered first.

\b
Examples:
  seq 1000 | kafkalog append /tmp/kafka/numbers-0
  kafkalog append /tmp/kafka/orders-0 --key-separator : -c zstd < orders.txt
  kafkalog dump old-0 -o jsonl | kafkalog append /tmp/kafka/new-0 -f jsonl
"""


@click.command(short_help="Append lines from stdin to a partition.", epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "-f", "--format", "form", type=click.Choice(["lines", "jsonl"]), default="lines", show_default=True,
    help="What a line of stdin is.",
)  # fmt: skip
@click.option("--key-separator", metavar="TEXT", help="In lines, what stands between key and value.")
@click.option("-c", "--compression", type=click.Choice(CODECS), default="none", show_default=True, help="The codec.")
@click.option(
    "--batch-bytes", type=click.IntRange(min=100), default=READ_BYTES, show_default=True,
    help="A batch is not larger than that, unless one record is.",
)  # fmt: skip
@click.option(
    "--config", "settings", metavar="NAME=VALUE", multiple=True,
    help="A setting of the topic, such as segment.bytes=104857600. Repeatable; the others are Kafka's defaults.",
)  # fmt: skip
@click.option("--flush", is_flag=True, help="Have each batch on the disk before the next is read.")
@click.option(
    "-o", "--output", "output", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="How to tell what was appended: a line on stderr, or an object on stdout.",
)  # fmt: skip
def append(
    *,
    directory: Path,
    form: str,
    key_separator: str | None,
    compression: str,
    batch_bytes: int,
    settings: tuple[str, ...],
    flush: bool,
    output: str,
) -> int:
    """Append the lines of stdin to the partition in DIR, named <topic>-<number> and created if it is missing."""
    import kafkalog
    from kafkalog.cli.json_records import Lines

    if key_separator is not None and (form != "lines" or not key_separator):
        raise click.UsageError("--key-separator is some text between key and value of --format lines")
    config = _config(settings)
    if is_terminal(sys.stdin):
        complain("reading records from the terminal, one a line; end with Ctrl-D")
    lines = Lines(form, None if key_separator is None else os.fsencode(key_separator))
    codec = kafkalog.CompressionType[compression.upper()]
    with kafkalog.open(directory, "a", config, progress=_recovering()) as log:
        first = log.log_end_offset
        how = Appending(log, codec, batch_bytes, flush)
        problem = how.append_all(lines.of_pieces(_pieces()))
        end = log.log_end_offset
    _tell(output, directory, first, end)
    if problem is not None:
        complain(problem)
        return FINDINGS
    return SOUND


def _config(settings: tuple[str, ...]) -> LogConfig:
    from kafkalog import LogConfig

    pairs = [each.partition("=") for each in settings]
    for name, equals, _ in pairs:
        if not equals:
            raise click.UsageError(f"--config {name}: NAME=VALUE is wanted")
    try:
        return LogConfig.from_topic_config({name: value for name, _, value in pairs})
    except ValueError as error:
        raise click.UsageError(f"--config: {error}") from error


def _recovering() -> Callable[[int, int], None]:
    """Shows how far the recovery of a log that was not closed has got, where it takes long."""
    from kafkalog.cli.progress import Progress

    progress = Progress(0)

    def show(done: int, to_do: int) -> None:
        progress.total = to_do
        progress.advance(done - progress.done)
        if done >= to_do:
            progress.clear()

    return show


@dataclass(frozen=True, slots=True)
class Appending:
    """Where records go, and how."""

    log: WritableLog
    codec: CompressionType
    batch_bytes: int
    flush: bool

    def append_all(self, batches: Iterable[list[Record]]) -> Exception | None:
        """Append all that there is; what ended it early, if anything did."""
        from kafkalog.cli.json_records import LineError
        from kafkalog.errors import KafkaLogError

        try:
            for records in batches:
                self.log.append(records, compression_type=self.codec, max_batch_bytes=self.batch_bytes)
                if self.flush:
                    self.log.flush()
        except (LineError, KafkaLogError) as error:
            return error
        return None


def _tell(output: str, directory: Path, first: int, end: int) -> None:
    if output == "json":
        from kafkalog.cli.output import path_text

        told = {"version": 1, "path": path_text(directory), "records": end - first}
        offsets = {"first_offset": first, "last_offset": end - 1} if end > first else {}
        write_text(json.dumps(told | offsets) + "\n")
    elif end > first:
        complain(f"{directory}: {end - first} records appended, offsets {first} to {end - 1}")
    else:
        complain(f"{directory}: nothing appended")


def _pieces() -> Iterator[bytes]:
    """What stdin has, as soon as it has something."""
    while piece := os.read(sys.stdin.fileno(), READ_BYTES):
        yield piece
