"""Kafka's ProducerStateManager and kafkalog's know the same after every step of the same long random sequences.

Producers append, in order and out of it; markers come in time, late and twice; snapshots are written, cut short,
deleted and loaded again. Then each reads what the other has written.
"""

import subprocess
from pathlib import Path

import pytest

from tests.oracle import java
from tests.oracle.producer_steps import Ours, RandomSteps

pytestmark = pytest.mark.oracle

PRODUCERS = Path(__file__).with_name("Producers.java")
RUNS, STEPS = 60, 250


def kafkas_answers(steps: list[str], directory: Path) -> list[list[str]]:
    """Two lines a step."""
    try:
        command = java.command(PRODUCERS, options=["-Xmx512m", "-XX:+UseSerialGC"])
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    asked, out = directory / "steps", directory / "answers"
    asked.write_text("".join(f"{step}\n" for step in steps))
    subprocess.run([*command, str(asked), str(out)], check=True, capture_output=True, text=True, timeout=1200)
    lines = out.read_text().split("\n")
    return [lines[at : at + 2] for at in range(0, 2 * len(steps), 2)]


def _new_directory(parent: Path, seed: int) -> Path:
    directory = parent / str(seed)
    directory.mkdir(parents=True)
    return directory


def test_kafka_and_kafkalog_know_the_same_after_each_of_many_random_steps(tmp_path: Path) -> None:
    runs = [list(RandomSteps(seed, STEPS).steps()) for seed in range(RUNS)]
    asked = [
        step for seed, steps in enumerate(runs) for step in (f"open {_new_directory(tmp_path / 'kafka', seed)}", *steps)
    ]
    answers = iter(kafkas_answers(asked, tmp_path))
    for seed, steps in enumerate(runs):
        ours = Ours()
        for step in (f"open {_new_directory(tmp_path / 'ours', seed)}", *steps):
            expected = next(answers)
            if step.startswith("open"):
                ours.answer(step)
            else:
                assert ours.answer(step) == expected, f"seed {seed}: {step}"
    _each_reads_the_others_snapshots(tmp_path)


def _each_reads_the_others_snapshots(directory: Path) -> None:
    ours = [f"read {path}" for path in sorted(directory.glob("ours/*/*.snapshot"))]
    kafkas = [f"read {path}" for path in sorted(directory.glob("kafka/*/*.snapshot"))]
    assert len(ours) == len(kafkas) > RUNS
    reader = Ours()
    first = ["open " + str(directory / "ours" / "0")]
    of_ours = [answer for answer, _ in kafkas_answers([*first, *ours], directory)[1:]]
    assert of_ours == [reader.answer(step)[0] for step in ours]
    assert of_ours == [reader.answer(step)[0] for step in kafkas]
