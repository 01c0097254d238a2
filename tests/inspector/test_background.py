"""Jobs beside the screen: what they report, and how they end."""

from __future__ import annotations

import asyncio
import io
import pickle
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kafkalog.fsck import Severity
from kafkalog.inspector.jobs.jobs import Emit, Ended, SearchJob, StatisticsJob, VerifyJob, Wanted
from kafkalog.inspector.jobs.process import FRAME_ITEMS, Frame, work
from kafkalog.inspector.jobs.runs import KEPT, Run, Runs, SearchRun, StatisticsRun, VerifyRun
from kafkalog.scan.progress import Progress
from kafkalog.scan.search import Match, SearchProgress
from tests.helpers import damage
from tests.helpers.golden import unpacked
from tests.helpers.inspected import segment_file
from tests.helpers.jobs import within
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


def test_verify_reports_the_position_of_damage(tmp_path: Path) -> None:
    batches = damage.log()
    path = segment_file(tmp_path / "a-0", damage.flipped(b"".join(batches), damage.start_of(batches, 3) + 100, 2))

    async def steps(runs: Runs) -> None:
        run = runs.start(VerifyRun(VerifyJob(path.parent)))
        await ended(run)
        assert (run.state, run.problem) == ("finished", None)
        assert [(each.code, each.position) for each in run.findings] == [("crc-mismatch", damage.start_of(batches, 3))]
        assert run.counts[Severity.ERROR] == 1
        assert run.progress.done_bytes == run.progress.total_bytes == path.stat().st_size
        assert runs.of(VerifyRun, path.parent) is run

    within(steps)


def test_a_search_reports_all_matches_in_the_order_of_their_offsets() -> None:
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


def test_a_search_lists_the_first_matches_and_keeps_the_offsets_of_all(tmp_path: Path) -> None:
    path = big_file(tmp_path, batches=3)

    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(SearchJob(path, Wanted("needle"), listed=700)))
        await ended(run)
        assert (len(run.matches), len(run.offsets)) == (700, 3_000)
        assert run.match_at(699) == run.matches[-1]
        assert run.match_at(700) is None
        assert run.beside(2_000, True) == 2_001

    within(steps)


def test_statistics_count_all_records(tmp_path: Path) -> None:
    path = big_file(tmp_path, batches=3)

    async def steps(runs: Runs) -> None:
        run = runs.start(StatisticsRun(StatisticsJob(path)))
        await ended(run)
        assert run.statistics is not None
        assert run.statistics.records == 3_000
        assert run.statistics.progress.is_done

    within(steps)


class EndlessSearch(SearchJob):
    """Finds something in record after record, for ever."""

    def run(self, emit: Emit) -> None:
        for i in count():
            emit(match(i))


def test_a_cancelled_run_ends_at_once_and_keeps_its_matches(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(SearchRun(EndlessSearch(tmp_path, Wanted("needle"))))
        while not run.matches:
            await run.changed()
        run.cancel()
        assert (run.state, run.is_running) == ("cancelled", False)
        found = len(run.offsets)
        await asyncio.sleep(0.05)
        assert len(run.offsets) == found > 0

    within(steps)


def test_a_run_may_be_cancelled_before_its_job_begins() -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(VerifyRun(VerifyJob(DATA)))
        run.cancel()
        await ended(runs.start(StatisticsRun(StatisticsJob(DATA / "v2-none-0"))))
        assert (run.state, run.findings, run.problem) == ("cancelled", [], None)

    within(steps)


def test_a_job_that_cannot_be_started_fails_and_the_next_one_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise OSError("no such program")

    async def steps(runs: Runs) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("kafkalog.inspector.jobs.runs.Process", refuse)
            run = runs.start(VerifyRun(VerifyJob(DATA)))
            await ended(run)
            assert (run.state, run.problem) == ("failed", "no such program")
        again = runs.start(VerifyRun(VerifyJob(DATA / "v2-none-0")))
        await ended(again)
        assert again.state == "finished"

    within(steps)


def test_a_run_reports_a_path_that_cannot_be_opened(tmp_path: Path) -> None:
    async def steps(runs: Runs) -> None:
        run = runs.start(StatisticsRun(StatisticsJob(tmp_path / "gone-0")))
        await ended(run)
        assert run.statistics is not None
        assert "gone-0" in (run.statistics.problem or "")

    within(steps)


def test_a_new_run_cancels_the_one_of_its_kind_and_a_few_are_kept(tmp_path: Path) -> None:
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


def test_fast_events_are_gathered_into_few_frames_without_loss() -> None:
    class Fast(SearchJob):
        def run(self, emit: Emit) -> None:
            for i in range(3 * FRAME_ITEMS):
                emit(match(i))
                emit(SearchProgress(i, 10, i))

    out = io.BytesIO()
    work(Fast(DATA, Wanted("x")), out)
    size = out.tell()
    out.seek(0)
    frames = []
    while out.tell() < size:
        frames.append(pickle.load(out))
    assert [each.offset for frame in frames for each in frame.items] == list(range(3 * FRAME_ITEMS))
    assert [offset for frame in frames for offset in frame.offsets] == list(range(3 * FRAME_ITEMS))
    assert [frame.ended for frame in frames] == [None] * (len(frames) - 1) + [Ended()]
    assert len(frames) < 20


def test_an_unexpected_error_in_a_job_is_its_last_frame() -> None:
    class Broken(VerifyJob):
        def run(self, emit: Emit) -> None:
            emit(Progress(1, 2))
            raise RuntimeError("nothing goes")

    out = io.BytesIO()
    work(Broken(DATA), out)
    assert b"RuntimeError: nothing goes" in out.getvalue()


def test_a_regular_expression_highlights_only_the_text_that_it_has_matched() -> None:
    async def steps(_: Runs) -> None:
        run = SearchRun(SearchJob(DATA, Wanted("x+", regex=True)))
        run.take(Frame(items=[match(5)]))
        found = run.marked_at(5)
        assert found is not None
        assert found.pattern == b"x"
        assert run.marked_at(4) is None
        assert SearchRun(SearchJob(DATA, Wanted("x"))).marked_at(4) is not None

    within(steps)
