"""Commitments that are there already, as the bill tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.engine.local import run_stage
from gpucost.whatif.curve import Curve, counted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# (provider, region, instance type), lower-cased.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Commitment:
    """One commitment in the period: instance-hours that it covered, and what of it was paid and not used."""

    name: str
    kind: str
    covered_hours: float
    unused_cost: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Existing:
    """Commitments of the bill. `is_bill_loaded` tells none from not known; `covered` holds instances covered, hour by hour."""

    is_bill_loaded: bool
    commitments: tuple[Commitment, ...] = ()
    covered: dict[Key, Curve] = field(default_factory=dict)


def read_commitments(con: DuckDBPyConnection, from_ms: int, to_ms: int) -> Existing:
    """What the bill says of commitments in [from_ms, to_ms). A charge that spans several hours covers them evenly.

    Makes a temporary table.
    """
    bills = con.execute(
        "SELECT count(*) FROM bill_rows WHERE epoch_ms(charge_period_start) < ? AND ? < epoch_ms(charge_period_end)",
        [to_ms, from_ms],
    ).fetchall()[0][0]
    if not bills:
        return Existing(is_bill_loaded=False)
    run_stage(con, __package__, "covered", {"from_ms": from_ms, "to_ms": to_ms})
    rows = con.execute("FROM commitment_charges ORDER BY ALL").fetchall()
    spans: dict[Key, list[tuple[int, int, float]]] = {}
    known: dict[str, Commitment] = {}
    for provider, region, instance_type, name, kind, start, end, is_unused, hours, cost, currency in rows:
        share = (min(end, to_ms) - max(start, from_ms)) / (end - start)
        before = known.get(name, Commitment(name, kind or "commitment", 0.0, Decimal(0), currency))
        known[name] = Commitment(
            name,
            before.kind if kind is None else kind,
            before.covered_hours + (0.0 if is_unused else hours * share),
            before.unused_cost + (cost * Decimal(repr(share)) if is_unused else Decimal(0)),
            currency,
        )
        if instance_type and hours and not is_unused:
            instances = hours / ((end - start) / 3_600_000)
            spans.setdefault((provider, region or "", instance_type), []).append((start, end, instances))
    covered = {key: counted(found, from_ms, to_ms) for key, found in spans.items()}
    return Existing(True, tuple(known.values()), covered)
