"""`kafkalog dump` says on stderr where the offsets of a log do not follow each other; that is no damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.running import Kafkalog, batch, segment

GAPS = batch(b"a") + batch(b"b", offset=3) + batch(b"c", offset=7)
REPEATS = batch(b"a", b"b") + batch(b"b", offset=1) + batch(b"c", offset=2) + batch(b"a") + batch(b"d", offset=1)
FORMS = [(), ("-o", "jsonl"), ("--batches",), ("--control",), ("--skip-damage",)]


@pytest.mark.parametrize("options", FORMS)
def test_gaps(kafkalog: Kafkalog, tmp_path: Path, options: tuple[str, ...]) -> None:
    home = segment(tmp_path / "orders-0", 0, GAPS).parent
    segment(home, 20, batch(b"d", offset=20))
    ran = kafkalog("dump", home, *options)
    assert (ran.code, ran.err) == (0, "kafkalog: orders-0: the log has 3 gaps in its offsets, the first from 1 to 2\n")


@pytest.mark.parametrize("options", FORMS)
def test_offsets_that_repeat_or_fall_back(kafkalog: Kafkalog, tmp_path: Path, options: tuple[str, ...]) -> None:
    path = segment(tmp_path / "orders-0", 0, REPEATS)
    ran = kafkalog("dump", path.parent, *options)
    assert "orders-0: the log repeats offsets or falls back 2 times, first from 1 to 1\n" in ran.err
    assert f"{path}: the log repeats offsets" in kafkalog("dump", path, *options).err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--from", "3"), "1 gap in its offsets, the first from 4 to 6"),
        (("--to", "5"), "1 gap in its offsets, the first from 1 to 2"),
        (("--from", "7"), ""),
        (("--from", "end", "-o", "jsonl", "--to", "99"), ""),
        (("-n", "1"), ""),
    ],
)
def test_only_what_is_shown_counts(kafkalog: Kafkalog, tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    home = segment(tmp_path / "orders-0", 0, GAPS).parent
    for path in (home, home / f"{0:020}.log"):
        ran = kafkalog("dump", path, *options)
        assert ran.code == 0
        assert said in ran.err
        assert bool(said) == ("in its offsets" in ran.err)


def test_damage_that_is_left_out_explains_gaps(kafkalog: Kafkalog, tmp_path: Path) -> None:
    home = segment(tmp_path / "orders-0", 0, batch(b"a") + b"\xff" * 500 + batch(b"b", offset=5)).parent
    segment(home, 9, batch(b"d", offset=9) + batch(b"e", offset=11))
    ran = kafkalog("dump", home, "--skip-damage")
    assert ran.code == 1
    assert "gap" not in ran.err
    assert "left out because of damage" in ran.err


@pytest.mark.parametrize("name", ["v2-none-0", "v2-txn-0", "v2-compacted-0"])
def test_logs_of_a_broker(kafkalog: Kafkalog, golden_logs: Path, name: str) -> None:
    ran = kafkalog("dump", golden_logs / "kafka-3.9" / "data" / name, "--isolation", "committed", "-o", "jsonl")
    assert ran.code == 0
    assert ("gap" in ran.err) == (name == "v2-compacted-0")
    assert "falls back" not in ran.err
