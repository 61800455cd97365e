"""Discounts on upfront and monthly fees: the share of each hour and month, from rows or net columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_bill_discounts import Priced, case

MONTH = "UsageStartDate=2026-03-01T00:00:00Z UsageEndDate=2026-04-01T00:00:00Z"
PLAN_PARTS = "savingsPlan/RecurringCommitmentForBillingPeriod=6 savingsPlan/AmortizedUpfrontCommitmentForBillingPeriod=4"
CASES = {
    "on an upfront fee: the month bears its part": case("""
reserved_upfront hour=0 cost=1200
reserved id=i-0aaa reserved_cost=100 | cost=90 off=-10
edp_reserved cost=-120
all | rest=-110"""),
    "on a monthly fee: the hours so far bear their part": case("""
reserved_fee hour=0 cost=720 unused_fee=0
reserved id=i-0aaa reserved_cost=100 | cost=90 off=-10
edp_reserved cost=-72
all | rest=-62"""),
    # of each hour's cost, $1 is the upfront fee and $2 the monthly fee; their discounts are 10 and 5 %
    **{
        f"on both fees of a reservation: {way}": case(f"""
reserved_upfront hour=0 cost=8760 account=PAYER
reserved_fee {MONTH} cost=1488 unused_upfront=742 unused_fee=1484 account=PAYER
reserved id=i-0aaa reserved_cost=3 {parts} | cost=2.8 off=-0.2
reserved id=i-0bbb reserved_cost=3 {parts} account=OTHER | cost=2.8 off=-0.2
edp_reserved hour=0 cost=-876 account=PAYER
edp_reserved {MONTH} cost=-74.4 account=PAYER
all | total=1281.6 rest=-950 2026-03=2083.2""")
        for way, parts in (("by its parts", "reservation/AmortizedUpfrontCostForUsage=1"), ("by its fees", ""))
    },
    "on both fees in net columns": case(f"""
reserved_fee {MONTH} cost=1488 unused_upfront=742 unused_fee=1484 net_unused_fee=1409.8
    reservation/NetUnusedAmortizedUpfrontFeeForBillingPeriod=667.8
reserved id=i-0aaa reserved_cost=3 net_reserved_cost=2.8 | cost=2.8
reserved id=i-0bbb reserved_cost=3 net_reserved_cost=2.8 account=OTHER | cost=2.8
all | total=2083.2 2026-03=2083.2"""),
    "on a fee of an earlier month": case("""
reserved_upfront hour=0 cost=8760
edp_reserved hour=0 cost=-876
reserved id=i-0aaa reserved_cost=3 reservation/AmortizedUpfrontCostForUsage=1 UsageStartDate=2026-04-05T10:00:00Z
    UsageEndDate=2026-04-05T11:00:00Z BillingPeriodStartDate=2026-04-01T00:00:00Z | cost=2.9 off=-0.1
all | total=-873 2026-03=0 2026-04=2.9"""),
    "on a fee of the current month, billed in full before its hours": case("""
reserved_upfront hour=0 cost=8760
reserved_fee hour=1 cost=1488
reserved hour=5 id=i-0aaa reserved_cost=3 reservation/RecurringFeeForUsage=2 | cost=2.9 off=-0.1
edp_reserved hour=0 cost=-876"""),
    # $6 of the plan's $10 per hour is the fee; half of it is used
    "on a plan's upfront and hourly fees": case(f"""
plan_upfront hour=0 cost=35040 plan=PLAN id= account=PAYER
plan_fee cost=6 committed=10 used=5 {PLAN_PARTS}
covered id=i-0aaa cost=30 plan_cost=5 account=OTHER | cost=4.6 off=-0.4
negation cost=-30 account=OTHER
edp_plan hour=0 cost=-2803.2 account=PAYER plan=PLAN
edp_plan cost=-0.48 account=PAYER plan=PLAN
all | 2026-03=9.2"""),
    "on fees of two families": case("""
reserved_upfront hour=0 cost=8760
reserved id=i-0aaa reserved_cost=300 reservation/AmortizedUpfrontCostForUsage=300 | cost=293.150684932 off=-6.849315068
edp cost=-100 usage=HeavyUsage:p4d.24xlarge product/ProductFamily= reservation=RESERVATION
edp cost=-100 usage=HeavyUsage:p4d.24xlarge product/ProductFamily="Data Transfer" reservation=RESERVATION"""),
    "next to a correction": case("""
a cost=1000 | cost=920 off=-80
machine hour=2 id= usage=Foo:Correction cost=-200
edp hour=3 usage=Other cost=-80
all | 2026-03=720"""),
}  # fmt: skip


@pytest.fixture(scope="module")
def priced(module_path: Path) -> Priced:
    return Priced(module_path, CASES, {})


@pytest.mark.parametrize("name", CASES)
def test_discount_on_a_fee_is_shared_by_hours_and_months(priced: Priced, name: str) -> None:
    priced.check(name)
