"""`Session`: what the screens of one running application share. No Textual here."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from .columns import Times
from .config import Settings
from .desk import Desk
from .model.schemas import Schemas
from .model.types import SegmentRow, TopicRow

if TYPE_CHECKING:
    from .jobs.checks import Checked
    from .jobs.runs import Runs
    from .model.model import Model

R = TypeVar("R", TopicRow, SegmentRow)
ZONE_NAMES = {"utc": "UTC", "local": "local", "relative": "ago", "epoch": "ms"}


class Session:
    """The model, the settings and what has been done so far.

    Attributes:
        model: What is inspected.
        settings: The settings of the config file.
        schemas: The schemas of a registry; None: there are none.
        times: The format of times.
        desk: The worker thread of the list of partitions.
        searched: The texts that were searched for.
        gone_to: The places that were typed.
    """

    def __init__(self, model: Model, settings: Settings, times: Times | None = None) -> None:
        self.model = model
        self.settings = settings
        self.schemas = None if settings.schema_dir is None else Schemas(settings.schema_dir)
        self.times = times or Times(settings.time_zone)
        self.desk = Desk("partitions")
        self.searched: list[str] = []
        self.gone_to: list[str] = []

    @property
    def has_topics(self) -> bool:
        """Whether there is a list of partitions."""
        return self.model.kind == "data_dir"

    @property
    def zone_name(self) -> str:
        """The time zone, for the line at the top."""
        return ZONE_NAMES[self.times.zone]

    @cached_property
    def runs(self) -> Runs:
        """The jobs of this session."""
        # Not before the first screen is shown: it takes time to import.
        from .jobs.runs import Runs

        return Runs()

    @property
    def has_runs(self) -> bool:
        """Whether a job may have been begun."""
        return "runs" in self.__dict__

    def checked(self, path: Path) -> tuple[Checked, str | None]:
        """Return what checks say of a partition or a segment, and its problem."""
        return self.runs.checked(path) if self.has_runs else ("unchecked", None)

    def with_check(self, row: R) -> R:
        """Return a partition or a segment with what a check has found, if a quick look has found nothing."""
        if row.problem is not None:
            return row
        health, problem = self.checked(row.path)
        return replace(row, health=health, problem=problem)

    def close(self) -> None:
        """End all jobs, and close all files."""
        if self.has_runs:
            self.runs.close()
        self.desk.close(self.model.close)
