"""A segment's bytes, while somebody else cuts them off."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog.errors import CorruptRecordError
from kafkalog.fsck import SoundEntries
from kafkalog.inspector.model.segment_file import SegmentFile


def test_a_search_after_damage_reports_the_end_of_a_file_that_became_shorter(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(bytes(range(256)) * 8)
    file = SegmentFile(path)
    sound, end = SoundEntries(file.source, file.size), file.size
    os.truncate(path, 100)
    with pytest.raises(CorruptRecordError, match="became shorter") as error:
        sound.first(200, end)
    assert (error.value.path, error.value.position, error.value.found) == (str(path), 200, 200)
    file.close()
