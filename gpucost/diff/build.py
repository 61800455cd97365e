"""Two reports, one per period, as one account of what changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.diff.effects import Cell, Item, Parts, Pool, Use, parts_of, sums
from gpucost.model import MS_PER_HOUR, Period, to_ms

if TYPE_CHECKING:
    from gpucost.report import ReportView
    from gpucost.report.view import Coverage

_WORKLOAD = ("team", "cluster", "namespace", "workload")
_KIND = ("cluster", "gpu_model", "capacity_type")
# By these dimensions a report is asked for to be compared.
CELL = tuple(dict.fromkeys((*_WORKLOAD, *_KIND)))
_ZERO = Decimal(0)
_MICRO = Decimal("0.000000001")
_DAY_MS = 24 * MS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two periods: its cost, where nothing narrows the comparison with that of GPUs that nobody held or saw.

    `days` are those of 24 hours from its start to its end, or to where what was collected ends.
    """

    name: str
    period: Period
    days: float
    gpu_hours: float
    cost: Decimal
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One combination of dimension values; `before` and `after` are what it used, `parts` why its cost changed.

    Rows of kind 'unallocated' are of GPUs that nobody held, those of 'not_collected' of what was billed while nobody saw who did.
    """

    kind: str
    keys: dict[str, str | None]
    before: Use
    after: Use
    parts: Parts

    @property
    def change(self) -> Decimal:
        """Cost after - cost before: the sum of the parts."""
        return self.after.cost - self.before.cost


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed from `before` to `after`. Parts add up to changes, rows to the total, exactly.

    `rows` by change, the largest in either direction first; `workloads` are the same by workload.
    """

    by: tuple[str, ...]
    currency: str
    before: Side
    after: Side
    parts: Parts
    rows: tuple[DiffRow, ...]
    workloads: tuple[DiffRow, ...]

    @property
    def change(self) -> Decimal:
        """Cost after - cost before."""
        return self.after.cost - self.before.cost


def diff(before: ReportView, after: ReportView, by: tuple[str, ...], names: tuple[str, str]) -> Diff:
    """The change from one report to the other, both by CELL, in rows by the dimensions `by`, which are of CELL, too.

    `names` are what people call the two periods.
    """
    uses0, uses1 = _uses(before), _uses(after)
    parts = parts_of(uses0, uses1)
    return Diff(
        by=by,
        currency=after.currency,
        before=_side(names[0], before, uses0.values()),
        after=_side(names[1], after, uses1.values()),
        parts=sum(parts.values(), Parts()),
        rows=_rows(uses0, uses1, parts, by),
        workloads=tuple(row for row in _rows(uses0, uses1, parts, _WORKLOAD) if row.kind == "allocated"),
    )


def per_day(cost: Decimal, days: float) -> Decimal | None:
    """`cost` a day, to 9 decimals; None for no time at all."""
    return (cost / Decimal(repr(days))).quantize(_MICRO) if days else None


def _uses(view: ReportView) -> dict[Cell, Use]:
    found: dict[Cell, Use] = {}
    for row in view.rows:
        if row.kind == "shared":
            continue
        kind = tuple(row.keys[name] for name in _KIND)
        if row.unallocated:
            use = Use(_exact(row.unallocated.unallocated_gpu_hours), _ZERO, row.unallocated.unallocated_cost)
            found[Cell(kind, kind, "unallocated")] = use
        elif row.not_collected:
            use = Use(_exact(row.not_collected.not_collected_gpu_hours), _ZERO, row.not_collected.not_collected_cost)
            found[Cell(kind, kind, "not_collected")] = use
        else:
            held = row.measures
            use = Use(_exact(held.allocated_gpu_hours), _exact(held.idle_gpu_hours), held.cost)
            found[Cell(tuple(row.keys[name] for name in _WORKLOAD), kind)] = use
    return found


def _exact(hours: float) -> Decimal:
    return Decimal(repr(hours))


def _side(name: str, view: ReportView, uses: Iterable[Use]) -> Side:
    used = list(uses)
    end = view.period.end_ms
    if not view.coverage.is_complete and view.coverage.collected_to:
        end = min(end, max(view.period.start_ms, to_ms(view.coverage.collected_to)))
    return Side(
        name=name,
        period=view.period,
        days=round((end - view.period.start_ms) / _DAY_MS, 9),
        gpu_hours=float(sum((use.hours for use in used), _ZERO)),
        cost=sum((use.cost for use in used), _ZERO),
        coverage=view.coverage,
    )


def _rows(uses0: dict[Cell, Use], uses1: dict[Cell, Use], parts: dict[Cell, Parts], by: tuple[str, ...]) -> tuple[DiffRow, ...]:
    def key(cell: Cell) -> tuple[Pool, Item]:
        known = dict(zip(_KIND, cell.kind, strict=True))
        if cell.of == "allocated":
            known |= dict(zip(_WORKLOAD, cell.item, strict=True))
        return (cell.of, tuple(known.get(name) for name in by))

    before, after = sums(uses0.items(), key), sums(uses1.items(), key)
    summed: dict[tuple[Pool, Item], Parts] = defaultdict(Parts)
    for cell, part in parts.items():
        summed[key(cell)] += part
    rows = [
        DiffRow(
            kind=found[0],
            keys=dict(zip(by, found[1], strict=True)),
            before=before.get(found, Use()),
            after=after.get(found, Use()),
            parts=part,
        )
        for found, part in summed.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.change), row.kind, [value or "" for value in row.keys.values()])))
