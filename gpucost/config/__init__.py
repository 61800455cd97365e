"""The configuration, one module per topic; what the rest of the program needs of it."""

from gpucost.config.load import load_config, resolved
from gpucost.config.model import (
    Activity,
    Alerts,
    Aws,
    Azure,
    BasicAuth,
    Budget,
    Config,
    Discount,
    Email,
    Focus,
    Gcp,
    Idle,
    Mig,
    Mlflow,
    Notify,
    PriceLists,
    Prices,
    PrometheusSource,
    SharedCost,
    Slack,
    Targets,
    Team,
    TeamLabels,
    Tls,
    Unit,
    Waste,
    Webhook,
    WorkloadTypeRule,
    shown_url,
)

__all__ = [
    "Activity", "Alerts", "Aws", "Azure", "BasicAuth", "Budget", "Config", "Discount", "Email", "Focus", "Gcp", "Idle",
    "Mig", "Mlflow", "Notify", "PriceLists", "Prices", "PrometheusSource", "SharedCost", "Slack", "Targets", "Team", "TeamLabels",
    "Tls", "Unit", "Waste", "Webhook", "WorkloadTypeRule", "load_config", "resolved", "shown_url",
]  # fmt: skip
