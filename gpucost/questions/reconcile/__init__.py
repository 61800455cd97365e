"""The classes of each billed dollar of a month."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Annotated, Any

from gpucost import price
from gpucost.config.model import Config
from gpucost.errors import IncompleteError, UsageError
from gpucost.options import Option
from gpucost.periods import bill_month
from gpucost.pipeline import read_attributed
from gpucost.questions.reconcile.statement import Reconciliation, reconcile as account
from gpucost.questions.report.coverage import gaps_of
from gpucost.questions.request import Request
from gpucost.records import DuckDBPyConnection
from gpucost.render.formatting import alike_gaps, missing_text, signed_text
from gpucost.render.view import (
    Document,
    Line,
    MissingTime,
    Section,
    Table,
    Texts,
    amount,
    count,
    number,
    text,
)
from gpucost.store.connection import Store

_SHOWN = 10
_TITLES = {
    "billed": "Invoice (billed cost)",
    "effective": "Effective cost (commitment fees spread over the usage they cover)",
}
_SUMS = {"billed": "invoice", "effective": "effective cost"}


def reconcile(
    request: Request, month: Annotated[str, Option("The provider's billing period.", "YYYY-MM")]
) -> Document:
    """Show where each billed dollar of a month went.

    Two statements, exact to the cent: the invoice as billed, and effective cost. Each bill row is in one class: GPU
    machines by team, unallocated, outside the nodes' lives or without metrics; commitments, discounts, credits, tax
    and everything without GPUs. The difference between billed and effective cost is split into named causes. Nodes
    that no bill covers are listed separately, with their estimate or final price. Exits with 4 if an amount is unexplained, if no
    bill of that month was collected, or if the month is over and has gaps in metrics that were not accepted.

    \b
    Examples:
      gpucost reconcile --month 2026-09
      gpucost reconcile --month 2026-09 --format csv -o september.csv
    """
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
        raise UsageError(f"invalid --month {month!r}", "write it as 2026-10")
    account = reconciliation(request.settings, request.store, month)
    state = "final" if account.is_final else "not final yet"
    errors = tuple(_errors(account, month, request.now))
    rows = [
        (statement.basis, row.name, row.team, row.rows, row.cost, statement.currency)
        for statement in account.statements
        for row in statement.classes
    ]
    return Document(
        title=f"Reconciliation of {month}: {', '.join(account.providers)}, {state}",
        currency=account.currency,
        sections=tuple(_sections(account)),
        name="reconcile",
        data=account,
        flat=(("basis", "class", "team", "rows", "cost", "currency"), rows),
        errors=errors,
        exit_code=IncompleteError.exit_code if errors else 0,
    )


def reconciliation(config: Config, store: Store, month: str) -> Reconciliation:
    """The reconciliation of `month` (`2026-10`), with its gaps in metrics.

    Raises IncompleteError without a bill.
    """

    def read(con: DuckDBPyConnection) -> Reconciliation:
        period = bill_month(month)
        gaps = gaps_of(con, period, datetime.now(UTC), config.tz)
        price.load_fx_rates(con, config)
        statement = account(con, month, config.currency)
        return replace(statement, not_collected=tuple(gap for gap in gaps if isinstance(gap, MissingTime)))

    return read_attributed(config, store, read)


def _errors(account: Reconciliation, month: str, now: datetime) -> Iterator[IncompleteError]:
    """The errors of a month that is not reconciled or incomplete."""
    if account.problems:
        yield IncompleteError(
            f"{month} is not reconciled: {'; '.join(account.problems)}",
            "gpucost reconcile --format json has every line and cause",
        )
    if month < f"{now:%Y-%m}" and (missing := missing_text(account.not_collected)):
        yield IncompleteError(f"{month} is incomplete: {missing}", "run gpucost report for the fix")


def _sections(account: Reconciliation) -> Iterator[Section]:
    """The sections of the page. Amounts can be in several currencies: each column or line names its own."""
    costs = (amount("billed_cost", "Billed"), amount("effective_cost", "Effective"))
    for statement in account.statements:
        sums = [Line(("unexplained", None, statement.difference))] if statement.difference else []
        sums.append(Line((_SUMS[statement.basis], statement.rows, statement.cost), is_sum=True))
        is_configured = statement.currency == account.currency
        yield Table.of(
            _TITLES[statement.basis]
            if is_configured
            else f"{_SUMS[statement.basis].capitalize()} in {statement.currency}: no rate to {account.currency}",
            statement.lines(),
            (
                text(itemgetter(0), "Class"),
                count(itemgetter(1), "Bill rows"),
                amount(itemgetter(2), statement.currency),
            ),
            sums,
            f"{account.machines:,} GPU instances with {account.instance_hours:,.1f} hours cost "
            f"{account.effective_cost:,.2f} {statement.currency}, of which {account.lines['attributed']:,.2f} "
            "is attributed to teams. A bill row shared by several teams is counted under the team with "
            "the largest share."
            if is_configured and statement.basis == "effective"
            else None,
        )
    if len(account.invoices) > 1:
        invoice_columns = (
            text("provider"),
            text("account"),
            text("invoice_id", "Invoice", weight=1),
            count("rows", "Bill rows", weight=2),
        )
        yield Table.of("Invoices", account.invoices, (*invoice_columns, *costs, text("currency")))
    causes = [cause for cause in account.causes if cause.difference]
    what = (text("provider", weight=2), text("kind"), text("cause"), count("rows", weight=3))
    note = None if causes else "The effective cost of every charge is its billed cost."
    yield Table.of(
        "Billed minus effective cost, all charges",
        causes,
        (*what, *costs, amount("difference"), text("currency")),
        note=note,
    )
    if account.beside:
        yield Table.of(
            "Included: other charges on GPU instances",
            account.beside,
            (text("kind"), amount("cost"), text("currency")),
        )
    if account.not_collected:
        texts = [signed_text(alike) for alike in alike_gaps(account.not_collected)]
        yield Texts("Not collected", tuple(texts[:_SHOWN]), _more(texts))
    columns = (text("name"), text("instance_type", "Type"), number("hours"), amount("cost", account.currency))
    for title, machines in (
        ("Billed instances without metrics", account.unseen),
        ("Estimated cost of nodes without a bill", account.unbilled),
        ("Cost of nodes without a bill at final prices", account.priced),
    ):
        if machines:
            yield Table.of(title, machines[:_SHOWN], columns, note=_more(machines))


def _more(rows: Sequence[Any]) -> str | None:
    return f"and {len(rows) - _SHOWN:,} more: --format json" if len(rows) > _SHOWN else None
