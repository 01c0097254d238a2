"""The input after `:`.

1042                    an offset
start, end, end-10      the first record, the last one, the one ten offsets before the log end
@2026-01-31T10:00       a time, by default in the zone in which times are shown; @2026-01-31 is its midnight
@1769853600000          a time in ms since the epoch, from 1973 on: fewer digits are a mistake
@-1h, @-30min, @-2d     a time before now
+4096, +0x1000          a byte of the selected segment
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ..columns import Times
from ..model.types import Byte, Offset, PartitionState, Target, Time

_AGO = re.compile(r"-(\d+)(s|min|m|h|d)")
_MILLISECONDS = {"s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_END = re.compile(r"end(?:-(\d+))?")
# Years, dates and seconds have fewer digits.
_EPOCH = re.compile(r"-?\d{11,}")


def target_of(typed: str, state: PartitionState, base_offset: int | None, times: Times) -> Target:
    """Parse the input.

    Args:
        typed: The input.
        state: The state of the partition, for its start and end.
        base_offset: The base offset of the selected segment, for a byte.
        times: The zone in which times are shown, and the present time.

    Raises:
        ValueError: The input has none of these forms; the message lists them.
    """
    wanted = typed.strip().replace(",", "").replace("_", "")
    try:
        if wanted.startswith("@"):
            return Time(_timestamp(wanted[1:].strip(), times))
        if wanted.startswith("+"):
            return Byte(int(wanted[1:], 0), base_offset)
        if wanted == "start":
            return Offset(state.log_start or 0)
        if (end := _END.fullmatch(wanted)) is not None:
            return Offset(max(0, (state.log_end or 0) - int(end[1] or 1)))
        return Offset(int(wanted))
    except (ValueError, OverflowError):
        forms = "an offset, start, end, end-10, @time (2026-01-31T10:00, -1h or ms since 1970) or +byte"
        raise ValueError(f"{typed.strip()!r}: expected {forms}") from None


def _timestamp(wanted: str, times: Times) -> int:
    if (ago := _AGO.fullmatch(wanted)) is not None:
        return times.now() - int(ago[1]) * _MILLISECONDS[ago[2]]
    if _EPOCH.fullmatch(wanted):
        return int(wanted)
    time = datetime.fromisoformat(wanted)
    if time.tzinfo is None:
        time = time.astimezone() if times.zone == "local" else time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)
