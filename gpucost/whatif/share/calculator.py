"""Equal pods on shared GPUs, from options alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from gpucost.errors import UsageError
from gpucost.whatif.answer import Answer, Assumption, Position, Rows
from gpucost.whatif.facts import Model
from gpucost.whatif.fleet import HOURS_PER_MONTH, CostOf, Price, uniform
from gpucost.whatif.measured import Level
from gpucost.whatif.share.method import Method
from gpucost.whatif.share.methods import ISOLATION, TIME, Sizing
from gpucost.whatif.share.mig import layout_name
from gpucost.whatif.share.packing import Item, pack


@dataclass(frozen=True, slots=True)
class Options:
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


def answer(options: Options, cost_of: CostOf) -> Answer:
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
    today, scenario = (_position(options, gpus, cost_of) for gpus in (count, shared))
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


def _position(options: Options, gpus: int, cost_of: CostOf) -> Position:
    """So many GPUs, always on, as one node: how they lie on nodes does not matter to what they cost."""
    each = options.price_per_gpu_hour
    price = Price(round((each or Decimal(0)) * gpus, 9), "option" if each else "none")
    costs = cost_of(uniform("pods", nodes=1, gpus_per_node=gpus, hours=options.hours, price=price))
    return Position.of(costs, options.currency, gpus=gpus)


def _break_even(options: Options) -> tuple[str, ...]:
    if options.sizing.method is Method.mig:
        return ("Nothing is saved once a pod needs so much that one slice of it fills the GPU.",)
    return (f"Two pods no longer share a GPU once each is busier than {options.sizing.highest_percent:.1f} %.",)


def _findings(options: Options, *, needed: bool) -> tuple[str, ...]:
    told = [ISOLATION[options.sizing.method]]
    if not needed:
        told.append("With the margins a pod leaves no room for another on its GPU: each keeps its own.")
    if options.memory_mib is None:
        told.append("Memory was not told: this goes by utilization alone. --memory-per-pod-mib and --gpu-model count it.")
    if options.price_per_gpu_hour is None:
        told.append("No price was given: --on-demand-price 3 --price-per gpu turns GPUs into money.")
    return tuple(told)
