"""Reads Google Cloud's SKUs: which part of which machine family one prices, and how it is bought.

No field of a SKU names the machine type: its description does, such as "A2 Instance Core running in Americas",
"Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa", "Commitment v1: A3 Ram in Tokyo for 1 Year".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.collect.prices.known import gpu_model

if TYPE_CHECKING:
    from google.cloud.billing_v1.types import PricingExpression, Sku

HOURS_PER_MONTH = 730  # Google's own month: a year of 8,760 hours over twelve

# Sold beside the plain machine: other shapes, other tenancies, reservations of a while ahead, surcharges, what is switched off.
_OTHERWISE = re.compile(
    r"custom|sole tenancy|\bDWS\b|defined duration|calendar mode|^reserved |premium|extended|capacity optimized"
    r"|suspended|vm state",
    re.IGNORECASE,
)
_TERMS = {"Commit1Yr": 1, "Commit3Yr": 3}
_COMMITMENT = re.compile(r"^commitment(?: v\d+)?: ", re.IGNORECASE)
_SPOT = re.compile(r"^(?:spot )?preemptible |^spot | attached to (?:spot|preemptible)\b.*", re.IGNORECASE)
_PLACE = re.compile(r" (?:running )?in .*$| for \d years?.*$", re.IGNORECASE)
_PART = re.compile(r"^(?:(?P<family>.*?) ?)(?:instance )?(?P<part>core|cpu|ram)$", re.IGNORECASE)
_WORDS_OF_FAMILIES = re.compile(r" (?:predefined|amd|arm|intel)$", re.IGNORECASE)

# GPUs that Google names as nobody else does. "Plus" and "Mega" are the GPUs of A3 Mega machines, sold at a price of their own.
_GPUS = {"rtx 6000 96gb": "RTX-PRO-6000"}
_MEGA = re.compile(r"\b(?:mega|plus)\b", re.IGNORECASE)
MEGA = "-Mega"


@dataclass(frozen=True, slots=True)
class Unit:
    """What one vCPU, GiB or GPU is, and how it is bought: the key of a unit price within a region.

    `part` is 'cpu', 'memory_gib', 'gpu' or 'local_ssd_gib'; `of` the machine family ('a2', 'a3plus'), or the GPU model.
    """

    part: str
    of: str
    purchase_option: str = "on_demand"
    term_years: int = 0

    @property
    def component(self) -> str:
        """The name of the component in component_prices."""
        if self.part == "local_ssd_gib":
            return self.part
        return f"gpu/{self.of}" if self.part == "gpu" else f"{self.of}/{self.part}"


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """The price of a unit per hour, in each of `regions`. `whole` where it covers its share of the whole machine."""

    unit: Unit
    regions: tuple[str, ...]
    price_per_hour: Decimal
    currency: str
    effective_start: date | None
    whole: bool = False


def unit_price(sku: Sku) -> UnitPrice | None:
    """What a SKU says of a machine's part; None where it prices something else, or nothing."""
    words = sku.description
    if _OTHERWISE.search(words) or not sku.pricing_info:
        return None
    option, term = _bought(sku.category.usage_type, words)
    named = _part(sku.category.resource_group, _PLACE.sub("", _SPOT.sub("", _COMMITMENT.sub("", words))).strip())
    if option is None or named is None:
        return None
    part, of = named
    info = max(sku.pricing_info, key=lambda info: info.effective_time.timestamp() if info.effective_time else 0)
    priced = _per_hour(info.pricing_expression, part)
    if priced is None:
        return None
    started = info.effective_time.date() if info.effective_time else None
    unit = Unit(part, of, option, term)
    return UnitPrice(unit, tuple(sku.service_regions), *priced, started, whole="gpu slice" in words.lower())


def _bought(usage_type: str, words: str) -> tuple[str | None, int]:
    if term := _TERMS.get(usage_type):
        return "cud", term
    # some spot SKUs are filed as on demand: the description knows better
    if usage_type == "Preemptible" or (usage_type == "OnDemand" and _SPOT.search(words)):
        return "spot", 0
    return ("on_demand", 0) if usage_type == "OnDemand" and not _COMMITMENT.search(words) else (None, 0)


def _part(group: str, words: str) -> tuple[str, str] | None:
    if group == "LocalSSD":
        # other families have a local SSD of their own, by another name
        return ("local_ssd_gib", "") if words.lower() in ("ssd backed local storage", "local ssd") else None
    if group == "GPU":
        return "gpu", _gpu(words)
    if group in ("CPU", "RAM", "N1Standard") and (found := _PART.match(words)):
        # N1's commitments name no family
        family = _WORDS_OF_FAMILIES.sub("", found["family"]).strip().lower() or "n1"
        return ("memory_gib" if found["part"].lower() == "ram" else "cpu"), family
    return None


def _gpu(words: str) -> str:
    """'Nvidia Tesla A100 80GB GPU' -> 'A100-SXM4-80GB', 'A4 Nvidia B200 (1 gpu slice)' -> 'B200'."""
    bare = re.sub(r"\(.*?\)|\bgpu\b", " ", words, flags=re.IGNORECASE)
    bare = re.sub(r"^.*\bnvidia\b|\btesla\b", " ", bare, flags=re.IGNORECASE)
    mega = _MEGA.search(bare) is not None
    bare = " ".join(_MEGA.sub(" ", bare).split())
    return _GPUS.get(bare.lower(), gpu_model(bare)) + (MEGA if mega else "")


def _per_hour(expression: PricingExpression, part: str) -> tuple[Decimal, str] | None:
    """The price per hour in the tier that starts at 0; None where it is free or counted otherwise."""
    hours = {"h": 1, "GiBy.h": 1, "GiBy.mo": HOURS_PER_MONTH}.get(expression.usage_unit)
    if hours is None or ("GiBy" in expression.usage_unit) != part.endswith("_gib"):
        return None
    first = next((tier for tier in expression.tiered_rates if tier.start_usage_amount == 0), None)
    if first is None:
        return None
    price = first.unit_price.units + Decimal(first.unit_price.nanos) / 1_000_000_000
    return (price / hours, first.unit_price.currency_code) if price > 0 else None
