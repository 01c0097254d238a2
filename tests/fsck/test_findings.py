"""Findings as values: their order, text and JSON."""

from __future__ import annotations

import errno
import json
import random
import re
from pathlib import Path

from kafkalog.fsck import findings
from kafkalog.fsck.consequences import RULES, Consequence, Severity
from kafkalog.fsck.findings import Finding, Summary

LOST = Finding("lost-bytes", "a/0.log", "no batch can be read", 100, 50, 7, 9, "at least 14", 0)


def test_a_finding_is_one_line() -> None:
    assert str(LOST) == (
        "a/0.log:100: error lost-bytes: no batch can be read (50 bytes, offsets 7..9, expected at least 14, found 0)"
    )
    assert str(Finding("segment-gone", "a\nb", "gone")) == "a\\nb: info segment-gone: gone"
    assert "offsets 7..)" in str(Finding("torn-tail", "p", "m", first_offset=7))


def test_a_finding_is_json() -> None:
    document = json.loads(json.dumps(LOST.as_dict()))
    assert document == {
        "severity": "error", "code": "lost-bytes", "path": "a/0.log", "message": "no batch can be read", "position":
        100, "length": 50, "first_offset": 7, "last_offset": 9, "expected": "at least 14", "found": 0,
            "partition": None,
        "consequence": "records-lost", "clean_start": RULES["lost-bytes"].clean,
        "unclean_start": RULES["lost-bytes"].unclean,
        "mend": "kafkalog salvage a COPY/a    # or, if other replicas have it: mv a ASIDE",
    }  # fmt: skip


def test_what_this_user_may_not_read_may_be_sound() -> None:
    refused = findings.unreadable("a", PermissionError(errno.EACCES, "Permission denied"))
    assert (refused.message, refused.consequence) == ("Permission denied", Consequence.DOUBTFUL)
    broken = findings.unreadable("a", OSError(errno.EIO, "Input/output error"))
    assert broken.consequence is Consequence.NO_START


def test_findings_sort_by_place() -> None:
    places = [
        Finding("unreadable", "a", "m"),
        Finding("lost-bytes", "a", "m", 0, 5),
        Finding("leader-epoch", "a", "m", 0, 5),
        Finding("lost-bytes", "a", "m", 10),
        Finding("lost-bytes", "b", "m", 0),
    ]
    shuffled = random.Random(1).sample(places, len(places))
    assert sorted(shuffled) == places


def test_a_summary_counts() -> None:
    summary = Summary()
    for code in ("unreadable", "torn-tail", "crc-mismatch"):
        summary.count(Finding(code, "p", "m"))
    assert (summary.errors, summary.warnings, summary.infos, summary.unreadable) == (2, 1, 0, 1)
    assert json.loads(json.dumps(summary.as_dict()))["codes"] == {"crc-mismatch": 1, "torn-tail": 1, "unreadable": 1}


def test_the_verdict_on_a_place_is_that_of_its_worst_finding() -> None:
    summary = Summary()
    for code, place in (("torn-tail", "a-0"), ("crc-mismatch", "a-0"), ("leader-epoch", "a-1"), ("lost-bytes", "a-0")):
        summary.count(Finding(code, place, "m"), place, "data")
    found = {path: (verdict.worst.code, verdict.as_dict()["errors"]) for path, verdict in summary.verdicts.items()}
    assert found == {"a-0": ("crc-mismatch", 2), "a-1": ("leader-epoch", 0), "data": ("crc-mismatch", 2)}


def test_a_torn_tail_is_cut_off_unless_the_segment_has_a_successor() -> None:
    assert Finding("torn-tail", "p", "m").severity is Severity.WARNING
    assert Finding("torn-tail", "p", "m", situation="sealed").severity is Severity.ERROR


def test_every_code_has_a_rule_and_every_rule_a_code() -> None:
    quoted = set()
    for source in Path(findings.__file__).parent.glob("*.py"):
        if source.name != "consequences.py":
            quoted |= set(re.findall(r'"([a-z]+(?:-[a-z0-9]+)*(?:, [a-z]+)?)"', source.read_text(encoding="utf-8")))
    assert {code for code in RULES if code not in quoted and "," not in code} == set()
    for key, rule in RULES.items():
        assert rule.clean
        assert rule.unclean
        code, _, situation = key.partition(", ")
        assert "{" not in (Finding(code, "data/orders-0", "m", situation=situation).mend or "")
