"""Interruptions of spot instances: published rates by family, and the posterior with own evidence."""

import math
import re
from collections import Counter
from typing import NamedTuple

from gpucost.catalog import facts
from gpucost.records import frozen_dataclass
from gpucost.whatif.spot.formulas import bisected


class Place(NamedTuple):
    """The place of a node; the instance type in upper or lower case, None if unknown."""

    instance_type: str
    provider: str | None = None
    region: str | None = None


@frozen_dataclass
class Rate:
    """Interruptions per node-hour with their 5 and 95 % ends (None if unknown), and the source."""

    per_hour: float
    source: str
    as_of: str | None = None
    low: float | None = None
    high: float | None = None


# Quantiles of ranges.
_LOW, _HIGH = 0.05, 0.95


def family_of(instance_type: str) -> str:
    """The family of an instance type: `p4d` for p4d.24xlarge, `a2` for a2-highgpu-8g."""
    return re.split(r"[.-]", instance_type.lower())[0]


@frozen_dataclass
class Evidence:
    """Own spot nodes, weighted by age: node-hours and witnessed reclaims; hours with any node of a pool, and their ends."""

    node_hours: float = 0.0
    reclaims: float = 0.0
    pool_hours: float = 0.0
    ends: float = 0.0


def prior_rate(place: Place, eviction_band: str | None = None, seen_on: str | None = None) -> Rate:
    """The published or derived rate of a place's family (pricing/interruptions.csv), otherwise a wide range.

    AWS: by the Spot Instance Advisor's band of the type in that region, otherwise the most frequent band of its family.
    Azure: by `eviction_band`, the low end of the published band in percent per hour, of the day `seen_on`.
    """
    family, provider = family_of(place.instance_type), place.provider or ""
    band = _advisor_band(place) if provider == "aws" else eviction_band
    rows = [
        row
        for row in facts("interruptions.csv")
        if row["provider"] in ("", provider)
        and row["family"] in ("", family)
        and row["band_low_percent"] in ("", band)
    ]
    row = max(rows, key=lambda row: (row["provider"], row["family"]))
    rate, low, high = (float(row[name]) for name in ("interruptions_per_node_hour", "low", "high"))
    as_of = {source["source_id"]: source["as_of"] for source in facts("sources.csv")}.get(row["source_id"])
    if eviction_band and row["band_low_percent"] == eviction_band:
        as_of = seen_on
    source = row["derivation"] + ("" if row["provider"] else "; no rate of its family is published")
    return Rate(rate, source, as_of, low, high)


def _advisor_band(place: Place) -> str | None:
    """The low end of the type's band in percent per month."""
    family = family_of(place.instance_type)
    alike = [row for row in facts("interruption.csv") if family_of(row["instance_type"]) == family]
    in_region = [row for row in alike if row["region"] == place.region]
    exact = [row for row in in_region if row["instance_type"] == place.instance_type.lower()]
    bands = Counter(row["band_low_percent"] for row in exact or in_region or alike)
    return max(bands, key=lambda band: (bands[band], int(band)), default=None)


def posterior(prior: Rate, evidence: Evidence) -> Rate:
    """The prior rate updated with your own spot nodes of the family, by gamma-Poisson: (shape + events) / (shape / mean + hours).

    The middle counts reclaims per node-hour, the upper end all ends per pool-hour: nodes of a pool count once.
    Conjugate prior: A. Gelman et al., Bayesian Data Analysis, 3rd ed., section 2.6.
    """
    if not evidence.node_hours:
        return prior
    shape = _shape(prior)
    hours = shape / prior.per_hour + evidence.node_hours
    per_hour = (shape + evidence.reclaims) / hours
    low = gamma_quantile(shape + evidence.reclaims, _LOW) / hours
    high = gamma_quantile(shape + evidence.ends, _HIGH) / (shape / prior.per_hour + evidence.pool_hours)
    source = (
        f"your spot nodes: {evidence.reclaims:,.1f} witnessed reclaims in {evidence.node_hours:,.0f} node-hours, "
        f"{evidence.ends:,.1f} ends in {evidence.pool_hours:,.0f} pool-hours, weight halved every 90 days; prior: {prior.source}"
    )
    return Rate(per_hour, source, prior.as_of, low, max(high, per_hour))


def _shape(rate: Rate) -> float:
    """The shape of a gamma distribution as wide as a lognormal one with these 5 and 95 % ends; 1 for wider ones."""
    if not rate.low or not rate.high:
        return 1.0
    sigma = math.log(rate.high / rate.low) / (2 * 1.6449)
    return max(1.0, 1 / math.expm1(sigma**2))


def gamma_quantile(shape: float, share: float) -> float:
    """The quantile of a gamma distribution of rate 1."""
    high = shape + 10 * math.sqrt(shape) + 10
    return bisected(0.0, high, lambda value: _gamma_share(shape, value) < share)


def _gamma_share(shape: float, value: float) -> float:
    """The cumulative gamma distribution of rate 1 by its series (NIST Handbook of Mathematical Functions, 8.11.4)."""
    if value <= 0:
        return 0.0
    term = total = 1 / shape
    step = shape
    while term > total * 1e-12:
        step += 1
        term *= value / step
        total += term
    return total * math.exp(shape * math.log(value) - value - math.lgamma(shape))
