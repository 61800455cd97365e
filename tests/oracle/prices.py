"""What a node costs per hour at each moment, from a price book alone."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

#: By capacity type, the purchase options that price it; the first comes first among rows as specific, those in one tuple alike.
FITTING: dict[str, list[tuple[str, ...]]] = {
    "on_demand": [("on_demand", "savings_plan", "cud")],
    "unknown": [("on_demand", "savings_plan", "cud")],
    "reserved": [("reserved",), ("savings_plan",), ("cud",), ("on_demand",)],
    "capacity_block": [("capacity_block",)],
    "flex_start": [("flex_start",), ("calendar",)],
    "spot": [("spot",)],
}
PROVIDERS = {"karpenter": "aws", "eks": "aws", "gke": "gcp", "aks": "azure", "onprem": ""}

Row = dict[str, Any]
Steps = list[tuple[int, Fraction]]
#: The rows of a price book, or what says the steps of a node, and whether its labels are known.
Book = list[Row] | Callable[[dict[str, Any], bool], Steps]


def read_book(path: Path) -> list[Row]:
    """The rows of a price book, with `at` (the second a row begins to hold) and an exact `price`."""
    rows: list[Row] = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            begins = row["effective_start"]
            instant = datetime.fromisoformat(begins) if begins else None
            if instant is not None and instant.tzinfo is None:
                instant = instant.replace(tzinfo=UTC)
            rows.append(
                {
                    **row,
                    "at": int(instant.timestamp()) if instant else -(10**12),
                    "price": Fraction(row["price_per_hour"]),
                }
            )
    return rows


def price_steps(book: Book, node: dict[str, Any], known: bool) -> Steps:
    """(second, price of the whole node per hour from then on), in order; `known`: the node's labels are exported."""
    if callable(book):
        return book(node, known)
    facts = {
        "node_selector": None,
        "instance_type": node["instance_type"] if known else "",
        "zone": node["zone"] if known else "",
        "region": node["region"] if known else "",
        "provider": PROVIDERS[node.get("provider", "karpenter")],
    }
    capacity = node["capacity_type"] if known else "unknown"
    place = {option: -number for number, options in enumerate(FITTING[capacity]) for option in options}
    rows = [r for r in book if r["purchase_option"] in place and _fits(r, facts, node)]
    steps = []
    for at in sorted({r["at"] for r in rows}):
        best = max(
            (r for r in rows if r["at"] <= at),
            key=lambda r: (_rank(r, facts), place[r["purchase_option"]], r["at"]),
        )
        steps.append((at, best["price"] * (len(node["gpus"]) if best.get("per") == "gpu" else 1)))
    return steps


def _fits(row: Row, facts: dict[str, Any], node: dict[str, Any]) -> bool:
    selector = row.get("node_selector") or ""
    wanted = dict(pair.split("=", 1) for pair in selector.split(";") if pair)
    carried = {k.removeprefix("label_"): v for k, v in node.get("labels", {}).items()}
    if any(carried.get(_sanitized(k)) != v for k, v in wanted.items()):
        return False
    return all(
        not row[field] or row[field] == facts[field]
        for field in ("instance_type", "zone", "region", "provider")
    )


def _sanitized(label: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in label)


def _rank(row: Row, facts: dict[str, Any]) -> tuple[bool, ...]:
    return tuple(bool(row.get(field)) for field in facts)
