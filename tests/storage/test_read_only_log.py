"""A log that was opened to be read: what it is, and what it refuses."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import kafkalog
from kafkalog import Log, ReadOnlyLog, Record, WritableLog

CHANGES = [
    ("append", ([Record(b"v")],)),
    ("append_as_leader", (kafkalog.ByteBufferMessageSet(b""), 0)),
    ("append_as_follower", (kafkalog.ByteBufferMessageSet(b""),)),
    ("delete", ()),
    ("delete_old_segments", ()),
    ("delete_records", (0,)),
    ("flush", ()),
    ("maybe_increment_high_watermark", (0,)),
    ("roll", ()),
    ("truncate_fully_and_start_at", (0,)),
    ("truncate_to", (0,)),
    ("update_high_watermark", (0,)),
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with kafkalog.open(tmp_path / "events-0", "a") as log:
        log.append([Record(b"value")])
    return tmp_path / "events-0"


def test_both_modes_give_a_log(directory: Path) -> None:
    with kafkalog.open(directory) as reading, kafkalog.open(directory, "a") as writing:
        assert isinstance(reading, Log)
        assert isinstance(reading, ReadOnlyLog)
        assert isinstance(writing, Log)
        assert isinstance(writing, WritableLog)
        assert not isinstance(writing, ReadOnlyLog)


def test_base_class_cannot_be_opened() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Log()  # type: ignore[abstract]


@pytest.mark.parametrize(("name", "arguments"), CHANGES, ids=[name for name, _ in CHANGES])
def test_read_only_log_refuses_every_change(directory: Path, name: str, arguments: tuple[object, ...]) -> None:
    files = {path: path.read_bytes() for path in directory.iterdir()}
    with kafkalog.open(directory) as log, pytest.raises(io.UnsupportedOperation, match=f"{name}: .*mode 'a'"):
        getattr(log, name)(*arguments)
    assert {path: path.read_bytes() for path in directory.iterdir()} == files


def test_error_inside_a_property_keeps_its_cause(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A property of a read-only log once turned every AttributeError inside it into a hint about modes."""

    def broken(_: object) -> object:
        raise AttributeError("the true cause")

    monkeypatch.setattr(ReadOnlyLog, "_log_end", broken)
    with kafkalog.open(directory) as log, pytest.raises(AttributeError, match="the true cause"):
        _ = log.log_end_offset


def test_unknown_name_is_an_attribute_error(directory: Path) -> None:
    with kafkalog.open(directory) as log, pytest.raises(AttributeError, match="no attribute 'appendix'"):
        _ = log.appendix  # type: ignore[attr-defined]
