"""Headers that contradict each other or the format although every checksum holds."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkalog.fsck import walk
from kafkalog.fsck.verifying import verify_path
from tests.helpers.damage import BATCHES, batch, check, log, start_of, with_bytes
from tests.reference.compression import GZIP
from tests.reference.encode import CONTROL, TRANSACTIONAL, LegacyMessage, LegacyWrapper, PlainRecord, V2Batch, records


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{0:020}.log"


def at_offset(data: bytes, offset: int) -> bytes:
    """Return the same bytes with another base offset, which the checksum does not cover."""
    return with_bytes(data, 0, struct.pack(">q", offset))


def with_epochs(*epochs: int) -> list[bytes]:
    return [batch(place, partition_leader_epoch=epoch) for place, epoch in enumerate(epochs)]


def test_gaps_between_batches_are_normal(path: Path) -> None:
    assert check(path, batch(0) + batch(3) + batch(100_000)).findings == []


@pytest.mark.parametrize("raise_by", [1 << 8, 1 << 30])
def test_an_offset_too_high_is_blamed_on_its_own_batch(path: Path, raise_by: int) -> None:
    batches = log((3, at_offset(batch(3), 15 + raise_by)))
    assert check(path, b"".join(batches), deep=True).places == [
        ("error", "offset-order", start_of(batches, 3), len(batches[3]))
    ]


def test_an_offset_too_low_is_blamed_on_its_own_batch(path: Path) -> None:
    batches = log((3, at_offset(batch(3), 2)))
    (finding,) = check(path, b"".join(batches)).findings
    assert (finding.code, finding.position, finding.expected, finding.found) == (
        "offset-order", start_of(batches, 3), "at least 15", 2,
    )  # fmt: skip


def test_a_batch_that_overlaps_the_one_before_is_reported(path: Path) -> None:
    batches = log((3, at_offset(batch(3), 12)))
    assert check(path, b"".join(batches)).places == [("error", "offset-overlap", start_of(batches, 3), len(batches[3]))]


def test_a_repeated_batch_is_reported(path: Path) -> None:
    batches = [*log()[:4], batch(3), *log()[4:]]
    assert check(path, b"".join(batches)).places == [("error", "offset-order", start_of(batches, 4), len(batch(3)))]


def test_offset_order_is_checked_across_scan_boundaries(path: Path) -> None:
    """Headers are read some MiB at a time, so that neighbours may be read apart."""
    batches = [batch(place, 1000) for place in range(2000)]
    for place in (417, 418, 419, 420, 1200):
        changed = [*batches]
        changed[place] = at_offset(batches[place], 5 * place + (1 << 20))
        (finding,) = check(path, b"".join(changed)).findings
        assert (finding.code, finding.position) == ("offset-order", start_of(batches, place))


@pytest.mark.parametrize("rows", range(1, 8))
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({3: at_offset(batch(3), 1 << 20)}, id="too high"),
        pytest.param({3: at_offset(batch(3), 2)}, id="too low"),
        pytest.param(
            {3: at_offset(batch(3), 1 << 20), 5: at_offset(with_bytes(batch(5), 40, b"??"), 1 << 30)},
            id="too high, before a damaged one",
        ),
        pytest.param(
            {3: at_offset(batch(3), 1 << 20), 5: at_offset(batch(5), 1 << 40)},
            id="too high, before one outside of the segment",
        ),
        pytest.param({3: batch(3, partition_leader_epoch=9)}, id="epoch too high"),
        pytest.param(
            {
                3: batch(3, partition_leader_epoch=9),
                5: with_bytes(batch(5, partition_leader_epoch=99), 40, b"??"),
            },
            id="epoch too high, before a damaged one",
        ),
        pytest.param({6: batch(6, partition_leader_epoch=9)}, id="epoch too high, at the end"),
        pytest.param({7: at_offset(batch(7), 2)}, id="too low, at the end"),
    ],
)
def test_the_same_batch_is_blamed_wherever_a_range_of_headers_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[int, bytes], rows: int
) -> None:
    batches = [batch(place, partition_leader_epoch=5) for place in range(BATCHES)]
    for place, data in changed.items():
        batches[place] = data
    together = sorted(check(path, b"".join(batches)).findings)
    assert together
    monkeypatch.setattr(walk, "RUN_ROWS", rows)
    assert sorted(check(path, b"".join(batches)).findings) == together


@pytest.mark.parametrize("offset", [-1, -(2**63), 99])
def test_an_offset_below_the_segments_base_is_reported(tmp_path: Path, offset: int) -> None:
    path = tmp_path / f"{100:020}.log"
    data = batch(20) + at_offset(batch(21), offset) + batch(22)
    checked = check(path, data)
    assert checked.places == [("error", "offset-below-segment", len(batch(20)), len(batch(21)))]


def test_an_offset_beyond_the_index_range_is_reported(path: Path) -> None:
    most = 2**31 - 1
    assert check(path, batch(0) + at_offset(batch(1), most - 4)).findings == []
    assert check(path, batch(0) + at_offset(batch(1), most - 3)).codes == ["offset-beyond-segment"]
    assert check(path.with_name("copy"), batch(0) + at_offset(batch(1), most + 9)).findings == []


def test_overlapping_segments_are_reported_once(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").write_bytes(b"".join(log()))
    (tmp_path / f"{20:020}.log").write_bytes(b"".join(log()[4:]))
    (finding,) = verify_path(tmp_path)
    assert (finding.code, finding.position, finding.expected, finding.found) == (
        "segment-overlap", start_of(log(), 4), "at most 19", 24,
    )  # fmt: skip


def test_a_last_offset_below_the_base_offset_is_reported(path: Path) -> None:
    damaged = V2Batch(records(b"v", offset=15), last_offset_delta=-2, records_count=0).encoded()
    batches = log((3, damaged))
    checked = check(path, b"".join(batches))
    assert "last-offset-delta" in checked.codes
    assert {finding.position for finding in checked.findings} == {start_of(batches, 3)}


@pytest.mark.parametrize("count", [-1, 6, 2**31 - 1])
def test_an_impossible_number_of_records_is_reported(path: Path, count: int) -> None:
    batches = log((3, batch(3, records_count=count)))
    (finding,) = check(path, b"".join(batches)).findings
    assert (finding.code, finding.position, finding.expected, finding.found) == (
        "records-count", start_of(batches, 3), "0..5", count,
    )  # fmt: skip


@pytest.mark.parametrize("codec", [5, 6, 7])
@pytest.mark.parametrize("deep", [False, True])
def test_an_unknown_codec_is_reported_once(path: Path, codec: int, deep: bool) -> None:
    damaged = V2Batch(records(b"v", offset=15), codec, payload=b"what is this").encoded()
    batches = log((3, damaged))
    assert check(path, b"".join(batches), deep=deep).places == [
        ("error", "unknown-codec", start_of(batches, 3), len(damaged))
    ]


def test_zstd_is_an_unknown_codec_in_older_formats(path: Path) -> None:
    data = LegacyMessage(PlainRecord(0, value=b"v"), 1, codec=4).encoded()
    assert check(path, data, deep=True).codes == ["unknown-codec"]


@pytest.mark.parametrize(
    ("fields", "is_warning"),
    [
        ({"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}, False),
        ({"producer_id": 7, "producer_epoch": 0, "flags": TRANSACTIONAL}, False),
        ({"base_sequence": 0}, False),
        ({"producer_id": 7, "producer_epoch": 0}, True),
        ({"producer_id": 7, "base_sequence": 0}, True),
        ({"producer_epoch": 0}, True),
        ({"flags": TRANSACTIONAL}, True),
        ({"producer_id": -2}, True),
    ],
)
def test_producer_fields_that_no_producer_sends_are_a_warning(
    path: Path, fields: dict[str, int], is_warning: bool
) -> None:
    batches = log((3, batch(3, **fields)))
    expected = [("warning", "producer-fields", start_of(batches, 3), len(batches[3]))] if is_warning else []
    assert check(path, b"".join(batches)).places == expected


def test_a_control_batch_has_no_sequence(path: Path) -> None:
    flags = CONTROL | TRANSACTIONAL
    data = batch(0, flags=flags, producer_id=1, producer_epoch=0, base_sequence=4)
    assert check(path, data).codes == ["producer-fields"]


@pytest.mark.parametrize(
    ("epochs", "blamed"),
    [
        ((0, 0, 1, 1, 4), None),
        ((-1, 2, -1, 2, 3), None),
        ((1, 1, 0, 1, 1), 2),
        ((1, 9, 1, 1, 2), 1),
        ((3, 3, -2, 3, 3), 2),
    ],
)
def test_leader_epochs_do_not_go_down(path: Path, epochs: tuple[int, ...], blamed: int | None) -> None:
    batches = with_epochs(*epochs)
    expected = [] if blamed is None else [("warning", "leader-epoch", start_of(batches, blamed), len(batches[blamed]))]
    assert check(path, b"".join(batches)).places == expected


def test_offset_order_is_checked_in_older_formats(path: Path) -> None:
    messages = [LegacyMessage(PlainRecord(offset, 5, value=b"v"), 1).encoded() for offset in (0, 1, 2, 2, 3)]
    assert check(path, b"".join(messages)).places == [
        ("error", "offset-order", start_of(messages, 3), len(messages[3]))
    ]


def test_overlapping_wrappers_are_found_only_by_a_deep_check(path: Path) -> None:
    first = LegacyWrapper(records(*[b"v"] * 5, offset=0), GZIP).encoded()
    second = LegacyWrapper(records(*[b"v"] * 5, offset=3), GZIP).encoded()
    assert check(path, first + second).findings == []
    (finding,) = check(path, first + second, deep=True).findings
    assert (finding.code, finding.position, finding.found) == ("inner-offsets", len(first), 3)


def test_a_finding_does_not_stop_the_check_of_later_batches(path: Path) -> None:
    batches = log((1, batch(1, records_count=-1)), (5, batch(5, producer_epoch=3)))
    checked = check(path, b"".join(batches))
    assert checked.codes == ["records-count", "producer-fields"]
    assert checked.summary.batches == BATCHES
