"""What `gpucost prices` answers from the catalog alone: a price, its age and its source for what people rent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost.cli import prices as command
from gpucost.cli.app import app
from gpucost.cli.prices import listing_notes
from gpucost.errors import GpucostError
from gpucost.price.fx import FxRates
from gpucost.price.listing import PriceQuery, listing
from gpucost.store.connection import scratch_store

TODAY = date(2026, 11, 22)
AWS = {
    "p5.48xlarge": "us-east-1 us-east-2 us-west-2 ap-northeast-1 ap-south-1 eu-north-1",
    "p5e.48xlarge": "us-east-2 us-west-1 us-west-2 ap-northeast-1 ap-south-1 eu-north-1",
    "p5en.48xlarge": "us-east-1 us-east-2 us-west-2 ap-northeast-1 ap-south-1 eu-north-1",
    "p6-b200.48xlarge": "us-east-1 us-east-2 us-west-2 ap-south-1 us-gov-east-1 us-gov-west-1",
    "p4d.24xlarge": "us-east-1 us-east-2 us-west-2 ap-northeast-1 eu-west-1 eu-central-1",
    "g6e.48xlarge": "us-east-1 us-east-2 us-west-2 ap-northeast-1 eu-north-1 eu-central-1",
    "g5.xlarge": "us-east-1 us-east-2 us-west-2 ap-northeast-1 eu-west-1 eu-central-1",
    "g4dn.xlarge": "us-east-1 us-east-2 us-west-2 ap-northeast-1 eu-west-1 eu-central-1",
}
GCP = {
    "a3-highgpu-8g": "us-central1 us-east4 us-west1 europe-west4 asia-northeast1 asia-southeast1",
    "a2-highgpu-8g": "us-central1 us-east1 us-west1 europe-west4 asia-northeast1 asia-southeast1",
    "g2-standard-4": "us-central1 us-east4 us-west1 europe-west4 asia-northeast1 asia-southeast1",
    "a4-highgpu-8g": "us-central1",
    "ct5lp-hightpu-4t": "us-central1 us-east1 europe-west4 asia-southeast1",
    "ct6e-standard-4t": "us-central1 us-east1 europe-west4 asia-northeast1",
}
AZURE = {
    "Standard_ND96isr_H100_v5": "eastus eastus2 westus3 swedencentral japaneast canadacentral",
    "Standard_ND96isr_H200_v5": "eastus2 westus3 centralus francecentral japaneast australiaeast",
    "Standard_ND96isr_MI300X_v5": "eastus2 westus3 swedencentral francecentral centralus northeurope",
}
ANYWHERE = {
    "coreweave": "gd-8xh100ib-i128", "lambda": "gpu_8x_h100_sxm5", "nebius": "gpu-h100-sxm_8gpu-128vcpu-1600gb",
    "runpod": "1x_H100-SXM_SECURE", "crusoe": "h100-80gb-sxm-ib.8x", "together": "8x_H100-SXM", "hyperstack": "1x_H100-SXM",
    "vast": "1x_H100-SXM", "oci": "BM.GPU.H100.8",
}  # fmt: skip
ASKED = [
    *((name, region) for group in (AWS, GCP, AZURE) for name, regions in group.items() for region in regions.split()),
    *((name, "") for name in ANYWHERE.values()),
]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with scratch_store() as connection:
        listing(connection, "H100", ASKED_OF_ALL, FX)
        yield connection


ASKED_OF_ALL = PriceQuery(TODAY, "USD", 90, all_regions=True)
FX = FxRates("USD", {})


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """The rows that `gpucost prices` prints of a GPU."""
    folder = tmp_path_factory.mktemp("printed")

    @cache
    def rows(gpu: str) -> list[dict[str, Any]]:
        return list(json.loads(output_of(gpu, "--all-regions", "--format", "json", "-q"))["rows"])

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(folder))
        patch.setattr(command, "_today", lambda _: TODAY)
        yield rows


@pytest.mark.parametrize(("name", "region"), ASKED)
def test_what_people_rent_has_a_price_an_age_and_a_source(
    con: duckdb.DuckDBPyConnection, printed: Callable[[str], list[dict[str, Any]]], name: str, region: str
) -> None:
    [(gpu,)] = con.execute("SELECT DISTINCT gpu_model FROM listed_instances WHERE instance_type = ?", [name.lower()]).fetchall()
    rows_of_type = [row for row in printed(gpu) if row["instance_type"] == name and (row["region"] or "") == region]
    options = {row["purchase_option"] for row in rows_of_type}
    assert "on_demand" in options or (name in {"p5e.48xlarge", "p6-b200.48xlarge"} and "capacity_block" in options)
    assert all(row["price_per_gpu_hour"] > 0 and row["source"] for row in rows_of_type)
    assert all(date.fromisoformat(row["price_as_of"]) <= TODAY for row in rows_of_type)


@pytest.mark.parametrize("name", ["H100", "H200", "B200", "MI300X", "v5e", "v6e"])
def test_a_gpu_is_sold_by_several(con: duckdb.DuckDBPyConnection, name: str) -> None:
    rows = listing(con, name, PriceQuery(TODAY, "USD", 90), FX).rows
    assert len(rows) >= 4 and all(row.price_per_gpu_hour and row.source for row in rows)


def output_of(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["prices", *words])
    assert result.exit_code == code, result.output
    return result.output


def test_what_nobody_sells_on_demand_says_how_it_is_sold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    answer = output_of("p5e.48xlarge")
    assert "capacity block" in answer
    assert "p5e.48xlarge is not sold on demand by aws: sold as capacity blocks and spot (no on-demand SKU" in answer
    assert "sold as capacity blocks" in output_of("p5e.48xlarge", "--purchase-option", "on_demand", code=1)
    assert "not sold on demand by gcp: no price is public (absent from the price sheet" in output_of("a4x-maxgpu-4g", code=1)
    assert "no SKU in the Retail Prices API" in output_of("nd gb300 v6", code=1)
    assert "not sold" not in output_of("p5.48xlarge", "--region", "us-east-1")
    elsewhere = output_of("p5e.48xlarge", "--region", "us-east-1", code=1)
    assert "for the region us-east-1; there are" in elsewhere
    assert "not sold on demand by aws: sold as capacity blocks" in elsewhere
    assert "not sold on demand by aws: sold as capacity blocks" in output_of("p5e.48xlarge", "--provider", "gcp", code=1)
    assert "not sold" not in output_of("a4-highgpu-8g", "--region", "us-east-1", code=1)
    assert "flex start" in output_of("a3-megagpu-8g", "--purchase-option", "flex_start")


def test_what_has_a_price_on_demand_is_not_called_unsold_and_an_old_price_is_named(con: duckdb.DuckDBPyConnection) -> None:
    answer = listing(con, "a4-highgpu-8g", PriceQuery(TODAY, "USD", 90), FX)
    assert "on_demand" in {row.purchase_option for row in answer.rows}
    assert answer.not_sold_on_demand == ()
    answer = listing(con, "p5.48xlarge", PriceQuery(TODAY, "USD", 90), FX)
    assert answer.rows[0].is_stale and answer.cheapest_fresh is not None and not answer.cheapest_fresh.is_stale
    (remark,) = (words for words in listing_notes(answer) if words.startswith("the first price"))
    assert "p5.48xlarge spot, is 357 days old; the cheapest that is not stale: p5.48xlarge reserved, 3 years" in remark
    assert listing(con, "p5.48xlarge", PriceQuery(TODAY, "USD", 90, purchase_options=("on_demand",)), FX).cheapest_fresh is None
    with pytest.raises(GpucostError, match="no GPU or instance type"):
        listing(con, "p99.xlarge", PriceQuery(TODAY, "USD", 90), FX)
