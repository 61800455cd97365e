"""The money that leaves the bill when a node goes: the one rule of every what-if, finding and plan."""

from __future__ import annotations

from decimal import Decimal

from gpucost.whatif.fleet import Node, Price

NOTHING = Decimal(0)


def is_own_machine(node: Node) -> bool:
    """Whether no cloud rents the node out: it brings back power at most."""
    return not node.provider and not node.instance_type


def cash_per_hour(node: Node, price: Price) -> Decimal:
    """What leaves the bill per hour that the node is not up at this price.

    Capacity blocks, commitments and own machines are paid for in any case. A capacity reservation at the on-demand price is
    avoidable by cancelling it. A commitment covers other usage only if that usage is billed; without it nothing comes back.
    """
    if node.capacity_type == "capacity_block" or price.is_committed or is_own_machine(node):
        return NOTHING
    return price.per_node_hour


def why_not(node: Node) -> str:
    """Why nothing leaves the bill when the node goes; empty if something does."""
    if is_own_machine(node):
        return "own machines: switching them off saves power at most"
    if node.capacity_type == "capacity_block":
        return "in a capacity block, which is paid in advance"
    if node.prices and all(price.is_committed for price in node.prices):
        return "under a commitment, which is paid in any case"
    return ""
