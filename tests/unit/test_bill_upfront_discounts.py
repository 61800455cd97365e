"""Discounts on upfront fees: over the months that the fees cover, told in rows of their own as told in net columns."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from gpucost import price
from gpucost.config.model import Config
from gpucost.questions.reconcile.statement import Reconciliation, reconcile
from tests.text_tables import words
from tests.unit.bills import COLUMNS, NAMES, Bills, item, own_rows, own_text

Row = dict[str, str]
MONTHS = {"2026-03": 744, "2026-04": 720}
#: $ per hour of a year's reservation, of which 2 are a month's fee, and of the plan, of which 6 are.
UPFRONT, RECURRING = Decimal(1), Decimal(2)
PLAN_UPFRONT, PLAN_RECURRING = Decimal(4), Decimal(6)
YEAR = 8760
#: What is taken off: the reservation's upfront and monthly fees, and all else.
UNEVEN = {"upfront": Decimal("0.10"), "recurring": Decimal("0.05"), "rest": Decimal("0.08")}
NET, COST = "lineItem/NetUnblendedCost", "lineItem/UnblendedCost"
CENT = Decimal("0.01")
EDP = {"lineItem/LineItemType": "EdpDiscount"}
#: A month; `off` is what of UNEVEN is taken off a cost, `parts` say what of a cost is upfront.
FIRST = "UsageStartDate=2026-03-01T00:00:00Z UsageEndDate=2026-03-01T01:00:00Z"
FEES = f"""
reserved_upfront {FIRST} account=PAYER cost=8760 off=upfront
plan_upfront {FIRST} account=PAYER plan=PLAN id= cost=35040 off=rest"""
HOURS = """
reserved hour=3 id=i-0aaa reserved_cost=3 parts=reserved
reserved hour=4 id=i-0aaa reserved_cost=3 parts=reserved
reserved hour=4 id=i-0bbb reserved_cost=3 parts=reserved account=OTHER
reserved_fee UsageStartDate=2026-03-01T00:00:00Z UsageEndDate=2026-04-01T00:00:00Z account=PAYER cost={fee} off=recurring
    unused_upfront={unused} unused_fee={unused_fee}
plan_fee hour=0 id= cost=6 off=rest committed=10 used=0 parts=plan
plan_fee hour=1 id= cost=6 off=rest committed=10 used=10 parts=plan
covered hour=1 id=i-0ccc account=OTHER usage=BoxUsage:p5.48xlarge cost=30 plan_cost=10
negation hour=1 id=i-0ccc account=OTHER usage=BoxUsage:p5.48xlarge cost=-30
plan_fee hour=2 id= cost=6 off=rest committed=10 used=5 parts=plan
covered hour=2 id=i-0ccc account=OTHER usage=BoxUsage:p5.48xlarge cost=30 plan_cost=5
negation hour=2 id=i-0ccc account=OTHER usage=BoxUsage:p5.48xlarge cost=-30
machine hour=5 id=i-0ddd cost=50 off=rest
machine hour=5 id=CAPACITY cost=55 usage=UnusedBox:p5.48xlarge off=rest
machine hour=5 id=i-0eee cost=3 usage=BoxUsage:m5.large off=rest
volume hour=5 cost=7 off=rest
traffic hour=5 id=i-0ddd cost=2 off=rest"""
PARTS = {
    "reserved": "reservation/AmortizedUpfrontCostForUsage=1",
    "plan": "savingsPlan/RecurringCommitmentForBillingPeriod=6 savingsPlan/AmortizedUpfrontCommitmentForBillingPeriod=4",
}
#: Of which part each column is that has a net one.
NETS = {
    "reservation/UnusedAmortizedUpfrontFeeForBillingPeriod": "upfront",
    "reservation/UnusedRecurringFee": "recurring",
    "savingsPlan/SavingsPlanEffectiveCost": "rest",
    "savingsPlan/RecurringCommitmentForBillingPeriod": "rest",
    "savingsPlan/AmortizedUpfrontCommitmentForBillingPeriod": "rest",
}


def bill(month: str, way: str) -> list[Row]:
    """The month's bill, its discounts in net columns, in rows that name what they are on ('rows'), or that do not ('spread')."""
    off = dict.fromkeys(UNEVEN, Decimal(way.split()[-2])) if way.endswith(" off") else UNEVEN
    hours = MONTHS[month]
    table = HOURS.format(fee=hours * RECURRING, unused=hours - 3, unused_fee=(hours - 3) * RECURRING)
    table = (FEES if month == min(MONTHS) else "") + table
    is_net = way.startswith("net columns")
    rows, discounts = [], []
    for line in table.replace("\n ", " ").strip().splitlines():
        cells = words(line.partition(" ")[2])
        part = PARTS.get(cells.get("parts", ""), "")
        row = item(f"{line} {'' if 'without parts' in way else part}")
        row.pop("parts", None)
        taken = Decimal(row[COST]) * off.get(row.pop("off", ""), 0)
        if is_net:
            row[NET] = str(Decimal(row[COST]) - taken)
            if "reserved_cost" in cells:
                kept = UPFRONT * (1 - off["upfront"]) + RECURRING * (1 - off["recurring"])
                row["reservation/NetEffectiveCost"] = str(kept)
            for column in NETS.keys() & row.keys():
                row[column.replace("/", "/Net")] = str(Decimal(row[column]) * (1 - off[NETS[column]]))
        rows.append(row)
        if taken:
            discount = row | EDP | {COST: str(-taken)}
            if is_net:
                discount[NET] = "" if "blank" in way else "0"
            if way.startswith("spread"):
                named = (COLUMNS["reservation"], COLUMNS["plan"], "lineItem/ResourceId")
                discount |= dict.fromkeys(named, "")
            discounts.append(discount)
    rows += discounts
    if month == "2026-04":
        for row in rows:
            for name, value in row.items():
                row[name] = value.replace("2026-04", "2026-05").replace("2026-03", "2026-04")
    return rows


def items(table: str) -> list[Row]:
    return [item(line) for line in table.strip().splitlines()]


WAYS = (
    "rows", "rows, backward, without parts", "net columns", "net columns, blank discounts", "rows, 0 off", "spread, 0.08 off",
    "net columns, 0.08 off",
)  # fmt: skip
BOUGHT = f"""
reserved_upfront {FIRST} cost=8760
reserved hour=3 id=i-0aaa reserved_cost=300 reservation/AmortizedUpfrontCostForUsage=300"""
HEAVY = "usage=HeavyUsage:p4d.24xlarge reservation=RESERVATION"
#: What is loaded, and after it was priced what comes later.
LOADS: dict[str, tuple[list[Row], list[Row]]] = {
    "two parts of a month": (
        items(BOUGHT),
        items(f"""
edp {FIRST} {HEAVY} cost=-876
machine hour=9 id=i-0aab usage=BoxUsage:m5.large cost=5"""),
    ),
    "beside a correction": (
        items("""
machine hour=1 id=i-0aaa cost=1000
machine hour=2 id= usage=Foo:Correction cost=-200
edp hour=3 usage=Other cost=-80"""),
        [],
    ),
    "two families": (
        items(f"""{BOUGHT}
edp hour=3 usage=HeavyUsage:p4d.24xlarge cost=-100 product/ProductFamily=
edp hour=3 usage=HeavyUsage:p4d.24xlarge cost=-100 product/ProductFamily="Data Transfer\""""),
        [],
    ),
    # the month's fee is billed whole before its hours are
    **{
        f"a month that runs: {part}": (
            items(f"""
reserved_upfront hour=0 cost=8760
reserved_fee hour=1 cost=1488
reserved hour=5 id=i-0aaa reserved_cost=3 reservation/{part}
edp hour=0 {HEAVY} cost=-876"""),
            [],
        )
        for part in ("AmortizedUpfrontCostForUsage=1", "RecurringFeeForUsage=2")
    },
}
for way in WAYS:
    march, april = (bill(month, way) for month in MONTHS)
    LOADS[way] = (april, march) if "backward" in way else (march, april)
NUMBERS = {name: number for number, name in enumerate(LOADS)}


class Loaded:
    """All of LOADS in one store, each of an account; costs of a machine's hours after each of the two loads."""

    def __init__(self, folder: Path) -> None:
        self.bills = Bills(folder)
        self.hours: list[dict[tuple[str, str], tuple[float, ...]]] = []
        for step in (0, 1):
            files: dict[bool, list[Row]] = {False: [], True: []}
            for name, loads in LOADS.items():
                files["net columns" in name] += own_rows(loads[step], NUMBERS[name])
            for is_net, rows in files.items():
                self.bills.aws(rows, f"{step} {is_net}.csv")
            with self.bills.store.write() as con:
                price.stage(con, Config())
                rates = con.execute(
                    "SELECT instance_key, billing_period, sum(effective_cost)::DOUBLE, sum(discount_cost)::DOUBLE "
                    "FROM billed_hours GROUP BY ALL"
                ).fetchall()
                self.hours.append({(key, month): tuple(costs) for key, month, *costs in rates})

    @cache  # noqa: B019  (there is one)
    def account(self, name: str) -> dict[str, Reconciliation]:
        """By month, with no other bills in the store."""
        accounts: dict[str, Reconciliation] = {}
        with suppress(InterruptedError), self.bills.store.write() as con:
            con.execute(
                "DELETE FROM bills WHERE billing_account_id <> $1", [own_text(NAMES["PAYER"], NUMBERS[name])]
            )
            for table in ("bill_details", "billed_hours", "amortized_discounts"):
                con.execute(f"DELETE FROM {table} WHERE bill_id NOT IN (SELECT bill_id FROM bills)")  # noqa: S608
            price.load_fx_rates(con, Config())
            for month in MONTHS if name in WAYS else ["2026-03"]:
                accounts[month] = reconcile(con, month, "USD")
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


@pytest.mark.parametrize("way", ["rows", "rows, backward, without parts"])
def test_discount_rows_cost_what_net_columns_do(loaded: Loaded, way: str) -> None:
    rows = loaded.account(way)
    agree(rows, loaded.account("net columns"))
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
    agree(loaded.account("spread, 0.08 off"), loaded.account("net columns, 0.08 off"))
    agree(loaded.account("net columns, blank discounts"), loaded.account("net columns"))


def test_over_the_months_of_a_fee_no_part_of_its_discount_is_lost(loaded: Loaded) -> None:
    """Each month takes off of the discount what it bears of the fee."""
    full, less = loaded.account("rows, 0 off"), loaded.account("rows")
    for month, hours in MONTHS.items():
        taken = effective(full[month])["all"] - effective(less[month])["all"]
        # the plan's hours are three in a month
        upfront = hours * UPFRONT * UNEVEN["upfront"] + 3 * PLAN_UPFRONT * UNEVEN["rest"]
        rest = (3 * PLAN_RECURRING + 50 + 55 + 3 + 7 + 2) * UNEVEN["rest"]
        recurring = hours * RECURRING * UNEVEN["recurring"] + rest
        assert taken == pytest.approx(upfront + recurring, abs=CENT / 2)
        invoices = [sum(one.billed_cost for one in some[month].invoices) for some in (full, less)]
        bought = YEAR * (UPFRONT * UNEVEN["upfront"] + PLAN_UPFRONT * UNEVEN["rest"])
        assert invoices[0] - invoices[1] == recurring + (bought if month == min(MONTHS) else 0)


def test_fees_and_discounts_of_a_month_that_runs_or_whose_fee_is_not_there(loaded: Loaded) -> None:
    machine = own_text("i-0bbb", NUMBERS["rows, backward, without parts"])
    costs = [hours[machine, "2026-04"][0] for hours in loaded.hours]
    assert costs == pytest.approx([3 - 2 * 0.05, 3 - 2 * 0.05 - 0.1])
    for name in ("AmortizedUpfrontCostForUsage=1", "RecurringFeeForUsage=2"):
        machine = own_text("i-0aaa", NUMBERS[f"a month that runs: {name}"])
        assert loaded.hours[1][machine, "2026-03"][1] == pytest.approx(-0.1)
    assert effective(loaded.account("two parts of a month")["2026-03"])["all"] == 300 - 30 + 5
    correction = effective(loaded.account("beside a correction")["2026-03"])
    assert correction["all"] == 720 and not correction.get("discounts")
    [billed] = [one for one in loaded.account("two families")["2026-03"].statements if one.basis == "billed"]
    assert (billed.cost, billed.rows) == (8760 - 200, 4)
    assert sum(row.cost for row in billed.classes) == billed.cost
    assert sum(row.cost for row in billed.classes if row.name == "discounts") == -200
