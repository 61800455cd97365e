"""What moves to spot: the options, the nodes that can move at their prices there, and how they are interrupted."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, NamedTuple

from gpucost.errors import GpucostError, UsageError
from gpucost.options import RARE, Option, OptionGroup
from gpucost.periods import merge
from gpucost.records import grouped, record
from gpucost.whatif.answer import Assumption, stated
from gpucost.whatif.cost import NO_TIME
from gpucost.whatif.flags import START_MINUTES, START_SOURCE
from gpucost.whatif.fleet import Fleet, Node, NodeKey, Pod, Usage, Workload
from gpucost.whatif.spot.formulas import Work
from gpucost.whatif.spot.interruptions import Place, Rate
from gpucost.whatif.spot.market import Market

if TYPE_CHECKING:
    from gpucost.config.model import Config

_REPLICAS = re.compile(r"(deployment|replicaset|statefulset|daemonset|inferenceservice)/", re.IGNORECASE)


def gangs(fleet: Fleet) -> dict[Workload, int]:
    """The most nodes that each workload held at one moment; 1 for replicas, which don't need each other."""
    spans = grouped(((pod.owner, pod.node), (pod.from_ms, pod.to_ms)) for pod in fleet.pods)
    changes: dict[Workload, list[tuple[int, int]]] = defaultdict(list)
    for (owner, _), on_node in spans.items():
        for start, end in merge(on_node):
            changes[owner] += [(start, 1), (end, -1)]
    most = {}
    for owner, steps in changes.items():
        levels = accumulate(step for _, step in sorted(steps))
        most[owner] = 1 if _REPLICAS.match(owner[2]) else max(levels)
    return most


def base_name(workload: str) -> str:
    """`Job/sweep-12` and `Job/sweep-13` are runs of `Job/sweep-*`."""
    return re.sub(r"[-_.]\d+$", "-*", workload)


# Seconds from the notice to the interruption, by provider, and where that is written.
NOTICES = {
    "aws": (120.0, "EC2 User Guide, Spot Instance interruption notices: two minutes, best effort"),
    "gcp": (30.0, "Compute Engine API, Scheduling.skipGuestOsShutdown: 30 seconds for Spot VMs"),
    "azure": (30.0, "Azure Scheduled Events: Preempt, 30 seconds"),
}


@record
class SpotOptions(OptionGroup):
    """Assumptions about work on spot, and what is asked of it; `given` names the options that are no defaults."""

    checkpoint_minutes: Annotated[
        float,
        Option(
            "Work between two checkpoints. Default: 30.",
            above=True,
            says="checkpoint interval",
            unit="minutes",
        ),
    ] = 30.0
    checkpoint_write_minutes: Annotated[
        float,
        Option(
            "What writing a checkpoint takes. Default: 2.5.",
            says="writing a checkpoint", unit="minutes",
            source="default: 148.8 s of a 7B model, pytorch.org/blog/reducing-checkpointing-times",
        ),
    ] = 2.5  # fmt: skip
    restart_minutes: Annotated[
        float,
        Option(
            "From an interruption until work goes on: provision, pull the image, load. Default: 12.",
            says="restart (provision, pull, load)", unit="minutes", source=START_SOURCE,
        ),
    ] = START_MINUTES  # fmt: skip
    notice_seconds: Annotated[
        float | None,
        Option(
            "Notice of an interruption; a checkpoint that fits it saves the work. Default: 120 on AWS, else 30.", panel=RARE,
        ),
    ] = None  # fmt: skip
    capacity_wait_minutes: Annotated[
        float,
        Option(
            "Wait for capacity after an interruption: time, not paid. Default: 96.",
            says="wait for capacity (time, not paid)", unit="minutes",
            source="default: mean of 3,407 waits for K80 and V100 in one zone, skypilot-org/spot-traces availability/1-node",
        ),
    ] = 96.0  # fmt: skip
    on_demand_share: Annotated[
        float,
        Option("Part of the nodes that stays on demand, and goes on. Default: 0.", most=1),
    ] = 0.0  # fmt: skip

    def work(self, per_hour: float, hits: float = 1.0, provider: str | None = None) -> Work:
        """The same in hours, of work that stops `hits` times as often as one node."""
        checkpoint, write = self.checkpoint_minutes / 60, self.checkpoint_write_minutes / 60
        notice = self.notice(provider)[0] / 3600
        return Work(per_hour, checkpoint, write, self.restart_minutes / 60, notice, hits)

    def hits(self, nodes: int) -> float:
        """How often a gang of `nodes` stops per interruption of one: √n, as interruptions come together.

        Any of 4 nodes was hit 1.1 to 2.0 times as often as one (skypilot-org/spot-traces, preemption). With anchors on demand the
        rest of the gang goes on.
        """
        return 1.0 if self.on_demand_share else math.sqrt(nodes)

    def notice(self, provider: str | None) -> tuple[float, str]:
        """Seconds between notice and interruption, and where they are known from."""
        if self.notice_seconds is not None:
            return self.notice_seconds, "option"
        seconds, source = NOTICES.get(provider or "", (30.0, "the shortest of AWS, Google Cloud and Azure"))
        return seconds, f"default: {source}"

    def assumptions(self, providers: Iterable[str | None]) -> Iterator[Assumption]:
        """All but the rate, each with where it comes from."""
        yield from stated(self)
        for seconds, source in dict.fromkeys(map(self.notice, providers)):
            yield Assumption("notice of an interruption", seconds, "seconds", source)
        if self.on_demand_share:
            yield Assumption("kept on demand", self.on_demand_share, "of the nodes", "option")


def rate_assumption(rate: Rate, name: str = "interruptions") -> Assumption:
    """The rate as an assumption."""
    return Assumption(name, rate.per_hour, "per node-hour", rate.source, rate.as_of)


class SpotQuery(NamedTuple):
    """Whose usage, at which prices and rates of interruptions.

    The `times` nodes that a described one stands for need each other.
    """

    usage: Usage
    market: Market
    config: Config
    options: SpotOptions = SpotOptions()


@record
class Moved:
    """A node that can move: as it is and there, before interruptions are counted, and the node-hours by who holds it.

    Nobody (None) holds what is free of a node all of which is asked for.
    """

    node: Node
    there: Node
    pods: tuple[Pod, ...]
    rate: Rate
    hours: dict[Workload | None, float]

    @property
    def name(self) -> str:
        return self.node.instance_type or "nodes"


Moves = dict[NodeKey, Moved]


def movable(question: SpotQuery) -> tuple[Moves, Counter[str]]:
    """Nodes that can move, and why how many others do not."""
    if question.options.on_demand_share >= 1:
        raise UsageError(
            "--on-demand-share 1 keeps everything on demand: nothing would move",
            "give a part of 1, such as 0.3",
        )
    usage = question.usage
    pods_on = grouped((pod.place, pod) for pod in usage.fleet.pods)
    rate_of = cache(question.market.rate)
    moved: Moves = {}
    stays: Counter[str] = Counter()
    for node in usage.fleet.nodes:
        name = node.instance_type or "nodes without an instance type"
        if node.capacity_type == "unknown":
            stays["how they are bought is not known"] += 1
        elif node.capacity_type != "on_demand":
            stays[f"bought as {node.capacity_type.replace('_', ' ')}"] += 1
        elif any(price.is_committed for price in node.prices):
            stays["under a commitment, which is paid in any case"] += 1
        elif not node.is_priced:
            stays[f"what {name} cost now is not known"] += 1
        elif not (there := question.market.there(node)):
            stays[f"no spot price is known of {name}"] += 1
        else:
            pods = tuple(pods_on[node.key])
            rate = rate_of(Place(node.instance_type or "", node.provider, node.region))
            moved[node.key] = Moved(node, there, pods, rate, _hours(usage, node, pods))
    if not moved:
        raise GpucostError(
            f"no on-demand usage of {usage.scope_name} in {usage.period_name} can be moved: "
            + "; ".join(f"{count} node(s): {why}" for why, count in stays.items()),
            "--spot-price gives a price; --month names another period",
        )
    return moved, stays


def _hours(usage: Usage, node: Node, pods: Iterable[Pod]) -> dict[Workload | None, float]:
    """Node-hours by workload, and those that are free (None) unless they are others'."""
    held: dict[Workload | None, float] = defaultdict(float)
    for pod in pods:
        held[pod.owner] += pod.gpu_ms
    free = node.gpus * node.length_ms - sum(held.values())
    if free >= NO_TIME and not usage.is_narrowed:
        held[None] = free
    whole = max(node.gpus * node.length_ms, sum(held.values()))
    return {owner: time * (node.hours * usage.times / whole) for owner, time in held.items()}
