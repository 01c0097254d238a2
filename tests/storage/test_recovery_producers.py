"""Producer state and its snapshots after loading a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog import ByteBufferMessageSet, LogConfig, Record
from kafkalog.errors import InvalidTxnStateError
from kafkalog.record.control import ControlRecordType
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.clock import wall_clock_ms
from kafkalog.storage.file_names import TXN_INDEX_SUFFIX
from kafkalog.storage.producer.rebuild_producer_state import telling_rows
from tests.helpers.partition_dirs import (
    NOW,
    Stop,
    batch,
    change,
    closed,
    copy_of,
    load,
    loaded,
    log_file,
    log_of,
    marker,
    names,
    numbered,
    snapshot_offsets,
    snapshot_producers,
    write_segments,
)
from tests.helpers.producers import REPLICATION, Producers

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def idempotent(base_offset: int, producer_id: int, sequence: int, count: int = 1, **settings: Any) -> bytes:
    values = [b"v"] * count
    settings.setdefault("producer_epoch", 0)
    return batch(base_offset, values, producer_id=producer_id, base_sequence=sequence, **settings)


def transactional(base_offset: int, producer_id: int, sequence: int, count: int = 1, **settings: Any) -> bytes:
    return idempotent(base_offset, producer_id, sequence, count, is_transactional=True, **settings)


# --- which snapshots there are


def without_snapshots(directory: Path) -> Path:
    for name in names(directory, ".snapshot"):
        (directory / name).unlink()
    return directory


def test_a_log_that_never_had_snapshots_gets_them_at_its_last_segments_and_its_end(tmp_path: Path) -> None:
    log = without_snapshots(log_of(tmp_path / "log", segments=5))
    for stop in (Stop(clean=True), Stop(recovery_point=50)):
        directory = copy_of(log, tmp_path / f"clean-{stop.clean}")
        load(directory, stop)
        assert snapshot_offsets(directory) == [30, 40, 50]
    load(log)
    assert snapshot_offsets(log) == [10, 20, 30, 40, 50]


def test_recovery_rewrites_only_snapshots_that_are_wrong(tmp_path: Path) -> None:
    log = log_of(tmp_path, segments=5)
    load(log)
    before = found_snapshots(log)
    (log / f"{20:020d}.snapshot").write_bytes(b"no snapshot")
    (log / f"{60:020d}.snapshot").write_bytes(before[f"{50:020d}.snapshot"][1])
    load(log)
    after = found_snapshots(log)
    assert {name: content for name, (_, content) in after.items()} == {
        name: content for name, (_, content) in before.items()
    }
    written = [name for name in before if after[name][0] != before[name][0]]
    assert (written, len(after)) == ([f"{20:020d}.snapshot"], 5)


def found_snapshots(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Return the file time and the content of each snapshot by name."""
    paths = [directory / name for name in names(directory, ".snapshot")]
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def test_recovery_reads_only_segments_after_the_recovery_point(tmp_path: Path) -> None:
    log_of(tmp_path, segments=8)
    for base_offset in (0, 10, 20, 30):
        change(log_file(tmp_path, base_offset), lambda data: data[:200] + bytes(len(data) - 200))
    for offset in snapshot_offsets(tmp_path):
        if offset > 40:
            log_file(tmp_path, offset, ".snapshot").unlink()
    sizes = [log_file(tmp_path, base_offset).stat().st_size for base_offset in (40, 50, 60, 70)]
    with loaded(tmp_path, recovery_point=45) as opened:
        assert opened.end_offset == 80
        assert opened.progress == [(sum(sizes[:done]), sum(sizes)) for done in range(5)]
    assert snapshot_offsets(tmp_path) == [10, 20, 30, 40, 50, 60, 70, 80]


def test_snapshots_that_belong_to_no_segment_or_lie_beyond_the_end_are_deleted(tmp_path: Path) -> None:
    log_of(tmp_path)
    template = log_file(tmp_path, 10, ".snapshot").read_bytes()
    for offset in (5, 25, 99):
        log_file(tmp_path, offset, ".snapshot").write_bytes(template)
    load(tmp_path, clean=True)
    assert snapshot_offsets(tmp_path) == [10, 20, 30]


def test_snapshots_at_or_before_the_start_of_the_log_are_deleted(tmp_path: Path) -> None:
    log_of(tmp_path)
    load(tmp_path, clean=True, log_start=10)
    assert snapshot_offsets(tmp_path) == [20, 30]


def test_a_corrupt_snapshot_is_deleted_and_the_one_before_it_read(tmp_path: Path) -> None:
    write_segments(tmp_path, {0: [idempotent(0, 7, 0)], 1: [idempotent(1, 7, 1)], 2: [idempotent(2, 7, 2)]})
    closed(tmp_path)
    for how in (lambda data: data[: len(data) // 2], lambda data: bytes(37), lambda data: b""):
        for offset in (2, 3):
            change(log_file(tmp_path, offset, ".snapshot"), how)
        with loaded(tmp_path, clean=True) as opened:
            entry = opened.producer_state.last_entry(7)
            assert entry is not None
            assert (entry.last_seq, entry.last_data_offset) == (2, 2)
        assert snapshot_producers(tmp_path, 3) == [7]


def test_snapshots_of_segments_that_are_deleted_go_too_and_new_ones_stay(tmp_path: Path) -> None:
    write_segments(tmp_path, {offset: numbered(offset, 1) for offset in range(9)})
    closed(tmp_path)
    change(log_file(tmp_path, 1), lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    with loaded(tmp_path, log_start=4) as opened:
        assert opened.end_offset == 4
        assert opened.producer_state.map_end_offset == 4
    assert snapshot_offsets(tmp_path) == []


# --- what is known of the producers


def test_producers_whose_records_were_all_deleted_are_not_known_after_loading(tmp_path: Path) -> None:
    log = write_segments(tmp_path / "log", {0: [idempotent(0, 1, 0)], 1: [idempotent(1, 2, 0)]})
    for log_start, known in ((0, [1, 2]), (1, [2])):
        directory = copy_of(log, tmp_path / f"from-{log_start}")
        with loaded(directory, log_start=log_start) as opened:
            assert sorted(opened.producer_state.active_producers) == known


def test_producers_whose_records_were_deleted_within_a_segment_that_has_a_snapshot_stay_known(tmp_path: Path) -> None:
    write_segments(tmp_path, {0: [idempotent(0, 1, 0), idempotent(1, 2, 0)]})
    closed(tmp_path)
    with loaded(tmp_path, clean=True, log_start=1) as opened:
        assert sorted(opened.producer_state.active_producers) == [1, 2]


def test_a_transaction_that_was_open_before_the_crash_is_open_after_it(tmp_path: Path) -> None:
    write_segments(tmp_path, {0: [transactional(0, 1, 0, 3)], 3: [transactional(3, 1, 3), transactional(4, 2, 0)]})
    with loaded(tmp_path) as opened:
        assert opened.producer_state.first_undecided_offset == 0
    with loaded(tmp_path, recovery_point=3) as opened:
        assert opened.producer_state.first_undecided_offset == 0


def test_the_index_of_aborted_transactions_is_built_anew(tmp_path: Path) -> None:
    write_segments(
        tmp_path,
        {
            0: [transactional(0, 1, 0, 5), batch(5, [b"plain"]), transactional(6, 2, 0, 2)],
            8: [transactional(8, 1, 5), marker(9, 1, ABORT), transactional(10, 3, 0), marker(11, 3, COMMIT)],
            12: [marker(12, 2, ABORT), batch(13)],
        },
    )
    for _ in range(2):
        with loaded(tmp_path) as opened:
            aborted = [tuple(entry) for segment in opened.log.segments.values for entry in segment.txn_index]
            assert aborted == [(1, 0, 9, 6), (2, 6, 12, 13)]
            assert opened.producer_state.first_undecided_offset is None
        for base_offset in (0, 8, 12):
            log_file(tmp_path, base_offset, TXN_INDEX_SUFFIX).unlink(missing_ok=True)


def test_a_corrupt_index_of_aborted_transactions_is_built_anew_even_after_a_clean_stop(tmp_path: Path) -> None:
    write_segments(tmp_path, {0: numbered(0, 4), 4: [transactional(4, 1, 0), marker(5, 1, ABORT)]})
    closed(tmp_path)
    sound = log_file(tmp_path, 4, TXN_INDEX_SUFFIX).read_bytes()
    change(log_file(tmp_path, 4, TXN_INDEX_SUFFIX), lambda data: data[:18] + bytes(8) + data[26:])
    load(tmp_path, clean=True)
    assert log_file(tmp_path, 4, TXN_INDEX_SUFFIX).read_bytes() == sound


def test_a_marker_of_an_older_coordinator_does_not_stop_loading(tmp_path: Path) -> None:
    write_segments(
        tmp_path,
        {
            0: [
                transactional(0, 1, 0),
                marker(1, 1, ABORT, coordinator_epoch=5),
                transactional(2, 1, 1),
                marker(3, 1, COMMIT, coordinator_epoch=2),
            ]
        },
    )
    with loaded(tmp_path) as opened:
        assert opened.end_offset == 4


def test_producers_expire_after_a_day_during_loading(tmp_path: Path) -> None:
    write_segments(tmp_path, {0: [idempotent(0, 1, 0)], 1: [transactional(1, 2, 0)]})
    closed(tmp_path)
    with loaded(tmp_path, clean=True, now=NOW + 86_400_001) as opened:
        assert sorted(opened.producer_state.active_producers) == [2]


def test_a_plain_batch_within_a_transaction_of_its_producer_stops_the_loading(tmp_path: Path) -> None:
    write_segments(tmp_path, {0: [transactional(0, 1, 0), idempotent(1, 1, 1)]})
    with pytest.raises(InvalidTxnStateError):
        load(tmp_path)


def test_a_log_that_lost_snapshots_make_impossible_says_what_to_do(tmp_path: Path) -> None:
    write_segments(tmp_path / "t-0", {0: [transactional(0, 1, 0), idempotent(1, 1, 1)]})
    with pytest.raises(InvalidTxnStateError) as error:
        kafkalog.open(tmp_path / "t-0", "a")
    assert error.value.path == str(tmp_path / "t-0")
    assert "snapshots of producers (*.snapshot) are lost" in str(error.value)
    assert "copy its records to a new one" in str(error.value)


@pytest.mark.parametrize("mode", ["r", "a"])
def test_producers_expire_after_the_time_of_the_setting(tmp_path: Path, mode: Literal["r", "a"]) -> None:
    a_minute_ago = Record(b"v", timestamp=wall_clock_ms() - 60_000)
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        for producer, is_transactional in ((1, False), (2, True)):
            sent = ByteBufferMessageSet.from_records(
                [a_minute_ago],
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=is_transactional,
            )
            log.append_as_leader(sent, 0)
    for expiration_ms, left in [(3_600_000, [1, 2]), (30_000, [2])]:
        config = LogConfig(producer_id_expiration_ms=expiration_ms)
        with kafkalog.LogManager(tmp_path, mode, config) as logs:
            assert sorted(logs["t-0"].producer_state.active_producers) == left


# --- which batches are read


KINDS = st.sampled_from(["plain", "idempotent", "transactional", "commit", "abort"])
APPENDS = st.lists(st.tuples(KINDS, st.integers(1, 3), st.integers(0, 1)), max_size=60)


def _log_of(appends: list[tuple[str, int, int]]) -> bytes:
    """Return batches as a leader accepts them: no plain batch of a producer during its own transaction."""
    parts: list[bytes] = []
    in_transaction: set[int] = set()
    for offset, (kind, producer, epoch) in enumerate(appends):
        if kind in ("commit", "abort"):
            in_transaction.discard(producer)
            parts.append(marker(offset, producer, COMMIT if kind == "commit" else ABORT, epoch=epoch))
        elif kind == "plain":
            parts.append(batch(offset))
        elif kind == "transactional" or producer in in_transaction:
            in_transaction.add(producer)
            parts.append(transactional(offset, producer, offset, producer_epoch=epoch))
        else:
            parts.append(idempotent(offset, producer, offset, producer_epoch=epoch))
    return b"".join(parts)


def _state_after(directory: Path, batches: list[RecordBatch]) -> tuple[object, ...]:
    producers = Producers(directory)
    for each in batches:
        producers.append(each, REPLICATION)
    state = producers.manager
    return dict(state.active_producers), state.first_undecided_offset, state.first_unstable_offset


@given(appends=APPENDS)
def test_the_selected_batches_give_the_same_producer_state_as_all(
    tmp_path_factory: pytest.TempPathFactory, appends: list[tuple[str, int, int]]
) -> None:
    directory = tmp_path_factory.getbasetemp()
    log = ByteBufferMessageSet(_log_of(appends))
    batches = list(log.batches())
    telling = [batches[i] for i in telling_rows(log.headers())]
    everyone = [each for each in batches if each.producer_id >= 0]
    assert _state_after(directory, telling) == _state_after(directory, everyone)


def test_only_the_first_and_the_last_five_batches_of_a_producer_are_selected(tmp_path: Path) -> None:
    log = ByteBufferMessageSet(b"".join(idempotent(offset, 1, offset) for offset in range(1000)))
    assert telling_rows(log.headers()).tolist() == [0, 995, 996, 997, 998, 999]
    assert telling_rows(np.flip(log.headers())[:0]).tolist() == []
