"""What a node costs per hour at each moment, exactly: effective cost / billed hours where a bill covers it, else the book."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from tests.oracle.exact.prices import Row
from tests.oracle.prices import Steps, price_steps
from tests.replay.billing import Charge
from tests.replay.kube import provider_id


def billed_book(
    told: Iterable[Charge], book: list[Row], *, pooled: bool = True
) -> Callable[[dict[str, Any], bool], Steps]:
    """Steps of prices for `calculate`: those of the charges, and of the price book for hours without any.

    With `pooled`, machines of one kind share their cost of a charge period by hours.
    """
    charges = list(told)
    own: dict[str, list[Charge]] = defaultdict(list)
    cost: dict[Any, Fraction] = defaultdict(Fraction)
    hours: dict[Any, Fraction] = defaultdict(Fraction)

    def pool(charge: Charge) -> Any:
        return charge.kind if pooled else (charge.machine, charge.start, charge.length)

    for charge in charges:
        own[charge.machine].append(charge)
        cost[pool(charge)] += Fraction(charge.cost)
        hours[pool(charge)] += charge.hours

    def steps(node: dict[str, Any], known: bool) -> Steps:
        mine = own.get(provider_id(node), [])
        listed = price_steps(book, node, known)
        edges = {at for at, _ in listed} | {e for c in mine for e in (c.start, c.start + c.length)}
        found: Steps = []
        for at in sorted(edges):
            covering = next((c for c in mine if c.start <= at < c.start + c.length), None)
            if covering is not None:
                found.append((at, cost[pool(covering)] / hours[pool(covering)]))
            else:
                found.append(
                    (at, next((price for begins, price in reversed(listed) if begins <= at), Fraction(0)))
                )
        return found

    return steps
