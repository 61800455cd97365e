"""The cost of nodes under another purchase option, by the same rules as existing nodes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import pytest

from gpucost.config.model import Config, Discount, Prices
from gpucost.periods import MS_PER_HOUR, Period, from_ms, to_ms
from gpucost.whatif.fleet import Node
from gpucost.whatif.spot.interruptions import Place
from gpucost.whatif.spot.market import Market, read_market, read_price
from tests.text_tables import table, words
from tests.unit.price_nodes import HEADER, NODE, START, empty_store, told_steps

NODES = f"INSERT INTO nodes ({', '.join(NODE)}) VALUES ({', '.join('$' + name for name in NODE)})"  # noqa: S608
DAY = Period(from_ms(START), from_ms(START + 24 * MS_PER_HOUR))
Stored = tuple[duckdb.DuckDBPyConnection, Config]
HISTORY = """INSERT INTO spot_prices
VALUES ('aws', 'us-east-1', $zone, $type, 'Linux/UNIX', '', $at, NULL, $price, 'USD', 'aws')"""
LISTED = (
    "INSERT INTO list_prices VALUES ('aws', $region, '', $type, $option, 0, '', '', $price, $currency, NULL, "
    "'2026-09-01', 'aws pricing get_products')"
)
TYPE = """INSERT INTO instance_types BY NAME SELECT 'aws' AS provider, $1 AS instance_type, 'A100-SXM4-40GB' AS gpu_model,
    8 AS gpu_count, '2026-09-01'::DATE AS seen_on, 'a test' AS source"""
OWN = """INSERT INTO node_prices BY NAME SELECT node_id, up_from_ms AS from_ms, up_to_ms AS to_ms, $price AS price_per_hour,
    'bill' AS price_source FROM nodes WHERE node = $node"""
# the node of the first case, as bought today
BILL = f"""INSERT INTO billed_nodes VALUES ('aws/i-1', 1, false);
INSERT INTO billed_hours BY NAME SELECT 1 AS bill_id, 'aws/i-1' AS instance_key, 'aws' AS provider, '2026-10' AS billing_period,
    'on_demand' AS capacity_type, {START} AS from_ms, {START} + 86400000 AS to_ms, 24 AS instance_hours, 240 AS effective_cost,
    'USD' AS currency, false AS is_unexplained, 1 AS rate, 10 AS price_per_hour"""  # noqa: S608
# The price book's option, price and selector; price changes by zone and hour; the list's price, option and currency; the cost
# of own nodes by capacity type. Cases with "a discount" have one of 10 %.
CASES = """
    case                          | known                                                       | prices
    only a bill of today          |                                                             |
    a part without a price        | history="a 1 5"                                             |
    the list price                | listed="3 spot"                                             | 3
    the list until history begins | history="a 1 5" listed="3 spot"                             | 0 1 3, 1 24 5
    the own zone's history        | history="a -1 5, a 4 9, b 0 1" listed="3 spot"              | 0 4 5, 4 24 9
    the lower median of zones     | history="b -1 1, c -1 2, d 0 4" listed="3 spot"             | 2
    own nodes before the list     | history="a 1 5" listed="3 spot" own="spot 4"                | 0 1 4, 1 24 5
    own nodes on demand are not   | listed="3 spot" own="on_demand 4"                           | 3
    the price book before all     | book="spot,2" history="a -1 5" listed="3 spot" own="spot 4" | 2
    the book on demand does not   | book="on_demand,2" listed="3 spot"                          | 3
    a currency without a rate     | listed="3 spot EUR"                                         |
    a discount of history         | history="a -1 5" listed="3 spot"                            | 4.5
    a discount on demand          | book="on_demand,20" listed="32 on_demand"                   |
    a commitment is not on demand | book="savings_plan,9" listed="32 on_demand"                 |
    rows of the book that tie     | book="spot,2 pool=train; spot,4 team=a" listed="3 spot"     | 3
"""
NAMES = {case["case"]: f"x{number}.large" for number, case in enumerate(table(CASES))}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """A node for each case, with its own instance type and prices."""
    lines = [HEADER]
    with empty_store() as con:
        for number, case in enumerate(table(CASES), 1):
            case |= words(case.get("known", ""))
            kind = NAMES[case["case"]]
            con.execute(TYPE, [kind])
            nodes = [(number, f"n{number}", "on_demand")]
            for row, _, selector in (row.partition(" ") for row in case.get("book", "").split("; ") if row):
                lines.append(f",,,{kind},{row},USD,,,{selector}")
            for zone, hour, price in map(str.split, filter(None, case.get("history", "").split(", "))):
                at = START + int(hour) * MS_PER_HOUR
                con.execute(HISTORY, {"zone": f"us-east-1{zone}", "type": kind, "at": at, "price": price})
            if "listed" in case:
                price, option, *currency = case["listed"].split()
                listed = words(f"region=us-east-1 type={kind} option={option} price={price}")
                con.execute(LISTED, listed | {"currency": (*currency, "USD")[0]})
            if "own" in case:
                nodes.append((100 + number, f"own{number}", case["own"].split()[0]))
            for node_id, name, capacity_type in nodes:
                node = words(f"node={name} instance_type={kind} capacity_type={capacity_type}")
                con.execute(NODES, NODE | node | {"node_id": node_id})
            if "own" in case:
                con.execute(OWN, {"node": f"own{number}", "price": case["own"].split()[1]})
        con.execute(BILL)
        book = tmp_path_factory.mktemp("book") / "prices.csv"
        book.write_text("\n".join(lines))
        discounts = [
            Discount(percent=Decimal(10), instance_family=kind)
            for name, kind in NAMES.items()
            if name.startswith("a discount")
        ]
        yield con, Config(prices=Prices(book=book, discounts=discounts))


@pytest.fixture(scope="module")
def market(store: Stored) -> Market:
    return read_market(*store, DAY)


@pytest.mark.parametrize("case", table(CASES), ids=lambda case: case["case"])
def test_moved_node_has_the_price_of_its_new_purchase_option(market: Market, case: dict[str, str]) -> None:
    kind = NAMES[case["case"]]
    name = f"n{list(NAMES).index(case['case']) + 1}"
    node = Node(name, 8, DAY.start_ms, DAY.end_ms, (), cluster="prod", instance_type=kind)
    moved = market.there(node)
    steps = [
        ((start - START) / MS_PER_HOUR, (end - START) / MS_PER_HOUR, price.per_node_hour)
        for price, start, end in (moved.steps if moved else ())
    ]
    assert steps == told_steps(case.get("prices", ""))


def test_described_node_has_the_current_price(store: Stored) -> None:
    def price(name: str, region: str | None = "us-east-1", option: str = "spot") -> Decimal | None:
        found = read_price(*store, Place(NAMES[name].upper(), "aws", region), 8, option)
        return found and found.per_node_hour

    assert price("the price book before all") == 2
    on_demand = [price(name, option="on_demand") for name in NAMES if name.endswith("on demand")]
    assert on_demand == [18, 32]

    def by_region() -> list[Decimal | None]:
        return [price("the list price", region) for region in ("us-east-1", None, "us-west-2")]

    # a type with prices in one region needs no region
    assert by_region() == [3, 3, None]
    row = words(f"type={NAMES['the list price']} option=spot price=7 currency=USD")
    # prices of other purchase options in other regions do not count
    store[0].execute(LISTED, row | {"region": "us-west-2", "option": "on_demand"})
    assert price("the list price", None) == 3
    store[0].execute(LISTED, row | {"region": "us-west-2"})
    assert by_region() == [3, None, 7]
    history = {"zone": "us-east-1c", "type": row["type"], "price": "5"}
    store[0].execute(HISTORY, history | {"at": to_ms(datetime.now(UTC)) - MS_PER_HOUR})
    assert price("the list price") == 5
