"""`kafkalog verify` with several processes, and slowed down."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafkalog import LogManager, Record
from kafkalog.fsck import Options, Summary, processes, verify_path, verifying
from tests.damage.kinds import KINDS
from tests.damage.ways import CannotDamage
from tests.helpers.golden import unpacked
from tests.helpers.processes import PROC, descendants, is_gone
from tests.helpers.running import COMMAND, Kafkalog, batch, segment

FINDINGS = 400


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that has a partition for each kind of damage, beside those of the broker."""
    golden = unpacked() / "kafka-3.9" / "data"
    data = tmp_path_factory.mktemp("damaged") / "data"
    shutil.copytree(golden, data)
    for number, kind in enumerate(each for each in KINDS if not each.alone):
        name = f"damaged-{number}"
        shutil.copytree(golden / kind.partition, data / name)
        try:
            kind.damage(data, name)
        except CannotDamage:
            shutil.rmtree(data / name)
    return data


@pytest.fixture
def four(tmp_path: Path) -> Path:
    """A data directory with partitions of one, two, three and four batches, all of them damaged."""
    data = tmp_path / "data"
    for number in range(4):
        whole = b"".join(batch(b"value", offset=offset) for offset in range(FINDINGS * (number + 1)))
        segment(data / f"orders-{number}", 0, whole.replace(b"value", b"other"))
    return data


# --- the same as with one process


@pytest.mark.slow
def test_findings_and_totals_are_those_of_one_process(damaged: Path) -> None:
    def checked(jobs: int) -> tuple[list[str], dict[str, Any], int]:
        done = list[int]()
        options = Options(deep=True, jobs=jobs, progress=done.append, summary=Summary())
        findings = [f"{each!r}" for each in verify_path(damaged, options)]
        return findings, {**options.summary.as_dict(), "seconds": None}, sum(done)

    one = checked(1)
    assert len(one[0]) > 100
    assert len(one[1]["verdicts"]) > 50
    assert checked(2) == one


@pytest.mark.slow
@pytest.mark.parametrize("command", ["explain", "repair"])
def test_two_processes_explain_and_plan_as_one_does(kafkalog: Kafkalog, damaged: Path, command: str) -> None:
    one, two = (kafkalog(command, "-o", "json", "-j", jobs, damaged) for jobs in ("1", "2"))
    assert one.out == two.out
    assert one.code == two.code == 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_the_output_is_that_of_one_process(kafkalog: Kafkalog, damaged: Path, form: str) -> None:
    def ran(*options: str) -> tuple[int, str, str]:
        code, out, err = kafkalog("verify", "-o", form, *options, damaged, damaged / "damaged-0")
        return code, re.sub(r'"seconds": ?[0-9.]+|in [0-9.]+ s(, [^:]+/s)?:', "", out), err

    some = ("-t", "damaged-1*")
    assert ran("-j", "2", *some) == ran(*some)
    assert ran("-j", "3", "--only", "state,layout", *some) == ran("--only", "state,layout", *some)


@pytest.mark.slow
@pytest.mark.parametrize("options", [("-q",), ("--strict", "-q")])
def test_the_exit_code_is_that_of_one_process(kafkalog: Kafkalog, four: Path, options: tuple[str, ...]) -> None:
    assert kafkalog("verify", "-j", "2", *options, four) == kafkalog("verify", *options, four) == (1, "", "")
    (four / "orders-1" / f"{0:020}.log").unlink()
    (four / "orders-1" / f"{0:020}.log").mkdir()
    assert kafkalog("verify", "-j", "2", *options, four) == kafkalog("verify", *options, four) == (3, "", "")


# --- how the work is distributed


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tasks in the order in which they are begun; they run in this process."""
    tasks = list[Any]()

    def each_result(work: Callable[..., Any], given: Sequence[Any], jobs: int, progress: Any) -> Iterator[Any]:
        assert jobs == 2
        for task in given:
            tasks.append(task)
            yield work(task, progress)

    monkeypatch.setattr(processes, "each_result", each_result)
    return tasks


def test_the_largest_partitions_are_checked_first_and_findings_keep_their_order(four: Path, begun: list[Any]) -> None:
    expected = list(verify_path(four))
    assert list(verify_path(four, Options(jobs=2))) == expected
    assert [task.place.name for task in begun] == ["orders-3", "orders-2", "orders-1", "orders-0"]


@pytest.mark.slow
def test_processes_share_the_throughput_and_one_that_is_left_has_all_of_it(tmp_path: Path) -> None:
    with LogManager(tmp_path, "a") as manager:
        for number, batches in enumerate([1, 1, 1, 2000]):
            log = manager.create(f"orders-{number}")
            for _ in range(batches):
                log.append([Record(b"v" * 1000)])
        options = Options(jobs=4, throttle=log.size_in_bytes / 2, summary=Summary())
    begun = time.monotonic()
    list(verify_path(tmp_path, options))
    # All but the largest partition end at once; a quarter of the rate for it would take 8 seconds.
    assert 1.9 < time.monotonic() - begun < 6


# --- slowed down


class Clock:
    """A clock that only sleep moves on, and `work`, the seconds that a piece of work takes."""

    def __init__(self) -> None:
        self.now = self.slept = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds
        self.slept += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(verifying, "time", clock)
    return clock


@pytest.mark.parametrize("place", [".", "orders-0", f"orders-0/{0:020}.log"])
def test_a_check_takes_as_long_as_its_throughput_allows(four: Path, clock: Clock, place: str) -> None:
    options = Options(throttle=1000, summary=Summary())
    list(verify_path(four / place, options))
    assert clock.slept == pytest.approx(options.summary.bytes / 1000)
    assert options.summary.bytes > 1000


def test_swap_files_are_read_no_faster(four: Path, clock: Clock) -> None:
    log = four / "orders-0" / f"{0:020}.log"
    log.with_name(f"{log.name}.swap").write_bytes(log.read_bytes().replace(b"other", b"value"))
    options = Options(throttle=1000, summary=Summary())
    list(verify_path(four / "orders-0", options))
    assert clock.slept == pytest.approx((options.summary.bytes + log.stat().st_size) / 1000)


def test_work_that_takes_longer_than_it_may_is_not_slowed_down_nor_made_up_for(four: Path, clock: Clock) -> None:
    def work(_: int) -> None:
        clock.now += next(seconds)

    # Partitions of 1, 2, 3 and 4 parts: the second takes too long, so no sleep; the others wait for the rest.
    size = (four / "orders-0" / f"{0:020}.log").stat().st_size
    seconds = iter([0.5, 10.0, 1.0, 4.0])
    list(verify_path(four, Options(throttle=size, progress=work)))
    assert clock.slept == pytest.approx(0.5 + 0 + 2 + 0)


@pytest.mark.parametrize("rate", ["50GB", "50GB/s", "1G/S", "1073741824"])
def test_the_command_accepts_a_throughput(kafkalog: Kafkalog, data_dir: Path, rate: str) -> None:
    assert kafkalog("verify", "--throttle", rate, data_dir).code == 0


@pytest.mark.parametrize("options", [("--throttle", "0"), ("--throttle", "fast"), ("--throttle", "-1"), ("-j", "0")])
def test_no_throughput_and_no_process_are_wrong_usage(
    kafkalog: Kafkalog, data_dir: Path, options: tuple[str, str]
) -> None:
    assert kafkalog("verify", *options, data_dir).code == 2


# --- checks that are ended early


def slowly_at_first(task: Any, advance: Any) -> Any:
    """Check a partition, the first of all in a minute."""
    if task.place.name == "orders-0":
        time.sleep(60)
    return verifying._check_partition(task, advance)


@pytest.fixture
def running(four: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`kafkalog verify -j 2` in which the check of orders-0 takes a minute, and the others have been checked."""
    code = (
        "import kafkalog.cli, tests.cli.test_verify_in_processes as slow\n"
        "slow.verifying._check_partition = slow.slowly_at_first\n"
        f"kafkalog.cli.main(['verify', '-j', '2', {str(four)!r}])"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    started = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while sum(each.stat().st_size > 0 for each in temporary.glob("*/*")) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    # The parent looks for results ten times a second.
    time.sleep(0.5)
    yield started
    started.kill()
    started.communicate()


def workers_of(process: int) -> list[int]:
    return [
        each for each in descendants(process) if b"resource_tracker" not in Path(f"/proc/{each}/cmdline").read_bytes()
    ]


@pytest.mark.slow
@pytest.mark.skipif(not PROC.exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, "killed worker"])
def test_a_check_that_is_ended_tells_what_it_has_found_and_leaves_nothing_behind(
    running: subprocess.Popen[str], tmp_path: Path, how: signal.Signals | str
) -> None:
    workers = workers_of(running.pid)
    assert len(workers) == 2
    began = time.monotonic()
    if isinstance(how, signal.Signals):
        running.send_signal(how)
    else:
        os.kill(workers[0], signal.SIGKILL)
    out, err = running.communicate(timeout=30)
    assert time.monotonic() - began < 10
    code, message = {
        signal.SIGINT: (130, "kafkalog: interrupted\n"),
        signal.SIGTERM: (143, "kafkalog: ended by SIGTERM\n"),
        "killed worker": (3, "kafkalog: a worker process was killed, perhaps for lack of memory\n"),
    }[how]
    assert (running.returncode, err) == (code, message)
    assert out.count("orders-3/00000000000000000000.log:") == 4 * FINDINGS
    assert out.splitlines()[-1].startswith("INCOMPLETE, so far: 3 files, ")
    assert all(map(is_gone, workers))
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_check_that_sleeps_is_ended_at_once(four: Path, how: signal.Signals, code: int) -> None:
    # The first findings are printed before the first sleep, which takes hours.
    command = [*COMMAND, "verify", "--throttle", "1", str(four)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as check:
        assert check.stdout is not None
        assert "crc-mismatch" in check.stdout.readline()
        time.sleep(0.5)
        check.send_signal(how)
        out, _ = check.communicate(timeout=30)
    assert check.returncode == code
    assert out.splitlines()[-1].startswith("INCOMPLETE, so far: 1 file, ")


@pytest.mark.slow
def test_a_full_temporary_directory_is_an_error_that_names_it(four: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    most = 64 << 10
    ran = subprocess.run(
        [*COMMAND, "verify", "-j", "2", four],
        env={**os.environ, "TMPDIR": str(temporary)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3
    assert re.fullmatch(rf"kafkalog: {temporary}/[^:]*: no temporary file .*TMPDIR.*: File too large\n", ran.stderr)
    assert ran.stdout.splitlines()[-1].startswith("INCOMPLETE")
    assert list(temporary.iterdir()) == []
