"""Effective cost: the part of held GPUs' cost that was active, and the part that kept SMs busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from decimal import Decimal
from heapq import nlargest
from math import nan
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Literal

from gpucost.catalog import ACTIVITY, facts, load_catalog
from gpucost.config.model import Config
from gpucost.engine import answer_rows, run_stage
from gpucost.errors import DataError
from gpucost.options import Names, count
from gpucost.periods import Period
from gpucost.pipeline import read_attributed
from gpucost.questions.report.processes import processes
from gpucost.questions.report.query import Query, filters
from gpucost.questions.report.reading import report_of
from gpucost.questions.report.rows import cut_by, in_hours
from gpucost.questions.request import LabeledRequest
from gpucost.questions.units.query import PACKAGE, UnitQuery, prepare
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.render.formatting import figure_text, percent
from gpucost.render.schema import table
from gpucost.render.view import (
    CoverageAnswer,
    Document,
    LayerKind,
    Notice,
    Table,
    Texts,
    ValueColumn,
    dimension,
    money,
    ratio,
    share,
    text,
)
from gpucost.shapes import Shape
from gpucost.store.sqlfiles import column

By = Literal["total", "team", "workload", "gpu_model"]
# The dimensions of each grouping.
_KEYS: dict[str, Names] = {
    "total": (),
    "team": ("team",),
    "workload": ("cluster", "namespace", "workload"),
    "gpu_model": ("gpu_model",),
}
# Pipes of a GPU: an active one is busy, whichever it is.
_PIPES = {"tensor": "Tensor", "fp16": "FP16", "fp32": "FP32", "fp64": "FP64", "memory_bandwidth": "DRAM"}
_MOST = 3
# Precisions with the dense peak in pricing/gpus.csv.
_PEAKS = ("fp16", "bf16")
_UNITS = "SELECT DISTINCT unit FROM progress_series WHERE list_contains($1::VARCHAR[], mapping)"
# The waterfall: a part of the cost, its title, the weight of its column, and its color.
PARTS: tuple[tuple[str, str, int, LayerKind], ...] = (
    ("held", "Held", 0, "active"),
    ("idle", "Idle", 2, "idle"),
    ("unmeasured", "Unmeasured", 3, "unmeasured"),
    ("active", "Active", 0, "active"),
    ("sm_unmeasured", "No SM samples", 2, "unmeasured"),
    ("sm_idle", "SMs idle", 1, "idle"),
    ("sm", "SMs busy", 0, "active"),
)


@frozen_dataclass
class Measured:
    """Means over the measured time: ratios (0-1) while active, MiB, watts and energy also while idle.

    None without samples. `highest_pipe` is the busiest of the tensor, FP16, FP32 and FP64 pipes and DRAM. `mfu`, of
    workloads: FLOPs of counted work / peak FLOPS x time held.
    """

    sm: float | None
    occupancy: float | None
    engine: float | None
    tensor: float | None
    fp16: float | None
    fp32: float | None
    fp64: float | None
    memory_bandwidth: float | None
    highest_pipe: str | None
    memory_used: float | None
    power: float | None
    energy_kwh: float | None
    mfu: float | None


@frozen_dataclass
class Waterfall(Shape):
    """The cost of held GPUs in a part of the fleet, by use.

    held_cost = idle_cost + unmeasured_cost + active_cost, and active_cost = sm_unmeasured_cost + sm_idle_cost +
    sm_cost, exactly; the last two are None without a sample. `sm_gpu_hours` are the active GPU-hours with samples of
    SM activity. `keys` of other groupings are None.
    """

    by: By
    keys: dict[str, str | None]
    held_gpu_hours: float
    active_gpu_hours: float
    sm_gpu_hours: float
    held_cost: Decimal
    idle_cost: Decimal
    unmeasured_cost: Decimal
    active_cost: Decimal
    sm_unmeasured_cost: Decimal
    sm_idle_cost: Decimal | None
    sm_cost: Decimal | None
    measured: Measured

    FLAT = ("keys", "measured")


@frozen_dataclass
class Loss(Shape):
    """A workload's loss at a step: from held to active, or from active to busy SMs."""

    step: Literal["active", "sm"]
    keys: dict[str, str | None]
    cost: Decimal
    share: float | None


@frozen_dataclass
class EfficiencyAnswer(Shape):
    """The output of `gpucost efficiency`: the total, then teams, workloads and GPU models, most expensive first.

    `losses` are the workloads that lose most at each step. `missing` are the metrics without samples.
    """

    period: Period
    currency: str
    rows: tuple[Waterfall, ...]
    losses: tuple[Loss, ...]
    missing: Names
    coverage: CoverageAnswer


def efficiency(
    request: LabeledRequest, top: Annotated[int, count("Number of workloads to list.")] = 10
) -> Document:
    """Show effective cost: of the cost of held GPUs, the active part and the part that kept SMs busy.

    Needs [activity] profile = true and dcgm-exporter's profiling metrics; time without them is its own figure.
    docs/efficiency.md has the formulas, and queries to check them by.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost efficiency
      gpucost report --efficiency --team research --month 2026-10
      gpucost efficiency --last 7d --format json
    """
    config, query = request.settings, request.query(top=0, with_sections=False)

    def read(con: DuckDBPyConnection) -> Document:
        view = report_of(con, config, query)
        rows, notices = effective_cost(con, config, query)
        coverage = replace(view.coverage, warnings=(*view.coverage.warnings, *notices))
        losses = losses_of(rows)
        return Document(
            title=f"Effective cost: {view.title.split(': ', 1)[1]}",
            subtitle=view.subtitle,
            currency=view.currency,
            sections=(*tables(rows, top), *remedies(losses, view.currency)),
            coverage=coverage,
            name="efficiency",
            data=EfficiencyAnswer(view.period, view.currency, rows, losses, missing_metrics(rows), coverage),
            flat=table(rows),
            notes=request.gap_notes(request.clusters) if request.is_flat else (),
        )

    return read_attributed(config, request.store, read, query.period)


def effective_cost(
    con: DuckDBPyConnection, config: Config, query: Query
) -> tuple[tuple[Waterfall, ...], tuple[Notice, ...]]:
    """The rows with MFU, and the notice of metrics without samples."""
    rows = with_mfu(con, config, query, waterfalls(con, config, query))
    return rows, notice_of(config, missing_metrics(rows))


def waterfalls(con: DuckDBPyConnection, config: Config, query: Query) -> tuple[Waterfall, ...]:
    """The total, and each team, workload and GPU model, of the query's period and filters."""
    cut_by(con, query, config.tz, ())
    run_stage(con, __name__, "20_efficiency_cells", {"by_gpus": config.prices.cost_basis == "node"})
    rows = answer_rows(con, __name__, "40_efficiency_rows")
    return tuple(_waterfall(in_hours(row)) for row in rows)


def _waterfall(row: dict[str, Any]) -> Waterfall:
    means: dict[str, Any] = row.pop("means") or {}
    busy = {pipe: means[pipe] for pipe in _PIPES if means.get(pipe)}
    means |= {
        "energy_kwh": row.pop("energy_kwh"),
        "highest_pipe": max(busy, key=busy.__getitem__, default=None),
    }
    measured = Measured(**{field.name: means.get(field.name) for field in fields(Measured)})
    return Waterfall(**row, measured=measured)


def with_mfu(
    con: DuckDBPyConnection, config: Config, query: Query, rows: Sequence[Waterfall]
) -> tuple[Waterfall, ...]:
    """The rows with the MFU of workloads whose work and FLOPs per unit are known. Raises DataError above 100 %."""
    flops = {
        unit.name: unit.flops_per_unit if unit.precision in _PEAKS else nan
        for unit in config.units
        if unit.flops_per_unit
    }
    units = column(con, _UNITS, [list(flops)])
    # work is counted by workload, not by user or label
    if not units or query.users or query.labels:
        return tuple(rows)
    load_catalog(con)
    prepare(con, UnitQuery(config, query.period, query.period_name, **filters(query)), "hour")
    processes(con, query.period, query.clusters)
    span = query.period.bounds
    work = {"units": units, "from_ms": span["from_ms"]}
    run_stage(con, PACKAGE, "40_increases", {"units": units, **span})
    weights = {"mappings": list(flops), "weights": list(flops.values()), "unit_weights": [0.0] * len(units)}
    run_stage(con, PACKAGE, "50_work", work | weights)
    rated = {tuple(place): mfu for *place, mfu in run_stage(con, __name__, "60_mfu").fetchall()}
    place = itemgetter(*_KEYS["workload"])
    found = []
    for row in rows:
        mfu = rated.get(place(row.keys))
        if mfu and mfu > 1:
            raise DataError(
                f"the MFU of {row.keys['workload']} is {percent(mfu)}: its GPUs cannot do so many operations",
                "correct flops_per_unit, or limit its [[units]] entry to one model by match",
            )
        measured = replace(row.measured, mfu=mfu)
        found.append(replace(row, measured=measured))
    return tuple(found)


def losses_of(rows: Sequence[Waterfall]) -> tuple[Loss, ...]:
    """The workloads that lose most at each step."""
    workloads = [row for row in rows if row.by == "workload"]
    idle = [
        Loss("active", row.keys, row.idle_cost, ratio(row.idle_cost, row.held_cost))
        for row in workloads
        if row.idle_cost
    ]
    sms = [
        Loss(
            "sm",
            row.keys,
            row.sm_idle_cost,
            ratio(row.sm_idle_cost, row.active_cost - row.sm_unmeasured_cost),
        )
        for row in workloads
        if row.sm_idle_cost
    ]
    cost = attrgetter("cost")
    return (*nlargest(_MOST, idle, cost), *nlargest(_MOST, sms, cost))


def missing_metrics(rows: Sequence[Waterfall]) -> Names:
    """The metrics of dcgm-exporter without a sample, by the names that all its versions accept."""
    total = rows[0].measured if rows else None
    names = {
        row["measures"]: row["metric"]
        for row in reversed(facts(ACTIVITY))
        if row["exporter"] == "dcgm-exporter" and hasattr(Measured, row["measures"])
    }
    return tuple(name for measure, name in sorted(names.items()) if getattr(total, measure, None) is None)


def notice_of(config: Config, missing: Names) -> tuple[Notice, ...]:
    """The notice of metrics that are not collected or not exported, if any."""
    words = f"no samples of {', '.join(missing)}"
    fix = "dcgm-exporter: add them to its counters file (-f); dcp-metrics-included.csv has them as comments"
    if not config.activity.profile:
        words = "profiling metrics are not collected"
        fix = "set [activity] profile = true, then gpucost collect"
    elif not missing:
        return ()
    return (Notice("not_profiled", f"{words}: these figures are empty or unmeasured, not zero", fix),)


_TITLES: dict[By, str] = {
    "total": "From held GPUs to busy SMs",
    "team": "By team",
    "workload": "By workload",
    "gpu_model": "By GPU model",
}
_NOTE = (
    "Held = idle + unmeasured + active; active = no SM samples + SMs idle + SMs busy. Ratios are means while active. "
    "An active pipe is work, whichever it is: DRAM as the highest pipe means memory-bound work, not a loss."
)
_STEPS = {
    "active": (
        "Most lost to idle GPUs",
        "Usual remedies: feed training faster (gpucost waste names stalls), fewer replicas off-peak, notebooks that "
        "end. Price it: gpucost whatif schedule",
    ),
    "sm": (
        "Most lost to idle SMs of active GPUs",
        "Usual remedies: larger batches, CUDA graphs or compiled kernels, several processes per GPU. Price it: "
        "gpucost whatif share, gpucost whatif rightsize",
    ),
}


def tables(rows: Sequence[Waterfall], top: int) -> list[Table]:
    """A table for each grouping, the total first."""
    found = []
    for by, title in _TITLES.items():
        shown = [row for row in rows if row.by == by]
        if by == "workload":
            shown = shown[:top]
        note = _NOTE if by == "total" else None
        found.append(Table.of(title, shown, _columns(by), note=note))
    return found


def remedies(losses: Sequence[Loss], currency: str) -> list[Texts]:
    """The workloads that lose most at each step, with remedies."""
    found = []
    for step, (title, advice) in _STEPS.items():
        if texts := [loss_text(loss, currency) for loss in losses if loss.step == step]:
            found.append(Texts(title, tuple(texts), advice))
    return found


def loss_text(loss: Loss, currency: str) -> str:
    """A workload's loss as a sentence."""
    whole = "its held cost" if loss.step == "active" else "its active cost with SM samples"
    name = f"{loss.keys['namespace']}/{loss.keys['workload']} in {loss.keys['cluster']}"
    cost = figure_text(loss.cost, "money", currency, 2)
    return f"{name}: {cost}, {percent(loss.share)} of {whole}"


def _columns(by: By) -> list[ValueColumn]:
    costs = [money(f"{part}_cost", title, weight=weight) for part, title, weight, _ in PARTS]
    titles = {"sm": "SM", **_PIPES, "occupancy": "Occupancy", "mfu": "MFU"}
    ratios = [share(f"measured.{measure}", title, decimals=0, weight=4) for measure, title in titles.items()]
    pipe = text(lambda row: _PIPES.get(row.measured.highest_pipe), "Highest pipe", weight=3)
    return [*map(dimension, _KEYS[by]), *costs, *ratios, pipe]
