"""Holds what the product stored against the exact bill, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpucost.config.model import Config
from gpucost.store.connection import Store
from tests.oracle.exact.bill import Bill, Figures, NodeFigures, Rules, exact_bill
from tests.oracle.exact.prices import read_book
from tests.oracle.exact.states import HOUR
from tests.replay.fleet import Fleet, period_of
from tests.replay.series import Series

#: GPU-milliseconds that binary fractions may be off: a billionth of a GPU-hour.
NEAR = Fraction(HOUR, 10**9)
NANO = Decimal("0.000000001")
_ROWS = """
    SELECT c.from_ms, c.to_ms, n.cluster, n.node, n.up_from_ms, a.uid, c.team, allocated_gpu_ms, active_gpu_ms, idle_gpu_ms,
        unmeasured_gpu_ms, utilization_gpu_ms, unallocated_gpu_ms, unavailable_gpu_ms, cost, idle_cost, unallocated_cost
    FROM cost_hourly AS c JOIN nodes AS n USING (node_id) LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
    WHERE c.kind IN ('allocated', 'unallocated')
"""
_NODES = """
    SELECT h.from_ms, h.to_ms, n.cluster, n.node, n.up_from_ms, capacity_gpu_ms, over_allocated_gpu_ms, node_cost
    FROM node_hourly AS h JOIN nodes AS n USING (node_id)
"""
_MEASURES = ("allocated", "active", "idle", "unmeasured", "utilization", "unallocated", "unavailable")
_MONEY = ("cost", "idle_cost", "unallocated_cost")


def rules_of(fleet: Fleet, config: Config) -> Rules:
    """The rules that a described fleet is billed by."""
    assert config.prices.book is not None
    cuts = tuple(1000 * second for second in period_of(fleet))
    return Rules(
        read_book(config.prices.book), fleet["nodes"][0]["cluster"], config.tz, fleet.get("teams", []), cuts
    )


def unequal(fleet: Fleet, series: list[Series], config: Config, store: Store) -> list[str]:
    """One line per figure of a cell, a node and a pod that is not the exact bill's; none where all is well."""
    rules = rules_of(fleet, config)
    return list(_differences(exact_bill(series, rules), stored(store)))


def stored(store: Store) -> Bill:
    """What the product stored, as a bill."""
    bill = Bill()
    with store.read() as con:
        for (
            *cell,
            uid,
            team,
            allocated,
            active,
            idle,
            unmeasured,
            utilization,
            free,
            unavailable,
            cost,
            idle_cost,
            rest,
        ) in con.execute(_ROWS).fetchall():
            hours = (
                Fraction(ms) for ms in (allocated, active, idle, unmeasured, utilization, free, unavailable)
            )
            # a pod whose share of a claim changed stands there once for each share
            bill.rows[_key(cell), uid] += Figures(team, *hours, cost, idle_cost, rest)
        for *cell, capacity, over, cost in con.execute(_NODES).fetchall():
            bill.nodes[_key(cell)] = NodeFigures(Fraction(capacity), Fraction(over), cost)
    return bill


def _key(cell: list[Any]) -> tuple[int, int, str, str, int]:
    since, until, cluster, node, up_from = cell
    return since, until, cluster, node, up_from


def _differences(exact: Bill, said: Bill) -> Iterator[str]:
    for cell in sorted({*exact.nodes, *said.nodes}):
        one, other = exact.nodes.get(cell, NodeFigures()), said.nodes.get(cell, NodeFigures())
        for name in ("capacity", "over_allocated"):
            yield from _unlike(f"{_named(cell)} {name}", getattr(one, name), getattr(other, name), NEAR)
        yield from _unlike(f"{_named(cell)} cost", one.cost, other.cost, one.doubt * NANO)
    for cell, uid in sorted({*exact.rows, *said.rows}, key=lambda key: (key[0], key[1] or "")):
        figures, stored_figures = (
            exact.rows.get((cell, uid), Figures()),
            said.rows.get((cell, uid), Figures()),
        )
        what = f"{_named(cell)} {uid or 'nobody'}"
        for name in _MEASURES:
            yield from _unlike(f"{what} {name}", getattr(figures, name), getattr(stored_figures, name), NEAR)
        for name in _MONEY:
            yield from _unlike(
                f"{what} {name}", getattr(figures, name), getattr(stored_figures, name), figures.doubt * NANO
            )
        if figures.team != stored_figures.team:
            yield f"{what}: team is {stored_figures.team}, should be {figures.team}"


def _named(cell: tuple[int, int, str, str, int]) -> str:
    since, until, cluster, node, _ = cell
    return f"[{since / HOUR:.4f}, {until / HOUR:.4f}) {cluster}/{node}"


def _unlike(what: str, exact: Any, said: Any, allowed: Any) -> Iterator[str]:
    if abs(exact - said) > allowed:
        yield f"{what} is {float(said):.9f}, should be {float(exact):.9f}"
