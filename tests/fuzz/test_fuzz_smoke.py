"""The fuzzer itself works: it executes, counts, stops, and keeps the input of a crash."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog
from tests.fuzz import fuzz_decode
from tests.fuzz.fuzz_decode import Input, LastInput
from tests.reference.encode import entries, records
from tests.reference.framing import scan_headers

FUZZER = ("-m", "tests.fuzz.fuzz_decode")
ROOT = Path(__file__).parents[2]


def run(*arguments: str, program: tuple[str, ...] = FUZZER) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer as a process of its own, with the same kafkalog as here."""
    environment = os.environ | {"PYTHONPATH": f"{Path(kafkalog.__file__).parents[1]}{os.pathsep}{ROOT}"}
    command = [sys.executable, *program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)


@pytest.mark.slow
def test_four_thousand_executions_find_nothing(tmp_path: Path) -> None:
    arguments = ["--executions", "4000", "--jobs", "2", "--seed", "1", "--twin-rate", "50"]
    done = run(*arguments, "--directory", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (*_, executions) = re.findall(r"([\d,]+) executions", done.stderr)
    assert int(executions.replace(",", "")) >= 4000


@pytest.mark.slow
def test_the_fuzzer_stops_after_the_given_number_of_executions(tmp_path: Path) -> None:
    done = run("--executions", "1000", "--jobs", "1", "--seed", "1", "--directory", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "1,000 executions" in done.stderr


@pytest.mark.slow
def test_an_input_can_be_executed_again(tmp_path: Path) -> None:
    data = entries(records(b"a"), 2)
    rows, *_ = scan_headers(data)
    for case in (Input(None, data), Input(rows, data[61:])):
        path = tmp_path / "case.bin"
        LastInput(path).keep(case)
        again = LastInput.read(path)
        assert again.data == case.data
        assert (again.row is None) == (case.row is None)
        assert again.row is None or again.row.tolist() == rows.tolist()
        assert run("--replay", str(path)).returncode == 0


@pytest.mark.slow
def test_a_finding_is_reported_and_its_input_kept(tmp_path: Path) -> None:
    """A wrong twin stands in for a wrong kernel: the fuzzer must see that the two differ."""
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import sys\n"
        "from tests.fuzz import fuzz_decode\n"
        "fuzz_decode.message_set = sys.modules['tests.reference.message_set']\n"
        "fuzz_decode.message_set.decode_v2 = lambda *_: None\n"
        "if __name__ == '__main__':\n"
        "    sys.exit(fuzz_decode.main())\n"
    )
    arguments = ["--seconds", "600", "--jobs", "1", "--seed", "1", "--twin-rate", "2", "--directory", str(tmp_path)]
    done = run(*arguments, program=(str(broken),))
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
    assert len(list(tmp_path.glob("found-1-0.bin"))) == 1


def test_the_same_seed_draws_the_same_inputs() -> None:
    corpus = fuzz_decode.seeds()
    one, other = (
        [fuzz_decode.drawn(draw, corpus).data for _ in range(200)] for draw in (random.Random(7), random.Random(7))
    )
    assert one == other
    assert len(set(one)) > 150
