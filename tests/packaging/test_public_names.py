"""The lists of public names in `kafkalog/__init__.py` agree: for `import *`, for type checkers, and at run time."""

from __future__ import annotations

import ast
from pathlib import Path

import kafkalog


def typed_imports() -> dict[str, str]:
    """Each name that type checkers see imported from kafkalog, and the module it comes from."""
    tree = ast.parse(Path(kafkalog.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    found = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {each.name: str(node.module) for node in found for each in node.names}


def test_every_public_name_is_typed_where_it_is_found() -> None:
    imports = typed_imports()
    assert kafkalog.__all__ == sorted(set(kafkalog.__all__))
    assert {name: imports[name] for name in kafkalog.__all__ if name != "errors"} == kafkalog._HOMES
    assert all(getattr(kafkalog, name) is not None for name in kafkalog.__all__)
