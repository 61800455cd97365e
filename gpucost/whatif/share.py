"""Several pods on one GPU: time slicing, MPS or MIG, packed by measured memory and activity."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Annotated, NamedTuple

import numpy as np

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Line, Rows, stated, today_of
from gpucost.whatif.avoidable import NOTHING, Held
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import GPUS_PER_NODE, HOURS_PER_MONTH, PricePer, node_price
from gpucost.whatif.fleet import (
    PAID_ANYWAY,
    UNPRICED,
    Fleet,
    Level,
    Levels,
    Node,
    Pod,
    PodKey,
    Price,
    Usage,
    Workload,
)
from gpucost.whatif.gpu_specs import Facts, GpuModel, Profile
from gpucost.whatif.packing import (
    ROUNDING,
    Bin,
    Change,
    Fits,
    PackedPod,
    pack,
    peak,
    saved,
    slots,
    today_held,
)


class Method(StrEnum):
    """How pods share a GPU."""

    time_slicing = "time-slicing"
    mps = "mps"
    mig = "mig"


def profile_for(model: GpuModel, activity: float, memory_mib: float) -> Profile | None:
    """The smallest profile with this share of the GPU's compute (0-1) and this memory; None if only a whole GPU has it.

    Profiles with media extensions (+me) are left out: one GPU has a single one.
    """
    fitting = [
        profile
        for profile in model.profiles
        if "+" not in profile.name
        and profile.compute_slices < model.mig_slices
        and profile.compute_slices / model.mig_slices >= activity - ROUNDING
        and (model.memory_mib or 0) * profile.memory_slices / profile.memory_slices_total >= memory_mib
    ]
    return min(fitting, key=lambda p: (p.compute_slices, p.memory_slices), default=None)


def _profiles(model: GpuModel, items: Sequence[PackedPod]) -> Counter[Profile]:
    """How many of which profiles the items need, except those that need a whole GPU."""
    profiles = (profile_for(model, item.activity, item.memory_mib) for item in items)
    return Counter(filter(None, profiles))


def fits_slices(model: GpuModel, items: Sequence[PackedPod]) -> bool:
    """Whether a GPU of this model can be cut into the profiles that all of the items need at once.

    Slices of compute and of memory are counted, and each profile's most per GPU: instances begin where their profile allows
    (NVIDIA MIG user guide, "MIG device profiles"), and with these counts the layouts of every model in the catalog have room.
    """
    counts = _profiles(model, items)
    compute = sum(profile.compute_slices * count for profile, count in counts.items())
    memory = sum(profile.memory_slices * count for profile, count in counts.items())
    return (
        counts.total() == len(items)
        and compute <= model.mig_slices
        and memory <= min((profile.memory_slices_total for profile in counts), default=0)
        and all(count <= profile.max_per_gpu for profile, count in counts.items())
    )


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
class Margins(OptionGroup):
    """Percentages: `margin` is added to what was measured, `headroom` of the GPU stays free."""

    margin_percent: flags.Margin = 10.0
    headroom_percent: flags.Headroom = 20.0

    @property
    def margin(self) -> float:
        """What needs are multiplied by."""
        return 1 + self.margin_percent / 100

    @property
    def free(self) -> float:
        """The share of a GPU or slice that may be used."""
        return 1 - self.headroom_percent / 100


@record
class Sizing(Margins):
    """How pods share GPUs. `ways`: pods on one GPU at most."""

    method: Annotated[Method, Option("How pods share a GPU.", is_shown=True, says="sharing")] = (
        Method.time_slicing
    )
    ways: Annotated[
        int,
        Option(
            "Most pods on one GPU; not for mig. Default: 4.",
            least=2,
            most=48,
            says="pods on one GPU at most",
            unit="pods",
        ),
    ] = 4
    across_teams: Annotated[bool, Option("Pods of several teams may share a GPU.")] = False

    @property
    def is_mig(self) -> bool:
        return self.method is Method.mig

    def item(self, pod: Pod, level: Level, memory_mib: float, hours: Iterable[int]) -> PackedPod:
        """What a pod of this level needs: for MIG the headroom is part of the slice, for slots it is part of the GPU.

        Its activity is that of these epoch hours, if it is measured by hour.
        """
        factor = self.margin / self.free if self.is_mig else self.margin
        item = PackedPod(pod, level.high * factor, memory_mib * factor, pod.from_ms, pod.to_ms)
        if not level.hours or self.is_mig:
            return item
        highs = dict(level.hours)
        return replace(item, hours=np.array([highs.get(hour, 0.0) for hour in hours]) * factor)

    def fits(self, model: GpuModel | None) -> Fits:
        """What a GPU of the model holds; one of an unknown model has no memory to go by and cannot be cut."""
        if self.is_mig:
            return partial(fits_slices, model) if model else lambda _: False
        memory = model.memory_mib * self.free if model and model.memory_mib else None
        return slots(activity=self.free, memory_mib=memory, ways=self.ways)


# Servers that preallocate take a part of the memory that is at least this, from the start.
_PREALLOCATED = 0.7


def without_preallocation(fleet: Fleet, levels: Levels, facts: Facts) -> dict[tuple[str, str], Level]:
    """Levels of pods that hold a fixed, large part of the memory whatever the load, as if they needed none of it.

    vLLM takes 90 % at its start, TensorFlow all of it, JAX 75 %: how much the work needs is not measured.
    """
    nodes, found = fleet.by_name, {}
    for pod in fleet.pods:
        level, model = levels.get(pod.key), facts.models.get(nodes[pod.place].gpu_model or "")
        if not level or not level.has_fixed_memory or not model or not model.memory_mib:
            continue
        if (level.high_memory_mib or 0.0) >= _PREALLOCATED * model.memory_mib:
            found[pod.key] = replace(level, active_devices=level.busy_devices, high_memory_mib=0.0)
    return found


class _Pool(NamedTuple):
    """GPUs that may be shared among each other, of a team or of all (""), and the facts of their model."""

    cluster: str
    model: str
    capacity_type: str
    team: str
    known: GpuModel | None
    gpus: list[Bin]


class Sharing(NamedTuple):
    """Pods that keep their GPUs, with the reason; the pools of the others, and what they hold then."""

    kept: dict[Pod, str]
    pools: list[_Pool]
    change: Change


def share(usage: Usage, sizing: Sizing, levels: Levels, facts: Facts) -> Sharing:
    """Pods of one whole GPU each, packed by what they use in the same hours, in the order in which they came.

    A shared GPU is on a node like the one of its first pod.
    """
    fleet = usage.fleet
    nodes, kept = fleet.by_name, _reasons(fleet, levels)
    by_place: dict[tuple[str, str, str, str], list[Pod]] = defaultdict(list)
    most: dict[Workload, float] = defaultdict(float)
    for pod in fleet.pods:
        if pod.key in levels:
            most[pod.owner] = max(most[pod.owner], levels[pod.key].high_memory_mib or 0.0)
        if pod not in kept:
            node, team = nodes[pod.place], "" if sizing.across_teams else pod.team
            by_place[pod.cluster, node.gpu_model or "", node.capacity_type, team].append(pod)
    pools, shared, then = [], [], []
    for place, pods in sorted(by_place.items()):
        model = facts.models.get(place[1])
        fits = sizing.fits(model)
        measured = chain.from_iterable(levels[pod.key].hours for pod in pods)
        hours = {hour for hour, _ in measured}
        # a pod needs the most memory of its workload
        items = [sizing.item(pod, levels[pod.key], most[pod.owner], hours) for pod in pods]
        if sizing.is_mig:  # a slice pays if two of them fit a GPU; a slot if another pod is on it
            items = [item for item in items if fits([item, item])]
        if gpus := [gpu for gpu in pack(items, fits) if sizing.is_mig or len(gpu.items) > 1]:
            pools.append(_Pool(*place, model, gpus))
        for gpu in gpus:
            shared += [item.of for item in gpu.items]
            then.append(Held(nodes[gpu.first.place], 1.0, gpu.from_ms, gpu.to_ms))
    return Sharing(kept, pools, Change(tuple(shared), tuple(then)))


def has_memory(levels: Levels) -> bool:
    """Whether the memory of any pod was collected."""
    return any(level.high_memory_mib is not None for level in levels.values())


def _reasons(fleet: Fleet, levels: Levels) -> dict[Pod, str]:
    """The pods that keep their GPUs as they are, and why."""
    nodes, needs_memory = fleet.by_name, has_memory(levels)
    kept: dict[Pod, str] = {}
    for pod in fleet.pods:
        level = levels.get(pod.key)
        if pod.gpus > 1 + 1e-6:
            kept[pod] = f"holds {pod.gpus:g} GPUs"
        elif pod.gpus < 1 - 1e-6:
            kept[pod] = "shares its GPU already"
        elif level is None:
            kept[pod] = "not measured"
        elif nodes[pod.place].capacity_type in PAID_ANYWAY:
            kept[pod] = "on reserved capacity, which is paid in any case"
        elif needs_memory and level.high_memory_mib is None:
            kept[pod] = "its memory is not measured"
    return kept


def answer(usage: Usage, sizing: Sizing, levels: Levels, facts: Facts) -> Answer:
    """The GPUs that pods need if they share them. Raises GpucostError if no pod was measured."""
    fleet = usage.fleet
    if not any(pod.key in levels for pod in fleet.pods):
        raise GpucostError(
            f"no GPU of {usage.scope_name} was measured in {usage.period_name}",
            "gpucost doctor says whether dcgm-exporter labels GPUs with their pods",
        )
    sharing, fixed = share(usage, sizing, levels, facts), without_preallocation(fleet, levels, facts)
    looser = share(usage, sizing, {**levels, **fixed}, facts).change if fixed else None
    change = sharing.change
    found = change_answer(usage, "share", f"Shared GPUs for {usage.scope_name}", change, looser)
    held = peak(change.pods or [pod for pod in fleet.pods if pod not in sharing.kept])[0]
    needed = peak(change.then)[0] if change.pods else held
    highest_percent = 50 * sizing.free / sizing.margin
    return replace(
        found,
        figures=found.figures | {"gpus_today": held, "gpus_needed": needed},
        assumptions=_assumptions(usage, sizing, sharing.pools),
        break_even=(
            "Nothing is saved once a pod needs so much that no second slice of its kind fits the GPU."
            if sizing.is_mig
            else f"Two pods no longer share a GPU once each is busier than {highest_percent:.1f} % in the same hour.",
        ),
        time=(TIME[sizing.method],),
        findings=(*found.findings, *_findings(usage, sizing, levels, change)),
        tables=(*_pool_table(sharing.pools, sizing), *_pod_table(usage, sharing, levels, fixed)),
    )


def change_answer(usage: Usage, kind: str, title: str, change: Change, looser: Change | None) -> Answer:
    """Cash and freed capacity of a change; `looser` is the change if pods need no preallocated memory."""
    found = saved(usage, change)
    most = saved(usage, looser) if looser else found
    cash, freed = max(NOTHING, most.cash - found.cash), max(NOTHING, most.freed - found.freed)
    today = today_of(usage, fleet_costs(usage.fleet), is_held=True)
    signed = [(1, held) for held in change.then] + [(-1, held) for held in today_held(usage, change.pods)]
    gpu_hours = sum(sign * held.hours * held.gpus for sign, held in signed)
    node_hours = sum(sign * held.hours * held.nodes for sign, held in signed)
    findings = []
    if cash or freed:
        findings.append(
            f"Needs work, not counted above: {cash:,.2f} {usage.currency} more, and {freed:,.2f} of freed capacity, if pods "
            "that hold a fixed part of the memory whatever the load (vLLM's --gpu-memory-utilization, for example) do with less."
        )
    if found.freed:
        findings.append(
            f"GPUs worth {found.freed:,.2f} {usage.currency} would be free on nodes that stay: capacity for other work, no money "
            "that leaves the bill."
        )
    return Answer(
        kind=kind,
        title=title,
        period=usage.period_name,
        today=today,
        scenario=replace(
            today,
            cost=today.cost - found.cash,
            gpu_hours=round(today.gpu_hours + gpu_hours, 9),
            node_hours=round(today.node_hours + node_hours, 9),
        ),
        figures={
            "cash_saving": found.cash,
            "freed_capacity_cost": round(found.freed, 9),
            "saving_by_suitability": {"safe": found.cash, "needs_work": cash},
            "needs_work_freed_capacity_cost": round(freed, 9),
        },
        assumptions=(),
        findings=tuple(findings),
    )


def _findings(usage: Usage, sizing: Sizing, levels: Levels, change: Change) -> Iterator[str]:
    yield ISOLATION[sizing.method]
    if not has_memory(levels):
        yield (
            "Memory is not given: this goes by utilization alone. --memory-per-pod-mib and --gpu-model count it."
            if usage.is_described
            else "Memory is not in the store (DCGM_FI_DEV_FB_USED): this goes by utilization alone, and pods that fit by it may "
            "not fit the GPU's memory."
        )
    if not change.pods:
        yield "With the margins no pod with a GPU of its own leaves room for another: each keeps its own."
    if usage.is_described and not all(node.is_priced for node in usage.fleet.nodes):
        yield "No price was given: --on-demand-price 3 --price-per gpu turns GPUs into money."


def _assumptions(usage: Usage, sizing: Sizing, pools: Sequence[_Pool]) -> tuple[Assumption, ...]:
    of_store = (
        Assumption("activity of a pod", "highest 5-minute mean of each hour, added up by hour", "", "store"),
        Assumption("memory of a pod", "its maximum", "", "store"),
        Assumption("usage and prices", usage.period_name, "", "store"),
    )
    names = ("method", "margin_percent", "headroom_percent", *(() if sizing.is_mig else ("ways",)))
    memory = (
        Assumption(f"memory of {model.name}", model.memory_mib, "MiB", "catalog", model.as_of)
        for model in sorted({pool.known for pool in pools if pool.known})
    )
    return (*stated(sizing, *names), *(usage.assumptions or of_store), *memory)


def _pod_table(usage: Usage, sharing: Sharing, levels: Levels, fixed: Collection[PodKey]) -> tuple[Rows, ...]:
    """Every pod with what becomes of it; pods of a workload that fare alike are one line."""
    if usage.is_described:
        return ()
    fates = dict(sharing.kept)
    for pool in sharing.pools:
        for gpu in pool.gpus:
            fate = f"shares a GPU, {peak(gpu.items)[0]} pods at most"
            fates |= dict.fromkeys((item.of for item in gpu.items), fate)
    alike: dict[tuple[str, str, str], list[Level | None]] = defaultdict(list)
    for pod in usage.fleet.pods:
        alone = (
            "its memory is taken whatever the load, less needs work"
            if pod.key in fixed
            else "no other pod fits next to it"
        )
        fate = fates.get(pod, f"keeps its GPU: {alone}")
        alike[pod.namespace, pod.workload, fate].append(levels.get(pod.key))
    lines: list[Line] = []
    for (namespace, workload, fate), found in sorted(alike.items()):
        known = list(filter(None, found))
        busy = round(max(level.high for level in known) * 100, 1) if known else None
        memory = round(max((level.high_memory_mib or 0.0 for level in known), default=0.0), 1)
        lines.append((namespace, workload, len(found), busy, memory or None, fate))
    columns = ("namespace", "workload", "pods", "busiest_percent", "memory_mib", "what becomes of it")
    return Rows.of("Pods", columns, lines)


def _pool_table(pools: Sequence[_Pool], sizing: Sizing) -> tuple[Rows, ...]:
    """Each pool's GPUs at its busiest moment, with a packing that fits then."""
    lines: list[Line] = []
    for pool in pools:
        pods = [item.of for gpu in pool.gpus for item in gpu.items]
        after, at = peak(pool.gpus)
        packed: Counter[str] = Counter()
        for items in filter(None, (gpu.at(at) for gpu in pool.gpus)):
            packed[
                layout_name(pool.known, items) if pool.known and sizing.is_mig else f"{len(items)} pods"
            ] += 1
        packing = ", ".join(f"{gpus} x ({layout})" for layout, gpus in packed.items())
        lines.append(
            (
                pool.team or pool.cluster,
                pool.model or "unknown",
                pool.capacity_type,
                len(pods),
                peak(pods)[0],
                after,
                packing,
            )
        )
    columns = ("pool", "gpu_model", "capacity_type", "pods", "gpus_today", "gpus_needed", "packing")
    return Rows.of("GPUs at the busiest moment", columns, lines)


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


def described(sizing: Sizing, pods: DescribedPods, facts: Facts, currency: str) -> tuple[Usage, Levels]:
    """The fleet that options describe, one pod per GPU, all equally busy.

    How GPUs lie on nodes does not matter to what they cost: all are on one. Raises UsageError if options do not say enough,
    a model is not known, or its memory is too small.
    """
    if pods.pods is None or pods.utilization_percent is None:
        raise UsageError(
            "the number of pods that share GPUs, or their utilization, is missing",
            "--pods 40 --utilization-percent 15 tells both",
        )
    model = facts.model(pods.gpu_model) if pods.gpu_model is not None else None
    filled, memory = pods.memory_per_pod_mib, model and model.memory_mib
    if sizing.is_mig and not (model and model.profiles):
        raise UsageError(
            f"{pods.gpu_model or 'a GPU of an unknown model'} cannot be cut into MIG slices",
            "--gpu-model A100-SXM4-40GB names one that can",
        )
    if filled is not None and memory is None:
        raise UsageError("the memory of a GPU is missing", "--gpu-model names the GPUs")
    if memory and filled and filled * sizing.margin > memory:
        raise UsageError(
            f"{filled:g} MiB and the margin do not fit the {memory:,} MiB of {pods.gpu_model}",
            "--gpu-model names a GPU with more memory",
        )
    assumptions = stated(pods, "pods", "utilization_percent", "gpus_per_pod", "hours", "memory_per_pod_mib")
    price, count = UNPRICED, pods.pods * pods.gpus_per_pod
    if pods.on_demand_price is not None:
        per_node = node_price(pods.on_demand_price, pods.price_per, pods.gpus)
        price = Price(round(per_node / pods.gpus * count, 12), "option")
        assumptions.append(Assumption("price", pods.on_demand_price, f"per {pods.price_per}-hour", "option"))
    end = round(pods.hours * MS_PER_HOUR)
    node = Node("node", count, 0, end, (price,), gpu_model=model and model.name)
    held = tuple(
        Pod("node", "pods", 1, 0, end, uid=str(number // pods.gpus_per_pod)) for number in range(count)
    )
    busy = pods.utilization_percent / 100
    usage = Usage(
        Fleet((node,), held),
        currency,
        f"{pods.hours:g} hours",
        f"{pods.pods} pods",
        assumptions=tuple(assumptions),
    )
    return usage, {pod.key: Level(1, 1, 0, busy, busy, filled) for pod in held}
