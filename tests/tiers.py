"""Run the tests tier by tier and list, by tier, how many passed and why others were skipped.

    python -m tests.tiers fast                              what `make test` runs
    python -m tests.tiers slow spark -- -k writer           chosen tiers; behind --, options of pytest
    python -m tests.tiers --done fast tui slow ...          counts of `fast` are those of its last run

The tier of a test is the last of `TIERS` whose mark it bears; a test without a mark is in the tier `fast`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

RESULTS = Path(__file__).parents[1] / "build" / "tests"
NO_TEST_WAS_CHOSEN = 5


@dataclass(frozen=True)
class Tier:
    """One way to run pytest: `workers` for each processor, and how the tests are handed to them."""

    name: str
    workers: float = 1
    distribution: str = "loadgroup"
    examples: str = "fast"


TIERS = (
    Tier("fast", distribution="worksteal"),
    Tier("slow", workers=1.5),
    Tier("tui", workers=1.5, distribution="worksteal"),
    Tier("oracle"),
    Tier("broker", workers=1.5),
    Tier("spark"),
)
# Hypothesis marks its tests itself; they are in other tiers too, and draw more examples here.
PROPERTY = Tier("property", distribution="worksteal", examples="more")
BY_NAME = {tier.name: tier for tier in (*TIERS, PROPERTY)}


@dataclass
class Counts:
    """What became of the tests of a tier."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0
    reasons: Counter[str] = field(default_factory=Counter)


def marks(tier: Tier) -> str:
    """Return the expression for pytest's -m that chooses the tests of a tier."""
    if tier is PROPERTY:
        return "hypothesis"
    later = [each.name for each in TIERS[TIERS.index(tier) + 1 :]]
    none_of_them = f"not ({' or '.join(later)})" if later else ""
    own = "" if tier.name == "fast" else tier.name
    return " and ".join(filter(None, [own, none_of_them]))


def run(tier: Tier, options: Sequence[str]) -> int:
    """Run one tier and keep its results; return pytest's exit code."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = results_of(tier)
    kept.unlink(missing_ok=True)
    workers = max(1, round(tier.workers * (os.cpu_count() or 1)))
    command = [sys.executable, "-m", "pytest", "-q", "-m", marks(tier), "-n", str(workers), "--dist", tier.distribution]
    command += ["--durations=10", f"--junitxml={kept}", *options]
    begun = time.monotonic()
    print(f"--- {tier.name}", flush=True)
    code = subprocess.run(command, check=False, env={"KAFKALOG_EXAMPLES": tier.examples, **os.environ}).returncode
    print(f"--- {tier.name}: {time.monotonic() - begun:.0f} s", flush=True)
    return 0 if code == NO_TEST_WAS_CHOSEN and options else code


def results_of(tier: Tier) -> Path:
    return RESULTS / f"{tier.name}.xml"


def count(results: Path) -> Counts:
    """Count the tests of a JUnit file by outcome, and those that were skipped by reason."""
    counts = Counts()
    suite = next(ET.parse(results).iter("testsuite"))
    counts.seconds = float(suite.get("time", "0"))
    for case in suite.iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            counts.failed += 1
        elif skipped is not None:
            counts.skipped += 1
            counts.reasons[skipped.get("message", "")] += 1
        else:
            counts.passed += 1
    return counts


def summary(tiers: Sequence[Tier]) -> str:
    """Return a table of the tiers, the reasons for skipping, and a last line with all counts."""
    found = {tier.name: count(results_of(tier)) for tier in tiers if results_of(tier).exists()}
    lines = [f"{'tier':<10}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}"]
    for name, counts in found.items():
        lines.append(f"{name:<10}{counts.passed:>8}{counts.failed:>8}{counts.skipped:>8}{counts.seconds:>9.0f}")
        lines += [f"{'':10}{number} skipped: {reason}" for reason, number in counts.reasons.most_common()]
    passed, failed, skipped = (
        sum(getattr(counts, outcome) for counts in found.values()) for outcome in ("passed", "failed", "skipped")
    )
    return "\n".join([*lines, f"{passed} passed, {failed} failed, {skipped} skipped"])


def main(arguments: Sequence[str]) -> int:
    """Run the tiers named; return 1 if one failed."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = list(arguments[at + 1 :])
    parser = argparse.ArgumentParser(prog="python -m tests.tiers", description=__doc__.partition("\n")[0])
    parser.add_argument("tiers", nargs="+", choices=BY_NAME, metavar="TIER", help=", ".join(BY_NAME))
    parser.add_argument("--done", action="append", default=[], choices=BY_NAME, help="a tier that was run just before")
    parser.add_argument("--coverage", action="store_true", help="measure the branches that these tiers reach")
    chosen = parser.parse_args(arguments[:at])
    tiers = [BY_NAME[name] for name in chosen.tiers]
    if chosen.coverage:
        options += ["--cov", "--cov-append", "--cov-report=term:skip-covered", "--cov-report=html:build/coverage"]
    codes = [run(tier, options) for tier in tiers]
    print(summary([BY_NAME[name] for name in chosen.done] + tiers))
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
