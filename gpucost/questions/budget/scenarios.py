"""The monthly cost of the fleet at several sizes, bought each way: node-hours of its instance types × known prices."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from operator import mul
from typing import Any

from gpucost.config.model import Config
from gpucost.engine import answer_rows
from gpucost.errors import GpucostError
from gpucost.periods import local_midnight, to_ms
from gpucost.price.book import load_book
from gpucost.price.discounts import discounted
from gpucost.price.fx import rates
from gpucost.price.listing import ListedPrice, PriceQuery, listing, price_of_region, source_of
from gpucost.questions.report.rows import MICRO, ZERO
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped
from gpucost.shapes import Shape
from gpucost.whatif.answer import Assumption, priced
from gpucost.whatif.flags import HOURS_PER_MONTH, HOURS_PER_YEAR
from gpucost.whatif.fleet import Price

# Days of the mix of instance types, and their minimum.
MIX_DAYS, LEAST_DAYS = 28, 7
# Ways to buy, with the years of a commitment.
WAYS = {"as_now": 0, "on_demand": 0, "spot": 0, "commitment_1_year": 1, "commitment_3_years": 3}
_COMMITMENTS = ("reserved", "savings_plan", "cud")
# Terms in order of the upfront payment; the first available is used, then the cheapest.
_PAYMENTS = (None, "no_upfront", "monthly", "partial_upfront", "all_upfront")
_SIZES = (("+50 %", Decimal("1.5")), ("x10", Decimal(10)))
Row = Mapping[str, Any]


@frozen_dataclass
class ScenarioRow(Shape):
    """The cost of the fleet in a month of 730 hours at `factor` times its size, all of it bought one way.

    `monthly_cost` is None if a price of the instance types in `missing` is unknown. A commitment is as large as the busiest
    moment; `obligation` is the sum owed for it over its term.
    """

    scenario: str
    factor: float
    way: str
    monthly_cost: Decimal | None
    obligation: Decimal | None
    missing: tuple[str, ...]


@frozen_dataclass
class Use:
    """Nodes of an instance type in a place: their mean and maximum number, and their prices by way to buy."""

    name: str
    nodes: Decimal
    most_nodes: int
    prices: Mapping[str, Price]


def last_days(complete: Sequence[date]) -> tuple[date, ...]:
    """The days of the mix; none if fewer than a week are complete."""
    return tuple(complete[-MIX_DAYS:]) if len(complete) >= LEAST_DAYS else ()


def read_uses(con: DuckDBPyConnection, config: Config, days: Sequence[date], now: datetime) -> list[Use]:
    """The nodes of these local days, of an attributed store, longest running first. Raises PriceError."""
    starts = [to_ms(local_midnight(day, config.tz)) for day in days]
    ends = [to_ms(local_midnight(day + timedelta(days=1), config.tz)) for day in days]
    rows = answer_rows(con, __package__ or "", "mix", {"from_ms": starts, "to_ms": ends})
    load_book(con, config, rates(config))
    uses = []
    for row in rows:
        words = filter(None, (row["instance_type"], row["provider"], row["region"]))
        nodes = Decimal(row["node_ms"]) / (sum(ends) - sum(starts))
        uses.append(Use(" ".join(words), nodes, row["most_nodes"], _prices(con, config, row, now)))
    return uses


def _prices(con: DuckDBPyConnection, config: Config, row: Row, now: datetime) -> dict[str, Price]:
    """The known price per node-hour of each way to buy: from own nodes, the price book or the list.

    Machines without an instance type are own machines: they cost the same in every way.
    """
    found = {"as_now": _owned(row, "priced") if row["priced_ms"] == row["node_ms"] else None}
    if row["is_own"]:
        price = found["as_now"]
        own_price = replace(price, source="own machines, at their price in every way") if price else None
        found = dict.fromkeys(WAYS, own_price)
    else:
        prices = _list_prices(con, config, row, now)
        for way in ("on_demand", "spot"):
            found[way] = _owned(row, way) or _of_book(con, config, row, now, way) or _cheapest(prices, (way,))
        found["commitment_1_year"] = _cheapest(prices, _COMMITMENTS, 1)
        found["commitment_3_years"] = _cheapest(prices, _COMMITMENTS, 3)
    return {way: price for way, price in found.items() if price}


def _owned(row: Row, what: str) -> Price | None:
    """The mean price of own nodes."""
    if not row[what]:
        return None
    as_of, source = row.get(f"{what}_as_of"), row.get(f"{what}_source") or "all sources"
    return Price(row[what] / row[f"{what}_ms"], f"own nodes: {source}", as_of and f"{as_of}")


_BOOK = """
SELECT line, price_per_hour * CASE WHEN per_gpu THEN $gpus::DECIMAL(12, 6) ELSE 1 END, currency, price_as_of
FROM price_book
WHERE coalesce(lower(provider) = lower($provider), true) AND coalesce(lower(region) = lower($region), true) AND zone IS NULL
    AND coalesce(lower(instance_type) = lower($instance_type), true) AND len(selector_labels) = 0
    AND coalesce(purchase_option = $option, true)
    AND coalesce(start_ms, 0) <= $now_ms
ORDER BY specificity DESC, purchase_option IS NULL, start_ms DESC NULLS LAST, line
LIMIT 1"""


def _of_book(con: DuckDBPyConnection, config: Config, row: Row, now: datetime, option: str) -> Price | None:
    """The price book's row for nodes of this type in this region; rows with a zone or a node selector are for some of them."""
    place = {name: row[name] for name in ("provider", "region", "instance_type", "gpus")}
    found = con.execute(_BOOK, place | {"option": option, "now_ms": to_ms(now)}).fetchone()
    line, price, currency, as_of = found or (None, None, config.currency, None)
    rate = rates(config).rate(currency, now.astimezone(config.tz).date())
    if price is None or rate is None:
        return None
    return Price((price * rate).quantize(MICRO), f"price book line {line}", as_of and f"{as_of}")


def _list_prices(con: DuckDBPyConnection, config: Config, row: Row, now: datetime) -> list[ListedPrice]:
    """List prices of the type in its region, less discounts."""
    place = {"providers": row["provider"], "regions": row["region"]}
    which = {name: (value,) for name, value in place.items() if value}
    query = PriceQuery.of(config, now, **which)
    try:
        rows = listing(con, row["instance_type"], query).rows
    except GpucostError:
        return []
    return discounted(con, config, rows, now)


def _cheapest(
    prices: Sequence[ListedPrice], options: Sequence[str], years: int | None = None
) -> Price | None:
    """The price with the smallest upfront payment, then the cheapest."""
    terms = grouped(
        ((price.payment_option, price.purchase_option, price.offering, price.region), price)
        for price in prices
        if price.purchase_option in options
        and price.term_years == years
        and price.payment_option in _PAYMENTS
    )
    price = min(
        map(price_of_region, terms.values()),
        key=lambda price: (_PAYMENTS.index(price.payment_option), price.price_per_hour),
        default=None,
    )
    if price is None:
        return None
    source, as_of = source_of(price)
    words = filter(None, (price.purchase_option, price.payment_option, price.offering))
    text = f"{source}, {' '.join(words).replace('_', ' ')}"
    return Price(price.price_per_hour.quantize(MICRO), text, as_of)


def grown(percent: float, months: int, until: str) -> tuple[str, Decimal]:
    """The size after this number of months of growth, with a name."""
    return f"{percent:+g} % a month, {until}", (1 + Decimal(repr(percent)) / 100) ** months


def scenarios(uses: Sequence[Use], growth: tuple[str, Decimal] | None) -> list[ScenarioRow]:
    """The cost of the fleet today, with growth, at 1.5 times and at 10 times its size, bought each way."""
    sizes = [("today", Decimal(1)), *([growth] if growth else []), *_SIZES]
    rows = []
    for name, factor in sizes:
        for way, years in WAYS.items():
            missing = tuple(use.name for use in uses if way not in use.prices)
            cost = owed = None
            if not missing:
                nodes = [_whole(use.most_nodes * factor) if years else use.nodes * factor for use in uses]
                prices = [use.prices[way].per_node_hour for use in uses]
                per_hour = sum(map(mul, prices, nodes), ZERO)
                cost = (per_hour * HOURS_PER_MONTH).quantize(MICRO)
                owed = (per_hour * HOURS_PER_YEAR * years).quantize(MICRO) if years else None
            rows.append(ScenarioRow(name, float(factor), way, cost, owed, missing))
    return rows


def _whole(nodes: Decimal) -> Decimal:
    return nodes.to_integral_value(ROUND_CEILING)


def assumptions(uses: Sequence[Use], days: Sequence[date], growth: float | None) -> list[Assumption]:
    """The assumptions of the scenarios, with their sources; an unknown price is `missing`."""
    span = f"{days[0]} to {days[-1]}"
    found = [
        Assumption("mix of instance types", len(days), "days collected in full", "store", span),
        Assumption("month", HOURS_PER_MONTH, "hours", "a year of 8,760 / 12"),
        Assumption("commitments", "paid in every hour", "for the nodes of the busiest moment", "rule"),
        Assumption("interruptions of spot", "not counted", "gpucost whatif spot", "rule"),
    ]
    if growth is not None:
        found.append(Assumption("growth", growth, "% a month", "option"))
    for use in uses:
        nodes = f"on average, at most {use.most_nodes}"
        found.append(Assumption(f"{use.name}: nodes", round(float(use.nodes), 3), nodes, "store", span))
        for way in WAYS:
            price, label = use.prices.get(way), f"{use.name}: {way.replace('_', ' ')}"
            missing = Assumption(label, "missing", "a node-hour", "no source")
            found.append(priced(label, price, "a node-hour") if price else missing)
    return found
