"""The screen around the views of a partition: it opens the partition, and hands keys and what views wish to its parts.

    top line     path, segment, how much of it is read, FOLLOW
    tabs         of `views`, which shows one of them
    #views       the view; `following` keeps it true to the log, `going` and `stepping` take it to places
    keys         of all of them

Each part knows the screen, and through it the others and what they all look at (`opened`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from .. import messages, text
from ..browsing import Browsing
from ..desk import Desk
from ..keys import bindings
from ..model.types import Place
from ..partition.find_next import Kind
from ..partition.live import Following
from ..partition.navigation import Going
from ..partition.shown_views import VIEWS_OF_PLACES, ShownViews
from ..partition.steps import Stepping
from ..session import Session
from ..view_table import BY_NAME, TOPICS_KEY, VIEWS
from ..views.view import start
from ..widgets.lines import ProblemLine, TabLine, TopLine
from ..widgets.prompt import Prompt
from .base import InspectorScreen

if TYPE_CHECKING:
    from ..jobs.jobs import Wanted


# What keys do while the partition is being opened.
OPENING_ACTIONS = ("view", "topics", "back", "go_to", "reload")


class PartitionScreen(InspectorScreen):
    """The screen of a partition. partition: None = what the model was opened with. jump: where to go then."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("partition")

    def __init__(self, session: Session, partition: str | None, jump: messages.Jump | None = None) -> None:
        super().__init__(session)
        self._first_jump = jump
        self._partition = partition
        # Shown when the partition is open; a key may change it meanwhile.
        self._first_view = "segments"
        self._desk = Desk(f"partition {partition}")
        self.browsing: Browsing | None = None
        self.views = ShownViews(self)
        self.following = Following(self)
        self.going = Going(self)
        self.stepping = Stepping(self)

    def compose_middle(self) -> ComposeResult:
        yield TabLine()
        yield Container(id="views")

    def on_mount(self) -> None:
        self.show_lines()
        start(self, "open", self._open)

    def on_unmount(self) -> None:
        browsing = self.browsing
        if browsing is not None and self.session.has_runs:
            self.session.runs.end(browsing.reader.path)
        self._desk.close(None if browsing is None else browsing.reader.close)

    @property
    def opened(self) -> Browsing:
        """What all views look at, for who comes when the partition is open."""
        assert self.browsing is not None
        return self.browsing

    async def until_still(self) -> None:
        await super().until_still()
        await self.going.still.wait()

    @property
    def has_way_back(self) -> bool:
        return len(self.views.way) > 1

    async def _open(self) -> None:
        self.going.still.clear()
        try:
            await self._open_partition()
        finally:
            self.going.still.set()

    async def _open_partition(self) -> None:
        reader = await self._desk(self.session.model.partition, self._partition)
        state = await self._desk(reader.refresh)
        browsing = Browsing(self.session, reader, self._desk, state)
        self.tell(state.problem)
        if state.segments:
            await browsing.select(state.segments[0].base_offset)
        if self.session.has_runs:
            from ..jobs.runs import SearchRun

            browsing.search = self.session.runs.of(SearchRun, reader.path)
        self.browsing = browsing
        jump, self._first_jump = self._first_jump, None
        if jump is None:
            await self.views.show(self._first_view)
        else:
            self.views.way = [self._first_view]
            await self.going.to_target(jump.target, jump.view)
        self.following.index()
        self.following.watch()

    # What views and tables wish.

    def on_open_view(self, message: messages.OpenView) -> None:
        self.action_view(message.name)

    def on_select_segment(self, message: messages.SelectSegment) -> None:
        self.going.begin(self.going.to_segment, message.base_offset, message.view)

    def on_jump(self, message: messages.Jump) -> None:
        self.going.jump(message.target, message.view)

    def on_flow_on(self, message: messages.FlowOn) -> None:
        self.going.begin(self.going.flow_on, message.forwards)

    def on_told(self, message: messages.Told) -> None:
        """Show the problem of what is under the cursor, or else of the partition."""
        state = None if self.browsing is None else self.browsing.state
        self.tell(message.problem or (state.problem if state is not None else None))
        self.show_lines()

    def on_paged_view_paused(self) -> None:
        self.following.pause()

    def on_paged_view_resumed(self) -> None:
        self.following.resume()

    # Keys.

    def action_view(self, name: str) -> None:
        if self.browsing is None:
            # A key that came before the partition was open.
            self._first_view = name
        else:
            self.going.begin(self._show, name)

    async def _show(self, name: str) -> None:
        if self.views.current is not None:
            await self.views.current.settle()
        await self.views.show(name)

    def action_topics(self) -> None:
        self.post_message(messages.ClosePartition())

    def action_back(self) -> None:
        self.on_told(messages.Told(None))
        if self.stepping.stop() or (self.views.current is not None and self.views.current.back()):
            return
        before = self.views.one_back()
        if before is not None:
            self.action_view(before)
        else:
            self.post_message(messages.ClosePartition())

    def action_go_to(self) -> None:
        self.on_told(messages.Told(None))
        label = "go to offset, start, end-10, @time, @-1h or +byte: "
        self.ask(lambda ended: Prompt(label, ended, history=self.session.gone_to), self._go_to)

    def _go_to(self, typed: str | None) -> None:
        if not typed or self.browsing is None:
            return
        from ..partition.goto import target_of

        try:
            target = target_of(typed, self.browsing.state, self.browsing.base_offset, self.session.times)
        except ValueError as error:
            self.tell(str(error))
            return
        view = None if self.views.is_one_of(VIEWS_OF_PLACES) else "batches"
        self.post_message(messages.Jump(target, view))

    def action_jump_back(self) -> None:
        self.going.jump_back()

    def action_search(self) -> None:
        from ..jobs.jobs import Wanted
        from ..widgets.search_prompt import SearchPrompt

        before = self.opened.search
        wanted = Wanted("") if before is None else before.job.wanted
        self.ask(lambda ended: SearchPrompt(wanted, self.session.searched, ended), self._search)

    def _search(self, wanted: Wanted | None) -> None:
        if wanted is None:
            return
        from ..jobs.jobs import SearchJob
        from ..jobs.runs import SearchRun

        browsing = self.opened
        offset = None if browsing.place is None else browsing.place.offset
        browsing.search = self.session.runs.start(SearchRun(SearchJob(browsing.reader.path, wanted, offset)))
        self.action_view("search")

    def action_match(self, forwards: bool) -> None:
        self.stepping.to_match(forwards)

    def action_batch(self, what: Kind, forwards: bool) -> None:
        self.stepping.to_batch(what, forwards)

    def action_segment(self, forwards: bool) -> None:
        self.going.begin(self.going.to_neighbour, forwards)

    def action_follow(self) -> None:
        self.following.toggle()

    def action_reload(self) -> None:
        if self.browsing is None:
            start(self, "open", self._open)
            return
        self.tell(None)
        self.following.index()
        self.following.look_now()

    def action_copy(self) -> None:
        start(self, "copy", self._copy)

    async def _copy(self) -> None:
        copied = "" if self.views.current is None else await self.views.current.copied()
        if copied:
            self.app.copy_to_clipboard(copied)
            lines = copied.count("\n") + 1
            self.notify(f"copied {lines} {'line' if lines == 1 else 'lines'}", timeout=2)

    def is_hinted(self, action: str) -> bool:
        """Return whether the last line names a key: that of the next match only if something is searched for."""
        return action != "next_match" or (self.browsing is not None and self.browsing.search is not None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key does something here, and is in the footer."""
        del parameters
        if self.browsing is None and action not in OPENING_ACTIONS:
            return False
        if action == "follow":
            return not self._is_of_runs
        return self.session.has_topics if action == "topics" else True

    @property
    def _is_of_runs(self) -> bool:
        """Whether the view shows the results of a job, which does not follow the log."""
        return self.views.is_one_of(("verify", "search", "statistics"))

    # The lines.

    def times_changed(self) -> None:
        if self.views.current is not None:
            self.going.begin(self.views.appear)
        self.show_lines()

    def show_lines(self) -> None:
        """Update the tabs and the top line."""
        if not self.is_mounted:
            return
        self.query_one(TabLine).tabs = self._tabs()
        path = self.session.model.path
        self.query_one(TopLine).shown = text.printable(str(path)), self._what(), self._right()

    def _tabs(self) -> list[tuple[str, str, str, str, bool]]:
        current = BY_NAME[self.views.way[-1]] if self.views.way else None
        tab = None if current is None else current.tab or current.name
        tabs = [
            (view.key, view.title, view.short, f"screen.view('{view.name}')", view.name == tab)
            for view in VIEWS
            if view.key
        ]
        if self.session.has_topics:
            tabs.insert(0, (TOPICS_KEY, "Topics", "Topics", "screen.topics", False))
        return tabs

    def _what(self) -> str:
        parts = [text.printable(self._partition)] if self._partition is not None else []
        browsing = self.browsing
        if under_way := self.stepping.said:
            return " ".join([*parts, under_way])
        if browsing is None and self.query_one(ProblemLine).problem is None:
            parts.append("opening …")
        if browsing is not None and browsing.base_offset is not None:
            parts.append(f"segment {browsing.base_offset}")
            if browsing.progress is not None and not browsing.is_indexed:
                parts.append(f"{100 * browsing.progress.done_bytes // max(1, browsing.progress.total_bytes)}%")
            if browsing.at_end and not browsing.is_read:
                parts.insert(0, "reading to the end:")
            elif browsing.is_waiting and browsing.place is not None:
                parts.insert(0, f"reading to {_where(browsing.place)}:")
        if self.views.current is not None and (restriction := self.views.current.restriction):
            parts.append(f"| {restriction}")
        return " ".join(parts)

    def _right(self) -> str:
        follows = self.browsing is not None and self.browsing.following and not self._is_of_runs
        return " ".join(filter(None, [self._health(), "FOLLOW" if follows else "", self.session.zone_name]))

    def _health(self) -> str:
        """Return what is known of the partition; "" = no check has been done."""
        if self.browsing is None:
            return ""
        state = self.browsing.state
        health = "damaged" if state.problem is not None else self.session.checked(state.path)[0]
        return "" if health == "unchecked" else health


def _where(place: Place) -> str:
    return f"byte {place.position:,}" if place.offset is None else f"offset {place.offset:,}"
