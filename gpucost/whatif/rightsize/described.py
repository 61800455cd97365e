"""Options that describe GPUs of today and others to compare them with, as the calculator takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.errors import UsageError
from gpucost.whatif.answer import Assumption
from gpucost.whatif.described import GPUS_PER_NODE, PricePer, node_price
from gpucost.whatif.fleet import HOURS_PER_MONTH
from gpucost.whatif.rightsize.calculator import Options
from gpucost.whatif.rightsize.sizing import Load, Margins
from gpucost.whatif.rightsize.speeds import Speeds

if TYPE_CHECKING:
    from decimal import Decimal

    from gpucost.whatif.facts import Facts


def described(
    *,
    facts: Facts,
    speeds: Speeds,
    margins: Margins,
    currency: str,
    gpu_model: str | None,
    on_demand_price: Decimal | None,
    price_per: PricePer,
    gpus: int | None,
    utilization_percent: float | None,
    memory_per_gpu_mib: float | None,
    hours: float | None,
    to_gpu_model: str | None,
    to_price: Decimal | None,
    to_gpus: int | None,
    relative_speed: float | None,
    serving: bool,
) -> tuple[Options, Speeds]:
    """The calculator's options and speeds. Raises UsageError where a model is not known, or what decides is not told."""
    if gpu_model is None or to_gpu_model is None or on_demand_price is None or to_price is None:
        raise UsageError(
            "the GPUs to compare, or what they cost, are not told",
            "--gpu-model, --on-demand-price, --to-gpu-model and --to-price tell them",
        )
    if price_per is PricePer.node and to_gpus is None:
        raise UsageError("how many GPUs a node of --to-price has is not told", "--to-gpus tells it, or --price-per gpu")
    model, other = facts.model(gpu_model), facts.model(to_gpu_model, "--to-gpu-model")
    count = gpus or GPUS_PER_NODE
    busy = 1.0 if utilization_percent is None else utilization_percent / 100
    if relative_speed is not None:
        speeds = Speeds({model.name: 1.0, other.name: relative_speed}, "option", across_vendors=True)
    load = Load(model.name, count, count, busy, busy, memory_per_gpu_mib, is_batch=not serving)
    always = HOURS_PER_MONTH if hours is None else hours
    told = (
        Assumption("price today", on_demand_price, f"per {price_per}-hour", "option"),
        Assumption("price of the others", to_price, f"per {price_per}-hour", "option"),
        Assumption("GPUs are busy", busy * 100, "percent", "default" if utilization_percent is None else "option"),
        Assumption("hours of work", always, "hours", "default" if hours is None else "option"),
        Assumption(f"memory of {model.name}", model.memory_mib, "MiB", "catalog", model.as_of),
        Assumption(f"memory of {other.name}", other.memory_mib, "MiB", "catalog", other.as_of),
    )
    options = Options(
        load=load,
        price_per_gpu_hour=round(node_price(on_demand_price, price_per, count) / count, 12),
        to_model=other.name,
        to_price_per_gpu_hour=round(node_price(to_price, price_per, to_gpus or 1) / (to_gpus or 1), 12),
        currency=currency,
        to_gpus=to_gpus,
        hours=always,
        margins=margins,
        told=told,
    )
    return options, speeds
