"""Discounts and fees of a bill: whose price they lower or raise, and that nothing is taken off twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost import price
from gpucost.config.model import Bills as BillSettings
from gpucost.config.model import Config
from tests.unit.bills import Bills, csv_text, own_rows, own_text, usage

PAYER, USER, OTHER = "111122223333", "444455556666", "999988887777"
SP_ARN = f"arn:aws:savingsplans::{PAYER}:savingsplan/aaaa"
RI_ARN = f"arn:aws:ec2:us-east-1:{PAYER}:reserved-instances/bbbb"
A, B, C = "i-0aaa", "i-0bbb", "i-0ccc"
MONTH = {"UsageStartDate": "2026-03-01T00:00:00Z", "UsageEndDate": "2026-04-01T00:00:00Z"}
NET = "lineItem/NetUnblendedCost"
Row = dict[str, str]


@dataclass(frozen=True)
class Case:
    """The rows of a payer's bill; what a machine's hour costs, what of that discounts took off, its price where it differs.

    `rest` is what of the discounts no machine's hour holds, `total` what all charges cost.
    """

    rows: list[Row]
    costs: Mapping[tuple[str, int], tuple[float, ...]]
    rest: str | None = None
    total: str | None = None
    spread: bool = True
    sharing: str = "as_billed"


class Priced:
    """All cases in one store, each with accounts and machines of its own; those with net columns are loaded by themselves."""

    def __init__(
        self, folder: Path, cases: Mapping[str, Case], nodes: Mapping[str, str] | None = None
    ) -> None:
        self.numbers = {name: number for number, name in enumerate(cases)}
        self.bills = Bills(folder)
        files: dict[str, list[Row]] = {"plain.csv": [], "net.csv": []}
        self.places: dict[str, str] = {}
        for name, case in cases.items():
            file = "net.csv" if any("/Net" in column for row in case.rows for column in row) else "plain.csv"
            self.places[name] = f"{file}:{len(files[file])}"
            files[file] += own_rows(case.rows, self.numbers[name])
        for file, rows in files.items():
            run = self.bills.load(self.bills.write(file, csv_text(rows))) if rows else None
            assert run is None or not run.errors, run
        self._hours: dict[tuple[bool, str], dict[str, Any]] = {}
        with self.bills.store.write() as con:
            for name, machine_id in (nodes or {}).items():
                con.execute(
                    "INSERT INTO nodes (node_id, cluster, node, machine_id, up_from_ms, up_to_ms, provider, capacity_type, "
                    "gpu_count) VALUES (1, 'prod', 'n', $1, 0, 9e15, 'aws', 'unknown', 8)",
                    [self.own(name, machine_id)],
                )
            for spread, sharing in {(case.spread, case.sharing): None for case in cases.values()}:
                prices: Any = {"commitment_sharing": sharing}
                price.stage(con, Config(bills=BillSettings(spread_discounts=spread), prices=prices))
                self._hours[spread, sharing] = {
                    what: con.execute(sql).fetchall()
                    for what, sql in {
                        "hours": "SELECT instance_key, hour(epoch_ms(from_ms)), sum(effective_cost), sum(discount_cost), "
                        "sum(instance_hours), max(price_per_hour) FROM billed_hours GROUP BY ALL ORDER BY ALL",
                        "totals": "SELECT billing_account_id, sum(effective_cost), "
                        "coalesce(sum(effective_cost) FILTER (kind = 'discount'), 0) FROM bill_rows GROUP BY ALL",
                        "pools": "SELECT instance_key, capacity_type, is_unexplained, pool FROM billed_hours",
                        "rates": "SELECT commitment, discounted_cost, discount_cost, rows, first_rows FROM discount_rates",
                        "nodes": "SELECT instance_key, node_id FROM billed_nodes",
                    }.items()
                }
        self.cases = cases

    def own(self, name: str, text: str) -> str:
        """A name of accounts, machines or capacity reservations, as it is in a case."""
        return own_text(text, self.numbers[name])

    def answer(self, name: str, what: str) -> list[Any]:
        case = self.cases[name]
        return list(self._hours[case.spread, case.sharing][what])

    def costs(self, name: str) -> dict[tuple[str, int], tuple[float, ...]]:
        """By machine and hour, as named in the case: what it costs, what of that discounts took off, its hours and its price."""
        end = f"{self.numbers[name]:03x}"
        return {
            (key.removesuffix(end), hour): tuple(float(round(value or 0, 9)) for value in values)
            for key, hour, *values in self.answer(name, "hours")
            if key[6:] == end
        }

    def totals(self, name: str) -> tuple[Decimal, Decimal]:
        """The effective cost of all charges, and of the discounts that no machine's hour holds."""
        [(total, discounts)] = [
            row[1:] for row in self.answer(name, "totals") if row[0] == self.own(name, PAYER)
        ]
        return total, discounts - Decimal(str(sum(values[1] for values in self.costs(name).values())))

    def charges(self, name: str) -> list[dict[str, Any]]:
        return [
            charge for charge in self.bills.charges() if charge["billing_account_id"] == self.own(name, PAYER)
        ]

    def check(self, name: str) -> None:
        case = self.cases[name]
        costs = {
            key: (cost, off, 1, price[0] if price else cost)
            for key, (cost, off, *price) in case.costs.items()
        }
        assert self.costs(name) == costs
        if case.rest is not None:
            assert self.totals(name)[1] == Decimal(case.rest)
        if case.total is not None:
            assert self.totals(name)[0] == Decimal(case.total)


def machine(hour: int = 10, key: str = A, cost: str = "30", **more: str) -> Row:
    return usage(hour, ResourceId=key, UnblendedCost=cost, **more)


def edp(cost: str, hour: int = 10, **more: str) -> Row:
    return usage(hour, **({"LineItemType": "EdpDiscount", "UnblendedCost": cost, "ResourceId": ""} | more))


def covered(hour: int, key: str, cost: str, **more: str) -> list[Row]:
    """An hour that a savings plan covers: at the plan's cost, and what takes its list price back."""
    plan = {"savingsPlan/SavingsPlanARN": SP_ARN}
    rate = plan | {"savingsPlan/SavingsPlanEffectiveCost": cost}
    return [
        machine(hour, key, LineItemType="SavingsPlanCoveredUsage", **(rate | more)),
        machine(hour, "", "-30", LineItemType="SavingsPlanNegation", **(plan | more)),
    ]


def plan_fee(hour: int, committed: str, used: str, **more: str) -> Row:
    fee = {
        "LineItemType": "SavingsPlanRecurringFee", "ProductCode": "ComputeSavingsPlans",
        "UsageType": "ComputeSP:1yrNoUpfront", "UsageAccountId": PAYER, "ResourceId": SP_ARN, "UnblendedCost": committed,
        "savingsPlan/SavingsPlanARN": SP_ARN, "savingsPlan/TotalCommitmentToDate": committed,
        "savingsPlan/UsedCommitment": used,
    }  # fmt: skip
    return usage(hour, **(fee | more))


TRAFFIC = {"UsageType": "USE1-DataTransfer-Out-Bytes", "unit": "GB"}
VOLUME = {"UsageType": "EBS:VolumeUsage.gp3", "unit": "GB-Mo", "ResourceId": "vol-1"}
PLAN_FEE = {"ProductCode": "ComputeSavingsPlans", "UsageType": "ComputeSP:1yrNoUpfront"}
RESERVATION = {"reservation/ReservationARN": RI_ARN}
CLUSTER = {"ProductCode": "AmazonEKS", "UsageType": "USE1-AmazonEKS-Hours:perCluster"}
GATEWAY = {"UsageType": "USE1-NatGateway-Hours"}
G5 = {"UsageType": "BoxUsage:g5.xlarge"}
OF_PAYER = {"UsageAccountId": PAYER}
STORAGE = {"ProductCode": "AmazonS3", "UsageType": "TimedStorage-ByteHrs", "ResourceId": "bucket"}
NET_PLAN = {"savingsPlan/SavingsPlanEffectiveCost": "20", "savingsPlan/NetSavingsPlanEffectiveCost": "18"}


def invoice(discount: str | None) -> list[Row]:
    """Hours on demand, spot, under a plan and a reservation with parts unused; with 10 % off everything, told in two ways."""
    rows = [
        *(machine(hour, A) for hour in range(8)),
        *(machine(hour, B, "7.77", UsageType="SpotUsage:p4d.24xlarge") for hour in range(8)),
        *(row for hour in range(8) for row in covered(hour, C, "19.19", UsageAccountId=OTHER)),
        *(plan_fee(hour, "25", "19.19") for hour in range(8)),
        *(
            machine(
                hour,
                "i-0ddd",
                "0",
                LineItemType="DiscountedUsage",
                **(RESERVATION | {"reservation/EffectiveCost": "11"}),
            )
            for hour in range(8)
        ),
        machine(
            0, RI_ARN, "99", LineItemType="RIFee", **(RESERVATION | {"reservation/UnusedRecurringFee": "11"})
        ),
    ]
    if discount is None:
        return rows
    discounts = []
    for row in rows:
        cost = Decimal(row["lineItem/UnblendedCost"])
        if row["lineItem/LineItemType"] not in ("SavingsPlanCoveredUsage", "SavingsPlanNegation") and cost:
            taken = row | {"lineItem/LineItemType": "EdpDiscount", "lineItem/UnblendedCost": str(-cost / 10)}
            if discount == "spread":
                blank = (
                    "savingsPlan/SavingsPlanARN",
                    "reservation/ReservationARN",
                    "lineItem/ResourceId",
                    "lineItem/UsageType",
                )
                taken |= dict.fromkeys(blank, "")
            discounts.append(taken)
    return rows + discounts


CASES = {
    "on a machine lowers that machine in that hour": Case(
        [machine(10), machine(11), machine(10, B), edp("-3", 10, ResourceId=A)],
        {(A, 10): (27, -3), (A, 11): (30, 0), (B, 10): (30, 0)}
    ),
    "a month's on a machine is over its hours by cost": Case(
        [machine(10), machine(11, cost="60"), machine(10, B), edp("-9", ResourceId=A, **MONTH)],
        {(A, 10): (27, -3), (A, 11): (54, -6), (B, 10): (30, 0)},
    ),
    "on a machine's traffic or on a volume is none on the machine": Case(
        [machine(10), machine(10, cost="5", **TRAFFIC), usage(10, UnblendedCost="8", **VOLUME),
         edp("-0.5", ResourceId=A, **TRAFFIC), edp("-0.8", **VOLUME)],
        {(A, 10): (30, 0)}, rest="-1.3",
    ),
    # in any account; the quarter that nothing used bears the rest
    **{
        f"on a plan's fee lowers all that its ARN covers: {where}": Case(
            [*covered(10, A, "20"), *covered(10, B, "10", UsageAccountId=OTHER), machine(10, C), plan_fee(10, "40", "30"),
             edp("-4", 10, **(PLAN_FEE | OF_PAYER | {where: SP_ARN}))],
            {(A, 10): (18, -2), (B, 10): (9, -1), (C, 10): (30, 0)}, "-1", "66", spread=False,
        )
        for where in ("savingsPlan/SavingsPlanARN", "ResourceId")
    },
    "on an upfront fee: the month bears its part": Case(
        [machine(0, RI_ARN, "1200", LineItemType="Fee", **RESERVATION),
         machine(10, A, "0", LineItemType="DiscountedUsage", **(RESERVATION | {"reservation/EffectiveCost": "100"})),
         edp("-120", **RESERVATION)],
        {(A, 10): (90, -10)}, rest="-110",
    ),
    "on a month's fee: the hours so far bear their part": Case(
        [machine(0, RI_ARN, "720", LineItemType="RIFee", **(RESERVATION | {"reservation/UnusedRecurringFee": "0"})),
         machine(10, A, "0", LineItemType="DiscountedUsage", **(RESERVATION | {"reservation/EffectiveCost": "100"})),
         edp("-72", **RESERVATION)],
        {(A, 10): (90, -10)}, rest="-62",
    ),
    "others are spread over their product in the account": Case(
        [machine(10), machine(11, B, "60"), machine(10, C, UsageAccountId=OTHER),
         usage(10, UnblendedCost="10", ResourceId="arn:aws:eks:x", **CLUSTER), edp("-9", UsageType="", **MONTH)],
        {(A, 10): (27, -3), (B, 11): (54, -6), (C, 10): (30, 0)}, rest="0",
    ),
    "spreading can be left off": Case(
        [machine(10), edp("-3", UsageType="", **MONTH), edp("-1", ResourceId=A)], {(A, 10): (29, -1)}, rest="-3", spread=False
    ),
    "of one kind of usage is spread over that": Case(
        [machine(10), machine(10, B, "10", **G5), usage(10, UnblendedCost="4", ResourceId="arn:aws:ec2:nat", **GATEWAY),
         edp("-4", LineItemType="BundledDiscount", **GATEWAY), edp("-2", LineItemType="PrivateRateDiscount", **G5)],
        {(A, 10): (30, 0), (B, 10): (8, -2)}, rest="-4",
    ),
    # one row a month in the management account, whose usage is in its members
    "in the payer's account is spread over the product in all": Case(
        [machine(10), machine(10, C, UsageAccountId=OTHER), edp("-6", **OF_PAYER, **MONTH)],
        {(A, 10): (27, -3), (C, 10): (27, -3)}
    ),
    "without a type in the payer's account is of all accounts, the payer's usage alike": Case(
        [machine(10, A, "100", **OF_PAYER), machine(10, B, "900"), edp("-100", UsageType="", **OF_PAYER)],
        {(A, 10): (90, -10), (B, 10): (810, -90)},
    ),
    "where each account has its own, so has the payer's": Case(
        [machine(10, A, "100", **OF_PAYER), machine(10, B, "900"), edp("-20", UsageType="", **OF_PAYER),
         edp("-90", UsageType="")],
        {(A, 10): (80, -20), (B, 10): (810, -90)},
    ),
    "that names no product is spread over its account": Case(
        [machine(10), machine(10, C, UsageAccountId=OTHER), usage(10, UnblendedCost="10", **STORAGE),
         edp("-4", ProductCode="", UsageType="")],
        {(A, 10): (27, -3), (C, 10): (30, 0)}, rest="-1",
    ),
    "of what is not in the bill lowers nothing": Case(
        [machine(10), edp("-3", ProductCode="AmazonRDS", UsageType="")], {(A, 10): (30, 0)}
    ),
    "net costs have the discount already": Case(
        [machine(10, **{NET: "27"}), edp("-3", ResourceId=A, **{NET: "0"}), edp("-3", UsageType="", **{NET: ""})],
        {(A, 10): (27, 0)}
    ),
    "per row either the net cost or the discount counts": Case(
        [machine(10, **{NET: "27"}), machine(10, B, **{NET: ""}), edp("-6", UsageType="", **{NET: ""})],
        {(A, 10): (27, 0), (B, 10): (27, -3)}, "0", "54",
    ),
    "what nothing used of a plan is net too": Case(
        [machine(10, LineItemType="SavingsPlanCoveredUsage", **NET_PLAN), plan_fee(10, "40", "20", **{NET: "36"})],
        {(A, 10): (18, 0)}, total="36",
    ),
    "a plan's net cost has the discount where no other net column is filled": Case(
        [*covered(10, A, "20", **{"savingsPlan/NetSavingsPlanEffectiveCost": "18"}),
         plan_fee(10, "40", "20", **{"savingsPlan/RecurringCommitmentForBillingPeriod": "40",
                                     "savingsPlan/NetRecurringCommitmentForBillingPeriod": "36"}),
         edp("-4", ResourceId=SP_ARN, **PLAN_FEE)],
        {(A, 10): (18, 0)}, "0", "36",
    ),
    "a reservation's net cost has the discount too": Case(
        [machine(10, A, "0", LineItemType="DiscountedUsage", **(RESERVATION | {"reservation/EffectiveCost": "20",
                                                                              "reservation/NetEffectiveCost": "18"})),
         machine(0, RI_ARN, "40", LineItemType="RIFee", **(RESERVATION | {"reservation/UnusedRecurringFee": "20",
                                                                         "reservation/NetUnusedRecurringFee": "18"})),
         edp("-4", **RESERVATION)],
        {(A, 10): (18, 0)}, "0", "36",
    ),
}  # fmt: skip
INVOICES = {
    f"{discount or 'none'}, {sharing}": Case(invoice(discount), {}, sharing=sharing)
    for discount in (None, "by resource", "spread")
    for sharing in ("pooled", "as_billed")
}


@pytest.fixture(scope="module")
def discounted(tmp_path_factory: pytest.TempPathFactory) -> Priced:
    return Priced(tmp_path_factory.mktemp("bills"), CASES | INVOICES)


@pytest.mark.parametrize("name", CASES)
def test_a_discount(discounted: Priced, name: str) -> None:
    discounted.check(name)


def test_a_rate_says_which_rows_it_is_of(discounted: Priced) -> None:
    name = "on a plan's fee lowers all that its ARN covers: savingsPlan/SavingsPlanARN"
    [rate] = [row for row in discounted.answer(name, "rates") if row[0] == discounted.own(name, SP_ARN)]
    file, _, rows_before = discounted.places[name].partition(":")
    assert rate[1:4] == (40, -4, 1) and [row.rpartition("/")[2] for row in rate[4]] == [
        f"{file}:{int(rows_before) + 7}"
    ]


@pytest.mark.parametrize("sharing", ["pooled", "as_billed"])
@pytest.mark.parametrize("discount", ["by resource", "spread"])
def test_ten_percent_off_is_exactly_ten_percent_off(discounted: Priced, discount: str, sharing: str) -> None:
    name, bare = f"{discount}, {sharing}", f"none, {sharing}"
    costs = discounted.costs(name)
    assert len(costs) == 32
    assert costs == {
        key: pytest.approx((cost * 0.9, -cost / 10, 1, value * 0.9))
        for key, (cost, _, _, value) in discounted.costs(bare).items()
    }
    total, rest = discounted.totals(name)
    assert total == discounted.totals(bare)[0] * Decimal("0.9")
    # what is left of the discount is that of the unused parts
    assert float(rest) == pytest.approx(-(8 * 5.81 + 11) / 10)
