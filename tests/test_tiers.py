"""The command that runs the tests tier by tier."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import tiers
from tests.tiers import BY_NAME, PROPERTY, TIERS, count, main, marks, results_of, summary

RESULTS = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" tests="6" time="12.6">
<testcase classname="tests.a" name="test_passes" time="0.1" />
<testcase classname="tests.a" name="test_fails" time="0.1"><failure message="assert 0">…</failure></testcase>
<testcase classname="tests.b" name="test_without_fixture"><error message="no broker">…</error></testcase>
<testcase classname="tests.b" name="test_1"><skipped message="no Java">a.py:1: no Java</skipped></testcase>
<testcase classname="tests.b" name="test_2"><skipped message="no Java">a.py:1: no Java</skipped></testcase>
<testcase classname="tests.b" name="test_3"><skipped message="root&#10; may">a.py:2: root may</skipped></testcase>
</testsuite></testsuites>
"""
PASSED = '<testsuites><testsuite time="1"><testcase classname="tests.a" name="test_a" /></testsuite></testsuites>'


class Pytest:
    """Stands in for pytest: `codes` are its exit codes, one for each run; None: somebody presses ctrl+c."""

    def __init__(self, codes: Sequence[int | None]) -> None:
        self.codes = list(codes)
        self.commands: list[list[str]] = []
        self.examples: list[str] = []

    def run(self, command: list[str], *, check: bool, env: dict[str, str] | None = None) -> SimpleNamespace:
        if "pytest" not in command:
            return SimpleNamespace(returncode=0)
        self.commands.append(command)
        self.examples.append((env or {})["KAFKALOG_EXAMPLES"])
        code = self.codes.pop(0)
        if code is None:
            raise KeyboardInterrupt
        (results,) = (option.partition("=")[2] for option in command if option.startswith("--junitxml="))
        Path(results).write_text(RESULTS if code == 1 else PASSED)
        return SimpleNamespace(returncode=code)

    @property
    def tiers(self) -> list[str]:
        expressions = {marks(tier): tier.name for tier in BY_NAME.values()}
        return [expressions[command[command.index("-m", 3) + 1]] for command in self.commands]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pytest]:
    """Make the next runs of pytest end with these codes."""
    monkeypatch.setattr(tiers, "RESULTS", tmp_path / "results")
    monkeypatch.delenv("KAFKALOG_EXAMPLES", raising=False)

    def stand_in(*codes: int | None) -> Pytest:
        made = Pytest(codes)
        monkeypatch.setattr(subprocess, "run", made.run)
        return made

    return stand_in


# --- which tests


def chosen_by(each: tiers.Tier, borne: set[str]) -> bool:
    names = {tier.name: tier.name in borne for tier in TIERS} | {"hypothesis": False}
    return bool(eval(marks(each), {}, names))


def test_every_combination_of_marks_is_in_exactly_one_tier_that_of_its_last_mark() -> None:
    names = [tier.name for tier in TIERS[1:]]
    for size in range(len(names) + 1):
        for borne in combinations(names, size):
            found = [tier.name for tier in TIERS if chosen_by(tier, set(borne))]
            assert found == [borne[-1] if borne else "fast"]


def test_every_mark_of_a_tier_is_declared(pytestconfig: pytest.Config) -> None:
    declared = {line.partition(":")[0] for line in pytestconfig.getini("markers")}
    assert {tier.name for tier in TIERS[1:]} <= declared


def test_the_property_tier_runs_tests_that_hypothesis_has_marked_and_no_others() -> None:
    assert marks(PROPERTY) == "hypothesis"


# --- results


def test_results_are_counted_by_outcome_and_reason(tmp_path: Path) -> None:
    (tmp_path / "fast.xml").write_text(RESULTS)
    counts = count(tmp_path / "fast.xml")
    assert (counts.passed, counts.failed, counts.skipped, counts.seconds) == (1, 2, 3, 12.6)
    assert counts.failures == ["tests.a::test_fails", "tests.b::test_without_fixture"]
    assert counts.reasons == {"no Java": 2, "root may": 1}


def test_a_test_that_was_run_again_counts_once_and_is_listed(runs: Callable[..., Pytest]) -> None:
    runs()
    results = results_of(BY_NAME["tui"])
    results.parent.mkdir()
    once, again = (
        '<testcase classname="tests.a" name="test_once" />',
        '<testcase classname="tests.a" name="test_twice" />',
    )
    results.write_text(f'<testsuites><testsuite time="1.0">{once}{again}{again}</testsuite></testsuites>')
    assert summary([BY_NAME["tui"]]).splitlines()[1:] == [
        "tui              2       0        0        1",
        "tui: run again after a failure: tests.a::test_twice",
        "2 passed, 0 failed, 0 skipped",
    ]


def test_the_summary_lists_counts_reasons_and_failures_by_tier(runs: Callable[..., Pytest]) -> None:
    runs()
    results_of(BY_NAME["fast"]).parent.mkdir()
    results_of(BY_NAME["fast"]).write_text(PASSED)
    results_of(BY_NAME["oracle"]).write_text(RESULTS)
    assert summary([BY_NAME[name] for name in ("fast", "oracle", "spark")]).splitlines() == [
        "tier        passed  failed  skipped  seconds",
        "fast             1       0        0        1",
        "oracle           1       2        3       13",
        "spark       no results",
        "oracle: 2 skipped: no Java",
        "oracle: 1 skipped: root may",
        "oracle: failed: tests.a::test_fails",
        "oracle: failed: tests.b::test_without_fixture",
        "2 passed, 2 failed, 3 skipped",
    ]


# --- running


def test_tiers_run_in_the_order_given_and_options_of_pytest_come_last(runs: Callable[..., Pytest]) -> None:
    pytest_runs = runs(0, 0)
    assert main(["spark", "property", "--", "-k", "a or b", "-x"]) == 0
    assert pytest_runs.tiers == ["spark", "property"]
    assert pytest_runs.examples == ["fast", "more"]
    assert all(command[-3:] == ["-k", "a or b", "-x"] for command in pytest_runs.commands)


def test_results_of_a_tier_that_was_done_before_are_listed_too(
    runs: Callable[..., Pytest], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest_runs = runs(0, 0)
    main(["fast"])
    capsys.readouterr()
    assert main(["--done", "fast", "slow", "--"]) == 0
    assert pytest_runs.tiers == ["fast", "slow"]
    assert capsys.readouterr().out.endswith("2 passed, 0 failed, 0 skipped\n")


@pytest.mark.parametrize(
    ("codes", "options", "code", "run"),
    [
        ((0, 0), [], 0, 2),
        ((1, 0), [], 1, 2),
        ((0, 1), [], 1, 2),
        ((5, 0), [], 5, 2),  # a tier must not be empty
        ((5, 0), ["-k", "name"], 0, 2),
        ((5, 1), ["-k", "name"], 1, 2),
        ((5, 5), ["-k", "nmae"], 5, 2),
        ((2,), [], 2, 1),  # interrupted
        ((4,), ["--no-such-option"], 4, 1),
        ((None,), [], 2, 1),
    ],
)
def test_the_exit_code_is_that_of_the_first_tier_that_did_not_pass(
    runs: Callable[..., Pytest], codes: tuple[int | None, ...], options: list[str], code: int, run: int
) -> None:
    pytest_runs = runs(*codes)
    assert main(["fast", "slow", "--", *options]) == code
    assert len(pytest_runs.commands) == run


def test_results_of_an_earlier_run_are_not_taken_for_those_of_an_interrupted_one(
    runs: Callable[..., Pytest], capsys: pytest.CaptureFixture[str]
) -> None:
    runs(0, None)
    main(["fast"])
    capsys.readouterr()
    assert main(["fast"]) == 2
    assert "no results" in capsys.readouterr().out


def test_coverage_is_reported_after_the_last_tier(runs: Callable[..., Pytest]) -> None:
    pytest_runs = runs(0, 0)
    main(["--coverage", "fast", "slow"])
    first, last = (" ".join(command) for command in pytest_runs.commands)
    assert "--cov-append" in first
    assert "--cov-report=html" not in first
    assert "--cov-append" in last
    assert "--cov-report=html" in last


@pytest.mark.parametrize(
    "arguments", [["quick"], [], ["fast", "--", "-m", "slow"], ["fast", "--", "-mfoo"], ["--done", "quick", "fast"]]
)
def test_wrong_arguments_are_refused_before_anything_runs(
    runs: Callable[..., Pytest], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest_runs = runs()
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert "usage: python -m tests.tiers" in capsys.readouterr().err
    assert pytest_runs.commands == []
