"""Public names of a package that are imported on first use: `homes_of` and `imported`.

    _HOMES = homes_of({"kafkalog.storage.log": "Log"})

    def __getattr__(name: str) -> Any:
        return imported(__name__, _HOMES, name)

So `import kafkalog` imports no numpy and no kernel.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def homes_of(names: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name, given the names of each module, separated by spaces."""
    return {name: module for module, its_names in names.items() for name in its_names.split()}


def imported(package: str, homes: Mapping[str, str], name: str) -> Any:
    """Import a name of a package from its module, and keep it in the package.

    Raises:
        AttributeError: The package has no such name.
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(import_module(homes[name]), name)
    setattr(sys.modules[package], name, value)
    return value
