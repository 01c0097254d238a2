"""`kafkalog inspect`: the inspector in the terminal, or the content of one of its screens as text or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cli import SOUND, UNREADABLE
from kafkalog.cli.common_options import LogPath
from kafkalog.cli.output import abandon, complain, is_terminal
from kafkalog.cli.positions import PositionType
from kafkalog.errors import NotALogError
from kafkalog.storage.remote_path import is_remote

if TYPE_CHECKING:
    from kafkalog.inspector.config import Settings
    from kafkalog.inspector.jobs.jobs import Wanted

# The number of segments that an error names.
SEGMENTS_NAMED = 5
EPILOG = """\b
Config file: ~/.config/kafkalog/inspector.toml (or below $XDG_CONFIG_HOME)
  theme = "textual-light"
  timezone = "local"
  schema_dir = "~/schemas"
  [keymap]
  follow = "F,f5"

\b
Examples:
  kafkalog inspect /var/lib/kafka            the partitions in it
  kafkalog inspect /var/lib/kafka/orders-0   one partition; F follows it
  kafkalog inspect 00000000000000000000.log  one segment
  kafkalog inspect orders-0 --headless segments -o json
                                             a screen's content, for a script
  kafkalog inspect orders-0 --headless records --from end-10 -o jsonl
  kafkalog inspect orders-0 --headless search --find order-17 --limit 1
  kafkalog inspect orders-0 --schema-dir schemas --headless record -o jsonl
"""


@click.command(short_help="Browse a log in the terminal, while it grows.", epilog=EPILOG)
@click.argument("path", metavar="PATH", type=LogPath(), required=False)
@click.option(
    "--headless", "screen", metavar="SCREEN",
    help="Print the content of a screen: topics, segments, map, batches, records, ... (all: --headless help).",
)  # fmt: skip
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "jsonl"]), help="With --headless.  [default: text]"
)
@click.option("--segment", metavar="OFFSET", type=int, help="With --headless: only the segment with this base offset.")
@click.option("--from", "start", metavar="POSITION", type=PositionType(), help="With --headless records and batches.")
@click.option(
    "--to", "end", metavar="POSITION", type=PositionType(), help="The same; `kafkalog dump --help` has the forms."
)
@click.option("--limit", metavar="N", type=click.IntRange(min=0), help="With --headless: at most so many rows.")
@click.option("--find", metavar="TEXT", help="With --headless search: the text to find in keys, values and headers.")
@click.option("--regex", is_flag=True, help="TEXT is a regular expression.")
@click.option("--any-case", is_flag=True, help="Ignore upper and lower case.")
@click.option(
    "--in", "fields", metavar="FIELD", multiple=True, type=click.Choice(["key", "value", "headers"]),
    help="Search only in key, value or headers. Repeatable.",
)  # fmt: skip
@click.option("--deep", is_flag=True, help="With --headless verify: decompress and parse every record.")
@click.option(
    "--utc/--local", "utc", default=None, help="Times in UTC, or in local time.  [default: as in the config file]"
)
@click.option(
    "--schema-dir", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Schemas of a schema registry, by id: 7.avsc (Avro), 9.desc (Protobuf).",
)  # fmt: skip
@click.option("--theme", metavar="NAME", help="Colours; NO_COLOR turns them off.")
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Another config file.")
def inspect(
    *,
    path: Path | None,
    screen: str | None,
    form: str | None,
    segment: int | None,
    utc: bool | None,
    theme: str | None,
    schema_dir: Path | None,
    config: Path | None,
    **screen_options: Any,
) -> int:
    """Browse the data directory, partition or segment file at PATH: partitions, segments, batches, records, bytes.

    Always read-only, and safe while a broker is running. The last line shows the available keys; ? shows all of them.
    """
    if screen == "help":
        from kafkalog.inspector import headless

        click.echo("\n".join(headless.NAMES))
        return SOUND
    if path is None:
        raise click.UsageError("missing argument PATH")
    if is_remote(path):
        raise click.UsageError(f"the inspector reads files of this machine, not {path}")
    settings = partial(_settings, config, utc, theme=theme, schema_dir=schema_dir)
    try:
        if screen is not None:
            path = path if segment is None else _segment(path, segment)
            return _headless(path, screen, form or "text", settings(), screen_options)
        return _in_terminal(path, form, settings, screen_options)
    except NotALogError as error:
        from kafkalog.storage.data_dir.discover import log_below

        below = log_below(path)
        if below is None:
            raise
        raise NotALogError(f"{error.message}; did you mean {below}?", error.path) from None


def _segment(path: Path, base_offset: int) -> Path:
    """Return the path of a segment; if it is not there, say which segments are."""
    file = path / f"{base_offset:020d}.log"
    found = sorted(int(each.stem) for each in path.glob("*.log") if each.stem.isdecimal())
    if found and not file.exists():
        few, more = ", ".join(map(str, found[:SEGMENTS_NAMED])), len(found) - SEGMENTS_NAMED
        raise click.UsageError(
            f"{path} has no segment {base_offset}; it has {few}{f' and {more} more' if more > 0 else ''}"
        )
    return file


def _in_terminal(path: Path, form: str | None, settings: Callable[[], Settings], screen_options: dict[str, Any]) -> int:
    """Run the inspector and return its exit code."""
    if form is not None or any(value not in (None, False, ()) for value in screen_options.values()):
        name = "--output" if form is not None else f"--{_first_option_given(screen_options)}"
        raise click.UsageError(f"{name} requires --headless")
    try:
        from kafkalog.inspector import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "textual":
            raise
        complain("the inspector needs Textual: pip install 'kafkalog[inspector]'")
        return UNREADABLE
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise click.UsageError("the inspector needs a terminal; --headless SCREEN prints the content of a screen")
    code = app.run(path, settings())
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # The terminal has gone.
            abandon(stream)
    return code


def _settings(config: Path | None, utc: bool | None, **given: Any) -> Settings:
    from kafkalog.inspector.config import load

    settings = load(config)
    if utc is not None:
        settings = replace(settings, time_zone="utc" if utc else "local")
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


def _first_option_given(screen_options: dict[str, Any]) -> str:
    """Return the name of the first of these options that was given."""
    given = next(name for name, value in screen_options.items() if value not in (None, False, ()))
    return {"fields": "in", "start": "from", "end": "to"}.get(given, given).replace("_", "-")


def _headless(path: Path, screen: str, form: str, settings: Settings, screen_options: dict[str, Any]) -> int:
    """Print the content of a screen and return the exit code; first the mistakes in the config file, on stderr."""
    from kafkalog.inspector import headless
    from kafkalog.inspector.model.schemas import Schemas

    for mistake in settings.mistakes:
        complain(mistake)
    if screen not in headless.NAMES:
        raise click.UsageError(f"unknown screen {screen!r}: expected one of {', '.join(headless.NAMES)}")
    name, options = headless.COMMANDS.get(screen, ("", {}))
    if name != "dump" and (screen_options["start"] is not None or screen_options["end"] is not None):
        raise click.UsageError("--from and --to require --headless records or batches")
    if screen != "search" and any(screen_options[each] for each in ("find", "regex", "any_case", "fields")):
        raise click.UsageError("--find, --regex, --any-case and --in require --headless search")
    if screen != "verify" and screen_options["deep"]:
        raise click.UsageError("--deep requires --headless verify")
    if name:
        return _by_command(path, form, name, options, screen_options)
    try:
        return headless.show(
            path, screen, form, settings.time_zone, find=_wanted(screen_options), limit=screen_options["limit"],
            schemas=None if settings.schema_dir is None else Schemas(settings.schema_dir),
        )  # fmt: skip
    except headless.NeedsMoreError as error:
        raise click.UsageError(str(error)) from None


def _by_command(path: Path, form: str, name: str, options: dict[str, bool], screen_options: dict[str, Any]) -> int:
    """Run the command that prints what a screen shows, and return its exit code."""
    context = click.get_current_context()
    command: click.Command = getattr(import_module(f"kafkalog.cli.{name}"), name)
    if form == "jsonl" and name == "status":
        raise click.UsageError("topics is one document: -o json")
    where: dict[str, Any] = {"path": path} if name == "status" else {"paths": (path,)}
    taken = {"verify": ("deep",), "dump": ("start", "end", "limit")}.get(name, ())
    code: int = context.invoke(command, **where, form=form, **options, **{each: screen_options[each] for each in taken})
    return code


def _wanted(screen_options: dict[str, Any]) -> Wanted | None:
    """Return what to search for, from the options of the command line.

    Raises:
        NeedsMoreError: The regular expression is invalid.
    """
    from kafkalog.inspector.headless import NeedsMoreError
    from kafkalog.inspector.jobs.jobs import Wanted

    if not screen_options["find"]:
        return None
    wanted = Wanted(screen_options["find"], regex=screen_options["regex"], case=not screen_options["any_case"])
    if screen_options["fields"]:
        wanted = replace(wanted, fields=frozenset(screen_options["fields"]))
    try:
        wanted.pattern()
    except ValueError as error:
        raise NeedsMoreError(str(error)) from None
    return wanted
