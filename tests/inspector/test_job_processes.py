"""Jobs in processes of their own, as users have them: they answer, end at once, and none outlives the application."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.inspector.jobs.jobs import SearchJob, VerifyJob, Wanted
from kafkalog.inspector.jobs.process import LOOK_SECONDS, Process
from kafkalog.inspector.jobs.runs import Run, Runs, SearchRun, VerifyRun
from tests.helpers.golden import unpacked
from tests.helpers.inspected import segment_file
from tests.helpers.jobs import PATIENCE_SECONDS, within
from tests.helpers.processes import PROC, descendants, is_gone
from tests.reference.encode import V2Batch, records

SOUND = unpacked() / "kafka-3.9" / "data" / "v2-none-0"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("_jobs_in_processes"),
    pytest.mark.skipif(not PROC.exists(), reason="processes are looked up in /proc"),
]


def busy() -> list[int]:
    return [pid for pid, state in descendants(os.getpid()).items() if state == "R"]


async def until(condition: Callable[[], Any], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.01)


async def ended(run: Run[Any]) -> None:
    while run.is_running:
        await asyncio.wait_for(run.changed(), PATIENCE_SECONDS)


def endless(directory: Path) -> SearchJob:
    """A regular expression that backtracks through a value for ever."""
    data = V2Batch(records(b"a" * 5_000 + b"!")).encoded()
    return SearchJob(segment_file(directory / "endless-0", data), Wanted("(a|a)+$", regex=True))


def test_a_job_ends_at_once_when_it_is_cancelled_and_another_can_be_done(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(endless(tmp_path)))
        await until(lambda: run.reached and busy(), "the search goes on in another process")
        run.cancel()
        assert (run.state, run.problem) == ("cancelled", None)
        await until(lambda: not busy(), "the search has ended")
        again = runs.start(VerifyRun(VerifyJob(SOUND)))
        await ended(again)
        assert again.state == "finished"

    within(steps)


def test_closing_ends_all_processes(tmp_path: Path) -> None:
    before = descendants(os.getpid()).keys()

    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(endless(tmp_path)))
        await until(lambda: run.reached, "the search has begun")

    within(steps)
    # Whoever takes over the dead may ask for their exit codes later.
    gone = until(lambda: all(map(is_gone, descendants(os.getpid()).keys() - before)), "all processes have ended")
    asyncio.run(gone)


def test_a_job_fails_with_the_exit_code_when_its_process_is_killed(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(endless(tmp_path)))
        await until(lambda: run.reached and busy(), "the search goes on in another process")
        for pid in busy():
            os.kill(pid, signal.SIGKILL)
        await ended(run)
        assert (run.state, run.problem) == ("failed", "the process that did it has ended (exit code -9)")

    within(steps)


SEARCHING = """
import asyncio, sys
from pathlib import Path
from kafkalog.inspector.jobs.jobs import SearchJob, Wanted
from kafkalog.inspector.jobs.runs import Runs, SearchRun

async def main():
    run = Runs().start(SearchRun(SearchJob(Path(sys.argv[1]), Wanted("(a|a)+$", regex=True))))
    while True:
        await run.changed()
        print("searching", flush=True)

asyncio.run(main())
"""


def test_no_process_survives_an_application_that_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", SEARCHING, str(endless(tmp_path).path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as application:
        try:
            assert application.stdout is not None
            assert application.stdout.readline() == b"searching\n"
            started = descendants(application.pid)
            assert started
        finally:
            application.kill()
    asyncio.run(until(lambda: all(map(is_gone, started)), "all processes have ended"))


def test_a_reader_that_is_slower_than_the_job_gets_all_that_it_says(tmp_path: Path) -> None:
    count = 40_000
    batches = (V2Batch(records(*[b"v" * 100] * 100, offset=i)).encoded() for i in range(0, count, 100))
    path = segment_file(tmp_path, b"".join(batches))
    process = Process(SearchJob(path, Wanted("v"), listed=count))
    offsets: list[int] = []
    for number, frame in enumerate(process.frames()):
        offsets += frame.offsets
        ended = frame.ended
        # The pipe is full meanwhile, and the job is interrupted by its timer.
        time.sleep(2 * LOOK_SECONDS if number < 5 else 0)
    process.close()
    assert ended is not None
    assert ended.problem is None
    assert offsets == list(range(count))
