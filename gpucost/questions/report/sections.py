"""The sections of a report for people: ordered tables and figures, still as numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from gpucost.config.model import Config
from gpucost.questions.report.query import NODE_DIMENSIONS, is_label
from gpucost.questions.report.rows import MICRO, ZERO
from gpucost.records import grouped
from gpucost.render.view import (
    CHARGED,
    OF_ALLOCATED,
    OF_CAPACITY,
    OF_HELD,
    OF_NODES,
    ApiModel,
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
    column_of,
    count,
    dimension,
    dimension_title,
    money,
    number,
    part_of,
    ratio,
    share,
    text,
)

# A workload is flagged if it was idle for at least this share of its allocated time.
IDLE_FLAG = 0.5

_DIMENSION_TITLES = {"gpu_model": "GPU", "uid": "UID"}


def _words(dimension: str) -> str:
    """The words of a dimension in a title; a label keeps its spelling."""
    if dimension == "gpu_model":
        return "GPU model"
    return dimension if is_label(dimension) else dimension.replace("_", " ")


def cost_by(
    rows: list[Row], by: tuple[str, ...], totals: Measures, nodes: NodeTotals | None, shared: Shared | None
) -> Table:
    """The rows of the report. With `nodes`, adds unallocated and not collected rows; the total is the node cost.

    With `shared`, adds columns for shared costs and for the sum charged.
    """
    title = f"Cost by {' and '.join(map(_words, by))}"
    columns = (
        *(
            Column(_DIMENSION_TITLES.get(key, dimension_title(key)), "text", weight=4 if key == "uid" else 0)
            for key in by
        ),
        Column("GPU-hours", "hours"),
        Column("Cost", "money", 2),
        *_shared_columns(shared),
        Column("Share", "ratio", weight=2),
        Column("Idle h", "hours", weight=3),
        Column("Idle", "ratio", weight=1),
        Column("Idle cost", "money", 2, weight=1),
        Column("Unmeasured", "ratio", weight=3),
        Column("Efficiency", "ratio", weight=3),
        Column("Spot", "ratio", weight=1),
    )
    whole = nodes.node_cost if nodes else totals.cost

    def line(
        labels: Iterable[Value],
        hours: Value,
        cost: Decimal,
        shares: Iterable[Value],
        measures: Measures | None,
        *,
        is_sum: bool = False,
    ) -> Line:
        rates = _rates(measures) if measures else ("",) * 6
        share = "" if hours == "" else ratio(cost, whole)
        cells = (*labels, hours, cost, *shares, share, *rates)
        return Line(cells, is_sum=is_sum)

    def line_of(row: Row) -> Line:
        hours = "" if row.api else row.own_gpu_hours
        shares = _shares(row.shared or shared, row.own_cost, row.kind if row.shared else "")
        measures = row.measures if row.kind in _PAYING else None
        return line((_label(row, name) for name in by), hours, row.own_cost, shares, measures)

    def add(title: str, hours: Value, cost: Decimal, kind: str, measures: Measures | None = None) -> None:
        """A line of sums."""
        labels = [title, *[""] * (len(by) - 1)]
        lines.append(line(labels, hours, cost, _shares(shared, cost, kind), measures, is_sum=True))

    of_kind = grouped(
        (row.kind, line_of(row)) for row in rows if row.kind in _PAYING or any(row.keys.values())
    )
    lines = [*of_kind["allocated"], *of_kind["shared"]]
    held = totals.allocated_gpu_hours
    add("Allocated" if nodes else "Total", held, totals.cost, "allocated", totals)
    notes = []
    if nodes:
        free = nodes.unallocated_gpu_hours
        unseen = nodes.not_collected_gpu_hours
        is_unseen = unseen or nodes.not_collected_cost
        lines += of_kind["unallocated"]
        add("Unallocated", free, nodes.unallocated_cost, "unallocated")
        lines += of_kind["not_collected"]
        if is_unseen:
            add("Not collected", unseen, nodes.not_collected_cost, "not_collected")
        add("Total", held + free + unseen, whole, "all")
        notes.append("The total is the cost of the nodes, allocated or not.")
        if is_unseen or of_kind["not_collected"]:
            notes.append("Not collected is the billed cost of time without metrics of the GPUs' holders.")
        if shared and shared.costs:
            notes.append("Shared costs are added to it.")
    bought_cost = [row.own_cost for row in rows if row.api]
    if bought_cost:
        cost = sum(bought_cost, ZERO)
        lines += of_kind["api"]
        add("Bought tokens", "", cost, "api")
        add("Total with bought tokens", "", whole + cost, "all" if nodes else "allocated")
    return Table(title, columns, tuple(lines), " ".join(notes) or None)


# Kinds of rows that take part in shared costs.
_PAYING = ("allocated", "shared")


def _shared_columns(shared: Shared | None) -> list[Column]:
    """None if no costs are shared."""
    if shared is None:
        return []
    names = [*(["Shared unallocated"] if shared.unallocated_cost is not None else []), *shared.costs]
    return [
        *(Column(name, "money", 2, weight=1, group="shares") for name in names),
        Column(CHARGED, "money", 2),
    ]


def _shares(shared: Shared | None, cost: Decimal, kind: str) -> list[Value]:
    """The shares of a row of `kind`, or of `all`, and the sum with its own cost.

    Unallocated cost charged to others is negative in its own row and zero in the total. Bought tokens and not
    collected cost are never shared.
    """
    if shared is None:
        return []
    pays = kind in (*_PAYING, "all")
    shares = [*shared.costs.values()] if pays else [""] * len(shared.costs)
    charged = cost + shared.shared_cost if pays else cost
    if shared.unallocated_cost is None:
        return [*shares, charged]
    if kind == "unallocated":
        stays = shared.remaining_unallocated_cost or ZERO
        return [stays - cost, *shares, stays]
    if kind in _PAYING:
        return [shared.unallocated_cost, *shares, charged + shared.unallocated_cost]
    return [ZERO if pays else "", *shares, charged]


_MISSING = {"priority_class": "none"}


def _label(row: Row, name: str) -> str | None:
    """The label of a dimension: "unknown" only if the row can have a value.

    Unallocated rows have no pod, and shared rows no node.
    """
    may_be_unknown = row.kind == "allocated" or (
        row.kind not in ("shared", "api") and name in NODE_DIMENSIONS
    )
    missing = "no label" if is_label(name) else _MISSING.get(name, "unknown")
    return missing if row.keys[name] is None and may_be_unknown else row.keys[name]


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
    """GPU-hours by GPU model and capacity type, with their mean price; a note lists the `unpriced` ones.

    Pods without GPUs have a cost if the cost basis charges cores and memory.
    """
    lines = []
    no_price = []
    for row in sorted(
        by_gpu, key=lambda row: (row.keys["gpu_model"] or "~", row.keys["capacity_type"] or "")
    ):
        held = row.measures.allocated_gpu_hours
        cost = row.measures.cost
        if row.kind != "allocated" or not (held or cost):
            continue
        price = (cost / Decimal(repr(held))).quantize(MICRO) if held else None
        lines.append(Line((gpu_name(row) + ("" if held else ", host only"), held, price, cost)))
        if held and (row.keys["gpu_model"], row.keys["capacity_type"]) in unpriced:
            no_price.append(gpu_name(row))
    note = f"Some GPU-hours of {', '.join(sorted(no_price))} have no price: they count, at no cost."
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
    reservation = row.keys["reservation"]
    return f"{gpu_name(row)}, reservation {reservation}" if reservation else gpu_name(row)


def unallocated_gpus(by_free: list[Row], nodes: NodeTotals) -> Table:
    """Unallocated GPUs by model, capacity type and reservation, the most expensive first."""
    free = [row for row in by_free if row.unallocated and (row.own_gpu_hours or row.own_cost)]
    columns = (
        text(_free_name, "GPU"),
        number("unallocated.unallocated_gpu_hours", "GPU-hours"),
        number("unallocated.unavailable_gpu_hours", "Unavailable", weight=1),
        money("unallocated.unallocated_cost", "Cost"),
    )
    total = Line(
        ("Total", nodes.unallocated_gpu_hours, nodes.unavailable_gpu_hours, nodes.unallocated_cost),
        is_sum=True,
    )
    return Table.of("Unallocated GPUs", sorted(free, key=lambda row: -row.own_cost), columns, [total])


def waste(totals: Measures, nodes: NodeTotals | None, config: Config) -> Figures:
    """Idle time and cost, and the ratios with a target (`[targets]`)."""
    held = totals.allocated_gpu_hours
    figures = [
        part_of("Idle GPU-hours", totals.idle_gpu_hours, held, OF_HELD),
        part_of("Idle cost", totals.idle_cost, totals.cost, OF_ALLOCATED),
        part_of("Unmeasured", totals.unmeasured_gpu_hours, held, OF_HELD),
    ]
    if nodes:
        capacity = nodes.capacity_gpu_hours
        over_allocated = nodes.over_allocated_gpu_hours
        figures.append(part_of("Unallocated", nodes.unallocated_gpu_hours, capacity, OF_CAPACITY))
        figures.append(part_of("Unallocated cost", nodes.unallocated_cost, nodes.node_cost, OF_NODES))
        if over_allocated:
            figures.append(part_of("Over-allocated", over_allocated, capacity, OF_CAPACITY))
    targets = config.targets
    unknown = "no activity was measured" if totals.efficiency is None else unmeasured(totals, config)
    figures.append(_targeted("Efficiency", totals.efficiency, targets.efficiency, unknown))
    unknown = "no capacity type is known" if totals.spot_ratio is None else None
    figures.append(_targeted("Spot ratio", totals.spot_ratio, targets.spot_ratio, unknown))
    return Figures("Waste", tuple(figures))


def unmeasured(measures: Measures, config: Config) -> str | None:
    """The reason why efficiency is unknown; None if it is known."""
    measured = measures.measured_ratio
    least = config.idle.min_measured
    if measured is None:
        return "no activity was measured"
    return f"{measured:.0%} measured, {least:.0%} needed" if measured < least else None


def consumers(rows: list[Row], counts: Mapping[str, int], totals: Measures) -> Table:
    """The most expensive workloads; those idle for half of their time or more are flagged."""
    columns = (
        dimension("workload"),
        *(dimension(key) for key in ("cluster", "namespace") if counts[f"{key}s"] > 1),
        number("measures.allocated_gpu_hours", "GPU-hours"),
        money("measures.cost", "Cost"),
        share(lambda row: idle_share(row.measures), "Idle"),
        money("measures.idle_cost", "Idle cost", weight=2),
        share(lambda row: ratio(row.measures.cost, totals.cost), "Share", weight=3),
    )
    whole = counts["workloads"]
    left = whole - len(rows)
    more = f"{left:,} more {'workloads' if left > 1 else 'workload'}: --by workload, or --top {whole}"
    return Table.of("Top consumers", rows, columns, note=more if left else None, flag=_flag)


def _flag(row: Row) -> str | None:
    return "idle" if (idle_share(row.measures) or 0.0) >= IDLE_FLAG else None


_SOURCES = {"invoice": "invoice", "bill": "cloud's bill"}


def bought(models: tuple[ApiModel, ...]) -> Table:
    """The purchases of each team by model, seller and source."""
    columns = (
        text("team"),
        text(lambda model: model.model or "", "Model"),
        text("provider", "From", weight=1),
        count("cost.prompt_tokens", "Prompt tokens", weight=2),
        count("cost.generation_tokens", "Generated tokens", weight=2),
        money("cost.api_cost", "API cost"),
        column_of("cost_per_million_tokens", "Per million", unit="price", decimals=2, weight=1),
        text(lambda model: _SOURCES[model.source], "Source", weight=3),
    )
    total = sum((model.cost.api_cost for model in models), ZERO)
    sums = [Line(("Total", "", "", "", "", total, "", ""), is_sum=True)]
    note = "The costs are from bills. They are not part of any GPU-hour."
    return Table.of("Bought tokens", models, columns, sums, note)


def gpu_name(row: Row) -> str:
    """`A100 on-demand`."""
    return " ".join(value_name(key, row.keys[key]) for key in ("gpu_model", "capacity_type"))


_UNKNOWN = {"gpu_model": "unknown GPU", "capacity_type": "capacity type unknown"}


def value_name(dimension: str, value: str | None) -> str:
    """The display value of a dimension: `on-demand`."""
    if value is None or (dimension == "capacity_type" and value == "unknown"):
        return _UNKNOWN.get(dimension, "unknown")
    return value.replace("_", "-") if dimension == "capacity_type" else value


def idle_share(measures: Measures) -> float | None:
    """Idle share of the allocated GPU time; None without measurements."""
    return ratio(measures.idle_gpu_hours, measures.allocated_gpu_hours) if measures.measured_ratio else None


def _price_decimals(lines: list[Line]) -> int:
    """The decimals that all prices need, two to four, so that hours x price can be checked."""
    prices = [cell for line in lines if isinstance(cell := line.cells[2], Decimal)]
    for places in (2, 3):
        if all(abs(price - round(price, places)) < Decimal("0.00005") for price in prices):
            return places
    return 4


def _targeted(label: str, value: float | None, target: Decimal, unknown: str | None) -> Figure:
    """A ratio with its target; `unknown` is the reason if it cannot be compared."""
    status: Status = "unknown" if unknown or value is None else "met" if value >= float(target) else "missed"
    return Figure(label, value, "ratio", target=float(target), status=status, note=unknown)
