"""`ls`, `dump`, `status` and the inspector's views count the same records of a log, and say what they leave out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kafkalog.inspector.model.model import Model
from tests.helpers.inspected import all_records, read_through
from tests.helpers.running import Kafkalog, lines


@pytest.fixture(params=[("v2-txn-0", 0), ("v2-txn-0", 30), ("v2-none-0", 200), ("v2-zstd-0", 333)])
def partition(request: pytest.FixtureRequest, golden_logs: Path, tmp_path: Path) -> Path:
    """A log of a broker whose log start offset may be in the middle of a segment, or of a batch."""
    name, log_start = request.param
    shutil.copytree(golden_logs / "kafka-3.9" / "data" / name, tmp_path / name)
    topic = name.removesuffix("-0")
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\n{topic} 0 {log_start}\n", encoding="ascii")
    return tmp_path / str(name)


def test_records_are_counted_alike_everywhere(kafkalog: Kafkalog, partition: Path) -> None:
    total, *segments = lines(kafkalog("ls", partition, "-o", "jsonl").out)
    dumped = lines(kafkalog("dump", partition, "-o", "jsonl").out)
    statistics = json.loads(kafkalog("inspect", partition, "--headless", "statistics", "-o", "json").out)
    shown = json.loads(kafkalog("inspect", partition, "--headless", "segments", "-o", "json").out)
    start = total["log_start_offset"]
    assert total["records"] == len(dumped) == statistics["records"]
    assert [row["records"] for row in shown["rows"]] == [row["records"] for row in segments]
    assert sum(row["records"] for row in segments) == total["records"]
    for name in ("deleted_records", "control_records"):
        assert [row[name] for row in shown["rows"]] == [row[name] for row in segments]
    assert total["deleted_records"] == statistics["deleted_records"]
    assert (total["deleted_records"] > 0) == (start > 0)
    assert statistics["aborted_records"] == sum(row.get("transaction_state") == "aborted" for row in dumped)
    # Control records are not marked as deleted.
    assert statistics["control_records"] <= total["control_records"]


def test_the_tables_mark_what_is_counted_apart(partition: Path) -> None:
    model = Model(partition.parent)
    (topic,) = [row for row in model.topics() if row.last_stable is not None][-1:]
    reader = model.partition(partition.name)
    state = reader.refresh()
    rows = [row for each in state.segments for row in all_records(read_through(reader.segment(each.base_offset)))]
    kept = [row for row in rows if not row.is_deleted and row.kind != "control"]
    state = reader.refresh()
    assert all(row.is_deleted == (row.offset < (state.log_start or 0)) for row in rows)
    assert len(kept) == sum(row.records or 0 for row in state.segments) <= (topic.offsets or 0)
    model.close()
