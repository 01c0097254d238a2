"""Settings of Sphinx, which `make docs` runs."""

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

import kafkalog
from kafkalog import ByteBufferMessageSet, EndOfData, Record
from kafkalog.record.fields import EntryFields

project = "kafkalog"
release = version = kafkalog.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["inspector", "performance"]
html_theme = "furo"
html_title = f"kafkalog {release}"
html_show_copyright = False
# What is copied from a page must be what a shell and Python take: no dash in the place of --, no curled quotes.
smartquotes = False
python_maximum_signature_line_length = 100
myst_heading_anchors = 3
autodoc_member_order = "bysource"
# Attributes are fields of the docstring, and not members: those of a NamedTuple are described there, too.
napoleon_use_ivar = True
FIELD_OF_TUPLE = type(EndOfData.kind)


def _mark_code(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Turn `code` of a docstring, which is Markdown, into ``code``; keep what is indented in that of a module."""
    if what == "module":
        lines[:] = [line if line.startswith(" ") else _marked(line) for line in lines]
        _keep_layout(lines, re.compile(" "))
    else:
        lines[:] = _marked("\n".join(lines)).split("\n")


def _marked(text: str) -> str:
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``\\ ", text)


def _keep_lines(_app: Any, _context: Any, lines: list[str]) -> None:
    r"""Keep the layout of the lines after a \b in the help of a command, which sphinx-click begins with a bar."""
    _keep_layout(lines, re.compile(r" *\| "))


def _keep_layout(lines: list[str], begin: re.Pattern[str]) -> None:
    """Turn each block whose first line has a given beginning into a literal block."""
    kept: list[str] = []
    inside = False
    for line in lines:
        if not inside and begin.match(line):
            kept += ["", "::", ""]
        inside = bool(line) and (inside or bool(begin.match(line)))
        kept.append(f"   {begin.sub('', line, count=1) if begin.match(line) else line}" if inside else line)
    lines[:] = kept


def _is_field(_app: Any, _what: str, _name: str, found: Any, skip: bool, _options: Any) -> bool:
    """Leave out the fields of a NamedTuple among its members."""
    return skip or isinstance(found, FIELD_OF_TUPLE)


def _keep_colons(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Begin a property with a line of nothing: napoleon would take the words before a colon for its type."""
    if what in ("property", "attribute", "data"):
        lines.insert(0, "\\ ")


def _set_dashes(_app: Any, doctree: nodes.document) -> None:
    """Set the dashes between a parameter and its description, which Sphinx leaves to smart quotes."""
    for node in list(doctree.findall(nodes.Text)):
        if node == " -- ":
            node.parent.replace(node, nodes.Text(" \N{EN DASH} "))


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
    app.connect("autodoc-skip-member", _is_field)
    app.connect("doctree-read", _set_dashes)
    for part in ("description", "epilog"):
        app.connect(f"sphinx-click-process-{part}", _keep_lines)
    app.add_directive("fields-of-entry", FieldsOfEntry)
