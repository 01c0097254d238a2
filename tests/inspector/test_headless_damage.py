"""Headless output on unreadable files, damage and hanging transactions: names, reasons and exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog import FileMessageSet
from kafkalog.inspector import headless
from kafkalog.inspector.jobs.jobs import Wanted
from kafkalog.inspector.model import partitions
from kafkalog.inspector.model.model import Model
from kafkalog.inspector.model.types import TopicRow
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from tests.helpers.damage import flipped, start_of
from tests.helpers.damage import log as damaged_log
from tests.helpers.inspected import all_records, read_through, reader_of, segment_file

# Bytes that are no log.
GARBAGE = bytes((i * 37 + i // 256) % 251 for i in range(5_000))


def document(path: Path, screen: str, capsys: pytest.CaptureFixture[str], code: int) -> dict[str, Any]:
    assert headless.show(path, screen, "json", find=Wanted("nothing")) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def data_dir(golden_logs: Path, tmp_path: Path) -> Path:
    """Of a broker's partitions some, with the checkpoints of all."""
    source, target = golden_logs / "kafka-3.9" / "data", tmp_path / "data"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__*", "v2-[!ntg]*"))
    return target


def remove_all_but(directory: Path, *bases: int) -> None:
    for path in directory.iterdir():
        if path.stem.isdecimal() and int(path.stem) not in bases:
            path.unlink()


@pytest.fixture
def unreadable(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A segment that the user may not read, between others."""
    remove_all_but(data_dir / "v2-none-0", 0, 128, 1152)
    path = data_dir / "v2-none-0" / f"{128:020d}.log"

    def refused(file: Path, **options: Any) -> FileMessageSet:
        if file == path:
            raise PermissionError(13, "Permission denied", str(path))
        return FileMessageSet(file, **options)

    monkeypatch.setattr("kafkalog.inspector.model.segment_file.FileMessageSet", refused)
    return path


@pytest.mark.parametrize("screen", ["map", "hex"])
def test_a_segment_without_permission_is_reported_and_the_others_are_shown(
    screen: str, unreadable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(unreadable.parent, screen, capsys, 1)
    assert f"Permission denied: '{unreadable}'" in found["problem"]
    segments = {row["segment"] for row in found["rows"]}
    assert segments == {0, 1152}
    assert headless.show(unreadable.parent, screen, "text") == 1
    assert f"problem: [Errno 13] Permission denied: '{unreadable}'" in capsys.readouterr().out


@pytest.mark.parametrize("screen", ["map", "hex"])
def test_rows_name_their_segment(screen: str, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remove_all_but(data_dir / "v2-none-0", 0, 361, 1152)
    found = document(data_dir / "v2-none-0", screen, capsys, 0)
    assert {row["segment"] for row in found["rows"]} == {0, 361, 1152}
    assert found["rows"][0]["segment"] == 0
    assert found.get("problem") is None


def test_a_cell_of_the_map_in_which_no_batch_begins_has_none(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = document(data_dir / "v2-none-0", "map", capsys, 0)["rows"]
    assert {row["first_row"] for row in rows if row["segment"] == 1152} == {0, 1, None}


@pytest.mark.parametrize("screen", ["segments", "map", "hex", "statistics", "search"])
def test_garbage_is_a_problem_on_every_screen(screen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = segment_file(tmp_path / "t-0", GARBAGE, 0)
    document(path.parent, screen, capsys, 1)


@pytest.mark.parametrize("screen", ["segments", "map", "hex", "statistics", "search"])
def test_a_damaged_lone_file_is_a_problem_on_every_screen(
    screen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = b"".join(damaged_log())
    document(segment_file(tmp_path, flipped(data, start_of(damaged_log(), 3) + 300, 0)), screen, capsys, 1)


def test_search_and_statistics_count_the_same_as_unreadable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batches = damaged_log()
    data = flipped(b"".join(batches), start_of(batches, 3) + 300, 0)
    # Bytes in place of the first batch, a checksum that does not hold, and a torn tail.
    data = GARBAGE[: len(batches[0])] + data[len(batches[0]) : -20]
    path = segment_file(tmp_path / "t-0", data)
    counts = [document(path.parent, screen, capsys, 1)["unreadable"] for screen in ("search", "statistics")]
    assert counts == [3, 3]


def test_a_torn_tail_is_neither_a_record_nor_a_batch_of_its_segment(data_dir: Path) -> None:
    path = data_dir / "v2-none-0" / f"{1152:020d}.log"
    path.write_bytes(path.read_bytes()[:-20])
    model = Model(path.parent)
    reader = model.partition().segment(1152)
    read_through(reader)
    row = model.partition().refresh().segments[-1]
    assert (row.records, row.batches) == (45, 1)
    model.close()


def test_records_of_lost_bytes_at_the_start_have_an_offset_of_their_segment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = segment_file(tmp_path / "t-0", GARBAGE, 4656)
    reader = reader_of(path)
    assert [row.offset for row in all_records(reader)] == [4656]
    assert [getattr(reader.record(0), "offset", None)] == [4656]


def rows_of(data_dir: Path) -> dict[str, TopicRow]:
    model = Model(data_dir)
    rows = {row.name: row for row in model.topics()}
    model.close()
    return rows


def test_a_log_that_ends_before_its_checkpoints_is_damaged_and_the_others_are_not(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = data_dir / "v2-none-0" / f"{1152:020d}.log"
    torn.write_bytes(torn.read_bytes()[:-20])
    # After a clean stop the index of that segment would be the worse damage.
    (data_dir / CLEAN_SHUTDOWN_FILE).unlink()
    rows = rows_of(data_dir)
    row = rows["v2-none-0"]
    assert (row.health, row.log_end) == ("damaged", 1197)
    assert row.problem == (
        "the log ends at 1,197, before its high watermark, which is 1,200 in replication-offset-checkpoint"
    )
    assert rows["v2-gzip-0"].health == "unchecked"
    assert (row.problem or "") in document(torn.parent, "segments", capsys, 1)["problem"]


def test_a_segment_that_begins_with_no_batch_is_damaged(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data_dir / "v2-none-0" / f"{1152:020d}.log"
    path.write_bytes(GARBAGE)
    row = rows_of(data_dir)["v2-none-0"]
    assert (row.health, row.problem) == (
        "damaged", f"{path.name}: it does not begin with a batch of this segment",
    )  # fmt: skip
    found = document(path.parent, "segments", capsys, 1)
    assert (row.problem or "") in found["problem"]
    assert "position 0" in found["rows"][-1]["problem"]
    assert (found["rows"][-1]["records"], found["rows"][-1]["batches"]) == (0, 0)


@pytest.mark.parametrize("name", [f"v2-none-0.{32 * 'a'}-delete", f"v2-none-0.{32 * 'a'}-future"])
def test_checkpoints_do_not_apply_to_deleted_and_future_directories(
    name: str, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = data_dir / "v2-none-0"
    (partition / f"{1152:020d}.log").unlink()
    partition.rename(data_dir / name)
    assert rows_of(data_dir)[name].health == "unchecked"


@pytest.mark.parametrize("content", [b"nonsense", None])
def test_an_unreadable_checkpoint_is_reported_once_and_damages_no_partition(
    content: bytes | None, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = data_dir / "replication-offset-checkpoint"
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    model = Model(data_dir)
    rows = {row.name: row for row in model.topics()}.values()
    assert path.name in (model.problem or "")
    assert {row.health for row in rows} == {"unchecked"}
    assert {row.high_watermark for row in rows} == {None}
    model.close()


def test_a_data_directory_moved_away_is_a_problem_until_it_is_back(data_dir: Path) -> None:
    model = Model(data_dir)

    def looked_at() -> tuple[bool, str | None]:
        return bool(list(model.topics())), model.problem

    assert looked_at() == (True, None)
    data_dir.rename(data_dir.parent / "elsewhere")
    assert looked_at() == (False, f"{data_dir}: No such file or directory")
    (data_dir.parent / "elsewhere").rename(data_dir)
    assert looked_at() == (True, None)
    model.close()


def test_a_damaged_index_is_a_problem_of_its_segment_and_stops_nothing(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = data_dir / "v2-gzip-0" / f"{192:020d}.index"
    path.write_bytes(path.read_bytes()[:-4] + b"\x7f\xff\xff\xff")
    found = document(path.parent, "segments", capsys, 1)
    assert found["problem"] is None
    assert [row["base_offset"] for row in found["rows"] if row["problem"] is not None] == [192]
    row = found["rows"][1]
    assert (row["index_state"], path.name in row["problem"], row["records"]) == ("damaged", True, 192)


def test_a_hanging_transaction_is_the_health_of_its_partition(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = rows_of(data_dir)["v2-txn-0"]
    assert row.health == "hanging transaction"
    assert (row.problem or "").endswith("that began at offset 1,411 hangs")
    rows = document(data_dir / "v2-txn-0", "transactions", capsys, 1)["rows"]
    assert [row["state"] for row in rows].count("hanging") == 1


def test_a_hanging_transaction_stays_in_the_row_while_it_is_refreshed(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "TRUSTED_SECONDS", 0)
    model = Model(data_dir)
    for row in model.topics():
        last = row
    assert (last.name, last.health) == ("v2-txn-0", "hanging transaction")
    again = [row.health for row in model.topics() if row.name == "v2-txn-0" and row.filled]
    assert again == ["hanging transaction"] * 2
    model.close()
