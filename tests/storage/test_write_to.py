"""`MessageSet.write_to`: all bytes go to another file or a socket, in order, by the system where it can copy."""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
import select
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalog import BufferingOutputStream, ByteBufferMessageSet, FileMessageSet, MessageSet
from kafkalog.errors import CorruptRecordError
from kafkalog.storage.files.readable_file import ReadableFile

SECONDS = 120
# How a file can be opened.
KINDS: dict[str, dict[str, Any]] = {"reading": {}, "sealed": {"sealed": True}, "writing": {"read_only": False}}
DATA = random.Random(7).randbytes((3 << 20) + 12345)


@pytest.fixture(params=[*KINDS, "memory"])
def any_set(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MessageSet]:
    """A message set of each kind."""
    if request.param == "memory":
        yield ByteBufferMessageSet(DATA)
    else:
        with opened(request.param, tmp_path) as messages:
            yield messages


@pytest.fixture(params=KINDS)
def messages(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileMessageSet]:
    """A file opened in each way."""
    with opened(request.param, tmp_path) as messages:
        yield messages


def opened(kind: str, tmp_path: Path) -> FileMessageSet:
    path = tmp_path / "source.log"
    path.write_bytes(DATA)
    return FileMessageSet(path, **KINDS[kind])


@pytest.fixture
def nothing_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where Python reads bytes of a file."""

    def refused(*_: object) -> memoryview:
        raise AssertionError("read by Python")

    monkeypatch.setattr(ReadableFile, "view", refused)


# --- files

OPENED: dict[str, Callable[[Path], Any]] = {
    "raw": lambda path: path.open("wb", buffering=0),
    "buffered": lambda path: path.open("wb"),
    "read and written": lambda path: path.open("w+b"),
    "appended to": lambda path: path.open("ab"),
    "temporary": lambda path: tempfile.NamedTemporaryFile(dir=path.parent, delete=False),  # noqa: SIM115
}


@pytest.mark.parametrize("how", OPENED)
def test_a_file_receives_all_bytes_between_other_writes(any_set: MessageSet, tmp_path: Path, how: str) -> None:
    with OPENED[how](tmp_path / "target") as file:
        file.write(b"before")
        assert any_set.write_to(file) == len(DATA)
        assert file.tell() == len(DATA) + 6
        file.write(b"after")
        name = file.name
    assert Path(name).read_bytes() == b"before" + DATA + b"after"


def test_bytes_are_written_at_the_position_of_a_file_that_was_read(any_set: MessageSet, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"0123456789")
    with target.open("r+b") as file:
        assert file.read(4) == b"0123"
        assert any_set.write_to(file, size=3) == 3
        assert file.tell() == 7
        assert file.read() == b"789"
    assert target.read_bytes() == b"0123" + DATA[:3] + b"789"


def test_position_and_size_select_the_bytes_written(any_set: MessageSet, tmp_path: Path) -> None:
    end = len(DATA)
    cases = {
        (0, None): DATA,
        (0, 0): b"",
        (5, 7): DATA[5:12],
        (5, None): DATA[5:],
        (end - 3, 100): DATA[-3:],
        (end, None): b"",
    }
    for (position, size), expected in cases.items():
        memory = io.BytesIO()
        with (tmp_path / "target").open("wb") as file:
            for target in (file, memory):
                assert any_set.write_to(target, position, size) == len(expected)
        assert (tmp_path / "target").read_bytes() == memory.getvalue() == expected


def test_a_slice_writes_its_own_bytes(messages: FileMessageSet) -> None:
    memory = io.BytesIO()
    assert messages.read(100, 50).write_to(memory, 10) == 40
    assert memory.getvalue() == DATA[110:150]


def test_a_position_or_size_out_of_range_is_refused(any_set: MessageSet) -> None:
    memory = io.BytesIO()
    for position, size in ((-1, None), (0, -1), (len(DATA) + 1, None)):
        with pytest.raises(ValueError, match=r"(position|size) is -?\d+ bytes"):
            any_set.write_to(memory, position, size)
    assert memory.getvalue() == b""


def test_preallocated_bytes_are_not_written(tmp_path: Path) -> None:
    with FileMessageSet(tmp_path / "source", read_only=False, preallocate_bytes=1 << 20) as messages:
        with (tmp_path / "target").open("wb") as file:
            assert messages.write_to(file) == 0
        assert (tmp_path / "target").stat().st_size == 0


@pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="this system copies by Python")
@pytest.mark.usefixtures("nothing_by_python")
@pytest.mark.parametrize("how", ["raw", "buffered", "read and written"])
def test_bytes_for_a_file_do_not_pass_through_python(messages: FileMessageSet, tmp_path: Path, how: str) -> None:
    with OPENED[how](tmp_path / "target") as file:
        assert messages.write_to(file) == len(DATA)
    assert (tmp_path / "target").read_bytes() == DATA


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM])
def test_python_continues_if_copy_file_range_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    moved: list[int] = []
    last = 0

    def refusing(source: int, target: int, count: int, at: int) -> int:
        if len(moved) == last:
            raise OSError(number, os.strerror(number))
        moved.append(os.write(target, os.pread(source, min(count, 1000), at)))
        return moved[-1]

    monkeypatch.setattr(os, "copy_file_range", refusing, raising=False)
    for kind in KINDS:
        for last in (0, 1, 2):
            moved.clear()
            with opened(kind, tmp_path) as messages, (tmp_path / "target").open("wb") as file:
                assert messages.write_to(file) == len(DATA)
            assert (tmp_path / "target").read_bytes() == DATA
            assert len(moved) == last


def test_python_copies_on_a_system_without_copy_file_range(
    messages: FileMessageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    with (tmp_path / "target").open("wb") as file:
        assert messages.write_to(file) == len(DATA)
    assert (tmp_path / "target").read_bytes() == DATA


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no other file system at hand")
def test_a_file_on_another_file_system_receives_all_bytes(messages: FileMessageSet) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        target = Path(directory) / "target"
        with target.open("wb") as file:
            assert messages.write_to(file) == len(DATA)
        assert target.read_bytes() == DATA


def test_a_full_disk_raises_no_space(any_set: MessageSet) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with Path("/dev/full").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space") as error:
        any_set.write_to(file)
    assert error.value.errno == errno.ENOSPC


def test_a_gzip_file_receives_the_bytes_by_its_own_write(any_set: MessageSet, tmp_path: Path) -> None:
    """A gzip file has a descriptor too; bytes put straight into that would not be compressed."""
    with gzip.open(tmp_path / "target.gz", "wb", compresslevel=1) as file:
        assert any_set.write_to(file) == len(DATA)
    assert gzip.decompress((tmp_path / "target.gz").read_bytes()) == DATA


class Counting(io.FileIO):
    """A file that counts the bytes written to it."""

    seen = 0

    def write(self, data: Any) -> int:
        self.seen += len(data)
        return super().write(data)


def test_a_subclass_sees_what_is_written_to_it(any_set: MessageSet, tmp_path: Path) -> None:
    with Counting(tmp_path / "target", "w") as file:
        assert any_set.write_to(file) == file.seen == len(DATA)


def test_a_file_opened_for_reading_is_refused(any_set: MessageSet, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"as it was")
    for buffering in (0, -1):
        with (
            (tmp_path / "target").open("rb", buffering=buffering) as file,
            pytest.raises(io.UnsupportedOperation),
        ):
            any_set.write_to(file)
    assert (tmp_path / "target").read_bytes() == b"as it was"


def test_a_target_that_is_neither_a_file_nor_a_socket_is_refused(any_set: MessageSet) -> None:
    targets: list[Any] = [5, "path", None, bytearray(10)]
    for target in targets:
        with pytest.raises(TypeError, match="neither a file nor a socket"):
            any_set.write_to(target)


class Keeping:
    """Has a `write` that takes everything and returns nothing."""

    def __init__(self) -> None:
        self.kept = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        self.kept += data


def test_a_write_that_returns_none_has_written_everything(any_set: MessageSet) -> None:
    target, stream = Keeping(), BufferingOutputStream(100)
    assert any_set.write_to(target) == any_set.write_to(stream) == len(DATA)
    assert target.kept == stream.to_bytes() == DATA
    again = Keeping()
    assert stream.write_to(again) == len(DATA)
    assert again.kept == DATA


@pytest.mark.parametrize("answer", [-1, 2**40])
def test_an_impossible_return_value_of_write_is_an_error(any_set: MessageSet, answer: int) -> None:
    target, stream = SimpleNamespace(write=lambda data: answer), BufferingOutputStream(100)
    stream.write(b"x")
    for source in (any_set, stream):
        with pytest.raises(OSError, match=f"took {answer} of"):
            source.write_to(target)


def test_a_file_can_be_written_to_itself(tmp_path: Path) -> None:
    """Source and target are one file; the system refuses to copy a range onto itself."""
    path = tmp_path / "file"
    path.write_bytes(DATA)
    with path.open("r+b") as file:
        file.seek(100)
        assert FileMessageSet(path).write_to(file, 0, 50) == 50
        file.seek(0, os.SEEK_END)
        assert FileMessageSet(path).write_to(file, 0, 1000) == 1000
    expected = DATA[:100] + DATA[:50] + DATA[150:]
    assert path.read_bytes() == expected + expected[:1000]


def test_a_set_gives_all_of_its_bytes_and_a_part_those_of_the_part(any_set: MessageSet, tmp_path: Path) -> None:
    assert bytes(any_set) == DATA
    (tmp_path / "file").write_bytes(DATA)
    assert bytes(FileMessageSet(tmp_path / "file").read(100, 50)) == DATA[100:150]


def test_a_pipe_receives_all_bytes(any_set: MessageSet) -> None:
    source, target = os.pipe()
    with open(target, "wb") as file, received(lambda: os.read(source, 1 << 16)) as found:
        assert any_set.write_to(file) == len(DATA)
        file.close()
    os.close(source)
    assert found == DATA


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_nonblocking_pipe_receives_a_part(any_set: MessageSet, buffering: int) -> None:
    source, target = os.pipe()
    os.set_blocking(target, False)
    with open(target, "wb", buffering=buffering) as file:
        taken = any_set.write_to(file)
        assert 0 < taken < len(DATA)
        found = os.read(source, 1 << 20)
        file.flush()
    found += b"".join(iter(lambda: os.read(source, 1 << 20), b""))
    os.close(source)
    assert found == DATA[:taken]


def test_a_file_truncated_while_it_is_copied_is_an_error(
    messages: FileMessageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Kafka, whose reader has been promised that many bytes."""

    class Cutting(io.BytesIO):
        def write(self, data: Any) -> int:
            os.truncate(messages.path, 2 << 20)
            return super().write(data)

    file = Cutting()
    with pytest.raises(CorruptRecordError, match="shorter"):
        messages.write_to(file)
    assert file.getvalue() == DATA[: 2 << 20]


# --- sockets


class Received:
    """Reads to the end in a thread of its own."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self.read, self.data = read, bytearray()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while piece := self.read():
            self.data += piece

    def __enter__(self) -> bytearray:
        self.thread.start()
        return self.data

    def __exit__(self, *_: object) -> None:
        self.thread.join(SECONDS)
        assert not self.thread.is_alive(), f"the end did not arrive within {SECONDS} s"


def received(read: Callable[[], bytes]) -> Received:
    return Received(read)


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("timeout", [None, SECONDS])
def test_a_socket_receives_all_bytes(
    any_set: MessageSet, sockets: tuple[socket.socket, socket.socket], timeout: float | None
) -> None:
    ours, theirs = sockets
    ours.settimeout(timeout)
    with received(lambda: theirs.recv(1 << 16)) as found:
        ours.sendall(b"before")
        assert any_set.write_to(ours, 5) == len(DATA) - 5
        ours.sendall(b"after")
        ours.shutdown(socket.SHUT_WR)
    assert found == b"before" + DATA[5:] + b"after"


@pytest.mark.skipif(not hasattr(os, "sendfile"), reason="this system sends by Python")
@pytest.mark.usefixtures("nothing_by_python")
def test_bytes_for_a_socket_do_not_pass_through_python(
    messages: FileMessageSet, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    with received(lambda: theirs.recv(1 << 16)) as found:
        assert messages.write_to(ours) == len(DATA)
        ours.shutdown(socket.SHUT_WR)
    assert found == DATA


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_python_sends_if_sendfile_fails(
    tmp_path: Path, sockets: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refusing(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "sendfile", refusing, raising=False)
    ours, theirs = sockets
    with received(lambda: theirs.recv(1 << 16)) as found:
        for kind in KINDS:
            with opened(kind, tmp_path) as messages:
                assert messages.write_to(ours) == len(DATA)
        ours.shutdown(socket.SHUT_WR)
    assert found == DATA * len(KINDS)


def test_a_nonblocking_socket_receives_a_part_and_later_the_rest(
    any_set: MessageSet, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    ours.setblocking(False)
    sent = any_set.write_to(ours)
    assert 0 < sent < len(DATA)
    assert any_set.write_to(ours, sent) == 0
    with received(lambda: theirs.recv(1 << 16)) as found:
        while sent < len(DATA):
            assert select.select([], [ours], [], SECONDS)[1], f"the socket takes no bytes for {SECONDS} s"
            sent += any_set.write_to(ours, sent)
        ours.shutdown(socket.SHUT_WR)
    assert found == DATA


def test_a_socket_timeout_raises_timeout_error(
    any_set: MessageSet, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, _ = sockets
    ours.settimeout(0.05)
    with pytest.raises(TimeoutError):
        any_set.write_to(ours)


def test_a_socket_closed_by_its_peer_is_an_error(
    any_set: MessageSet, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    theirs.close()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        any_set.write_to(ours)


class Shouting(socket.socket):
    """Does more than put bytes into its descriptor, as TLS does."""

    def send(self, data: Any, *arguments: Any) -> int:
        return super().send(bytes(byte ^ 0xFF for byte in bytes(data[:1000])), *arguments)


def test_a_socket_subclass_receives_the_bytes_by_its_own_send(
    any_set: MessageSet, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    shouting = Shouting(fileno=ours.detach())
    with shouting, received(lambda: theirs.recv(1 << 16)) as found:
        assert any_set.write_to(shouting, 0, 5000) == 5000
        shouting.close()
    assert found == bytes(byte ^ 0xFF for byte in DATA[:5000])


def anonymous(side: int) -> ssl.SSLContext:
    """TLS that needs no certificate."""
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
    return context


@pytest.fixture
def tls(sockets: tuple[socket.socket, socket.socket]) -> Iterator[tuple[ssl.SSLSocket, ssl.SSLSocket]]:
    ours, theirs = sockets
    try:
        client, server = anonymous(ssl.PROTOCOL_TLS_CLIENT), anonymous(ssl.PROTOCOL_TLS_SERVER)
    except ssl.SSLError as error:
        pytest.skip(f"this TLS wants a certificate: {error}")
    accepted: list[ssl.SSLSocket] = []
    accepting = threading.Thread(target=lambda: accepted.append(server.wrap_socket(theirs, server_side=True)))
    accepting.start()
    with client.wrap_socket(ours) as connected:
        accepting.join(SECONDS)
        with accepted[0]:
            yield connected, accepted[0]


def test_a_tls_socket_receives_all_bytes_encrypted(
    any_set: MessageSet, tls: tuple[ssl.SSLSocket, ssl.SSLSocket]
) -> None:
    ours, theirs = tls
    with received(lambda: theirs.recv(1 << 16)) as found:
        assert any_set.write_to(ours) == len(DATA)
        ours.shutdown(socket.SHUT_WR)
    assert found == DATA


def test_a_nonblocking_tls_socket_receives_a_part(
    any_set: MessageSet, tls: tuple[ssl.SSLSocket, ssl.SSLSocket]
) -> None:
    ours, theirs = tls
    ours.setblocking(False)
    sent = any_set.write_to(ours)
    assert 0 < sent < len(DATA)
    found = bytearray()
    theirs.settimeout(SECONDS)
    while len(found) < sent:
        piece = theirs.recv(1 << 16)
        assert piece, f"{sent} bytes were sent, and {len(found)} arrived"
        found += piece
    assert found == DATA[:sent]
