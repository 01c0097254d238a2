"""Checks of arguments: integers in a range, members of enums, flags.

Each check raises TypeError for a value of the wrong type, and ValueError for one that is out of range. Both messages
name the argument and the value or type found.

    integer   an int, or an object with `__index__`; no bool, and no float: converting it would drop its fraction
    member    a member of an enum, its name as Kafka's settings write it ("lz4", "CreateTime", "read_committed"), or,
              for an `IntEnum`, its number
    time      an integer in ms since the epoch, or a datetime with a time zone
"""

from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int64_t

from datetime import datetime, timedelta, timezone
from enum import Enum, IntEnum
from operator import index

# A rule of `check_fields`: the name of a field, its type and range, and whether None is allowed.
Rule = tuple[str, tuple[int, int, str] | type[Enum] | type[bool], bool]

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

EPOCH_MS = "ms since the epoch"
MS = "ms"
BYTES = "bytes"

cdef object EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
cdef object MILLISECOND = timedelta(milliseconds=1)


cdef str of_unit(str unit):
    """Return the unit as the end of a phrase in an error message."""
    return f" of {unit}" if unit else ""


cdef str kind_of(object value):
    """Return the name of the type of a value."""
    return type(value).__name__


cdef object index_of(str name, object value, str unit):
    """Convert an integer, or a datetime if `unit` is EPOCH_MS, to an int."""
    if unit == EPOCH_MS and isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{name} is {value}: a datetime needs a time zone, such as tzinfo=datetime.UTC")
        return (value - EPOCH) // MILLISECOND
    if not isinstance(value, bool):
        try:
            return index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} is a whole number{of_unit(unit)}, not {kind_of(value)}")


cpdef object whole(str name, object value, int64_t minimum, int64_t maximum, str unit=""):
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
    cdef object number = value if PyLong_CheckExact(value) else index_of(name, value, unit)
    cdef int64_t c_number
    try:
        c_number = number
        if minimum <= c_number <= maximum:
            return number
    except OverflowError:
        pass
    what = f"{number} {unit}" if unit else str(number)
    raise ValueError(f"{name} is {what}: a whole number from {minimum} to {maximum} is needed")


cpdef object member(str name, object value, object kind):
    """Return `value` as a member of the enum `kind`.

    Args:
        name: The name of the argument, for the error message.
        value: The member, its name (case and underscores are ignored), or its number (`IntEnum` only).
        kind: The enum.

    Raises:
        TypeError: The value is of another type.
        ValueError: The enum has no member of that name or number.
    """
    if type(value) is kind:
        return value
    if isinstance(value, str):
        wanted = value.replace("_", "").upper()
        for each, found in kind.__members__.items():
            if each.replace("_", "") == wanted:
                return found
        raise ValueError(f"{name} is {value!r}, not one of {', '.join([each.lower() for each in kind.__members__])}")
    if issubclass(kind, IntEnum) and not isinstance(value, bool):
        try:
            return kind(index(value))
        except TypeError:
            pass
        except ValueError:
            allowed = ", ".join([f"{int(each)} {each.name}" for each in kind])
            raise ValueError(f"{name} is {value}, not one of {allowed}") from None
    hint = ", ".join([f"{kind.__name__}.{each.name}" for each in kind])
    raise TypeError(f"{name} is one of {hint}; not {value!r} ({kind_of(value)})")


cpdef object flag(str name, object value):
    """Return `value`, after checking that it is True or False.

    Args:
        name: The name of the argument, for the error message.
        value: The flag.

    Raises:
        TypeError: The value is not a bool.
    """
    if type(value) is bool:
        return value
    raise TypeError(f"{name} is True or False, not {value!r} ({kind_of(value)})")


def instance(str name, value, kind, str hint=""):
    """Return `value`, after checking that it is an instance of the class `kind`.

    Args:
        name: The name of the argument, for the error message.
        value: The object.
        kind: The class.
        hint: Text that follows the name of the class in the error message, such as how to get an instance.

    Raises:
        TypeError: The object is not an instance of `kind`.
    """
    if isinstance(value, kind):
        return value
    raise TypeError(f"{name} is a {kind.__name__}{hint}, not {kind_of(value)}")


def check_fields(settings, rules):
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
    for name, rule, optional in rules:
        value = getattr(settings, name)
        if value is None and optional:
            continue
        if type(rule) is tuple:
            found = whole(name, value, rule[0], rule[1], rule[2])
        elif rule is bool:
            found = flag(name, value)
        else:
            found = member(name, value, rule)
        if found is not value:
            # A frozen dataclass refuses an ordinary assignment.
            object.__setattr__(settings, name, found)
