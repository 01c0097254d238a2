"""Runs of the inspector's jobs in an event loop of their own, all of them ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from inspector.background.runs import Runs

PATIENCE_SECONDS = 180


def within(steps: Callable[[Runs], Awaitable[None]]) -> None:
    async def do() -> None:
        runs = Runs()
        try:
            await asyncio.wait_for(steps(runs), PATIENCE_SECONDS)
        finally:
            runs.close()

    asyncio.run(do())
