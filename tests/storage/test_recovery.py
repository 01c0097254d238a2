"""Loading a log after a clean stop and after a crash."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptRecordError, NotALogError
from kafkalog.storage.file_names import INDEX_SUFFIX, LEADER_EPOCH_CHECKPOINT, TIME_INDEX_SUFFIX
from kafkalog.storage.segment import log_segment as segment_module
from tests.helpers.partition_dirs import (
    CONFIG,
    NOW,
    batch,
    bytes_of,
    change,
    closed,
    copy_of,
    load,
    loaded,
    log_file,
    log_of,
    names,
    numbered,
    offsets_in,
    write_segments,
)
from tests.reference.encode import V2Batch

INDEXES = (".index", ".timeindex", ".txnindex")


# --- a sound log


def test_an_empty_directory_becomes_a_log_with_one_empty_segment_at_its_start(tmp_path: Path) -> None:
    with loaded(tmp_path) as opened:
        assert (opened.bases, opened.log_start_offset, opened.end_offset) == ([0], 0, 0)
        assert opened.log.log_end.relative_position_in_segment == 0


def test_a_log_whose_files_were_all_deleted_begins_and_ends_at_its_start(tmp_path: Path) -> None:
    for clean in (True, False):
        directory = write_segments(tmp_path / str(clean), {})
        with loaded(directory, log_start=500, clean=clean) as opened:
            assert (opened.bases, opened.log_start_offset, opened.end_offset) == ([500], 500, 500)


def test_the_log_starts_at_the_checkpoint_or_at_its_first_segment_whichever_is_later(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    for checkpoint in (0, 15, 29):
        with loaded(copy_of(log, tmp_path / f"from-{checkpoint}"), clean=True, log_start=checkpoint) as opened:
            assert opened.log_start_offset == checkpoint
    log_file(log, 0).unlink()
    with loaded(log, log_start=5) as opened:
        assert opened.log_start_offset == 10


def test_recovery_of_undamaged_files_changes_none_at_any_recovery_point(tmp_path: Path) -> None:
    log_of(tmp_path / "sound")
    before = bytes_of(tmp_path / "sound", ".log", *INDEXES)
    for recovery_point in (0, 10, 17, 30):
        directory = copy_of(tmp_path / "sound", tmp_path / str(recovery_point))
        with loaded(directory, recovery_point=recovery_point) as opened:
            assert opened.end_offset == 30
            assert opened.log.recovery_point == recovery_point
            assert [offset for offset, _ in opened.records()] == list(range(30))
            last = opened.log.segments.values[-1].time_index.last_entry
            assert (last.timestamp, last.offset) == (NOW + 29, 29)
        closed(directory, clean=True)
        assert bytes_of(directory, ".log", *INDEXES) == before


def test_after_a_clean_stop_all_counts_as_flushed(tmp_path: Path) -> None:
    log_of(tmp_path)
    with loaded(tmp_path, clean=True, recovery_point=3) as opened:
        assert opened.log.recovery_point == 30


def test_a_recovery_point_beyond_the_end_of_the_log_is_brought_back(tmp_path: Path) -> None:
    log_of(tmp_path)
    with loaded(tmp_path, recovery_point=1000) as opened:
        assert opened.log.recovery_point == 30


def test_the_next_record_goes_behind_the_last_byte_of_the_last_segment(tmp_path: Path) -> None:
    log_of(tmp_path)
    with loaded(tmp_path, clean=True) as opened:
        metadata = opened.log.log_end
        assert (metadata.message_offset, metadata.segment_base_offset) == (30, 20)
        assert metadata.relative_position_in_segment == log_file(tmp_path, 20).stat().st_size


def test_the_active_segment_has_room_in_its_indexes_and_no_other(tmp_path: Path) -> None:
    log_of(tmp_path)
    for clean in (True, False):
        load(tmp_path, clean=clean)
        sizes = [log_file(tmp_path, base, INDEX_SUFFIX).stat().st_size for base in (0, 10, 20)]
        assert sizes[2] == CONFIG.segment_index_bytes
        assert max(sizes[:2]) < 100


def test_loading_twice_after_a_crash_is_as_good_as_once(tmp_path: Path) -> None:
    log_of(tmp_path)
    change(log_file(tmp_path, 20), lambda data: data[:-7])
    load(tmp_path)
    once = bytes_of(tmp_path)
    load(tmp_path)
    assert bytes_of(tmp_path) == once


# --- damage


Damage = Callable[[bytes], bytes]
TAILS: dict[str, Damage] = {
    "torn in the records": lambda data: data[:-7],
    "torn in the header": lambda data: data[:-160],
    "zeroed from the middle of a batch on": lambda data: data[:-7] + bytes(7),
    "zeroed": lambda data: data[:-200] + bytes(200),
    "preallocated": lambda data: data + bytes(4096),
    "a page of zeros at the end": lambda data: data[: -(-len(data) // 512 - 1) * 512] + bytes(512),
    "followed by garbage": lambda data: data + random.Random(1).randbytes(1000),
    "followed by less than a header": lambda data: data + b"\x00" * 8 + b"\x01",
    "a batch whose checksum does not hold": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
}


@pytest.mark.parametrize("tail", TAILS)
def test_a_damaged_tail_is_cut_behind_the_last_sound_batch(
    tmp_path: Path, tail: str, caplog: pytest.LogCaptureFixture
) -> None:
    log_of(tmp_path)
    path = log_file(tmp_path, 20)
    whole = path.read_bytes()
    change(path, TAILS[tail])
    damaged = path.stat().st_size
    with caplog.at_level(logging.WARNING), loaded(tmp_path, recovery_point=20) as opened:
        kept = opened.records()
        assert [offset for offset, _ in kept] == list(range(opened.end_offset))
        assert 28 <= opened.end_offset <= 30
    assert whole.startswith(path.read_bytes())
    assert opened.log.recovery_point == 20
    lost = damaged - path.stat().st_size
    assert f"{path}: truncated at position {path.stat().st_size}" in caplog.text
    assert f"{lost} bytes removed" in caplog.text


def test_segments_after_a_truncated_segment_are_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log_of(tmp_path, segments=5)
    size = log_file(tmp_path, 30).stat().st_size
    change(log_file(tmp_path, 10), lambda data: data[:-7])
    with loaded(tmp_path) as opened:
        assert opened.bases == [0, 10]
        assert opened.end_offset == 19
    assert names(tmp_path, ".log") == [log_file(tmp_path, 0).name, log_file(tmp_path, 10).name]
    assert f"{log_file(tmp_path, 30)}: deleted with all its {size} bytes" in caplog.text


def test_segments_below_the_recovery_point_are_not_checked(tmp_path: Path) -> None:
    log_of(tmp_path)
    path = log_file(tmp_path, 0)
    change(path, lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    before = path.read_bytes()
    with loaded(tmp_path, recovery_point=10) as opened:
        assert opened.bases == [0, 10, 20]
    assert path.read_bytes() == before


def test_recovery_does_not_decode_records(tmp_path: Path) -> None:
    # The checksum is right, and what it covers is no record.
    nonsense = V2Batch([], region=b"\xff" * 20, records_count=1, base_offset=0, last_offset_delta=0).encoded()
    write_segments(tmp_path, {0: [nonsense, batch(1)]})
    before = log_file(tmp_path, 0).read_bytes()
    with loaded(tmp_path) as opened:
        assert opened.end_offset == 2
    assert log_file(tmp_path, 0).read_bytes() == before


def test_a_segment_whose_offsets_do_not_rise_is_emptied_and_ends_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backwards = [batch(offset, [bytes(300)]) for offset in (10, 13, 12, 11, 10)]
    write_segments(tmp_path, {0: numbered(0, 10), 10: backwards, 20: numbered(20, 3)})
    with loaded(tmp_path) as opened:
        assert opened.bases == [0, 10]
        assert opened.end_offset == 10
    assert log_file(tmp_path, 10).stat().st_size == 0
    assert f"{log_file(tmp_path, 10)}: all its" in caplog.text


def test_a_read_error_during_recovery_deletes_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(tmp_path)
    before = bytes_of(tmp_path, ".log")

    def refuse(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(segment_module.LogSegment, "rebuild", refuse)
    with pytest.raises(OSError, match="Input/output"):
        load(tmp_path)
    assert bytes_of(tmp_path, ".log") == before


def test_random_bytes_appended_to_index_and_log_are_removed(tmp_path: Path) -> None:
    chance = random.Random(7)
    for i in range(10):
        directory = tmp_path / str(i)
        count = chance.randrange(50, 100)
        write_segments(directory, {0: numbered(0, count)})
        closed(directory)
        for suffix in (".log", ".index"):
            change(log_file(directory, 0, suffix), lambda data: data + chance.randbytes(chance.randrange(1, 1025)))
        with loaded(directory) as opened:
            assert opened.end_offset == count
            assert [offset for offset, _ in opened.records()] == list(range(count))


@given(data=st.data())
def test_recovery_keeps_every_whole_batch_of_a_truncated_segment(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("cut")
    batches = numbered(0, 8, size=20)
    write_segments(directory, {0: batches})
    size = data.draw(st.integers(0, sum(map(len, batches))))
    change(log_file(directory, 0), lambda log: log[:size])
    whole = sum(1 for i in range(8) if sum(map(len, batches[: i + 1])) <= size)
    with loaded(directory) as opened:
        assert opened.end_offset == whole
    assert log_file(directory, 0).read_bytes() == b"".join(batches[:whole])


# --- a clean stop that was none


@pytest.mark.parametrize("tail", ["torn in the records", "zeroed", "preallocated", "followed by garbage"])
def test_a_damaged_tail_overrides_the_clean_shutdown_file(
    tmp_path: Path, tail: str, caplog: pytest.LogCaptureFixture
) -> None:
    log_of(tmp_path)
    path = log_file(tmp_path, 20)
    whole = path.read_bytes()
    change(path, TAILS[tail])
    with loaded(tmp_path, clean=True, recovery_point=20) as opened:
        assert opened.bases == [0, 10, 20]
        assert opened.log.recovery_point == 20
    assert whole.startswith(path.read_bytes())
    assert "no clean shutdown leaves" in caplog.text


# --- indexes


@pytest.mark.parametrize("ending", [".index", ".timeindex"])
def test_deleted_indexes_are_there_again_after_a_crash(tmp_path: Path, ending: str) -> None:
    log_of(tmp_path)
    before = bytes_of(tmp_path, *INDEXES)
    for name in names(tmp_path, ending):
        (tmp_path / name).unlink()
    load(tmp_path)
    closed(tmp_path, clean=True)
    assert bytes_of(tmp_path, *INDEXES) == before


def test_a_deleted_offset_index_is_built_anew_even_after_a_clean_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_of(tmp_path)
    before = bytes_of(tmp_path, *INDEXES)
    log_file(tmp_path, 10, INDEX_SUFFIX).unlink()
    closed(tmp_path, clean=True)
    assert bytes_of(tmp_path, *INDEXES) == before
    assert "index: the index is missing" in caplog.text


def test_a_deleted_time_index_is_empty_after_a_clean_stop_and_whole_after_a_crash(tmp_path: Path) -> None:
    log_of(tmp_path)
    log_file(tmp_path, 10, TIME_INDEX_SUFFIX).unlink()
    load(tmp_path, clean=True)
    assert log_file(tmp_path, 10, TIME_INDEX_SUFFIX).stat().st_size == 0
    load(tmp_path)
    assert log_file(tmp_path, 10, TIME_INDEX_SUFFIX).stat().st_size > 0


def test_indexes_with_one_space_in_them_are_built_anew_after_a_crash(tmp_path: Path) -> None:
    log_of(tmp_path)
    before = bytes_of(tmp_path, *INDEXES)
    for name in names(tmp_path, "index"):
        (tmp_path / name).write_bytes(b" ")
    load(tmp_path)
    closed(tmp_path, clean=True)
    assert bytes_of(tmp_path, *INDEXES) == before


def test_zeroed_indexes_are_rebuilt_after_a_crash(tmp_path: Path) -> None:
    log_of(tmp_path)
    before = bytes_of(tmp_path, *INDEXES)
    for name in names(tmp_path, "index"):
        change(tmp_path / name, lambda data: bytes(len(data)))
    load(tmp_path)
    closed(tmp_path, clean=True)
    assert bytes_of(tmp_path, *INDEXES) == before


def test_an_active_segment_without_indexes_gets_them(tmp_path: Path) -> None:
    log_of(tmp_path)
    write_segments(tmp_path, {30: []})
    log_file(tmp_path, 30, INDEX_SUFFIX).unlink()
    with loaded(tmp_path, recovery_point=30) as opened:
        active = opened.log.segments.values[-1]
        assert (active.base_offset, active.size_in_bytes, active.time_index.entries) == (30, 0, 0)
        assert opened.end_offset == 30
    assert log_file(tmp_path, 30, INDEX_SUFFIX).exists()


def test_indexes_without_a_segment_are_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log_of(tmp_path)
    bogus = [tmp_path / "5.index", tmp_path / "5.timeindex", log_file(tmp_path, 15, ".txnindex")]
    for path in bogus:
        path.write_bytes(bytes(12))
    load(tmp_path, clean=True)
    assert not any(path.exists() for path in bogus)
    assert f"{bogus[0]}: deleted" in caplog.text


def test_files_with_other_names_are_not_touched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log_of(tmp_path)
    for name in ("notes.log", "notes.index", "notes.swap", "notes.cleaned", "notes.txt"):
        (tmp_path / name).write_text("mine")
    with loaded(tmp_path) as opened:
        assert opened.bases == [0, 10, 20]
    assert len(names(tmp_path / ".", "notes.txt")) == 1
    assert sum(name.startswith("notes.") for name in names(tmp_path)) == 5
    assert "ignored: not the name of a segment" in caplog.text


# --- the log's start and its epochs


def test_a_log_that_ends_before_its_start_is_emptied_and_begins_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_segments(tmp_path, {offset: numbered(offset, 1) for offset in range(5)})
    closed(tmp_path)
    change(log_file(tmp_path, 1), lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    with loaded(tmp_path, log_start=4) as opened:
        assert (opened.bases, opened.end_offset, opened.log_start_offset) == ([4], 4, 4)
        assert opened.epochs == []
    assert names(tmp_path, ".log") == [log_file(tmp_path, 4).name]
    assert "before its start at 4" in caplog.text


def test_leader_epochs_that_were_lost_are_read_from_the_batches(tmp_path: Path) -> None:
    epochs = {0: 1, 1: 1, 2: 2, 3: 3, 4: 3}
    write_segments(tmp_path, {0: [batch(offset, partition_leader_epoch=epoch) for offset, epoch in epochs.items()]})
    for content in ("", "0\n1\n1 0\n"):
        (tmp_path / LEADER_EPOCH_CHECKPOINT).write_text(content)
        with loaded(tmp_path) as opened:
            assert opened.epochs == [(1, 0), (2, 2), (3, 3)]
        assert (tmp_path / LEADER_EPOCH_CHECKPOINT).read_text() == "0\n3\n1 0\n2 2\n3 3\n"


def test_leader_epochs_beyond_the_end_of_the_log_and_before_its_start_are_dropped(tmp_path: Path) -> None:
    log_of(tmp_path)
    (tmp_path / LEADER_EPOCH_CHECKPOINT).write_text("0\n4\n0 0\n1 5\n2 12\n3 30\n")
    with loaded(tmp_path, clean=True, log_start=8) as opened:
        assert opened.epochs == [(1, 8), (2, 12)]


def test_a_directory_pending_deletion_is_loaded_without_recovery(tmp_path: Path) -> None:
    directory = tmp_path / f"topic-0.{'0' * 32}-delete"
    directory.mkdir()
    with loaded(directory) as opened:
        assert (opened.bases, opened.end_offset) == ([0], 0)


# --- progress and errors


def test_progress_is_reported_from_zero_to_all_bytes(tmp_path: Path) -> None:
    log_of(tmp_path)
    sizes = [log_file(tmp_path, base).stat().st_size for base in (10, 20)]
    with loaded(tmp_path, recovery_point=10) as opened:
        assert opened.progress == [(0, sum(sizes)), (sizes[0], sum(sizes)), (sum(sizes), sum(sizes))]
    closed(tmp_path)
    with loaded(tmp_path, clean=True) as opened:
        assert opened.progress == []


def test_nothing_is_left_open_when_loading_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(tmp_path)
    before = _descriptors()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kafkalog.storage.producer.producer_state_manager.ProducerStateManager.take_snapshot", refuse)
    with pytest.raises(OSError, match="No space"):
        load(tmp_path)
    assert _descriptors() <= before
    monkeypatch.undo()
    with loaded(tmp_path) as opened:
        assert opened.end_offset == 30
    assert offsets_in(log_file(tmp_path, 20)) == list(range(20, 30))


def _descriptors() -> set[str]:
    listed = Path("/proc/self/fd")
    return {str(path.readlink()) for path in listed.iterdir() if path.is_symlink()} if listed.is_dir() else set()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("base", [5, 100])
def test_a_copy_of_a_segment_under_the_name_of_another_is_damage_that_is_named(
    tmp_path: Path, base: int, clean: bool
) -> None:
    log_of(tmp_path)
    copy = log_file(tmp_path, base)
    copy.write_bytes(log_file(tmp_path, 0).read_bytes())
    with pytest.raises(CorruptRecordError, match="not of this segment") as error:
        load(tmp_path, clean=clean)
    assert (error.value.path, error.value.position, error.value.found) == (str(copy), 0, 0)
    assert error.value.expected == f"{base}..{base + 2**31 - 1}"


def test_a_segment_whose_name_has_too_many_digits_is_refused_with_the_name_that_is_meant(tmp_path: Path) -> None:
    log_of(tmp_path)
    path = tmp_path / f"{7:021d}.log"
    log_file(tmp_path, 20).rename(path)
    with pytest.raises(NotALogError, match="20 digits") as error:
        load(tmp_path, clean=True)
    assert (error.value.path, error.value.expected, error.value.found) == (str(path), f"{7:020d}.log", path.name)


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_of_two_gigabytes_is_refused_before_any_is_touched(tmp_path: Path, clean: bool) -> None:
    log_of(tmp_path)
    path = log_file(tmp_path, 0)
    os.truncate(path, 2**31)
    with pytest.raises(NotALogError, match="more bytes than a segment can have") as error:
        load(tmp_path, clean=clean)
    assert (error.value.path, error.value.expected, error.value.found) == (str(path), 2**31 - 1, 2**31)
    assert path.stat().st_size == 2**31
