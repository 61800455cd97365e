"""index.json of a month's bundle."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpucost.schemas.accounts import Statement
from gpucost.schemas.base import Answer, Count, Coverage, Currency, Hours, Part, Ratio, Span


class Charged(Part):
    charge: float
    cost: float
    shared_cost: float
    estimated_cost: float
    idle_cost: float
    allocated_gpu_hours: Hours
    efficiency: Ratio | None
    spot_ratio: Ratio | None


class Team(Charged):
    team: str
    file: str = Field(description="Of the team's files, without the suffix.")
    measured_ratio: Ratio | None


class Totals(Charged):
    unallocated_cost: float | None
    not_collected_cost: float | None
    node_cost: float | None
    capacity_gpu_hours: Hours | None


class Account(Part):
    sentence: str
    providers: list[str]
    is_final: bool
    is_exact: bool
    problems: list[str]
    effective_cost: float
    lines: dict[str, float]
    difference: float
    statements: list[Statement] = Field(description="As gpucost reconcile has them.")


class InvoiceLine(Part):
    line: str = Field(description="charged, what is not the bill's of that, then classes of the bill's rows; docs/chargeback.md.")
    rows: Count | None
    cost: float


class Invoice(Part):
    billed_cost: float = Field(description="The sum of lines and difference.")
    effective_cost: float
    rows: Count
    difference: float
    lines: list[InvoiceLine]


class Focus(Part):
    version: str
    charges: Count
    rows: Count
    billed_cost: dict[str, float] = Field(description="By currency.")
    effective_cost: dict[str, float]
    estimated_cost: float


class Change(Part):
    before: float | None
    after: float | None
    adjustment: float


class TeamChange(Change):
    team: str


class Replaced(Part):
    state: Literal["final", "estimate"]
    teams: list[TeamChange]
    totals: dict[str, Change]


class File(Part):
    file: str
    bytes: Count
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Index(Answer, Span):
    month: str
    timezone: str
    currency: Currency
    share_unallocated: Literal["proportional", "even"] | None
    state: Literal["final", "estimate"]
    is_over: bool
    reasons: list[str] = Field(description="Why the figures are an estimate.")
    missing: list[str] = Field(description="What a month that is over lacks.")
    teams: list[Team]
    totals: Totals
    coverage: Coverage
    invoice: Invoice | None = Field(description="How the charge leads to the invoice; null where no bill was collected.")
    reconciliation: Account | None
    focus: Focus
    replaces: Replaced | None = Field(description="What the figures differ from: those of the bundle that stood there before.")
    files: list[File]


ANSWERS: dict[str, type[Answer]] = {"chargeback": Index}
