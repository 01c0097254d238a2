"""The process that works: a job from stdin, frames to stdout, and the end when nobody reads them any more.

It may be started before there is a job: what it needs is imported by then.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inspector.background.frames import Gathering
    from inspector.background.jobs import Job

# The screen goes first, and whatever else the machine has to do.
NICENESS = 5


def main() -> None:
    """Until the job is done."""
    with suppress(OSError):
        os.nice(NICENESS)
    # Only now, as this alone takes most of a second of a processor that the screen may want.
    import_module("inspector.model")
    from inspector.background.frames import Gathering

    # EOFError: there never was a job.
    with suppress(OSError, EOFError), os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        # What is printed by mistake is not to come between the frames.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        work(pickle.load(sys.stdin.buffer), Gathering(out))  # noqa: S301 - of the process that started this one


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
