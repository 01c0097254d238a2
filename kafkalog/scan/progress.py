"""The progress of work that is done in steps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of work on a number of bytes."""

    done_bytes: int
    total_bytes: int

    @property
    def is_done(self) -> bool:
        """Whether all bytes known so far are done."""
        return self.done_bytes >= self.total_bytes
