"""Node prices from a bill: which rows count, for which nodes and hours."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from gpucost.config.model import Discount
from gpucost.errors import PriceError
from gpucost.periods import MS_PER_HOUR
from tests.bill_table import change_bill_rows
from tests.text_tables import text_rows, titled, words
from tests.unit.billed import bill
from tests.unit.price_nodes import NODE, START, Segment, empty_store, run

OTHER = NODE | {"node_id": 2, "node": "n2", "machine_id": "aws:///us-east-1b/i-0def"}
BOTH = (NODE, OTHER)
BOOK = [",,,,on_demand,7,USD,", ",,,,spot,2,USD,"]
VM = "azure:///subscriptions/S-1/resourceGroups/MC_ml/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-vmss/virtualMachines/{}"
VM_KEY = VM.removeprefix("azure://")
SET_KEY = VM_KEY.removesuffix("/virtualMachines/{}")
WHOLE_SET = f"bill provider=azure; key={SET_KEY} length=24 type=standard_nc24ads hours=30 cost=90;"
SET_NODES = (
    NODE | {"machine_id": VM.format(0)},
    OTHER | {"machine_id": VM.format(1), "up_to_ms": START + 6 * MS_PER_HOUR},
)
FIX = "correction=Correction pricing=- reservation=-"
POOL = "cost=4 pricing=Committed cause=covered_usage; key=i-0def; key=i-unseen hours=0.5 cost=1"
RATES = {"fx": {"EUR": Decimal("1.5")}}
Row = dict[str, Any]


def node_of(*hours: float) -> Row:
    """A node that is up between two hours."""
    edges = (START + int(hour * MS_PER_HOUR) for hour in hours)
    return NODE | dict(zip(("up_from_ms", "up_to_ms"), edges, strict=True))


@dataclass(frozen=True)
class Case:
    """The rows of a bill and the resulting prices of each node.

    A row lists its differences from ROW ("-" is null; "hour=0,1" is a row for each hour). "bill" starts another bill with the
    given options. A price is a node, its first and last hour, and dollars.
    """

    charges: str
    priced: str
    nodes: tuple[Row, ...] = (NODE,)
    sharing: str = "pooled"

    @property
    def bills(self) -> Iterator[tuple[Row, list[Row]]]:
        for part in ("; " + self.charges).split("; bill"):
            options, *lines = part.split(";")
            rows = []
            for line in filter(str.strip, lines):
                row: Row = {name: None if value == "-" else value for name, value in words(line).items()}
                numbers = {name: float(row[name]) for name in ("length", "hours") if row.get(name)}
                rows += [row | numbers | {"hour": float(hour)} for hour in row.get("hour", "0").split(",")]
            if rows:
                yield words(options), rows

    @property
    def prices(self) -> list[tuple[float, ...]]:
        return [tuple(map(float, price.split())) for price in filter(None, self.priced.split(";"))]


MATCHED = f"""
aws:///us-east-1a/i-0ABC | i-0abc
aws:///us-east-1a/i-0abc | I-0abc
gce://my-project/us-central1-a/GKE-pool-1 | my-project/us-central1-a/gke-pool-1
{VM.format(3)} | {VM_KEY.format(3)}
{VM.format(3)} | {VM_KEY.format(3)[1:].upper()}
azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/Gpu-1 | \
/subscriptions/S/resourcegroups/R/providers/microsoft.compute/virtualmachines/gpu-1
nimbus://vm-17 | vm-17
ocid1.instance.oc1.iad.abc | ocid1.instance.oc1.iad.abc
"""
TITLED = titled("""
= only covered hours have a billed price
hour=3,4; hour=5 cost=12
1 3 5 10; 1 5 6 12
= a machine partly covered by a commitment has one price
hours=0.25 cost=1 pricing=Committed cause=covered_usage; hours=0.75 cost=7.5
1 0 1 8.5
= a free row next to others is complete
hour=0; cost=0 hours=-
1 0 1 10
= other charges are not part of the price
hour=0; kind=storage; kind=network; kind=other; kind=credit; kind=tax; kind=split; kind=reserved_unused
1 0 1 10
= the newer load counts if two formats overlap
hour=0,1,2,3,4,5; bill told_as=focus; hour=0,1,2 cost=11
1 0 3 11; 1 3 6 10
= a day of another format
hour=0,1,2; bill told_as=focus-daily; length=24 hours=24 cost=288
1 0 24 12
= parts of one format add up
hour=0; bill; cost=1 hours=-
1 0 1 11
= partly overlapping charges form one period
hour=0,1,2; hour=1 length=2 hours=- cost=4; hour=24 cost=1
1 0 1 10; 1 1 3 12
= a bill in another currency
hour=0,1 currency=EUR
1 0 2 15
= a bill loaded by an earlier version
bill period=2020-01; hour=1; bill period=2020-02 provider=gcp; hour=1 cost=0 kind=tax
1 1 2 10""")
CASES = {name: Case(charges, priced) for name, text in TITLED.items() for charges, priced in [text.splitlines()]} | {
    "half an hour has the full hourly price": Case(
        "hours=0.5 cost=5; hour=1; hour=2 hours=0.5 cost=5", "1 0.5 2.5 10", (node_of(0.5, 2.5),)
    ),
    "parts without hours are part of the price": Case(
        "bill provider=gcp" + "".join(f"; key=proj/us-central1-a/gke-1 type=a2-highgpu-1g cost={part}"
                                      for part in ("1", "0.5 hours=-", "2 hours=-")),
        "1 0 1 3.5", (NODE | words("machine_id=gce://Proj/us-central1-a/gke-1 provider=gcp"),),
    ),
    **{
        f"machines are matched by provider id in any case: {key}": Case(
            f"key={key}; key={key}4 cost=99 type=p5.48xlarge", "1 0 1 10", (NODE | {"machine_id": machine},)
        )
        for machine, key in text_rows(MATCHED)
    },
    "another project or number is another machine": Case(
        f"key=p2/us-central1-a/gke-1; key={VM_KEY.format(33)}", "",
        (NODE | {"machine_id": "gce://p1/us-central1-a/gke-1"}, OTHER | {"machine_id": VM.format(3)},
         NODE | {"node_id": 3, "node": "n3", "machine_id": None}),
    ),
    "a scale set spreads its cost": Case(WHOLE_SET, "1 0 24 3; 2 0 6 3", SET_NODES),
    "a node's own row takes precedence over its scale set": Case(
        f"{WHOLE_SET} bill provider=azure told_as=azure-cost; key={VM_KEY.format(1)} length=24 hours=6 cost=30",
        "1 0 24 3; 2 0 6 5", SET_NODES, "as_billed",
    ),
    "a day is spread over the hours that it bills": Case(
        "length=24 hours=6 cost=60; hour=24 length=24 hours=6 cost=66", "1 18 24 10; 1 24 30 11", (node_of(18, 30),)
    ),
    **{
        f"a bill without hours covers the uptime of its node: {none}": Case(
            f"length=24 hours={none} cost=60; key=i-unseen length=24 hours={none} cost=48",
            "1 18 24 10", (node_of(18, 24),), "as_billed",
        )
        for none in "-0"
    },
    "machines of the same kind share commitments": Case(POOL, "1 0 1 6; 2 0 1 6", BOTH),
    "as_billed keeps the cost of each machine": Case(POOL, "1 0 1 4; 2 0 1 10", BOTH, "as_billed"),
    **{
        f"only machines of the same kind share: {other}": Case(f"cost=4; key=i-0def {other}", "1 0 1 4; 2 0 1 10", BOTH)
        for other in ("account=1", "region=us-east-2", "type=p4de.24xlarge", "pricing=Dynamic", "reservation=cr-1")
    },
    # billed as on-demand but labeled spot: the node keeps its own price and shares with no other machine
    "a spot node does not share prices with other machines": Case(
        "cost=10; key=i-0def hour=1 pricing=Dynamic cost=3; hour=5; hour=5 key=i-0def cost=4",
        "1 0 1 10; 1 5 6 10; 2 1 2 3; 2 5 6 4", (NODE, OTHER | {"capacity_type": "spot"}),
    ),
    **{
        f"the bill settles an unknown capacity type: {settled}, {row}": Case(
            row, "1 0 1 10", tuple(node | {"capacity_type": "unknown"} for node in BOTH)
        )
        for row, settled in (("pricing=Dynamic", "spot"), ("reservation=cr-1", "reserved"), ("cost=10", "on_demand"),
                             ("pricing=Committed", "on_demand"))
    },
    # nor does it lower the price of other machines
    **{
        f"a zero without a named cause is not a price: {cause}": Case(
            f"hour=0,1 cost=0 cause={cause} type=zero:{cause}; key=i-0def type=zero:{cause}", "2 0 1 10", BOTH
        )
        for cause in ("zero_unexplained", "same", "reservation_cost_missing", "commitment_cost_missing", "dedicated_host")
    },
    **{
        f"an hour with a row without cost has no price: {cause}": Case(
            f"cost={cost} cause={cause} type=lack:{cause}; cost=2 hours=- type=lack:{cause}; hour=1 type=lack:{cause}",
            "1 1 2 10",
        )
        for cost, cause in (("0", "zero_unexplained"), ("0", "reservation_cost_missing"), ("0.5", "fee_missing"))
    },
    **{
        f"a zero with a named cause is a price: {cause}": Case(f"hour=0,1 cost=0 cause={cause}", "1 0 2 0")
        for cause in ("free_tier", "promotion")
    },
    # a lower price, in rows with and without hours
    "a later billing period corrects an hour": Case(
        f"bill period=2026-09; hour=0,1; bill; {FIX} cost=-2 hours=0; {FIX} cost=-2 hour=1 hours=1", "1 0 2 8"
    ),
    "a correction may refund an hour and charge it anew": Case(
        f"bill period=2026-09; hour=0; bill; {FIX} cost=-10 hours=-1; {FIX} cost=5 hours=0.25", "1 0 1 20"
    ),
    # hours first billed for another machine; refunded hours do not share a price
    "a correction for a machine without rows is its price": Case(
        f"hour=0,1,2; bill period=2026-11; {FIX} hour=2 cost=-10 hours=-1; {FIX} hour=2 key=i-0def",
        "1 0 2 10; 2 2 3 10", (node_of(0, 2), OTHER | {"up_to_ms": START + 6 * MS_PER_HOUR}),
    ),
    "hours billed for another machine are moved within a bill": Case(
        "hour=0,1,2; hour=2 cost=-10 hours=-1; hour=2 key=i-0def", "1 0 2 10; 2 2 3 10", (node_of(0, 2), OTHER)
    ),
    "corrections of a missing bill give no price": Case(f"{FIX} cost=-2; {FIX} hour=1 cost=3", ""),
    "a price is never negative": Case(f"hour=0; {FIX} cost=-12", "1 0 1 0"),
    "a machine with an attached GPU is a GPU machine": Case(
        "bill provider=gcp; key=p/z/n1-gpu type=n1-standard-8; key=p/z/n1-gpu type=n1-standard-8 hours=- cost=3; "
        "key=p/z/n1-plain type=n1-standard-8",
        "", (),
    ),
    # the sum of both; half an hour in each; no price if a part lacks its cost
    **{
        f"a machine billed in two currencies: {priced}, {'reversed' if turn < 0 else 'in order'}": Case(
            ";".join(charges.split(";")[::turn]), priced
        )
        for charges, priced in (
            ("hour=0,1; hour=1 cost=2 currency=EUR hours=-", "1 0 1 10; 1 1 2 13"),
            ("hours=0.5 cost=5; hours=0.5 cost=4 currency=EUR", "1 0 1 11"),
            ("hour=0,1 type=two; cost=0 currency=EUR cause=zero_unexplained type=two", "1 1 2 10"),
        )
        for turn in (1, -1)
    },
}  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(CASES)}


def own(name: str, text: str) -> str:
    """A machine id that is unique to the case."""
    in_set, found = re.subn(r"vmss(?=/|$)", rf"\g<0>{NUMBERS[name]}", text, flags=re.IGNORECASE)
    return in_set if found else f"{text}-{NUMBERS[name]}"


def number_of(name: str, node: Row) -> int:
    """The number of a node among all cases."""
    return NUMBERS[name] * 10 + int(node["node_id"])


class Priced:
    """All cases in one store, priced with both sharing modes, one of them with a discount."""

    def __init__(self) -> None:
        self.segments: dict[str, dict[int, list[Segment]]] = {}
        self.answers: dict[str, dict[str, list[Any]]] = defaultdict(dict)
        self.nodes: list[Row] = []
        with empty_store() as con:
            for name, case in CASES.items():
                for options, rows in case.bills:
                    shared = {"account": f"{name} 4444"}
                    keys = [{"key": own(name, row.get("key", "i-0abc"))} for row in rows]
                    bill(con, *(shared | row | key for row, key in zip(rows, keys, strict=True)), **options)
                for node in case.nodes:
                    changed = {"node_id": number_of(name, node), "node": f"{node['node']} {name}"}
                    changed["machine_id"] = node["machine_id"] and own(name, node["machine_id"])
                    self.nodes.append(node | changed)
            change_bill_rows(con, "UPDATE bill_rows SET sku_description = 'Nvidia Tesla T4 GPU running in Americas' "
                        "WHERE instance_key LIKE 'p/z/n1-gpu%' AND source_row = 1")  # fmt: skip
            con.execute("UPDATE bills SET load_bills = NULL WHERE billing_period < '2026'")
            con.execute(
                "INSERT INTO warnings BY NAME SELECT 'unknown_capacity_type' AS code, 'prod' AS cluster, unnest($1) AS subject, "
                "$2 AS from_ms, '' AS message",
                [[node["node"] for node in self.nodes if node["capacity_type"] == "unknown"], START],
            )
            for sharing, prices in (
                ("pooled", {}),
                ("as_billed", {"discounts": [Discount(percent=Decimal(30))]}),
            ):
                self.segments[sharing] = defaultdict(list)
                for segment in run(con, self.nodes, BOOK, RATES | {"commitment_sharing": sharing} | prices):
                    self.segments[sharing][segment[0]].append(segment)
                for what, sql in {
                    "origins": "SELECT DISTINCT node_id, origin FROM bill_candidates",
                    "warnings": "SELECT code, subject, message, fix FROM warnings ORDER BY ALL",
                    "hours": "SELECT instance_key, sum(instance_hours), sum(effective_cost), "
                             "sum(price_per_hour * instance_hours), max(price_per_hour) FROM billed_hours GROUP BY ALL",
                    "types": "SELECT node, capacity_type FROM nodes",
                }.items():  # fmt: skip
                    self.answers[sharing][what] = con.execute(sql).fetchall()
                con.execute("UPDATE bills SET load_bills = 1")

    def origin(self, name: str) -> set[str]:
        origins = self.answers[CASES[name].sharing]["origins"]
        return {origin for node_id, origin in origins if node_id // 10 == NUMBERS[name]}

    def hours(self, name: str, key: str = "i-0abc") -> tuple[float, ...]:
        key = own(name, key)
        (row,) = [row[1:] for row in self.answers[CASES[name].sharing]["hours"] if row[0] == key]
        return tuple(map(float, row))


@pytest.fixture(scope="module")
def priced() -> Priced:
    return Priced()


@pytest.mark.parametrize("name", CASES)
def test_bill_sets_node_prices(priced: Priced, name: str) -> None:
    case = CASES[name]
    billed = []
    for node in case.nodes:
        segments = priced.segments[case.sharing][number_of(name, node)]
        billed += [
            (node["node_id"], start, end, float(value))
            for _, start, end, value, source, _ in segments
            if source == "bill"
        ]
        # all other hours are priced as without a bill
        assert {source for *_, source, _ in segments} <= {"bill", "price_book"}
        up = (node["up_to_ms"] - node["up_from_ms"]) / MS_PER_HOUR
        assert sum(end - start for _, start, end, *_ in segments) == up
    assert billed == case.prices


def test_segments_name_their_price_source(priced: Priced) -> None:
    segments = priced.segments["pooled"][number_of("only covered hours have a billed price", NODE)]
    assert [f"{float(price):g} {source} {day}" for *_, price, source, day in segments] == [
        "7 price_book None", "10 bill 2026-10-01", "12 bill 2026-10-01", "7 price_book None"
    ]  # fmt: skip
    for name, origin in {
        "a scale set spreads its cost": "azure, 2026-10, the scale set's cost spread over its nodes, spread over the day",
        "a day is spread over the hours that it bills": "aws, 2026-10, spread over the day",
        "machines of the same kind share commitments": "aws, 2026-10, shared with machines of its kind",
    }.items():
        assert priced.origin(name) == {f"bill of {origin}"}


def test_billed_hours_and_costs_of_machines(priced: Priced) -> None:
    for none in "-0":
        name = f"a bill without hours covers the uptime of its node: {none}"
        assert priced.hours(name, "i-unseen")[::3] == (24, 2)
    assert priced.hours("a later billing period corrects an hour")[:2] == (2, 16)
    machines = ("i-0abc", "i-0def", "i-unseen")
    pool = [priced.hours("machines of the same kind share commitments", key) for key in machines]
    assert sum(row[1] for row in pool) == sum(row[2] for row in pool) == 15
    gpus = "a machine with an attached GPU is a GPU machine"
    assert priced.hours(gpus, "p/z/n1-gpu")[1] == 13
    assert own(gpus, "p/z/n1-plain") not in {row[0] for row in priced.answers["pooled"]["hours"]}


def test_bill_settles_capacity_types_and_warns_about_zeros(priced: Priced) -> None:
    types = dict(priced.answers["pooled"]["types"])
    unknown = [name for name in CASES if name.startswith("the bill settles")]
    for name in unknown:
        assert (types[f"n1 {name}"], types[f"n2 {name}"]) == (name.split(": ")[1].split(",")[0], "unknown")
    assert types["n2 a spot node does not share prices with other machines"] == "spot"
    warnings = priced.answers["pooled"]["warnings"]
    settled = [subject for code, subject, *_ in warnings if code == "unknown_capacity_type"]
    assert settled == sorted(f"n2 {name}" for name in unknown)
    charges = ";".join(case.charges for case in CASES.values())
    zeros = {subject: texts for code, subject, *texts in warnings if code == "unexplained_zero"}
    assert zeros.keys() == set(re.findall(r"type=(zero:\w+|lack:\w+|two)", charges))
    for subject, (message, fix) in zeros.items():
        how_long = "1.0" if subject.startswith("lack") else "2.0"
        assert f"{how_long} hours of {subject} without their cost, or a part of it" in message
        assert subject.split(":")[-1] in fix or subject in ("zero:same", "two")
    [(_, message, fix)] = [texts for code, *texts in warnings if code == "old_bill"]
    assert message.startswith("the bill of aws, 2020-01, was loaded by an earlier gpucost: ")
    assert fix == "gpucost collect aws PATH"
    assert "old_bill" not in {code for code, *_ in priced.answers["as_billed"]["warnings"]}


def test_missing_exchange_rate_is_an_error_and_a_deleted_bill_has_no_prices() -> None:
    with empty_store() as con:
        number = bill(con, {}, {"cost": "2", "currency": "CHF", "hours": None})
        with pytest.raises(PriceError, match=r"node n1 .*CHF.*bill of aws, 2026-10"):
            run(con, [NODE], BOOK, RATES)
        # a machine that is not a node needs no rate
        assert {s[4] for s in run(con, [OTHER], BOOK)} == {"price_book"}
        change_bill_rows(con, "DELETE FROM bill_rows WHERE bill_id = $1", [number])
        con.execute("DELETE FROM bills WHERE bill_id = $1", [number])
        assert {s[4] for s in run(con, [NODE], BOOK)} == {"price_book"}
        bill(con, {"cost": "9"})
        assert run(con, [NODE], BOOK)[0][3:5] == (Decimal(9), "bill")
