"""The config file: $XDG_CONFIG_HOME/kafkalog/inspector.toml, or ~/.config/kafkalog/inspector.toml.

    theme = "textual-light"
    timezone = "local"              # "utc" (the default), "local", "relative" or "epoch"
    schema_dir = "~/schemas"        # as --schema-dir

    [keymap]                        # names as in the help; commas between keys
    follow = "F,f5"

A wrong setting is reported and ignored; the others apply.
"""

from __future__ import annotations

import os
import re
import tomllib
import unicodedata
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from .keys import NAMES, given_to_others
from .text import Zone, printable

TIME_ZONES: tuple[Zone, ...] = ("utc", "local", "relative", "epoch")
_KEY = re.compile(r"(?:(?:ctrl|shift|alt|meta|super|hyper)\+)*(\w+|[^\s\w,])")
# Names of keys that are not characters, and names of characters that differ from those of Unicode.
_NAMED_KEYS = frozenset(
    [
        *("backspace", "delete", "down", "end", "enter", "escape", "home", "insert", "left", "pagedown", "pageup"),
        *("right", "space", "tab", "up", "at", "backslash", "minus", "plus", "slash", "underscore"),
        *(f"f{number}" for number in range(1, 25)),
    ]
)
MOST_BYTES = 1 << 20
# The last character that may be written by its name.
_LAST_NAMED = 0x24F


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the config file.

    Attributes:
        theme: The name of the theme; None: the default.
        time_zone: The zone in which times are shown.
        keymap: The keys of an action, by its name; commas between keys.
        mistakes: A message for each wrong setting.
        schema_dir: The directory with the schemas of a schema registry.
    """

    theme: str | None = None
    time_zone: Zone = "utc"
    keymap: dict[str, str] = field(default_factory=dict)
    mistakes: tuple[str, ...] = ()
    schema_dir: Path | None = None


def default_path() -> Path:
    """Return the default path of the config file."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "kafkalog" / "inspector.toml"


def load(path: Path | None = None) -> Settings:
    """Load the config file. Errors are in `mistakes` of the result; none is raised.

    Args:
        path: The path; None: the default path, where the file need not exist.
    """
    place = path
    try:
        place = place or default_path()
        found = tomllib.loads(_text_of(place))
    except FileNotFoundError:
        return Settings() if path is None else Settings(mistakes=(f"{path}: no such file",))
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Settings(mistakes=(f"{place or 'config file'}: {reason}",))
    return _settings(found, str(place))


def _text_of(place: Path) -> str:
    """Read the config file.

    Raises:
        OSError: It was not read.
        ValueError: It is not a regular file, too large, or not UTF-8.
    """
    # Checked first, because opening a FIFO waits for a writer.
    if not (place.is_file() or os.path.realpath(place) == os.devnull):
        place.stat()
        raise ValueError("it is no regular file")
    with place.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES:,} bytes, which no config file is")
    return data.decode()


def _settings(found: dict[str, Any], place: str) -> Settings:
    mistakes = [
        f"{place}: {printable(name)}: no such setting"
        for name in found
        if name not in {"theme", "timezone", "schema_dir", "keymap"}
    ]
    settings = Settings()
    theme = found.get("theme")
    if isinstance(theme, str):
        settings = replace(settings, theme=theme)
    elif theme is not None:
        mistakes.append(f"{place}: theme: expected a text, found {theme!r}")
    time_zone = found.get("timezone", settings.time_zone)
    if time_zone in TIME_ZONES:
        settings = replace(settings, time_zone=time_zone)
    else:
        mistakes.append(f"{place}: timezone: expected {', '.join(TIME_ZONES)}, found {time_zone!r}")
    schema_dir = found.get("schema_dir")
    if isinstance(schema_dir, str) and (directory := Path(schema_dir).expanduser()).is_dir():
        settings = replace(settings, schema_dir=directory)
    elif schema_dir is not None:
        mistakes.append(f"{place}: schema_dir: expected a directory, found {schema_dir!r}")
    keymap = _keymap(found.get("keymap", {}), place, mistakes)
    return replace(settings, keymap=keymap, mistakes=tuple(mistakes))


def _keymap(found: Any, place: str, mistakes: list[str]) -> dict[str, str]:
    if not isinstance(found, dict):
        mistakes.append(f"{place}: keymap: expected a table, found {found!r}")
        return {}
    keymap = {}
    for name, keys in found.items():
        if name not in NAMES:
            mistakes.append(f"{place}: keymap.{printable(name)}: no such action")
        elif not isinstance(keys, str) or not all(_is_key(key.strip()) for key in keys.split(",")):
            mistakes.append(f"{place}: keymap.{name}: expected keys with commas between, found {keys!r}")
        else:
            keymap[name] = ",".join(key.strip() for key in keys.split(","))
    for name, keys in list(keymap.items()):
        others = given_to_others(name, keymap)
        for key in keys.split(","):
            if key in others:
                mistakes.append(f"{place}: keymap.{name}: {key} is given to {others[key]} too")
                keymap.pop(name, None)
    return keymap


def _is_key(text: str) -> bool:
    """Return whether a text is the name of a key, such as "ctrl+q", "f5", "?" or "question_mark"."""
    found = _KEY.fullmatch(text)
    if found is None:
        return False
    key = found[1]
    return (len(key) == 1 and key.isprintable()) or key in _NAMED_KEYS or key in _names_of_characters()


@cache
def _names_of_characters() -> frozenset[str]:
    """Return the names of characters, such as "less_than_sign"."""
    names = (unicodedata.name(chr(code), "") for code in range(_LAST_NAMED))
    return frozenset(re.sub("[- ]", "_", name).lower() for name in names if name)
