"""The process that works: a job from stdin, frames to stdout, and the end when nobody reads them any more."""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress

from inspector.background.frames import Gathering
from inspector.background.jobs import Ended, Job

# The screen goes first, and whatever else the machine has to do.
NICENESS = 5


def main() -> None:
    """Until the job is done."""
    with suppress(OSError):
        os.nice(NICENESS)
    with suppress(OSError), os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        # What is printed by mistake is not to come between the frames.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        work(pickle.load(sys.stdin.buffer), Gathering(out))  # noqa: S301 - of the process that started this one


def work(job: Job, gathering: Gathering) -> None:
    """Does it. OSError: nobody listens."""
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
