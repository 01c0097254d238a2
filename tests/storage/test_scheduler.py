"""Work done later: in order, once or again and again, in a thread that ends when it is told to."""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kafkalog.storage.scheduler import BackgroundScheduler, ImmediateScheduler, ScheduledTask

SECONDS = 180
LATER = 3_600_000


@pytest.fixture
def scheduler() -> Iterator[BackgroundScheduler]:
    scheduler = BackgroundScheduler("under test")
    yield scheduler
    scheduler.shutdown()
    assert running() == 0


def running() -> int:
    """How many threads of such schedulers there are."""
    return [each.name for each in threading.enumerate()].count("under test")


def done(scheduler: BackgroundScheduler) -> None:
    """Waits until all that is due has run."""
    event = threading.Event()
    scheduler.schedule("wait", event.set)
    assert event.wait(SECONDS)


def test_the_thread_starts_with_the_first_task(scheduler: BackgroundScheduler) -> None:
    assert BackgroundScheduler("under test").shutdown() is None
    assert running() == 0
    done(scheduler)
    assert running() == 1


def test_tasks_that_are_due_run_in_the_order_in_which_they_came_in_one_other_thread(scheduler) -> None:
    ran: list[tuple[int, int]] = []
    for number in range(100):
        scheduler.schedule("count", lambda number=number: ran.append((number, threading.get_ident())))
    done(scheduler)
    assert [number for number, _ in ran] == list(range(100))
    assert len({thread for _, thread in ran} - {threading.get_ident()}) == 1


def test_a_task_waits_for_its_delay_and_others_overtake_it(
    scheduler: BackgroundScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, event, start = [], threading.Event(), time.monotonic()
    with monkeypatch.context() as patch:
        # All at the same time, however long that takes.
        patch.setattr("kafkalog.storage.scheduler.time", SimpleNamespace(monotonic=lambda: start))
        scheduler.schedule("late", lambda: (ran.append(("late", time.monotonic())), event.set()), delay_ms=60)
        scheduler.schedule("early", lambda: ran.append(("early", time.monotonic())), delay_ms=20)
        scheduler.schedule("at once", lambda: ran.append(("at once", time.monotonic())), delay_ms=-5)
    assert event.wait(SECONDS)
    assert [name for name, _ in ran] == ["at once", "early", "late"]
    assert [when - start >= delay for (_, when), delay in zip(ran, (0, 0.02, 0.06), strict=True)] == [True] * 3


def test_a_periodic_task_runs_again_until_it_is_cancelled(scheduler: BackgroundScheduler) -> None:
    ran, tasks, event = [], queue.SimpleQueue[ScheduledTask](), threading.Event()

    def count() -> None:
        ran.append(1)
        if len(ran) == 5:
            assert tasks.get(timeout=SECONDS).cancel()
            event.set()

    task = scheduler.schedule("count", count, period_ms=1)
    tasks.put(task)
    assert event.wait(SECONDS)
    for _ in range(5):
        done(scheduler)
    assert len(ran) == 5
    assert not task.is_pending


def test_a_periodic_task_that_takes_longer_than_its_period_does_not_keep_others_waiting_forever(scheduler) -> None:
    task = scheduler.schedule("slow", lambda: time.sleep(0.01), period_ms=1)
    for _ in range(5):
        done(scheduler)
    assert task.cancel()


def test_a_cancelled_task_does_not_run_and_one_that_ran_cannot_be_cancelled(scheduler: BackgroundScheduler) -> None:
    ran: list[str] = []
    hold, held = threading.Event(), threading.Event()
    scheduler.schedule("hold", lambda: (held.set(), hold.wait(SECONDS)))
    assert held.wait(SECONDS)
    first, second = (scheduler.schedule(name, lambda name=name: ran.append(name)) for name in ("first", "second"))
    assert first.cancel()
    assert not first.cancel()
    hold.set()
    done(scheduler)
    assert ran == ["second"]
    assert not second.cancel()


@pytest.mark.parametrize("error", [ValueError("oh"), SystemExit(3), KeyboardInterrupt("oh")])
def test_what_a_task_raises_is_logged_and_the_others_go_on(scheduler, caplog, error) -> None:
    ran: list[int] = []

    def fail() -> None:
        ran.append(1)
        raise error

    again = scheduler.schedule("unlucky", fail, period_ms=1)
    while len(ran) < 3:
        done(scheduler)
    again.cancel()
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(failures) >= 2
    assert failures[0].getMessage() == "task unlucky failed"
    assert failures[0].exc_info[1] is error


def test_a_task_may_schedule_another(scheduler: BackgroundScheduler) -> None:
    event = threading.Event()
    scheduler.schedule("outer", lambda: scheduler.schedule("inner", event.set))
    assert event.wait(SECONDS)


# --- the end


@pytest.mark.parametrize(("run_pending", "expected"), [(True, ["due 1", "due 2"]), (False, [])])
def test_shutdown_runs_single_tasks_that_are_due_and_drops_the_others(scheduler, run_pending, expected) -> None:
    ran: list[str] = []
    hold, held = threading.Event(), threading.Event()
    scheduler.schedule("hold", lambda: (held.set(), hold.wait(SECONDS)))
    assert held.wait(SECONDS)
    tasks = [
        scheduler.schedule("due 1", lambda: ran.append("due 1")),
        scheduler.schedule("later", lambda: ran.append("later"), delay_ms=LATER),
        scheduler.schedule("periodic", lambda: ran.append("periodic"), period_ms=1),
        scheduler.schedule("due 2", lambda: ran.append("due 2")),
    ]
    ending = threading.Thread(target=scheduler.shutdown, kwargs={"run_pending": run_pending})
    ending.start()
    while tasks[1].is_pending:  # what is not due yet is dropped first
        time.sleep(0.001)
    hold.set()
    ending.join()
    assert ran == expected
    assert not any(task.is_pending for task in tasks)


def test_a_task_that_runs_when_shutdown_is_called_is_waited_for_and_runs_only_this_time(scheduler) -> None:
    ran, began = [], threading.Event()
    task = scheduler.schedule("slow", lambda: (began.set(), time.sleep(0.05), ran.append(1)), period_ms=1)
    assert began.wait(SECONDS)
    scheduler.shutdown()
    assert len(ran) >= 1
    count = len(ran)
    assert not task.is_pending
    assert running() == 0
    assert len(ran) == count


def test_what_comes_after_shutdown_is_ignored_and_said_so(scheduler: BackgroundScheduler, caplog) -> None:
    done(scheduler)
    scheduler.shutdown()
    scheduler.shutdown()
    with caplog.at_level(logging.INFO):
        task = scheduler.schedule("too late", pytest.fail)
    assert not task.is_pending
    assert "too late is ignored" in caplog.text


def test_a_task_may_shut_its_scheduler_down(scheduler: BackgroundScheduler) -> None:
    event = threading.Event()
    scheduler.schedule("last", lambda: (scheduler.shutdown(), event.set()))
    assert event.wait(SECONDS)


def test_many_threads_may_hand_in_and_all_that_is_taken_is_run(scheduler: BackgroundScheduler) -> None:
    ran: list[int] = []

    def hand_in() -> None:
        for _ in range(200):
            scheduler.schedule("count", lambda: ran.append(1))

    threads = [threading.Thread(target=hand_in) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    scheduler.shutdown()
    assert len(ran) == 1000


FORGOTTEN = """
import time
from kafkalog.storage.scheduler import BackgroundScheduler
scheduler = BackgroundScheduler()
scheduler.schedule("much later", lambda: print("never"), delay_ms=3_600_000)
scheduler.schedule("again", lambda: None, period_ms=5)
scheduler.schedule("at work", lambda: (time.sleep(0.1), print("done")))
"""
FORKED = """
import os, sys
from kafkalog.storage.scheduler import BackgroundScheduler
scheduler = BackgroundScheduler()
scheduler.schedule("later", lambda: print("never"), delay_ms=3_600_000)
scheduler._changed.acquire()  # as if the thread had it just then
child = os.fork()
if child == 0:
    task = scheduler.schedule("in the child", lambda: print("never"))
    scheduler.shutdown()
    sys.exit(task.is_pending)
scheduler._changed.release()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
scheduler.shutdown()
"""


@pytest.mark.parametrize(("program", "printed"), [(FORGOTTEN, "done"), (FORKED, "0")])
def test_a_program_ends_with_its_work_done_if_it_forgets_to_shut_down_or_forks(program: str, printed: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]  # Python 3.12 warns of forking
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS, env=environment)
    assert ended.stdout.strip() == printed
    assert ended.stderr == ""


# --- at once


def test_the_immediate_scheduler_runs_single_tasks_here_and_now_whatever_their_delay() -> None:
    scheduler, ran = ImmediateScheduler(), []
    single = scheduler.schedule("single", lambda: ran.append(threading.get_ident()), delay_ms=LATER)
    periodic = scheduler.schedule("periodic", lambda: ran.append(0), period_ms=1)
    assert ran == [threading.get_ident()]
    assert not single.is_pending
    assert not periodic.is_pending


def test_the_immediate_scheduler_hands_errors_to_the_caller_and_rests_after_shutdown() -> None:
    scheduler = ImmediateScheduler()
    with pytest.raises(ZeroDivisionError):
        scheduler.schedule("wrong", lambda: 1 / 0)
    scheduler.shutdown()
    scheduler.schedule("too late", pytest.fail)
