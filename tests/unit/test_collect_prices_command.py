"""`gpucost collect prices`: its arguments to the collectors, and its messages about the result."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpucost.clouds import NoCredentials
from gpucost.collect import prices
from gpucost.collect.prices import PriceResult
from gpucost.errors import SourceError
from tests.unit.command import call

DONE = PriceResult("azure", ("eastus", "westus3"), prices=1234, priced_types=87)
PARTS = PriceResult("gcp", tuple("abcde"), prices=10, priced_types=2)
SKIPPED = PriceResult("aws", skipped=NoCredentials("aws: no credentials found", "aws configure"))
FAILED = PriceResult("gcp", error=SourceError("gcp: half an answer", "gpucost collect prices --provider gcp"))


class Fake:
    """A fake collector that records its arguments and returns `results`."""

    def __init__(self) -> None:
        self.results = [DONE]

    def __call__(
        self, _config: Any, _store: Any, providers: list[str], regions: list[str], _now: Any, tell: Any
    ) -> Any:
        self.called_with = providers, list(regions)
        tell("aws: us-east-1: instance types")
        return self.results


@pytest.fixture
def fake(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake()
    monkeypatch.setattr(prices, "collect_prices", fake)
    return fake


collect = partial(call, "collect", "prices")


def test_all_clouds_by_default(fake: Fake) -> None:
    out, err = collect()
    assert fake.called_with == (["aws", "gcp", "azure", "oci", "runpod", "vast"], [])
    assert out == "azure: 1,234 prices of 87 instance types in eastus, westus3\n"
    assert err == ""
    assert collect("-q") == ("", "")
    assert collect("-v")[1] == "aws: us-east-1: instance types\n"


def test_region_selects_its_cloud(fake: Fake) -> None:
    collect("--region", "us-east-1", "--region", "eu-west-1", "--region", "eastus")
    assert fake.called_with == (["aws", "azure"], ["us-east-1", "eu-west-1", "eastus"])
    _, err = collect("--provider", "gcp", "--region", "us-east-1", code=2)
    assert "invalid --region us-east-1: not a region of gcp" in err


def test_skipped_and_failed_clouds_are_reported(fake: Fake) -> None:
    fake.results = [SKIPPED, PARTS, DONE]
    out, err = collect()
    assert "gcp: 10 prices of 2 instance types in 5 regions\n" in out
    assert err == "aws: no credentials found; skipped (aws configure)\n"
    fake.results = [SKIPPED, FAILED, DONE]
    out, err = collect(code=1)
    assert out.startswith("azure:")
    assert "error: gcp: half an answer\nfix: gpucost collect prices --provider gcp\n" in err
    fake.results = [SKIPPED]
    _, err = collect("--provider", "aws", code=1)
    assert "error: no prices collected" in err
