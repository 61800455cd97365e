"""One workload on another GPU model, from options alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from gpucost.errors import UsageError
from gpucost.whatif.answer import Answer, Assumption, Position
from gpucost.whatif.facts import Facts
from gpucost.whatif.fleet import HOURS_PER_MONTH, CostOf, Price, uniform
from gpucost.whatif.rightsize.offers import Offer
from gpucost.whatif.rightsize.sizing import Load, Margins, fits, time_factor
from gpucost.whatif.rightsize.speeds import Speeds


@dataclass(frozen=True, slots=True)
class Options:
    """Prices per GPU-hour. `to_gpus` None: as many as do the work at the lowest cost, of up to 8 on a node."""

    load: Load
    price_per_gpu_hour: Decimal
    to_model: str
    to_price_per_gpu_hour: Decimal
    currency: str
    to_gpus: int | None = None
    hours: float = HOURS_PER_MONTH
    margins: Margins = field(default_factory=Margins)
    told: tuple[Assumption, ...] = field(default_factory=tuple)


def answer(options: Options, facts: Facts, speeds: Speeds, cost_of: CostOf) -> Answer:
    """Today's GPUs against the others. Raises UsageError where the others cannot do the work."""
    load = options.load
    ratio = speeds.ratio(options.to_model, load.model)
    if ratio is None:
        raise UsageError(
            f"how fast {options.to_model} is beside {load.model} is not known to {speeds.source}",
            "--relative-speed 0.5 says it, or --speeds FILE",
        )
    gpus = options.to_gpus
    if gpus is None:
        offer = Offer(None, None, None, options.to_model, 8, "on_demand", options.to_price_per_gpu_hour, "option")
        found = fits(load, [offer], facts, speeds, options.margins)
        if not found:
            raise UsageError(
                f"no count up to 8 of {options.to_model} has the memory and the speed for this work",
                "--to-gpus, --memory-per-gpu-mib or --max-slowdown says otherwise",
            )
        gpus = found[0].gpus
    factor = time_factor(load, gpus, ratio)
    today, scenario = (
        Position.of(
            cost_of(uniform("work", nodes=1, gpus_per_node=count, hours=hours, price=Price(round(price * count, 12), "option"))),
            options.currency,
            gpus=count,
            gpu_model=model,
        )
        for model, count, hours, price in (
            (load.model, load.gpus, options.hours, options.price_per_gpu_hour),
            (options.to_model, gpus, options.hours * factor, options.to_price_per_gpu_hour),
        )
    )
    work = Decimal(str(options.hours * load.used * load.mean))
    even = options.price_per_gpu_hour * load.gpus / (gpus * Decimal(str(factor)))
    return Answer(
        kind="rightsize",
        title=f"{load.gpus} x {load.model} against {gpus} x {options.to_model}",
        period=f"{options.hours:g} hours",
        today=today,
        scenario=scenario,
        figures={
            "unit_of_work": f"active GPU-hour of {load.model}",
            "units_of_work": round(float(work), 6),
            "cost_per_unit_of_work_today": round(today.cost / work, 6) if work else None,
            "cost_per_unit_of_work": round(scenario.cost / work, 6) if work else None,
            "relative_speed": round(ratio, 6),
            "time_factor": round(factor, 6),
            "break_even_price_per_gpu_hour": round(even, 6),
        },
        assumptions=(
            *options.told,
            Assumption("speed of one GPU beside the other", round(ratio, 4), "times", speeds.source, speeds.as_of),
        ),
        break_even=(f"It saves as long as a {options.to_model} costs less than {even:,.4f} {options.currency} per GPU-hour.",),
        time=(
            f"Each hour of work takes {factor:.2f} hours."
            if load.is_batch
            else "It runs as long as it did; requests take as long as one GPU's speed says.",
        ),
        findings=_findings(options, facts, gpus, factor),
    )


def _findings(options: Options, facts: Facts, gpus: int, factor: float) -> tuple[str, ...]:
    load, told = options.load, []
    each = load.memory_mib or facts.models[load.model].memory_mib
    there = facts.models[options.to_model].memory_mib
    if each and there and gpus * there < load.gpus * each:
        filled = "that the work fills" if load.memory_mib else "of today's GPUs; --memory-per-gpu-mib tells what the work fills"
        told.append(f"It may not fit: {gpus * there:,} MiB of memory in all, against {load.gpus * each:,.0f} MiB {filled}.")
    if load.is_batch and factor > options.margins.max_slowdown:
        told.append(f"It takes more than {options.margins.max_slowdown:g} times as long (--max-slowdown).")
    if max(load.gpus, gpus) > 1:
        told.append("Several GPUs are taken to do as many times the work of one: what they tell each other is not counted.")
    return tuple(told)
