"""The Grafana dashboard: kube-state-metrics and DCGM through the recording rules, and gpucost's own metrics."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpucost.publish.rules import cluster_label

if TYPE_CHECKING:
    from gpucost.config.model import Config

_COLUMNS = 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_GOOD, _BAD = "green", "orange"


@dataclass
class Grid:
    """Where the next panel goes: from left to right, then below the tallest of the line. Counts panels, too."""

    x: int = 0
    y: int = 0
    tallest: int = 0
    panels: int = 0

    def place(self, width: int, height: int) -> dict[str, Any]:
        """`id` and `gridPos` of the next panel."""
        if self.x + width > _COLUMNS:
            self.x, self.y, self.tallest = 0, self.y + self.tallest, 0
        place = {"h": height, "w": width, "x": self.x, "y": self.y}
        self.x += width
        self.tallest = max(self.tallest, height)
        self.panels += 1
        return {"id": self.panels, "gridPos": place}


def row(grid: Grid, title: str) -> dict[str, Any]:
    """A heading over the panels that follow."""
    return grid.place(_COLUMNS, 1) | {"type": "row", "title": title, "collapsed": False, "panels": []}


def stat(
    grid: Grid, title: str, expr: str, unit: str, description: str, *, at_least: float | None = None, at_most: float | None = None
) -> dict[str, Any]:
    """One figure; colored where it should be at least or at most something."""
    steps: list[dict[str, Any]] = [{"color": "text", "value": None}]
    if at_least is not None:
        steps = [{"color": _BAD, "value": None}, {"color": _GOOD, "value": at_least}]
    elif at_most is not None:
        steps = [{"color": _GOOD, "value": None}, {"color": _BAD, "value": at_most}]
    options = {"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": "auto", "reduceOptions": _last()}
    defaults = {"unit": unit, "color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}
    return _panel(grid, 4, 4, "stat", title, description, [_target(expr, "", 0, instant=True)], defaults, options)


def series(
    grid: Grid, title: str, queries: list[tuple[str, str]], unit: str, description: str, *, stacked: bool = False
) -> dict[str, Any]:
    """Lines over time, one or more for each (expression, legend)."""
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if stacked else 0,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    options = {
        "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["mean", "lastNotNull"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    defaults = {"unit": unit, "min": 0, "color": {"mode": "palette-classic"}, "custom": custom}
    targets = [_target(expr, legend, index) for index, (expr, legend) in enumerate(queries)]
    return _panel(grid, 12, 9, "timeseries", title, description, targets, defaults, options)


def bars(grid: Grid, title: str, expr: str, legend: str, unit: str) -> dict[str, Any]:
    """Figures of this moment side by side."""
    options = {"displayMode": "basic", "orientation": "horizontal", "showUnfilled": True, "reduceOptions": _last()}
    defaults = {"unit": unit, "min": 0, "color": {"mode": "palette-classic"}}
    return _panel(grid, 12, 9, "bargauge", title, "", [_target(expr, legend, 0, instant=True)], defaults, options)


def table(grid: Grid, title: str, expr: str, value: str, description: str) -> dict[str, Any]:
    """Labels and figure of each series at this moment, the largest first."""
    organized = {"excludeByName": {"Time": True}, "renameByName": {"Value": value}, "indexByName": {}}
    panel = _panel(
        grid,
        12,
        9,
        "table",
        title,
        description,
        [_target(expr, "", 0, instant=True) | {"format": "table"}],
        {"unit": "short", "custom": {"align": "auto"}},
        {"showHeader": True, "cellHeight": "sm", "sortBy": [{"displayName": value, "desc": True}]},
    )
    return panel | {"transformations": [{"id": "organize", "options": organized}]}


def _panel(
    grid: Grid,
    width: int,
    height: int,
    kind: str,
    title: str,
    description: str,
    targets: list[dict[str, Any]],
    defaults: dict[str, Any],
    options: dict[str, Any],
) -> dict[str, Any]:
    return grid.place(width, height) | {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": _DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
    }


def _target(expr: str, legend: str, index: int, *, instant: bool = False) -> dict[str, Any]:
    return {
        "refId": chr(ord("A") + index),
        "datasource": _DATASOURCE,
        "editorMode": "code",
        "expr": expr,
        "legendFormat": legend,
        "instant": instant,
        "range": not instant,
    }


def _last() -> dict[str, Any]:
    return {"calcs": ["lastNotNull"], "fields": "", "values": False}


# That of Grafana 12 and 13 (@grafana/schema 13.2.3); older versions read what they know of it.
SCHEMA_VERSION = 42
_UID = "gpucost"

# Currencies that Grafana has a unit for; others stand before the figure.
_UNITS = {"USD", "GBP", "EUR", "JPY", "RUB", "UAH", "BRL", "DKK", "ISK", "NOK", "SEK", "CZK", "CHF", "PLN", "KRW", "INR", "ZAR"}


def dashboard(config: Config) -> str:
    """The dashboard as JSON, for import or provisioning: one per configuration, since currency and targets stand in it."""
    made: dict[str, Any] = {
        "id": None,
        "uid": _UID,
        "title": "GPU cost",
        "description": "What GPUs cost, who uses them, and how much of it idles. Needs the rules of gpucost export "
        "recording-rules and the metrics of gpucost export openmetrics.",
        "tags": ["gpu", "cost", "gpucost"],
        "timezone": "browser" if config.timezone == "UTC" else config.timezone,
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timepicker": {},
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "links": [],
        "annotations": {"list": []},
        "templating": {"list": _variables(cluster_label(config))},
        "panels": _panels(config),
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def expressions(panels: list[dict[str, Any]]) -> list[str]:
    """Every PromQL expression of `panels`, in order."""
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def _panels(config: Config) -> list[dict[str, Any]]:
    grid = Grid()
    label = cluster_label(config)
    money = f"currency{config.currency}" if config.currency in _UNITS else f"prefix:{config.currency} "
    where = f'{label}=~"$cluster"'
    whose = f'{where}, namespace=~"$namespace"'
    return [
        row(grid, "Month to date"),
        *_month(grid, config, money),
        row(grid, "Who holds GPUs now"),
        *_now(grid, config, money, where, whose),
        row(grid, "Queues"),
        *_queues(grid, config, where),
        row(grid, "Devices"),
        *_devices(grid, whose),
    ]


def _month(grid: Grid, config: Config, money: str) -> list[dict[str, Any]]:
    to_date = 'period="month_to_date"'
    share = f"max(gpucost_fleet_cost{{{to_date}}})"
    efficiency, spot = float(config.targets.efficiency), float(config.targets.spot_ratio)
    late = float(config.alerts.collect_hours * 3600)
    return [
        stat(grid, "GPU nodes", f"max(gpucost_fleet_cost{{{to_date}}})", money, "What all GPU nodes cost so far."),
        stat(grid, "Idle", f"max(gpucost_fleet_idle_cost{{{to_date}}})", money, "Held by somebody, and idle."),
        stat(grid, "Unallocated", f"max(gpucost_fleet_unallocated_cost{{{to_date}}})", money, "Held by nobody."),
        stat(grid, "Efficiency", f"max(gpucost_fleet_efficiency_ratio{{{to_date}}})", "percentunit",
             "Active share of measured GPU-hours, and its target.", at_least=efficiency),
        stat(grid, "Spot", f"max(gpucost_fleet_spot_ratio{{{to_date}}})", "percentunit",
             "Spot share of GPU-hours, and its target.", at_least=spot),
        stat(grid, "Age of the data", "time() - max(gpucost_collected_timestamp_seconds)", "s",
             "Since what gpucost collected last.", at_most=late),
        bars(grid, "Cost by team, month to date", f"sort_desc(max by (team) (gpucost_team_cost{{{to_date}}}))", "{{team}}",
             money),
        series(grid, "Cost by team, last complete day", [('max by (team) (gpucost_team_cost{period="last_day"})', "{{team}}")],
               money, "Each point is a whole local day.", stacked=True),
        bars(grid, "Price of a GPU-hour, month to date",
             f"max by (gpu_model, capacity_type) (gpucost_gpu_price_per_hour{{{to_date}}})",
             "{{gpu_model}} {{capacity_type}}", money),
        series(grid, "Idle and unallocated share of cost",
               [(f"max(gpucost_fleet_idle_cost{{{to_date}}}) / {share}", "idle"),
                (f"max(gpucost_fleet_unallocated_cost{{{to_date}}}) / {share}", "unallocated")],
               "percentunit", "Of what the nodes cost, month to date."),
    ]  # fmt: skip


def _now(grid: Grid, config: Config, money: str, where: str, whose: str) -> list[dict[str, Any]]:
    spot = f"avg(gpucost:cluster_gpus:spot_ratio{{{where}}})"
    return [
        series(grid, "GPUs by state",
               [(f"sum(gpucost:namespace_gpus:{state}{{{whose}}})", state) for state in ("active", "idle", "unmeasured")]
               + [(f"sum(gpucost:node_gpus:unallocated{{{where}}})", "unallocated")],
               "short", "GPUs as Kubernetes counts them: a slot or a slice is one.", stacked=True),
        series(grid, "GPUs held by namespace",
               [(f"sum by (namespace) (gpucost:namespace_gpus:allocated{{{whose}}})", "{{namespace}}")],
               "short", "GPUs that scheduled pods hold.", stacked=True),
        series(grid, "Cost an hour by namespace",
               [(f"sum by (namespace) (gpucost:namespace_cost:per_hour{{{whose}}})", "{{namespace}}")], money,
               "At the prices in the recording rules.", stacked=True),
        series(grid, "Idle cost an hour by namespace",
               [(f"sum by (namespace) (gpucost:namespace_idle_cost:per_hour{{{whose}}})", "{{namespace}}")], money,
               "GPUs under the idle threshold.", stacked=True),
        series(grid, "Spot share of GPUs in use", [(spot, "spot"), (f"{float(config.targets.spot_ratio)}", "target")],
               "percentunit", "Of the GPUs that pods hold on nodes of known capacity type."),
        table(grid, "Pods that idle",
              f"topk(20, sum by (namespace, pod, node) (gpucost:pod_gpus:idle{{{whose}}}) > 0)", "Idle GPUs",
              "Pods with GPUs under the idle threshold at this moment."),
    ]  # fmt: skip


def _queues(grid: Grid, config: Config, where: str) -> list[dict[str, Any]]:
    wait = f"sum by (cluster_queue, le) (increase(kueue_admission_wait_time_seconds_bucket{{{where}}}[1h]))"
    limit = config.alerts.queue_wait_minutes * 60
    return [
        series(grid, "Wait of nine in ten workloads",
               [(f"histogram_quantile(0.9, {wait})", "{{cluster_queue}}"), (f"{limit}", "limit")],
               "s", "From creation to admission by Kueue, in the last hour."),
        series(grid, "Pending workloads", [(f"sum by (cluster_queue) (kueue_pending_workloads{{{where}}})", "{{cluster_queue}}")],
               "short", "Workloads that Kueue has not admitted."),
    ]  # fmt: skip


def _devices(grid: Grid, whose: str) -> list[dict[str, Any]]:
    name = "{{node}} {{modelName}} {{UUID}}"
    return [
        series(grid, "Activity of GPUs in use",
               [(f"max by (node, modelName, UUID, GPU_I_ID) (gpucost:device_activity:percent{{{whose}}})", name)], "percent",
               "What idleness is measured by."),
        series(grid, "Memory in use",
               [("max by (Hostname, modelName, UUID) (DCGM_FI_DEV_FB_USED)", "{{Hostname}} {{modelName}} {{UUID}}")], "decmbytes",
               "Of all GPUs, held or not."),
        series(grid, "Power", [("sum by (modelName) (DCGM_FI_DEV_POWER_USAGE)", "{{modelName}}")], "watt", "Of all GPUs.",
               stacked=True),
    ]  # fmt: skip


def _variables(label: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "datasource",
            "label": "Prometheus",
            "type": "datasource",
            "query": "prometheus",
            "hide": 0,
            "includeAll": False,
            "multi": False,
            "options": [],
            "refresh": 1,
            "regex": "",
        },
        _labels("cluster", "Cluster", f"label_values(gpucost:node_gpus:capacity, {label})"),
        _labels("namespace", "Namespace", f'label_values(gpucost:namespace_gpus:allocated{{{label}=~"$cluster"}}, namespace)'),
    ]


def _labels(name: str, label: str, query: str) -> dict[str, Any]:
    """A choice of a label's values; all of them by `.*`, which series without the label match, too."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "allValue": ".*",
        "includeAll": True,
        "multi": True,
        "hide": 0,
        "options": [],
        "refresh": 2,
        "regex": "",
        "sort": 1,
    }
