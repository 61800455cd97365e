"""Medians, and how far values stray from them: figures that one odd day does not move."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from statistics import median

# Makes the median absolute deviation, and the mean one, of a normal distribution its standard deviation:
# Iglewicz, Hoaglin, "How to Detect and Handle Outliers" (ASQC, 1993): 1 / 0.6745, and 1.2533.
MAD_TO_SIGMA = 1.4826
MEAN_TO_SIGMA = 1.2533

_MICRO = Decimal("0.000000001")


def middle(values: Sequence[Decimal]) -> Decimal:
    """The median, to 9 decimals; of an even number of values the mean of the two in the middle. Raises for none."""
    return Decimal(median(values)).quantize(_MICRO)


def spread(residuals: Sequence[Decimal]) -> float:
    """A standard deviation from the median of absolute residuals; from their mean, where more than half are zero."""
    sizes = [abs(float(value)) for value in residuals]
    if not sizes:
        return 0.0
    return MAD_TO_SIGMA * median(sizes) or MEAN_TO_SIGMA * sum(sizes) / len(sizes)
