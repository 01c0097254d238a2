"""What a caller gives, held against what is wanted, in one place: whole numbers, members of enums, flags.

TypeError: another kind, ValueError: out of range. Both name the argument, what it is counted in, and what was found.

A float is no whole number, though it may be one of ms: half of what it says would be lost. True is none either.
The number of a member of an `IntEnum` is taken for the member, and its name, as in Kafka's settings: "lz4",
"CreateTime", "read_committed". A datetime with a time zone is taken for its ms since the epoch.
"""

from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int64_t

from datetime import datetime, timedelta, timezone
from enum import Enum, IntEnum
from operator import index

# What `check_fields` wants of a field: its name, the range and unit or the kind, and whether None is one.
Rule = tuple[str, tuple[int, int, str] | type[Enum] | type[bool], bool]

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

EPOCH_MS = "ms since the epoch"
MS = "ms"
BYTES = "bytes"

cdef object EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
cdef object MILLISECOND = timedelta(milliseconds=1)


cdef str counted_in(str unit):
    return f" of {unit}" if unit else ""


cdef str kind_of(object given):
    return type(given).__name__


cdef object index_of(str name, object given, str unit):
    if unit == EPOCH_MS and isinstance(given, datetime):
        if given.tzinfo is None:
            raise ValueError(f"{name} is {given}: a datetime needs a time zone, such as tzinfo=datetime.UTC")
        return (given - EPOCH) // MILLISECOND
    if not isinstance(given, bool):
        try:
            return index(given)
        except TypeError:
            pass
    raise TypeError(f"{name} is a whole number{counted_in(unit)}, not {kind_of(given)}")


cpdef object whole(str name, object given, int64_t least, int64_t most, str unit=""):
    """`given` as an int from `least` to `most`."""
    cdef object number = given if PyLong_CheckExact(given) else index_of(name, given, unit)
    cdef int64_t value
    try:
        value = number
        if least <= value <= most:
            return number
    except OverflowError:
        pass
    what = f"{number} {unit}" if unit else str(number)
    raise ValueError(f"{name} is {what}: a whole number from {least} to {most} is needed")


cpdef object member(str name, object given, object kind):
    """`given` as a member of the enum `kind`."""
    if type(given) is kind:
        return given
    if isinstance(given, str):
        wanted = given.replace("_", "").upper()
        for each, found in kind.__members__.items():
            if each.replace("_", "") == wanted:
                return found
        raise ValueError(f"{name} is {given!r}, not one of {', '.join([each.lower() for each in kind.__members__])}")
    if issubclass(kind, IntEnum) and not isinstance(given, bool):
        try:
            return kind(index(given))
        except TypeError:
            pass
        except ValueError:
            allowed = ", ".join([f"{int(each)} {each.name}" for each in kind])
            raise ValueError(f"{name} is {given}, not one of {allowed}") from None
    hint = ", ".join([f"{kind.__name__}.{each.name}" for each in kind])
    raise TypeError(f"{name} is one of {hint}; not {given!r} ({kind_of(given)})")


cpdef object flag(str name, object given):
    """`given`, which is True or False."""
    if type(given) is bool:
        return given
    raise TypeError(f"{name} is True or False, not {given!r} ({kind_of(given)})")


def instance(str name, given, kind, str hint=""):
    """`given`, which is of this class. hint: where one comes from."""
    if isinstance(given, kind):
        return given
    raise TypeError(f"{name} is a {kind.__name__}{hint}, not {kind_of(given)}")


def check_fields(settings, rules):
    """Hold the fields of a dataclass to its rules: (name, what it is, whether it may be None).

    What it is: (least, most, unit) of a whole number; an enum; or bool. What is a number, or stands for a member,
    becomes it.
    """
    for name, rule, optional in rules:
        given = getattr(settings, name)
        if given is None and optional:
            continue
        if type(rule) is tuple:
            found = whole(name, given, rule[0], rule[1], rule[2])
        elif rule is bool:
            found = flag(name, given)
        else:
            found = member(name, given, rule)
        if found is not given:
            # Also where the dataclass is frozen.
            object.__setattr__(settings, name, found)
