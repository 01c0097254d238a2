"""Time the recovery of a data directory: `kafkalog recover` beside a broker's own loading of its logs.

    python -m asv_bench.recovery --partitions 200 --gib 10 --rounds 3

The directory is left as after a crash: without clean-shutdown marker and checkpoints, so that everything is read again.
A batch has about 16 KB, unless `--records` gives the number of its records of 160 bytes.
Each round runs each side once, with one and with two processes or threads; a broker of 3.9 has one thread unless it is
told otherwise. Of a broker only the loading counts, as its
log states it ("Loaded 200 logs in 5123ms"); of `kafkalog recover` everything from the start of the process to its end.
The files are in the page cache. Needs Java and Maven.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kafkalog import CompressionType, LogConfig, LogManager, Record
from kafkalog.cli.output import counted
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from tests.oracle.broker import Broker

LOADED = re.compile(r"Loaded (\d+) logs in (\d+)\s*ms")
JOBS = (1, 2)
SEGMENT_BYTES = 128 << 20


def fill(
    directory: Path,
    partitions: int,
    size: int,
    codecs: Sequence[CompressionType] = (CompressionType.NONE,),
    records_count: int = 100,
) -> None:
    """Write partitions of `size` bytes in all, in batches of records of 160 bytes, with the codecs in turn."""
    rng = random.Random(1)
    records = [Record(rng.randbytes(160), key=b"%d" % number) for number in range(records_count)]
    manager = LogManager(directory, "a")
    for number in range(partitions):
        config = LogConfig(
            segment_bytes=SEGMENT_BYTES, compression_type=codecs[number % len(codecs)], compression_lz4_level=1
        )
        with manager.create(f"bench{number}-0", config) as log:
            while log.size_in_bytes < size // partitions:
                log.append(records)
    manager.close()


def crash(directory: Path) -> None:
    """Make the directory as it is after a crash in which nothing was flushed."""
    for path in directory.glob("*-stray"):
        path.rename(directory / path.name.partition(".")[0])
    for name in (CLEAN_SHUTDOWN_FILE, "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (directory / name).unlink(missing_ok=True)
    for path in directory.glob("bench*/*.snapshot"):
        path.unlink()


def by_kafkalog(directory: Path, jobs: int) -> float:
    """Return the seconds of `kafkalog recover`."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "kafkalog.cli", "recover", "-q", "-j", str(jobs), directory], check=True)
    return time.monotonic() - began


def by_broker(broker: Broker, partitions: int) -> float:
    """Return the seconds that a broker needs to load its logs."""
    run = broker.start()
    run.stop()
    found = [match for match in map(LOADED.search, run.said) if match is not None]
    assert [int(match[1]) for match in found] == [partitions], run.text
    return int(found[0][2]) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--gib", type=float, default=1, help="the size of the directory (default: 1)")
    parser.add_argument("--records", type=int, default=100, help="the records in a batch (default: 100)")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    seconds: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        for jobs in JOBS:
            (base / str(jobs)).mkdir()
        options = ("-Xmx1g",)
        brokers = {
            jobs: Broker(
                base / str(jobs),
                {
                    "num.recovery.threads.per.data.dir": jobs,
                    "log.dirs": base / "data",
                    "log.index.size.max.bytes": 10 << 20,
                },
                options,
            )
            for jobs in JOBS
        }
        with brokers[1], suppress(KeyboardInterrupt):
            fill(base / "data", chosen.partitions, int(chosen.gib * 2**30), records_count=chosen.records)
            for number in range(1, chosen.rounds + 1):
                for jobs in JOBS:
                    crash(base / "data")
                    seconds["kafkalog", jobs].append(by_kafkalog(base / "data", jobs))
                    crash(base / "data")
                    seconds["broker", jobs].append(by_broker(brokers[jobs], chosen.partitions))
                print(f"round {number}: " + ", ".join(f"{k[0]} {k[1]}: {v[-1]:.1f} s" for k, v in seconds.items()))
        for jobs, threads in ((1, 1), (2, 2), (2, 1)):
            ours, theirs = statistics.median(seconds["kafkalog", jobs]), statistics.median(seconds["broker", threads])
            sides = (
                f"{counted(jobs, 'process', 'es')} {ours:.1f} s, a broker's {counted(threads, 'thread')} {theirs:.1f} s"
            )
            print(f"{sides}: {theirs / ours:.2f} times as fast")


if __name__ == "__main__":
    main()
