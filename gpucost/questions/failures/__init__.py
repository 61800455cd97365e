"""Failures: incidents of devices, nodes and pods, with the cost of unavailable GPUs and lost work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from gpucost.catalog import facts
from gpucost.config.model import Config
from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.options import Names, count as how_many
from gpucost.periods import Period, from_ms
from gpucost.pipeline import read_attributed
from gpucost.questions.report.query import Query
from gpucost.questions.report.reading import report_of
from gpucost.questions.report.rows import ZERO, in_hours
from gpucost.questions.request import ClusterRequest
from gpucost.questions.units.query import PACKAGE, PLACE, UnitQuery, prepare
from gpucost.questions.units.work import Interval, runs_with_parts
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped, grouped_by
from gpucost.render.schema import columns_of, table
from gpucost.render.view import (
    CoverageAnswer,
    Document,
    Notice,
    Section,
    Table,
    Texts,
    ValueColumn,
    count,
    dimension_title,
    hours,
    money,
    number,
    ratio,
    text,
)
from gpucost.shapes import Shape
from gpucost.store import sqlfiles

_SCRAPE_MS = 120_000
_CAUSES = {
    "uncorrectable_ecc": "Uncorrectable ECC error",
    "row_remap": "Row remapped",
    "row_remap_failure": "Row remapping failed",
    "not_ready": "Node not ready",
    "cordoned": "Node cordoned",
    "not_offered": "GPUs not offered",
    "slurm": "Slurm node down",
    "drained": "Slurm node drained",
    "off": "Declared off",
    "thermal_throttle": "Thermal throttling",
    "power_throttle": "Power throttling",
    "restarted": "Pod restarted, cause unknown",
    "evicted": "Pod evicted, cause unknown",
}
# Unavailable by the operator's choice.
_PLANNED = ("cordoned", "drained", "off")
# The facts from each group of metrics; one metric of a group is enough.
_METRICS = {
    "XID errors": ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "DCGM_EXP_XID_ERRORS_TOTAL"),
    "uncorrectable ECC errors": ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",),
    "row remapping": ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"),
    "throttling": ("DCGM_FI_DEV_THERMAL_VIOLATION", "DCGM_FI_DEV_POWER_VIOLATION"),
    "restarts of pods": ("kube_pod_container_status_restarts_total",),
    "evictions of pods": ("kube_pod_status_reason",),
}
_EXPORTED = """
SELECT cluster, list(DISTINCT metric) FROM series WHERE passes($clusters, cluster) GROUP BY cluster ORDER BY cluster"""
_EXPORT = (
    "dcgm-exporter: add its metrics to the counters file (-f); kube-state-metrics: keep its metrics in --metric-allowlist; "
    "throttling: [activity] profile = true"
)


@frozen_dataclass
class Incident(Shape):
    """A failure, from its first sign to the end of the time without available GPUs.

    `xid` is the code of an XID error. `is_evidence`: observed, and consistent with a hardware fault of the
    provider's machine. `is_continued`: it began before the period; its cost is that in the period. `lost_cost` is the
    cost of stopped pods since their last finished epoch, checkpoint or request; None if no work was stopped, or its
    progress is not collected, as for `stops_of_unknown_progress` of the pods. `restart_seconds` is the longest time
    until a stopped workload ran again; None if it did not.
    """

    period: Period
    duration_hours: float
    cluster: str
    node: str
    provider: str | None
    gpu_model: str | None
    cause: str
    description: str
    xid: int | None
    devices: Names
    workloads: Names
    restarts: int | None
    is_evidence: bool
    is_continued: bool
    unavailable_gpu_hours: float
    unavailable_cost: Decimal
    lost_cost: Decimal | None
    stops_of_unknown_progress: int
    restart_seconds: float | None
    cost: Decimal


@frozen_dataclass
class Part(Shape):
    """Incidents of a cause, node, GPU model or provider.

    GPU-hours are in NVIDIA's words for clouds: delivered (of nodes that are up), healthy (delivered and not
    unavailable except by own cordons, drains and declared off time), reserved (held by pods) and in use (active); of a
    cause they are None. `mean_hours_between` are delivered GPU-hours per incident with evidence, `mean_hours_to_repair` the mean
    time without GPUs of incidents that had such time; None without one.
    """

    by: str
    name: str | None
    incidents: int
    evidence: int
    unavailable_gpu_hours: float
    cost: Decimal
    mean_hours_between: float | None
    mean_hours_to_repair: float | None
    delivered_gpu_hours: float | None
    healthy_gpu_hours: float | None
    reserved_gpu_hours: float | None
    in_use_gpu_hours: float | None


@frozen_dataclass
class Failures(Shape):
    """The output of `gpucost failures`: incidents by time, and their totals.

    `repeat_offenders` are devices, or nodes, with several incidents with evidence.
    """

    period: Period
    currency: str
    incidents: tuple[Incident, ...]
    totals: tuple[Part, ...]
    repeat_offenders: dict[str, int]
    coverage: CoverageAnswer


def failures(
    request: ClusterRequest, top: Annotated[int, how_many("Number of incidents to list.")] = 20
) -> Document:
    """Show failures of GPUs, nodes and pods: when, why, and their cost.

    Sources: XID, ECC and row remapping metrics of dcgm-exporter, states of nodes, restarts and evictions of pods,
    and Slurm's node events. Errors of applications (XID 13, 31, 43, 45, 68), own cordons, spot reclaims and time without
    samples do not count as evidence. docs/failures.md has the formulas.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost failures
      gpucost failures --month 2026-10 --claim claims
      gpucost failures --last 7d --format json
    """
    config, query = request.settings, request.query(top=0, with_sections=False)

    def read(con: DuckDBPyConnection) -> Document:
        view = report_of(con, config, query)
        found, totals = incidents_of(con, config, query)
        coverage = replace(view.coverage, warnings=(*view.coverage.warnings, *_missing(con, query.clusters)))
        return Document(
            title=f"Failures: {query.period_name}",
            currency=view.currency,
            sections=_sections(found, totals, top, config.tz),
            coverage=coverage,
            name="failures",
            data=Failures(view.period, view.currency, found, totals, _offenders(found), coverage),
            flat=table(found, columns_of(Incident)),
            notes=request.gap_notes(request.clusters) if request.is_flat else (),
        )

    return read_attributed(config, request.store, read, query.period)


def _missing(con: DuckDBPyConnection, clusters: Names) -> tuple[Notice, ...]:
    found = []
    for cluster, exported in con.execute(_EXPORTED, {"clusters": list(clusters)}).fetchall():
        lost = [
            f"{what} ({names[0]})"
            for what, names in _METRICS.items()
            if not set(names).intersection(exported)
        ]
        if lost:
            words = f"cluster {cluster}: unknown, not zero, as not exported: {', '.join(lost)}"
            found.append(Notice("not_exported", words, _EXPORT))
    return tuple(found)


def incidents_of(
    con: DuckDBPyConnection, config: Config, query: Query
) -> tuple[tuple[Incident, ...], tuple[Part, ...]]:
    """The incidents of the query's period, and their totals."""
    sqlfiles.run(con, "filters")
    run = partial(run_stage, con, __name__)
    span, clusters = query.period.bounds, {"clusters": list(query.clusters)}
    known = {int(row["xid"]): row for row in facts("xids.csv")}
    origins = grouped((row["origin"], xid) for xid, row in known.items())
    run("10_signs", clusters | {origin: origins[origin] for origin in ("hardware", "application")})
    run("20_incidents", span)
    units = UnitQuery(config, query.period, query.period_name)
    prepare(con, units)
    run("30_stops")
    run("40_unavailable", span)
    run("45_claims", _lost_epochs(con, units))
    run_stage(con, PACKAGE, "85_pieces")
    found = []
    for row in map(in_hours, answer_rows(con, __name__, "60_rows")):
        row |= {
            "period": Period(from_ms(row["from_ms"]), from_ms(row["to_ms"])),
            "duration_hours": hours(row["to_ms"] - row["from_ms"]),
            "description": _described(row, known.get(row["xid"])),
        }
        found.append(Incident(**{field.name: row[field.name] for field in fields(Incident)}))
    nodes = [in_hours(row) for row in answer_rows(con, __name__, "50_fleet", span | clusters)]
    return tuple(found), tuple(_parts(found, nodes))


def _described(row: dict[str, Any], xid: dict[str, str] | None) -> str:
    if row["xid"]:
        return f"XID {row['xid']}: {xid['name'] if xid else 'meaning unknown'}"
    text = _CAUSES[row["cause"]]
    return f"{text}: {row['detail']}" if row["detail"] else text


def _lost_epochs(con: DuckDBPyConnection, units: UnitQuery) -> dict[str, list[int]]:
    """The stops in epochs, and the moments since which their epochs were lost."""
    rows = dicts(con.execute("FROM incident_stops"))
    if not rows:
        return {"stops": [], "starts": []}
    runs = grouped_by(runs_with_parts(con, units), *PLACE)
    starts: dict[int, int] = {}
    for row in rows:
        for each in runs[tuple(row[name] for name in PLACE)]:
            if start := lost_since(each["parts"], row["stop_ms"]):
                starts[row["stop_id"]] = max(start, starts.get(row["stop_id"], 0))
    return {"stops": list(starts), "starts": list(starts.values())}


def lost_since(parts: Sequence[Interval], stop_ms: int) -> int | None:
    """The moment since which work was lost that stopped at `stop_ms`; None outside epochs.

    Epochs that were repeated later are lost, otherwise only the current one.
    """
    before = [part for part in parts if part.from_ms <= stop_ms]
    # the restart may be seen a scrape after the repeated epoch
    if (
        len(before) > 1
        and before[-2].attempt < before[-1].attempt
        and stop_ms - before[-1].from_ms <= _SCRAPE_MS
    ):
        before.pop()
    if not before or before[-1].epoch is None:
        return None
    first = before.pop()
    while before and before[-1].status == "lost" and before[-1].attempt == first.attempt:
        first = before.pop()
    return first.from_ms


def _node_of(incident: Incident) -> str:
    return f"{incident.cluster}/{incident.node}"


_STATES = ("delivered_gpu_hours", "reserved_gpu_hours", "in_use_gpu_hours")
# The groupings of totals, and an incident's group in each.
_GROUPS: dict[str, Callable[[Incident], str | None]] = {
    "cause": attrgetter("description"),
    "node": _node_of,
    "gpu_model": attrgetter("gpu_model"),
    "provider": attrgetter("provider"),
}


def _parts(incidents: Sequence[Incident], nodes: Sequence[dict[str, Any]]) -> Iterable[Part]:
    """The totals of each grouping, most expensive first. Nodes without incidents are left out."""
    for by, group in _GROUPS.items():
        named = grouped((group(each), each) for each in incidents)
        nodes_of = grouped((node.get(by), node) for node in nodes)
        names = named if by in ("cause", "node") else nodes_of
        found = [_part(by, name, named[name], nodes_of[name]) for name in names]
        yield from sorted(found, key=lambda part: -part.cost)


def _part(by: str, name: str | None, incidents: Sequence[Incident], nodes: Sequence[dict[str, Any]]) -> Part:
    begun = [each for each in incidents if not each.is_continued]
    evidence = sum(each.is_evidence for each in begun)
    repairs = [each.duration_hours for each in begun if each.unavailable_gpu_hours]
    delivered, reserved, in_use = (sum(map(itemgetter(state), nodes)) if nodes else None for state in _STATES)
    failed = sum(each.unavailable_gpu_hours for each in incidents if each.cause not in _PLANNED)
    return Part(
        by,
        name,
        len(begun),
        evidence,
        sum(each.unavailable_gpu_hours for each in incidents),
        sum((each.cost for each in incidents), ZERO),
        None if delivered is None else ratio(delivered, evidence),
        ratio(sum(repairs), len(repairs)),
        delivered,
        None if delivered is None else delivered - failed,
        reserved,
        in_use,
    )


def _offenders(incidents: Sequence[Incident]) -> dict[str, int]:
    evidence = (
        each.devices or [_node_of(each)] for each in incidents if each.is_evidence and not each.is_continued
    )
    found = Counter(chain.from_iterable(evidence))
    return {name: times for name, times in found.most_common() if times > 1}


_NOTE = (
    "Unavailable: the cost of GPUs that no pod could hold. Lost: the cost of stopped pods since their last finished epoch, "
    "checkpoint or request; empty if unknown. Evidence: observed, and consistent with a hardware fault."
)
_OF_STATES = (
    "NVIDIA's words for clouds. Delivered: GPUs of nodes that are up. Healthy: without unavailable GPUs, except by own "
    "cordons, drains and declared off time. Reserved: held by pods. In use: active. Between: delivered GPU-hours per "
    "incident with evidence."
)


def _sections(
    incidents: Sequence[Incident], totals: Sequence[Part], top: int, tz: ZoneInfo
) -> tuple[Section, ...]:
    most = sorted(incidents, key=lambda each: -each.cost)[:top]
    columns = (
        text(lambda row: f"{row.period.start.astimezone(tz):%Y-%m-%d %H:%M}", "From"),
        number("duration_hours", "Hours"),
        text("node"),
        text("description", "Cause"),
        text(lambda row: ", ".join(row.devices), "Devices", weight=3),
        text(lambda row: ", ".join(row.workloads), "Workloads", weight=2),
        text(lambda row: "yes" if row.is_evidence else "no", "Evidence", weight=1),
        number("unavailable_gpu_hours", "Unavailable GPU-h", weight=2),
        money("unavailable_cost", "Unavailable"),
        money("lost_cost", "Lost"),
        number(lambda row: row.restart_seconds and row.restart_seconds / 60, "Restart min", weight=2),
        money("cost"),
    )
    tables = [Table.of(f"Incidents ({len(incidents)})", most, columns, note=_NOTE, flag=_flag)]
    for by in _GROUPS:
        rows, title = [row for row in totals if row.by == by], dimension_title(by)
        name = text(lambda row: row.name or "unknown", title)
        more = _GPU_HOURS if by != "cause" else ()
        tables.append(Table.of(f"{title}s", rows, (name, *_COUNTS, *more)))
    offenders = [f"{name}: {times} incidents with evidence" for name, times in _offenders(incidents).items()]
    repeated = [Texts("Repeat offenders", tuple(offenders))] if offenders else []
    none = [] if incidents else [Texts("Incidents", ("no signs of failures in the collected time",))]
    return (*none, *repeated, *(each for each in tables if each.lines), Texts("Availability", (_OF_STATES,)))


def _flag(incident: Incident) -> str | None:
    is_partial = incident.lost_cost is not None and incident.stops_of_unknown_progress
    return "lost: at least" if is_partial else "began earlier" if incident.is_continued else None


_COUNTS: tuple[ValueColumn, ...] = (
    count("incidents"),
    count("evidence"),
    number("unavailable_gpu_hours", "Unavailable GPU-h"),
    money("cost"),
    number("mean_hours_to_repair", "Repair h", weight=1),
)
_GPU_HOURS: tuple[ValueColumn, ...] = (
    number("mean_hours_between", "Between GPU-h", weight=1),
    number("delivered_gpu_hours", "Delivered"),
    number("healthy_gpu_hours", "Healthy"),
    number("reserved_gpu_hours", "Reserved", weight=2),
    number("in_use_gpu_hours", "In use", weight=2),
)
