"""Arguments and options of several commands: `PATH...`, `--topic`, `--wide`, `--output`, `--jobs`, `--quiet`."""

from __future__ import annotations

import os
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir
from kafkalog.storage.remote_path import RemotePath, to_path


class LogPath(click.Path):
    """A path, or a URL of a store, but not `-`. Missing permission is reported when it is opened, as all errors are."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, readable=False)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            self.fail("a log is not read from stdin; give a file or a directory", param, ctx)
        if not os.fspath(value):
            self.fail("an empty path, perhaps of a variable that is not set", param, ctx)
        try:
            path = to_path(value)
        except (ImportError, ValueError) as error:
            self.fail(str(error), param, ctx)
        return path if isinstance(path, RemotePath) else super().convert(path, param, ctx)


paths_argument = click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=LogPath())
topic_option = click.option(
    "-t", "--topic", "--partition", "topics", metavar="GLOB", multiple=True,
    help="In a data directory, only partitions whose topic or topic-partition matches. Repeatable.",
)  # fmt: skip
wide_option = click.option("-w", "--wide", is_flag=True, help="All columns in full width, even on a narrow terminal.")
document_option = click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="Text for people, or one JSON document.",
)  # fmt: skip
jobs_option = click.option(
    "-j", "--jobs", metavar="N", type=click.IntRange(min=1), default=1, show_default=True,
    help="The number of processes that check the partitions of a data directory. One leaves the other processors to a "
    "broker that is running.",
)  # fmt: skip
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print errors only.")


def select(place: DataDir | PartitionDir | LogFile, topics: tuple[str, ...]) -> DataDir | PartitionDir | LogFile:
    """Return `place` with only the partitions that match.

    Raises:
        UsageError: None matches.
    """
    if not topics or not isinstance(place, DataDir):
        return place
    wanted = tuple(each for each in place.partitions if _matches(each, topics))
    if not wanted:
        raise click.UsageError(f"no partition in {place.path} matches {' '.join(topics)}")
    return replace(place, partitions=wanted)


def _matches(partition: PartitionDir, topics: tuple[str, ...]) -> bool:
    topic = partition.topic_partition.topic if partition.topic_partition else partition.name
    return any(fnmatchcase(topic, glob) or fnmatchcase(partition.name, glob) for glob in topics)
