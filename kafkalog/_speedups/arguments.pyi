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

def whole(name: str, value: SupportsIndex | datetime, minimum: int, maximum: int, unit: str = "") -> int:
    """Return `value` as an int, after checking that it is in [minimum, maximum].

    Args:
        name: The name of the argument, for the error message.
        value: The integer; if `unit` is EPOCH_MS, it may be a datetime with a time zone.
        minimum: The smallest integer allowed.
        maximum: The largest integer allowed.
        unit: The unit, for the error message; "" = none.

    Raises:
        TypeError: The value is not an integer.
        ValueError: The integer is out of range, or the datetime has no time zone.
    """

def member(name: str, value: _Member | int | str, kind: type[_Member]) -> _Member:
    """Return `value` as a member of the enum `kind`.

    Args:
        name: The name of the argument, for the error message.
        value: The member, its name (case and underscores are ignored), or its number (`IntEnum` only).
        kind: The enum.

    Raises:
        TypeError: The value is of another type.
        ValueError: The enum has no member of that name or number.
    """

def flag(name: str, value: bool) -> bool:
    """Return `value`, after checking that it is True or False.

    Args:
        name: The name of the argument, for the error message.
        value: The flag.

    Raises:
        TypeError: The value is not a bool.
    """

def instance(name: str, value: Any, kind: type[Any], hint: str = "") -> Any:
    """Return `value`, after checking that it is an instance of the class `kind`.

    Args:
        name: The name of the argument, for the error message.
        value: The object.
        kind: The class.
        hint: Text that follows the name of the class in the error message, such as how to get an instance.

    Raises:
        TypeError: The object is not an instance of `kind`.
    """

def check_fields(settings: object, rules: Iterable[Rule]) -> None:
    """Check fields of a dataclass, and convert them to the types that their rules demand.

    Args:
        settings: An instance of a dataclass, which may be frozen. A field with the name or number of a member is set to
            the member, and one with a datetime to its ms since the epoch.
        rules: One (name, type, optional) per field. The type is (minimum, maximum, unit) for an integer, an enum, or
            bool; optional: whether None is allowed.

    Raises:
        TypeError: A field has a value of another type.
        ValueError: A field is out of range, or its enum has no such member.
    """
