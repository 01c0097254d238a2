"""`kafkalog append`: lines from stdin become records."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import termios
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

import kafkalog
from tests.helpers.running import COMMAND, Kafkalog, Ran

PATIENCE_SECONDS = 180


Append: TypeAlias = Callable[..., Ran]


@pytest.fixture(name="command")
def _command(kafkalog: Kafkalog) -> Kafkalog:
    """The command, under a name that is not the library's."""
    return kafkalog


@pytest.fixture
def append(command: Kafkalog) -> Append:
    def run(directory: Path, given: bytes, *options: str) -> Ran:
        return command("append", directory, *options, stdin=given)

    return run


def records(directory: Path) -> list[tuple[bytes | None, bytes | None]]:
    with kafkalog.open(directory) as log:
        return [(record.key, record.value) for record in log]


def test_each_line_is_a_record_and_the_last_needs_no_end(append: Append, tmp_path: Path) -> None:
    ran = append(tmp_path / "t-0", b"one\ntwo\r\n\nfour")

    assert (ran.code, ran.out) == (0, "")
    assert "4 records appended, offsets 0 to 3" in ran.err
    assert records(tmp_path / "t-0") == [(None, b"one"), (None, b"two"), (None, b""), (None, b"four")]


def test_the_key_ends_at_the_separator(append: Append, tmp_path: Path) -> None:
    append(tmp_path / "t-0", b"a::1::2\nno key\n::x\n", "--key-separator", "::")

    assert records(tmp_path / "t-0") == [(b"a", b"1::2"), (None, b"no key"), (b"", b"x")]


def test_output_of_dump_is_appended_unchanged(command: Kafkalog, append: Append, tmp_path: Path) -> None:
    source = tmp_path / "old-0"
    given = [
        kafkalog.Record(
            b"\xff\x00", b"k", [("h", b"v"), ("empty", b""), ("null", None), ("raw", b"\xfe")], 1_700_000_000_000
        ),
        kafkalog.Record(None, "ключ".encode(), timestamp=5),
    ]
    with kafkalog.open(source, "a") as log:
        log.append(given)
    dumped = command("dump", source, "-o", "jsonl").out

    assert append(tmp_path / "new-0", dumped.encode(), "-f", "jsonl").code == 0

    with kafkalog.open(source) as old, kafkalog.open(tmp_path / "new-0") as new:
        assert list(new) == list(old)


def test_values_of_other_kinds_are_stored_as_json(append: Append, tmp_path: Path) -> None:
    append(tmp_path / "t-0", b'{"value":{"a":[1,2]},"key":7}\n{"value":null,"key":"k"}\n', "-f", "jsonl")

    assert records(tmp_path / "t-0") == [(b"7", b'{"a":[1,2]}'), (b"k", None)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 2 is not a record"),
        (b'{"key":"k"}', "missing required field `value`"),
        (b'{"value":"!","value_encoding":"base64"}', "not base64"),
        (b'{"value":"x","value_encoding":"rot13"}', "unknown encoding 'rot13'"),
        (b'{"value":1,"timestamp":"now"}', "Expected `int | null`, got `str`"),
        (b'{"value":1,"timestamp":-7}', "line 2 is not a record: its timestamp is -7 ms since the epoch"),
        (b'{"value":1,"timestamp":9223372036854775808}', "line 2 is not a record: its timestamp is"),
        (b'{"value":1,"timestamp":9000000000000000000}', "line 2 is rejected: its timestamp 9000000000000000000"),
        (b" ", "line 2 is not a record: the line is empty"),
    ],
)
def test_an_invalid_line_ends_append(append: Append, tmp_path: Path, line: bytes, message: str) -> None:
    ran = append(tmp_path / "t-0", b'{"value":"good"}\n' + line + b'\n{"value":"never"}\n', "-f", "jsonl")

    assert ran.code == 1
    assert message in ran.err
    assert records(tmp_path / "t-0") == [(None, b"good")]


def test_a_record_that_is_too_large_is_named_and_those_before_stay(append: Append, tmp_path: Path) -> None:
    ran = append(tmp_path / "t-0", b"small\n" + b"x" * 2_000 + b"\n", "--config", "max.message.bytes=1000")

    assert ran.code == 1
    assert "line 2 is rejected" in ran.err
    assert "larger than max.message.bytes" in ran.err
    assert "expected at most 1000" in ran.err
    assert records(tmp_path / "t-0") == [(None, b"small")]


def test_append_continues_the_log_with_the_codec_asked_for(append: Append, tmp_path: Path) -> None:
    append(tmp_path / "t-0", b"a\n")
    ran = append(tmp_path / "t-0", b"b\n" * 1000, "-c", "zstd", "-o", "json")

    assert json.loads(ran.out) == {
        "version": 2,
        "path": str(tmp_path / "t-0"),
        "records": 1000,
        "first_offset": 1,
        "last_offset": 1000,
    }
    with kafkalog.open(tmp_path / "t-0") as log:
        codecs = {batch.compression_type for batch in log.batches(1)}
    assert codecs == {kafkalog.CompressionType.ZSTD}


def test_nothing_to_append_makes_an_empty_log(append: Append, tmp_path: Path) -> None:
    ran = append(tmp_path / "t-0", b"", "-o", "json")

    assert (ran.code, json.loads(ran.out)["records"]) == (0, 0)
    assert records(tmp_path / "t-0") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--config", "segment.byte=1"], "segment.byte is not a topic setting; did you mean segment.bytes?"),
        (["--config", "segment.bytes"], "expected NAME=VALUE"),
        (["--config", "segment.bytes=lots"], "segment.bytes is 'lots'"),
        (["-f", "jsonl", "--key-separator", ":"], "--key-separator must not be empty"),
        (["--config", "=5"], "--config =5: expected NAME=VALUE"),
        (["--config", "segment.ms=5", "--config", "segment.ms=6"], "--config segment.ms is given 2 times"),
        (["-c", "gzip", "--config", "compression.type=lz4"], "--compression gzip and --config compression.type"),
    ],
)
def test_wrong_usage_writes_nothing(append: Append, tmp_path: Path, options: list[str], message: str) -> None:
    ran = append(tmp_path / "t-0", b"a\n", *options)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_named_as_a_partition_is_refused(append: Append, tmp_path: Path) -> None:
    ran = append(tmp_path / "orders", b"a\n")

    assert ran.code == 3
    assert "'orders' is not the name of a partition: <topic>-<number>, such as orders-0" in ran.err


def test_a_locked_log_is_refused(append: Append, tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a"):
        ran = append(tmp_path / "t-0", b"a\n")

    assert ran.code == 3
    assert "locked" in ran.err


def test_a_file_in_place_of_a_directory_is_refused(append: Append, tmp_path: Path) -> None:
    (tmp_path / "f-0").touch()

    for path in (tmp_path / "f-0", tmp_path / "f-0" / "t-0"):
        ran = append(path, b"a\n")
        assert ran.code == 3
        assert "f-0" in ran.err


def test_backslash_t_separates_as_a_tab(append: Append, tmp_path: Path) -> None:
    append(tmp_path / "t-0", b"k\tv\n", "--key-separator", r"\t")

    assert records(tmp_path / "t-0") == [(b"k", b"v")]


def test_the_codec_of_the_topic_is_the_default(append: Append, tmp_path: Path) -> None:
    append(tmp_path / "t-0", b"a\n", "--config", "compression.type=lz4")

    with kafkalog.open(tmp_path / "t-0") as log:
        assert [batch.compression_type for batch in log.batches()] == [kafkalog.CompressionType.LZ4]


def test_lines_before_a_refused_one_are_appended(append: Append, tmp_path: Path) -> None:
    compacted = ["--config", "cleanup.policy=compact", "--key-separator", ":", "--batch-bytes", "100"]
    ran = append(tmp_path / "t-0", b"".join(b"k:%d\n" % i for i in range(10)) + b"no key\nk:never\n", *compacted)

    assert ran.code == 1
    assert "10 records appended, offsets 0 to 9" in ran.err
    assert "line 11 is rejected" in ran.err
    assert records(tmp_path / "t-0") == [(b"k", b"%d" % i) for i in range(10)]


@pytest.mark.slow
def test_a_failed_write_reports_the_appended_offsets_and_the_reason(tmp_path: Path) -> None:
    # 4 KiB blocks: a first batch finds room, a later one does not.
    limited = ["bash", "-c", f"ulimit -f 64; trap '' XFSZ; exec {' '.join(COMMAND)} \"$@\"", "kafkalog"]
    lines = b"".join(b"%d" % i * 400 + b"\n" for i in range(1000))
    config = ["--config", "segment.index.bytes=1024", "--batch-bytes", "2000"]
    # A measurement of coverage could not write its file either.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    ran = subprocess.run(
        [*limited, "append", str(tmp_path / "t-0"), *config],
        input=lines,
        capture_output=True,
        check=False,
        env=environment,
    )

    assert ran.returncode == 3
    appended = re.search(rb"(\d+) records appended, offsets 0 to (\d+)\n.*File too large", ran.stderr)
    assert appended is not None
    assert b"Traceback" not in ran.stderr
    found = records(tmp_path / "t-0")
    assert (int(appended[1]), int(appended[2])) == (len(found), len(found) - 1)
    assert [value for _, value in found] == lines.splitlines()[: len(found)]


@pytest.mark.slow
def test_stderr_reports_the_appended_offsets_when_stdout_is_full(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [*COMMAND, "append", str(tmp_path / "t-0"), "-o", "json"],
            input=b"a\n", stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip

    assert ran.returncode == 3
    assert b"1 record appended, offset 0" in ran.stderr
    assert ran.stderr.count(b"No space left on device") == ran.stderr.count(b"stdout: No space left") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGINT, 130, b"interrupted"),
        (signal.SIGTERM, 143, b"ended by SIGTERM"),
        (signal.SIGHUP, 129, b"ended by SIGHUP"),
    ],
)
def test_a_signal_keeps_what_was_read_and_leaves_the_log_closed(
    tmp_path: Path, number: signal.Signals, code: int, message: bytes
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "append", str(tmp_path / "t-0")], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    for line in (b"typed\n", b"typed later\n"):
        process.stdin.write(line)
        process.stdin.flush()
        _wait_until_read(process.stdin.fileno())
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)

    found = records(tmp_path / "t-0")
    # The first is in the log before the second is read, which may be on its way still.
    assert found in ([(None, b"typed")], [(None, b"typed"), (None, b"typed later")])
    appended = b"1 record appended, offset 0" if len(found) == 1 else b"2 records appended, offsets 0 to 1"
    assert (process.returncode, message in err, appended in err) == (code, True, True), err
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def _wait_until_read(pipe: int) -> None:
    """Wait until the other side has read all that is in the pipe."""
    deadline, left = time.monotonic() + PATIENCE_SECONDS, array("i", [1])
    while left[0]:
        assert time.monotonic() < deadline, f"{left[0]} bytes are still in the pipe"
        time.sleep(0.01)
        fcntl.ioctl(pipe, termios.FIONREAD, left)


def numbered(*offsets: int) -> bytes:
    return b"".join(b'{"value":"x","offset":%d}\n' % offset for offset in offsets)


def test_records_that_keep_their_offsets_are_not_remarkable(append: Append, tmp_path: Path) -> None:
    for given in (numbered(0, 1, 2), numbered(3, 4), b'{"value":"x"}\n{"value":"x","offset":null}\n'):
        assert append(tmp_path / "t-0", given, "-f", "jsonl").err.count("\n") == 1


def test_other_offsets_than_in_the_input_are_reported(append: Append, tmp_path: Path) -> None:
    ran = append(tmp_path / "t-0", numbered(0, 1, 5, 6, 9), "-f", "jsonl")
    assert ran.code == 0
    assert ran.err.splitlines() == [
        f"kafkalog: {tmp_path / 't-0'}: 5 records appended, offsets 0 to 4",
        f"kafkalog: {tmp_path / 't-0'}: 3 of 5 records got other offsets than they have in the input",
        f"kafkalog: {tmp_path / 't-0'}: the input has 2 gaps in its offsets, the first from 2 to 4",
    ]


@pytest.mark.parametrize(("first", "words"), [(7, "leaves a gap"), (2, "repeats or falls back")])
def test_an_input_that_does_not_go_on_where_the_log_ends_is_reported(
    append: Append, tmp_path: Path, first: int, words: str
) -> None:
    append(tmp_path / "t-0", numbered(0, 1, 2, 3), "-f", "jsonl")
    ran = append(tmp_path / "t-0", numbered(first, first + 1), "-f", "jsonl")
    assert f"the input begins at offset {first}, where the log ended at 4: it {words}\n" in ran.err
    assert "2 of 2 records got other offsets" in ran.err


def test_an_input_that_repeats_offsets_is_reported(append: Append, tmp_path: Path) -> None:
    ran = append(tmp_path / "t-0", numbered(0, 1, 1, 0), "-f", "jsonl")
    assert "the input repeats offsets or falls back 2 times, first from 1 to 1\n" in ran.err


def test_records_refused_by_the_topic_are_not_counted(append: Append, tmp_path: Path) -> None:
    lines = b'{"value":"x","key":"k","offset":3}\n{"value":"x","offset":4}\n'
    ran = append(tmp_path / "t-0", lines, "-f", "jsonl", "--config", "cleanup.policy=compact")
    assert ran.code == 1
    assert "1 of 1 records got other offsets" in ran.err
