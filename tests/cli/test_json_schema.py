"""All JSON that the commands print follows docs/schema, and every field in it is named there."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkalog import RecordBatch
from kafkalog.cli.json_shapes import BATCH_FIELDS, JSON_VERSION
from kafkalog.inspector import headless
from tests.helpers.damage import flipped, start_of
from tests.helpers.damage import log as damaged_log
from tests.helpers.golden import Partition
from tests.helpers.inspected import segment_file
from tests.helpers.partitions import sampled_partition
from tests.helpers.running import Kafkalog, lines, segment
from tests.reference.compression import GZIP
from tests.reference.encode import entries, records

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / f"kafkalog-{JSON_VERSION}.json"
# Strings that are one of a few.
NAMES = {
    "code",
    "health",
    "index_state",
    "kind",
    "mark",
    "severity",
    "state",
    "tail",
    "timestamp_type",
    "transaction_state",
    "type",
}
SCREENS = list(headless.SCREENS)


@cache
def closed() -> dict[str, Any]:
    """The schema without room for fields that it does not name."""
    schema: dict[str, Any] = deepcopy(json.loads(SCHEMA.read_text()))
    close(schema)
    return schema


def close(schema: Any) -> None:
    if isinstance(schema, dict):
        for name, each in schema.items():
            close(each)
            inner = each.values() if name == "properties" else each if name == "anyOf" else [each]
            if name in {"additionalProperties", "anyOf", "items", "properties"}:
                for value in inner:
                    if isinstance(value, dict) and ("$ref" in value or value.get("type") == "object"):
                        value["unevaluatedProperties"] = False
    elif isinstance(schema, list):
        for each in schema:
            close(each)


@cache
def validator(name: str) -> Draft202012Validator:
    whole = {"$ref": f"#/$defs/{name}", "unevaluatedProperties": False, "$defs": closed()["$defs"]}
    return Draft202012Validator(whole)


def form(value: Any, name: str = "") -> object:
    """What makes a document differ for the schema: of lines that are alike one is validated."""
    if isinstance(value, dict):
        return tuple(sorted((key, form(each, key)) for key, each in value.items()))
    if isinstance(value, list):
        return tuple(sorted({form(each) for each in value}, key=repr))
    if isinstance(value, int):
        return type(value).__name__, value < 0
    return value if name in NAMES else type(value).__name__


def of_each_form(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({form(document): document for document in documents}.values())


def ensure_valid(name: str, documents: list[dict[str, Any]]) -> None:
    for each in of_each_form(documents):
        for error in validator(name).iter_errors(each):
            raise AssertionError(f"{name}: {error.json_path}: {error.message}\n{each}")


def ensure_every_command_is_valid(kafkalog: Kafkalog, path: Path) -> None:
    ensure_valid("dump", lines(kafkalog("dump", path, "--skip-damage", "--control", "-o", "jsonl").out))
    ensure_valid("dump_batches", lines(kafkalog("dump", path, "--skip-damage", "--batches", "-o", "jsonl").out))
    ensure_valid("ls", lines(kafkalog("ls", path, "-o", "jsonl").out))
    ensure_valid("verify_line", lines(kafkalog("verify", "--deep", path, "-o", "jsonl").out))
    ensure_valid("verify", [json.loads(kafkalog("verify", path, "-o", "json").out)])
    if path.is_dir():
        ensure_valid("dump", lines(kafkalog("tail", path, "-o", "jsonl").out))
    for screen in SCREENS:
        ensure_screen_is_valid(kafkalog, path, screen)


def ensure_screen_is_valid(kafkalog: Kafkalog, path: Path, screen: str) -> None:
    find = ["--find", "1"] if screen == "search" else []
    ran = kafkalog("inspect", path, "--headless", screen, *find, "-o", "json")
    document = json.loads(ran.out)
    ensure_valid(f"inspect_{screen}", [{**document, "rows": of_each_form(document["rows"])}])


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(json.loads(SCHEMA.read_text()))
    assert {f"inspect_{screen}" for screen in headless.SCREENS} <= set(closed()["$defs"])


def test_a_batch_has_the_names_of_record_batch() -> None:
    batch = closed()["$defs"]["batch"]
    assert tuple(batch["properties"]) == BATCH_FIELDS
    assert {name for name in BATCH_FIELDS if not hasattr(RecordBatch, name)} == {"path", "control", "error"}


@pytest.mark.slow
@sampled_partition
def test_every_command_on_logs_of_a_broker(kafkalog: Kafkalog, partition: Partition) -> None:
    ensure_every_command_is_valid(kafkalog, partition.directory)


def test_every_command_on_transactions(kafkalog: Kafkalog, golden_logs: Path) -> None:
    path = golden_logs / "kafka-3.9" / "data" / "v2-txn-0"
    ensure_every_command_is_valid(kafkalog, path / f"{20:020}.log")
    for screen in ("segments", "transactions"):
        ensure_screen_is_valid(kafkalog, path, screen)


def test_every_command_on_a_file(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(entries(records(b"a", b"\xff", None, offset=5), 1, GZIP))
    ensure_every_command_is_valid(kafkalog, path)


def test_every_command_on_damage(kafkalog: Kafkalog, tmp_path: Path) -> None:
    batches = damaged_log()
    data = flipped(b"".join(batches), start_of(batches, 3) + 300, 0)
    path = segment_file(tmp_path / "t-0", b"\x07" * len(batches[0]) + data[len(batches[0]) : -20])
    ensure_every_command_is_valid(kafkalog, path)
    ensure_every_command_is_valid(kafkalog, path.parent)


def test_the_report_of_an_append(kafkalog: Kafkalog, tmp_path: Path) -> None:
    reports = [
        json.loads(kafkalog("append", tmp_path / "t-0", "-o", "json", stdin=given).out) for given in (b"", b"a\n")
    ]

    ensure_valid("append", reports)
    assert [(report["first_offset"], report["last_offset"]) for report in reports] == [(None, None), (0, 0)]


def test_the_status_of_a_data_directory(kafkalog: Kafkalog, golden_logs: Path, data_dir: Path) -> None:
    (data_dir / "replication-offset-checkpoint").write_text("0\n1\norders\n")
    good, damaged, one = (
        kafkalog("status", path, "-o", "json")
        for path in (golden_logs / "kafka-0.10.2" / "data", data_dir, data_dir / "orders-0")
    )
    ensure_valid("status", [json.loads(each.out) for each in (good, damaged, one)])
    assert [each.code for each in (good, damaged, one)] == [0, 1, 1]
    assert "replication-offset-checkpoint" in damaged.err
    text = kafkalog("status", golden_logs / "kafka-3.9" / "data", "-t", "v2-txn")
    assert text.code == 1
    assert "the transaction of producer 1000 that began at offset 1,411 hangs" in text.out


def test_the_report_of_a_recovery(kafkalog: Kafkalog, data_dir: Path) -> None:
    # Its offsets are below its base offset.
    misnamed, first = data_dir / "orders-2" / f"{5:020}.log", data_dir / "orders-2" / f"{0:020}.log"
    first.rename(misnamed)
    failed = kafkalog("recover", data_dir, "-j", "1", "-o", "json")
    misnamed.rename(first)
    recovered, again = (kafkalog("recover", data_dir, "-j", "1", "-o", "json") for _ in range(2))
    reports = [json.loads(each.out) for each in (failed, recovered, again)]

    ensure_valid("recover", reports)
    assert [(report["summary"]["partitions"], report["summary"]["failed"]) for report in reports] == [
        (4, 1),
        (4, 0),
        (0, 0),
    ]
    assert [failed.code, recovered.code, again.code] == [1, 0, 0]
    assert "orders-2 was not recovered" in failed.err


def test_the_report_of_a_salvage(kafkalog: Kafkalog, data_dir: Path, tmp_path: Path) -> None:
    with (data_dir / "orders-0" / f"{3:020}.log").open("r+b") as file:
        file.truncate(30)
    ran = [kafkalog("salvage", data_dir, tmp_path / "new", *options) for options in (["-o", "json"], [])]
    report = json.loads(ran[0].out)

    ensure_valid("salvage", [report])
    assert [(each["topic"], each["log_end_offset"], each["bytes_left_out"] > 0) for each in report["partitions"]] == [
        ("billing", 8, False),
        ("orders", 3, True),
        ("orders", 1, False),
        ("orders", 1, False),
    ]
    assert [each.code for each in ran] == [1, 0]
    assert ran[1].err.count("is there already") == 4
    assert kafkalog("salvage", data_dir / "billing-0", tmp_path / "other" / "billing-0").code == 0
    assert kafkalog("salvage", data_dir / "orders-0" / f"{3:020}.log", tmp_path / "t-0").code == 2


def test_what_a_broker_would_do(kafkalog: Kafkalog, golden_logs: Path, data_dir: Path) -> None:
    good = kafkalog("explain", golden_logs / "kafka-3.9" / "data", "-o", "json")
    (data_dir / "notes").mkdir()
    bad = kafkalog("explain", data_dir, "--as-if", "unclean", "-o", "json")
    documents = [json.loads(each.out) for each in (good, bad)]

    ensure_valid("explain", documents)
    assert [each["starts"] for each in documents] == [True, False]
    assert [each.code for each in (good, bad)] == [0, 1]
    text = kafkalog("explain", data_dir)
    assert "notes: no-start: " in text.out
    assert text.out.endswith("a broker does not start: 1 obstacle, see no-start above\n")
    assert kafkalog("explain", data_dir / "orders-0").code == 3


def test_the_report_of_a_repair(kafkalog: Kafkalog, data_dir: Path) -> None:
    (data_dir / "notes").mkdir()
    with (data_dir / "orders-0" / f"{3:020}.log").open("r+b") as file:
        file.truncate(30)
    flipped_at = data_dir / "billing-0" / f"{7:020}.log"
    flipped_at.write_bytes(flipped(flipped_at.read_bytes(), 70, 0))
    ran = [kafkalog("repair", data_dir, "-o", "json", *options) for options in ([], ["--apply", "--drop-corrupt"])]
    reports = [json.loads(each.out) for each in ran]

    ensure_valid("repair", reports)
    assert [len(each["left"]) > 0 for each in reports] == [True, False]
    assert [each["journal"] is None for each in reports] == [True, False]
    assert [each.code for each in ran] == [1, 0]

    undone = json.loads(kafkalog("repair", "--undo", reports[1]["journal"], "-o", "json").out)
    ensure_valid("repair_undo", [undone])
    assert (undone["path"], undone["journal"]) == (str(data_dir), reports[1]["journal"])
    assert {str(data_dir / "notes"), str(flipped_at)} <= {*undone["restored"]}


def test_a_data_directory(kafkalog: Kafkalog, golden_logs: Path, data_dir: Path) -> None:
    segment(data_dir / f"orders-2.{'0' * 31}f-delete", 0, b"")
    for path in (golden_logs / "kafka-3.9" / "data", data_dir):
        ensure_valid("ls", lines(kafkalog("ls", path, "-o", "jsonl").out))


@sampled_partition
def test_segments_are_the_same_in_ls_and_inspect(kafkalog: Kafkalog, partition: Partition) -> None:
    _, *listed = lines(kafkalog("ls", partition.directory, "-o", "jsonl").out)
    rows = json.loads(kafkalog("inspect", partition.directory, "--headless", "segments", "-o", "json").out)["rows"]
    # Compressed messages of formats 0 and 1, of which headers tell no number, are read by the inspector.
    bounds = {"records", "records_exact", "records_min", "records_max"}
    for row, line in zip(rows, listed, strict=True):
        same = row.keys() & line.keys() - (set() if line["records_exact"] else bounds)
        assert {name: row[name] for name in same} == {name: line[name] for name in same}
        assert line["records_min"] <= row["records"] <= line["records_max"]


def test_what_is_absent_is_null(kafkalog: Kafkalog, data_dir: Path) -> None:
    (line, *_) = lines(kafkalog("dump", data_dir / "orders-0", "--batches", "-o", "jsonl").out)
    nulls = {name for name, value in line.items() if value is None}
    assert nulls == {"control", "delete_horizon_ms", "error"} | {
        "base_sequence", "last_sequence", "partition_leader_epoch", "producer_epoch", "producer_id"
    }  # fmt: skip
    assert -1 not in line.values()
