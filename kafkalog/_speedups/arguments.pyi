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

def whole(name: str, value: SupportsIndex | datetime, minimum: int, maximum: int, unit: str = "") -> int: ...
def member(name: str, value: _Member | int | str, kind: type[_Member]) -> _Member: ...
def flag(name: str, value: bool) -> bool: ...
def instance(name: str, value: Any, kind: type[Any], hint: str = "") -> Any: ...
def check_fields(settings: object, rules: Iterable[Rule]) -> None: ...
