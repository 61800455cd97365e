"""Azure's cost exports: each rule of their mapping, on small files with the columns of every agreement."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.errors import DataError
from tests.unit.bills import Bills, check_charges, csv_text

SUB = "/subscriptions/11111111-aaaa-bbbb-cccc-000000000001"
SET = f"{SUB}/resourceGroups/MC_ml/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-1-vmss"
KEY = f"{SET}/virtualMachines/3".lower()
INFO = {
    "UsageType": "ComputeHR",
    "ServiceType": "Standard_NC24ads_A100_v4",
    "VMName": "aks-gpu-1-vmss_3",
    "VCPUs": 24,
}


def row(**changed: str) -> dict[str, str]:
    """A row of an Enterprise agreement's export: a machine of an AKS node pool for a day."""
    made = {
        "SubscriptionId": SUB.rpartition("/")[2], "SubscriptionName": "ml", "ResourceLocation": "US East",
        "Date": "03/05/2026", "ProductName": "", "MeterCategory": "Virtual Machines",
        "MeterSubCategory": "NCads A100 v4 Series", "MeterId": "m-1", "MeterName": "NC24ads A100 v4",
        "UnitOfMeasure": "10 Hours", "Quantity": "24", "EffectivePrice": "3.673", "CostInBillingCurrency": "88.152",
        "ConsumedService": "Microsoft.Compute", "ResourceId": SET, "Tags": '{"aks-managed-poolName": "gpu"}',
        "AdditionalInfo": json.dumps(INFO), "ReservationId": "", "ReservationName": "", "ChargeType": "Usage",
        "PricingModel": "OnDemand", "Frequency": "UsageBased", "BillingAccountId": "4711", "BillingCurrencyCode": "USD",
        "BillingPeriodStartDate": "03/01/2026", "BillingPeriodEndDate": "03/31/2026",
    }  # fmt: skip
    assert changed.keys() <= made.keys() | {"benefitId", "benefitName", "ServiceFamily"}
    return made | changed


COVERED = {"PricingModel": "Reservation", "ReservationId": "ri-1"}
PURCHASE = {
    "ChargeType": "Purchase", "MeterCategory": "", "ResourceId": "", "Quantity": "1", "AdditionalInfo": "",
    "MeterName": "RI",
}  # fmt: skip


def load(bills: Bills, rows: list[dict[str, str]], name: str = "cost.csv") -> list[dict[str, Any]]:
    """Loads rows as CSV, which must load, and answers all charges."""
    run = bills.load(bills.write(name, csv_text(rows)), provider="azure")
    assert not run.errors, run.errors
    return bills.charges()


def amortized() -> list[dict[str, str]]:
    return [
        row(CostInBillingCurrency="40", **COVERED),
        row(Date="03/06/2026", CostInBillingCurrency="88"),
        row(
            Date="03/05/2026",
            ChargeType="UnusedReservation",
            CostInBillingCurrency="10",
            ResourceId="",
            **COVERED,
        ),
        row(
            ChargeType="UnusedSavingsPlan",
            CostInBillingCurrency="2",
            PricingModel="SavingsPlan",
            benefitId="sp-1",
        ),
    ]


def actual() -> list[dict[str, str]]:
    return [
        row(CostInBillingCurrency="0", **COVERED),
        row(Date="03/06/2026", CostInBillingCurrency="88"),
        row(Date="03/05/2026", CostInBillingCurrency="365", **COVERED | PURCHASE),
    ]


def named(resource: str, vm: str | None) -> dict[str, str]:
    return row(ResourceId=resource, AdditionalInfo=json.dumps(INFO | {"VMName": vm}))


def renamed(names: Any) -> list[dict[str, str]]:
    return [{names(name) or name: value for name, value in row().items()}]


OTHER_NAMES: list[Any] = [
    lambda name: name[0].lower() + name[1:],
    str.upper,
    lambda name: f"Irgendein Wort ({name})",
    {"CostInBillingCurrency": "PreTaxCost", "Date": "UsageDateTime", "ResourceId": "InstanceId", "Quantity": "UsageQuantity",
     "BillingCurrencyCode": "Currency", "SubscriptionId": "SubscriptionGuid"}.get,
    {"CostInBillingCurrency": "costInBillingCurrency", "Date": "date", "BillingCurrencyCode": "billingCurrency"}.get,
]  # fmt: skip
FLEXIBLE = f"{SUB}/resourceGroups/MC_ml/providers/Microsoft.Compute/virtualMachines/"
KEPT_FREE = (
    f"{SUB}/resourceGroups/r/providers/Microsoft.Compute/capacityReservationGroups/g/capacityReservations/c"
)
NUMBERS = {"1234,5": "1234.5", "1.234,56": "1234.56", "1,234.56": "1234.56", "1E-05": "0.00001"}
DAYS = [
    "3/5/2026",
    "2026-03-05T00:00:00Z",
    "05.03.2026",
    "03/05/2026",
    "2026-03-05",
    "2026-03-05 00:00:00",
    "20260305",
]
KINDS = "storage network network instance instance instance refund tax support other reserved_unused instance"
FIFTH = datetime(2026, 3, 5, tzinfo=UTC).replace(tzinfo=None)
TAGS = '"team": "nlp","cost center": "7"'
PRICED = {
    "InvoiceId": "G1",
    "PayGPrice": "4.5",
    "UnitPrice": "3.9",
    "PartNumber": "AAH-1",
    "PricingCurrency": "USD",
}
#: Rows of a file, and what their charges say; of costs as text.
CASES: dict[str, tuple[list[dict[str, str]], dict[str, list[Any]]]] = {
    "a machine of a scale set is named as Kubernetes names it": (
        [row()],
        {"kind": ["instance"], "instance_key": [KEY], "instance_hours": [24.0], "instance_type": ["Standard_NC24ads_A100_v4"],
         "region": ["eastus"], "billed_cost": ["88.152"], "effective_cost": ["88.152"], "tags": [{"aks-managed-poolName": "gpu"}],
         "charge_period_start": [FIFTH], "charge_period_end": [FIFTH + timedelta(days=1)], "format": ["azure-cost"]},
    ),
    "the machine of a row": (
        [named(SET, "aks-gpu-1-vmss_12"), named(SET, None), named(SET, "flex-vm-7"), named(f"{SET}/virtualMachines/5", None),
         named(f"{FLEXIBLE}VM-1", "VM-1")],
        {"instance_key": [f"{SET}/virtualMachines/12".lower(), SET.lower(), f"{FLEXIBLE}flex-vm-7".lower(),
                          f"{SET}/virtualMachines/5".lower(), f"{FLEXIBLE}vm-1".lower()]},
    ),
    "additional info and tags come with and without braces": (
        [row(AdditionalInfo=text, Tags=TAGS)
         for text in ('"VMName": "aks-gpu-1-vmss_3", "UsageType": "ComputeHR"', '{"VMName":"aks-gpu-1-vmss_3"}')],
        {"instance_key": [KEY] * 2, "tags": [{"team": "nlp", "cost center": "7"}] * 2},
    ),
    # how days are written is found out for each file
    **{f"days in many ways: {day}": ([row(Date=day)], {"charge_period_start": [FIFTH]}) for day in DAYS},
    **{
        f"numbers of any language: {text}": ([row(CostInBillingCurrency=text)], {"billed_cost": [cost]})
        for text, cost in NUMBERS.items()
    },
    **{
        f"columns of every agreement, case and language: {number}": (
            renamed(names),
            {"instance_key": [KEY], "billed_cost": ["88.152"], "billing_currency": ["USD"],
             "sub_account_id": [SUB.rpartition("/")[2]]},
        )
        for number, names in enumerate(OTHER_NAMES)
    },
    "the period is the billing period or the day's month": (
        [row(Date="02/28/2026"), row(Date="02/27/2026", BillingPeriodStartDate="", BillingPeriodEndDate="")],
        {"billing_period": ["2026-03", "2026-02"]},
    ),
    "kinds of charges": (
        [row(MeterCategory="Storage", MeterName="P30 Disks", UnitOfMeasure="1/Month"),
         row(MeterCategory="Bandwidth", MeterName="Data Transfer Out", UnitOfMeasure="1 GB"),
         row(MeterCategory="Load Balancer", UnitOfMeasure="1 Hour"),
         row(MeterCategory="Virtual Machines Licenses", MeterName="2 vCPU VM License"),
         row(MeterName="NC24ads A100 v4 Spot"), row(MeterName="low", PricingModel="Spot"),
         row(ChargeType="Refund", CostInBillingCurrency="-5"), row(ChargeType="Tax", CostInBillingCurrency="5"),
         row(MeterCategory="Microsoft Support", ChargeType="Purchase"),
         row(MeterCategory="Azure Monitor", ResourceId=f"{SUB}/x/y/z", AdditionalInfo=""), row(ResourceId=KEPT_FREE),
         row(ResourceId=f"{SUB}/rsid2", MeterCategory="Virtuelle Computer")],
        {"kind": KINDS.split(),
         "instance_hours": [None] * 4 + [24.0] * 2 + [None] * 5 + [24.0]}
    ),
    "a license that is free is free": (
        [row(), row(MeterCategory="Virtual Machines Licenses", MeterName="24 vCPU VM License", CostInBillingCurrency="0")],
        {"cost_cause": ["same", "same"]},
    ),
    "amortized cost is effective, and commitments are not billed": (
        amortized(),
        {"format": ["azure-amortized"] * 4, "effective_cost": ["40", "88", "10", "2"], "billed_cost": ["0", "88", "0", "0"],
         "kind": ["instance", "instance", "commitment_unused", "commitment_unused"],
         "cost_cause": ["covered_usage", "same", "commitment_unused", "commitment_unused"],
         "commitment_discount_id": ["ri-1", None, "ri-1", "sp-1"],
         "commitment_discount_type": ["Reservation", None, "Reservation", "Savings Plan"]},
    ),
    "actual cost alone prices no covered machine": (
        actual(),
        {"format": ["azure-actual"] * 3, "cost_cause": ["zero_unexplained", "same", "same"], "effective_cost": ["0", "88", "365"],
         "kind": ["instance", "instance", "commitment_fee"]},
    ),
    # prices of another currency are left out
    "prices, invoices and commitments": (
        [row() | PRICED, row(Date="03/06/2026") | PRICED | {"PricingCurrency": "EUR"},
         row(**COVERED) | {"ReservationName": "gpus"}],
        {"invoice_id": ["G1", "G1", None], "list_unit_price": ["4.5", None, None], "contracted_unit_price": ["3.9", None, None],
         "sku_price_id": ["AAH-1", "AAH-1", None], "commitment_discount_name": [None, None, "gpus"],
         "commitment_discount_quantity": [None, None, "24"], "commitment_discount_unit": [None, None, "10 Hours"]},
    ),
    "a row without a currency has the configured one": (
        [{name: value for name, value in row().items() if name != "BillingCurrencyCode"}], {"billing_currency": ["EUR"]}
    ),
    "a row without cost": ([row(CostInBillingCurrency="", MeterCategory="Storage")], {"billed_cost": ["0"]}),
}  # fmt: skip
Loaded = tuple[set[str], dict[str, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """Each case in a file and a billing account of its own: what is said of them, and their charges."""
    bills = Bills(tmp_path_factory.mktemp("bills"))
    paths = []
    for number, (rows, _) in enumerate(CASES.values(), 1):
        own = [
            {
                name: str(number) if value == "4711" else value.replace("00000001", f"{number:08}")
                for name, value in one.items()
            }
            for one in rows
        ]
        mark = "\ufeff" if number % 2 else ""
        paths.append(bills.write(f"{number}/cost.csv", mark + csv_text(own)))
    run = bills.load(*paths, provider="azure", currency="EUR")
    assert not run.errors, run.errors
    charges: dict[str, list[dict[str, Any]]] = {str(path): [] for path in paths}
    for charge in bills.charges():
        number = int(Path(charge["source_file"]).parent.name)
        names = ("instance_key", "sub_account_id")
        alike = {name: charge[name] and charge[name].replace(f"{number:08}", "00000001") for name in names}
        charges[charge["source_file"]].append(charge | alike)
    return {finding.code for finding in run.findings}, dict(zip(CASES, charges.values(), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_rows_cost_and_are(loaded: Loaded, name: str) -> None:
    check_charges(loaded[1][name], CASES[name][1])
    if name == "kinds of charges":
        assert [charge["pricing_category"] for charge in loaded[1][name][3:6]] == [
            "Standard",
            "Dynamic",
            "Dynamic",
        ]


def test_what_is_odd_is_told(loaded: Loaded) -> None:
    """Rows that name only a scale set, or have no cost; actual cost without amortized cost; days that are too long."""
    assert loaded[0] == {"scale_set", "no_cost", "actual_only", "billed_twice"}


def test_row_that_cannot_be_read_is_refused(bills: Bills) -> None:
    changes = {"the start of the charge": {"Date": "31/12/2026", "BillingPeriodStartDate": ""}, "the billed cost":
               {"CostInBillingCurrency": "n/a"}, "the currency": {"BillingCurrencyCode": ""}}  # fmt: skip
    refusals = bills.refusals(
        {what: csv_text([row(), row(**changed)]) for what, changed in changes.items()}, "azure"
    )
    for what in changes:
        assert refusals[what].startswith(f"row 2: {what} is empty or cannot be read")


@pytest.mark.parametrize(
    "order",
    [
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("together", "actual first", "amortized first")
        ),
        "actual twice",
    ],
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


@pytest.mark.parametrize("month", ["03", "04"])
def test_missing_amortized_cost_is_no_warning_where_one_command_loads_it(bills: Bills, month: str) -> None:
    """Also in two exports with manifests of their own; that of another month is missing still."""
    other = [
        changed
        | {"Date": changed["Date"].replace("03/", f"{month}/"), "BillingPeriodStartDate": f"{month}/01/2026"}
        for changed in amortized()
    ]
    paths = bills.write("a.csv", csv_text(actual())), bills.write("b.csv", csv_text(other))
    run = bills.load(*paths, provider="azure")
    assert not run.errors, run.errors
    assert ("actual_only" in {finding.code for finding in run.findings}) == (month == "04")
    assert "actual_only" not in {
        finding.code
        for finding in bills.load(bills.write("c.csv", csv_text(amortized())), provider="azure").findings
    }


def test_actual_cost_of_days_that_are_not_amortized_yet_stays(bills: Bills) -> None:
    load(bills, amortized(), "b.csv")
    load(bills, [*actual(), row(Date="03/07/2026", CostInBillingCurrency="77")], "a.csv")
    _, sums = bills.store.query(
        "SELECT format, count(*), sum(effective_cost)::INT FROM charges GROUP BY 1 ORDER BY 1"
    )
    assert sums == [("azure-actual", 2, 77), ("azure-amortized", 4, 140)]


@pytest.mark.slow
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
    blobs = [
        {"blobName": name, "byteCount": len(content), "dataRowCount": 1} for name, content in files.items()
    ]
    said = {
        "runInfo": {"submittedTime": submitted, "startDate": "2026-03-01T00:00:00"},
        "blobCount": len(blobs),
        "blobs": blobs,
    }
    return json.dumps({"manifestVersion": "2024-04-01"} | said)


def delivered(bills: Bills, run: str, rows: list[dict[str, str]], *, cut: bool = False) -> None:
    """A run of an export, as Cost Management delivers it below its directory."""
    below = f"exports/daily/20260301-20260331/{run}/guid"
    content = csv_text(rows).encode()
    bills.write(f"{below}/000001.csv", content[: len(content) // 2] if cut else content)
    bills.write(
        f"{below}/manifest.json", manifest({f"{below}/000001.csv": content}, f"2026-03-{run[6:8]}T05:00:00Z")
    )


def test_half_a_delivery_is_refused_and_the_last_run_of_a_month_holds(bills: Bills) -> None:
    delivered(bills, "202603050500", [row(), row(Date="03/06/2026")], cut=True)
    run = bills.load(bills.directory / "exports", provider="azure")
    assert "bytes of the" in run.errors[0].message and not run.results
    delivered(bills, "202603050500", [row()])
    delivered(bills, "202603060500", [row(), row(Date="03/06/2026")])
    run = bills.load(bills.directory / "exports", provider="azure")
    assert not run.errors, run.errors
    assert [(result.source, result.rows) for result in run.results] == [("azure://exports/daily", 2)]
    delivered(bills, "202603070500", [row(CostInBillingCurrency="80")])
    bills.load(bills.directory / "exports", provider="azure")
    assert bills.sums() == [("azure://exports/daily", "2026-03", 1, 80.0, 80.0)]


def test_a_manifest_without_its_files_leaves_others_alone(bills: Bills) -> None:
    bills.write("cost.csv", csv_text([row()]))
    bills.write(
        "manifest.json",
        manifest({"elsewhere/20260301-20260331/202603050500/g/000001.csv": b"x"}, "2026-03-05T00:00:00Z"),
    )
    run = bills.load(bills.directory, provider="azure")
    assert "is not there" in run.errors[0].message
    assert [result.rows for result in run.results] == [1]


ANSWER = {
    "properties": {
        "columns": [
            {"name": name}
            for name in (
                "Cost",
                "UsageDate",
                "ResourceId",
                "MeterCategory",
                "PricingModel",
                "Currency",
                "NewColumn",
            )
        ],
        "rows": [
            [12.34, 20260305, SET, "Virtual Machines", "OnDemand", "EUR", "?"],
            [0.1, 20260306, f"{SUB}/d", "Storage", "", "EUR", "?"],
        ],
    }
}


def test_a_saved_answer_of_the_query_api_loads_and_an_empty_one_says_so(bills: Bills) -> None:
    empty = {"properties": {"columns": [{"name": "Cost"}, {"name": "UsageDate"}], "rows": []}}
    run = bills.load(bills.write("answer.json", json.dumps(empty)), provider="azure")
    assert isinstance(run.errors[0], DataError) and "without rows" in run.errors[0].message
    run = bills.load(bills.write("answer.json", json.dumps(ANSWER, indent=1)), provider="azure")
    assert not run.errors, run.errors
    charges = bills.charges()
    assert [charge["billed_cost"] for charge in charges] == [Decimal("12.34"), Decimal("0.1")]
    assert [charge["kind"] for charge in charges] == ["instance", "storage"]
    assert (charges[0]["instance_key"], charges[0]["billing_currency"]) == (SET.lower(), "EUR")


def test_dollars_are_not_taken_for_the_currency_that_stands_beside_them(bills: Bills) -> None:
    dollars = {
        ("CostUSD" if name == "CostInBillingCurrency" else name): value for name, value in row().items()
    }
    run = bills.load(
        bills.write("a.csv", csv_text([dollars | {"BillingCurrencyCode": "EUR"}])), provider="azure"
    )
    assert "it is like an Azure cost export, but has no column cost" in run.errors[0].message
