"""Findings of a deep check: batches with a right checksum over wrong content."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from kafkalog.fsck.verifying import Options, verify_path
from tests.helpers.damage import Checked, batch, check, log, start_of
from tests.reference.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from tests.reference.encode import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    LegacyMessage,
    LegacyWrapper,
    PlainRecord,
    V2Batch,
    entries,
    linked_lz4,
    records,
    v2_record,
)

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{0:020}.log"


def region(*offsets: int, base: int = 15, timestamp: int = 1000) -> bytes:
    return b"".join(v2_record(PlainRecord(offset, timestamp, b"k", b"v"), base, 1000) for offset in offsets)


def in_the_middle(path: Path, damaged: bytes) -> tuple[list[bytes], Checked]:
    batches = log((3, damaged))
    assert check(path, b"".join(batches)).findings == []
    return batches, check(path, deep=True)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("records_region", "count"),
    [
        (region(15, 16) + b"\x00", 2),  # bytes after the last record
        (region(15, 16)[:-1], 2),  # too few
        (region(15, 16), 3),  # a record less than counted
        (b"\xff" * 20, 2),  # a varint without an end
    ],
)
def test_malformed_records_are_reported(path: Path, codec: int, records_region: bytes, count: int) -> None:
    damaged = V2Batch(
        records(*[b"v"] * 5, offset=15), codec, region=records_region, records_count=count, max_timestamp=1000
    ).encoded()
    batches, checked = in_the_middle(path, damaged)
    assert checked.places == [("error", "invalid-records", start_of(batches, 3), len(damaged))]
    assert checked.summary.records >= 35


@pytest.mark.parametrize("codec", CODECS[1:])
def test_undecompressable_bytes_are_reported(path: Path, codec: int) -> None:
    damaged = V2Batch(records(*[b"v"] * 5, offset=15), codec, payload=b"\xc3garbage, whatever the codec").encoded()
    batches, checked = in_the_middle(path, damaged)
    assert checked.places == [("error", "invalid-records", start_of(batches, 3), len(damaged))]
    assert checked.summary.records == 35


def test_several_unreadable_batches_are_several_findings(path: Path) -> None:
    damaged = {place: V2Batch(records(b"v", offset=5 * place), GZIP, payload=b"?").encoded() for place in (1, 2, 6)}
    batches = log(*damaged.items())
    checked = check(path, b"".join(batches), deep=True)
    assert checked.codes == ["invalid-records"] * 3
    assert [finding.position for finding in checked.findings] == [start_of(batches, place) for place in damaged]
    assert checked.summary.records == 25


def test_a_decompression_bomb_is_a_finding(path: Path) -> None:
    path.write_bytes(V2Batch(records(bytes(1 << 20)), ZSTD).encoded() + batch(1))
    (finding,) = verify_path(path, Options(deep=True, limit=1 << 16))
    assert (finding.code, finding.position) == ("invalid-records", 0)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("offsets", "wrong"), [((15, 17, 16), 16), ((15, 15), 15), ((14, 15), 14), ((15, 20), 20)])
def test_record_offsets_outside_the_batch_or_out_of_order_are_reported(
    path: Path, codec: int, offsets: tuple[int, ...], wrong: int
) -> None:
    damaged = V2Batch(
        records(*[b"v"] * 5, offset=15), codec, region=region(*offsets), records_count=len(offsets), max_timestamp=1000
    ).encoded()
    batches, checked = in_the_middle(path, damaged)
    (finding,) = checked.findings
    assert (finding.code, finding.position, finding.found) == ("inner-offsets", start_of(batches, 3), wrong)


def test_gaps_between_records_are_normal(path: Path) -> None:
    five = records(*[b"v"] * 5, offset=15)
    kept = V2Batch(five, region=region(16, 18), records_count=2, max_timestamp=1000).encoded()
    assert in_the_middle(path, kept)[1].findings == []


@pytest.mark.parametrize("stated", [-1, 999, 5000])
def test_the_largest_timestamp_is_that_of_the_records(path: Path, stated: int) -> None:
    damaged = batch(3, max_timestamp=stated)
    batches, checked = in_the_middle(path, damaged)
    (finding,) = checked.findings
    assert (finding.severity, finding.code, finding.position) == ("warning", "max-timestamp", start_of(batches, 3))
    assert (finding.expected, finding.found) == (1004, stated)


def test_log_append_time_needs_no_record_timestamps(path: Path) -> None:
    assert in_the_middle(path, batch(3, timestamp_type=LOG_APPEND_TIME, max_timestamp=77_777))[1].findings == []


@pytest.mark.parametrize(
    ("key", "value", "sound"),
    [
        (struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 5), True),
        (struct.pack(">hh", 0, 77), b"", True),
        (struct.pack(">hh", -1, 1), struct.pack(">hi", 0, 5), False),
        (struct.pack(">hh", 0, 1), b"\x00\x00\x00", False),
        (b"\x00", struct.pack(">hi", 0, 5), False),
        (None, None, False),
    ],
)
def test_control_records_are_decoded(path: Path, key: bytes | None, value: bytes | None, sound: bool) -> None:
    marker = V2Batch(
        [PlainRecord(15, 1000, key, value)], flags=CONTROL | TRANSACTIONAL, producer_id=1, producer_epoch=0
    ).encoded()
    batches, checked = in_the_middle(path, marker)
    assert checked.places == ([] if sound else [("error", "control-record", start_of(batches, 3), len(marker))])


# --- formats 0 and 1

LEGACY = [GZIP, SNAPPY, LZ4]


def messages(magic: int, *offsets: int, wrong: int | None = None) -> bytes:
    return b"".join(
        LegacyMessage(PlainRecord(offset, 1000, b"k", b"v"), magic, checksum=7 if i == wrong else None).encoded()
        for i, offset in enumerate(offsets)
    )


@pytest.mark.parametrize("codec", LEGACY)
@pytest.mark.parametrize("magic", [0, 1])
def test_checksums_inside_a_wrapper_are_checked(path: Path, magic: int, codec: int) -> None:
    offsets = (0, 1, 2) if magic else (10, 11, 12)
    sound = LegacyWrapper(records(b"a", b"b"), codec, magic).encoded()
    damaged = LegacyWrapper(
        records(b"a", b"b", b"c", offset=10), codec, magic, inner=messages(magic, *offsets, wrong=1), timestamp=1000
    ).encoded()
    after = LegacyWrapper(records(b"a", b"b", offset=20), codec, magic).encoded()
    assert check(path, sound + damaged + after).findings == []
    checked = check(path, deep=True)
    (finding,) = checked.findings
    assert (finding.code, finding.position, finding.first_offset, finding.last_offset) == (
        "inner-crc", len(sound), 11, 11,
    )  # fmt: skip
    assert checked.summary.records == 7


@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_inside_a_wrapper_rise_to_its_own(path: Path, magic: int) -> None:
    offsets = (0, 2, 1, 3) if magic else (10, 12, 11, 13)
    damaged = LegacyWrapper(
        records(*[b"a"] * 4, offset=10), GZIP, magic, inner=messages(magic, *offsets), timestamp=1000
    ).encoded()
    assert check(path, damaged).findings == []
    assert check(path, deep=True).codes == ["inner-offsets"]


def test_a_wrapper_of_format_0_has_the_offset_of_its_last_message(path: Path) -> None:
    inner = messages(0, 10, 11, 12)
    damaged = LegacyWrapper(records(b"a", offset=10), GZIP, 0, inner=inner, offset=14, timestamp=1000).encoded()
    assert check(path, damaged, deep=True).codes == ["inner-offsets"]


def test_a_wrapper_with_offset_0_says_nothing_about_offsets(path: Path) -> None:
    data = LegacyWrapper(records(b"a", b"b", b"c"), GZIP, 1, offset=0).encoded()
    assert check(path, data, deep=True).findings == []


def test_a_value_longer_than_its_message_is_reported(path: Path) -> None:
    body = struct.pack(">bbqi", 1, 0, 1000, -1) + struct.pack(">i", 500) + b"short"
    damaged = struct.pack(">qiI", 1, 4 + len(body), zlib.crc32(body)) + body
    first, last = (LegacyMessage(PlainRecord(i, 1000, value=b"v"), 1).encoded() for i in (0, 2))
    assert check(path, first + damaged + last).findings == []
    checked = check(path, deep=True)
    assert checked.places == [("error", "invalid-records", len(first), len(damaged))]
    assert checked.summary.records == 2


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_linked_lz4_blocks_are_named_and_read(path: Path, magic: int) -> None:
    given = records(*[b"v" * 40_000] * 5, offset=15)
    wrapper, batch_ = LegacyWrapper(given, LZ4, magic), V2Batch(given, LZ4)
    made = (
        replace(batch_, payload=linked_lz4(batch_.plain_region())).encoded()
        if magic == 2
        else replace(wrapper, value=linked_lz4(wrapper.inner_bytes(), magic)).encoded()
    )
    batches, checked = in_the_middle(path, made)
    assert checked.places == [("error", "linked-lz4-blocks", start_of(batches, 3), len(made))]
    assert checked.summary.records == 40
    for own in (V2Batch(given, LZ4).encoded(), LegacyWrapper(given, LZ4, 1).encoded()):
        assert in_the_middle(path, own)[1].findings == []


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_record_at_the_largest_offset_is_named(tmp_path: Path, magic: int) -> None:
    path = tmp_path / "file"
    findings = check(path, entries(records(b"a", b"b", offset=2**63 - 2), magic, NONE), deep=True).findings
    found = [finding for finding in findings if finding.code == "largest-offset"]
    assert [(each.first_offset, each.last_offset) for each in found] == [(2**63 - 1, 2**63 - 1)]


@pytest.mark.parametrize(("delta", "last"), [(50, None), (51, 2**63), (60, 2**63 + 9)])
def test_a_last_offset_beyond_the_largest_is_found_in_the_header(tmp_path: Path, delta: int, last: int | None) -> None:
    base = 2**63 - 51
    path = tmp_path / f"{base:020}.log"
    found = check(path, V2Batch(records(b"v", offset=base), last_offset_delta=delta).encoded()).findings
    told = [(each.code, each.first_offset, each.last_offset, each.found) for each in found]
    assert told == ([] if last is None else [("largest-offset", base, 2**63 - 1, last)])
