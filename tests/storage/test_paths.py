from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.storage.file_names import (
    TopicPartition,
    offset_file,
    parse_partition_dir,
    partition_of_dir,
    real_path,
    segment_base_offset,
    segment_files,
)

ID = "0123456789abcdef" * 2
LONGEST_TOPIC = "t" * 249
topics = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))


@given(topic=topics, number=st.integers(0, 2**31 - 1))
def test_a_partitions_directory_is_named_for_its_topic_and_number(topic: str, number: int) -> None:
    name = f"{topic}-{number}"
    assert parse_partition_dir(name) == partition_of_dir(name) == TopicPartition(topic, number)
    assert str(TopicPartition(topic, number)) == name


@pytest.mark.parametrize("mark", ["delete", "future", "stray"])
def test_a_directory_on_its_way_is_still_that_of_its_partition_and_not_in_use(mark: str) -> None:
    for topic in ("foo", "foo.bar-testtopic", LONGEST_TOPIC[:200]):
        name = f"{topic}-42.{ID}-{mark}"
        assert parse_partition_dir(name) == TopicPartition(topic, 42)
        assert partition_of_dir(name) is None


def test_the_name_of_a_deleted_directory_is_cut_to_what_a_file_system_takes(tmp_path: Path) -> None:
    name = f"{LONGEST_TOPIC[: 255 - len(f'-3.{ID}-delete')]}-3.{ID}-delete"
    assert len(name) == 255
    (tmp_path / name).mkdir()
    assert parse_partition_dir(name) is not None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "topic1999",
        "-1999",
        "topic-",
        "topic-1999a",
        "topic--",
        "x-delete",
        "topic-0-delete",
        f"topic-0.{ID[:-1]}-delete",
        f"topic.{ID}-delete",
        f"topic-0.{ID.upper()}-stray",
        "topic-١",  # noqa: RUF001 - a digit, and none that Java's format writes
    ],
)
def test_other_names_are_no_partitions(name: str) -> None:
    assert parse_partition_dir(name) is None
    assert partition_of_dir(name) is None


@pytest.mark.parametrize(
    "name", ["../topic-0", "my topic-0", "..-0", ".-0", "topic-007", "tøpic-0", "t" * 250 + "-0", "a\n-0"]
)
def test_names_that_no_broker_gives_are_not_written_to(name: str) -> None:
    assert partition_of_dir(name) is None


@pytest.mark.parametrize("offset", [0, 42, 2**31, 2**63 - 1])
def test_segments_are_named_for_their_base_offset(tmp_path: Path, offset: int) -> None:
    path = offset_file(tmp_path, offset, ".log")
    assert len(path.name) == 24
    assert segment_base_offset(path.name) == offset


@pytest.mark.parametrize(
    "name",
    [
        "0.log",
        f"{0:020d}.log.deleted",
        f"{0:020d}.index",
        f"{2**63:020d}.log",
        f"{0:020d}.LOG",
        f"-{0:019d}.log",
        f"{7:021d}.log",
    ],
)
def test_other_names_are_no_segments(name: str) -> None:
    assert segment_base_offset(name) is None


def test_segments_are_listed_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    for offset in (300, 0, 21):
        offset_file(tmp_path, offset, ".log").touch()
        offset_file(tmp_path, offset, ".index").touch()
    assert [base for base, _ in segment_files(tmp_path)] == [0, 21, 300]


def test_a_path_is_where_its_links_lead_to_and_a_link_to_itself_stays(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "latest").symlink_to("t-0")
    (tmp_path / "u-0").symlink_to("u-0")
    assert real_path(tmp_path / "latest" / "x").parent.name == "t-0"
    assert real_path(str(tmp_path / "u-0")).name == "u-0"
