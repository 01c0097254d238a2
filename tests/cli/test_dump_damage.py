"""`kafkalog dump` on damaged logs: all that stands before damage, how to go on behind it, and what is skipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.running import Kafkalog, batch, lines, segment
from tests.reference.compression import ZSTD
from tests.reference.encode import PlainRecord, V2Batch


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_all_before_damage_is_shown(kafkalog: Kafkalog, tmp_path: Path, form: str) -> None:
    first = batch(b"one", b"two")
    path = segment(tmp_path, 0, first + flipped(batch(b"three", offset=2)))
    ran = kafkalog("dump", path, "-o", form)
    assert ran.code == 1
    assert ran.out.count("offset") == 2
    assert ran.err.startswith(f"kafkalog: {path}: position {len(first)}: the checksum of the batch")
    assert "expected 0x" in ran.err
    assert ran.err.count("\n") == 1
    if form == "json":
        assert len(json.loads(ran.out)) == 2


DAMAGED = {
    "a checksum": flipped(batch(b"b", b"c", offset=1)),
    "a size": batch(b"b", offset=1, size=3),
    "garbage": b"\xff" * 500,
    "a magic": batch(b"b", offset=1, magic=3),
    "content": batch(b"b", offset=1, records_count=5),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_report_of_damage_names_the_option_to_continue_after_it(
    kafkalog: Kafkalog, data_dir: Path, damage: bytes
) -> None:
    home = data_dir / "orders-0"
    (home / f"{0:020}.log").write_bytes(batch(b"a") + damage + batch(b"c", offset=3))
    assert kafkalog("dump", home).err.endswith("; to continue after it, use --skip-damage\n")
    assert "to continue" not in kafkalog("dump", home, "--skip-damage").err


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("options", [(), ("--control",)])
def test_damage_can_be_skipped(kafkalog: Kafkalog, data_dir: Path, damage: bytes, options: tuple[str, ...]) -> None:
    home = data_dir / "orders-0"
    segment(home, 0, batch(b"a") + damage + batch(b"y", offset=5) + damage + batch(b"z", offset=9))
    (home / f"{3:020}.log").rename(home / f"{20:020}.log")
    (home / f"{20:020}.log").write_bytes(batch(b"t", offset=20) + batch(b"torn", offset=21)[:-2])
    ran = kafkalog("dump", home, "--skip-damage", "-o", "jsonl", *options)
    assert ran.code == 1
    values = [line["value"] for line in lines(ran.out)]
    assert [value for value in values if value in {"a", "y", "z", "t"}] == ["a", "y", "z", "t"]
    named = ran.err.splitlines()
    assert len(named) == 4
    assert all(f"{0:020}.log:" in line for line in named[:2])
    assert "warning torn-tail" in named[2]
    assert f"{0:020}.log: left out because of damage: " in named[3]
    assert f" bytes {2 * len(damage)}, " in named[3]
    ran = kafkalog("dump", home, "--skip-damage", "--from", "end-1", "-o", "jsonl", *options)
    assert ([line["value"] for line in lines(ran.out)], ran.code, ran.err.count("\n")) == (["t"], 0, 1)
    ran = kafkalog("dump", home, "--skip-damage", "--to", 1, "-o", "jsonl", *options)
    assert ([line["value"] for line in lines(ran.out)], ran.code, ran.err) == (["a"], 0, "")


def test_what_is_left_out_is_counted_by_file(kafkalog: Kafkalog, tmp_path: Path) -> None:
    damaged, lost = flipped(batch(b"b", b"c", offset=1)), b"\xff" * 90
    also_damaged = flipped(batch(b"x", b"y", offset=3))
    first = segment(tmp_path / "t-0", 0, batch(b"a") + damaged + also_damaged + batch(b"d", offset=5))
    second = segment(tmp_path / "t-0", 6, batch(b"e", offset=6) + lost + batch(b"f", offset=9))
    size = len(batch(b"g", b"h", offset=10))
    third = segment(tmp_path / "t-0", 10, batch(b"g", b"h", offset=10, records_count=5) + batch(b"i", offset=15))
    # Without control records a batch is decoded in parts: its records before the damage are shown.
    for options, offsets_left_out in [((), 0), (("--control",), 2)]:
        ran = kafkalog("dump", tmp_path / "t-0", "--skip-damage", "-o", "jsonl", *options)
        assert ran.code == 1
        assert [line for line in ran.err.splitlines() if "left out" in line] == [
            f"kafkalog: {first}: left out because of damage: batches 2, bytes {2 * len(damaged)}, offsets 4",
            f"kafkalog: {second}: left out because of damage: batches 0, bytes {len(lost)}, offsets 2",
            f"kafkalog: {third}: left out because of damage: batches 1, bytes {size}, offsets {offsets_left_out}",
        ]
    assert "left out" not in kafkalog("dump", tmp_path / "t-0", "--skip-damage", "--from", 15).err


def test_batches_behind_lost_bytes_are_shown_when_damage_is_skipped(kafkalog: Kafkalog, tmp_path: Path) -> None:
    data = batch(b"a") + b"\xff" * 90 + flipped(batch(b"b", offset=1)) + batch(b"c", offset=2)
    path = segment(tmp_path, 0, data)
    ran = kafkalog("dump", path, "--batches", "--skip-damage", "-o", "jsonl")
    assert ran.code == 1
    assert [line["base_offset"] for line in lines(ran.out)] == [0, 2]
    assert "lost-bytes" in ran.err


def test_the_header_of_a_damaged_batch_is_shown(kafkalog: Kafkalog, tmp_path: Path) -> None:
    made = V2Batch([PlainRecord(0, 1000, None, b"x" * 50)], codec=ZSTD).encoded()
    path = segment(tmp_path, 0, flipped(made))
    (found,) = lines(kafkalog("dump", path, "--batches", "-o", "jsonl").out)
    assert (found["compression_type"], found["is_valid"]) == ("zstd", False)
    assert " zstd   1970-01-01T00:00:01Z DAMAGED" in kafkalog("dump", path, "--batches").out


def test_damaged_batches_are_shown_and_found(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = segment(tmp_path, 0, flipped(batch(b"one")) + batch(b"two", offset=1) + batch(b"x", offset=2, magic=3))
    ran = kafkalog("dump", path, "--batches", "-o", "jsonl")
    assert ran.code == 1
    assert [line["is_valid"] for line in lines(ran.out)] == [False, True, False]
    assert "2 batches are damaged in all" in ran.err
    assert kafkalog("dump", path, "--batches").out.count("DAMAGED") == 2


def test_damage_in_one_partition_hides_no_other(kafkalog: Kafkalog, data_dir: Path) -> None:
    segment(data_dir / "billing-0", 7, flipped(batch(b"bill", offset=7)))
    ran = kafkalog("dump", data_dir, "-o", "jsonl")
    assert ran.code == 1
    assert [line["value"] for line in lines(ran.out)] == [*"abcd", "two", "ten"]


def test_a_torn_tail_is_reported_and_is_no_damage(kafkalog: Kafkalog, tmp_path: Path) -> None:
    first = batch(b"one")
    path = segment(tmp_path, 0, first + batch(b"two", offset=1)[:-1])
    ran = kafkalog("dump", path, "-o", "jsonl")
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert ran.err == f"kafkalog: {path}: position {len(first)}: it ends in part of a batch, not shown\n"
