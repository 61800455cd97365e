"""The Grafana dashboard: kube-state-metrics and DCGM through the recording rules, and gpucost's own metrics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpucost.publish.rules import cluster_label, render
from gpucost.texts import readable_json

if TYPE_CHECKING:
    from gpucost.config.model import Config

_COLUMNS = 24
# Currencies that Grafana has a unit for; others stand before the figure.
_UNITS = {"USD", "GBP", "EUR", "JPY", "RUB", "UAH", "BRL", "DKK", "ISK", "NOK", "SEK", "CZK", "CHF", "PLN", "KRW", "INR", "ZAR"}


def dashboard(config: Config) -> str:
    """The dashboard as JSON, for import or provisioning: one per configuration, since currency and targets stand in it."""
    text = render(
        "dashboard.json.j2",
        cluster_label=cluster_label(config),
        timezone="browser" if config.timezone == "UTC" else config.timezone,
        money=f"currency{config.currency}" if config.currency in _UNITS else f"prefix:{config.currency} ",
        efficiency=float(config.targets.efficiency),
        spot_ratio=float(config.targets.spot_ratio),
        late_seconds=float(config.alerts.collect_hours * 3600),
        longest_wait_seconds=config.alerts.queue_wait_minutes * 60,
    )
    model = json.loads(text)
    _place(model["panels"])
    return readable_json(model, indent=2) + "\n"


def _place(panels: list[dict[str, Any]]) -> None:
    """Number the panels, and put them from left to right, then below the tallest of the line."""
    x = y = tallest = 0
    for number, panel in enumerate(panels, 1):
        size = panel["gridPos"]
        if x + size["w"] > _COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        panel["id"], panel["gridPos"] = number, size | {"x": x, "y": y}
        x, tallest = x + size["w"], max(tallest, size["h"])
