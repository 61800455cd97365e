"""`gpucost prices` from the catalog alone: price, age and source of common instance types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import duckdb
import pytest

from gpucost.errors import GpucostError
from gpucost.price import listing as prices
from gpucost.price.fx import FxRates
from gpucost.price.listing import PriceQuery, listing
from gpucost.questions.prices import listing_notes
from gpucost.store.connection import scratch_store
from tests.text_tables import text_rows

TODAY = date(2026, 11, 22)
# common instance types, and their regions
COMMON = """
p5.48xlarge | us-east-1 us-east-2 us-west-2 ap-northeast-1 ap-south-1 eu-north-1
p5e.48xlarge | us-east-2 us-west-1 us-west-2 ap-northeast-1 ap-south-1 eu-north-1
p5en.48xlarge | us-east-1 us-east-2 us-west-2 ap-northeast-1 ap-south-1 eu-north-1
p6-b200.48xlarge | us-east-1 us-east-2 us-west-2 ap-south-1 us-gov-east-1 us-gov-west-1
p4d.24xlarge | us-east-1 us-east-2 us-west-2 ap-northeast-1 eu-west-1 eu-central-1
g6e.48xlarge | us-east-1 us-east-2 us-west-2 ap-northeast-1 eu-north-1 eu-central-1
g5.xlarge | us-east-1 us-east-2 us-west-2 ap-northeast-1 eu-west-1 eu-central-1
g4dn.xlarge | us-east-1 us-east-2 us-west-2 ap-northeast-1 eu-west-1 eu-central-1
a3-highgpu-8g | us-central1 us-east4 us-west1 europe-west4 asia-northeast1 asia-southeast1
a2-highgpu-8g | us-central1 us-east1 us-west1 europe-west4 asia-northeast1 asia-southeast1
g2-standard-4 | us-central1 us-east4 us-west1 europe-west4 asia-northeast1 asia-southeast1
a4-highgpu-8g | us-central1
ct5lp-hightpu-4t | us-central1 us-east1 europe-west4 asia-southeast1
ct6e-standard-4t | us-central1 us-east1 europe-west4 asia-northeast1
Standard_ND96isr_H100_v5 | eastus eastus2 westus3 swedencentral japaneast canadacentral
Standard_ND96isr_H200_v5 | eastus2 westus3 centralus francecentral japaneast australiaeast
Standard_ND96isr_MI300X_v5 | eastus2 westus3 swedencentral francecentral centralus northeurope
gd-8xh100ib-i128 |
gpu_8x_h100_sxm5 |
gpu-h100-sxm_8gpu-128vcpu-1600gb |
1x_H100-SXM_SECURE |
h100-80gb-sxm-ib.8x |
8x_H100-SXM |
1x_H100-SXM |
1x_H100-SXM |
BM.GPU.H100.8 |
"""
QUERY = PriceQuery(TODAY, FxRates("USD", {}), 90)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """The catalog; its prices are prepared once."""
    prepare = prices._prepare
    with scratch_store() as connection, pytest.MonkeyPatch.context() as patch:
        prepare(connection, QUERY)
        patch.setattr(
            prices, "_prepare", lambda con, query: None if con is connection else prepare(con, query)
        )
        yield connection


def test_common_instance_types_have_a_price_an_age_and_a_source(con: duckdb.DuckDBPyConnection) -> None:
    models = dict(con.execute("SELECT lower(instance_type), gpu_model FROM listed_instances").fetchall())
    wanted_types = text_rows(COMMON)
    wanted = {models[name.lower()] for name, _ in wanted_types}
    rows = [row for gpu in wanted for row in listing(con, gpu, QUERY).rows]
    assert all(
        row.price_per_gpu_hour and row.price_per_gpu_hour > 0 and row.source and row.price_as_of <= TODAY
        for row in rows
    )
    sold = {(row.instance_type, row.region or "", row.purchase_option) for row in rows}
    places = [(name, region) for name, regions in wanted_types for region in regions.split() or [""]]
    assert len(places) == 102
    # some are not sold on demand in every region
    assert {name for name, region in places if (name, region, "on_demand") not in sold} == {
        "p5e.48xlarge",
        "p6-b200.48xlarge",
    }
    ways = ("on_demand", "capacity_block")
    for model in ("H100-80GB-HBM3", "H200", "B200", "MI300X", "TPU-v5e", "TPU-v6e"):
        assert sum(row.gpu_model == model for row in rows) >= 4
    assert all(any((*place, way) in sold for way in ways) for place in places)


BLOCKS = "p5e.48xlarge is not sold on demand by aws: sold as capacity blocks and spot (no on-demand SKU"
# a filter, and the expected message
REFUSED = f"""
p5e.48xlarge | purchase_options | on_demand | {BLOCKS}
p5e.48xlarge | purchase_options | on_demand | gpucost prices p5e.48xlarge lists its purchase options
a4x-maxgpu-4g | providers | gcp | not sold on demand by gcp: no price is public (absent from the price sheet
nd gb300 v6 | providers | azure | no SKU in the Retail Prices API
p5e.48xlarge | regions | us-east-1 | for the region us-east-1; there are
p5e.48xlarge | regions | us-east-1 | {BLOCKS}
p5e.48xlarge | providers | gcp | {BLOCKS}
a4-highgpu-8g | regions | us-east-1 |
p99.xlarge | providers | aws | no GPU or instance type
"""


@pytest.mark.parametrize(("name", "field", "value", "words"), text_rows(REFUSED))
def test_refusal_names_the_purchase_options_sold(
    con: duckdb.DuckDBPyConnection, name: str, field: str, value: str, words: str
) -> None:
    changed: dict[str, Any] = {field: (value,)}
    with pytest.raises(GpucostError) as caught:
        listing(con, name, replace(QUERY, **changed))
    text = f"{caught.value.message} {caught.value.fix}"
    assert words in text and (words or "not sold" not in text)


def test_type_not_sold_on_demand_and_stale_price_are_noted(con: duckdb.DuckDBPyConnection) -> None:
    answer = listing(con, "a4-highgpu-8g", QUERY)
    assert "on_demand" in {row.purchase_option for row in answer.rows}
    assert answer.not_sold_on_demand == ()
    assert BLOCKS in " ".join(listing_notes(listing(con, "p5e.48xlarge", QUERY)))
    flex = listing(con, "a3-megagpu-8g", replace(QUERY, purchase_options=("flex_start",)))
    assert {row.purchase_option for row in flex.rows} == {"flex_start"}
    answer = listing(con, "p5.48xlarge", QUERY)
    assert answer.rows[0].is_stale and answer.cheapest_fresh and not answer.cheapest_fresh.is_stale
    (remark,) = (words for words in listing_notes(answer) if words.startswith("the first price"))
    assert (
        "p5.48xlarge spot, is 357 days old; the cheapest that is not stale: p5.48xlarge reserved, 3 years"
        in remark
    )
    on_demand = replace(QUERY, purchase_options=("on_demand",))
    assert listing(con, "p5.48xlarge", on_demand).cheapest_fresh is None
