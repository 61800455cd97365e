"""OCI's cost reports: the classic one, and the one in FOCUS columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.unit.bills import Bills, check_charges, csv_text

MACHINE = "ocid1.instance.oc1.iad.aNuwc"


def classic(hour: int, quantity: str = "8", **changed: str) -> dict[str, str]:
    """A row of an 8-GPU machine's hour."""
    row = {
        "lineItem/referenceNo": f"V2.{hour}", "lineItem/tenantId": "ocid1.tenancy.oc1..aaa",
        "lineItem/intervalUsageStart": f"2026-03-05T{hour:02}:00Z",
        "lineItem/intervalUsageEnd": f"2026-03-05T{hour + 1:02}:00Z", "product/service": "COMPUTE",
        "product/compartmentId": "ocid1.compartment.oc1..c", "product/compartmentName": "ml",
        "product/region": "us-ashburn-1", "product/availabilityDomain": "kIdk:US-ASHBURN-AD-1",
        "product/resourceId": MACHINE, "usage/billedQuantity": quantity, "usage/billedQuantityOverage": "",
        "cost/subscriptionId": "4711", "cost/productSku": "B109479", "product/Description": "Compute - GPU - H100",
        "cost/unitPrice": "10", "cost/unitPriceOverage": "", "cost/myCost": str(Decimal(quantity) * 10),
        "cost/myCostOverage": "", "cost/currencyCode": "USD", "cost/skuUnitDescription": "GPU Per Hour",
        "cost/overageFlag": "N", "lineItem/isCorrection": "false", "lineItem/backreferenceNo": "", "tags/team": "nlp",
        "tags/Oracle-Tags.CreatedBy": "",
    }  # fmt: skip
    assert changed.keys() <= row.keys()
    return row | changed


def focus(hour: int, quantity: str = "8", **changed: str) -> dict[str, str]:
    """The same machine's hour in the columns of the FOCUS preview."""
    row = {
        "AvailabilityZone": "AD-1", "BilledCost": str(Decimal(quantity) * 10), "BillingAccountId": "4711",
        "BillingCurrency": "EUR", "BillingPeriodStart": "2026-03-01T00:00Z", "BillingPeriodEnd": "2026-04-01T00:00Z",
        "ChargeCategory": "Usage", "ChargeDescription": "Compute - GPU - H100",
        "ChargePeriodStart": f"2026-03-05T{hour:02}:00Z", "ChargePeriodEnd": f"2026-03-05T{hour + 1:02}:00Z",
        "ChargeSubcategory": "On-Demand", "EffectiveCost": "", "InvoiceIssuer": "Oracle", "ListUnitPrice": "10",
        "PricingQuantity": quantity, "PricingUnit": "GPU Per Hour", "Provider": "Oracle", "Publisher": "Oracle",
        "Region": "us-ashburn-1", "ResourceId": MACHINE, "ServiceCategory": "Compute", "ServiceName": "Compute",
        "SkuId": "B109479", "Tags": '{"team": "nlp"}', "UsageQuantity": quantity, "UsageUnit": "GPU Per Hour",
        "oci_ReferenceNumber": f"r{hour}", "oci_CompartmentName": "ml", "oci_BackReferenceNumber": "",
    }  # fmt: skip
    assert changed.keys() <= row.keys()
    return row | changed


CORES = {"cost/skuUnitDescription": "OCPU Per Hour", "product/Description": "Compute - Standard - E4 - OCPU"}
MEMORY = {
    "cost/skuUnitDescription": "Gigabyte Per Hour",
    "product/Description": "Compute - Standard - E4 - Memory",
}
WINDOWS = {"cost/skuUnitDescription": "OCPU Per Hour", "product/Description": "Compute - Windows OS"}
TAKEN = {
    "lineItem/isCorrection": "true", "lineItem/backreferenceNo": "V2.1", "lineItem/referenceNo": "V2.9", "cost/myCost": "-80",
}  # fmt: skip
VOLUME = {
    "product/service": "BLOCK_STORAGE", "product/resourceId": "ocid1.volume.oc1.iad.v", "product/Description": "Block Volume",
}  # fmt: skip
TRAFFIC = {
    "product/service": "NETWORK", "product/resourceId": "ocid1.vcn.oc1.iad.v", "product/Description": "Outbound Data Transfer",
}  # fmt: skip
OF_MACHINE: dict[str, list[Any]] = {
    "kind": ["instance"] * 3, "instance_hours": [1, 1, 0.5], "effective_cost": ["80", "80", "40"],
    "billed_cost": ["80", "80", "40"], "provider": ["oci"] * 3, "billing_period": ["2026-03"] * 3, "resource_id": [MACHINE] * 3,
    "instance_key": [MACHINE.lower()] * 3, "region": ["us-ashburn-1"] * 3, "tags": [{"team": "nlp"}] * 3,
}  # fmt: skip
#: Rows of an account, and what their charges are.
CASES: dict[str, tuple[list[dict[str, str]], dict[str, list[Any]]]] = {
    # a row that is there twice counts once
    "a machine costs what its GPU hours do": (
        [classic(1), classic(2), classic(3, "4"), classic(3, "4")], OF_MACHINE | {"billing_currency": ["USD"] * 3}
    ),
    "a machine in FOCUS columns": (
        [focus(1), focus(2), focus(3, "4"), focus(3, "4")], OF_MACHINE | {"billing_currency": ["EUR"] * 3}
    ),
    "cores give the hours of a machine without GPUs, memory and licenses do not": (
        [classic(1, quantity, **changed, **{"lineItem/referenceNo": f"r{quantity}", "cost/productSku": f"B{quantity}"})
         for quantity, changed in (("4", CORES), ("64", MEMORY), ("5", WINDOWS))],
        {"kind": ["instance"] * 3, "instance_hours": [1, None, None]},
    ),
    "corrections are charges of their own": (
        [classic(1), classic(1, "-8", **TAKEN)],
        {"charge_class": [None, "Correction"], "billed_cost": ["80", "-80"], "instance_hours": [1, -1]},
    ),
    "what is no machine": (
        [classic(1, **VOLUME), classic(2, **TRAFFIC)], {"kind": ["storage", "network"], "instance_key": [None] * 2}
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The charges of each case, whose rows are of an account of its own."""
    bills = Bills(tmp_path_factory.mktemp("bills"))
    texts: dict[str, list[dict[str, str]]] = {"classic.csv": [], "focus.csv": []}
    for number, (rows, _) in enumerate(CASES.values()):
        kind = "focus.csv" if "BilledCost" in rows[0] else "classic.csv"
        own = {"4711": f"47{number}", MACHINE: f"{MACHINE}-{number}"}
        texts[kind] += [{name: own.get(value, value) for name, value in row.items()} for row in rows]
    run = bills.load(*(bills.write(name, csv_text(rows)) for name, rows in texts.items()), provider=None)
    assert not run.errors, run.errors
    charges: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    for charge in bills.charges():
        number = int(charge["billing_account_id"][2:])
        alike = {
            name: charge[name] and charge[name].removesuffix(f"-{number}")
            for name in ("resource_id", "instance_key")
        }
        charges[list(CASES)[number]].append(charge | alike)
    return charges


@pytest.mark.parametrize("name", CASES)
def test_what_rows_cost_and_are(loaded: dict[str, list[dict[str, Any]]], name: str) -> None:
    check_charges(loaded[name], CASES[name][1])


def test_other_commands_name_the_one_that_takes_it(bills: Bills) -> None:
    run = bills.load(bills.write("oci.csv", csv_text([classic(1)])), provider="aws")
    assert (run.errors[0].message.partition("oci.csv ")[2], run.errors[0].fix) == (
        "is an OCI cost report",
        "gpucost collect focus loads it",
    )
