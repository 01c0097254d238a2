"""Search: every match once, in order, from where it was asked for; and what was not read is said."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, Record
from kafkalog.fsck import Severity
from kafkalog.scan.records import Damage
from kafkalog.scan.records import records as surviving_records
from kafkalog.scan.search import EXCERPT_BYTES, FieldName, Match, Search, SearchProgress, pattern
from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.files.open_source import open_source
from tests.helpers.damage import flipped, log, start_of, with_bytes
from tests.helpers.damage_kinds import KINDS, places_of
from tests.helpers.golden import Partition
from tests.helpers.inspected import segment_file
from tests.helpers.partitions import sampled_partition
from tests.reference.encode import V2Batch, records


def done(search: Search) -> tuple[list[Match], SearchProgress]:
    events = list(search)
    last = events[-1]
    assert isinstance(last, SearchProgress)
    assert last.finished
    return [each for each in events if isinstance(each, Match)], last


class Options(TypedDict, total=False):
    fields: frozenset[FieldName]
    start: int | None
    backwards: bool


def searched(directory: Path, wanted: bytes, **options: Unpack[Options]) -> tuple[list[Match], SearchProgress]:
    return done(Search(directory, pattern(wanted), **options))


def texts(partition: Partition) -> list[tuple[int, list[bytes]]]:
    """Return the offset of each record, and its key, value and headers."""
    found = []
    for batch in partition.batches():
        for offset, _, _, key, value, headers in batch["records"] if not batch["control"] else ():
            data = [key, value, *(part for name, content in headers for part in (name.encode(), content))]
            found.append((offset, [part for part in data if part is not None]))
    return found


@sampled_partition
def test_matches_are_all_records_of_a_broker_with_the_text(partition: Partition) -> None:
    records = texts(partition)
    # Records before the start of the log are deleted ones.
    with kafkalog.open(partition.directory) as opened:
        start = opened.log_start_offset
    for wanted, ways in ((b"v1", (False, True)), (b"h0", (True,)), (b"nothing has this", (False,))):
        expected = [offset for offset, text in records if offset >= start and any(wanted in each for each in text)]
        for backwards in ways:
            matches, progress = searched(partition.directory, wanted, backwards=backwards)
            assert [match.offset for match in matches] == (expected[::-1] if backwards else expected)
            assert (progress.complete, progress.matches) == (True, len(expected))
            assert progress.reached_offset == progress.end_offset


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    sets = [
        ByteBufferMessageSet.from_records(
            [Record(b"Value %d" % i, b"key-%d" % i, [("Name", b"content %d" % i)], timestamp=i)], base_offset=i
        )
        for i in range(40)
    ]
    data = [bytes(each.buffer) for each in sets]
    segment_file(tmp_path / "t-0", b"".join(data[:20]))
    segment_file(tmp_path / "t-0", b"".join(data[20:]), base_offset=20)
    return tmp_path / "t-0"


@pytest.mark.parametrize(
    ("fields", "wanted", "place"),
    [
        (["key"], b"key-7", "key"), (["value"], b"Value 7", "value"), (["headers"], b"content 7", "header Name"),
        (["key", "value"], b"content", None), (["headers"], b"Value", None), (["headers"], b"Name", "header Name"),
    ],
)  # fmt: skip
def test_only_the_fields_asked_for_are_searched(
    directory: Path, fields: list[FieldName], wanted: bytes, place: str | None
) -> None:
    matches, _ = searched(directory, wanted, fields=frozenset(fields))
    assert {match.field for match in matches} == ({place} if place is not None else set())


def test_a_search_begins_at_the_offset_asked_for(directory: Path) -> None:
    forwards, progress = searched(directory, b"Value", start=37)
    assert ([match.offset for match in forwards], progress.end_offset) == ([37, 38, 39], 40)
    backwards, progress = searched(directory, b"Value", start=3, backwards=True)
    assert ([match.offset for match in backwards], progress.end_offset) == ([2, 1, 0], 0)
    assert {match.base_offset for match in forwards} == {20}


@pytest.mark.parametrize("start", [None, 25, 1000])
def test_a_search_of_a_lone_file_reports_its_end_once_it_has_been_read(directory: Path, start: int | None) -> None:
    alone = directory.parent / f"{20:020}.log"
    alone.write_bytes((directory / alone.name).read_bytes())
    matches, progress = searched(alone, b"nothing has this", start=start)
    assert (matches, progress.complete) == ([], True)
    assert progress.reached_offset == progress.end_offset == max(40, start or 0)


def test_the_excerpt_has_the_match_in_it(tmp_path: Path) -> None:
    value = b"." * 1000 + b"needle" + b"." * 1000
    segment_file(tmp_path / "t-0", V2Batch(records(value)).encoded())
    ((match,), _) = searched(tmp_path / "t-0", b"needle")
    start, stop = match.excerpt_span
    assert match.span == (1000, 1006)
    assert match.excerpt[start:stop] == b"needle"
    assert len(match.excerpt) <= EXCERPT_BYTES


def test_a_search_past_damage_is_incomplete(tmp_path: Path) -> None:
    batches = log()
    data = flipped(b"".join(batches), start_of(batches, 3) + 300, 0)
    segment_file(tmp_path / "t-0", data)
    matches, progress = searched(tmp_path / "t-0", b"k1")
    assert [match.offset for match in matches] == [1, 6, 11, 21, 26, 31, 36]
    assert (progress.unreadable, progress.finished, progress.complete) == (1, True, False)
    assert "checksum" in (progress.problem or "")


def test_the_first_unreadable_batch_is_reported_with_its_file_and_position(tmp_path: Path) -> None:
    greedy = V2Batch(records(b"v", offset=10), last_offset_delta=4, records_count=5).encoded()
    batches = log((2, greedy))
    path = segment_file(tmp_path / "t-0", flipped(b"".join(batches), start_of(batches, 3) + 300, 0))
    _, progress = searched(tmp_path / "t-0", b"k1")
    first = progress.first_unreadable
    assert first is not None
    assert (progress.unreadable, first.path, first.position) == (2, path, start_of(batches, 2))
    assert first.problem.startswith("a field needs more bytes than are left")
    assert progress.problem == f"{path.name}: position {first.position}: {first.problem}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_records_searched_are_those_that_survive(kind: str, tmp_path: Path) -> None:
    batches = log()
    data = KINDS[kind](b"".join(batches), places_of(b"".join(batches)))
    path = segment_file(tmp_path / "t-0", data)
    damage: list[Damage] = []
    with kafkalog.open(path.parent) as opened:
        survivors = [
            offset for part in surviving_records(opened, report=damage.append) for offset in part.offset.tolist()
        ]
    for backwards in (False, True):
        matches, progress = searched(path.parent, b"k", fields=frozenset({"key"}), backwards=backwards)
        assert [match.offset for match in matches] == (survivors[::-1] if backwards else survivors)
        told = [each for each in damage if each.finding is None or each.finding.severity is not Severity.INFO]
        assert (progress.unreadable, progress.complete) == (len(told), not told)


def test_a_size_field_over_sound_batches_hides_none_of_them_from_a_search(tmp_path: Path) -> None:
    batches = log()
    spanning = (sum(map(len, batches[2:5])) - 12).to_bytes(4, "big")
    path = segment_file(tmp_path / "t-0", with_bytes(b"".join(batches), start_of(batches, 2) + 8, spanning))
    for backwards in (False, True):
        matches, progress = searched(path.parent, b"k", fields=frozenset({"key"}), backwards=backwards)
        found = [match.offset for match in matches]
        assert (found[::-1] if backwards else found) == [*range(10), *range(15, 40)]
        assert (progress.unreadable, progress.complete) == (1, False)
        assert progress.first_unreadable is not None
        assert progress.first_unreadable.position == start_of(batches, 2)


def test_a_lone_file_is_searched(directory: Path) -> None:
    matches, progress = searched(sorted(directory.glob("*.log"))[1], b"Value 3")
    assert [match.offset for match in matches] == [*range(30, 40)]
    assert progress.complete


def test_a_segment_deleted_during_a_search_is_reported(directory: Path) -> None:
    search = Search(directory, pattern("Value"))
    events = iter(search)
    assert next(each for each in events if isinstance(each, Match)).offset == 0
    sorted(directory.glob("*.log"))[1].unlink()
    matches = [each for each in events if isinstance(each, Match)]
    assert len(matches) == 19
    assert (search.progress().unreadable, "No such file" in (search.progress().problem or "")) == (1, True)


def test_a_search_of_a_partition_whose_segments_were_deleted_reports_it(tmp_path: Path) -> None:
    path = segment_file(tmp_path / "gone-0", b"".join(log()))
    path.unlink()
    for backwards in (False, True):
        matches, progress = searched(path.parent, b"value", backwards=backwards)
        assert (matches, progress.complete) == ([], progress.problem is None)
    path.parent.rmdir()
    matches, progress = searched(path.parent, b"value")
    assert (matches, progress.complete) == ([], False)
    assert progress.problem is not None


def test_a_search_reads_each_byte_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = V2Batch(records(*[b"x" * 1000] * 50)).encoded()
    data = b"".join((50 * i).to_bytes(8, "big") + batch[8:] for i in range(200))
    path = segment_file(tmp_path / "t-0", data)
    viewed = 0
    opened = open_source

    def counting(file: Path) -> ByteSource:
        source = opened(file)
        view = source.view

        def counted(position: int, length: int) -> memoryview:
            nonlocal viewed
            viewed += length
            return view(position, length)

        monkeypatch.setattr(source, "view", counted)
        return source

    monkeypatch.setattr("kafkalog.scan.record_scan.open_source", counting)
    matches, progress = searched(path.parent, b"nothing has this")
    assert (matches, progress.complete, progress.reached_offset) == ([], True, 10_000)
    # A batch at the end of one read is read again with the next.
    assert path.stat().st_size <= viewed <= 1.02 * path.stat().st_size
