"""What the benchmarks make of their figures: whether a curve is linear, and whether a commit is slower."""

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("aiokafka", reason="pip install --group bench")

from asv_bench import compare
from asv_bench.comparison import growth

Steps = list[growth.Step]
Compared = Callable[..., tuple[int, list[tuple[str, ...]]]]
CURVE = growth.Curve("curve", "case")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Steps]:
    def measure(seconds: Callable[[int], float], memory: Callable[[int], float], *, flat: bool = False) -> Steps:
        def step(_curve: object, step: growth.Step, *_: object) -> growth.Step:
            used = memory(step.count)
            return replace(step, seconds=seconds(step.count), peak=used, peak_anonymous=used)

        monkeypatch.setattr(growth, "_step", step)
        places = [(count, Path()) for count in (10, 1_000, 100_000)]
        return list(growth._measured(replace(CURVE, flat=flat), "segments", places, argparse.Namespace()))

    return measure


def test_a_curve_that_rises_in_proportion_is_linear(measured: Callable[..., Steps]) -> None:
    assert measured(lambda n: 0.01 + n * 1e-4, lambda n: n)[-1].met is True


def test_a_curve_that_rises_with_the_square_is_not_linear(measured: Callable[..., Steps]) -> None:
    last = measured(lambda n: n * n * 1e-9, lambda n: 1)[-1]
    assert last.met is False
    assert last.growth == pytest.approx(100)


def test_a_step_that_would_take_hours_is_left_out_and_misses(measured: Callable[..., Steps]) -> None:
    last = measured(lambda n: n * n * 1e-5, lambda n: 1)[-1]
    assert (last.met, last.seconds, last.missing) == (False, None, "would take some 100,000 s")


def test_memory_that_grows_misses_if_it_is_to_be_flat(measured: Callable[..., Steps]) -> None:
    assert measured(lambda n: n * 1e-3, lambda n: 20 + n / 1000, flat=True)[-1].met is False
    assert measured(lambda n: n * 1e-3, lambda n: 20, flat=True)[-1].met is True


# A table of asv 0.6.
TABLE = """
| Change   | Before [060bf3c6] <work~1> | After [819b9f1b] <work> |   Ratio | Benchmark (Parameter)                   |
|----------|----------------------------|-------------------------|---------|-----------------------------------------|
| +        | 1.86±0.2ms                 | 6.31±6ms                |    3.39 | record_framing.Headers.time_h('single') |
| !        | 1.86±0.2ms                 | failed                  |     n/a | cli.Command.time_help                   |
| -        | 47.5±10ms                  | 32.2±2ms                |    0.68 | spark_reading.Read.time_read('none')    |
"""


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    """Compare with an asv that answers so; the exit code, and what it was asked."""

    def compare_with(*answers: tuple[int, str]) -> tuple[int, list[tuple[str, ...]]]:
        left, asked = list(answers), list[tuple[str, ...]]()

        def asv(*words: str) -> tuple[int, str]:
            asked.append(words)
            return left.pop(0)

        monkeypatch.setattr(compare, "_asv", asv)
        return compare.main(), asked

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", ["compare.py"])
    return compare_with


def test_a_case_that_is_slower_only_once_raises_no_alarm(compared: Compared) -> None:
    code, asked = compared((1, TABLE), (0, ""))
    assert code == 0
    again = [word for word in asked[1] if word.startswith("^")]
    assert again == [r"^record_framing\.Headers\.time_h\('single'\)$", r"^cli\.Command\.time_help$"]


def test_a_case_that_is_slower_twice_raises_an_alarm(compared: Compared, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = compared((1, TABLE), (1, TABLE))
    assert code == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[2] for line in said if "twice" in line] == [
        "record_framing.Headers.time_h('single')", "cli.Command.time_help"
    ]  # fmt: skip


def test_asv_that_fails_is_no_comparison(compared: Compared) -> None:
    with pytest.raises(SystemExit) as ended:
        compared((1, "Unknown commit nothing"))
    assert ended.value.code == 2
