"""The processes that work: when they are there, and that nothing of them is left, whoever is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from inspector.background import child as child_module
from inspector.background import server as server_module
from inspector.background.child import serve
from inspector.background.frames import Frame
from inspector.background.jobs import Ended, SearchJob, StatisticsJob, VerifyJob, Wanted
from inspector.background.runs import Run, Runs, SearchRun, StatisticsRun, VerifyRun
from inspector.background.server import Child, Server
from tests.helpers import runs_within
from tests.helpers.golden import unpacked
from tests.helpers.inspected import segment_file
from tests.helpers.runs_within import PATIENCE_SECONDS
from tests.reference.encode import V2Batch, records

DATA = unpacked() / "kafka-3.9" / "data"
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


def within(steps: Callable[[Runs], Awaitable[None]]) -> None:
    """No process is left then."""
    before = children(os.getpid())
    runs_within.within(steps)
    assert children(os.getpid()) == before


def processes() -> dict[int, tuple[str, int]]:
    """State (Z: dead, and nobody has asked for its exit code) and parent of each."""
    found = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = each.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        found[int(each.parent.name)] = state, int(parent)
    return found


def children(pid: int) -> list[int]:
    """Dead ones too."""
    return sorted(each for each, (_, parent) in processes().items() if parent == pid)


def gone(pid: int) -> bool:
    """Or dead, where whoever has taken it over (the first process of a container) does not care."""
    state, parent = processes().get(pid, ("Z", 1))
    return state == "Z" and parent != os.getpid()


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def server_of(runs: Runs) -> int:
    running = runs._server._running
    assert running is not None
    return running[0].pid


async def working(runs: Runs) -> int:
    """The process that does the only job."""
    await until(lambda: runs._server._running is not None and len(children(server_of(runs))) == 1)
    return children(server_of(runs))[0]


def endless(directory: Path) -> SearchJob:
    """A regular expression that goes back through a value of letters for ever, without ever finding an end."""
    data = V2Batch(records(b"a" * 5_000 + b"!")).encoded()
    return SearchJob(segment_file(directory / "endless-0", data), Wanted("(a|a)+$", regex=True))


async def ended(run: Run[Any]) -> None:
    while run.is_running:
        await run.changed()


def test_the_process_for_a_job_is_forked_and_leaves_nothing_when_it_has_ended() -> None:
    async def steps(runs: Runs) -> None:
        runs.prepare()
        await until(lambda: runs._server._running)
        server = server_of(runs)
        for _ in range(3):
            run = runs.start(VerifyRun(VerifyJob(DATA / "v2-none-0")))
            await ended(run)
            assert run.state == "finished"
            await until(lambda: not children(server))
        assert server_of(runs) == server
        assert children(os.getpid()).count(server) == 1

    within(steps)


def test_what_forks_has_one_thread_and_a_group_and_session_of_its_own(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        runs.start(SearchRun(endless(tmp_path)))
        pid = await working(runs)
        server = server_of(runs)
        assert len(os.listdir(f"/proc/{server}/task")) == 1  # noqa: PTH208
        assert os.getsid(server) == os.getpgid(server) == os.getpgid(pid) == server
        assert {os.readlink(f"/proc/{server}/fd/{each}") for each in (1, 2)} == {os.devnull}  # noqa: PTH115

    within(steps)


def test_the_processes_know_neither_textual_nor_rich() -> None:
    code = (
        "import sys; from inspector.background import child; child.serve = lambda _: print([m for m in "
        "('textual', 'rich', 'click') if m in sys.modules], flush=True); child.main()"
    )
    here, there = socket.socketpair()
    with here, there:
        done = subprocess.run(
            [sys.executable, "-c", code],
            check=False,
            stdin=there,
            capture_output=True,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
    assert done.stdout.strip() == "[]"


def test_a_search_that_goes_back_for_ever_ends_at_once_when_it_is_cancelled(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(endless(tmp_path)))
        pid = await working(runs)
        run.cancel()
        assert run.state == "cancelled"
        await until(lambda: pid not in processes())
        assert (run.state, run.problem) == ("cancelled", None)
        again = runs.start(VerifyRun(VerifyJob(DATA / "v2-none-0")))
        await ended(again)
        assert again.state == "finished"

    within(steps)


def test_of_two_jobs_the_one_that_is_cancelled_ends_and_the_other_goes_on(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        search = runs.start(SearchRun(endless(tmp_path)))
        first = await working(runs)
        runs.start(StatisticsRun(StatisticsJob(DATA / "v2-none-0")))
        other = runs.start(SearchRun(SearchJob(search.job.path, search.job.wanted, offset=0)))
        assert search.state == "cancelled"
        await until(lambda: first not in processes())
        assert other.is_running
        assert await working(runs) != first

    within(steps)


def test_closing_ends_what_goes_back_for_ever(tmp_path: Path) -> None:
    pids = []

    async def steps(runs: Runs) -> None:
        runs.start(SearchRun(endless(tmp_path)))
        pids.extend((await working(runs), server_of(runs)))

    within(steps)
    asyncio.run(asyncio.wait_for(until(lambda: all(map(gone, pids))), PATIENCE_SECONDS))


def test_a_run_may_be_cancelled_before_its_process_is_there() -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(VerifyRun(VerifyJob(DATA)))
        run.cancel()
        # Jobs are begun in their order: the first has come and gone when the second has ended.
        await ended(runs.start(StatisticsRun(StatisticsJob(DATA / "v2-none-0"))))
        await until(lambda: not children(server_of(runs)))
        assert (run.state, run.findings, run.problem) == ("cancelled", [], None)

    within(steps)


def test_a_process_that_is_killed_is_told_as_a_problem(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(endless(tmp_path)))
        os.kill(await working(runs), signal.SIGKILL)
        await ended(run)
        assert (run.state, run.problem) == ("failed", "the process that did it has ended (exit code -9)")
        await until(lambda: not children(server_of(runs)))

    within(steps)


def test_when_what_forks_is_killed_its_processes_end_and_the_next_job_has_another(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(endless(tmp_path)))
        pid, server = await working(runs), server_of(runs)
        os.kill(server, signal.SIGKILL)
        await ended(run)
        assert (run.state, run.problem) == ("failed", "the process that did it has ended (exit code -9)")
        await until(lambda: gone(pid))
        again = runs.start(VerifyRun(VerifyJob(DATA / "v2-none-0")))
        await ended(again)
        assert again.state == "finished"
        assert server not in processes()

    within(steps)


def test_no_process_can_be_started_is_told_as_a_problem_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(runs: Runs) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(server_module, "COMMAND", ("/there/is/no/such/program",))
            runs.prepare()
            run = runs.start(VerifyRun(VerifyJob(DATA)))
            await ended(run)
            assert run.state == "failed"
            assert "No such file" in (run.problem or "")
        again = runs.start(VerifyRun(VerifyJob(DATA / "v2-none-0")))
        await ended(again)
        assert again.state == "finished"

    within(steps)


def test_what_ends_before_it_can_fork_is_told_as_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))

    async def steps(runs: Runs) -> None:
        run = runs.start(VerifyRun(VerifyJob(DATA)))
        await ended(run)
        assert (run.state, run.problem) == ("failed", "the process that did it has ended (exit code 3)")

    within(steps)


def test_where_the_system_gives_no_process_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(child_module.os, "fork", refuse)
    (control, far), (conn, conn_far), (life, life_far) = (socket.socketpair() for _ in range(3))
    with control, far, conn, life:
        with conn_far, life_far:
            socket.send_fds(control, [b"\0"], [conn_far.fileno(), life_far.fileno()])
        control.shutdown(socket.SHUT_WR)
        serve(far)
        [frame] = Child(None, conn, life).frames()  # type: ignore[arg-type]
        assert frame == Frame(ended=Ended("[Errno 11] Resource temporarily unavailable"))
        assert Child(None, conn, life).close() == 1  # type: ignore[arg-type]


def test_nothing_is_begun_once_it_is_closed() -> None:
    server = Server()
    server.close()
    server.prepare()
    with pytest.raises(OSError, match="closed"):
        server.begin(VerifyJob(DATA))


SEARCHING = """
import asyncio, sys
from pathlib import Path
from inspector.background.jobs import SearchJob, Wanted
from inspector.background.runs import Runs, SearchRun

async def main():
    run = Runs().start(SearchRun(SearchJob(Path(sys.argv[1]), Wanted("(a|a)+$", regex=True))))
    while True:
        await run.changed()

asyncio.run(main())
"""


@pytest.mark.parametrize("first", ["application", "server and application"])
def test_no_process_survives_an_application_that_is_killed(tmp_path: Path, first: str) -> None:
    path = endless(tmp_path).path
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", SEARCHING, path], env=environment) as application:
        try:
            server, pid = asyncio.run(asyncio.wait_for(_below(application.pid), PATIENCE_SECONDS))
            if first != "application":
                os.kill(server, signal.SIGKILL)
        finally:
            application.kill()
    asyncio.run(asyncio.wait_for(until(lambda: gone(server) and gone(pid)), PATIENCE_SECONDS))


async def _below(pid: int) -> list[int]:
    """The child of a process, and the child's child."""
    found: list[int] = []
    for _ in range(2):
        await until(lambda pid=pid: children(pid))
        [pid] = children(pid)
        found.append(pid)
    return found
