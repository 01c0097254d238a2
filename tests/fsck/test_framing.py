"""Damaged bytes: one finding with its position, and every batch around it is checked."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.fsck.verifying import Options, verify_path
from tests.helpers.damage import BATCHES, batch, check, flipped, log, start_of, with_bytes
from tests.reference.compression import GZIP, NONE
from tests.reference.encode import V2Batch, entries, records

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{0:020}.log"


def test_a_sound_file_has_no_findings(path: Path) -> None:
    checked = check(path, b"".join(log()), deep=True)
    assert checked.findings == []
    assert (checked.summary.batches, checked.summary.records) == (BATCHES, 5 * BATCHES)


def test_an_empty_file_is_sound(path: Path) -> None:
    assert check(path, b"").findings == []


@pytest.mark.parametrize("place", range(BATCHES))
def test_a_flipped_bit_in_a_payload_is_a_wrong_checksum(path: Path, place: int) -> None:
    batches = log()
    start = start_of(batches, place)
    checked = check(path, flipped(b"".join(batches), start + 200, 3))
    (finding,) = checked.findings
    assert (finding.code, finding.position, finding.length) == ("crc-mismatch", start, len(batches[place]))
    assert (finding.first_offset, finding.last_offset) == (5 * place, 5 * place + 4)
    assert checked.summary.batches == BATCHES - 1


def test_two_damaged_batches_in_a_row_are_two_findings(path: Path) -> None:
    batches = log()
    data = b"".join(batches)
    for place in (3, 4):
        data = flipped(data, start_of(batches, place) + 100, 0)
    checked = check(path, data)
    assert checked.codes == ["crc-mismatch", "crc-mismatch"]
    assert [finding.position for finding in checked.findings] == [start_of(batches, 3), start_of(batches, 4)]
    assert checked.summary.batches == BATCHES - 2


@pytest.mark.parametrize("size", [0, 13, -1, -(2**31), 2**31 - 1, 2**20, 60, 700])
@pytest.mark.parametrize("place", [0, 3, BATCHES - 1])
def test_a_wrong_size_field_is_reported_with_the_expected_size(path: Path, place: int, size: int) -> None:
    batches = log()
    start = start_of(batches, place)
    checked = check(path, with_bytes(b"".join(batches), start + 8, struct.pack(">i", size)))
    (finding,) = checked.findings
    assert (finding.code, finding.position, finding.length) == ("wrong-size", start, len(batches[place]))
    assert (finding.expected, finding.found) == (len(batches[place]) - 12, size)
    assert checked.summary.batches == BATCHES - 1


def test_a_size_that_spans_the_next_batches_exactly_hides_none_of_them(path: Path) -> None:
    batches = log()
    start = start_of(batches, 2)
    spanning = struct.pack(">i", sum(map(len, batches[2:5])) - 12)
    checked = check(path, with_bytes(b"".join(batches), start + 8, spanning))
    assert checked.places == [("error", "wrong-size", start, len(batches[2]))]
    assert checked.summary.batches == BATCHES - 1


def test_a_batch_inside_a_record_of_a_damaged_batch_is_not_counted(path: Path) -> None:
    inner = V2Batch(records(b"a copy", offset=11)).encoded()
    outer = V2Batch(records(b"x", inner, b"y" * 100, offset=10), last_offset_delta=4).encoded()
    batches = log((2, outer))
    start = start_of(batches, 2)
    checked = check(path, flipped(b"".join(batches), start + len(outer) - 20, 1))
    assert checked.places == [("error", "crc-mismatch", start, len(outer))]


@pytest.mark.parametrize("magic", [3, 9, 127, 255])
def test_an_unknown_magic_is_stepped_over(path: Path, magic: int) -> None:
    batches = log()
    start = start_of(batches, 4)
    checked = check(path, with_bytes(b"".join(batches), start + 16, bytes([magic])))
    assert checked.places == [("error", "unknown-magic", start, len(batches[4]))]
    assert checked.summary.batches == BATCHES - 1


def test_a_batch_shorter_than_its_header_is_reported(path: Path) -> None:
    short = V2Batch(records(b"v", offset=10)).encoded()[:60]
    short = with_bytes(short, 8, struct.pack(">i", 48))
    batches = log((2, short))
    checked = check(path, b"".join(batches))
    assert checked.places == [("error", "batch-too-short", start_of(batches, 2), 60)]


@pytest.mark.parametrize("at", [PAGE * 2, PAGE * 2 + 123, 3600, 7010])
@pytest.mark.parametrize("size", [100, 700, 3000])
def test_a_zeroed_page_is_one_finding_and_everything_after_it_is_checked(path: Path, at: int, size: int) -> None:
    batches = log(size=size) + [batch(place, size) for place in range(BATCHES, 40)]
    ends = [start_of(batches, place + 1) for place in range(len(batches))]
    checked = check(path, with_bytes(b"".join(batches), at, bytes(PAGE)), deep=True)
    (finding,) = checked.findings
    assert finding.position is not None
    assert finding.length is not None
    assert finding.position <= at
    assert finding.position + finding.length >= at + PAGE
    assert finding.code in {"lost-bytes", "crc-mismatch"}
    hurt = sum(end > at and start_of(batches, i) < at + PAGE for i, end in enumerate(ends))
    assert checked.summary.batches == len(batches) - hurt
    lost = [place for place in range(len(batches)) if ends[place] > at and start_of(batches, place) < at + PAGE]
    assert (finding.first_offset, finding.last_offset) == (5 * lost[0], 5 * lost[-1] + 4)


def test_a_page_that_ends_within_a_base_offset_leaves_a_sound_batch_at_a_wrong_offset(path: Path) -> None:
    """No checksum covers the base offset, so the batch is found again, and out of order."""
    batches = [batch(place, 100) for place in range(30)]
    at = start_of(batches, 18) + 8 - PAGE
    checked = check(path, with_bytes(b"".join(batches), at, bytes(PAGE)))
    assert checked.codes == ["lost-bytes", "offset-order"]
    assert checked.findings[1].position == start_of(batches, 18)


def test_inserted_bytes_are_reported_and_no_batch_is_lost(path: Path) -> None:
    batches = log()
    garbage = random.Random(777).randbytes(777)
    data = b"".join(batches[:3]) + garbage + b"".join(batches[3:])
    (finding,) = (checked := check(path, data)).findings
    assert (finding.code, finding.position, finding.length) == ("lost-bytes", start_of(batches, 3), 777)
    assert (finding.first_offset, finding.last_offset) == (None, None)
    assert checked.summary.batches == BATCHES


def test_removed_bytes_lose_only_their_batch(path: Path) -> None:
    batches = log()
    start = start_of(batches, 3)
    data = b"".join(batches)
    checked = check(path, data[: start + 500] + data[start + 600 :])
    (finding,) = checked.findings
    assert (finding.code, finding.position, finding.length) == ("lost-bytes", start, len(batches[3]) - 100)
    assert (finding.first_offset, finding.last_offset) == (15, 19)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_batches_of_older_formats_are_found_again(path: Path, magic: int, codec: int) -> None:
    values = [random.Random(i).randbytes(300) for i in range(20)]
    sets = [entries(records(*[value] * 4, offset=4 * i), magic, codec) for i, value in enumerate(values)]
    at = start_of(sets, 5) + 2
    data = with_bytes(b"".join(sets), at, bytes(1500))
    (finding,) = check(path, data, deep=True).findings
    assert finding.code in {"lost-bytes", "crc-mismatch"}
    assert finding.first_offset == 20
    assert finding.end is not None
    assert finding.end >= at + 1500


# --- tails

Cut = Callable[[bytes], bytes]


def torn(data: bytes, cut: int) -> bytes:
    return data[: len(data) - cut]


@pytest.mark.parametrize("cut", [1, 100, 3000, len(batch(7)) - 20, len(batch(7)) - 12, len(batch(7)) - 8])
def test_a_torn_tail_is_a_warning_where_a_broker_may_be_writing(path: Path, cut: int) -> None:
    batches = log()
    start, left = start_of(batches, 7), len(batches[7]) - cut
    assert check(path, torn(b"".join(batches), cut)).places == [("warning", "torn-tail", start, left)]


def test_a_torn_tail_of_a_segment_with_a_successor_is_an_error(path: Path) -> None:
    data = torn(b"".join(log()), 100)
    assert check(path, data, sealed=True).places == [("error", "torn-tail", start_of(log(), 7), len(batch(7)) - 100)]
    (path.parent / f"{40:020}.log").write_bytes(batch(8))
    (finding,) = check(path).findings
    assert (finding.severity, finding.code) == ("error", "torn-tail")
    assert (finding.first_offset, finding.last_offset) == (35, 39)


@pytest.mark.parametrize("zeros", [1, 16, 17, 100, 1 << 20])
def test_zeros_at_the_end_are_preallocated_or_lost(path: Path, zeros: int) -> None:
    data = b"".join(log())
    end = len(data)
    assert check(path, data + bytes(zeros)).places == [("info", "preallocated-tail", end, zeros)]
    assert check(path, data + bytes(zeros), sealed=True).places == [("error", "zeroed-tail", end, zeros)]


def test_garbage_at_the_end_is_lost_bytes_and_not_a_torn_tail(path: Path) -> None:
    data = b"".join(log())
    text = b"The quick brown fox jumps over the lazy dog. " * 10
    assert check(path, data + text).places == [("error", "lost-bytes", len(data), len(text))]


def test_a_file_without_any_batch_is_lost_as_a_whole(path: Path) -> None:
    data = b"No log, but a text that somebody has put here. " * 100
    assert check(path, data).places == [("error", "lost-bytes", 0, len(data))]


# --- a partition


def test_each_segment_but_the_last_is_sealed(tmp_path: Path) -> None:
    for place in range(3):
        (tmp_path / f"{10 * place:020}.log").write_bytes(torn(batch(2 * place) + batch(2 * place + 1), 5))
    findings = list(verify_path(tmp_path))
    assert [(str(f.severity), f.code) for f in findings] == [("error", "torn-tail")] * 2 + [("warning", "torn-tail")]
    assert [Path(f.path).name for f in findings] == [f"{10 * place:020}.log" for place in range(3)]


def test_an_unreadable_segment_does_not_stop_the_check(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").mkdir()
    (tmp_path / f"{10:020}.log").write_bytes(flipped(batch(2), 100, 1))
    options = Options()
    assert [finding.code for finding in verify_path(tmp_path, options)] == ["not-a-log", "crc-mismatch"]
    assert options.summary.unreadable == 1


def test_a_segment_deleted_during_the_check_is_not_damage(tmp_path: Path) -> None:
    for place in range(3):
        (tmp_path / f"{5 * place:020}.log").write_bytes(flipped(batch(place), 100, 1))
    found = []
    for finding in verify_path(tmp_path):
        found.append((str(finding.severity), finding.code))
        (tmp_path / f"{5:020}.log").unlink(missing_ok=True)
    assert found == [("error", "crc-mismatch"), ("info", "segment-gone"), ("error", "crc-mismatch")]


def test_a_file_truncated_during_the_check_is_a_warning(path: Path) -> None:
    batches = [batch(place, 300_000) for place in range(6)]
    path.write_bytes(flipped(b"".join(batches), 100, 1))
    found = []
    for finding in verify_path(path):
        found.append(finding.code)
        os.truncate(path, len(batches[0]))
    assert found[0] == "crc-mismatch"
    assert found[1:] in ([], ["file-changed"])
