"""Settings of Sphinx, which `make docs` runs."""

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

import kafkalog
from kafkalog import ByteBufferMessageSet, Record
from kafkalog.record.fields import EntryFields

project = "kafkalog"
release = version = kafkalog.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["inspector", "performance"]
html_theme = "furo"
html_title = f"kafkalog {release}"
html_show_copyright = False
myst_heading_anchors = 3
autodoc_member_order = "bysource"
# autodoc lists the fields of a NamedTuple itself: as fields of the docstring, attributes are not described twice.
napoleon_use_ivar = True


def _mark_code(_app: Any, what: str, name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Turn `code` of a docstring, which is Markdown, into ``code``; keep the layout of the docstring of a module."""
    if what == "module" and name != "kafkalog":
        lines[:] = ["::", "", *(f"   {line}" for line in lines), ""]
        return
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``\\ ", "\n".join(lines))
    lines[:] = text.split("\n")


def _keep_colons(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Begin a property with an empty line: napoleon would take the words before a colon for its type."""
    if what in ("property", "attribute"):
        lines.insert(0, "")


class FieldsOfEntry(SphinxDirective):
    """A table of the fields of an entry of format `magic` that holds one record."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        magic = directives.nonnegative_int(self.arguments[0])
        record = Record(b"value", b"key", [("header", b"")] if magic == 2 else [], timestamp=1)
        entry = bytes(ByteBufferMessageSet.from_records([record], magic=magic))
        fields = EntryFields(lambda position, length: entry[position : position + length], 0, len(entry))
        rows = [("at", "bytes", "field", "meaning"), ("---",) * 4, *map(_cells, fields.listed())]
        return self.parse_text_to_nodes("\n".join(f"| {' | '.join(cells)} |" for cells in rows))


def _cells(field: Any) -> tuple[str, str, str, str]:
    """Return the row of a field; positions behind the first record depend on its content."""
    where = " ".join(field.path)
    return str(field.start), str(field.length), f"{where}: {field.name}" if where else field.name, field.meaning


def setup(app: Any) -> None:
    """Register what is done to docstrings, and the directive of the page on formats."""
    app.connect("autodoc-process-docstring", _mark_code)
    app.connect("autodoc-process-docstring", _keep_colons, priority=400)
    app.add_directive("fields-of-entry", FieldsOfEntry)
