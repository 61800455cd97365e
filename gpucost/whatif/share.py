"""Several pods on one GPU: time slicing, MPS or MIG, packed by what was measured."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, scenario_of, stated, today_of
from gpucost.whatif.avoidable import cash_per_hour
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.cost import kept as kept_digits
from gpucost.whatif.flags import GPUS_PER_NODE, HOURS_PER_MONTH, PricePer, node_price
from gpucost.whatif.fleet import PAID_ANYWAY, Fleet, Level, Levels, Node, NodeKey, Pod, Price, Usage, Workload
from gpucost.whatif.gpu_specs import Facts, GpuModel, Profile

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Method(StrEnum):
    """How pods share a GPU."""

    time_slicing = "time-slicing"
    mps = "mps"
    mig = "mig"


_ROUNDING = 1e-9


@record
class PackedPod:
    """What one pod needs of a GPU in [from_ms, to_ms): a share of its activity 0-1 and MiB of its memory, margins included.

    `hours` has the activity of each hour, of all pods to be packed the same hours; None: the same all the time.
    """

    key: str
    activity: float
    memory_mib: float = 0.0
    from_ms: int = 0
    to_ms: int = 1
    hours: NDArray[np.float64] | None = field(default=None, compare=False)


# Whether a GPU can hold all of these at once.
Fits = Callable[[Sequence[PackedPod]], bool]


@dataclass(slots=True)
class SharedPool:
    """A GPU that is shared in [from_ms, to_ms): every item that was on it, and while packing those that still are."""

    from_ms: int
    to_ms: int
    items: list[PackedPod] = field(default_factory=list)
    held: list[PackedPod] = field(default_factory=list)

    def at(self, moment_ms: int) -> list[PackedPod]:
        """The items on it at a moment."""
        return [item for item in self.items if item.from_ms <= moment_ms < item.to_ms]


def slots(*, activity: float, memory_mib: float | None, ways: int) -> Fits:
    """A GPU that `ways` pods may share, up to this activity in each hour and this memory (None: not known, so not looked at)."""
    return lambda items: (
        len(items) <= ways
        and (memory_mib is None or sum(item.memory_mib for item in items) <= memory_mib)
        and _busiest_hour(items) <= activity + _ROUNDING
    )


def _busiest_hour(items: Sequence[PackedPod]) -> float:
    """The highest sum of the pods' activity in one hour."""
    constant = sum(item.activity for item in items if item.hours is None)
    hourly = [item.hours for item in items if item.hours is not None]
    return constant + (float(np.sum(hourly, axis=0).max()) if hourly else 0.0)


def pack(items: Iterable[PackedPod], fits: Fits) -> list[SharedPool]:
    """First fit in order of time, and among those that begin at once the largest first; a GPU is given back once it is empty.

    What fits no empty GPU is left out: ask `fits([item])` before. With items that all last equally long this is first fit
    decreasing, at most 11/9 of the least number of GPUs plus 6/9 (Dósa 2007) where one measure decides.
    """
    done: list[SharedPool] = []
    opened: list[SharedPool] = []
    now: int | None = None
    last: tuple[float, float] | None = None
    first = 0
    for item in sorted(items, key=lambda i: (i.from_ms, -i.activity, -i.memory_mib, i.key)):
        if item.from_ms != now:
            now, last = item.from_ms, None
            for gpu in opened:
                gpu.held = [other for other in gpu.held if other.to_ms > item.from_ms]
            done += [gpu for gpu in opened if not gpu.held]
            opened = [gpu for gpu in opened if gpu.held]
        size = (item.activity, item.memory_mib)
        # meanwhile GPUs only fill up: what did not take the last one of this size takes no other
        first = first if size == last and item.hours is None else 0
        last = size
        while first < len(opened) and not fits([*opened[first].held, item]):
            first += 1
        if first == len(opened):
            if not fits([item]):
                continue
            opened.append(SharedPool(item.from_ms, item.to_ms))
        gpu = opened[first]
        gpu.held.append(item)
        gpu.items.append(item)
        gpu.to_ms = max(gpu.to_ms, item.to_ms)
    return done + opened


def peak(
    items: Iterable[Pod | PackedPod | SharedPool | Node], count: Callable[[Any], float] = lambda _: 1
) -> tuple[float, int]:
    """(most items at one moment, each counting `count`, the first such moment); (0, 0) of none."""
    most: float = 0
    level: float = 0
    at = 0
    for moment, step in sorted(
        event for item in items for event in ((item.from_ms, count(item)), (item.to_ms, -count(item)))
    ):
        level += step
        if level > most:
            most, at = level, moment
    return most, at


def profile_for(model: GpuModel, activity: float, memory_mib: float) -> Profile | None:
    """The smallest profile with this share of the GPU's compute (0-1) and this memory; None where only a whole GPU has it.

    Profiles with media extensions (+me) are left out: one GPU has a single one.
    """
    fitting = [
        profile
        for profile in model.profiles
        if "+" not in profile.name
        and profile.compute_slices < model.mig_slices
        and profile.compute_slices / model.mig_slices >= activity - _ROUNDING
        and (model.memory_mib or 0) * profile.memory_slices / profile.memory_slices_total >= memory_mib
    ]
    return min(fitting, key=lambda p: (p.compute_slices, p.memory_slices), default=None)


def _profiles(model: GpuModel, items: Sequence[PackedPod]) -> Counter[Profile]:
    """How many of which profiles the items need, but for those that need a whole GPU."""
    return Counter(
        profile for item in items if (profile := profile_for(model, item.activity, item.memory_mib))
    )


def layouts(model: GpuModel) -> Fits:
    """Whether a GPU of this model can be cut into the profiles that all of the items need.

    Slices of compute and of memory are counted, and each profile's most per GPU: instances begin where their profile allows
    (NVIDIA MIG user guide, "MIG device profiles"), and with these counts the layouts of every model in the catalog have room.
    """

    def fits(items: Sequence[PackedPod]) -> bool:
        """Whether one GPU takes all of them at once."""
        counts = _profiles(model, items)
        return (
            counts.total() == len(items)
            and sum(profile.compute_slices * count for profile, count in counts.items()) <= model.mig_slices
            and sum(profile.memory_slices * count for profile, count in counts.items())
            <= min((profile.memory_slices_total for profile in counts), default=0)
            and all(count <= profile.max_per_gpu for profile, count in counts.items())
        )

    return fits


def layout_name(model: GpuModel, items: Sequence[PackedPod]) -> str:
    """`2 x 1g.5gb + 1 x 3g.20gb`."""
    counts = sorted((profile.name, count) for profile, count in _profiles(model, items).items())
    return " + ".join(f"{count} x {name}" for name, count in counts)


ISOLATION = {
    Method.time_slicing: "Time slicing keeps nothing apart: pods see the whole GPU's memory, one that takes too much of it "
    "starves the others, and a fault can reach them all.",
    Method.mps: "MPS keeps address spaces apart and can limit memory and threads per pod, but a fault of one can end the others.",
    Method.mig: "MIG keeps compute, memory and faults apart in hardware; changing a layout needs the GPU empty.",
}

TIME = {
    Method.time_slicing: "Pods take turns: while several are busy at once, each is slower by as many as are busy.",
    Method.mps: "Pods run at once and share its units: each is slower while others are busy, by less than with time slicing.",
    Method.mig: "Each pod has the speed of its slice and no more: bursts above it take longer, steady work does not.",
}


@record
class Sizing(OptionGroup):
    """Percentages: `margin` is added to what was measured, `headroom` of the GPU stays free. `ways`: pods on one GPU at most."""

    method: Annotated[Method, Option("How pods share a GPU.", is_shown=True, says="sharing")] = (
        Method.time_slicing
    )
    ways: Annotated[
        int,
        Option(
            "Most pods on one GPU; not for mig. Default: 4.", least=2, most=48, says="pods on one GPU at most", unit="pods"
        ),
    ] = 4  # fmt: skip
    margin_percent: Annotated[
        float,
        Option(
            "Added to what was measured: sharing interferes. Default: 10.", says="added to what is measured", unit="percent"
        ),
    ] = 10.0  # fmt: skip
    headroom_percent: Annotated[
        float,
        Option(
            "Percent of a GPU or slice to keep free. Default: 20.",
            most=90,
            says="kept free",
            unit="percent of a GPU or slice",
        ),
    ] = 20.0

    @property
    def is_mig(self) -> bool:
        return self.method is Method.mig

    @property
    def margin(self) -> float:
        """What needs are multiplied by."""
        return 1 + self.margin_percent / 100

    @property
    def free(self) -> float:
        """The share of a GPU or slice that may be used."""
        return 1 - self.headroom_percent / 100

    @property
    def highest_percent(self) -> float:
        """The activity of a pod above which no two of them share a GPU."""
        return (100 - self.headroom_percent) / 2 / self.margin

    def item(self, key: str, pod: Pod, level: Level, first_hour: int = 0, hours: int = 0) -> PackedPod:
        """What a pod of this level needs: for MIG the headroom is part of the slice, for slots it is part of the GPU.

        Its activity is that of `hours` hours from the epoch hour `first_hour` on, if they are measured.
        """
        needs = (level.high * self.margin, (level.high_memory_mib or 0.0) * self.margin)
        activity, memory = (need / self.free for need in needs) if self.is_mig else needs
        item = PackedPod(key, activity, memory, pod.from_ms, pod.to_ms)
        if not level.hours or self.is_mig:
            return item
        busy = np.zeros(hours)
        at, high = zip(*level.hours, strict=True)
        busy[np.array(at) - first_hour] = high
        return replace(item, hours=busy * self.margin)

    def fits(self, model: GpuModel | None) -> Fits:
        """What a GPU of the model holds; None, a model unknown, has no memory to go by and cannot be cut."""
        if self.is_mig:
            return layouts(model) if model else lambda _: False
        memory = model.memory_mib * self.free if model and model.memory_mib else None
        return slots(activity=self.free, memory_mib=memory, ways=self.ways)

    def part(self, item: PackedPod, model: GpuModel | None) -> float:
        """The share of its GPU that an item is billed: its slice's, or one slot's."""
        if not self.is_mig or model is None:
            return 1 / self.ways
        profile = profile_for(model, item.activity, item.memory_mib)
        return profile.compute_slices / model.mig_slices if profile else 1.0


@record
class DescribedPods(OptionGroup):
    """Pods that options describe, all equally busy, on GPUs of one price."""

    pods: Annotated[
        int | None, Option("Pods, all alike.", least=1, most=100_000, says="pods", unit="pods")
    ] = None
    utilization_percent: Annotated[
        float | None,
        Option("How busy each pod keeps a GPU.", most=100, says="each pod's GPUs are busy", unit="percent"),
    ] = None
    gpus_per_pod: Annotated[
        int, Option("GPUs of each pod. Default: 1.", least=1, says="GPUs of a pod", unit="GPUs")
    ] = 1
    memory_per_pod_mib: Annotated[
        float | None,
        Option("Memory that each pod fills of a GPU.", above=True, says="memory of a pod", unit="MiB"),
    ] = None
    gpu_model: Annotated[
        str | None, Option("The GPUs, in any spelling: their memory and MIG profiles.", "NAME")
    ] = None
    on_demand_price: flags.OnDemandPrice | None = None
    price_per: flags.Per = PricePer.node
    gpus: flags.Gpus = GPUS_PER_NODE
    hours: flags.Hours = HOURS_PER_MONTH


class _Pool(NamedTuple):
    """GPUs that may be shared among each other, of a team or of all (""), and what is known of their model.

    `pods` by the keys of what is packed on `gpus`.
    """

    cluster: str
    model: str
    capacity_type: str
    team: str
    known: GpuModel | None
    gpus: list[SharedPool]
    pods: dict[str, Pod]


def answer(
    usage: Usage, sizing: Sizing, levels: Levels, facts: Facts, *, across_teams: bool = False
) -> Answer:
    """Pods of one whole GPU each, packed by what they use in the same hours, in the order in which they came.

    `across_teams`: pods of several teams may meet on one GPU. Raises GpucostError if no pod was measured.
    """
    fleet = usage.fleet
    if not any(pod.key in levels for pod in fleet.pods):
        raise GpucostError(
            f"no GPU of {usage.scope_name} was measured in {usage.period_name}",
            "gpucost doctor says whether dcgm-exporter labels GPUs with their pods",
        )
    has_memory = any(level.high_memory_mib is not None for level in levels.values())
    kept = _reasons(usage, levels, needs_memory=has_memory)
    candidates = [pod for pod in fleet.pods if pod not in kept]
    pools = _pools(sizing, candidates, levels, fleet, facts, across_teams=across_teams)
    moved = [pod for pool in pools for pod in pool.pods.values()]
    rest, shared = (
        fleet.without(moved),
        sum((_shared_fleet(pool, sizing, fleet.by_name) for pool in pools), Fleet()),
    )
    today_costs, rest_costs, shared_costs = map(fleet_costs, (fleet, rest, shared))
    today = today_of(usage, today_costs, is_held=True)
    left = Position.of(rest_costs, usage.currency, rest)
    scenario = scenario_of(usage, today, today_costs.cost, left + Position.of(shared_costs, usage.currency))
    less = today.cost - scenario.cost
    cash = less if usage.is_described else min(less, _cash(usage, moved, pools))
    held, gpus = peak(moved or candidates)[0], [gpu for pool in pools for gpu in pool.gpus]
    needed = peak(gpus)[0] if moved else held
    models = {pool.model: pool.known for pool in sorted(pools, key=lambda pool: pool.model) if pool.known}
    return Answer(
        kind="share",
        title=f"Shared GPUs for {usage.scope_name}",
        period=usage.period_name,
        today=today,
        scenario=replace(scenario, cost=today.cost - cash),
        figures={
            "cash_saving": cash,
            "freed_capacity_cost": round(less - cash, 9),
            "gpus_today": held,
            "gpus_needed": needed,
            "gpus_saved_percent": round((held - needed) / held * 100, 6) if held else None,
            "pods_shared": len({pod.key for pod in moved}),
            "pods_per_gpu": max((peak(gpu.items)[0] for gpu in gpus), default=1),
            "break_even_utilization_percent": None if sizing.is_mig else round(sizing.highest_percent, 6),
            "memory_measured": has_memory,
            "isolation": ISOLATION[sizing.method],
        },
        assumptions=_assumptions(usage, sizing, models.values()),
        break_even=(
            "Nothing is saved once a pod needs so much that no second slice of its kind fits the GPU."
            if sizing.is_mig
            else f"Two pods no longer share a GPU once each is busier than {sizing.highest_percent:.1f} % in the same hour.",
        ),
        time=(TIME[sizing.method],),
        findings=tuple(_findings(usage, sizing, has_memory, less - cash, shares=bool(moved))),
        tables=(*_tables(pools, sizing), *_pod_table(usage, pools, kept, levels)),
    )


def _reasons(usage: Usage, levels: Levels, *, needs_memory: bool) -> dict[Pod, str]:
    """The pods that keep their GPUs as they are, and why."""
    nodes = usage.fleet.by_name
    kept: dict[Pod, str] = {}
    for pod in usage.fleet.pods:
        level, node = levels.get(pod.key), nodes[pod.place]
        if pod.gpus > 1 + 1e-6:
            kept[pod] = f"holds {pod.gpus:g} GPUs"
        elif pod.gpus < 1 - 1e-6:
            kept[pod] = "shares its GPU already"
        elif level is None:
            kept[pod] = "not measured"
        elif node.capacity_type in PAID_ANYWAY:
            kept[pod] = "on reserved capacity, which is paid in any case"
        elif needs_memory and level.high_memory_mib is None:
            kept[pod] = "its memory is not measured"
    return kept


def _cash(usage: Usage, moved: Sequence[Pod], pools: Sequence[_Pool]) -> Decimal:
    """What leaves the bill: nodes that only moved pods hold, less those that the shared GPUs fill."""
    going = set(moved)
    stay = {pod.place for pod in (*usage.fleet.pods, *usage.others) if pod not in going}
    nodes = usage.fleet.by_name
    groups: dict[tuple[str, str | None, str, float], list[tuple[int, float, float]]] = defaultdict(list)
    prices: dict[tuple[str, str | None, str, float], Decimal] = {}

    def group(node: Node) -> tuple[str, str | None, str, float]:
        return node.cluster, node.instance_type, node.capacity_type, node.gpus

    for place in {pod.place for pod in moved} - stay:
        node = nodes[place]
        groups[group(node)] += [(node.from_ms, 1.0, 0.0), (node.to_ms, -1.0, 0.0)]
        cash = min((cash_per_hour(node, price) for price in node.prices), default=Decimal(0))
        prices[group(node)] = min(cash, prices.get(group(node), cash))
    for pool in pools:
        for gpu in pool.gpus:
            kind = group(nodes[pool.pods[gpu.items[0].key].place])
            groups[kind] += [(gpu.from_ms, 0.0, 1.0), (gpu.to_ms, 0.0, -1.0)]
    saved = Decimal(0)
    for kind, events in groups.items():
        empty = needed = node_ms = 0.0
        for (at, node_step, gpu_step), (until, _, _) in pairwise(sorted(events)):
            empty, needed = empty + node_step, needed + gpu_step
            node_ms += max(0.0, empty - math.ceil(needed / kind[3] - _ROUNDING)) * (until - at)
        saved += prices.get(kind, Decimal(0)) * Decimal(repr(node_ms)) / MS_PER_HOUR
    return kept_digits(saved)


def _findings(
    usage: Usage, sizing: Sizing, has_memory: bool, freed: Decimal, *, shares: bool
) -> Iterator[str]:
    yield ISOLATION[sizing.method]
    if not has_memory:
        yield (
            "Memory is not given: this goes by utilization alone. --memory-per-pod-mib and --gpu-model count it."
            if usage.is_described
            else "Memory is not in the store (DCGM_FI_DEV_FB_USED): this goes by utilization alone, and pods that fit by it may "
            "not fit the GPU's memory."
        )
    if not shares:
        yield "With the margins no pod with a GPU of its own leaves room for another: each keeps its own."
    if freed:
        yield (
            f"GPUs worth {freed:,.2f} {usage.currency} would be free on nodes that stay: capacity for other work, no money that "
            "leaves the bill."
        )
    if usage.is_described and not all(node.is_priced for node in usage.fleet.nodes):
        yield "No price was given: --on-demand-price 3 --price-per gpu turns GPUs into money."


def _assumptions(usage: Usage, sizing: Sizing, models: Iterable[GpuModel]) -> tuple[Assumption, ...]:
    of_store = (
        Assumption("activity of a pod", "highest 5-minute mean of each hour, added up by hour", "", "store"),
        Assumption("memory of a pod", "its maximum", "", "store"),
        Assumption("usage and prices", usage.period_name, "", "store"),
    )
    names = ("method", "margin_percent", "headroom_percent", *(() if sizing.is_mig else ("ways",)))
    memory = (
        Assumption(f"memory of {model.name}", model.memory_mib, "MiB", "catalog", model.as_of)
        for model in models
    )
    return (*stated(sizing, *names), *(usage.assumptions or of_store), *memory)


def described(sizing: Sizing, pods: DescribedPods, facts: Facts, currency: str) -> tuple[Usage, Levels]:
    """The fleet that options describe, one pod per GPU, all equally busy.

    How GPUs lie on nodes does not matter to what they cost: all are on one. Raises UsageError where options do not say enough,
    a model is not known, or its memory is too small.
    """
    if pods.pods is None or pods.utilization_percent is None:
        raise UsageError(
            f"{'how many pods share GPUs' if pods.pods is None else 'how busy the pods are'} is not told",
            "--pods 40 --utilization-percent 15 tells both",
        )
    model, filled = (
        facts.model(pods.gpu_model) if pods.gpu_model is not None else None,
        pods.memory_per_pod_mib,
    )
    if sizing.is_mig and (model is None or not model.profiles):
        raise UsageError(
            "MIG needs a GPU model that can be cut"
            if model is None
            else f"{model.name} cannot be cut into MIG slices",
            "--gpu-model A100-SXM4-40GB names one",
        )
    if filled is not None and (model is None or model.memory_mib is None):
        raise UsageError("how much memory a GPU has is not told", "--gpu-model names the GPUs")
    if model and model.memory_mib and filled and filled * sizing.margin > model.memory_mib:
        raise UsageError(
            f"{filled:g} MiB and the margin do not fit the {model.memory_mib:,} MiB of {model.name}",
            "a GPU with more memory is needed first: gpucost whatif rightsize",
        )
    assumptions = stated(pods, "pods", "utilization_percent", "gpus_per_pod", "hours", "memory_per_pod_mib")
    price, count = Price(Decimal(0), "none"), pods.pods * pods.gpus_per_pod
    if pods.on_demand_price is not None:
        per_node = node_price(pods.on_demand_price, pods.price_per, pods.gpus)
        price = Price(round(per_node / pods.gpus * count, 12), "option")
        assumptions.append(Assumption("price", pods.on_demand_price, f"per {pods.price_per}-hour", "option"))
    end = round(pods.hours * MS_PER_HOUR)
    node = Node("node", count, 0, end, (price,), gpu_model=model.name if model else None)
    pod = Pod("node", "pods", 1, 0, end)
    fleet = Fleet(
        (node,), tuple(replace(pod, uid=str(number // pods.gpus_per_pod)) for number in range(count))
    )
    busy = pods.utilization_percent / 100
    level = Level(1, 1, 0, busy, busy, filled)
    usage = Usage(
        fleet, currency, f"{pods.hours:g} hours", f"{pods.pods} pods", assumptions=tuple(assumptions)
    )
    return usage, {pod.key: level for pod in fleet.pods}


def _most_memory(pods: Iterable[Pod], levels: Levels) -> dict[Workload, float]:
    """The most memory that any pod of a workload held."""
    most: dict[Workload, float] = defaultdict(float)
    for pod in pods:
        if level := levels.get(pod.key):
            most[pod.owner] = max(most[pod.owner], level.high_memory_mib or 0.0)
    return most


def _pools(
    sizing: Sizing,
    candidates: Sequence[Pod],
    levels: Levels,
    fleet: Fleet,
    facts: Facts,
    *,
    across_teams: bool,
) -> list[_Pool]:
    """The candidates that share GPUs, packed, of each place alone; pods that would be alone on a GPU are left out."""
    by_place: dict[tuple[str, str, str, str], list[Pod]] = defaultdict(list)
    nodes, memory = fleet.by_name, _most_memory(fleet.pods, levels)
    for pod in candidates:
        node = nodes[pod.place]
        team = "" if across_teams else pod.team
        by_place[pod.cluster, node.gpu_model or "", node.capacity_type, team].append(pod)
    measured = [hour for pod in candidates for hour, _ in levels[pod.key].hours]
    first, hours = (min(measured), max(measured) - min(measured) + 1) if measured else (0, 0)
    pools = []
    for place, pods in sorted(by_place.items()):
        model = facts.models.get(place[1])
        fits = sizing.fits(model)
        packed: dict[str, tuple[Pod, PackedPod]] = {}
        for number, pod in enumerate(pods):
            level = levels[pod.key]
            if level.high_memory_mib is not None:
                level = replace(level, high_memory_mib=memory[pod.owner])
            item = sizing.item(str(number), pod, level, first, hours)
            # a slice pays if two of them fit a GPU; a slot if another pod is on it
            if fits([item, item]) if sizing.is_mig else fits([item]):
                packed[item.key] = pod, item
        gpus = pack((item for _, item in packed.values()), fits)
        if not sizing.is_mig:
            gpus = [gpu for gpu in gpus if len(gpu.items) > 1]
        if gpus:
            shared = {item.key: packed[item.key][0] for gpu in gpus for item in gpu.items}
            pools.append(_Pool(*place, model, gpus, shared))
    return pools


def _pod_table(
    usage: Usage, pools: Sequence[_Pool], kept: Mapping[Pod, str], levels: Levels
) -> tuple[Rows, ...]:
    """Every pod with what becomes of it; pods of a workload that fare alike are one line."""
    if usage.is_described:
        return ()
    fates: dict[Pod, str] = dict(kept)
    for pool in pools:
        for gpu in pool.gpus:
            most = peak(gpu.items)[0]
            for item in gpu.items:
                fates[pool.pods[item.key]] = f"shares a GPU, {most:g} pods at most"
    alike: dict[tuple[str, str, str], list[Pod]] = defaultdict(list)
    for pod in usage.fleet.pods:
        fate = fates.get(pod, "keeps its GPU: no other pod fits next to it")
        alike[pod.namespace, pod.workload, fate].append(pod)
    lines: list[Line] = []
    for (namespace, workload, fate), pods in sorted(alike.items()):
        known = [levels[pod.key] for pod in pods if pod.key in levels]
        busy = max((level.high for level in known), default=None)
        memory = max((level.high_memory_mib or 0.0 for level in known), default=0.0)
        percent = None if busy is None else round(busy * 100, 1)
        lines.append((namespace, workload, len(pods), percent, round(memory, 1) or None, fate))
    columns = ("namespace", "workload", "pods", "busiest_percent", "memory_mib", "what becomes of it")
    return Rows.of("Pods", columns, lines)


def _shared_fleet(pool: _Pool, sizing: Sizing, nodes: Mapping[NodeKey, Node]) -> Fleet:
    """Each shared GPU as a node of its own, at its share of the price of the node that its first pod really was on."""
    shared, pods = [], []
    for number, gpu in enumerate(pool.gpus):
        first = pool.pods[gpu.items[0].key]
        node = nodes[first.place]
        name = f"shared/{pool.model}/{pool.capacity_type}/{pool.team}/{number}"
        # the first price is since ever: a shared GPU may be older than the node whose price it takes
        prices = tuple(
            replace(
                each,
                per_node_hour=round(each.per_node_hour / round(node.gpus), 12),
                from_ms=each.from_ms if step else None,
            )
            for step, each in enumerate(node.prices)
        )
        shared.append(replace(node, name=name, gpus=1.0, from_ms=gpu.from_ms, to_ms=gpu.to_ms, prices=prices))
        pods += [
            replace(pool.pods[item.key], node=name, gpus=sizing.part(item, pool.known)) for item in gpu.items
        ]
    return Fleet(tuple(shared), tuple(pods))


def _tables(pools: Sequence[_Pool], sizing: Sizing) -> tuple[Rows, ...]:
    """Each pool's GPUs at its busiest moment, and what lies on them then: GPUs that hold the same are one line."""
    summary: list[Line] = []
    alike: Counter[Line] = Counter()
    for pool in pools:
        before, _ = peak(pool.pods.values())
        after, at = peak(pool.gpus)
        summary.append(
            (
                pool.team or "all teams",
                pool.model or "unknown",
                pool.capacity_type,
                len(pool.pods),
                before,
                after,
            )
        )
        for items in (gpu.at(at) for gpu in pool.gpus if gpu.from_ms <= at < gpu.to_ms):
            alike[
                f"{pool.team or pool.cluster} {pool.model}".strip(),
                layout_name(pool.known, items) if pool.known and sizing.is_mig else f"{len(items)} pods",
                round(sum(item.activity for item in items) * 100, 1),
                round(sum(item.memory_mib for item in items), 1) or None,
                ", ".join(sorted({pool.pods[item.key].workload for item in items})),
            ] += 1
    columns = ("pool", "gpu_model", "capacity_type", "pods", "gpus_today", "gpus_needed")
    return (
        *Rows.of("GPUs at the busiest moment", columns, summary),
        *Rows.top(
            "A packing that fits, at that moment",
            ("pool", "gpus", "layout", "busy_percent_with_margin", "memory_mib_with_margin", "workloads"),
            [(pool_name, count, *line) for (pool_name, *line), count in alike.items()],
            "{} more.",
        ),
    )
