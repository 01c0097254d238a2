"""The parts that commands are made of: positions, sizes, times, tables, stdout in a thread, what a path is."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from kafkalog.cli.background_writer import PORTION_BYTES, Sink
from kafkalog.cli.output import Column, colour_wanted, human_size, path_text, printable, rfc3339, table
from kafkalog.cli.positions import Position, parse_position
from kafkalog.cli.progress import Progress
from kafkalog.errors import NotALogError
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir, discover
from tests.helpers.running import batch, segment


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("0", Position("offset", 0)),
        ("earliest", Position("earliest", 0)),
        ("earliest+5", Position("earliest", 5)),
        ("end", Position("end", 0)),
        ("end-500", Position("end", -500)),
        ("latest-500", Position("end", -500)),
        ("@1769853600000", Position("time", 1_769_853_600_000)),
        ("@2026-01-31T10:00Z", Position("time", 1_769_853_600_000)),
        ("@2026-01-31T10:00", Position("time", 1_769_853_600_000)),
        ("@2026-01-31T11:00+01:00", Position("time", 1_769_853_600_000)),
        ("@2026-01-31", Position("time", 1_769_817_600_000)),
        *[(text, None) for text in ("", "-5", "@", "@noon", "end-", "last", "1h", "-1y", "¹", "٣", "@-1", "0x10")],
    ],
)
def test_positions(text: str, position: Position | None) -> None:
    assert parse_position(text) == position


@pytest.mark.parametrize("text", ["@0", "@1700087400", "@99999999999"])
def test_seconds_are_not_taken_for_milliseconds(text: str) -> None:
    with pytest.raises(ValueError, match="looks like seconds: give ms"):
        parse_position(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10_188, "9.9 KiB"),
        (10_240, "10 KiB"),
        (1_023_000, "999 KiB"),
        (1_023_999, "1.0 MiB"),
        (378_547_362, "361 MiB"),
        (1 << 62, "4096 PiB"),
    ],
)
def test_sizes_have_two_or_three_digits(size: int, text: str) -> None:
    assert human_size(size) == text


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (-1, None),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_769_853_600_123, "2026-01-31T10:00:00.123Z"),
        (-1001, "1969-12-31T23:59:58.999Z"),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_times_are_utc_and_none_where_no_calendar_reaches(timestamp: int, text: str | None) -> None:
    assert rfc3339(timestamp) == text


def test_unprintable_characters_are_escaped() -> None:
    assert printable("aü√ 漢字") == "aü√ 漢字"
    assert printable("\x1b]0;x\x07\n\x9b\u202e\u2066\ud800") == "\\x1b]0;x\\x07\\n\\x9b\\u202e\\u2066\\ud800"


def test_a_name_has_the_same_text_in_every_locale() -> None:
    for name in (b"\xc3\xa9", b"\xff"):
        # As Python decodes it where the locale has ASCII only.
        text = path_text(name.decode("ascii", "surrogateescape"))
        assert text == path_text(text) == path_text(name.decode("utf-8", "surrogateescape"))
    assert text == printable("\udcff") == r"\xff"


def test_colour_is_for_terminals_unless_the_environment_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    assert not colour_wanted()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    assert colour_wanted()
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not colour_wanted()


def test_a_table_gives_up_the_least_of_its_columns_first() -> None:
    columns = [Column("NAME"), Column("SIZE", right=True, keep=2), Column("TIME", keep=1), Column("EMPTY")]
    rows = [["a", "1", "now", ""], ["bb", "100000", "then", ""]]
    assert table(columns, rows) == (["NAME    SIZE  TIME", "a          1  now", "bb    100000  then"], [])
    assert table(columns, rows, 15) == (["NAME    SIZE", "a          1", "bb    100000"], ["TIME"])
    assert table(columns, rows, 11) == (["NAME  TIME", "a     now", "bb    then"], ["SIZE"])
    assert table(columns, rows, 5) == (["NAME", "a", "bb"], ["SIZE", "TIME"])


def test_a_sink_keeps_the_order_and_writes_everything(tmp_path: Path) -> None:
    pieces = [b"%d\n" % i * 1000 for i in range(PORTION_BYTES // 1000)]
    path = tmp_path / "out"
    with path.open("wb") as file, Sink(file) as sink:
        for piece in pieces:
            sink.write(piece)
    assert path.read_bytes() == b"".join(pieces)


def test_a_sink_writes_to_what_is_no_file() -> None:
    out = io.BytesIO()
    with Sink(out) as sink:
        sink.write(b"ab")
        sink.flush()
        assert out.getvalue() == b"ab"
        sink.write(b"c")
    assert out.getvalue() == b"abc"


def test_a_sink_copes_with_a_pipe_that_takes_little_at_a_time() -> None:
    ours, theirs = os.pipe()
    got: list[bytes] = []

    def drain() -> None:
        while piece := os.read(ours, 1000):
            got.append(piece)

    reader = threading.Thread(target=drain)
    reader.start()
    with open(theirs, "wb") as file, Sink(file) as sink:
        for _ in range(50):
            sink.write(b"x" * 70_001)
    reader.join()
    os.close(ours)
    assert sum(map(len, got)) == 70_001 * 50


def write_much(sink: Sink) -> None:
    for _ in range(100):
        sink.write(b"x" * 1_000_000)


def test_a_sink_raises_when_nobody_reads() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "wb", buffering=0) as file, pytest.raises(BrokenPipeError), Sink(file) as sink:
        write_much(sink)


def test_progress_is_not_shown_where_stderr_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalog.cli.progress.WORTH_SHOWING_SECONDS", 0)
    with Progress(lambda: pytest.fail("the work need not be measured")) as progress:
        progress.advance(50)
    assert capsys.readouterr().err == ""


def test_progress_of_long_work_is_a_line_that_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Progress(lambda: 2048) as progress:
        progress.advance(1024)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("kafkalog.cli.progress.WORTH_SHOWING_SECONDS", 0)
    with Progress(lambda: 2048) as progress:
        progress.advance(1024)
        assert capsys.readouterr().err.startswith("\r 50%  1.0 KiB of 2.0 KiB  ")
    assert capsys.readouterr().err == "\r\x1b[K"


def test_the_kind_of_a_path_is_recognised_by_its_content(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = discover(data_dir)
    assert isinstance(found, DataDir)
    assert [each.name for each in found.partitions] == ["billing-0", "orders-0", "orders-2", "orders-10"]
    assert discover(data_dir / "orders-0") == found.partitions[1]
    monkeypatch.chdir(data_dir / "orders-2")
    here = discover(".")
    assert isinstance(here, PartitionDir)
    assert here.name == "orders-2"
    copy = data_dir / "copy"
    copy.write_bytes(batch(b"a"))
    assert discover(copy) == LogFile(copy)


def test_a_data_directory_may_be_named_like_a_partition(tmp_path: Path) -> None:
    segment(tmp_path / "kafka-1" / "orders-0", 0, b"")
    assert isinstance(discover(tmp_path / "kafka-1"), DataDir)


def test_empty_partitions_and_data_directories_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "meta.properties").touch()
    assert isinstance(discover(tmp_path / "orders-0"), PartitionDir)
    assert isinstance(discover(tmp_path), DataDir)


def test_directories_with_numbers_make_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "photos-2024").mkdir()
    with pytest.raises(NotALogError, match="neither segments"):
        discover(tmp_path)


def test_a_first_batch_with_one_wrong_field_is_still_a_log(tmp_path: Path) -> None:
    for name, data in [("magic", batch(b"a", magic=3)), ("size", batch(b"a", size=5)), ("torn", batch(b"a")[:40])]:
        path = tmp_path / name
        path.write_bytes(data)
        assert discover(path) == LogFile(path)
