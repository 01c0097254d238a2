"""Findings as values: their order, text and JSON."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from kafkalog.fsck import findings
from kafkalog.fsck.findings import Finding, Severity, Summary

LOST = Finding(Severity.ERROR, "lost-bytes", "a/0.log", "no batch can be read", 100, 50, 7, 9, "at least 14", 0)


def test_a_finding_is_one_line() -> None:
    assert str(LOST) == (
        "a/0.log:100: error lost-bytes: no batch can be read (50 bytes, offsets 7..9, expected at least 14, found 0)"
    )
    assert str(Finding(Severity.INFO, "segment-gone", "a\nb", "gone")) == "a\\nb: info segment-gone: gone"
    assert "offsets 7..)" in str(Finding(Severity.ERROR, "x", "p", "m", first_offset=7))


def test_a_finding_is_json() -> None:
    document = json.loads(json.dumps(LOST.as_dict()))
    assert document == {
        "severity": "error", "code": "lost-bytes", "path": "a/0.log", "message": "no batch can be read", "position":
        100, "length": 50, "first_offset": 7, "last_offset": 9, "expected": "at least 14", "found": 0,
    }  # fmt: skip


def test_findings_sort_by_place() -> None:
    places = [
        Finding(Severity.ERROR, "unreadable", "a", "m"),
        Finding(Severity.ERROR, "b", "a", "m", 0, 5),
        Finding(Severity.WARNING, "a", "a", "m", 0, 5),
        Finding(Severity.ERROR, "b", "a", "m", 10),
        Finding(Severity.ERROR, "b", "b", "m", 0),
    ]
    shuffled = random.Random(1).sample(places, len(places))
    assert sorted(shuffled) == places


def test_a_summary_counts() -> None:
    summary = Summary()
    for severity, code in (
        (Severity.ERROR, "unreadable"),
        (Severity.WARNING, "torn-tail"),
        (Severity.ERROR, "crc-mismatch"),
    ):
        summary.count(Finding(severity, code, "p", "m"))
    assert (summary.errors, summary.warnings, summary.infos, summary.unreadable) == (2, 1, 0, 1)
    assert json.loads(json.dumps(summary.as_dict()))["codes"] == {"crc-mismatch": 1, "torn-tail": 1, "unreadable": 1}


def test_every_code_is_described() -> None:
    described = findings.__doc__ or ""
    used = {"lost-bytes", "wrong-size", "torn-tail", "zeroed-tail", "preallocated-tail", "crc-mismatch"}
    for source in Path(findings.__file__).parent.glob("*.py"):
        text = source.read_text(encoding="utf-8")
        used |= {word for word in _quoted(text) if "-" in word and word.islower() and word.replace("-", "").isalpha()}
    assert {code for code in used if code not in described} == set()


def _quoted(text: str) -> list[str]:
    return re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text)
