"""Compare the speed of two commits with asv; exit code 1 if a case is slower by a quarter, and again when repeated.

    python asv_bench/compare.py                              the last commit beside the one before
    python asv_bench/compare.py main work                    two branches
    python asv_bench/compare.py --bench record_columns       only these cases, by a regular expression; repeatable

asv builds both commits, each into the same environment in turn, and measures them in turn, too. Committed files are
compared, not those of the clone; the cases are those of the clone. A case that fails only in the second commit counts
as slower. Rates (`track_`) are left out: asv takes less for better.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent
ASV = (sys.executable, "-m", "asv")
FACTOR = 1.25
# The cases of which less is better.
CASES = r".*\.(time|peakmem)_"
# A line of asv's table: the mark, both figures, the ratio, the case.
SLOWER = re.compile(r"^\| [+!] +\|.*\| (\S.*?) +\|$", re.MULTILINE)


def main() -> int:
    """Compare, and compare again what came out slower."""
    parser = argparse.ArgumentParser(
        prog="compare.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", nargs="?", default="HEAD~1", help="the commit to compare with (default: %(default)s)")
    parser.add_argument("commit", nargs="?", default="HEAD", help="the commit to measure (default: %(default)s)")
    parser.add_argument("--bench", action="append", default=[], help="only cases whose name contains a match")
    options = parser.parse_args()
    subprocess.run([*ASV, "machine", "--yes"], cwd=DIRECTORY, check=True, capture_output=True)
    slower = _slower(options.base, options.commit, [f"^(?=.*{each}){CASES}" for each in options.bench or [""]])
    if slower:
        print(f"\n{len(slower)} cases came out slower; once more:\n", flush=True)
        slower = _slower(options.base, options.commit, [f"^{re.escape(case)}$" for case in slower])
    for case in slower:
        print(f"slower by a quarter or more, twice: {case}")
    return 1 if slower else 0


def _slower(base: str, commit: str, patterns: Iterable[str]) -> list[str]:
    """The cases that are slower in the second commit, as asv judges samples."""
    cases = [word for pattern in patterns for word in ("--bench", pattern)]
    code, said = _asv("continuous", "--interleave-rounds", "--factor", str(FACTOR), *cases, base, commit)
    found = SLOWER.findall(said)
    if code and not found:
        raise SystemExit(2)
    return found


def _asv(*arguments: str) -> tuple[int, str]:
    """Run asv, which prints while it works; its exit code, and what it printed."""
    lines = []
    with subprocess.Popen(
        [*ASV, *arguments],
        cwd=DIRECTORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        assert run.stdout
        for line in run.stdout:
            lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()
    return run.returncode, "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
