"""`kafkalog dump -o jsonl` beside `kafka-dump-log --print-data-log`: whole processes on the clock, output to a file."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.oracle import java

OURS = [sys.executable, "-P", "-c", "from kafkalog.cli import main; main()", "dump", "-o", "jsonl"]
MAIN_CLASS = "kafka.tools.DumpLogSegments"
# As the broker's own script starts its tools.
JAVA_OPTIONS = ("-Xmx256M", "-server", "-XX:+UseG1GC")


@dataclass(frozen=True)
class Dump:
    """Seconds of the best run, and lines written; None with a reason where there was no run."""

    seconds: float | None
    lines: int
    missing: str = ""


def measure_dumps(segment: Path, rounds: int, records: int) -> tuple[Dump, Dump]:
    """kafkalog's dump and Kafka's, run in turns; one that prints fewer lines than records does not count."""
    commands = [[*OURS, str(segment)], _kafka_command(segment)]
    dumps: list[list[Dump]] = [[], []]
    with TemporaryDirectory(dir=segment.parent.parent) as directory:
        for _ in range(rounds):
            for command, runs in zip(commands, dumps, strict=True):
                runs.append(_run(command, Path(directory) / "output"))
    ours, kafkas = (_whole(min(runs, key=_seconds), records) for runs in dumps)
    return ours, kafkas


def _whole(dump: Dump, records: int) -> Dump:
    if dump.seconds is None or dump.lines >= records:
        return dump
    return Dump(None, dump.lines, f"{dump.lines} lines for {records} records")


def _seconds(dump: Dump) -> float:
    return float("inf") if dump.seconds is None else dump.seconds


def _kafka_command(segment: Path) -> list[str] | str:
    try:
        return java.kafka_command(MAIN_CLASS, ["--files", str(segment), "--print-data-log"], options=JAVA_OPTIONS)
    except java.JavaUnavailable as error:
        return str(error)


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
