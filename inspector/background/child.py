"""The process that forks, and those that work: one for each job, there within milliseconds.

    application  ── control (stdin) ──  forks: everything is imported, and no thread runs
                 ── conn: job, frames ──  works: ends with the job
                 ── life ──────────────  where this ends, the process is ended; the answer is its exit code

When the application ends, however it does, control ends, and all of them with it. A process whose forking one has
gone sees to that itself, whatever it is at.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
from contextlib import suppress
from importlib import import_module
from select import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inspector.background.frames import Gathering
    from inspector.background.jobs import Job

# The screen goes first, and whatever else the machine has to do.
NICENESS = 5
# How often a process looks whether the one that forked it is still there.
LOOKS_SECONDS = 1.0
EXIT_CODE = struct.Struct(">i")


def main() -> None:
    """Until the application has gone."""
    with suppress(OSError):
        os.nice(NICENESS)
    # Only now, as this alone takes most of a second of a processor that the screen may want.
    for each in ("inspector.model", "inspector.background.frames", "kafkalog.storage.open_log"):
        import_module(each)
    serve(socket.socket(fileno=0))
    # It leads the group that all it has forked are in.
    os.killpg(0, signal.SIGKILL)


def serve(control: socket.socket) -> None:
    """Forks a process for each pair of sockets, conn and life, that comes; until there come no more."""
    lives: dict[socket.socket, int] = {}
    while True:
        for ready in select([control, *lives], [], [])[0]:
            if ready is not control:
                _end(ready, lives.pop(ready))
                continue
            sockets = [socket.socket(fileno=each) for each in socket.recv_fds(control, 1, 2)[1]]
            if not sockets:
                return
            conn, life = sockets
            try:
                lives[life] = _fork(conn, [control, *lives, life])
            except OSError as error:
                _refuse(conn, life, str(error))
            conn.close()


def _refuse(conn: socket.socket, life: socket.socket, problem: str) -> None:
    from inspector.background.frames import Gathering
    from inspector.background.jobs import Ended

    with suppress(OSError), life:
        Gathering(conn.makefile("wb")).put(Ended(problem))
        life.sendall(EXIT_CODE.pack(1))


def _end(life: socket.socket, pid: int) -> None:
    """Of a process that is not wanted any more, or has ended: nothing of it is left."""
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(OSError), life:
        life.sendall(EXIT_CODE.pack(os.waitstatus_to_exitcode(status)))


def _fork(conn: socket.socket, others: list[socket.socket]) -> int:
    """The process's id. others: sockets that are not for it."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for each in others:
            each.close()
        _end_with(parent)
        answer(conn)
        code = 0
    finally:
        os._exit(code)


def _end_with(parent: int) -> None:
    """By a signal: nothing else is heard by a regular expression that goes back for ever."""

    def look(*_: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(signal.SIGALRM, look)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, LOOKS_SECONDS, LOOKS_SECONDS)


def answer(conn: socket.socket) -> None:
    """Does the job that is read from it."""
    from inspector.background.frames import Gathering

    # EOFError: the job has been taken back.
    with suppress(OSError, EOFError):
        job = pickle.load(conn.makefile("rb"))  # noqa: S301 - of the application that started this process
        work(job, Gathering(conn.makefile("wb")))


def work(job: Job, gathering: Gathering) -> None:
    """Does it. OSError: nobody listens."""
    from inspector.background.jobs import Ended

    events = job.events()
    while True:
        try:
            event = next(events, None)
        except Exception as error:  # noqa: BLE001 - told where the job was begun
            gathering.put(Ended(f"{type(error).__name__}: {error}"))
            return
        if event is None:
            return
        gathering.put(event)


if __name__ == "__main__":
    main()
