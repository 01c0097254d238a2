"""Sizes as people write them: `parse_size`."""

import re

_SIZE = re.compile(r"([0-9]+)([kmg]?)(?:i?b)?")
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30}


def parse_size(text: str) -> int:
    """Return the bytes in a text such as 65536, 64k, 64KB, 64KiB or 1g; 0 for any other text."""
    match = _SIZE.fullmatch(text.strip().lower())
    return int(match[1]) << _SHIFTS[match[2]] if match else 0
