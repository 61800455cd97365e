"""Recording and alerting rules for Prometheus, out of the templates in reports/."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from gpucost.collect.prometheus.queries import GPU_RESOURCES
from gpucost.engine import answer_rows
from gpucost.errors import UsageError
from gpucost.price import load_offers
from gpucost.price.fx import budget_amount
from gpucost.render.templates import fill, number

if TYPE_CHECKING:
    from datetime import date

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config


GPU_RESOURCE = f'resource=~"{GPU_RESOURCES}"'

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def recording_rules(config: Config, prices: RulePrices) -> str:
    """Recording rules (YAML): GPUs by namespace and state, unallocated GPUs by node, and their cost an hour.

    Raises UsageError where the configuration names a metric or label that PromQL cannot spell.
    """
    activity = config.activity
    return fill(
        "recording-rules.yml.j2",
        cluster_label=cluster_label(config),
        gpu_resource=GPU_RESOURCE,
        device_metric=_metric(activity.device_metric),
        device_scale=number(activity.device_scale),
        mig_metric=_metric(activity.mig_metric),
        mig_scale=number(activity.mig_scale),
        same_metric=activity.device_metric == activity.mig_metric,
        idle_threshold=number(config.idle.threshold_percent),
        prices=prices.prices,
        prices_from=prices.source,
    )


def alerting_rules(config: Config, today: date) -> str:
    """Alerting rules (YAML) with the thresholds of [alerts], else of [idle] and [targets], and the amounts of [[budgets]].

    They read what the recording rules record. Amounts in other currencies are converted at the rate of the first day of
    the month that holds `today`; PriceError where there is none.
    """
    alerts, idle_ratio = config.alerts, config.alerts.idle_ratio
    amounts = [(budget, budget_amount(config, budget, today.replace(day=1))) for budget in config.budgets]
    return fill(
        "alerts.yml.j2",
        cluster_label=cluster_label(config),
        gpu_resource=GPU_RESOURCE,
        alerts=alerts,
        idle_threshold=number(config.idle.threshold_percent if alerts.idle_percent is None else alerts.idle_percent),
        idle_ratio=None if idle_ratio is None else number(idle_ratio),
        spot_ratio=number(config.targets.spot_ratio if alerts.spot_ratio is None else alerts.spot_ratio),
        currency=config.currency,
        budgets=[(budget.name, budget.team, number(round(amount, 2))) for budget, amount in amounts if amount is not None],
    )


def cluster_label(config: Config) -> str:
    """The label that tells clusters apart, of the first server. Raises UsageError for what is no label's name."""
    name = config.prometheus[0].cluster_label if config.prometheus else "cluster"
    if not _LABEL.fullmatch(name):
        raise UsageError(f"{name!r} is no label name", "[prometheus] cluster_label takes letters, digits and underscores")
    return name


def _metric(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no metric name", "[activity] names metrics by letters, digits and underscores")
    return name


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
