"""The command as a whole: help, exit codes, errors of one line, colours, pipes, interrupts."""

from __future__ import annotations

import errno
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from kafkalog import RecordColumns, __version__, cli
from kafkalog.cli import ls
from kafkalog.cli.log_source import Source
from kafkalog.cli.positions import Range
from kafkalog.cli.progress import Progress
from kafkalog.errors import os_error_text
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir
from tests.helpers.running import COMMAND, Kafkalog, batch, segment


def test_help_opens_with_examples_and_ends_with_the_exit_codes(kafkalog: Kafkalog) -> None:
    ran = kafkalog("--help")
    assert ran.code == 0
    assert ran.out.index("Examples:") < ran.out.index("Commands:") < ran.out.index("Exit codes:")
    for code in ("0 ", "1 ", "2 ", "3 ", "130"):
        assert f"\n    {code}" in ran.out


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_the_list_of_commands_has_the_short_help_of_each(name: str) -> None:
    command = getattr(import_module(f"kafkalog.cli.{name}"), name)
    assert command.get_short_help_str(limit=200) == cli.COMMANDS[name]


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_explains_itself(kafkalog: Kafkalog, name: str) -> None:
    ran = kafkalog(name, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: kafkalog {name}")


@pytest.mark.parametrize("name", ["ls", "dump", "verify"])
def test_every_command_has_examples(kafkalog: Kafkalog, name: str) -> None:
    out = kafkalog(name, "--help").out
    assert out.count(f"\n    kafkalog {name} ") >= 2


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_tables_in_help_stay_tables(kafkalog: Kafkalog, name: str) -> None:
    out = kafkalog(name, "--help").out
    assert "\\b" not in out
    assert "\b" not in out
    assert max(map(len, out.splitlines())) <= 80
    if name == "dump":
        assert "\n    1234                     an offset\n    earliest, earliest+100   from the" in out


@pytest.mark.parametrize("name", ["ls", "dump", "verify"])
def test_a_stream_is_no_log(kafkalog: Kafkalog, name: str) -> None:
    ran = kafkalog(name, "-")
    assert (ran.code, ran.out) == (2, "")
    assert "a log is not read from stdin; give a file or a directory" in ran.err


@pytest.mark.parametrize("command", ["verify", "repair", "recover", "status"])
def test_an_empty_path_is_not_the_working_directory(kafkalog: Kafkalog, command: str) -> None:
    ran = kafkalog(command, "")
    assert ran.code == 2
    assert "an empty path" in ran.err


def test_the_version(kafkalog: Kafkalog) -> None:
    assert kafkalog("--version") == (0, f"kafkalog {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["ls"], "Missing argument 'PATH...'"),
        (["ls", "--frob", "x"], "No such option"),
        (["ls", "-o", "xml", "x"], "'xml' is not one of"),
        (["dump", "x", "--limit", "-1"], "-1 is not in the range"),
        (["dump", "x", "--from", "yesterday"], "'yesterday' is not a position such as 1234, earliest"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_one_line(kafkalog: Kafkalog, arguments: list[str], words: str) -> None:
    ran = kafkalog(*arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("kafkalog: ")
    assert words in ran.err
    assert "--help)" in ran.err


def test_no_command_at_all_shows_the_help_and_is_wrong_usage(kafkalog: Kafkalog) -> None:
    ran = kafkalog()
    assert ran.code == 2
    assert "Examples:" in ran.err


NOT_LOGS = ["missing", "nothing_in_it", "text.log", "00000000000000000000.index", "short.log", "pipe", "program"]


def not_a_log(home: Path, name: str) -> Path:
    path = home / name
    if name == "nothing_in_it":
        path.mkdir()
    elif name == "pipe":
        os.mkfifo(path)
    elif name == "short.log":
        path.write_bytes(b"hello\n")
    elif name == "program":
        # A position-independent ELF file for x86-64.
        path.write_bytes(b"\x7fELF\2\1\1" + bytes(9) + b"\3\0>\0\1" + bytes(range(256)) * 19)
    elif name != "missing":
        path.write_bytes(b"All work and no play makes Jack a dull boy.\n" * 9)
    return path


@pytest.mark.parametrize("command", ["ls", "dump"])
@pytest.mark.parametrize("name", NOT_LOGS)
def test_paths_that_are_no_logs_are_exit_code_3_and_one_line_with_the_path(
    kafkalog: Kafkalog, tmp_path: Path, command: str, name: str
) -> None:
    path = not_a_log(tmp_path, name)
    ran = kafkalog(command, path)
    assert (ran.code, ran.err.count("\n")) == (3, 1)
    assert ran.err.startswith(f"kafkalog: {path}: ")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("command", ["ls", "dump"])
def test_a_file_without_permission_is_exit_code_3(kafkalog: Kafkalog, tmp_path: Path, command: str) -> None:
    path = segment(tmp_path / "orders-0", 0, batch(b"a"))
    path.chmod(0)
    ran = kafkalog(command, path.parent)
    assert ran.code == 3
    assert f"{path}: Permission denied" in ran.err


def test_who_may_access_a_file_of_another_user_is_named(
    kafkalog: Kafkalog, golden_logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = golden_logs / "kafka-3.9" / "data"
    owner = pwd.getpwuid(data_dir.stat().st_uid).pw_name

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("kafkalog.scan.status.ReadOnlyLog", refuse)
    told = f"{data_dir / 'v2-none-0'}: Permission denied"
    assert f"v2-none-0: {told}\n" in kafkalog("status", data_dir).out
    monkeypatch.setattr(os, "geteuid", lambda: data_dir.stat().st_uid + 1)
    assert f"v2-none-0: {told} (its owner may access it: sudo -u {owner})\n" in kafkalog("status", data_dir).out
    refused = PermissionError(errno.EACCES, "Permission denied", str(data_dir / "missing"))
    assert os_error_text(refused).endswith(f"missing: Permission denied (its owner may access it: sudo -u {owner})")


@pytest.mark.parametrize("command", ["ls", "dump"])
def test_an_empty_file_is_a_log_without_records(kafkalog: Kafkalog, tmp_path: Path, command: str) -> None:
    path = segment(tmp_path, 0, b"")
    ran = kafkalog(command, path, "-o", "jsonl")
    assert (ran.code, ran.err) == (0, "")


def test_a_name_that_would_steer_the_terminal_is_escaped(kafkalog: Kafkalog, tmp_path: Path) -> None:
    ran = kafkalog("ls", tmp_path / "\x1b[2J\u202e")
    assert "\\x1b[2J\\u202e: No such file" in ran.err
    assert "\x1b" not in ran.err


def broken(*_: object) -> None:
    raise TypeError("this should not have happened")


def test_a_bug_is_one_line_too(kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.cli.ls.discover", broken)
    ran = kafkalog("ls", data_dir)
    assert ran.code == 3
    assert ran.err == "kafkalog: internal error: TypeError: this should not have happened (--debug shows where)\n"


def test_debug_shows_where(kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.cli.ls.discover", broken)
    assert "in broken\n" in kafkalog("--debug", "ls", data_dir).err


@pytest.mark.slow
@pytest.mark.parametrize("command", [["dump", "-o", "jsonl"], ["ls", "-o", "jsonl"]])
def test_a_reader_that_closes_the_pipe_is_no_error(golden_logs: Path, command: list[str]) -> None:
    path = golden_logs / "kafka-3.9" / "data"
    ours, theirs = os.pipe()
    os.close(ours)
    process = subprocess.run([*COMMAND, *command, str(path)], stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (process.returncode, process.stderr) == (141, b"")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.parametrize("command", [["dump"], ["ls"], ["--help"]])
def test_output_to_a_full_device_is_an_error(data_dir: Path, command: list[str]) -> None:
    arguments = [*COMMAND, *command, str(data_dir / "orders-0")]
    with open("/dev/full", "wb") as full:
        process = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode == 3
    assert process.stderr == "kafkalog: No space left on device\n"


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_list_shows_what_it_has(
    kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of = ls.rows_of

    def two_rows(place: DataDir | PartitionDir | LogFile, progress: Progress) -> Iterator[ls.Row]:
        rows = rows_of(place, progress)
        yield next(rows)
        yield next(rows)
        interrupt()

    monkeypatch.setattr(ls, "rows_of", two_rows)
    ran = kafkalog("ls", data_dir)
    assert (ran.code, ran.err) == (130, "kafkalog: interrupted\n")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["PARTITION", "billing-0", "orders-0"]


def test_an_interrupted_dump_ends_its_json(kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = Source.columns

    def interrupted(source: Source, wanted: Range) -> Iterator[RecordColumns]:
        yield from columns(source, wanted)
        interrupt()

    monkeypatch.setattr(Source, "columns", interrupted)
    ran = kafkalog("dump", data_dir, "-o", "json")
    assert (ran.code, ran.out.count("offset"), ran.out[-3:]) == (130, 1, "\n]\n")


@pytest.mark.slow
def test_an_interrupt_from_the_keyboard_shows_no_stack(tmp_path: Path) -> None:
    path = segment(tmp_path / "orders-0", 0, batch(*[b"x" * 50] * 4000))
    process = subprocess.Popen([*COMMAND, "dump", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    # More is to come than the pipe holds, so it is still at work.
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    assert process.wait() in {130, 0}
    assert b"Traceback" not in process.stderr.read()
    process.stdout.close()
    process.stderr.close()


@pytest.mark.slow
def test_colour_is_for_terminals(on_a_terminal: Kafkalog, kafkalog: Kafkalog, data_dir: Path) -> None:
    assert "\x1b[" in on_a_terminal("ls", data_dir).out
    assert "\x1b[" not in kafkalog("ls", data_dir).out


@pytest.mark.slow
@pytest.mark.parametrize(("command", "environment"), [("ls", {"NO_COLOR": "1"}), ("dump", {"TERM": "dumb"})])
def test_colour_can_be_turned_off(
    on_a_terminal: Kafkalog, data_dir: Path, command: str, environment: dict[str, str]
) -> None:
    ran = on_a_terminal(command, data_dir, **environment)
    assert ran.code == 0
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_scripts_name_the_command(kafkalog: Kafkalog, shell: str) -> None:
    ran = kafkalog("completion", shell)
    assert ran.code == 0
    assert "_KAFKALOG_COMPLETE" in ran.out


@pytest.mark.slow
def test_words_are_completed() -> None:
    environment = {**os.environ, "_KAFKALOG_COMPLETE": "zsh_complete", "COMP_WORDS": "kafkalog d", "COMP_CWORD": "1"}
    code = "from kafkalog.cli import main; main()"
    process = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "dump" in process.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2)])
def test_output_to_a_closed_stdout_is_an_error(tmp_path: Path, closed: tuple[int, ...]) -> None:
    """As cron or a shell's `>&-` may start it."""
    path = segment(tmp_path, 0, batch(b"x"))

    def close() -> None:
        for number in closed:
            os.close(number)

    for arguments in (["verify", path], ["ls", path], ["--help"], ["dump", path], ["dump", path, "-o", "json"]):
        command = [sys.executable, "-m", "kafkalog.cli", *map(str, arguments)]
        ran = subprocess.run(command, preexec_fn=close, stderr=subprocess.PIPE, check=False)
        assert ran.returncode == (3 if 1 in closed else 0)
        assert (b"stdout is closed: the output went nowhere\n" in ran.stderr) == (closed == (1,))
    quiet = [sys.executable, "-m", "kafkalog.cli", "verify", "-q", str(path)]
    assert subprocess.run(quiet, preexec_fn=close, check=False).returncode == 0


@pytest.mark.slow
def test_a_full_stderr_does_not_change_the_exit_code() -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([sys.executable, "-m", "kafkalog.cli", "ls", "/nowhere"], stderr=full, check=False)
    assert ran.returncode == 3


@pytest.mark.slow
@pytest.mark.parametrize("command", ["status", "verify", "explain", "repair"])
def test_names_are_shown_in_a_locale_without_them(data_dir: Path, command: str) -> None:
    (data_dir / "orders-0" / "\xe9.log").touch()
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = subprocess.run(
        [sys.executable, "-m", "kafkalog.cli", command, str(data_dir)],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 1
    assert b"internal error" not in ran.stderr
    assert b".log: " in ran.stdout


def test_an_empty_partition_is_sound(kafkalog: Kafkalog, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    assert kafkalog("verify", tmp_path / "orders-0").code == 0


def test_what_recovery_refuses_is_told_with_the_command_that_mends_it(kafkalog: Kafkalog, data_dir: Path) -> None:
    (data_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (data_dir / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\nx 0\n")
    ran = kafkalog("recover", data_dir, "-j", "1")
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == f"kafkalog:   to mend it: kafkalog repair {data_dir}/orders-0"


def test_explain_tells_that_a_broker_does_not_start_before_a_directory_is_formatted(
    kafkalog: Kafkalog, data_dir: Path
) -> None:
    (data_dir / "meta.properties").unlink(missing_ok=True)
    verdict = kafkalog("explain", data_dir).out.splitlines()[-1]
    assert verdict.startswith(f"{data_dir}: once the directory is formatted, a broker starts, ")


def test_explain_names_all_paths_below_the_directory(
    kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from inside of it, with a damaged `meta.properties`."""
    (data_dir / "meta.properties").write_text("version=9\n")
    monkeypatch.chdir(data_dir)
    for directory in (data_dir, "."):
        told = kafkalog("explain", directory).out
        assert told.startswith("meta.properties: no-start: ")
        assert "\n.lock: " in told
