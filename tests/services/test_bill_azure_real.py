"""Every real and generated Azure export: rows and sums as pandas has them, or a refusal that helps.

They lie in ../shared; own small files are in tests/unit/test_bill_azure.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import SHARED, shared
from tests.unit.bills import Bills

pytestmark = pytest.mark.shared

COSTS = {"costinbillingcurrency", "pretaxcost"}
REFUSED = {"manifest.json": "is not there", "mock_response_empty.json": "without rows"}


def files(pattern: str) -> list[Path]:
    root = SHARED / "data/billing"
    return sorted([*root.glob(f"azure/**/{pattern}"), *root.glob(f"generated/**/azure/{pattern}")])


#: Of each agreement and maker one, and what is odd; the slower suite loads all.
KEPT = ("azure_version_2.csv", "Enterprise.csv", "German.csv", "PayAsYouGo.csv", "MissingBrackets.csv")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=f"{path.parent.name}/{path.name[:20]}", marks=[] if path.name in KEPT else pytest.mark.slow)
        for path in files("*.csv")
    ],
)
def test_rows_and_sums_are_those_of_pandas(path: Path, tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.read_csv(path, encoding="utf-8-sig", dtype=str)
    frame.columns = [column.rpartition("(")[2].rstrip(")").strip().lower() for column in frame.columns]
    cost = frame[next(column for column in frame.columns if column in COSTS)].astype(float).fillna(0)
    bills = Bills(tmp_path)
    run = bills.load(path, provider="azure", currency="USD")
    assert not run.errors, run.errors
    sums = [sum(column) for column in zip(*[one[2:] for one in bills.sums()], strict=True)]
    # None of these files has commitments at a price: billed and effective cost are both the file's.
    assert sums == [len(frame), pytest.approx(cost.sum(), abs=1e-9), pytest.approx(cost.sum(), abs=1e-9)]


def test_json_files_load_as_answers_or_are_refused_with_a_sentence(tmp_path: Path) -> None:
    for number, path in enumerate(files("*.json")):
        (tmp_path / str(number)).mkdir()
        bills = Bills(tmp_path / str(number))
        run = bills.load(path, provider="azure", currency="USD")
        if path.name in ("mock_response_full.json", "mock_response_minimal.json"):
            assert not run.errors and bills.sums()[0][2] == 2
        else:
            assert REFUSED.get(path.name, "no billing export that gpucost knows") in run.errors[0].message and run.errors[0].fix


def test_spot_and_on_demand_nodes_of_the_generated_fleet(tmp_path: Path) -> None:
    bills = Bills(tmp_path)
    bills.load(shared("data/billing/generated/nise/dev-gpu/azure"), provider="azure")
    _, prices = bills.store.query(
        "SELECT pricing_category, regexp_extract(instance_key, '[^/]+/virtualmachines/.*$'), "
        "sum(effective_cost)::DOUBLE / sum(instance_hours) FROM charges WHERE kind = 'instance' GROUP BY 1, 2 ORDER BY 1"
    )
    assert prices == [("Dynamic", "aks-a100spot-87654321-vmss/virtualmachines/a", pytest.approx(0.7345)),
                      ("Standard", "aks-a100-12345678-vmss/virtualmachines/0", pytest.approx(3.673))]  # fmt: skip
