"""The columns of the report's first table that tell what is shared: unallocated cost, each rule's, and what it all comes to."""

from __future__ import annotations

from decimal import Decimal

from gpucost.report.view import Column, Shared, Value

#: The column of what each pays: its cost and its shares.
CHARGED = "Charged"
_ZERO = Decimal(0)


def shared_columns(shared: Shared | None) -> list[Column]:
    """None where nothing is shared."""
    if shared is None:
        return []
    names = [*(["Shared unallocated"] if shared.unallocated_cost is not None else []), *shared.costs]
    return [*(Column(name, "money", 2, weight=1, group="shares") for name in names), Column(CHARGED, "money", 2)]


def held_cells(shared: Shared | None, cost: Decimal) -> list[Value]:
    """A row's shares, and what they come to with its own cost."""
    if shared is None:
        return []
    shares = [] if shared.unallocated_cost is None else [shared.unallocated_cost]
    shares += shared.costs.values()
    return [*shares, sum(shares, cost)]


def free_cells(shared: Shared | None, unallocated_cost: Decimal) -> list[Value]:
    """What nobody held: the part that went to others as an amount below zero, and what stays."""
    if shared is None:
        return []
    blank = [""] * len(shared.costs)
    if shared.unallocated_cost is None:
        return [*blank, unallocated_cost]
    stays = shared.remaining_unallocated_cost or _ZERO
    return [stays - unallocated_cost, *blank, stays]


def unseen_cells(shared: Shared | None, not_collected_cost: Decimal) -> list[Value]:
    """What was billed while nobody saw who held it is never shared."""
    if shared is None:
        return []
    return [*[""] * ((shared.unallocated_cost is not None) + len(shared.costs)), not_collected_cost]


def all_cells(shared: Shared | None, node_cost: Decimal) -> list[Value]:
    """The whole fleet: what unallocated cost went from one row to another is nothing in all."""
    if shared is None:
        return []
    moved = [] if shared.unallocated_cost is None else [_ZERO]
    return [*moved, *shared.costs.values(), node_cost + shared.shared_cost]
