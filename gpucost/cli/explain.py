"""What `gpucost explain team`, `namespace` and `workload` share: the period, and how the answer is written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli.command import BriefFormat, Call, argument, command, count_option, note_gaps, option, parameters
from gpucost.cli.output import line_width, put, wrapped
from gpucost.errors import UsageError
from gpucost.periods import Period, iso, local_midnight, name_of, parse_instant
from gpucost.render.rows import table_text

if TYPE_CHECKING:
    from gpucost.price.explain import NodePrice
    from gpucost.report.explained import CostExplained, NodeCost, PodCost

# What a file decides, and the file in the package; docs/attribution.md, docs/pricing.md and docs/cost-basis.md have the rules.
_HELD = (
    ("which pod has how many GPUs of which node, and when", "inventory/40_allocated.sql"),
    ("the same by stretches of one price", "attribute/20_holdings.sql"),
    ("when they were active, idle or unmeasured", "attribute/34_measures.sql"),
)
_DISCOUNTS = ("what discounts take off", "price/bill/14_discount_rates.sql")
_BILL = ("what the bill says of each machine and hour", "price/bill/30_billed_hours.sql")
_PRICE = ("what a node costs at each moment", "price/50_node_prices.sql")
_SPLIT = ("what of it is for GPUs, CPU and memory", "attribute/basis/30_node_splits.sql")
_GPUS = (
    ("each pod's share of what the node's GPUs cost", "attribute/50_shares.sql"),
    ("that share's cost", "attribute/51_amounts.sql"),
)
_HOST = (
    ("which cores and memory each pod pays for", "attribute/24_billed_requests.sql"),
    ("its share of what those of the node cost", "attribute/53_host_shares.sql"),
    ("that share's cost", "attribute/54_host_amounts.sql"),
)
_SUMS = (
    ("idle cost, and the team", "attribute/60_cell_costs.sql"),
    ("the sums of this period", "report/20_facts.sql"),
)


def stages(answer: CostExplained) -> tuple[tuple[str, str], ...]:
    """Those that had a part in it: bills where nodes are billed, cores and memory where the cost basis charges them."""
    machines = [machine for node in answer.nodes for machine in node.bill]
    bill = (*((_DISCOUNTS,) if any(machine.discount_cost for machine in machines) else ()), _BILL) if machines else ()
    is_split = answer.cost_basis != "node"
    return (*_HELD, *bill, _PRICE, *((_SPLIT,) if is_split else ()), *_GPUS, *(_HOST if is_split else ()), *_SUMS)


_FIGURES = {"gpus", "idle_hours", "gpu_hours", "hours", "price/h", "effective_cost"}
_TIMES = {"from", "to", "charge period"}
_SHORT_UUID = len("GPU-01234567")


def print_pods(pods: Sequence[PodCost], answer: CostExplained, top: int) -> None:
    put("\nBy pod, and when it held which GPUs (UTC)")
    lines: list[Sequence[Any]] = [
        (
            pod.pod,
            f"{pod.start:%m-%d %H:%M}",
            f"{pod.end:%m-%d %H:%M}",
            f"{pod.gpus:g}",
            hours(pod.allocated_gpu_hours),
            hours(pod.idle_gpu_hours),
            money(pod.cost),
            pod.node,
            ", ".join(map(_short, pod.devices)) or "not named by any metric",
        )
        for pod in pods[:top]
    ]
    rest = pods[top:]
    if rest:
        held, idle = (sum(getattr(pod, name) for pod in rest) for name in ("allocated_gpu_hours", "idle_gpu_hours"))
        cost = money(sum((pod.cost for pod in rest), Decimal(0)))
        lines.append((f"{len(rest):,} more", "", "", "", hours(held), hours(idle), cost, "", ""))
    idle = sum(pod.idle_gpu_hours for pod in pods)
    lines.append(("total", "", "", "", hours(answer.allocated_gpu_hours), hours(idle), money(answer.cost), "", ""))
    columns = ("pod", "from", "to", "gpus", "gpu_hours", "idle_hours", f"cost_{answer.currency}", "node", "devices")
    table(columns, lines, (0, 0, 0, 0, 0, 2, 0, 1, 1))


def _short(device: str) -> str:
    """The first group of a UUID tells GPUs of a node apart; JSON has all of it."""
    uuid, slash, instance = device.partition("/")
    return f"{uuid[:_SHORT_UUID]}{slash}{instance}"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], weights: Sequence[int] | None = None) -> None:
    width = line_width()
    whole = [index for index, name in enumerate(columns) if name in _FIGURES | _TIMES or name[-3:].isupper()]
    for text in table_text(columns, rows, weights, width - 2 if width else None, _FIGURES, whole).splitlines():
        put(f"  {text}")


def money(amount: Decimal) -> str:
    return f"{amount:,.2f}"


def exact(amount: Decimal) -> str:
    return f"{amount.normalize():,f}"


def hours(hours: float) -> str:
    return f"{hours:,.1f}"


_CENT = Decimal("0.005")
_WHOLE = "the node's cost"


# What teams, namespaces and workloads are asked with.
_OF_COST = parameters(
    {
        "day": (str | None, option("--day", "YYYY-MM-DD", "One local day, instead of a month.")),
        "cluster": (str | None, option("--cluster", "NAME", "Only what ran in this cluster.")),
        "top": (
            int,
            count_option("--top", "How many workloads, pods and nodes to list, the dearest first; JSON has all.", 1),
            10,
        ),
        "rows": (
            int,
            count_option("--rows", "How many prices of each node, and rows of its bill, to list; JSON has all prices."),
            5,
        ),
        "format": (BriefFormat, typer.Option("--format", help="How to write it."), BriefFormat.table),
    }
)


def explain(call: Call, kind: str, name: str, namespace: str | None = None) -> None:
    """Answer for the team, namespace or workload `name`, as `kind` says."""
    from gpucost import pipeline
    from gpucost.render.schema import to_json
    from gpucost.report.explained import NamespaceExplained, Stage, TeamExplained, WorkloadExplained

    day, cluster, top, rows, how = (call.more[name] for name in ("day", "cluster", "top", "rows", "format"))
    period, period_name = _day(call, day) if day is not None else call.chosen[:2]
    query = call.query(
        period=period,
        period_name=period_name,
        by=("namespace", "workload"),
        teams=(name,) if kind == "team" else (),
        namespaces=(name,) if kind == "namespace" else (namespace,) if namespace else (),
        clusters=(cluster,) if cluster else (),
    )
    answer = pipeline.explain_cost(call.settings, call.store, query, rows, (name,) if kind == "workload" else ())
    note_gaps(call.settings, call.store, query.period, query.clusters, quiet=call.quiet)
    if how is BriefFormat.json:
        shape = {"team": TeamExplained, "namespace": NamespaceExplained, "workload": WorkloadExplained}[kind]
        decided = [Stage(what, f"gpucost/{file}") for what, file in stages(answer)]
        put(to_json(shape(name, answer, decided), f"explain.{kind}"), nl=False)
    else:
        _print(kind, name, answer, top, rows)


def _day(call: Call, day: str) -> tuple[Period, str]:
    """Raises UsageError for a day that is none, or that is not of the month beside it."""
    month = call.month
    try:
        asked = date.fromisoformat(f"{month}-{int(day):02}" if month and day.isdecimal() else day)
    except ValueError:
        raise UsageError(f"--day {day!r} is no day", "for example --day 2026-10-05") from None
    if month and f"{asked:%Y-%m}" != month:
        raise UsageError(f"--day {day} is not in {month}", "give one of --month and --day")
    start = parse_instant("--day", f"{asked}", call.tz)
    period = Period(start, local_midnight(asked + timedelta(days=1), call.tz))
    return period, name_of(period, call.tz)


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


@command("name month day cluster top rows format", more=_OF_COST)
def explain_namespace(call: Call, name: Annotated[str, argument("NAME", "The namespace.")]) -> None:
    """Say where a namespace's cost comes from, down to the rows of the bill.

    What each of its workloads held on which node, who else paid for that node, the node's prices and where they are from, and the
    charges behind those that are billed. Every sum is shown. Without a period: the month that gpucost report takes.

    \b
    Examples:
      gpucost explain namespace ml-research --month 2026-10
      gpucost explain namespace ml-research --day 2026-10-05 --rows 24
      gpucost explain namespace ml-research --month 2026-10 --format json
    """
    explain(call, "namespace", name)


_WEIGHTS = (0, 1, 0, 0, 0, 0)


@command()
def explain_node(
    call: Call,
    name: Annotated[str, argument("NAME", "The node, as Kubernetes names it.")],
    at: Annotated[
        str | None,
        option(
            "--at",
            "TIME",
            "The moment: 2026-10-01 (local midnight), 2026-10-01T06:00 (local), 2026-10-01T06:00Z. "
            "Default: the last at which the node was up.",
        ),
    ] = None,
    cluster: Annotated[str | None, option("--cluster", "NAME", "Its cluster, where several have such a node.")] = None,
    format: Annotated[BriefFormat, typer.Option("--format", help="How to write it.")] = BriefFormat.table,
) -> None:
    """Say what a node costs per hour at a moment, and why.

    Lists every price that fits it in the order in which they count, and what currency rates and discounts make of the
    first.

    \b
    Examples:
      gpucost explain node ip-10-0-3-17.ec2.internal
      gpucost explain node gpu-7 --at 2026-10-01T06:00Z --cluster prod
      gpucost explain node gpu-7 --format json
    """
    from gpucost import pipeline
    from gpucost.render.schema import to_json
    from gpucost.report.explained import NodeExplained

    moment = parse_instant("--at", at, call.tz) if at is not None else None
    answer = pipeline.explain_node(call.settings, call.store, name, moment, cluster)
    if format is BriefFormat.json:
        put(to_json(NodeExplained.of(answer), "explain.node"), nl=False)
    else:
        _print_node_price(answer)


def _print_node_price(answer: NodePrice) -> None:
    from gpucost.price.explain import shown_price

    node = answer.node
    place = ", ".join(part for part in (node.provider, node.region, node.zone) if part)
    put(f"node  {node.node} in cluster {node.cluster}")
    put(f"up    {iso(node.up_from)} .. {iso(node.up_to)}")
    put(f"at    {iso(answer.at)}")
    put(f"in    {place or 'no known place'}")
    put(f"is    {node.instance_type or 'no known instance type'}, {node.capacity_type}, {node.gpu_count:g} x {node.gpu_model}\n")
    if not answer.candidates:
        put("no price fits it then: it costs nothing in the figures")
        if answer.fix:
            put(f"fix: {answer.fix}")
        return
    # a column of text, not of dates: what the price book has held since ever has none
    rows = [
        (c.price_per_hour.normalize(), c.currency, c.price_source, str(c.price_as_of or ""), c.origin, c.why)
        for c in answer.candidates
    ]
    columns = ("price/h", "currency", "price_source", "price_as_of", "origin", "why")
    put(table_text(columns, rows, _WEIGHTS, line_width()), nl=False)
    put()
    for step in answer.steps[1:]:
        put(wrapped(f"x {_digits(step.factor)}  {step.detail}: {shown_price(step.price_per_hour)}"))
    if answer.price_per_hour is not None and answer.price_per_gpu_hour is not None:
        per_gpu = shown_price(answer.price_per_gpu_hour)
        put(f"{shown_price(answer.price_per_hour)} {answer.currency} per node-hour, {per_gpu} per GPU-hour")


def _digits(value: Decimal) -> str:
    return f"{value.normalize():f}"


@command("name month day cluster top rows format", more=_OF_COST)
def explain_team(call: Call, name: Annotated[str, argument("NAME", "The team, as reports call it.")]) -> None:
    """Say where a team's cost comes from, down to the rows of the bill.

    What each of its workloads held on which node, who else paid for that node, the node's prices and where they are from, and the
    charges behind those that are billed. Every sum is shown. Without a period: the month that gpucost report takes.

    \b
    Examples:
      gpucost explain team research --month 2026-10
      gpucost explain team research --day 2026-10-05 --rows 24
      gpucost explain team research --month 2026-10 --format json
    """
    explain(call, "team", name)


@command("name month day namespace cluster top rows format", more=_OF_COST)
def explain_workload(
    call: Call,
    name: Annotated[str, argument("NAME", "The workload, as Kind/name or by its name.")],
    namespace: Annotated[str | None, option("--namespace", "NAME", "Only in this namespace.")] = None,
) -> None:
    """Say where a workload's cost comes from, down to its pods and the rows of the bill.

    When which pod held how many GPUs of which node, on which devices, at what cost; who else paid for those nodes, their prices
    and where they are from, and the charges behind those that are billed. Every sum is shown. Without a period: that
    of gpucost report.

    \b
    Examples:
      gpucost explain workload Deployment/chat --day 2026-10-05
      gpucost explain workload chat --namespace serving --month 2026-10
      gpucost explain workload Job/train-7 --month 2026-10 --format json
    """
    explain(call, "workload", name, namespace)
