"""What is known about prices besides the catalog, and how they are shared."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from gpucost.config.section import Section


class Discount(Section):
    """A negotiated discount on the whole price of the nodes that match; what is left out matches anything."""

    percent: Decimal = Field(gt=0, lt=100, description="Percent off the price of the whole node, its GPUs included.")
    provider: str | None = Field(default=None, description="Cloud, such as `aws`.")
    instance_family: str | None = Field(
        default=None, description="Family of instance types, such as `p5` or `Standard_ND`: what they begin with."
    )
    gpu_model: str | None = Field(default=None, description="GPU model as `gpucost prices` spells it.")
    purchase_option: (
        Literal["on_demand", "spot", "reserved", "savings_plan", "cud", "capacity_block", "flex_start", "calendar"] | None
    ) = Field(default=None, description="How the node is bought.")
    price_sources: list[Literal["price_book", "spot_history", "catalog"]] = Field(
        default=["price_book", "spot_history", "catalog"],
        min_length=1,
        description="Prices it is taken off; a bill, which has it already, is never one.",
    )
    effective_start: date | None = Field(default=None, description="First local day it holds; else since ever.")
    effective_end: date | None = Field(default=None, description="First local day it no longer holds; else for good.")

    @model_validator(mode="after")
    def _in_order(self) -> Discount:
        if self.effective_start and self.effective_end and self.effective_end <= self.effective_start:
            raise ValueError("effective_end should be after effective_start")
        return self


class Prices(Section):
    """Where prices come from besides the catalog inside gpucost, and how a node's price is shared."""

    book: Path | None = Field(default=None, description="Price book, a CSV file: contract prices and on-premises rates.")
    stale_after_days: int = Field(default=90, ge=1, description="A list price older than this is marked as stale.")
    discounts: list[Discount] = Field(
        default_factory=list, description="Negotiated discounts; all that match are taken off, one after the other."
    )
    fx: dict[str, Decimal] = Field(
        default_factory=dict, description="What one unit of another currency is worth in `currency`: `{ EUR = 1.08 }`."
    )
    fx_rates: Path | None = Field(
        default=None, description="CSV file of rates by day: `date,currency,rate`; a rate holds until the next one."
    )
    commitment_sharing: Literal["pooled", "as_billed"] = Field(
        default="pooled",
        description="`pooled`: nodes of one account, region, instance type, operating system, tenancy, capacity type and hour "
        "share what the bill says, because clouds assign discounts to instances by lot. `as_billed`: each keeps its own.",
    )
    cost_basis: Literal["node", "sku", "residual", "opencost", "scad"] = Field(
        default="node",
        description="`node`: a node's whole price rides on its GPUs. The others split it into GPU, CPU and memory, "
        "and charge CPU and memory by request.",
    )

    @field_validator("fx")
    @classmethod
    def _rates(cls, value: dict[str, Decimal]) -> dict[str, Decimal]:
        for currency, rate in value.items():
            if not re.fullmatch("[A-Z]{3}", currency):
                raise ValueError(f"{currency} should be a currency such as EUR")
            if not rate.is_finite() or rate <= 0:
                raise ValueError(f"the rate of {currency} should be above zero")
        return value
