"""Every workload of the store beside the GPUs that would do its work for less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from gpucost.errors import GpucostError
from gpucost.model import MS_PER_HOUR
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value
from gpucost.whatif.facts import Facts
from gpucost.whatif.fleet import CostOf, Fleet
from gpucost.whatif.measured import Levels
from gpucost.whatif.rightsize.moves import Move, alone, key, moved
from gpucost.whatif.rightsize.offers import PURCHASE, Offer, fleet_offers, merge
from gpucost.whatif.rightsize.shapes import Shape, has_whole_gpus, load_of, shapes_of
from gpucost.whatif.rightsize.sizing import Margins, fits
from gpucost.whatif.rightsize.speeds import Speeds

_LINES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Options:
    """`same_model`: workloads stay on their GPU model, and counts change only. Prices before `stale_before` are pointed out."""

    currency: str
    period: str
    scope: str
    margins: Margins
    same_model: bool = False
    stale_before: str = ""
    given: frozenset[str] = field(default_factory=frozenset)


def answer(
    options: Options, fleet: Fleet, levels: Levels, facts: Facts, speeds: Speeds, listed: Sequence[Offer], cost_of: CostOf
) -> Answer:
    """The cheapest GPUs per unit of work for each measured workload, where they cost less than today's.

    Raises GpucostError where nothing was measured.
    """
    shapes = shapes_of(fleet)
    loads = {shape: load for shape, pods in shapes.items() if (load := load_of(shape, pods, levels)) is not None}
    if not loads:
        raise GpucostError(
            f"no pod of {options.scope} with whole GPUs was measured in {options.period}",
            "gpucost doctor says whether dcgm-exporter labels GPUs with their pods",
        )
    offers = merge(fleet_offers(fleet.nodes), list(listed))
    moves = []
    for shape, load in loads.items():
        if load.used == 0:
            continue  # no work to size GPUs by
        found = fits(load, _near(shape, offers, same_model=options.same_model), facts, speeds, options.margins)
        if found and (found[0].offer.gpu_model, found[0].gpus) != (shape.model, shape.gpus):
            moves.append(Move(shape, tuple(shapes[shape]), load, found[0]))
    moves, before = _that_save(fleet, moves, cost_of)
    gone = {pod for move in moves for pod in move.pods}
    rest = replace(fleet, pods=tuple(pod for pod in fleet.pods if pod not in gone))
    today = Position.held(cost_of(fleet), options.currency, fleet)
    scenario = Position.held(cost_of(rest), options.currency, rest)
    lines: list[tuple[Value, ...]] = []
    if moves:
        costs = cost_of(moved(moves))
        scenario = scenario + Position.of(costs, options.currency)
        lines = _lines(moves, before, costs.by_workload)
    unused = {shape: shape.gpus - load.used for shape, load in loads.items() if 0 < load.used < shape.gpus}
    never = [shape for shape, load in loads.items() if load.used == 0]
    has_memory = any(load.memory_mib is not None for load in loads.values())
    hidden = len(lines) - _LINES_SHOWN
    columns = ("workload", "gpus_today", "gpus", "bought", "cost_today", "cost", "per_unit_today", "per_unit", "time_factor")
    note = "per_unit: cost per active GPU-hour of today's model." + (f" {hidden} more workloads." if hidden > 0 else "")
    return Answer(
        kind="rightsize",
        title=f"Other GPUs for {options.scope}",
        period=options.period,
        today=today,
        scenario=scenario,
        figures={
            "workloads_measured": len({(shape.cluster, shape.namespace, shape.workload) for shape in loads}),
            "workloads_moved": len({(m.shape.cluster, m.shape.namespace, m.shape.workload) for m in moves}),
            "workloads_with_unused_gpus": len({(s.cluster, s.namespace, s.workload) for s in unused}),
            "memory_measured": has_memory,
        },
        assumptions=_assumptions(options, speeds, moves),
        break_even=_break_even(moves, before),
        time=_time(moves),
        findings=(
            *_stale(options, moves),
            *_findings(unused, never, fleet, has_memory=has_memory, across_vendors=speeds.across_vendors),
        ),
        tables=(Rows("What would cost less per unit of work", columns, tuple(lines[:_LINES_SHOWN]), note),) if lines else (),
    )


def _near(shape: Shape, offers: Sequence[Offer], *, same_model: bool) -> list[Offer]:
    """Offers where the pods run, bought as they are."""
    return [
        offer
        for offer in offers
        if offer.purchase_option == PURCHASE[shape.capacity_type]
        and (offer.provider, offer.region) == (shape.provider, shape.region)
        and (not same_model or offer.gpu_model == shape.model)
    ]


def _that_save(fleet: Fleet, moves: list[Move], cost_of: CostOf) -> tuple[list[Move], list[Decimal]]:
    """The moves that cost less than what they replace, and what that costs today."""
    if not moves:
        return [], []
    before, after = cost_of(alone(fleet, moves)).by_workload, cost_of(moved(moves)).by_workload
    kept = [number for number in range(len(moves)) if after[key(number)] < before[key(number)]]
    return [moves[number] for number in kept], [before[key(number)] for number in kept]


def _lines(
    moves: Sequence[Move], before: Sequence[Decimal], after: dict[tuple[str, str, str], Decimal]
) -> list[tuple[Value, ...]]:
    lines: list[tuple[Value, ...]] = []
    for number, move in enumerate(moves):
        was, now = before[number], after[key(number)]
        hours = sum(pod.to_ms - pod.from_ms for pod in move.pods) / MS_PER_HOUR
        work = Decimal(str(round(hours * move.load.used * move.load.mean, 9)))
        bought = f"{move.fit.offer.instance_type or 'option'} {move.fit.offer.purchase_option} ({move.fit.offer.source})"
        lines.append(
            (
                move.shape.workload,
                f"{move.shape.gpus} x {move.shape.model}",
                f"{move.fit.gpus} x {move.fit.offer.gpu_model}",
                bought,
                round(was, 2),
                round(now, 2),
                round(was / work, 4) if work else None,
                round(now / work, 4) if work else None,
                round(move.fit.time_factor, 3),
            )
        )
    return sorted(lines, key=lambda line: (Decimal(str(line[5])) - Decimal(str(line[4])), str(line[0])))


def _assumptions(options: Options, speeds: Speeds, moves: Sequence[Move]) -> tuple[Assumption, ...]:
    def source(name: str) -> str:
        return "option" if name in options.given else "default"

    margins = options.margins
    prices = {(m.fit.offer.instance_type, m.fit.offer.purchase_option): m.fit.offer for m in moves if m.fit.offer.instance_type}
    return (
        Assumption("speed of GPU models", speeds.source, "", "option" if options.given & {"speeds"} else "catalog", speeds.as_of),
        Assumption("added to memory and activity", margins.margin_percent, "percent", source("margin_percent")),
        Assumption("kept free of what serves", margins.headroom_percent, "percent", source("headroom_percent")),
        Assumption("batch work may take", margins.max_slowdown, "times as long", source("max_slowdown")),
        Assumption("usage, activity and today's prices", options.period, "", "store"),
        *(
            Assumption(f"a GPU of {kind}, {option}", round(offer.price_per_gpu_hour, 4), "per hour", offer.source, offer.as_of)
            for (kind, option), offer in sorted(prices.items(), key=lambda item: str(item[0]))
        ),
    )


def _break_even(moves: Sequence[Move], before: Sequence[Decimal]) -> tuple[str, ...]:
    if not moves:
        return ("Nothing with enough memory and speed costs less per unit of work than what runs today.",)
    top, number = max((before[number], number) for number in range(len(moves)))
    move = moves[number]
    hours = Decimal(str(sum(pod.to_ms - pod.from_ms for pod in move.pods) / MS_PER_HOUR * move.fit.gpus * move.fit.time_factor))
    return (
        f"The largest, {move.shape.workload}, saves as long as a {move.fit.offer.gpu_model} costs less than "
        f"{top / hours:,.4f} per GPU-hour (now {move.fit.offer.price_per_gpu_hour:,.4f}).",
    )


def _time(moves: Sequence[Move]) -> tuple[str, ...]:
    factors = [move.fit.time_factor for move in moves if move.load.is_batch]
    if not factors:
        return ("What does not end by itself runs as long as it did.",)
    return (
        f"Batch work takes {min(factors):.2f} to {max(factors):.2f} times as long; the rest runs as long as it did.",
        "Several GPUs are taken to do as many times the work of one: what they tell each other is not counted.",
    )


def _stale(options: Options, moves: Sequence[Move]) -> list[str]:
    offers = {move.fit.offer for move in moves if move.fit.offer.source in ("catalog", "spot_history")}
    old = sorted(
        f"{offer.instance_type} {offer.purchase_option} ({offer.as_of})"
        for offer in offers
        if offer.as_of and offer.as_of < options.stale_before
    )
    return [f"Prices that are old: {', '.join(old)}; gpucost collect prices and collect spot ask for newer ones."] if old else []


def _findings(
    unused: dict[Shape, int], never: list[Shape], fleet: Fleet, *, has_memory: bool, across_vendors: bool
) -> tuple[str, ...]:
    told = [
        f"{shape.namespace}/{shape.workload} asks for {shape.gpus} GPUs and never used more than {shape.gpus - count} of them."
        for shape, count in sorted(unused.items(), key=lambda item: (-item[1], item[0].workload))[:_LINES_SHOWN]
    ]
    told += [
        f"{shape.namespace}/{shape.workload} held {shape.gpus} GPUs and never used any: gpucost whatif schedule releases them."
        for shape in never[:_LINES_SHOWN]
    ]
    if not has_memory:
        told.append(
            "Memory is not in the store (DCGM_FI_DEV_FB_USED): other GPUs are asked to have as much memory in all as today's."
        )
    if not across_vendors:
        told.append("Other vendors' GPUs need other software and are left out; --speeds with measured speeds brings them in.")
    counted = sum(map(has_whole_gpus, fleet.pods))
    if counted < len(fleet.pods):
        told.append(f"{len(fleet.pods) - counted} pods that hold parts of GPUs are left as they are.")
    reserved = {(node.cluster, node.name) for node in fleet.nodes if node.capacity_type not in PURCHASE}
    on_reserved = sum((pod.cluster, pod.node) in reserved for pod in fleet.pods)
    if on_reserved:
        told.append(f"{on_reserved} pods on reserved capacity are left as they are: it is paid anyway.")
    told.append("GPUs are counted at their share of an instance; money is saved once whole nodes change.")
    return tuple(told)
