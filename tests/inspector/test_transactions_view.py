"""The transactions of a partition: their list, where Enter goes, and the command that is copied."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from textual.widgets import Static

import kafkalog
from kafkalog import AppendOrigin, ByteBufferMessageSet, Record, WritableLog
from kafkalog.inspector.jobs.runs import TransactionsRun
from kafkalog.inspector.views import transactions as view
from kafkalog.inspector.views.transactions import TransactionsView
from kafkalog.inspector.widgets.lazy_table import LazyTable
from kafkalog.record.control import ControlRecordType, end_transaction_marker
from tests.helpers.driving import Terminal, check_snapshot, drive

pytestmark = pytest.mark.tui


COMMAND = "kafka-transactions.sh --bootstrap-server HOST:9092 abort --topic v2-txn --partition 0 --start-offset 1411"


@pytest.fixture
def log(golden_logs: Path) -> Path:
    return golden_logs / "kafka-3.9" / "data" / "v2-txn-0"


@pytest.fixture
def _same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes."""
    monkeypatch.setattr(TransactionsRun, "seconds", property(lambda run: 0.0))


async def opened(at: Terminal) -> TransactionsView:
    await at.sees("[2 Seg")
    await at.press("7", sees="[7 T")
    await at.sees("done in")
    return at.app.screen.query_one(TransactionsView)


def detail(at: Terminal) -> str:
    return str(at.app.screen.query_one(TransactionsView).query_one(".command", Static).render())


def append(log: WritableLog, producer: int, sequence: int) -> None:
    data = ByteBufferMessageSet.from_records(
        [Record(b"v")], producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True
    )
    log.append_as_leader(data, 0)


def test_hanging_transactions_come_first_and_all_are_counted(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.sees("! hanging 1  open 0  aborted 18  committed 33  stable 1,411")
        assert at.lines[4].startswith("> ! hanging         1000      0         1,411")
        assert "40    5.2 KiB" in at.lines[4]
        await at.until(lambda: "longer ago than any transaction may take" in detail(at).replace("\n", " "))
        await at.press("down")
        await at.until(lambda: detail(at).startswith("aborted: offsets 1,365..1,410, in 2 batches"))

    drive(log, steps)


def test_the_command_that_aborts_is_shown_and_copied(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.until(lambda: detail(at).endswith(COMMAND))
        await at.press("c")
        await at.until(lambda: at.app.clipboard == COMMAND)
        await at.press("down", "y")
        await at.until(lambda: at.app.clipboard.startswith("aborted\t3\t0\t1,365\t"))
        await at.press("g", "m", "m", "c")
        await at.until(lambda: at.app.clipboard.count("\n") == 1 and at.app.clipboard.startswith(COMMAND))

    drive(log, steps)


def test_enter_goes_to_the_first_record_and_escape_comes_back(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("enter", sees="[5 Rec")
        await at.sees("> t       1411")
        await at.press("escape", sees="[7 T")
        await at.press("6", sees="[6 Hex")
        await at.sees("(offset 1,411)")

    drive(log, steps)


def test_transactions_are_sorted_by_a_column(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("l", "l", "l", "s", sees="^FIRST")
        await at.until(lambda: any(line.startswith("> ! hanging") for line in at.lines))
        await at.press("g")
        await at.until(lambda: "             0 " in at.lines[4] and detail(at).startswith("committed: offsets 0.."))

    drive(log, steps)


@pytest.mark.usefixtures("_same_time")
def test_transactions_are_read_again_when_the_log_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "PAUSE_SECONDS", 0.0)
    with kafkalog.open(tmp_path / "t-0", "a") as written:
        append(written, 7, 0)

        async def steps(at: Terminal) -> None:
            await opened(at)
            await at.sees("hanging 0  open 1  aborted 0  committed 0")
            await at.until(lambda: detail(at).startswith("open: its producer last wrote"))
            marker = end_transaction_marker(ControlRecordType.COMMIT, 7, 0, timestamp=int(time.time() * 1000))
            written.append_as_leader(marker, 0, AppendOrigin.COORDINATOR)
            await at.sees("hanging 0  open 0  aborted 0  committed 1")
            await at.until(lambda: detail(at).startswith("committed: offsets 0..1"))

        drive(tmp_path / "t-0", steps)


def test_escape_cancels_reading_and_r_begins_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = TransactionsRun.begin
    monkeypatch.setattr(TransactionsRun, "begin", lambda run: None)

    async def steps(at: Terminal) -> None:
        await at.sees("[2 Seg")
        await at.press("7", sees="begins …")
        await at.press("escape", sees="! cancelled at 0%")
        monkeypatch.setattr(TransactionsRun, "begin", real)
        await at.press("r", sees="done in")
        await at.press("escape", sees="[2 Seg")

    drive(log, steps)


def test_keys_do_no_harm_in_a_partition_without_transactions(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.sees("no transactions", "hanging 0  open 0  aborted 0  committed 0")
        await at.press("enter", "c", "down", "s", "m", "x")
        assert detail(at) == ""
        assert at.app.screen.query_one(LazyTable).is_attached

    drive(golden_logs / "kafka-3.9" / "data" / "v2-none-0", steps)


def test_damage_is_reported_below_the_transactions(log: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(log, tmp_path / "v2-txn-0")
    path = copied / f"{1335:020d}.log"
    data = bytearray(path.read_bytes())
    data[8:12] = b"\xff" * 4
    path.write_bytes(bytes(data))

    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.until(lambda: any(line.startswith("!") for line in at.lines[-6:-1]))

    drive(copied, steps)


def test_a_single_file_lists_transactions_without_a_marker_as_undecided(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.sees("t undecided", "committed 3")
        ends = "undecided: no marker in this file ends it; it begins at offset 1,411"
        await at.until(lambda: detail(at).startswith(ends))

    drive(log / f"{1335:020d}.log", steps)


@pytest.mark.usefixtures("_same_time")
@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
def test_the_transactions_look_as_approved(log: Path, size: tuple[int, int]) -> None:
    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.sees("committed 33", "start-offset 1411")
        await check_snapshot(at, "transactions")

    drive(log, steps, size=size)
