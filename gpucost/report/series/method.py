"""How the figures came to be, in words, with the settings that decided."""

from __future__ import annotations

from gpucost.config import Config
from gpucost.report.query import Query

_BASES = {
    "node": "A node's whole price rides on its GPUs, evenly.",
    "sku": "A node's price is split by list prices of its parts; CPU and memory are charged by request.",
}


def method(config: Config, query: Query) -> tuple[tuple[str, str], ...]:
    """What a reader must know to check the figures, as (what, how)."""
    threshold = f"{config.idle.threshold_percent:g} %"
    basis = _BASES.get(
        config.prices.cost_basis,
        f"A node's price is split into GPU, CPU and memory ({config.prices.cost_basis}); CPU and memory are charged by request.",
    )
    steps = [
        (
            "Time",
            f"Days and hours are local to {config.tz.key}; the end of a period is not part of it.",
        ),
        (
            "Allocated",
            "GPU-hours that pods held, from the moments that Kubernetes saw them, not from samples: a pod of two minutes counts.",
        ),
        (
            "Active and idle",
            f"Held GPUs are idle while they are measured below {threshold} activity ({config.activity.device_metric}; of MIG "
            f"instances {config.activity.mig_metric}), active from there on, and unmeasured while there is no valid sample.",
        ),
        (
            "Price",
            "For each moment the best there is: the bill, the price book, the history of spot prices, list prices. "
            "What no bill covers is an estimate.",
        ),
        (
            "Cost",
            f"{basis} A node's holders, what nobody held and what nobody saw add up to the node's cost, exactly, in every hour.",
        ),
        ("Efficiency", "Active ÷ (active + idle). Unmeasured time is in neither; Coverage says how much there was."),
        ("Spot ratio", "GPU-hours on spot nodes ÷ allocated GPU-hours of known capacity type."),
    ]
    if query.is_narrowed:
        steps.append(("Unallocated", "GPUs that nobody held belong to no team or namespace, and are not in this report."))
    else:
        steps.append(("Unallocated", "GPUs of nodes that were up, held by nobody. Time that was not collected is not in it."))
    return tuple(steps)
