"""Options that describe pods to share GPUs, as the calculator takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.errors import UsageError
from gpucost.whatif.answer import Assumption
from gpucost.whatif.described import PricePer, node_price, node_shape
from gpucost.whatif.fleet import HOURS_PER_MONTH
from gpucost.whatif.share.calculator import Options
from gpucost.whatif.share.method import Method
from gpucost.whatif.share.methods import Sizing

if TYPE_CHECKING:
    from decimal import Decimal

    from gpucost.whatif.facts import Facts


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
) -> Options:
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
    return Options(
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
