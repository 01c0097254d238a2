"""The lists of public names in an `__init__.py` agree: for `import *`, for type checkers, and at run time."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import GetSetDescriptorType, ModuleType

import pytest

import kafkalog
import kafkalog._speedups.encoder
import kafkalog._speedups.output_stream
import kafkalog._speedups.record
import kafkalog.fsck
import kafkalog.record.control
import kafkalog.record.serialization


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


PUBLIC_CLASSES = [each for each in (getattr(kafkalog, name) for name in kafkalog.__all__) if inspect.isclass(each)] + [
    each
    for module in (kafkalog.record.control, kafkalog.record.serialization)
    for each in vars(module).values()
    if inspect.isclass(each) and each.__module__ == module.__name__ and not each.__name__.startswith("_")
]
COMPILED = (kafkalog._speedups.encoder, kafkalog._speedups.output_stream, kafkalog._speedups.record)


def listed(docstring: str) -> set[str]:
    """The names in the section `Attributes` of a docstring."""
    section = re.search(r"^Attributes:\n(.*?)(^\S|\Z)", docstring, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^    (\w+):", section[1], re.MULTILINE)) if section else set()


def described(kind: type) -> set[str]:
    """The attributes that a class describes: in its docstring, or in one of their own."""
    own = {
        name
        for name, value in vars(kind).items()
        if (isinstance(value, property | GetSetDescriptorType | classmethod | staticmethod) or callable(value))
        and value.__doc__
    }
    return own | (listed(inspect.getdoc(kind) or "") if kind in PUBLIC_CLASSES else set())


@pytest.mark.parametrize("public", PUBLIC_CLASSES)
def test_every_attribute_of_a_public_class_is_described(public: type) -> None:
    kinds = [kind for kind in public.__mro__ if kind.__module__.startswith("kafkalog")]
    parts = ("__annotations__", "_member_map_")
    names = {name for kind in kinds for name in (*vars(kind), *(n for part in parts for n in vars(kind).get(part, ())))}
    assert {name for name in names if not name.startswith("_")} - set().union(*map(described, kinds)) == set()


@pytest.mark.parametrize("module", COMPILED)
def test_editors_show_the_docstrings_of_compiled_classes(module: ModuleType) -> None:
    stub = ast.parse(
        Path(kafkalog.__file__).with_name("_speedups").joinpath(f"{module.__name__.rpartition('.')[2]}.pyi").read_text()
    )
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            kind = getattr(module, node.name)
            assert ast.get_docstring(node) == inspect.getdoc(kind)
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                    shown = ast.get_docstring(method) or None
                    said = inspect.getattr_static(kind, method.name).__doc__
                    assert shown == (inspect.cleandoc(said) if said else None)
