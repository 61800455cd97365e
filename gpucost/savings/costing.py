"""Many what-ifs at the price of few: the fleets that they ask for are costed by one run of the attribution stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost import attribute as attribution
from gpucost import inventory
from gpucost.errors import GpucostError
from gpucost.findings import Question
from gpucost.model import MS_PER_HOUR
from gpucost.whatif.fleet import Costs, Fleet

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.savings.asking import Ask
    from gpucost.whatif.answer import Answer

# A what-if asks for a few fleets, and for a few more once it has seen what those cost.
_ROUNDS = 8


def answered(config: Config, asks: Mapping[Question, Ask]) -> dict[Question, Answer]:
    """The answers of all what-ifs that have one.

    A what-if says the same whenever it is asked: each is asked with what is known so far (what is not known costs nothing),
    and once more when the fleets that it wanted to know of are costed, until it wants none.
    """
    known: dict[Fleet, Costs] = {}
    answers: dict[Question, Answer] = {}
    open_questions = dict(asks)
    for _ in range(_ROUNDS):
        wanted: dict[Fleet, None] = {}
        for question, ask in list(open_questions.items()):
            missing: list[Fleet] = []
            try:
                answer = ask(_Known(known, missing))
            except (GpucostError, ArithmeticError):
                # what does not know its costs yet may stumble over zeros; what knows them has no answer
                if not missing:
                    del open_questions[question]
            else:
                if not missing:
                    answers[question] = answer
                    del open_questions[question]
            wanted |= dict.fromkeys(missing)
        if not wanted:
            break
        known |= zip(wanted, costs_of(config, list(wanted)), strict=True)
    return answers


class _Known:
    """A CostOf that notes what it does not know."""

    def __init__(self, known: Mapping[Fleet, Costs], missing: list[Fleet]) -> None:
        self._known, self._missing = known, missing

    def __call__(self, fleet: Fleet) -> Costs:
        if (costs := self._known.get(fleet)) is not None:
            return costs
        self._missing.append(fleet)
        nothing = Decimal(0)
        return Costs(nothing, nothing, nothing, 0.0, 0.0, 0.0, by_team=defaultdict(Decimal), by_workload=defaultdict(Decimal))


def costs_of(config: Config, fleets: Sequence[Fleet]) -> list[Costs]:
    """What each of the fleets costs, in order, as pipeline.cost_of says of one."""
    found: dict[int, Costs] = {}
    for numbers in _at_one_time(fleets):
        found |= zip(numbers, _costs_together(config, [fleets[number] for number in numbers]), strict=True)
    return [found[number] for number in range(len(fleets))]


def _at_one_time(fleets: Sequence[Fleet]) -> list[list[int]]:
    """Fleets whose times meet, as positions: the stages walk through all days between the first and the last."""
    spans = sorted(
        (min((n.from_ms for n in fleet.nodes), default=0), max((n.to_ms for n in fleet.nodes), default=0), number)
        for number, fleet in enumerate(fleets)
    )
    groups: list[list[int]] = []
    until = 0
    for begin, end, number in spans:
        if groups and begin <= until:
            groups[-1].append(number)
            until = max(until, end)
        else:
            groups.append([number])
            until = end
    return groups


def _costs_together(config: Config, fleets: Sequence[Fleet]) -> list[Costs]:
    """The fleets stand side by side, in clusters of their own."""
    from gpucost.store.fleets import cluster_costs, fleet_costs, put_fleet
    from gpucost.store.scratch import scratch_store
    from gpucost.whatif.tables import tables

    together = Fleet()
    for number, fleet in enumerate(fleets):
        together += Fleet(
            tuple(replace(node, cluster=f"{number}/{node.cluster}") for node in fleet.nodes),
            tuple(replace(pod, cluster=f"{number}/{pod.cluster}") for pod in fleet.pods),
        )
    with scratch_store() as con:
        inventory.stage(con, config)
        put_fleet(con, tables(together))
        attribution.stage(con, config.tz, everything=True)
        totals, (_, rows) = cluster_costs(con), fleet_costs(con)
    found = [Costs(Decimal(0), Decimal(0), Decimal(0), 0.0, 0.0, 0.0) for _ in fleets]
    for cluster, node_cost, cost, unallocated, offered_ms, held_ms, node_ms in totals:
        number = int(cluster.partition("/")[0])
        before = found[number]
        found[number] = replace(
            before,
            node_cost=before.node_cost + node_cost,
            cost=before.cost + cost,
            unallocated_cost=before.unallocated_cost + unallocated,
            gpu_hours=round(before.gpu_hours + offered_ms / MS_PER_HOUR, 9),
            allocated_gpu_hours=round(before.allocated_gpu_hours + held_ms / MS_PER_HOUR, 9),
            node_hours=round(before.node_hours + node_ms / MS_PER_HOUR, 9),
        )
    for team, cluster, namespace, workload, amount in rows:
        first, _, own = cluster.partition("/")
        of = found[int(first)]
        of.by_team[team] = of.by_team.get(team, Decimal(0)) + amount
        of.by_workload[own, namespace, workload] = amount
    return found
