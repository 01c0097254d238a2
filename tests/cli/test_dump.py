"""`kafkalog dump`: every record as it is, nothing that steers a terminal, and all that stands before damage."""

from __future__ import annotations

import base64
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.golden import Partition
from tests.helpers.partitions import sampled_partition
from tests.helpers.reading import data_records, without_sequence
from tests.helpers.running import Kafkalog, batch, lines, offsets, segment
from tests.reference.compression import GZIP, ZSTD
from tests.reference.encode import CONTROL, TRANSACTIONAL, PlainRecord, V2Batch, entries, records

LOG_APPEND_TIME = 1


def payload(document: dict[str, Any], name: str) -> bytes | None:
    """The bytes that a line of JSON stands for."""
    text = document[name]
    if text is None:
        return None
    return base64.b64decode(text) if document.get(f"{name}_encoding") == "base64" else text.encode()


def fields(document: dict[str, Any]) -> tuple[Any, ...]:
    headers = tuple((header["key"], payload(header, "value")) for header in document["headers"])
    timestamp = -1 if document["timestamp"] is None else document["timestamp"]
    return document["offset"], timestamp, payload(document, "key"), payload(document, "value"), headers


@sampled_partition
def test_json_lines_hold_every_record_as_kafka_reads_it(kafkalog: Kafkalog, partition: Partition) -> None:
    ran = kafkalog("dump", *(segment.log for segment in partition.segments), "-o", "jsonl")
    assert ran.code == 0
    said = ("transactions that are not committed", "in its offsets")
    assert all(any(each in line for each in said) for line in ran.err.splitlines())
    assert list(map(fields, lines(ran.out))) == without_sequence(data_records(partition.batches()))


@sampled_partition
def test_batches_are_those_that_kafka_reads(kafkalog: Kafkalog, partition: Partition) -> None:
    ran = kafkalog("dump", *(segment.log for segment in partition.segments), "--batches", "-o", "jsonl")
    assert ran.code == 0
    assert all("in its offsets" in line for line in ran.err.splitlines())
    names = {
        "size": "size_in_bytes",
        "count": "records_count",
        "codec": "compression_type",
        "leader_epoch": "partition_leader_epoch",
        "transactional": "is_transactional",
        "control": "is_control",
        "crc": "checksum",
        "delete_horizon": "delete_horizon_ms",
    }
    for found, expected in zip(lines(ran.out), partition.batches(), strict=True):
        assert found["is_valid"]
        for name in expected.keys() - {"records"}:
            assert found[names.get(name, name)] == (None if expected[name] == -1 else expected[name]), name


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """Records with whatever may stand in one."""
    first = [
        PlainRecord(0, 1000, None, b""),
        PlainRecord(1, 1001, b"\xff\x00", b"\x1b[31mred\x07\n\xe2\x80\xae"),
        PlainRecord(2, 1002, b"", None, [(b"h", b"\xfe"), (b"h", b""), (b"h", None), ("ü".encode(), b"x")]),
    ]
    later = [PlainRecord(3, -1, b"k", b'"quoted" \\ \x7f\xc2\x9b')]
    path = tmp_path / "nasty.log"
    path.write_bytes(V2Batch(first).encoded() + V2Batch(later, timestamp_type=LOG_APPEND_TIME).encoded())
    return path


def test_json_distinguishes_null_from_empty_and_text_from_bytes(kafkalog: Kafkalog, nasty: Path) -> None:
    ran = kafkalog("dump", nasty, "-o", "jsonl")
    where = {"version": 2, "path": str(nasty)}
    common = {**where, "timestamp_type": "CreateTime", "headers": []}
    assert lines(ran.out) == [
        {"offset": 0, "timestamp": 1000, "key": None, "value": "", **common},
        {
            "offset": 1,
            "timestamp": 1001,
            "key": "/wA=",
            "key_encoding": "base64",
            "value": "\x1b[31mred\x07\n\u202e",
            **common,
        },
        {
            **where,
            "offset": 2,
            "timestamp": 1002,
            "timestamp_type": "CreateTime",
            "key": "",
            "value": None,
            "headers": [
                {"key": "h", "value": "/g==", "value_encoding": "base64"},
                {"key": "h", "value": ""},
                {"key": "h", "value": None},
                {"key": "ü", "value": "x"},
            ],
        },
        {
            **where,
            "offset": 3,
            "timestamp": None,
            "timestamp_type": "LogAppendTime",
            "key": "k",
            "value": '"quoted" \\ \x7f\x9b',
            "headers": [],
        },
    ]


def test_json_is_one_array_of_the_same(kafkalog: Kafkalog, nasty: Path) -> None:
    assert json.loads(kafkalog("dump", nasty, "-o", "json").out) == lines(kafkalog("dump", nasty, "-o", "jsonl").out)


def test_json_of_nothing_is_an_empty_array(kafkalog: Kafkalog, nasty: Path) -> None:
    assert kafkalog("dump", nasty, "-o", "json", "--limit", 0).out == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_nothing_in_a_record_steers_a_terminal(on_a_terminal: Kafkalog, nasty: Path, form: str) -> None:
    ran = on_a_terminal("dump", nasty, "-o", form, NO_COLOR="1")
    assert ran.code == 0
    assert [char for char in ran.out if not char.isprintable() and char != "\n"] == []
    assert "\\u001b[31m" in ran.out or "\\x1b[31m" in ran.out


@pytest.mark.slow
def test_json_is_the_same_on_a_terminal(on_a_terminal: Kafkalog, kafkalog: Kafkalog, nasty: Path) -> None:
    assert lines(on_a_terminal("dump", nasty, "-o", "jsonl").out) == lines(kafkalog("dump", nasty, "-o", "jsonl").out)


def test_text_shows_null_empty_and_bytes_as_such(kafkalog: Kafkalog, nasty: Path) -> None:
    assert kafkalog("dump", nasty).out == (
        "offset 0  1970-01-01T00:00:01.000Z CreateTime\n"
        "  key    <null>\n"
        "  value  <empty>\n"
        "offset 1  1970-01-01T00:00:01.001Z CreateTime\n"
        "  key    <hex> ff00\n"
        "  value  \\x1b[31mred\\x07\\n\\u202e\n"
        "offset 2  1970-01-01T00:00:01.002Z CreateTime\n"
        "  key    <empty>\n"
        "  value  <null>\n"
        "  header h: <hex> fe\n"
        "  header h: <empty>\n"
        "  header h: <null>\n"
        "  header ü: x\n"
        "offset 3  no timestamp\n"
        "  key    k\n"
        '  value  "quoted" \\ \\x7f\\x9b\n'
    )


def test_long_payloads_are_cut_when_asked(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = segment(tmp_path, 0, batch(b"x" * 2000))
    assert "  value  " + "x" * 2000 + "\n" in kafkalog("dump", path).out
    assert "  value  xxxxx… (+1995)\n" in kafkalog("dump", path, "--max-width", 5).out


@pytest.mark.slow
def test_long_payloads_do_not_flood_a_terminal(on_a_terminal: Kafkalog, tmp_path: Path) -> None:
    path = segment(tmp_path, 0, batch(b"x" * 2000))
    assert "x… (+1000)\n" in on_a_terminal("dump", path, NO_COLOR="1").out
    assert "x" * 2000 + "\n" in on_a_terminal("dump", path, "--max-width", 0, NO_COLOR="1").out


RANGES = [
    ([], [0, 1, 2, 3]),
    (["--from", "2"], [2, 3]),
    (["--to", "2"], [0, 1]),
    (["--from", "1", "--to", "3"], [1, 2]),
    (["--from", "earliest+1", "--to", "end-1"], [1, 2]),
    (["--from", "end-1"], [3]),
    (["--from", "end-100", "--limit", "1"], [0]),
    (["--from", "@2026-01-01T00:00:02Z"], [2, 3]),
    (["--from", "@2026-01-01T01:00:01+01:00", "--to", "@2026-01-01T00:00:02.500Z"], [1, 2]),
    (["--to", "@1767225601000"], [0]),
    (["--from", "3", "--to", "3"], []),
    (["--from", "latest-1"], [3]),
    (["--limit", "3"], [0, 1, 2]),
    (["--limit", "0"], []),
]


@pytest.mark.parametrize(("options", "expected"), RANGES)
def test_a_range_of_a_partition(kafkalog: Kafkalog, data_dir: Path, options: list[str], expected: list[int]) -> None:
    assert offsets(kafkalog, data_dir / "orders-0", *options) == expected


@pytest.mark.parametrize(("magic", "codec"), [(1, 0), (1, GZIP), (2, ZSTD)])
def test_a_range_of_a_file(kafkalog: Kafkalog, tmp_path: Path, magic: int, codec: int) -> None:
    made = [PlainRecord(i, 1_767_225_600_000 + 1000 * i, b"k", b"v") for i in range(4)]
    path = tmp_path / "copy"
    path.write_bytes(entries(made[:3], magic, codec) + entries(made[3:], magic, codec))
    for options, expected in RANGES:
        assert offsets(kafkalog, path, *options) == expected


def test_a_time_ago_is_counted_from_now(kafkalog: Kafkalog, tmp_path: Path) -> None:
    now = int(time.time() * 1000)
    made = [PlainRecord(0, now - 7_200_000, None, b"old"), PlainRecord(1, now - 60_000, None, b"new")]
    assert offsets(kafkalog, segment(tmp_path, 0, V2Batch(made).encoded()), "--from", "-1h") == [1]


TIMES = "its times go from 2026-01-01T00:00:00Z to 2026-01-01T00:00:03Z"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--from", "100"], "no record from offset 100 on: its offsets go from 0 to 3"),
        (["--from", str(2**63)], f"no record from offset {2**63} on: its offsets go from 0 to 3"),
        (["--from", "end"], "no record from offset 4 on: its offsets go from 0 to 3"),
        (["--from", "100", "--to", "end-1"], "--from (offset 100) comes after --to (offset 3)"),
        (
            ["--from", "@2027-01-01"],
            f"no record from 2027-01-01T00:00:00Z on: {TIMES}",
        ),
        (
            ["--from", "3", "--to", "@2026-01-01"],
            f"no record from offset 3 on and before 2026-01-01T00:00:00Z: its offsets go from 0 to 3, {TIMES}",
        ),
    ],
)
def test_an_empty_range_is_reported_in_the_terms_asked(
    kafkalog: Kafkalog, data_dir: Path, options: list[str], words: str
) -> None:
    assert kafkalog("dump", data_dir / "orders-0", *options) == (0, "", f"kafkalog: orders-0: {words}\n")
    ran = kafkalog("dump", data_dir / "orders-0", "--batches", *options)
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        ("3", "1", "--from 3 comes after --to 1"),
        ("end", "end-5", "--from end+0 comes after --to end-5"),
        ("@2027-01-01", "@2026-01-01", "--from (2027-01-01T00:00:00Z) is later than --to (2026-01-01T00:00:00Z)"),
        ("@1700087400", "@2026-01-01", "'@1700087400' looks like seconds: give ms since the epoch (@1700087400000)"),
    ],
)
def test_a_range_that_cannot_be_meant_is_wrong_usage(
    kafkalog: Kafkalog, data_dir: Path, start: str, end: str, words: str
) -> None:
    ran = kafkalog("dump", data_dir, "--from", start, "--to", end)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_an_empty_log_is_reported(kafkalog: Kafkalog, data_dir: Path) -> None:
    path = segment(data_dir / "new-0", 7, b"").parent
    assert kafkalog("dump", path) == (0, "", "kafkalog: new-0: empty; the next offset is 7\n")
    assert kafkalog("dump", path, "--from", "end-1").err == "kafkalog: new-0: empty; the next offset is 7\n"


def test_an_empty_range_of_several_logs_is_reported_when_all_have_none(kafkalog: Kafkalog, data_dir: Path) -> None:
    assert kafkalog("dump", data_dir, "--from", "5").err == ""
    assert kafkalog("dump", data_dir, "--from", "50").err == "kafkalog: no record in that range in any of the 4 logs\n"


SECONDS = [5, 1, 9, -1, 3, 7, 2, 8]


@pytest.fixture(params=[(1, 0), (1, GZIP), (2, 0), (2, ZSTD)], ids=str)
def disordered(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Records whose times do not rise, in batches and in two segments."""
    magic, codec = request.param
    start = 1_767_225_600_000
    made = [PlainRecord(i, start + 1000 * s if s >= 0 else -1, None, b"v") for i, s in enumerate(SECONDS)]
    home = tmp_path / "orders-0"
    segment(home, 0, b"".join(entries(made[i : i + 2], magic, codec) for i in (0, 2)))
    segment(home, 4, b"".join(entries(made[i : i + 2], magic, codec) for i in (4, 6)))
    return home


@pytest.mark.parametrize("more", [(), ("--control",), ("--skip-damage",)], ids=str)
def test_a_range_of_times_holds_exactly_the_records_of_these_times(
    kafkalog: Kafkalog, disordered: Path, more: tuple[str, ...]
) -> None:
    for since, until in product([None, 0, 2, 3, 9, 10], [None, 1, 4, 8, 10]):
        if since is not None and until is not None and since > until:
            continue
        bounds = [("--from", since), ("--to", until)]
        options = [word for name, at in bounds if at is not None for word in (name, f"@2026-01-01T00:00:{at:02}Z")]
        low, high = since or 0, 99 if until is None else until
        expected = [i for i, s in enumerate(SECONDS) if low <= s < high or not options]
        assert offsets(kafkalog, disordered, *options, *more) == expected


def test_an_offset_bounds_offsets_where_a_time_bounds_times(kafkalog: Kafkalog, disordered: Path) -> None:
    assert offsets(kafkalog, disordered, "--from", "@2026-01-01T00:00:03Z", "--to", "6") == [0, 2, 4, 5]
    assert offsets(kafkalog, disordered, "--from", "2", "--to", "@2026-01-01T00:00:08Z") == [4, 5, 6]


def test_batches_of_a_time_are_those_that_reach_into_it(kafkalog: Kafkalog, tmp_path: Path) -> None:
    made = [batch(b"a", b"b"), batch(b"c", b"d", offset=2), batch(b"e", offset=4)]
    path = segment(tmp_path, 0, b"".join(made))
    options = ("--from", "@2026-01-01T00:00:01Z", "--to", "@2026-01-01T00:00:03Z")
    found = lines(kafkalog("dump", path, "--batches", "-o", "jsonl", *options).out)
    assert [line["base_offset"] for line in found] == [0, 2]


def test_batches_of_a_range_are_those_that_touch_it(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("dump", data_dir / "orders-0", "--batches", "--from", 1, "--to", 3, "-o", "jsonl")
    found = [(Path(line["path"]).name, line["position"], line["base_offset"]) for line in lines(ran.out)]
    assert found == [(f"{0:020}.log", 0, 0), (f"{0:020}.log", len(batch(b"a", b"b")), 2)]


def test_records_of_a_data_directory_have_topic_and_partition(kafkalog: Kafkalog, data_dir: Path) -> None:
    found = lines(kafkalog("dump", data_dir, "-o", "jsonl").out)
    assert [(line["topic"], line["partition"], line["value"]) for line in found] == [
        ("billing", 0, "bill"),
        *[("orders", 0, value) for value in "abcd"],
        ("orders", 2, "two"),
        ("orders", 10, "ten"),
    ]
    assert kafkalog("dump", data_dir, "--limit", 1).out.startswith("billing-0 offset 7 ")


def test_a_record_has_topic_and_partition_for_every_kind_of_path(kafkalog: Kafkalog, data_dir: Path) -> None:
    whole = kafkalog("dump", data_dir, "-t", "orders-2", "-o", "jsonl").out
    home = data_dir / "orders-2"
    assert kafkalog("dump", home, "-o", "jsonl").out == whole
    assert kafkalog("dump", home / f"{0:020}.log", "-o", "jsonl").out == whole
    assert kafkalog("dump", home, "-o", "jsonl", "--control").out == whole
    assert whole.startswith('{"version":2,"topic":"orders","partition":2,"offset":0,')


def test_many_paths(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("dump", data_dir / "orders-2", "nowhere", data_dir / "orders-10", "-o", "jsonl", "--from", "end-1")
    assert [line["value"] for line in lines(ran.out)] == ["two", "ten"]
    assert (ran.code, ran.err) == (3, "kafkalog: nowhere: No such file or directory\n")
    text = kafkalog("dump", data_dir / "orders-2", data_dir / "orders-10").out
    assert [line[:9] for line in text.splitlines() if "offset" in line] == ["orders-2 ", "orders-10"]


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
@pytest.mark.parametrize("options", [(), ("--control",), ("--skip-damage",)])
def test_a_limit_ends_after_a_whole_large_record(
    kafkalog: Kafkalog, tmp_path: Path, form: str, options: tuple[str, ...]
) -> None:
    large = b"x" * (3 << 20)
    log = segment(tmp_path, 0, batch(b"small", large, b"not shown"))
    ran = kafkalog("dump", log, "-n", "2", "-o", form, *options)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("x") >= len(large)
    if form == "text":
        assert ran.out.endswith("x\n")
    else:
        found = json.loads(ran.out) if form == "json" else lines(ran.out)
        assert [document["value"] for document in found] == ["small", large.decode()]


def test_a_limit_counts_over_all_partitions(kafkalog: Kafkalog, data_dir: Path) -> None:
    assert len(lines(kafkalog("dump", data_dir, "--limit", 3, "-o", "jsonl").out)) == 3


def test_partitions_can_be_chosen(kafkalog: Kafkalog, data_dir: Path) -> None:
    found = lines(kafkalog("dump", data_dir, "--topic", "orders-[2-9]", "-o", "jsonl").out)
    assert [line["value"] for line in found] == ["two"]


@pytest.fixture
def transaction(tmp_path: Path) -> Path:
    """A record and the marker that commits it."""
    marker = batch(
        b"\0\0\0\0\0\7", offset=1, key=b"\0\0\0\1", flags=CONTROL | TRANSACTIONAL, producer_id=9, producer_epoch=3
    )
    record = batch(b"a", flags=TRANSACTIONAL, producer_id=9, producer_epoch=3, base_sequence=0)
    return segment(tmp_path, 0, record + marker)


def test_control_records_are_not_among_the_records(kafkalog: Kafkalog, transaction: Path) -> None:
    assert offsets(kafkalog, transaction) == [0]


def test_control_records_are_shown_when_asked_for(kafkalog: Kafkalog, transaction: Path) -> None:
    first, second = lines(kafkalog("dump", transaction, "--control", "-o", "jsonl").out)
    assert "control" not in first
    assert second["control"] == {"type": "COMMIT", "type_id": 1, "coordinator_epoch": 7}
    assert "control COMMIT" in kafkalog("dump", transaction, "--control").out
    assert offsets(kafkalog, transaction, "--control", "--from", 1) == [1]
    assert offsets(kafkalog, transaction, "--control", "--limit", 1) == [0]


def test_batches_decode_their_control_records(kafkalog: Kafkalog, transaction: Path) -> None:
    _, second = lines(kafkalog("dump", transaction, "--batches", "-o", "jsonl").out)
    assert second["control"] == [{"offset": 1, "type": "COMMIT", "type_id": 1, "coordinator_epoch": 7}]
    assert second["producer_id"] == 9
    assert " COMMIT pid 9/3\n" in kafkalog("dump", transaction, "--batches").out


def test_a_control_record_that_does_not_follow_its_format_is_shown_all_the_same(
    kafkalog: Kafkalog, tmp_path: Path
) -> None:
    path = segment(tmp_path, 0, batch(b"", key=b"\0", flags=CONTROL))
    (found,) = lines(kafkalog("dump", path, "--batches", "-o", "jsonl").out)
    assert "too short" in found["control"][0]["error"]
    assert kafkalog("dump", path, "--batches").code == 0


def test_a_range_of_only_control_records_is_reported(kafkalog: Kafkalog, transaction: Path) -> None:
    ran = kafkalog("dump", transaction, "--from", "end-1")
    assert ran.err.endswith("go from 0 to 1; there are control records (--control shows them)\n")


def test_records_of_a_quorum_are_short_in_text_and_whole_in_json(kafkalog: Kafkalog, golden_logs: Path) -> None:
    path = golden_logs / "kafka-3.9" / "data" / "__cluster_metadata-0"
    text = kafkalog("dump", path, "--batches", "--limit", 1).out
    assert "LEADER_CHANGE leader " in text
    assert "(" not in text
    (found,) = lines(kafkalog("dump", path, "--batches", "--limit", 1, "-o", "jsonl").out)
    assert found["control"][0]["voters"]


@pytest.mark.slow
def test_batches_fit_a_narrow_terminal(on_a_terminal: Kafkalog, kafkalog: Kafkalog, golden_logs: Path) -> None:
    path = golden_logs / "kafka-3.9" / "data" / "v2-txn-0"
    ran = on_a_terminal("dump", path, "--batches", NO_COLOR="1")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "MAX TIME" in ran.out
    assert ran.out.endswith("--wide shows them)\n")
    assert (
        on_a_terminal("dump", path, "--batches", "--wide", NO_COLOR="1").out == kafkalog("dump", path, "--batches").out
    )


def test_records_of_old_formats_have_the_timestamps_they_have(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = tmp_path / "mixed"
    path.write_bytes(entries(records(b"0"), 0) + entries(records(b"1", offset=1), 1, GZIP))
    found = lines(kafkalog("dump", path, "-o", "jsonl").out)
    assert [(line["timestamp"], line["timestamp_type"]) for line in found] == [
        (None, "NoTimestampType"),
        (1000, "CreateTime"),
    ]


def test_an_empty_partition_directory_alone_has_no_records(kafkalog: Kafkalog, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    ran = kafkalog("dump", tmp_path / "t-0")
    assert (ran.code, ran.out) == (0, "")
    assert "empty" in ran.err
