"""The parts of a report that people read: tables and figures, filled and in order, still in numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from gpucost.config.model import Config
from gpucost.questions.report.changes import change_cells, change_columns, change_note
from gpucost.questions.report.query import NODE_DIMENSIONS
from gpucost.questions.report.rows import MICRO
from gpucost.render.view import (
    OF_ALLOCATED,
    OF_CAPACITY,
    OF_HELD,
    OF_NODES,
    ApiModel,
    Change,
    Changes,
    Column,
    Figure,
    Figures,
    Line,
    Measures,
    NodeTotals,
    Row,
    Shared,
    Status,
    Table,
    Value,
    all_cells,
    count,
    dimension,
    free_cells,
    held_cells,
    money,
    number,
    ratio,
    share,
    shared_columns,
    shown,
    text,
    unseen_cells,
)

# A workload is pointed out when it idled at least this share of the time that it held GPUs.
IDLE_FLAG = 0.5

_DIMENSION_TITLES = {"gpu_model": "GPU", "uid": "UID"}


def cost_by(
    rows: list[Row],
    by: tuple[str, ...],
    totals: Measures,
    nodes: NodeTotals | None,
    shared: Shared | None = None,
    compared: Changes | None = None,
) -> Table:
    """The rows of the report; with `nodes`, what nobody held or saw stands among them and the total is what the nodes cost.

    With `shared`, columns tell what each was charged besides its cost, and the sum of both; with `compared`, how cost changed.
    """
    title = (
        f"Cost by {' and '.join('GPU model' if key == 'gpu_model' else key.replace('_', ' ') for key in by)}"
    )
    columns = (
        *(
            Column(_DIMENSION_TITLES.get(key, _words(key)), "text", weight=4 if key == "uid" else 0)
            for key in by
        ),
        Column("GPU-hours", "hours"),
        Column("Cost", "money", 2, bar="whole"),
        *change_columns(compared),
        *shared_columns(shared),
        Column("Share", "ratio", weight=2),
        Column("Idle h", "hours", weight=3),
        Column("Idle", "ratio", weight=1),
        Column("Idle cost", "money", 2, weight=1, bar="part"),
        Column("Unmeasured", "ratio", weight=3),
        Column("Efficiency", "ratio", weight=3),
        Column("Spot", "ratio", weight=1),
    )
    whole = nodes.node_cost if nodes else totals.cost

    def line(
        labels: Iterable[Value], hours: Value, cost: Decimal, change: Change | None, shares: list[Value],
        rates: Iterable[Value] = ("",) * 6, *, is_sum: bool = False,
    ) -> Line:  # fmt: skip
        share = "" if hours == "" else ratio(cost, whole)
        cells = (*labels, hours, cost, *change_cells(compared, change), *shares, share, *rates)
        return Line(cells, is_sum=is_sum)

    def line_of(row: Row) -> Line:
        cost, labels = row.own_cost, (_label(row, name) for name in by)
        if row.api:
            return line(labels, "", cost, row.change, unseen_cells(shared, cost))
        if row.unallocated:
            return line(
                labels, row.unallocated.unallocated_gpu_hours, cost, row.change, free_cells(row.shared, cost)
            )
        if row.not_collected:
            return line(
                labels,
                row.not_collected.not_collected_gpu_hours,
                cost,
                row.change,
                unseen_cells(row.shared, cost),
            )
        shares = held_cells(row.shared, cost)
        return line(labels, row.measures.allocated_gpu_hours, cost, row.change, shares, _rates(row.measures))

    def labels(name: str) -> list[Value]:
        return [name, *[""] * (len(by) - 1)]

    held = [line_of(row) for row in rows if not (row.unallocated or row.not_collected or row.api)]
    api = [row for row in rows if row.api]
    api_total = sum((row.own_cost for row in api), Decimal(0))

    def with_api(cost: Decimal, charged: list[Value]) -> list[Line]:
        """What bought tokens cost, and all together; nothing where none were bought."""
        if not api:
            return []
        whole_charge = (
            [*charged[:-1], charged[-1] + api_total]
            if charged and isinstance(charged[-1], Decimal)
            else charged
        )
        sums = line(
            labels("Bought tokens"), "", api_total, None, unseen_cells(shared, api_total), is_sum=True
        )
        both = line(labels("Total with bought tokens"), "", cost + api_total, None, whole_charge, is_sum=True)
        return [*(line_of(row) for row in api if any(row.keys.values())), sums, both]

    since, shares = compared.cost if compared else None, held_cells(shared, totals.cost)
    summed = (totals.allocated_gpu_hours, totals.cost, since, shares, _rates(totals))
    if nodes is None:
        total = line(labels("Total"), *summed, is_sum=True)
        return Table(title, columns, (*held, total, *with_api(totals.cost, shares)), change_note(compared))
    free = [line_of(row) for row in rows if row.unallocated and any(row.keys.values())]
    unseen = [line_of(row) for row in rows if row.not_collected and any(row.keys.values())]
    left, unknown, all_nodes = compared.of_nodes if compared else (None, None, None)
    free_shares = free_cells(shared, nodes.unallocated_cost)
    free.append(
        line(
            labels("Unallocated"),
            nodes.unallocated_gpu_hours,
            nodes.unallocated_cost,
            left,
            free_shares,
            is_sum=True,
        )
    )
    if nodes.not_collected_gpu_hours or nodes.not_collected_cost:
        part = (
            nodes.not_collected_gpu_hours,
            nodes.not_collected_cost,
            unknown,
            unseen_cells(shared, nodes.not_collected_cost),
        )
        unseen.append(line(labels("Not collected"), *part, is_sum=True))
    gpu_time = totals.allocated_gpu_hours + nodes.unallocated_gpu_hours + nodes.not_collected_gpu_hours
    total = line(
        labels("Total"), gpu_time, nodes.node_cost, all_nodes, all_cells(shared, nodes.node_cost), is_sum=True
    )
    note = "The total is what the nodes cost, with and without anybody on their GPUs."
    if unseen:
        note += " Not collected is what was billed while nobody saw who held them."
    if shared and shared.costs:
        note += " Shared costs come on top of it."
    if compared:
        note += f" {change_note(compared)}"
    lines = (*held, line(labels("Allocated"), *summed, is_sum=True), *free, *unseen, total)
    return Table(
        title, columns, (*lines, *with_api(nodes.node_cost, all_cells(shared, nodes.node_cost))), note
    )


def _label(row: Row, name: str) -> str | None:
    """Only of what is known to have been somewhere that is unknown: what nobody held has no pod, and what is shared no node."""
    may_be_unknown = row.kind == "allocated" or (
        row.kind not in ("shared", "api") and name in NODE_DIMENSIONS
    )
    return "unknown" if row.keys[name] is None and may_be_unknown else row.keys[name]


def _rates(measures: Measures) -> tuple[Value, ...]:
    return (
        measures.idle_gpu_hours,
        idle_share(measures),
        measures.idle_cost,
        ratio(measures.unmeasured_gpu_hours, measures.allocated_gpu_hours),
        measures.efficiency,
        measures.spot_ratio,
    )


def gpu_hours(by_gpu: list[Row], totals: Measures, unpriced: Collection[tuple[str | None, str]]) -> Table:
    """GPU-hours by GPU model and capacity type, at the price that they came to; of `unpriced` ones a note tells.

    Pods without GPUs cost something where the cost basis charges cores and memory.
    """
    used = [
        row
        for row in by_gpu
        if row.kind == "allocated" and (row.measures.allocated_gpu_hours or row.measures.cost)
    ]
    lines, no_price = [], []
    for row in sorted(used, key=lambda row: (row.keys["gpu_model"] or "~", row.keys["capacity_type"] or "")):
        held, cost = row.measures.allocated_gpu_hours, row.measures.cost
        if not held:
            lines.append(Line((f"{gpu_name(row)}, host only", 0.0, None, cost)))
            continue
        lines.append(Line((gpu_name(row), held, (cost / Decimal(repr(held))).quantize(MICRO), cost)))
        if (row.keys["gpu_model"], row.keys["capacity_type"]) in unpriced:
            no_price.append(gpu_name(row))
    note = f"Some GPU-hours of {', '.join(sorted(no_price))} have no price: they count, and cost nothing."
    return Table(
        "GPU-hours consumed",
        (
            Column("GPU", "text"),
            Column("GPU-hours", "hours"),
            Column("Price per GPU-hour", "price", _price_decimals(lines), sign="×"),
            Column("Cost", "money", 2, sign="="),
        ),
        (*lines, Line(("Total", "", "", totals.cost), is_sum=True)),
        note=note if no_price else None,
        has_header=False,
        sum=(totals.allocated_gpu_hours, "hours"),
    )


def _free_name(row: Row) -> str:
    held_by = row.keys["reservation"]
    return f"{gpu_name(row)}, reservation {held_by}" if held_by else gpu_name(row)


def unallocated_gpus(by_free: list[Row], nodes: NodeTotals) -> Table:
    """GPUs that nobody held, by model, capacity type and the reservation that kept them free, the dearest first."""
    free = [
        row
        for row in by_free
        if (part := row.unallocated) and (part.unallocated_gpu_hours or part.unallocated_cost)
    ]
    columns = (
        text(_free_name, "GPU"),
        number("unallocated.unallocated_gpu_hours", "GPU-hours"),
        number("unallocated.unavailable_gpu_hours", "Of these unavailable", weight=1),
        money("unallocated.unallocated_cost", "Cost", bar="whole"),
    )
    total = Line(
        ("Total", nodes.unallocated_gpu_hours, nodes.unavailable_gpu_hours, nodes.unallocated_cost),
        is_sum=True,
    )
    return Table.of("Unallocated GPUs", sorted(free, key=lambda row: -row.own_cost), columns, [total])


def waste(totals: Measures, nodes: NodeTotals | None, config: Config) -> Figures:
    """Idle time and money, and the ratios that have a target (`[targets]`)."""

    def share(label: str, hours: float, whole: float, of: str) -> Figure:
        return Figure(label, hours, "hours", ratio(hours, whole), of)

    held = totals.allocated_gpu_hours
    figures = [
        share("Idle GPU-hours", totals.idle_gpu_hours, held, OF_HELD),
        Figure("Idle cost", totals.idle_cost, "money", ratio(totals.idle_cost, totals.cost), OF_ALLOCATED),
        share("Unmeasured", totals.unmeasured_gpu_hours, held, OF_HELD),
    ]
    if nodes:
        figures.append(
            share("Unallocated", nodes.unallocated_gpu_hours, nodes.capacity_gpu_hours, OF_CAPACITY)
        )
        unallocated = ratio(nodes.unallocated_cost, nodes.node_cost)
        figures.append(Figure("Unallocated cost", nodes.unallocated_cost, "money", unallocated, OF_NODES))
        if nodes.over_allocated_gpu_hours:
            figures.append(
                share("Over-allocated", nodes.over_allocated_gpu_hours, nodes.capacity_gpu_hours, OF_CAPACITY)
            )
    unknown = "nothing was measured" if totals.efficiency is None else unmeasured(totals, config)
    efficiency = _targeted("Efficiency", totals.efficiency, config.targets.efficiency, unknown)
    unknown = "no capacity type is known" if totals.spot_ratio is None else None
    return Figures(
        "Waste",
        (
            *figures,
            efficiency,
            _targeted("Spot ratio", totals.spot_ratio, config.targets.spot_ratio, unknown),
        ),
    )


def unmeasured(measures: Measures, config: Config) -> str | None:
    """Why nothing can be told of activity; None where it can."""
    if measures.measured_ratio is None:
        return "nothing was measured"
    least = config.idle.min_measured
    return (
        f"{measures.measured_ratio:.0%} measured, {least:.0%} needed"
        if measures.measured_ratio < least
        else None
    )


def consumers(dearest: list[Row], counts: Mapping[str, int], totals: Measures) -> Table:
    """The workloads that cost most, those flagged that idled away half of their time or more."""
    columns = (
        dimension("workload"),
        *(dimension(key) for key in ("cluster", "namespace") if counts[f"{key}s"] > 1),
        number("measures.allocated_gpu_hours", "GPU-hours"),
        money("measures.cost", "Cost", bar="whole"),
        share(lambda row: idle_share(row.measures), "Idle"),
        money("measures.idle_cost", "Idle cost", weight=2, bar="part"),
        share(lambda row: ratio(row.measures.cost, totals.cost), "Share", weight=3),
    )
    left = counts["workloads"] - len(dearest)
    note = (
        f"{left:,} more {'workloads' if left > 1 else 'workload'}: --by workload, or --top {counts['workloads']}"
        if left
        else None
    )
    return Table.of("Top consumers", dearest, columns, note=note, flag=_flag)


def _flag(row: Row) -> str | None:
    return "idle" if (idle_share(row.measures) or 0.0) >= IDLE_FLAG else None


_SOURCES = {"invoice": "invoice", "bill": "cloud's bill"}


def bought(models: tuple[ApiModel, ...]) -> Table:
    """What each team bought of each model, from whom, and by which source."""
    columns = (
        text("team"),
        text(lambda one: one.model or "", "Model"),
        text("provider", "From", weight=1),
        count("cost.prompt_tokens", "Prompt tokens", weight=2),
        count("cost.generation_tokens", "Generated tokens", weight=2),
        money("cost.api_cost", "API cost"),
        shown("cost_per_million_tokens", "Per million", unit="price", decimals=2, weight=1),
        text(lambda one: _SOURCES[one.source], "Source", weight=3),
    )
    total = sum((one.cost.api_cost for one in models), Decimal(0))
    sums = [Line(("Total", "", "", "", "", total, "", ""), is_sum=True)]
    note = "The costs are those of bills. They are in no GPU-hour."
    return Table.of("Bought tokens", models, columns, sums, note)


def gpu_name(row: Row) -> str:
    """`A100 on-demand`: model and capacity type as people say them."""
    capacity = row.keys["capacity_type"] or "unknown"
    named = "capacity type unknown" if capacity == "unknown" else capacity.replace("_", "-")
    return f"{row.keys['gpu_model'] or 'unknown GPU'} {named}"


def idle_share(measures: Measures) -> float | None:
    """Idle share of the GPU time held; None where nothing was measured."""
    return ratio(measures.idle_gpu_hours, measures.allocated_gpu_hours) if measures.measured_ratio else None


def _price_decimals(lines: list[Line]) -> int:
    """As many decimals as all prices need, two to four, so that hours x price can be followed."""
    prices = [cell for line in lines if isinstance(cell := line.cells[2], Decimal)]
    exact = (
        places
        for places in (2, 3)
        if all(abs(price - round(price, places)) < Decimal("0.00005") for price in prices)
    )
    return next(exact, 4)


def _targeted(label: str, value: float | None, target: Decimal, unknown: str | None) -> Figure:
    """`unknown` says why it cannot be held against its target."""
    status: Status = "unknown" if unknown or value is None else "met" if value >= float(target) else "missed"
    return Figure(label, value, "ratio", target=float(target), status=status, note=unknown)


def _words(key: str) -> str:
    return key.replace("_", " ").capitalize()
