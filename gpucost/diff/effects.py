"""The arithmetic of a change of cost: price, volume and mix, cell by cell, so that the parts add up along any dimension.

Price-volume-mix analysis with the earlier period in the place of the budget: Horngren, Datar, Rajan, "Cost Accounting", on
flexible budgets (price variance) and sales variances (quantity, mix). docs/diff.md has it in words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Literal

_ZERO = Decimal(0)
_MICRO = Decimal("0.000000001")
_DIGITS = 60

Item = tuple[str | None, ...]
Pool = Literal["allocated", "unallocated", "not_collected"]


@dataclass(frozen=True, slots=True)
class Cell:
    """The smallest part that is compared: what one workload used of one kind of GPU.

    `item` is the workload, or the pool of GPUs that nobody held, or saw, as `of` tells; `kind` the GPU: cluster, model, capacity
    type.
    """

    item: Item
    kind: Item
    of: Pool = "allocated"


@dataclass(frozen=True, slots=True)
class Use:
    """GPU-hours, those of them that were idle, and what all of it cost."""

    hours: Decimal = _ZERO
    idle_hours: Decimal = _ZERO
    cost: Decimal = _ZERO


@dataclass(frozen=True, slots=True)
class Parts:
    """Why a cost changed, in money. They add up to the change, exactly."""

    price: Decimal = _ZERO
    volume: Decimal = _ZERO
    idle: Decimal = _ZERO
    mix: Decimal = _ZERO
    new: Decimal = _ZERO
    gone: Decimal = _ZERO
    unallocated: Decimal = _ZERO
    not_collected: Decimal = _ZERO
    host: Decimal = _ZERO

    @property
    def change(self) -> Decimal:
        """The sum of the parts."""
        return sum((getattr(self, name) for name in PARTS), _ZERO)

    def __add__(self, other: Parts) -> Parts:
        return Parts(**{name: getattr(self, name) + getattr(other, name) for name in PARTS})


PARTS = tuple(field.name for field in fields(Parts))


def parts_of(before: Mapping[Cell, Use], after: Mapping[Cell, Use]) -> dict[Cell, Parts]:
    """Per cell of either period why its cost changed: `after` cost - `before` cost = the sum of its parts.

    Of a workload, and of the GPUs of a kind that nobody held, in both periods, with H its hours, I its idle hours, and per
    kind of GPU h hours, c cost and p = c / h, of the earlier (0) and the later period (1):
    idle = c0 (I1 - I0) / H0, volume = c0 (H1 - H0) / H0 - idle, mix = h1 p0 - c0 H1 / H0, price = c1 - h1 p0.
    A kind of GPU that a workload had not used before has the p0 that all workloads together paid for it, else its own p1.
    Workloads of only one period are new or gone, whole. Cost without GPU-hours is `host`. Of GPUs that nobody held, volume,
    idle and mix are `unallocated`; what was billed while nobody saw who held them is `not_collected`, whole.
    """
    items0, items1 = _by_item(before), _by_item(after)
    fleet = _fleet_prices(before)
    found: dict[Cell, Parts] = {}
    with localcontext() as context:
        context.prec, context.rounding = _DIGITS, ROUND_HALF_EVEN
        for cell in dict.fromkeys((*before, *after)):
            whole0, whole1 = items0.get(_item(cell)), items1.get(_item(cell))
            use0, use1 = before.get(cell, Use()), after.get(cell, Use())
            if cell.of == "not_collected":
                found[cell] = Parts(not_collected=use1.cost - use0.cost)
            elif cell.of == "unallocated":
                found[cell] = _free(use0, use1)
            elif whole0 is None:
                found[cell] = Parts(new=use1.cost)
            elif whole1 is None:
                found[cell] = Parts(gone=-use0.cost)
            else:
                found[cell] = _held(use0, use1, whole0, whole1, fleet.get(cell.kind))
    return found


def _held(use0: Use, use1: Use, whole0: Use, whole1: Use, fleet_price: Decimal | None) -> Parts:
    if not whole0.hours or not whole1.hours:
        return Parts(host=use1.cost - use0.cost)
    host0 = _ZERO if use0.hours else use0.cost
    host1 = _ZERO if use1.hours else use1.cost
    cost0, cost1 = use0.cost - host0, use1.cost - host1
    # each step is rounded once and the next begins where it ended: so the parts add up to the last digit
    at_volume = _money(cost0 * whole1.hours / whole0.hours)
    idle = _money(cost0 * (whole1.idle_hours - whole0.idle_hours) / whole0.hours)
    at_mix = _money(use1.hours * cost0 / use0.hours) if use0.hours else _first_use(use1, cost1, fleet_price)
    return Parts(
        price=cost1 - at_mix,
        volume=at_volume - cost0 - idle,
        idle=idle,
        mix=at_mix - at_volume,
        host=host1 - host0,
    )


def _first_use(use1: Use, cost1: Decimal, fleet_price: Decimal | None) -> Decimal:
    return cost1 if fleet_price is None else _money(use1.hours * fleet_price)


def _free(use0: Use, use1: Use) -> Parts:
    """A pool is of one kind of GPU: there is nothing to mix."""
    if not use0.hours or not use1.hours:
        return Parts(unallocated=use1.cost - use0.cost)
    at_old_price = _money(use1.hours * use0.cost / use0.hours)
    return Parts(price=use1.cost - at_old_price, unallocated=at_old_price - use0.cost)


def _money(amount: Decimal) -> Decimal:
    return amount.quantize(_MICRO)


def _item(cell: Cell) -> tuple[Pool, Item]:
    return (cell.of, cell.item)


def _by_item(uses: Mapping[Cell, Use]) -> dict[tuple[Pool, Item], Use]:
    """What each item used; one that used and cost nothing was not there."""
    return {item: use for item, use in sums(uses.items(), _item).items() if use.hours or use.cost}


def sums(uses: Iterable[tuple[Cell, Use]], key: Callable[[Cell], tuple[Pool, Item]]) -> dict[tuple[Pool, Item], Use]:
    """What the cells used by `key`."""
    found: dict[tuple[Pool, Item], Use] = defaultdict(Use)
    for cell, use in uses:
        had = found[key(cell)]
        found[key(cell)] = Use(had.hours + use.hours, had.idle_hours + use.idle_hours, had.cost + use.cost)
    return dict(found)


def _fleet_prices(uses: Mapping[Cell, Use]) -> dict[Item, Decimal]:
    used = ((cell, use) for cell, use in uses.items() if cell.of == "allocated" and use.hours)
    held = sums(used, lambda cell: (cell.of, cell.kind))
    return {kind: use.cost / use.hours for (_, kind), use in held.items()}
