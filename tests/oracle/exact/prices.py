"""Hourly price of a node at each moment by the price book: the most specific row in force, in its latest step."""

from __future__ import annotations

import csv
import itertools
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.oracle.exact.labels import EVER
from tests.oracle.exact.nodes import Node

#: By capacity type, the purchase options that price it with their rank; a row without an option prices any.
FITTING = {
    "on_demand": {"on_demand": 1, "savings_plan": 1, "cud": 1},
    "reserved": {"reserved": 4, "savings_plan": 3, "cud": 2, "on_demand": 1},
    "capacity_block": {"capacity_block": 1},
    "flex_start": {"flex_start": 2, "calendar": 1},
    "spot": {"spot": 1},
}
NANO = Decimal("0.000000001")

Row = dict[str, str]
#: Moments (milliseconds) and the price per hour from then on, to nine decimals; no price before the first.
Steps = list[tuple[int, Decimal]]


def read_book(path: Path) -> list[Row]:
    """Return the rows of a price book."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def steps(book: list[Row], node: Node, zone: ZoneInfo) -> Steps:
    """Return the node's prices by time."""
    facts = {
        "instance_type": node.label("node_kubernetes_io_instance_type", "beta_kubernetes_io_instance_type"),
        "zone": node.label("topology_kubernetes_io_zone", "failure_domain_beta_kubernetes_io_zone"),
        "region": node.label("topology_kubernetes_io_region", "failure_domain_beta_kubernetes_io_region"),
        "provider": node.provider,
    }
    capacity_type = "on_demand" if node.capacity_type == "unknown" else node.capacity_type
    options = FITTING[capacity_type] | {"": 0}
    fitting = [row for row in book if row["purchase_option"] in options and _fits(row, facts, node)]
    begins = {id(row): _begins(row["effective_start"], zone) for row in fitting}
    found = []
    for moment in sorted(set(begins.values())):
        held = [row for row in fitting if begins[id(row)] <= moment]
        best = max(
            held, key=lambda row: (_specificity(row, facts), options[row["purchase_option"]], begins[id(row)])
        )
        whole = Decimal(best["price_per_hour"]) * (int(node.gpus) if best.get("per") == "gpu" else 1)
        found.append((moment, whole.quantize(NANO), _named(best, zone)))
    # a row that repeats the previous price starts no new step: money is rounded once for both
    return [
        step[:2]
        for before, step in itertools.pairwise([None, *found])
        if before is None or before[1:] != step[1:]
    ]


def _named(row: Row, zone: ZoneInfo) -> tuple[str, date | None]:
    """The details of a price in a report: its purchase option and its date."""
    begins = _begins(row["effective_start"], zone)
    return row["purchase_option"], None if begins == EVER else datetime.fromtimestamp(
        begins / 1000, UTC
    ).date()


def _specificity(row: Row, facts: dict[str, str | None]) -> tuple[int, ...]:
    return len(_selector(row)), *(bool(row.get(fact)) for fact in (*facts, "purchase_option"))


def _fits(row: Row, facts: dict[str, str | None], node: Node) -> bool:
    if any(node.label(label) != value for label, value in _selector(row).items()):
        return False
    return all(
        not row.get(fact) or row[fact].lower() == (value or "").lower() for fact, value in facts.items()
    )


def _selector(row: Row) -> dict[str, str]:
    pairs = (pair.split("=", 1) for pair in (row.get("node_selector") or "").split(";") if pair)
    return {"".join(c if c.isalnum() else "_" for c in label): value for label, value in pairs}


def _begins(text: str | None, zone: ZoneInfo) -> int:
    if not text:
        return EVER
    if len(text) == len("2026-10-01"):
        day = date.fromisoformat(text)
        return round(datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC).timestamp() * 1000)
    return round(datetime.fromisoformat(text).timestamp() * 1000)
