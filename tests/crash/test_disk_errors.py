"""Each system call of each change of a log fails once, with each error."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kafkalog import Record
from tests.crash.disk_errors import CHANGES, CODES, RECORDS, opened, prepared, rows
from tests.crash.workload import NOW, records_of


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory in memory where the system has such."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        yield Path(directory)


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    "change", ["retention", *(pytest.param(each, marks=pytest.mark.slow) for each in CHANGES if each != "retention")]
)
def test_a_log_whose_change_fails_loses_no_record_and_has_no_gap_when_opened_again(
    scratch: Path, change: str, code: int
) -> None:
    calls = [row.call for row in rows(change, code, scratch)]
    assert calls


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Let every call fail that needs a new descriptor."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    held = []
    try:
        # Lower numbers may be free as well.
        while True:
            try:
                held.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("change", ["roll", "flush"])
def test_a_log_goes_on_after_a_change_that_ran_out_of_descriptors(scratch: Path, change: str) -> None:
    session = opened(prepared(scratch / "before"))
    try:
        session.log.append([Record(b"unflushed", timestamp=NOW)])
        session.log.roll()
        session.log.append([Record(b"in the active segment", timestamp=NOW)])
        with no_descriptor_left(), pytest.raises(OSError, match="Too many open files") as raised:
            CHANGES[change].work(session)
        assert raised.value.errno == errno.EMFILE
        session.log.append([Record(b"after", timestamp=NOW)])
        assert [value for _, value in records_of(session.log)][RECORDS:] == [
            b"unflushed",
            b"in the active segment",
            b"after",
        ]
    finally:
        session.close()
