"""Reads the attributed tables by moments: cost and GPU-hours in layers, idleness by weekday and hour, workloads over time."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from gpucost.config import Config
from gpucost.engine.local import answer_rows, run_stage
from gpucost.model import MS_PER_HOUR
from gpucost.report.query import Query
from gpucost.report.rows import filters, hours, ratio
from gpucost.report.series.method import method
from gpucost.report.series.moments import local_hours, moments_of, step_of
from gpucost.report.series.view import Heat, Layer, LayerKind, Series, Stack
from gpucost.report.view import Row
from gpucost.timeline import is_whole_days

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PACKAGE = "gpucost.report.series"
# so many names stand alone in a chart: eyes tell about eight colors apart
_MOST_NAMES = 7
_HOLDERS = ("team", "namespace", "workload", "cluster")
_ZERO = Decimal(0)
_MICRO = Decimal("0.000001")
_TITLES = {"gpu_model": "Cost by GPU model", "capacity_type": "Cost by capacity type"}
_UNKNOWN = {"gpu_model": "unknown GPU", "capacity_type": "capacity type unknown"}
_BANDS: tuple[tuple[LayerKind, str], ...] = (
    ("active", "Active"),
    ("idle", "Idle"),
    ("unmeasured", "Unmeasured"),
    ("unallocated", "Unallocated"),
)


def read_series(con: DuckDBPyConnection, config: Config, query: Query) -> Series:
    """The query's period by moments, after report.rows.prepare; makes temporary tables, which `trends` reads."""
    step = step_of(query.period)
    moments = moments_of(query.period, config.tz, step)
    parts = local_hours(query.period, config.tz, moments)
    run_stage(
        con,
        _PACKAGE,
        "10_hours",
        {
            "from_ms": [part.from_ms for part in parts],
            "to_ms": [part.to_ms for part in parts],
            "moment": [part.moment for part in parts],
            "weekday": [part.weekday for part in parts],
            "hour": [part.hour for part in parts],
        },
    )
    by_day = step != "hour" and is_whole_days(query.period, config.tz)
    run_stage(con, _PACKAGE, "20_facts", filters(query) | {"by_day": by_day})
    count = len(moments)
    return Series(
        step=step,
        moments=tuple(moments),
        timezone=config.tz.key,
        stacks=tuple(
            _stack(con, by, count, apart=apart)
            for by, apart in ((_holder(query), True), ("capacity_type", False), ("gpu_model", False))
        ),
        hours=_bands(con, count),
        heat=_heat(con, query),
        method=method(config, query),
    )


def trends(con: DuckDBPyConnection, rows: Sequence[Row], series: Series) -> list[tuple[Decimal, ...]]:
    """Cost by moment of each row's workload; rows by cluster, namespace and workload."""
    found = [[_ZERO] * len(series.moments) for _ in rows]
    names = {key: [row.keys[key] for row in rows] for key in ("cluster", "namespace", "workload")}
    for answer in answer_rows(con, _PACKAGE, "60_trends", names):
        found[answer["place"]][answer["moment"]] = Decimal(answer["cost"])
    return [tuple(values) for values in found]


def _holder(query: Query) -> str:
    """The first dimension asked for that says who held GPUs, else the one that the report would take by itself."""
    usual = "workload" if query.namespaces else "namespace" if query.teams else "team"
    return next((name for name in query.dimensions if name in _HOLDERS), usual)


def _stack(con: DuckDBPyConnection, by: str, count: int, *, apart: bool) -> Stack:
    answer = answer_rows(con, _PACKAGE, "30_stack", {"by": by, "apart": apart, "most": _MOST_NAMES})
    found: dict[tuple[int, int], tuple[LayerKind, str, list[Decimal]]] = {}
    for row in answer:
        kind: LayerKind = row["kind"]
        place = (("named", "others", "unallocated", "not_collected").index(kind), row["rank"] or 0)
        name = {"others": f"{row['names']:,} others", "unallocated": "Unallocated", "not_collected": "Not collected"}.get(
            kind
        ) or _name(by, row["name"])
        found.setdefault(place, (kind, name, [_ZERO] * count))[2][row["moment"]] += Decimal(row["cost"])
    layers = [_layer(kind, name, values) for _, (kind, name, values) in sorted(found.items(), key=lambda item: item[0])]
    return _summed(_TITLES.get(by, f"Cost by {by}"), "money", layers, count)


def _name(by: str, name: str | None) -> str:
    if name is None or (by == "capacity_type" and name == "unknown"):
        return _UNKNOWN.get(by, "unknown")
    return name.replace("_", "-") if by == "capacity_type" else name


def _bands(con: DuckDBPyConnection, count: int) -> Stack:
    values: dict[str, list[Decimal]] = {kind: [_ZERO] * count for kind, _ in _BANDS}
    for row in answer_rows(con, _PACKAGE, "40_bands"):
        for kind, _ in _BANDS:
            values[kind][row["moment"]] = Decimal(repr(row[kind] / MS_PER_HOUR)).quantize(_MICRO)
    layers = [_layer(kind, name, values[kind]) for kind, name in _BANDS if any(values[kind])]
    return _summed("GPU-hours: active, idle, unallocated", "hours", layers, count)


def _layer(kind: LayerKind, name: str, values: list[Decimal]) -> Layer:
    return Layer(name, kind, tuple(values), sum(values, _ZERO))


def _summed(title: str, unit: Literal["money", "hours"], layers: list[Layer], count: int) -> Stack:
    totals = tuple(sum((layer.values[at] for layer in layers), _ZERO) for at in range(count))
    return Stack(title, unit, tuple(layers), totals, sum(totals, _ZERO))


def _heat(con: DuckDBPyConnection, query: Query) -> tuple[Heat, ...]:
    answer = answer_rows(con, _PACKAGE, "50_heat", filters(query))
    idle = _map("Idle by weekday and hour", "idle", "measured GPU-hours", answer, "idle", "measured")
    if query.is_narrowed:
        return (idle,)
    return (idle, _map("Unallocated by weekday and hour", "unallocated", "GPU-hours", answer, "unallocated", "offered"))


def _map(title: str, part: str, whole: str, answer: list[dict[str, Any]], top: str, bottom: str) -> Heat:
    sums = {(row["weekday"], row["hour"]): (hours(row[top]), hours(row[bottom])) for row in answer}
    grid = [[sums.get((weekday, hour), (0.0, 0.0)) for hour in range(24)] for weekday in range(7)]
    return Heat(
        title=title,
        part=part,
        whole=whole,
        shares=tuple(tuple(ratio(*pair) for pair in row) for row in grid),
        part_gpu_hours=tuple(tuple(pair[0] for pair in row) for row in grid),
        gpu_hours=tuple(tuple(pair[1] for pair in row) for row in grid),
    )
