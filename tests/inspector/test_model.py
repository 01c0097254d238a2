"""The model that screens ask: which paths it opens, and the rows of partitions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.errors import NotALogError
from kafkalog.inspector import columns
from kafkalog.inspector.model import partitions
from kafkalog.inspector.model.model import Model
from kafkalog.inspector.model.types import TopicRow
from kafkalog.storage.read_only_log import ReadOnlyLog
from tests.helpers.golden import unpacked
from tests.helpers.inspected import segment_file
from tests.reference.encode import V2Batch, records

DATA_DIR = unpacked() / "kafka-3.9" / "data"


def test_a_data_directory_has_a_row_a_partition_and_the_names_come_first() -> None:
    model = Model(DATA_DIR)
    assert model.kind == "data_dir"
    rows = list(model.topics())
    names = sorted(each.name for each in DATA_DIR.iterdir() if each.is_dir())
    assert sorted(row.name for row in rows[: len(names)]) == names
    assert not any(row.filled for row in rows[: len(names)])
    assert all(row.filled for row in rows[len(names) :])
    assert {row.name for row in rows if row.is_internal} == {each for each in names if each.startswith("__")}
    model.close()


def test_a_partition_and_a_file_are_opened_as_what_they_are() -> None:
    partition = Model(DATA_DIR / "v2-none-0")
    assert (partition.kind, next(partition.topics()).name) == ("partition", "v2-none-0")
    assert partition.partition().refresh().log_end == 1200
    partition.close()
    path = next((DATA_DIR / "v2-none-0").glob("*.log"))
    file = Model(path)
    assert (file.kind, next(file.topics()).name) == ("file", path.name)
    state = file.partition().refresh()
    assert [(row.path, row.bytes) for row in state.segments] == [(path, path.stat().st_size)]
    file.close()


def test_paths_that_are_no_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Model(tmp_path / "nothing")
    with pytest.raises(NotALogError):
        Model(tmp_path)
    (tmp_path / "picture").write_bytes(b"\x89PNG and so on, for some bytes")
    with pytest.raises(NotALogError):
        Model(tmp_path / "picture")


def test_directories_of_deleted_stray_and_future_partitions_are_named_so(tmp_path: Path) -> None:
    data = V2Batch(records(b"v")).encoded()
    tail = "." + 32 * "a"
    for name in ("t-0", f"t-0{tail}-delete", f"t-1{tail}-stray", f"t-2{tail}-future"):
        segment_file(tmp_path / name, data)
    model = Model(tmp_path)
    marks = {row.name: (row.topic, row.partition, row.mark) for row in model.topics()}
    assert marks == {
        "t-0": ("t", 0, None),
        f"t-0{tail}-delete": ("t", 0, "delete"),
        f"t-1{tail}-stray": ("t", 1, "stray"),
        f"t-2{tail}-future": ("t", 2, "future"),
    }
    for name in marks:
        assert model.partition(name).refresh().log_end == 1
    model.close()


def test_a_missing_partition_is_a_problem() -> None:
    model = Model(DATA_DIR)
    state = model.partition("nothing-0").refresh()
    assert state.segments == ()
    assert state.problem is not None
    assert "nothing-0" in state.problem
    with pytest.raises(ValueError, match="name"):
        model.partition()
    model.close()


def test_a_vanished_data_directory_has_no_rows_and_a_vanished_partition_is_unreadable(tmp_path: Path) -> None:
    segment_file(tmp_path / "data" / "t-0", V2Batch(records(b"v")).encoded())
    segment_file(tmp_path / "data" / "t-1", V2Batch(records(b"v")).encoded())
    model = Model(tmp_path / "data")
    rows = model.topics()
    names = [next(rows).name, next(rows).name]
    shutil.rmtree(tmp_path / "data" / names[0])
    filled = {row.name: row for row in rows}
    assert filled[names[0]].health == "unreadable"
    assert filled[names[0]].problem
    assert filled[names[1]].health == "unchecked"
    shutil.rmtree(tmp_path / "data")
    assert list(model.topics()) == []
    model.close()


def test_the_rate_of_growth_is_known_the_second_time(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.append([kafkalog.Record(b"v")])
        model = Model(tmp_path / "t-0")
        assert [row.rate for row in model.topics()][-1] is None
        log.append([kafkalog.Record(b"v")] * 5)
        rate = next(row.rate for row in model.topics() if row.filled)
        assert rate is not None
        assert rate > 0
        assert list(next(row.rates for row in model.topics() if row.filled)) == [rate, 0]
        later = [list(next(row.rates for row in model.topics() if row.filled)) for _ in range(20)]
        assert later[-1] == [0] * partitions.RATES_KEPT
        model.close()


def test_the_last_rates_are_bars_beside_the_newest() -> None:
    shown = next(each for each in columns.topics(columns.Times(), " ▁▂▃▄▅▆▇█") if each.title == "RATE")
    row = TopicRow("t-0", Path("t-0"), "t", 0, rates=(0.0, 100.0, 50.0, -3.0, 25.0))
    assert shown.cell(row) == " █▄ ▂     25/s"
    assert shown.cell(TopicRow("t-0", Path("t-0"), "t", 0, rates=(0.0, 0.0))) == "     0/s".rjust(columns.RATE_WIDTH)
    assert shown.cell(TopicRow("t-0", Path("t-0"), "t", 0)).strip() == ""


def test_a_partition_is_read_again_only_if_its_files_or_checkpoints_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("t-0", "t-1"):
        segment_file(tmp_path / name, V2Batch(records(b"v")).encoded())
    opened: list[str] = []

    class Opened(ReadOnlyLog):
        def __init__(self, path: Path, **options: Any) -> None:
            opened.append(path.name)
            super().__init__(path, **options)

    monkeypatch.setattr("kafkalog.storage.read_only_log.ReadOnlyLog", Opened)
    model = Model(tmp_path)

    def read() -> tuple[list[str], dict[str, TopicRow]]:
        opened.clear()
        rows = {row.name: row for row in model.topics()}
        return sorted(set(opened)), rows

    assert read()[0] == ["t-0", "t-1"]
    again, rows = read()
    assert (again, rows["t-0"].log_end, rows["t-0"].rate) == ([], 1, 0)
    with kafkalog.open(tmp_path / "t-1", "a") as log:
        log.append([kafkalog.Record(b"v")] * 5)
    assert read()[0] == ["t-1"]
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\nt 0 1\nt 1 6\n")
    assert read()[0] == ["t-0"]
    monkeypatch.setattr(partitions, "TRUSTED_SECONDS", 0)
    assert read()[0] == ["t-0", "t-1"]
    model.close()


def test_the_same_reader_is_given_each_time() -> None:
    model = Model(DATA_DIR)
    assert model.partition("v2-none-0") is model.partition("v2-none-0")
    model.close()


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = segment_file(tmp_path, V2Batch(records(b"v")).encoded())

    def refused(file: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr("pathlib.Path.open", refused)
    with pytest.raises(PermissionError):
        Model(path)


@pytest.mark.slow
def test_names_are_listed_without_importing_what_reads_logs(golden_logs: Path) -> None:
    code = (
        "import sys; from kafkalog.inspector.model.model import Model\n"
        f"model = Model({str(golden_logs / 'kafka-3.9' / 'data')!r})\n"
        "print(len(model.names()), model.problem, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["20", "None", "False"]


def test_partitions_on_the_screen_are_read_before_the_others(golden_logs: Path) -> None:
    model = Model(golden_logs / "kafka-3.9" / "data")
    names = [row.name for row in model.names()]
    seen: list[str] = names[-3:]
    filled = []
    for row in model.topics(seen):
        if row.filled:
            filled.append(row.name)
            seen[:] = names[5:7]
    assert filled[:4] == [names[-3], names[5], names[6], names[0]]
    assert set(filled) == set(names)
    model.close()
