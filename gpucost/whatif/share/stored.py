"""Sharing over real usage: which pods could have shared a GPU, moment by moment, and what that would have cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpucost.errors import GpucostError
from gpucost.whatif.answer import Answer, Assumption, Position, Rows
from gpucost.whatif.facts import Facts
from gpucost.whatif.fleet import CostOf, Fleet, Node, Pod, Price
from gpucost.whatif.measured import Level, Levels
from gpucost.whatif.share.method import Method
from gpucost.whatif.share.methods import ISOLATION, TIME, Sizing
from gpucost.whatif.share.mig import layout_name
from gpucost.whatif.share.packing import Item, Shared, pack, peak

_LINES_SHOWN = 20
_ROUNDING = 1e-6

# GPUs that may be shared among each other: (cluster, model, capacity type, team or "" for all teams)
Pool = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Options:
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


def answer(options: Options, fleet: Fleet, levels: Levels, facts: Facts, cost_of: CostOf) -> Answer:
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
    today = Position.held(cost_of(fleet), options.currency, fleet)
    scenario = Position.held(cost_of(rest), options.currency, rest)
    if shared.nodes:
        scenario = scenario + Position.of(cost_of(shared), options.currency)
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
        break_even=_break_even(options.sizing),
        time=(TIME[options.sizing.method],),
        findings=_findings(options, fleet, levels, has_memory=has_memory, moved=len(moved)),
        tables=tuple(_tables(packed, options.sizing, facts)),
    )


def _pack(options: Options, fleet: Fleet, nodes: Mapping[tuple[str, str], Node], levels: Levels, facts: Facts) -> list[_Packed]:
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


def _break_even(sizing: Sizing) -> tuple[str, ...]:
    if sizing.method is Method.mig:
        return ("Nothing is saved once a pod needs so much that no second slice of its kind fits the GPU.",)
    return (f"Two pods no longer share a GPU once each is busier than {sizing.highest_percent:.1f} %.",)


def _findings(options: Options, fleet: Fleet, levels: Levels, *, has_memory: bool, moved: int) -> tuple[str, ...]:
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
