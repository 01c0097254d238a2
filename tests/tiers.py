"""Run the tests tier by tier; say, by tier, how many passed, which failed, and why others were skipped.

The tier of a test is the last in this list whose mark the test bears; a test without a mark is in the tier `fast`:
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

RESULTS = Path(__file__).parents[1] / "build" / "tests"
PASSED, FAILED, INTERRUPTED, NOTHING_CHOSEN = 0, 1, 2, 5
"""Exit codes of pytest. Those between: it found an error of its own, or did not understand its options."""
MOST_FAILURES_LISTED = 30


@dataclass(frozen=True)
class Tier:
    """One run of pytest: `workers` for each processor, and how xdist hands the tests to them.

    A test that fails is run again up to `reruns` times, and listed even if it passes then: a busy machine may be slow
    to draw a screen or to start a broker.

    `loadfile` gives a file to one worker, as its tests share what takes long to start. Not `loadgroup`: xdist ignores
    groups from pytest 9.2 on (pytest-xdist issue 1386).
    """

    name: str
    text: str
    workers: float = 1
    distribution: str = "worksteal"
    examples: str = "fast"
    reruns: int = 0


TIERS = (
    Tier("fast", "units, golden logs, equivalence, and smoke tests of everything else"),
    Tier(
        "slow",
        "takes more than a second, starts a process, or needs a terminal or a server",
        workers=1.5,
        # A file that builds a wheel does so once.
        distribution="loadfile",
    ),
    Tier("tui", "presses keys in the inspector", workers=1.5, reruns=1),
    Tier("oracle", "asks Kafka's own classes (needs Java and Maven)", distribution="loadfile"),
    Tier("broker", "starts a Kafka broker (needs Java and Maven)", workers=1.5, distribution="loadfile", reruns=1),
    Tier("spark", "starts Spark (needs Java)", distribution="loadfile"),
)
PROPERTY = Tier("property", "the Hypothesis tests of all tiers again, with more examples", examples="more")
BY_NAME = {tier.name: tier for tier in (*TIERS, PROPERTY)}


@dataclass
class Counts:
    """The outcome of a tier."""

    passed: int = 0
    skipped: int = 0
    seconds: float = 0
    failures: list[str] = field(default_factory=list)
    rerun: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        return len(self.failures)


def marks(tier: Tier) -> str:
    """Return the expression for pytest's -m that chooses the tests of a tier."""
    if tier is PROPERTY:
        return "hypothesis"  # the mark that Hypothesis gives its tests itself
    later = [each.name for each in TIERS[TIERS.index(tier) + 1 :]]
    none_of_them = f"not ({' or '.join(later)})" if later else ""
    own = "" if tier is TIERS[0] else tier.name
    return " and ".join(filter(None, [own, none_of_them]))


def command(tier: Tier, options: Sequence[str]) -> list[str]:
    """Return the command that runs one tier; options come last, so that they win."""
    workers = max(1, round(tier.workers * (os.cpu_count() or 1)))
    how = ["-n", str(workers), "--dist", tier.distribution, "--durations=10", f"--junitxml={results_of(tier)}"]
    if tier.reruns:
        how.append(f"--reruns={tier.reruns}")
    return [sys.executable, "-m", "pytest", "-q", "-m", marks(tier), *how, *options]


def results_of(tier: Tier) -> Path:
    """Return the file for the results of the tier's last run."""
    return RESULTS / f"{tier.name}.xml"


def run(tier: Tier, options: Sequence[str]) -> int:
    """Run one tier and keep its results; return pytest's exit code."""
    results_of(tier).parent.mkdir(parents=True, exist_ok=True)
    results_of(tier).unlink(missing_ok=True)
    begun, used = time.monotonic(), _processor_seconds()
    print(f"--- {tier.name}: {tier.text}", flush=True)
    environment = {"KAFKALOG_EXAMPLES": tier.examples, **os.environ}
    # Else each worker of each tier compiles the asserts of every test file anew: ten seconds.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        code = subprocess.run(command(tier, options), check=False, env=environment).returncode
    except KeyboardInterrupt:
        code = INTERRUPTED
    took, used = time.monotonic() - begun, _processor_seconds() - used
    print(f"--- {tier.name}: {took:.0f} s, {used:.0f} s of processor time", flush=True)
    return code


def _processor_seconds() -> float:
    """Return the processor time of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_all(tiers: Sequence[Tier], options: Sequence[str], last_options: Sequence[str] = ()) -> int:
    """Run tiers one after the other, `last_options` for the last; return 0 or the first exit code of a failure.

    After failed tests the next tier runs; after any other error it does not. Options may choose no test of a tier, but
    not of all tiers.
    """
    codes = []
    for tier in tiers:
        codes.append(run(tier, [*options, *last_options] if tier is tiers[-1] else options))
        if codes[-1] not in (PASSED, FAILED, NOTHING_CHOSEN):
            return codes[-1]
    if options and {PASSED, FAILED} & {*codes}:
        codes = [code for code in codes if code != NOTHING_CHOSEN]
    return next((code for code in codes if code), PASSED)


def count(results: Path) -> Counts:
    """Count the tests of a JUnit file by outcome, and those that were skipped by reason."""
    counts = Counts()
    suite = next(ET.parse(results).iter("testsuite"))
    counts.seconds = float(suite.get("time", "0"))
    # Of a test that was run again there is a case for each run, the last with the outcome.
    cases: dict[str, ET.Element] = {}
    for case in suite.iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if name in cases:
            counts.rerun.append(name)
        cases[name] = case
    for name, case in cases.items():
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            counts.failures.append(name)
        elif skipped is not None:
            counts.skipped += 1
            counts.reasons[textwrap.shorten(skipped.get("message", ""), 150)] += 1
        else:
            counts.passed += 1
    return counts


def summary(tiers: Sequence[Tier]) -> str:
    """Return a table of the tiers, then reasons for skipping and failures by tier, and a last line with all counts."""
    found = {tier.name: count(results_of(tier)) for tier in tiers if results_of(tier).exists()}
    lines = [f"{'tier':<10}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"]
    for tier in tiers:
        if tier.name in found:
            each = found[tier.name]
            lines.append(f"{tier.name:<10}{each.passed:>8}{each.failed:>8}{each.skipped:>9}{each.seconds:>9.0f}")
        else:
            lines.append(f"{tier.name:<10}  no results")
    for name, counts in found.items():
        lines += [f"{name}: {number} skipped: {reason}" for reason, number in counts.reasons.most_common()]
    for name, counts in found.items():
        lines += [f"{name}: run again after a failure: {test}" for test in counts.rerun]
    for name, counts in found.items():
        lines += [f"{name}: failed: {failure}" for failure in counts.failures[:MOST_FAILURES_LISTED]]
        if counts.failed > MOST_FAILURES_LISTED:
            lines.append(f"{name}: failed: and {counts.failed - MOST_FAILURES_LISTED} more")
    passed, failed, skipped = (
        sum(getattr(counts, outcome) for counts in found.values()) for outcome in ("passed", "failed", "skipped")
    )
    return "\n".join([*lines, f"{passed} passed, {failed} failed, {skipped} skipped"])


def parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the arguments, and behind `--` the options for pytest."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    about, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.tiers",
        usage="%(prog)s [--done TIER] [--coverage] TIER ... [-- OPTION OF PYTEST ...]",
        description=about,
        epilog="\n".join([rest.strip(), *(f"  {tier.name:<9} {tier.text}" for tier in BY_NAME.values())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tiers", nargs="+", choices=BY_NAME, metavar="TIER", help="run this one")
    parser.add_argument(
        "--done", action="append", default=[], choices=BY_NAME, metavar="TIER", help="list the last results of this one"
    )
    parser.add_argument("--coverage", action="store_true", help="measure the branches that these tiers reach")
    chosen, options = parser.parse_args(arguments[:at]), list(arguments[at + 1 :])
    if any(option.startswith("-m") for option in options):
        parser.error("a tier chooses its tests by -m: choose among them by -k or by path, or run pytest itself")
    return chosen, options


def main(arguments: Sequence[str]) -> int:
    """Run the tiers that are named; return 0 if all tests passed, else an exit code of pytest."""
    chosen, options = parsed(arguments)
    tiers = [BY_NAME[name] for name in chosen.tiers]
    reports: list[str] = []
    if chosen.coverage:
        subprocess.run([sys.executable, "-m", "coverage", "erase"], check=True)
        options += ["--cov", "--cov-append", "--cov-report="]
        reports = ["--cov-report=term:skip-covered", "--cov-report=html:build/coverage"]
    code = run_all(tiers, options, reports)
    if code == INTERRUPTED:
        print("interrupted: what follows is incomplete")
    print(summary([BY_NAME[name] for name in chosen.done] + tiers))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
