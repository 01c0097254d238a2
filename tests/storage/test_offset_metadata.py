from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from tests.helpers.logs import fill, opened

ON_SEGMENT_0 = LogOffsetMetadata(7, 0, 700)
FURTHER_ON_IT = LogOffsetMetadata(9, 0, 900)
ON_SEGMENT_40 = LogOffsetMetadata(41, 40, 100)
JUST_AN_OFFSET = LogOffsetMetadata(9)


def test_offsets_are_ordered_by_their_segments() -> None:
    assert not ON_SEGMENT_0.on_older_segment(FURTHER_ON_IT)
    assert ON_SEGMENT_0.on_older_segment(ON_SEGMENT_40)
    assert not ON_SEGMENT_40.on_older_segment(ON_SEGMENT_0)


@pytest.mark.parametrize("other", [ON_SEGMENT_0, JUST_AN_OFFSET])
def test_an_offset_without_a_position_is_on_no_segment(other: LogOffsetMetadata) -> None:
    assert JUST_AN_OFFSET.message_offset_only
    assert not JUST_AN_OFFSET.on_older_segment(other)
    assert not other.on_older_segment(JUST_AN_OFFSET)


def test_the_high_watermark_is_not_incremented_to_its_own_offset(tmp_path: Path) -> None:
    with opened(tmp_path / "topic-0") as log:
        fill(log, 3)
        log.update_high_watermark(3)
        assert log.maybe_increment_high_watermark(LogOffsetMetadata(3)) is None
        assert log.high_watermark == 3
