"""Files for Prometheus and Grafana from the templates in reports/: rules and a dashboard."""

from __future__ import annotations

import json
import re
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from gpucost.collect.prometheus.queries import GPU_RESOURCES, activity_series
from gpucost.config.model import Config
from gpucost.engine import answer_rows
from gpucost.errors import UsageError
from gpucost.pipeline import read_attributed
from gpucost.price.fx import budget_amount
from gpucost.price.list_prices import load_offers
from gpucost.records import DuckDBPyConnection
from gpucost.render.templates import fill, number
from gpucost.store.connection import Store, scratch_store
from gpucost.texts import readable_json

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def recording_rules(config: Config, prices: RulePrices) -> str:
    """Recording rules (YAML): GPUs by namespace and state, unallocated GPUs by node, and their hourly cost.

    Raises UsageError if the configuration names a metric or label that PromQL cannot spell.
    """
    for name in (config.activity.device_metric, config.activity.mig_metric):
        if not _METRIC.fullmatch(name):
            raise UsageError(
                f"invalid metric name {name!r}",
                "use letters, digits and underscores for metrics in [activity]",
            )
    return _filled(
        "recording-rules.yml.j2", config, prices=prices, activity=_measured(config, "device", "mig")
    )


def alerting_rules(config: Config, today: date) -> str:
    """Alerting rules (YAML) with the thresholds of [alerts], otherwise [idle] and [targets], and the [[budgets]].

    They use the results of the recording rules. Amounts in other currencies are converted at the rate of the first
    day of the month of `today`; PriceError without a rate.
    """
    amounts = [(budget, budget_amount(config, budget, today.replace(day=1))) for budget in config.budgets]
    budgets = [(budget, round(amount, 2)) for budget, amount in amounts if amount is not None]
    return _filled("alerts.yml.j2", config, budgets=budgets)


def dashboard(config: Config) -> str:
    """The Grafana dashboard as JSON, for import or provisioning, with the configured currency and targets."""
    memory = _measured(config, "memory")
    power = _measured(config, "power")
    return (
        readable_json(json.loads(_filled("dashboard.json.j2", config, memory=memory, power=power)), indent=2)
        + "\n"
    )


def _measured(config: Config, *parts: str) -> str:
    """PromQL for the measurements of all exporter versions, in one unit.

    Labels are spelled as in dcgm-exporter 2 to 4.8. If several exporters measure a device, the first listed counts.
    """
    terms = []
    for metric, series in activity_series(config.activity, *parts):
        term = f"{series.text(metric.metric)} * {number(metric.scale)}"
        for target, names in (
            ("UUID", metric.device),
            ("modelName", metric.model),
            ("Hostname", ["hostname"]),
        ):
            for name in reversed(names):
                term = (
                    term if name == target else f'label_replace({term}, "{target}", "$1", "{name}", "(.+)")'
                )
        terms.append(term)
    return "\nor on (UUID, GPU_I_ID)\n".join(terms)


def _filled(template: str, config: Config, **values: Any) -> str:
    label = config.prometheus[0].cluster_label if config.prometheus else "cluster"
    if not _LABEL.fullmatch(label):
        raise UsageError(
            f"invalid label name {label!r}",
            "use letters, digits and underscores for [prometheus] cluster_label",
        )
    return fill(template, config=config, cluster_label=label, gpu_resources=GPU_RESOURCES, **values)


class RulePrice(NamedTuple):
    """The hourly price of a whole node.

    By instance type and capacity type, or by `node`, its name, if it has no type. `region` None means any region.
    """

    per_hour: Decimal
    instance_type: str | None = None
    region: str | None = None
    capacity_type: str | None = None
    node: str | None = None


class RulePrices(NamedTuple):
    """All prices of a set of rules, and their source in words."""

    prices: tuple[RulePrice, ...]
    source: str


def stored_prices(con: DuckDBPyConnection) -> RulePrices | None:
    """The last prices of the nodes in the store, in the report's currency; None without any."""
    prices = tuple(RulePrice(**row) for row in answer_rows(con, __package__, "current_prices"))
    return RulePrices(prices, "the last prices of the nodes in the store") if prices else None


def listed_prices(con: DuckDBPyConnection, config: Config) -> RulePrices:
    """Today's list prices by capacity type, the median over regions."""
    load_offers(con, config)
    prices = tuple(RulePrice(**row) for row in answer_rows(con, __package__, "listed_prices"))
    return RulePrices(
        prices, "list prices of the catalog, the median over regions: no metrics are collected yet"
    )


def rule_prices(config: Config, store: Store) -> RulePrices:
    """Hourly node prices for rules without access to the store: its last prices, otherwise list prices."""
    if store.exists and (prices := read_attributed(config, store, stored_prices)) is not None:
        return prices
    with store.read() if store.exists else scratch_store() as con:
        return listed_prices(con, config)
