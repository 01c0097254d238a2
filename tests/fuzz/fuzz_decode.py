"""Throws damaged batches and random bytes at the kernels until something gives.

    python -m tests.fuzz.fuzz_decode --seconds 600 --jobs 2
    python -m tests.fuzz.fuzz_decode --replay build/fuzz/job-0.bin

An execution is one input, laid so that its last byte is the last one before an inaccessible page: framed by
scan_headers and decoded by decode_batches, or decoded as the region that a codec would have given; then made into
records. Kernels raise nothing for damage, so any exception is a finding, and so is a crash. One execution in
`--twin-rate` is compared with the plain twins too.

Every input is written to `build/fuzz/job-N.bin`, a mapped file, before it is executed: what a process dies of stays
behind in it, and `--replay` executes it again. Exit code 0: nothing found; 1: a finding, named on stderr.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import multiprocessing
import random
import struct
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kafkalog._speedups import decode as kernel
from kafkalog._speedups import framing
from kafkalog._speedups.record import build_records
from tests.helpers import golden
from tests.helpers.equivalence import assert_same_records, assert_same_scan
from tests.helpers.guard import guarded
from tests.reference.encode import FORMATS, entries, records, varint
from tests.reference.framing import HEADER_DTYPE, V2_HEADER_BYTES, Headers, scan_headers
from tests.reference.regions import Regions, regions

ROOT = Path(__file__).resolve().parents[2]
LARGEST_SEED_BYTES = 2500
LARGEST_INPUT_BYTES = 1 << 15
TELLING_BYTES = b"\x00\x01\x02\x03\x0e\x7f\x80\xfe\xff"
TELLING_NUMBERS = [0, 1, -1, 2, 13, 14, 17, 49, 61, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
REPORT_SECONDS = 10.0


class Input(NamedTuple):
    """Bytes of a file (`row` is None), or of the region of `row`."""

    row: Headers | None
    data: bytes


# --- executing


def execute(case: Input) -> None:
    """Frames, decodes and makes records of one input; whatever it raises is a finding."""
    view = guarded(case.data)
    decode(view, file_regions(view, len(case.data)) if case.row is None else whole_region(case.row, case.data))


def whole_region(row: Headers, data: bytes) -> Regions:
    return Regions(data, row, np.zeros(1, np.int64), np.full(1, len(data), np.int64))


def file_regions(view: memoryview, size: int) -> Regions:
    """Every entry's region, but for compressed ones: those are executed by themselves, decompressed."""
    rows, *_ = framing.scan_headers(view)
    framing.scan_headers(view, strict_magic=True, max_size=size // 2, limit=2)
    rows = rows[rows["compression_type"] == 0]
    ends = rows["position"] + rows["size_in_bytes"]
    starts = rows["position"] + np.where(rows["magic"] < 2, 0, V2_HEADER_BYTES)
    return Regions(b"", rows, np.minimum(starts, ends), ends)


def decode(view: memoryview, arguments: Regions) -> None:
    block, batch, count, _ = kernel.decode_batches(view, *arguments[1:])
    if count:
        build_records(view, block[:, :count], batch[:count], arguments.rows)


def compare(case: Input) -> None:
    """One input by the kernels and by their plain twins."""
    if case.row is None:
        rows, *_ = assert_same_scan(case.data)
        assert_same_records(regions(case.data, rows))
    else:
        assert_same_records(whole_region(case.row, case.data))


# --- inputs


def seeds() -> list[Input]:
    """Entries that brokers and the reference encoder wrote, and the regions that lie in them."""
    logs = [segment.log.read_bytes() for segment in golden.checked_segments()]
    written = [entries(records(b"one", None, b"", b"x" * 70), magic, codec) for magic, codec in FORMATS]
    found = []
    for data in written + logs:
        rows, *_ = scan_headers(data, limit=5)
        buffer, rows, starts, ends = regions(data, rows)
        for i, row in enumerate(rows):
            if row["size_in_bytes"] <= LARGEST_SEED_BYTES:
                start = int(row["position"])
                found.append(Input(None, data[start : start + int(row["size_in_bytes"])]))
            if ends[i] - starts[i] <= LARGEST_SEED_BYTES:
                found.append(Input(rows[i : i + 1].copy(), buffer[starts[i] : ends[i]]))
    return found


def mutated(data: bytearray, draw: random.Random, others: list[Input]) -> bytearray:
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        draw.choice(MUTATIONS)(data, draw, others)
    return data[:LARGEST_INPUT_BYTES]


def place(data: bytearray, draw: random.Random) -> int:
    """Any place, but often one near the start, where the headers are."""
    return draw.randrange(min(len(data), 80) if draw.random() < 0.5 else len(data)) if data else 0


def flip_bit(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    if data:
        data[place(data, draw)] ^= 1 << draw.randrange(8)


def set_byte(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    if data:
        data[place(data, draw)] = draw.choice(TELLING_BYTES)


def set_number(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    size = draw.choice((2, 4, 8))
    at = place(data, draw)
    number = draw.choice((*TELLING_NUMBERS, len(data), len(data) - 12, draw.getrandbits(8))) & (1 << 8 * size) - 1
    data[at : at + size] = number.to_bytes(size, "big")


def set_varint(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    at = place(data, draw)
    number = draw.choice((*TELLING_NUMBERS, len(data) - at, len(data) - at - 1, draw.getrandbits(6)))
    data[at : at + draw.choice((0, 1, 1, 2))] = varint(number)


def endless_varint(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    at = place(data, draw)
    data[at : at + draw.choice((0, 5, 10))] = draw.choice(b"\x80\xff").to_bytes(1, "big") * draw.randrange(3, 12)


def cut(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    del data[place(data, draw) :]


def cut_last(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    del data[-draw.randrange(1, 20) :]


def take_out(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    at = place(data, draw)
    del data[at : at + draw.randrange(1, 40)]


def zero(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    at = place(data, draw)
    length = min(len(data) - at, draw.choice((4, 16, 512)))
    data[at : at + length] = bytes(length)


def double(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    at = place(data, draw)
    data[at:at] = data[at : at + draw.randrange(1, 100)]


def splice(data: bytearray, draw: random.Random, others: list[Input]) -> None:
    other = draw.choice(others).data
    data[place(data, draw) :] = other[draw.randrange(len(other) + 1) :]


def follow(data: bytearray, draw: random.Random, others: list[Input]) -> None:
    data += draw.choice(others).data


def garbage(data: bytearray, draw: random.Random, _: list[Input]) -> None:
    at = place(data, draw)
    noise = draw.randbytes(draw.randrange(1, 30))
    data[at : at + draw.choice((0, len(noise)))] = noise


MUTATIONS: list[Callable[[bytearray, random.Random, list[Input]], None]] = [
    flip_bit,
    set_byte,
    set_number,
    set_varint,
    endless_varint,
    cut,
    cut_last,
    take_out,
    zero,
    double,
    splice,
    follow,
    garbage,
]


def drawn(draw: random.Random, corpus: list[Input]) -> Input:
    seed = draw.choice(corpus)
    row = seed.row
    if row is not None and row["magic"][0] >= 2 and draw.random() < 0.3:
        row = row.copy()
        row["records_count"] = draw.choice((0, 1, 2, -1, 2**31 - 1, int(row["records_count"][0]) + 1))
    if draw.random() < 0.05:
        data = bytearray(draw.randbytes(draw.randrange(200)))
    else:
        data = mutated(bytearray(seed.data), draw, corpus)
    if row is not None and row["magic"][0] < 2 and row["compression_type"][0] == 0:
        # The region of a message is one whole entry by contract, and framing sees to it.
        row = None
    return Input(row, bytes(data))


# --- what a crash leaves behind


class LastInput:
    """The input under way, in a mapped file: the kernel keeps its pages when the process dies."""

    HEADER = struct.Struct("<II")

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(self.HEADER.size + HEADER_DTYPE.itemsize + LARGEST_INPUT_BYTES))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def keep(self, case: Input) -> None:
        row = b"" if case.row is None else case.row.tobytes()
        packed = self.HEADER.pack(len(row), len(case.data)) + row + case.data
        self._map[: len(packed)] = packed

    @classmethod
    def read(cls, path: Path) -> Input:
        data = path.read_bytes()
        row_length, length = cls.HEADER.unpack_from(data)
        at = cls.HEADER.size + row_length
        row = np.frombuffer(data, HEADER_DTYPE, 1, cls.HEADER.size).copy() if row_length else None
        return Input(row, data[at : at + length])


# --- running


@dataclass(frozen=True)
class Plan:
    """What each job does."""

    seconds: float
    executions: int
    seed: int
    jobs: int
    twin_rate: int
    directory: Path


def fuzz(plan: Plan, job: int, done: Any) -> None:
    """One job: executes until the time or its share of the executions is used up; exits with 1 on a finding."""
    draw = random.Random(f"{plan.seed}/{job}")
    corpus = seeds()
    last = LastInput(plan.directory / f"job-{job}.bin")
    deadline = time.monotonic() + plan.seconds
    while done.value * plan.jobs < plan.executions and time.monotonic() < deadline:
        for _ in range(100):
            case = drawn(draw, corpus)
            last.keep(case)
            try:
                execute(case)
                if draw.randrange(plan.twin_rate) == 0:
                    compare(case)
            except Exception:  # noqa: BLE001 - any of them is what is being looked for
                traceback.print_exc()
                sys.exit(1)
            done.value += 1


def run(plan: Plan) -> int:
    """All jobs, with a line of progress now and then; the number of jobs that found something."""
    golden.unpacked()
    context = multiprocessing.get_context("spawn")
    counters = [context.Value(ctypes.c_int64, 0, lock=False) for _ in range(plan.jobs)]
    workers = [context.Process(target=fuzz, args=(plan, job, counters[job])) for job in range(plan.jobs)]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        workers[0].join(1 if sys.stderr.isatty() else REPORT_SECONDS)
        report(began, counters, end="\r" if sys.stderr.isatty() else "\n")
        for worker in workers[1:]:
            worker.join(0)
    report(began, counters, end="\n")
    return sum(found(plan, job, worker.exitcode) for job, worker in enumerate(workers))


def report(began: float, counters: list[Any], end: str) -> None:
    executions, seconds = sum(counter.value for counter in counters), time.monotonic() - began
    rate = executions / max(seconds, 0.001)
    print(f"{executions:,} executions, {seconds:,.0f} s, {rate:,.0f}/s", end=end, file=sys.stderr, flush=True)


def found(plan: Plan, job: int, exitcode: int | None) -> bool:
    if exitcode == 0:
        return False
    left = plan.directory / f"job-{job}.bin"
    kept = left.with_name(f"found-{plan.seed}-{job}.bin")
    left.rename(kept)
    print(f"job {job} ended with {exitcode}; its last input: --replay {kept}", file=sys.stderr)
    return True


def main() -> int:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600, help="stop after so long (600)")
    parser.add_argument("--executions", type=int, default=10_000_000, help="stop after so many in all (10 million)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed draws the same inputs (now)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--twin-rate", type=int, default=500, help="compare one in so many with the twins (500)")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "fuzz", help="where inputs are kept")
    parser.add_argument("--replay", type=Path, help="execute and compare the one input in this file")
    options = vars(parser.parse_args())
    replay = options.pop("replay")
    if replay is not None:
        case = LastInput.read(replay)
        print(case, file=sys.stderr)
        execute(case)
        compare(case)
        return 0
    print(f"seed {options['seed']}", file=sys.stderr)
    return 1 if run(Plan(**options)) else 0


if __name__ == "__main__":
    sys.exit(main())
