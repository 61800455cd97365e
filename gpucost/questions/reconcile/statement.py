"""Reconciliation of a bill with the attributed cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from gpucost.catalog import load_catalog
from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.errors import IncompleteError
from gpucost.periods import bill_month, from_ms
from gpucost.price.fx import no_rate
from gpucost.questions.report.rows import ZERO
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped
from gpucost.render.view import MissingTime
from gpucost.shapes import Shape
from gpucost.store import charges, sqlfiles

PACKAGE = "gpucost.questions.reconcile"
CENT = Decimal("0.005")  # half a cent: hidden by rounding to cents

Basis = Literal["billed", "effective"]
BASES: dict[Basis, str] = {"billed": "the invoice", "effective": "effective cost"}

# The lines for the cost of GPU machines, in the order of the account, with their texts.
LINES = {
    "attributed": "attributed to teams",
    "unallocated": "unallocated GPUs",
    "not_collected": "not collected: billed without metrics of the GPUs' holders",
    "outside_node_life": "billed time outside the node's life",
    "seen_beyond_billed_hours": "nodes with metrics beyond their billed hours",
    "instances_without_metrics": "billed instances without metrics",
    "billed_in_part": "billed without a part of the cost",
    "shared_in_pool": "shared among machines of one kind",
    "settled_in_other_periods": "settled in other billing periods",
}


# The classes of a bill other than identified machines with GPUs, in the order of a statement.
OTHER_CLASSES = {
    "gpu_without_id": "GPU machines without an id on the bill",
    "other_export": "GPU machines that are on another export too",
    "managed": "managed GPU services without a node",
    "bought_tokens": "bought tokens",
    "unused_gpu_reservations": "unused reserved GPU capacity",
    "unused_commitments": "unused commitments",
    "commitment_fees": "commitment fees",
    "covered_usage": "covered usage that savings plans take back",
    "unused_reservations": "other unused reserved capacity",
    "other_machines": "machines without GPUs",
    "storage": "storage",
    "network": "network",
    "support": "support",
    "other_services": "other services",
    "split": "containers' shares, at no cost",
    "discounts": "discounts",
    "credits": "credits",
    "refunds": "refunds",
    "tax": "tax",
    "rounding": "rounding",
}
CLASSES = LINES | OTHER_CLASSES
# Texts for classes that contain less in effective cost than on an invoice.
_EFFECTIVE = {
    "commitment_fees": "commitment fees, spread over the usage they cover",
    "discounts": "discounts that are in no other class",
}


@frozen_dataclass
class ClassRow:
    """The bill rows and cost of one class; for `attributed`, of one team."""

    name: Annotated[str, Field(alias="class")]
    team: str | None
    rows: int
    cost: Decimal


@frozen_dataclass
class Statement:
    """All bills of the billing period in one currency by class, as billed or as effective cost.

    The classes' bill rows add up to `rows`; their costs and `difference`, the cost in no class, which should be 0, to
    `cost`.
    """

    basis: Basis
    currency: str
    rows: int
    cost: Decimal
    difference: Decimal
    classes: tuple[ClassRow, ...]

    @classmethod
    def of(
        cls, basis: Basis, currency: str, rows: int, cost: Decimal, classes: Iterable[ClassRow]
    ) -> Statement:
        """The statement of these classes in order. A remainder under half a cent becomes the class "rounding"."""
        places = list(CLASSES)
        ordered = sorted(
            (row for row in classes if row.rows or row.cost),
            key=lambda row: (places.index(row.name), -row.cost, row.team or ""),
        )
        left = cost - sum((row.cost for row in ordered), ZERO)
        if left and abs(left) < CENT:
            ordered.append(ClassRow("rounding", None, 0, left))
            left = ZERO
        return cls(basis, currency, rows, cost, left, tuple(ordered))

    def lines(self) -> list[tuple[str, int | None, Decimal]]:
        """The displayed lines: classes with rows or cost, their rows, and their cost in cents.

        With `difference` they add up to `cost` in cents; the rounding remainder is a line.
        """
        printed = [
            (class_words(row.name, self.basis, row.team), row.rows, row.cost)
            for row in self.classes
            if row.name != "rounding" and (row.rows or abs(row.cost) >= CENT)
        ]
        return in_cents(printed, self.cost - self.difference)


def class_words(name: str, basis: Basis, team: str | None = None) -> str:
    """The text of a class, or of one team's machines if `team` is given."""
    if team is not None:
        return f"GPU machines of {team}"
    return _EFFECTIVE[name] if basis == "effective" and name in _EFFECTIVE else CLASSES[name]


def in_cents(
    lines: Iterable[tuple[str, int | None, Decimal]], cost: Decimal
) -> list[tuple[str, int | None, Decimal]]:
    """Lines (text, bill rows, cost) in cents that add up to `cost`; the rounding remainder is a line."""
    rounded = [(words, rows, _cents(amount)) for words, rows, amount in lines]
    left = _cents(cost) - sum((amount for *_, amount in rounded), ZERO)
    return [*rounded, (CLASSES["rounding"], None, left)] if left else rounded


@frozen_dataclass
class Invoice:
    """The amounts of one invoice, in its own currency; None if the export does not name it."""

    provider: str
    account: str | None
    invoice_id: str | None
    currency: str
    rows: int
    billed_cost: Decimal
    effective_cost: Decimal


@frozen_dataclass
class Cause:
    """A cause of the difference between billed and effective cost.

    `difference` is billed - effective, in `currency`.
    """

    provider: str
    currency: str
    kind: str
    cause: str
    rows: int
    billed_cost: Decimal
    effective_cost: Decimal
    difference: Decimal


@frozen_dataclass
class Beside:
    """The cost of charges of one kind on GPU instances, without their hours."""

    kind: str
    currency: str
    cost: Decimal


@frozen_dataclass
class Machine:
    """A machine on one side only: billed without metrics, or with metrics and a cost on no bill."""

    name: str
    instance_type: str | None
    hours: float
    cost: Decimal


@frozen_dataclass
class Reconciliation(Shape):
    """The account of one billing period.

    Money is in `currency`; invoices, causes and `beside` are in the bill's currency. `statements` classify every row
    of the bills, billed first: in `currency`, and one for each currency of the bills without a rate to it.
    `effective_cost` is that of GPU instances = sum of `lines` + `difference`, which is in no line. `problems` are
    sentences that state why the account cannot be closed; empty if every cent is explained. `not_collected` are the
    gaps in metrics, from pipeline.reconcile.
    """

    month: str
    currency: str
    providers: tuple[str, ...]
    is_final: bool
    is_exact: bool
    problems: tuple[str, ...]
    statements: tuple[Statement, ...]
    invoices: tuple[Invoice, ...]
    effective_cost: Decimal
    instance_hours: float
    machines: Annotated[int, Field(alias="instances")]
    lines: dict[str, Decimal]
    difference: Decimal
    causes: Annotated[tuple[Cause, ...], Field(alias="billed_minus_effective")]
    beside: tuple[Beside, ...]
    unseen: Annotated[tuple[Machine, ...], Field(alias="instances_without_metrics")]
    unbilled: Annotated[tuple[Machine, ...], Field(alias="nodes_without_bill")]
    priced: Annotated[tuple[Machine, ...], Field(alias="nodes_at_final_prices")]
    not_collected: tuple[MissingTime, ...]
    final_cost: Decimal
    estimated_cost: Decimal

    @property
    def sentence(self) -> str:
        """The account in one line: billed cost, its parts, and the problems."""
        parts = " + ".join(
            f"{cost:,.2f} {LINES[line]}"
            for line, cost in self.lines.items()
            if abs(cost) >= CENT or line == "attributed"
        )
        state = "final" if self.is_final else "not final"
        wholes = ", ".join(
            f"{statement.cost:,.2f} {statement.currency} {statement.basis}" for statement in self.statements
        )
        return (
            f"bill of {', '.join(self.providers)} ({state}, billing period {self.month} UTC): {wholes}; "
            f"{self.effective_cost:,.2f} {self.currency} for {self.machines:,} GPU machines = {parts}; "
            f"{'; '.join(self.problems) or 'every cent is explained'}"
        )


def problems_of(
    statements: Iterable[Statement], causes: Iterable[Cause], unexplained_hours: float
) -> tuple[str, ...]:
    """Messages for cost in no class, differences without a cause, and hours billed without their cost."""
    unexplained: dict[str, Decimal] = defaultdict(Decimal)
    for cause in causes:
        if cause.cause == "same" and cause.difference:
            unexplained[cause.currency] += cause.difference
    found = [
        f"{statement.difference:,.2f} {statement.currency} of {BASES[statement.basis]} is in no class"
        for statement in statements
        if statement.difference
    ]
    found += [
        f"{amount:,.2f} {currency} between billed and effective cost has no cause"
        for currency, amount in unexplained.items()
    ]
    if unexplained_hours:
        found.append(
            f"{unexplained_hours:,.1f} instance-hours were billed without all of their cost, for an unknown reason"
        )
    return tuple(found)


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01")) + 0  # no -0.00


# The first machine billed in a currency without a rate.
_WITHOUT_RATE = """SELECT currency, min(from_ms) AS from_ms
FROM billed_hours
WHERE billing_period = $1 AND rate IS NULL
GROUP BY currency
ORDER BY from_ms, currency
LIMIT 1"""
_TOTAL = """SELECT coalesce(sum(effective_cost), 0) AS effective_cost, coalesce(sum(instance_hours), 0) AS instance_hours,
    count(DISTINCT instance_key) AS machines, coalesce(sum(instance_hours) FILTER (is_unexplained), 0) AS unexplained_hours
FROM machine_hours"""
_TOTALS = """SELECT currency, sum(rows)::BIGINT AS rows, sum(billed_cost) AS billed_cost, sum(effective_cost) AS effective_cost
FROM row_classes
GROUP BY currency
ORDER BY currency <> $1, currency"""
# At their pool's price they add up to the line instances_without_metrics.
_UNSEEN = """SELECT billed_name, any_value(instance_type), sum(instance_hours),
    coalesce(sum((price_per_hour * instance_hours)::DECIMAL(38, 9)), 0) AS cost
FROM machine_hours
WHERE NOT has_node
GROUP BY provider, billed_name
ORDER BY cost DESC, billed_name"""
# Excludes charges that are part of the machines' cost, such as discounts.
_BESIDE = """SELECT kind, billing_currency AS currency, sum(effective_cost) AS cost
FROM machine_charges
WHERE billing_period = $1 AND kind IN ('storage', 'network', 'other')
GROUP BY ALL
HAVING sum(effective_cost) <> 0
ORDER BY ALL"""


def reconcile(con: DuckDBPyConnection, month: str, currency: str) -> Reconciliation:
    """The account of the billing period `month` (`2026-10`), from an up-to-date attribution.

    Works on a read-only connection with the rates of price.load_fx_rates; makes temporary tables. Raises
    IncompleteError if no bill of that month was collected, PriceError if a machine is billed in a currency without a
    rate.
    """
    causes = answer_rows(con, PACKAGE, "60_charges", {"month": month})
    if not causes:
        raise IncompleteError(*_no_bill(con, month))
    for billed, at_ms in con.execute(_WITHOUT_RATE, [month]).fetchall():
        raise no_rate(
            f"the bill of {month} has machines in {billed}",
            billed,
            currency,
            f" on {from_ms(at_ms):%Y-%m-%d}",
        )
    sqlfiles.run(con, "machine_charges")
    charges.find_tokens(con)
    run_stage(con, PACKAGE, "10_machine_hours", {"month": month})
    load_catalog(con)
    run_stage(con, PACKAGE, "20_row_classes", {"month": month, "currency": currency})
    run_stage(con, PACKAGE, "30_machine_parts")
    run_stage(con, PACKAGE, "35_machine_shares")
    (total,) = dicts(con.execute(_TOTAL))
    period = bill_month(month)
    named = {row["line"]: row["cost"] for row in answer_rows(con, PACKAGE, "40_lines")}
    lines = {line: named.get(line, ZERO) for line in LINES}
    statements = tuple(_statements(con, currency))
    finals = [row.pop("is_final") for row in causes]
    is_final = all(finals)
    explained = tuple(Cause(**row) for row in causes)
    problems = problems_of(statements, explained, float(total["unexplained_hours"]))
    cost = total["effective_cost"]
    rows = answer_rows(con, PACKAGE, "51_unbilled_nodes", period.bounds)
    by_finality = grouped((row.pop("is_final"), Machine(**row)) for row in rows)
    return Reconciliation(
        month=month,
        currency=currency,
        providers=tuple(sorted({cause.provider for cause in explained})),
        is_final=is_final,
        is_exact=not problems,
        problems=problems,
        statements=statements,
        invoices=tuple(Invoice(**row) for row in answer_rows(con, PACKAGE, "44_invoices", {"month": month})),
        effective_cost=cost,
        instance_hours=float(total["instance_hours"]),
        machines=total["machines"],
        lines=lines,
        difference=cost - sum(lines.values(), ZERO),
        causes=explained,
        beside=tuple(Beside(*row) for row in con.execute(_BESIDE, [month]).fetchall()),
        unseen=tuple(Machine(*row) for row in con.execute(_UNSEEN).fetchall()),
        unbilled=tuple(by_finality[False]),
        priced=tuple(by_finality[True]),
        not_collected=(),
        final_cost=sum((machine.cost for machine in by_finality[True]), cost if is_final else ZERO),
        estimated_cost=sum((machine.cost for machine in by_finality[False]), ZERO),
    )


def _statements(con: DuckDBPyConnection, currency: str) -> Iterator[Statement]:
    classes = grouped(
        ((row["basis"], row["currency"]), ClassRow(row["class"], row["team"], row["rows"], row["cost"]))
        for row in answer_rows(con, PACKAGE, "42_classes", {"currency": currency})
    )
    for whole in dicts(con.execute(_TOTALS, [currency])):
        for basis in BASES:
            class_rows = classes[basis, whole["currency"]]
            yield Statement.of(basis, whole["currency"], whole["rows"], whole[f"{basis}_cost"], class_rows)


def _no_bill(con: DuckDBPyConnection, month: str) -> tuple[str, str]:
    months = sqlfiles.column(con, "SELECT DISTINCT billing_period FROM bills ORDER BY ALL")
    others = f"; bills exist for {', '.join(months)}" if months else ", or of any other month"
    return f"no bill of {month} was collected{others}", "gpucost collect aws|gcp|azure|focus PATH"
