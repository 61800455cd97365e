"""OCI's cost reports: the classic one, and the one in FOCUS columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.unit.bills import Bills, csv_text

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


def load(bills: Bills, rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    run = bills.load(bills.write("oci.csv", csv_text(rows)), provider=None)
    assert not run.errors, run.errors
    return bills.charges()


@pytest.mark.parametrize(("form", "currency"), [(classic, "USD"), (focus, "EUR")])
def test_a_machine_costs_what_its_gpu_hours_do(bills: Bills, form: Any, currency: str) -> None:
    charges = load(bills, [form(1), form(2), form(3, "4"), form(3, "4")])
    assert [(charge["kind"], charge["instance_hours"], charge["effective_cost"]) for charge in charges] == [
        ("instance", 1.0, 80),
        ("instance", 1.0, 80),
        ("instance", 0.5, 40),
    ]
    first = charges[0]
    assert (first["provider"], first["billing_period"], first["billing_currency"]) == ("oci", "2026-03", currency)
    assert (first["resource_id"], first["instance_key"], first["region"]) == (MACHINE, MACHINE.lower(), "us-ashburn-1")
    assert first["tags"] == {"team": "nlp"} and first["billed_cost"] == first["effective_cost"]


def test_cores_clock_a_machine_without_gpus_and_its_memory_and_licenses_do_not(bills: Bills) -> None:
    cores = {"cost/skuUnitDescription": "OCPU Per Hour", "product/Description": "Compute - Standard - E4 - OCPU"}
    memory = {"cost/skuUnitDescription": "Gigabyte Per Hour", "product/Description": "Compute - Standard - E4 - Memory"}
    windows = {"cost/skuUnitDescription": "OCPU Per Hour", "product/Description": "Compute - Windows OS"}
    rows = [
        classic(1, quantity, **changed, **{"lineItem/referenceNo": f"r{quantity}", "cost/productSku": f"B{quantity}"})
        for quantity, changed in (("4", cores), ("64", memory), ("5", windows))
    ]
    assert [(charge["kind"], charge["instance_hours"]) for charge in load(bills, rows)] == [
        ("instance", 1.0),
        ("instance", None),
        ("instance", None),
    ]


def test_corrections_are_charges_of_their_own(bills: Bills) -> None:
    taken = {
        "lineItem/isCorrection": "true",
        "lineItem/backreferenceNo": "V2.1",
        "lineItem/referenceNo": "V2.9",
        "cost/myCost": "-80",
    }
    charges = load(bills, [classic(1), classic(1, "-8", **taken)])
    assert [charge["charge_class"] for charge in charges] == [None, "Correction"]
    assert sum(charge["billed_cost"] for charge in charges) == 0
    assert sum(charge["instance_hours"] for charge in charges) == 0


def test_what_is_no_machine_is_told_apart(bills: Bills) -> None:
    volume = {
        "product/service": "BLOCK_STORAGE",
        "product/resourceId": "ocid1.volume.oc1.iad.v",
        "product/Description": "Block Volume",
    }
    traffic = {
        "product/service": "NETWORK",
        "product/resourceId": "ocid1.vcn.oc1.iad.v",
        "product/Description": "Outbound Data Transfer",
    }
    charges = load(bills, [classic(1, **volume), classic(2, **traffic)])
    assert [(charge["kind"], charge["instance_key"]) for charge in charges] == [("storage", None), ("network", None)]


def test_other_commands_name_the_one_that_takes_it(bills: Bills) -> None:
    run = bills.load(bills.write("oci.csv", csv_text([classic(1)])), provider="aws")
    assert (run.errors[0].message.partition("oci.csv ")[2], run.errors[0].fix) == (
        "is an OCI cost report",
        "gpucost collect focus loads it",
    )
