"""The Grafana dashboard: kube-state-metrics and DCGM through the recording rules, and gpucost's own metrics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpucost.publish.rules import cluster_label
from gpucost.render.templates import fill
from gpucost.texts import readable_json

if TYPE_CHECKING:
    from gpucost.config.model import Config

# Currencies that Grafana has a unit for; others stand before the figure.
_UNITS = {"USD", "GBP", "EUR", "JPY", "RUB", "UAH", "BRL", "DKK", "ISK", "NOK", "SEK", "CZK", "CHF", "PLN", "KRW", "INR", "ZAR"}


def dashboard(config: Config) -> str:
    """The dashboard as JSON, for import or provisioning: one per configuration, since currency and targets stand in it."""
    text = fill(
        "dashboard.json.j2",
        cluster_label=cluster_label(config),
        timezone="browser" if config.timezone == "UTC" else config.timezone,
        money=f"currency{config.currency}" if config.currency in _UNITS else f"prefix:{config.currency} ",
        efficiency=float(config.targets.efficiency),
        spot_ratio=float(config.targets.spot_ratio),
        late_seconds=float(config.alerts.collect_hours * 3600),
        longest_wait_seconds=config.alerts.queue_wait_minutes * 60,
    )
    return readable_json(json.loads(text), indent=2) + "\n"
