"""What the list of partitions and a partition's screen share: the line at the top, problems, the prompt, the keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widget import AwaitMount, Widget

from .. import messages
from ..keys import bindings
from ..session import Session
from ..widgets.lines import KeysLine, ProblemLine, TopLine

T = TypeVar("T")


class InspectorScreen(Screen[None]):
    """Subclasses compose their middle part in `compose_middle`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("screen")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._prompt: Widget | None = None
        self._opens: AwaitMount | None = None
        # What the keys go to when nobody types in a line any more.
        self._behind_prompt: Widget | None = None

    def compose(self) -> ComposeResult:
        yield TopLine()
        yield from self.compose_middle()
        yield ProblemLine()
        yield KeysLine(self.is_hinted)

    def compose_middle(self) -> ComposeResult:
        """Compose what stands between the lines."""
        yield from ()

    def is_hinted(self, action: str) -> bool:
        """Return whether the last line names the key of an action that is possible."""
        del action
        return True

    def tell(self, problem: str | None) -> None:
        """Show a problem in the line for it."""
        if self.is_mounted:
            self.query_one(ProblemLine).problem = problem

    def on_told(self, message: messages.Told) -> None:
        self.tell(message.problem)

    def on_ask(self, message: messages.Ask) -> None:
        self.ask(message.prompt, message.submitted)

    def action_back(self) -> None:
        """Go one level back, if there is one."""

    @property
    def has_way_back(self) -> bool:
        """Whether `back` leads to another view of this screen."""
        return False

    async def until_still(self) -> None:
        """Wait until what keys have begun here is done: the prompt is open."""
        opens, self._opens = self._opens, None
        if opens is not None:
            await opens

    def action_reload(self) -> None:
        """Read again."""

    def times_changed(self) -> None:
        """Write times in another way."""

    def ask(
        self, prompt: Callable[[Callable[[T | None], None]], Widget], submitted: Callable[[T | None], None]
    ) -> None:
        """Show a prompt in the place of any other; the keys go back to where they went before."""
        if self._prompt is None:
            self._behind_prompt = self.focused
        else:
            self._prompt.remove()

        def ended(answer: T | None) -> None:
            self._prompt = None
            if self._behind_prompt is not None and self._behind_prompt.is_attached:
                self.set_focus(self._behind_prompt)
            submitted(answer)

        self._prompt = prompt(ended)
        self._opens = self.mount(self._prompt, before=self.query_one(KeysLine))

    def give_keys(self, widget: Widget) -> None:
        """Give the keys to a widget; while somebody types in a line, as soon as that is done."""
        if self._prompt is None:
            self.set_focus(widget)
        else:
            self._behind_prompt = widget
