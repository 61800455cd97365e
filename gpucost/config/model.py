"""The whole configuration: every table, and what must hold between them."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from gpucost.config.alerts import Alerts, Notify
from gpucost.config.budgets import Budget
from gpucost.config.clouds import Aws, Azure, Bills, Focus, Gcp
from gpucost.config.coverage import ClusterHours, CoverageSettings
from gpucost.config.prices import Prices
from gpucost.config.section import Section
from gpucost.config.servers import PrometheusSource
from gpucost.config.teams import SharedCost, Team, TeamLabels, WorkloadTypeRule
from gpucost.config.usage import Activity, FindingsSettings, Hami, Idle, Mig, Targets, Waste
from gpucost.config.work import Mlflow, Unit

_Named = PrometheusSource | SharedCost | Budget | Unit | ClusterHours


class Config(Section):
    """Everything a run depends on besides the store."""

    store: Path = Field(default=Path("gpucost.duckdb"), description="The store, a DuckDB file.")
    timezone: str = Field(default="UTC", description="Where days and months begin: an IANA name such as `Europe/Berlin`.")
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="Currency of prices and reports, ISO 4217.")
    prometheus: list[PrometheusSource] = Field(
        default_factory=lambda: [PrometheusSource()], description="Servers to collect from."
    )
    coverage: CoverageSettings = Field(default=CoverageSettings(), description="Time that was not seen.")
    clusters: list[ClusterHours] = Field(default_factory=list, description="Clusters that are not always on.")
    prices: Prices = Field(default=Prices(), description="Prices.")
    bills: Bills = Field(default=Bills(), description="Billing exports.")
    aws: Aws = Field(default=Aws(), description="AWS.")
    gcp: Gcp = Field(default=Gcp(), description="Google Cloud.")
    azure: Azure = Field(default=Azure(), description="Azure.")
    focus: Focus = Field(default=Focus(), description="FOCUS files.")
    idle: Idle = Field(default=Idle(), description="Idleness.")
    activity: Activity = Field(default=Activity(), description="Metrics of activity.")
    mig: Mig = Field(default=Mig(), description="MIG slices.")
    hami: Hami = Field(default=Hami(), description="GPUs shared by HAMi.")
    targets: Targets = Field(default=Targets(), description="Targets.")
    team_labels: TeamLabels = Field(default=TeamLabels(), description="Labels that name the team.")
    teams: list[Team] = Field(default_factory=list, description="Teams by pattern.")
    workload_types: list[WorkloadTypeRule] = Field(default_factory=list, description="What workloads are for, by pattern.")
    waste: Waste = Field(default=Waste(), description="Waste.")
    findings: FindingsSettings = Field(default=FindingsSettings(), description="Findings.")
    shared_costs: list[SharedCost] = Field(default_factory=list, description="What is not GPUs, charged to teams.")
    budgets: list[Budget] = Field(default_factory=list, description="Budgets and targets.")
    alerts: Alerts = Field(default=Alerts(), description="Alerting rules.")
    notify: Notify = Field(default=Notify(), description="Notifications.")
    units: list[Unit] = Field(default_factory=list, description="Metrics of work, beside the ready-made ones.")
    mlflow: Mlflow = Field(default=Mlflow(), description="MLflow.")

    _path: Path | None = PrivateAttr(default=None)
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        try:
            return ZoneInfo(value).key
        except (KeyError, ValueError, OSError):
            raise ValueError("should be an IANA time zone name such as Europe/Berlin") from None

    @field_validator("prometheus", "clusters", "shared_costs", "budgets", "units")
    @classmethod
    def _told_apart(cls, value: list[_Named], info: ValidationInfo) -> list[_Named]:
        names = [item.source if isinstance(item, PrometheusSource) else item.name for item in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            what = "two servers" if info.field_name == "prometheus" else "two"
            raise ValueError(f"{what} are called {twice[0]}; give each its own name")
        return value

    @property
    def path(self) -> Path | None:
        """The file this was read from; None where there was none."""
        return self._path

    @property
    def tz(self) -> ZoneInfo:
        """The time zone of days and months."""
        return ZoneInfo(self.timezone)
