"""The section of the configuration about budgets."""

from __future__ import annotations

from decimal import Decimal

from pydantic import Field, model_validator

from gpucost.config.section import Section


class Budget(Section):
    """What a team, or all GPU nodes together, may cost a month, and the targets it is held to (docs/budgets.md)."""

    name: str = Field(min_length=1, description="What it is called.")
    team: str | None = Field(default=None, min_length=1, description="Whose it is; without it, all GPU nodes together.")
    amount: Decimal | None = Field(
        default=None, gt=0, lt=Decimal(10) ** 15, description="Money a month: the team's cost, or what all GPU nodes cost."
    )
    currency: str | None = Field(
        default=None, pattern=r"^[A-Z]{3}$", description="Currency of `amount`, where it is not that of reports."
    )
    warn_at_percent: Decimal = Field(
        default=Decimal(80), gt=0, le=100, description="Warn when this much of `amount` is spent, or a forecast is beyond it."
    )
    efficiency: Decimal | None = Field(default=None, ge=0, le=1, description="Least active share of measured GPU-hours.")
    spot_ratio: Decimal | None = Field(default=None, ge=0, le=1, description="Least spot share of allocated GPU-hours.")
    idle_cost_share: Decimal | None = Field(default=None, ge=0, le=1, description="Largest idle share of cost.")

    @model_validator(mode="after")
    def _asks_something(self) -> Budget:
        if all(value is None for value in (self.amount, self.efficiency, self.spot_ratio, self.idle_cost_share)):
            raise ValueError("needs one of amount, efficiency, spot_ratio and idle_cost_share")
        if self.currency and self.amount is None:
            raise ValueError("currency goes with amount")
        return self
