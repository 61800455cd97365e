"""Changes between two periods and their causes: price, volume, mix, idle, new and gone workloads, unallocated GPUs."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Literal, Self, TypeVar

from gpucost.options import Names
from gpucost.periods import MS_PER_DAY, Period, to_ms
from gpucost.questions.report.rows import MICRO, ZERO
from gpucost.records import frozen_dataclass, grouped
from gpucost.render.view import CoverageAnswer, ReportView, Row
from gpucost.shapes import Shape
from gpucost.texts import family_of

_DIGITS = 60

Item = tuple[str | None, ...]
Pool = Literal["allocated", "unallocated", "not_collected"]
Key = tuple[Pool, Item]


@frozen_dataclass
class Cell:
    """The smallest unit of comparison: the usage of one kind of GPU by one workload.

    `item` is the workload, or a pool of unallocated or not collected GPUs, according to `pool`; `kind` is the GPU:
    cluster, model, capacity type.
    """

    item: Item
    kind: Item
    pool: Pool = "allocated"


class _Sums:
    """Amounts that are added field by field."""

    __slots__: tuple[str, ...] = ()

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@frozen_dataclass
class Use(_Sums):
    """GPU-hours, the idle part of them, and the cost of all."""

    hours: Decimal = ZERO
    idle_hours: Decimal = ZERO
    cost: Decimal = ZERO


@frozen_dataclass
class Parts(_Sums):
    """The parts of a change in cost, in money. They add up to the change, exactly."""

    price: Decimal = ZERO
    volume: Decimal = ZERO
    idle: Decimal = ZERO
    mix: Decimal = ZERO
    new: Decimal = ZERO
    gone: Decimal = ZERO
    unallocated: Decimal = ZERO
    not_collected: Decimal = ZERO
    host: Decimal = ZERO

    @property
    def change(self) -> Decimal:
        """The sum of the parts."""
        return sum((getattr(self, name) for name in PARTS), ZERO)


PARTS = tuple(field.name for field in fields(Parts))
T = TypeVar("T", Use, Parts)


def _summed(amounts: Mapping[Cell, T], key: Callable[[Cell], Key], zero: T) -> dict[Key, T]:
    several = grouped((key(cell), amount) for cell, amount in amounts.items())
    return {name: sum(each, zero) for name, each in several.items()}


def parts_of(before: Mapping[Cell, Use], after: Mapping[Cell, Use]) -> dict[Cell, Parts]:
    """The parts of the change of each cell: `after` cost - `before` cost = their sum.

    For a workload, and for the unallocated GPUs of a kind, in both periods, with H its hours, I its idle hours, and
    per kind of GPU h hours, c cost and p = c / h, in the earlier (0) and the later period (1):
      idle = c0 (I1 - I0) / H0, volume = c0 (H1 - H0) / H0 - idle, mix = h1 p0 - c0 H1 / H0, price = c1 - h1 p0.

    For a kind of GPU that a workload had not used before, p0 is the price that all workloads together paid for it,
    otherwise its own p1. Workloads of only one period are entirely new or gone. Cost without GPU-hours is `host`. For
    unallocated GPUs, volume, idle and mix are `unallocated`. Not collected cost is entirely `not_collected`.
    """
    with localcontext() as context:
        context.prec, context.rounding = _DIGITS, ROUND_HALF_EVEN
        items0, items1 = (
            _summed(uses, lambda cell: (cell.pool, cell.item), Use()) for uses in (before, after)
        )
        used = {cell: use for cell, use in before.items() if cell.pool == "allocated" and use.hours}
        kinds = _summed(used, lambda cell: (cell.pool, cell.kind), Use())
        fleet = {kind: use.cost / use.hours for (_, kind), use in kinds.items()}
        parts = {}
        for cell in dict.fromkeys((*before, *after)):
            whole0, whole1 = (items.get((cell.pool, cell.item), Use()) for items in (items0, items1))
            use0 = before.get(cell, Use())
            use1 = after.get(cell, Use())
            if cell.pool == "not_collected":
                parts[cell] = Parts(not_collected=use1.cost - use0.cost)
            elif cell.pool == "unallocated":
                # a pool has one kind of GPU, so it has no mix
                at_old_price = (
                    _money(use1.hours * use0.cost / use0.hours) if use0.hours and use1.hours else use1.cost
                )
                parts[cell] = Parts(price=use1.cost - at_old_price, unallocated=at_old_price - use0.cost)
            # an item without usage and cost did not exist
            elif whole0 == Use():
                parts[cell] = Parts(new=use1.cost)
            elif whole1 == Use():
                parts[cell] = Parts(gone=-use0.cost)
            elif not whole0.hours or not whole1.hours:
                parts[cell] = Parts(host=use1.cost - use0.cost)
            else:
                parts[cell] = _held(use0, use1, whole0, whole1, fleet.get(cell.kind))
    return parts


def _held(use0: Use, use1: Use, whole0: Use, whole1: Use, fleet_price: Decimal | None) -> Parts:
    host0, host1 = (ZERO if use.hours else use.cost for use in (use0, use1))
    cost0 = use0.cost - host0
    cost1 = use1.cost - host1
    # each step is rounded once and the next begins at its end, so the parts add up to the last digit
    at_volume = _money(cost0 * whole1.hours / whole0.hours)
    idle = _money(cost0 * (whole1.idle_hours - whole0.idle_hours) / whole0.hours)
    if use0.hours:
        at_mix = _money(use1.hours * cost0 / use0.hours)
    else:
        at_mix = cost1 if fleet_price is None else _money(use1.hours * fleet_price)
    return Parts(
        price=cost1 - at_mix,
        volume=at_volume - cost0 - idle,
        idle=idle,
        mix=at_mix - at_volume,
        host=host1 - host0,
    )


def _money(amount: Decimal) -> Decimal:
    return amount.quantize(MICRO)


_WORKLOAD = ("team", "cluster", "namespace", "workload")
_KIND = ("cluster", "gpu_model", "capacity_type")
# The dimensions of a report for comparison.
CELL = tuple(dict.fromkeys((*_WORKLOAD, *_KIND)))


@frozen_dataclass
class Side(Shape):
    """One of the two periods: its cost, including unallocated and not collected cost if no filter is set.

    `days` are the collected days of 24 hours of the cluster with the fewest. `cost_per_day` is the sum over clusters
    of the daily cost of their collected time; it excludes the billed cost of other time.
    """

    name: str
    period: Period
    days: float
    gpu_hours: float
    cost: Decimal
    cost_per_day: Decimal | None
    coverage: CoverageAnswer


@frozen_dataclass
class DiffRow(Shape):
    """One combination of dimension values: usage before and after, and the parts of the change.

    Rows of kind 'unallocated' are for unallocated GPUs, rows of kind 'not_collected' for billed time without metrics.
    """

    kind: Pool
    keys: dict[str, str | None]
    gpu_hours_before: float
    gpu_hours_after: float
    cost_before: Decimal
    cost_after: Decimal
    cost_change: Decimal
    parts: Parts
    currency: str

    FLAT = ("keys", "parts")


@frozen_dataclass
class Diff(Shape):
    """The change from `before` to `after`. Parts add up to changes, rows to the total, exactly.

    `rows` are ordered by change, the largest in either direction first; `workloads` are the same by workload.
    """

    currency: str
    by: Names
    before: Side
    after: Side
    cost_change: Decimal
    cost_change_per_day: Decimal | None
    parts: Parts
    rows: tuple[DiffRow, ...]
    workloads: tuple[DiffRow, ...]


def diff(before: ReportView, after: ReportView, by: Names, names: tuple[str, str], now: datetime) -> Diff:
    """The change from one report to the other, in rows by `by`.

    Both reports are by CELL, and `by` are dimensions of CELL. `names` are the display names of the two periods. A
    period that is not over counts up to `now`.
    """
    days = _days(before, now), _days(after, now)
    families = grouped((_family(row), row.keys["workload"]) for row in (*before.rows, *after.rows))
    runs = {name for name, workloads in families.items() if len({*workloads}) > 1}
    uses = _uses(before, runs), _uses(after, runs)
    parts = parts_of(*uses)
    side0, side1 = (_side(*facts) for facts in zip(names, (before, after), uses, days, strict=True))

    def rows(dimensions: Names) -> tuple[DiffRow, ...]:
        return _rows(uses, parts, dimensions, after.currency)

    daily0, daily1 = side0.cost_per_day, side1.cost_per_day
    return Diff(
        currency=after.currency,
        by=by,
        before=side0,
        after=side1,
        cost_change=side1.cost - side0.cost,
        cost_change_per_day=None if daily0 is None or daily1 is None else daily1 - daily0,
        parts=sum(parts.values(), Parts()),
        rows=rows(by),
        workloads=tuple(row for row in rows(_WORKLOAD) if row.kind == "allocated"),
    )


def _days(view: ReportView, now: datetime) -> dict[str | None, float]:
    """The number of collected days of each cluster that has rows."""
    start = view.period.start_ms
    whole = max(0, min(view.period.end_ms, to_ms(now)) - start)
    times = dict.fromkeys((row.keys["cluster"] for row in view.rows), whole)
    for gap in view.coverage.not_collected:
        if gap.cluster in times:
            times[gap.cluster] -= to_ms(gap.end) - to_ms(gap.start)
    return {
        cluster: round(max(0, time) / MS_PER_DAY, 9) for cluster, time in (times or {None: whole}).items()
    }


def _family(row: Row) -> Item:
    """The item of a row, with its workload's family.

    Rows of unallocated and not collected GPUs have no workload.
    """
    *place, workload = (row.keys[name] for name in _WORKLOAD)
    return *place, workload and family_of(workload)


def _uses(view: ReportView, runs: Collection[Item]) -> dict[Cell, Use]:
    """The usage of each cell. The workloads of a family in `runs` are one item."""
    uses: dict[Cell, Use] = defaultdict(Use)
    for row in view.rows:
        if row.kind == "shared" or row.kind == "api":
            continue
        kind = tuple(row.keys[name] for name in _KIND)
        item = tuple(row.keys[name] for name in _WORKLOAD)
        if row.kind != "allocated":
            item = kind
        elif (whole := _family(row)) in runs:
            item = whole
        hours = Decimal(repr(row.own_gpu_hours))
        idle = Decimal(repr(row.measures.idle_gpu_hours))
        uses[Cell(item, kind, row.kind)] += Use(hours, idle, row.own_cost)
    return uses


def _side(name: str, view: ReportView, uses: Mapping[Cell, Use], days: Mapping[str | None, float]) -> Side:
    used = sum(uses.values(), Use())
    fewest = min(filter(None, days.values()), default=0.0)
    daily = ZERO
    for row in view.rows:
        collected = days.get(row.keys["cluster"])
        if collected and row.kind in ("allocated", "unallocated"):
            daily += row.own_cost / Decimal(repr(collected))
    per_day = _money(daily) if fewest else None
    return Side(name, view.period, fewest, float(used.hours), used.cost, per_day, view.coverage)


def _rows(
    uses: tuple[dict[Cell, Use], dict[Cell, Use]], parts: dict[Cell, Parts], by: Names, currency: str
) -> tuple[DiffRow, ...]:
    def key(cell: Cell) -> Key:
        fields = dict(zip(_KIND, cell.kind, strict=True))
        if cell.pool == "allocated":
            fields |= dict(zip(_WORKLOAD, cell.item, strict=True))
        return (cell.pool, tuple(fields.get(name) for name in by))

    before, after = (_summed(of_side, key, Use()) for of_side in uses)
    rows = []
    for (kind, item), part in _summed(parts, key, Parts()).items():
        use0 = before.get((kind, item), Use())
        use1 = after.get((kind, item), Use())
        hours = float(use0.hours), float(use1.hours)
        costs = use0.cost, use1.cost, use1.cost - use0.cost
        rows.append(DiffRow(kind, dict(zip(by, item, strict=True)), *hours, *costs, part, currency))
    rows.sort(key=lambda row: (-abs(row.cost_change), row.kind, [value or "" for value in row.keys.values()]))
    return tuple(rows)
