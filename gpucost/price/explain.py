"""The price of a node at a moment, with all other matching prices.

Shows the effect of rates and discounts on the winner.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING

from gpucost.engine import answer_rows, dicts
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import from_ms, iso, to_ms
from gpucost.price import price_nodes
from gpucost.records import frozen_dataclass, grouped
from gpucost.shapes import Shape
from gpucost.store.sqlfiles import column
from gpucost.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

SOURCES = {
    "bill": "the bill",
    "price_book": "the price book",
    "final_price_book": "the price book",
    "spot_history": "spot price history",
    "catalog": "list prices",
}

_SPOT = {
    103: "its own charges",
    102: "its own zone",
    101: "its region",
    100: "the median of its region's zones",
}
_PLACES = (
    5  # ranks per fit of the purchase option: a list price with a better fit has a rank that much higher
)
_OPTION_FIRST = "purchase option comes first for such nodes"
_LIST = {
    4: "its own zone",
    3: "its own zone",
    2: "its region",
    1: "the median of its region's zones",
    0: "any region",
}
# Bits of a price book row's specificity, the heaviest first; the lower bits rank the fit of its purchase
# option.
_FIELDS = (
    (64, "an instance type"),
    (32, "a zone"),
    (16, "a region"),
    (8, "a provider"),
    (4, "a purchase option"),
)
_SELECTOR = 128
_BOOK_RANK = 1_000_000


def _why(winner: tuple[str, int], loser: tuple[str, int], *, won: bool) -> str:
    """Explain why the first of two candidates wins, or why the second loses (not `won`).

    Candidates are (source, rank).
    """
    (source, rank), (other, other_rank) = winner, loser
    by_option = f"wins: its {_OPTION_FIRST}" if won else f"the winner's {_OPTION_FIRST}"
    first, second = SOURCES[source], SOURCES[other]
    if first != second:
        pass
    elif source.endswith("price_book"):
        if more := _difference(rank, other_rank):
            return f"wins: more specific, {more}" if won else f"less specific: the winner {more}"
        return by_option
    elif source == "spot_history":
        first, second = _SPOT[rank], _SPOT[other_rank]
    elif rank // _PLACES != other_rank // _PLACES:
        return by_option
    else:
        first, second = _LIST[rank % _PLACES], _LIST[other_rank % _PLACES]
    return f"wins: {first} comes before {second}" if won else f"{first} comes first"


def _difference(more: int, less: int) -> str | None:
    """The field that only the more specific price book row has; None if equal."""
    more, less = more - _BOOK_RANK, less - _BOOK_RANK
    labels, others = more // _SELECTOR, less // _SELECTOR
    if labels != others:
        return f"selects {labels} node {'label' if labels == 1 else 'labels'}, not {others}"
    return next((f"names {words}" for bit, words in _FIELDS if (more ^ less) & bit), None)


@frozen_dataclass
class PricedNode:
    """A node's life and the facts that determine its price."""

    node_id: int
    cluster: str
    node: str
    up_from: datetime
    up_to: datetime
    provider: str | None
    region: str | None
    zone: str | None
    instance_type: str | None
    capacity_type: str
    gpu_model: str | None
    gpu_count: float


@frozen_dataclass
class PriceCandidate:
    """A price that fits a node at a moment, per hour of the whole node, before rates and discounts."""

    price_per_hour: Decimal
    currency: str
    price_source: str
    price_as_of: date | None
    origin: str
    holds_from: datetime
    holds_to: datetime
    wins: bool
    why: str


@frozen_dataclass
class Step:
    """One change of the winner's price, and the price after it.

    `factor` is a rate, or the remainder after a discount.
    """

    step: str
    detail: str
    factor: Decimal
    price_per_hour: Decimal


@frozen_dataclass
class NodeExplained(Shape):
    """The answer of `gpucost explain node`: the winner's price, and all matching prices."""

    node: PricedNode
    at: datetime
    currency: str
    price_per_hour: Decimal | None
    price_per_gpu_hour: Decimal | None
    price_source: str
    price_as_of: date | None
    candidates: tuple[PriceCandidate, ...]
    steps: tuple[Step, ...]
    fix: str | None

    FLAT = ("node",)
    HIDDEN = ("node_id",)


def explain_node(
    con: DuckDBPyConnection, config: Config, name: str, at: datetime | None, cluster: str | None
) -> NodeExplained:
    """Explain the price of a node at a moment (None: its last one); `con` may be read-only.

    Prices are in the report's currency. Without a price they are null, and `fix` names the remedy.

    Raises UsageError for a name without a node, or in more than one cluster, GpucostError for a moment at
    which the node was not up, and PriceError as pricing does.
    """
    node = _node(con, name, at, cluster)
    at_ms = to_ms(at) if at else to_ms(node.up_to) - 1
    price_nodes(con, config, node.node_id)
    con.execute(
        "SELECT price_per_hour, currency, price_source, price_as_of, origin, from_ms, to_ms, rank FROM price_candidates "
        "WHERE from_ms <= $at AND $at < to_ms ORDER BY rank DESC",
        {"at": at_ms},
    )
    rows = dicts(con)
    ranks = [(row["price_source"], row.pop("rank")) for row in rows]
    candidates = []
    for place, row in enumerate(rows):
        why = "the only price that fits"
        if len(rows) > 1:
            why = _why(ranks[0], ranks[place or 1], won=not place)
        holds_from, holds_to = from_ms(row.pop("from_ms")), from_ms(row.pop("to_ms"))
        candidates.append(
            PriceCandidate(**row, holds_from=holds_from, holds_to=holds_to, wins=not place, why=why)
        )
    steps, price = _steps(con, config, node.node_id, at_ms)
    fix = None if steps else _fix(con, node, at_ms)
    per_gpu = None if price is None else price / Decimal(repr(node.gpu_count))
    source = (candidates[0].price_source, candidates[0].price_as_of) if candidates else ("none", None)
    at, prices = from_ms(at_ms), (price, per_gpu, *source)
    return NodeExplained(node, at, config.currency, *prices, tuple(candidates), steps, fix)


def shown_price(price: Decimal) -> str:
    """A price per hour for display: at most six decimals."""
    return f"{round(price, 6).normalize():f}"


def shown_rows(named: Sequence[str], count: int) -> str:
    """A short list of the bill rows in `named` (path:row), of `count` in all: `cur.csv:12, 57 and 8 more`."""
    parts = (name.rpartition(":") for name in named)
    files = grouped((path, row) for path, _, row in parts)
    texts = [f"{PurePath(path).name}:{', '.join(numbers)}" for path, numbers in files.items()]
    return "; ".join(texts) + (f" and {count - len(named):,} more" if count > len(named) else "")


def _steps(
    con: DuckDBPyConnection, config: Config, node_id: int, at_ms: int
) -> tuple[tuple[Step, ...], Decimal | None]:
    segment = con.execute(
        "SELECT price_per_hour, price_source, origin, listed_per_hour, currency, rate, coalesce(discounts, []) "
        "FROM price_segments WHERE from_ms <= $at AND $at < to_ms",
        {"at": at_ms},
    ).fetchone()
    if segment is None:
        return (), None
    final, source, origin, price, currency, rate, numbers = segment
    steps = [Step("price", f"{origin}, in {currency}", Decimal(1), price)]
    moment = {"node_id": node_id, "at_ms": at_ms}
    for row in answer_rows(con, "gpucost.price.bill", "70_discount_step", moment) if source == "bill" else ():
        gross = row["gross_per_hour"]
        before = f"{origin.replace(', less discounts', '')}, before discounts, in {currency}"
        less = f"{shown_price(gross)} less {shown_price(-row['per_hour'])} {currency}"
        detail = f"{less} by discounts of the bill, {shown_rows(row['first_rows'], row['rows'])}"
        factor = round(price / gross, 9) if gross else Decimal(0)
        steps = [Step("price", before, Decimal(1), gross), Step("bill discount", detail, factor, price)]
    if currency != config.currency:
        day = from_ms(at_ms).astimezone(config.tz).date()
        price = price * rate
        steps.append(Step("rate", f"1 {currency} in {config.currency} on {day}", rate, price))
    for number in numbers:
        discount = config.prices.discounts[number - 1]
        factor = 1 - discount.percent / 100
        price = price * factor
        conditions = discount.model_dump(exclude={"percent", "price_sources"}, exclude_none=True)
        nodes = ", ".join(f"{key} = {value}" for key, value in conditions.items()) or "all nodes"
        steps.append(
            Step(
                "discount",
                f"{discount.percent:f} % off, [[prices.discounts]] {number}: {nodes}",
                factor,
                price,
            )
        )
    return tuple(steps), final


def _fix(con: DuckDBPyConnection, node: PricedNode, at_ms: int) -> str | None:
    row = con.execute(
        "SELECT fix FROM warnings WHERE code = 'unpriced_node' AND subject = coalesce($type, $model, 'unnamed type') "
        "AND from_ms <= $at AND $at < to_ms AND coalesce(cluster = $cluster, true) ORDER BY ALL LIMIT 1",
        {"type": node.instance_type, "model": node.gpu_model, "at": at_ms, "cluster": node.cluster},
    ).fetchone()
    return row[0] if row else None


def _node(con: DuckDBPyConnection, name: str, at: datetime | None, cluster: str | None) -> PricedNode:
    con.execute(
        "SELECT node_id, cluster, node, up_from_ms, up_to_ms, provider, region, zone, instance_type, capacity_type, gpu_model, "
        "gpu_count FROM nodes WHERE node = $node AND coalesce(cluster = $cluster, true) ORDER BY up_from_ms, cluster",
        {"node": name, "cluster": cluster},
    )
    lives = [
        PricedNode(up_from=from_ms(row.pop("up_from_ms")), up_to=from_ms(row.pop("up_to_ms")), **row)
        for row in dicts(con)
    ]
    if not lives:
        raise _unknown(con, name, cluster)
    fitting = [life for life in lives if life.up_from <= at < life.up_to] if at else lives
    if at and not fitting:
        spans = "; ".join(f"{iso(life.up_from)} .. {iso(life.up_to)}" for life in lives[-3:])
        raise GpucostError(f"node {name} was not up at {iso(at)}", f"set --at to a time within {spans}")
    clusters = sorted({life.cluster for life in fitting})
    if len(clusters) > 1:
        raise UsageError(
            f"node {name} is in {len(clusters)} clusters: {', '.join(clusters)}",
            f"add --cluster {clusters[0]}",
        )
    return max(fitting, key=lambda life: life.up_to)


def _unknown(con: DuckDBPyConnection, name: str, cluster: str | None) -> GpucostError:
    names = column(con, "SELECT DISTINCT node FROM nodes ORDER BY ALL")
    if not names:
        return GpucostError("no node with GPUs was collected yet", "gpucost collect prometheus")
    where = f" in cluster {cluster}" if cluster else ""
    if name in names:
        clusters = column(con, "SELECT DISTINCT cluster FROM nodes WHERE node = $1 ORDER BY 1", [name])
        return UsageError(f"node not found: {name}{where}", f"it is in {', '.join(clusters)}")
    near = did_you_mean(name, names, f"did you mean {' or '.join(names[:3])}?", most=3, cutoff=0.5)
    return UsageError(f"node with GPUs not found: {name}{where}", near)
