"""Settings of Sphinx, which `make docs` runs."""

import re
from typing import Any

import kafkalog

project = "kafkalog"
release = version = kafkalog.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["inspector"]
html_theme = "furo"
html_title = f"kafkalog {release}"
html_show_copyright = False
myst_heading_anchors = 3
autodoc_member_order = "bysource"
# autodoc lists the fields of a NamedTuple itself: as fields of the docstring, attributes are not described twice.
napoleon_use_ivar = True


def _mark_code(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Turn `code` of a docstring, which is Markdown, into ``code``."""
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``\\ ", "\n".join(lines))
    lines[:] = text.split("\n")


def setup(app: Any) -> None:
    """Register what is done to docstrings."""
    app.connect("autodoc-process-docstring", _mark_code)
