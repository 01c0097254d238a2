"""The input after `:`.

1042                    an offset
@2026-01-31T10:00       a time, by default in the zone in which times are shown; @2026-01-31 is its midnight
@1769853600000          a time in ms since the epoch
+4096, +0x1000          a byte of the selected segment
"""

from __future__ import annotations

from datetime import UTC, datetime

from ..model.types import Byte, Offset, Target, Time


def target_of(typed: str, base_offset: int | None, zone: str) -> Target:
    """Parse the input.

    Args:
        typed: The input.
        base_offset: The base offset of the selected segment, for a byte.
        zone: The zone in which times are shown.

    Raises:
        ValueError: The input has none of these forms; the message lists them.
    """
    wanted = typed.strip().replace(",", "").replace("_", "")
    try:
        if wanted.startswith("@"):
            return Time(_timestamp(wanted[1:].strip(), zone))
        if wanted.startswith("+"):
            return Byte(int(wanted[1:], 0), base_offset)
        return Offset(int(wanted))
    except (ValueError, OverflowError):
        raise ValueError(f"{typed.strip()!r}: expected an offset, @time (2026-01-31T10:00 or ms) or +byte") from None


def _timestamp(wanted: str, zone: str) -> int:
    if wanted.lstrip("-").isdigit():
        return int(wanted)
    time = datetime.fromisoformat(wanted)
    if time.tzinfo is None:
        time = time.astimezone() if zone == "local" else time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)
