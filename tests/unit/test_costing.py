"""What described fleets cost, and what each workload and team of them does."""

from __future__ import annotations

from decimal import Decimal

from gpucost.config.model import Config
from gpucost.whatif.cost import cost_of, costs_of
from gpucost.whatif.fleet import Fleet, Node, Pod, Price

HOUR = 3_600_000


def _node(name: str, price: str) -> Node:
    return Node(name, 8, 0, 10 * HOUR, (Price(Decimal(price), "option"),))


def test_a_workload_of_two_teams_costs_what_both_pay() -> None:
    pods = (
        Pod("a", "Job/train", 4, 0, 10 * HOUR, team="vision", uid="1"),
        Pod("a", "Job/train", 2, 0, 10 * HOUR, team="nlp", uid="2"),
    )
    costs = cost_of(Config(), Fleet((_node("a", "8"),), pods))
    assert costs.by_team == {"vision": Decimal(40), "nlp": Decimal(20)}
    assert costs.by_workload == {("default", "default", "Job/train"): Decimal(60)}
    assert (costs.node_cost, costs.cost, costs.unallocated_cost) == (80, 60, 20)


def test_fleets_side_by_side_do_not_mix() -> None:
    """Of the same names, at the same time; one without a pod, one without a node."""
    held = Fleet((_node("a", "8"),), (Pod("a", "Job/train", 8, 0, 5 * HOUR, uid="1"),))
    empty, nothing = Fleet((_node("a", "2"),)), Fleet()
    found = costs_of(Config(), [held, empty, nothing])
    assert [(one.node_cost, one.cost, one.node_hours) for one in found] == [(80, 40, 10.0), (20, 0, 10.0), (0, 0, 0.0)]
    assert [one.by_workload for one in found] == [{("default", "default", "Job/train"): 40}, {}, {}]
