"""reconcile and store info."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpucost.schemas.base import Answer, Count, Currency, Hours, Instant, Part, Span


class Class(Part):
    name: str = Field(alias="class", description="What the bill's rows are; docs/billing.md has them all.")
    team: str | None = Field(description="Of the class attributed; else null.")
    rows: Count = Field(description="A bill row of several teams counts where most of it went.")
    cost: float


class Statement(Part):
    basis: Literal["billed", "effective"]
    currency: Currency
    rows: Count = Field(description="All rows of the billing period's bills: the sum over the classes.")
    cost: float = Field(description="The sum over the classes, and the difference.")
    difference: float = Field(description="What went to no class: 0.")
    classes: list[Class]


class Invoice(Part):
    provider: str
    account: str | None
    invoice_id: str | None
    currency: str
    rows: Count
    billed_cost: float
    effective_cost: float


class Cause(Part):
    provider: str
    currency: str
    kind: str
    cause: str
    rows: Count
    billed_cost: float
    effective_cost: float
    difference: float


class Beside(Part):
    kind: str
    currency: str
    cost: float


class Machine(Part):
    name: str
    instance_type: str | None
    hours: float
    cost: float


class Gap(Span):
    cluster: str
    hours: Hours
    families: list[str]
    reason: str
    accepted_by: str | None
    accepted_why: str | None


class Reconciliation(Answer):
    month: str
    currency: Currency
    providers: list[str]
    is_final: bool
    is_exact: bool
    problems: list[str]
    statements: list[Statement] = Field(description="Every row of the bills, as billed and as effective cost.")
    invoices: list[Invoice] = Field(description="What the statements are the sum of, each in its own currency.")
    effective_cost: float = Field(description="Of GPU instances.")
    instance_hours: float
    instances: Count
    lines: dict[str, float]
    difference: float
    by: list[str]
    rows: list[dict[str, Any]]
    billed_minus_effective: list[Cause]
    beside: list[Beside]
    instances_without_metrics: list[Machine]
    nodes_without_bill: list[Machine]
    not_collected: list[Gap] = Field(description="Time of the billing period that metrics miss.")
    final_cost: float
    estimated_cost: float


class Dropped(Part):
    source: str
    reason: str
    metric: str
    samples: Count


class Table(Part):
    name: str
    rows: Count


class Source(Part):
    kind: str
    source: str
    loads: Count
    start: Instant
    end: Instant
    rows: Count
    dropped: Count
    last_loaded_at: Instant


class Store(Answer):
    path: str
    size: Count = Field(description="Bytes.")
    wal_size: Count
    schema_version: Count
    storage_version: str
    samples: Count
    states: Count
    tables: list[Table]
    sources: list[Source]
    dropped: list[Dropped]


ANSWERS: dict[str, type[Answer]] = {
    "reconcile": Reconciliation,
    "store": Store,
}
