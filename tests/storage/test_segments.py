"""The segments of a log by their base offsets, for one writer and many readers."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import LogStateError
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments
from tests.helpers.making import append, batch, fill, segment


def bare(base: int) -> LogSegment:
    """Return a segment without files."""
    return LogSegment(base, Path(f"{base:020d}.log"), sealed=False)


def bases(found: tuple[LogSegment, ...]) -> list[int]:
    return [each.base_offset for each in found]


def base(found: LogSegment | None) -> int | None:
    return None if found is None else found.base_offset


def test_without_segments_nothing_is_found() -> None:
    empty = LogSegments()
    assert (empty.is_empty, len(empty), empty.first, empty.last, empty.floor(5), list(empty)) == (
        True,
        0,
        None,
        None,
        None,
        [],
    )
    assert (empty.from_floor(0), empty.between(0, 9), empty.higher_segments(0), empty.size_in_bytes) == ((), (), (), 0)
    with pytest.raises(IndexError):
        empty.active  # noqa: B018


def test_segments_come_in_the_order_of_their_bases_and_all_but_the_last_are_sealed() -> None:
    segments = LogSegments()
    for each in (40, 0, 90, 60):
        segments.add(bare(each))
    assert bases(segments.values) == list(segments.base_offsets) == [0, 40, 60, 90]
    assert [each.sealed for each in segments] == [True, True, True, False]
    assert (base(segments.first), base(segments.last), segments.active.base_offset) == (0, 90, 90)
    assert (base(segments.get(60)), segments.get(61)) == (60, None)


def test_a_segment_takes_the_place_of_one_with_the_same_base() -> None:
    new = bare(40)
    segments = LogSegments([bare(0), bare(40), bare(90)])
    segments.add(new)
    assert segments.get(40) is new
    assert [each.sealed for each in segments] == [True, True, False]


def test_the_last_remaining_segment_is_the_active_one() -> None:
    segments = LogSegments([bare(0), bare(40), bare(90)])
    for _ in range(2):
        segments.remove(90)
        assert (segments.active.base_offset, segments.active.sealed) == (40, False)


@given(st.sets(st.integers(0, 40), max_size=12), st.integers(-1, 42), st.integers(0, 20))
def test_neighbours_and_ranges_are_those_of_the_sorted_bases(known: set[int], offset: int, length: int) -> None:
    segments = LogSegments(bare(each) for each in known)
    inorder = sorted(known)
    upto = bisect_right(inorder, offset)
    assert base(segments.floor(offset)) == (inorder[upto - 1] if upto else None)
    assert base(segments.higher(offset)) == (inorder[upto] if upto < len(inorder) else None)
    assert bases(segments.higher_segments(offset)) == inorder[upto:]
    end = offset + length
    after = dict(zip(inorder, [*inorder[1:], 1000], strict=False))
    touched = [each for each in inorder if each < end and after[each] > offset]
    assert bases(segments.between(offset, end)) == (touched if length else [])
    assert bases(segments.from_floor(offset)) == [each for each in inorder if after[each] > offset]


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="start 5 is above end 4"):
        LogSegments().between(5, 4)


def test_iteration_is_over_the_segments_at_its_start() -> None:
    segments = LogSegments([bare(0), bare(40)])
    seen = iter(segments)
    next(seen)
    segments.remove(0)
    segments.add(bare(90))
    assert [each.base_offset for each in seen] == [40]


def test_one_segment_that_fails_to_close_leaves_no_other_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = LogSegments(segment(tmp_path, each) for each in (0, 40, 90))
    fill(segments.active, range(90, 92))
    assert segments.size_in_bytes == 78
    broken = segments.values[1]
    close = broken.close

    def fail() -> None:
        close()
        raise OSError("no")

    monkeypatch.setattr(broken, "close", fail)
    with pytest.raises(OSError, match="no"):
        segments.close()
    for each in segments:
        with pytest.raises(LogStateError, match="has been closed"):
            each.log  # noqa: B018


def test_release_leaves_all_files_untrimmed(tmp_path: Path) -> None:
    segments = LogSegments(segment(tmp_path, each) for each in (0, 40))
    fill(segments.active, range(40, 42))
    segments.release()
    assert (tmp_path / f"{40:020d}.index").stat().st_size == 2000


@given(st.lists(st.integers(0, 9), max_size=8), st.lists(st.integers(0, 10), max_size=6))
def test_first_as_late_as_finds_the_first_segment_with_that_timestamp(
    tmp_path_factory: pytest.TempPathFactory, largest: list[int], asked: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("log")
    segments = LogSegments()
    for number, timestamp in enumerate(largest):
        segments.add(dated(directory, number, timestamp))
        for time in asked:
            expected = next((at for at, each in enumerate(largest[: number + 1]) if each >= time), None)
            assert base(segments.first_as_late_as(time)) == expected
    segments.close()


def dated(directory: Path, number: int, timestamp: int) -> LogSegment:
    """Return a segment with one record of that time."""
    made = segment(directory, number)
    append(made, batch(number, timestamp=timestamp))
    return made


def test_first_as_late_as_does_not_open_later_segments(tmp_path: Path) -> None:
    first = dated(tmp_path, 0, timestamp=5)
    # The others have no files.
    segments = LogSegments([first, bare(1), bare(2)])
    assert segments.first_as_late_as(5) is first
    with pytest.raises(OSError, match=f"{1:020}"):
        segments.first_as_late_as(6)
    first.close()
