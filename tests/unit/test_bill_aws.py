"""AWS: what each kind of line item costs, and what it is."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpucost.collect.bill.load import BillRun
from tests.unit.bills import Bills, check_charges, csv_text, own_rows, own_text, snake, usage

SP_ARN = "arn:aws:savingsplans::444455556666:savingsplan/aaaa"
RI_ARN = "arn:aws:ec2:us-east-1:444455556666:reserved-instances/bbbb"
CR_ARN = "arn:aws:ec2:us-east-2:444455556666:capacity-reservation/cr-0abc"
NET = "lineItem/NetUnblendedCost"
PLAN = {"savingsPlan/SavingsPlanARN": SP_ARN}
USED_PLAN = {"savingsPlan/TotalCommitmentToDate": "10", "savingsPlan/UsedCommitment": "7.5"}
Row = dict[str, str]


def _block(hours: str = "", unit: str = "", cost: str = "100") -> Row:
    return usage(
        0, LineItemType="Fee", UsageType="USE2-CapacityBlock:p5.48xlarge", ResourceId=CR_ARN, UnblendedCost=cost,
        UsageAmount=hours, unit=unit, LineItemDescription="EC2 Capacity Block upfront fee",
    )  # fmt: skip


def _in_block(hour: int, usage_type: str = "BoxUsage:p5.48xlarge", **changed: str) -> Row:
    arn = {"capacityReservation/CapacityReservationArn": CR_ARN}
    return usage(hour, UsageType=usage_type, UnblendedCost="0", **(arn | changed))


def _host(number: int, cost: str = "8", **changed: str) -> Row:
    arn = f"arn:aws:ec2:us-east-2:444455556666:dedicated-host/h-{number}"
    return usage(UsageType="USE2-HostUsage:g4dn", ResourceId=arn, UnblendedCost=cost, **changed)


def _on_host(number: int, size: str = "metal", **changed: str) -> Row:
    return usage(
        UsageType=f"USE2-HostBoxUsage:g4dn.{size}",
        ResourceId=f"i-0aa{number}",
        **({"UnblendedCost": "0"} | changed),
    )


def _returned(amount: str, usage_type: str = "ComputeSP:1yrAllUpfront") -> Row:
    return usage(LineItemType="Refund", UnblendedCost=amount, UsageType=usage_type, ResourceId=SP_ARN)


#: Rows of an account, and what their charges say; of costs as text.
CASES: dict[str, tuple[list[Row], dict[str, Sequence[Any]]]] = {
    "on-demand usage is the machine at its unblended cost": (
        [usage()],
        {"kind": ["instance"], "cost_cause": ["same"], "effective_cost": ["32.77"], "billed_cost": ["32.77"],
         "instance_hours": [1.0], "instance_type": ["p4d.24xlarge"], "region": ["us-east-1"], "zone": ["us-east-1a"],
         "pricing_category": ["Standard"],
         "provider": ["aws"], "billing_period": ["2026-03"], "instance_key": ["i-0123456789abcdef0000"]},
    ),
    "savings plan usage costs what the plan charges": (
        [usage(LineItemType="SavingsPlanCoveredUsage", **{"savingsPlan/SavingsPlanEffectiveCost": "19.66"})],
        {"billed_cost": ["32.77"], "effective_cost": ["19.66"], "kind": ["instance"], "cost_cause": ["covered_usage"],
         "pricing_category": ["Committed"]},
    ),
    "reserved usage costs the reservation's effective cost": (
        [usage(LineItemType="DiscountedUsage", UnblendedCost="0", **{"reservation/EffectiveCost": "12.5"})],
        {"effective_cost": ["12.5"], "cost_cause": ["covered_usage"]},
    ),
    "a blank reservation cost is no price": (
        [usage(LineItemType="DiscountedUsage", UnblendedCost="0", **{"reservation/EffectiveCost": ""})],
        {"cost_cause": ["reservation_cost_missing"]},
    ),
    "negations and fees that stand on other rows cost nothing": (
        [usage(LineItemType="SavingsPlanNegation", UnblendedCost="-32.77", ResourceId="", **PLAN),
         usage(LineItemType="SavingsPlanUpfrontFee", UnblendedCost="1000", UsageType="ComputeSP:1yrAllUpfront",
               ResourceId=SP_ARN),
         usage(LineItemType="Fee", UnblendedCost="5000", UsageType="", ResourceId="", **{"reservation/ReservationARN": RI_ARN})],
        {"effective_cost": ["0"] * 3, "kind": ["commitment_fee"] * 3,
         "cost_cause": ["covered_usage", "fee_amortized", "fee_amortized"]},
    ),
    "other fees stay": (
        [usage(LineItemType="Fee", UnblendedCost="12", UsageType="", ProductCode="AmazonRoute53", ResourceId="example.org")],
        {"effective_cost": ["12"], "kind": ["other"], "charge_category": ["Purchase"]},
    ),
    # billed and effective sum to the same where the whole plan was used
    "a recurring fee costs the commitment that nothing used": (
        [usage(LineItemType="SavingsPlanCoveredUsage", **{"savingsPlan/SavingsPlanEffectiveCost": "7.5"}),
         usage(LineItemType="SavingsPlanNegation", UnblendedCost="-32.77", ResourceId=""),
         usage(LineItemType="SavingsPlanRecurringFee", UnblendedCost="10", ResourceId=SP_ARN, **USED_PLAN)],
        {"effective_cost": ["7.5", "0", "2.5"], "billed_cost": ["32.77", "-32.77", "10"],
         "kind": ["instance", "commitment_fee", "commitment_unused"]},
    ),
    "a reservation fee costs its unused part": (
        [usage(LineItemType="RIFee", UnblendedCost="744", UsageType="HeavyUsage:p4d.24xlarge", ResourceId="",
               **{"reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": "3", "reservation/UnusedRecurringFee": "4.25"})],
        {"effective_cost": ["7.25"], "kind": ["commitment_unused"], "cost_cause": ["fee_amortized"]},
    ),
    "a discount without net columns is taken off by its own row": (
        [usage(LineItemType="EdpDiscount", UnblendedCost="-2.77", ResourceId="")],
        {"effective_cost": ["-2.77"], "kind": ["discount"]},
    ),
    "spot by usage type or term, and hours in part": (
        [usage(10, UsageType="SpotUsage:p5.48xlarge"), usage(11, **{"pricing/term": "Spot"}),
         usage(12, UsageAmount="0.5", UnblendedCost="16.385")],
        {"pricing_category": ["Dynamic", "Dynamic", "Standard"], "instance_hours": [1, 1, 0.5]},
    ),
    "a running machine that costs nothing": ([usage(UnblendedCost="0")], {"cost_cause": ["zero_unexplained"]}),
    "split rows inform and are never added": (
        [usage(), usage(ResourceId="arn:aws:eks:us-east-1:444455556666:pod/c/ns/p/uid", UnblendedCost="",
                        **{"splitLineItem/ParentResourceId": "i-0aaa", "splitLineItem/SplitCost": "8.19"})],
        {"kind": ["instance", "split"], "effective_cost": ["32.77", "0"], "billed_cost": ["32.77", "0"],
         "split_cost": [None, "8.19"],
         "split_parent_id": [None, "i-0aaa00b"]},
    ),
    "a capacity block's fee is spread over its hours, used or not": (
        [_block(cost="99"), _in_block(10), _in_block(11), _in_block(12, "UnusedBox:p5.48xlarge")],
        {"kind": ["commitment_fee", "instance", "instance", "reserved_unused"], "billed_cost": ["99", "0", "0", "0"],
         "effective_cost": ["0", "33", "33", "33"], "cost_cause": ["capacity_block"] * 4},
    ),
    "hours of a block in another bill keep their part of the fee": (
        [_block("4", "Hrs"), _in_block(10), _in_block(11)], {"effective_cost": ["50", "25", "25"]}
    ),
    "a block's fee without an id is on hours with one": (
        [_block() | {"lineItem/ResourceId": ""}, _in_block(10), _in_block(11)], {"effective_cost": ["0", "50", "50"]}
    ),
    "a block without hours here keeps its fee": ([_block(), usage(10)], {"effective_cost": ["100", "32.77"]}),
    "nothing of a block's fee stays for rounding": (
        [_block(cost="1234567.891234"),
         *(_in_block(hour, UsageAmount=length)
           for hour, length in enumerate(["0.3333333", "1", "0.016666667", "0.5", "1", "1", "0.9999"]))],
        {"billed_cost": ["1234567.891234", *["0"] * 7]},
    ),
    "an instance costs what its dedicated host does, and a host without one keeps its cost": (
        [_host(1), _on_host(1), _host(2)],
        {"effective_cost": ["4", "8", "4"], "billed_cost": ["8", "0", "8"], "cost_cause": ["dedicated_host"] * 3,
         "kind": ["other", "instance", "other"], "tenancy": [None, "host", None], "capacity_reservation_type": [None] * 3},
    ),
    "instances of one size share their host": (
        [_host(1), *(_on_host(number, "xlarge") for number in (1, 2, 3, 4))], {"effective_cost": ["0", "2", "2", "2", "2"]}
    ),
    "a host under a plan costs what the plan charges": (
        [_host(1, LineItemType="SavingsPlanCoveredUsage", **{"savingsPlan/SavingsPlanEffectiveCost": "5"}), _on_host(1)],
        {"effective_cost": ["0", "5"], "billed_cost": ["8", "0"]},
    ),
    "instances of several sizes on hosts, and of another zone, have no price": (
        [_host(1), _on_host(1, "xlarge"), _on_host(2, "2xlarge"), _on_host(3, "metal", AvailabilityZone="us-east-1b")],
        {"effective_cost": ["8", "0", "0", "0"], "cost_cause": ["same", *["dedicated_host"] * 3]},
    ),
    "the refund of a returned plan takes back what the plan costs, not its upfront fee": (
        [usage(LineItemType="SavingsPlanUpfrontFee", UnblendedCost="1000", ResourceId=SP_ARN),
         usage(LineItemType="SavingsPlanCoveredUsage", **PLAN, **{"savingsPlan/SavingsPlanEffectiveCost": "7.5"}),
         _returned("-1000"), usage(11)],
        {"billed_cost": ["1000", "32.77", "-1000", "32.77"], "effective_cost": ["0", "7.5", "-7.5", "32.77"],
         "kind": ["commitment_fee", "instance", "refund", "instance"],
         "cost_cause": ["fee_amortized", "covered_usage", "fee_amortized", "same"]},
    ),
    "the refund of a returned reservation": (
        [usage(LineItemType=kind, UnblendedCost=cost, UsageType="", ResourceId="", **{"reservation/ReservationARN": RI_ARN})
         for kind, cost in (("Fee", "500"), ("Refund", "-500"))],
        {"effective_cost": ["0", "0"], "cost_cause": ["fee_amortized"] * 2},
    ),
    "a refund of less than a plan costs stays, and so does one of a plan without an upfront fee": (
        [usage(LineItemType="SavingsPlanRecurringFee", UnblendedCost="10", ResourceId=SP_ARN, **USED_PLAN), _returned("-2"),
         usage(LineItemType="Refund", UnblendedCost="-9", UsageType="ComputeSP:1yrNoUpfront", ResourceId=SP_ARN + "-2")],
        {"effective_cost": ["2.5", "-2", "-9"], "cost_cause": ["fee_amortized", "same", "same"]},
    ),
    "the refund of a plan whose costs are in another file stays whole": (
        [_returned("-10"), usage()], {"effective_cost": ["-10", "32.77"], "cost_cause": ["same"] * 2},
    ),
    "tags from columns": (
        [usage(**{"resourceTags/user:team": "ml", "resourceTags/aws:createdBy": "", "resourceTags/user:env": "prod"})],
        {"tags": [{"team": "ml", "env": "prod"}]},
    ),
    "prices, invoices and commitments": (
        [usage(1) | {"pricing/publicOnDemandRate": "40", "pricing/RateCode": "SKU.JR.1", "bill/InvoiceId": "INV1",
                     "lineItem/UnblendedRate": "32.77", "lineItem/NetUnblendedRate": "30"},
         usage(2, LineItemType="SavingsPlanCoveredUsage") | {"savingsPlan/SavingsPlanEffectiveCost": "19.66",
                                                             "lineItem/UnblendedRate": "32.77"},
         usage(3, LineItemType="DiscountedUsage") | {"reservation/EffectiveCost": "12.5"}],
        {"invoice_id": ["INV1", None, None], "list_unit_price": ["40", None, None],
         "contracted_unit_price": ["30", "32.77", None], "sku_price_id": ["SKU.JR.1", None, None],
         "sku_price_details": [None] * 3, "commitment_discount_name": [None] * 3,
         "commitment_discount_quantity": [None, "19.66", "1"], "commitment_discount_unit": [None, "USD", "Hrs"]},
    ),
    "tags whose keys differ in case alone": (
        [usage(**{"resourceTags/user:Team": "a", "resourceTags/user:team": "b"})], {"tags": [{"Team": "a", "team": "b"}]}
    ),
}  # fmt: skip
#: In an export with net columns: gross where the net one is empty.
NET_ROWS = [
    usage(**{NET: "30"}),
    usage(11, **{NET: ""}),
    usage(LineItemType="EdpDiscount", UnblendedCost="-2.77", ResourceId="", **{NET: ""}),
    usage(12, LineItemType="SavingsPlanCoveredUsage",
          **{"savingsPlan/SavingsPlanEffectiveCost": "20", "savingsPlan/NetSavingsPlanEffectiveCost": "18"}),
    usage(13, LineItemType="DiscountedUsage", UnblendedCost="0",
          **{"reservation/EffectiveCost": "9", "reservation/NetEffectiveCost": ""}),
]  # fmt: skip
#: What a row is: only the compute charge of a machine is the machine.
KINDS: list[tuple[str, Row]] = [
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
    ("reserved_unused", {"UsageType": "USE2-UnusedBox:p5.48xlarge", "ResourceId": CR_ARN}),
]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[BillRun, dict[str, list[dict[str, Any]]]]:
    """All cases in one file, and the charges of each."""
    cases = {name: rows for name, (rows, _) in CASES.items()} | {
        "kinds": [usage(**changed) for _, changed in KINDS]
    }
    bills = Bills(tmp_path_factory.mktemp("bills"))
    rows = [row for number, some in enumerate(cases.values()) for row in own_rows(some, number)]
    run = bills.load(bills.write("cur.csv", csv_text(rows)))
    assert not run.errors, run.errors
    charges = bills.charges()
    accounts = {own_text("111122223333", number): name for number, name in enumerate(cases)}
    return run, {
        name: [one for one in charges if accounts[one["billing_account_id"]] == name] for name in cases
    }


@pytest.mark.parametrize("first", ["hours", pytest.param("fee", marks=pytest.mark.slow)])
def test_a_capacity_block_paid_in_another_month_is_on_its_hours(bills: Bills, first: str) -> None:
    """In any order, and of the hours as they are told last; an hour that is in no bill yet keeps its part."""
    paid = [
        row | {"bill/BillingPeriodStartDate": "2026-02-01T00:00:00Z"}
        for row in (_block("4", "Hrs"), usage(5))
    ]
    loads = {"fee": paid, "hours": [_in_block(10), _in_block(11), usage(6)]}
    for name in (first, *(name for name in loads if name != first)):
        run = bills.load(bills.write(f"{name}.csv", csv_text(loads[name])))
        assert not run.errors, run.errors
        odd = {finding.code for finding in run.findings}
        assert ("zero_unexplained" in odd) == (name == first == "hours")
    ((_, _, effective),) = run.results[0].amounts
    assert effective == Decimal("82.77")
    costs = "SELECT kind, effective_cost::INT FROM charges WHERE cost_cause = 'capacity_block' ORDER BY ALL"
    assert bills.store.query(costs)[1] == [("commitment_fee", 50), ("instance", 25), ("instance", 25)]
    bills.load(bills.write("hours.csv", csv_text([*loads["hours"], _in_block(12)])))
    assert bills.store.query(costs)[1] == [("commitment_fee", 25), *[("instance", 25)] * 3]
    # Without its hours the fee is whole again, and hours without their fee have no price; whichever comes back, both are right.
    whole = (
        "SELECT kind, effective_cost::INT, cost_cause FROM charges WHERE billed_cost <> 32.77 ORDER BY ALL"
    )
    alone = {"hours": [("commitment_fee", 100, "same")], "fee": [("instance", 0, "zero_unexplained")] * 2}
    for name, charges in alone.items():
        bills.load(bills.write(f"{name}.csv", csv_text(loads[name][-1:])), force=True)
        assert bills.store.query(whole)[1] == charges
        bills.load(bills.write(f"{name}.csv", csv_text(loads[name])), force=True)
        assert bills.store.query(costs)[1] == [("commitment_fee", 50), ("instance", 25), ("instance", 25)]


@pytest.mark.parametrize("name", CASES)
def test_what_line_items_cost_and_are(
    loaded: tuple[BillRun, dict[str, list[dict[str, Any]]]], name: str
) -> None:
    charges = loaded[1][name]
    check_charges(charges, CASES[name][1])
    if "rounding" in name:
        assert charges[0]["effective_cost"] == 0
        assert sum(charge["effective_cost"] for charge in charges) == Decimal("1234567.891234")


def test_only_the_compute_charge_of_a_machine_is_the_machine_and_what_is_odd_is_told(
    loaded: tuple[BillRun, dict[str, list[dict[str, Any]]]],
) -> None:
    run, charges = loaded
    for (kind, changed), charge in zip(KINDS, charges["kinds"], strict=True):
        assert charge["kind"] == kind, changed
        assert (charge["instance_hours"] is not None) == (kind in ("instance", "reserved_unused"))
        assert (charge["instance_type"] is not None) == (kind in ("instance", "reserved_unused"))
    codes = {"reservation_cost_missing", "zero_unexplained", "block_fee_alone", "commitment_alone"}
    assert {finding.code for finding in run.findings} == codes
    alone = [finding.message for finding in run.findings if finding.code == "commitment_alone"]
    assert len(alone) == 1 and "-2 keep" not in alone[0]
    assert "1 rows of reserved usage have no reservation cost" in run.findings[0].message


def test_both_spellings_of_columns_give_the_same_charges(bills: Bills) -> None:
    rows = [usage(), usage(11, LineItemType="DiscountedUsage", **{"reservation/EffectiveCost": "3"})]
    slashes = bills.aws(rows)
    run = bills.load(
        bills.write(
            "cur2.csv", csv_text([row | {"resource_tags": '{"user_team": "ml"}'} for row in snake(rows)])
        )
    )
    assert [result.verdict for result in run.results] == ["replace"]
    names = [name for name in slashes[0] if name not in ("source_file", "bill_id", "tags")]
    assert [[charge[name] for name in names] for charge in slashes] == [
        [charge[name] for name in names] for charge in bills.charges()
    ]
    assert [charge["tags"] for charge in bills.charges()] == [{"team": "ml"}] * 2


def test_a_cost_that_is_no_number_is_refused_and_net_costs_count_where_they_are_filled(bills: Bills) -> None:
    run = bills.load(bills.write("cur.csv", csv_text([usage(), usage(11, UnblendedCost="n/a")])))
    assert "cur.csv, row 2: the billed cost is empty or cannot be read" in run.errors[0].message
    assert not bills.store.exists
    charges = bills.aws(NET_ROWS)
    assert [charge["effective_cost"] for charge in charges] == [30, Decimal("32.77"), 0, 18, 9]
    assert [charge["cost_cause"] for charge in charges][:3] == ["discount_spread", "same", "discount_spread"]


def test_discount_that_net_costs_hold_is_not_taken_off_again(bills: Bills) -> None:
    def edp(amount: str, net: str) -> Row:
        return usage(LineItemType="EdpDiscount", UnblendedCost=amount, ResourceId="", **{NET: net})

    charges = bills.aws([usage(**{NET: "30"}), edp("-2.77", ""), edp("-1", "0")])
    # of 3.77, the machine's net cost holds 2.77
    assert sum(charge["effective_cost"] for charge in charges) == pytest.approx(
        Decimal("29"), abs=Decimal("1e-9")
    )


def test_parquet_with_the_types_that_data_exports_write(bills: Bills) -> None:
    start = datetime(2026, 3, 5, 10, tzinfo=UTC)
    words = pa.map_(pa.string(), pa.string())
    row: dict[str, Any] = {**snake([usage()])[0]}
    row |= {"line_item_usage_start_date": start, "line_item_usage_end_date": start + timedelta(hours=1)}
    row |= {
        "bill_billing_period_start_date": datetime(2026, 3, 1, tzinfo=UTC),
        "line_item_unblended_cost": 1.81e-8,
    }
    row |= {"line_item_net_unblended_cost": None, "reservation_effective_cost": 0.0}
    row |= {
        "resource_tags": [("user_team", "ml")],
        "product": [("region", "us-east-1"), ("product_name", "EC2")],
    }
    types = {name: pa.timestamp("ms") for name in row if name.endswith("_date")} | {
        "resource_tags": words,
        "product": words,
    }
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
