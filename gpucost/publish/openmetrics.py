"""Reports as metrics, in text that is valid Prometheus exposition format and OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from gpucost import __version__
from gpucost.errors import GpucostError, UsageError
from gpucost.http import send
from gpucost.periods import Period, to_ms

if TYPE_CHECKING:
    from datetime import datetime

    from gpucost.render.view import ReportView

# The units of OpenMetrics: a name ends with its unit. Money has none, since its currency is a label.
_UNITS = ("seconds", "ratio", "gpu_hours")
_MONEY = ("_cost", "_price_per_hour")
_GPU = ("gpu_model", "capacity_type")

Labels = dict[str, str]
Figures = Mapping[str, "Decimal | float | None"]
Groups = Iterator[tuple[Labels, Figures]]

_HELP = {
    "gpucost_build_info": "Version of gpucost that wrote this file.",
    "gpucost_team_cost": "Cost of a team's GPUs in the period.",
    "gpucost_team_idle_cost": "Idle part of a team's cost.",
    "gpucost_team_shared_cost": "A team's share of shared costs, in addition to its own cost.",
    "gpucost_team_api_cost": "Cost of a team's bought tokens in the period.",
    "gpucost_team_gpu_hours": "GPU-hours allocated to a team in the period, by state: active, idle, unmeasured.",
    "gpucost_team_efficiency_ratio": "Active share of a team's measured GPU-hours.",
    "gpucost_team_spot_ratio": "Spot share of a team's GPU-hours of known capacity type.",
    "gpucost_fleet_cost": "Cost of all GPU nodes in the period, allocated or not.",
    "gpucost_fleet_idle_cost": "Cost of allocated but idle GPU time.",
    "gpucost_fleet_unallocated_cost": "Cost of unallocated GPUs, over all models and capacity types.",
    "gpucost_fleet_not_collected_cost": "Billed cost of GPU nodes for time without metrics of their holders.",
    "gpucost_fleet_capacity_gpu_hours": "GPU-hours of capacity of all GPU nodes.",
    "gpucost_fleet_estimated_cost": "The part of the nodes' cost at estimated prices.",
    "gpucost_fleet_efficiency_ratio": "Active share of all measured GPU-hours.",
    "gpucost_fleet_spot_ratio": "Spot share of all GPU-hours of known capacity type.",
    "gpucost_unallocated_cost": "Cost of unallocated GPUs.",
    "gpucost_unallocated_gpu_hours": "Unallocated GPU-hours.",
    "gpucost_gpu_price_per_hour": "Mean cost per GPU-hour, allocated or not.",
    "gpucost_measured_ratio": "Measured share of the allocated GPU-hours.",
    "gpucost_not_collected_seconds": "Time of the period that was not collected, for the cluster with the most of it.",
    "gpucost_bridged_seconds": "Time without metrics that counts as collected, for the cluster with the most of it.",
    "gpucost_period_start_timestamp_seconds": "Start of the period.",
    "gpucost_period_end_timestamp_seconds": "End of the collected part of the period.",
    "gpucost_period_elapsed_ratio": "Share of the whole period that the collected part covers.",
    "gpucost_collected_timestamp_seconds": "Time up to which metrics were collected.",
}  # fmt: skip


class PeriodViews(NamedTuple):
    """The two reports behind the metrics of one period, and the whole period; `by_team` may end earlier."""

    name: str
    whole: Period
    by_team: ReportView
    by_gpu: ReportView
    end: datetime


def openmetrics(periods: list[PeriodViews]) -> str:
    """The metrics of all `periods` as text. Figures equal the reports. Ends with `# EOF`."""
    groups: list[tuple[Labels, Figures]] = [({"version": __version__}, {"gpucost_build_info": 1.0})]
    for views in periods:
        groups += [*_of_period(views), *_of_teams(views), *_of_gpus(views)]
    if periods:
        groups.append(
            ({}, {"gpucost_collected_timestamp_seconds": to_ms(max(views.end for views in periods)) / 1000})
        )
    lines = []
    for name, meaning in _HELP.items():
        money = {"currency": periods[0].by_team.currency} if periods and name.endswith(_MONEY) else {}
        samples = [
            (labels | money, value) for labels, figures in groups if (value := figures.get(name)) is not None
        ]
        if samples:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            lines += [f"# UNIT {name} {unit}" for unit in _UNITS if name.endswith(f"_{unit}")]
            lines += [_line(name, *sample) for sample in samples]
    return "\n".join([*lines, "# EOF", ""])


def _of_period(views: PeriodViews) -> Groups:
    view = views.by_team
    whole = views.whole
    nodes = views.by_team.node_totals
    figures: dict[str, Decimal | float | None] = {
        "gpucost_period_start_timestamp_seconds": whole.start_ms / 1000,
        "gpucost_period_end_timestamp_seconds": to_ms(views.end) / 1000,
        "gpucost_period_elapsed_ratio": round((views.end - whole.start) / (whole.end - whole.start), 9),
        "gpucost_not_collected_seconds": round(view.coverage.not_collected_hours * 3600, 3),
        "gpucost_bridged_seconds": round(view.coverage.bridged_hours * 3600, 3),
        "gpucost_fleet_idle_cost": view.totals.idle_cost,
        "gpucost_fleet_estimated_cost": view.coverage.estimated_cost,
        "gpucost_fleet_efficiency_ratio": view.totals.efficiency,
        "gpucost_fleet_spot_ratio": view.totals.spot_ratio,
        "gpucost_measured_ratio": view.coverage.measured_ratio,
    }
    if nodes:
        figures |= {
            "gpucost_fleet_cost": nodes.node_cost,
            "gpucost_fleet_unallocated_cost": nodes.unallocated_cost,
            "gpucost_fleet_not_collected_cost": nodes.not_collected_cost,
            "gpucost_fleet_capacity_gpu_hours": nodes.capacity_gpu_hours,
        }
    yield {"period": views.name}, figures


def _of_teams(views: PeriodViews) -> Groups:
    for row in views.by_team.rows:
        labels = {"team": row.keys["team"] or "", "period": views.name}
        measures = row.measures
        if row.kind == "allocated":
            yield (
                labels,
                {
                    "gpucost_team_cost": measures.cost,
                    "gpucost_team_idle_cost": measures.idle_cost,
                    "gpucost_team_efficiency_ratio": measures.efficiency,
                    "gpucost_team_spot_ratio": measures.spot_ratio,
                },
            )
            for state in ("active", "idle", "unmeasured"):
                yield (
                    labels | {"state": state},
                    {"gpucost_team_gpu_hours": getattr(measures, f"{state}_gpu_hours")},
                )
        if row.api:
            yield labels, {"gpucost_team_api_cost": row.api.api_cost}
        if row.kind != "unallocated" and row.keys["team"] and row.shared and row.shared.costs:
            yield labels, {"gpucost_team_shared_cost": row.shared.shared_cost}


def _of_gpus(views: PeriodViews) -> Groups:
    """Unallocated GPUs, and the mean price of all GPUs, by model and capacity type."""
    sums: dict[tuple[str, ...], tuple[Decimal, float]] = {}
    for row in views.by_gpu.rows:
        labels = {name: row.keys[name] or "unknown" for name in _GPU} | {"period": views.name}
        gpu = tuple(labels.values())
        cost, hours = sums.get(gpu, (Decimal(0), 0.0))
        cost += row.measures.cost
        hours += row.measures.allocated_gpu_hours
        if free := row.unallocated:
            cost += free.unallocated_cost
            hours += free.unallocated_gpu_hours
            yield (
                labels,
                {
                    "gpucost_unallocated_cost": free.unallocated_cost,
                    "gpucost_unallocated_gpu_hours": free.unallocated_gpu_hours,
                },
            )
        sums[gpu] = cost, hours
    for gpu, (cost, hours) in sorted(sums.items()):
        if hours:
            price = round(cost / Decimal(repr(hours)), 9)
            yield dict(zip((*_GPU, "period"), gpu, strict=True)), {"gpucost_gpu_price_per_hour": price}


def _line(name: str, labels: Labels, value: Decimal | float) -> str:
    pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _number(value: Decimal | float) -> str:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def group_url(url: str, job: str) -> str:
    """The URL of the group of `job` at the Pushgateway `url`. Raises UsageError for invalid values."""
    if not url.startswith(("http://", "https://")) or "@" in url or "?" in url or "#" in url:
        raise UsageError(
            "--pushgateway takes a base URL without password, ? or #", "for example http://pushgateway:9091"
        )
    if not job or "/" in job:
        raise UsageError(f"invalid --job {job!r}", "leave out --job, or use a word such as gpucost")
    return f"{url.rstrip('/')}/metrics/job/{quote(job, safe='')}"


def push(metrics: str, group: str) -> None:
    """PUT `metrics` at the URL of their group. Raises GpucostError if the Pushgateway refuses them."""
    headers = {"Content-Type": _TYPE}
    answer = send("PUT", group, metrics.encode(), headers, "the Pushgateway", repeatable=True)
    if answer.status not in (200, 202):
        raise GpucostError(
            f"the Pushgateway at {answer.host} answered {answer.status}: {answer.text or 'empty response'}",
            "run gpucost export openmetrics without --pushgateway to see the metrics",
        )
