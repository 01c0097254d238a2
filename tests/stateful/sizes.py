"""How many examples of how many steps the state machines make, by KAFKALOG_EXAMPLES."""

from __future__ import annotations

from hypothesis import settings

FAST = 20
FAST_EXAMPLES, FAST_STEPS = 5, 12


def sized(share: int, steps: int) -> settings:
    """Return the settings of a state machine, each step of which takes `share` times as long as a usual example.

    steps: at most so many for each example, unless only few examples are asked for.
    """
    examples = settings().max_examples
    if examples <= FAST:
        return settings(max_examples=FAST_EXAMPLES, stateful_step_count=min(steps, FAST_STEPS))
    return settings(max_examples=examples // share, stateful_step_count=steps)
