"""Exact hourly cost of a node at each moment: effective cost / billed hours if a bill covers it, otherwise the price book."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from tests.oracle.exact.nodes import Node
from tests.oracle.exact.prices import NANO, Row, Steps, steps
from tests.replay.billing import Charge


def billed_book(
    charges: Iterable[Charge], book: list[Row], *, pooled: bool = True
) -> Callable[[Node], Steps]:
    """Return the price steps of the charges, and of the price book for hours without charges.

    With `pooled`, machines of one kind share the cost of a charge period by hours.
    """
    own = defaultdict(list)
    cost = defaultdict(Fraction)
    hours = defaultdict(Fraction)

    def pool(charge: Charge) -> Any:
        return charge.kind if pooled else (charge.machine, charge.start, charge.length)

    for charge in charges:
        own[charge.machine].append(charge)
        cost[pool(charge)] += Fraction(charge.cost)
        hours[pool(charge)] += charge.hours

    def billed(node: Node) -> Steps:
        listed = steps(book, node, ZoneInfo("UTC"))
        spans = [(1000 * one.start, 1000 * (one.start + one.length), one) for one in own[node.machine or ""]]
        found = []
        for at in sorted({at for at, _ in listed} | {edge for span in spans for edge in span[:2]}):
            price = next((price for begins, price in reversed(listed) if begins <= at), Decimal(0))
            for since, until, charge in spans:
                if since <= at < until:
                    exact = cost[pool(charge)] / hours[pool(charge)]
                    price = (Decimal(exact.numerator) / exact.denominator).quantize(NANO)
            found.append((at, price))
        # an unchanged price starts no new step: money is rounded once for both
        return [next(alike) for _, alike in groupby(found, key=lambda step: step[1])]

    return billed
