"""AWS: what each kind of line item costs, and what it is."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.bills import Bills, csv_text, snake, usage

SP_ARN = "arn:aws:savingsplans::444455556666:savingsplan/aaaa"
RI_ARN = "arn:aws:ec2:us-east-1:444455556666:reserved-instances/bbbb"


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    return Bills(tmp_path)


def _one(bills: Bills, **changed: str) -> dict[str, Any]:
    (charge,) = bills.aws([usage(**changed)])
    return charge


def test_on_demand_usage_is_the_machine_at_its_unblended_cost(bills: Bills) -> None:
    charge = _one(bills)
    assert charge["kind"] == "instance" and charge["cost_cause"] == "same"
    assert charge["effective_cost"] == charge["billed_cost"] == Decimal("32.77")
    assert charge["instance_key"] == "i-0123456789abcdef0"
    assert charge["instance_hours"] == 1.0 and charge["instance_type"] == "p4d.24xlarge"
    assert (charge["region"], charge["zone"], charge["pricing_category"]) == ("us-east-1", "us-east-1a", "Standard")
    assert (charge["provider"], charge["billing_period"], charge["source_row"]) == ("aws", "2026-03", 1)


def test_savings_plan_usage_costs_what_the_plan_charges(bills: Bills) -> None:
    charge = _one(bills, LineItemType="SavingsPlanCoveredUsage", **{"savingsPlan/SavingsPlanEffectiveCost": "19.66"})
    assert (charge["billed_cost"], charge["effective_cost"]) == (Decimal("32.77"), Decimal("19.66"))
    assert (charge["kind"], charge["cost_cause"], charge["pricing_category"]) == ("instance", "covered_usage", "Committed")


def test_reserved_usage_costs_the_reservations_effective_cost(bills: Bills) -> None:
    charge = _one(bills, LineItemType="DiscountedUsage", UnblendedCost="0", **{"reservation/EffectiveCost": "12.5"})
    assert (charge["effective_cost"], charge["cost_cause"]) == (Decimal("12.5"), "covered_usage")


def test_a_blank_reservation_cost_is_told_and_is_not_a_price(bills: Bills) -> None:
    run = bills.load(
        bills.write(
            "cur.csv", csv_text([usage(LineItemType="DiscountedUsage", UnblendedCost="0", **{"reservation/EffectiveCost": ""})])
        )
    )
    assert bills.charges()[0]["cost_cause"] == "reservation_cost_missing"
    assert "1 rows of reserved usage have no reservation cost" in run.findings[0].message


def test_negations_and_fees_that_stand_on_other_rows_cost_nothing(bills: Bills) -> None:
    rows = [
        usage(
            LineItemType="SavingsPlanNegation", UnblendedCost="-32.77", ResourceId="", **{"savingsPlan/SavingsPlanARN": SP_ARN}
        ),
        usage(LineItemType="SavingsPlanUpfrontFee", UnblendedCost="1000", UsageType="ComputeSP:1yrAllUpfront", ResourceId=SP_ARN),
        usage(LineItemType="Fee", UnblendedCost="5000", UsageType="", ResourceId="", **{"reservation/ReservationARN": RI_ARN}),
    ]
    charges = bills.aws(rows)
    assert [charge["effective_cost"] for charge in charges] == [0, 0, 0]
    assert {charge["kind"] for charge in charges} == {"commitment_fee"}
    assert [charge["cost_cause"] for charge in charges] == ["covered_usage", "fee_amortized", "fee_amortized"]


def test_other_fees_stay(bills: Bills) -> None:
    charge = _one(
        bills, LineItemType="Fee", UnblendedCost="12", UsageType="", ProductCode="AmazonRoute53", ResourceId="example.org"
    )
    assert (charge["effective_cost"], charge["kind"], charge["charge_category"]) == (Decimal(12), "other", "Purchase")


def test_a_recurring_fee_costs_the_commitment_that_nothing_used(bills: Bills) -> None:
    charge = _one(
        bills,
        LineItemType="SavingsPlanRecurringFee",
        UnblendedCost="10",
        ResourceId=SP_ARN,
        **{"savingsPlan/TotalCommitmentToDate": "10", "savingsPlan/UsedCommitment": "7.5"},
    )
    assert (charge["effective_cost"], charge["kind"]) == (Decimal("2.5"), "commitment_unused")


def test_a_reservation_fee_costs_its_unused_part(bills: Bills) -> None:
    charge = _one(
        bills,
        LineItemType="RIFee",
        UnblendedCost="744",
        UsageType="HeavyUsage:p4d.24xlarge",
        ResourceId="",
        **{"reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": "3", "reservation/UnusedRecurringFee": "4.25"},
    )
    assert (charge["effective_cost"], charge["kind"], charge["cost_cause"]) == (
        Decimal("7.25"),
        "commitment_unused",
        "fee_amortized",
    )


def test_billed_less_effective_of_a_plan_is_what_was_not_used_of_it(bills: Bills) -> None:
    """Covered usage, its negation and the fee: billed and effective sum to the same where the whole plan was used."""
    charges = bills.aws(
        [
            usage(LineItemType="SavingsPlanCoveredUsage", **{"savingsPlan/SavingsPlanEffectiveCost": "7.5"}),
            usage(LineItemType="SavingsPlanNegation", UnblendedCost="-32.77", ResourceId=""),
            usage(
                LineItemType="SavingsPlanRecurringFee",
                UnblendedCost="10",
                ResourceId=SP_ARN,
                **{"savingsPlan/TotalCommitmentToDate": "10", "savingsPlan/UsedCommitment": "7.5"},
            ),
        ]
    )
    assert sum(charge["billed_cost"] for charge in charges) == sum(charge["effective_cost"] for charge in charges) == 10


def test_net_costs_where_filled_and_gross_where_the_net_column_is_empty(bills: Bills) -> None:
    net = "lineItem/NetUnblendedCost"
    charges = bills.aws(
        [
            usage(**{net: "30"}),
            usage(11, **{net: ""}),
            usage(LineItemType="EdpDiscount", UnblendedCost="-2.77", ResourceId="", **{net: ""}),
            usage(
                12,
                LineItemType="SavingsPlanCoveredUsage",
                **{"savingsPlan/SavingsPlanEffectiveCost": "20", "savingsPlan/NetSavingsPlanEffectiveCost": "18"},
            ),
            usage(
                13,
                LineItemType="DiscountedUsage",
                UnblendedCost="0",
                **{"reservation/EffectiveCost": "9", "reservation/NetEffectiveCost": ""},
            ),
        ]
    )
    assert [charge["effective_cost"] for charge in charges] == [30, Decimal("32.77"), 0, 18, 9]
    assert [charge["cost_cause"] for charge in charges][:3] == ["discount_spread", "same", "discount_spread"]


def test_a_discount_without_net_columns_is_taken_off_by_its_own_row(bills: Bills) -> None:
    charge = _one(bills, LineItemType="EdpDiscount", UnblendedCost="-2.77", ResourceId="")
    assert (charge["effective_cost"], charge["kind"]) == (Decimal("-2.77"), "discount")


def test_only_the_compute_charge_of_a_machine_is_the_machine(bills: Bills) -> None:
    told: list[tuple[str, dict[str, str]]] = [
        ("tax", {"LineItemType": "Tax", "ResourceId": ""}),
        ("credit", {"LineItemType": "Credit", "UnblendedCost": "-5"}),
        ("refund", {"LineItemType": "Refund", "UnblendedCost": "-5"}),
        ("support", {"ProductCode": "AWSSupportBusiness", "UsageType": "Dollar", "ResourceId": ""}),
        ("storage", {"UsageType": "EBS:VolumeUsage.gp3", "ResourceId": "vol-1", "unit": "GB-Mo"}),
        ("network", {"UsageType": "USE1-DataTransfer-Out-Bytes", "unit": "GB"}),
        ("network", {"UsageType": "USE1-EUC1-AWS-In-Bytes", "unit": "GB"}),
        ("storage", {"UsageType": "USE2-EBS:SnapshotUsage", "unit": "GB-Mo"}),
        ("other", {"UsageType": "CPUCredits:t3", "unit": "vCPU-Hours"}),
        ("other", {"ProductCode": "marketplace-ami", "UsageType": "SoftwareUsage:p4d.24xlarge"}),
        ("instance", {"UsageType": "EUC1-BoxUsage:g5.xlarge"}),
        ("instance", {"UsageType": "USW2-SpotUsage:p5.48xlarge"}),
        ("instance", {"UsageType": "DedicatedUsage:p4d.24xlarge"}),
        (
            "reserved_unused",
            {"UsageType": "USE2-UnusedBox:p5.48xlarge", "ResourceId": "arn:aws:ec2:us-east-2:1:capacity-reservation/cr-1"},
        ),
    ]
    charges = bills.aws([usage(**changed) for _, changed in told])
    for (kind, changed), charge in zip(told, charges, strict=True):
        assert charge["kind"] == kind, changed
        assert (charge["instance_hours"] is not None) == (kind in ("instance", "reserved_unused"))
        assert (charge["instance_type"] is not None) == (kind in ("instance", "reserved_unused"))


def test_spot_by_usage_type_or_term_and_hours_in_part(bills: Bills) -> None:
    by_type, by_term = usage(10, UsageType="SpotUsage:p5.48xlarge"), usage(11, **{"pricing/term": "Spot"})
    charges = bills.aws([by_type, by_term, usage(12, UsageAmount="0.5", UnblendedCost="16.385")])
    assert [charge["pricing_category"] for charge in charges] == ["Dynamic", "Dynamic", "Standard"]
    assert [charge["instance_hours"] for charge in charges] == [1, 1, 0.5]


def test_a_running_machine_that_costs_nothing_is_flagged(bills: Bills) -> None:
    run = bills.load(bills.write("cur.csv", csv_text([usage(UnblendedCost="0")])))
    assert bills.charges()[0]["cost_cause"] == "zero_unexplained"
    assert [finding.code for finding in run.findings] == ["zero_unexplained"]


def test_split_rows_inform_and_are_never_added(bills: Bills) -> None:
    split = {"splitLineItem/ParentResourceId": "i-0123456789abcdef0", "splitLineItem/SplitCost": "8.19"}
    pod = usage(ResourceId="arn:aws:eks:us-east-1:444455556666:pod/c/ns/p/uid", UnblendedCost="", **split)
    charges = bills.aws([usage(), pod])
    assert (charges[1]["kind"], charges[1]["effective_cost"], charges[1]["split_cost"]) == ("split", 0, Decimal("8.19"))
    assert charges[1]["split_parent_id"] == "i-0123456789abcdef0"
    assert sum(charge["billed_cost"] for charge in charges) == Decimal("32.77")


def _block(hours: str = "", unit: str = "") -> dict[str, str]:
    return usage(
        0,
        LineItemType="Fee",
        UsageType="USE2-CapacityBlock:p5.48xlarge",
        ResourceId="arn:aws:ec2:us-east-2:444455556666:capacity-reservation/cr-0abc",
        UnblendedCost="100",
        UsageAmount=hours,
        unit=unit,
        LineItemDescription="EC2 Capacity Block upfront fee",
    )


def _in_block(hour: int, usage_type: str = "BoxUsage:p5.48xlarge", **changed: str) -> dict[str, str]:
    arn = {"capacityReservation/CapacityReservationArn": "arn:aws:ec2:us-east-2:444455556666:capacity-reservation/cr-0abc"}
    return usage(hour, UsageType=usage_type, UnblendedCost="0", **(arn | changed))


def test_a_capacity_blocks_fee_is_spread_over_its_hours_used_or_not(bills: Bills) -> None:
    charges = bills.aws([_block(), _in_block(10), _in_block(11), _in_block(12, "UnusedBox:p5.48xlarge")])
    assert [charge["kind"] for charge in charges] == ["commitment_fee", "instance", "instance", "reserved_unused"]
    assert sum(charge["effective_cost"] for charge in charges) == 100 == charges[0]["billed_cost"]
    assert charges[0]["effective_cost"] == 0
    assert [round(charge["effective_cost"], 2) for charge in charges[1:]] == [Decimal("33.33")] * 3
    assert {charge["cost_cause"] for charge in charges} == {"capacity_block"}


def test_nothing_of_a_capacity_blocks_fee_stays_for_rounding(bills: Bills) -> None:
    lengths = ["0.3333333", "1", "0.016666667", "0.5", "1", "1", "0.9999"]
    fee = _block() | {"lineItem/UnblendedCost": "1234567.891234"}
    hours = [_in_block(hour, UsageAmount=length) for hour, length in enumerate(lengths)]
    run = bills.load(bills.write("cur.csv", csv_text([fee, *hours])))
    costs = [charge["effective_cost"] for charge in bills.charges()]
    assert costs[0] == 0 and sum(costs) == Decimal("1234567.891234")
    assert not run.findings


def test_hours_of_a_block_in_another_bill_keep_their_part_of_the_fee(bills: Bills) -> None:
    charges = bills.aws([_block("4", "Hrs"), _in_block(10), _in_block(11)])
    assert [charge["effective_cost"] for charge in charges] == [50, 25, 25]


def test_a_block_without_hours_here_keeps_its_fee_and_is_told(bills: Bills) -> None:
    run = bills.load(bills.write("cur.csv", csv_text([_block(), usage(10)])))
    assert [charge["effective_cost"] for charge in bills.charges()] == [100, Decimal("32.77")]
    assert [finding.code for finding in run.findings] == ["block_fee_alone"]


def test_both_spellings_of_columns_give_the_same_charges(bills: Bills, tmp_path: Path) -> None:
    rows = [usage(), usage(11, LineItemType="DiscountedUsage", **{"reservation/EffectiveCost": "3"})]
    slashes = bills.aws(rows)
    other = Bills(tmp_path / "other")
    other.load(other.write("cur.csv", csv_text(snake(rows))))
    assert [_facts(charge) for charge in slashes] == [_facts(charge) for charge in other.charges()]


def _facts(charge: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in charge.items() if name not in ("source_file", "bill_id")}


def test_tags_from_columns_and_from_a_map(bills: Bills, tmp_path: Path) -> None:
    tagged = _one(bills, **{"resourceTags/user:team": "ml", "resourceTags/aws:createdBy": "", "resourceTags/user:env": "prod"})
    assert tagged["tags"] == {"team": "ml", "env": "prod"}
    other = Bills(tmp_path / "other")
    (mapped,) = other.aws([usage(resource_tags=json.dumps({"user_team": "ml"}))])
    assert mapped["tags"] == {"team": "ml"}


def test_a_cost_that_is_no_number_is_refused_with_file_and_row(bills: Bills) -> None:
    run = bills.load(bills.write("cur.csv", csv_text([usage(), usage(11, UnblendedCost="n/a")])))
    assert "cur.csv, row 2: the billed cost is empty or cannot be read" in run.errors[0].message
    assert not bills.store.exists


def test_parquet_with_the_types_that_data_exports_write(bills: Bills) -> None:
    start = datetime(2026, 3, 5, 10, tzinfo=UTC)
    words = pa.map_(pa.string(), pa.string())
    row: dict[str, Any] = {**snake([usage()])[0]}
    row |= {"line_item_usage_start_date": start, "line_item_usage_end_date": start + timedelta(hours=1)}
    row |= {"bill_billing_period_start_date": datetime(2026, 3, 1, tzinfo=UTC), "line_item_unblended_cost": 1.81e-8}
    row |= {"line_item_net_unblended_cost": None, "reservation_effective_cost": 0.0}
    row |= {"resource_tags": [("user_team", "ml")], "product": [("region", "us-east-1"), ("product_name", "EC2")]}
    types = {name: pa.timestamp("ms") for name in row if name.endswith("_date")} | {"resource_tags": words, "product": words}
    types |= {"line_item_net_unblended_cost": pa.float64()}
    table = pa.table({name: pa.array([value], types.get(name)) for name, value in row.items()})
    out = io.BytesIO()
    pq.write_table(table, out)
    run = bills.load(bills.write("cur.snappy.parquet", out.getvalue()))
    assert not run.errors, run.errors
    (charge,) = bills.charges()
    assert (charge["billed_cost"], charge["effective_cost"]) == (Decimal("1.81E-8"), Decimal("1.81E-8"))
    assert (charge["tags"], charge["service_name"], charge["region"]) == ({"team": "ml"}, "EC2", "us-east-1")
    assert charge["charge_period_start"] == start.replace(tzinfo=None)
