"""The operations of a writer, and which records therefore must, may and must not be in the log afterwards.

must      acknowledged (after the loss of power: and flushed), not deleted, not truncated
may       of the operation that was cut off; after the loss of power also what was not flushed, or truncated and
          not flushed since
must not  anything else; anything at another offset, or twice
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

Found = Sequence[tuple[int, bytes | None]]


@dataclass(frozen=True)
class Operation:
    """`append` (values from offset on), `marker`, `truncate`, `delete` (to offset), `retention`, `flush`, others.

    producer: id, epoch, first sequence number, whether transactional.
    """

    kind: str
    offset: int = 0
    values: tuple[str, ...] = ()
    producer: tuple[int, int, int, bool] | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Operation:
        fields = json.loads(text)
        producer = fields["producer"]
        return Operation(
            fields["kind"], fields["offset"], tuple(fields["values"]), None if producer is None else tuple(producer)
        )


@dataclass
class History:
    """Records each operation before it begins and after it is done."""

    values: dict[int, bytes | None] = field(default_factory=dict)  # None: a marker, which no consumer sees
    lasts: dict[int, int] = field(default_factory=dict)  # the last offset of the batch that an offset is in
    stale: dict[int, set[bytes | None]] = field(default_factory=dict)
    start: int = 0
    deleted: int = 0  # the largest start there has been
    end: int = 0
    flushed: int = 0
    pending: Operation | None = None
    uncertain: list[Operation] = field(default_factory=list)
    truncations: list[int] = field(default_factory=list)  # the offset of each, done or begun

    def begin(self, operation: Operation) -> None:
        self.pending = operation
        if operation.kind == "truncate":
            self.truncations.append(operation.offset)

    def done(self, log_start: int) -> None:
        """The operation has returned; the log starts there now."""
        operation = self.pending
        assert operation is not None
        self.pending = None
        if operation.kind in ("append", "marker"):
            self._append(operation)
        elif operation.kind == "truncate":
            self._truncated(operation.offset)
        elif operation.kind == "flush":
            self.flushed = self.end
            self.stale.clear()
        self.start = log_start
        self.deleted = max(self.deleted, log_start)

    def failed(self, log_end: int, *, refused: bool, whole: bool) -> None:
        """The operation has raised. refused: before it began. whole: the log takes more.

        Where the log's end has moved all the same, what was appended is in the log. Where the log takes no more, and
        of what deletes records, anything between nothing and all has been done.
        """
        operation = self.pending
        assert operation is not None
        self.pending = None
        appended = operation.kind in ("append", "marker")
        if appended and log_end > self.end:
            self._append(operation)
        elif not refused and (operation.kind in ("truncate", "delete", "retention") or (appended and not whole)):
            self.uncertain.append(operation)

    def _append(self, operation: Operation) -> None:
        batch = self._of(operation)
        for offset, value in batch:
            self.values[offset], self.lasts[offset] = value, batch[-1][0]
            if value is not None:
                self.stale.setdefault(offset, set()).add(value)
        self.end = batch[-1][0] + 1

    def _truncated(self, offset: int) -> None:
        for at in [at for at in self.values if self.lasts[at] >= offset]:
            value = self.values.pop(at)
            if value is not None:
                self.stale.setdefault(at, set()).add(value)
        self.end = min(self.end, offset)
        self.flushed = min(self.flushed, offset)

    def end_of_batches(self) -> int:
        return max((self.lasts[offset] + 1 for offset in self.values), default=0)

    @staticmethod
    def _of(operation: Operation) -> list[tuple[int, bytes | None]]:
        if operation.kind == "marker":
            return [(operation.offset, None)]
        return [(operation.offset + i, value.encode()) for i, value in enumerate(operation.values)]

    # --- afterwards

    def check(self, found: Found, *, power_lost: bool = False) -> None:
        """AssertionError: the records found are not what they must be."""
        offsets = [offset for offset, _ in found]
        assert offsets == sorted(set(offsets)), f"offsets do not rise: {offsets}"
        values = [value for _, value in found]
        assert len(set(values)) == len(values), (
            f"records twice: {sorted(shown(v) for v in values if values.count(v) > 1)}"
        )
        there = dict(found)
        for offset, value in self._required(offsets, power_lost).items():
            assert there.get(offset) == value, (
                f"acknowledged {shown(value)} at {offset}, found {shown(there.get(offset))}; {self}; found {offsets}"
            )
        for offset, read in found:
            allowed = self._allowed(offset, power_lost)
            assert read in allowed, (
                f"at {offset} {shown(read)} was found, not one of {set(map(shown, allowed))}; {self}"
            )

    def _required(self, found: Sequence[int], power_lost: bool) -> dict[int, bytes]:
        first, end = self.start, min(self.end, self.flushed) if power_lost else self.end
        for each in [*self.uncertain, self.pending]:
            if each is not None and each.kind == "truncate":
                end = min(end, each.offset)
            elif each is not None and each.kind == "delete":
                first = max(first, each.offset)
            elif each is not None and each.kind == "retention":
                first = max(first, min(found, default=self.end))
        batches = {at: each for at, each in self.values.items() if at >= first and self.lasts[at] < end}
        return {at: each for at, each in batches.items() if each is not None}

    def _allowed(self, offset: int, power_lost: bool) -> set[bytes | None]:
        allowed = {self.values.get(offset)}
        for each in [*self.uncertain, self.pending]:
            if each is not None and each.kind == "append":
                allowed |= {value for at, value in self._of(each) if at == offset}
        if power_lost and offset >= self.flushed:
            allowed |= self.stale.get(offset, set())
        return allowed

    def adopt(self, found: Found, lasts: dict[int, int], start: int, end: int) -> None:
        """The log has been opened again: from here on it is what was found. lasts: see above."""
        self.values = {offset: value for offset, value in self.values.items() if value is None and offset < end}
        self.values |= dict(found)
        self.stale = {offset: {value} for offset, value in found}
        self.lasts |= lasts
        self.start, self.end, self.flushed, self.pending = start, end, end, None
        self.uncertain.clear()

    def __str__(self) -> str:
        pending = self.pending and (self.pending.kind, self.pending.offset, len(self.pending.values))
        return f"start {self.start}, flushed {self.flushed}, end {self.end}, pending {pending}"


def shown(value: bytes | None) -> str:
    """Return the part of a value that distinguishes it from others."""
    return "none" if value is None else value.partition(b":")[0].decode()
