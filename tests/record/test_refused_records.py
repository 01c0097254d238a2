"""How much is said of records that are refused: a small batch may hold more than memory can tell of."""

from __future__ import annotations

import copy

import pytest

from kafkalog import ByteBufferMessageSet, CompressionType, Record
from kafkalog.errors import RecordValidationError
from kafkalog.record.checks import MOST_ERRORS
from kafkalog.record.validation import validate_messages_and_assign_offsets


def keyless(count: int, magic: int = 2) -> ByteBufferMessageSet:
    return ByteBufferMessageSet.from_records(
        [Record(b"", timestamp=1)] * count, compression_type=CompressionType.GZIP, magic=magic
    )


@pytest.mark.parametrize("count", [1, MOST_ERRORS, MOST_ERRORS + 1, 5 * MOST_ERRORS])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_first_errors_are_kept_and_all_are_counted(magic: int, count: int) -> None:
    with pytest.raises(RecordValidationError, match=f"{count} of the records") as alone:
        keyless(count, magic).check_keys()
    with pytest.raises(RecordValidationError, match=f"{count} of the records") as together:
        validate_messages_and_assign_offsets(keyless(count, magic), first_offset=0, now=1, compacted=True, magic=magic)
    for error in (alone.value, together.value, copy.copy(alone.value).at("path")):
        assert error.refused_count == count
        assert [each.index for each in error.record_errors] == list(range(min(count, MOST_ERRORS)))


def test_errors_of_several_batches_are_counted_together() -> None:
    parts = b"".join(bytes(keyless(count).buffer) for count in (600, 600, 600))
    with pytest.raises(RecordValidationError) as error:
        ByteBufferMessageSet(parts).check_keys()
    assert error.value.refused_count == 1800
    assert [each.index for each in error.value.record_errors] == list(range(MOST_ERRORS))
