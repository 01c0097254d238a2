"""What is typed after `:`.

1042                    an offset
@2026-01-31T10:00       a time, in the zone that times are shown in unless it names one; @2026-01-31 its midnight
@1769853600000          the same in ms since the epoch
+4096, +0x1000          a byte of the segment that is looked at
"""

from __future__ import annotations

from datetime import UTC, datetime

from inspector.reading.answers import Byte, Offset, Target, Time


def target_of(typed: str, base_offset: int | None, zone: str) -> Target:
    """ValueError: it is none of these; the text says what is."""
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
