"""Several pods on one GPU: time slicing, MPS or MIG, packed by what was measured."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum

from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value, assumed
from gpucost.whatif.fleet import (
    GPUS_PER_NODE,
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


_LINES_SHOWN = 20
_ROUNDING = 1e-6

# GPUs that may be shared among each other: (cluster, model, capacity type, team or "" for all teams)
Pool = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class ShareOptions:
    """`across_teams`: pods of several teams may meet on one GPU. `assumptions` are those that the fleet rests on.

    `is_described`: the fleet was made of options, so that what it lacks is told by options, too.
    """

    sizing: Sizing
    currency: str
    period: str
    scope: str
    across_teams: bool = False
    given: frozenset[str] = field(default_factory=frozenset)
    assumptions: tuple[Assumption, ...] = ()
    is_described: bool = False


@dataclass(frozen=True, slots=True)
class _Packed:
    pool: Pool
    gpus: list[Shared]
    items: dict[str, Pod]


def answer(options: ShareOptions, fleet: Fleet, levels: Levels, facts: Facts) -> Scenario[Answer]:
    """Pods of one whole GPU each, as busy as their workload's busiest, packed in the order in which they came.

    Raises GpucostError where no pod was measured.
    """
    sizing = options.sizing
    candidates = [pod for pod in fleet.pods if _has_one_gpu(pod) and (pod.cluster, pod.uid) in levels]
    if not any((pod.cluster, pod.uid) in levels for pod in fleet.pods):
        raise GpucostError(
            f"no GPU of {options.scope} was measured in {options.period}",
            "gpucost doctor says whether dcgm-exporter labels GPUs with their pods",
        )
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    packed = _pack(options, fleet, candidates, nodes, levels, facts)
    moved = [pod for pool in packed for pod in pool.items.values()]
    gone = set(moved)
    rest = replace(fleet, pods=tuple(pod for pod in fleet.pods if pod not in gone))
    shared = sum((_shared_fleet(pool, sizing, facts, nodes) for pool in packed), Fleet())
    fleets = (fleet, rest, shared)
    # described pods are many and alike
    today_costs, rest_costs, shared_costs = yield [one.folded() for one in fleets] if options.is_described else fleets
    today, scenario = Position.held(today_costs, options.currency, fleet), Position.held(rest_costs, options.currency, rest)
    if shared.nodes:
        scenario = scenario + Position.of(shared_costs, options.currency)
    has_memory = any(level.high_memory_mib is not None for level in levels.values())
    held, _ = peak((pod.from_ms, pod.to_ms) for pod in moved or candidates)
    needed = peak((gpu.from_ms, gpu.to_ms) for pool in packed for gpu in pool.gpus)[0] if moved else held
    at_once = (peak((item.from_ms, item.to_ms) for item in gpu.items)[0] for pool in packed for gpu in pool.gpus)
    is_mig = sizing.method is Method.mig
    return Answer(
        kind="share",
        title=f"Shared GPUs for {options.scope}",
        period=options.period,
        today=today,
        scenario=scenario,
        figures={
            "gpus_today": held,
            "gpus_needed": needed,
            "gpus_saved_percent": round((held - needed) / held * 100, 6) if held else None,
            "pods_shared": len({(pod.cluster, pod.uid) for pod in moved}),
            "pods_per_gpu": max(at_once, default=1),
            "break_even_utilization_percent": None if is_mig else round(sizing.highest_percent, 6),
            "memory_measured": has_memory,
            "isolation": ISOLATION[sizing.method],
        },
        assumptions=(*sizing.assumptions(options.given), *options.assumptions, *_model_facts(packed, facts)),
        break_even=(
            "Nothing is saved once a pod needs so much that no second slice of its kind fits the GPU."
            if is_mig
            else f"Two pods no longer share a GPU once each is busier than {sizing.highest_percent:.1f} %.",
        ),
        time=(TIME[sizing.method],),
        findings=_findings(options, fleet, levels, has_memory=has_memory, moved=len(moved)),
        tables=tuple(_tables(packed, sizing, facts)),
    )


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
) -> tuple[ShareOptions, Fleet, Levels]:
    """The fleet that options describe, one pod per GPU, all equally busy; `given` names those of `sizing` that are no defaults.

    How GPUs lie on nodes does not matter to what they cost: all are on one. Raises UsageError where options do not say enough,
    a model is not known, or its memory is too small.
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
    busy = utilization_percent / 100
    level = Level(1, 1, 0, busy, busy, memory_per_pod_mib)
    if model is not None and model.memory_mib and sizing.need(level)[1] > model.memory_mib:
        raise UsageError(
            f"{memory_per_pod_mib:g} MiB and the margin do not fit the {model.memory_mib:,} MiB of {model.name}",
            "a GPU with more memory is needed first: gpucost whatif rightsize",
        )
    always = HOURS_PER_MONTH if hours is None else hours
    assumptions = [
        Assumption("pods", pods, "pods", "option"),
        Assumption("each pod's GPUs are busy", utilization_percent, "percent", "option"),
        assumed("GPUs of a pod", gpus_per_pod or 1, "GPUs", gpus_per_pod),
        assumed("hours", always, "hours", hours),
    ]
    if memory_per_pod_mib is not None:
        assumptions.append(Assumption("memory of a pod", memory_per_pod_mib, "MiB", "option"))
    price, count = Price(Decimal(0), "none"), pods * (gpus_per_pod or 1)
    if on_demand_price is not None:
        per_node = gpus or GPUS_PER_NODE
        price = Price(round(node_price(on_demand_price, price_per, per_node) / per_node * count, 12), "option")
        assumptions.append(Assumption("price", on_demand_price, f"per {price_per}-hour", "option"))
    end = round(always * MS_PER_HOUR)
    node = Node("node", count, 0, end, (price,), gpu_model=model.name if model else None)
    each = Pod("node", "pods", 1, 0, end)
    fleet = Fleet((node,), tuple(replace(each, uid=str(number // (gpus_per_pod or 1))) for number in range(count)))
    options = ShareOptions(
        sizing, currency, f"{always:g} hours", f"{pods} pods", given=given, assumptions=tuple(assumptions), is_described=True
    )
    return options, fleet, {(pod.cluster, pod.uid): level for pod in fleet.pods}


def _has_one_gpu(pod: Pod) -> bool:
    return abs(pod.gpus - 1) < _ROUNDING


def _pack(
    options: ShareOptions,
    fleet: Fleet,
    candidates: Sequence[Pod],
    nodes: Mapping[tuple[str, str], Node],
    levels: Levels,
    facts: Facts,
) -> list[_Packed]:
    sizing = options.sizing
    busiest = _busiest(fleet, levels)
    has_memory = any(level.high_memory_mib is not None for level in levels.values())
    pools: dict[Pool, list[Pod]] = defaultdict(list)
    for pod in candidates:
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
            Price(round(price.per_node_hour / round(first.gpus), 12), price.source, price.as_of, price.from_ms)
            for price in first.prices
        )
        made.append(replace(first, name=name, gpus=1.0, from_ms=gpu.from_ms, to_ms=gpu.to_ms, prices=_reaching(prices)))
        for item in gpu.items:
            pods.append(replace(pool.items[item.key], node=name, gpus=sizing.part(item, model)))
    return Fleet(tuple(made), tuple(pods))


def _reaching(prices: tuple[Price, ...]) -> tuple[Price, ...]:
    """The same steps, the first of them since ever: a shared GPU may be older than the node whose price it takes."""
    return (replace(prices[0], from_ms=None), *prices[1:]) if prices else prices


def _findings(options: ShareOptions, fleet: Fleet, levels: Levels, *, has_memory: bool, moved: int) -> tuple[str, ...]:
    findings = [ISOLATION[options.sizing.method]]
    if not has_memory:
        findings.append(
            "Memory was not told: this goes by utilization alone. --memory-per-pod-mib and --gpu-model count it."
            if options.is_described
            else "Memory is not in the store (DCGM_FI_DEV_FB_USED): this goes by utilization alone, and pods that fit by it may "
            "not fit the GPU's memory."
        )
    if not moved:
        findings.append("With the margins no pod with a GPU of its own leaves room for another: each keeps its own.")
    elif not options.is_described:
        findings.append("Counted are freed GPUs at their share of their nodes: money is saved once nodes go, or others use them.")
    if options.is_described and not all(node.is_priced for node in fleet.nodes):
        findings.append("No price was given: --on-demand-price 3 --price-per gpu turns GPUs into money.")
    several = sum(pod.gpus > 1 + _ROUNDING for pod in fleet.pods)
    parts = sum(pod.gpus < 1 - _ROUNDING for pod in fleet.pods)
    if several or parts:
        findings.append(f"Left as they are: {several} pods with several GPUs, {parts} pods that share one already.")
    unmeasured = sum(_has_one_gpu(pod) and (pod.cluster, pod.uid) not in levels for pod in fleet.pods)
    if unmeasured:
        findings.append(f"{unmeasured} pods with one GPU were not measured and keep it.")
    return tuple(findings)


def _model_facts(packed: list[_Packed], facts: Facts) -> list[Assumption]:
    models = [facts.models[name] for name in sorted({pool.pool[1] for pool in packed}) if name in facts.models]
    return [Assumption(f"memory of {model.name}", model.memory_mib, "MiB", "catalog", model.as_of) for model in models]


def _tables(packed: list[_Packed], sizing: Sizing, facts: Facts) -> list[Rows]:
    """Each pool's GPUs at its busiest moment, and what lies on them then: GPUs that hold the same are one line."""
    pools: list[tuple[Value, ...]] = []
    layouts: Counter[tuple[Value, ...]] = Counter()
    for pool in packed:
        cluster, model, capacity, team = pool.pool
        before, _ = peak((pod.from_ms, pod.to_ms) for pod in pool.items.values())
        after, at = peak((gpu.from_ms, gpu.to_ms) for gpu in pool.gpus)
        pools.append((team or "all teams", model or "unknown", capacity, len(pool.items), before, after))
        known = facts.models.get(model)
        for items in (gpu.at(at) for gpu in pool.gpus if gpu.from_ms <= at < gpu.to_ms):
            layouts[
                f"{team or cluster} {model}".strip(),
                layout_name(known, items) if known and sizing.method is Method.mig else f"{len(items)} pods",
                round(sum(item.activity for item in items) * 100, 1),
                round(sum(item.memory_mib for item in items), 1) or None,
                ", ".join(sorted({pool.items[item.key].workload for item in items})),
            ] += 1
    if not pools:
        return []
    lines = [(line[0], count, *line[1:]) for line, count in layouts.items()]
    hidden = len(lines) - _LINES_SHOWN
    columns = ("pool", "gpus", "layout", "busy_percent_with_margin", "memory_mib_with_margin", "workloads")
    note = f"{hidden} more." if hidden > 0 else None
    summary = ("pool", "gpu_model", "capacity_type", "pods", "gpus_today", "gpus_needed")
    return [
        Rows("GPUs at the busiest moment", summary, tuple(pools)),
        Rows("A packing that fits, at that moment", columns, tuple(lines[:_LINES_SHOWN]), note),
    ]
