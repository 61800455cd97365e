"""Options that what-ifs cannot use: what is said, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app

OWN = ("--purchase-price", "280000", "--gpu-watts", "700", "--years", "4", "--price-per-kwh", "0.12")


@pytest.mark.parametrize(
    ("command", "words", "code", "said"),
    [
        ("reserve", ["--nodes", "4"], 2, "price on demand is missing"),
        ("reserve", ["--nodes", "4", "--on-demand-price", "-3"], 2, "no number above 0"),
        ("reserve", ["--nodes", "4", "--on-demand-price", "3"], 1, "no price of a commitment"),
        ("reserve", ["--on-demand-price", "3", "--commitment-price", "2=1"], 2, "nobody sells 2 years"),
        ("reserve", ["--on-demand-price", "3", "--commitment-price", "1=-1"], 2, "no number above 0"),
        ("reserve", ["--on-demand-price", "3", "--commitment-discount", "1=100"], 2, "at most 99"),
        ("reserve", ["--on-demand-price", "3", "--team", "x"], 2, "leave out"),
        ("reserve", ["--nodes", "1", "--instance-type", "p99.large"], 1, "no GPU or instance type is called"),
        ("reserve", ["--nodes", "1", "--instance-type", "a2-highgpu-8g"], 2, "--region names one"),
        ("reserve", ["--nodes", "1", "--instance-type", "1x_H200"], 2, "digitalocean and vast, and no region tells them apart"),
        ("reserve", ["--hours", "1e9", "--on-demand-price", "3"], 2, "at most 87,840"),
        ("reserve", ["--curve", "none.csv", "--on-demand-price", "3"], 1, "cannot read none.csv"),
        ("reserve", ["--term-years", "2"], 2, "2 years"),
        ("reserve", ["--payment-option", "gift"], 2, "gift is not known"),
        ("reserve", [], 1, "there is no store"),
        ("buy", ["--nodes", "2", "--on-demand-price", "3"], 2, "purchase_price"),
        ("buy", [*OWN, "--nodes", "2"], 2, "the cloud's price is missing"),
        ("buy", [*OWN, "--nodes", "2", "--on-demand-price", "0"], 2, "no number above 0"),
        ("buy", [*OWN, "--nodes", "2", "--month", "2026-10"], 2, "leave out"),
        ("buy", [*OWN, "--nodes", "2", "--instance-type", "p99.large"], 1, "no GPU or instance type is called"),
        ("buy", ["none.toml", "--nodes", "2"], 1, "cannot read none.toml"),
        ("buy", [*OWN, "--residual-percent", "120", "--nodes", "1", "--on-demand-price", "3"], 2, "--residual-percent is 120"),
        ("buy", [*OWN, "--lead-months", "-1"], 2, "no number from 0"),
        ("buy", [*OWN], 1, "there is no store"),
        ("burst", ["--spot-price", "3"], 2, "no place to compare with"),
        ("burst", ["--nodes", "3"], 2, "the primary's spot price is missing"),
        ("burst", ["--spot-price", "-3"], 2, "no number above 0"),
        ("burst", ["--spot-price", "3", "--place", "x"], 2, "no NAME=MONEY"),
        ("burst", ["--spot-price", "3", "--place", "x=0"], 2, "no number above 0"),
        ("burst", ["--spot-price", "3", "--place", "x=1", "--hours", "1e9"], 2, "at most 87,840"),
        ("burst", ["--spot-price", "3", "--place", "x=1", "--at-most-percent", "120"], 2, "at most 100"),
        ("burst", ["--spot-price", "3", "--place", "x=1", "--last", "7d"], 2, "leave out"),
        ("burst", ["--instance-type", "p99.large"], 1, "no GPU or instance type is called"),
        ("burst", ["--region", "us-east-1"], 2, "--region needs --instance-type"),
        ("burst", [], 1, "there is no store"),
        ("egress", [], 2, "--gb-per-start is missing"),
        ("egress", ["--gb-per-start", "-1"], 2, "no number above 0"),
        ("egress", ["--gb-per-start", "1", "--nodes", "2", "--starts-per-day", "3"], 2, "leave out one"),
        ("egress", ["--gb-per-start", "1", "--nodes", "2", "--month", "2026-10"], 2, "leave out"),
        ("egress", ["--gb-per-start", "1", "--nodes", "2", "--price-per-gb", "-1"], 2, "no number from 0"),
        ("egress", ["--gb-per-start", "1", "--nodes", "2", "--days", "99999"], 2, "3660"),
        ("egress", ["--gb-per-start", "1", "--nodes", "2", "--cache-gbit-per-second", "0"], 2, "no number above 0"),
        ("egress", ["--gb-per-start", "1", "--days", "3"], 2, "how many starts"),
        ("egress", ["--gb-per-start", "1"], 1, "there is no store"),
    ],
)
def test_wrong_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, words: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["whatif", command, *words])
    assert result.exit_code == code, result.output
    assert said in result.output
