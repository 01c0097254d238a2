"""What a screen shows, for scripts: without Textual, and as JSON that says what it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkalog import ByteBufferMessageSet, Record
from kafkalog.inspector import headless
from kafkalog.inspector.jobs.jobs import Wanted
from tests.helpers.damage import flipped, start_of
from tests.helpers.damage import log as damaged_log
from tests.helpers.inspected import segment_file


def document(path: Path, screen: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert headless.show(path, screen, "json") == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def log(golden_logs: Path) -> Path:
    return golden_logs / "kafka-3.9" / "data" / "v2-txn-0"


def test_segments_has_watermarks_and_transactions(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(log, "segments", capsys)
    assert (found["log_start_offset"], found["last_stable_offset"], found["log_end_offset"]) == (0, 1411, 1451)
    assert found["transactions"]["open"][0]["first_offset"] == 1411
    assert [row["base_offset"] for row in found["rows"]][:3] == [0, 20, 178]
    assert all(row["records"] is not None for row in found["rows"])


def test_the_map_has_every_byte(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = document(log, "map", capsys)["rows"]
    assert sum(cell["bytes"] for cell in cells) == sum(path.stat().st_size for path in log.glob("*.log"))


@pytest.mark.parametrize("screen", ["search", "statistics"])
def test_an_unreadable_batch_is_in_json_and_text_with_its_position(
    screen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = damaged_log()
    place = start_of(batches, 3)
    path = segment_file(tmp_path, flipped(b"".join(batches), place + 300, 0))
    find = Wanted("nothing")
    assert headless.show(path, screen, "json", find=find) == 1
    first = json.loads(capsys.readouterr().out)["first_unreadable"]
    assert (first["path"], first["position"], "checksum" in first["problem"]) == (str(path), place, True)
    assert headless.show(path, screen, "text", find=find) == 1
    assert f"problem: {path.name}: position {place}: {first['problem']}\n" in capsys.readouterr().out


def test_text_has_the_columns_of_the_screen_and_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(bytes(ByteBufferMessageSet.from_records([Record(b"a\x1b[31m\n", timestamp=1)]).buffer))
    for screen in ("map", "hex", "segments"):
        headless.show(path, screen, "text")
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert out.splitlines()
    headless.show(path, "hex", "text")
    assert "a\\x1b[31m\\n" in capsys.readouterr().out


def test_a_screen_of_a_partition_needs_one(golden_logs: Path) -> None:
    with pytest.raises(headless.NeedsPartitionError):
        headless.show(golden_logs / "kafka-3.9" / "data", "map", "json")


@pytest.mark.slow
def test_headless_and_the_model_import_no_textual() -> None:
    code = (
        "import sys, pkgutil\n"
        "from kafkalog.inspector import config, headless, model, text\n"
        "from kafkalog.inspector.jobs import jobs\n"
        "for each in pkgutil.iter_modules(model.__path__, 'kafkalog.inspector.model.'): __import__(each.name)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"textual", "rich"} & set(done.stdout.split())


def test_hex_has_every_byte_in_a_field(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log / f"{0:020}.log"
    rows = document(path, "hex", capsys)["rows"]
    assert sum(row["length"] for row in rows) == path.stat().st_size
    magic = next(row for row in rows if row["name"] == "magic")
    assert (magic["position"], magic["hex"], magic["value"], magic["of"]) == (16, "02", "2", ["batch 0"])
    assert headless.show(path, "hex", "text") == 0
    assert "crc" in capsys.readouterr().out.splitlines()[5]


def test_hex_reports_damage_once_at_the_start_of_its_batch(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray((log / f"{20:020d}.log").read_bytes())
    data[70] ^= 1
    path = tmp_path / f"{20:020d}.log"
    path.write_bytes(bytes(data))
    problems = [row for row in document(path, "hex", capsys, 1)["rows"] if row["problem"] is not None]
    assert [(row["position"], row["name"]) for row in problems] == [(0, "base offset")]


def test_transactions_has_counts_and_commands(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(log, "transactions", capsys, 1)
    counts = [found[name] for name in ("open", "hanging", "aborted", "committed", "last_stable_offset")]
    assert counts == [1, 1, 18, 33, 1411]
    first = found["rows"][0]
    assert (first["state"], first["first_offset"], first["records"]) == ("hanging", 1411, 40)
    assert first["abort_command"].endswith("--start-offset 1411")
    assert headless.show(log, "transactions", "text") == 1
    assert "--start-offset 1411" in capsys.readouterr().out


def test_search_ends_at_the_limit_and_with_code_1_if_nothing_matches(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headless.show(log, "search", "json", find=Wanted("key-16"), limit=2) == 0
    found = json.loads(capsys.readouterr().out)
    assert (len(found["rows"]), found["complete"]) == (2, False)
    assert headless.show(log, "search", "jsonl", find=Wanted("key-16")) == 0
    assert [json.loads(line)["field"] for line in capsys.readouterr().out.splitlines()] == ["key"] * 12
    assert headless.show(log, "search", "text", find=Wanted("nothing has this")) == 1


def test_statistics_of_a_data_directory_are_a_document_a_partition(
    golden_logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("v2-none-0", "v2-zstd-0"):
        (tmp_path / name).symlink_to(golden_logs / "kafka-3.9" / "data" / name)
    assert headless.show(tmp_path, "statistics", "json") == 0
    out, decoder = capsys.readouterr().out, json.JSONDecoder()
    first, end = decoder.raw_decode(out)
    second, _ = decoder.raw_decode(out[end:].lstrip())
    assert [(Path(each["path"]).name, each["records"]) for each in (first, second)] == [
        ("v2-none-0", 1200), ("v2-zstd-0", 1200),
    ]  # fmt: skip
    assert headless.show(tmp_path, "search", "text", find=Wanted("key-16"), limit=3) == 0
    assert capsys.readouterr().out.count("key-16") == 2 * 1 + 3


def test_text_columns_stay_below_their_titles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"{0:020}.log"
    long = Record(b"", headers=[("a very long name of a header \u6f22", b"needle")], timestamp=1)
    path.write_bytes(bytes(ByteBufferMessageSet.from_records([Record(b"needle", timestamp=1), long]).buffer))
    headless.show(path, "search", "text", find=Wanted("needle"))
    title, *rows = [line for line in capsys.readouterr().out.splitlines() if "MATCH" in line or "needle" in line][1:]
    assert [row.index("needle") for row in rows] == [title.index("MATCH")] * 2


def test_a_search_for_nothing_prints_nothing_before_its_error(
    golden_logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(headless.NeedsMoreError, match="--find TEXT"):
        headless.show(golden_logs / "kafka-3.9" / "data", "search", "text")
    assert not capsys.readouterr().out
