"""Options of spot, and the nodes that can move with their spot prices and interruptions."""

import math
from collections import Counter
from functools import cache
from typing import Annotated, NamedTuple

from gpucost.config.model import Config
from gpucost.options import Option, OptionGroup
from gpucost.records import frozen_dataclass, grouped
from gpucost.whatif.answer import Assumption
from gpucost.whatif.avoidable import why_paid
from gpucost.whatif.flags import START_MINUTES, START_SOURCE
from gpucost.whatif.fleet import Node, Pod, Usage
from gpucost.whatif.spot.formulas import Work
from gpucost.whatif.spot.interruptions import Place, Rate
from gpucost.whatif.spot.market import Market


@frozen_dataclass
class SpotOptions(OptionGroup):
    """Assumptions about work on spot; `explicit_options` names the options that are not defaults."""

    checkpoint_minutes: Annotated[
        float,
        Option(
            "Time between two checkpoints. Default: 30.",
            above=True,
            label="checkpoint interval",
            unit="minutes",
        ),
    ] = 30.0
    checkpoint_write_minutes: Annotated[
        float,
        Option(
            "Time to write a checkpoint. Default: 2.5.",
            label="writing a checkpoint", unit="minutes",
            source="default: 148.8 s of a 7B model, pytorch.org/blog/reducing-checkpointing-times",
        ),
    ] = 2.5  # fmt: skip
    restart_minutes: Annotated[
        float,
        Option(
            "Time from an interruption until work continues: provision, pull the image, load. Default: 12.",
            label="restart (provision, pull, load)", unit="minutes", source=START_SOURCE,
        ),
    ] = START_MINUTES  # fmt: skip
    capacity_wait_minutes: Annotated[
        float,
        Option(
            "Unpaid wait for capacity after an interruption. Default: 96.",
            label="wait for capacity (unpaid)", unit="minutes",
            source="default: mean of 3,407 waits for K80 and V100 in one zone, skypilot-org/spot-traces availability/1-node",
        ),
    ] = 96.0  # fmt: skip
    on_demand_share: Annotated[
        float,
        Option(
            "Share of nodes, 0 to 1, that stay on demand and keep running. Default: 0.",
            most=1,
            label="kept on demand",
            unit="of the nodes",
        ),
    ] = 0.0

    def work(self, per_hour: float, hits: float = 1.0) -> Work:
        """The same in hours, for work that stops `hits` times as often as one node."""
        checkpoint, write = self.checkpoint_minutes / 60, self.checkpoint_write_minutes / 60
        return Work(per_hour, checkpoint, write, self.restart_minutes / 60, hits)

    def hits(self, nodes: int) -> float:
        """How often a gang of `nodes` stops per interruption of one node: √n, as interruptions come together.

        Any of 4 nodes was hit 1.1 to 2.0 times as often as one (skypilot-org/spot-traces, preemption). With anchors on demand the
        rest of the gang continues.
        """
        return 1.0 if self.on_demand_share else math.sqrt(nodes)


def rate_assumption(rate: Rate, name: str = "interruptions") -> Assumption:
    """The rate as an assumption."""
    return Assumption(name, rate.per_hour, "per node-hour", rate.source, rate.as_of)


class SpotQuery(NamedTuple):
    """The usage, its prices on spot and rates of interruptions. All nodes that options describe are one gang."""

    usage: Usage
    market: Market
    config: Config
    options: SpotOptions = SpotOptions()


@frozen_dataclass
class Moved:
    """A node that can move: as it is, at its prices on spot, its pods, and how often it is interrupted."""

    node: Node
    there: Node
    pods: tuple[Pod, ...]
    rate: Rate

    @property
    def name(self) -> str:
        """The instance type, for assumptions and titles."""
        return self.node.instance_type or "nodes"


Moves = list[Moved]


def movable(question: SpotQuery) -> tuple[Moves, Counter[str]]:
    """Nodes that can move, and how many others stay for which reason."""
    usage, market = question.usage, question.market
    pods_on = grouped((pod.place, pod) for pod in usage.fleet.pods)
    rate_of = cache(market.rate)
    moved = []
    stays: Counter[str] = Counter()
    for node in usage.fleet.nodes:
        name = node.instance_type or "nodes without an instance type"
        if node.capacity_type != "on_demand":
            stays[f"their capacity type is {node.capacity_type.replace('_', ' ')}"] += 1
        elif not usage.is_described and (why := why_paid(node)):
            stays[why] += 1
        elif not node.is_priced:
            stays[f"the price of {name} is unknown"] += 1
        elif not (there := market.there(node)):
            stays[f"the spot price of {name} is unknown"] += 1
        else:
            place = Place(node.instance_type or "", node.provider, node.region)
            moved.append(Moved(node, there, tuple(pods_on[node.key]), rate_of(place)))
    return moved, stays
