"""`gpucost collect aws` and `focus` as a user runs them: stdout, stderr, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.bills import csv_text, usage
from tests.unit.command import call

pytestmark = pytest.mark.ci
ROWS = [usage(hour) for hour in range(3)]


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "march.csv").write_text(csv_text(ROWS))
    return tmp_path


def test_replaced_and_left_out_bills_are_reported(at: Path) -> None:
    call("collect", "aws", "march.csv", "-q")
    assert "already loaded, unchanged" in call("collect", "aws", "march.csv")[0]
    (at / "part.csv").write_text(csv_text(ROWS[2:]))
    out, err = call("collect", "aws", "part.csv", code=1)
    assert "NOT loaded: the stored bill contains all of this one and more" in out
    assert "aws/111122223333 2026-03 was not loaded: the stored bill contains all of this one and more" in err
    assert "replaces the stored bill" in call("collect", "aws", "part.csv", "--force")[0]


def test_findings_and_errors_go_to_stderr(at: Path) -> None:
    (at / "zero.csv").write_text(csv_text([usage(UnblendedCost="0")]))
    out, err = call("collect", "aws", "zero.csv")
    assert "cost nothing" in err and "cost nothing" not in out
    assert call("collect", "aws", "zero.csv", "-q")[1] == ""
    (at / "notes.csv").write_text("a,b\n1,2\n")
    assert "not a known billing export" in call("collect", "aws", "notes.csv", code=1)[1]


def test_configured_paths_are_the_default_and_must_exist(at: Path) -> None:
    assert 'set exports = ["…"] under [aws]' in call("collect", "aws", code=2)[1]
    (at / "gpucost.toml").write_text('[aws]\nexports = ["march.csv"]\n')
    assert "3 rows" in call("collect", "aws")[0]
    assert "ftp://host/x" in call("collect", "aws", "ftp://host/x", code=2)[1]
