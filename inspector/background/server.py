"""The application's side of the process that forks (see `child`), and of each process that it has forked.

    child = server.begin(job)          # milliseconds; a server that is not there, or has died, is started first
    for frame in child.frames(): ...
    child.close()                      # 0 | -9: its exit code

Threads may ask. Where no server can be started it is tried again for the next job.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from threading import Lock

from inspector.background.child import EXIT_CODE
from inspector.background.frames import LENGTH, Frame
from inspector.background.jobs import Job

COMMAND = (sys.executable, "-P", "-m", "inspector.background.child")


class Server:
    """See above."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._closed = False
        self._running: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def prepare(self) -> None:
        """Start it; where that cannot be, whoever wants it will hear why."""
        with suppress(OSError):
            self._get()

    def begin(self, job: Job) -> Child:
        """A process that does it. OSError: there can be none."""
        process, control = self._get()
        (conn, conn_there), (life, life_there) = socket.socketpair(), socket.socketpair()
        with conn_there, life_there, suppress(OSError):
            # If the server dies meanwhile, these are closed, and all is told by that.
            socket.send_fds(control, [b"\0"], [conn_there.fileno(), life_there.fileno()])
        with suppress(OSError):
            conn.sendall(pickle.dumps(job))
        return Child(process, conn, life)

    def _get(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        with self._lock:
            if self._closed:
                raise OSError("the inspector has been closed")
            if self._running is not None and self._running[0].poll() is not None:
                self._running[1].close()
                self._running = None
            if self._running is None:
                self._running = _start()
            return self._running

    def close(self) -> None:
        """End it, and all that it has forked."""
        with self._lock:
            self._closed = True
            if self._running is not None:
                process, control = self._running
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                control.close()


def _start() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """It finds the same modules as this process, and hears no signals of the terminal."""
    with ExitStack() as opened:
        here, there = map(opened.enter_context, socket.socketpair())
        process = subprocess.Popen(  # noqa: S603 - this very interpreter
            COMMAND,
            stdin=there.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # What forks is to have one thread, and numpy's library would start more.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        opened.pop_all()
    there.close()
    return process, here


class Child:
    """A process that does a job."""

    def __init__(self, server: subprocess.Popen[bytes], conn: socket.socket, life: socket.socket) -> None:
        self._server = server
        self._conn = conn
        self._life = life

    def frames(self) -> Iterator[Frame]:
        """What it says, until it has ended."""
        with suppress(ConnectionError), self._conn.makefile("rb") as file:
            while len(length := file.read(LENGTH.size)) == LENGTH.size:
                data = file.read(*LENGTH.unpack(length))
                if len(data) == LENGTH.unpack(length)[0]:
                    yield pickle.loads(data)  # noqa: S301 - our own process

    def kill(self) -> None:
        """Now, or as soon as it would begin; once it was closed there is nothing to do."""
        with suppress(OSError):
            self._life.shutdown(socket.SHUT_WR)

    def close(self) -> int:
        """Its exit code, or that of the server where this has ended first."""
        self.kill()
        with self._conn, self._life:
            code = self._life.recv(EXIT_CODE.size)
        return EXIT_CODE.unpack(code)[0] if code else self._server.wait()
