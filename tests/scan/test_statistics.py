"""Sums over records in bounded memory."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, CompressionType, Record
from kafkalog.record.layout import RECORD_BATCH_OVERHEAD
from kafkalog.scan.statistics import RecordStatistics, TopKeys

CODECS = (CompressionType.NONE, CompressionType.ZSTD)


@given(parts=st.lists(st.lists(st.sampled_from([b"%d" % i for i in range(30)]), max_size=60), max_size=20))
def test_no_key_that_comes_often_is_missed_and_no_count_is_too_large(parts: list[list[bytes]]) -> None:
    keys, true = TopKeys(8), Counter[bytes]()
    for part in parts:
        keys.add_keys(Counter(part))
        true.update(part)
    found = dict(keys.top(100))
    assert len(found) <= 8
    for key, count in true.items():
        assert found.get(key, 0) <= count <= found.get(key, 0) + keys.error


def test_records_are_summed_up_by_codec() -> None:
    sums = RecordStatistics()
    records = [Record(b"abc", b"k", timestamp=1), Record(None, timestamp=2)]
    sets = {codec: ByteBufferMessageSet.from_records(records, compression_type=codec) for codec in CODECS}
    for data in sets.values():
        for columns in data.columns():
            sums.add(columns)
    found = sums.totals()
    assert (found.records, found.batches, found.null_keys, found.null_values) == (4, 2, 2, 2)
    assert (found.key_bytes, found.value_bytes, found.largest_value) == (2, 6, 3)
    stored = [data.size_in_bytes - RECORD_BATCH_OVERHEAD for data in sets.values()]
    assert [(use.name, use.batches, use.stored, use.plain) for use in found.codecs] == [
        ("none", 1, stored[0], stored[0]), ("zstd", 1, stored[1], stored[0]),
    ]  # fmt: skip
    assert (found.times, found.sizes, found.top_keys) == (((1, 2), (2, 2)), ((2, 2),), ((b"k", 2),))
