"""Processes below one, as /proc shows them."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc/self/stat")


def descendants(pid: int) -> dict[int, str]:
    """The state of each process below one; Z: dead, and nobody has asked for its exit code."""
    parents, states = {}, {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = each.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        parents[int(each.parent.name)], states[int(each.parent.name)] = int(parent), state
    found: dict[int, str] = {}
    level = {pid}
    while level:
        level = {each for each, parent in parents.items() if parent in level}
        found.update((each, states[each]) for each in level)
    return found


def is_gone(pid: int) -> bool:
    """Or dead, where the first process of a container does not ask for exit codes."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
