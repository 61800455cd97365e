"""What described fleets cost: the attribution stages run on them, in memory. No second cost formula exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost import attribute as attribution
from gpucost import inventory, price
from gpucost.model import MS_PER_HOUR
from gpucost.whatif.fleet import Costs, Fleet

if TYPE_CHECKING:
    from gpucost.config import Config


def cost_of(config: Config, fleet: Fleet) -> Costs:
    """What one fleet costs."""
    return costs_of(config, [fleet])[0]


def costs_of(config: Config, fleets: Sequence[Fleet]) -> list[Costs]:
    """What each of the fleets costs, in order."""
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
    from gpucost.store.fleets import cluster_costs, put_fleet, workload_costs
    from gpucost.store.scratch import scratch_store
    from gpucost.whatif.tables import tables

    together = Fleet()
    for number, fleet in enumerate(fleets):
        together += Fleet(
            tuple(replace(node, cluster=f"{number}/{node.cluster}") for node in fleet.nodes),
            tuple(replace(pod, cluster=f"{number}/{pod.cluster}") for pod in fleet.pods),
        )
    with scratch_store() as con:
        # On an empty store inventory finds nothing, and leaves the tables that attribution reads.
        inventory.stage(con, config)
        put_fleet(con, tables(together))
        # their prices are their own; a cost basis asks for the table
        price.load_price_list(con, ())
        attribution.stage(con, config.tz, everything=True)
        totals, rows = cluster_costs(con), workload_costs(con)
    sums: list[list[Any]] = [[Decimal(0)] * 3 + [0] * 3 for _ in fleets]
    for cluster, *figures in totals:
        number = int(cluster.partition("/")[0])
        sums[number] = [before + more for before, more in zip(sums[number], figures, strict=True)]
    found = [Costs(*one[:3], *(round(ms / MS_PER_HOUR, 9) for ms in one[3:])) for one in sums]
    for team, cluster, namespace, workload, amount in rows:
        first, _, own = cluster.partition("/")
        of = found[int(first)]
        of.by_team[team] = of.by_team.get(team, Decimal(0)) + amount
        key = (own, namespace, workload)
        of.by_workload[key] = of.by_workload.get(key, Decimal(0)) + amount
    return found
