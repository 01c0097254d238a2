from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Any, SupportsIndex, TypeAlias, TypeVar

_Member = TypeVar("_Member", bound=Enum)
Rule: TypeAlias = tuple[str, tuple[int, int, str] | type[Enum] | type[bool], bool]

INT16_MAX: int
INT32_MAX: int
INT64_MAX: int
EPOCH_MS: str
MS: str
BYTES: str

def whole(name: str, given: SupportsIndex | datetime, least: int, most: int, unit: str = "") -> int: ...
def member(name: str, given: _Member | int | str, kind: type[_Member]) -> _Member: ...
def flag(name: str, given: bool) -> bool: ...
def instance(name: str, given: Any, kind: type[Any], hint: str = "") -> Any: ...
def check_fields(settings: object, rules: Iterable[Rule]) -> None: ...
