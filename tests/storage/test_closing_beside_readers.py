"""A file or a log that is closed while another thread reads it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import FileMessageSet, Record
from kafkalog.errors import LogStateError
from kafkalog.storage.files import readable_file
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.segment import file_message_set
from tests.helpers.logs import fill, opened
from tests.helpers.making import batch

Open = Callable[[Path], FileMessageSet]
WAYS: dict[str, Open] = {
    "read": FileMessageSet,
    "written": lambda path: FileMessageSet(path, read_only=False),
}


OWN, OTHER = bytes(batch(5, b"what is read").buffer), bytes(batch(9, b"another file").buffer) * 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(OWN)
    return path


def open_others(directory: Path, after: ExitStack) -> None:
    """Files of other bytes: if a number has become free, it is one of theirs."""
    for number in range(20):
        other = directory / f"other-{number}"
        other.write_bytes(OTHER)
        after.enter_context(other.open("r+b"))


def open_descriptors(path: Path) -> int:
    """Return how many descriptors this process has for a file."""
    return sum(os.path.realpath(each) == str(path) for each in Path("/proc/self/fd").iterdir())


def size_of(headers: Any) -> bytes:
    return OWN[: headers[0]["size_in_bytes"][0]]


def entry_of(found: Any) -> bytes:
    return bytes(found[0][1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("module", "call", "shown", "read"),
    [
        (
            file_message_set,
            "scan_file_headers",
            size_of,
            lambda messages: (list(messages.header_runs()), messages.size_in_bytes),
        ),
        (
            file_message_set,
            "load_file_entry",
            entry_of,
            lambda messages: (messages.load_entry(0, 5), messages.size_in_bytes),
        ),
    ],
    ids=["headers", "entry"],
)
def test_a_read_during_which_the_file_is_closed_reads_no_other_file(
    path: Path, way: str, module: Any, call: str, shown: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(module, call)
    with ExitStack() as after:

        def late(*arguments: Any) -> Any:
            messages.close()
            open_others(path.parent, after)
            answer = real(*arguments)
            answers.append(shown(answer))
            return answer

        messages, answers = WAYS[way](path), list[bytes]()
        monkeypatch.setattr(module, call, late)
        with pytest.raises(LogStateError, match="closed"):
            # A later step of the same is refused.
            read(messages)
        assert answers == [OWN]


@pytest.mark.parametrize("way", WAYS)
def test_bytes_read_while_the_file_is_closed_are_the_files(
    path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.preadv
    with ExitStack() as after:

        def late(*arguments: Any) -> int:
            messages.close()
            open_others(path.parent, after)
            return real(*arguments)

        messages = WAYS[way](path)
        monkeypatch.setattr(os, "preadv", late)
        assert [record.value for record in next(messages.batches())] == [b"what is read"]


def test_a_write_during_which_the_file_is_released_goes_into_no_other_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite
    with ExitStack() as after:

        def late(*arguments: Any) -> int:
            messages.release()
            open_others(path.parent, after)
            return real(*arguments)

        messages = FileMessageSet(path, read_only=False)
        monkeypatch.setattr(os, "pwrite", late)
        messages.append(batch(6))
        assert {each.read_bytes() for each in path.parent.glob("other-*")} == {OTHER}
    assert [record.offset for record in FileMessageSet(path)] == [5, 6]


@pytest.mark.parametrize("way", WAYS)
def test_closing_a_file_that_nobody_reads_closes_its_descriptor_at_once(path: Path, way: str) -> None:
    messages = WAYS[way](path)
    assert open_descriptors(path) == 1
    messages.close()
    assert open_descriptors(path) == 0


def test_a_descriptor_is_not_copied_and_says_when_it_cannot_be_closed(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    descriptor = readable_file.Descriptor.of(os.open(path, os.O_RDONLY), path)
    with pytest.raises(TypeError, match="cannot be copied"):
        descriptor.__reduce_ex__(4)
    os.close(int(descriptor))
    del descriptor
    assert caplog.messages == [f"{path} cannot be closed"]


# --- a log


def others_again_and_again(directory: Path, done: threading.Event) -> None:
    """Open and close files of other bytes, a few of which have the numbers of those that were just closed."""
    other = directory / "other"
    other.write_bytes(OTHER)
    while not done.is_set():
        with ExitStack() as files:
            for _ in range(8):
                files.enter_context(other.open("rb"))


def read_until_closed(log: kafkalog.Log, ask: Callable[[kafkalog.Log], Iterator[bytes | None]]) -> LogStateError:
    """Read as often as it goes: nothing but what the log holds; returns what ended it."""
    while True:
        try:
            for number, value in enumerate(ask(log)):
                assert value == b"%d" % number
        except LogStateError as error:
            return error


def values_of(log: kafkalog.Log) -> Iterator[bytes | None]:
    return (record.value for record in log.records())


def values_one_by_one(log: kafkalog.Log) -> Iterator[bytes | None]:
    """By time and by offset: the files that a log keeps open."""
    for offset in range(40):
        found = log.offset_for_timestamp(1000 + offset)
        assert found is not None
        assert found.offset == offset
        yield next(log.records(offset)).value


@pytest.mark.parametrize("mode", ["r", "a"])
def test_threads_that_read_a_log_while_it_is_closed_see_no_bytes_of_other_files(tmp_path: Path, mode: Any) -> None:
    directory = tmp_path / "topic-0"
    config = LogConfig(segment_bytes=1000, index_interval_bytes=100)
    with kafkalog.open(directory, "a", config=config) as log:
        for number in range(40):
            log.append([Record(b"%d" % number, timestamp=1000 + number)])
    done = threading.Event()
    with ThreadPoolExecutor(5) as pool, ExitStack() as last:
        last.callback(done.set)
        pool.submit(others_again_and_again, tmp_path, done)
        for _ in range(6):
            log = kafkalog.open(directory, mode)
            asks = (values_of, values_one_by_one, values_of, values_one_by_one)
            reading = [pool.submit(read_until_closed, log, ask) for ask in asks]
            time.sleep(0.005)
            log.close()
            for each in reading:
                assert str(directory) in str(each.result())
                assert "closed" in str(each.result())


@pytest.mark.parametrize("mode", ["r", "a"])
def test_an_iteration_goes_on_until_its_next_look_at_a_log_that_was_closed(tmp_path: Path, mode: Any) -> None:
    directory = tmp_path / "topic-0"
    with opened(directory) as log:
        fill(log, 2)
        log.roll()
        fill(log, 2)
    log = kafkalog.open(directory, mode)
    found = log.records()
    assert next(found).offset == 0
    log.close()
    with pytest.raises(LogStateError, match="closed") as error:
        list(found)
    assert str(directory) in str(error.value)
