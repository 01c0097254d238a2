"""The screen around the views of a partition: it follows the log, reads headers, and goes where views wish.

One worker asks every so often whether the log has changed, one reads the headers of the segment that is looked at; both
in steps, in the partition's own thread, so that what a view asks for comes in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from inspector import messages, text
from inspector.browsing import Browsing
from inspector.desk import Desk
from inspector.keys import bindings
from inspector.screens import BY_NAME, TOPICS_KEY, VIEWS
from inspector.screens.base import InspectorScreen
from inspector.screens.view import View, start
from inspector.widgets.lazy_table import LazyTable
from inspector.widgets.lines import TabLine, TopLine

if TYPE_CHECKING:
    from textual.widget import AwaitMount

    from inspector.background.jobs import Wanted
    from inspector.background.runs import SearchRun
    from inspector.reading.answers import PartitionState, Place, Target

P = ParamSpec("P")

FOLLOWING_SECONDS = 0.5
WATCHING_SECONDS = 1.0
# What has been read of a segment is drawn no more often: a step of reading takes less time than to draw it.
BETWEEN_DRAWINGS_SECONDS = 0.1
OTHERS_READ = 100
# In which one match after another can be seen.
VIEWS_OF_RECORDS = ("records", "record", "hex")
# In which a batch can be seen; from the others one goes to the batches.
VIEWS_OF_PLACES = ("map", "batches", *VIEWS_OF_RECORDS)
OTHERS_BYTES = 4 << 30


class PartitionScreen(InspectorScreen):
    """name: the partition's; None: what the model was opened with. first_view: shown when it has been opened.

    jump: where to go then.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("partition")

    def __init__(self, partition: str | None, first_view: str = "segments", jump: messages.Jump | None = None) -> None:
        super().__init__()
        self._first_jump = jump
        self._partition = partition
        self._first_view = first_view
        self._desk = Desk(f"partition {partition}")
        self.browsing: Browsing | None = None
        self.view: View | None = None
        self._views: dict[str, View] = {}
        self._mounts: dict[str, AwaitMount] = {}
        # The views that `back` goes through; the last is the one that is shown.
        self._way: list[str] = []
        self._wake = asyncio.Event()
        self._paused = False
        self._showing = asyncio.Lock()
        # Where a jump goes that is not there so far; what is begun meanwhile is begun from there.
        self._target: Target | None = None

    def compose_middle(self) -> ComposeResult:
        yield TabLine()
        yield Container(id="views")

    def on_mount(self) -> None:
        self._show_lines()
        start(self, "open", self._open)

    def on_unmount(self) -> None:
        browsing = self.browsing
        if browsing is not None:
            self.inspector.end_runs(browsing.reader.path)
        self._desk.close(None if browsing is None else browsing.reader.close)

    # Opening, and following what somebody else writes.

    async def _open(self) -> None:
        self.tell("opening …")
        reader = await self._desk(self.inspector.model.partition, self._partition)
        state = await self._desk(reader.refresh)
        browsing = Browsing(reader, self._desk, state)
        self.tell(state.problem)
        if state.segments:
            await browsing.select(state.segments[0].base_offset)
        browsing.search = self.inspector.search_of(reader.path)
        self.browsing = browsing
        jump, self._first_jump = self._first_jump, None
        if jump is None:
            await self._show_view(self._first_view)
        else:
            self._way = [self._first_view]
            await self._jump(jump.target, jump.view)
        self._index()
        start(self, "watch", self._watch)

    async def _watch(self) -> None:
        browsing = self._browsing()
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), FOLLOWING_SECONDS if browsing.following else WATCHING_SECONDS)
            self._wake.clear()
            if self.inspector.screen_stack[-1] is self or browsing.following:
                await self._refresh()

    async def _refresh(self) -> None:
        browsing = self._browsing()
        state = await browsing.ask(browsing.reader.refresh)
        before, browsing.state = browsing.state, state
        if state == before:
            return
        self._tell_state(state)
        if "truncated" in state.changed and browsing.row is not None:
            await self._select(browsing.row.base_offset)
        elif browsing.row is None or (browsing.following and "rolled" in state.changed):
            await self._another_segment(state)
        elif state.changed:
            self._index()
        if self.view is not None:
            await self.view.refreshed()
        self._show_lines()

    def _tell_state(self, state: PartitionState) -> None:
        words = {"truncated": "the log was truncated", "gone": "the directory has gone"}
        told = [words[change] for change in ("truncated", "gone") if change in state.changed]
        self.tell(state.problem or ("; ".join(told) if told else None))

    async def _another_segment(self, state: PartitionState) -> None:
        """The one that was looked at has gone, or a new one is followed."""
        browsing = self._browsing()
        if not state.segments:
            return
        if browsing.row is None and browsing.base_offset is not None:
            self.notify(f"segment {browsing.base_offset} was deleted", markup=False)
        chosen = state.segments[-1 if browsing.following else 0]
        await self._select(chosen.base_offset)

    async def _select(self, base_offset: int) -> None:
        browsing = self._browsing()
        browsing.place = None
        await browsing.select(base_offset)
        if self.view is not None:
            await self.view.appear()
        self._index()
        self._show_lines()

    def _index(self) -> None:
        start(self, "index", self._read_headers)

    async def _read_headers(self) -> None:
        browsing = self._browsing()
        drawn = 0.0
        while browsing.segment is not None:
            before = browsing.progress
            await browsing.read_more()
            ends = browsing.is_indexed or browsing.progress == before
            if ends or browsing.is_waiting or time.monotonic() - drawn > BETWEEN_DRAWINGS_SECONDS:
                await self._show_indexed(browsing)
                drawn = time.monotonic()
            if ends:
                break
        if browsing.base_offset is not None:
            await self._show_read()
            await self._read_others()

    async def _show_read(self) -> None:
        """What reading headers has told of segments."""
        browsing = self._browsing()
        browsing.state = await browsing.ask(browsing.reader.refresh)
        if self.view is not None:
            await self.view.refreshed()

    async def _read_others(self) -> None:
        """The headers of the other segments, where they are few: so that the list of segments knows of them."""
        browsing = self._browsing()
        others = [row for row in browsing.state.segments if row.records is None][:OTHERS_READ]
        if sum(row.bytes for row in others) > OTHERS_BYTES:
            return
        shown = time.monotonic()
        for row in others:
            await browsing.read_through(row.base_offset)
            if time.monotonic() - shown > WATCHING_SECONDS / 2 or row is others[-1]:
                shown = time.monotonic()
                await self._show_read()

    async def _show_indexed(self, browsing: Browsing) -> None:
        if browsing.is_waiting and await browsing.is_reached():
            browsing.is_waiting = False
            if self.view is not None:
                await self.view.appear()
        elif self.view is not None:
            await self.view.indexed()
        self._show_lines()

    def _browsing(self) -> Browsing:
        assert self.browsing is not None
        return self.browsing

    # Views.

    async def _show_view(self, name: str) -> None:
        """The view; the way back ends at it, or is cut back to where it was shown before."""
        async with self._showing:
            await self._change_view(name)

    async def _change_view(self, name: str) -> None:
        self._way = [*self._way[: self._way.index(name)], name] if name in self._way else [*self._way, name]
        if name not in self._views:
            entry = BY_NAME[name]
            view: View = getattr(import_module(entry.module), entry.class_name)(self._browsing())
            self._views[name] = view
            self._mounts[name] = self.query_one("#views").mount(view)
        view = self._views[name]
        if not view.is_mounted:
            # Begun before, perhaps, and then a key came in between.
            await self._mounts[name]
        self.view = view
        # Whoever was about to be shown and was not: a key came in between.
        for each in self._views.values():
            each.display = each is view
        await view.appear()
        if view.focus_target is not None:
            self.give_keys(view.focus_target)
        self.refresh_bindings()
        self._show_lines()

    def action_view(self, name: str) -> None:
        if self.browsing is None:
            # A key that came before the partition was open.
            self._first_view = name
        else:
            self._go(self._show_view, name)

    def action_topics(self) -> None:
        self.inspector.close_partition()

    def action_back(self) -> None:
        if self.view is not None and self.view.back():
            return
        if len(self._way) > 1:
            self._way.pop()
            self.action_view(self._way[-1])
        else:
            self.inspector.close_partition()

    def _go(self, work: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Does it in the place of what was begun before; a jump alone is not left halfway."""
        start(self, "view", self._from_there, partial(work, *args, **kwargs))

    async def _from_there(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._target is not None:
            await self._move(self._target)
        await work()

    def on_open_view(self, message: messages.OpenView) -> None:
        self.action_view(message.name)

    def on_select_segment(self, message: messages.SelectSegment) -> None:
        self._go(self._go_to_segment, message.base_offset, message.view)

    async def _go_to_segment(self, base_offset: int, view: str | None) -> None:
        if base_offset != self._browsing().base_offset:
            await self._select(base_offset)
        if view is not None:
            await self._show_view(view)

    def on_jump(self, message: messages.Jump) -> None:
        self._target = message.target
        start(self, "view", self._jump, message.target, message.view)

    async def _jump(self, target: Target, view: str | None) -> None:
        if await self._move(target):
            await self._show_place(view)

    async def _move(self, target: Target) -> bool:
        """Whether the place that views agree on is there now; else there is none."""
        try:
            moved = await self._place_at(target)
        except Exception:
            self._target = None
            raise
        self._target = None
        return moved

    async def _place_at(self, target: Target) -> bool:
        browsing = self._browsing()
        place = await browsing.ask(browsing.reader.locate, target)
        if place is None:
            self.notify("there is no such place in the log", severity="warning", markup=False)
            return False
        browsing.following = False
        if place.base_offset != browsing.base_offset:
            await browsing.select(place.base_offset)
            self._index()
        browsing.place = place
        browsing.is_waiting = not await browsing.is_reached()
        if browsing.search is not None:
            browsing.search.on_the_way = False
        # Of a long segment all headers before it are read first: what is waited for is told meanwhile.
        self._show_lines()
        return True

    async def _show_place(self, view: str | None) -> None:
        if view is not None:
            await self._show_view(view)
        elif self.view is not None:
            await self.view.appear()
        self._show_lines()

    def on_told(self, message: messages.Told) -> None:
        """Where nothing is wrong with what is under the cursor, something may be with the partition."""
        state = None if self.browsing is None else self.browsing.state
        self.tell(message.problem or (state.problem if state is not None else None))

    # Keys.

    def action_go_to(self) -> None:
        self.ask("go to offset, @time or +byte: ", self._go_to, history=self.inspector.gone_to)

    def _go_to(self, typed: str | None) -> None:
        if not typed or self.browsing is None:
            return
        from inspector.targets import target_of

        try:
            target = target_of(typed, self.browsing.base_offset, self.inspector.times.zone)
        except ValueError as error:
            self.tell(str(error))
            return
        view = None if self._way and self._way[-1] in VIEWS_OF_PLACES else "batches"
        self.post_message(messages.Jump(target, view))

    def action_search(self) -> None:
        if self.browsing is None:
            return
        from inspector.background.jobs import Wanted
        from inspector.widgets.search_prompt import SearchPrompt

        before = self.browsing.search
        wanted = Wanted("") if before is None else before.job.wanted
        self.ask_with(lambda ended: SearchPrompt(wanted, self.inspector.searched, ended), self._search)

    def _search(self, wanted: Wanted | None) -> None:
        if wanted is None:
            return
        from inspector.background.jobs import SearchJob
        from inspector.background.runs import SearchRun

        browsing = self._browsing()
        offset = None if browsing.place is None else browsing.place.offset
        browsing.search = self.inspector.runs.start(SearchRun(SearchJob(browsing.reader.path, wanted, offset)))
        self.action_view("search")

    def action_next_match(self) -> None:
        self._step_to_match(True)

    def action_previous_match(self) -> None:
        self._step_to_match(False)

    def _step_to_match(self, forwards: bool) -> None:
        from inspector.screens.search import SearchView

        if self.browsing is None or self.browsing.search is None:
            return
        if isinstance(self.view, SearchView):
            self.view.step(forwards)
        else:
            self._go(self._go_to_match, self.browsing.search, forwards)

    async def _go_to_match(self, run: SearchRun, forwards: bool) -> None:
        """From the record at the cursor, or from the match that is just gone to, to the next one there is."""
        browsing = self._browsing()
        here = None if browsing.place is None else browsing.place.offset
        here = run.current if run.on_the_way else here
        while (offset := run.beside(here, forwards)) is None and run.may_find(forwards):
            self._tell_search("searching …")
            await run.changed()
        if offset is None:
            self._tell_search(f"no match {'behind' if forwards else 'before'} this")
            return
        run.current, run.on_the_way = offset, True
        view = None if self._way[-1] in VIEWS_OF_RECORDS else "records"
        from inspector.reading.answers import Offset

        await self._jump(Offset(offset), view)

    def _tell_search(self, what: str) -> None:
        from inspector.screens.search import found, reached

        run = self._browsing().search
        assert run is not None
        self.notify(f"{what}: {found(run)}; {reached(run)}", timeout=2, markup=False)

    def action_follow(self) -> None:
        if self.browsing is None:
            return
        self.browsing.following = not self.browsing.following
        if self.browsing.following:
            self._go(self._to_the_end)
        else:
            self._set_following(False)

    async def _to_the_end(self) -> None:
        browsing = self._browsing()
        if browsing.state.segments and browsing.base_offset != browsing.state.segments[-1].base_offset:
            await self._select(browsing.state.segments[-1].base_offset)
        self._set_following(True)
        if self.view is not None:
            await self.view.indexed()

    def _set_following(self, following: bool) -> None:
        self._browsing().following = following
        for table in self.query(LazyTable):
            table.following = following
            if following:
                table.go(table.count - 1)
        self._wake.set()
        self._show_lines()

    def on_paged_view_paused(self) -> None:
        """Scrolled up: the end is followed no more until somebody goes there."""
        if self.browsing is not None and self.browsing.following:
            self.browsing.following = False
            self.notify("following paused; end goes on", timeout=2)
            for table in self.query(LazyTable):
                table.following = False
            self._paused = True
            self._show_lines()

    def on_paged_view_resumed(self) -> None:
        if self._paused:
            self._paused = False
            self._go(self._follow_again)

    async def _follow_again(self) -> None:
        self._browsing().following = True
        await self._to_the_end()

    def action_next_segment(self) -> None:
        self._step_segment(1)

    def action_previous_segment(self) -> None:
        self._step_segment(-1)

    def _step_segment(self, step: int) -> None:
        if self.browsing is not None:
            self._go(self._go_to_neighbour, step)

    async def _go_to_neighbour(self, step: int) -> None:
        browsing = self._browsing()
        base_offset = browsing.neighbour(step)
        if base_offset is None:
            self.notify("there is no segment before" if step < 0 else "there is no further segment", timeout=2)
        else:
            browsing.following = False
            await self._go_to_segment(base_offset, None)

    def action_reload(self) -> None:
        if self.browsing is None:
            start(self, "open", self._open)
            return
        self.tell(None)
        self._index()
        self._wake.set()

    def action_next_damage(self) -> None:
        self._step_to("next_damage", True)

    def action_previous_damage(self) -> None:
        self._step_to("next_damage", False)

    def action_next_transaction(self) -> None:
        self._step_to("next_transaction", True)

    def action_previous_transaction(self) -> None:
        self._step_to("next_transaction", False)

    def _step_to(self, what: str, forwards: bool) -> None:
        if self.browsing is not None:
            self._go(self._step_batches, what, forwards)

    async def _step_batches(self, what: str, forwards: bool) -> None:
        """From the batch at the cursor to the next one that is damaged, or of a transaction."""
        browsing = self._browsing()
        if browsing.segment is None:
            return
        row = await browsing.batch_at_place()
        found = await browsing.ask(getattr(browsing.segment, what), -1 if row is None else row, forwards)
        if found is None:
            kind = "damage" if what == "next_damage" else "transaction"
            self.notify(f"no {kind} {'behind' if forwards else 'before'} this in the segment", timeout=2)
            return
        await self._show_batch(found)

    async def _show_batch(self, row: int) -> None:
        from inspector.reading.answers import Place

        browsing = self._browsing()
        assert browsing.segment is not None
        assert browsing.base_offset is not None
        for batch in await browsing.ask(browsing.segment.batch_rows, row, 1):
            browsing.place = Place(browsing.base_offset, batch.position)
            if self._way[-1] not in VIEWS_OF_PLACES:
                await self._show_view("batches")
            elif self.view is not None:
                await self.view.appear()

    def action_copy(self) -> None:
        start(self, "copy", self._copy)

    async def _copy(self) -> None:
        copied = "" if self.view is None else await self.view.copied()
        if copied:
            self.app.copy_to_clipboard(copied)
            lines = copied.count("\n") + 1
            self.notify(f"copied {lines} {'line' if lines == 1 else 'lines'}", timeout=2)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that do nothing here are not in the footer."""
        del parameters
        if action in {"search", "next_match", "previous_match"}:
            return self.browsing is not None and (action == "search" or self.browsing.search is not None)
        return self.inspector.has_topics if action == "topics" else True

    # The lines.

    def times_changed(self) -> None:
        if self.view is not None:
            self._go(self.view.appear)
        self._show_lines()

    def _show_lines(self) -> None:
        if not self.is_mounted:
            return
        current = BY_NAME[self._way[-1]] if self._way else None
        tab = None if current is None else current.tab or current.name
        tabs = [
            (view.key, view.title, view.short, f"screen.view('{view.name}')", view.name == tab)
            for view in VIEWS
            if view.key
        ]
        if self.inspector.has_topics:
            tabs.insert(0, (TOPICS_KEY, "Topics", "Topics", "screen.topics", False))
        self.query_one(TabLine).show(tabs)
        path = self.inspector.model.path
        self.query_one(TopLine).show(text.printable(str(path)), self._what(), self._right())

    def _what(self) -> str:
        parts = [text.printable(self._partition)] if self._partition is not None else []
        browsing = self.browsing
        if browsing is not None and browsing.base_offset is not None:
            parts.append(f"segment {browsing.base_offset}")
            if browsing.progress is not None and not browsing.is_indexed:
                parts.append(f"{100 * browsing.progress.done_bytes // max(1, browsing.progress.total_bytes)}%")
            if browsing.is_waiting and browsing.place is not None:
                parts.insert(0, f"reading to {_where(browsing.place)}:")
        return " ".join(parts)

    def _right(self) -> str:
        follows = self.browsing is not None and self.browsing.following
        return " ".join(filter(None, ["FOLLOW" if follows else "", self.inspector.zone_name]))


def _where(place: Place) -> str:
    return f"byte {place.position:,}" if place.offset is None else f"offset {place.offset:,}"
