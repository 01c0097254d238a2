"""`kafkalog dump --isolation`: records of aborted and open transactions are marked, counted, and left out if wanted."""

from __future__ import annotations

import json
from pathlib import Path
from struct import pack
from typing import Any

import pytest

import kafkalog as library
from kafkalog import ByteBufferMessageSet, Record
from tests.helpers.running import Kafkalog, batch, lines, segment
from tests.reference.encode import CONTROL, TRANSACTIONAL

COMMITTED = ("--isolation", "committed")


def view(golden_logs: Path) -> dict[str, list[int]]:
    text = (golden_logs / "kafka-3.9" / "expected" / "broker-view.json").read_text(encoding="utf-8")
    found: dict[str, list[int]] = json.loads(text)["v2-txn"]
    return found


def shown(kafkalog: Kafkalog, *arguments: object) -> list[dict[str, Any]]:
    return lines(kafkalog("dump", *arguments, "-o", "jsonl").out)


def data(offset: int, producer: int, sequence: int = 0) -> bytes:
    return batch(
        b"x", offset=offset, flags=TRANSACTIONAL, producer_id=producer, producer_epoch=0, base_sequence=sequence
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    flags = CONTROL | TRANSACTIONAL
    return batch(
        pack(">hi", 0, 7), offset=offset, key=pack(">hh", 0, commit), flags=flags, producer_id=producer,
        producer_epoch=0,
    )  # fmt: skip


@pytest.mark.parametrize("options", [(), ("--control",), ("--skip-damage",)])
def test_committed_records_are_those_of_a_committed_consumer(
    kafkalog: Kafkalog, golden_logs: Path, options: tuple[str, ...]
) -> None:
    ran = kafkalog("dump", golden_logs / "kafka-3.9" / "data" / "v2-txn-0", *COMMITTED, *options, "-o", "jsonl")
    offsets = [line["offset"] for line in lines(ran.out) if "control" not in line]
    assert (offsets, ran.code, ran.err) == (view(golden_logs)["read_committed"], 0, "")


@pytest.mark.parametrize("options", [(), ("--control",), ("--skip-damage",)])
def test_uncommitted_records_are_marked_and_counted(
    kafkalog: Kafkalog, golden_logs: Path, options: tuple[str, ...]
) -> None:
    ran = kafkalog("dump", golden_logs / "kafka-3.9" / "data" / "v2-txn-0", *options, "-o", "jsonl")
    found = [line for line in lines(ran.out) if "control" not in line]
    expected = view(golden_logs)
    assert [line["offset"] for line in found] == expected["read_uncommitted"]
    states = {line["offset"]: line.get("transaction_state") for line in found}
    unfinished = set(expected["read_uncommitted"]) - set(expected["read_committed"])
    assert {offset for offset, state in states.items() if state in {"aborted", "open"}} == unfinished
    assert {offset for offset, state in states.items() if state == "open"} == {each for each in states if each >= 1411}
    aborted = sum(offset < 1411 for offset in unfinished)
    assert ran.err == (
        "kafkalog: v2-txn-0: among these are records of transactions that are not committed:"
        f" {aborted} of aborted, {len(unfinished) - aborted} of open ones (--isolation committed leaves them out)\n"
    )
    assert ran.code == 0


def test_json_names_producer_and_transaction(kafkalog: Kafkalog, tmp_path: Path) -> None:
    idempotent = batch(b"a", b"b", offset=1, producer_id=5, producer_epoch=2, base_sequence=2**31 - 1)
    content = batch(b"plain") + idempotent + data(3, 9, 4) + marker(4, 9, commit=True) + data(5, 9, 5)
    path = segment(tmp_path, 0, content + batch(b"\xff", offset=6, producer_id=5, producer_epoch=2))
    names = ("producer_id", "producer_epoch", "sequence", "transaction_state")
    found = [tuple(line.get(name, "-") for name in names) for line in shown(kafkalog, path, "--control")]
    assert found == [
        ("-", "-", "-", "-"),
        (5, 2, 2**31 - 1, "-"),
        (5, 2, 0, "-"),
        (9, 0, 4, "committed"),
        (9, 0, None, "committed"),
        (9, 0, 5, "undecided"),
        (5, 2, None, "-"),
    ]
    without = [line for line in shown(kafkalog, path, "--control") if "control" not in line]
    assert shown(kafkalog, path) == without


def test_text_marks_what_is_not_committed(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = segment(tmp_path, 0, data(0, 9) + marker(1, 9, commit=False) + data(2, 9) + marker(3, 9, commit=True))
    first, second = (line for line in kafkalog("dump", path).out.splitlines() if line.startswith("offset"))
    assert first.endswith(" CreateTime  aborted transaction")
    assert second.endswith(" CreateTime")


def test_a_file_has_the_markers_in_it(kafkalog: Kafkalog, tmp_path: Path) -> None:
    content = data(4, 1) + data(5, 2) + data(6, 3) + marker(7, 1, commit=False) + marker(8, 2, commit=True)
    path = segment(tmp_path, 4, content + batch(b"x", offset=9))
    assert [line.get("transaction_state") for line in shown(kafkalog, path)] == [
        "aborted", "committed", "undecided", None
    ]  # fmt: skip
    assert [line["offset"] for line in shown(kafkalog, path, *COMMITTED)] == [5, 9]
    assert [line["offset"] for line in shown(kafkalog, path, "--limit", 1, *COMMITTED)] == [5]
    assert "1 of aborted ones" in kafkalog("dump", path, "--limit", 1).err


def test_damage_that_hides_the_end_of_a_transaction(kafkalog: Kafkalog, tmp_path: Path) -> None:
    content = data(0, 1) + marker(1, 1, commit=True) + b"\xff" * 200 + data(3, 2) + batch(b"x", offset=4)
    path = segment(tmp_path / "t-0", 0, content)
    assert [line["offset"] for line in shown(kafkalog, path, "--skip-damage", *COMMITTED)] == [0, 4]
    states = [line.get("transaction_state") for line in shown(kafkalog, path.parent, "--skip-damage")]
    assert states[1:] == ["undecided", None]
    assert 3 not in [line["offset"] for line in shown(kafkalog, path.parent, "--skip-damage", *COMMITTED)]


def test_a_log_ends_at_its_last_stable_offset(kafkalog: Kafkalog, tmp_path: Path) -> None:
    with library.open(tmp_path / "t-0", "a") as log:
        log.append([Record(b"before")])
        transaction = ByteBufferMessageSet.from_records(
            [Record(b"open")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        log.append_as_leader(transaction, 0)
        log.append([Record(b"after")])
    states = [line.get("transaction_state") for line in shown(kafkalog, tmp_path / "t-0")]
    assert states == [None, "open", None]
    assert [line["offset"] for line in shown(kafkalog, tmp_path / "t-0", *COMMITTED)] == [0]
    assert [line["offset"] for line in shown(kafkalog, tmp_path / "t-0", "--from", 1, *COMMITTED)] == []


def test_the_isolation_is_of_records(kafkalog: Kafkalog, tmp_path: Path) -> None:
    ran = kafkalog("dump", segment(tmp_path, 0, batch(b"x")), "--batches", *COMMITTED)
    assert (ran.code, "--isolation committed selects records" in ran.err) == (2, True)
