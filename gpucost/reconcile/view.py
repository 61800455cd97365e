"""What a reconciliation says, in numbers, before any format."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucost.report.view import Gap

DIMENSIONS = ("day", "node", "team")
CENT = Decimal("0.005")  # half a cent: what rounding to cents hides

# In the order of the account, with what each is.
LINES = {
    "attributed": "attributed to teams",
    "unallocated": "unallocated: nobody held the GPUs",
    "not_collected": "billed while nobody saw who held the GPUs",
    "outside_node_life": "billed time outside the node's life",
    "seen_beyond_billed_hours": "nodes seen longer than billed",
    "instances_without_metrics": "billed instances that no metrics saw",
    "billed_in_part": "billed without a part of the cost",
    "shared_in_pool": "shared among machines of one kind",
    "settled_in_other_periods": "settled in other billing periods",
}


@dataclass(frozen=True, slots=True)
class LineRow:
    """An amount of one line, by the dimensions asked for; None where the line knows no such dimension."""

    line: str
    keys: dict[str, str | None]
    cost: Decimal


@dataclass(frozen=True, slots=True)
class Cause:
    """Why effective cost differs from billed cost, and by how much: billed - effective, in `currency`."""

    provider: str
    currency: str
    kind: str
    cause: str
    rows: int
    billed_cost: Decimal
    effective_cost: Decimal

    @property
    def difference(self) -> Decimal:
        """billed - effective."""
        return self.billed_cost - self.effective_cost


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine on one side of the account only: billed and not seen, or seen and not billed (then at its estimate)."""

    name: str
    instance_type: str | None
    hours: float
    cost: Decimal


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The account of one billing period. Money in `currency`, but for causes and `beside`, which are in the bill's.

    `effective_cost` of GPU instances = sum of `lines` + `difference`, which should be under half a cent.
    `not_collected` is what metrics miss of the period, as pipeline.reconcile tells.
    """

    month: str
    currency: str
    providers: tuple[str, ...]
    is_final: bool
    effective_cost: Decimal
    instance_hours: float
    machines: int
    lines: dict[str, Decimal]
    rows: tuple[LineRow, ...]
    by: tuple[str, ...]
    causes: tuple[Cause, ...]
    beside: tuple[tuple[str, str, Decimal], ...]
    unseen: tuple[Machine, ...]
    unbilled: tuple[Machine, ...]
    unexplained_hours: float
    not_collected: tuple[Gap, ...] = ()

    @property
    def difference(self) -> Decimal:
        """Effective cost that no line names."""
        return self.effective_cost - sum(self.lines.values(), Decimal(0))

    @property
    def unexplained(self) -> dict[str, Decimal]:
        """By currency, billed - effective of charges that name no cause for it."""
        sums: dict[str, Decimal] = {}
        for cause in self.causes:
            if cause.cause == "same" and cause.difference:
                sums[cause.currency] = sums.get(cause.currency, Decimal(0)) + cause.difference
        return sums

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps the account from being closed, a sentence each; none where every cent is named."""
        found = []
        if abs(self.difference) >= CENT:
            found.append(f"{self.difference:,.2f} {self.currency} of effective cost went to no line")
        found += [
            f"{amount:,.2f} {currency} between billed and effective cost has no cause"
            for currency, amount in self.unexplained.items()
        ]
        if self.unexplained_hours:
            hours = f"{self.unexplained_hours:,.1f} instance-hours"
            found.append(f"{hours} were billed without their cost, or a part of it, for no named reason")
        return tuple(found)

    @property
    def sentence(self) -> str:
        """The account in one line: what was billed, where it went, and what keeps it from being closed."""
        parts = " + ".join(
            f"{cost:,.2f} {LINES[line]}" for line, cost in self.lines.items() if abs(cost) >= CENT or line == "attributed"
        )
        state = "final" if self.is_final else "not final"
        return (
            f"bill of {', '.join(self.providers)} ({state}, billing period {self.month} UTC): {self.effective_cost:,.2f} "
            f"{self.currency} for {self.machines:,} GPU machines = {parts}; {'; '.join(self.problems) or 'every cent is named'}"
        )
