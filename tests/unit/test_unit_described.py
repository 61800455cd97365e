"""`gpucost unit epoch|requests|tokens` by options alone, without a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def asked(words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["unit", *words.split()])
    assert result.exit_code == code, result.output
    return result.output


# 20 an hour for 9,000 × 3,600 × 0.4 tokens
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "tokens --gpus 8 --price-per-gpu-hour 2.5 --tokens-per-second 9000 --busy-percent 40",
            {"cost_per_hour": 20, "per": 1_000_000, "cost": 20 / (9000 * 3600 * 0.4) * 1e6},
        ),
        (
            "requests --gpus 2 --price-per-gpu-hour 1.2 --requests-per-second 15 --busy-percent 40",
            {"cost": 2.4 / (15 * 3600 * 0.4) * 1000},
        ),
        (
            "epoch --gpus 16 --price-per-gpu-hour 3 --hours-per-epoch 3 --planned-epochs 20",
            {"cost": 144, "planned_hours": 60, "planned_cost": 2880},
        ),
    ],
)
def test_what_is_described_has_its_price(words: str, expected: dict[str, float]) -> None:
    answer = json.loads(asked(f"{words} --format json"))
    assert {name: answer[name] for name in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tokens --gpus 8 --tokens-per-second 9000", "--price-per-gpu-hour and --busy-percent are missing"),
        ("epoch --hours-per-epoch 2", "--gpus and --price-per-gpu-hour are missing"),
        ("requests --gpus 8 --team x", "--gpus describes work by options, --team asks for that in the store"),
        (
            "epoch --gpus 8 --month 2026-10",
            "--gpus describes work by options, a period asks for that in the store",
        ),
        ("tokens --tokens-per-second 0", "'0' is no number above 0"),
    ],
)
def test_what_is_missing_or_asks_for_a_store(words: str, message: str) -> None:
    assert message in asked(words, code=2)
