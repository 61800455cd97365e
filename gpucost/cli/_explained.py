"""What `gpucost explain team`, `namespace` and `workload` share: the period, and how the answer is written."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import load, put
from gpucost.cli._explained_stages import stages
from gpucost.cli._explained_tables import exact, hours, money, print_pods, table
from gpucost.cli._periods import parse_instant, parse_period
from gpucost.cli._strict import note_gaps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from gpucost.model import Period
    from gpucost.report.explained import CostExplained, NodeCost

_CENT = Decimal("0.005")
_WHOLE = "the node's cost"


class ExplainFormat(StrEnum):
    """How the answer is written."""

    table = "table"
    json = "json"


DayOption = Annotated[
    str | None, typer.Option("--day", metavar="YYYY-MM-DD", help="One local day, instead of a month.", show_default=False)
]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Only what ran in this cluster.", show_default=False)
]
TopOption = Annotated[
    int, typer.Option("--top", min=1, help="How many workloads, pods and nodes to list, the dearest first; JSON has all.")
]
RowsOption = Annotated[
    int, typer.Option("--rows", min=0, help="How many prices of each node, and rows of its bill, to list; JSON has all prices.")
]
FormatOption = Annotated[ExplainFormat, typer.Option("--format", help="How to write it.")]


def explain(
    kind: str,
    name: str,
    *,
    month: str | None,
    day: str | None,
    cluster: str | None,
    top: int,
    rows: int,
    format: ExplainFormat,
    config: Path | None,
    store: Path | None,
    quiet: bool,
    namespace: str | None = None,
) -> None:
    """Answer for the team, namespace or workload `name`, as `kind` says."""
    from datetime import UTC

    from gpucost import pipeline
    from gpucost.report import Query, default_period

    settings, opened = load(config, store)
    now = datetime.now(UTC)
    chosen = _period(month, day, settings.tz, now)
    if chosen is None:
        with opened.read() as con:
            chosen = default_period(con, settings.tz, now)[:2]
    query = Query(
        period=chosen[0],
        period_name=chosen[1],
        by=("namespace", "workload"),
        teams=(name,) if kind == "team" else (),
        namespaces=(name,) if kind == "namespace" else (namespace,) if namespace else (),
        clusters=(cluster,) if cluster else (),
        now=now,
    )
    answer = pipeline.explain_cost(settings, opened, query, rows, (name,) if kind == "workload" else ())
    note_gaps(settings, opened, query.period, query.clusters, quiet=quiet)
    if format is ExplainFormat.json:
        put(json.dumps(as_dict(kind, name, answer), indent=2, ensure_ascii=False, default=_plain))
    else:
        _print(kind, name, answer, top, rows)


def _period(month: str | None, day: str | None, tz: ZoneInfo, now: datetime) -> tuple[Period, str] | None:
    """Raises UsageError for a day that is none, or that is not of the month beside it."""
    from gpucost.errors import UsageError

    if day is None:
        return parse_period(tz, now, month=month)
    try:
        asked = date.fromisoformat(f"{month}-{int(day):02}" if month and day.isdecimal() else day)
    except ValueError:
        raise UsageError(f"--day {day!r} is no day", "for example --day 2026-10-05") from None
    if month and f"{asked:%Y-%m}" != month:
        raise UsageError(f"--day {day} is not in {month}", "give one of --month and --day")
    parse_instant("--day", f"{asked}", tz)
    return parse_period(tz, now, start=f"{asked}", end=f"{asked + timedelta(days=1)}")


def as_dict(kind: str, name: str, answer: CostExplained) -> dict[str, Any]:
    """The answer as JSON holds it; money still Decimal."""
    from gpucost.model import iso

    return {
        "schema": f"gpucost.explain.{kind}/1",
        kind: name,
        "from": iso(answer.period.start),
        "to": iso(answer.period.end),
        "currency": answer.currency,
        "cost_basis": answer.cost_basis,
        "allocated_gpu_hours": answer.allocated_gpu_hours,
        "cost": answer.cost,
        "estimated_cost": answer.estimated_cost,
        "workloads": [asdict(row) for row in answer.workloads],
        "nodes": [_node(node) for node in answer.nodes],
        "pods": [_span(pod) for pod in answer.pods],
        "stages": [{"decides": what, "file": f"gpucost/{file}"} for what, file in stages(answer)],
    }


def _node(node: NodeCost) -> dict[str, Any]:
    machines = [
        {
            **{key: value for key, value in asdict(machine).items() if key != "first_rows"},
            "first_rows": [_span(row) for row in machine.first_rows],
            "more_rows": machine.more_rows,
            "more_cost": machine.more_cost,
        }
        for machine in node.bill
    ]
    return asdict(node) | {"prices": [_span(price) for price in node.prices], "bill": machines}


def _span(row: Any) -> dict[str, Any]:
    fields = asdict(row)
    return {"from": fields.pop("start"), "to": fields.pop("end"), **fields}


def _plain(value: object) -> object:
    from gpucost.model import iso

    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no place in an answer")


def _print(kind: str, name: str, answer: CostExplained, top: int, rows: int) -> None:
    total = f"{money(answer.cost)} {answer.currency} for {hours(answer.allocated_gpu_hours)} GPU-hours"
    put(f"{kind} {name}, {answer.period_name}: {total}")
    if answer.estimated_cost:
        final = answer.cost - answer.estimated_cost
        put(f"  {money(final)} from bills, {money(answer.estimated_cost)} estimated until its bill is collected")
    else:
        put("  all of it from bills")
    put("\nBy workload and node")
    workloads = answer.workloads[:top]
    lines: list[Sequence[Any]] = [
        (row.namespace, row.workload, row.node, hours(row.allocated_gpu_hours), money(row.cost), ", ".join(row.price_sources))
        for row in workloads
    ]
    rest = answer.workloads[top:]
    if rest:
        held = hours(sum(row.allocated_gpu_hours for row in rest))
        lines.append((f"{len(rest):,} more", "", "", held, money(sum((row.cost for row in rest), Decimal(0))), ""))
    lines.append(("total", "", "", hours(answer.allocated_gpu_hours), money(answer.cost), ""))
    table(("namespace", "workload", "node", "gpu_hours", f"cost_{answer.currency}", "price_source"), lines, (0, 0, 1, 0, 0, 1))
    print_pods(answer.pods, answer, top)
    for node in answer.nodes[:top]:
        _print_node(name, node, answer.currency, rows)
    left = answer.nodes[top:]
    if left:
        put(f"\n{len(left):,} more nodes, {money(sum((node.cost for node in left), Decimal(0)))}: --top {len(answer.nodes)}")
    put("\nMade by, in this order")
    table(("decides", "SQL stage"), [(what, f"gpucost/{file}") for what, file in stages(answer)])


def _print_node(name: str, node: NodeCost, currency: str, rows: int) -> None:
    from gpucost.cli._fit import wrapped
    from gpucost.price.explain import shown_rows

    kind = ", ".join(part for part in (node.instance_type, node.capacity_type, f"{node.gpu_count:g} x {node.gpu_model}") if part)
    put(f"\nNode {node.node} in cluster {node.cluster}: {kind}")
    put(f"  {node.machine_id or 'no provider id: no bill can name it'}")
    parts = [
        (name, node.cost),
        ("others", node.others_cost),
        ("nobody", node.unallocated_cost),
        *([("not collected", node.not_collected_cost)] if node.not_collected_cost else []),
        (_WHOLE, node.node_cost),
    ]
    table(("paid by", currency), [(who, money(cost)) for who, cost in parts])
    put()
    table(("price_source", "hours", "price/h", currency), [*_by_source(node), (_WHOLE, "", "", money(node.node_cost))])
    if len(node.prices) > 1:
        _print_prices(node, rows)
    for machine in node.bill:
        put()
        shown = [
            (
                f"{row.source_file}:{row.source_row}",
                f"{row.start:%Y-%m-%d %H:%M}",
                "" if row.instance_hours is None else f"{row.instance_hours:,.2f}",
                exact(row.effective_cost),
                row.currency,
                row.description or "",
            )
            for row in machine.first_rows
        ]
        whose = "its scale set's charges, spread over its nodes" if machine.is_scale_set else "charges"
        cost = "in a currency without a rate" if machine.cost is None else f"{money(machine.cost)} {currency}"
        put(f"  the bill, {machine.instance_key}: {machine.rows:,} {whose}, {machine.instance_hours:,.1f} h, {cost}")
        if shown:
            columns = ("row", "charge period", "hours", "effective_cost", "currency", "charge")
            table(columns, shown, (0, 0, 0, 0, 0, 1))
        if machine.more_rows and machine.more_cost is not None:
            put(f"  and {machine.more_rows:,} more rows, {money(machine.more_cost)} {currency}: --rows {machine.rows}")
        if machine.discount_cost:
            by = shown_rows(machine.first_discount_rows, machine.discount_rows)
            put(wrapped(f"discounts in it: {money(machine.discount_cost)} {currency}, by {by}", "  "))
    _print_difference(node, currency)


def _by_source(node: NodeCost) -> list[tuple[str, str, str, str]]:
    """Per price source the hours that it prices, its lowest and highest price, and what it comes to."""
    found = []
    for source, cost in node.node_cost_by_price_source.items():
        prices = [price for price in node.prices if price.price_source == source]
        hours = sum((price.end - price.start).total_seconds() for price in prices) / 3600
        values = sorted({price.price_per_hour for price in prices})
        span = " .. ".join(exact(value) for value in ([values[0], values[-1]] if len(values) > 1 else values))
        found.append((source, f"{hours:,.1f}" if prices else "", span, money(cost)))
    return found


def _print_prices(node: NodeCost, rows: int) -> None:
    put()
    lines = [
        (f"{price.start:%Y-%m-%d %H:%M}", f"{price.end:%Y-%m-%d %H:%M}", exact(price.price_per_hour), price.price_source)
        for price in node.prices[:rows]
    ]
    if lines:
        table(("from", "to", "price/h", "price_source"), lines)
    if len(node.prices) > rows:
        put(f"  {'and ' if lines else ''}{len(node.prices) - len(lines):,} more prices in turn: --rows {len(node.prices)}")


def _print_difference(node: NodeCost, currency: str) -> None:
    """From what is billed of the node's machine to what of the node's cost is billed, where that is not the same."""
    costs = [machine.cost for machine in node.bill if not machine.is_scale_set]
    billed = sum((cost for cost in costs if cost is not None), Decimal(0))
    charged = node.node_cost_by_price_source.get("bill", Decimal(0))
    if not costs or None in costs or abs(billed - charged) < _CENT:
        return
    pooled = sum((machine.pooled_cost for machine in node.bill), Decimal(0))
    lines = [
        ("billed of this machine", billed),
        ("shared with machines of its kind, [prices] commitment_sharing", pooled - billed),
        ("of time outside the node's life or this period", charged - pooled),
        ("in the node's cost", charged),
    ]
    put()
    table(("from the bill to the node", currency), [(what, money(cost)) for what, cost in lines])
