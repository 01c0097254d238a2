"""`kafkalog demo DIR`: write a small data directory of a real broker, to try the commands on.

`sample.tar.xz` has two partitions that a broker 3.9.1 wrote, with its checkpoints: `v2-zstd-0`, and `v2-txn-0` with
committed, aborted and open transactions.
"""

import errno
import io
import os
import shlex
import shutil
import tarfile
from importlib import resources
from pathlib import Path
from typing import IO

import click

from kafkalog.cli import SOUND
from kafkalog.cli.common_options import LogPath
from kafkalog.cli.output import path_text, write_text
from kafkalog.cli.signals import raised

SAMPLE = "sample.tar.xz"

EPILOG = """\b
Exit codes:
  0  the directory was written
  2  wrong usage
  3  DIR exists, or cannot be written

\b
Examples:
  kafkalog demo /tmp/kafka                two partitions of a broker
  kafkalog ls /tmp/kafka                  what is in them
"""


def unpack(archive: Path | IO[bytes], directory: Path) -> None:
    """Unpack a tar archive."""
    with tarfile.open(archive) if isinstance(archive, Path) else tarfile.open(fileobj=archive) as tar:
        # Python 3.11.4 has filters, which later versions ask for.
        if hasattr(tarfile, "data_filter"):
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(directory)  # noqa: S202 - see above


@click.command(short_help="Write a small data directory of a real broker, to try this on.", epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=LogPath())
def demo(directory: Path) -> int:
    """Write DIR, a new data directory with two partitions that a real broker wrote, and show what to try on it."""
    if os.path.lexists(directory):
        raise FileExistsError(errno.EEXIST, "it exists already; the demo writes a new directory", str(directory))
    try:
        with raised():
            unpack(io.BytesIO(resources.files("kafkalog.cli").joinpath(SAMPLE).read_bytes()), directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    path = shlex.quote(path_text(directory))
    write_text(
        f"{path} has two partitions that a broker wrote. To try on it:\n"
        f"  kafkalog ls {path}\n"
        f"  kafkalog verify --deep {path}\n"
        f"  kafkalog dump {path}/v2-zstd-0 --limit 3\n"
        f"  kafkalog dump {path}/v2-txn-0 --batches --limit 3\n"
        f"  kafkalog inspect {path}\n"
    )
    return SOUND
