"""How fast the inspector starts, shows and answers, and in how much memory: `python asv_bench/inspector.py --dir DIR`.

    DIR/data        1,000 partitions of 50 topics, 100 GB to look at: sealed segments are holes behind a header
    DIR/single-0    a segment of 1 GiB: 5 M batches of one record
    DIR/batched-0   a segment of 1 GiB: 5 M records in batches of 64 KiB

Made once and kept. Each part is measured in a process of its own, so that its memory is its own. Extend it by a
function in `PARTS`.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import pty
import re
import resource
import select
import shutil
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from crc32c import crc32c

from kafkalog import ByteBufferMessageSet, Record

START = 1_700_000_000_000
RECORDS = 5_000_000
VALUE_BYTES = 139
BATCHED = 320
PARTITIONS, TOPICS = 1_000, 50
SEALED, SEALED_BYTES = 2, 50_000_000
INDEX_INTERVAL = 4096
LOG = f"{0:020d}.log"


# --- what is looked at


def batch(count: int) -> bytes:
    """A batch of so many records, each about 214 bytes with its share of the header."""
    records = [Record(b"%0139d" % i, b"key-%07d" % (i % 1000), timestamp=START + 7 * i) for i in range(count)]
    return bytes(ByteBufferMessageSet.from_records(records).buffer)


def copies(template: bytes, per_batch: int, batches: int) -> Iterator[bytes]:
    """The batch over and over, with offsets and times that go on, and right checksums."""
    size, at_once = len(template), max(1, (8 << 20) // len(template))
    for first in range(0, batches, at_once):
        count = min(at_once, batches - first)
        rows = np.tile(np.frombuffer(template, np.uint8), (count, 1))
        offsets = np.arange(first, first + count) * per_batch
        _put(rows, 0, offsets)
        _put(rows, 27, START + 7 * offsets)
        _put(rows, 35, START + 7 * (offsets + per_batch - 1))
        data = memoryview(rows.reshape(-1))
        crcs = [crc32c(data[i * size + 21 : (i + 1) * size]) for i in range(count)]
        rows[:, 17:21] = np.array(crcs, ">u4").view(np.uint8).reshape(count, 4)
        yield rows.tobytes()


def _put(rows: np.ndarray[Any, Any], at: int, values: np.ndarray[Any, Any]) -> None:
    rows[:, at : at + 8] = values.astype(">i8").view(np.uint8).reshape(len(rows), 8)


def write_segment(directory: Path, per_batch: int, records: int) -> None:
    """A segment of so many records, and its indexes."""
    if directory.exists():
        return
    draft = directory.with_name(f".{directory.name}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    template, batches = batch(per_batch), records // per_batch
    with (draft / LOG).open("wb") as file:
        file.writelines(copies(template, per_batch, batches))
    step = max(1, -(-INDEX_INTERVAL // len(template)))
    entries = np.arange(step, batches, step)
    index = np.stack([(entries + 1) * per_batch - 1, entries * len(template)], 1)
    (draft / LOG).with_suffix(".index").write_bytes(index.astype(">i4").tobytes())
    times = np.zeros(len(entries), [("time", ">i8"), ("offset", ">i4")])
    times["offset"] = (entries + 1) * per_batch - 1
    times["time"] = START + 7 * times["offset"].astype(np.int64)
    (draft / LOG).with_suffix(".timeindex").write_bytes(times.tobytes())
    draft.rename(directory)


def write_data_dir(directory: Path, partitions: int) -> None:
    """Partitions whose sealed segments are one batch each, all of it a hole behind the header."""
    if directory.exists():
        return
    draft = directory.with_name(f".{directory.name}")
    shutil.rmtree(draft, ignore_errors=True)
    active = b"".join(copies(batch(100), 100, 10))
    header = bytearray(batch(1)[:61])
    struct.pack_into(">i", header, 8, SEALED_BYTES - 12)
    for number in range(partitions):
        partition = draft / f"topic-{number % TOPICS:02d}-{number // TOPICS}"
        partition.mkdir(parents=True)
        for base in range(SEALED):
            with (partition / f"{base:020d}.log").open("wb") as file:
                struct.pack_into(">q", header, 0, base)
                file.write(header)
                file.truncate(SEALED_BYTES)
        rows = np.frombuffer(active, np.uint8).reshape(10, -1).copy()
        _put(rows, 0, np.arange(10) * 100 + SEALED)
        (partition / f"{SEALED:020d}.log").write_bytes(rows.tobytes())
    (draft / "meta.properties").write_text("version=1\n")
    draft.rename(directory)


# --- the parts


def now() -> tuple[float, float]:
    """On the clock, and of a processor's time: others may be at work on this machine."""
    return time.perf_counter(), time.process_time()


def since(started: tuple[float, float]) -> str:
    """How long it has been since then."""
    clock, processor = (1000 * (new - old) for new, old in zip(now(), started, strict=True))
    return f"{clock:10.1f} ms, {processor:10.1f} ms of a processor"


class Report:
    """Prints a line a measurement."""

    def __init__(self, part: str) -> None:
        self.part = part

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        started = now()
        yield
        self.line(what, since(started))

    def line(self, what: str, value: str) -> None:
        print(f"{self.part:8}  {what:44}{value}", flush=True)

    def memory(self) -> None:
        self.line("memory at most", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:10.1f} MiB")


def topics(report: Report, root: Path) -> None:
    with report.timed("importing"):
        from kafkalog.inspector.model.model import Model

    started, marks = now(), dict[str, str]()
    model = Model(root / "data")
    for row in model.topics():
        known = "all rows filled" if row.last_stable is None else "all last stable offsets"
        marks[known if row.filled else "all names"] = since(started)
    for what, value in marks.items():
        report.line(what, value)
    with report.timed("all of it again"):
        for _ in model.topics():
            pass
    report.memory()


def segment(report: Report, directory: Path) -> None:
    from kafkalog.inspector.model.model import Model
    from kafkalog.inspector.model.types import Byte, Offset, Time

    with report.timed("open, first state"):
        partition = Model(directory).partition()
        state = partition.refresh()
    reader = partition.segment(state.segments[0].base_offset)
    with report.timed("first steps, 100 batches, 100 records, map"):
        while reader.batches < 100:
            reader.index_more()
        assert len(reader.batch_rows(0, 100)) == len(reader.record_rows(0, 100)) == 100
        reader.strip(80)
    _index(report, reader)
    end = reader.records
    for what, ask in (
        ("last 100 batches", lambda: reader.batch_rows(reader.batches - 100, 100)),
        ("last 100 records", lambda: reader.record_rows(reader.records - 100, 100)),
        ("a record whole", lambda: reader.record(reader.records // 3)),
        ("the record at an offset", lambda: reader.record_at(end // 2)),
        ("the batch at an offset", lambda: reader.batch_at(offset=end * 4 // 5)),
        ("the map, 140 cells", lambda: reader.strip(140)),
        ("the map, 4,800 cells", lambda: reader.strip(4800)),
        ("fields of a batch", lambda: sum(1 for _ in reader.every_field(reader.batches // 2))),
        ("the field at a byte", lambda: reader.field_at(reader.size // 3)),
        ("a page of bytes", lambda: reader.read_bytes(reader.size // 2, 4096)),
        ("next damage (none)", lambda: reader.next_damage(0)),
        ("next transaction (none)", lambda: reader.next_transaction(0)),
        ("refresh", partition.refresh),
        ("locate an offset", lambda: partition.locate(Offset(end // 3))),
        ("locate a time", lambda: partition.locate(Time(START + 7 * (end // 3)))),
        ("locate a byte", lambda: partition.locate(Byte(reader.size // 2))),
        ("last stable offset", partition.work_out_last_stable),
        ("transactions", partition.transactions),
    ):
        with report.timed(what):
            ask()
    report.memory()


def _index(report: Report, reader: Any) -> None:
    started, longest, walked = now(), 0.0, ""
    while True:
        before = time.process_time()
        done = reader.index_more().is_done
        longest = max(longest, time.process_time() - before)
        if reader.is_walked and not walked:
            walked = since(started)
        if done:
            break
    report.line("all headers", walked)
    report.line("all checksums as well", f"{since(started)}, longest step {1000 * longest:.0f} ms of it")


def through(report: Report, directory: Path) -> None:
    from kafkalog.fsck import verify_path
    from kafkalog.scan.search import Search, pattern
    from kafkalog.scan.statistics import LogStatistics

    for name, backwards in (("search", False), ("search backwards", True)):
        start, first = time.perf_counter(), 0.0
        for _ in Search(directory, pattern("nothing has this"), backwards=backwards):
            first = first or time.perf_counter() - start
        seconds = time.perf_counter() - start
        report.line(name, f"{1000 * seconds:10.1f} ms, first progress after {1000 * first:.0f} ms")
    with report.timed("statistics"):
        counted = LogStatistics(directory)
        while not counted.step(0.1).is_done:
            pass
    with report.timed("verify"):
        for _ in verify_path(directory):
            pass
    report.memory()


# --- the program in a terminal

STARTS = 7
# What a screen shows once it has something to show, and the keys that lead there.
SCREENS: dict[str, tuple[tuple[str, ...], str]] = {
    "map": (("3",), r"cell 1 of"),
    "batches": (("4",), r"checksum +0x"),
    "records": (("5",), r"age +\d"),
    "record": (
        (
            "5",
            "enter",
        ),
        r"\[value",
    ),
    "hex": (("6",), r"position  00"),
    "transactions": (("7", "r"), r"open|\d% of"),
    "transactions, open ones": (("7", "r"), r"open"),
    "verify": (("8", "r"), r"checked|%|done in"),
    "search": (("slash", *"nothing", "enter"), r"reached offset"),
    "statistics": (("0",), r"records; a column"),
    "segments": (("2",), r"E [\d,]+ "),
}


class Started(NamedTuple):
    """A program from its start until something was seen: seconds on the clock, of a processor; MiB at most."""

    clock: float
    processor: float
    memory: float


def started(path: Path, wanted: bytes) -> Started:
    """`kafkalog inspect` in a terminal of its own, ended when it has been seen."""
    began = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color")
        os.execv(sys.executable, [sys.executable, "-P", "-m", "kafkalog.cli", "inspect", str(path)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    seen = b""
    while re.search(wanted, seen) is None:
        if select.select([terminal], [], [], 30)[0] == []:
            raise TimeoutError(f"{wanted!r} is not seen")
        seen += os.read(terminal, 1 << 16)
    clock = time.perf_counter() - began
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(re.findall(r"VmHWM:\s*(\d+)", status)[0]) / 1024
    os.write(terminal, b"\x11")
    with suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass
    os.waitpid(pid, 0)
    return Started(clock, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), memory)


def start(report: Report, root: Path, starts: int) -> None:
    for name, path, wanted in (
        ("list of partitions", root / "data", rb"topic-00-0"),
        ("segment", root / "single-0", rb"E \S+ (log )?end"),
    ):
        runs = [started(path, wanted) for _ in range(starts)]
        clock, processor = ([1000 * run[i] for run in runs] for i in (0, 1))
        report.line(
            name,
            f"{statistics.median(clock):10.1f} ms, {statistics.median(processor):10.1f} ms of a processor; "
            f"least {min(clock):.0f} ms, {max(run.memory for run in runs):.0f} MiB",
        )


def screens(report: Report, directory: Path) -> None:
    asyncio.run(_screens(report, directory))
    report.memory()


async def _screens(report: Report, directory: Path) -> None:
    from kafkalog.inspector.app import InspectorApp
    from kafkalog.inspector.config import Settings
    from kafkalog.inspector.model.model import Model

    app: Any = InspectorApp(Model(directory), Settings())
    async with app.run_test(size=(140, 40)) as pilot:
        await _shown(report, app, "opened", "segments", "")
        for when in ("headers unread", "headers read"):
            for name in SCREENS:
                await _show(report, pilot, f"{name}, {when}", name)
            while not app.screen.browsing.is_indexed:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def _show(report: Report, pilot: Any, what: str, name: str) -> None:
    """All keys but the last lead to where it is pressed."""
    keys = SCREENS[name][0]
    await pilot.press(*keys[:-1])
    before = _text(pilot.app)
    pilot.app.simulate_key(keys[-1])
    await _shown(report, pilot.app, what, name, before)
    pilot.app.session.runs.end(pilot.app.session.model.path)
    await pilot.pause(0.1)


async def _shown(report: Report, app: Any, what: str, name: str, before: str) -> None:
    """Wait until the screen has changed from `before`, an earlier run's result maybe, and shows what is wanted."""
    wanted, until = re.compile(SCREENS[name][1]), time.monotonic() + 30
    with report.timed(what):
        while (text := _text(app)) == before and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        while wanted.search(text) is None and time.monotonic() < until:
            await asyncio.sleep(0.005)
            text = _text(app)
    if time.monotonic() >= until:
        report.line(what, f"was not seen, but\n{_text(app)}")


def _text(app: Any) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


PARTS: dict[str, Callable[[Report, Path], None]] = {
    "topics": topics,
    "single": lambda report, root: segment(report, root / "single-0"),
    "batched": lambda report, root: segment(report, root / "batched-0"),
    "screens1": lambda report, root: screens(report, root / "single-0"),
    "screensN": lambda report, root: screens(report, root / "batched-0"),
    "through1": lambda report, root: through(report, root / "single-0"),
    "throughN": lambda report, root: through(report, root / "batched-0"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--dir", type=Path, default=Path(__file__).resolve().parents[1] / "build" / "bench" / "inspector"
    )
    parser.add_argument("--only", choices=("start", *PARTS), action="append")
    parser.add_argument("--here", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--records", type=int, default=RECORDS, help="of each segment; at least 32,000")
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--starts", type=int, default=STARTS)
    options = parser.parse_args()
    if options.here:
        PARTS[options.here](Report(options.here), options.dir)
        return
    options.dir.mkdir(parents=True, exist_ok=True)
    write_data_dir(options.dir / "data", options.partitions)
    write_segment(options.dir / "single-0", 1, options.records)
    write_segment(options.dir / "batched-0", BATCHED, options.records)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for part in options.only or ("start", *PARTS):
        if part == "start":
            start(Report(part), options.dir, options.starts)
            continue
        # -P: this file has the package's name, and must not be found in its place.
        subprocess.run([sys.executable, "-P", __file__, "--dir", options.dir, "--here", part], check=True)


if __name__ == "__main__":
    main()
