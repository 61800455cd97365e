"""`gpucost reconcile`: where each billed dollar went."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    output_file,
    put_or_write,
)
from gpucost.cli._rows import FLAT, FormatOption, OutputOption, RowFormat, render_rows, write_rows

if TYPE_CHECKING:
    from gpucost.reconcile import Reconciliation

SCHEMA = "gpucost.reconcile/1"
_SHOWN = 10
_FIGURES = ("rows", "bill rows", "billed", "effective", "difference", "cost", "hours")
# In a narrow terminal the number of rows goes first, then the provider.
_CAUSE_WEIGHTS = (2, 0, 0, 3, 0, 0, 0, 0)
_INVOICE_WEIGHTS = (0, 0, 1, 2, 0, 0, 0)
_TITLES = {
    "billed": "The invoice: what is billed",
    "effective": "Effective cost: fees of commitments spread over what they cover",
}
_SUMS = {"billed": "invoice", "effective": "effective cost"}
_NOT_EXPLAINED = 4


@handle_errors
def reconcile(
    month: Annotated[str, typer.Option("--month", metavar="YYYY-MM", help="The provider's billing period.", show_default=False)],
    by: Annotated[
        str | None, typer.Option("--by", metavar="LIST", help="Also line by line: any of day, node, team.", show_default=False)
    ] = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Prove where each billed dollar of a month went.

    Accounts, exact to the cent: the invoice, as billed, and effective cost, each row of the bills in one class: GPU machines by
    team, unallocated, outside the nodes' lives or unseen by metrics; commitments, discounts, credits, tax and all that is no GPU.
    And billed - effective cost = named lines. Nodes that no bill covers stand beside, at their estimate. Ends with 4 where
    something is unexplained, no bill of that month was collected, or the month is over and metrics miss a part of it that nobody
    accepted.

    \b
    Examples:
      gpucost reconcile --month 2026-10
      gpucost reconcile --month 2026-10 --by team,day --format csv -o october.csv
    """
    from gpucost import pipeline
    from gpucost.cli._fit import line_width
    from gpucost.errors import UsageError
    from gpucost.reconcile import DIMENSIONS

    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
        raise UsageError(f"--month {month!r} is no month", "write it as 2026-10")
    names = tuple(name.strip() for name in by.split(",") if name.strip()) if by else ()
    for name in names:
        if name not in DIMENSIONS:
            raise UsageError(f"--by knows no {name!r}", f"it takes any of: {', '.join(DIMENSIONS)}")
    settings, opened = load(config, store)
    target = output_file(output)
    account = pipeline.reconcile(settings, opened, month, names)
    if format in FLAT:
        write_rows(*_flat(account), format, target)
    else:
        is_json = format is RowFormat.json
        text = _json(account) if is_json else _text(account, line_width(output), markdown=format is RowFormat.markdown)
        put_or_write(text, target)
    from gpucost.cli._common import tell_error
    from gpucost.report.words import missing_text

    missing = missing_text(account.not_collected) if _is_over(month) else None
    if account.problems:
        tell_error(
            f"{month} is not reconciled: {'; '.join(account.problems)}",
            "gpucost reconcile --format json has every line and cause",
        )
    if missing:
        tell_error(f"{month} is incomplete: {missing}", "gpucost report says what mends it")
    if account.problems or missing:
        raise typer.Exit(_NOT_EXPLAINED)


def _is_over(month: str) -> bool:
    from datetime import UTC, datetime

    return month < f"{datetime.now(UTC):%Y-%m}"


def as_dict(account: Reconciliation) -> dict[str, Any]:
    """The account as JSON holds it; money still Decimal."""
    from dataclasses import asdict

    from gpucost.reconcile import statement_dict
    from gpucost.report.render_data import gap_dict

    return {
        "schema": SCHEMA,
        "month": account.month,
        "currency": account.currency,
        "providers": list(account.providers),
        "is_final": account.is_final,
        "is_exact": not account.problems,
        "problems": list(account.problems),
        "statements": [statement_dict(one) for one in account.statements],
        "invoices": [asdict(one) for one in account.invoices],
        "effective_cost": account.effective_cost,
        "instance_hours": account.instance_hours,
        "instances": account.machines,
        "lines": account.lines,
        "difference": account.difference,
        "by": list(account.by),
        "rows": [{"line": row.line, **row.keys, "cost": row.cost} for row in account.rows],
        "billed_minus_effective": [
            {
                "provider": cause.provider,
                "currency": cause.currency,
                "kind": cause.kind,
                "cause": cause.cause,
                "rows": cause.rows,
                "billed_cost": cause.billed_cost,
                "effective_cost": cause.effective_cost,
                "difference": cause.difference,
            }
            for cause in account.causes
        ],
        "beside": [{"kind": kind, "currency": currency, "cost": cost} for kind, currency, cost in account.beside],
        "instances_without_metrics": [_machine(machine) for machine in account.unseen],
        "nodes_without_bill": [_machine(machine) for machine in account.unbilled],
        "not_collected": [gap_dict(gap) for gap in account.not_collected],
        "final_cost": account.effective_cost if account.is_final else Decimal(0),
        "estimated_cost": sum((machine.cost for machine in account.unbilled), Decimal(0)),
    }


def _machine(machine: Any) -> dict[str, Any]:
    return {"name": machine.name, "instance_type": machine.instance_type, "hours": machine.hours, "cost": machine.cost}


def _json(account: Reconciliation) -> str:
    return json.dumps(as_dict(account), indent=2, ensure_ascii=False, default=float) + "\n"


def _flat(account: Reconciliation) -> tuple[Sequence[str], list[Sequence[Any]]]:
    """The classes of the bills' rows, or by what was asked for the lines of GPU machines, as columns and rows."""
    if account.by:
        lines: list[Sequence[Any]] = [(row.line, *row.keys.values(), row.cost, account.currency) for row in account.rows]
        return ("line", *account.by, "cost", "currency"), lines
    return ("basis", "class", "team", "rows", "cost", "currency"), [
        (one.basis, row.name, row.team, row.rows, row.cost, one.currency) for one in account.statements for row in one.classes
    ]


def _text(account: Reconciliation, width: int | None, *, markdown: bool) -> str:
    from gpucost.reconcile.view import CENT

    def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], weights: Sequence[int] | None = None) -> str:
        from gpucost.cli._fit import figures_right, fitted, left_out

        if markdown:
            return render_rows(columns, rows, RowFormat.markdown)
        shown = fitted(columns, rows, weights or [0] * len(columns), width)
        below = left_out(columns, shown[0])
        return render_rows(*figures_right(*shown, _FIGURES), RowFormat.table) + (f"{below}\n" if below else "")

    state = "final" if account.is_final else "not final yet"
    parts = [f"{'# ' if markdown else ''}Reconciliation of {account.month}: {', '.join(account.providers)}, {state}\n"]
    for one in account.statements:
        lines = [(words, "" if rows is None else f"{rows:,}", _money(cost)) for words, rows, cost in one.lines()]
        lines += [("not explained", "", _money(one.difference))] if one.difference else []
        lines += [(_SUMS[one.basis], f"{one.rows:,}", _money(one.cost))]
        is_own = one.currency == account.currency
        title = (
            _TITLES[one.basis] if is_own else f"{_SUMS[one.basis].capitalize()} in {one.currency}: no rate to {account.currency}"
        )
        parts += [_section(title, markdown), table(("", "bill rows", one.currency), lines)]
        if is_own and one.basis == "effective":
            said = (
                f"{account.machines:,} GPU instances over {account.instance_hours:,.1f} hours cost "
                f"{_money(account.effective_cost)} {one.currency} of it, {_money(account.lines['attributed'])} attributed to "
                "teams. A bill row of several teams counts where most of it went."
            )
            parts += [_item(said, width, markdown)]
    if len(account.invoices) > 1:
        invoices = [
            (
                i.provider,
                i.account or "",
                i.invoice_id or "",
                f"{i.rows:,}",
                _money(i.billed_cost),
                _money(i.effective_cost),
                i.currency,
            )
            for i in account.invoices
        ]
        names = ("provider", "account", "invoice", "bill rows", "billed", "effective", "currency")
        parts += [_section("Invoices", markdown), table(names, invoices, _INVOICE_WEIGHTS)]
    if account.rows:
        rows = [
            (row.line, *(value or "" for value in row.keys.values()), _money(row.cost))
            for row in account.rows
            if abs(row.cost) >= CENT
        ]
        parts += [
            _section(f"By {' and '.join(account.by)}", markdown),
            table(("line", *account.by, account.currency), rows),
        ]
    causes = [
        (
            c.provider,
            c.kind,
            c.cause,
            f"{c.rows:,}",
            _money(c.billed_cost),
            _money(c.effective_cost),
            _money(c.difference),
            c.currency,
        )
        for c in account.causes
        if c.difference
    ]
    parts += [
        _section("Billed less effective cost, all charges", markdown),
        table(("provider", "kind", "cause", "rows", "billed", "effective", "difference", "currency"), causes, _CAUSE_WEIGHTS)
        if causes
        else "no difference: every charge is effective as billed\n",
    ]
    if account.beside:
        parts += [
            _section("Of it, on GPU instances beside their hours", markdown),
            table(("kind", "cost", "currency"), [(kind, _money(cost), currency) for kind, currency, cost in account.beside]),
        ]
    if account.not_collected:
        from gpucost.report.words import alike_gaps, signed_text

        texts = [signed_text(alike) for alike in alike_gaps(account.not_collected)]
        listed = "".join(_item(text, width, markdown) for text in texts[:_SHOWN])
        more = f"and {len(texts) - _SHOWN:,} more: --format json\n" if len(texts) > _SHOWN else ""
        parts += [_section("Not collected", markdown), listed + more]
    for title, machines in (
        ("Billed instances that no metrics saw", account.unseen),
        ("Nodes that no bill covers, estimated", account.unbilled),
    ):
        if machines:
            shown = [(m.name, m.instance_type or "", f"{m.hours:,.1f}", _money(m.cost)) for m in machines[:_SHOWN]]
            more = f"and {len(machines) - _SHOWN:,} more: --format json\n" if len(machines) > _SHOWN else ""
            parts += [_section(title, markdown), table(("name", "type", "hours", account.currency), shown) + more]
    return "\n".join(parts)


def _section(text: str, markdown: bool) -> str:
    return f"## {text}\n" if markdown else f"{text}\n"


def _item(text: str, width: int | None, markdown: bool) -> str:
    from textwrap import fill

    if markdown:
        return f"- {text}\n"
    return (fill(text, width, initial_indent="  ", subsequent_indent="    ") if width else f"  {text}") + "\n"


def _money(amount: Decimal) -> str:
    return f"{amount:,.2f}"
