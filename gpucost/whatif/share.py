"""Several pods on one GPU: time slicing, MPS or MIG, packed by what was measured."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum

from gpucost.errors import GpucostError, UsageError
from gpucost.whatif.answer import Answer, Assumption, Position, Rows
from gpucost.whatif.fleet import (
    HOURS_PER_MONTH,
    Fleet,
    Level,
    Levels,
    Node,
    Pod,
    Price,
    PricePer,
    Scenario,
    node_price,
    node_shape,
    uniform,
)
from gpucost.whatif.gpu_specs import Facts, Model, Profile


class Method(StrEnum):
    """How pods share a GPU."""

    time_slicing = "time-slicing"
    mps = "mps"
    mig = "mig"


_PACKING_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Item:
    """What one pod needs of a GPU in [from_ms, to_ms): a share of its activity 0-1 and MiB of its memory, margins included."""

    key: str
    activity: float
    memory_mib: float = 0.0
    from_ms: int = 0
    to_ms: int = 1


# Whether a GPU can hold all of these at once.
Fits = Callable[[Sequence[Item]], bool]


@dataclass(slots=True)
class Shared:
    """A GPU that is shared in [from_ms, to_ms): every item that was on it."""

    from_ms: int
    to_ms: int
    items: list[Item] = field(default_factory=list)

    def at(self, moment_ms: int) -> list[Item]:
        """The items on it at a moment."""
        return [item for item in self.items if item.from_ms <= moment_ms < item.to_ms]


def slots(*, activity: float, memory_mib: float | None, ways: int) -> Fits:
    """A GPU that `ways` pods may share, up to this activity and memory (None: not known, so not looked at)."""

    def fits(items: Sequence[Item]) -> bool:
        return (
            len(items) <= ways
            and sum(item.activity for item in items) <= activity + _PACKING_ROUNDING
            and (memory_mib is None or sum(item.memory_mib for item in items) <= memory_mib)
        )

    return fits


def pack(items: Iterable[Item], fits: Fits) -> list[Shared]:
    """First fit in order of time, and among those that begin at once the largest first; a GPU is given back once it is empty.

    What fits no empty GPU is left out: ask `fits([item])` before. With items that all last equally long this is first fit
    decreasing, at most 11/9 of the least number of GPUs plus 6/9 (Dósa 2007) where one measure decides.
    """
    done: list[Shared] = []
    opened: list[tuple[Shared, list[Item]]] = []
    now: int | None = None
    last: tuple[float, float] | None = None
    first = 0
    for item in sorted(items, key=lambda i: (i.from_ms, -i.activity, -i.memory_mib, i.key)):
        if item.from_ms != now:
            now, last = item.from_ms, None
            opened = [(gpu, held) for gpu, held in opened if not _left(gpu, held, item.from_ms, done)]
        size = (item.activity, item.memory_mib)
        # meanwhile GPUs only fill up: what did not take the last one of this size takes no other
        first = first if size == last else 0
        last = size
        while first < len(opened) and not fits([*opened[first][1], item]):
            first += 1
        if first == len(opened):
            if not fits([item]):
                continue
            opened.append((Shared(item.from_ms, item.to_ms), []))
        gpu, held = opened[first]
        held.append(item)
        gpu.items.append(item)
        gpu.to_ms = max(gpu.to_ms, item.to_ms)
    return done + [gpu for gpu, _ in opened]


def _left(gpu: Shared, held: list[Item], at_ms: int, done: list[Shared]) -> bool:
    """Whether all have left the GPU by then: it goes to `done`."""
    held[:] = [item for item in held if item.to_ms > at_ms]
    if not held:
        done.append(gpu)
    return not held


def peak(spans: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """(most spans at one moment, the first such moment); (0, 0) of none."""
    most = at = level = 0
    for moment, step in sorted(event for begin, end in spans for event in ((begin, 1), (end, -1))):
        level += step
        if level > most:
            most, at = level, moment
    return most, at


def profile_for(model: Model, activity: float, memory_mib: float) -> Profile | None:
    """The smallest profile with this share of the GPU's compute (0-1) and this memory; None where only a whole GPU has it.

    Profiles with media extensions (+me) are left out: one GPU has a single one.
    """
    fitting = [
        profile
        for profile in model.profiles
        if "+" not in profile.name
        and profile.compute_slices < model.mig_slices
        and profile.compute_slices / model.mig_slices >= activity - 1e-9
        and _memory_mib(model, profile) >= memory_mib
    ]
    return min(fitting, key=lambda p: (p.compute_slices, p.memory_slices), default=None)


def layouts(model: Model) -> Fits:
    """Whether a GPU of this model can be cut into the profiles that all of the items need.

    Slices of compute and of memory are counted, and each profile's most per GPU: instances begin where their profile allows
    (NVIDIA MIG user guide, "MIG device profiles"), and with these counts the layouts of every model in the catalog have room.
    """

    def fits(items: Sequence[Item]) -> bool:
        profiles = [profile_for(model, item.activity, item.memory_mib) for item in items]
        chosen = [profile for profile in profiles if profile is not None]
        counts = Counter(chosen)
        return (
            len(chosen) == len(profiles)
            and sum(profile.compute_slices for profile in chosen) <= model.mig_slices
            and sum(profile.memory_slices for profile in chosen) <= (chosen[0].memory_slices_total if chosen else 0)
            and all(count <= profile.max_per_gpu for profile, count in counts.items())
        )

    return fits


def layout_name(model: Model, items: Sequence[Item]) -> str:
    """`2 x 1g.5gb + 1 x 3g.20gb`."""
    profiles = [profile_for(model, item.activity, item.memory_mib) for item in items]
    counts = Counter(profile.name for profile in profiles if profile is not None)
    return " + ".join(f"{count} x {name}" for name, count in sorted(counts.items()))


def _memory_mib(model: Model, profile: Profile) -> float:
    return (model.memory_mib or 0) * profile.memory_slices / profile.memory_slices_total


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


@dataclass(frozen=True, slots=True)
class Sizing:
    """Percentages: `margin` is added to what was measured, `headroom` of the GPU stays free. `ways`: pods on one GPU at most."""

    method: Method = Method.time_slicing
    ways: int = 4
    margin_percent: float = 10.0
    headroom_percent: float = 20.0

    def need(self, level: Level) -> tuple[float, float]:
        """(share of activity 0-1, MiB of memory) that a pod of this level needs, margin included."""
        factor = 1 + self.margin_percent / 100
        return level.high * factor, (level.high_memory_mib or 0.0) * factor

    def fits(self, model: Model | None, *, with_memory: bool) -> Fits:
        """What a GPU of the model holds; None, a model unknown, has no memory to go by and cannot be cut."""
        if self.method is Method.mig:
            return layouts(model) if model is not None else _nothing
        free = 1 - self.headroom_percent / 100
        memory = model.memory_mib * free if with_memory and model is not None and model.memory_mib else None
        return slots(activity=free, memory_mib=memory, ways=self.ways)

    def item(self, item: Item) -> Item:
        """The item as `fits` wants it: for MIG the headroom is part of the slice, for slots it is part of the GPU."""
        if self.method is not Method.mig:
            return item
        free = 1 - self.headroom_percent / 100
        return Item(item.key, item.activity / free, item.memory_mib / free, item.from_ms, item.to_ms)

    def part(self, item: Item, model: Model | None) -> float:
        """The share of its GPU that an item is billed: its slice's, or one slot's."""
        if self.method is Method.mig and model is not None:
            profile = profile_for(model, item.activity, item.memory_mib)
            return profile.compute_slices / model.mig_slices if profile else 1.0
        return 1 / self.ways

    @property
    def highest_percent(self) -> float:
        """The activity of a pod above which no two of them share a GPU."""
        return (100 - self.headroom_percent) / 2 / (1 + self.margin_percent / 100)

    def assumptions(self, given: frozenset[str]) -> list[Assumption]:
        """What was assumed, and which of it was an option."""

        def source(name: str) -> str:
            return "option" if name in given else "default"

        told = [
            Assumption("sharing", self.method.value, "", source("method")),
            Assumption("added to what is measured", self.margin_percent, "percent", source("margin_percent")),
            Assumption("kept free", self.headroom_percent, "percent of a GPU or slice", source("headroom_percent")),
        ]
        if self.method is not Method.mig:
            told.append(Assumption("pods on one GPU at most", self.ways, "pods", source("ways")))
        return told


def _nothing(_: object) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ShareOptions:
    """`pods` of `gpus_per_pod` GPUs each, every GPU `utilization_percent` busy and filled with `memory_mib` (None: not told)."""

    sizing: Sizing
    pods: int
    utilization_percent: float
    currency: str
    gpus_per_pod: int = 1
    memory_mib: float | None = None
    model: Model | None = None
    price_per_gpu_hour: Decimal | None = None
    hours: float = HOURS_PER_MONTH
    told: tuple[Assumption, ...] = field(default_factory=tuple)


def calculator_answer(options: ShareOptions) -> Scenario[Answer]:
    """The GPUs held today against those needed when shared. Raises UsageError where a pod fits no GPU with the margins."""
    sizing, count = options.sizing, options.pods * options.gpus_per_pod
    level = Level(1, 1, 0, options.utilization_percent / 100, options.utilization_percent / 100, options.memory_mib)
    activity, memory = sizing.need(level)
    fits = sizing.fits(options.model, with_memory=options.memory_mib is not None)
    items = [sizing.item(Item(f"pod-{number}", activity, memory)) for number in range(count)]
    if options.memory_mib is not None and options.model and options.model.memory_mib and memory > options.model.memory_mib:
        raise UsageError(
            f"{options.memory_mib:g} MiB and the margin do not fit the {options.model.memory_mib:,} MiB of {options.model.name}",
            "a GPU with more memory is needed first: gpucost whatif rightsize",
        )
    # a pod that leaves no room for the headroom keeps its GPU
    needed = pack(items, fits) if fits(items[:1]) else []
    shared = len(needed) if needed else count
    counts = (count, shared)
    costs = yield [_one_node(options, gpus) for gpus in counts]
    today, scenario = (Position.of(one, options.currency, gpus=gpus) for gpus, one in zip(counts, costs, strict=True))
    most = max((len(gpu.items) for gpu in needed), default=1)
    lines: tuple[tuple[str, int, float, float | None], ...] = ()
    if needed:
        example = max(needed, key=lambda gpu: len(gpu.items))
        layout = layout_name(options.model, example.items) if options.model and sizing.method is Method.mig else f"{most} pods"
        used = round(sum(item.activity for item in example.items) * 100, 2)
        full = round(memory * most, 1) if options.memory_mib is not None else None
        lines = ((layout, shared, used, full),)
    return Answer(
        kind="share",
        title=f"{options.pods} pods on shared GPUs",
        period=f"{options.hours:g} hours",
        today=today,
        scenario=scenario,
        figures={
            "gpus_today": count,
            "gpus_needed": shared,
            "pods_per_gpu": most,
            "gpus_saved_percent": round((count - shared) / count * 100, 6),
            "break_even_utilization_percent": round(sizing.highest_percent, 6) if sizing.method is not Method.mig else None,
            "isolation": ISOLATION[sizing.method],
        },
        assumptions=options.told,
        break_even=_break_even(options),
        time=(TIME[sizing.method],),
        findings=_findings(options, needed=bool(needed)),
        tables=(Rows("A GPU's share", ("layout", "gpus", "busy_percent_with_margin", "memory_mib_with_margin"), lines),)
        if lines
        else (),
    )


def _one_node(options: ShareOptions, gpus: int) -> Fleet:
    """So many GPUs, always on, as one node: how they lie on nodes does not matter to what they cost."""
    each = options.price_per_gpu_hour
    price = Price(round((each or Decimal(0)) * gpus, 9), "option" if each else "none")
    return uniform("pods", nodes=1, gpus_per_node=gpus, hours=options.hours, price=price)


def _break_even(options: ShareOptions) -> tuple[str, ...]:
    if options.sizing.method is Method.mig:
        return ("Nothing is saved once a pod needs so much that one slice of it fills the GPU.",)
    return (f"Two pods no longer share a GPU once each is busier than {options.sizing.highest_percent:.1f} %.",)


def _findings(options: ShareOptions, *, needed: bool) -> tuple[str, ...]:
    told = [ISOLATION[options.sizing.method]]
    if not needed:
        told.append("With the margins a pod leaves no room for another on its GPU: each keeps its own.")
    if options.memory_mib is None:
        told.append("Memory was not told: this goes by utilization alone. --memory-per-pod-mib and --gpu-model count it.")
    if options.price_per_gpu_hour is None:
        told.append("No price was given: --on-demand-price 3 --price-per gpu turns GPUs into money.")
    return tuple(told)


def described(
    *,
    sizing: Sizing,
    given: frozenset[str],
    facts: Facts,
    currency: str,
    pods: int | None,
    utilization_percent: float | None,
    gpus_per_pod: int | None,
    memory_per_pod_mib: float | None,
    gpu_model: str | None,
    on_demand_price: Decimal | None,
    price_per: PricePer,
    gpus: int | None,
    hours: float | None,
) -> ShareOptions:
    """The calculator's options; `given` names those of `sizing` that are no defaults.

    Raises UsageError where they do not say enough, or a model is not known.
    """
    if pods is None or utilization_percent is None:
        raise UsageError(
            f"{'how many pods share GPUs' if pods is None else 'how busy the pods are'} is not told",
            "--pods 40 --utilization-percent 15 tells both",
        )
    model = facts.model(gpu_model) if gpu_model is not None else None
    if sizing.method is Method.mig and (model is None or not model.profiles):
        raise UsageError(
            "MIG needs a GPU model that can be cut" if model is None else f"{model.name} cannot be cut into MIG slices",
            "--gpu-model A100-SXM4-40GB names one",
        )
    if memory_per_pod_mib is not None and (model is None or model.memory_mib is None):
        raise UsageError("how much memory a GPU has is not told", "--gpu-model names the GPUs")
    _, per_node = node_shape(None, gpus)
    always = HOURS_PER_MONTH if hours is None else hours
    told = [
        Assumption("pods", pods, "pods", "option"),
        Assumption("each pod's GPUs are busy", utilization_percent, "percent", "option"),
        Assumption("GPUs of a pod", gpus_per_pod or 1, "GPUs", "option" if gpus_per_pod else "default"),
        *sizing.assumptions(given),
        Assumption("hours", always, "hours", "default" if hours is None else "option"),
    ]
    if memory_per_pod_mib is not None:
        told.append(Assumption("memory of a pod", memory_per_pod_mib, "MiB", "option"))
    if model is not None:
        told.append(Assumption(f"memory of {model.name}", model.memory_mib, "MiB", "catalog", model.as_of))
    price = None
    if on_demand_price is not None:
        price = round(node_price(on_demand_price, price_per, per_node) / per_node, 12)
        told.append(Assumption("price", on_demand_price, f"per {price_per}-hour", "option"))
    return ShareOptions(
        sizing=sizing,
        pods=pods,
        utilization_percent=utilization_percent,
        currency=currency,
        gpus_per_pod=gpus_per_pod or 1,
        memory_mib=memory_per_pod_mib,
        model=model,
        price_per_gpu_hour=price,
        hours=always,
        told=tuple(told),
    )


_LINES_SHOWN = 20
_ROUNDING = 1e-6

# GPUs that may be shared among each other: (cluster, model, capacity type, team or "" for all teams)
Pool = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class StoredShareOptions:
    """`across_teams`: pods of several teams may meet on one GPU."""

    sizing: Sizing
    currency: str
    period: str
    scope: str
    across_teams: bool = False
    given: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class _Packed:
    pool: Pool
    gpus: list[Shared]
    items: dict[str, Pod]


def stored_answer(options: StoredShareOptions, fleet: Fleet, levels: Levels, facts: Facts) -> Scenario[Answer]:
    """Pods of one whole GPU each, as busy as their workload's busiest, packed in the order in which they came.

    Raises GpucostError where no pod was measured.
    """
    if not any((pod.cluster, pod.uid) in levels for pod in fleet.pods):
        raise GpucostError(
            f"no GPU of {options.scope} was measured in {options.period}",
            "gpucost doctor says whether dcgm-exporter labels GPUs with their pods",
        )
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    packed = _pack(options, fleet, nodes, levels, facts)
    moved = {pod for pool in packed for pod in pool.items.values()}
    rest = replace(fleet, pods=tuple(pod for pod in fleet.pods if pod not in moved))
    shared = Fleet()
    for pool in packed:
        shared += _shared_fleet(pool, options.sizing, facts, nodes)
    today_costs, rest_costs, shared_costs = yield fleet, rest, shared
    today, scenario = Position.held(today_costs, options.currency, fleet), Position.held(rest_costs, options.currency, rest)
    if shared.nodes:
        scenario = scenario + Position.of(shared_costs, options.currency)
    has_memory = any(level.high_memory_mib is not None for level in levels.values())
    held, _ = peak((pod.from_ms, pod.to_ms) for pod in moved)
    needed, _ = peak((gpu.from_ms, gpu.to_ms) for pool in packed for gpu in pool.gpus)
    return Answer(
        kind="share",
        title=f"Shared GPUs for {options.scope}",
        period=options.period,
        today=today,
        scenario=scenario,
        figures={
            "gpus_today": held,
            "gpus_needed": needed,
            "pods_shared": len(moved),
            "break_even_utilization_percent": round(options.sizing.highest_percent, 6)
            if options.sizing.method is not Method.mig
            else None,
            "memory_measured": has_memory,
            "isolation": ISOLATION[options.sizing.method],
        },
        assumptions=(
            *options.sizing.assumptions(options.given),
            Assumption("how busy a pod is", "95th percentile of its workload's busiest GPU", "", "store"),
            Assumption("usage and prices", options.period, "", "store"),
            *_model_facts(packed, facts),
        ),
        break_even=_stored_break_even(options.sizing),
        time=(TIME[options.sizing.method],),
        findings=_stored_findings(options, fleet, levels, has_memory=has_memory, moved=len(moved)),
        tables=tuple(_tables(packed, options.sizing, facts)),
    )


def _pack(
    options: StoredShareOptions, fleet: Fleet, nodes: Mapping[tuple[str, str], Node], levels: Levels, facts: Facts
) -> list[_Packed]:
    sizing = options.sizing
    busiest = _busiest(fleet, levels)
    has_memory = any(level.high_memory_mib is not None for level in levels.values())
    pools: dict[Pool, list[Pod]] = defaultdict(list)
    for pod in fleet.pods:
        if abs(pod.gpus - 1) < _ROUNDING and (pod.cluster, pod.uid) in levels:
            node = nodes[pod.cluster, pod.node]
            team = "" if options.across_teams else pod.team
            pools[pod.cluster, node.gpu_model or "", node.capacity_type, team].append(pod)
    result = []
    for pool, pods in sorted(pools.items()):
        fits = sizing.fits(facts.models.get(pool[1]), with_memory=True)
        items: dict[str, Pod] = {}
        wanted = []
        for number, pod in enumerate(pods):
            level = busiest[pod.cluster, pod.namespace, pod.workload]
            if has_memory and level.high_memory_mib is None:
                continue  # others' memory is known: what this one fills may not be taken for nothing
            activity, memory = sizing.need(level)
            item = sizing.item(Item(str(number), activity, memory, pod.from_ms, pod.to_ms))
            # a pod that leaves no room for another like it keeps its GPU
            if fits([item, item]):
                items[item.key] = pod
                wanted.append(item)
        if wanted:
            result.append(_Packed(pool, pack(wanted, fits), items))
    return result


def _busiest(fleet: Fleet, levels: Levels) -> dict[tuple[str, str, str], Level]:
    """Each workload's level: of its pods the highest percentiles."""
    found: dict[tuple[str, str, str], Level] = {}
    for pod in fleet.pods:
        level = levels.get((pod.cluster, pod.uid))
        if level is None:
            continue
        key = (pod.cluster, pod.namespace, pod.workload)
        other = found.get(key, level)
        memories = [m for m in (level.high_memory_mib, other.high_memory_mib) if m is not None]
        found[key] = replace(level, high=max(level.high, other.high), high_memory_mib=max(memories, default=None))
    return found


def _shared_fleet(pool: _Packed, sizing: Sizing, facts: Facts, nodes: Mapping[tuple[str, str], Node]) -> Fleet:
    """Each shared GPU as a node of its own, at its share of the price of the node that its first pod really was on."""
    model = facts.models.get(pool.pool[1])
    made, pods = [], []
    for number, gpu in enumerate(pool.gpus):
        first = nodes[pool.items[gpu.items[0].key].cluster, pool.items[gpu.items[0].key].node]
        name = f"shared/{'/'.join(pool.pool[1:])}/{number}"
        prices = tuple(
            Price(round(price.per_node_hour / round(first.gpus), 9), price.source, price.as_of, price.from_ms)
            for price in first.prices
        )
        made.append(replace(first, name=name, gpus=1.0, from_ms=gpu.from_ms, to_ms=gpu.to_ms, prices=_reaching(prices)))
        for item in gpu.items:
            pods.append(replace(pool.items[item.key], node=name, gpus=sizing.part(item, model)))
    return Fleet(tuple(made), tuple(pods))


def _reaching(prices: tuple[Price, ...]) -> tuple[Price, ...]:
    """The same steps, the first of them since ever: a shared GPU may be older than the node whose price it takes."""
    return (replace(prices[0], from_ms=None), *prices[1:]) if prices else prices


def _stored_break_even(sizing: Sizing) -> tuple[str, ...]:
    if sizing.method is Method.mig:
        return ("Nothing is saved once a pod needs so much that no second slice of its kind fits the GPU.",)
    return (f"Two pods no longer share a GPU once each is busier than {sizing.highest_percent:.1f} %.",)


def _stored_findings(
    options: StoredShareOptions, fleet: Fleet, levels: Levels, *, has_memory: bool, moved: int
) -> tuple[str, ...]:
    told = [ISOLATION[options.sizing.method]]
    if not has_memory:
        told.append(
            "Memory is not in the store (DCGM_FI_DEV_FB_USED): this goes by utilization alone, and pods that fit by it may not "
            "fit the GPU's memory."
        )
    if not moved:
        told.append("No pod with a GPU of its own was idle enough to share it.")
    else:
        told.append("Counted are freed GPUs at their share of their nodes: money is saved once nodes go, or others use them.")
    several = sum(pod.gpus > 1 + _ROUNDING for pod in fleet.pods)
    parts = sum(pod.gpus < 1 - _ROUNDING for pod in fleet.pods)
    if several or parts:
        told.append(f"Left as they are: {several} pods with several GPUs, {parts} pods that share one already.")
    unmeasured = sum(abs(pod.gpus - 1) < _ROUNDING and (pod.cluster, pod.uid) not in levels for pod in fleet.pods)
    if unmeasured:
        told.append(f"{unmeasured} pods with one GPU were not measured and keep it.")
    return tuple(told)


def _model_facts(packed: list[_Packed], facts: Facts) -> list[Assumption]:
    names = sorted({pool.pool[1] for pool in packed})
    models = [facts.models[name] for name in names if name in facts.models]
    return [Assumption(f"memory of {model.name}", model.memory_mib, "MiB", "catalog", model.as_of) for model in models]


def _tables(packed: list[_Packed], sizing: Sizing, facts: Facts) -> list[Rows]:
    pools, layouts = [], []
    for pool in packed:
        cluster, model, capacity, team = pool.pool
        before, _ = peak((pod.from_ms, pod.to_ms) for pod in pool.items.values())
        after, at = peak((gpu.from_ms, gpu.to_ms) for gpu in pool.gpus)
        pools.append((team or "all teams", model, capacity, len(pool.items), before, after))
        for number, gpu in enumerate(gpu for gpu in pool.gpus if gpu.from_ms <= at < gpu.to_ms):
            items = gpu.at(at)
            known = facts.models.get(model)
            layouts.append(
                (
                    f"{team or cluster} {model} {number + 1}",
                    layout_name(known, items) if known and sizing.method is Method.mig else f"{len(items)} pods",
                    round(sum(item.activity for item in items) * 100, 1),
                    round(sum(item.memory_mib for item in items), 1) or None,
                    ", ".join(sorted({pool.items[item.key].workload for item in items})),
                )
            )
    if not pools:
        return []
    hidden = len(layouts) - _LINES_SHOWN
    columns = ("gpu", "layout", "busy_percent_with_margin", "memory_mib_with_margin", "workloads")
    return [
        Rows(
            "GPUs at the busiest moment",
            ("pool", "gpu_model", "capacity_type", "pods", "gpus_today", "gpus_needed"),
            tuple(pools),
        ),
        Rows(
            "A packing that fits, at that moment",
            columns,
            tuple(layouts[:_LINES_SHOWN]),
            f"{hidden} more GPUs." if hidden > 0 else None,
        ),
    ]
