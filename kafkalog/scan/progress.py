"""How far work that goes on in steps has come."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How many bytes of how many have been worked on."""

    done_bytes: int
    total_bytes: int

    @property
    def is_done(self) -> bool:
        """Whether there is no more to do for now."""
        return self.done_bytes >= self.total_bytes
