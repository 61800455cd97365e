"""Discounts and fees on a bill: the prices they change, each counted once.

Also other AWS charges for GPUs than on-demand hours: the nodes that bear them, or their names without a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost import price
from gpucost.config.model import Bills as BillSettings, Config
from tests.text_tables import columns, titled
from tests.unit.bills import ITEMS, NAMES, Bills, Row, check_scene, item, own_rows, own_text, scene

#: Line items by the first word of a row: various, and three machines at $30 per hour.
KINDS = ITEMS | columns(
    """
    a id=i-0aaa cost=30
    b id=i-0bbb cost=30
    c id=i-0ccc cost=30
    edp_month item=EdpDiscount id= UsageStartDate=2026-03-01T00:00:00Z UsageEndDate=2026-04-01T00:00:00Z
    edp_plan item=EdpDiscount id= product=ComputeSavingsPlans usage=ComputeSP:1yrNoUpfront
    edp_reserved item=EdpDiscount id= usage=HeavyUsage:p4d.24xlarge reservation=RESERVATION
    auto product=AmazonEKS usage=USE1-EKS-Auto:p4d.24xlarge-management-hours cost=3.6 id=INSTANCE/i-0aaa
    sagemaker product=AmazonSageMaker cost=60 id=arn:aws:sagemaker:us-east-1:1:training-job/x
""".replace("INSTANCE", "arn:aws:ec2:us-east-1:444455556666:instance")
)


@dataclass(frozen=True)
class Case:
    """The rows of a payer's bill, the expected costs of machine hours, and the remaining discounts and
    total.

    Of an hour: its cost, the part subtracted by discounts, and its hours and price if they are not 1 and the
    cost.
    """

    rows: list[Row]
    costs: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    sums: Mapping[str, str] = field(default_factory=dict)
    spread: bool = True
    sharing: str = "as_billed"


def case(table: str, **settings: Any) -> Case:
    """A case from a table: a row, and that machine's cost in that hour.

    The last row may be of `all`.
    """
    rows, costs, sums = [], {}, {}
    for text, expected_charge in zip(*scene(table, str), strict=True):
        if text.strip() == "all":
            sums = expected_charge
            continue
        row = item(text, KINDS)
        rows.append(row)
        if expected_charge:
            key = (
                expected_charge.pop("on", row["lineItem/ResourceId"]),
                int(row["lineItem/UsageStartDate"][11:13]),
            )
            values = {"off": "0", "hours": "1", "price": expected_charge["cost"]} | expected_charge
            costs[key] = {name: float(value) for name, value in values.items()}
    return Case(rows, costs, sums, **settings)


class Priced:
    """All cases in one store, each with its own accounts and machines.

    Cases with net columns are loaded separately.
    """

    def __init__(self, folder: Path, cases: Mapping[str, Case], nodes: Mapping[str, str]) -> None:
        self.cases = cases
        self.numbers = {name: number for number, name in enumerate(cases)}
        self.bills = Bills(folder)
        files: dict[str, list[Row]] = {"plain.csv": [], "net.csv": []}
        self.places: dict[str, int] = {}
        for name, one in cases.items():
            columns = {column for row in one.rows for column in row}
            file = "net.csv" if any("/Net" in column for column in columns) else "plain.csv"
            self.places[name] = len(files[file])
            files[file] += own_rows(one.rows, self.numbers[name])
        for file, rows in files.items():
            self.bills.aws(rows, file)
        self._answers: dict[tuple[bool, str, str], list[Any]] = {}
        with self.bills.store.write() as con:
            for name, machine_id in nodes.items():
                con.execute(
                    "INSERT INTO nodes (node_id, cluster, node, machine_id, up_from_ms, up_to_ms, provider, capacity_type, "
                    "gpu_count) VALUES (1, 'prod', 'n', $1, 0, 9e15, 'aws', 'unknown', 8)",
                    [self.own(name, machine_id)],
                )
            for spread, sharing in {(one.spread, one.sharing) for one in cases.values()}:
                prices: Any = {"commitment_sharing": sharing}
                price.stage(con, Config(bills=BillSettings(spread_discounts=spread), prices=prices))
                for what, sql in {
                    "hours": "SELECT instance_key, hour(epoch_ms(from_ms)), sum(effective_cost), sum(discount_cost), "
                    "sum(instance_hours), max(price_per_hour) FROM billed_hours GROUP BY ALL",
                    "totals": "SELECT billing_account_id, sum(effective_cost), "
                    "coalesce(sum(effective_cost) FILTER (kind = 'discount'), 0) FROM bill_rows GROUP BY ALL",
                    "months": "SELECT billing_account_id, billing_period, sum(effective_cost) "
                    "FROM effective_rows GROUP BY ALL",
                    "pools": "SELECT instance_key, capacity_type, is_unexplained, pool FROM billed_hours",
                    "rates": "SELECT commitment, discounted_cost, discount_cost, rows, first_rows FROM discount_rates",
                    "nodes": "SELECT instance_key, node_id FROM billed_nodes",
                }.items():
                    self._answers[spread, sharing, what] = con.execute(sql).fetchall()

    def own(self, name: str, text: str) -> str:
        """A case's own name of accounts, machines or capacity reservations in the text."""
        return own_text(text, self.numbers[name])

    def answer(self, name: str, what: str) -> list[Any]:
        return self._answers[self.cases[name].spread, self.cases[name].sharing, what]

    def costs(self, name: str) -> dict[tuple[str, int], dict[str, float]]:
        """By machine and hour, as named in the case."""
        end = f"{self.numbers[name]:03x}"
        names, costs = ("cost", "off", "hours", "price"), {}
        for key, hour, *values in self.answer(name, "hours"):
            if key[6:] == end:
                rounded = [float(round(value or 0, 9)) for value in values]
                costs[key[:6], hour] = dict(zip(names, rounded, strict=True))
        return costs

    def totals(self, name: str) -> dict[str, Decimal]:
        """The effective cost of all charges, of the discounts outside machine hours, and of each month."""
        payer = self.own(name, NAMES["PAYER"])
        [(total, discounts)] = [row[1:] for row in self.answer(name, "totals") if row[0] == payer]
        taken = sum(values["off"] for values in self.costs(name).values())
        months = {month: cost for account, month, cost in self.answer(name, "months") if account == payer}
        return {"total": total, "rest": discounts - Decimal(str(taken)), **months}

    def check(self, name: str) -> None:
        """Check the costs and sums of a case."""
        one = self.cases[name]
        assert self.costs(name) == one.costs
        totals = {what: self.totals(name)[what] for what in one.sums}
        assert totals == {what: Decimal(cost) for what, cost in one.sums.items()}

    def charges(self, name: str) -> list[dict[str, Any]]:
        payer = self.own(name, NAMES["PAYER"])
        return [charge for charge in self.bills.charges() if charge["billing_account_id"] == payer]


HOUR = """
a hour={0}
b hour={0} cost=7.77 usage=SpotUsage:p4d.24xlarge
covered hour={0} id=i-0ccc cost=30 plan_cost=19.19 account=OTHER
negation hour={0} cost=-30 account=OTHER
plan_fee hour={0} cost=25 committed=25 used=19.19
reserved hour={0} id=i-0ddd reserved_cost=11"""
HOURS = 3


def invoice(discount: str) -> list[Row]:
    """Hours on demand, spot, under a plan and a partly used reservation, with 10 % off in one of two
    forms."""
    rows = case("".join(HOUR.format(hour) for hour in range(HOURS))).rows
    rows.append(item("reserved_fee hour=0 cost=44 unused_fee=11"))
    discounts = []
    for row in rows:
        cost = Decimal(row["lineItem/UnblendedCost"])
        is_covered = row["lineItem/LineItemType"] in ("SavingsPlanCoveredUsage", "SavingsPlanNegation")
        if cost and not is_covered and discount != "none":
            taken = {"lineItem/LineItemType": "EdpDiscount", "lineItem/UnblendedCost": str(-cost / 10)}
            if discount == "spread":
                columns = ("savingsPlan/SavingsPlanARN", "reservation/ReservationARN")
                taken |= dict.fromkeys((*columns, "lineItem/ResourceId", "lineItem/UsageType"), "")
            discounts.append(row | taken)
    return rows + discounts


HYPERPOD = "a HyperPod machine named on the bill"
CASES = {name: case(text) for name, text in titled("""
= a discount on a machine lowers that machine's cost in that hour
a         | cost=27 off=-3
a hour=11 | cost=30
b         | cost=30
edp id=i-0aaa cost=-3
= a discount for a month on a machine is spread over its hours by cost
a                 | cost=27 off=-3
a hour=11 cost=60 | cost=54 off=-6
b                 | cost=30
edp_month id=i-0aaa cost=-9
= a discount on a machine's traffic or on a volume does not lower the machine's cost
a | cost=30
traffic id=i-0aaa cost=5
volume cost=8
edp id=i-0aaa cost=-0.5 usage=USE1-DataTransfer-Out-Bytes unit=GB
edp id=vol-1 cost=-0.8 usage=EBS:VolumeUsage.gp3 unit=GB-Mo
all | rest=-1.3
= a discount without a machine is spread over the product in the account
a                 | cost=27 off=-3
b hour=11 cost=60 | cost=54 off=-6
c account=OTHER   | cost=30
machine id=arn:aws:eks:x cost=10 product=AmazonEKS usage=USE1-AmazonEKS-Hours:perCluster
edp_month cost=-9 usage=
all | rest=0
= a discount on one usage type is spread over that usage
a                                  | cost=30
b cost=10 usage=BoxUsage:g5.xlarge | cost=8 off=-2
machine id=arn:aws:ec2:nat cost=4 usage=USE1-NatGateway-Hours
edp cost=-4 item=BundledDiscount usage=USE1-NatGateway-Hours
edp cost=-2 item=PrivateRateDiscount usage=BoxUsage:g5.xlarge
all | rest=-4
= a discount in the payer's account is spread over the product in all accounts
# one row per month in the management account; the usage is in member accounts
a               | cost=27 off=-3
c account=OTHER | cost=27 off=-3
edp_month cost=-6 account=PAYER
= a discount without a usage type in the payer's account is spread over all accounts and the payer
a cost=100 account=PAYER | cost=90 off=-10
b cost=900               | cost=810 off=-90
edp cost=-100 usage= account=PAYER
= a discount is the payer's own if each account has its own
a cost=100 account=PAYER | cost=80 off=-20
b cost=900               | cost=810 off=-90
edp cost=-20 usage= account=PAYER
edp cost=-90 usage=
= a discount without a product is spread over its account
a               | cost=27 off=-3
c account=OTHER | cost=30
machine id=bucket cost=10 product=AmazonS3 usage=TimedStorage-ByteHrs
edp cost=-4 product= usage=
all | rest=-1
= a discount on a product missing from the bill lowers no cost
a | cost=30
edp cost=-3 product=AmazonRDS usage=
= a discount is already in net costs
a net=27 | cost=27
edp id=i-0aaa cost=-3 net=0
edp cost=-3 usage= net=
= a discount is counted once per row, in the net cost or as a discount
a net=27 | cost=27
b net=   | cost=27 off=-3
edp cost=-6 usage= net=
all | rest=0 total=54
= a discount is in the net cost of the unused part of a plan
covered id=i-0aaa plan_cost=20 net_plan_cost=18 | cost=18
plan_fee cost=40 committed=40 used=20 net=36
all | total=36
= a discount is in a plan's net cost if no other net column is filled
covered id=i-0aaa cost=30 plan_cost=20 net_plan_cost=18 | cost=18
negation cost=-30
plan_fee cost=40 committed=40 used=20 savingsPlan/RecurringCommitmentForBillingPeriod=40
    savingsPlan/NetRecurringCommitmentForBillingPeriod=36
edp_plan id=PLAN cost=-4
all | rest=0 total=36
= a discount is in a reservation's net cost
reserved id=i-0aaa reserved_cost=20 net_reserved_cost=18 | cost=18
reserved_fee hour=0 cost=40 unused_fee=20 net_unused_fee=18
edp_reserved cost=-4
all | rest=0 total=36
= EKS Auto Mode's fee adds to its machine's price, not to its hours
a         | cost=33.6
auto
a hour=11 | cost=37.2
b         | cost=30
auto hour=11 cost=7.2 amount=2
= a discount on EKS Auto Mode's fee lowers its machine's cost
# each by the rate of its own product
a | cost=30.6 off=-3.4
auto cost=4
edp cost=-3
edp cost=-0.4 product=AmazonEKS usage=
= a discount on a fee alone leaves the hours without a price
# the hours cost 0 without an explanation
a cost=0 | cost=3.24 off=-0.36 price=0
auto
edp id=i-0aaa cost=-0.36
= a HyperPod machine named on the bill
sagemaker id=arn:aws:sagemaker:us-east-1:1:cluster/x/i-0aaa usage=USE1-Cluster:ml.p5.48xlarge | on=i-0aaa cost=60
= only instance usage counts as billed hours
a capacity=BLOCK capacity_type= | cost=30.6 off=-3
auto
edp id=i-0aaa cost=-3 amount=1
machine id=BLOCK cost=0 usage=USE1-Reservation:p4d.24xlarge amount=2
machine id=BLOCK cost=30 usage=USE1-UnusedBox:p4d.24xlarge
machine id= cost=100 item=Fee amount=720
= a discount on a capacity block's fee is spread over its hours
block capacity=BLOCK
a cost=0 capacity=BLOCK capacity_type=capacity-block | cost=45 off=-5
b cost=0 capacity=BLOCK capacity_type=capacity-block | cost=45 off=-5
c cost=0 usage=USE1-UnusedBox:p4d.24xlarge
edp id=BLOCK cost=-10 description='EDP, Capacity Block upfront fee'
= a discount on a block's fee without its id is spread over its hours
block id= cost=1000
a cost=0 usage=BoxUsage:p5.48xlarge         | cost=450 off=-50
a cost=0 hour=11 usage=BoxUsage:p5.48xlarge | cost=450 off=-50
b cost=60 usage=BoxUsage:p5.48xlarge        | cost=60
edp hour=0 cost=-100 usage=USE1-CapacityBlock:p5.48xlarge description='Discount on Capacity Block fee'""").items()} | {
    # in any account; the unused quarter bears the rest
    **{
        f"a discount on a plan's fee lowers all usage covered by its ARN: {column}": case(f"""
covered id=i-0aaa cost=30 plan_cost=20               | cost=18 off=-2
negation cost=-30
covered id=i-0bbb cost=30 plan_cost=10 account=OTHER | cost=9 off=-1
negation cost=-30 account=OTHER
c | cost=30
plan_fee cost=40 committed=40 used=30
edp_plan cost=-4 account=PAYER {column}=PLAN
all | rest=-1 total=66""", spread=False)
        for column in ("plan", "id")
    },
    "spreading is turned off": case("""
a | cost=29 off=-1
edp_month cost=-3 usage=
edp id=i-0aaa cost=-1
all | rest=-3""", spread=False),
    "machines of one system, tenancy and capacity type share a price": case("""
a         | cost=30 price=20
b cost=10 | cost=10 price=20""", sharing="pooled"),
    **{
        f"machines share no price with others: {column}": case(f"""
a                           | cost=30
b cost=10 {column}={value} | cost=10""", sharing="pooled")
        for column, value in {
            "capacity": "BLOCK", "usage": "DedicatedUsage:p4d.24xlarge", "Operation": "RunInstances:0002", "account": "OTHER",
        }.items()
    },
    "each reservation and each block has its own shared price": case("""
a capacity=BLOCK           | cost=30 price=20
b cost=10 capacity=BLOCK   | cost=10 price=20
c cost=6 capacity=CAPACITY | cost=6""", sharing="pooled"),
}  # fmt: skip
#: The kinds of GPU charges without a node.
NAMED = """
sagemaker usage=USE1-Train:ml.p5.48xlarge    | kind=managed instance_type=p5.48xlarge machine=- hours=-
sagemaker usage=USE1-Cluster:ml.p5.48xlarge id=arn:aws:sagemaker:us-east-1:1:cluster/x
    | kind=managed instance_type=p5.48xlarge machine=- hours=-
sagemaker usage=USW2-Host:ml.g5.12xlarge     | kind=managed instance_type=g5.12xlarge machine=- hours=-
sagemaker usage=USE1-Notebk:ml.g4dn.xlarge   | kind=managed instance_type=g4dn.xlarge machine=- hours=-
sagemaker usage=USE1-Studio:KernelGateway-ml.g4dn.xlarge product_instance_type=ml.g4dn.xlarge
    | kind=managed instance_type=g4dn.xlarge machine=- hours=-
sagemaker usage=USE1-Train:ml.m5.xlarge      | kind=other instance_type=- machine=- hours=-
sagemaker usage=USE1-Cluster:VolumeUsage.gp2 | kind=other instance_type=- machine=- hours=-
auto id=arn:aws:eks:us-east-1:1:cluster/x    | kind=managed instance_type=p4d.24xlarge machine=- hours=-
auto id= usage=USE1-EKS-Auto:m5.metal-24xl-management-hours   | kind=other instance_type=- machine=- hours=-
machine id=BLOCK usage=USE1-UnusedBox:p5.48xlarge             | kind=reserved_unused instance_type=p5.48xlarge machine=- hours=1
machine id=BLOCK cost=0 usage=USE1-Reservation:p5.48xlarge    | kind=other instance_type=- machine=- hours=-
machine id=BLOCK cost=0 usage=USE1-DedicatedRes:p5.48xlarge   | kind=other instance_type=- machine=- hours=-"""
OTHERS = {
    f"{discount}, {sharing}": Case(invoice(discount), sharing=sharing)
    for discount in ("none", "by resource", "spread")
    for sharing in ("pooled", "as_billed")
} | {"named": Case([item(row, KINDS) for row in scene(NAMED, str)[0]])}


@pytest.fixture(scope="module")
def priced(module_path: Path) -> Priced:
    node = "aws:///use1-az4/sagemaker/cluster/hyperpod-tqci9uwuwqiz-i-0aaa"
    return Priced(module_path, CASES | OTHERS, {HYPERPOD: node})


@pytest.mark.parametrize("name", CASES)
def test_case_has_its_machine_costs(priced: Priced, name: str) -> None:
    priced.check(name)


def test_discount_rate_names_its_rows(priced: Priced) -> None:
    name = "a discount on a plan's fee lowers all usage covered by its ARN: plan"
    [rate] = [row for row in priced.answer(name, "rates") if row[0] == priced.own(name, NAMES["PLAN"])]
    assert rate[1:4] == (40, -4, 1)
    assert [row.rpartition("/")[2] for row in rate[4]] == [f"plain.csv:{priced.places[name] + 7}"]


@pytest.mark.parametrize("sharing", ["pooled", "as_billed"])
@pytest.mark.parametrize("discount", ["by resource", "spread"])
def test_ten_percent_off_is_exactly_ten_percent_off(priced: Priced, discount: str, sharing: str) -> None:
    costs, bare = priced.costs(f"{discount}, {sharing}"), priced.costs(f"none, {sharing}")
    assert costs.keys() == bare.keys() and len(costs) == 4 * HOURS
    for key, hour in bare.items():
        less = {
            "cost": hour["cost"] * 0.9,
            "off": -hour["cost"] / 10,
            "hours": 1,
            "price": hour["price"] * 0.9,
        }
        assert costs[key] == pytest.approx(less)
    totals = priced.totals(f"{discount}, {sharing}")
    assert totals["total"] == priced.totals(f"none, {sharing}")["total"] * Decimal("0.9")
    # the remaining discount is for the unused parts
    assert float(totals["rest"]) == pytest.approx(-(HOURS * 5.81 + 11) / 10)


def test_machine_kinds_and_gpus_without_a_node(priced: Priced) -> None:
    check_scene(priced.charges("named"), scene(NAMED, str)[1])
    charges = priced.charges("EKS Auto Mode's fee adds to its machine's price, not to its hours")
    fees = [charge for charge in charges if charge["kind"] == "node_fee"]
    assert [(fee["instance_type"], fee["instance_hours"]) for fee in fees] == [("p4d.24xlarge", None)] * 2
    assert priced.answer(HYPERPOD, "nodes") == [(priced.own(HYPERPOD, "i-0aaa"), 1)]

    def pools(name: str, column: int) -> list[Any]:
        """Of the case's hours: the capacity type, whether their cost is unexplained, or the pool."""
        end = priced.own(name, "i-0aaa").removeprefix("i-0aaa")
        return [row[column] for row in priced.answer(name, "pools") if row[0][6:] == end]

    assert pools("only instance usage counts as billed hours", 1) == ["reserved"]
    assert pools("a discount on a capacity block's fee is spread over its hours", 1) == ["capacity_block"] * 2
    assert pools("a discount on a fee alone leaves the hours without a price", 2) == [True]
    assert len(set(pools("each reservation and each block has its own shared price", 3))) == 2
