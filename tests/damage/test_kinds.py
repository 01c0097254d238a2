"""The catalogue itself: each kind changes the golden partition that it is about, and its name is its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.damage.kinds import BY_NAME, KINDS, Kind

Entry = tuple[int, int, bytes]
# Of so many kinds one is in the fast tier.
FEW = 25


def tree(data: Path) -> dict[str, Entry]:
    """Return kind and mode of every entry below a directory, and its bytes or target."""
    return {str(path.relative_to(data)): _entry(path) for path in sorted(data.rglob("*"))}


def _entry(path: Path) -> Entry:
    if path.is_symlink():
        return 0, 0, bytes(path.readlink())
    mode = path.stat().st_mode
    return mode, path.stat().st_size, path.read_bytes() if path.is_file() else b""


def test_every_kind_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len(BY_NAME) == len(KINDS) >= 70
    assert all(kind.says.endswith(".") and kind.says[0].isalpha() for kind in KINDS)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=() if number % FEW == 0 else pytest.mark.slow)
        for number, kind in enumerate(KINDS)
    ],
)
def test_every_kind_damages_its_golden_partition_and_no_other(kind: Kind, tmp_path: Path, golden_logs: Path) -> None:
    data = tmp_path / "data"
    golden = golden_logs / "kafka-3.9" / "data"
    kept = {kind.partition, "__cluster_metadata-0", "v2-empty-0"}
    shutil.copytree(golden, data, ignore=lambda _, names: {n for n in names if n.startswith("v2-")} - kept)
    before = tree(data)
    kind.damage(data, kind.partition)
    after = tree(data)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed
    assert not any(name.startswith("v2-empty-0") for name in changed)
