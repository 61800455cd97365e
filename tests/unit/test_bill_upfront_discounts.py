"""Discounts on upfront fees: over the months that the fees cover, told in rows of their own as told in net columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpucost import price
from gpucost.config.model import Config
from gpucost.report.reconcile import Reconciliation, reconcile
from tests.unit.bills import Bills, csv_text, usage

RESERVATION = {"reservation/ReservationARN": "arn:aws:ec2:us-east-1:111122223333:reserved-instances/bbbb"}
PLAN = {"savingsPlan/SavingsPlanARN": "arn:aws:savingsplans::111122223333:savingsplan/aaaa"}
CAPACITY = {"ResourceId": "arn:aws:ec2:us-east-1:444455556666:capacity-reservation/cr-0aa"}
PAYER, USER, OTHER = "111122223333", "444455556666", "999988887777"
MONTHS = {"2026-03": 744, "2026-04": 720}
#: $ per hour of a year's reservation, of which 2 are a month's fee, and of the plan, of which 6 are.
UPFRONT, RECURRING = Decimal(1), Decimal(2)
PLAN_UPFRONT, PLAN_RECURRING = Decimal(4), Decimal(6)
YEAR = 8760
#: What is taken off: the reservation's upfront and monthly fees, and all else.
UNEVEN = {"upfront": Decimal("0.10"), "recurring": Decimal("0.05"), "rest": Decimal("0.08")}
OFF = {"uneven": UNEVEN} | {str(part): dict.fromkeys(UNEVEN, Decimal(part)) for part in ("0", "0.08")}
NET = "lineItem/NetUnblendedCost"
CENT = Decimal("0.01")
Row = dict[str, str]
Tell = Callable[..., dict[str, Reconciliation]]


def span(month: str, first: int = 0, hours: int = 1) -> Row:
    start = datetime.fromisoformat(f"{month}-01") + timedelta(hours=first)
    times = (start, start + timedelta(hours=hours))
    names = ("UsageStartDate", "UsageEndDate")
    return {name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in zip(names, times, strict=True)}


def charges(month: str, off: Mapping[str, Decimal], *, parts: bool) -> list[tuple[Row, Decimal]]:
    """Rows with net columns, and what is taken off what each is billed. With `parts` they say what of a cost is upfront."""
    kept = {name: 1 - part for name, part in off.items()}
    hours, period = MONTHS[month], {"BillingPeriodStartDate": f"{month}-01T00:00:00Z"}
    bought = {"UsageAccountId": PAYER, "ResourceId": ""}
    reserved = bought | {"UsageType": "HeavyUsage:p4d.24xlarge"} | RESERVATION
    planned = bought | {"ProductCode": "ComputeSavingsPlans", "UsageType": "ComputeSP:1yrPartialUpfront"} | PLAN
    found: list[tuple[Row, Decimal]] = []

    def add(told: Mapping[str, Any], billed: Decimal, taken: Decimal = Decimal(0)) -> None:
        costs = {"UnblendedCost": str(billed), NET: str(billed - taken)}
        row = period | costs | {name: str(value) for name, value in told.items()}
        found.append((usage(0, **row), taken))

    if month == min(MONTHS):
        fee = YEAR * UPFRONT
        add(reserved | span(month) | {"LineItemType": "Fee"}, fee, fee * off["upfront"])
        fee = YEAR * PLAN_UPFRONT
        add(planned | span(month) | {"LineItemType": "SavingsPlanUpfrontFee"}, fee, fee * off["rest"])
    used = ((3, "i-0aaa", USER), (4, "i-0aaa", USER), (4, "i-0bbb", OTHER))
    for hour, key, account in used:
        add(
            {
                "LineItemType": "DiscountedUsage", "ResourceId": key, "UsageAccountId": account,
                "reservation/EffectiveCost": UPFRONT + RECURRING,
                "reservation/NetEffectiveCost": UPFRONT * kept["upfront"] + RECURRING * kept["recurring"],
            } | RESERVATION | span(month, hour) | ({"reservation/AmortizedUpfrontCostForUsage": UPFRONT} if parts else {}),
            Decimal(0),
        )  # fmt: skip
    unused = hours - len(used)
    fee = hours * RECURRING
    add(
        reserved | span(month, 0, hours) | {
            "LineItemType": "RIFee",
            "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": unused * UPFRONT,
            "reservation/UnusedRecurringFee": unused * RECURRING,
            "reservation/NetUnusedAmortizedUpfrontFeeForBillingPeriod": unused * UPFRONT * kept["upfront"],
            "reservation/NetUnusedRecurringFee": unused * RECURRING * kept["recurring"],
        },
        fee, fee * off["recurring"],
    )  # fmt: skip
    for hour, share in ((0, 0), (1, 1), (2, Decimal("0.5"))):
        whole = PLAN_UPFRONT + PLAN_RECURRING
        cost = whole * share
        if share:
            p5 = {"ResourceId": "i-0ccc", "UsageAccountId": OTHER, "UsageType": "BoxUsage:p5.48xlarge"}
            machine = p5 | PLAN | span(month, hour)
            paid = {"savingsPlan/SavingsPlanEffectiveCost": cost, "savingsPlan/NetSavingsPlanEffectiveCost": cost * kept["rest"]}
            add(machine | paid | {"LineItemType": "SavingsPlanCoveredUsage"}, Decimal(30))
            add(machine | {"LineItemType": "SavingsPlanNegation"}, Decimal(-30))
        told = {
            "LineItemType": "SavingsPlanRecurringFee",
            "savingsPlan/TotalCommitmentToDate": whole,
            "savingsPlan/UsedCommitment": cost,
            "savingsPlan/RecurringCommitmentForBillingPeriod": PLAN_RECURRING,
            "savingsPlan/NetRecurringCommitmentForBillingPeriod": PLAN_RECURRING * kept["rest"],
            "savingsPlan/AmortizedUpfrontCommitmentForBillingPeriod": PLAN_UPFRONT,
            "savingsPlan/NetAmortizedUpfrontCommitmentForBillingPeriod": PLAN_UPFRONT * kept["rest"],
        }
        if not parts:
            told = {name: value for name, value in told.items() if "ForBillingPeriod" not in name}
        add(planned | span(month, hour) | told, PLAN_RECURRING, PLAN_RECURRING * off["rest"])
    for cost, told in (
        ("50", {"ResourceId": "i-0ddd"}),
        ("55", CAPACITY | {"UsageType": "UnusedBox:p5.48xlarge"}),
        ("3", {"ResourceId": "i-0eee", "UsageType": "BoxUsage:m5.large"}),
        ("7", {"ResourceId": "vol-1", "UsageType": "EBS:VolumeUsage.gp3", "unit": "GB-Mo"}),
        ("2", {"ResourceId": "i-0ddd", "UsageType": "DataTransfer-Out-Bytes", "unit": "GB"}),
    ):
        add(told | span(month, 5), Decimal(cost), Decimal(cost) * off["rest"])
    return found


def bill(month: str, way: str, off: Mapping[str, Decimal] = UNEVEN, *, parts: bool = True) -> list[Row]:
    """The month's bill, its discounts in net columns, in rows that name what they are on ('rows'), or that do not ('spread')."""
    told = charges(month, off, parts=parts)
    edp = {"lineItem/LineItemType": "EdpDiscount", NET: "0" if way == "net columns" else ""}
    discounts = [row | edp | {"lineItem/UnblendedCost": str(-taken)} for row, taken in told if taken]
    rows = [row for row, _ in told] + discounts
    if way in ("net columns", "net columns, blank discounts"):
        return rows
    if way == "spread":
        discounts = [row | dict.fromkeys((*RESERVATION, *PLAN, "lineItem/ResourceId"), "") for row in discounts]
        rows = [row for row, _ in told] + discounts
    return [{name: value for name, value in row.items() if "/Net" not in name} for row in rows]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Tell:
    """By month, the account of bills that were loaded one after the other, each priced before the next came."""

    @cache
    def tell(way: str, off: str = "uneven", backward: bool = False, parts: bool = True) -> dict[str, Reconciliation]:
        made = Bills(tmp_path_factory.mktemp("bills"))
        for month in sorted(MONTHS, reverse=backward):
            made.aws(bill(month, way, OFF[off], parts=parts), f"{month}.csv")
            with made.store.write() as con:
                price.stage(con, Config())
        with made.store.write() as con:
            return {month: _account(con, month) for month in MONTHS}

    return tell


def _account(con: duckdb.DuckDBPyConnection, month: str) -> Reconciliation:
    price.load_fx_rates(con, Config())
    found = reconcile(con, month, "USD")
    for one in found.statements:
        assert one.difference == 0
        assert sum(row.rows for row in one.classes) == one.rows
        assert sum(cost for *_, cost in one.lines()) == one.cost.quantize(CENT)
    assert found.problems == ()
    return found


def effective(found: Reconciliation) -> dict[str, Decimal]:
    """By class, and in all."""
    (one,) = [one for one in found.statements if one.basis == "effective"]
    classes = {row.name: row.cost for row in one.classes if abs(row.cost) >= CENT}
    assert found.invoices[0].effective_cost == pytest.approx(one.cost)
    assert sum(cause.effective_cost for cause in found.causes) == pytest.approx(one.cost)
    return classes | {"all": one.cost}


def agree(some: Reconciliation, other: Reconciliation) -> None:
    first, second = effective(some), effective(other)
    assert first == {name: pytest.approx(second[name], abs=CENT / 2) for name in second}
    # of each machine, too
    assert {one.name: one.cost for one in some.unseen} == {one.name: pytest.approx(one.cost) for one in other.unseen}


@pytest.mark.parametrize("parts", [True, False], ids=["parts told", "parts worked out"])
@pytest.mark.parametrize("backward", [False, True], ids=["in order", "backward"])
def test_discount_rows_cost_what_net_columns_do(told: Tell, backward: bool, parts: bool) -> None:
    rows, net = told("rows", backward=backward, parts=parts), told("net columns")
    kept = UPFRONT * (1 - UNEVEN["upfront"]) + RECURRING * (1 - UNEVEN["recurring"])
    plan = (PLAN_UPFRONT + PLAN_RECURRING) * (1 - UNEVEN["rest"])
    for month, hours in MONTHS.items():
        agree(rows[month], net[month])
        found = effective(rows[month])
        assert "discounts" not in found and "commitment_fees" not in found
        assert found["unused_commitments"] == pytest.approx((hours - 3) * kept + plan * Decimal("1.5"), abs=CENT / 2)
        assert found["unused_gpu_reservations"] == pytest.approx(55 * (1 - UNEVEN["rest"]))
        # bought by the payer, used in two accounts
        machines = {one.name: one.cost for one in rows[month].unseen}
        assert machines["i-0aaa"] == pytest.approx(2 * kept)
        assert machines["i-0bbb"] == pytest.approx(kept)
        assert machines["i-0ccc"] == pytest.approx(plan * Decimal("1.5"))


def test_discounts_that_name_nothing_cost_what_net_columns_do(told: Tell) -> None:
    for month in MONTHS:
        agree(told("spread", "0.08")[month], told("net columns", "0.08")[month])


def test_net_columns_have_the_discounts_also_where_their_rows_are_blank_there(told: Tell) -> None:
    for month in MONTHS:
        agree(told("net columns, blank discounts")[month], told("net columns")[month])


def test_over_the_months_of_a_fee_no_part_of_its_discount_is_lost(told: Tell) -> None:
    """Each month takes off of the discount what it bears of the fee."""
    full, less = told("rows", "0"), told("rows")
    for month, hours in MONTHS.items():
        taken = effective(full[month])["all"] - effective(less[month])["all"]
        # the plan's hours are three in a month
        upfront = hours * UPFRONT * UNEVEN["upfront"] + 3 * PLAN_UPFRONT * UNEVEN["rest"]
        recurring = hours * RECURRING * UNEVEN["recurring"] + (3 * PLAN_RECURRING + 50 + 55 + 3 + 7 + 2) * UNEVEN["rest"]
        assert taken == pytest.approx(upfront + recurring, abs=CENT / 2)
        invoices = [sum(i.billed_cost for i in one[month].invoices) for one in (full, less)]
        bought = YEAR * (UPFRONT * UNEVEN["upfront"] + PLAN_UPFRONT * UNEVEN["rest"]) if month == min(MONTHS) else 0
        assert invoices[0] - invoices[1] == bought + recurring


def test_a_month_whose_fee_is_not_there_is_before_its_discount_until_it_is(tmp_path: Path) -> None:
    made = Bills(tmp_path)
    costs: list[Decimal] = []
    for month in reversed(MONTHS):
        made.aws(bill(month, "rows"), f"{month}.csv")
        with made.store.write() as con:
            price.stage(con, Config())
            sql = "SELECT sum(effective_cost) FROM billed_hours WHERE instance_key = 'i-0bbb' AND billing_period = '2026-04'"
            costs += con.execute(sql).fetchall()[0]
    assert [float(cost) for cost in costs] == pytest.approx([3 - 2 * 0.05, 3 - 2 * 0.05 - 0.1])


@pytest.mark.parametrize("column", [{"AmortizedUpfrontCostForUsage": "1"}, {"RecurringFeeForUsage": "2"}])
def test_while_a_month_runs_the_export_says_what_is_upfront(tmp_path: Path, column: dict[str, str]) -> None:
    """The month's fee is billed whole before its hours are."""
    made, reserved = Bills(tmp_path), {"UsageType": "HeavyUsage:p4d.24xlarge", "ResourceId": ""} | RESERVATION
    hour = {"LineItemType": "DiscountedUsage", "UnblendedCost": "0", "reservation/EffectiveCost": "3"} | RESERVATION
    fee = usage(0, LineItemType="Fee", UnblendedCost="8760", **reserved)
    recurring = usage(1, LineItemType="RIFee", UnblendedCost="1488", **reserved)
    edp = usage(0, LineItemType="EdpDiscount", UnblendedCost="-876", **reserved)
    made.aws([fee, recurring, usage(5, **hour, **{f"reservation/{name}": cost for name, cost in column.items()}), edp])
    with made.store.write() as con:
        price.stage(con, Config())
        assert con.execute("SELECT discount_cost::DOUBLE FROM billed_hours").fetchall() == [(pytest.approx(-0.1),)]


MARCH: Row = {"BillingPeriodStartDate": "2026-03-01T00:00:00Z"}
FEE_ROW: Row = (
    MARCH | RESERVATION | span("2026-03") | {"LineItemType": "Fee", "UsageType": "HeavyUsage:p4d.24xlarge", "ResourceId": ""}
)
COVERED: Row = (
    MARCH
    | RESERVATION
    | span("2026-03", 3)
    | {"LineItemType": "DiscountedUsage", "ResourceId": "i-0aaa", "UnblendedCost": "0"}
    | {"reservation/EffectiveCost": "300", "reservation/AmortizedUpfrontCostForUsage": "300"}
)


def of_march(folder: Path, *files: list[Row]) -> Reconciliation:
    """March, its rows in files that are loaded one after the other."""
    bills = Bills(folder)
    for number, rows in enumerate(files):
        assert not bills.load(bills.write(f"{number}.csv", csv_text(rows))).errors
    with bills.store.write() as con:
        price.stage(con, Config())
        return _account(con, "2026-03")


def test_fee_and_discount_may_lie_in_two_parts_of_a_month(tmp_path: Path) -> None:
    fee = [usage(0, **FEE_ROW, UnblendedCost="8760"), usage(0, **COVERED)]
    discount = [usage(0, **FEE_ROW | {"LineItemType": "EdpDiscount", "UnblendedCost": "-876"})]
    discount.append(usage(9, **MARCH, ResourceId="i-0zz", UsageType="BoxUsage:m5.large", UnblendedCost="5"))
    assert effective(of_march(tmp_path, fee, discount))["all"] == 300 - 30 + 5


def test_what_is_taken_off_beside_a_correction_is_the_discount(tmp_path: Path) -> None:
    rows = [
        usage(1, **MARCH, ResourceId="i-0aaa", UnblendedCost="1000"),
        usage(2, **MARCH, ResourceId="", UsageType="Foo:Correction", UnblendedCost="-200"),
        usage(3, **MARCH, ResourceId="", UsageType="Other", LineItemType="EdpDiscount", UnblendedCost="-80"),
    ]
    classes = effective(of_march(tmp_path, rows))
    assert classes["all"] == 720 and not classes.get("discounts")


def test_discount_rows_of_two_families_are_each_counted_once(tmp_path: Path) -> None:
    off: Row = MARCH | {
        "ResourceId": "",
        "UsageType": "HeavyUsage:p4d.24xlarge",
        "LineItemType": "EdpDiscount",
        "UnblendedCost": "-100",
    }
    rows = [usage(0, **FEE_ROW, UnblendedCost="8760"), usage(0, **COVERED)]
    rows += [usage(3, **off | {"product/ProductFamily": family}) for family in ("", "Data Transfer")]
    (billed,) = (one for one in of_march(tmp_path, rows).statements if one.basis == "billed")
    assert billed.cost == 8760 - 200 and sum(row.cost for row in billed.classes) == billed.cost and billed.rows == 4
    assert sum(row.cost for row in billed.classes if row.name == "discounts") == -200
