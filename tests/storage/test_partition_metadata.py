"""`partition.metadata`: the file, topic ids, and damage."""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode
from pathlib import Path
from uuid import UUID

import pytest

from kafkalog.errors import CorruptCheckpointError, InconsistentTopicIdError
from kafkalog.storage.checkpoint import partition_metadata_file as partition_metadata
from kafkalog.storage.checkpoint.partition_metadata_file import (
    PartitionMetadata,
    is_topic_id,
    random_topic_id,
    read_partition_metadata,
    write_partition_metadata,
)
from tests.helpers.golden import unpacked

TOPIC_ID = "bUPDMCVQRZiKdmIvGGjhHg"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "partition.metadata"


def test_the_file_has_two_lines_and_no_newline_behind_them(path: Path) -> None:
    write_partition_metadata(path, TOPIC_ID)
    assert path.read_bytes() == b"version: 0\ntopic_id: bUPDMCVQRZiKdmIvGGjhHg"
    assert len(path.read_bytes()) == 43
    assert read_partition_metadata(path) == PartitionMetadata(0, TOPIC_ID)


def test_a_missing_file_reads_as_none(path: Path) -> None:
    assert read_partition_metadata(path) is None


def test_brokers_files_are_read_and_would_be_written_the_same(path: Path) -> None:
    files = sorted(unpacked().rglob("partition.metadata"))
    assert files
    for file in files:
        metadata = read_partition_metadata(file)
        assert metadata
        path.unlink(missing_ok=True)
        write_partition_metadata(path, metadata.topic_id, sync=False)
        assert path.read_bytes() == file.read_bytes()


def test_another_topic_id_is_refused_and_the_same_writes_nothing(path: Path) -> None:
    path.write_bytes(f"version: 3\ntopic_id:   {TOPIC_ID}\nmore".encode())
    before = path.read_bytes()
    write_partition_metadata(path, TOPIC_ID)
    with pytest.raises(InconsistentTopicIdError, match=TOPIC_ID):
        write_partition_metadata(path, random_topic_id())
    assert path.read_bytes() == before
    assert read_partition_metadata(path) == (3, TOPIC_ID)


@pytest.mark.parametrize(
    "text", ["", "A" * 22, TOPIC_ID[:-1], TOPIC_ID + "==", TOPIC_ID[:-1] + "h", TOPIC_ID[:-1] + "+"]
)
def test_an_invalid_topic_id_is_not_written(path: Path, text: str) -> None:
    assert not is_topic_id(text)
    with pytest.raises(ValueError, match="topic id"):
        write_partition_metadata(path, text)
    assert not path.exists()


@pytest.mark.parametrize("text", [TOPIC_ID + "==", TOPIC_ID[:-1] + "h"])
def test_padding_and_surplus_bits_of_a_topic_id_are_ignored(path: Path, text: str) -> None:
    path.write_bytes(f"version: 0\ntopic_id: {text}\n".encode())
    assert read_partition_metadata(path) == (0, TOPIC_ID)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "line 1"),
        ("version: 0", "line 2"),
        ("version 0\ntopic_id: x", "line 1"),
        ("version: 0: 1\ntopic_id: x", "line 1"),
        (f"version:0\ntopic_id: {TOPIC_ID}", "line 1"),
        (f"version: -1\ntopic_id: {TOPIC_ID}", "version is unknown"),
        (f"version: x\ntopic_id: {TOPIC_ID}", "version is unknown"),
        (f"version: 2147483648\ntopic_id: {TOPIC_ID}", "version is unknown"),
        (f"version: 0\ntopic_id: {TOPIC_ID}A", "not a topic id"),
        (f"version: 0\ntopic_id: {TOPIC_ID[:-1]}", "not a topic id"),
        (f"version: 0\ntopic_id: {TOPIC_ID[:-1]}/", "not a topic id"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "not a topic id"),
        ("version: 0\ntopic_id: \udcff", "not a text file"),
        ("\0" * 43, "line 1"),
    ],
)
def test_a_file_that_does_not_follow_the_format_is_damage_that_names_it(path: Path, content: str, words: str) -> None:
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptCheckpointError, match=words) as error:
        read_partition_metadata(path)
    assert error.value.path == str(path)


def test_new_ids_are_random_uuids() -> None:
    ids = {random_topic_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(is_topic_id(each) for each in ids)
    assert {UUID(bytes=urlsafe_b64decode(each + "==")).version for each in ids} == {4}


def test_new_ids_never_look_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([UUID(int=(0xF8 << 120) + 1), UUID(int=(0xF8 << 120) + 2), UUID(int=(0x6D << 120) + 3)])
    monkeypatch.setattr(partition_metadata, "uuid4", lambda: next(drawn))
    assert random_topic_id() == "bQAAAAAAAAAAAAAAAAAAAw"


def test_a_pipe_instead_of_the_file_is_corrupt_and_does_not_block(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(CorruptCheckpointError, match="not a regular file") as error:
        read_partition_metadata(path)
    assert error.value.path == str(path)


def test_damage_says_what_stands_there_and_what_should(path: Path) -> None:
    path.write_text("version: 0\nnonsense")
    with pytest.raises(CorruptCheckpointError) as error:
        read_partition_metadata(path)
    assert (error.value.expected, error.value.found) == ("topic_id: value", "'nonsense'")
