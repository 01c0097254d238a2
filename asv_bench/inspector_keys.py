"""How soon the inspector answers a key while verify, search or statistics run: on a segment of 1 GiB, 5 M batches.

    python -m asv_bench.inspector_keys DIRECTORY     a partition: `python asv_bench/inspector.py --dir DIR` makes one

The delay is the time from a key's press until the row of the table under it has moved; and, apart from keys, how late
the loop that draws comes to what is due. Both are told with nothing running, too: that is what the machine takes.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from kafkalog.inspector.app import InspectorApp
from kafkalog.inspector.config import Settings
from kafkalog.inspector.model.model import Model
from kafkalog.inspector.views.run_view import ShowsRun
from kafkalog.inspector.widgets.lazy_table import LazyTable

SECONDS = 6.0
GOAL_MS = 50.0
# The keys that begin each.
BEGIN = {
    "nothing": [],
    "verify": ["8", "r"],
    "search": ["slash", *"nowhere", "enter"],
    "search, all match": ["slash", "ctrl+u", *"key-", "enter"],
    "statistics": ["0"],
}


async def measure(path: Path, seconds: float) -> None:
    """Prints a line each."""
    app = InspectorApp(Model(path), Settings())
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(app)
        for name, keys in BEGIN.items():
            await pilot.press(*keys)
            await asyncio.sleep(1.5)
            shown = [each for each in app.screen.query(ShowsRun).results(ShowsRun) if each.run and each.is_on_screen]
            run = shown[0].run if shown else None
            await pilot.press("5")
            await asyncio.sleep(0.5)
            delays, late = await press(app, run, seconds)
            goes_on = "" if run is None else f"; {run.state} at {run.progress.done_bytes >> 20} MiB"
            print(
                f"{name:18} keys {told(delays)}; loop late {told([each for each, _ in late])},"
                f" its own work {told([each for _, each in late])}{goes_on}",
                flush=True,
            )
            if run is not None:
                run.cancel()


async def settled(app: InspectorApp) -> None:
    """All headers read."""
    began = time.monotonic()
    while not (getattr(app.screen, "browsing", None) and app.screen.browsing.is_indexed):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    print(f"headers read after {time.monotonic() - began:.1f} s", flush=True)


async def press(app: InspectorApp, run: object, seconds: float) -> tuple[list[float], list[tuple[float, float]]]:
    """Down and up in the records, until the time is over or the run."""
    table = next(each for each in app.screen.query("RecordsView LazyTable").results(LazyTable))
    delays: list[float] = []
    late: list[tuple[float, float]] = []
    watching = asyncio.create_task(watch(late))
    until = time.monotonic() + seconds
    while time.monotonic() < until and getattr(run, "is_running", True):
        for key, step in (("down", 1), ("down", 1), ("up", -1)):
            before, began = table.cursor, time.perf_counter()
            app.simulate_key(key)
            while table.cursor != before + step:  # noqa: ASYNC110
                # Without a pause this would itself be what keeps the machine from the rest.
                await asyncio.sleep(0.0005)
            delays.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(0.02)
    watching.cancel()
    return delays, late


async def watch(late: list[tuple[float, float]]) -> None:
    """How late the loop is, and how long its own thread has worked meanwhile: of a busy machine only that tells."""
    while True:
        began, worked = time.perf_counter(), time.thread_time()
        await asyncio.sleep(0.005)
        late.append((1000 * (time.perf_counter() - began) - 5, 1000 * (time.thread_time() - worked)))


def told(found: list[float]) -> str:
    """Of so many, in ms."""
    ordered = sorted(found) or [0.0]
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99)]
    over = sum(each > GOAL_MS for each in ordered)
    return f"{len(ordered):5} p50 {at[0]:5.1f} p99 {at[1]:5.1f} max {ordered[-1]:6.1f} ms, over {GOAL_MS:.0f}: {over}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement")
    options = parser.parse_args()
    asyncio.run(measure(options.directory, options.seconds))
