"""A demonstration of the main commands on logs that real brokers wrote: `make demo`.

    python -m kafkalog.cli.tour DIRECTORY      a directory that contains the archives, *.tar.xz

Unpacks the archives into a temporary directory, runs the commands on them as a user would, and removes the directory.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from kafkalog.cli import INTERRUPTED, SOUND, UNREADABLE, cli
from kafkalog.cli.demo import unpack
from kafkalog.cli.output import colour_wanted, complain, printable, styled, write_text

# A partition of each format, codec and kind, and the options to print it with.
RECORDS = (
    ("Format 0 (Kafka 0.8), lz4", "kafka-0.8.2/data/v0-lz4-0", ("--limit", "2")),
    ("Format 1 (Kafka 0.10), gzip, timestamps of the broker", "kafka-0.10.2/data/v1-logappend-0", ("--limit", "2")),
    ("Format 2 (Kafka 3.9), zstd, with headers: from a time on", "kafka-3.9/data/v2-zstd-0",
     ("--from", "@2023-11-15T22:30Z", "--limit", "2")),
    ("The last two records as JSON", "kafka-3.9/data/v2-lz4-0", ("--from", "end-2", "-o", "jsonl")),
    ("Batches of a transactional log: producers, and the markers that end transactions", "kafka-3.9/data/v2-txn-0",
     ("--batches", "--limit", "6")),
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Run the demonstration. Return 0, or the exit code of the first command with findings."""
    if len(arguments) != 1 or not (archives := sorted(Path(arguments[0]).glob("*.tar.xz"))):
        complain("usage: python -m kafkalog.cli.tour DIRECTORY (with *.tar.xz files in it)")
        return UNREADABLE
    write_text(f"The logs of {arguments[0]} are unpacked into a temporary directory, which is removed at the end.\n")
    with tempfile.TemporaryDirectory(prefix="kafkalog-demo-") as home:
        for archive in archives:
            unpack(archive, Path(home))
        with chdir(home):
            return _show()


def _show() -> int:
    """Run the commands in the directory of the unpacked logs, so that paths are short."""
    data_dirs = [str(path) for path in sorted(Path().glob("*/data"))]
    codes = [
        _run("What is in the data directories of these brokers?", "ls", *data_dirs),
        _run("Are they valid? Every checksum and every record is checked.", "verify", "--deep", *data_dirs),
        *(_run(title, "dump", path, *options) for title, path, options in RECORDS),
    ]
    return next((code for code in codes if code != SOUND), SOUND)


def _run(title: str, *arguments: str) -> int:
    write_text(styled(f"\n== {title}\n", colour_wanted(), bold=True, fg="cyan"))
    write_text(printable(f"$ kafkalog {' '.join(arguments)}") + "\n")
    try:
        cli.main(arguments, prog_name="kafkalog")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else UNREADABLE
    raise AssertionError("cli.main ends by SystemExit")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
