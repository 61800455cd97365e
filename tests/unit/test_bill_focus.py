"""FOCUS: any provider, any version from 1.0, and what a row is to gpucost."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.unit.bills import FOCUS_USAGE, Bills, csv_text

NAMES = {
    "AWS": "aws",
    "Amazon Web Services": "aws",
    "Microsoft": "azure",
    "Google Cloud": "gcp",
    "Oracle": "oci",
}
MACHINES = {
    "arn:aws:ec2:eu-west-1:2:instance/i-2d1026706d7e": "i-2d1026706d7e",
    "i-0ABC": "i-0abc",
    "//compute.googleapis.com/projects/p/zones/us-east1-b/instances/N": "p/us-east1-b/n",
    "//compute.googleapis.com/projects/p/instances/n": "p/zone-1/n",
    "/subscriptions/S/resourceGroups/R/providers/Microsoft.Compute/virtualMachines/V":
        "/subscriptions/s/resourcegroups/r/providers/microsoft.compute/virtualmachines/v",
    "vm-1": "vm-1",
}  # fmt: skip
COMMITTED = {"CommitmentDiscountId": "c", "BilledCost": "0"}
FREE = {"EffectiveCost": "0", "BilledCost": "0"}
#: What is changed in a machine's hour, and what its charge says then.
CASES: list[tuple[dict[str, str], dict[str, Any]]] = [
    (
        {"SkuPriceDetails": '{"InstanceType": "gpu-8x-h100"}', "Tags": '{"team": "ml"}'},
        {"provider": "nimbus gpu cloud", "kind": "instance", "instance_hours": 1.0, "instance_type": "gpu-8x-h100",
         "tags": {"team": "ml"}, "billing_period": "2026-03", "source": "nimbus gpu cloud/acct-1"},
    ),
    (
        {"InvoiceId": "I1", "ListUnitPrice": "5", "ContractedUnitPrice": "4", "SkuPriceId": "P1",
         "SkuPriceDetails": '{"GpuCount": 8}', "CommitmentDiscountName": "three years", "CommitmentDiscountQuantity": "1",
         "CommitmentDiscountUnit": "Hours", "x_CostCategories": '{"Department": "Research"}'},
        {"invoice_id": "I1", "list_unit_price": 5, "contracted_unit_price": 4, "sku_price_id": "P1",
         "sku_price_details": '{"GpuCount": 8}', "commitment_discount_name": "three years", "commitment_discount_quantity": 1,
         "commitment_discount_unit": "Hours", "cost_categories": {"Department": "Research"}},
    ),
    ({"BillingCurrency": ""}, {"billing_currency": "EUR"}),
    ({"BillingAccountId": "acct-2"}, {"source": "nimbus gpu cloud/acct-2"}),
    ({"ProviderName": "AWS"}, {"source": "aws/acct-1"}),
    ({"ServiceProviderName": "Google Cloud"}, {"provider": "gcp"}),
    # a word for nothing is nothing
    (
        {"CommitmentDiscountId": "NULL", "Tags": "NULL", "SubAccountId": "NULL"},
        {"commitment_discount_id": None, "tags": None, "sub_account_id": None},
    ),
    # Azure names a subscription in two ways, others as they do
    ({"ProviderName": "Microsoft", "SubAccountId": "/subscriptions/0AB1-CD"}, {"sub_account_id": "0ab1-cd"}),
    ({"ProviderName": "Microsoft", "SubAccountId": "0AB1-CD"}, {"sub_account_id": "0ab1-cd"}),
    ({"SubAccountId": "/subscriptions/0AB1-CD"}, {"sub_account_id": "/subscriptions/0AB1-CD"}),
    *(({"ProviderName": name}, {"provider": provider}) for name, provider in NAMES.items()),
    *(({"ResourceId": name, "AvailabilityZone": "zone-1"}, {"instance_key": key}) for name, key in MACHINES.items()),
    *((changed, {"kind": kind, "cost_cause": cause}) for kind, cause, changed in (
        ("tax", "same", {"ChargeCategory": "Tax", "ResourceId": ""}),
        ("credit", "same", {"ChargeCategory": "Credit", "BilledCost": "-4", "EffectiveCost": "-4"}),
        ("refund", "same", {"ChargeCategory": "Adjustment", "BilledCost": "-4", "EffectiveCost": "-4"}),
        ("support", "same", {"ServiceName": "Premium Support"}),
        ("commitment_fee", "fee_amortized", {"ChargeCategory": "Purchase", "CommitmentDiscountId": "c", "EffectiveCost": "0"}),
        ("commitment_unused", "commitment_unused", COMMITTED | {"CommitmentDiscountStatus": "Unused"}),
        ("instance", "covered_usage", COMMITTED | {"CommitmentDiscountStatus": "Used"}),
        ("reserved_unused", "same", {"CapacityReservationId": "cr-1", "CapacityReservationStatus": "Unused"}),
        ("storage", "same", {"ServiceCategory": "Storage", "ConsumedUnit": "GB-Months"}),
        ("network", "same", {"ServiceCategory": "Networking", "ConsumedUnit": "GB"}),
        ("instance", "zero_unexplained", FREE),
    )),
]  # fmt: skip


def test_what_a_row_is_and_whose(bills: Bills) -> None:
    path = bills.write("focus.csv", csv_text([FOCUS_USAGE | changed for changed, _ in CASES]))
    run = bills.load(path, provider=None, currency="EUR")
    assert not run.errors, run.errors
    charges = sorted(bills.charges(), key=lambda charge: charge["source_row"])
    for (changed, expected), charge in zip(CASES, charges, strict=True):
        assert {name: charge[name] for name in expected} == expected, changed


ORDER = "/providers/Microsoft.BillingBenefits/savingsPlanOrders/O-1"
BOUGHT = {"ChargeCategory": "Purchase", "ResourceId": "plan"}
#: Commitments by id: what is changed in the rows of each, and their effective cost; each row is billed 4.00.
COMMITMENTS: dict[str, list[tuple[dict[str, str], str]]] = {
    # what usage bears is not borne twice; the order is bought, a plan of it is used
    ORDER + "/savingsPlans/p": [
        ({"CommitmentDiscountStatus": "Used"}, "4"),
        (BOUGHT | {"CommitmentDiscountId": ORDER.lower()}, "0"),
    ],
    "not spread": [({"EffectiveCost": "0"}, "0"), (BOUGHT, "4")],
    "returned": [
        (BOUGHT | {"EffectiveCost": "0"}, "0"),
        (BOUGHT | {"EffectiveCost": "-4", "BilledCost": "-4", "ChargeClass": "Correction"}, "0"),
    ],
    "returned in cash": [
        (BOUGHT, "4"),
        ({"ChargeCategory": "Adjustment", "EffectiveCost": "-4", "BilledCost": "-4"}, "-4"),
    ],
    "/providers/microsoft.capacity/reservationorders/returned after use": [
        ({"EffectiveCost": "1.5"}, "1.5"),
        (BOUGHT, "0"),
        ({"ChargeCategory": "Adjustment", "EffectiveCost": "-6", "BilledCost": "-6"}, "-1.5"),
    ],
    # usage that costs less does not bear a purchase, but where Azure states both
    "fee beside usage": [({"EffectiveCost": "1.5"}, "1.5"), (BOUGHT, "4")],
    "fee beside usage, returned": [
        ({"EffectiveCost": "1.5"}, "1.5"),
        (BOUGHT, "4"),
        ({"ChargeCategory": "Adjustment", "EffectiveCost": "-6", "BilledCost": "-6"}, "-5.5"),
    ],
    # what it gives back is in another file
    "refund alone": [({"ChargeCategory": "Adjustment", "EffectiveCost": "-4", "BilledCost": "-4"}, "-4")],
    "refund of usage that bears nothing": [
        (FREE, "0"),
        ({"ChargeCategory": "Adjustment", "EffectiveCost": "-4", "BilledCost": "-4"}, "-4"),
    ],
    "refund of usage": [
        ({}, "4"),
        ({"ChargeCategory": "Adjustment", "EffectiveCost": "-6", "BilledCost": "-6"}, "-4"),
    ],
    "purchase alone": [(BOUGHT, "4")],
}


def test_a_commitment_counts_once_in_effective_cost(bills: Bills) -> None:
    rows = [
        (FOCUS_USAGE | {"CommitmentDiscountId": name} | changed, cost)
        for name, some in COMMITMENTS.items()
        for changed, cost in some
    ]
    run = bills.load(bills.write("focus.csv", csv_text([row for row, _ in rows])), provider=None)
    assert not run.errors, run.errors
    charges = sorted(bills.charges(), key=lambda charge: charge["source_row"])
    assert [charge["effective_cost"] for charge in charges] == [Decimal(cost) for _, cost in rows]
    differing = [charge for charge in charges if charge["effective_cost"] != charge["billed_cost"]]
    assert differing and all(charge["cost_cause"] != "same" for charge in differing)
    alone = " ".join(finding.message for finding in run.findings if finding.code == "commitment_alone")
    named = {name for name in COMMITMENTS if f"refunds of {name} keep" in alone}
    assert named == {"refund alone", "purchase alone", "returned in cash"}


def test_snake_case_and_parquet_are_the_same_file(bills: Bills) -> None:
    snaked = {
        "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_"): value
        for name, value in FOCUS_USAGE.items()
    }
    out = io.BytesIO()
    table = pa.Table.from_pylist([snaked | {"tags": {"team": "ml"}, "billed_cost": 4.0}])
    pq.write_table(table, out)
    run = bills.load(bills.write("focus.parquet", out.getvalue()), provider=None)
    assert not run.errors, run.errors
    (charge,) = bills.charges()
    assert (charge["billed_cost"], charge["tags"], charge["kind"]) == (Decimal(4), {"team": "ml"}, "instance")


def test_each_command_takes_its_providers_and_no_other_files_of_a_data_set(bills: Bills) -> None:
    run = bills.load(bills.write("focus.csv", csv_text([FOCUS_USAGE])), provider="aws")
    assert "is a FOCUS cost and usage file of nimbus gpu cloud" in run.errors[0].message
    assert run.errors[0].fix == "gpucost collect focus loads any provider's"
    both = [FOCUS_USAGE, FOCUS_USAGE | {"ProviderName": "AWS"}]
    assert (
        "holds charges of aws, nimbus gpu cloud"
        in bills.load(bills.write("both.csv", csv_text(both))).errors[0].message
    )
    run = bills.load(
        bills.write("c.csv", "ContractCommitmentId,ContractCommitmentCost\na,1\n"), provider=None
    )
    assert "contract commitment" in run.errors[0].message
