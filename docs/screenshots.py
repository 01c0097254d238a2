"""The pictures and the table of keys of docs/inspector.md: `python docs/screenshots.py [NAME ...]`.

Each picture is of a screen over logs that real brokers wrote (tests/data), at a fixed size and time of day; the one of
following is of a log that grows meanwhile. One of the logs is damaged first. A new view needs a row in SCENES only
where its key alone does not show what it can do.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from unittest import mock

import kafkalog
from kafkalog import Record
from kafkalog.inspector import messages, text
from kafkalog.inspector.app import InspectorApp
from kafkalog.inspector.columns import Times
from kafkalog.inspector.config import Settings
from kafkalog.inspector.keys import ACTIONS, SCOPES, shown
from kafkalog.inspector.model.model import Model
from kafkalog.inspector.view_table import VIEWS

HERE = Path(__file__).resolve().parent
PAGE = HERE / "inspector.md"
PICTURES = HERE / "inspector"
SIZE = (100, 26)
# A quarter of an hour after the newest record.
NOW = 1_795_249_900_000
# What the directory is called in the pictures.
NAME = "/var/lib/kafka"
PARTITION = "v2-txn-0"
DAMAGED = "v2-zstd-0"
FLIPPED = 700
# A partition that grows, and the number of orders that it has in the end.
GROWING = "orders-0"
ORDERS = 240
# A batch of a transaction that was aborted.
OFFSET = "575"
PATIENCE_SECONDS = 30
KEYS = ("<!-- keys: made by screenshots.py -->\n", "<!-- end of keys -->\n")

_FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_GENERATED = re.compile(r"\s*<!-- Generated .*?-->")
_TOOK = re.compile(r"\d\.\d&#160;s\b")


class Stage:
    """The inspector with nobody before it but us."""

    def __init__(self, app: InspectorApp, pilot: Any) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def text(self) -> str:
        """What is seen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def press(self, *keys: str, sees: str = "") -> None:
        """Keys, and then what must come."""
        await self.pilot.press(*keys)
        until = time.monotonic() + PATIENCE_SECONDS
        while re.search(sees, self.text) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"{sees!r} is not seen in\n{self.text}")
            await self.pilot.pause(0.05)

    async def at_rest(self) -> None:
        """Until nothing changes any more."""
        before, rested = "", 0
        until = time.monotonic() + PATIENCE_SECONDS
        while rested < 10 and time.monotonic() < until:
            await self.pilot.pause(0.1)
            rested = rested + 1 if self.text == before else 0
            before = self.text


@dataclass(frozen=True)
class Scene:
    """What is done for a picture. partition: None = the list of all is opened. home: the data directory."""

    steps: Callable[[Stage], Awaitable[None]]
    partition: str | None = PARTITION
    home: str = "data"


async def _go_to(stage: Stage, place: str, view: str) -> None:
    await stage.press("4", sees="checksum")
    await stage.press("colon", *place, "enter", sees=f"offsets {place}")
    await stage.press(view)


async def _topics(stage: Stage) -> None:
    await stage.press("down", sees=r"v2-zstd-0 +88")


async def _segments(stage: Stage) -> None:
    await stage.press("2", sees="! hanging")


async def _map(stage: Stage) -> None:
    await _go_to(stage, OFFSET, "3")


async def _batches(stage: Stage) -> None:
    await _go_to(stage, OFFSET, "4")


async def _records(stage: Stage) -> None:
    # First the view: the target is brought to the middle of a table whose height is known.
    await stage.press("5", sees=r"kind \w+")
    await stage.press("colon", *OFFSET, "enter", sees=f"offset {OFFSET}")
    await stage.press("up", "m", "down", "down", sees=r"kind")


async def _record(stage: Stage) -> None:
    await _go_to(stage, OFFSET, "5")
    await stage.press(sees=f"offset {OFFSET}")
    await stage.press("enter", sees=r"\[value")


async def _hex(stage: Stage) -> None:
    await _go_to(stage, OFFSET, "6")


async def _search(stage: Stage) -> None:
    await stage.press("slash")
    await stage.press(*"v17", "enter", sees=", complete")


async def _verify(stage: Stage) -> None:
    await stage.press("8", "d", "r", sees=r"checksum|crc")


async def _statistics(stage: Stage) -> None:
    await stage.press("0", "w", sees="CODECS")


async def _transactions(stage: Stage) -> None:
    await stage.press("7", sees="1,411")


def _orders(first: int, last: int) -> list[Record]:
    """Records of orders, two a second, the last of them a second ago."""
    return [
        Record(
            b'{"order": %d, "customer": "c%d", "total": %d.%02d, "state": "%s"}'
            % (i, i * 7 % 40, 5 + i * 13 % 90, i * 29 % 100, (b"new", b"paid", b"sent")[i % 3]),
            b"order-%d" % i,
            timestamp=NOW - 1000 - 500 * (ORDERS - i),
        )
        for i in range(first, last + 1)
    ]


async def _following(stage: Stage) -> None:
    await stage.press("5", "F", sees="FOLLOW")
    with kafkalog.open(stage.app.session.model.path / GROWING, "a") as log:
        for last in range(ORDERS - 20, ORDERS, 5):
            log.append(_orders(last + 1, last + 5))
            await stage.press(sees=f"order-{last + 5} ")


SCENES = {
    "following": Scene(_following, GROWING, "growing"),
    "topics": Scene(_topics, None),
    "segments": Scene(_segments),
    "map": Scene(_map),
    "batches": Scene(_batches),
    "records": Scene(_records),
    "record": Scene(_record),
    "hex": Scene(_hex),
    "transactions": Scene(_transactions),
    "verify": Scene(_verify, DAMAGED),
    "search": Scene(_search),
    "statistics": Scene(_statistics),
}


def scene_of(name: str) -> Scene:
    """The one for a screen."""
    if name in SCENES:
        return SCENES[name]
    key = next(view.key for view in VIEWS if view.name == name)

    async def steps(stage: Stage) -> None:
        await stage.press(key)

    return Scene(steps)


@contextmanager
def directory() -> Iterator[Path]:
    """A copy of a broker's data directory, with a byte of a segment flipped."""
    from tests.helpers import golden

    with tempfile.TemporaryDirectory() as home:
        data = Path(home) / "data"
        shutil.copytree(golden.unpacked() / "kafka-3.9" / "data", data)
        log = sorted((data / DAMAGED).glob("*.log"))[1]
        content = bytearray(log.read_bytes())
        content[FLIPPED] ^= 0x10
        log.write_bytes(content)
        with kafkalog.open(data.parent / "growing" / GROWING, "a") as growing:
            growing.append(_orders(1, ORDERS - 20))
        yield data


async def _play(data: Path, scene: Scene) -> tuple[str, str]:
    app = InspectorApp(Model(data), Settings(), Times("utc", lambda: NOW))
    async with app.run_test(size=SIZE) as pilot:
        stage = Stage(app, pilot)
        await stage.press(sees=f"{GROWING} +[0-9]" if scene.partition == GROWING else f"{DAMAGED} +88")
        if scene.partition is not None:
            app.post_message(messages.OpenPartition(scene.partition))
            await stage.press(sees=r"S 0 (log )?start")
        await scene.steps(stage)
        await stage.at_rest()
        return stage.text, plain(app.export_screenshot(title=f"kafkalog inspect {NAME}"))


def plain(svg: str) -> str:
    """Without fonts from elsewhere, and without how long anything took."""
    svg = _TOOK.sub("0.1&#160;s", svg)
    return _GENERATED.sub("", _FONT_FACE.sub("", svg))


def _named(path: str, data: Path) -> str:
    return path.replace(str(data), NAME)


def picture(name: str, data: Path) -> tuple[str, str]:
    """A screen as text, and as SVG."""
    printable = text.printable
    scene = scene_of(name)
    data = data.parent / scene.home

    def renamed(value: Any, *args: Any, **options: Any) -> str:
        return printable(_named(value, data) if isinstance(value, str) else value, *args, **options)

    with (
        mock.patch.object(text, "printable", renamed),
        mock.patch("kafkalog.inspector.screens.topics.PAUSE_SECONDS", 1_000),
    ):
        return asyncio.run(_play(data, scene))


def names() -> list[str]:
    """Of all screens."""
    return ["topics", *(view.name for view in VIEWS), "following"]


def seen_in(svg: str) -> str:
    """The text in a picture, without blanks."""
    return "".join(unescape(re.sub(r"<[^>]*>", "", svg.partition('-matrix">')[2])).split())


def keys_table() -> str:
    """Every key and what it does, as Markdown."""
    lines = []
    for scope, title in SCOPES.items():
        lines += [f"**{title}**", "", "| Key | Name in the keymap | What it does |", "|---|---|---|"]
        for action in ACTIONS:
            if action.scope == scope:
                keys = " ".join(f"`{shown(key)}`" for key in action.keys.split(","))
                lines.append(f"| {keys} | `{action.name}` | {action.help} |")
        lines.append("")
    return "\n".join(lines)


def page_with_keys(page: str) -> str:
    """The page, its table of keys made anew."""
    before, _, rest = page.partition(KEYS[0])
    _, _, after = rest.partition(KEYS[1])
    return f"{before}{KEYS[0]}\n{keys_table()}\n{KEYS[1]}{after}"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with directory() as data:
        for name in sys.argv[1:] or names():
            PICTURES.joinpath(f"{name}.svg").write_text(picture(name, data)[1], encoding="utf-8")
            print(f"{name}.svg")
    PAGE.write_text(page_with_keys(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
