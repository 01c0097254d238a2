"""The programs in `examples/`, run as a user runs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.broker_dirs import METADATA, broker_dir

EXAMPLES = Path(__file__).parents[1] / "examples"
MOST_LINES = 40

pytestmark = pytest.mark.slow


def run(name: str, *arguments: object, code: int = 0) -> list[str]:
    """Run an example; return the lines of its output."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == code, ran.stderr
    return ran.stdout.splitlines()


def test_every_example_is_run_here_and_is_short() -> None:
    here = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f'run("{path.name}"' in here
        assert len(path.read_text().splitlines()) <= MOST_LINES


def test_events_give_balances_and_each_payment_is_mailed_once(tmp_path: Path) -> None:
    log = tmp_path / "payments-0"
    assert run("event_sourcing.py", log, "alice=100", "bob=-30") == [
        'mail 0: alice {"amount": 100}', 'mail 1: bob {"amount": -30}', "alice: 100", "bob: -30",
    ]  # fmt: skip
    assert run("event_sourcing.py", log, "alice=-20") == ['mail 2: alice {"amount": -20}', "alice: 80", "bob: -30"]
    assert run("event_sourcing.py", log) == ["alice: 80", "bob: -30"]


def test_a_data_directory_becomes_a_parquet_file_without_aborted_records(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("duckdb")
    data = broker_dir(tmp_path, METADATA, "v2-none-0", "v2-txn-0")
    shown = "\n".join(run("to_parquet.py", data, tmp_path / "records.parquet"))
    rows = parquet.read_table(tmp_path / "records.parquet", columns=["topic", "offset"]).to_pylist()
    counts = {topic: sum(row["topic"] == topic for row in rows) for topic in ("v2-none", "v2-txn")}
    assert counts == {"v2-none": 1200, "v2-txn": 875}
    assert all(f"│ {topic}" in shown and f" {count} " in shown for topic, count in counts.items())


def test_replicas_are_compared_batch_by_batch(tmp_path: Path) -> None:
    one = broker_dir(tmp_path, "v2-none-0") / "v2-none-0"
    other = tmp_path / "other" / "v2-none-0"
    shutil.copytree(one, other)
    assert run("compare_replicas.py", one, other) == [
        "the same batches from 0 to 1200; the ends are 1200 and 1200"
    ]  # fmt: skip
    log = max(path for path in other.glob("*.log") if path.stat().st_size)
    with log.open("r+b") as file:
        # The leader epoch of the first batch: no checksum covers it.
        file.seek(12)
        file.write((7).to_bytes(4, "big"))
    (line,) = run("compare_replicas.py", one, other, code=1)
    assert line.startswith(f"{one} and {other} differ: ({int(log.stem)}, ")
