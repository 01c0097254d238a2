"""A table over millions of rows asks for those that are seen, and never takes them for markup."""

from __future__ import annotations

import asyncio
import operator
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from kafkalog.inspector.desk import Desk
from kafkalog.inspector.messages import Told
from kafkalog.inspector.tables import Column, Row, in_memory
from kafkalog.inspector.widgets.lazy_table import PAGE, LazyTable
from tests.helpers.driving import PATIENCE_SECONDS

pytestmark = pytest.mark.tui


MANY = 5_000_000


class Numbers:
    """A source of as many rows as one likes, which notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def rows(self, first: int, count: int) -> Sequence[Row]:
        self.begun.set()
        assert self.gate.wait(PATIENCE_SECONDS)
        self.asked.append((first, count))
        return [
            Row((f"row {i}", f"[red]{i}[/red]"), symbol="!" if i == 3 else " ") for i in range(first, first + count)
        ]


class TableApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[object] = []

    def compose(self) -> ComposeResult:
        yield LazyTable([Column("NAME", 12), Column("MARKUP", 30), Column("FAR", 60)][:2])

    def on_paged_view_chosen(self) -> None:
        self.messages.append(("chosen", self.query_one(LazyTable).cursor))

    def on_lazy_table_sort_wanted(self, message: LazyTable.SortWanted) -> None:
        self.messages.append(("sort", message.column, message.reverse))
        self.query_one(LazyTable).show_sorted(message.column, message.reverse)

    def on_paged_view_paused(self) -> None:
        self.messages.append("paused")

    def on_paged_view_resumed(self) -> None:
        self.messages.append("resumed")

    def on_told(self, message: Told) -> None:
        self.messages.append(str(message.problem))


Steps = Callable[[TableApp, LazyTable, "Pilot[None]"], Awaitable[None]]


def with_table(steps: Steps) -> None:
    async def run() -> None:
        app = TableApp()
        async with app.run_test(size=(60, 12)) as pilot:
            await steps(app, app.query_one(LazyTable), pilot)

    asyncio.run(run())


def seen(app: TableApp) -> list[str]:
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


async def settled(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up:
        await pilot.pause()
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"waited {PATIENCE_SECONDS} s in vain; the screen shows\n{pilot.app.screen}")


async def shown(table: LazyTable, pilot: Pilot[None], count: int = MANY) -> tuple[Numbers, Desk]:
    source, desk = Numbers(), Desk("test")
    table.show(source.rows, count, desk)
    await settled(pilot, lambda: table._row(table.cursor) is not None)
    return source, desk


@pytest.mark.parametrize("height", [0, 1, 2])
def test_the_target_of_a_jump_made_before_layout_is_centred(height: int) -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        table.styles.height = height
        await settled(pilot, lambda: table.size.height == height)
        _, desk = await shown(table, pilot)
        table.go(1_000)
        await pilot.pause()
        table.styles.height = 12
        await settled(pilot, lambda: table.size.height == 12)
        await settled(pilot, lambda: table.scroll_offset.y == 1_000 - (12 - 1) // 2)
        desk.close()

    with_table(steps)


def test_only_visible_pages_are_requested() -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        source, desk = await shown(table, pilot)
        await pilot.press("G")
        await settled(pilot, lambda: f"row {MANY - 1}" in "\n".join(seen(app)))
        assert table.cursor == MANY - 1
        assert {first for first, _ in source.asked} <= {0, MANY // PAGE * PAGE, (MANY // PAGE - 1) * PAGE}
        assert all(count == PAGE for _, count in source.asked)
        desk.close()

    with_table(steps)


def test_text_is_never_taken_for_markup_and_symbols_stand_beside_colours() -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        _, desk = await shown(table, pilot, 5)
        await settled(pilot, lambda: len(seen(app)) > 4)
        lines = seen(app)
        assert lines[0] == "    NAME          MARKUP"
        assert lines[1] == ">   row 0         [red]0[/red]"
        assert lines[4] == "  ! row 3         [red]3[/red]"
        desk.close()

    with_table(steps)


@pytest.mark.parametrize(
    ("keys", "row"),
    [
        ("down", 1), ("j", 1), ("j j k", 1), ("down up", 0), ("pagedown", 11), ("space", 11), ("space b", 0),
        ("pagedown pageup", 0), ("ctrl+d", 5), ("ctrl+d ctrl+u", 0), ("end", MANY - 1), ("G g", 0), ("G home", 0),
        ("up", 0), ("G down", MANY - 1),
    ],
)  # fmt: skip
def test_every_key_moves_the_cursor(keys: str, row: int) -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        _, desk = await shown(table, pilot)
        await pilot.press(*keys.split())
        await settled(pilot, lambda: table.cursor == row)
        assert table.scroll_offset.y <= row < table.scroll_offset.y + 12
        desk.close()

    with_table(steps)


def test_a_key_is_answered_while_rows_are_on_their_way() -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        source, desk = Numbers(), Desk("test")
        source.gate.clear()
        table.show(source.rows, 1000, desk)
        await pilot.press("down", "down")
        await settled(pilot, lambda: table.cursor == 2 and seen(app)[3] == ">   …")
        source.gate.set()
        await settled(pilot, lambda: "row 2" in "\n".join(seen(app)))
        desk.close()

    with_table(steps)


def test_late_rows_of_an_earlier_source_are_discarded() -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        source, desk = Numbers(), Desk("test")
        source.gate.clear()
        table.show(source.rows, 10, desk)
        await settled(pilot, source.begun.is_set)
        table.show(in_memory([Row(("other", ""))]), 1)
        source.gate.set()
        await asyncio.sleep(0.05)
        await pilot.pause()
        assert seen(app)[1] == ">   other"
        desk.close()

    with_table(steps)


def test_a_page_requested_before_the_table_grew_is_read_again() -> None:
    class Growing(Numbers):
        total = 10

        def __init__(self) -> None:
            super().__init__()
            self.read = threading.Event()

        def rows(self, first: int, count: int) -> Sequence[Row]:
            known = self.total
            found = super().rows(first, count)[: known - first]
            self.read.set()
            return found

    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        source, desk = Growing(), Desk("test")
        source.gate.clear()
        table.show(source.rows, source.total, desk)
        await settled(pilot, source.begun.is_set)
        source.total = 20
        table.grow(source.total)
        source.gate.set()
        # The page comes before anything is drawn again.
        assert source.read.wait(PATIENCE_SECONDS)
        await settled(pilot, lambda: "row 0" in "\n".join(seen(app)))
        await pilot.press("G")
        await settled(pilot, lambda: "row 19" in "\n".join(seen(app)))
        desk.close()

    with_table(steps)


def test_an_error_of_the_source_is_reported_and_the_table_goes_on() -> None:
    def failing(first: int, count: int) -> Sequence[Row]:
        raise OSError("gone")

    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        desk = Desk("test")
        table.show(failing, 10, desk)
        await settled(pilot, lambda: "gone" in app.messages)
        await pilot.press("down")
        await settled(pilot, lambda: table.cursor == 1)
        desk.close()

    with_table(steps)


def test_columns_are_made_wider_and_narrower_by_keys() -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        table.show(in_memory([Row(("a", "b"))]), 1)
        await pilot.press("right", ">", ">", "left", "<")
        assert table.widths == [10, 34]

    with_table(steps)


def test_sorting_goes_up_down_and_back_to_none() -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        table.show(in_memory([Row(("a", "b"))]), 1)
        expected = [("sort", 0, False), ("sort", 0, True), ("sort", None, False), ("sort", 1, False)]
        for number, keys in enumerate(("s", "s", "s", "ls")):
            await pilot.press(*keys)
            await settled(pilot, partial(operator.eq, app.messages, expected[: number + 1]))
        assert seen(app)[0] == "    NAME          ^MARKUP"

    with_table(steps)


def test_rows_are_marked_and_chosen() -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        table.show(in_memory([Row((str(i), "")) for i in range(5)]), 5)
        await pilot.press("m", "m", "up", "m", "enter")
        await settled(pilot, lambda: table.marked == {0} and table.cursor == 2)
        await settled(pilot, lambda: app.messages == [("chosen", 2)])
        assert seen(app)[1] == " *  0"
        await pilot.click(table, offset=(6, 1))
        await settled(pilot, lambda: table.cursor == 0)
        await pilot.click(table, offset=(6, 1), times=2)
        await settled(pilot, lambda: app.messages[-1] == ("chosen", 0))

    with_table(steps)


def test_following_stays_at_the_end_until_the_cursor_goes_up() -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        _, desk = await shown(table, pilot, 10)
        table.following = True
        table.grow(1000)
        assert table.cursor == 999
        await pilot.press("up")
        await settled(pilot, lambda: app.messages == ["paused"])
        table.grow(2000)
        assert table.cursor == 998
        await pilot.press("G")
        await settled(pilot, lambda: app.messages == ["paused", "resumed"])
        desk.close()

    with_table(steps)


def test_fewer_rows_leave_the_cursor_at_the_last() -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        _, desk = await shown(table, pilot, 100)
        await pilot.press("G")
        table.grow(10)
        assert table.cursor == 9
        table.grow(0)
        assert table.cursor == 0
        assert table._row(table.cursor) is None
        desk.close()

    with_table(steps)


@pytest.mark.parametrize(
    ("chosen", "ends"),
    [(40, "[red]7[/red]"), (45, "[red]7…"), (57, "row 7")],
)
def test_a_cell_that_goes_on_beyond_the_right_edge_ends_in_an_ellipsis(chosen: int, ends: str) -> None:
    async def steps(app: TableApp, table: LazyTable, pilot: Pilot[None]) -> None:
        await shown(table, pilot)
        table.action_widen(chosen - table.widths[0])
        await pilot.pause()
        assert table.render_line(8).text.rstrip().endswith(ends)

    with_table(steps)
