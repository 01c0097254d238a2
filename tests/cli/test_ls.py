"""`kafkalog ls`: sizes, counts, offsets and times from headers, and damage in its row."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.golden import Partition
from tests.helpers.partitions import every_partition
from tests.helpers.running import Kafkalog, Ran, batch, segment
from tests.reference.compression import GZIP
from tests.reference.encode import CONTROL, entries, records


def rows(ran: Ran) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


@every_partition
def test_files_of_a_broker_hold_what_kafka_reads_in_them(kafkalog: Kafkalog, partition: Partition) -> None:
    found = rows(kafkalog("ls", *(each.log for each in partition.segments), "-o", "json"))
    for each, row in zip(partition.segments, found, strict=True):
        batches = each.batches()
        data = [batch for batch in batches if not batch["control"]]
        count = sum(len(batch["records"]) for batch in data)
        assert row["size_in_bytes"] == each.log.stat().st_size
        assert row["batches"] == len(batches)
        assert row["control_batches"] == len(batches) - len(data)
        assert row["records"] == (count if row["records_exact"] else None)
        assert row["records_min"] <= count <= row["records_max"]
        assert row["records_exact"] or any(batch["magic"] < 2 and batch["codec"] != "none" for batch in batches)
        if batches:
            assert row["end_offset"] == batches[-1]["last_offset"] + 1
            timestamps = [batch["max_timestamp"] for batch in batches if batch["magic"] > 0]
            assert row["last_timestamp"] == max(timestamps, default=None)
        assert set(row["compression_types"]) == {batch["codec"] for batch in batches}
        assert row["magics"] == sorted({batch["magic"] for batch in batches})
        assert (row["tail"], row["tail_bytes"], row["errors"]) == ("end", 0, [])


@every_partition
def test_the_row_of_a_partition_adds_up_its_segments(kafkalog: Kafkalog, partition: Partition) -> None:
    whole, *segments = rows(kafkalog("ls", partition.directory, "-o", "json"))
    assert (whole["kind"], {row["kind"] for row in segments}) == ("partition", {"segment"})
    for name in ("segments", "size_in_bytes", "batches", "control_batches", "records_min", "records_max"):
        assert whole[name] == sum(row[name] for row in segments), name
    assert whole["segments"] == len(segments)


def test_a_partition_starts_where_its_data_directory_says(kafkalog: Kafkalog, golden_logs: Path) -> None:
    path = golden_logs / "kafka-3.9" / "data" / "v2-deleted-records-0"
    whole, first, *_ = rows(kafkalog("ls", path, "-o", "json"))
    assert (whole["log_start_offset"], whole["log_end_offset"], first["base_offset"]) == (492, 1200, 384)


def test_the_table(kafkalog: Kafkalog, data_dir: Path) -> None:
    assert kafkalog("ls", data_dir) == (
        0,
        """\
PARTITION  SEGMENTS   SIZE  BATCHES  RECORDS  START  END  FIRST TIME            LAST TIME             CODEC  FMT
billing-0         1   73 B        1        1      7    8  2026-01-01T00:00:07Z  2026-01-01T00:00:07Z  none   v2
orders-0          2  220 B        3        4      0    4  2026-01-01T00:00:00Z  2026-01-01T00:00:03Z  none   v2
orders-2          1   72 B        1        1      0    1  2026-01-01T00:00:00Z  2026-01-01T00:00:00Z  none   v2
orders-10         1   72 B        1        1      0    1  2026-01-01T00:00:00Z  2026-01-01T00:00:00Z  none   v2
""",
        "",
    )


def test_the_table_of_a_partition_ends_with_all_of_it(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("ls", data_dir / "orders-0")
    names = [line.split()[0] for line in ran.out.splitlines()]
    assert names == ["SEGMENT", f"{0:020}.log", f"{3:020}.log", "total"]
    assert ran.out.splitlines()[-1].startswith("total of 2 ")
    assert "SEGMENTS" not in ran.out


@pytest.mark.slow
def test_the_table_fits_a_narrow_terminal(on_a_terminal: Kafkalog, data_dir: Path) -> None:
    ran = on_a_terminal("ls", data_dir, NO_COLOR="1")
    assert max(map(len, ran.out.splitlines())) <= 80
    for title in ("PARTITION", "SIZE", "RECORDS", "START", "END", "FIRST TIME", "LAST TIME"):
        assert title in ran.out
    assert " 2026-01-01 00:00 " in ran.out
    assert ran.out.endswith("--wide shows all)\n")
    assert "BATCHES" in ran.out.splitlines()[-1]


@pytest.mark.slow
def test_all_columns_are_shown_when_asked_for(on_a_terminal: Kafkalog, kafkalog: Kafkalog, data_dir: Path) -> None:
    assert on_a_terminal("ls", "--wide", data_dir, NO_COLOR="1").out == kafkalog("ls", data_dir).out


def test_an_empty_segment_ends_where_it_begins(kafkalog: Kafkalog, data_dir: Path) -> None:
    segment(data_dir / "orders-0", 4, b"")
    whole, *_, last = rows(kafkalog("ls", data_dir / "orders-0", "-o", "json"))
    assert (last["base_offset"], last["end_offset"], whole["log_end_offset"]) == (4, 4, 4)
    assert "?" not in kafkalog("ls", data_dir / "orders-0").out


def test_a_row_has_its_kind_topic_and_partition(kafkalog: Kafkalog, data_dir: Path) -> None:
    (row,) = rows(kafkalog("ls", data_dir / "orders-0" / f"{3:020}.log", "-o", "json"))
    assert (row["version"], row["kind"], row["topic"], row["partition"]) == (2, "file", "orders", 0)


def test_a_name_that_is_no_utf_8_is_escaped_in_json(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/gr\xfcn-0"))
    segment(path, 0, batch(b"a", b"b")[:-1] + b"\1")
    (row, *_) = rows(kafkalog("ls", path, "-o", "json"))
    assert row["topic"] == "gr\\xfcn"
    for command in (["dump"], ["dump", "--batches"], ["verify"]):
        ran = kafkalog(*command, path, "-o", "jsonl")
        assert ran.code == 1
        assert "internal" not in ran.err


def test_json_lines_are_the_rows_of_the_json_document(kafkalog: Kafkalog, data_dir: Path) -> None:
    lines = [json.loads(line) for line in kafkalog("ls", data_dir, "-o", "jsonl").out.splitlines()]
    assert lines == rows(kafkalog("ls", data_dir, "-o", "json"))
    assert [(row["topic"], row["partition"]) for row in lines] == [
        ("billing", 0),
        ("orders", 0),
        ("orders", 2),
        ("orders", 10),
    ]


def test_records_in_old_compressed_messages_are_bounded_not_guessed(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = segment(tmp_path, 5, entries(records(b"a", b"b", b"c", offset=5), 1, GZIP))
    (row,) = rows(kafkalog("ls", path, "-o", "json"))
    assert (row["records"], row["records_exact"], row["records_min"], row["records_max"]) == (None, False, 1, 3)
    assert "≤3" in kafkalog("ls", path).out


def test_a_file_without_base_offset_in_its_name_has_at_least_some_records(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(entries(records(b"a", b"b", b"c", offset=5), 1, GZIP))
    (row,) = rows(kafkalog("ls", path, "-o", "json"))
    assert (row["records_min"], row["records_max"], row["base_offset"], row["end_offset"]) == (1, None, None, 8)
    assert "≥1" in kafkalog("ls", path).out


def test_control_records_are_no_records(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = segment(tmp_path, 0, batch(b"a") + batch(b"\0" * 6, offset=1, key=b"\0\0\0\1", flags=CONTROL))
    (row,) = rows(kafkalog("ls", path, "-o", "json"))
    assert (row["batches"], row["control_batches"], row["records"], row["end_offset"]) == (2, 1, 1, 2)


@pytest.mark.parametrize(
    ("tail", "kind"), [(batch(b"b", offset=1)[:-1], "torn"), (b"\0" * 500, "zeroed"), (b"\0\0\0", "zeroed")]
)
def test_a_tail_is_no_damage(kafkalog: Kafkalog, tmp_path: Path, tail: bytes, kind: str) -> None:
    path = segment(tmp_path / "orders-0", 0, batch(b"a") + tail)
    ran = kafkalog("ls", path, "-o", "json")
    (row,) = rows(ran)
    assert (ran.code, ran.err) == (0, "")
    assert (row["tail"], row["tail_bytes"], row["records"]) == (kind, len(tail), 1)
    assert f"{kind} tail, {len(tail)} B" in kafkalog("ls", path.parent).out


def damaged_batch(**fields: Any) -> bytes:
    return batch(b"b", offset=1, **fields)


DAMAGE = {
    "size too small": damaged_batch(size=13),
    "size negative": damaged_batch(size=-1),
    "magic 3": damaged_batch(magic=3),
    "magic -1": damaged_batch(magic=-1),
    "unknown codec": damaged_batch(flags=7),
    "shorter than a header": batch(b"", offset=1, size=40)[:52],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_reported_and_records_before_it_count(kafkalog: Kafkalog, tmp_path: Path, damage: bytes) -> None:
    path = segment(tmp_path / "orders-0", 0, batch(b"a") + damage)
    ran = kafkalog("ls", path, "-o", "json")
    (row,) = rows(ran)
    assert ran.code == 1
    assert (row["records"], row["tail"], row["tail_bytes"]) == (1, "damaged", len(damage))
    assert ran.err == f"kafkalog: {row['errors'][0]}\n"
    assert f"{path}: position {len(batch(b'a'))}: " in ran.err
    assert "DAMAGED" in kafkalog("ls", path.parent).out


def test_damage_in_one_segment_hides_no_other(kafkalog: Kafkalog, data_dir: Path) -> None:
    first = data_dir / "orders-0" / f"{0:020}.log"
    first.write_bytes(first.read_bytes()[:-1])
    ran = kafkalog("ls", data_dir / "orders-0", "-o", "json")
    whole, *segments = rows(ran)
    assert ran.code == 1
    assert [(row["records"], row["tail"]) for row in segments] == [(2, "damaged"), (1, "end")]
    assert (whole["records"], whole["log_end_offset"], len(whole["errors"])) == (3, 4, 1)
    assert ran.err.count("\n") == 1
    assert "a segment that has a successor ends in a torn tail" in ran.err


def test_damage_in_one_partition_hides_no_other(kafkalog: Kafkalog, data_dir: Path) -> None:
    segment(data_dir / "billing-0", 7, damaged_batch(size=0))
    ran = kafkalog("ls", data_dir)
    assert ran.code == 1
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == ["billing-0", "orders-0", "orders-2", "orders-10"]
    assert "DAMAGED" in ran.out.splitlines()[1]


def test_an_unreadable_checkpoint_is_reported(kafkalog: Kafkalog, data_dir: Path) -> None:
    (data_dir / "log-start-offset-checkpoint").write_text("nonsense")
    ran = kafkalog("ls", data_dir / "orders-0")
    assert ran.code == 1
    assert "log-start-offset-checkpoint: " in ran.err


def test_a_path_that_cannot_be_read_hides_no_other(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("ls", data_dir / "missing", data_dir / "orders-2")
    assert ran.code == 3
    assert "orders-2" in ran.out


def test_directories_of_deleted_partitions_are_named_so(kafkalog: Kafkalog, data_dir: Path) -> None:
    going = data_dir / f"orders-2.{'0' * 31}f-delete"
    segment(going, 0, batch(b"old"))
    found = [(row["topic"], row["partition"], row["mark"]) for row in rows(kafkalog("ls", data_dir, "-o", "json"))]
    assert found[2:4] == [("orders", 2, None), ("orders", 2, "delete")]
    assert [line for line in kafkalog("ls", data_dir).out.splitlines() if line.endswith("-delete")]


@pytest.mark.parametrize(
    ("globs", "names"),
    [
        (["orders"], ["orders-0", "orders-2", "orders-10"]),
        (["orders-[0-2]"], ["orders-0", "orders-2"]),
        (["b*", "orders-10"], ["billing-0", "orders-10"]),
    ],
)
def test_topics_can_be_chosen(kafkalog: Kafkalog, data_dir: Path, globs: list[str], names: list[str]) -> None:
    options = [word for glob in globs for word in ("--topic", glob)]
    ran = kafkalog("ls", data_dir, *options)
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == names


def test_a_topic_that_is_not_there_is_wrong_usage(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("ls", data_dir, "--topic", "order")
    assert ran.code == 2
    assert "matches order" in ran.err
