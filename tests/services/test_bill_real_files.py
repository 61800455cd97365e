"""Real and generated exports in ../shared: the same rows and sums as pandas counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.shared import SHARED
from tests.unit.bills import Bills

ROOT = SHARED / "data/billing"
pytestmark = pytest.mark.shared

AWS = sorted([*ROOT.glob("aws/**/*.csv*"), *ROOT.glob("generated/nise/dev-gpu/aws*/**/*.csv*")])
FOCUS = sorted([*ROOT.glob("focus/**/*.csv"), *ROOT.glob("generated/focus-data-toolkit/**/*cost_and_usage*.csv")])
OTHER = sorted(
    [*ROOT.glob("aws/**/*.txt"), *ROOT.glob("aws/api-responses/*.json"), *ROOT.glob("generated/focus-data-toolkit/**/*.csv")]
)
# Its dates and costs are blank.
UNREADABLE = {"aws_cost_report.csv"}
# Their rows name no currency.
NO_CURRENCY = {"sample-cur20.csv", "sample-legacy-csv.csv"}

#: Of each kind and maker of exports one; the slower suite loads all.
KEPT = (
    "aws_cost_report.csv", "cur_1_0/MockTestReport-00001.csv.zip", "cur_2_0/sample_billing_data_v2.csv",
    "2023-06-01-not-final.csv", "sample-cur20.csv", "aws/April-2026-None.csv", "aws_1_2_cost_and_usage_rows25_seed7_credits.csv",
    "azure_1_3_cost_and_usage_rows25_seed7.csv", "gcp_1_2_cost_and_usage_rows25_seed7.csv", "focus_sample_first500.csv",
    "synthetic_focus_1_4_cost_and_usage.csv",
)  # fmt: skip


def _sampled(paths: list[Path]) -> list[Any]:
    return [
        pytest.param(path, id=str(path.relative_to(ROOT)), marks=[] if str(path).endswith(KEPT) else pytest.mark.slow)
        for path in paths
    ]


def _numbers(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    same = [column for column in table.columns if column.replace("/", "").replace("_", "").lower() == name]
    if not same:
        return pd.Series(float("nan"), index=table.index)
    return pd.to_numeric(table[same[0]].replace({"None": "", "NULL": ""}), errors="coerce").astype(float)


def _effective(table: pd.DataFrame) -> float:
    """The rules once more, row by row: what AWS calls amortized cost."""
    kinds = [column for column in table.columns if column.replace("/", "").replace("_", "").lower() == "lineitemlineitemtype"]
    kind = table[kinds[0]] if kinds else pd.Series("Usage", index=table.index)
    unblended = _numbers(table, "lineitemunblendedcost")
    unused = _numbers(table, "savingsplantotalcommitmenttodate").fillna(0) - _numbers(table, "savingsplanusedcommitment").fillna(
        0
    )
    cost = unblended.copy()
    cost[kind == "SavingsPlanCoveredUsage"] = _numbers(table, "savingsplansavingsplaneffectivecost").fillna(unblended)
    cost[kind == "DiscountedUsage"] = _numbers(table, "reservationeffectivecost").fillna(unblended)
    cost[kind == "SavingsPlanNegation"] = 0.0
    cost[kind == "SavingsPlanRecurringFee"] = unused
    return float(cost.sum())


@pytest.mark.parametrize("path", _sampled(AWS))
def test_aws(path: Path, tmp_path: Path) -> None:
    bills = Bills(tmp_path)
    run = bills.load(path)
    if path.name in UNREADABLE | NO_CURRENCY:
        assert run.errors[0].fix and not bills.store.exists
        if path.name in UNREADABLE:
            return
        run = bills.load(path, currency="USD")
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert not run.errors, run.errors
    sums = bills.sums()
    assert sum(row[2] for row in sums) == len(table)
    assert sum(row[3] for row in sums) == pytest.approx(float(_numbers(table, "lineitemunblendedcost").sum()), abs=1e-9)
    assert sum(row[4] for row in sums) == pytest.approx(_effective(table), abs=1e-9)


@pytest.mark.parametrize("path", _sampled(FOCUS))
def test_focus(path: Path, tmp_path: Path) -> None:
    bills = Bills(tmp_path)
    assert not bills.load(path, provider=None).errors
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    sums = bills.sums()
    assert sum(row[2] for row in sums) == len(table)
    for place, column in ((3, "BilledCost"), (4, "EffectiveCost")):
        assert sum(row[place] for row in sums) == pytest.approx(float(pd.to_numeric(table[column]).sum()), abs=1e-6)


def test_what_is_no_bill_is_refused_in_words(tmp_path: Path) -> None:
    bills = Bills(tmp_path)
    for path in [path for path in OTHER if "cost_and_usage" not in path.name and path.name != "SOURCE.txt"]:
        run = bills.load(path)
        assert "is no billing export" not in run.errors[0].message, "a known kind of file has a sentence of its own"
        assert run.errors[0].fix and not bills.store.exists
