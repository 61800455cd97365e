"""Which GPUs could do a workload's work: what fits its memory, is fast enough, and how long that takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from gpucost.whatif.facts import Facts, Model
from gpucost.whatif.rightsize.offers import Offer
from gpucost.whatif.rightsize.speeds import Speeds

# A batch job is spread over these counts; more than one GPU is taken to scale evenly.
_COUNTS = (1, 2, 3, 4, 6, 8, 16)


@dataclass(frozen=True, slots=True)
class Load:
    """What a pod does with its `gpus`: `used` of them are ever active; `mean` and `high` are shares 0-1 of those.

    `memory_mib` is what one GPU held (95th percentile), None where that is not known: then the new GPUs need as much memory in
    all as those of today.
    """

    model: str
    gpus: int
    used: int
    mean: float
    high: float
    memory_mib: float | None
    is_batch: bool


@dataclass(frozen=True, slots=True)
class Margins:
    """Percentages as in `whatif share`; a batch job may take `max_slowdown` times as long."""

    margin_percent: float = 10.0
    headroom_percent: float = 20.0
    max_slowdown: float = 2.0


@dataclass(frozen=True, slots=True)
class Fit:
    """`gpus` of an offer that do the work in `time_factor` times the hours."""

    offer: Offer
    gpus: int
    time_factor: float

    @property
    def price_per_hour_today(self) -> Decimal:
        """What the GPUs cost while an hour's work of today is done: a price per unit of work."""
        return self.offer.price_per_gpu_hour * self.gpus * Decimal(str(self.time_factor))


def fits(load: Load, offers: Iterable[Offer], facts: Facts, speeds: Speeds, margins: Margins) -> list[Fit]:
    """All that can do it, the cheapest per unit of work first."""
    found = []
    for offer in offers:
        ratio = speeds.ratio(offer.gpu_model, load.model)
        model = facts.models.get(offer.gpu_model)
        if ratio is None or model is None or not (speeds.across_vendors or _is_kin(load, model, facts)):
            continue
        for gpus in _counts(load, offer, ratio, margins):
            factor = time_factor(load, gpus, ratio)
            if _holds(load, model, gpus, facts, margins) and (not load.is_batch or factor <= margins.max_slowdown + 1e-9):
                found.append(Fit(offer, gpus, factor))
    return sorted(found, key=lambda fit: (fit.price_per_hour_today, fit.time_factor, fit.gpus))


def time_factor(load: Load, gpus: int, ratio: float) -> float:
    """Hours on `gpus` GPUs, each `ratio` times as fast, per hour of today.

    Of batch work the active share of the time shrinks or grows with speed, the rest (input, waiting) stays; everything else
    runs as long as it did.
    """
    if not load.is_batch:
        return 1.0
    return (1 - load.mean) + load.mean * load.used / (gpus * ratio)


def _counts(load: Load, offer: Offer, ratio: float, margins: Margins) -> list[int]:
    if load.is_batch:
        return [count for count in sorted({*_COUNTS, load.used}) if count <= offer.gpus]
    # what serves must be fast enough at its busiest
    free = 1 - margins.headroom_percent / 100
    least = load.used * load.high * (1 + margins.margin_percent / 100) / (ratio * free)
    return list(range(max(1, math.ceil(least - 1e-9)), offer.gpus + 1))


def _is_kin(load: Load, model: Model, facts: Facts) -> bool:
    """Whether the model is of the same vendor as today's: others need other software."""
    today = facts.models.get(load.model)
    return today is not None and today.vendor == model.vendor


def _holds(load: Load, model: Model, gpus: int, facts: Facts, margins: Margins) -> bool:
    """Whether the GPUs have the memory, together; what fits one GPU today is not spread over several."""
    today = facts.models.get(load.model)
    each = load.memory_mib
    if each is not None:
        each *= 1 + margins.margin_percent / 100
        if today is not None and today.memory_mib is not None:
            each = min(each, today.memory_mib)  # it runs there, margin or not
    elif today is not None:
        each = today.memory_mib
    if each is None or model.memory_mib is None:
        return False
    return model.memory_mib >= each if load.used == 1 else gpus * model.memory_mib >= load.used * each
