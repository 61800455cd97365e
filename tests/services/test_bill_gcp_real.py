"""Every real and generated Google Cloud export: rows and sums as pandas has them, read by another way.

They lie in ../shared; own small files are in tests/unit/test_bill_gcp.py.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared import SHARED, shared
from tests.unit.bills import Bills

pytestmark = pytest.mark.shared

EFFECTIVE = {"SUSTAINED_USAGE_DISCOUNT", "COMMITTED_USAGE_DISCOUNT", "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE", "DISCOUNT"}
EFFECTIVE |= {"RESELLER_MARGIN", "SUBSCRIPTION_BENEFIT", "FEE_UTILIZATION_OFFSET"}


def files() -> list[Any]:
    """All of them; the slower suite has the generator's second month."""
    root = SHARED / "data/billing"
    paths = [*root.glob("gcp/**/*.csv"), *root.glob("generated/**/gcp/*.csv"), *root.glob("generated/**/gcp-jsonl/*.json")]
    return [
        pytest.param(
            path, id=f"{path.parent.name}/{path.name[:20]}", marks=pytest.mark.slow if path.name.startswith("202604") else []
        )
        for path in sorted(paths)
    ]


def credited(credits: Any) -> tuple[float, float]:
    """Sums of all credits and of those that make the effective cost."""
    parsed = ast.literal_eval(credits) if isinstance(credits, str) else credits
    parsed = [parsed] if isinstance(parsed, dict) else parsed
    return sum(one["amount"] for one in parsed), sum(one["amount"] for one in parsed if one["type"] in EFFECTIVE)


@pytest.mark.parametrize("path", files())
def test_rows_and_sums_are_those_of_pandas(path: Path, tmp_path: Path) -> None:
    import pandas as pd

    if path.suffix == ".json":
        frame = pd.json_normalize([json.loads(line) for line in path.read_text().splitlines()], max_level=0)
        frame["period"] = [one["month"] for one in frame["invoice"]]
    else:
        frame = pd.read_csv(path)
        frame["period"] = frame["invoice.month"].astype(str)
    both = frame["credits"].map(credited)
    frame["billed"] = frame["cost"] + both.map(lambda sums: sums[0])
    frame["effective"] = frame["cost"] + both.map(lambda sums: sums[1])
    bills = Bills(tmp_path)
    run = bills.load(path, provider="gcp")
    assert not run.errors, run.errors
    loaded = {period.replace("-", ""): tuple(sums) for _, period, *sums in bills.sums()}
    expected = frame.groupby("period").agg(rows=("cost", "size"), billed=("billed", "sum"), effective=("effective", "sum"))
    assert loaded == {
        str(period): tuple(pytest.approx(value, abs=1e-9) for value in sums) for period, *sums in expected.itertuples()
    }


def test_machines_of_the_generated_fleet_have_their_price_per_hour(tmp_path: Path) -> None:
    """12 vCPUs, 85 GiB and one A100, as the generator's scenario prices them; the spot machine has a GPU row alone."""
    bills = Bills(tmp_path)
    bills.load(shared("data/billing/generated/nise/dev-gpu/gcp"), provider="gcp")
    _, prices = bills.store.query(
        "SELECT instance_key, round(sum(effective_cost)::DOUBLE / sum(instance_hours), 6), sum(instance_hours) FROM charges "
        "WHERE kind = 'instance' GROUP BY 1 ORDER BY 1"
    )
    machine = "ml-proj/us-central1-c/gke-ml-prod-a100-pool-1a2b3c4d-abcd"
    assert prices == [(machine, pytest.approx(12 * 0.031611 + 85 * 0.004237 + 2.933908, abs=1e-5), pytest.approx(144)),
                      (f"{machine}-spot", pytest.approx(0.880172, abs=1e-5), pytest.approx(144))]  # fmt: skip
