"""What runs in a process of its own: what is heard of it, and how it ends."""

from __future__ import annotations

import asyncio
import io
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from inspector.background.child import work
from inspector.background.frames import LENGTH, MOST, Frame, Gathering
from inspector.background.jobs import Ended, SearchJob, StatisticsJob, VerifyJob, Wanted
from inspector.background.runs import KEPT, Run, Runs, SearchRun, StatisticsRun, VerifyRun
from inspector.reading.answers import Progress
from inspector.reading.search import Match, SearchProgress
from kafkalog.fsck import Severity
from tests.helpers import damage
from tests.helpers.golden import unpacked
from tests.helpers.inspected import segment_file
from tests.helpers.runs_within import within
from tests.reference.encode import V2Batch, records

DATA = unpacked() / "kafka-3.9" / "data"


async def ended(run: Run[Any]) -> None:
    while run.is_running:
        await run.changed()


def big_file(directory: Path, batches: int) -> Path:
    """A thousand records a batch: more than one frame holds."""
    values = [b"needle %06d" % i + b"." * 150 for i in range(1_000)]
    data = b"".join(V2Batch(records(*values, offset=i * 1_000)).encoded() for i in range(batches))
    return segment_file(directory / "big-0", data)


def test_a_check_finds_what_is_damaged_and_where(tmp_path: Path) -> None:
    batches = damage.log()
    path = segment_file(tmp_path / "a-0", damage.flipped(b"".join(batches), damage.start_of(batches, 3) + 100, 2))

    async def steps(runs: Runs) -> None:
        run = runs.start(VerifyRun(VerifyJob(path.parent)))
        await ended(run)
        assert (run.state, run.problem) == ("finished", None)
        assert [(each.code, each.position) for each in run.findings] == [("crc-mismatch", damage.start_of(batches, 3))]
        assert run.counts[Severity.ERROR] == 1
        assert run.progress.is_done
        assert run.progress.total_bytes == path.stat().st_size
        assert runs.of(VerifyRun, path.parent) is run

    within(steps)


def test_a_search_hears_of_all_matches_in_the_order_of_their_offsets() -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(SearchJob(DATA / "v2-none-0", Wanted("key-1", fields=frozenset(("key",))))))
        await ended(run)
        assert run.state == "finished"
        assert run.reached is not None
        assert run.reached.complete
        assert len(run.matches) == len(run.offsets) == run.reached.matches > 100
        assert [each.offset for each in run.matches] == sorted(run.offsets) == list(run.offsets)
        assert all(each.excerpt[slice(*each.excerpt_span)] == b"key-1" for each in run.matches)

    within(steps)


def test_of_very_many_matches_the_first_are_listed_and_all_are_counted_and_can_be_gone_to(tmp_path: Path) -> None:
    path = big_file(tmp_path, batches=3)

    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(SearchJob(path, Wanted("needle"), listed=700)))
        await ended(run)
        assert (len(run.matches), len(run.offsets)) == (700, 3_000)
        assert run.match_at(699) == run.matches[-1]
        assert run.match_at(700) is None
        assert run.beside(2_000, True) == 2_001

    within(steps)


def test_statistics_are_of_all_records(tmp_path: Path) -> None:
    path = big_file(tmp_path, batches=20)

    async def steps(runs: Runs) -> None:
        run = runs.start(StatisticsRun(StatisticsJob(path)))
        await ended(run)
        assert run.statistics is not None
        assert run.statistics.records == 20_000
        assert run.statistics.progress.is_done

    within(steps)


def test_a_cancelled_run_ends_at_once_and_keeps_what_it_has_found(tmp_path: Path) -> None:
    # It comes as far as to the second segment, where it goes back for ever.
    directory = big_file(tmp_path, batches=1).parent
    segment_file(directory, V2Batch(records(b"a" * 5_000 + b"!", offset=1_000)).encoded(), 1_000)

    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(SearchJob(directory, Wanted("needle|(a|a)+$", regex=True))))
        while not run.matches:
            await run.changed()
        [listens] = [each for each in threading.enumerate() if each.name == run.kind]
        run.cancel()
        assert (run.state, run.is_running) == ("cancelled", False)
        found = len(run.offsets)
        while listens.is_alive():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert len(run.offsets) == found > 0
        assert run.reached is None or not run.reached.complete

    within(steps)


def test_what_cannot_be_opened_is_told_where_it_was_asked_for(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(StatisticsRun(StatisticsJob(tmp_path / "gone-0")))
        await ended(run)
        assert run.state == "failed"
        assert "gone-0" in (run.problem or "")

    within(steps)


def test_one_run_of_a_kind_goes_on_at_a_time_and_a_few_are_kept(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        paths = [tmp_path / f"{i}-0" for i in range(KEPT + 2)]
        started = [runs.start(VerifyRun(VerifyJob(path))) for path in paths]
        assert [run.is_running for run in started] == [False] * (KEPT + 1) + [True]
        assert [runs.of(VerifyRun, path) is not None for path in paths] == [False] * 2 + [True] * KEPT
        runs.end(tmp_path)
        assert not started[-1].is_running

    within(steps)


def match(offset: int) -> Match:
    return Match(offset, 0, "value", (0, 1), b"x", (0, 1))


@pytest.mark.parametrize(("start", "order"), [("start", [3, 5, 9]), ("back", [9, 5, 3])])
def test_next_and_previous_follow_offsets_whichever_way_the_search_goes(start: Any, order: list[int]) -> None:
    async def steps(_: Runs) -> None:
        run = SearchRun(SearchJob(DATA, Wanted("x", start=start)))
        frame = Frame(items=[match(offset) for offset in order])
        frame.offsets.extend(order)
        run.take(frame)
        assert [run.beside(offset, True) for offset in (0, 3, 4, 9)] == [3, 5, 5, None]
        assert [run.beside(offset, False) for offset in (3, 4, 9, 10)] == [None, 3, 5, 9]
        assert (run.beside(None, True), run.beside(None, False)) == (3, 9)
        assert run.match_at(5) == match(5)
        assert run.match_at(4) is None
        assert [run.may_find(forwards) for forwards in (True, False)] == [start == "start", start == "back"]

    within(steps)


def test_frames_gather_what_comes_fast_and_lose_nothing() -> None:
    out = io.BytesIO()
    gathering = Gathering(out)
    for i in range(3 * MOST):
        gathering.put(match(i))
        gathering.put(SearchProgress(i, 10, i))
    gathering.put(Ended())
    out.seek(0)
    frames = []
    while length := out.read(LENGTH.size):
        frames.append(pickle.loads(out.read(*LENGTH.unpack(length))))
    assert [each.offset for frame in frames for each in frame.items] == list(range(3 * MOST))
    assert [offset for frame in frames for offset in frame.offsets] == list(range(3 * MOST))
    assert [frame.ended for frame in frames] == [None] * (len(frames) - 1) + [Ended()]
    assert len(frames) < 20


def test_whatever_goes_wrong_in_a_job_is_the_last_that_it_says() -> None:
    class Broken:
        def events(self) -> Any:
            yield Progress(1, 2)
            raise RuntimeError("nothing goes")

    out = io.BytesIO()
    work(Broken(), Gathering(out))  # type: ignore[arg-type]
    assert b"RuntimeError: nothing goes" in out.getvalue()


def test_of_a_regular_expression_what_it_has_found_is_marked_and_nothing_else_is_matched_on_the_screen() -> None:
    async def steps(_: Runs) -> None:
        run = SearchRun(SearchJob(DATA, Wanted("x+", regex=True)))
        run.take(Frame(items=[match(5)]))
        found = run.marked_at(5)
        assert found is not None
        assert found.pattern == b"x"
        assert run.marked_at(4) is None
        assert SearchRun(SearchJob(DATA, Wanted("x"))).marked_at(4) is not None

    within(steps)
