"""How often spot instances are interrupted, and where that is known from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from gpucost.whatif.fleet import HOURS_PER_MONTH
from gpucost.whatif.spot.traces import Trace


@dataclass(frozen=True, slots=True)
class Rate:
    """Interruptions per node-hour, and between which they lie; `high` None where nothing bounds them, or no range is known."""

    per_hour: float
    source: str
    as_of: str | None = None
    low: float | None = None
    high: float | None = None


def of_share(percent: float) -> float:
    """The rate at which `percent` of instances are interrupted within a month of 730 h: -ln(1 - p) / 730."""
    return math.inf if percent >= 100 else -math.log1p(-percent / 100) / HOURS_PER_MONTH


def of_band(low_percent: float, high_percent: float, source: str, as_of: str | None) -> Rate:
    """The rate of a band per month: that of its middle, and those of its ends; a band up to 100 % has no upper end."""
    low, high = of_share(low_percent), of_share(high_percent)
    middle = of_share((low_percent + high_percent) / 2)
    return Rate(middle, source, as_of, low, high if math.isfinite(high) else None)


def of_trace(trace: Trace) -> Rate:
    """Preemptions per node-hour, and a 95 % interval of a Poisson count (its normal approximation on square roots)."""
    root = math.sqrt(trace.preemptions)
    low, high = max(root - 0.98, 0.0) ** 2, (root + 0.98) ** 2
    return Rate(
        trace.per_hour,
        f"traces: {trace.preemptions:,} preemptions in {trace.node_hours:,.1f} node-hours of {trace.files} file(s)",
        None,
        low / trace.node_hours,
        high / trace.node_hours,
    )


def money(price: float | Decimal) -> Decimal:
    """A price as the stages take it: 9 decimals."""
    return Decimal(str(price)).quantize(Decimal("1E-9"))
