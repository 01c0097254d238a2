"""docs/inspector.md and its pictures show the inspector as it is; `python docs/screenshots.py` makes them anew."""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog.inspector import config as settings
from kafkalog.inspector.view_table import VIEWS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "inspector.md"
NAMES = ["topics", *(view.name for view in VIEWS), "following"]

if not PAGE.exists():
    pytest.skip("the pages are not here", allow_module_level=True)


@pytest.fixture(scope="module")
def screenshots() -> ModuleType:
    spec = importlib.util.spec_from_file_location("screenshots", DOCS / "screenshots.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["screenshots"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data(screenshots: ModuleType) -> Iterator[Path]:
    with screenshots.directory() as found:
        yield found


def test_each_view_has_a_picture_on_the_page_that_names_no_path_or_address() -> None:
    page = PAGE.read_text("utf-8")
    for name in NAMES:
        assert f"(inspector/{name}.svg)" in page
        svg = (DOCS / "inspector" / f"{name}.svg").read_text("utf-8")
        assert set(re.findall(r"\w+://[^\"]*", svg)) == {"http://www.w3.org/2000/svg"}, name
        assert tempfile.gettempdir() not in svg, name


def test_the_table_of_keys_is_that_of_the_program(screenshots: ModuleType) -> None:
    page = PAGE.read_text("utf-8")
    assert screenshots.page_with_keys(page) == page


def test_the_config_file_shown_has_no_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "schemas").mkdir()
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    path = tmp_path / "inspector.toml"
    path.write_text(found[1])
    loaded = settings.load(path)
    assert (loaded.mistakes, loaded.keymap["follow"], loaded.time_zone) == ((), "F,f5", "local")


@pytest.mark.tui
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("_pilot_sleeps")
def test_pictures_show_the_screens_of_today(name: str, screenshots: ModuleType, data: Path) -> None:
    kept = (DOCS / "inspector" / f"{name}.svg").read_text("utf-8")
    _, made = screenshots.picture(name, data)
    assert screenshots.seen_in(made) == screenshots.seen_in(kept)
