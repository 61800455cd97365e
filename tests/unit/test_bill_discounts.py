"""Discounts and fees of a bill: whose price they lower or raise, and that nothing is taken off twice."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost import price
from gpucost.config.model import Bills as BillSettings
from gpucost.config.model import Config
from tests.unit.bills import Bills, usage

SP_ARN = "arn:aws:savingsplans::111122223333:savingsplan/aaaa"
RI_ARN = "arn:aws:ec2:us-east-1:111122223333:reserved-instances/bbbb"
OTHER = "999988887777"
A, B, C = "i-0aaa", "i-0bbb", "i-0ccc"
MONTH = {"UsageStartDate": "2026-03-01T00:00:00Z", "UsageEndDate": "2026-04-01T00:00:00Z"}


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    return Bills(tmp_path)


def machine(hour: int = 10, key: str = A, cost: str = "30", **more: str) -> dict[str, str]:
    return usage(hour, ResourceId=key, UnblendedCost=cost, **more)


def edp(cost: str, hour: int = 10, **more: str) -> dict[str, str]:
    return usage(hour, **({"LineItemType": "EdpDiscount", "UnblendedCost": cost, "ResourceId": ""} | more))


def covered(hour: int, key: str, cost: str, **more: str) -> list[dict[str, str]]:
    """An hour that a savings plan covers: at the plan's cost, and what takes its list price back."""
    plan = {"savingsPlan/SavingsPlanARN": SP_ARN}
    rate = plan | {"savingsPlan/SavingsPlanEffectiveCost": cost}
    return [
        machine(hour, key, LineItemType="SavingsPlanCoveredUsage", **(rate | more)),
        machine(hour, "", "-30", LineItemType="SavingsPlanNegation", **(plan | more)),
    ]


def plan_fee(hour: int, committed: str, used: str, **more: str) -> dict[str, str]:
    told = {
        "LineItemType": "SavingsPlanRecurringFee",
        "ProductCode": "ComputeSavingsPlans",
        "UsageType": "ComputeSP:1yrNoUpfront",
        "UsageAccountId": "111122223333",
        "ResourceId": SP_ARN,
        "UnblendedCost": committed,
        "savingsPlan/SavingsPlanARN": SP_ARN,
        "savingsPlan/TotalCommitmentToDate": committed,
        "savingsPlan/UsedCommitment": used,
    }
    return usage(hour, **(told | more))


def priced(bills: Bills, *rows: Mapping[str, str], spread: bool = True, sharing: str = "as_billed") -> dict[tuple[str, int], Any]:
    """By machine and hour: what it costs, what of that discounts took off, its hours and its price."""
    bills.aws([*rows])
    config = Config(bills=BillSettings(spread_discounts=spread), prices={"commitment_sharing": sharing})  # type: ignore[arg-type]
    with bills.store.write() as con:
        price.stage(con, config)
        found = con.execute(
            "SELECT instance_key, hour(epoch_ms(from_ms)), sum(effective_cost), sum(discount_cost), sum(instance_hours), "
            "max(price_per_hour) FROM billed_hours GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    return {(key, hour): tuple(float(round(value or 0, 9)) for value in values) for key, hour, *values in found}


def totals(bills: Bills) -> tuple[Decimal, Decimal]:
    """The effective cost of all charges, and of the discounts that no machine's hour holds."""
    (row,) = bills.store.query(
        "SELECT sum(effective_cost), coalesce(sum(effective_cost) FILTER (kind = 'discount'), 0) "
        "- (SELECT coalesce(sum(discount_cost), 0) FROM billed_hours) FROM bill_rows"
    )[1]
    return row[0], row[1]


def test_a_discount_on_a_machine_lowers_that_machine_in_that_hour(bills: Bills) -> None:
    found = priced(bills, machine(10), machine(11), machine(10, B), edp("-3", 10, ResourceId=A))
    assert found == {(A, 10): (27, -3, 1, 27), (A, 11): (30, 0, 1, 30), (B, 10): (30, 0, 1, 30)}


def test_a_months_discount_on_a_machine_is_over_its_hours_by_cost(bills: Bills) -> None:
    found = priced(bills, machine(10), machine(11, cost="60"), machine(10, B), edp("-9", ResourceId=A, **MONTH))
    assert found == {(A, 10): (27, -3, 1, 27), (A, 11): (54, -6, 1, 54), (B, 10): (30, 0, 1, 30)}


def test_a_discount_on_a_machines_traffic_or_on_a_volume_is_none_on_the_machine(bills: Bills) -> None:
    traffic = {"UsageType": "USE1-DataTransfer-Out-Bytes", "unit": "GB"}
    volume = {"UsageType": "EBS:VolumeUsage.gp3", "unit": "GB-Mo", "ResourceId": "vol-1"}
    rows = [machine(10), machine(10, cost="5", **traffic), usage(10, UnblendedCost="8", **volume)]
    found = priced(bills, *rows, edp("-0.5", ResourceId=A, **traffic), edp("-0.8", **volume))
    assert found == {(A, 10): (30, 0, 1, 30)}
    assert totals(bills)[1] == Decimal("-1.3")


@pytest.mark.parametrize("where", ["savingsPlan/SavingsPlanARN", pytest.param("ResourceId", marks=pytest.mark.slow)])
def test_a_discount_on_a_plans_fee_lowers_all_that_its_arn_covers_in_any_account_the_unused_part_alike(
    bills: Bills, where: str
) -> None:
    fee = {"ProductCode": "ComputeSavingsPlans", "UsageType": "ComputeSP:1yrNoUpfront", "UsageAccountId": "111122223333"}
    found = priced(
        bills,
        *covered(10, A, "20"),
        *covered(10, B, "10", UsageAccountId=OTHER),
        machine(10, C),
        plan_fee(10, "40", "30"),
        edp("-4", 10, **(fee | {where: SP_ARN})),
        spread=False,
    )
    assert found == {(A, 10): (18, -2, 1, 18), (B, 10): (9, -1, 1, 9), (C, 10): (30, 0, 1, 30)}
    # the quarter that nothing used bears the rest
    assert totals(bills) == (Decimal(66), Decimal(-1))
    (rate,) = bills.store.query("SELECT commitment, discounted_cost, discount_cost, rows, first_rows FROM discount_rates")[1]
    assert rate[:4] == (SP_ARN, 40, -4, 1) and [row.rpartition("/")[2] for row in rate[4]] == ["cur.csv:7"]


def test_of_a_discount_on_an_upfront_fee_the_month_bears_its_part(bills: Bills) -> None:
    reservation = {"reservation/ReservationARN": RI_ARN}
    fee = machine(0, RI_ARN, "1200", LineItemType="Fee", **reservation)
    hour = machine(10, A, "0", LineItemType="DiscountedUsage", **(reservation | {"reservation/EffectiveCost": "100"}))
    found = priced(bills, fee, hour, edp("-120", **reservation))
    assert found == {(A, 10): (90, -10, 1, 90)}
    assert totals(bills)[1] == -110


def test_other_discounts_are_spread_over_their_product_in_the_account(bills: Bills) -> None:
    cluster = {"ProductCode": "AmazonEKS", "UsageType": "USE1-AmazonEKS-Hours:perCluster"}
    rows = [
        machine(10),
        machine(11, B, "60"),
        machine(10, C, UsageAccountId=OTHER),
        usage(10, UnblendedCost="10", ResourceId="arn:aws:eks:x", **cluster),
        edp("-9", UsageType="", **MONTH),
    ]
    assert priced(bills, *rows) == {(A, 10): (27, -3, 1, 27), (B, 11): (54, -6, 1, 54), (C, 10): (30, 0, 1, 30)}
    assert totals(bills)[1] == 0


def test_spread_discounts_can_be_left_off(bills: Bills) -> None:
    found = priced(bills, machine(10), edp("-3", UsageType="", **MONTH), edp("-1", ResourceId=A), spread=False)
    assert found == {(A, 10): (29, -1, 1, 29)}
    assert totals(bills)[1] == -3


def test_a_discount_of_one_kind_of_usage_is_spread_over_that(bills: Bills) -> None:
    gateway = {"UsageType": "USE1-NatGateway-Hours", "ResourceId": "arn:aws:ec2:nat"}
    other = {"UsageType": "BoxUsage:g5.xlarge"}
    found = priced(
        bills,
        machine(10),
        machine(10, B, "10", **other),
        usage(10, UnblendedCost="4", **gateway),
        edp("-4", LineItemType="BundledDiscount", UsageType="USE1-NatGateway-Hours"),
        edp("-2", LineItemType="PrivateRateDiscount", **other),
    )
    assert found == {(A, 10): (30, 0, 1, 30), (B, 10): (8, -2, 1, 8)}
    assert totals(bills)[1] == -4


def test_a_discount_in_the_payers_account_is_spread_over_the_product_in_all(bills: Bills) -> None:
    """One row a month in the management account, whose usage is in its members."""
    found = priced(bills, machine(10), machine(10, C, UsageAccountId=OTHER), edp("-6", UsageAccountId="111122223333", **MONTH))
    assert found == {(A, 10): (27, -3, 1, 27), (C, 10): (27, -3, 1, 27)}


def test_a_discount_without_a_type_in_the_payers_account_is_of_all_accounts_the_payers_usage_alike(bills: Bills) -> None:
    payer = {"UsageAccountId": "111122223333"}
    rows = [machine(10, A, "100", **payer), machine(10, B, "900")]
    assert priced(bills, *rows, edp("-100", UsageType="", **payer)) == {(A, 10): (90, -10, 1, 90), (B, 10): (810, -90, 1, 810)}


def test_where_each_account_has_its_own_discount_so_has_the_payers(bills: Bills) -> None:
    payer = {"UsageAccountId": "111122223333"}
    rows = [machine(10, A, "100", **payer), machine(10, B, "900"), edp("-20", UsageType="", **payer), edp("-90", UsageType="")]
    assert priced(bills, *rows) == {(A, 10): (80, -20, 1, 80), (B, 10): (810, -90, 1, 810)}


def test_a_discount_that_names_no_product_is_spread_over_its_account(bills: Bills) -> None:
    nothing = {"ProductCode": "", "UsageType": ""}
    storage = {"ProductCode": "AmazonS3", "UsageType": "TimedStorage-ByteHrs", "ResourceId": "bucket"}
    rows = [machine(10), machine(10, C, UsageAccountId=OTHER), usage(10, UnblendedCost="10", **storage)]
    assert priced(bills, *rows, edp("-4", **nothing)) == {(A, 10): (27, -3, 1, 27), (C, 10): (30, 0, 1, 30)}
    assert totals(bills)[1] == -1


def test_a_discount_of_what_is_not_in_the_bill_lowers_nothing(bills: Bills) -> None:
    found = priced(bills, machine(10), edp("-3", ProductCode="AmazonRDS", UsageType=""))
    assert found == {(A, 10): (30, 0, 1, 30)}


NET = "lineItem/NetUnblendedCost"


def test_net_costs_have_the_discount_already(bills: Bills) -> None:
    rows = [machine(10, **{NET: "27"}), edp("-3", ResourceId=A, **{NET: "0"}), edp("-3", UsageType="", **{NET: ""})]
    assert priced(bills, *rows) == {(A, 10): (27, 0, 1, 27)}


def test_per_row_either_the_net_cost_or_the_discount_counts(bills: Bills) -> None:
    found = priced(bills, machine(10, **{NET: "27"}), machine(10, B, **{NET: ""}), edp("-6", UsageType="", **{NET: ""}))
    assert found == {(A, 10): (27, 0, 1, 27), (B, 10): (27, -3, 1, 27)}
    assert totals(bills) == (Decimal(54), Decimal(0))


def test_what_nothing_used_of_a_plan_is_net_too(bills: Bills) -> None:
    net = {"savingsPlan/SavingsPlanEffectiveCost": "20", "savingsPlan/NetSavingsPlanEffectiveCost": "18"}
    bills.aws([machine(10, LineItemType="SavingsPlanCoveredUsage", **net), plan_fee(10, "40", "20", **{NET: "36"})])
    assert [charge["effective_cost"] for charge in bills.charges()] == [18, 18]


@pytest.mark.parametrize("blank", [pytest.param({}, marks=pytest.mark.slow), {NET: ""}])
def test_a_plans_net_cost_has_the_discount_where_no_other_net_column_is_filled(bills: Bills, blank: dict[str, str]) -> None:
    fee = {
        "savingsPlan/RecurringCommitmentForBillingPeriod": "40",
        "savingsPlan/NetRecurringCommitmentForBillingPeriod": "36",
    }
    rows = [
        *covered(10, A, "20", **{"savingsPlan/NetSavingsPlanEffectiveCost": "18"}),
        plan_fee(10, "40", "20", **fee),
        edp("-4", ProductCode="ComputeSavingsPlans", UsageType="ComputeSP:1yrNoUpfront", ResourceId=SP_ARN, **blank),
    ]
    assert priced(bills, *rows) == {(A, 10): (18, 0, 1, 18)}
    assert totals(bills) == (Decimal(36), Decimal(0))


def test_a_reservations_net_cost_has_the_discount_too(bills: Bills) -> None:
    reservation = {"reservation/ReservationARN": RI_ARN}
    cost = {"reservation/EffectiveCost": "20", "reservation/NetEffectiveCost": "18"}
    unused = {"reservation/UnusedRecurringFee": "20", "reservation/NetUnusedRecurringFee": "18"}
    rows = [
        machine(10, A, "0", LineItemType="DiscountedUsage", **(reservation | cost)),
        machine(0, RI_ARN, "40", LineItemType="RIFee", **(reservation | unused)),
        edp("-4", **reservation),
    ]
    assert priced(bills, *rows) == {(A, 10): (18, 0, 1, 18)}
    assert totals(bills) == (Decimal(36), Decimal(0))


def invoice(discount: str | None) -> list[dict[str, str]]:
    """Hours on demand, spot, under a plan and a reservation with parts unused; with 10 % off everything, told in two ways."""
    reservation = {"reservation/ReservationARN": RI_ARN}
    rows = [
        *(machine(hour, A) for hour in range(8)),
        *(machine(hour, B, "7.77", UsageType="SpotUsage:p4d.24xlarge") for hour in range(8)),
        *(row for hour in range(8) for row in covered(hour, C, "19.19", UsageAccountId=OTHER)),
        *(plan_fee(hour, "25", "19.19") for hour in range(8)),
        *(
            machine(hour, "i-0ddd", "0", LineItemType="DiscountedUsage", **(reservation | {"reservation/EffectiveCost": "11"}))
            for hour in range(8)
        ),
        machine(0, RI_ARN, "99", LineItemType="RIFee", **(reservation | {"reservation/UnusedRecurringFee": "11"})),
    ]
    if discount is None:
        return rows
    found = []
    for row in rows:
        cost = Decimal(row["lineItem/UnblendedCost"])
        if row["lineItem/LineItemType"] not in ("SavingsPlanCoveredUsage", "SavingsPlanNegation") and cost:
            taken = row | {"lineItem/LineItemType": "EdpDiscount", "lineItem/UnblendedCost": str(-cost / 10)}
            if discount == "spread":
                blank = ("savingsPlan/SavingsPlanARN", "reservation/ReservationARN", "lineItem/ResourceId", "lineItem/UsageType")
                taken |= dict.fromkeys(blank, "")
            found.append(taken)
    return rows + found


@pytest.mark.parametrize(
    ("sharing", "discount"),
    [
        ("pooled", "by resource"),
        ("as_billed", "spread"),
        pytest.param("pooled", "spread", marks=pytest.mark.slow),
        pytest.param("as_billed", "by resource", marks=pytest.mark.slow),
    ],
)
def test_ten_percent_off_is_exactly_ten_percent_off(bills: Bills, tmp_path: Path, discount: str, sharing: str) -> None:
    without = priced(bills, *invoice(None), sharing=sharing)
    (tmp_path / "with").mkdir()
    other = Bills(tmp_path / "with")
    found = priced(other, *invoice(discount), sharing=sharing)
    assert len(found) == 32
    assert found == {key: pytest.approx((cost * 0.9, -cost / 10, 1, value * 0.9)) for key, (cost, _, _, value) in without.items()}
    assert totals(other)[0] == totals(bills)[0] * Decimal("0.9")
    # what is left of the discount is that of the unused parts
    assert float(totals(other)[1]) == pytest.approx(-(8 * 5.81 + 11) / 10)
