"""Discounts on upfront fees: over the months that the fees cover, told in rows of their own as told in net columns."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpucost import price
from gpucost.config.model import Config
from gpucost.questions.reconcile.statement import Reconciliation, reconcile
from tests.unit.bills import Bills, own_rows, own_text, usage

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
    planned = (
        bought | {"ProductCode": "ComputeSavingsPlans", "UsageType": "ComputeSP:1yrPartialUpfront"} | PLAN
    )
    priced: list[tuple[Row, Decimal]] = []

    def add(columns: Mapping[str, Any], billed: Decimal, taken: Decimal = Decimal(0)) -> None:
        costs = {"UnblendedCost": str(billed), NET: str(billed - taken)}
        row = period | costs | {name: str(value) for name, value in columns.items()}
        priced.append((usage(0, **row), taken))

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
            paid = {
                "savingsPlan/SavingsPlanEffectiveCost": cost,
                "savingsPlan/NetSavingsPlanEffectiveCost": cost * kept["rest"],
            }
            add(machine | paid | {"LineItemType": "SavingsPlanCoveredUsage"}, Decimal(30))
            add(machine | {"LineItemType": "SavingsPlanNegation"}, Decimal(-30))
        fee_columns = {
            "LineItemType": "SavingsPlanRecurringFee",
            "savingsPlan/TotalCommitmentToDate": whole,
            "savingsPlan/UsedCommitment": cost,
            "savingsPlan/RecurringCommitmentForBillingPeriod": PLAN_RECURRING,
            "savingsPlan/NetRecurringCommitmentForBillingPeriod": PLAN_RECURRING * kept["rest"],
            "savingsPlan/AmortizedUpfrontCommitmentForBillingPeriod": PLAN_UPFRONT,
            "savingsPlan/NetAmortizedUpfrontCommitmentForBillingPeriod": PLAN_UPFRONT * kept["rest"],
        }
        if not parts:
            fee_columns = {
                name: value for name, value in fee_columns.items() if "ForBillingPeriod" not in name
            }
        add(planned | span(month, hour) | fee_columns, PLAN_RECURRING, PLAN_RECURRING * off["rest"])
    for cost, columns in (
        ("50", {"ResourceId": "i-0ddd"}),
        ("55", CAPACITY | {"UsageType": "UnusedBox:p5.48xlarge"}),
        ("3", {"ResourceId": "i-0eee", "UsageType": "BoxUsage:m5.large"}),
        ("7", {"ResourceId": "vol-1", "UsageType": "EBS:VolumeUsage.gp3", "unit": "GB-Mo"}),
        ("2", {"ResourceId": "i-0ddd", "UsageType": "DataTransfer-Out-Bytes", "unit": "GB"}),
    ):
        add(columns | span(month, 5), Decimal(cost), Decimal(cost) * off["rest"])
    return priced


def bill(month: str, way: str, off: Mapping[str, Decimal] = UNEVEN, *, parts: bool = True) -> list[Row]:
    """The month's bill, its discounts in net columns, in rows that name what they are on ('rows'), or that do not ('spread')."""
    priced = charges(month, off, parts=parts)
    edp = {"lineItem/LineItemType": "EdpDiscount", NET: "0" if way == "net columns" else ""}
    discounts = [row | edp | {"lineItem/UnblendedCost": str(-taken)} for row, taken in priced if taken]
    rows = [row for row, _ in priced] + discounts
    if way in ("net columns", "net columns, blank discounts"):
        return rows
    if way == "spread":
        discounts = [
            row | dict.fromkeys((*RESERVATION, *PLAN, "lineItem/ResourceId"), "") for row in discounts
        ]
        rows = [row for row, _ in priced] + discounts
    return [{name: value for name, value in row.items() if "/Net" not in name} for row in rows]


MARCH: Row = {"BillingPeriodStartDate": "2026-03-01T00:00:00Z"}
HEAVY: Row = {"UsageType": "HeavyUsage:p4d.24xlarge", "ResourceId": ""}
FEE: Row = usage(
    0, **MARCH | RESERVATION | span("2026-03") | HEAVY | {"LineItemType": "Fee", "UnblendedCost": "8760"}
)
EDP: Row = {"lineItem/LineItemType": "EdpDiscount"}
COVERED: Row = usage(
    0,
    **MARCH | RESERVATION | span("2026-03", 3),
    LineItemType="DiscountedUsage",
    ResourceId="i-0aaa",
    UnblendedCost="0",
    **{"reservation/EffectiveCost": "300", "reservation/AmortizedUpfrontCostForUsage": "300"},
)
Told = tuple[str, str, bool, bool]


def telling(way: str, off: str = "uneven", backward: bool = False, parts: bool = True) -> Told:
    return way, off, backward, parts


TELLINGS = [
    *(telling("rows", backward=backward, parts=parts) for backward in (False, True) for parts in (False, True)),
    telling("net columns"), telling("net columns, blank discounts"), telling("rows", "0"), telling("spread", "0.08"),
    telling("net columns", "0.08"),
]  # fmt: skip
#: What is loaded, and after it was priced what comes later.
LOADS: dict[Told | str, tuple[list[Row], list[Row]]] = {}
for way, off, backward, parts in TELLINGS:
    march, april = (bill(month, way, OFF[off], parts=parts) for month in MONTHS)
    LOADS[way, off, backward, parts] = (april, march) if backward else (march, april)
LOADS |= {
    "two parts of a month": (
        [FEE, COVERED],
        [FEE | EDP | {"lineItem/UnblendedCost": "-876"},
         usage(9, **MARCH, ResourceId="i-0aab", UsageType="BoxUsage:m5.large", UnblendedCost="5")],
    ),
    "beside a correction": (
        [usage(1, **MARCH, ResourceId="i-0aaa", UnblendedCost="1000"),
         usage(2, **MARCH, ResourceId="", UsageType="Foo:Correction", UnblendedCost="-200"),
         usage(3, **MARCH, ResourceId="", UsageType="Other", LineItemType="EdpDiscount", UnblendedCost="-80")],
        [],
    ),
    "two families": (
        [FEE, COVERED,
         *(usage(3, **MARCH | HEAVY, LineItemType="EdpDiscount", UnblendedCost="-100") | {"product/ProductFamily": family}
           for family in ("", "Data Transfer"))],
        [],
    ),
    # the month's fee is billed whole before its hours are
    **{
        f"a month that runs: {name}": (
            [usage(0, LineItemType="Fee", UnblendedCost="8760", **HEAVY | RESERVATION),
             usage(1, LineItemType="RIFee", UnblendedCost="1488", **HEAVY | RESERVATION),
             usage(5, LineItemType="DiscountedUsage", UnblendedCost="0", ResourceId="i-0aaa",
                   **RESERVATION | {"reservation/EffectiveCost": "3", f"reservation/{name}": cost}),
             usage(0, LineItemType="EdpDiscount", UnblendedCost="-876", **HEAVY | RESERVATION)],
            [],
        )
        for name, cost in (("AmortizedUpfrontCostForUsage", "1"), ("RecurringFeeForUsage", "2"))
    },
}  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(LOADS)}


class Loaded:
    """All of LOADS in one store, each of an account; costs of a machine's hours after each of the two loads."""

    def __init__(self, folder: Path) -> None:
        self.bills = Bills(folder)
        self.hours: list[dict[tuple[str, str], tuple[float, ...]]] = []
        for step in (0, 1):
            rows = {name: own_rows(loads[step], NUMBERS[name]) for name, loads in LOADS.items()}
            for net in (False, True):
                of_load = [
                    row
                    for some in rows.values()
                    for row in some
                    if any("/Net" in column for column in row) == net
                ]
                self.bills.aws(of_load, f"{step} {net}.csv")
            with self.bills.store.write() as con:
                price.stage(con, Config())
                rates = con.execute(
                    "SELECT instance_key, billing_period, sum(effective_cost)::DOUBLE, sum(discount_cost)::DOUBLE "
                    "FROM billed_hours GROUP BY ALL"
                ).fetchall()
                self.hours.append({(key, month): tuple(costs) for key, month, *costs in rates})

    @cache  # noqa: B019  (there is one)
    def account(self, name: Told | str) -> dict[str, Reconciliation]:
        """By month, with no other bills in the store."""
        accounts: dict[str, Reconciliation] = {}
        with suppress(InterruptedError), self.bills.store.write() as con:
            con.execute("DELETE FROM bills WHERE billing_account_id <> $1", [own_text(PAYER, NUMBERS[name])])
            for table in ("bill_details", "billed_hours", "amortized_discounts"):
                con.execute(f"DELETE FROM {table} WHERE bill_id NOT IN (SELECT bill_id FROM bills)")  # noqa: S608
            price.load_fx_rates(con, Config())
            accounts |= {
                month: reconcile(con, month, "USD")
                for month in MONTHS
                if not (isinstance(name, str) and month != "2026-03")
            }
            raise InterruptedError  # nothing of that stays
        for account in accounts.values():
            for one in account.statements:
                assert one.difference == 0
                assert sum(row.rows for row in one.classes) == one.rows
                assert sum(cost for *_, cost in one.lines()) == one.cost.quantize(CENT)
            assert account.problems == ()
        return accounts


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return Loaded(tmp_path_factory.mktemp("bills"))


def effective(account: Reconciliation) -> dict[str, Decimal]:
    """By class, and in all."""
    (one,) = [one for one in account.statements if one.basis == "effective"]
    classes = {row.name: row.cost for row in one.classes if abs(row.cost) >= CENT}
    assert account.invoices[0].effective_cost == pytest.approx(one.cost)
    assert sum(cause.effective_cost for cause in account.causes) == pytest.approx(one.cost)
    return classes | {"all": one.cost}


def machines(account: Reconciliation) -> dict[str, Decimal]:
    return {one.name[:6]: one.cost for one in account.unseen}


def agree(some: dict[str, Reconciliation], other: dict[str, Reconciliation]) -> None:
    for month in MONTHS:
        first, second = effective(some[month]), effective(other[month])
        assert first == {name: pytest.approx(second[name], abs=CENT / 2) for name in second}
        # of each machine, too
        assert machines(some[month]) == {
            name: pytest.approx(cost) for name, cost in machines(other[month]).items()
        }


@pytest.mark.parametrize(
    ("backward", "parts"),
    [
        pytest.param(False, True, id="in order, parts told"),
        pytest.param(True, False, id="backward, parts worked out"),
        pytest.param(False, False, id="in order, parts worked out", marks=pytest.mark.ci),
        pytest.param(True, True, id="backward, parts told", marks=pytest.mark.ci),
    ],
)
def test_discount_rows_cost_what_net_columns_do(loaded: Loaded, backward: bool, parts: bool) -> None:
    rows = loaded.account(telling("rows", backward=backward, parts=parts))
    agree(rows, loaded.account(telling("net columns")))
    kept = UPFRONT * (1 - UNEVEN["upfront"]) + RECURRING * (1 - UNEVEN["recurring"])
    plan = (PLAN_UPFRONT + PLAN_RECURRING) * (1 - UNEVEN["rest"])
    for month, hours in MONTHS.items():
        costs = effective(rows[month])
        assert "discounts" not in costs and "commitment_fees" not in costs
        assert costs["unused_commitments"] == pytest.approx(
            (hours - 3) * kept + plan * Decimal("1.5"), abs=CENT / 2
        )
        assert costs["unused_gpu_reservations"] == pytest.approx(55 * (1 - UNEVEN["rest"]))
        # bought by the payer, used in two accounts
        expected = {"i-0aaa": 2 * kept, "i-0bbb": kept, "i-0ccc": plan * Decimal("1.5")}
        assert {name: machines(rows[month])[name] for name in expected} == pytest.approx(expected)


def test_discounts_that_name_nothing_or_are_blank_in_net_columns_cost_the_same(loaded: Loaded) -> None:
    agree(loaded.account(telling("spread", "0.08")), loaded.account(telling("net columns", "0.08")))
    agree(loaded.account(telling("net columns, blank discounts")), loaded.account(telling("net columns")))


def test_over_the_months_of_a_fee_no_part_of_its_discount_is_lost(loaded: Loaded) -> None:
    """Each month takes off of the discount what it bears of the fee."""
    full, less = loaded.account(telling("rows", "0")), loaded.account(telling("rows"))
    for month, hours in MONTHS.items():
        taken = effective(full[month])["all"] - effective(less[month])["all"]
        # the plan's hours are three in a month
        upfront = hours * UPFRONT * UNEVEN["upfront"] + 3 * PLAN_UPFRONT * UNEVEN["rest"]
        recurring = (
            hours * RECURRING * UNEVEN["recurring"]
            + (3 * PLAN_RECURRING + 50 + 55 + 3 + 7 + 2) * UNEVEN["rest"]
        )
        assert taken == pytest.approx(upfront + recurring, abs=CENT / 2)
        invoices = [sum(i.billed_cost for i in one[month].invoices) for one in (full, less)]
        bought = (
            YEAR * (UPFRONT * UNEVEN["upfront"] + PLAN_UPFRONT * UNEVEN["rest"])
            if month == min(MONTHS)
            else 0
        )
        assert invoices[0] - invoices[1] == bought + recurring


def test_fees_and_discounts_of_a_month_that_runs_or_whose_fee_is_not_there(loaded: Loaded) -> None:
    machine = own_text("i-0bbb", NUMBERS[telling("rows", backward=True)])
    costs = [hours[machine, "2026-04"][0] for hours in loaded.hours]
    assert costs == pytest.approx([3 - 2 * 0.05, 3 - 2 * 0.05 - 0.1])
    for name in [name for name in LOADS if "that runs" in name]:
        assert loaded.hours[1][own_text("i-0aaa", NUMBERS[name]), "2026-03"][1] == pytest.approx(-0.1)
    assert effective(loaded.account("two parts of a month")["2026-03"])["all"] == 300 - 30 + 5
    correction = effective(loaded.account("beside a correction")["2026-03"])
    assert correction["all"] == 720 and not correction.get("discounts")
    (billed,) = (one for one in loaded.account("two families")["2026-03"].statements if one.basis == "billed")
    assert (
        billed.cost == 8760 - 200
        and sum(row.cost for row in billed.classes) == billed.cost
        and billed.rows == 4
    )
    assert sum(row.cost for row in billed.classes if row.name == "discounts") == -200
