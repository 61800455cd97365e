"""The cost of a team, namespace or workload, down to the rows of the bill."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Annotated, Any

from gpucost.config.model import Config
from gpucost.errors import UsageError
from gpucost.options import Option, argument, count
from gpucost.periods import Period, local_midnight, name_of, parse_instant
from gpucost.pipeline import read_attributed
from gpucost.price.explain import shown_rows
from gpucost.questions.explain.costs import (
    BilledMachine,
    BillRow,
    CostExplained,
    NamespaceExplained,
    NodeCost,
    TeamExplained,
    WorkloadExplained,
    explain_cost as explain,
)
from gpucost.questions.report.query import Query
from gpucost.questions.request import MonthRequest
from gpucost.records import grouped, mixin_dataclass
from gpucost.render.formatting import figure_text
from gpucost.render.view import Document, Line, Section, Table, Texts, amount, figure, money, number, text
from gpucost.store.connection import Store

_SHORT_UUID = len("GPU-01234567")
_CENT = Decimal("0.005")
_WHOLE = "the node's cost"
_TOP, _ROWS = 10, 5
# The number of rows of each table that fits one screen.
_BRIEF = 3


@mixin_dataclass
class ExplainRequest(MonthRequest):
    """A question about a month or a day of one team, namespace or workload."""

    day: Annotated[str | None, Option("A local day instead of a month.", "YYYY-MM-DD")] = None
    cluster: Annotated[str | None, Option("Limit to this cluster.", "NAME")] = None
    top: Annotated[
        int, count("Number of the most expensive workloads, pods and nodes to list; JSON has all.", 1)
    ] = _TOP
    rows: Annotated[int, count("Number of prices and bill rows to list per node; JSON has all prices.")] = (
        _ROWS
    )


def explain_team(
    request: ExplainRequest, name: Annotated[str, argument("NAME", "The team's name, as in reports.")]
) -> Document:
    """Show where a team's cost comes from, down to the rows of the bill.

    Lists the team's workloads by node, their prices, and the charges behind billed prices, on one screen. With -v,
    --top or --rows also pods, the others who share the cost of a node, and each node's prices and charges, with every
    sum. Without a period: the same month as gpucost report.

    \b
    Examples:
      gpucost explain team research --month 2026-10
      gpucost explain team research --day 2026-10-05 --rows 24
      gpucost explain team research --month 2026-10 --format json
    """
    return _explained(request, "team", name)


def explain_namespace(
    request: ExplainRequest, name: Annotated[str, argument("NAME", "The namespace's name.")]
) -> Document:
    """Show where a namespace's cost comes from, down to the rows of the bill.

    Lists the namespace's workloads by node, their prices, and the charges behind billed prices, on one screen. With -v,
    --top or --rows also pods, the others who share the cost of a node, and each node's prices and charges, with every
    sum. Without a period: the same month as gpucost report.

    \b
    Examples:
      gpucost explain namespace ml-research --month 2026-10
      gpucost explain namespace ml-research --day 2026-10-05 --rows 24
      gpucost explain namespace ml-research --month 2026-10 --format json
    """
    return _explained(request, "namespace", name)


def explain_workload(
    request: ExplainRequest,
    name: Annotated[str, argument("NAME", "The workload, as Kind/name or name.")],
    namespace: Annotated[str | None, Option("Limit to this namespace.", "NAME")] = None,
) -> Document:
    """Show where a workload's cost comes from, down to its pods and the rows of the bill.

    Lists the workload's nodes, their prices, and the charges behind billed prices, on one screen. With -v, --top or
    --rows also each pod with its GPUs, times and devices, the others who share the cost of a node, and each node's
    prices and charges, with every sum. Without a period: the same month as gpucost report.

    \b
    Examples:
      gpucost explain workload Deployment/chat-api --day 2026-10-05
      gpucost explain workload chat-api --namespace inference --month 2026-10
      gpucost explain workload Job/llama-sft-12 --month 2026-10 --format json
    """
    return _explained(request, "workload", name, namespace)


def _explained(request: ExplainRequest, kind: str, name: str, namespace: str | None = None) -> Document:
    """The answer for the team, namespace or workload `name`, according to `kind`."""
    period, period_name = _day(request, request.day) if request.day is not None else request.chosen[:2]
    query = request.query(
        period=period,
        period_name=period_name,
        by=("namespace", "workload"),
        clusters=(request.cluster,) if request.cluster else (),
        **({"namespaces": (namespace,)} if namespace else {}),
        **{f"{kind}s": (name,)},
    )
    answer = explain_cost(request.settings, request.store, query, request.rows)
    request.note_gaps(query.clusters, query.period)
    shape = {"team": TeamExplained, "namespace": NamespaceExplained, "workload": WorkloadExplained}[kind]
    cost, final, estimated = (
        figure_text(amount, "money", answer.currency, 2)
        for amount in (answer.cost, answer.cost - answer.estimated_cost, answer.estimated_cost)
    )
    is_brief = not request.client.verbose and (request.top, request.rows) == (_TOP, _ROWS)
    details = (_by_pod(answer, request.top), *_by_node(name, answer, request.top, request.rows))
    return Document(
        title=f"{kind} {name}, {answer.period_name}: {cost} for {answer.allocated_gpu_hours:,.1f} GPU-hours",
        subtitle=f"{final} final, {estimated} estimated until its bill is collected"
        if answer.estimated_cost
        else "all of it final",
        currency=answer.currency,
        sections=(
            _by_workload(answer, _BRIEF if is_brief else request.top),
            *(_in_brief(answer) if is_brief else details),
        ),
        whole_in="json",
        name=f"explain.{kind}",
        data=shape(name, answer),
        flat=((), ()),
    )


def explain_cost(config: Config, store: Store, query: Query, most_rows: int) -> CostExplained:
    """The cost of the query's teams, namespaces and workloads, down to bill rows.

    Includes the first `most_rows` of each machine's charges.
    """
    return read_attributed(config, store, lambda con: explain(con, config, query, most_rows), query.period)


def _day(request: ExplainRequest, day: str) -> tuple[Period, str]:
    """The period of --day. Raises UsageError for an invalid day or one outside --month."""
    month = request.month
    try:
        chosen = date.fromisoformat(f"{month}-{int(day):02}" if month and day.isdecimal() else day)
    except ValueError:
        raise UsageError(f"invalid --day {day!r}", "for example --day 2026-10-05") from None
    if month and f"{chosen:%Y-%m}" != month:
        raise UsageError(f"--day {day} is not in {month}", "use either --month or --day")
    start = parse_instant("--day", f"{chosen}", request.tz)
    period = Period(start, local_midnight(chosen + timedelta(days=1), request.tz))
    return period, name_of(period, request.tz)


def _by_workload(answer: CostExplained, top: int) -> Table:
    columns = (
        text("namespace"),
        text("workload"),
        text("node", weight=1),
        number("allocated_gpu_hours", "GPU-hours"),
        money("cost"),
        text(lambda row: ", ".join(row.price_sources), "Price source", weight=1),
    )
    total = Line(("Total", "", "", answer.allocated_gpu_hours, answer.cost, ""), is_sum=True)
    return Table.of(
        "By workload and node", answer.workloads[:top], columns, [total], _more(answer, answer.workloads, top)
    )


def _in_brief(answer: CostExplained) -> Iterator[Table]:
    """The prices of each kind of node, and the bill rows of each machine.

    Kinds are the most expensive first. Their costs are shares of the requested name, and add up to its cost. The
    billed cost of a machine includes its other holders.
    """
    alike = grouped(((_kind(node), ", ".join(node.node_cost_by_price_source)), node) for node in answer.nodes)
    kinds = sorted(alike.items(), key=lambda kind: -_sum(kind[1], "cost"))
    prices = (
        text(lambda kind: kind[0][0], "Nodes"),
        figure(lambda kind: f"{len(kind[1]):,}", "Number"),
        figure(lambda kind: _prices_of(kind[1], answer.currency), "Price per hour"),
        text(lambda kind: kind[0][1], "Price source", weight=1),
        money(lambda kind: _sum(kind[1], "cost"), "Cost"),
    )
    yield Table.of("By price", kinds[:_BRIEF], prices, note=_left(kinds))
    if machines := list(chain.from_iterable(node.bill for node in answer.nodes)):
        rows = (
            text("instance_key", "Machine"),
            figure(lambda machine: f"{machine.rows:,}", "Rows"),
            text(lambda machine: ", ".join(map(_place, machine.first_rows[:1])), "First row"),
            money("cost", "Billed cost"),
        )
        yield Table.of("By bill row", machines[:_BRIEF], rows, note=_left(machines))


def _kind(node: NodeCost, count: str = "") -> str:
    """The instance type, capacity type and GPU model of a node: `p4d.24xlarge, on-demand, A100-SXM4-40GB`."""
    kind = node.instance_type, node.capacity_type.replace("_", "-"), f"{count}{node.gpu_model or 'GPUs'}"
    return ", ".join(filter(None, kind))


def _prices_of(nodes: Sequence[NodeCost], currency: str) -> str:
    """The lowest and the highest price per hour of these nodes.

    One price if all are equal, and none without any price in the period.
    """
    prices = [price.price_per_hour for price in chain.from_iterable(node.prices for node in nodes)]
    ends = dict.fromkeys((min(prices), max(prices))) if prices else ()
    return " to ".join(_price(price, currency) for price in ends)


def _left(rows: Sequence[Any]) -> str:
    """The number of rows that are not listed in brief, and the option that lists them."""
    more = f"and {len(rows) - _BRIEF:,} more; " if len(rows) > _BRIEF else ""
    return f"{more}-v lists pods, nodes, prices and bill rows"


def _place(row: BillRow) -> str:
    """The name of the file and the number of the row."""
    return f"{row.source_file.rpartition('/')[2]}:{row.source_row}"


def _more(answer: CostExplained, rows: Sequence[Any], top: int) -> str | None:
    """The sums of the rows that are not listed."""
    rest = rows[top:]
    if not rest:
        return None
    figures = [f"{_sum(rest, 'allocated_gpu_hours'):,.1f} GPU-hours"]
    if hasattr(rest[0], "idle_gpu_hours"):
        figures.append(f"{_sum(rest, 'idle_gpu_hours'):,.1f} of them idle")
    figures.append(figure_text(_sum(rest, "cost"), "money", answer.currency, 2))
    return f"and {len(rest):,} more, {', '.join(figures)}: --top {len(rows)}"


def _by_pod(answer: CostExplained, top: int) -> Table:
    columns = (
        text("pod"),
        text(lambda pod: f"{pod.start:%m-%d %H:%M}", "From"),
        text(lambda pod: f"{pod.end:%m-%d %H:%M}", "To"),
        figure(lambda pod: f"{pod.gpus:g}", "GPUs"),
        number("allocated_gpu_hours", "GPU-hours"),
        number("idle_gpu_hours", "Idle", weight=2),
        money("cost"),
        text("node", weight=1),
        text(
            lambda pod: ", ".join(map(_short, pod.devices)) or "unknown: no metric names them",
            "Devices",
            weight=1,
        ),
    )
    whole = (answer.allocated_gpu_hours, _sum(answer.pods, "idle_gpu_hours"), answer.cost)
    total = Line(("Total", "", "", "", *whole, "", ""), is_sum=True)
    title = "By pod, with times and GPUs (UTC)"
    return Table.of(title, answer.pods[:top], columns, [total], _more(answer, answer.pods, top))


def _sum(rows: Sequence[Any], name: str) -> Any:
    return sum(getattr(row, name) for row in rows)


def _short(device: str) -> str:
    """The first group of a UUID identifies a GPU of a node; JSON has the whole UUID."""
    uuid, slash, instance = device.partition("/")
    return f"{uuid[:_SHORT_UUID]}{slash}{instance}"


def _by_node(name: str, answer: CostExplained, top: int, rows: int) -> Iterator[Section]:
    """For each node: the shares of its cost, its prices, and its bill rows."""
    for node in answer.nodes[:top]:
        yield _paid_by(name, node)
        sources = list(node.node_cost_by_price_source.items())
        whole = (_WHOLE, node.node_cost)
        yield _parts(f"Cost of {node.node} by price source", "Price source", sources, whole)
        if node.prices:
            hidden = len(node.prices) - rows
            yield Table.of(
                f"Prices of {node.node}",
                node.prices[:rows],
                (
                    text(lambda price: f"{price.start:%Y-%m-%d %H:%M}", "From"),
                    text(lambda price: f"{price.end:%Y-%m-%d %H:%M}", "To"),
                    figure(lambda price: _price(price.price_per_hour, answer.currency), "Price per hour"),
                    text("price_source"),
                ),
                note=f"and {hidden:,} more prices: --rows {len(node.prices)}" if hidden > 0 else None,
            )
        yield from (_billed(machine, answer.currency) for machine in node.bill)
        yield from _difference(node)
    if more := _more(answer, answer.nodes, top):
        yield Texts("More nodes", (more,))


def _paid_by(name: str, node: NodeCost) -> Table:
    parts = [(name, node.cost), ("others", node.others_cost), ("unallocated", node.unallocated_cost)]
    if node.not_collected_cost:
        parts.append(("not collected", node.not_collected_cost))
    title = f"Node {node.node} in cluster {node.cluster}: {_kind(node, f'{node.gpu_count:g} × ')}"
    note = node.machine_id or "no provider id: bills cannot identify the node"
    return _parts(title, "Part", parts, (_WHOLE, node.node_cost), note)


def _parts(
    title: str,
    head: str,
    parts: list[tuple[str, Decimal]],
    whole: tuple[str, Decimal],
    note: str | None = None,
) -> Table:
    return Table.of(
        title,
        parts,
        (text(itemgetter(0), head), money(itemgetter(1), "Cost")),
        [Line(whole, is_sum=True)],
        note,
    )


def _billed(machine: BilledMachine, currency: str) -> Table:
    def in_words(cost: Decimal) -> str:
        return figure_text(cost, "money", currency, 2)

    charges = "charges of its scale set, spread over its nodes" if machine.is_scale_set else "charges"
    cost = "in a currency without a rate" if machine.cost is None else in_words(machine.cost)
    notes = []
    if machine.more_rows and machine.more_cost is not None:
        notes.append(
            f"and {machine.more_rows:,} more rows, {in_words(machine.more_cost)}: --rows {machine.rows}"
        )
    if machine.discount_cost:
        by = shown_rows(sorted(machine.first_discount_rows, key=_place_of_row), machine.discount_rows)
        notes.append(f"including discounts: {in_words(machine.discount_cost)}, in {by}")
    return Table.of(
        f"Bill rows of {machine.instance_key}: {machine.rows:,} {charges}, {machine.instance_hours:,.1f} h, {cost}",
        machine.first_rows,
        (
            text(lambda row: f"{row.source_file}:{row.source_row}", "Row"),
            text(lambda row: f"{row.start:%Y-%m-%d %H:%M}", "Charge period"),
            amount(lambda row: "" if row.instance_hours is None else row.instance_hours, "Hours"),
            figure(lambda row: f"{row.effective_cost.normalize():,f}", "Effective cost"),
            text("currency"),
            text(lambda row: row.description or "", "Charge", weight=1),
        ),
        note="; ".join(notes) or None,
    )


def _difference(node: NodeCost) -> Iterator[Table]:
    """The steps from the machine's billed cost to the billed part of the node's cost, if they differ."""
    costs = [machine.cost for machine in node.bill if not machine.is_scale_set]
    billed = sum(filter(None, costs), Decimal(0))
    charged = node.node_cost_by_price_source.get("bill", Decimal(0))
    if not costs or None in costs or abs(billed - charged) < _CENT:
        return
    pooled = _sum(node.bill, "pooled_cost")
    parts = [
        ("billed for this machine", billed),
        ("shared with machines of its kind ([prices] commitment_sharing)", pooled - billed),
        ("time outside the node's life or this period", charged - pooled),
    ]
    yield _parts(
        f"From the bill to the cost of {node.node}",
        "Part",
        parts,
        ("billed part of the node's cost", charged),
    )


def _place_of_row(name: str) -> tuple[str, int]:
    """Sort key of a bill row: file, then row number."""
    file, _, row = name.rpartition(":")
    return file, int(row) if row.isdecimal() else 0


def _price(price: Decimal, currency: str) -> str:
    """A price with all its decimals, at least four."""
    exponent = price.normalize().as_tuple().exponent
    return figure_text(price, "price", currency, max(-exponent, 4) if isinstance(exponent, int) else 4)
