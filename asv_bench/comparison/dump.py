"""`kafkalog dump -o jsonl` beside `kafka-dump-log --print-data-log` and `kcat -J`: whole processes on the clock.

The output goes to a file. kcat reads the segment from a broker on the same machine, which has a copy of it.
"""

import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from asv_bench.comparison.workers import BROKER_SETTINGS, JAVA_OPTIONS
from tests.oracle import java
from tests.oracle.broker import Broker, BrokerFailed

OURS = [sys.executable, "-P", "-c", "from kafkalog.cli import main; main()", "dump", "-o", "jsonl"]
KAFKAS, KCAT = "kafka-dump-log", "kcat"
TOPIC = "bench"
MAIN_CLASS = "kafka.tools.DumpLogSegments"
# As the broker's own script starts its tools.
TOOL_OPTIONS = ("-Xmx256M", "-server", "-XX:+UseG1GC")


@dataclass(frozen=True)
class Dump:
    """Seconds of the best run, and lines written; None with a reason where there was no run."""

    seconds: float | None
    lines: int
    missing: str = ""


def measure_dumps(segment: Path, rounds: int, records: int) -> tuple[Dump, dict[str, Dump]]:
    """Time the dumps of kafkalog and its peers in turns. A dump with fewer lines than records counts as missing."""
    dumps: dict[str, list[Dump]] = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(dir=segment.parent.parent)))
        commands = {
            "": [*OURS, str(segment)],
            KAFKAS: _kafka_command(segment),
            KCAT: _kcat_command(segment, directory, stack),
        }
        for _ in range(rounds):
            for name, command in commands.items():
                dumps.setdefault(name, []).append(_run(command, directory / "output"))
    best = {name: _whole(min(runs, key=_seconds), records) for name, runs in dumps.items()}
    return best.pop(""), best


def _whole(dump: Dump, records: int) -> Dump:
    if dump.seconds is None or dump.lines >= records:
        return dump
    return Dump(None, dump.lines, f"{dump.lines} lines for {records} records")


def _seconds(dump: Dump) -> float:
    return float("inf") if dump.seconds is None else dump.seconds


def _kafka_command(segment: Path) -> list[str] | str:
    try:
        return java.kafka_command(MAIN_CLASS, ["--files", str(segment), "--print-data-log"], options=TOOL_OPTIONS)
    except java.JavaUnavailable as error:
        return str(error)


def _kcat_command(segment: Path, directory: Path, stack: ExitStack) -> list[str] | str:
    """kcat's command, and a broker that serves the segment until `stack` ends; or why there is none."""
    if shutil.which(KCAT) is None:
        return "kcat is not installed"
    try:
        broker = stack.enter_context(Broker(directory, BROKER_SETTINGS, JAVA_OPTIONS))
        created = broker.start()
        broker.client.create({TOPIC: {}})
        created.stop()
        partition = broker.data / f"{TOPIC}-0"
        for old in partition.glob("0*"):
            old.unlink()
        for path in segment.parent.glob(f"{segment.stem}.*"):
            shutil.copy(path, partition)
        stack.callback(broker.start().stop)
    except (java.JavaUnavailable, BrokerFailed) as error:
        return str(error)
    return [KCAT, "-b", broker.address, "-C", "-t", TOPIC, "-p", "0", "-o", "beginning", "-e", "-q", "-J"]


def _run(command: list[str] | str, output: Path) -> Dump:
    if isinstance(command, str):
        return Dump(None, 0, command)
    begin = time.perf_counter()
    with open(output, "wb") as file:
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        return Dump(None, 0, f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}")
    with open(output, "rb") as file:
        return Dump(seconds, sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b"")))
