"""Compare the stored rows with the exact bill, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from gpucost.config.model import Config
from gpucost.store.connection import Store
from tests.oracle.exact.bill import Bill, CellKey, Figures, NodeFigures, Rules, exact_bill
from tests.oracle.exact.nodes import Node
from tests.oracle.exact.prices import NANO, Steps, read_book, steps
from tests.oracle.exact.states import HOUR
from tests.replay.fleet import Fleet, period_of
from tests.replay.series import Series

#: Tolerance of GPU-milliseconds for binary fractions: a billionth of a GPU-hour.
NEAR = Fraction(HOUR, 10**9)
_ROWS = """
    SELECT (c.from_ms, c.to_ms, n.cluster, n.node, n.up_from_ms), a.uid, c.team, allocated_gpu_ms, active_gpu_ms, idle_gpu_ms,
        unmeasured_gpu_ms, utilization_gpu_ms, unallocated_gpu_ms, unavailable_gpu_ms, cost, idle_cost, unallocated_cost
    FROM cost_hourly AS c JOIN nodes AS n USING (node_id) LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
    WHERE c.kind IN ('allocated', 'unallocated')
"""
_NODES = """
    SELECT (h.from_ms, h.to_ms, n.cluster, n.node, n.up_from_ms), capacity_gpu_ms, over_allocated_gpu_ms, node_cost
    FROM node_hourly AS h JOIN nodes AS n USING (node_id)
"""
_TIMES = ["allocated", "active", "idle", "unmeasured", "utilization", "unallocated", "unavailable"]
_TIMES_OF_NODES = ("capacity", "over_allocated")
_MONEY = ("cost", "idle_cost", "unallocated_cost")


def check_equal(
    fleet: Fleet,
    series: list[Series],
    config: Config,
    store: Store,
    prices: Callable[[Node], Steps] | None = None,
    slack: Decimal = Decimal(0),
) -> None:
    """Check that every figure of a cell, node and pod equals the exact bill; fail with a line for each of the first differences.

    Prices default to the price book; `slack` is the tolerance of money.
    """
    assert config.prices.book is not None
    rules = Rules(
        prices or partial(steps, read_book(config.prices.book), zone=config.tz),
        fleet["nodes"][0]["cluster"],
        config.tz,
        fleet.get("teams", []),
        tuple(1000 * second for second in period_of(fleet)),
    )
    wrong = list(_differences(exact_bill(series, rules), stored(store), slack))
    assert not wrong, "\n".join([str(config.tz), *wrong[:40]])


def stored(store: Store) -> Bill:
    """Return the stored figures as a bill."""
    bill = Bill()
    with store.read() as con:
        for cell, uid, team, *figures in con.execute(_ROWS).fetchall():
            times = map(Fraction, figures[: len(_TIMES)])
            # a pod whose share of a claim changed has one row per share
            bill.rows[cell, uid] += Figures(team, *times, *figures[len(_TIMES) :])
        for cell, capacity, over, cost in con.execute(_NODES).fetchall():
            bill.nodes[cell] = NodeFigures(Fraction(capacity), Fraction(over), cost)
    return bill


def _differences(exact: Bill, found: Bill, slack: Decimal) -> Iterator[str]:
    for cell in sorted({*exact.nodes, *found.nodes}):
        pair = exact.nodes.get(cell, NodeFigures()), found.nodes.get(cell, NodeFigures())
        yield from _unlike(_named(cell), *pair, _TIMES_OF_NODES, ("cost",), slack)
    for key in sorted({*exact.rows, *found.rows}, key=lambda key: (key[0], key[1] or "")):
        one, other = exact.rows.get(key, Figures()), found.rows.get(key, Figures())
        what = f"{_named(key[0])} {key[1] or 'nobody'}"
        yield from _unlike(what, one, other, _TIMES, _MONEY, slack)
        if one.team != other.team:
            yield f"{what}: team is {other.team}, should be {one.team}"


def _named(cell: CellKey) -> str:
    since, until, cluster, node, _ = cell
    return f"[{since / HOUR:.4f}, {until / HOUR:.4f}) {cluster}/{node}"


def _unlike(
    what: str, exact: Any, found: Any, times: Iterable[str], money: Iterable[str], slack: Decimal
) -> Iterator[str]:
    allowed = dict.fromkeys(times, NEAR) | dict.fromkeys(money, exact.doubt * NANO + slack)
    for name, near in allowed.items():
        one, other = getattr(exact, name), getattr(found, name)
        if abs(one - other) > near:
            yield f"{what} {name} is {float(other):.9f}, should be {float(one):.9f}"
