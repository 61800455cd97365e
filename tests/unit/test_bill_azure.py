"""Azure's cost exports: each rule of their mapping, on small files with the columns of every agreement."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.errors import DataError
from tests.unit.bills import Bills, csv_text

SUB = "/subscriptions/11111111-aaaa-bbbb-cccc-000000000001"
SET = f"{SUB}/resourceGroups/MC_ml/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-1-vmss"
KEY = f"{SET}/virtualMachines/3".lower()
INFO = {"UsageType": "ComputeHR", "ServiceType": "Standard_NC24ads_A100_v4", "VMName": "aks-gpu-1-vmss_3", "VCPUs": 24}


def row(**changed: str) -> dict[str, str]:
    """A row of an Enterprise agreement's export: a machine of an AKS node pool for a day."""
    made = {
        "SubscriptionId": SUB.rpartition("/")[2],
        "SubscriptionName": "ml",
        "ResourceLocation": "US East",
        "Date": "03/05/2026",
        "ProductName": "",
        "MeterCategory": "Virtual Machines",
        "MeterSubCategory": "NCads A100 v4 Series",
        "MeterId": "m-1",
        "MeterName": "NC24ads A100 v4",
        "UnitOfMeasure": "10 Hours",
        "Quantity": "24",
        "EffectivePrice": "3.673",
        "CostInBillingCurrency": "88.152",
        "ConsumedService": "Microsoft.Compute",
        "ResourceId": SET,
        "Tags": '{"aks-managed-poolName": "gpu"}',
        "AdditionalInfo": json.dumps(INFO),
        "ReservationId": "",
        "ReservationName": "",
        "ChargeType": "Usage",
        "PricingModel": "OnDemand",
        "Frequency": "UsageBased",
        "BillingAccountId": "4711",
        "BillingCurrencyCode": "USD",
        "BillingPeriodStartDate": "03/01/2026",
        "BillingPeriodEndDate": "03/31/2026",
    }
    assert changed.keys() <= made.keys() | {"benefitId", "benefitName", "ServiceFamily"}
    return made | changed


COVERED = {"PricingModel": "Reservation", "ReservationId": "ri-1"}
PURCHASE = {
    "ChargeType": "Purchase",
    "MeterCategory": "",
    "ResourceId": "",
    "Quantity": "1",
    "AdditionalInfo": "",
    "MeterName": "RI",
}


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    return Bills(tmp_path)


def load(bills: Bills, rows: list[dict[str, str]], name: str = "cost.csv") -> list[dict[str, Any]]:
    """Loads rows as CSV, which must load, and answers all charges."""
    run = bills.load(bills.write(name, csv_text(rows)), provider="azure")
    assert not run.errors, run.errors
    return bills.charges()


def test_a_machine_of_a_scale_set_is_named_as_kubernetes_names_it(bills: Bills) -> None:
    [charge] = load(bills, [row()])
    assert (charge["kind"], charge["instance_key"], charge["instance_hours"]) == ("instance", KEY, 24.0)
    assert (charge["instance_type"], charge["region"]) == ("Standard_NC24ads_A100_v4", "eastus")
    assert charge["billed_cost"] == charge["effective_cost"] == Decimal("88.152")
    assert (charge["charge_period_end"] - charge["charge_period_start"]).days == 1
    assert charge["tags"] == {"aks-managed-poolName": "gpu"}


def test_the_machine_of_a_row(bills: Bills) -> None:
    told: list[tuple[str, str | None, str]] = [
        (SET, "aks-gpu-1-vmss_12", f"{SET}/virtualMachines/12".lower()),
        (SET, None, SET.lower()),
        (SET, "flex-vm-7", f"{SUB}/resourceGroups/MC_ml/providers/Microsoft.Compute/virtualMachines/flex-vm-7".lower()),
        (f"{SET}/virtualMachines/5", None, f"{SET}/virtualMachines/5".lower()),
        (SET.replace("virtualMachineScaleSets/aks-gpu-1-vmss", "virtualMachines/VM-1"), "VM-1",
         f"{SUB}/resourceGroups/MC_ml/providers/Microsoft.Compute/virtualMachines/vm-1".lower()),
    ]  # fmt: skip
    charges = load(
        bills, [row(ResourceId=resource, AdditionalInfo=json.dumps(INFO | {"VMName": vm})) for resource, vm, _ in told]
    )
    assert [charge["instance_key"] for charge in charges] == [key for _, _, key in told]


def test_rows_that_name_only_the_scale_set_are_told_of(bills: Bills) -> None:
    run = bills.load(bills.write("cost.csv", csv_text([row(AdditionalInfo="")])), provider="azure")
    assert [finding.code for finding in run.findings] == ["scale_set"]


@pytest.mark.parametrize("text", ['"VMName": "aks-gpu-1-vmss_3", "UsageType": "ComputeHR"', '{"VMName":"aks-gpu-1-vmss_3"}'])
def test_additional_info_and_tags_come_with_and_without_braces(bills: Bills, text: str) -> None:
    [charge] = load(bills, [row(AdditionalInfo=text, Tags='"team": "nlp","cost center": "7"')])
    assert charge["instance_key"] == KEY
    assert charge["tags"] == {"team": "nlp", "cost center": "7"}


@pytest.mark.parametrize(
    "day",
    [
        "3/5/2026",
        "2026-03-05T00:00:00Z",
        "05.03.2026",
        *(pytest.param(day, marks=pytest.mark.slow) for day in ("03/05/2026", "2026-03-05", "2026-03-05 00:00:00", "20260305")),
    ],
)
def test_days_are_written_in_many_ways(bills: Bills, day: str) -> None:
    [charge] = load(bills, [row(Date=day)])
    assert f"{charge['charge_period_start']:%Y-%m-%d}" == "2026-03-05"


def test_a_day_that_is_none_is_refused_with_its_row(bills: Bills) -> None:
    run = bills.load(
        bills.write("cost.csv", csv_text([row(), row(Date="31/12/2026", BillingPeriodStartDate="")])), provider="azure"
    )
    assert "row 2: the start of the charge" in run.errors[0].message


@pytest.mark.parametrize(
    ("text", "cost"), [("1234,5", "1234.5"), ("1.234,56", "1234.56"), ("1,234.56", "1234.56"), ("1E-05", "0.00001")]
)
def test_numbers_of_any_language(bills: Bills, text: str, cost: str) -> None:
    [charge] = load(bills, [row(CostInBillingCurrency=text)])
    assert charge["billed_cost"] == Decimal(cost)


@pytest.mark.parametrize(
    "names",
    [
        lambda name: name[0].lower() + name[1:],
        str.upper,
        lambda name: f"Irgendein Wort ({name})",
        {"CostInBillingCurrency": "PreTaxCost", "Date": "UsageDateTime", "ResourceId": "InstanceId", "Quantity": "UsageQuantity",
         "BillingCurrencyCode": "Currency", "SubscriptionId": "SubscriptionGuid"}.get,
        {"CostInBillingCurrency": "costInBillingCurrency", "Date": "date", "BillingCurrencyCode": "billingCurrency"}.get,
    ],
)  # fmt: skip
@pytest.mark.parametrize("mark", [pytest.param("", marks=pytest.mark.slow), "\ufeff"])
def test_columns_of_every_agreement_case_and_language(bills: Bills, names: Any, mark: str) -> None:
    renamed = {names(name) or name: value for name, value in row().items()}
    run = bills.load(bills.write("cost.csv", mark + csv_text([renamed])), provider="azure")
    assert not run.errors, run.errors
    [charge] = bills.charges()
    assert (charge["instance_key"], charge["billed_cost"], charge["billing_currency"]) == (KEY, Decimal("88.152"), "USD")
    assert charge["sub_account_id"] == SUB.rpartition("/")[2]


def test_the_period_is_the_billing_period_or_the_days_month(bills: Bills) -> None:
    charges = load(bills, [row(Date="02/28/2026"), row(Date="02/27/2026", BillingPeriodStartDate="", BillingPeriodEndDate="")])
    assert [charge["billing_period"] for charge in sorted(charges, key=lambda one: one["source_row"])] == ["2026-03", "2026-02"]


def test_kinds_of_charges(bills: Bills) -> None:
    charges = load(
        bills,
        [
            row(MeterCategory="Storage", MeterName="P30 Disks", UnitOfMeasure="1/Month"),
            row(MeterCategory="Bandwidth", MeterName="Data Transfer Out", UnitOfMeasure="1 GB"),
            row(MeterCategory="Load Balancer", UnitOfMeasure="1 Hour"),
            row(MeterCategory="Virtual Machines Licenses", MeterName="2 vCPU VM License"),
            row(MeterName="NC24ads A100 v4 Spot"),
            row(MeterName="low", PricingModel="Spot"),
            row(ChargeType="Refund", CostInBillingCurrency="-5"),
            row(ChargeType="Tax", CostInBillingCurrency="5"),
            row(MeterCategory="Microsoft Support", ChargeType="Purchase"),
            row(MeterCategory="Azure Monitor", ResourceId=f"{SUB}/x/y/z", AdditionalInfo=""),
            row(
                ResourceId=f"{SUB}/resourceGroups/r/providers/Microsoft.Compute/capacityReservationGroups/g/capacityReservations/c"
            ),
            row(ResourceId=f"{SUB}/rsid2", MeterCategory="Virtuelle Computer"),
        ],
    )
    kinds = "storage network network instance instance instance refund tax support other reserved_unused instance"
    assert [charge["kind"] for charge in charges] == kinds.split()
    assert [charge["instance_hours"] for charge in charges[:6]] == [None, None, None, None, 24.0, 24.0]
    assert [charge["pricing_category"] for charge in charges[3:6]] == ["Standard", "Dynamic", "Dynamic"]


def amortized() -> list[dict[str, str]]:
    return [
        row(CostInBillingCurrency="40", **COVERED),
        row(Date="03/06/2026", CostInBillingCurrency="88"),
        row(Date="03/05/2026", ChargeType="UnusedReservation", CostInBillingCurrency="10", ResourceId="", **COVERED),
        row(ChargeType="UnusedSavingsPlan", CostInBillingCurrency="2", PricingModel="SavingsPlan", benefitId="sp-1"),
    ]


def actual() -> list[dict[str, str]]:
    return [
        row(CostInBillingCurrency="0", **COVERED),
        row(Date="03/06/2026", CostInBillingCurrency="88"),
        row(Date="03/05/2026", CostInBillingCurrency="365", **COVERED | PURCHASE),
    ]


def test_amortized_cost_is_effective_and_commitments_are_not_billed(bills: Bills) -> None:
    charges = load(bills, amortized())
    assert {charge["format"] for charge in charges} == {"azure-amortized"}
    assert [charge["effective_cost"] for charge in charges] == [40, 88, 10, 2]
    assert [charge["billed_cost"] for charge in charges] == [0, 88, 0, 0]
    assert [charge["kind"] for charge in charges] == ["instance", "instance", "commitment_unused", "commitment_unused"]
    assert [charge["cost_cause"] for charge in charges] == ["covered_usage", "same", "commitment_unused", "commitment_unused"]
    assert [charge["commitment_discount_id"] for charge in charges] == ["ri-1", None, "ri-1", "sp-1"]
    assert [charge["commitment_discount_type"] for charge in charges] == ["Reservation", None, "Reservation", "Savings Plan"]


def test_actual_cost_alone_prices_no_covered_machine(bills: Bills) -> None:
    run = bills.load(bills.write("cost.csv", csv_text(actual())), provider="azure")
    assert [finding.code for finding in run.findings] == ["actual_only"]
    charges = bills.charges()
    assert {charge["format"] for charge in charges} == {"azure-actual"}
    assert [charge["cost_cause"] for charge in charges] == ["zero_unexplained", "same", "same"]
    assert [charge["kind"] for charge in charges] == ["instance", "instance", "commitment_fee"]
    assert [charge["effective_cost"] for charge in charges] == [0, 88, 365]


@pytest.mark.parametrize(
    "order",
    [*(pytest.param(one, marks=pytest.mark.slow) for one in ("together", "actual first", "amortized first")), "actual twice"],
)
def test_actual_and_amortized_are_never_added(bills: Bills, order: str) -> None:
    """Amortized costs are the effective ones, actual costs add what was paid for commitments: whatever comes first."""
    paid, spread = bills.write("a.csv", csv_text(actual())), bills.write("b.csv", csv_text(amortized()))
    loads = {
        "together": [(paid, spread)],
        "actual first": [(paid,), (spread,)],
        "amortized first": [(spread,), (paid,)],
        "actual twice": [(paid,), (spread,), (paid,)],
    }
    for paths in loads[order]:
        run = bills.load(*paths, provider="azure")
        assert not run.errors, run.errors
    _, sums = bills.store.query(
        "SELECT format, count(*), sum(billed_cost)::INT, sum(effective_cost)::INT FROM charges GROUP BY 1 ORDER BY 1"
    )
    assert sums == [("azure-actual", 1, 365, 0), ("azure-amortized", 4, 88, 140)]
    _, counts = bills.store.query("SELECT format, rows FROM bills ORDER BY 1")
    assert counts == [("azure-actual", 1), ("azure-amortized", 4)]


def test_actual_cost_of_days_that_are_not_amortized_yet_stays(bills: Bills) -> None:
    load(bills, amortized(), "b.csv")
    load(bills, [*actual(), row(Date="03/07/2026", CostInBillingCurrency="77")], "a.csv")
    _, sums = bills.store.query("SELECT format, count(*), sum(effective_cost)::INT FROM charges GROUP BY 1 ORDER BY 1")
    assert sums == [("azure-actual", 2, 77), ("azure-amortized", 4, 140)]


def test_another_subscription_without_commitments_stands_beside(bills: Bills) -> None:
    load(bills, amortized(), "one.csv")
    load(bills, [row(SubscriptionId="other", ResourceId=SET.replace("0001", "0002"))], "two.csv")
    _, formats = bills.store.query("SELECT format, count(*) FROM charges GROUP BY 1 ORDER BY 1")
    assert formats == [("azure-amortized", 4), ("azure-cost", 1)]


def test_a_part_without_commitments_is_of_its_directorys_kind(bills: Bills) -> None:
    bills.write("run/part_0.csv", csv_text(amortized()))
    bills.write("run/part_1.csv", csv_text([row(Date="03/20/2026")]))
    run = bills.load(bills.directory / "run", provider="azure")
    assert [(result.format, result.rows) for result in run.results] == [("azure-amortized", 5)]


def manifest(files: dict[str, bytes], submitted: str) -> str:
    blobs = [{"blobName": name, "byteCount": len(content), "dataRowCount": 1} for name, content in files.items()]
    said = {"runInfo": {"submittedTime": submitted, "startDate": "2026-03-01T00:00:00"}, "blobCount": len(blobs), "blobs": blobs}
    return json.dumps({"manifestVersion": "2024-04-01"} | said)


def delivered(bills: Bills, run: str, rows: list[dict[str, str]], *, cut: bool = False) -> None:
    """A run of an export, as Cost Management delivers it below its directory."""
    below = f"exports/daily/20260301-20260331/{run}/guid"
    content = csv_text(rows).encode()
    bills.write(f"{below}/000001.csv", content[: len(content) // 2] if cut else content)
    bills.write(f"{below}/manifest.json", manifest({f"{below}/000001.csv": content}, f"2026-03-{run[6:8]}T05:00:00Z"))


def test_the_last_run_of_a_month_holds(bills: Bills) -> None:
    delivered(bills, "202603050500", [row()])
    delivered(bills, "202603060500", [row(), row(Date="03/06/2026")])
    run = bills.load(bills.directory / "exports", provider="azure")
    assert not run.errors, run.errors
    assert [(result.source, result.rows) for result in run.results] == [("azure://exports/daily", 2)]
    delivered(bills, "202603070500", [row(CostInBillingCurrency="80")])
    bills.load(bills.directory / "exports", provider="azure")
    assert bills.sums() == [("azure://exports/daily", "2026-03", 1, 80.0, 80.0)]


def test_half_a_delivery_is_refused(bills: Bills) -> None:
    delivered(bills, "202603050500", [row(), row(Date="03/06/2026")], cut=True)
    run = bills.load(bills.directory / "exports", provider="azure")
    assert "bytes of the" in run.errors[0].message and not run.results


def test_a_manifest_without_its_files_leaves_others_alone(bills: Bills) -> None:
    bills.write("cost.csv", csv_text([row()]))
    bills.write(
        "manifest.json", manifest({"elsewhere/20260301-20260331/202603050500/g/000001.csv": b"x"}, "2026-03-05T00:00:00Z")
    )
    run = bills.load(bills.directory, provider="azure")
    assert "is not there" in run.errors[0].message
    assert [result.rows for result in run.results] == [1]


ANSWER = {
    "properties": {
        "columns": [
            {"name": name}
            for name in ("Cost", "UsageDate", "ResourceId", "MeterCategory", "PricingModel", "Currency", "NewColumn")
        ],
        "rows": [
            [12.34, 20260305, SET, "Virtual Machines", "OnDemand", "EUR", "?"],
            [0.1, 20260306, f"{SUB}/d", "Storage", "", "EUR", "?"],
        ],
    }
}


def test_a_saved_answer_of_the_query_api_loads(bills: Bills) -> None:
    run = bills.load(bills.write("answer.json", json.dumps(ANSWER, indent=1)), provider="azure")
    assert not run.errors, run.errors
    charges = bills.charges()
    assert [charge["billed_cost"] for charge in charges] == [Decimal("12.34"), Decimal("0.1")]
    assert [charge["kind"] for charge in charges] == ["instance", "storage"]
    assert (charges[0]["instance_key"], charges[0]["billing_currency"]) == (SET.lower(), "EUR")


def test_an_empty_answer_says_so(bills: Bills) -> None:
    empty = {"properties": {"columns": [{"name": "Cost"}, {"name": "UsageDate"}], "rows": []}}
    run = bills.load(bills.write("answer.json", json.dumps(empty)), provider="azure")
    assert isinstance(run.errors[0], DataError) and "without rows" in run.errors[0].message


def test_a_row_without_cost_is_told_of(bills: Bills) -> None:
    run = bills.load(
        bills.write("cost.csv", csv_text([row(CostInBillingCurrency="", MeterCategory="Storage")])), provider="azure"
    )
    assert [finding.code for finding in run.findings] == ["no_cost"]
    run = bills.load(bills.write("bad.csv", csv_text([row(CostInBillingCurrency="n/a")])), provider="azure")
    assert "the billed cost" in run.errors[0].message


def test_a_licence_that_is_free_is_free(bills: Bills) -> None:
    licence = row(MeterCategory="Virtual Machines Licenses", MeterName="24 vCPU VM License", CostInBillingCurrency="0")
    assert not bills.load(bills.write("a.csv", csv_text([row(), licence])), provider="azure").errors
    assert [charge["cost_cause"] for charge in bills.charges()] == ["same", "same"]


def test_dollars_are_not_taken_for_the_currency_that_stands_beside_them(bills: Bills) -> None:
    dollars = {("CostUSD" if name == "CostInBillingCurrency" else name): value for name, value in row().items()}
    run = bills.load(bills.write("a.csv", csv_text([dollars | {"BillingCurrencyCode": "EUR"}])), provider="azure")
    assert "it is like an Azure cost export, but has no column cost" in run.errors[0].message
