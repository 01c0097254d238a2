"""Text checkpoints: written, read and refused as Kafka writes, reads and refuses them (case 106)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.checkpoint.checkpoint_file import (
    EpochEntry,
    OffsetCheckpointFile,
    read_leader_epoch_checkpoint,
    read_offset_checkpoint,
    write_leader_epoch_checkpoint,
    write_offset_checkpoint,
)
from kafkalog.storage.file_names import TopicPartition
from tests.helpers.golden import unpacked

OFFSETS = {TopicPartition("orders", 0): 5, TopicPartition("my-topic", 12): 2**63 - 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def test_offsets_are_one_line_a_partition_below_version_and_count(path: Path) -> None:
    write_offset_checkpoint(path, OFFSETS)
    assert path.read_bytes() == b"0\n2\norders 0 5\nmy-topic 12 9223372036854775807\n"
    assert read_offset_checkpoint(path) == OFFSETS
    assert read_offset_checkpoint(path) == OFFSETS


def test_epochs_are_one_line_each_below_version_and_count(path: Path) -> None:
    entries = [EpochEntry(0, 0), EpochEntry(2**31 - 1, 2**63 - 1)]
    write_leader_epoch_checkpoint(path, entries)
    assert path.read_bytes() == b"0\n2\n0 0\n2147483647 9223372036854775807\n"
    assert read_leader_epoch_checkpoint(path) == entries


def test_a_later_checkpoint_takes_the_place_of_the_earlier(path: Path) -> None:
    write_offset_checkpoint(path, OFFSETS)
    write_offset_checkpoint(path, {TopicPartition("t", 1): 7}, sync=False)
    assert read_offset_checkpoint(path) == {TopicPartition("t", 1): 7}


def test_an_empty_checkpoint_is_written_as_two_zeros(path: Path) -> None:
    write_offset_checkpoint(path, {})
    assert path.read_bytes() == b"0\n0\n"
    assert read_offset_checkpoint(path) == {}
    path.unlink()
    write_leader_epoch_checkpoint(path, [])
    assert path.read_bytes() == b"0\n0\n"
    assert read_leader_epoch_checkpoint(path) == []


@pytest.mark.parametrize("content", [None, b"", b"0\n", b"0", b"0\n0", b"0\n0\n"])
def test_a_file_without_entries_or_that_is_missing_holds_nothing(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.write_bytes(content)
    assert read_offset_checkpoint(path) == {}
    assert read_leader_epoch_checkpoint(path) == []


def test_a_partition_that_is_not_in_the_file_has_no_offset(path: Path) -> None:
    write_offset_checkpoint(path, OFFSETS)
    assert read_offset_checkpoint(path).get(TopicPartition("orders", 1)) is None


@pytest.mark.parametrize(
    "content", [b"0\r\n1\r\n3\t 7\r\n", b"0\n1\n3   7", b"+0\n+1\n+3 +7\n", b"0\n1\n3 7 \t\n", b"0\r1\r3 7\r"]
)
def test_white_space_and_line_ends_are_read_as_java_reads_them(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert read_leader_epoch_checkpoint(path) == [(3, 7)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"1\n0\n", "the version is unknown"),
        (b"-1\n1\n3 7\n", "the version is unknown"),
        (b"x\n", "line 1 does not follow the format"),
        (b"\n", "line 1 does not follow the format"),
        (b"\n0\n0", "line 1 does not follow the format"),
        (b"0\nx\n", "line 2 does not follow the format"),
        (b"0\n1\n3\n", "line 3 does not follow the format"),
        (b"0\n1\n3 7 9\n", "line 3 does not follow the format"),
        (b"0\n1\n 3 7\n", "line 3 does not follow the format"),
        (b"0\n1\n3 7\n\n", "line 4 does not follow the format"),
        (b"0\n1\n3 x\n", "'x' is not a number of 64 bits"),
        (b"0\n1\n1_0 7\n", "'1_0' is not a number of 32 bits"),
        (b"0\n1\n2147483648 7\n", "'2147483648' is not a number of 32 bits"),
        (b"0\n1\n3 9223372036854775808\n", "not a number of 64 bits"),
        (b"0 \n1\n3 7\n", "line 1 does not follow the format"),
        (b"0\n2\n3 7\n", "the number of lines is not the one declared"),
        (b"0\n1\n3 7\n4 8\n", "the number of lines is not the one declared"),
        (b"0\n-1\n", "the number of lines is not the one declared"),
        (b"0\n1\n3 \xff\n", "not a text file"),
        (bytes(40), "line 1 does not follow the format"),
    ],
)
def test_a_file_that_does_not_follow_the_format_is_damage_that_names_it(path: Path, content: bytes, words: str) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=words) as error:
        read_leader_epoch_checkpoint(path)
    assert error.value.path == str(path)


def test_a_directory_is_no_checkpoint(path: Path) -> None:
    path.mkdir()
    with pytest.raises(CorruptCheckpointError, match="regular file"):
        read_offset_checkpoint(path)


@pytest.mark.parametrize("topic", ["", "two words", "line\nbreak"])
def test_a_topic_that_no_reader_would_find_again_is_not_written(path: Path, topic: str) -> None:
    with pytest.raises(ValueError, match="no topic"):
        write_offset_checkpoint(path, {TopicPartition(topic, 0): 1})
    assert not path.exists()


def test_brokers_files_are_read_and_would_be_written_the_same(path: Path) -> None:
    offset_files, epoch_files = (
        list(unpacked().rglob(pattern)) for pattern in ("*-offset-checkpoint", "leader-epoch-checkpoint")
    )
    for file in offset_files:
        write_offset_checkpoint(path, read_offset_checkpoint(file), sync=False)
        assert path.read_bytes() == (file.read_bytes() or b"0\n0\n")
    for file in epoch_files:
        write_leader_epoch_checkpoint(path, read_leader_epoch_checkpoint(file), sync=False)
        assert path.read_bytes() == (file.read_bytes() or b"0\n0\n")
    assert len(offset_files) > 5
    assert len(epoch_files) > 20


names = st.text("abcxyzABC019._-", min_size=1, max_size=12)
offsets = st.dictionaries(
    st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), st.integers(-(2**63), 2**63 - 1), max_size=6
)


@given(offsets)
def test_written_offsets_are_read_again(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[TopicPartition, int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "offsets"
    write_offset_checkpoint(path, entries, sync=False)
    assert read_offset_checkpoint(path) == entries


@given(st.binary(max_size=60) | st.text("01 23\n\t-x", max_size=30).map(str.encode))
def test_any_bytes_are_entries_or_damage(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    for read in (read_offset_checkpoint, read_leader_epoch_checkpoint):
        with suppress(CorruptCheckpointError):
            assert all(len(entry) == 2 for entry in read(path))


numbers = st.sampled_from([0, 7, 2**31 - 1, 2**31, 2**63 - 2, 2**63 - 1, 2**63, 2**64])
edits = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(["", "1", " ", "\n", "\t", "+", "_", "\u0661"])), max_size=3
)


@example([(2**31, 0)], [], False)
@example([(0, 2**63)], [], False)
@example([(0, 0)], [(0, "1")], False)
@example([(0, 0)], [(2, "1")], False)
@example([(0, 0)], [(6, "")], True)
@example([], [(0, ""), (2, "")], True)
@given(st.lists(st.tuples(numbers.filter(lambda number: number < 2**32), numbers), max_size=3), edits, st.booleans())
def test_epochs_as_they_are_written_are_read_as_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int]], edits: list[tuple[int, str]], cut: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "epochs"
    write_leader_epoch_checkpoint(path, entries, sync=False)
    text = path.read_text()
    for position, inserted in edits:
        text = text[:position] + inserted + text[position + cut :]
    path.write_text(text)

    def outcome() -> Sequence[tuple[int, int]] | str:
        try:
            return read_leader_epoch_checkpoint(path)
        except CorruptCheckpointError as error:
            return str(error)

    fast = outcome()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("kafkalog.storage.checkpoint.checkpoint_file._epochs_as_written", lambda text: None)
        assert outcome() == fast


def test_a_checkpoint_is_read_again_only_where_it_has_been_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OffsetCheckpointFile(path)
    assert file.read() == {}
    write_offset_checkpoint(path, OFFSETS)
    assert file.read() == OFFSETS
    settle(path)
    assert file.read() == OFFSETS
    with monkeypatch.context() as patches:
        patches.setattr("kafkalog.storage.checkpoint.checkpoint_file.read_offset_checkpoint", None)
        assert file.read() == OFFSETS
    write_offset_checkpoint(path, {})
    assert file.read() == {}
    path.unlink()
    assert file.read() == {}


def test_a_checkpoint_replaced_twice_in_a_moment_is_read_each_time(path: Path) -> None:
    file = OffsetCheckpointFile(path)
    for offset in range(20):
        path.write_text(f"0\n1\norders 0 {offset % 10}\n")
        assert file.read() == {TopicPartition("orders", 0): offset % 10}


def test_a_checkpoint_replaced_while_it_is_read_is_read_again_however_long_that_took(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("0\n1\norders 0 1\n")
    written = path.stat().st_mtime_ns

    def read_slowly(path: Path) -> Mapping[TopicPartition, int]:
        monkeypatch.undo()
        offsets = read_offset_checkpoint(path)
        path.write_text("0\n1\norders 0 2\n")
        os.utime(path, ns=(written, written))
        time.sleep(0.06)
        return offsets

    monkeypatch.setattr("kafkalog.storage.checkpoint.checkpoint_file.read_offset_checkpoint", read_slowly)
    file = OffsetCheckpointFile(path)
    assert file.read() == {TopicPartition("orders", 0): 1}
    assert file.read() == {TopicPartition("orders", 0): 2}


def settle(path: Path) -> None:
    """Make the file a second older."""
    before = path.stat().st_mtime_ns - 10**9
    os.utime(path, ns=(before, before))
