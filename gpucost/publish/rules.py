"""Files for Prometheus and Grafana, from the templates in reports/: recording and alerting rules, a dashboard."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucost.collect.prometheus.queries import GPU_RESOURCES, activity_series
from gpucost.engine import answer_rows
from gpucost.errors import UsageError
from gpucost.pipeline import read_attributed
from gpucost.price import load_offers
from gpucost.price.fx import budget_amount
from gpucost.render.templates import fill, number
from gpucost.store.connection import Store, scratch_store
from gpucost.texts import readable_json

if TYPE_CHECKING:
    from datetime import date

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config


_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def recording_rules(config: Config, prices: RulePrices) -> str:
    """Recording rules (YAML): GPUs by namespace and state, unallocated GPUs by node, and their cost an hour.

    Raises UsageError where the configuration names a metric or label that PromQL cannot spell.
    """
    for name in (config.activity.device_metric, config.activity.mig_metric):
        if not _METRIC.fullmatch(name):
            raise UsageError(
                f"{name!r} is no metric name", "[activity] names metrics by letters, digits and underscores"
            )
    return _filled(
        "recording-rules.yml.j2", config, prices=prices, activity=_measured(config, "device", "mig")
    )


def alerting_rules(config: Config, today: date) -> str:
    """Alerting rules (YAML) with the thresholds of [alerts], else of [idle] and [targets], and the amounts of [[budgets]].

    They read what the recording rules record. Amounts in other currencies are converted at the rate of the first day of
    the month that holds `today`; PriceError where there is none.
    """
    amounts = [(budget, budget_amount(config, budget, today.replace(day=1))) for budget in config.budgets]
    budgets = [(budget, round(amount, 2)) for budget, amount in amounts if amount is not None]
    return _filled("alerts.yml.j2", config, budgets=budgets)


def dashboard(config: Config) -> str:
    """The Grafana dashboard as JSON, for import or provisioning: one per configuration, with its currency and targets."""
    memory = _measured(config, "memory")
    power = _measured(config, "power")
    return (
        readable_json(json.loads(_filled("dashboard.json.j2", config, memory=memory, power=power)), indent=2)
        + "\n"
    )


def _measured(config: Config, *parts: str) -> str:
    """PromQL for what exporters of any version measure, in one unit, their labels spelled as dcgm-exporter 2 to 4.8 does.

    If several exporters measure a device, the first listed counts.
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
            f"{label!r} is no label name", "[prometheus] cluster_label takes letters, digits and underscores"
        )
    return fill(template, config=config, cluster_label=label, gpu_resources=GPU_RESOURCES, **values)


class RulePrice(NamedTuple):
    """The price of a whole node an hour: by instance type and capacity type, or by `node`, its name, where it has no type.

    `region` None: wherever it is.
    """

    per_hour: Decimal
    instance_type: str | None = None
    region: str | None = None
    capacity_type: str | None = None
    node: str | None = None


class RulePrices(NamedTuple):
    """All prices of a set of rules, and in words where they are from."""

    prices: tuple[RulePrice, ...]
    source: str


def stored_prices(con: DuckDBPyConnection) -> RulePrices | None:
    """The prices that the nodes in the store had last, in the report's currency; None where no node has one."""
    prices = tuple(RulePrice(**row) for row in answer_rows(con, __package__, "current_prices"))
    return RulePrices(prices, "what the nodes in the store cost last") if prices else None


def listed_prices(con: DuckDBPyConnection, config: Config) -> RulePrices:
    """Today's list prices by capacity type, in the middle over regions."""
    load_offers(con, config)
    prices = tuple(RulePrice(**row) for row in answer_rows(con, __package__, "listed_prices"))
    return RulePrices(prices, "list prices of the catalog, the median over regions: nothing is collected yet")


def rule_prices(config: Config, store: Store) -> RulePrices:
    """What nodes cost an hour, for rules that cannot ask the store: what it says last, else list prices."""
    if store.exists and (prices := read_attributed(config, store, stored_prices)) is not None:
        return prices
    with store.read() if store.exists else scratch_store() as con:
        return listed_prices(con, config)
