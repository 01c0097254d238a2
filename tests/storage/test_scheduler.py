"""Schedulers: tasks that run once or repeatedly, in order, in a thread that ends with `shutdown`."""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
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
    """Return the number of threads of such schedulers."""
    return [each.name for each in threading.enumerate()].count("under test")


def done(scheduler: BackgroundScheduler) -> None:
    """Wait until all tasks that are due have run."""
    event = threading.Event()
    scheduler.schedule("wait", event.set)
    assert event.wait(SECONDS)


def blocked(scheduler: BackgroundScheduler) -> threading.Event:
    """Keep the thread busy until the event is set."""
    busy, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        busy.set()
        go_on.wait(SECONDS)

    scheduler.schedule("wait", wait)
    assert busy.wait(SECONDS)
    return go_on


def test_the_thread_starts_with_the_first_task(scheduler: BackgroundScheduler) -> None:
    BackgroundScheduler("under test").shutdown()
    assert running() == 0
    done(scheduler)
    assert running() == 1


def test_due_tasks_run_in_order_of_arrival_in_one_thread(scheduler: BackgroundScheduler) -> None:
    ran: list[tuple[int, int]] = []

    def note(number: int) -> None:
        ran.append((number, threading.get_ident()))

    for number in range(100):
        scheduler.schedule("count", partial(note, number))
    done(scheduler)
    assert [number for number, _ in ran] == list(range(100))
    assert len({thread for _, thread in ran} - {threading.get_ident()}) == 1


def test_delayed_tasks_run_in_order_of_their_delay(
    scheduler: BackgroundScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, float]] = []
    event, start = threading.Event(), time.monotonic()

    def note(name: str) -> None:
        ran.append((name, time.monotonic()))
        if name == "late":
            event.set()

    with monkeypatch.context() as patch:
        # All at the same time, however long that takes.
        patch.setattr("kafkalog.storage.scheduler.time", SimpleNamespace(monotonic=lambda: start))
        for name, delay_ms in (("late", 60), ("early", 20), ("at once", -5)):
            scheduler.schedule(name, partial(note, name), delay_ms=delay_ms)
    assert event.wait(SECONDS)
    assert [name for name, _ in ran] == ["at once", "early", "late"]
    assert [when - start >= delay for (_, when), delay in zip(ran, (0, 0.02, 0.06), strict=True)] == [True] * 3


def test_a_periodic_task_runs_again_until_it_is_cancelled(scheduler: BackgroundScheduler) -> None:
    ran: list[int] = []
    tasks, event = queue.SimpleQueue[ScheduledTask](), threading.Event()

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


def test_a_periodic_task_slower_than_its_period_does_not_starve_others(scheduler: BackgroundScheduler) -> None:
    task = scheduler.schedule("slow", lambda: time.sleep(0.01), period_ms=1)
    for _ in range(5):
        done(scheduler)
    assert task.cancel()


def test_a_cancelled_task_does_not_run_and_one_that_ran_cannot_be_cancelled(scheduler: BackgroundScheduler) -> None:
    ran: list[str] = []
    go_on = blocked(scheduler)
    first, second = (scheduler.schedule(name, partial(ran.append, name)) for name in ("first", "second"))
    assert first.cancel()
    assert not first.cancel()
    go_on.set()
    done(scheduler)
    assert ran == ["second"]
    assert not second.cancel()


@pytest.mark.parametrize("error", [ValueError("oh"), SystemExit(3), KeyboardInterrupt("oh")])
def test_an_exception_in_a_task_is_logged_and_the_thread_goes_on(
    scheduler: BackgroundScheduler, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    ran: list[int] = []
    thrice = threading.Event()

    def fail() -> None:
        ran.append(1)
        if len(ran) == 3:
            thrice.set()
        raise error

    again = scheduler.schedule("unlucky", fail, period_ms=1)
    assert thrice.wait(SECONDS)
    again.cancel()
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(failures) >= 2
    assert failures[0].getMessage() == "task unlucky failed"
    assert failures[0].exc_info is not None
    assert failures[0].exc_info[1] is error


def test_a_task_may_schedule_another(scheduler: BackgroundScheduler) -> None:
    event = threading.Event()
    scheduler.schedule("outer", lambda: scheduler.schedule("inner", event.set))
    assert event.wait(SECONDS)


# --- the end


@pytest.mark.parametrize(("run_pending", "expected"), [(True, ["due 1", "due 2"]), (False, [])])
def test_shutdown_runs_single_tasks_that_are_due_and_drops_the_others(
    scheduler: BackgroundScheduler, run_pending: bool, expected: list[str]
) -> None:
    ran: list[str] = []
    go_on = blocked(scheduler)
    tasks = [
        scheduler.schedule("due 1", lambda: ran.append("due 1")),
        scheduler.schedule("later", lambda: ran.append("later"), delay_ms=LATER),
        scheduler.schedule("periodic", lambda: ran.append("periodic"), period_ms=1),
        scheduler.schedule("due 2", lambda: ran.append("due 2")),
    ]
    ending = threading.Thread(target=scheduler.shutdown, kwargs={"run_pending": run_pending})
    ending.start()
    give_up = time.monotonic() + SECONDS
    while tasks[1].is_pending:  # shutdown drops it before it waits for the thread
        assert time.monotonic() < give_up, f"the task was not dropped within {SECONDS} s"
        time.sleep(0.001)
    go_on.set()
    ending.join()
    assert ran == expected
    assert not any(task.is_pending for task in tasks)


def test_shutdown_waits_for_the_running_task_and_does_not_repeat_it(scheduler: BackgroundScheduler) -> None:
    ran: list[int] = []
    began = threading.Event()

    def slow() -> None:
        began.set()
        time.sleep(0.05)
        ran.append(1)

    task = scheduler.schedule("slow", slow, period_ms=1)
    assert began.wait(SECONDS)
    scheduler.shutdown()
    assert len(ran) >= 1
    count = len(ran)
    assert not task.is_pending
    assert running() == 0
    assert len(ran) == count


def test_tasks_after_shutdown_are_ignored_and_logged(
    scheduler: BackgroundScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    done(scheduler)
    scheduler.shutdown()
    scheduler.shutdown()
    with caplog.at_level(logging.INFO):
        task = scheduler.schedule("too late", pytest.fail)
    assert not task.is_pending
    assert "too late is ignored" in caplog.text


def test_a_task_may_shut_its_scheduler_down(scheduler: BackgroundScheduler) -> None:
    event = threading.Event()

    def last() -> None:
        scheduler.shutdown()
        event.set()

    scheduler.schedule("last", last)
    assert event.wait(SECONDS)


def test_every_task_scheduled_by_many_threads_is_run(scheduler: BackgroundScheduler) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(("program", "printed"), [(FORGOTTEN, "done"), (FORKED, "0")])
def test_a_program_ends_with_its_work_done_if_it_forgets_to_shut_down_or_forks(program: str, printed: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]  # Python 3.12 warns of forking
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS, env=environment)
    assert ended.stdout.strip() == printed
    assert ended.stderr == ""


# --- at once


def test_the_immediate_scheduler_runs_single_tasks_at_once_in_the_calling_thread() -> None:
    scheduler = ImmediateScheduler()
    ran: list[int] = []
    single = scheduler.schedule("single", lambda: ran.append(threading.get_ident()), delay_ms=LATER)
    periodic = scheduler.schedule("periodic", lambda: ran.append(0), period_ms=1)
    assert ran == [threading.get_ident()]
    assert not single.is_pending
    assert not periodic.is_pending


def test_the_immediate_scheduler_raises_errors_and_ignores_tasks_after_shutdown() -> None:
    scheduler = ImmediateScheduler()
    with pytest.raises(ZeroDivisionError):
        scheduler.schedule("wrong", lambda: 1 / 0)
    scheduler.shutdown()
    scheduler.schedule("too late", pytest.fail)
