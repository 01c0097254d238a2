"""A segment file that is being written, empty at first or with three batches in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalog import FileMessageSet
from tests.helpers.written_files import batch, sized_batch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


@pytest.fixture
def written(path: Path) -> Iterator[FileMessageSet]:
    """A file of three batches, open for more."""
    with FileMessageSet(path, read_only=False) as messages:
        for offset in range(3):
            messages.append(batch(offset))
        yield messages


@pytest.fixture(params=[0, 4096], ids=["grown", "preallocated"])
def filled(request: pytest.FixtureRequest, path: Path) -> Iterator[FileMessageSet]:
    """The same with larger batches, with room for more on disk or without."""
    with FileMessageSet(path, read_only=False, preallocate_bytes=request.param) as messages:
        for offset in range(3):
            messages.append(sized_batch(offset))
        yield messages
