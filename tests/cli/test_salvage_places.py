"""`kafkalog salvage` does not put a directory where it keeps a broker from starting."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.broker_dirs import broker_dir, segments
from tests.helpers.running import Kafkalog


def test_a_copy_is_not_made_in_a_directory_within_a_data_directory(kafkalog: Kafkalog, tmp_path: Path) -> None:
    data = broker_dir(tmp_path, "v2-none-0")
    before = sorted(data.rglob("*"))
    for source, destination in (
        (data / "v2-none-0", data / "COPY" / "v2-none-0"),
        (data / "v2-none-0", data / "a" / "b-0"),
    ):
        ran = kafkalog("salvage", source, destination)
        assert (ran.code, "would lie in the data directory" in ran.err) == (2, True)
    assert sorted(data.rglob("*")) == before
    assert kafkalog("salvage", data / "v2-none-0", tmp_path / "COPY" / "v2-none-0").code == 0


def test_offsets_that_are_missing_between_segments_are_counted(kafkalog: Kafkalog, tmp_path: Path) -> None:
    data = broker_dir(tmp_path, "v2-none-0")
    logs = segments(data, "v2-none-0")
    missing = int(logs[5].stem) - int(logs[4].stem)
    logs[4].unlink()
    ran = kafkalog("salvage", data / "v2-none-0", tmp_path / "new" / "v2-none-0")
    assert ran.code == 1
    assert ran.out.endswith(f"; nothing left out; {missing} offsets missing in SRC\n")
