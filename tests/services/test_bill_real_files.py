"""Real and generated exports in ../shared: the same rows and sums as pandas, or a helpful refusal.

The project's own small files are in tests/unit/test_bill_*.py.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.shared import SHARED, shared
from tests.unit.bills import Bills

ROOT = SHARED / "data/billing"
pytestmark = pytest.mark.shared

#: One file per cloud and for FOCUS; the slow suite loads all.
KEPT = """
    sample-cur20.csv focus_sample_first500.csv azure_version_2.csv
    202011_30c31bca571d9b7f3b2c8459dd8bc34a_2020-11-08_to_2020-11-11.csv"""


def files(*patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def each(paths: list[Path]) -> Any:
    """Return all files, marking the ones of the slow suite."""
    marked = [
        pytest.param(
            path, id=str(path.relative_to(ROOT)), marks=[pytest.mark.slow] * (path.name not in KEPT.split())
        )
        for path in paths
    ]
    return pytest.mark.parametrize("path", marked)


def check(bills: Bills, rows: int, billed: float, effective: float, slack: float = 1e-9) -> None:
    """Compare the sums of all loaded rows."""
    sums = [sum(column) for column in zip(*[one[2:] for one in bills.sums()], strict=True)]
    assert sums == [rows, pytest.approx(billed, abs=slack), pytest.approx(effective, abs=slack)]


# AWS

# Blank dates and costs.
UNREADABLE = {"aws_cost_report.csv"}
# Rows without a currency.
NO_CURRENCY = {"sample-cur20.csv", "sample-legacy-csv.csv"}


def _column(table: pd.DataFrame, name: str) -> pd.Series[Any] | None:
    same = [column for column in table.columns if column.replace("/", "").replace("_", "").lower() == name]
    return table[same[0]] if same else None


def _numbers(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    column = _column(table, name)
    if column is None:
        return pd.Series(float("nan"), index=table.index)
    return pd.to_numeric(column.replace({"None": "", "NULL": ""}), errors="coerce").astype(float)


def _effective(table: pd.DataFrame) -> float:
    """Calculate AWS's amortized cost again, row by row."""
    kind = _column(table, "lineitemlineitemtype")
    cost = unblended = _numbers(table, "lineitemunblendedcost")
    if kind is None:
        return float(cost.sum())
    used = _numbers(table, "savingsplanusedcommitment").fillna(0)
    fee = _numbers(table, "savingsplantotalcommitmenttodate").fillna(0) - used
    covered = _numbers(table, "savingsplansavingsplaneffectivecost").fillna(unblended)
    discounted = _numbers(table, "reservationeffectivecost").fillna(unblended)
    cost = cost.mask(kind == "SavingsPlanCoveredUsage", covered).mask(kind == "DiscountedUsage", discounted)
    cost = cost.mask(kind == "SavingsPlanNegation", 0.0).mask(kind == "SavingsPlanRecurringFee", fee)
    return float(cost.sum())


@pytest.mark.ci
@each(files("aws/**/*.csv*", "generated/nise/dev-gpu/aws*/**/*.csv*"))
def test_aws_exports_match_pandas(path: Path, bills: Bills) -> None:
    run = bills.load(path)
    if path.name in UNREADABLE | NO_CURRENCY:
        assert run.errors[0].fix and not bills.store.exists
        if path.name in UNREADABLE:
            return
        run = bills.load(path, currency="USD")
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert not run.errors, run.errors
    check(bills, len(table), float(_numbers(table, "lineitemunblendedcost").sum()), _effective(table))


@pytest.mark.ci
@each(files("focus/**/*.csv", "generated/focus-data-toolkit/**/*cost_and_usage*.csv"))
def test_focus_exports_match_pandas(path: Path, bills: Bills) -> None:
    assert not bills.load(path, provider=None).errors
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    billed, effective = (float(pd.to_numeric(table[name]).sum()) for name in ("BilledCost", "EffectiveCost"))
    check(bills, len(table), billed, effective, slack=1e-6)


# Azure

COSTS = {"costinbillingcurrency", "pretaxcost"}


@pytest.mark.ci
@each(files("azure/**/*.csv", "generated/**/azure/*.csv"))
def test_azure_exports_match_pandas(path: Path, bills: Bills) -> None:
    """These files have no priced commitments: billed and effective cost both equal the file's cost."""
    frame = pd.read_csv(path, encoding="utf-8-sig", dtype=str)
    frame.columns = [column.rpartition("(")[2].rstrip(")").strip().lower() for column in frame.columns]
    cost = frame[next(column for column in frame.columns if column in COSTS)].astype(float).fillna(0)
    run = bills.load(path, provider="azure", currency="USD")
    assert not run.errors, run.errors
    check(bills, len(frame), cost.sum(), cost.sum())


@pytest.mark.ci
def test_azure_nodes_of_the_generated_fleet_have_spot_and_on_demand_prices(bills: Bills) -> None:
    bills.load(shared("data/billing/generated/nise/dev-gpu/azure"), provider="azure")
    _, prices = bills.store.query(
        "SELECT pricing_category, regexp_extract(instance_key, '[^/]+/virtualmachines/.*$'), "
        "sum(effective_cost)::DOUBLE / sum(instance_hours) FROM charges WHERE kind = 'instance' GROUP BY 1, 2 ORDER BY 1"
    )
    assert prices == [("Dynamic", "aks-a100spot-87654321-vmss/virtualmachines/a", pytest.approx(0.7345)),
                      ("Standard", "aks-a100-12345678-vmss/virtualmachines/0", pytest.approx(3.673))]  # fmt: skip


# Google Cloud

EFFECTIVE = """
    SUSTAINED_USAGE_DISCOUNT COMMITTED_USAGE_DISCOUNT COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE DISCOUNT RESELLER_MARGIN
    SUBSCRIPTION_BENEFIT FEE_UTILIZATION_OFFSET"""


def credited(credits: Any) -> tuple[float, float]:
    """Return the sums of all credits and of the credits in effective cost."""
    parsed = ast.literal_eval(credits) if isinstance(credits, str) else credits
    parsed = [parsed] if isinstance(parsed, dict) else parsed
    effective = [one["amount"] for one in parsed if one["type"] in EFFECTIVE.split()]
    return sum(one["amount"] for one in parsed), sum(effective)


@pytest.mark.ci
@each(files("gcp/**/*.csv", "generated/**/gcp/*.csv", "generated/**/gcp-jsonl/*.json"))
def test_gcp_exports_match_pandas(path: Path, bills: Bills) -> None:
    if path.suffix == ".json":
        frame = pd.json_normalize([json.loads(line) for line in path.read_text().splitlines()], max_level=0)
        frame["period"] = [one["month"] for one in frame["invoice"]]
    else:
        frame = pd.read_csv(path)
        frame["period"] = frame["invoice.month"].astype(str)
    for at, name in enumerate(("billed", "effective")):
        frame[name] = frame["cost"] + frame["credits"].map(credited).str[at]
    run = bills.load(path, provider="gcp")
    assert not run.errors, run.errors
    loaded = {period.replace("-", ""): tuple(sums) for _, period, *sums in bills.sums()}
    expected = frame.groupby("period").agg(
        rows=("cost", "size"), billed=("billed", "sum"), effective=("effective", "sum")
    )
    assert loaded == {period: pytest.approx(tuple(sums), abs=1e-9) for period, *sums in expected.itertuples()}


@pytest.mark.ci
def test_gcp_machines_of_the_generated_fleet_have_their_hourly_price(bills: Bills) -> None:
    """12 vCPUs, 85 GiB and one A100 at the prices of the generator's scenario; the spot machine has only a GPU row."""
    bills.load(shared("data/billing/generated/nise/dev-gpu/gcp"), provider="gcp")
    _, prices = bills.store.query(
        "SELECT instance_key, round(sum(effective_cost)::DOUBLE / sum(instance_hours), 6), sum(instance_hours) FROM charges "
        "WHERE kind = 'instance' GROUP BY 1 ORDER BY 1"
    )
    machine = "ml-proj/us-central1-c/gke-ml-prod-a100-pool-1a2b3c4d-abcd"
    assert prices == [(machine, pytest.approx(12 * 0.031611 + 85 * 0.004237 + 2.933908, abs=1e-5), pytest.approx(144)),
                      (f"{machine}-spot", pytest.approx(0.880172, abs=1e-5), pytest.approx(144))]  # fmt: skip
