"""The files of a segment: opened late and in limited number, renamed, flushed, closed, read beside their writer."""

from __future__ import annotations

import os
import pickle
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import FileMessageSet
from kafkalog.errors import LogStateError
from kafkalog.storage.files.open_file_limit import OpenFiles
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.segment import segment_files
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments
from tests.helpers.making import SMALL, append, batch, fill, offsets, segment

NAMES = [f"{40:020d}{kind}" for kind in (".index", ".log", ".timeindex")]


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def open_logs(directory: Path) -> int:
    """Return how many descriptors this process has for `.log` files in the directory."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux lists them")
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            target = each.readlink()
        except OSError:
            continue
        found += target.name.endswith(".log") and target.parent == directory
    return found


def reading(made: LogSegment) -> LogSegment:
    return LogSegment(made.base_offset, made.path, sealed=made.sealed)


def sealed(directory: Path, base: int, count: int = 3) -> LogSegment:
    made = segment(directory, base)
    fill(made, range(base, base + count))
    made.on_become_inactive_segment()
    made.flush()
    return made


def test_index_files_are_created_by_their_first_use(tmp_path: Path) -> None:
    made = segment(tmp_path)
    assert names(tmp_path) == NAMES[1:2]
    fill(made, range(40, 41))
    assert names(tmp_path) == NAMES
    made.close()


def test_flushing_makes_the_indexes_of_the_last_segment(tmp_path: Path) -> None:
    made = segment(tmp_path)
    made.flush()
    assert names(tmp_path) == NAMES
    assert made.offset_index.length == SMALL.segment_index_bytes
    made.close()


def test_files_created_after_a_rename_get_the_new_suffix(tmp_path: Path) -> None:
    made = segment(tmp_path)
    made.change_file_suffixes("", ".deleted")
    assert names(tmp_path) == [NAMES[1] + ".deleted"]
    fill(made, range(40, 41))
    assert names(tmp_path) == [name + ".deleted" for name in NAMES]
    made.close()


def test_open_files_are_used_under_their_new_suffix(tmp_path: Path) -> None:
    made = segment(tmp_path, suffix=".cleaned")
    fill(made, range(40, 43))
    made.change_file_suffixes(".cleaned", ".swap")
    fill(made, range(43, 46))
    made.change_file_suffixes(".swap", "")
    assert names(tmp_path) == NAMES
    assert offsets(made.read(40, 1000)) == list(range(40, 46))
    assert made.log.path == str(tmp_path / NAMES[1])
    made.close()


def test_deleting_removes_all_files_and_open_readers_keep_their_bytes(tmp_path: Path) -> None:
    made = segment(tmp_path)
    fill(made, range(40, 43))
    found = made.read(40, 1000)
    made.delete_if_exists()
    assert names(tmp_path) == []
    assert offsets(found) == [40, 41, 42]
    with pytest.raises(FileNotFoundError, match="has been deleted"):
        made.read(40, 1000)
    made.delete_if_exists()


def test_a_closed_segment_has_its_largest_timestamp_in_the_time_index_and_no_empty_slots(tmp_path: Path) -> None:
    made = segment(tmp_path, config=LogConfig(index_interval_bytes=10_000))
    fill(made, range(40, 43))
    made.close()
    made.close()
    again = segment(tmp_path, file_already_exists=True)
    assert list(again.time_index) == [(420, 42)]
    assert (again.time_index.length, again.offset_index.length) == (12, 0)
    assert again.max_timestamp_and_offset_so_far == (420, 42)
    with pytest.raises(LogStateError, match="has been closed"):
        made.log  # noqa: B018
    again.close()


def test_release_leaves_the_files_untrimmed(tmp_path: Path) -> None:
    made = segment(tmp_path)
    fill(made, range(40, 43))
    made.release()
    assert [(tmp_path / name).stat().st_size for name in NAMES] == [2000, 117, 1992]
    with pytest.raises(LogStateError, match="has been closed"):
        made.read(40, 1000)


def rolled(directory: Path) -> LogSegment:
    made = segment(directory, config=LogConfig(segment_bytes=5000, preallocate=True, segment_index_bytes=1000))
    fill(made, range(40, 43))
    made.on_become_inactive_segment()
    return made


def test_a_rolled_segment_is_trimmed_and_its_slices_outlast_flush_and_close(tmp_path: Path) -> None:
    made = rolled(tmp_path)
    assert made.path.stat().st_size == made.size == 117
    assert (made.offset_index.length, made.time_index.length) == (0, 12)
    before_flush = made.read(40, 1000)
    made.flush()
    assert offsets(before_flush) == offsets(made.read(40, 1000)) == [40, 41, 42]
    made.close()
    assert offsets(before_flush) == [40, 41, 42]


def test_a_rolled_segment_keeps_its_file_open_until_it_is_flushed(tmp_path: Path) -> None:
    made = rolled(tmp_path)
    assert open_logs(tmp_path) == 1
    made.flush()
    assert open_logs(tmp_path) == 0
    assert made.size == 117
    made.close()


def test_sealed_segments_of_a_writable_log_are_not_mapped(tmp_path: Path) -> None:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("only Linux lists them")
    made = sealed(tmp_path, 40)
    again = segment(tmp_path, file_already_exists=True)
    again.seal()
    for each in (made, again):
        assert offsets(each.read(41, 1000)) == [41, 42]
        assert str(each.path) not in maps.read_text()
        each.close()
    with FileMessageSet(made.path, sealed=True) as mapped:
        assert len(list(mapped)) == 3
        assert str(made.path) in maps.read_text(), "a sealed file is mapped, and listed here"


def test_a_sealed_segment_may_be_truncated_and_appended_to_while_it_is_read(tmp_path: Path) -> None:
    made = sealed(tmp_path, 40)
    found = made.read(40, 39)
    made.truncate_to(41)
    assert not made.sealed
    assert not made.offset_index.is_full
    fill(made, range(41, 44))
    assert offsets(found) == [40]
    assert offsets(made.read(40, 1000)) == [40, 41, 42, 43]
    made.close()


def test_the_number_of_open_segment_files_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "OPEN_FILES", OpenFiles(4))
    segments = LogSegments(sealed(tmp_path, base) for base in range(0, 60, 3))
    segments.add(segment(tmp_path, 60))
    assert open_logs(tmp_path) == 1
    kept = segments.values[0].read(0, 1000)
    for offset in random.Random(1).choices(range(60), k=200):
        floor = segments.floor(offset)
        assert floor is not None
        assert offsets(floor.read(offset, 39)) == [offset]
        assert open_logs(tmp_path) <= 1 + 4 + 2
    assert offsets(kept) == [0, 1, 2]
    segments.close()
    del kept
    assert open_logs(tmp_path) == 0


def test_recently_used_segments_keep_their_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "OPEN_FILES", OpenFiles(3))
    first, *others = [sealed(tmp_path, base) for base in range(0, 18, 3)]
    kept = first.log
    for each in others:
        assert first.log is kept
        each.log  # noqa: B018
    for each in (first, *others):
        each.close()


def test_collected_objects_do_not_count_towards_the_limit_of_open_files() -> None:
    class Opener:
        recently_used = False

        def give_up_file(self) -> bool:
            given_up.append(self)
            return True

    given_up: list[Opener] = []
    pool = OpenFiles(2)
    kept = [Opener(), Opener()]
    pool.add(kept[0])
    pool.add(Opener())
    pool.add(kept[1])
    pool.add(kept[0])
    assert given_up == [kept[0]] or not given_up


def test_the_oldest_open_file_that_is_not_used_is_given_up_first() -> None:
    class Opener:
        recently_used = False

        def give_up_file(self) -> bool:
            given_up.append(self)
            return True

    given_up: list[Opener] = []
    pool, openers = OpenFiles(3), [Opener() for _ in range(5)]
    for each in openers[:3]:
        pool.add(each)
    assert not given_up
    openers[0].recently_used = True
    pool.add(openers[3])
    pool.add(openers[4])
    assert given_up == openers[1:3]


def test_reading_beside_a_writer_sees_what_is_appended_and_writes_nothing(tmp_path: Path) -> None:
    made = segment(tmp_path)
    fill(made, range(40, 43))
    before = [(tmp_path / name).stat() for name in NAMES]
    beside = reading(made)
    assert offsets(beside.read(41, 1000)) == [41, 42]
    assert (beside.read_next_offset(), beside.largest_timestamp, beside.first_batch_timestamp) == (43, 420, 400)
    assert [(tmp_path / name).stat().st_mtime_ns for name in NAMES] == [each.st_mtime_ns for each in before]
    fill(made, range(43, 60))
    assert offsets(beside.read(58, 1000)) == [58, 59]
    assert (beside.read_next_offset(), beside.largest_timestamp) == (60, 590)
    assert beside.max_timestamp_and_offset_so_far == (590, 59)
    changes: list[Callable[[], object]] = [lambda: fill(beside, range(60, 61)), lambda: beside.truncate_to(40)]
    for refused in changes:
        with pytest.raises(ValueError, match="read"):
            refused()
    beside.flush()
    beside.close()
    made.close()


def test_reading_beside_a_writer_needs_no_index(tmp_path: Path) -> None:
    made = sealed(tmp_path, 40, 20)
    for name in (NAMES[0], NAMES[2]):
        (tmp_path / name).unlink()
    beside = reading(made)
    assert offsets(beside.read(55, 39)) == [55]
    found = beside.find_offset_by_timestamp(545)
    assert found is not None
    assert (found.offset, beside.largest_timestamp) == (55, 590)
    assert names(tmp_path) == NAMES[1:2]
    beside.close()
    made.close()


def test_damaged_indexes_do_not_change_the_results_of_reads(tmp_path: Path) -> None:
    draw = random.Random(0)
    made = sealed(tmp_path, 40, 30)
    sound = {name: (tmp_path / name).read_bytes() for name in (NAMES[0], NAMES[2])}
    made.close()
    for _ in range(20):
        for name, content in sound.items():
            data = bytearray(content)
            for _ in range(draw.randrange(1, 6)):
                data[draw.randrange(len(data))] = draw.randrange(256)
            (tmp_path / name).write_bytes(data)
        assert_reads_all(LogSegment(40, made.path, sealed=True))


def assert_reads_all(beside: LogSegment) -> None:
    for offset in range(40, 70):
        assert offsets(beside.read(offset, 39)) == [offset]
        found = beside.find_offset_by_timestamp(offset * 10)
        assert found is not None
        assert found.offset == offset
    assert beside.read_next_offset() == 70
    assert beside.max_timestamp_and_offset_so_far == (690, 69)
    beside.close()


def test_an_index_that_is_ahead_of_a_truncated_log_is_not_followed(tmp_path: Path) -> None:
    made = sealed(tmp_path, 40, 20)
    for keep in (5 * 39 + 1, 5 * 39, 39, 0):
        os.truncate(made.path, keep)
        beside = LogSegment(40, made.path, sealed=False)
        assert beside.read(58, 1000) is None
        assert beside.read_next_offset() == 40 + keep // 39
        beside.close()
    made.close()


def test_a_segment_that_is_read_can_be_pickled_and_one_that_is_written_cannot(tmp_path: Path) -> None:
    made = sealed(tmp_path, 40)
    beside = reading(made)
    assert offsets(beside.read(41, 1000)) == [41, 42]
    copy = pickle.loads(pickle.dumps(beside))
    assert offsets(copy.read(41, 1000)) == [41, 42]
    assert copy.sealed
    with pytest.raises(TypeError, match="one object alone"):
        pickle.dumps(made)
    for each in (made, beside, copy):
        each.close()


@pytest.mark.slow
def test_threads_read_during_appends_sealing_and_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "OPEN_FILES", OpenFiles(1))
    segments = LogSegments([segment(tmp_path, 0)])
    end = [0]
    wrong: list[BaseException] = []
    done = threading.Event()

    def read(seed: int) -> None:
        draw = random.Random(seed)
        try:
            while not done.is_set():
                if end[0]:
                    offset = draw.randrange(end[0])
                    floor = segments.floor(offset)
                    assert floor is not None
                    assert offsets(floor.read(offset, 39)) == [offset]
        except BaseException as error:  # noqa: BLE001 it is for the main thread
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for each in threads:
        each.start()
    try:
        for base in range(0, 400, 20):
            for offset in range(base, base + 20):
                append(segments.active, batch(offset))
                end[0] = offset + 1
            segments.active.on_become_inactive_segment()
            segments.add(segment(tmp_path, base + 20))
            for each_segment in segments:
                each_segment.flush()
    finally:
        done.set()
    for each in threads:
        each.join()
    segments.close()
    assert wrong == []
