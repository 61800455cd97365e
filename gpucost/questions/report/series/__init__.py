"""Time series of a report's period, for charts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from gpucost.config.model import Config
from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.periods import MS_PER_HOUR, Period, TimeBucket, from_ms, time_buckets
from gpucost.questions.report.query import Query
from gpucost.questions.report.rows import ZERO, Part, in_parts
from gpucost.questions.report.sections import value_name
from gpucost.records import grouped
from gpucost.render.formatting import is_plain
from gpucost.render.view import Layer, LayerKind, Moment, Row, Series, Stack, Step
from gpucost.store.sqlfiles import value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BASES = {
    "node": "A node's whole price is spread evenly over its GPUs.",
    "sku": "A node's price is split by the list prices of its parts; CPU and memory are charged by request.",
}


def method(config: Config, query: Query) -> tuple[tuple[str, str], ...]:
    """How the figures are computed, as (term, explanation)."""
    threshold = f"{config.idle.threshold_percent:g} %"
    basis = _BASES.get(
        config.prices.cost_basis,
        f"A node's price is split into GPU, CPU and memory ({config.prices.cost_basis}); CPU and memory are charged by request.",
    )
    steps = [
        ("Time", f"Days and hours are local to {config.tz.key}; the end of a period is exclusive."),
        (
            "Allocated",
            "GPU-hours that pods held, by binding and end in Kubernetes, not by samples: even two minutes count.",
        ),
        (
            "Active and idle",
            f"Allocated GPUs are idle while their measured activity is below {threshold} "
            f"({config.activity.device_metric}; for MIG instances {config.activity.mig_metric}), active at "
            "or above it, and unmeasured without a valid sample.",
        ),
        (
            "Price",
            "For each moment the best available source: bill, price book, spot price history, list prices. "
            "Cost without a bill is an estimate.",
        ),
        (
            "Cost",
            f"{basis} Allocated, unallocated and not collected cost add up to the node's cost, exactly, in every hour.",
        ),
        (
            "Efficiency",
            "Active ÷ (active + idle). Unmeasured time is in neither; Coverage states how much there was.",
        ),
        ("Spot ratio", "GPU-hours on spot nodes ÷ allocated GPU-hours of known capacity type."),
    ]
    unallocated = "GPUs of running nodes that no pod held. Time that was not collected is not included."
    if query.is_narrowed:
        unallocated = "Unallocated GPUs belong to no team or namespace, and are not in this report."
    return (*steps, ("Unallocated", unallocated))


_MOST_DAYS_BY: tuple[tuple[Step, int], ...] = (("hour", 3), ("day", 100), ("week", 750))
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def step_of(period: Period) -> Step:
    """The finest step that still fits a chart."""
    days = (period.end - period.start) / timedelta(days=1)
    return next((step for step, most in _MOST_DAYS_BY if days <= most), "month")


def moments_of(period: Period, tz: ZoneInfo, step: Step) -> list[Moment]:
    """The period's steps in order, without gap or overlap; the first and last may be cut short."""
    if step != "week":
        return [_moment(part, part.to_ms, step, tz) for part in time_buckets(period, tz, (step,))]
    weeks = grouped(
        (from_ms(day.from_ms).astimezone(tz).isocalendar()[:2], day)
        for day in time_buckets(period, tz, ("day",))
    )
    return [_moment(days[0], days[-1].to_ms, step, tz) for days in weeks.values()]


def _moment(part: TimeBucket, to_ms: int, step: Step, tz: ZoneInfo) -> Moment:
    local = from_ms(part.from_ms).astimezone(tz)
    last = from_ms(to_ms - 1).astimezone(tz)
    month = _MONTHS[local.month - 1]
    name = f"{local:%Y-%m-%d}"
    short = f"{month} {local.day}"
    if step == "month":
        name = part.month
        short = f"{month} {local.year}"
    elif step == "hour":
        # with the UTC offset if clocks show the hour twice
        name, short = (
            f"{local:%Y-%m-%d %H:%M}" if is_plain(local) else f"{local:%Y-%m-%d %H:%M %z}",
            f"{short} {local:%H:%M}",
        )
    elif step == "week" and last.date() > local.date():
        name = f"{name} to {last:%Y-%m-%d}"
    return Moment(name, short, part.from_ms, to_ms)


# number of named layers in a chart: more colors are hard to distinguish
_MOST_NAMES = 7
_HOLDERS = ("team", "namespace", "workload", "cluster")
_MICRO = Decimal("0.000001")
_TITLES = {"gpu_model": "Cost by GPU model", "capacity_type": "Cost by capacity type"}
_BANDS: tuple[tuple[LayerKind, str], ...] = (
    ("active", "Active"),
    ("idle", "Idle"),
    ("unmeasured", "Unmeasured"),
    ("unallocated", "Unallocated"),
)


_MOMENTS = """
CREATE OR REPLACE TEMP TABLE series_moments AS
SELECT unnest($from_ms::BIGINT[]) AS from_ms, unnest($to_ms::BIGINT[]) AS to_ms,
    unnest(range(len($from_ms::BIGINT[]))) AS moment"""


def read_series(
    con: DuckDBPyConnection, config: Config, query: Query, parts: Collection[Part]
) -> dict[Part, Series]:
    """The query's period by moments.

    Run report.rows.prepare first. Makes temporary tables, which `trends` reads.
    """
    step = step_of(query.period)
    moments = moments_of(query.period, config.tz, step)
    bounds = {name: [getattr(moment, name) for moment in moments] for name in ("from_ms", "to_ms")}
    con.execute(_MOMENTS, bounds)
    by_day = step != "hour" and value(con, "SELECT getvariable('report_by_day')")
    run_stage(con, __name__, "20_series_rows", {"by_day": by_day})
    count = len(moments)
    # the first requested dimension that identifies the holder
    holder = next((name for name in query.dimensions if name in _HOLDERS), query.usual)
    stacks = [
        (
            by,
            in_parts(answer_rows(con, __name__, "30_stack", {"by": by, "apart": apart, "most": _MOST_NAMES})),
        )
        for by, apart in ((holder, True), ("capacity_type", False), ("gpu_model", False))
    ]
    bands = in_parts(dicts(con.execute(_BANDS_BY_MOMENT)))
    return {
        part: Series(
            step=step,
            moments=tuple(moments),
            stacks=tuple(_stack(answer.get(part, []), by, count) for by, answer in stacks),
            hours=_bands(bands.get(part, []), count),
            method=method(config, query),
        )
        for part in parts
    }


_TRENDS = """
SELECT w.place, f.moment, sum(f.cost) AS cost
FROM series_rows AS f
JOIN (
    SELECT unnest(range(len($workload::VARCHAR[]))) AS place, unnest($part::VARCHAR[]) AS part,
        unnest($cluster::VARCHAR[]) AS cluster, unnest($namespace::VARCHAR[]) AS namespace,
        unnest($workload::VARCHAR[]) AS workload
) AS w USING (cluster, namespace, workload)
WHERE f.kind = 'allocated' AND coalesce(f.team = w.part, w.part IS NULL)
GROUP BY ALL ORDER BY ALL"""


def trends(
    con: DuckDBPyConnection, parts: Mapping[Part, Sequence[Row]], series: Mapping[Part, Series]
) -> dict[Part, list[tuple[Decimal, ...]]]:
    """Cost by moment of each row's workload. Rows are by cluster, namespace and workload."""
    rows = [row for several in parts.values() for row in several]
    of_rows = [part for part, several in parts.items() for _ in several]
    costs = [[ZERO] * len(series[part].moments) for part in of_rows]
    names = {key: [row.keys[key] for row in rows] for key in ("cluster", "namespace", "workload")}
    for place, moment, cost in con.execute(_TRENDS, names | {"part": of_rows}).fetchall():
        costs[place][moment] = cost
    return grouped(zip(of_rows, map(tuple, costs), strict=True))


def _stack(answer: Iterable[dict[str, Any]], by: str, count: int) -> Stack:
    layers = []
    for (kind, name, names), rows in groupby(answer, key=itemgetter("kind", "name", "names")):
        values = [ZERO] * count
        for row in rows:
            values[row["moment"]] = row["cost"]
        titles = {
            "others": f"{names:,} others",
            "unallocated": "Unallocated",
            "not_collected": "Not collected",
        }
        layers.append(_layer(kind, titles.get(kind) or value_name(by, name), values))
    return _summed(_TITLES.get(by, f"Cost by {by}"), "money", layers, count)


_BANDS_BY_MOMENT = """
SELECT part_of(team) AS part, moment,
    sum(active_gpu_ms::DECIMAL(38, 6))::DOUBLE AS active, sum(idle_gpu_ms::DECIMAL(38, 6))::DOUBLE AS idle,
    sum(unmeasured_gpu_ms::DECIMAL(38, 6))::DOUBLE AS unmeasured, sum(unallocated_gpu_ms::DECIMAL(38, 6))::DOUBLE AS unallocated
FROM series_rows
GROUP BY ALL
ORDER BY ALL"""


def _bands(answer: list[dict[str, Any]], count: int) -> Stack:
    layers = []
    for kind, name in _BANDS:
        values = [ZERO] * count
        for row in answer:
            values[row["moment"]] = Decimal(repr(row[kind] / MS_PER_HOUR)).quantize(_MICRO)
        if any(values):
            layers.append(_layer(kind, name, values))
    return _summed("GPU-hours: active, idle, unallocated", "hours", layers, count)


def _layer(kind: LayerKind, name: str, values: list[Decimal]) -> Layer:
    return Layer(name, kind, tuple(values), sum(values, ZERO))


def _summed(title: str, unit: Literal["money", "hours"], layers: list[Layer], count: int) -> Stack:
    totals = tuple(sum((layer.values[at] for layer in layers), ZERO) for at in range(count))
    return Stack(title, unit, tuple(layers), totals, sum(totals, ZERO))
