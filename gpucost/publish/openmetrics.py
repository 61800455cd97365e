"""Reports as metrics: text that Prometheus' own format and OpenMetrics both allow, so that every reader takes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import quote

from gpucost import __version__
from gpucost.errors import GpucostError, UsageError
from gpucost.http import Request, send
from gpucost.periods import Period, to_ms

if TYPE_CHECKING:
    from datetime import datetime

    from gpucost.render.view import ReportView, Row

# What OpenMetrics calls units: a name ends with its unit. Money has none, since its currency is a label.
_UNITS = ("seconds", "ratio", "gpu_hours")

Labels = dict[str, str]
Sample = tuple[str, Labels, "Decimal | float"]

_HELP = {
    "gpucost_build_info": "Version of gpucost that wrote this.",
    "gpucost_team_cost": "What a team's GPUs cost in the period.",
    "gpucost_team_idle_cost": "The part of a team's cost that its GPUs idled away.",
    "gpucost_team_shared_cost": "What a team takes of shared costs, besides its own.",
    "gpucost_team_gpu_hours": "GPU-hours that a team held in the period, by state: active, idle, unmeasured.",
    "gpucost_team_efficiency_ratio": "Active share of a team's measured GPU-hours.",
    "gpucost_team_spot_ratio": "Spot share of a team's GPU-hours of known capacity type.",
    "gpucost_fleet_cost": "What all GPU nodes cost in the period, with and without anybody on their GPUs.",
    "gpucost_fleet_idle_cost": "What GPUs cost while somebody held them and they idled.",
    "gpucost_fleet_unallocated_cost": "What GPUs cost that nobody held, of all models and capacity types.",
    "gpucost_fleet_not_collected_cost": "What was billed of GPU nodes while nobody saw who held them.",
    "gpucost_fleet_capacity_gpu_hours": "GPU-hours that all GPU nodes offered.",
    "gpucost_fleet_estimated_cost": "The part of the nodes' cost that no bill covers yet.",
    "gpucost_fleet_efficiency_ratio": "Active share of all measured GPU-hours.",
    "gpucost_fleet_spot_ratio": "Spot share of all GPU-hours of known capacity type.",
    "gpucost_unallocated_cost": "What GPUs cost that nobody held.",
    "gpucost_unallocated_gpu_hours": "GPU-hours that nobody held.",
    "gpucost_gpu_price_per_hour": "What a GPU-hour cost on average, held or not.",
    "gpucost_measured_ratio": "Measured share of the GPU-hours held.",
    "gpucost_not_collected_seconds": "Time of the period that the cluster that misses most was not collected for.",
    "gpucost_bridged_seconds": "Time that nobody saw and that counts as collected, of the cluster that has most of it.",
    "gpucost_period_start_timestamp_seconds": "When the period begins.",
    "gpucost_period_end_timestamp_seconds": "When the collected part of the period ends.",
    "gpucost_period_elapsed_ratio": "Share of the whole period that the collected part covers.",
    "gpucost_collected_timestamp_seconds": "Up to when metrics were collected.",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PeriodViews:
    """The two reports that the metrics of one period come from, and the period as a whole: `by_team` may end before it does."""

    name: str
    whole: Period
    by_team: ReportView
    by_gpu: ReportView
    end: datetime = field(kw_only=True)


def openmetrics(periods: list[PeriodViews]) -> str:
    """The metrics of all `periods` as text; figures are those of the reports. Ends with `# EOF`, a comment to others."""
    samples: dict[str, list[Sample]] = {name: [] for name in _HELP}
    for sample in _samples(periods):
        samples[sample[0]].append(sample)
    lines = []
    for name, found in samples.items():
        if found:
            unit = next((f"# UNIT {name} {unit}" for unit in _UNITS if name.endswith(f"_{unit}")), None)
            about = [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge", *([unit] if unit else [])]
            lines += about + [_line(*sample) for sample in found]
    return "\n".join([*lines, "# EOF", ""])


def _samples(periods: list[PeriodViews]) -> Iterator[Sample]:
    yield "gpucost_build_info", {"version": __version__}, 1.0
    for views in periods:
        yield from _of_period(views)
        for row in views.by_team.rows:
            if row.kind == "allocated":
                yield from _of_team(row, views)
            if row.kind != "unallocated" and row.keys["team"] and row.shared and row.shared.costs:
                of = {"team": row.keys["team"], "period": views.name, "currency": views.by_team.currency}
                yield "gpucost_team_shared_cost", of, row.shared.shared_cost
        for row in views.by_gpu.rows:
            yield from _of_gpus(row, views)
        yield from _prices(views)
    ends = [views.end for views in periods]
    if ends:
        yield "gpucost_collected_timestamp_seconds", {}, to_ms(max(ends)) / 1000


def _of_period(views: PeriodViews) -> Iterator[Sample]:
    view, period = views.by_team, {"period": views.name}
    money = period | {"currency": view.currency}
    elapsed = (views.end - views.whole.start) / (views.whole.end - views.whole.start)
    yield "gpucost_period_start_timestamp_seconds", period, views.whole.start_ms / 1000
    yield "gpucost_period_end_timestamp_seconds", period, to_ms(views.end) / 1000
    yield "gpucost_period_elapsed_ratio", period, round(elapsed, 9)
    yield "gpucost_not_collected_seconds", period, round(view.coverage.not_collected_hours * 3600, 3)
    yield "gpucost_bridged_seconds", period, round(view.coverage.bridged_hours * 3600, 3)
    if view.node_totals is not None:
        yield "gpucost_fleet_cost", money, view.node_totals.node_cost
        yield "gpucost_fleet_unallocated_cost", money, view.node_totals.unallocated_cost
        yield "gpucost_fleet_not_collected_cost", money, view.node_totals.not_collected_cost
        yield "gpucost_fleet_capacity_gpu_hours", period, view.node_totals.capacity_gpu_hours
    yield "gpucost_fleet_idle_cost", money, view.totals.idle_cost
    yield "gpucost_fleet_estimated_cost", money, view.coverage.estimated_cost
    for name, value in (
        ("gpucost_fleet_efficiency_ratio", view.totals.efficiency),
        ("gpucost_fleet_spot_ratio", view.totals.spot_ratio),
        ("gpucost_measured_ratio", view.coverage.measured_ratio),
    ):
        if value is not None:
            yield name, period, value


def _of_team(row: Row, views: PeriodViews) -> Iterator[Sample]:
    labels = {"team": row.keys["team"] or "", "period": views.name}
    money = labels | {"currency": views.by_team.currency}
    yield "gpucost_team_cost", money, row.measures.cost
    yield "gpucost_team_idle_cost", money, row.measures.idle_cost
    for state, hours in (
        ("active", row.measures.active_gpu_hours),
        ("idle", row.measures.idle_gpu_hours),
        ("unmeasured", row.measures.unmeasured_gpu_hours),
    ):
        yield "gpucost_team_gpu_hours", labels | {"state": state}, hours
    if row.measures.efficiency is not None:
        yield "gpucost_team_efficiency_ratio", labels, row.measures.efficiency
    if row.measures.spot_ratio is not None:
        yield "gpucost_team_spot_ratio", labels, row.measures.spot_ratio


def _of_gpus(row: Row, views: PeriodViews) -> Iterator[Sample]:
    if row.unallocated is None:
        return
    labels = _gpu(row) | {"period": views.name}
    yield "gpucost_unallocated_cost", labels | {"currency": views.by_gpu.currency}, row.unallocated.unallocated_cost
    yield "gpucost_unallocated_gpu_hours", labels, row.unallocated.unallocated_gpu_hours


def _prices(views: PeriodViews) -> Iterator[Sample]:
    """Cost of held and of free GPUs over their hours, by model and capacity type."""
    sums: dict[tuple[str, str], tuple[Decimal, float]] = {}
    for row in views.by_gpu.rows:
        gpu = _gpu(row)
        cost, hours = sums.get((gpu["gpu_model"], gpu["capacity_type"]), (Decimal(0), 0.0))
        cost += row.measures.cost
        hours += row.measures.allocated_gpu_hours
        if row.unallocated is not None:
            cost += row.unallocated.unallocated_cost
            hours += row.unallocated.unallocated_gpu_hours
        sums[gpu["gpu_model"], gpu["capacity_type"]] = cost, hours
    for (model, capacity_type), (cost, hours) in sorted(sums.items()):
        if hours:
            labels = {"gpu_model": model, "capacity_type": capacity_type, "period": views.name, "currency": views.by_gpu.currency}
            yield "gpucost_gpu_price_per_hour", labels, round(cost / Decimal(repr(hours)), 9)


def _gpu(row: Row) -> Labels:
    return {"gpu_model": row.keys["gpu_model"] or "unknown", "capacity_type": row.keys["capacity_type"] or "unknown"}


def _line(name: str, labels: Labels, value: Decimal | float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _number(value: Decimal | float) -> str:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def group_url(url: str, job: str) -> str:
    """Where the group of `job` is at the Pushgateway whose base URL is `url`. Raises UsageError for what cannot be."""
    if not url.startswith(("http://", "https://")) or "@" in url or "?" in url or "#" in url:
        raise UsageError("--pushgateway takes a base URL without password, ? or #", "for example http://pushgateway:9091")
    if not job or "/" in job:
        raise UsageError(f"--job {job!r} is no name of a job", "leave --job out, or give a word such as gpucost")
    return f"{url.rstrip('/')}/metrics/job/{quote(job, safe='')}"


def push(metrics: str, group: str) -> None:
    """PUT `metrics` at the URL of their group. Raises GpucostError where the Pushgateway does not take them."""
    answer = send(Request("PUT", group, metrics.encode(), {"Content-Type": _TYPE}, what="the Pushgateway", repeatable=True))
    if answer.status not in (200, 202):
        raise GpucostError(
            f"the Pushgateway at {answer.host} answered {answer.status}: {answer.text or 'nothing'}",
            "gpucost export openmetrics, without --pushgateway, shows what was sent",
        )
