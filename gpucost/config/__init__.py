"""The configuration, one module per topic; what the rest of the program needs of it."""

from gpucost.config.alerts import Alerts, Email, Notify, Slack, Webhook
from gpucost.config.budgets import Budget
from gpucost.config.clouds import Aws, Azure, Focus, Gcp, PriceLists
from gpucost.config.load import load_config, resolved
from gpucost.config.model import Config
from gpucost.config.prices import Discount, Prices
from gpucost.config.servers import BasicAuth, PrometheusSource, Tls, shown_url
from gpucost.config.teams import SharedCost, Team, TeamLabels, WorkloadTypeRule
from gpucost.config.usage import Activity, Idle, Mig, Targets, Waste
from gpucost.config.work import Mlflow, Unit

__all__ = [
    "Activity", "Alerts", "Aws", "Azure", "BasicAuth", "Budget", "Config", "Discount", "Email", "Focus", "Gcp", "Idle",
    "Mig", "Mlflow", "Notify", "PriceLists", "Prices", "PrometheusSource", "SharedCost", "Slack", "Targets", "Team", "TeamLabels",
    "Tls", "Unit", "Waste", "Webhook", "WorkloadTypeRule", "load_config", "resolved", "shown_url",
]  # fmt: skip
