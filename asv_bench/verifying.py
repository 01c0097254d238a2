"""Time the check of a data directory: `kafkalog verify` beside Kafka's own `kafka-dump-log`.

    python -m asv_bench.verifying --partitions 4 --gib 1 --rounds 3

Half of the partitions have uncompressed batches, the others have batches with LZ4; a batch has about 16 KB, unless
`--records` gives the number of its records of 160 bytes. Each round runs each side once: `kafkalog verify` with one and
with two processes, and `kafka-dump-log` (`DumpLogSegments`) for all segments in one virtual machine. Both compute the
checksum of each batch and decompress none; verify also compares the files with each other, dump-log prints a line a
batch. The limit beside them is one process that reads the segments and computes a checksum over every 16 KiB, and does
nothing else. The output goes to /dev/null, the files are in the page cache. Times count the start of Python and of the
virtual machine; kafkalog's modules are compiled before, as in an installed package. Memory is that of the largest
process. Needs Java and Maven.
"""

from __future__ import annotations

import argparse
import compileall
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import kafkalog
from asv_bench.recovery import fill
from kafkalog import CompressionType
from tests.oracle import java

MAIN_CLASS = "kafka.tools.DumpLogSegments"
# As the broker's own script starts its tools.
JAVA_OPTIONS = ("-Xmx256M", "-server", "-XX:+UseG1GC")
VERIFY = (sys.executable, "-m", "kafkalog.cli", "verify")
LIMIT = """
import sys
from crc32c import crc32c
view = memoryview(bytearray(1 << 20))
for path in sys.argv[1:]:
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(view):
            for start in range(0, count, 16384):
                crc32c(view[start : min(start + 16384, count)])
"""
# A small process runs the command: the peak of a child counts the memory of the process that started it.
RUN = """
import resource, subprocess, sys, time
began = time.monotonic()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


class Ran(NamedTuple):
    """One run: seconds on the clock and of processors, and the memory of the largest process in MB."""

    seconds: float
    processor: float
    memory: float


def run(command: list[str]) -> Ran:
    """Run a command, which has to succeed."""
    out = subprocess.run([sys.executable, "-c", RUN, *command], capture_output=True, text=True, check=True)
    code, *figures = map(float, out.stdout.split())
    assert not code, f"exit code {code}: {command[:5]}\n{out.stderr}"
    return Ran(figures[0], figures[1], figures[2] * 1024 / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--gib", type=float, default=1, help="the size of the directory (default: 1)")
    parser.add_argument("--records", type=int, default=100, help="the records in a batch (default: 100)")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    runs: defaultdict[str, list[Ran]] = defaultdict(list)
    compileall.compile_dir(Path(kafkalog.__file__).parent, quiet=1)
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary) / "data"
        fill(
            data,
            chosen.partitions,
            int(chosen.gib * 2**30),
            (CompressionType.NONE, CompressionType.LZ4),
            chosen.records,
        )
        segments = sorted(data.glob("*/*.log"))
        size = sum(each.stat().st_size for each in segments)
        dumped = ["--files", ",".join(map(str, segments))]
        commands = {
            "kafka-dump-log": java.kafka_command(MAIN_CLASS, dumped, options=JAVA_OPTIONS),
            "verify -j 1": [*VERIFY, "-j", "1", str(data)],
            "verify -j 2": [*VERIFY, "-j", "2", str(data)],
            "limit": [sys.executable, "-c", LIMIT, *map(str, segments)],
        }
        print(f"{size / 2**30:.2f} GiB in {chosen.partitions} partitions")
        for number in range(1, chosen.rounds + 1):
            for name, command in commands.items():
                runs[name].append(run(command))
            print(f"round {number}: " + ", ".join(f"{name}: {each[-1].seconds:.2f} s" for name, each in runs.items()))
    best = {name: Ran(*map(min, zip(*each, strict=True))) for name, each in runs.items()}
    theirs = best["kafka-dump-log"]
    for name, ours in best.items():
        print(
            f"{name}: best {ours.seconds:.2f} s, {theirs.seconds / ours.seconds:.2f} times as fast; "
            f"processor {ours.processor:.2f} s; {max(each.memory for each in runs[name]):.0f} MB"
        )


if __name__ == "__main__":
    main()
