"""What views that show a run have in common: a line about how far it has come, and looking at it while it goes on."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rich.text import Text
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Static

from .. import messages, text
from ..jobs.runs import Run, Runs
from ..keys import bindings
from ..session import Session

LOOKS_SECONDS = 0.1
R = TypeVar("R", bound=Run[Any])


class ShowsRun(Widget, Generic[R]):
    """Mixed into a view. It draws anew when the run has something new, ten times a second at most."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("work")

    session: Session
    run: R | None = None
    _seen: tuple[int | None, int] = (None, -1)

    @property
    def runs(self) -> Runs:
        """All there are."""
        return self.session.runs

    def on_mount(self) -> None:
        self._looks = self.set_interval(LOOKS_SECONDS, self._look)

    def _look(self) -> None:
        run = self.run
        if run is None or not self.display or not self.screen.is_current:
            return
        seen = id(run), run.version
        if seen != self._seen:
            self._seen = seen
            self.show_run()
            self.post_message(messages.Told(self.problem(run)))
            self.refresh_bindings()
        self.show_heading()
        if not run.is_running:
            self._looks.pause()

    def problem(self, run: R) -> str | None:
        """Return what is wrong, also what could not be read, if the run says so."""
        unreadable, problem = getattr(run.latest, "unreadable", 0), getattr(run.latest, "problem", None)
        return run.problem or (f"the first of {unreadable:,} left out: {problem}" if unreadable > 1 else problem)

    def look_at_last(self, kind: type[R], path: Path) -> None:
        """Show the last run of a kind at a path; if there is none, begin it."""
        run = self.runs.of(kind, path)
        if run is None:
            self.action_run()
        else:
            self.look_at(run)

    def look_at(self, run: R | None) -> None:
        """Show another run."""
        self.run = run
        self._seen = (None, -1)
        self._looks.resume()
        self.show_run()
        self.show_heading()
        self._look()

    @abstractmethod
    def show_run(self) -> None:
        """Show the run as it is now."""

    @abstractmethod
    def headings(self) -> list[str]:
        """Return what the line says, besides how far the run has come; safe to show."""

    def show_heading(self) -> None:
        """Show the line."""
        parts = [*self.headings(), *([] if self.run is None else _progress(self.run))]
        line = Text("  ".join(filter(None, parts)), no_wrap=True, overflow="ellipsis")
        self.query_one(".heading", Static).update(line)

    def back(self) -> bool:
        """Escape ends what runs."""
        if self.run is not None and self.run.is_running:
            self.run.cancel()
            self._look()
            return True
        return False

    @abstractmethod
    def action_run(self) -> None:
        """Run once more, from the start."""


def _progress(run: Run[Any]) -> list[str]:
    """Return the progress: 50% of 1.0 GiB, 4 s, esc ends it; done in 8 s; ! cancelled at 50% after 4 s."""
    progress = run.progress
    share = 100 * progress.done_bytes // progress.total_bytes if progress.total_bytes else 0
    if not run.is_running:
        if run.state == "finished":
            return [f"done in {_seconds(run.seconds)}"]
        return [f"! {run.state} at {share}% after {_seconds(run.seconds)}"]
    if not progress.total_bytes:
        return ["begins …"]
    read = f"{share}% of {text.size(progress.total_bytes)}"
    return [f"{read}, {_seconds(run.seconds)}", "esc ends it"]


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"
