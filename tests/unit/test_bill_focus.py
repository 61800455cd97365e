"""FOCUS: any provider, any version from 1.0, and what a row is to gpucost."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.bills import FOCUS_USAGE, Bills, csv_text


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    return Bills(tmp_path)


def _load(bills: Bills, *rows: dict[str, str]) -> list[dict[str, Any]]:
    run = bills.load(bills.write("focus.csv", csv_text(rows)), provider=None)
    assert not run.errors, run.errors
    return bills.charges()


def _one(bills: Bills, **changed: str) -> dict[str, Any]:
    (charge,) = _load(bills, FOCUS_USAGE | changed)
    return charge


def test_a_gpu_clouds_machine(bills: Bills) -> None:
    charge = _one(bills, SkuPriceDetails='{"InstanceType": "gpu-8x-h100"}', Tags='{"team": "ml"}')
    assert (charge["provider"], charge["kind"], charge["instance_hours"]) == ("nimbus gpu cloud", "instance", 1.0)
    assert (charge["instance_type"], charge["tags"], charge["billing_period"]) == ("gpu-8x-h100", {"team": "ml"}, "2026-03")


def test_providers_by_their_names(bills: Bills) -> None:
    names = {"AWS": "aws", "Amazon Web Services": "aws", "Microsoft": "azure", "Google Cloud": "gcp", "Oracle": "oci"}
    charges = _load(bills, *(FOCUS_USAGE | {"ProviderName": name, "ResourceId": name} for name in names))
    assert {charge["resource_id"]: charge["provider"] for charge in charges} == names


def test_the_provider_of_the_service_comes_first(bills: Bills) -> None:
    assert _one(bills, ServiceProviderName="Google Cloud")["provider"] == "gcp"


def test_what_a_row_is(bills: Bills) -> None:
    told: list[tuple[str, str, dict[str, str]]] = [
        ("tax", "same", {"ChargeCategory": "Tax", "ResourceId": ""}),
        ("credit", "same", {"ChargeCategory": "Credit", "BilledCost": "-4", "EffectiveCost": "-4"}),
        ("refund", "same", {"ChargeCategory": "Adjustment", "BilledCost": "-4", "EffectiveCost": "-4"}),
        ("support", "same", {"ServiceName": "Premium Support"}),
        ("commitment_fee", "fee_amortized", {"ChargeCategory": "Purchase", "CommitmentDiscountId": "c", "EffectiveCost": "0"}),
        (
            "commitment_unused",
            "commitment_unused",
            {"CommitmentDiscountId": "c", "CommitmentDiscountStatus": "Unused", "BilledCost": "0"},
        ),
        ("instance", "covered_usage", {"CommitmentDiscountId": "c", "CommitmentDiscountStatus": "Used", "BilledCost": "0"}),
        ("reserved_unused", "same", {"CapacityReservationId": "cr-1", "CapacityReservationStatus": "Unused"}),
        ("storage", "same", {"ServiceCategory": "Storage", "ConsumedUnit": "GB-Months"}),
        ("network", "same", {"ServiceCategory": "Networking", "ConsumedUnit": "GB"}),
        ("instance", "zero_unexplained", {"EffectiveCost": "0", "BilledCost": "0"}),
    ]
    charges = _load(bills, *(FOCUS_USAGE | changed for _, _, changed in told))
    assert [(charge["kind"], charge["cost_cause"]) for charge in charges] == [(kind, cause) for kind, cause, _ in told]


def test_snake_case_and_parquet_are_the_same_file(bills: Bills, tmp_path: Path) -> None:
    snaked = {
        "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_"): value for name, value in FOCUS_USAGE.items()
    }
    out = io.BytesIO()
    table = pa.Table.from_pylist([snaked | {"tags": {"team": "ml"}, "billed_cost": 4.0}])
    pq.write_table(table, out)
    run = bills.load(bills.write("focus.parquet", out.getvalue()), provider=None)
    assert not run.errors, run.errors
    (charge,) = bills.charges()
    assert (charge["billed_cost"], charge["tags"], charge["kind"]) == (Decimal(4), {"team": "ml"}, "instance")


def test_several_accounts_and_providers_in_one_file_are_bills_of_their_own(bills: Bills) -> None:
    _load(
        bills,
        FOCUS_USAGE,
        FOCUS_USAGE | {"BillingAccountId": "acct-2", "ResourceId": "vm-2"},
        FOCUS_USAGE | {"ProviderName": "AWS"},
    )
    assert [row[0] for row in bills.sums()] == ["aws/acct-1", "nimbus gpu cloud/acct-1", "nimbus gpu cloud/acct-2"]


def test_machines_are_named_as_nodes_are(bills: Bills) -> None:
    told: list[tuple[str, str]] = [
        ("arn:aws:ec2:eu-west-1:2:instance/i-2d1026706d7e", "i-2d1026706d7e"),
        ("i-0ABC", "i-0abc"),
        ("//compute.googleapis.com/projects/p/zones/us-east1-b/instances/N", "p/us-east1-b/n"),
        ("//compute.googleapis.com/projects/p/instances/n", "p/zone-1/n"),
        ("/subscriptions/S/resourceGroups/R/providers/Microsoft.Compute/virtualMachines/V",
         "/subscriptions/s/resourcegroups/r/providers/microsoft.compute/virtualmachines/v"),
        ("vm-1", "vm-1"),
    ]  # fmt: skip
    charges = _load(bills, *(FOCUS_USAGE | {"ResourceId": resource, "AvailabilityZone": "zone-1"} for resource, _ in told))
    assert [charge["instance_key"] for charge in charges] == [key for _, key in told]


def test_a_word_for_nothing_is_nothing(bills: Bills) -> None:
    charge = _one(bills, CommitmentDiscountId="NULL", Tags="NULL", SubAccountId="NULL")
    assert charge["commitment_discount_id"] is None and charge["tags"] is None and charge["sub_account_id"] is None


def test_for_one_provider_only_its_charges_are_taken(bills: Bills) -> None:
    run = bills.load(bills.write("focus.csv", csv_text([FOCUS_USAGE])), provider="aws")
    assert "is a FOCUS cost and usage file of nimbus gpu cloud" in run.errors[0].message
    both = [FOCUS_USAGE, FOCUS_USAGE | {"ProviderName": "AWS"}]
    assert "holds charges of aws, nimbus gpu cloud" in bills.load(bills.write("both.csv", csv_text(both))).errors[0].message


def test_other_files_of_a_focus_data_set_hold_no_charges(bills: Bills) -> None:
    run = bills.load(bills.write("c.csv", "ContractCommitmentId,ContractCommitmentCost\na,1\n"), provider=None)
    assert "contract commitment" in run.errors[0].message
