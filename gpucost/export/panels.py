"""Panels of a Grafana dashboard, as its JSON model has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
