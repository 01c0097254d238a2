"""The command as tests run it, and directories for it to look at."""

from __future__ import annotations

import logging
import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from click.testing import CliRunner

from kafkalog.cli import cli
from tests.helpers.running import COMMAND, Kafkalog, Ran, batch, segment

PATIENCE_SECONDS = 180


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """What is started in the background, or by nohup, ignores signals, and so would the commands that tests start.

    A handler of one's own is not inherited: the command begins with the default.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session", autouse=True)
def _buffering() -> Iterator[None]:
    """Commands buffer what they write, as users' do: what cannot be written is met once more when they end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        yield


@pytest.fixture
def kafkalog() -> Iterator[Kafkalog]:
    """The command, run in this process; stdin: what it reads there, as from a file."""
    handlers = list(logging.getLogger("kafkalog").handlers)

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        with TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            result = CliRunner().invoke(cli, [str(each) for each in arguments], input=file, prog_name="kafkalog")
        return Ran(result.exit_code, result.stdout, result.stderr)

    yield run
    logging.getLogger("kafkalog").handlers[:] = handlers


@pytest.fixture
def on_a_terminal() -> Kafkalog:
    """The command in a process of its own, its stdout a terminal of 80 columns. Its tests are slow ones."""

    def run(*arguments: object, **environment: str) -> Ran:
        ours, theirs = pty.openpty()
        clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "TERM", "COLUMNS"}}
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=theirs,
            stderr=subprocess.PIPE,
            env={**clean, "TERM": "xterm", "COLUMNS": "80", **environment},
        )
        os.close(theirs)
        out = _read_terminal(ours)
        assert process.stderr is not None
        err = process.stderr.read().decode()
        process.stderr.close()
        return Ran(process.wait(PATIENCE_SECONDS), out, err)

    return run


def _read_terminal(descriptor: int) -> str:
    pieces = []
    while True:
        assert select.select([descriptor], [], [], PATIENCE_SECONDS)[0], "the command writes nothing and does not end"
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            # Linux says so where the other side has been closed.
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(descriptor)
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """orders-0 (2 segments), orders-10, orders-2, and billing-0, each with records."""
    home = tmp_path / "kafka"
    segment(home / "orders-0", 0, batch(b"a", b"b") + batch(b"c", offset=2))
    segment(home / "orders-0", 3, batch(b"d", offset=3))
    segment(home / "orders-10", 0, batch(b"ten"))
    segment(home / "orders-2", 0, batch(b"two"))
    segment(home / "billing-0", 7, batch(b"bill", offset=7))
    return home
