"""`make demo` on the bundled archives."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from kafkalog.cli import tour
from tests.helpers import golden


@pytest.mark.slow
def test_the_demo_lists_verifies_and_prints_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert tour.main([str(golden.ARCHIVES)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n== ") == 7
    for word in ("$ kafkalog ls ", "$ kafkalog verify ", "$ kafkalog dump "):
        assert word in out
    assert list(tmp_path.iterdir()) == []


def test_the_demo_without_archives_prints_its_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert tour.main([str(tmp_path)]) == 3
    assert "usage: " in capsys.readouterr().err
