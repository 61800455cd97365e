"""Commitments that are there already, as the bill tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.engine.local import run_stage
from gpucost.model import MS_PER_HOUR
from gpucost.model import from_ms as at
from gpucost.whatif.curve import Curve, counted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DAY = 24 * MS_PER_HOUR
# Two billing periods: a bill that ended longer ago says little of what holds now.
_LASTS = 62 * _DAY

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
    """Commitments of the bill. `is_bill_loaded` tells none from not known; `covered` holds instances covered, hour by hour.

    `month` is that of an earlier bill whose last day stands for the period, which no bill is there of.
    """

    is_bill_loaded: bool
    commitments: tuple[Commitment, ...] = ()
    covered: dict[Key, Curve] = field(default_factory=dict)
    month: str | None = None


def read_commitments(con: DuckDBPyConnection, from_ms: int, to_ms: int) -> Existing:
    """What the bill says of commitments in [from_ms, to_ms). A charge that spans several hours covers them evenly.

    Where no bill of the period is there, they go on as on the last day of the newest one before it. Makes a temporary table.
    """
    bills = con.execute(
        "SELECT count(*) FROM bill_rows "
        "WHERE kind = 'instance' AND epoch_ms(charge_period_start) < ? AND ? < epoch_ms(charge_period_end)",
        [to_ms, from_ms],
    ).fetchall()[0][0]
    if bills:
        return _read(con, from_ms, to_ms)
    last = con.execute(
        "SELECT max(epoch_ms(charge_period_end)) FROM bill_rows "
        "WHERE kind = 'instance' AND epoch_ms(charge_period_end) BETWEEN ? AND ?",
        [from_ms - _LASTS, from_ms],
    ).fetchall()[0][0]
    if last is None:
        return Existing(is_bill_loaded=False)
    day, times = _read(con, last - _DAY, last), (to_ms - from_ms) / _DAY
    return Existing(
        True,
        tuple(
            replace(one, covered_hours=one.covered_hours * times, unused_cost=one.unused_cost * Decimal(repr(times)))
            for one in day.commitments
        ),
        {key: counted([(from_ms, to_ms, curve.mean)], from_ms, to_ms) for key, curve in day.covered.items()},
        f"{at(last - 1):%Y-%m}",
    )


def _read(con: DuckDBPyConnection, from_ms: int, to_ms: int) -> Existing:
    """What bills that are there say of the period."""
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
