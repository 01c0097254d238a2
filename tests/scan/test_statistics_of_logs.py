"""Statistics: the sums that a look at every record gives, in steps and in bounded memory."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog import ByteBufferMessageSet, Record
from kafkalog.scan.statistics import TIME_BUCKETS, LogStatistics, Totals
from tests.helpers.damage import flipped, log, start_of, with_bytes
from tests.helpers.golden import Partition, checked_partitions
from tests.helpers.inspected import all_steps, segment_file
from tests.helpers.partitions import sampled_partition


def counted(directory: Path) -> Totals:
    with closing(LogStatistics(directory)) as statistics:
        all_steps(lambda: statistics.step(0.01))
        return statistics.totals()


@sampled_partition
def test_sums_are_those_of_all_records(partition: Partition) -> None:
    found = counted(partition.directory)
    data = [batch for batch in partition.batches() if not batch["control"]]
    with kafkalog.open(partition.directory) as opened:
        start = opened.log_start_offset
    all_records = [record for batch in data for record in batch["records"]]
    records = [record for record in all_records if record[0] >= start]
    assert found.deleted_records == len(all_records) - len(records)
    control = [record for batch in partition.batches() if batch["control"] for record in batch["records"]]
    assert found.control_records == sum(record[0] >= start for record in control)
    keys, values = [record[3] for record in records], [record[4] for record in records]
    assert found.records == len(records)
    assert (found.null_keys, found.null_values) == (keys.count(None), values.count(None))
    assert found.key_bytes == sum(len(key) for key in keys if key is not None)
    assert found.value_bytes == sum(len(value) for value in values if value is not None)
    assert sum(count for _, count in found.times) == sum(record[1] >= 0 for record in records)
    assert sum(count for _, count in found.sizes) == len(values) - found.null_values
    assert found.unreadable == 0
    assert found.progress.is_done
    true = Counter(key for key in keys if key is not None)
    if len(true) < 400:
        assert [count for _, count in found.top_keys] == [count for _, count in true.most_common(50)]
        assert all(true[key] == count for key, count in found.top_keys)


def test_statistics_have_the_ratio_of_each_codec() -> None:
    partition = next(each for each in checked_partitions() if each.id == "kafka-3.9/v2-zstd-0")
    use = {each.name: each for each in counted(partition.directory).codecs}
    assert use["zstd"].ratio is not None
    assert 0 < use["zstd"].ratio < 1
    assert sum(each.batches for each in use.values()) == len(partition.batches())


def test_damage_is_stepped_over_and_counted(tmp_path: Path) -> None:
    batches = log()
    segment_file(tmp_path / "t-0", flipped(b"".join(batches), start_of(batches, 3) + 300, 0))
    found = counted(tmp_path / "t-0")
    assert (found.records, found.unreadable) == (35, 1)
    assert found.first_unreadable is not None
    assert found.first_unreadable.position == start_of(batches, 3)
    assert f"0.log: position {start_of(batches, 3)}: the checksum" in (found.problem or "")


def test_a_size_field_over_sound_batches_hides_none_of_them_from_the_sums(tmp_path: Path) -> None:
    batches = log()
    spanning = (sum(map(len, batches[2:5])) - 12).to_bytes(4, "big")
    segment_file(tmp_path / "t-0", with_bytes(b"".join(batches), start_of(batches, 2) + 8, spanning))
    found = counted(tmp_path / "t-0")
    assert (found.records, found.batches, found.unreadable) == (35, 7, 1)
    assert found.first_unreadable is not None
    assert found.first_unreadable.position == start_of(batches, 2)


def test_an_empty_partition_has_none(tmp_path: Path) -> None:
    segment_file(tmp_path / "t-0", b"")
    found = counted(tmp_path / "t-0")
    assert (found.records, found.times, found.sizes, found.top_keys, found.codecs) == (0, (), (), (), ())


def test_keys_of_any_size_and_with_any_bytes_are_counted_apart(tmp_path: Path) -> None:
    keys = [b"", b"a", b"a\0", b"a\0\0", b"\0", b"\1", b"x" * 256, b"y" * 100_000, b"y" * 100_001, None]
    data = ByteBufferMessageSet.from_records([Record(b"v", key) for key in keys for _ in range(3)])
    segment_file(tmp_path / "t-0", bytes(data.buffer))
    found = dict(counted(tmp_path / "t-0").top_keys)
    assert sorted(found.values()) == [3] * 9
    assert {key for key in found if len(key) <= 256 and not key.startswith(b"y")} == set(keys[:7])


@given(parts=st.lists(st.lists(st.integers(-1, 2**62), min_size=1, max_size=50), min_size=1, max_size=10))
def test_times_lie_in_few_buckets_that_hold_all_of_them(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]]
) -> None:
    sets = [ByteBufferMessageSet.from_records([Record(b"v", timestamp=each) for each in part]) for part in parts]
    directory = tmp_path_factory.mktemp("times") / "t-0"
    segment_file(directory, b"".join(bytes(each.buffer) for each in sets))
    found = counted(directory)
    assert len(found.times) <= TIME_BUCKETS
    known = [each for part in parts for each in part if each >= 0]
    expected = Counter(each // found.bucket_ms * found.bucket_ms for each in known)
    assert {start: count for start, count in found.times if count} == dict(expected)
