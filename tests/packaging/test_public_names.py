"""The lists of public names in an `__init__.py` agree: for `import *`, for type checkers, and at run time."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

import pytest

import kafkalog
import kafkalog.fsck


def typed_imports(package: ModuleType) -> dict[str, str]:
    """Each name that type checkers see imported from a package, and the module it comes from."""
    tree = ast.parse(inspect.getsource(package))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    found = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {each.name: str(node.module) for node in found for each in node.names}


@pytest.mark.parametrize("package", [kafkalog, kafkalog.fsck])
def test_every_public_name_is_typed_where_it_is_found(package: ModuleType) -> None:
    imports = typed_imports(package)
    assert package.__all__ == sorted(set(package.__all__))
    assert {name: imports[name] for name in package.__all__ if name != "errors"} == package._HOMES
    assert all(getattr(package, name) is not None for name in package.__all__)
