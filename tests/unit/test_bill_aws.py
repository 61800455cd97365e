"""AWS: the cost and kind of each type of line item."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpucost.collect.bill.load import BillRun
from tests.text_tables import titled, words
from tests.unit.bills import (
    Bills,
    Charge,
    Row,
    check_scene,
    csv_text,
    item,
    own_rows,
    parquet,
    scene,
    snake,
    usage,
)

#: Rows of an account, and the expected charges.
CASES = titled("""
= on-demand usage is an instance at its unblended cost
machine | kind=instance cause=same effective=32.77 billed=32.77 hours=1 instance_type=p4d.24xlarge machine=i-0123456789abcdef0000
machine hour=11 | pricing_category=Standard region=us-east-1 zone=us-east-1a provider=aws billing_period=2026-03
= savings plan usage costs the plan's price
covered plan_cost=19.66 | billed=32.77 effective=19.66 kind=instance cause=covered_usage pricing_category=Committed
= reserved usage costs the reservation's effective cost
reserved reserved_cost=12.5 | effective=12.5 cause=covered_usage
= a blank reservation cost means a missing price
reserved reserved_cost= | cause=reservation_cost_missing
= negations and fees that other rows include cost 0
negation         | effective=0 kind=commitment_fee cause=covered_usage
plan_upfront     | effective=0 kind=commitment_fee cause=fee_amortized
reserved_upfront | effective=0 kind=commitment_fee cause=fee_amortized
= other fees keep their cost
machine item=Fee cost=12 usage= product=AmazonRoute53 id=example.org | effective=12 kind=other charge_category=Purchase
= a recurring fee costs the unused commitment
# billed and effective costs have the same sum if the whole plan was used
covered plan_cost=7.5                   | effective=7.5 billed=32.77 kind=instance
negation                                | effective=0 billed=-32.77 kind=commitment_fee
plan_fee cost=10 committed=10 used=7.5  | effective=2.5 billed=10 kind=commitment_unused
= a reservation fee costs its unused part
reserved_fee cost=744 unused_upfront=3 unused_fee=4.25 | effective=7.25 kind=commitment_unused cause=fee_amortized
= a discount without net columns counts in its own row
edp cost=-2.77 | effective=-2.77 kind=discount
= spot by usage type or term, and partial hours
machine hour=10 usage=SpotUsage:p5.48xlarge | pricing_category=Dynamic hours=1
machine hour=11 pricing/term=Spot           | pricing_category=Dynamic hours=1
machine hour=12 amount=0.5 cost=16.385      | pricing_category=Standard hours=0.5
= a running machine at cost 0
machine cost=0 | cause=zero_unexplained
= split rows are kept but never added
machine | kind=instance effective=32.77 billed=32.77 split_cost=- split_parent_id=-
machine cost= splitLineItem/ParentResourceId=j-1 splitLineItem/SplitCost=8.19 id=arn:aws:eks:us-east-1:444455556666:pod/c/ns/p/u
    | kind=split effective=0 billed=0 split_cost=8.19 split_parent_id=j-100b
= a capacity block's fee is spread over its used and unused hours
block cost=99                              | kind=commitment_fee billed=99 effective=0 cause=capacity_block
in_block                                   | kind=instance billed=0 effective=33 cause=capacity_block
in_block hour=11                           | kind=instance billed=0 effective=33 cause=capacity_block
in_block hour=12 usage=UnusedBox:p5.48xlarge | kind=reserved_unused billed=0 effective=33 cause=capacity_block
= block hours on another bill keep their part of the fee
block amount=4 unit=Hrs | effective=50
in_block                | effective=25
in_block hour=11        | effective=25
= a block's fee without an id goes to hours with an id
block id=        | effective=0
in_block         | effective=50
in_block hour=11 | effective=50
= a block without hours on this bill keeps its fee
block   | effective=100
machine | effective=32.77
= a block's fee is spread without a rounding remainder
block cost=1234567.891234          | billed=1234567.891234 effective=0
in_block hour=0 amount=0.3333333   | billed=0
in_block hour=1                    | billed=0
in_block hour=2 amount=0.016666667 | billed=0
in_block hour=3 amount=0.5         | billed=0
in_block hour=4 amount=0.9999      | billed=0
= an instance takes its dedicated host's cost, and an empty host keeps its cost
host               | effective=4 billed=8 cause=dedicated_host kind=other tenancy=-
on_host            | effective=8 billed=0 cause=dedicated_host kind=instance tenancy=host
host id=OTHER_HOST | effective=4 billed=8 cause=dedicated_host kind=other capacity_reservation_type=-
= instances of one size share their host
host                                                 | effective=0
on_host usage=USE2-HostBoxUsage:g4dn.xlarge          | effective=2
on_host id=i-0ab usage=USE2-HostBoxUsage:g4dn.xlarge | effective=2
on_host id=i-0ac usage=USE2-HostBoxUsage:g4dn.xlarge | effective=2
on_host id=i-0ad usage=USE2-HostBoxUsage:g4dn.xlarge | effective=2
= a host under a plan costs the plan's price
host item=SavingsPlanCoveredUsage plan=PLAN plan_cost=5 | effective=0 billed=8
on_host                                                 | effective=5 billed=0
= instances of several sizes on hosts, or in another zone, have no price
host                                                  | effective=8 cause=same
on_host usage=USE2-HostBoxUsage:g4dn.xlarge           | effective=0 cause=dedicated_host
on_host id=i-0ab usage=USE2-HostBoxUsage:g4dn.2xlarge | effective=0 cause=dedicated_host
on_host id=i-0ac zone=us-east-1b                      | effective=0 cause=dedicated_host
= the refund of a returned plan cancels the plan's cost, not its upfront fee
plan_upfront           | billed=1000 effective=0 kind=commitment_fee cause=fee_amortized
covered plan_cost=7.5  | billed=32.77 effective=7.5 kind=instance cause=covered_usage
plan_refund cost=-1000 | billed=-1000 effective=-7.5 kind=refund cause=fee_amortized
machine hour=11        | billed=32.77 effective=32.77 kind=instance cause=same
= the refund of a returned reservation
reserved_upfront cost=500 | effective=0 cause=fee_amortized
reserved_refund cost=-500 | effective=0 cause=fee_amortized
= a refund below a plan's cost stays, and so does a refund without an upfront fee
plan_fee cost=10 committed=10 used=7.5                                 | effective=2.5 cause=fee_amortized
plan_refund cost=-2                                                    | effective=-2 cause=same
plan_refund cost=-9 usage=ComputeSP:1yrNoUpfront id=arn:savingsplan/-2 | effective=-9 cause=same
= the refund of a plan with costs in another file stays whole
plan_refund cost=-10 | effective=-10 cause=same
machine              | effective=32.77 cause=same
= tags from columns
machine resourceTags/user:team=ml resourceTags/aws:createdBy= resourceTags/user:env=eu | tags='{"env": "eu", "team": "ml"}'
= prices, invoices and commitments
machine pricing/publicOnDemandRate=40 pricing/RateCode=SKU.JR.1 InvoiceId=INV1 lineItem/UnblendedRate=32.77
    lineItem/NetUnblendedRate=30 | invoice_id=INV1 list_unit_price=40 contracted_unit_price=30 sku_price_id=SKU.JR.1
covered plan_cost=19.66 lineItem/UnblendedRate=32.77 | invoice_id=- list_unit_price=- contracted_unit_price=32.77
    sku_price_id=- commitment_discount_quantity=19.66 commitment_discount_unit=USD sku_price_details=-
reserved reserved_cost=12.5 | contracted_unit_price=- commitment_discount_quantity=1 commitment_discount_unit=Hrs
    commitment_discount_name=-
= tags with keys that differ only in case
machine resourceTags/user:Team=a resourceTags/user:team=b | tags='{"Team": "a", "team": "b"}'
= only the compute charge of a machine has hours and a type
machine item=Tax id=                             | kind=tax hours=- instance_type=-
machine item=Credit cost=-5                      | kind=credit hours=- instance_type=-
machine item=Refund cost=-5                      | kind=refund hours=- instance_type=-
machine product=AWSSupportBusiness usage=Dollar id= | kind=support hours=- instance_type=-
volume                                           | kind=storage hours=- instance_type=-
traffic                                          | kind=network hours=- instance_type=-
traffic usage=USE1-EUC1-AWS-In-Bytes             | kind=network hours=- instance_type=-
machine usage=USE2-EBS:SnapshotUsage unit=GB-Mo  | kind=storage hours=- instance_type=-
machine usage=CPUCredits:t3 unit=vCPU-Hours      | kind=other hours=- instance_type=-
machine product=marketplace-ami usage=SoftwareUsage:p4d.24xlarge | kind=other hours=- instance_type=-
machine usage=EUC1-BoxUsage:g5.xlarge            | kind=instance hours=1 instance_type=g5.xlarge
machine usage=USW2-SpotUsage:p5.48xlarge         | kind=instance hours=1 instance_type=p5.48xlarge
machine usage=DedicatedUsage:p4d.24xlarge        | kind=instance hours=1 instance_type=p4d.24xlarge
machine usage=USE2-UnusedBox:p5.48xlarge id=CAPACITY | kind=reserved_unused hours=1 instance_type=p5.48xlarge""")
#: An export with net columns: if a net column is empty, the gross cost counts. The first machine's net cost
#: includes 2.77 of the 3.77 in discounts.
NET = """
machine net=30          | effective=30 cause=discount_spread
machine net= hour=11    | effective=32.77 cause=same
edp cost=-2.77 net=     | effective=0 cause=discount_spread
covered plan_cost=20 net_plan_cost=18 hour=12     | effective=18
reserved reserved_cost=9 net_reserved_cost= hour=13 | effective=9"""


Loaded = tuple[BillRun, dict[str, list[Charge]]]


@pytest.fixture(scope="module")
def loaded(module_path: Path) -> Loaded:
    """Each case in its own file and account."""
    texts = [csv_text(own_rows(scene(table)[0], number)) for number, table in enumerate(CASES.values())]
    return Bills(module_path).cases(dict(zip(CASES, texts, strict=True)))


@pytest.mark.parametrize("name", CASES)
def test_line_items_have_their_cost_and_kind(loaded: Loaded, name: str) -> None:
    charges = loaded[1][name]
    check_scene(charges, scene(CASES[name])[1])
    if "rounding" in name:
        assert sum(charge["effective_cost"] for charge in charges) == Decimal("1234567.891234")


def test_odd_line_items_are_named(loaded: Loaded) -> None:
    run, _ = loaded
    codes = {"reservation_cost_missing", "zero_unexplained", "block_fee_alone", "commitment_alone"}
    assert {finding.code for finding in run.findings} == codes
    [alone] = [finding.message for finding in run.findings if finding.code == "commitment_alone"]
    assert "-2 keep" not in alone
    assert "1 rows of reserved usage have no reservation cost" in run.findings[0].message


def test_capacity_block_paid_in_another_month_is_spread_over_its_hours(bills: Bills) -> None:
    """Over the hours as last loaded.

    The part of hours on no bill yet stays with the fee.
    """
    paid = [
        item(f"{row} BillingPeriodStartDate=2026-02-01T00:00:00Z")
        for row in ("block amount=4 unit=Hrs", "machine hour=5")
    ]
    hours = [item("in_block"), item("in_block hour=11"), item("machine hour=6")]

    def load(name: str, rows: list[Row]) -> tuple[BillRun, list[tuple[Any, ...]]]:
        """Load a month; return kind, effective cost and cause of the block's charges."""
        run = bills.take(rows, f"{name}.csv", force=True)
        whole = "SELECT kind, effective_cost::INT, cost_cause FROM charges WHERE billed_cost <> 32.77 ORDER BY ALL"
        return run, bills.store.query(whole)[1]

    both = [("commitment_fee", 50, "capacity_block"), *[("instance", 25, "capacity_block")] * 2]
    run, _ = load("hours", hours)
    assert "zero_unexplained" in {finding.code for finding in run.findings}
    run, charges = load("fee", paid)
    assert charges == both and "zero_unexplained" not in {finding.code for finding in run.findings}
    ((*_, effective),) = (sums.values() for sums in run.results[0].amounts)
    assert effective == Decimal("82.77")
    _, charges = load("hours", [*hours, item("in_block hour=12")])
    assert charges == [("commitment_fee", 25, "capacity_block"), *[("instance", 25, "capacity_block")] * 3]
    # Without its hours, the fee is whole again; without their fee, the hours have no price. Loading the
    # missing month again restores both.
    assert load("hours", hours[-1:])[1] == [("commitment_fee", 100, "same")]
    assert load("hours", hours)[1] == both
    assert load("fee", paid[-1:])[1] == [("instance", 0, "zero_unexplained")] * 2
    assert load("fee", paid)[1] == both


def test_both_spellings_of_columns_give_the_same_charges(bills: Bills) -> None:
    rows = [usage(), item("reserved hour=11 reserved_cost=3")]
    slashes = bills.aws(rows)
    tagged = [row | {"resource_tags": '{"user_team": "ml"}'} for row in snake(rows)]
    run = bills.take(tagged, "cur2.csv")
    assert [result.verdict for result in run.results] == ["replace"]
    for charge, other in zip(slashes, bills.charges(), strict=True):
        own = {"source_file": other["source_file"], "bill_id": other["bill_id"], "tags": {"team": "ml"}}
        assert charge | own == other


def test_filled_net_costs_are_used(bills: Bills) -> None:
    rows, expected = scene(NET)
    check_scene(bills.aws(rows), expected)


def test_discount_inside_net_costs_is_not_subtracted_again(bills: Bills) -> None:
    charges = bills.aws([item("machine net=30"), item("edp cost=-2.77 net="), item("edp cost=-1 net=0")])
    # of 3.77, the machine's net cost includes 2.77
    total = sum(charge["effective_cost"] for charge in charges)
    assert total == pytest.approx(Decimal("29"), abs=Decimal("1e-9"))


def test_parquet_types_of_data_exports_are_read(bills: Bills) -> None:
    times = words("""
        line_item_usage_start_date=2026-03-05T10 line_item_usage_end_date=2026-03-05T11
        bill_billing_period_start_date=2026-03-01""")
    typed = {
        name: pa.array([datetime.fromisoformat(text).replace(tzinfo=UTC)], pa.timestamp("ms"))
        for name, text in times.items()
    }
    maps = {"resource_tags": "user_team=ml", "product": "region=us-east-1 product_name=EC2"}
    of_texts = pa.map_(pa.string(), pa.string())
    typed |= {name: pa.array([list(words(text).items())], of_texts) for name, text in maps.items()}
    typed["line_item_net_unblended_cost"] = pa.array([None], pa.float64())
    costs = {"line_item_unblended_cost": 1.81e-8, "reservation_effective_cost": 0.0}
    bills.take(parquet([snake([usage()])[0] | costs], **typed), "cur.snappy.parquet")
    (charge,) = bills.charges()
    expected = words("""
        billed=0.0000000181 effective=0.0000000181 service_name=EC2 region=us-east-1 tags='{"team": "ml"}'
        start=2026-03-05T10:00:00""")
    check_scene([charge], [expected])
