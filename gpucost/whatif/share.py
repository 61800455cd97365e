"""Several pods on one GPU: time slicing, MPS or MIG, packed by measured memory and activity."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Annotated, NamedTuple

import numpy as np

from gpucost.errors import GpucostError
from gpucost.options import Option, OptionGroup
from gpucost.records import frozen_dataclass
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Rows, Tables, stated, today_of
from gpucost.whatif.avoidable import NOTHING, Held
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.fleet import PAID_ANYWAY, Fleet, Level, Levels, Pod, PodKey, Usage, Workload
from gpucost.whatif.gpu_specs import GpuModel, GpuSpecs, Profile
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


ISOLATION = {
    Method.time_slicing: "Time slicing does not isolate pods: each one sees the whole GPU's memory and can "
    "starve the others, and a fault can affect all of them.",
    Method.mps: "MPS separates address spaces and can limit memory and threads per pod, but a fault in one pod can end "
    "the others.",
    Method.mig: "MIG isolates compute, memory and faults in hardware; a layout can change only while the GPU is empty.",
}
TIME = {
    Method.time_slicing: "Pods take turns: n busy pods each run n times slower.",
    Method.mps: "Pods run at once and share the GPU's units: busy pods slow each other down, but less than with time slicing.",
    Method.mig: "Each pod has the speed of its slice and no more: bursts above it take longer, steady work does not.",
}


def profile_for(model: GpuModel, activity: float, memory_mib: float) -> Profile | None:
    """The smallest profile with this share of the GPU's compute (0-1) and this memory; None if only a whole GPU has it.

    Profiles with media extensions (+me) are left out: a GPU has only one.
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


def fits_slices(model: GpuModel, items: Collection[PackedPod]) -> bool:
    """Whether a GPU of this model can be cut into the profiles that all of the items need at once.

    Slices of compute and of memory are counted, and each profile's most per GPU: the profile limits where instances begin
    (NVIDIA MIG user guide, "MIG device profiles"), and with these counts the layouts of every model in the catalog have room.
    """
    profiles = (profile_for(model, item.activity, item.memory_mib) for item in items)
    counts = Counter(filter(None, profiles))
    compute = sum(profile.compute_slices * count for profile, count in counts.items())
    memory = sum(profile.memory_slices * count for profile, count in counts.items())
    return (
        counts.total() == len(items)
        and compute <= model.mig_slices
        and memory <= min((profile.memory_slices_total for profile in counts), default=0)
        and all(count <= profile.max_per_gpu for profile, count in counts.items())
    )


@frozen_dataclass
class Margins(OptionGroup):
    """Percentages: `margin` is added to measured values, `headroom` of the GPU stays free."""

    margin_percent: flags.Margin = 10.0
    headroom_percent: flags.Headroom = 20.0

    @property
    def margin(self) -> float:
        """The factor of measured values."""
        return 1 + self.margin_percent / 100

    @property
    def free(self) -> float:
        """The share of a GPU or slice that may be used."""
        return 1 - self.headroom_percent / 100


@frozen_dataclass
class Sizing(Margins):
    """How pods share GPUs. `ways`: pods on one GPU at most."""

    method: Annotated[Method, Option("How pods share a GPU.", is_shown=True, label="sharing")] = (
        Method.time_slicing
    )
    ways: Annotated[
        int,
        Option(
            "Maximum number of pods on one GPU; not for mig. Default: 4.",
            least=2,
            most=48,
            label="maximum pods per GPU",
            unit="pods",
        ),
    ] = 4
    across_teams: Annotated[bool, Option("Pods of several teams may share a GPU.")] = False

    @property
    def is_mig(self) -> bool:
        """Whether pods get slices, not slots."""
        return self.method is Method.mig

    def item(self, pod: Pod, level: Level, memory_mib: float, hours: Iterable[int]) -> PackedPod:
        """The needs of a pod of this level: for MIG the headroom is part of the slice, for slots it is part of the GPU.

        With hourly measurements, its activity is a list over these epoch hours.
        """
        factor = self.margin / self.free if self.is_mig else self.margin
        item = PackedPod(pod, level.high * factor, memory_mib * factor, *pod.span)
        if not level.hours or self.is_mig:
            return item
        highs = dict(level.hours)
        return replace(item, hours=np.array([highs.get(hour, 0.0) for hour in hours]) * factor)

    def fits(self, model: GpuModel | None) -> Fits:
        """The pods that a GPU of the model holds; a GPU of an unknown model has no memory to check and cannot be cut."""
        if self.is_mig:
            return partial(fits_slices, model) if model else lambda _: False
        memory = model.memory_mib * self.free if model and model.memory_mib else None
        return slots(activity=self.free, memory_mib=memory, ways=self.ways)


# Servers that preallocate take at least this part of the memory, from the start.
_PREALLOCATED = 0.7


def without_preallocation(fleet: Fleet, levels: Levels, facts: GpuSpecs) -> dict[PodKey, Level]:
    """Levels of pods that hold a fixed, large part of the memory at any load, as if they needed none of it.

    vLLM takes 90 % at its start, TensorFlow all of it, JAX 75 %: how much the work needs is not measured.
    """
    nodes, found = fleet.by_name, {}
    for pod in fleet.pods:
        level, model = levels.get(pod.key), facts.get(nodes[pod.place].gpu_model or "")
        if not level or not level.has_fixed_memory or not model or not model.memory_mib:
            continue
        if (level.high_memory_mib or 0.0) >= _PREALLOCATED * model.memory_mib:
            found[pod.key] = replace(level, active_devices=level.busy_devices, high_memory_mib=0.0)
    return found


_ALONE = "keeps its GPU: no other pod fits next to it"
_FULL = "keeps its GPU: it allocates fixed memory; less memory needs preparation"


class Sharing(NamedTuple):
    """The result of each pod, the shared GPUs, the change of the fleet, and the models of shared GPUs."""

    fates: Mapping[Pod, str]
    gpus: Collection[Bin]
    change: Change
    models: Collection[GpuModel]


def share(usage: Usage, sizing: Sizing, levels: Levels, facts: GpuSpecs) -> Sharing:
    """Pods of one whole GPU each, packed by their use in the same hours, in the order of their starts.

    A shared GPU is on the node of its first pod, or one like it.
    """
    fleet = usage.fleet
    nodes, fates = fleet.by_name, _reasons(fleet, levels)
    pools = defaultdict(list)
    most: dict[Workload, float] = defaultdict(float)
    for pod in fleet.pods:
        if pod.key in levels:
            most[pod.owner] = max(most[pod.owner], levels[pod.key].high_memory_mib or 0.0)
        if pod not in fates:
            node, team = nodes[pod.place], "" if sizing.across_teams else pod.team
            pools[pod.cluster, node.gpu_model or "", node.capacity_type, team].append(pod)
    shared, gpus, used = [], list[Bin](), set[GpuModel]()
    for (_, name, *_), pods in sorted(pools.items()):
        fates |= dict.fromkeys(pods, _ALONE)
        model = facts.get(name)
        fits = sizing.fits(model)
        measured = chain.from_iterable(levels[pod.key].hours for pod in pods)
        hours = {hour for hour, _ in measured}
        # a pod needs the most memory of its workload
        items = [sizing.item(pod, levels[pod.key], most[pod.owner], hours) for pod in pods]
        if sizing.is_mig:  # a slice pays if two of them fit a GPU; a slot if another pod is on it
            items = [item for item in items if fits([item, item])]
        for gpu in pack(items, fits):
            if not sizing.is_mig and len(gpu.items) == 1:
                continue
            count = peak(gpu.items)
            for item in gpu.items:
                cut = sizing.is_mig and model and profile_for(model, item.activity, item.memory_mib)
                fates[item.of] = f"shares a GPU{f' as {cut.name}' if cut else ''}, {count} pods at most"
                shared.append(item.of)
            gpus.append(gpu)
            if model:
                used.add(model)
    then = tuple(Held(nodes[gpu.first.place], 1.0, gpu.from_ms, gpu.to_ms) for gpu in gpus)
    return Sharing(fates, gpus, Change(tuple(shared), then), used)


def has_memory(levels: Levels) -> bool:
    """Whether the memory of any pod was collected."""
    return any(level.high_memory_mib is not None for level in levels.values())


def _reasons(fleet: Fleet, levels: Levels) -> dict[Pod, str]:
    """The pods that keep their GPUs as they are, and why."""
    nodes, needs_memory = fleet.by_name, has_memory(levels)
    reasons = {}
    for pod in fleet.pods:
        level = levels.get(pod.key)
        if pod.gpus > 1 + 1e-6:
            reasons[pod] = f"holds {pod.gpus:g} GPUs"
        elif pod.gpus < 1 - 1e-6:
            reasons[pod] = "shares its GPU already"
        elif level is None:
            reasons[pod] = "not measured"
        elif nodes[pod.place].capacity_type in PAID_ANYWAY:
            reasons[pod] = "on reserved capacity, which is paid in any case"
        elif needs_memory and level.high_memory_mib is None:
            reasons[pod] = "its memory is not measured"
    return reasons


def answer(usage: Usage, sizing: Sizing, levels: Levels, facts: GpuSpecs) -> Answer:
    """The GPUs that pods need if they share them. Raises GpucostError if no pod was measured."""
    fleet = usage.fleet
    if not any(pod.key in levels for pod in fleet.pods):
        raise GpucostError(
            f"no GPU of {usage.scope_name} was measured in {usage.period_name}",
            "gpucost doctor checks whether dcgm-exporter labels GPUs with their pods",
        )
    sharing, fixed = share(usage, sizing, levels, facts), without_preallocation(fleet, levels, facts)
    looser = share(usage, sizing, {**levels, **fixed}, facts).change if fixed else None
    change = sharing.change
    found = change_answer(usage, "share", f"Shared GPUs for {usage.scope_name}", change, looser)
    held = peak(change.pods or [pod for pod, fate in sharing.fates.items() if fate == _ALONE])
    findings = [*found.findings, ISOLATION[sizing.method]]
    if not has_memory(levels):
        findings.append(
            "Memory is not in the store (DCGM_FI_DEV_FB_USED): pods are packed by utilization alone, and may not fit the "
            "GPU's memory."
        )
    memory = (
        Assumption(f"memory of {model.name}", model.memory_mib, "MiB", "catalog", model.as_of)
        for model in sorted(sharing.models)
    )
    names = ("method", "margin_percent", "headroom_percent", *(() if sizing.is_mig else ("ways",)))
    return replace(
        found,
        figures=found.figures
        | {"gpus_today": held, "gpus_needed": peak(change.then) if change.pods else held},
        assumptions=(
            *stated(sizing, *names),
            Assumption(
                "activity of a pod", "highest 5-minute mean of each hour, added up by hour", "", "store"
            ),
            Assumption("memory of a pod", "its maximum", "", "store"),
            Assumption("usage and prices", usage.period_name, "", "store"),
            *memory,
        ),
        time=(TIME[sizing.method],),
        findings=tuple(findings),
        tables=_pods(usage, sharing, levels, fixed),
    )


def change_answer(usage: Usage, kind: str, title: str, change: Change, looser: Change | None) -> Answer:
    """Cash and freed capacity of a change.

    `looser` is the change if pods need no preallocated memory: its further savings need work.
    """
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
            "that hold a fixed part of the memory at any load (vLLM's --gpu-memory-utilization, for example) need less."
        )
    if found.freed:
        findings.append(
            f"GPUs worth {found.freed:,.2f} {usage.currency} become free on nodes that stay: capacity for other work, "
            "which saves no cash."
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


def _pods(usage: Usage, sharing: Sharing, levels: Levels, fixed: Collection[PodKey]) -> Tables:
    """Every pod with its result; pods of a workload with the same result are one line."""
    alike = defaultdict(list)
    for pod in usage.fleet.pods:
        fate = sharing.fates[pod]
        fate = _FULL if fate == _ALONE and pod.key in fixed else fate
        alike[pod.namespace, pod.workload, fate].append(levels.get(pod.key))
    lines = []
    for (namespace, workload, fate), found in sorted(alike.items()):
        measured = list(filter(None, found))
        busy = round(max(level.high for level in measured) * 100, 1) if measured else None
        memory = round(max((level.high_memory_mib or 0.0 for level in measured), default=0.0), 1)
        lines.append((namespace, workload, len(found), busy, memory or None, fate))
    columns = ("namespace", "workload", "pods", "busiest_percent", "memory_mib", "what becomes of it")
    return Rows.of("Pods", columns, lines)
