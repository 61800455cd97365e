"""The FOCUS export: rows of a charge add up to it and carry its name; what nobody held and what no bill covers say so."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpucost import focus, pipeline
from gpucost.errors import GpucostError, UsageError
from gpucost.focus.columns import PREFIX, VERSIONS, columns_of
from tests.replay import bill_files
from tests.replay.billing import by_day, charges
from tests.shared import shared
from tests.unit.test_price_bill_fleets import FORMATS, Billed, machines, rate

MONTH = "2026-03"
BOOTING = 600
AMOUNTS = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost", "PricingQuantity", "ConsumedQuantity")

# Columns that every file must have, by the specification of FOCUS 1.0 and 1.2 (focus.finops.org, feature level Mandatory).
MANDATORY = {
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
    "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost",
    "EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ServiceCategory", "ServiceName",
}  # fmt: skip
NAMED = {
    "1.0": {"ProviderName", "PublisherName"},
    "1.2": {"ProviderName", "PublisherName"},
    "1.3": {"ServiceProviderName", "HostProviderName"},
}
# May not be null where the column is not.
NEVER_NULL = (
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory",
    "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost",
    "ProviderName", "PublisherName", "ServiceCategory", "ServiceName", "ServiceSubcategory", "ChargeFrequency",
)  # fmt: skip


def rows(path: Path) -> list[dict[str, Any]]:
    answer = duckdb.sql(f"FROM '{path}'")
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


def save(fleet: Billed, version: str = "1.2", kind: Any = "parquet") -> tuple[focus.FocusTotals, Path]:
    path = fleet.folder / f"out-{version}.{kind}"
    return pipeline.focus_file(fleet.config, fleet.store, MONTH, version, kind, path), path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Billed:
    folder = tmp_path_factory.mktemp("plain")
    fleet = Billed(folder, machines("p4de.24xlarge"))
    fleet.bill(bill_files.aws_cur(charges(fleet.fleet, rate, booting=BOOTING)), "cur.csv", "aws")
    return fleet


@pytest.mark.parametrize("name", FORMATS)
def test_rows_add_up_to_their_charge_exactly_and_carry_its_name(name: str, tmp_path: Path) -> None:
    kind, file, provider, write = FORMATS[name]
    fleet = Billed(tmp_path, machines(kind))
    told = list(charges(fleet.fleet, rate, BOOTING))
    fleet.bill(write(by_day(told) if name == "azure" else told), file, provider)
    totals, path = save(fleet)
    with fleet.store.read() as con:
        sql = (
            "SELECT source_row, billed_cost, effective_cost, coalesce(list_cost, contracted_cost, billed_cost), "
            "coalesce(contracted_cost, list_cost, billed_cost), coalesce(pricing_quantity, consumed_quantity, instance_hours), "
            "coalesce(consumed_quantity, pricing_quantity, instance_hours), resource_id, sku_id, sub_account_id, region, tags "
            "FROM bill_rows WHERE kind = 'instance' AND instance_key IN (SELECT instance_key FROM billed_hours)"
        )
        origins = {row[0]: row[1:] for row in con.execute(sql).fetchall()}
    sums: dict[int, list[Decimal]] = defaultdict(lambda: [Decimal(0)] * len(AMOUNTS))
    for row in rows(path):
        origin = row[f"{PREFIX}origin_row"]
        sums[origin] = [before + row[column] for before, column in zip(sums[origin], AMOUNTS, strict=True)]
        _, _, _, _, _, _, resource, sku, account, region, tags = origins[origin]
        assert (row["ResourceId"], row["SkuId"], row["SubAccountId"], row["RegionId"]) == (resource, sku, account, region)
        assert set(json.loads(row["Tags"])) >= set(tags or {})
    assert {key: [Decimal(str(value)) for value in amounts[:6]] for key, amounts in origins.items()} == sums
    account = pipeline.reconcile(fleet.config, fleet.store, MONTH)
    assert totals.effective_cost["USD"] == account.effective_cost
    assert (totals.charges, totals.estimated_rows) == (len(origins), 0)


def test_shares_are_those_of_the_reconciliation(plain: Billed) -> None:
    """As the cloud assigned its discounts: then a holder's cost is a share of its own machine's charge."""
    path = plain.folder / "as-billed.parquet"
    pipeline.focus_file(plain.sharing("as_billed"), plain.store, MONTH, "1.2", "parquet", path)
    account = pipeline.reconcile(plain.sharing("as_billed"), plain.store, MONTH)
    found: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows(path):
        found[row[f"{PREFIX}kind"]] += row["EffectiveCost"]
    assert float(found["allocated"]) == pytest.approx(float(account.lines["attributed"]), abs=1e-6)
    assert float(found["unallocated"]) == pytest.approx(float(account.lines["unallocated"]), abs=1e-6)
    assert float(found["outside_node_life"]) == pytest.approx(float(account.lines["outside_node_life"]), abs=1e-6)
    pipeline.attribute(plain.config, plain.store)


def test_tags_name_the_holder_and_what_nobody_held_is_a_row_of_its_own(plain: Billed) -> None:
    _, path = save(plain)
    told = rows(path)
    held = [row for row in told if row[f"{PREFIX}kind"] == "allocated"]
    for row in held:
        tags = json.loads(row["Tags"])
        assert (tags["team"], tags["namespace"], tags["workload"]) == tuple(
            row[PREFIX + key] for key in ("team", "namespace", "workload")
        )
        assert row[f"{PREFIX}allocated_resource_id"].endswith(row[f"{PREFIX}workload"])
    assert {row[f"{PREFIX}team"] for row in held} == {"train", "serve", "batch"}
    free = [row for row in told if row[f"{PREFIX}kind"] in ("unallocated", "outside_node_life")]
    assert len(free) + len(held) == len(told)
    assert all(row[f"{PREFIX}team"] is None and row[f"{PREFIX}allocated_resource_id"] is None for row in free)
    hours = pipeline.report(plain.config, plain.store, _all()).totals.allocated_gpu_hours
    assert sum(row[f"{PREFIX}gpu_hours"] for row in held) == pytest.approx(hours)


def _all() -> Any:
    from datetime import UTC, datetime

    from gpucost.model import Period
    from gpucost.report import Query

    return Query(period=Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)), period_name="March 2026")


def test_what_no_bill_covers_is_an_estimate_that_bills_nothing(tmp_path: Path) -> None:
    fleet = Billed(tmp_path, machines("p4de.24xlarge"))
    told = [charge for charge in charges(fleet.fleet, rate) if charge.node["name"] != "n2"]
    fleet.bill(bill_files.aws_cur(told), "cur.csv", "aws")
    totals, path = save(fleet)
    estimates = [row for row in rows(path) if row[f"{PREFIX}is_estimate"]]
    view = pipeline.report(fleet.config, fleet.store, _all())
    assert totals.estimated_cost == view.totals.estimated_cost > 0
    assert sum(row["EffectiveCost"] for row in estimates) == totals.estimated_cost
    assert {row["BilledCost"] for row in estimates} == {Decimal(0)}
    assert {row["ResourceName"] for row in estimates} == {"n2"}
    assert all("stimate" in row["ChargeDescription"] and "No invoice" in row["InvoiceIssuerName"] for row in estimates)


def test_billed_machines_that_no_metrics_saw_keep_their_whole_charge(tmp_path: Path) -> None:
    fleet = Billed(tmp_path, machines("p4de.24xlarge"))
    told = [
        replace(charge, node=charge.node | {"name": "elsewhere"}) if charge.node["name"] == "n2" else charge
        for charge in charges(fleet.fleet, rate)
    ]
    fleet.bill(bill_files.aws_cur(told), "cur.csv", "aws")
    _, path = save(fleet, "1.3")
    unseen = [row for row in rows(path) if row[f"{PREFIX}kind"] == "instance_without_metrics"]
    assert sum(row["EffectiveCost"] for row in unseen) == sum(c.cost for c in told if c.node["name"] == "elsewhere")
    assert {row["AllocatedMethodId"] for row in unseen} == {None}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_columns_are_those_of_the_version(version: str, plain: Billed) -> None:
    _, path = save(plain, version, "csv")
    header = path.read_text().splitlines()[0].split(",")
    standard = [name for name in header if not name.startswith("x_")]
    assert set(standard) >= MANDATORY | NAMED[version]
    assert header == list(columns_of(version))
    assert all(name.startswith(PREFIX) for name in header if name.startswith("x_"))
    for row in rows(save(plain, version)[1]):
        assert not [name for name in NEVER_NULL if name in row and row[name] is None]
        assert (row["PricingUnit"] is None) == (row["PricingQuantity"] is None)


@pytest.mark.shared
@pytest.mark.parametrize("version", VERSIONS)
def test_no_column_is_unknown_to_the_version(version: str) -> None:
    told = json.loads(shared("data/billing/schemas/focus_columns_by_version.json").read_text())
    known = next(columns for name, columns in told.items() if name.startswith(f"FOCUS {version}"))
    assert {name for name in columns_of(version) if not name.startswith("x_")} <= set(known)


def test_since_1_3_tags_are_the_origins_and_the_ratios_add_up_to_1(plain: Billed) -> None:
    _, path = save(plain, "1.3")
    ratios: dict[int, Decimal] = defaultdict(Decimal)
    for row in rows(path):
        (element,) = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal)["Elements"]
        ratios[row[f"{PREFIX}origin_row"]] += Decimal(element["AllocatedRatio"])
        assert "workload" not in json.loads(row["Tags"])
        if row[f"{PREFIX}kind"] == "allocated":
            assert json.loads(row["AllocatedTags"])["team"] == row[f"{PREFIX}team"]
        else:
            assert row["AllocatedResourceId"] is None and row["AllocatedTags"] is None
    assert set(ratios.values()) == {Decimal(1)}


def test_the_same_input_gives_the_same_bytes(plain: Billed) -> None:
    for kind in ("csv", "parquet"):
        first = save(plain, "1.2", kind)[1].read_bytes()
        assert save(plain, "1.2", kind)[1].read_bytes() == first


def test_a_month_that_nothing_is_known_of_is_an_error(plain: Billed) -> None:
    with pytest.raises(GpucostError, match="nothing of 2025-01 costs anything"):
        pipeline.focus_file(plain.config, plain.store, "2025-01", "1.2", "csv", plain.folder / "none.csv")
    with pytest.raises(UsageError, match=r"FOCUS 2\.0 is not written"):
        columns_of("2.0")
