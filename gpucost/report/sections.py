"""The parts of a report that people read: tables and figures, filled and in order, still in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from decimal import Decimal

from gpucost.config.model import Config
from gpucost.render.view import (
    Changes,
    Column,
    Figure,
    Figures,
    Line,
    Measures,
    NodeTotals,
    NotCollected,
    Row,
    Shared,
    Status,
    Table,
    Unallocated,
    Value,
    all_cells,
    free_cells,
    held_cells,
    ratio,
    shared_columns,
    unseen_cells,
)
from gpucost.report.changes import change_cells, change_columns, change_note
from gpucost.report.query import NODE_DIMENSIONS

# A workload is pointed out when it idled at least this share of the time that it held GPUs.
IDLE_FLAG = 0.5

_MICRO = Decimal("0.000000001")
_DIMENSION_TITLES = {"gpu_model": "GPU", "uid": "UID"}
_NO_MEASURES = ("",) * 6


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
    columns = (
        *(Column(_DIMENSION_TITLES.get(key, _words(key)), "text", weight=4 if key == "uid" else 0) for key in by),
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
    title = f"Cost by {' and '.join(_phrase(key) for key in by)}"
    held = [_cost_line(row, by, whole, compared) for row in rows if not (row.unallocated or row.not_collected)]
    blank = ("",) * (len(by) - 1)
    summed = _measured_cells(totals, whole, shared, change_cells(compared, compared.cost if compared else None))
    if nodes is None:
        return Table(title, columns, (*held, Line(("Total", *blank, *summed), is_sum=True)), change_note(compared))
    free = [_free_line(row, row.unallocated, whole, compared) for row in rows if row.unallocated and any(row.keys.values())]
    unseen = [
        _unseen_line(row, row.not_collected, whole, compared) for row in rows if row.not_collected and any(row.keys.values())
    ]
    gpu_time = totals.allocated_gpu_hours + nodes.unallocated_gpu_hours + nodes.not_collected_gpu_hours
    since = change_cells(compared, compared.node_cost if compared else None)
    all_shared = all_cells(shared, nodes.node_cost)
    in_all = (gpu_time, nodes.node_cost, *since, *all_shared, ratio(nodes.node_cost, whole), *_NO_MEASURES)
    total = Line(("Total", *blank, *in_all), is_sum=True)
    subtotal = Line(("Allocated", *blank, *summed), is_sum=True)
    since = change_cells(compared, compared.unallocated_cost if compared else None)
    left = Line(("Unallocated", *blank, *_free_cells(nodes, whole, shared, since)), is_sum=True)
    if nodes.not_collected_gpu_hours or nodes.not_collected_cost:
        since = change_cells(compared, compared.not_collected_cost if compared else None)
        unseen.append(Line(("Not collected", *blank, *_unseen_cells(nodes, whole, shared, since)), is_sum=True))
    note = "The total is what the nodes cost, with and without anybody on their GPUs."
    if unseen:
        note += " Not collected is what was billed while nobody saw who held them."
    if shared and shared.costs:
        note += " Shared costs come on top of it."
    if compared:
        note += f" {change_note(compared)}"
    return Table(title, columns, (*held, subtotal, *free, left, *unseen, total), note)


def gpu_hours(by_gpu: list[Row], totals: Measures, unpriced: Set[tuple[str | None, str]]) -> Table:
    """GPU-hours by GPU model and capacity type, at the price that they came to; of `unpriced` ones a note tells.

    Pods without GPUs cost something where the cost basis charges cores and memory.
    """
    used = [row for row in by_gpu if row.kind == "allocated" and (row.measures.allocated_gpu_hours or row.measures.cost)]
    held = [row for row in used if row.measures.allocated_gpu_hours]
    lines = tuple(
        Line((gpu_name(row), row.measures.allocated_gpu_hours, _price(row.measures), row.measures.cost))
        if row in held
        else Line((f"{gpu_name(row)}, host only", 0.0, None, row.measures.cost))
        for row in sorted(used, key=lambda row: (row.keys["gpu_model"] or "~", row.keys["capacity_type"] or ""))
    )
    return Table(
        "GPU-hours consumed",
        (
            Column("GPU", "text"),
            Column("GPU-hours", "hours"),
            Column("Price per GPU-hour", "price", _price_decimals(lines), sign="×"),
            Column("Cost", "money", 2, sign="="),
        ),
        (*lines, Line(("Total", "", "", totals.cost), is_sum=True)),
        note=_unpriced_note([gpu_name(row) for row in held if (row.keys["gpu_model"], row.keys["capacity_type"]) in unpriced]),
        has_header=False,
        sum=(totals.allocated_gpu_hours, "hours"),
    )


def unallocated_gpus(by_gpu: list[Row], nodes: NodeTotals) -> Table:
    """GPUs that nobody held, by model and capacity type, the dearest first."""
    free = [(row, part) for row in by_gpu if (part := row.unallocated) and (part.unallocated_gpu_hours or part.unallocated_cost)]
    lines = tuple(
        Line((gpu_name(row), part.unallocated_gpu_hours, part.unavailable_gpu_hours, part.unallocated_cost))
        for row, part in sorted(free, key=lambda pair: -pair[1].unallocated_cost)
    )
    total = Line(("Total", nodes.unallocated_gpu_hours, nodes.unavailable_gpu_hours, nodes.unallocated_cost), is_sum=True)
    return Table(
        "Unallocated GPUs",
        (
            Column("GPU", "text"),
            Column("GPU-hours", "hours"),
            Column("Of these unavailable", "hours", weight=1),
            Column("Cost", "money", 2, bar="whole"),
        ),
        (*lines, total),
    )


def waste(totals: Measures, nodes: NodeTotals | None, config: Config) -> Figures:
    """Idle time and money, and the ratios that have a target (`[targets]`)."""
    held = totals.allocated_gpu_hours
    figures = [
        Figure("Idle GPU-hours", totals.idle_gpu_hours, "hours", ratio(totals.idle_gpu_hours, held), "of GPU-hours"),
        Figure("Idle cost", totals.idle_cost, "money", ratio(totals.idle_cost, totals.cost), "of cost"),
        Figure("Unmeasured", totals.unmeasured_gpu_hours, "hours", ratio(totals.unmeasured_gpu_hours, held), "of GPU-hours"),
    ]
    if nodes:
        share = ratio(nodes.unallocated_gpu_hours, nodes.capacity_gpu_hours)
        figures.append(Figure("Unallocated", nodes.unallocated_gpu_hours, "hours", share, "of capacity"))
        if nodes.over_allocated_gpu_hours:
            over = ratio(nodes.over_allocated_gpu_hours, nodes.capacity_gpu_hours)
            figures.append(Figure("Over-allocated", nodes.over_allocated_gpu_hours, "hours", over, "of capacity"))
    efficiency = _targeted("Efficiency", totals.efficiency, float(config.targets.efficiency))
    measured = totals.measured_ratio or 0.0
    if totals.efficiency is None:
        efficiency = replace(efficiency, note="nothing was measured")
    elif measured < config.idle.min_measured:
        efficiency = replace(efficiency, status="unknown", note=f"{measured:.0%} measured, {config.idle.min_measured:.0%} needed")
    spot = _targeted("Spot ratio", totals.spot_ratio, float(config.targets.spot_ratio))
    if totals.spot_ratio is None:
        spot = replace(spot, note="no capacity type is known")
    return Figures("Waste", (*figures, efficiency, spot))


def consumers(dearest: list[Row], counts: Mapping[str, int], totals: Measures) -> Table:
    """The workloads that cost most, those flagged that idled away half of their time or more."""
    where = [key for key in ("cluster", "namespace") if counts[f"{key}s"] > 1]
    shown = [row for row in dearest if row.kind == "allocated"]
    lines = tuple(
        Line(
            (
                row.keys["workload"],
                *(row.keys[key] for key in where),
                row.measures.allocated_gpu_hours,
                row.measures.cost,
                idle_share(row.measures),
                row.measures.idle_cost,
                ratio(row.measures.cost, totals.cost),
            ),
            _flag(row.measures),
        )
        for row in shown
    )
    columns = (
        Column("Workload", "text"),
        *(Column(_words(key), "text") for key in where),
        Column("GPU-hours", "hours"),
        Column("Cost", "money", 2, bar="whole"),
        Column("Idle", "ratio"),
        Column("Idle cost", "money", 2, weight=2, bar="part"),
        Column("Share", "ratio", weight=3),
    )
    left = counts["workloads"] - len(shown)
    note = (
        f"{left:,} more {'workloads' if left > 1 else 'workload'}: --by workload, or --top {counts['workloads']}"
        if left
        else None
    )
    return Table("Top consumers", columns, lines, note=note)


def gpu_name(row: Row) -> str:
    """`A100 on-demand`: model and capacity type as people say them."""
    capacity = row.keys["capacity_type"] or "unknown"
    named = "capacity type unknown" if capacity == "unknown" else capacity.replace("_", "-")
    return f"{row.keys['gpu_model'] or 'unknown GPU'} {named}"


def idle_share(measures: Measures) -> float | None:
    """Idle share of the GPU time held; None where nothing was measured."""
    return ratio(measures.idle_gpu_hours, measures.allocated_gpu_hours) if measures.measured_ratio else None


def _cost_line(row: Row, keys: tuple[str, ...], whole: Decimal, compared: Changes | None) -> Line:
    # what is shared to a team without GPUs has no pod: only the team is known, or nobody is to be charged
    labels = (row.keys[key] if row.kind == "shared" else _label(row.keys[key]) for key in keys)
    return Line((*labels, *_measured_cells(row.measures, whole, row.shared, change_cells(compared, row.change))))


def _free_line(row: Row, part: Unallocated, whole: Decimal, compared: Changes | None) -> Line:
    """GPUs of a node that nobody held: they have no pod, so what only pods have is None."""
    labels = (_label(key) if name in NODE_DIMENSIONS else key for name, key in row.keys.items())
    return Line((*labels, *_free_cells(part, whole, row.shared, change_cells(compared, row.change))))


def _free_cells(part: Unallocated | NodeTotals, whole: Decimal, shared: Shared | None, since: list[Value]) -> tuple[Value, ...]:
    left = (*since, *free_cells(shared, part.unallocated_cost))
    return (part.unallocated_gpu_hours, part.unallocated_cost, *left, ratio(part.unallocated_cost, whole), *_NO_MEASURES)


def _unseen_line(row: Row, part: NotCollected, whole: Decimal, compared: Changes | None) -> Line:
    """A node's billed time that was not collected: as with what nobody held, what only pods have is None."""
    labels = (_label(key) if name in NODE_DIMENSIONS else key for name, key in row.keys.items())
    return Line((*labels, *_unseen_cells(part, whole, row.shared, change_cells(compared, row.change))))


def _unseen_cells(
    part: NotCollected | NodeTotals, whole: Decimal, shared: Shared | None, since: list[Value]
) -> tuple[Value, ...]:
    left = (*since, *unseen_cells(shared, part.not_collected_cost))
    return (part.not_collected_gpu_hours, part.not_collected_cost, *left, ratio(part.not_collected_cost, whole), *_NO_MEASURES)


def _measured_cells(measures: Measures, whole: Decimal, shared: Shared | None, since: list[Value]) -> tuple[Value, ...]:
    return (
        measures.allocated_gpu_hours,
        measures.cost,
        *since,
        *held_cells(shared, measures.cost),
        ratio(measures.cost, whole),
        measures.idle_gpu_hours,
        idle_share(measures),
        measures.idle_cost,
        ratio(measures.unmeasured_gpu_hours, measures.allocated_gpu_hours),
        measures.efficiency,
        measures.spot_ratio,
    )


def _label(key: str | None) -> str:
    return "unknown" if key is None else key


def _flag(measures: Measures) -> str | None:
    share = idle_share(measures)
    return "idle" if share is not None and share >= IDLE_FLAG else None


def _unpriced_note(names: list[str]) -> str | None:
    if not names:
        return None
    return f"Some GPU-hours of {', '.join(sorted(names))} have no price: they count, and cost nothing."


def _price(measures: Measures) -> Decimal:
    return (measures.cost / Decimal(repr(measures.allocated_gpu_hours))).quantize(_MICRO)


def _price_decimals(lines: tuple[Line, ...]) -> int:
    """As many decimals as all prices need, two to four, so that hours x price can be followed."""
    prices = [cell for line in lines if isinstance(cell := line.cells[2], Decimal)]
    exact = (places for places in (2, 3) if all(abs(price - round(price, places)) < Decimal("0.00005") for price in prices))
    return next(exact, 4)


def _targeted(label: str, value: float | None, target: float) -> Figure:
    status: Status = "unknown" if value is None else "met" if value >= target else "missed"
    return Figure(label, value, "ratio", target=target, status=status)


def _words(key: str) -> str:
    return key.replace("_", " ").capitalize()


def _phrase(key: str) -> str:
    return "GPU model" if key == "gpu_model" else key.replace("_", " ")
